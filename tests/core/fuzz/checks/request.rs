//! Checks requests: a body of any client dialect is refused by name or becomes a request that every upstream dialect
//! can express, and the tools that it declares are found in any text.

use bytes::Bytes;
use serde_json::value::RawValue;
use toolwire::{
    conversation::{Conversation, Prompt},
    dialect::{Answering, ClientDialect, ClientSide, Dialect, Stamp, Target, UpstreamDialect, fitted},
    event::Finish,
    failure::Failure,
    format::{self, Format, Teaching},
    rules::{Detect, Rules},
};

use super::{found::find_in, input::Input};

/// The first eight bytes are choices. The body follows, and behind a zero what the model says.
pub(crate) fn request(data: &[u8]) {
    let mut input = Input::new(data);
    let clients: Vec<_> = ClientDialect::all().collect();
    let client = input.of(&clients, |client| client.dialect().name());
    let upstream = input.of(Dialect::ALL, Dialect::name);
    let format = input.of(format::ALL, |format: &Format| format.name);
    let (Some(client), Some(upstream), Some(format)) = (client, upstream, format) else { return };
    let (flags, seed) = (input.byte(), input.byte());
    let bytes = input.bytes();
    let (body, said) = bytes.split_at(bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len()));
    let side = client.side();
    let Some(endpoint) = side.endpoint(flags & 1 == 1) else { return };
    let decoded = side
        .complete(Bytes::copy_from_slice(body), &Target::new(endpoint, "m"))
        .and_then(|body| side.decode(&with_history(side, &body)?));
    match decoded {
        Err(failure) => check_refusal(side, &failure),
        Ok(conversation) => {
            check_sent(client.dialect(), upstream, &conversation, flags, format);
            let said: String = said.utf8_chunks().map(|chunk| chunk.valid()).collect();
            check_said(&conversation, said.trim_start_matches('\0'), flags, seed, format);
        }
    }
}

/// A request that cannot be read is the client's fault, and the error is JSON.
fn check_refusal(side: &dyn ClientSide, failure: &Failure) {
    assert!((400..500).contains(&failure.status()), "{failure:?}");
    let body = side.error_body(failure);
    assert!(serde_json::from_slice::<&RawValue>(&body).is_ok(), "{}", body.escape_ascii());
}

/// The request together with the stored responses to which it refers. Each of them is an earlier response to the same
/// request.
fn with_history(side: &dyn ClientSide, body: &Bytes) -> Result<Bytes, Failure> {
    const RESPONSE: &str = r#"{"id":"resp_1","output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hi"}]}]}"#;
    let references = side.references(body);
    assert!(references.is_empty() || side.may_refer(body), "{references:?}");
    let input = side.record_input(body);
    let record = input.and_then(|input| side.record(&input, RESPONSE));
    let records: Vec<_> =
        references.ids().map(|_| record.as_ref().map(|record| record.value.clone())).collect();
    if references.is_empty() {
        return Ok(body.clone());
    }
    side.with_history(body, &references, &records)
}

/// Checks that an upstream receives JSON, and that a server of its dialect reads what was meant.
fn check_sent(client: Dialect, upstream: Dialect, conversation: &Conversation, flags: u8, format: &Format) {
    let on = |bit: u8| flags >> bit & 1 == 1;
    let Ok(upstream) = UpstreamDialect::try_from(upstream) else { return };
    let side = upstream.side();
    drop(Answering::new(conversation, Stamp { seed: 5, created: 1_700_000_000 }));
    let Ok(sent) = fitted(conversation, client, side) else { return };
    let sent = if on(1) {
        let teaching = Teaching {
            in_user_turn: on(2),
            in_last_user_turn: on(3),
            example_turns: on(4),
            signatures: on(5),
            max_instructions: on(6).then_some(500),
            ..Teaching::default()
        };
        format::instruct(sent.into_owned(), format, &teaching)
    } else {
        let named = sent.in_forms(side.name_form(), side.id_form());
        sent.with_shown_tools(named).into_owned()
    };
    let request = match side.takes_prompt() && !sent.is_prompt {
        true => side.encode_prompt(&Prompt { text: "Well".to_owned(), bos: 0 }, &sent, "m"),
        false => side.encode(&sent, "m"),
    };
    let is_json = serde_json::from_slice::<&RawValue>(&request.body).is_ok();
    assert!(is_json, "{}", request.body.escape_ascii());
    if let Ok(server) = ClientDialect::try_from(upstream.dialect()) {
        let decode = |body: &[u8]| server.side().decode(body);
        let once = decode(&request.body).unwrap_or_else(|failure| {
            panic!("{failure:?}: {}", request.body.escape_ascii());
        });
        let again = side.encode(&once, "m").body;
        let twice = decode(&again).unwrap_or_else(|failure| panic!("{failure:?}: {}", again.escape_ascii()));
        let third = side.encode(&twice, "m").body;
        assert_eq!(again.escape_ascii().to_string(), third.escape_ascii().to_string());
    }
}

/// Splits do not change which calls of the request's own tools are found.
fn check_said(conversation: &Conversation, said: &str, flags: u8, seed: u8, format: &'static Format) {
    if said.is_empty() || conversation.callable_tools().next().is_none() {
        return;
    }
    let detect = if flags >> 7 & 1 == 1 { Detect::Auto } else { Detect::Formats(vec![format.name]) };
    let rules = Rules { detect, ..Rules::default() };
    find_in(conversation, &rules, said, seed, Finish::Stop, usize::MAX);
}
