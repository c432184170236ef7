//! Lists the text formats, analyses text, and shows the instructions that teach a format to a model.

use std::{ops::Range, sync::Arc};

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::{
    AdminError, AdminResponse,
    analysis::{self, Analysis, EventKind, Part, RejectedFormat, TimedEvent},
    object,
};
use toolwire_pipeline::{
    conversation::{Conversation, Role},
    detect::find_format::{FoundFormat, find_formats_of_any_tool},
    dialect::{Answering, ClientDialect, Dialect, ReaderRules, Stamp, UpstreamDialect},
    event::CallEnd,
    format::{self, Format, KnownFormats, Teaching, estimated_tokens},
    pipeline::Pipeline,
    rules::{Detect, Rules},
    wire::{
        suggest::suggest,
        text::{boundary_upto, head},
    },
};

/// Maximum size in bytes of the text to analyse.
const MAX_TEXT: usize = 256 << 10;

const MAX_TOOLS: usize = 128;

/// How many formats are named in which a text contains calls.
const MAX_FOUND: usize = 8;

/// Maximum size in bytes of the preview of a response in one client dialect.
const MAX_CLIENT: usize = 512 << 10;

/// The same in every analysis, so that analyses can be compared.
const STAMP: Stamp = Stamp { seed: 1, created: 0 };

pub(super) fn list(known: &KnownFormats) -> Value {
    let formats: Vec<_> = known
        .all()
        .map(|format| {
            json!({
                "name": format.name, "summary": format.summary, "models": format.models, "auto": format.auto,
                "taught": format.teach.is_some(), "example": format.example,
            })
        })
        .collect();
    json!({"formats": formats})
}

/// Analyses text; see the module `analysis`.
pub(super) async fn analyze(known: &Arc<KnownFormats>, body: Bytes) -> Result<AdminResponse, AdminError> {
    let known = Arc::clone(known);
    // Analysing long text would delay other streams on this thread for too long.
    let analyzing = tokio::task::spawn_blocking(move || analyzed(&known, &body));
    let analyzed = analyzing.await.map_err(|_| {
        AdminError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the text could not be analysed")
    })?;
    Ok(AdminResponse::json(analyzed?))
}

fn analyzed(known: &KnownFormats, body: &[u8]) -> Result<Value, AdminError> {
    let object = object(body)?;
    let Some(Value::String(text)) = object.get("text") else {
        return Err(AdminError::invalid("`text` is missing: what a model wrote", Some("text")));
    };
    if text.len() > MAX_TEXT {
        let message = format!("`text` has {} bytes; at most {MAX_TEXT} are analysed", text.len());
        return Err(AdminError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message).at("text"));
    }
    let conversation = conversation(&object)?;
    let detect = match format_of(&object, known)? {
        Some(format) => Detect::Formats(vec![format.name]),
        None => Detect::Auto,
    };
    let rules = Rules { detect, ..Rules::default() };
    let analysis = analysis::analyze(text, &conversation, &rules, known);
    let found = find_formats_of_any_tool(text, &conversation, known);
    let rejected = analysis::rejected(text, &rules.detect, known, &analysis, &found);
    let mut clients = Map::new();
    for dialect in ClientDialect::all() {
        let got = got_by(dialect, text, &conversation, &rules, known)?;
        clients.insert(dialect.dialect().name().to_owned(), got.into());
    }
    let found = found.iter().take(MAX_FOUND).map(found_format).collect();
    Ok(shown(&analysis, found, &rejected, text.len(), clients))
}

/// A format in which a text contains calls, as JSON.
pub fn found_format(found: &FoundFormat) -> Value {
    let calls = found.calls.iter().map(|call| {
        json!({
            "name": call.name, "arguments": call.arguments, "declared": call.is_declared, "complete": call.is_complete,
        })
    });
    json!({
        "name": found.format.name, "summary": found.format.summary, "confidence": found.confidence.name(),
        "automatic": found.is_automatic, "calls": calls.collect::<Vec<_>>(), "marker": found.marker,
        "text_bytes": found.text, "equals": found.equals,
    })
}

