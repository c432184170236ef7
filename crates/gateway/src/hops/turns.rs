//! The turns and tools of a request that follows hosted calls.

use serde_json::{Map, Value};

use toolwire_execution::HostedTurn;
use toolwire_pipeline::conversation::{
    Call, CallOutput, Conversation, Part, Role, ToolChoice, ToolMedia, Turn,
};

/// Adapts the request after hosted tools have run: the call that the client required has been made, and tools may be
/// exhausted.
pub(super) fn after_calls(conversation: &mut Conversation, hosted: &HostedTurn) {
    match &mut conversation.tool_choice {
        choice @ (ToolChoice::Required | ToolChoice::Named(_)) => *choice = ToolChoice::Auto,
        ToolChoice::Allowed { required, .. } => {
            *required = false;
            // The choice in its original form may require a call.
            conversation.rest.remove("tool_choice");
        }
        // In its original form, a choice of a server tool requires a call to that tool.
        ToolChoice::Auto if !conversation.server_choice.is_empty() => {
            conversation.server_choice.clear();
            conversation.rest.remove("tool_choice");
        }
        ToolChoice::Auto | ToolChoice::None => {}
    }
    if hosted.exhausted_limit().is_some() {
        let names = std::mem::take(&mut conversation.hosted_tools);
        conversation.tools.retain(|tool| !names.contains(&tool.name));
    }
    // Exhausted tools still count as hosted, so that a model that calls one anyway gets an explanation.
    let exhausted = hosted.exhausted();
    conversation.tools.retain(|tool| !exhausted.contains(&tool.name.as_str()));
    let Conversation { tools, server_tools, server_choice, tool_choice, .. } = conversation;
    if let ToolChoice::Allowed { names, .. } = tool_choice {
        let is_left = |name: &str| {
            tools.iter().any(|tool| tool.name == name) || server_tools.iter().any(|tool| tool.name == name)
        };
        names.retain(|name| is_left(name));
        if names.is_empty() && server_choice.is_empty() {
            *tool_choice = ToolChoice::None;
        }
    }
}

/// In the calls for which `is_meant` is true, replaces arguments that are not objects with objects, since some
/// upstreams refuse other arguments. The results of such calls explain what was wrong.
pub(super) fn make_objects(turn: &mut Turn, is_meant: impl Fn(&Call) -> bool) {
    for part in &mut turn.parts {
        if let Part::Call(call) = part
            && is_meant(call)
            && serde_json::from_str::<Map<String, Value>>(&call.arguments).is_err()
        {
            "{}".clone_into(&mut call.arguments);
        }
    }
}

/// Returns the results of the calls in the last of `turns`, in order. Each of `outputs` has the files that belong to it.
pub(super) fn results(turns: &[Turn], outputs: &[(&CallOutput, Vec<Part>)]) -> Vec<Turn> {
    let calls = turns.last().into_iter().flat_map(|turn| &turn.parts).filter_map(|part| match part {
        Part::Call(call) => Some(call),
        _ => None,
    });
    let result = |call: &Call| {
        let own = outputs.iter().find(|(output, _)| output.id == call.id);
        let own = own.map(|(output, files)| (CallOutput::clone(output), files.clone()));
        let (output, files) = own.unwrap_or_else(|| {
            let output = CallOutput {
                id: call.id.clone(),
                name: call.name.clone(),
                content: "This call was not executed. If it is still needed, call the tool again.".to_owned(),
                is_error: true,
            };
            (output, Vec::new())
        });
        Turn::of(Role::Tool, std::iter::once(Part::Result(output)).chain(files).collect())
    };
    calls.map(result).collect()
}

/// Approximate size in bytes of the text and files in `turn`.
pub(super) fn size_of(turn: &Turn) -> usize {
    let size = |part: &Part| match part {
        Part::Text(text) => text.size(),
        Part::Reasoning { text, .. } => text.len(),
        Part::Call(call) => call.arguments.len(),
        Part::Result(output) => output.content.len(),
        Part::Image { url, .. } => url.len(),
        Part::Other(_) => ToolMedia::size(part),
    };
    turn.parts.iter().map(size).sum()
}
