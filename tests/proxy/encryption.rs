//! Tests encrypted requests to a Lumo upstream, which decrypts them and encrypts its responses.

use std::sync::{Arc, Mutex};

use base64::{Engine, engine::general_purpose::STANDARD};
use pgp::{
    composed::{
        ArmorOptions, EncryptionCaps, KeyType, Message, SecretKeyParamsBuilder, SignedPublicKey,
        SignedSecretKey, SubkeyParamsBuilder,
    },
    crypto::ecc_curve::ECCCurve,
};
use rand_core::{CryptoRng, RngCore};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use serde_json::{Value, json};
use toolwire::{
    dialect::{
        UpstreamDialect,
        lumo::{Encryption, Options, Version, u2l::Recipient},
    },
    rules::Misroute,
};

use crate::support::{
    client::{Client, weather},
    proxy::Setup,
    upstream::{Exchange, Upstream},
};

/// Pseudorandom numbers, which are good enough because the key protects no real data.
struct Numbers(u64);

impl RngCore for Numbers {
    fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }

    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 ^ (self.0 >> 29)
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        bytes.iter_mut().for_each(|byte| *byte = (self.next_u64() >> 24) as u8);
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), rand_core::Error> {
        self.fill_bytes(bytes);
        Ok(())
    }
}

impl CryptoRng for Numbers {}

/// A key like Lumo's: Ed25519 with a Curve25519 subkey.
fn secret_key() -> SignedSecretKey {
    let mut subkey = SubkeyParamsBuilder::default();
    subkey.key_type(KeyType::ECDH(ECCCurve::Curve25519Legacy)).can_encrypt(EncryptionCaps::All);
    let mut key = SecretKeyParamsBuilder::default();
    key.key_type(KeyType::Ed25519Legacy)
        .can_certify(true)
        .can_sign(true)
        .primary_user_id("test".into())
        .subkey(subkey.build().unwrap());
    key.build().unwrap().generate(Numbers(7)).unwrap()
}

fn certificate(key: &SignedSecretKey) -> String {
    SignedPublicKey::from(key.clone()).to_armored_string(ArmorOptions::default()).unwrap()
}

#[derive(Debug, Clone)]
struct Opened {
    turns: Vec<String>,
    key: Vec<u8>,
    id: String,
}

impl Opened {
    /// Decrypts a request. Panics if any part of it is not encrypted.
    fn read(body: &[u8], secret: &SignedSecretKey) -> Self {
        let body: Value = serde_json::from_slice(body).unwrap();
        let (holder, turns) = if body["Prompt"].is_object() {
            (&body["Prompt"], &body["Prompt"]["turns"])
        } else {
            (&body["lumo"], &body["messages"])
        };
        let id = holder["request_id"].as_str().unwrap().to_owned();
        let lengths: Vec<_> = id.split('-').map(str::len).collect();
        assert_eq!((lengths, &id[14..15]), (vec![8, 4, 4, 4, 12], "4"), "{id}");
        let wrapped = STANDARD.decode(holder["request_key"].as_str().unwrap()).unwrap();
        let mut message = Message::from_bytes(&wrapped[..]).unwrap().decrypt(&"".into(), secret).unwrap();
        let mut opened = Self { turns: Vec::new(), key: message.as_data_vec().unwrap(), id };
        for turn in turns.as_array().unwrap() {
            assert_eq!(turn["encrypted"], true, "{turn}");
            opened.turns.push(opened.open(turn["content"].as_str().unwrap()));
        }
        opened
    }