fn shown(
    analysis: &Analysis,
    found: Vec<Value>,
    rejected: &[RejectedFormat],
    len: usize,
    clients: Map<String, Value>,
) -> Value {
    let events: Vec<_> = analysis.events.iter().map(event).collect();
    let spans: Vec<_> = analysis.parts.iter().map(span).collect();
    let calls: Vec<_> = analysis.calls.iter().zip(1..).map(|(call, number)| call.json(number)).collect();
    let rejected: Vec<_> = rejected
        .iter()
        .map(|RejectedFormat { format, range, why }| json!({"format": format, "range": pair(range), "why": why}))
        .collect();
    json!({
        "bytes": len, "events": events, "spans": spans, "calls": calls, "found": found, "rejected": rejected,
        "clients": clients, "cut": analysis.is_cut,
    })
}

fn event(event: &TimedEvent) -> Value {
    let TimedEvent { kind, text, at, step, call } = event;
    let mut shown = json!({"kind": kind.name(), "at": at});
    let Value::Object(fields) = &mut shown else { return shown };
    fields.extend(call.map(|call| ("call".to_owned(), call.into())));
    match kind {
        EventKind::CallStart => _ = fields.insert("name".to_owned(), text.as_str().into()),
        EventKind::CallEnd(end) => {
            let end = match end {
                CallEnd::Complete => "complete",
                CallEnd::Cut => "cut",
                CallEnd::Broken => "broken",
            };
            fields.insert("end".to_owned(), end.into());
        }
        EventKind::Finish => {}
        EventKind::Text | EventKind::Reasoning | EventKind::Arguments => {
            fields.insert("text".to_owned(), text.as_str().into());
            fields.insert("step".to_owned(), (*step).into());
        }
    }
    shown
}

fn span(Part { kind, range, format, why }: &Part) -> Value {
    let rule = format.map(|format| format!("{format}.{}", kind.name()));
    json!({"range": pair(range), "kind": kind.name(), "format": format, "rule": rule, "why": why})
}

fn pair(range: &Range<usize>) -> Value {
    json!([range.start, range.end])
}

/// Returns the stream that a client of this dialect would receive for the text.
fn got_by(
    client: ClientDialect,
    text: &str,
    conversation: &Conversation,
    rules: &Rules,
    known: &KnownFormats,
) -> Result<String, AdminError> {
    let internal = |message| AdminError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message);
    // Must differ from the client's dialect, or else frames would be passed through unchanged.
    let upstream = UpstreamDialect::try_from(Dialect::Chat).map_err(|error| internal(error.to_string()))?;
    let reader = upstream.side().reader(&ReaderRules {
        max_frame: rules.limits.max_frame,
        tolerate_truncation: false,
        client: client.dialect(),
    });
    let answering = Answering::new(conversation, STAMP);
    let writer = client.side().writer(&answering);
    let mut pipeline = Pipeline::new(conversation, rules, known, reader, writer, &answering);
    let delta = |delta: Value, finish: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        let chunk = json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": conversation.model,
            "choices": [choice],
        });
        format!("data: {chunk}\n\n")
    };
    let said = delta(json!({"role": "assistant", "content": text}), Value::Null);
    let end = delta(json!({}), "stop".into()) + "data: [DONE]\n\n";
    let mut out = BytesMut::new();
    pipeline.push(said.as_bytes(), &mut out);
    pipeline.push(end.as_bytes(), &mut out);
    pipeline.finish(&mut out);
    if pipeline.failure().is_some() {
        pipeline.write_failure(&mut out);
    }
    let got = String::from_utf8(out.to_vec()).map_err(|_| internal("the output is not UTF-8".to_owned()))?;
    Ok(head(&got, boundary_upto(&got, MAX_CLIENT)).to_owned())
}

