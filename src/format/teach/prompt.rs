//! [`prompt`]: the instructions that describe tools and their calls.

use super::{
    ArgumentForm, Teach, Teaching,
    budget::{Detail, estimated_tokens, schema},
    examples::{Example, examples},
    render,
    signature::signature,
};
use crate::{
    conversation::{CallOutput, Conversation, Tool, ToolChoice, Turn},
    wire::json::Encoder,
};

const TEMPLATE: &str = "\
You can call these tools{{list_note}}

{{tools}}
{{prefix_note}}
To call a tool, write {{words}}, as in these examples:

{{examples}}

{{rules}}";

/// The instructions without examples.
const TEMPLATE_WITHOUT_EXAMPLES: &str = "\
You can call these tools{{list_note}}

{{tools}}
{{prefix_note}}
To call a tool, write {{words}}.

{{rules}}";

/// The instructions with examples that are turns.
const TEMPLATE_WITH_TURNS: &str = "\
You can call these tools{{list_note}}

{{tools}}
{{prefix_note}}
To call a tool, write {{words}}. The first messages are examples.

{{rules}}";

/// What is added to a conversation.
pub(super) struct Prompt {
    pub(super) instructions: String,
    pub(super) example_turns: Vec<Turn>,
    /// Names of the tools that there was no room for.
    pub(super) left_out: Vec<String>,
}

/// The instructions; `None` if no tool may be called.
///
/// All declared tools are described, also those that `tool_choice` does not allow in this request, so that the next
/// request can have the same beginning.
pub(super) fn prompt(conversation: &Conversation, teach: &Teach, teaching: &Teaching) -> Option<Prompt> {
    conversation.callable_tools().next()?;
    if let Some(text) = &teaching.text {
        return Some(Prompt { instructions: text.clone(), example_turns: Vec::new(), left_out: Vec::new() });
    }
    let tools: Vec<&Tool> = conversation.tools.iter().collect();
    let parts = Parts { conversation, teach, teaching };
    let Some(limit) = teaching.max_instructions else {
        return Some(parts.prompt(&tools, Detail::Whole, &[]));
    };
    for detail in Detail::ALL {
        let prompt = parts.prompt(&tools, detail, &[]);
        if prompt.tokens() <= limit {
            return Some(prompt);
        }
    }
    Some(parts.fewer_tools(&tools, limit))
}

impl Prompt {
    fn tokens(&self) -> usize {
        let turns = self.example_turns.iter().map(|turn| estimated_tokens(&turn.joined_text()));
        estimated_tokens(&self.instructions) + turns.sum::<usize>()
    }
}

struct Parts<'a> {
    conversation: &'a Conversation,
    teach: &'a Teach,
    teaching: &'a Teaching,
}

