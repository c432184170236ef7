//! How hosted tools are shown to the client.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    sync::Arc,
};

use serde_json::{Value, json};

use toolwire_execution::{HostedTurn, Ran, Visibility};
use toolwire_pipeline::{
    conversation::{Call, CallOutput, Part, Turn, own_id},
    dialect::search_results::citations,
    event::{Event, Media, Reasoning, Runner, ServerCall},
};

/// The tool whose results are cited.
const SEARCH: &str = "web_search";

/// The event for a running call. `approval` is the id of the request for approval that the client has granted.
fn running(call: &Call, hosted: &HostedTurn, approval: &str) -> ServerCall<'static> {
    let (name, server) = hosted.shown_names(&call.name);
    ServerCall {
        id: Cow::Owned(call.id.clone()),
        name: Cow::Owned(name.to_string()),
        runner: Runner::Toolwire,
        server: Cow::Owned(server.to_string()),
        arguments: Some(Cow::Owned(call.arguments.clone())),
        content: None,
        details: None,
        is_error: false,
        approval: Cow::Owned(approval.to_owned()),
    }
}

/// The events for the client about calls that run now, and requests for its approval of the others, in order.
/// `approved` are the ids of calls that it has approved, which are those of its approvals.
pub(super) fn announced<'c>(
    calls: impl Iterator<Item = &'c Call>,
    hosted: &HostedTurn,
    approved: &HashSet<String>,
) -> Vec<Event<'static>> {
    let (mut events, mut lines) = (Vec::new(), Vec::new());
    for call in calls {
        let is_approved = approved.contains(&call.id);
        if let Some(request) = hosted.approval_request(call).filter(|_| !is_approved) {
            events.push(Event::Mcp(Box::new(request)));
            continue;
        }
        match hosted.visibility_of(&call.name) {
            Visibility::Off => {}
            Visibility::Reasoning => lines.extend(hosted.progress(call)),
            Visibility::Items => {
                let approval = if is_approved { &*call.id } else { "" };
                events.push(Event::from(running(call, hosted, approval)));
            }
        }
    }
    events.extend(lined(lines.iter().map(String::as_str)));
    events
}

/// The events for calls that the client has approved and that have run in an earlier response, which it may not have
/// received. A client that does not know that they have run would approve them again.
pub(super) fn shown_again(
    turns: &[Arc<Turn>],
    approved: &[Call],
    hosted: &HostedTurn,
) -> Vec<Event<'static>> {
    let outputs = turns.iter().flat_map(|turn| &turn.parts).filter_map(|part| match part {
        Part::Result(output) => Some((output.id.as_str(), output)),
        _ => None,
    });
    let outputs: HashMap<&str, &CallOutput> = outputs.collect();
    let shown = |call: &Call| {
        let CallOutput { content, is_error, .. } = outputs.get(call.id.as_str())?;
        let content = Some(Cow::Owned(content.clone()));
        Some(Event::from(ServerCall { content, is_error: *is_error, ..running(call, hosted, &call.id) }))
    };
    approved.iter().filter_map(shown).collect()
}

/// The events for the client about calls that have run, the images that they generated and the pages that searches found.
pub(super) fn outcome(
    ran: &[Ran],
    mut images: Vec<Media<'static>>,
    visibility: impl Fn(&Ran) -> Visibility,
) -> Vec<Event<'static>> {
    let (mut events, mut notes) = (Vec::new(), Vec::new());
    for ran in ran {
        match visibility(ran) {
            Visibility::Off => {}
            Visibility::Reasoning => notes.push(&*ran.note),
            Visibility::Items => {
                let own = images.extract_if(.., |image| image.id == ran.output.id);
                events.extend(own.map(Event::Media));
                events.push(Event::from(result_of(ran)));
            }
        }
    }
    events.extend(lined(notes.into_iter()));
    let searches = ran.iter().filter(|ran| &*ran.tool == SEARCH && !ran.output.is_error);
    let pages = searches.flat_map(|ran| citations(&ran.output.content));
    events.extend(pages.map(Event::Annotation));
    events
}

/// Puts these lines into one piece of reasoning that does not come from the model.
pub(super) fn lined<'l>(lines: impl Iterator<Item = &'l str>) -> Option<Event<'static>> {
    let text: String = lines.flat_map(|line| [line, "\n"]).collect();
    (!text.is_empty()).then(|| Event::Reasoning(Reasoning::text(text)))
}

/// The calls in `turns` that have a result, as the extension field `tool_results` has them. `own_name` returns a tool's
/// own name.
pub(super) fn told(turns: &[Arc<Turn>], own_name: impl Fn(&str) -> Arc<str>) -> Vec<Value> {
    let parts = || turns.iter().flat_map(|turn| &turn.parts);
    let results: HashMap<&str, &CallOutput> = parts()
        .filter_map(|part| match part {
            Part::Result(output) => Some((output.id.as_str(), output)),
            _ => None,
        })
        .collect();
    let told = |call: &Call| {
        let CallOutput { content, is_error, .. } = results.get(call.id.as_str())?;
        let (id, name) = (own_id("call", &call.id), own_name(&call.name));
        let mut element = json!({"id": id, "name": &*name, "arguments": call.arguments, "content": content});
        if let (Some(element), true) = (element.as_object_mut(), *is_error) {
            element.insert("is_error".to_owned(), true.into());
        }
        Some(element)
    };
    let calls = parts().filter_map(|part| match part {
        Part::Call(call) => told(call),
        _ => None,
    });
    calls.collect()
}

/// The result of a call.
fn result_of(ran: &Ran) -> ServerCall<'static> {
    let CallOutput { id, content, is_error, .. } = ran.output.clone();
    ServerCall {
        id: Cow::Owned(id),
        name: Cow::Owned(ran.tool.to_string()),
        runner: Runner::Toolwire,
        server: Cow::Owned(ran.provider.to_string()),
        arguments: None,
        content: Some(Cow::Owned(content)),
        details: (!ran.details.is_null()).then(|| Cow::Owned(ran.details.to_string())),
        is_error,
        approval: Cow::Borrowed(""),
    }
}
