//! Generates the committed corpus from the examples of formats, the conformance cases and recorded streams.

use std::{collections::HashMap, fs, path::Path};

use serde_json::Value;
use toolwire::{
    dialect::{ClientDialect, UpstreamDialect},
    format,
};

use super::{
    checks::{UPSTREAMS, code},
    fuzz,
};
use crate::support::{hostile, repository::root, upstream::Speech};

/// How many bytes of a recorded stream become a seed.
const STREAM: usize = 2500;

/// The folders of recorded streams, the choices that select their readers, and the maximum number of streams.
const RECORDED: &[(&str, u8, usize)] = &[
    ("chat", 0, 17),
    ("lumo", 1, 17),
    ("completions", 0b0010_0000, 3),
    ("gemini", 0b1100_0000, 3),
    ("messages", 0b1000_0000, 4),
    ("ollama", 0b0100_0000, 3),
    ("responses", 0b1001_0000, 4),
];

/// The events of a response from Bedrock: types and payloads, which the check puts into frames.
const BEDROCK: &str = r#"messageStart {"role":"assistant"}
contentBlockDelta {"contentBlockIndex":0,"delta":{"reasoningContent":{"text":"hm"}}}
contentBlockDelta {"contentBlockIndex":0,"delta":{"reasoningContent":{"signature":"s"}}}
contentBlockStop {"contentBlockIndex":0}
contentBlockDelta {"contentBlockIndex":1,"delta":{"text":"Hi \u00e9"}}
contentBlockStart {"contentBlockIndex":2,"start":{"toolUse":{"toolUseId":"p","name":"a"}}}
contentBlockDelta {"contentBlockIndex":2,"delta":{"toolUse":{"input":"{\"x\":1}"}}}
contentBlockStop {"contentBlockIndex":2}
messageStop {"stopReason":"tool_use"}
metadata {"usage":{"inputTokens":3,"outputTokens":2,"totalTokens":5},"metrics":{"latencyMs":1}}
throttlingException {"message":"slow"}"#;

