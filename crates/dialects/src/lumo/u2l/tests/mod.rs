use std::io;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{
    super::encryption::{Encryption, WARNED_BEFORE},
    *,
};

const ID: &str = "00000000-0000-4000-8000-000000000001";

fn key() -> RequestKey {
    RequestKey::new([7; 32], ID)
}

fn counter() -> impl FnMut(&mut [u8]) {
    let mut next = 0u8;
    move |bytes| {
        bytes.iter_mut().for_each(|byte| {
            *byte = next;
            next = next.wrapping_add(1);
        });
    }
}

/// Fixed vectors, which WebCrypto also produces.
const REQUESTS: [(&str, &str); 3] = [
    ("Hello", "CQkJCQkJCQkJCQkJb+Do+NHmzjvPbPiWZ/z58OCaF3zd"),
    ("", "CQkJCQkJCQkJCQkJ90zONYM2o4wYxHtdRwib6g=="),
    ("é😀", "CQkJCQkJCQkJCQkJ5Cx0CyZw8eB8F+xGhKZqfYTH4MTZSw=="),
];
const RESPONSES: [(&str, &str); 3] = [
    ("Hello", "CQkJCQkJCQkJCQkJb+Do+NGPg4hmska1K3WViIcx0Dqr"),
    ("", "CQkJCQkJCQkJCQkJg0kWtWCa/ph0Dy4OqzQFxg=="),
    ("é😀", "CQkJCQkJCQkJCQkJ5Cx0CyZwmK3PvjL4p+rjEfygSwOfPQ=="),
];

#[test]
fn turns_and_pieces_are_those_of_the_vectors() {
    for (plain, sealed) in REQUESTS {
        assert_eq!(key().seal(plain.as_bytes(), [9; 12]).unwrap(), sealed);
    }
    for (plain, sealed) in RESPONSES {
        assert_eq!(key().open(sealed).unwrap(), plain.as_bytes());
    }
}

#[test]
fn damaged_and_foreign_pieces_are_refused() {
    let [(_, piece), ..] = RESPONSES;
    let [(_, turn), ..] = REQUESTS;
    let flipped = piece.replace("0Dqr", "0Dqs");
    for (sealed, expected) in [
        (turn, "not encrypted for this request"),
        (flipped.as_str(), "not encrypted for this request"),
        (piece.trim_end_matches('r'), "not base64"),
        ("plain text", "not base64"),
        ("CQkJ", "too short"),
        ("CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJ", "too short"),
        ("", "too short"),
    ] {
        let failure = key().open(sealed).unwrap_err();
        assert_eq!(failure.code(), Some("upstream_decrypt_failed"), "{sealed}");
        assert!(failure.message().contains(expected), "{sealed}: {failure}");
    }
    let other = RequestKey::new([7; 32], "00000000-0000-4000-8000-000000000002");
    assert!(other.open(piece).is_err() && RequestKey::new([8; 32], ID).open(piece).is_err());
}

#[test]
fn lumos_key_is_the_known_one() {
    let lumo = Recipient::lumo().unwrap();
    assert_eq!(lumo.fingerprint(), "f032a1169ddff8eda728e59a9a74c3ef61514a2a");
    // 2029-04-27 11:22:21 UTC.
    assert_eq!(lumo.expires_at(), Some(1_871_983_341));
}

const TEST: &str = include_str!("test.asc");

fn problem(certificate: &str) -> String {
    Recipient::read(certificate).unwrap_err().to_string()
}

#[test]
fn certificates_of_other_programs_are_read() {
    let test = Recipient::read(TEST).unwrap();
    assert_eq!(test.fingerprint(), "3fc9e331f7ef0f8c8f1e1b0f3d27f9889c425c90");
    assert_eq!(test.expires_at(), Some(4_070_952_000));
    // The second subkey signs. Only the third encrypts and is not revoked.
    assert_eq!(Recipient::read(include_str!("renewed.asc")).unwrap().expires_at(), None);
    assert!(problem(include_str!("revoked.asc")).contains("its subkey is revoked"));
    for armored in [TEST.replace('\n', "\r\n"), TEST.replacen("\n\n", "\nComment: none\n\n", 1)] {
        assert!(Recipient::read(&armored).is_ok(), "{armored}");
    }
}

/// Cuts a certificate short everywhere, and changes each of its bytes. Only bytes of its user id and of what is not signed may differ.
#[test]
fn damaged_certificates_are_refused() {
    for text in ["", "-----BEGIN PGP PUBLIC KEY BLOCK-----", TEST.trim_end_matches(['-', '\n'])] {
        assert!(problem(text).contains("not an armored OpenPGP certificate"), "{text}");
    }
    let lines: String = TEST.lines().skip(2).take_while(|line| !line.starts_with('=')).collect();
    let bytes = STANDARD.decode(lines).unwrap();
    let read = |bytes: &[u8]| {
        let armored = format!(
            "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n{}\n-----END PGP PUBLIC KEY BLOCK-----",
            STANDARD.encode(bytes)
        );
        Recipient::read(&armored)
    };
    assert!(read(&bytes).is_ok());
    for end in 0..bytes.len() {
        assert!(read(&bytes[..end]).is_err(), "{end}");
    }
    let accepted = (0..bytes.len()).filter(|place| {
        let mut damaged = bytes.clone();
        damaged[*place] ^= 1;
        read(&damaged).is_ok()
    });
    let accepted: Vec<usize> = accepted.collect();
    // The primary key ends at byte 53, the user id's packets end at 211. In the subkey's signature, the signer's key id, the begin of
    // the hash and the exact number of bits are not signed.
    let unsigned = |place: &usize| (53..211).contains(place) || (317..331).contains(place);
    assert!(accepted.iter().all(unsigned), "{accepted:?}");
}