    fn cipher(&self) -> LessSafeKey {
        LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &self.key).unwrap())
    }

    fn open(&self, sealed: &str) -> String {
        let mut bytes = STANDARD.decode(sealed).unwrap();
        let mut content = bytes.split_off(12);
        let nonce = Nonce::try_assume_unique_for_key(&bytes).unwrap();
        let aad = Aad::from(format!("lumo.request.{}.turn", self.id));
        let plain = self.cipher().open_in_place(nonce, aad, &mut content).unwrap();
        str::from_utf8(plain).unwrap().to_owned()
    }

    fn seal(&self, number: u8, plain: &str) -> String {
        self.seal_as(number, plain, &format!("response.{}.chunk", self.id))
    }

    /// Encrypts `plain` with the associated data `lumo.` followed by `what`.
    fn seal_as(&self, number: u8, plain: &str, what: &str) -> String {
        let mut content = plain.as_bytes().to_vec();
        let aad = Aad::from(format!("lumo.{what}"));
        let nonce = [number; 12];
        self.cipher()
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut content)
            .unwrap();
        STANDARD.encode([nonce.to_vec(), content].concat())
    }

    /// Returns an encrypted piece with the kind of damage called `how`.
    fn damaged(&self, how: &str) -> String {
        let good = self.seal(9, "lost");
        match how {
            "aad" => self.seal_as(9, "lost", &format!("request.{}.turn", self.id)),
            "id" => self.seal_as(9, "lost", "response.00000000-0000-4000-8000-000000000000.chunk"),
            "base64" => good[..good.len() - 1].to_owned(),
            "tag" => {
                let mut bytes = STANDARD.decode(good).unwrap();
                *bytes.last_mut().unwrap() ^= 1;
                STANDARD.encode(bytes)
            }
            "short" => STANDARD.encode([0; 27]),
            other => panic!("{other}"),
        }
    }
}

type Respond = fn(&Opened) -> String;

fn frame(frame: &Value) -> String {
    format!("data: {frame}\n\n")
}

fn delta(delta: &Value) -> String {
    frame(&json!({"choices": [{"index": 0, "delta": delta}]}))
}

const END: &str =
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// Starts a server with these responses. Also returns the setup of a proxy in front of it, and the requests that
/// the server decrypts.
async fn stand(respond: Respond) -> (Upstream, Setup, Arc<Mutex<Vec<Opened>>>) {
    let secret = Arc::new(secret_key());
    let recipient = Recipient::read(&certificate(&secret)).unwrap();
    let seen: Arc<Mutex<Vec<Opened>>> = Arc::default();
    let shared = (secret, Arc::clone(&seen));
    let upstream =
        Upstream::start_sharing(shared, move |mut exchange: Exchange, (secret, seen)| async move {
            let opened = Opened::read(&exchange.body, &secret);
            let stream = respond(&opened);
            seen.lock().unwrap().push(opened);
            exchange.whole("200 OK", "content-type: text/event-stream\r\n", &stream).await;
            exchange
        })
        .await;
    let mut setup = Setup::new(upstream.address);
    let encryption =
        Encryption { is_on: true, recipient: Some(Arc::new(recipient)), ..Encryption::default() };
    setup.upstream.options = UpstreamDialect::Lumo(Options { encryption, ..Options::default() });
    (upstream, setup, seen)
}

#[tokio::test]
async fn request_and_response_are_encrypted() {
    let (_upstream, setup, seen) = stand(|opened| {
        let piece = |number, plain| delta(&json!({"content": opened.seal(number, plain), "encrypted": true}));
        piece(1, "Grü") + &piece(2, "ße") + END
    })
    .await;
    let proxy = setup.start().await;
    for _ in 0..2 {
        let question = json!({"model": "m", "messages": [
            {"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"},
        ]});
        let reply = Client::new().chat(&proxy, question.to_string()).await.json().await;
        assert_eq!(reply["choices"][0]["message"]["content"], "Grüße", "{reply}");
    }
    let seen = seen.lock().unwrap();
    assert_eq!(seen[0].turns, ["be brief", "hello"]);
    assert_ne!((&seen[0].key, &seen[0].id), (&seen[1].key, &seen[1].id), "each request has its own key");
}