/// Valid and invalid JSON arguments, as models write them.
const JSON: &[(&str, &str)] = &[
    ("plain", r#"{"city": "Paris", "days": 2.50, "list": [1, {"k": null}], "ok": true}"#),
    ("escapes", r#"{"a": "\u00e9\ud83d\ude00\"\\\/\b", "é😀": "\ud83d"}"#),
    ("numbers", "[0, -0, 1e3, -1.5E-7, 12345678901234567890, 0.1e+2]"),
    ("packed", r#""{\"x\": \"a\\nb\"}""#),
    ("packed-text", r#""{hello}""#),
    ("raw-controls", "{\"cmd\": \"a\nb\tc\r\u{1}\"}"),
    ("illegal-escapes", r#"{"path": "C:\dir\q", "u": "\u12", "s": "it\'s"}"#),
    ("python", "{'a': True, 'b': None, 'c': 'x\"y', d: NaN, e: -Infinity,}"),
    ("comments", "{/* a */ \"x\": [1, 2,], // b\n \"y\": 1,}"),
    ("nested", r#"{"a":{"b":{"c":[[[[{"d":{}}]]]]}}}"#),
    ("markers", r#"{"s": "</tool_call><tool_call>```}]"}"#),
    ("unclosed", r#"{"cmd": "rm -r build/ol"#),
    ("too-many-closers", "{\"x\": 1}}]}"),
    ("null", "null"),
    ("scalar", "12"),
];

/// Values in Python's and Gemma's notations.
const LITERAL: &[(&str, &str)] = &[
    ("json", r#"{"a": [1, 2.5, "x"], "b": {"c": true, "d": null}}"#),
    ("python", "{'a': (1, 2,), 'b': {3, 4}, 'c': None, 'd': True}"),
    ("strings", "'a' \"b\" r'\\n' b'c' f'{d}' '''e\n'f''' \"\"\"g\"\"\""),
    (
        "escapes",
        r"'\x41\u00e9\U0001F600\N{DASH}\101\
'",
    ),
    ("numbers", "[1_000, 0x1F, .5, 5., -007, 1e5, 1j]"),
    ("more", "1, y='z', w=[{'k': (1)}]"),
    ("gemma", "<escape>text<escape>,n:3,o:{k:<escape>v<escape>},l:[1,true]"),
    ("gemma4", "<|\"|>text<|\"|>,n:3,o:{k:<|\"|>v<|\"|>},l:[1,true]"),
    ("markers", "')]<|tool_call_end|>'"),
    ("empty", ""),
];

const PARAMS: &[(&str, &str)] = &[
    ("text", "Paris"),
    ("code", "if a < b && c {\n    print(\"x\\n\");\n}\n"),
    ("number", "-12.50"),
    ("boolean", "True"),
    ("null", "NULL"),
    ("object", r#"{"a": [1, {"b": "c"}], 'd': None}"#),
    ("closer-inside", "say </parameter> and </function> twice"),
    ("next-unclosed", "a\n<parameter=n>\nb\n</parameter>\n<parameter=i>\n3"),
    ("next", "a</parameter><parameter name=\"n\">b</parameter><parameter name=\"i\">3"),
    ("pair", "a</arg_value>\n<arg_key>n</arg_key>\n<arg_value>b"),
    ("cdata", "<![CDATA[a ]] > b]]>&lt;&#65;&amp;"),
    ("malformed-closer", "a</parameter/>\n</function>"),
    ("blank", "\n\n  a  \n\n"),
];

/// Streams that test the limits of the SSE standard.
const STREAMS: &[(&str, &str)] = &[
    ("ends", "\u{feff}data: a\r\n\r\ndata: b\r\rdata: c\n\nevent: e\rdata\ndata:  d\r\n\n"),
    ("fields", ": hi\nid: 1\nretry: 10\nevent: x\ndata: a\ndata: b\nother: c\n\nid: \u{0}\nid\ndata:x\n\n"),
    ("records", "{\"a\":1}\n\n  \r\n{\"b\":2}\r{\"c\":\"é\"}"),
    ("done", "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\ndata: [DONE]\n\n"),
];

/// Valid and invalid HTTP/1.1 responses.
const RESPONSES: &[(&str, &str)] = &[
    ("length", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"),
    ("length-and-more", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\n\r\n"),
    ("chunked", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n"),
    (
        "extensions-and-trailers",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5;a=\"b\" ; c\r\nhello\r\n0 \r\nx: y\r\nz:\r\n\r\n",
    ),
    ("until-close", "HTTP/1.1 200 OK\r\n\r\nhello"),
    ("http10", "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 5\r\n\r\nhello"),
    ("http10-chunked", "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
    (
        "both-framings",
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
    ),
    ("chunked-identity", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n"),
    ("identity", "HTTP/1.1 200 OK\r\ntransfer-encoding: identity\r\ncontent-length: 1\r\n\r\nhello"),
    ("empty-coding", "HTTP/1.1 200 OK\r\ntransfer-encoding:\r\ncontent-length: 5\r\n\r\nhello"),
    ("empty-items", "HTTP/1.1 200 OK\r\ntransfer-encoding: , chunked ,\r\n\r\n1\r\nx\r\n0\r\n\r\n"),
    ("two-lengths", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello!"),
    ("same-lengths", "HTTP/1.1 200 OK\r\ncontent-length: 5, 5\r\ncontent-length: 5\r\n\r\nhello"),
    ("odd-lengths", "HTTP/1.1 200 OK\r\ncontent-length: 05, 5,\r\ncontent-length: +5\r\n\r\nhello"),
    ("largest-length", "HTTP/1.1 200 OK\r\ncontent-length: 18446744073709551615\r\n\r\nhello"),
    (
        "interim",
        "\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nlink: x\r\n\r\n\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
    ),
    ("upgrade", "HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nhello"),
    ("no-content", "HTTP/1.1 204 No\r\ntransfer-encoding: chunked\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"),
    ("not-modified", "HTTP/1.1 304 Not\r\ncontent-length: 5\r\n\r\n"),
    ("bare-lf", "HTTP/1.1 200 OK\ncontent-length: 5\n\nhello"),
    ("bare-cr", "\rHTTP/1.1 200 OK\r\nx: a\rb\r\ncontent-length: 0\r\n\r\n"),
    ("bare-lf-in-chunks", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\nx\n0\n\n"),
    ("bare-lf-in-trailers", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\na: b\nc: d\r\n\r\n"),
    ("nul", "HTTP/1.1 200 OK\r\nx: a\0b\r\ncontent-length: 0\r\n\r\n"),
    ("nul-in-extension", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;\0\r\nx\r\n0\r\n\r\n"),
    ("folded", "HTTP/1.1 200 OK\r\nx: a\r\n b\r\ncontent-length: 0\r\n\r\n"),
    ("blank-before-first-field", "HTTP/1.1 200 OK\r\n content-length: 9\r\ncontent-length: 0\r\n\r\n"),
    ("blank-before-colon", "HTTP/1.1 200 OK\r\ncontent-length : 5\r\n\r\nhello"),
    ("no-colon", "HTTP/1.1 200 OK\r\ncontent-length 5\r\n\r\nhello"),
    ("no-reason", "HTTP/1.1 200\r\ncontent-length: 0\r\n\r\n"),
    ("odd-status", "HTTP/1.1 999 \u{e9}\r\nx:\r\ncontent-length: 0\r\n\r\n"),
    ("low-status", "HTTP/1.1 099 Low\r\ncontent-length: 0\r\n\r\n"),
    ("long-status", "HTTP/1.1 2000 OK\r\ncontent-length: 0\r\n\r\n"),
    ("http2", "HTTP/2.0 200 OK\r\ncontent-length: 0\r\n\r\n"),
    ("http12", "HTTP/1.2 200 OK\r\ncontent-length: 0\r\n\r\n"),
    (
        "closing",
        "HTTP/1.1 200 OK\r\nconnection: x, Close\r\nconnection: keep-alive\r\ncontent-length: 5\r\n\r\nhello",
    ),
    (
        "digits",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0000000000000001\r\nx\r\n00000000000000000\r\n\r\n",
    ),
    ("overflow", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n10000000000000001\r\nx\r\n0\r\n\r\n"),
    (
        "odd-sizes",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1 1\r\n+1\r\n-1\r\n0x1\r\n1_0\r\n;\r\n",
    ),
    ("odd-trailers", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\na b: c\r\n d\r\n: e\r\n\r\n"),
    ("long-chunk", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nxy\r\n0\r\n\r\n"),
];

/// Rewrites the generated part of the corpus. Files that a fuzzer added are kept.
pub(crate) fn write() {
    for (at, pair) in engine().chunks(2).enumerate() {
        let codes = [pair.first(), pair.last()].into_iter().flatten();
        let codes: Vec<u8> = codes.flat_map(|(name, _)| code(name).to_be_bytes()).collect();
        let text: String = pair.iter().map(|(_, text)| text.as_str()).collect();
        put("engine", &format!("formats-{at:02}"), &[&[0, 2], &codes, &[7], text.as_bytes()]);
    }
    for (at, (name, text)) in JSON.iter().enumerate() {
        put("json", name, &[&[0, choice(at)], text.as_bytes()]);
    }
    for (at, (name, text)) in LITERAL.iter().enumerate() {
        put("literal", name, &[&[choice(at) << 4, choice(at)], text.as_bytes()]);
    }
    for (at, (name, text)) in PARAMS.iter().enumerate() {
        put("params", name, &[&[choice(at) << 4, choice(at), choice(at)], text.as_bytes()]);
    }
    for (at, (name, text)) in RESPONSES.iter().enumerate() {
        put("http1", name, &[&[choice(at)], text.as_bytes()]);
    }
    for (name, text) in STREAMS {
        put("sse", name, &[&[0, 3], text.as_bytes()]);
        put("reader", name, &[&[4, 3], text.as_bytes()]);
    }
    for (speech, flags, most) in RECORDED {
        for (name, stream) in recorded(speech, *most) {
            put("reader", &name, &[&[*flags, 3], &stream]);
        }
    }
    put("reader", "bedrock", &[&[0xc1, 3], BEDROCK.as_bytes()]);
    write_exchanges();
    write_requests();
    for (at, (name, text)) in engine().into_iter().step_by(3).enumerate() {
        put("quoted", name, &[&code(name).to_be_bytes(), &[choice(at % 4), 7], text.as_bytes()]);
        put("finder", name, &[&[choice(at % 2)], text.as_bytes()]);
    }
    let folder = root().join("crates/template/tests/template/templates");
    for (name, text) in files(&folder, |_| true) {
        put("template", &name, &[&[0], &text]);
    }
}

/// Writes a response of each upstream with every kind of event, as frames and as parts.
fn write_exchanges() {
    let clients: Vec<_> = ClientDialect::all().map(|client| client.dialect().name()).collect();
    let examples = engine();
    for (at, (name, speech)) in UPSTREAMS.into_iter().enumerate() {
        let client = clients[at % clients.len()];
        let (format, example) = &examples[at * 7 % examples.len()];
        let codes: Vec<u8> =
            [client, name, format].into_iter().flat_map(|name| code(name).to_be_bytes()).collect();
        let frames = match speech {
            Speech::Ollama => speech.says(&["Hi", example], "stop"),
            _ => hostile::frames(speech).concat().into_bytes(),
        };
        put("exchange", &format!("frames-{name}"), &[&codes, &[0b101, 0, 7], &frames]);
        let parts =
            format!("\u{1}hm\u{1e}{example}\u{1e}\u{2}get_weather\u{1f}{{\"x\": \"1\"}}\u{1e}\u{3}a\u{1e}.");
        put(
            "exchange",
            &format!("parts-{name}"),
            &[&codes, &[choice(at % 2), choice(at), 39], parts.as_bytes()],
        );
    }
}

/// Writes requests with calls, results and tools, in every dialect.
fn write_requests() {
    let folder = root().join("crates/template/tests/template/requests");
    for (at, (name, body)) in
        files(&folder, |name| ["loop", "parts", "thinking", "tools"].iter().any(|one| name.contains(one)))
            .into_iter()
            .enumerate()
    {
        let conversation = ClientDialect::Chat.side().decode(&body).unwrap();
        for upstream in UpstreamDialect::all() {
            let dialect = upstream.dialect();
            if ClientDialect::try_from(dialect).is_err() {
                continue;
            }
            let body = upstream.side().encode(&conversation, "m").body;
            let example = format::HERMES.example;
            let codes: Vec<u8> = [dialect.name(), dialect.name(), format::HERMES.name]
                .into_iter()
                .flat_map(|name| code(name).to_be_bytes())
                .collect();
            let name = format!("{}-{name}", dialect.name());
            put("request", &name, &[&codes, &[choice(at % 2) << 1, 7], &body, b"\0", example.as_bytes()]);
        }
    }
}

fn choice(at: usize) -> u8 {
    u8::try_from(at).unwrap()
}

fn put(target: &str, name: &str, parts: &[&[u8]]) {
    let folder = fuzz("corpus").join(target);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(name), parts.concat()).unwrap();
}

/// Returns the example and the published cases of each format.
fn engine() -> Vec<(&'static str, String)> {
    let mut cases: HashMap<String, String> = HashMap::new();
    for line in include_str!("../../../fixtures/conformance/formats.jsonl").lines().skip(1) {
        let case: Value = serde_json::from_str(line).unwrap();
        let text = case["text"].as_str().unwrap();
        let all = cases.entry(case["format"].as_str().unwrap().to_owned()).or_default();
        if all.len() + text.len() < 1500 {
            all.push('\n');
            all.push_str(text);
        }
    }
    let seed = |format: &&'static format::Format| {
        let cases = cases.get(format.name).map_or("", String::as_str);
        (format.name, format!("{}\nWell.{cases}\n", format.example))
    };
    format::ALL.iter().map(seed).collect()
}

/// Returns the files of a folder whose names are wanted.
fn files(folder: &Path, wants: impl Fn(&str) -> bool) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let named = entries.map(|entry| (entry.file_name().into_string().unwrap(), entry.path()));
    let mut files: Vec<_> =
        named.filter(|(name, _)| wants(name)).map(|(name, path)| (name, fs::read(path).unwrap())).collect();
    files.sort();
    files
}

/// Returns at most `most` recorded streams of an upstream.
fn recorded(speech: &str, most: usize) -> Vec<(String, Vec<u8>)> {
    let folder = root().join("fixtures").join(speech);
    let entries = fs::read_dir(folder).unwrap();
    let streams = entries.filter_map(|entry| {
        let entry = entry.unwrap();
        let stream = fs::read(entry.path().join("upstream.sse")).ok()?;
        let name = format!("{speech}-{}", entry.file_name().into_string().ok()?);
        Some((name, stream[..stream.len().min(STREAM)].to_vec()))
    });
    let mut streams: Vec<_> = streams.collect();
    streams.sort();
    let step = streams.len().div_ceil(most);
    streams.into_iter().step_by(step).collect()
}
