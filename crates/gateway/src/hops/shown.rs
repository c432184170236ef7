//! How hosted tools are shown to the client.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use serde_json::{Value, json};

use toolwire_execution::{Ran, Visibility};
use toolwire_pipeline::{
    conversation::{Call, CallOutput, Part, Turn, own_id},
    dialect::search_results::citations,
    event::{Event, Media, Reasoning, Runner, ServerCall},
};

/// The tool whose results are cited.
const SEARCH: &str = "web_search";

/// The event for a running call of the hosted tool `name`.
pub(super) fn announced(call: &Call, name: &str, server: &str) -> ServerCall<'static> {
    ServerCall {
        id: Cow::Owned(call.id.clone()),
        name: Cow::Owned(name.to_owned()),
        runner: Runner::Toolwire,
        server: Cow::Owned(server.to_owned()),
        arguments: Some(Cow::Owned(call.arguments.clone())),
        content: None,
        details: None,
        is_error: false,
    }
}

/// The events for the client about calls that have run, the images that they generated and the pages that searches found.
pub(super) fn outcome(
    ran: &[Ran],
    mut images: Vec<Media<'static>>,
    visibility: Visibility,
) -> Vec<Event<'static>> {
    let mut events: Vec<_> = match visibility {
        Visibility::Off => Vec::new(),
        Visibility::Reasoning => lined(ran.iter().map(|ran| &*ran.note)).into_iter().collect(),
        Visibility::Items => {
            let mut events = Vec::new();
            for ran in ran {
                let own = images.extract_if(.., |image| image.id == ran.output.id);
                events.extend(own.map(Event::Media));
                events.push(Event::from(result_of(ran)));
            }
            events
        }
    };
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
    }
}