/// Returns the instructions that teach a model the requested format and tools.
pub(super) fn teach(known: &KnownFormats, body: &[u8]) -> Result<AdminResponse, AdminError> {
    let object = object(body)?;
    let conversation = conversation(&object)?;
    let format = format_of(&object, known)?
        .ok_or_else(|| AdminError::invalid("`format` is missing: the name of a format", Some("format")))?;
    if format.teach.is_none() {
        let message = format!("`{}` is a format that is only read", format.name);
        return Err(AdminError::new(StatusCode::CONFLICT, "not_taught", message).at("format"));
    }
    let taught = format::instruct(conversation, format, &Teaching::default());
    // The last turn is the user's and is left out.
    let turns: Vec<_> = taught.turns.iter().take(taught.turns.len().saturating_sub(1)).collect();
    let texts: Vec<_> = turns.iter().map(|turn| (turn.role, turn.joined_text())).collect();
    let system = texts.iter().filter(|(role, _)| *role == Role::System).map(|(_, text)| text.as_str());
    let prompt = system.collect::<Vec<_>>().join("\n");
    let tokens: usize = texts.iter().map(|(_, text)| estimated_tokens(text)).sum();
    let examples: Vec<_> = texts
        .iter()
        .filter(|(role, _)| *role != Role::System)
        .map(|(role, text)| json!({"role": if *role == Role::User { "user" } else { "assistant" }, "text": text}))
        .collect();
    Ok(AdminResponse::json(
        json!({"format": format.name, "prompt": prompt, "examples": examples, "tokens": tokens}),
    ))
}

/// Returns the requested format. `None` means `auto`.
fn format_of(
    object: &Map<String, Value>,
    known: &KnownFormats,
) -> Result<Option<&'static Format>, AdminError> {
    match object.get("format") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(name)) if name == "auto" => Ok(None),
        Some(Value::String(name)) => {
            let found = known.all().find(|format| format.name == *name);
            found.map(Some).ok_or_else(|| {
                let names: Vec<_> = known.all().map(|format| format.name).collect();
                let shown: String = name.chars().take(64).collect();
                let message = format!("there is no format `{shown}`; {}", suggest(&shown, &names, None));
                AdminError::invalid(message, Some("format"))
            })
        }
        Some(_) => Err(AdminError::invalid("`format` is a name, or `auto`", Some("format"))),
    }
}

/// Creates a conversation with the tools in the request. A tool is a name, a function as OpenAI's APIs declare it, or
/// an equivalent declaration.
fn conversation(object: &Map<String, Value>) -> Result<Conversation, AdminError> {
    let wrong = |message: &str| AdminError::invalid(message, Some("tools"));
    let tools = match object.get("tools") {
        None | Some(Value::Null) => &[][..],
        Some(Value::Array(tools)) if tools.len() <= MAX_TOOLS => tools,
        Some(Value::Array(_)) => return Err(wrong(&format!("there are more than {MAX_TOOLS} tools"))),
        Some(_) => return Err(wrong("`tools` is a list of names or declarations")),
    };
    let declared = tools.iter().map(|tool| match tool {
        Value::String(name) => Ok(json!({"type": "function", "function": {"name": name}})),
        Value::Object(fields) if fields.contains_key("function") => Ok(tool.clone()),
        Value::Object(fields) if fields.contains_key("name") => {
            let mut function = fields.clone();
            // Anthropic's field for the parameters.
            if let Some(schema) = function.remove("input_schema") {
                function.insert("parameters".to_owned(), schema);
            }
            Ok(json!({"type": "function", "function": function}))
        }
        _ => Err(wrong("a tool is a name, or an object with `name`")),
    });
    let request = json!({
        "model": "m", "stream": true, "messages": [{"role": "user", "content": "-"}],
        "tools": declared.collect::<Result<Vec<_>, _>>()?,
    });
    let decoded = ClientDialect::Chat.side().decode(request.to_string().as_bytes());
    decoded.map_err(|failure| wrong(failure.message()))
}
