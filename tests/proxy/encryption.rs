//! Tests encrypted requests to a Lumo upstream, which decrypts them and encrypts its responses.

use std::sync::{Arc, Mutex};

use aes::{
    Aes128, Aes256,
    cipher::{KeyInit, KeyIvInit},
};
use aes_kw::AesKw;
use base64::{Engine, engine::general_purpose::STANDARD};
use ring::{
    aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey},
    digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest},
};
use serde_json::{Value, json};
use toolwire::{
    dialect::{
        UpstreamDialect,
        lumo::{Encryption, Options, Version, u2l::Recipient},
    },
    rules::Misroute,
};
use x25519_dalek::{PublicKey, StaticSecret};

use crate::support::{
    client::{Client, weather},
    proxy::Setup,
    upstream::{Exchange, Upstream},
};

/// A key like Lumo's, made by GnuPG, and the secret of its subkey, which protects no real data.
const CERTIFICATE: &str = include_str!("../../crates/dialects/src/lumo/u2l/tests/test.asc");
const SECRET: &str = "30cba0bc8b8c625be43946b884290c139175f99d471aa66e766065422869e347";
const SUBKEY: &str = "eb0a72433aaf728527fe269ed808a75c2227d7fb";

/// Decrypts a message with one packet for this key and one with the data, both shorter than 192 bytes, as RFC 9580, sections 5.1, 5.13.1
/// and 11.5 describe them. Panics if it is anything else.
fn decrypted(message: &[u8]) -> Vec<u8> {
    let packet = |tag: u8, bytes: &[u8]| {
        assert_eq!(bytes[0], 0xc0 | tag);
        let (body, rest) = bytes[2..].split_at(usize::from(bytes[1]));
        (body.to_vec(), rest.to_vec())
    };
    let (session, rest) = packet(1, message);
    let (data, rest) = packet(18, &rest);
    assert!(rest.is_empty());

    let subkey = unhex(SUBKEY);
    assert_eq!(session[..13], [&[3], &subkey[12..], &[18, 1, 7, 0x40]].concat());
    let ephemeral: [u8; 32] = session[13..45].try_into().unwrap();
    let secret: [u8; 32] = unhex(SECRET).try_into().unwrap();
    let shared = StaticSecret::from(secret).diffie_hellman(&PublicKey::from(ephemeral));
    let curve = [10, 0x2b, 6, 1, 4, 1, 0x97, 0x55, 1, 5, 1];
    let derived =
        [&[0, 0, 0, 1], &shared.as_bytes()[..], &curve, &[18, 3, 1, 8, 7], b"Anonymous Sender    ", &subkey];
    let derived = digest(&SHA256, &derived.concat());
    let mut padded = [0; 40];
    assert_eq!(usize::from(session[45]), session.len() - 46);
    AesKw::<Aes128>::new_from_slice(&derived.as_ref()[..16])
        .unwrap()
        .unwrap_key(&session[46..], &mut padded)
        .unwrap();
    let (key, sum) = (&padded[1..33], u16::from_be_bytes([padded[33], padded[34]]));
    assert_eq!((padded[0], &padded[35..]), (9, &[5; 5][..]));
    assert_eq!(sum, key.iter().map(|byte| u16::from(*byte)).sum::<u16>());

    assert_eq!(data[0], 1);
    let mut data = data[1..].to_vec();
    cfb_mode::Decryptor::<Aes256>::new_from_slices(key, &[0; 16]).unwrap().decrypt(&mut data);
    let (content, sum) = data.split_at(data.len() - 20);
    assert_eq!(sum, digest(&SHA1_FOR_LEGACY_USE_ONLY, content).as_ref());
    assert_eq!(content[14..16], content[16..18]);
    let content = content[18..].strip_suffix(&[0xd3, 20]).unwrap();
    let (literal, rest) = packet(11, content);
    assert!(rest.is_empty());
    literal.strip_prefix(b"b\0\0\0\0\0").unwrap().to_vec()
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |digit: &u8| char::from(*digit).to_digit(16).unwrap() as u8;
    text.as_bytes().chunks(2).map(|pair| digit(&pair[0]) << 4 | digit(&pair[1])).collect()
}

#[derive(Debug, Clone)]
struct Opened {
    turns: Vec<String>,
    key: Vec<u8>,
    id: String,
}

impl Opened {
    /// Decrypts a request. Panics if any part of it is not encrypted.
    fn read(body: &[u8]) -> Self {
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
        let mut opened = Self { turns: Vec::new(), key: decrypted(&wrapped), id };
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
    let recipient = Recipient::read(CERTIFICATE).unwrap();
    let seen: Arc<Mutex<Vec<Opened>>> = Arc::default();
    let upstream =
        Upstream::start_sharing(Arc::clone(&seen), move |mut exchange: Exchange, seen| async move {
            let opened = Opened::read(&exchange.body);
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
