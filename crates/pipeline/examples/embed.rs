//! Embeds the complete pipeline: takes an upstream's bytes and produces bytes for a Chat Completions client.

use std::{error::Error, io::Write};

use bytes::BytesMut;
use toolwire_pipeline::{
    dialect::{Answering, Reader, Stamp, Writer, chat},
    format::KnownFormats,
    pipeline::{Pipeline, State},
    rules::Rules,
};

fn main() -> Result<(), Box<dyn Error>> {
    let request = br#"{"model": "m", "messages": [{"role": "user", "content": "Rain?"}],
        "stream": true, "tools": [{"type": "function", "function": {"name": "get_weather"}}]}"#;
    let conversation = chat::request::decode(request)?;
    let answering = Answering::new(&conversation, Stamp { seed: 7, created: 1_700_000_000 });
    let reader = Reader::Chat(chat::Reader::new(chat::ReaderSettings::default()));
    let writer = Writer::Chat(chat::Writer::new(&answering));
    let (rules, formats) = (Rules::default(), KnownFormats::built_in());
    let mut pipeline = Pipeline::new(&conversation, &rules, formats, reader, writer, &answering);

    let upstream = r#"data: {"choices": [{"delta": {"content": "<tool_call>{\"name\": \"get_weather\", "}}]}

data: {"choices": [{"delta": {"content": "\"arguments\": {}}</tool_call>"}, "finish_reason": "stop"}]}

data: [DONE]

"#;
    let (mut client, mut out) = (std::io::stdout(), BytesMut::new());
    for piece in upstream.as_bytes().chunks(16) {
        pipeline.push(piece, &mut out);
        client.write_all(&out.split())?;
    }
    assert_eq!(pipeline.finish(&mut out), State::Done);
    client.write_all(&out)?;
    Ok(())
}
