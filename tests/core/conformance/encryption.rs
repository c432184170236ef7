//! Runs the conformance cases with encrypted responses. An event marked with a star is encrypted here, by code that
//! shares nothing with the reader.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use serde_json::{Value, json};
use toolwire::{dialect::lumo::RequestKey, rules::ArgumentDelivery};

use super::{
    Kind, id,
    lumo::{check, exchange},
    published,
};
use crate::support::upstream::Speech;

const KEY: [u8; 32] = [7; 32];
const ID: &str = "00000000-0000-4000-8000-000000000001";

/// Encrypts pieces like a server would, each with its own nonce.
struct Server {
    pieces: u32,
}

impl Server {
    fn seal(&mut self, plain: &[u8], what: &str) -> String {
        self.pieces += 1;
        let mut nonce = [0; 12];
        nonce[8..].copy_from_slice(&self.pieces.to_be_bytes());
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &KEY).unwrap());
        let mut content = plain.to_vec();
        let aad = Aad::from(format!("lumo.{what}"));
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut content).unwrap();
        STANDARD.encode([nonce.to_vec(), content].concat())
    }

    fn chunk(&mut self, plain: &[u8]) -> String {
        self.seal(plain, &format!("response.{ID}.chunk"))
    }

    /// Encrypts what the event's marker asks for, and returns the event as it is sent.
    fn event(&mut self, event: &Value, arguments: &mut BTreeMap<u64, String>) -> Value {
        let text = event[1].as_str().unwrap_or_default();
        let content = |sealed: String| json!(["d", {"content": sealed, "encrypted": true}]);
        match event[0].as_str().unwrap() {
            "m*" => content(self.chunk(text.as_bytes())),
            "m*b" => content(self.chunk(&bytes(text))),
            "m!aad" => content(self.seal(text.as_bytes(), &format!("request.{ID}.turn"))),
            "m!id" => content(self.seal(text.as_bytes(), "response.another.chunk")),
            "m!base64" => content(self.chunk(text.as_bytes())[1..].to_owned()),
            "m!tag" => {
                let mut sealed = STANDARD.decode(self.chunk(text.as_bytes())).unwrap();
                *sealed.last_mut().unwrap() ^= 1;
                content(STANDARD.encode(sealed))
            }
            "m!short" => content(STANDARD.encode([0; 27])),
            "d" if event[1]["tool_calls"].is_array() => {
                let mut delta = event[1].clone();
                for call in delta["tool_calls"].as_array_mut().unwrap() {
                    let index = call["index"].as_u64().unwrap();
                    let piece = call["function"]["arguments"].as_str().unwrap();
                    let plain =
                        piece.strip_prefix("ENC[").and_then(|piece| piece.strip_suffix("] first half"));
                    let piece = match plain {
                        Some(plain) => {
                            let sealed = self.chunk(plain.as_bytes());
                            let (first, second) = sealed.split_at(sealed.len() / 2);
                            arguments.insert(index, second.to_owned());
                            first.to_owned()
                        }
                        None => arguments.remove(&index).filter(|_| piece == "second half").unwrap(),
                    };
                    call["function"]["arguments"] = json!(piece);
                }
                json!(["d", delta])
            }
            _ => event.clone(),
        }
    }

    fn events(&mut self, events: &Value) -> Vec<Value> {
        let mut arguments = BTreeMap::new();
        events.as_array().unwrap().iter().map(|event| self.event(event, &mut arguments)).collect()
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn run(case: &Value, speech: Speech, events: &[Value]) {
    for arguments in [ArgumentDelivery::Stream, ArgumentDelivery::Whole] {
        let mut exchange = exchange(case, arguments, speech);
        exchange.key = Some(RequestKey::new(KEY, ID));
        let what = format!("{} {arguments:?}", id(case));
        let answer = exchange.at_every_cut(&what, &speech.stream(events));
        check(&what, case, &answer);
    }
}

#[test]
fn published_cases_of_encryption() {
    let cases = published().into_iter().filter(|case| case["u2l"] == true && case["ev"].is_array());
    let cases: Vec<_> = cases.collect();
    assert!(cases.iter().all(|case| Kind::of(case) == Kind::Elsewhere) && cases.len() == 5);
    for case in cases {
        let events = Server { pieces: 0 }.events(&case["ev"]);
        run(&case, Speech::LumoV2, &events);
    }
}

/// A response with a damaged piece fails: with an error response if nothing has been sent yet, otherwise within the
/// stream.
#[test]
fn damaged_pieces_fail_the_response() {
    for word in ["m!aad", "m!id", "m!base64", "m!tag", "m!short"] {
        for before in [json!([]), json!([["m*", "before "]])] {
            let mut events = before.as_array().unwrap().clone();
            let http = if events.is_empty() { 502 } else { 200 };
            events.extend([json!([word, "lost"]), json!(["m*", " behind"]), json!(["done"])]);
            let case = json!({"id": word, "http": http, "err": {"code": "upstream_decrypt_failed"}});
            let events = Server { pieces: 0 }.events(&json!(events));
            run(&case, Speech::LumoV2, &events);
        }
    }
    let cut = json!({"id": "half a character", "err": {"code": "upstream_decrypt_failed"}, "http": 502});
    for end in [json!([["done"]]), json!([["fin", "stop"], ["done"]])] {
        let events = [vec![json!(["m*b", "c3"])], end.as_array().unwrap().clone()].concat();
        run(&cut, Speech::LumoV2, &Server { pieces: 0 }.events(&json!(events)));
    }
    let wrong = json!([["d", {"tool_calls": [{"index": 0, "id": "p", "function": {"name": "a", "arguments": "ENC[{}] first half"}}]}],
                       ["fin", "tool_calls"], ["done"]]);
    let case = json!({"id": "half of the arguments", "err": {"code": "upstream_decrypt_failed"}});
    run(&case, Speech::LumoV2, &Server { pieces: 0 }.events(&wrong));
}

/// Encrypts reasoning, results, images, and Lumo's own calls with their announcements.
#[test]
fn all_other_payloads_are_decrypted() {
    let mut server = Server { pieces: 0 };
    let events = [
        json!(["d", {"reasoning_content": server.chunk(b"think"), "encrypted": true}]),
        json!(["stc", {"id": "n1", "name": "web_search"}]),
        json!(["stc", {"id": "n1", "name": "web_search", "arguments": server.chunk(br#"{"query":"q"}"#), "encrypted": true}]),
        json!(["str", {"call_id": "n1", "content": server.chunk(br#"{"results":[]}"#), "encrypted": true}]),
        json!(["img", {"id": "i", "data": server.chunk(b"picture"), "encrypted": true}]),
        json!(["d", {"content": server.chunk("Grüße".as_bytes()), "encrypted": true}]),
        json!(["fin", "stop"]),
        json!(["done"]),
    ];
    let case = json!({"id": "payloads", "req": {"tools": []}, "native": "forward", "text": "Grüße", "reasoning": "think",
        "calls": [["web_search", "{\"query\":\"q\"}"]], "fin": "stop"});
    run(&case, Speech::LumoV2, &events);
}

#[test]
fn arguments_that_are_json_were_not_encrypted() {
    let call = |index: u64, arguments: &str| json!({"index": index, "id": format!("p{index}"), "function": {"name": "a", "arguments": arguments}});
    let mut server = Server { pieces: 0 };
    let events = [
        json!(["d", {"tool_calls": [call(0, "{\"x\":"), call(1, &server.chunk(b"{\"x\":2}"))]}]),
        json!(["d", {"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]}]),
        json!(["fin", "tool_calls"]),
        json!(["done"]),
    ];
    let case = json!({"id": "plain", "calls": [["a", "{\"x\":1}"], ["a", "{\"x\":2}"]], "fin": "tool_calls"});
    run(&case, Speech::LumoV2, &events);
}

#[test]
fn first_versions_pieces_are_decrypted() {
    let mut server = Server { pieces: 0 };
    let piece = |target: &str, content: String| json!({"type": "token_data", "target": target, "content": content, "encrypted": true});
    let frames = [
        json!({"type": "ingesting", "target": "message"}),
        piece("reasoning", server.chunk(b"think")),
        piece("message", server.chunk(&bytes("61c3"))),
        piece("message", server.chunk(&bytes("a9"))),
        json!({"type": "done"}),
    ];
    let stream: String = frames.iter().map(|frame| format!("data: {frame}\n\n")).collect();
    let case = json!({"id": "v1", "text": "aé", "reasoning": "think", "fin": "stop"});
    let mut exchange = exchange(&case, ArgumentDelivery::Stream, Speech::LumoV1);
    exchange.key = Some(RequestKey::new(KEY, ID));
    let answer = exchange.at_every_cut("v1", stream.as_bytes());
    check("v1", &case, &answer);
}
