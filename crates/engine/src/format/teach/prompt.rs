//! [`prompt`]: writes the instructions that describe tools and how to call them.

use std::collections::HashSet;

use strum::VariantArray;

use super::{
    ArgumentForm, Teach, Teaching,
    budget::{Detail, estimated_tokens, schema, tokens_upto},
    described_tool::DescribedTool,
    examples::{Example, examples},
    render,
    signature::signature,
};
use crate::{
    conversation::{CallOutput, Conversation, Tool, ToolChoice, Turn},
    tools::{Budget, MAX_FOLLOWED},
    wire::json::Encoder,
};

const TEMPLATE: &str = "\
You can call these tools{{list_note}}

{{tools}}
{{prefix_note}}
To call a tool, write {{words}}, as in these examples:

{{examples}}

{{rules}}";

const TEMPLATE_WITHOUT_EXAMPLES: &str = "\
You can call these tools{{list_note}}

{{tools}}
{{prefix_note}}
To call a tool, write {{words}}.

{{rules}}";

/// The template for instructions whose examples are separate turns.
const TEMPLATE_WITH_TURNS: &str = "\
You can call these tools{{list_note}}

{{tools}}
{{prefix_note}}
To call a tool, write {{words}}. The first messages are examples.

{{rules}}";

pub(super) struct Prompt {
    pub(super) instructions: String,
    pub(super) example_turns: Vec<Turn>,
    /// The number of calls in these turns.
    pub(super) example_calls: usize,
    /// The names of the tools that did not fit.
    pub(super) left_out: Vec<String>,
}

/// Writes the instructions. `None` if no tool may be called.
///
/// All declared tools are described, including those that `tool_choice` does not allow in this request, so
/// that the next request can share the prompt's prefix.
pub(super) fn prompt(conversation: &Conversation, teach: &Teach, teaching: &Teaching) -> Option<Prompt> {
    conversation.callable_tools().next()?;
    if let Some(text) = &teaching.text {
        return Some(Prompt {
            instructions: text.clone(),
            example_turns: Vec::new(),
            example_calls: 0,
            left_out: Vec::new(),
        });
    }
    let left = Budget::new(MAX_FOLLOWED);
    let tools: Vec<_> = conversation.tools.iter().map(|tool| DescribedTool::new(tool, &left)).collect();
    let tools: Vec<&DescribedTool<'_>> = tools.iter().collect();
    let parts = Parts { conversation, teach, teaching, left: &left };
    let Some(limit) = teaching.max_instructions else {
        return Some(parts.prompt(&tools, Detail::Whole, &[]));
    };
    for &detail in Detail::VARIANTS {
        let prompt = parts.prompt(&tools, detail, &[]);
        if prompt.fits(limit) {
            return Some(prompt);
        }
    }
    Some(parts.fewer_tools(&tools, limit))
}

impl Prompt {
    fn fits(&self, limit: usize) -> bool {
        let turns = self.example_turns.iter().map(|turn| estimated_tokens(&turn.joined_text()));
        let turns = turns.sum::<usize>();
        turns <= limit && tokens_upto(&self.instructions, limit - turns) <= limit - turns
    }
}

struct Parts<'a> {
    conversation: &'a Conversation,
    teach: &'a Teach,
    teaching: &'a Teaching,
    left: &'a Budget,
}

impl Parts<'_> {
    /// Describes as many tools as fit, as briefly as possible: first the tools named by the tool choice, then
    /// all other tools in the order of their declaration. At least one tool is described.
    fn fewer_tools(&self, tools: &[&DescribedTool<'_>], limit: usize) -> Prompt {
        let named: HashSet<&str> = match &self.conversation.tool_choice {
            ToolChoice::Named(name) => HashSet::from([name.as_str()]),
            ToolChoice::Allowed { names, .. } => names.iter().map(String::as_str).collect(),
            _ => HashSet::new(),
        };
        let is_named =
            |at: &usize| tools.get(*at).is_some_and(|tool| named.contains(tool.tool.name.as_str()));
        let mut order: Vec<usize> = (0..tools.len()).collect();
        order.sort_by_cached_key(|at| !is_named(at));
        let mut ranks = vec![0; tools.len()];
        for (rank, &at) in order.iter().enumerate() {
            ranks.get_mut(at).into_iter().for_each(|place| *place = rank);
        }
        let prompt = |count: usize| {
            let (mut shown, mut left) = (Vec::new(), Vec::new());
            for (tool, rank) in tools.iter().zip(&ranks) {
                if *rank < count { shown.push(*tool) } else { left.push(*tool) }
            }
            self.prompt(&shown, Detail::Names, &left)
        };
        // Rendering takes time proportional to the size of the tools, so find the largest number by
        // bisection.
        let (mut fits, mut too_many) = (1, tools.len());
        while fits + 1 < too_many {
            let middle = fits.midpoint(too_many);
            if prompt(middle).fits(limit) { fits = middle } else { too_many = middle }
        }
        prompt(fits)
    }

    fn prompt(
        &self,
        tools: &[&DescribedTool<'_>],
        detail: Detail,
        left_out: &[&DescribedTool<'_>],
    ) -> Prompt {
        self.left.renew(MAX_FOLLOWED);
        let Teaching { prefix, template, signatures, .. } = self.teaching;
        // A template from the configuration may say that the tools are JSON.
        let signatures = *signatures && template.is_empty();
        let form = &self.teach.form;
        let parallel = self.conversation.parallel_calls;
        let shown = examples(form, tools, prefix, self.teaching.examples, parallel);
        let first = || examples(form, tools, prefix, 1, false);
        let as_turns = self.teaching.example_turns && template.is_empty();
        let result = CallOutput {
            id: "call_1".to_owned(),
            name: format!("{prefix}{}", tools.first().map_or("tool_name", |first| first.tool.name.as_str())),
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
                "signatures" => lines(tools.iter().map(|tool| line(tool, prefix, detail, true))),
                "tools" => lines(tools.iter().map(|tool| line(tool, prefix, detail, signatures))),
                "example" => lines(first().into_iter().map(|example| example.calls)),
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
        let shown = if as_turns { shown } else { Vec::new() };
        let example_calls = shown.iter().map(|example| example.count).sum();
        let example_turns = shown.into_iter().flat_map(Example::turns).collect();
        let left_out = left_out.iter().map(|left| left.tool.name.clone()).collect();
        Prompt { instructions, example_turns, example_calls, left_out }
    }

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

/// A tool on one line. The shortest description is cached, because it is needed for each number of tools that
/// is tried.
fn line(described: &DescribedTool<'_>, prefix: &str, detail: Detail, is_signature: bool) -> String {
    let write = || match is_signature {
        true => signature(described, prefix, detail),
        false => declaration(described, prefix, detail),
    };
    if detail == Detail::Names { described.shortest(is_signature, write) } else { write() }
}

fn declaration(described: &DescribedTool<'_>, prefix: &str, detail: Detail) -> String {
    let Tool { name, description, parameters, .. } = described.tool;
    let mut json = Encoder::default();
    json.object(|json| {
        json.key("name").string(&format!("{prefix}{name}"));
        json.key("description").string(&detail.of_tool(description));
        let json = json.key("parameters");
        match parameters {
            Some(_) => schema(described.references(), detail, json),
            None => json.object(|json| {
                json.key("type").string("object");
                json.key("properties").object(|_| {});
            }),
        }
    });
    json.finish_text()
}