#[test]
fn request_key_is_wrapped_as_openpgp_js_does_it() {
    let wrapped = Recipient::lumo().unwrap().wrap(&key(), &mut counter()).unwrap();
    assert_eq!(wrapped.len(), 240);
    let bytes = STANDARD.decode(&wrapped).unwrap();
    // RFC 9580, sections 5.1 and 5.13: version 3, for Lumo's encryption subkey, with ECDH.
    let (packet, rest) = bytes.split_at(2 + usize::from(bytes[1]));
    assert_eq!((packet[0], packet[2], packet[11]), (0xc1, 3, 18));
    assert_eq!(packet[3..11], 0xe7df_128a_8fc5_de04_u64.to_be_bytes());
    assert_eq!((rest[0], usize::from(rest[1]), rest[2]), (0xd2, rest.len() - 2, 1));
}

#[test]
fn every_turn_of_a_request_is_encrypted() {
    let lumo = Recipient::lumo().unwrap();
    let body = json!({"model": "lumo", "messages": [
        {"role": "system", "content": "secret"},
        {"role": "assistant"},
        {"role": "user", "content": [
            {"type": "text", "text": "secret"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,c2VjcmV0"}},
        ]},
    ], "lumo": {"target": "message"}});
    let (sealed, key) = lumo.seal(body.to_string().as_bytes(), &mut counter()).unwrap();
    let sealed: Value = serde_json::from_slice(&sealed).unwrap();
    assert_eq!(sealed["lumo"]["request_id"], key.id());
    assert_eq!(sealed["lumo"]["request_key"].as_str().unwrap().len(), 240);
    assert_eq!((&sealed["model"], &sealed["lumo"]["target"]), (&json!("lumo"), &json!("message")));
    let messages = sealed["messages"].as_array().unwrap();
    assert!(messages.iter().all(|turn| turn["encrypted"] == true));
    assert_eq!(
        (&messages[0]["role"], messages[1]["content"].as_str().unwrap().len()),
        (&json!("system"), 40)
    );
    assert_eq!(messages[2]["content"][0]["type"], "text");
    let url = messages[2]["content"][1]["image_url"]["url"].as_str().unwrap();
    assert_eq!(url.strip_prefix("data:application/octet-stream;base64,").unwrap().len(), 48);
    // Flags in addition to the turn's own, as set by Proton's client.
    let marks = [&messages[2]["content"][0], &messages[2]["content"][1]["image_url"]];
    assert!(marks.iter().all(|holder| holder["encrypted"] == true), "{sealed}");
    let text = sealed.to_string();
    assert!(!text.contains("secret") && !text.contains("c2VjcmV0"), "{text}");
    let id: Vec<_> = key.id().split('-').map(str::len).collect();
    assert_eq!((id, key.id().get(14..15)), (vec![8, 4, 4, 4, 12], Some("4")));
    assert_ne!(messages[0]["content"], messages[2]["content"][0]["text"]);
}

#[test]
fn first_versions_requests_are_encrypted_in_their_prompt() {
    let lumo = Recipient::lumo().unwrap();
    let images = json!([{"encrypted": false, "image_id": "image-0", "data": "c2VjcmV0"}]);
    let body = json!({"Prompt": {"turns": [{"role": "user", "content": "secret", "images": images}]}});
    let (sealed, key) = lumo.seal(body.to_string().as_bytes(), &mut counter()).unwrap();
    let sealed: Value = serde_json::from_slice(&sealed).unwrap();
    let prompt = &sealed["Prompt"];
    assert_eq!(prompt["request_id"], key.id());
    assert_eq!(
        (&prompt["turns"][0]["encrypted"], &prompt["turns"][0]["images"][0]["encrypted"]),
        (&json!(true), &json!(true))
    );
    assert!(!sealed.to_string().contains("c2VjcmV0"));
}

#[test]
fn requests_that_cannot_be_encrypted_are_refused() {
    let lumo = Recipient::lumo().unwrap();
    let link = json!({"type": "image_url", "image_url": {"url": "https://a.example/secret.png"}});
    for body in ["", "[]", "{}", r#"{"messages":[]}"#, r#"{"lumo":{}}"#, r#"{"Prompt":{}}"#] {
        assert!(lumo.seal(body.as_bytes(), &mut counter()).is_err(), "{body}");
    }
    let body = json!({"messages": [{"role": "user", "content": [link]}], "lumo": {}});
    let failure = lumo.seal(body.to_string().as_bytes(), &mut counter()).unwrap_err();
    assert_eq!(failure.kind(), Kind::Request, "{failure}");
}

#[test]
fn arguments_are_limited() {
    let delta = |piece: &str| {
        json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}}]})
            .to_string()
    };
    let mut unsealer = Unsealer::new(key(), 8);
    assert!(unsealer.open(&delta("12345678")).is_ok());
    assert_eq!(unsealer.open(&delta("9")).unwrap_err().kind(), Kind::Limit);
    assert_eq!(Unsealer::new(key(), 9).open(&delta("0123456789")).unwrap_err().kind(), Kind::Limit);
}

#[test]
fn expiry_of_the_u2l_key_is_a_warning() {
    let end = Recipient::lumo().unwrap().expires_at().unwrap();
    let warning = |now: u64| {
        let mut encryption = Encryption { is_on: true, ..Encryption::default() };
        encryption.prepare(&|_| Err(io::ErrorKind::NotFound.into()), now).unwrap()
    };
    assert_eq!(warning(end - WARNED_BEFORE), None);
    for (now, expected) in
        [(end - 86_400, "expires in 1 days"), (end, "has expired"), (u64::MAX, "has expired")]
    {
        let said = warning(now).unwrap();
        assert!(said.contains(expected) && said.contains("f032a116"), "{said}");
    }
}
