//! Turns fixtures into cases.

use std::sync::Arc;

use serde_json::Value;

use super::case::{Expected, Recorded, Wanted};
use crate::{
    fixture::{Answer, Fixture},
    upstream::Api,
};
use toolwire_pipeline::event::Finish;

/// Name, response, the client's tools, and the expected outcome.
type Found = (String, Arc<Recorded>, Vec<Value>, Expected);

/// Returns the responses of all `fixtures` that are in this dialect and need no special settings or request options.
pub(super) fn recorded(api: Api, fixtures: &[Fixture]) -> Vec<Found> {
    fixtures.iter().filter_map(|fixture| of_fixture(api, fixture)).collect()
}

fn of_fixture(api: Api, fixture: &Fixture) -> Option<Found> {
    let request: Value = serde_json::from_slice(&fixture.request).ok()?;
    let is_played = fixture.from.dialect().name() == api.name()
        && fixture.hops.is_empty()
        && fixture.has_default_settings()
        && fixture.conversation.stream
        && is_plain(&request);
    let answer = fixture.expect.as_ref().filter(|_| is_played)?;
    let head = &fixture.upstream.head;
    let recorded =
        Recorded { status: head.status, headers: head.headers.clone(), body: fixture.upstream.body.clone() };
    let tools = request.get("tools").and_then(Value::as_array).cloned().unwrap_or_default();
    Some((fixture.name.clone(), Arc::new(recorded), tools, expected(answer)?))
}

/// Whether a request has no options besides those of the requests for cases.
fn is_plain(request: &Value) -> bool {
    let known = ["model", "messages", "stream", "stream_options", "tools"];
    request.as_object().is_some_and(|request| request.keys().all(|key| known.contains(&key.as_str())))
}

fn expected(answer: &Answer) -> Option<Expected> {
    // The client dialects represent refusals, and calls that the upstream ran, too differently to compare them.
    if !answer.results.is_empty() || !answer.refusal.is_empty() {
        return None;
    }
    let finish = match answer.finish.as_deref() {
        Some("stop") => Finish::Stop,
        Some("tool_calls") => Finish::Calls,
        Some("length") => Finish::Length,
        Some("content_filter") => Finish::Filter,
        Some(_) => return None,
        None => Finish::Stop,
    };
    let wanted = Wanted {
        text: answer.text.clone(),
        reasoning: Some(answer.reasoning.clone()),
        calls: answer.calls.iter().map(|call| (call.name.clone(), call.arguments.clone())).collect(),
        finish,
        usage: None,
        verbatim_arguments: false,
        trimmed: false,
    };
    Some(match &answer.error {
        None => Expected::Response(wanted),
        Some(_) => Expected::Failure { of: wanted, status: 400..=599, is_truncated: false },
    })
}
