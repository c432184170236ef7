//! [`Hosted`]: a call that Google's servers ran, or its result.

use std::borrow::Cow;

use crate::{
    event::{Event, Runner, ServerCall, Sink},
    wire::json::{Json, Kind},
};

/// What a step says about a call that Google's servers ran. Its deltas replace what they contain.
#[derive(Debug)]
pub(super) struct Hosted {
    id: String,
    name: String,
    server: String,
    /// The arguments, or the result if `is_result` is set, as JSON or text.
    content: String,
    is_result: bool,
    is_error: bool,
}

impl Hosted {
    /// Begins with the start of a step. `None` if the step is something else. `latest` is the id of the latest such
    /// call, for steps without one.
    pub(super) fn new(step: Json<'_>, latest: &str) -> Option<Self> {
        let kind = step.text("type");
        let (tool, is_result) = match (kind.strip_suffix("_call"), kind.strip_suffix("_result")) {
            (Some(tool), _) => (tool, false),
            (_, Some(tool)) => (tool, true),
            _ => return None,
        };
        let name = match tool {
            "mcp_server_tool" => step.text("name").into_owned(),
            // Other APIs and toolwire call the search `web_search`.
            "google_search" => "web_search".to_owned(),
            tool => tool.to_owned(),
        };
        let id = step.text(if is_result { "call_id" } else { "id" });
        let id = if id.is_empty() { latest.to_owned() } else { id.into_owned() };
        let server = step.text("server_name").into_owned();
        let mut hosted = Self { id, name, server, content: String::new(), is_result, is_error: false };
        hosted.take(step);
        Some(hosted)
    }

    /// Takes what a step or a delta says.
    pub(super) fn take(&mut self, given: Json<'_>) {
        let content = given.get(if self.is_result { "result" } else { "arguments" });
        if let Some(content) = content.filter(|content| !content.is_null()) {
            self.content = content.as_str().unwrap_or(Cow::Borrowed(content.raw())).into_owned();
        }
        self.is_error |= given.get("is_error").and_then(|flag| flag.as_bool()) == Some(true);
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn tell(&self, out: &mut impl Sink) {
        let is_object = |text: &&str| Json::parse(text).is_ok_and(|json| json.kind() == Kind::Object);
        let arguments = Some(&*self.content).filter(is_object).unwrap_or("{}");
        out.event(Event::from(ServerCall {
            id: Cow::Borrowed(&self.id),
            name: Cow::Borrowed(&self.name),
            runner: Runner::Upstream,
            server: Cow::Borrowed(&self.server),
            arguments: (!self.is_result).then_some(Cow::Borrowed(arguments)),
            content: self.is_result.then_some(Cow::Borrowed(&*self.content)),
            details: None,
            is_error: self.is_error,
            approval: Cow::Borrowed(""),
        }));
    }
}