impl Parts<'_> {
    /// The shortest descriptions of as many tools as there is room for: the named tool, then the others as declared.
    /// At least one tool is described.
    fn fewer_tools(&self, tools: &[&Tool], limit: usize) -> Prompt {
        let is_named = |tool: &&Tool| match &self.conversation.tool_choice {
            ToolChoice::Named(name) => tool.name == *name,
            ToolChoice::Allowed { names, .. } => names.contains(&tool.name),
            _ => false,
        };
        let mut order: Vec<usize> = (0..tools.len()).collect();
        order.sort_by_key(|&at| !tools.get(at).is_some_and(is_named));
        let prompt = |count: usize| {
            let mut kept: Vec<usize> = order.iter().copied().take(count).collect();
            kept.sort_unstable();
            let shown: Vec<&Tool> = kept.iter().filter_map(|&at| tools.get(at).copied()).collect();
            let left: Vec<&Tool> = tools
                .iter()
                .enumerate()
                .filter(|(at, _)| !kept.contains(at))
                .map(|(_, tool)| *tool)
                .collect();
            self.prompt(&shown, Detail::Names, &left)
        };
        // The largest number that fits, by bisection: rendering is linear in the size of the tools.
        let (mut fits, mut too_many) = (1, tools.len());
        while fits + 1 < too_many {
            let middle = fits.midpoint(too_many);
            if prompt(middle).tokens() <= limit { fits = middle } else { too_many = middle }
        }
        prompt(fits)
    }

    fn prompt(&self, tools: &[&Tool], detail: Detail, left_out: &[&Tool]) -> Prompt {
        let Teaching { prefix, template, signatures, .. } = self.teaching;
        // Templates of users may say that the tools are JSON.
        let signatures = *signatures && template.is_empty();
        let form = &self.teach.form;
        let parallel = self.conversation.parallel_calls;
        let shown = examples(form, tools, prefix, self.teaching.examples, parallel);
        let first = examples(form, tools, prefix, 1, false);
        let as_turns = self.teaching.example_turns && template.is_empty();
        let result = CallOutput {
            id: "call_1".to_owned(),
            name: format!("{prefix}{}", tools.first().map_or("tool_name", |tool| tool.name.as_str())),
            content: "…".to_owned(),
            is_error: false,
        };
        let template = match template.as_str() {
            "" if shown.is_empty() => TEMPLATE_WITHOUT_EXAMPLES,
            "" if as_turns => TEMPLATE_WITH_TURNS,
            "" => TEMPLATE,
            template => template,
        };
        let instructions = render(template, |name| {
            Some(match name {
                "signatures" => lines(tools.iter().map(|tool| signature(tool, prefix, detail))),
                "tools" if signatures => lines(tools.iter().map(|tool| signature(tool, prefix, detail))),
                "tools" => lines(tools.iter().map(|tool| declaration(tool, prefix, detail))),
                "example" => lines(first.iter().map(|example| example.calls.clone())),
                "examples" => shown.iter().map(|example| example.to_text()).collect::<Vec<_>>().join("\n\n"),
                "words" => self.teach.words.to_owned(),
                "prefix" => prefix.clone(),
                "list_note" if signatures => " (`?` marks optional arguments):".to_owned(),
                "list_note" => {
                    ", one per line. `parameters` is the JSON Schema of a tool's arguments.".to_owned()
                }
                "prefix_note" => prefix_note(prefix),
                "rules" => self.rules(),
                "result" => form.result(&result),
                _ => return None,
            })
        });
        let example_turns =
            if as_turns { shown.into_iter().flat_map(Example::turns).collect() } else { Vec::new() };
        let left_out = left_out.iter().map(|tool| tool.name.clone()).collect();
        Prompt { instructions, example_turns, left_out }
    }

    /// The rules for calls, one per line.
    fn rules(&self) -> String {
        let when = "- Call a tool when it helps with the request. Otherwise answer in plain text.";
        let arguments = match self.teach.form.arguments {
            ArgumentForm::Json => "- Use the argument names and types listed above.",
            ArgumentForm::Each { .. } => "- Use the argument names listed above.",
        };
        let several = if self.conversation.parallel_calls {
            "- Calls that do not depend on each other may go in one message."
        } else {
            "- Write at most one call in a message."
        };
        let stop = "- After a call, stop and wait for the result. Never make one up.";
        [when, arguments, several, stop].join("\n")
    }
}

fn lines(texts: impl Iterator<Item = String>) -> String {
    texts.collect::<Vec<_>>().join("\n")
}

fn prefix_note(prefix: &str) -> String {
    if prefix.is_empty() {
        return String::new();
    }
    format!(
        "\nTheir names begin with `{prefix}` to distinguish them from your own tools. They cannot be called through \
         your own tool system: write the call as text, as shown here.\n"
    )
}

/// A tool in one line.
fn declaration(tool: &Tool, prefix: &str, detail: Detail) -> String {
    let mut json = Encoder::default();
    json.object(|json| {
        json.key("name").string(&format!("{prefix}{}", tool.name));
        json.key("description").string(&detail.of_tool(&tool.description));
        let json = json.key("parameters");
        match &tool.parameters {
            Some(parameters) => schema(parameters.view(), detail, json),
            None => json.object(|json| {
                json.key("type").string("object");
                json.key("properties").object(|_| {});
            }),
        }
    });
    json.finish_text()
}