#[tokio::test]
async fn arguments_of_calls_are_decrypted() {
    let (_upstream, setup, seen) = stand(|opened| {
        let sealed = opened.seal(1, r#"{"city":"Paris"}"#);
        let (first, second) = sealed.split_at(20);
        let call = json!({"index": 0, "id": "c1", "function": {"name": "weather", "arguments": first}});
        delta(&json!({"tool_calls": [call]}))
            + &delta(&json!({"tool_calls": [{"index": 0, "function": {"arguments": second}}]}))
            + END
    })
    .await;
    let proxy = setup.start().await;
    let reply = Client::new().chat(&proxy, weather(json!({})).to_string()).await.json().await;
    let function = &reply["choices"][0]["message"]["tool_calls"][0]["function"];
    assert_eq!(function, &json!({"name": "weather", "arguments": "{\"city\":\"Paris\"}"}), "{reply}");
    assert_eq!(seen.lock().unwrap()[0].turns, ["weather?"]);
}

#[tokio::test]
async fn later_hops_are_encrypted() {
    let (_upstream, mut setup, seen) = stand(|opened| {
        let arguments = if opened.turns.iter().any(|turn| turn.contains("are missing")) {
            r#"{"city":"Paris"}"#
        } else {
            "{}"
        };
        let call =
            json!({"id": "n1", "name": "weather", "arguments": opened.seal(1, arguments), "encrypted": true});
        frame(&json!({"object": "chat.tool_call", "tool_call": call})) + "data: [DONE]\n\n"
    })
    .await;
    setup.settings.misroute = Misroute::Bounce;
    let proxy = setup.start().await;
    let reply = Client::new().chat(&proxy, weather(json!({})).to_string()).await.json().await;
    let function = &reply["choices"][0]["message"]["tool_calls"][0]["function"];
    assert_eq!(function["arguments"], "{\"city\":\"Paris\"}", "{reply}");
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 2);
    assert_ne!(seen[0].key, seen[1].key);
}

#[tokio::test]
async fn first_version_is_encrypted() {
    let (_upstream, mut setup, seen) = stand(|opened| {
        let piece = json!({"type": "token_data", "target": "message", "content": opened.seal(1, "hello"), "encrypted": true});
        frame(&piece) + &frame(&json!({"type": "done"}))
    })
    .await;
    if let UpstreamDialect::Lumo(options) = &mut setup.upstream.options {
        options.version = Version::V1;
    }
    let proxy = setup.start().await;
    let question = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
    let reply = Client::new().chat(&proxy, question.to_string()).await.json().await;
    assert_eq!(reply["choices"][0]["message"]["content"], "hello", "{reply}");
    assert_eq!(seen.lock().unwrap()[0].turns, ["hi"]);
}

/// Tries each kind of damage in the first piece and in a later one. What follows the damage is not forwarded.
#[tokio::test]
async fn piece_that_cannot_be_decrypted_fails_the_response() {
    let (_upstream, setup, _seen) = stand(|opened| {
        let piece = |sealed: String| delta(&json!({"content": sealed, "encrypted": true}));
        let (how, place) = opened.turns[0].split_once(' ').unwrap();
        let before = if place == "later" { piece(opened.seal(1, "before")) } else { String::new() };
        before + &piece(opened.damaged(how)) + &piece(opened.seal(2, "behind")) + END
    })
    .await;
    let proxy = setup.start().await;
    for how in ["aad", "id", "base64", "tag", "short"] {
        for (place, stream, status) in
            [("first", false, 502), ("first", true, 502), ("later", false, 502), ("later", true, 200)]
        {
            let messages = json!([{"role": "user", "content": format!("{how} {place}")}]);
            let question = json!({"model": "m", "messages": messages, "stream": stream});
            let reply = Client::new().chat(&proxy, question.to_string()).await;
            assert_eq!(reply.status(), status, "{question}");
            let body = reply.rest().await;
            assert!(
                body.contains("upstream_decrypt_failed") && !body.contains("behind"),
                "{question}: {body}"
            );
            assert_eq!(body.contains("before"), status == 200, "{question}: {body}");
        }
    }
}

/// Without a key, the request is not sent at all, rather than in plain text.
#[tokio::test]
async fn request_that_cannot_be_encrypted_is_not_sent() {
    let (upstream, mut setup, _seen) = stand(|_| END.to_owned()).await;
    setup.upstream.options = UpstreamDialect::Lumo(Options {
        encryption: Encryption { is_on: true, ..Encryption::default() },
        ..Options::default()
    });
    let proxy = setup.start().await;
    let question = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
    assert_eq!(Client::new().chat(&proxy, question.to_string()).await.status(), 500);
    assert_eq!(upstream.requests(), 0);
}
