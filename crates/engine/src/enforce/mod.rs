//! [`constrain`]: chooses a constraint with which the upstream's server enforces well-formed calls.
//!
//! ```text
//! tools, tool_choice ─▶ what is required ─▶ what the server can enforce ─▶ Constraint (schema, tags, grammar, prefill)
//! ```
//!
//! A constraint does not tell the model what to write, so it is used together with descriptions of the tools
//! in the prompt. Servers may silently ignore constraints. Responses are therefore read as usual, and no code
//! relies on a constraint (docs/protocols/enforcement.md#servers-fail-open).

mod grammar;
mod notation;
mod schema;

pub use self::schema::Subset;
use self::{
    notation::Notation,
    schema::{Fitted, MAX_SIZE},
};
use crate::{
    conversation::{Constraint, Conversation, Gbnf, Role, StructuralTags, Tag, Tool},
    format::{self, Format},
    rules::Enforce,
};

/// The constraints that a server can enforce.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Means {
    /// The schemas that can be enforced for complete responses, if any.
    pub schema: Option<Subset>,
    /// Whether structural tags can be enforced.
    pub tags: bool,
    /// Whether grammars can be enforced for complete responses. Such a grammar may also allow text.
    pub grammar: bool,
    /// Whether the server continues an assistant turn that the request starts.
    pub prefill: bool,
}

/// The constraint for one request.
#[derive(Debug, Clone)]
pub struct Enforced {
    /// The constraint.
    pub constraint: Constraint,
    /// The format in which calls are written under the constraint. It must be used to describe the tools and
    /// to detect calls.
    pub format: &'static Format,
}

/// Chooses the constraint for `conversation`, whose tools are described in `format` with `prefix` before
/// their names. `None` if the server cannot enforce a suitable one.
///
/// - If a call is required: a structural tag or a grammar in the notation of `format`, provided that it
///   writes arguments as JSON; or else a schema for a single JSON object ([`format::BARE`]).
/// - If a call is required and the server supports none of these: a prefill with the text that all allowed
///   calls start with.
/// - If the model may answer in text, or with [`Enforce::Calls`]: a structural tag or a grammar that leaves text
///   free up to the beginning of a call, provided that the format has a marker for it.
#[must_use]
pub fn constrain(
    conversation: &Conversation,
    format: &'static Format,
    prefix: &str,
    enforce: Enforce,
    means: &Means,
) -> Option<Enforced> {
    if *means == Means::default() || !enforce.uses_means() {
        return None;
    }
    let tools: Vec<&Tool> = conversation.callable_tools().collect();
    if tools.is_empty() {
        return None;
    }
    let ends_with_assistant = conversation.turns.last().is_some_and(|turn| turn.role == Role::Assistant);
    let request = Request {
        tools,
        prefix,
        format,
        required: enforce != Enforce::Calls && conversation.tool_choice.requires_call(),
        only_one: !conversation.parallel_calls,
        means,
        can_begin_turn: !ends_with_assistant,
    };
    match enforce {
        Enforce::Off | Enforce::Retry => None,
        Enforce::Schema => request.schema(),
        Enforce::StructuralTag => request.tags(),
        Enforce::Grammar => request.grammar(),
        Enforce::Calls => request.tags().or_else(|| request.grammar()),
        Enforce::Prefill => request.prefill(),
        Enforce::Auto => request
            .tags()
            .or_else(|| request.schema())
            .or_else(|| request.grammar())
            .or_else(|| request.prefill()),
    }
}

/// What a request requires and what its server can enforce.
struct Request<'a> {
    /// The tools that may be called. Never empty.
    tools: Vec<&'a Tool>,
    prefix: &'a str,
    format: &'static Format,
    required: bool,
    only_one: bool,
    means: &'a Means,
    /// Whether the client has left the start of the assistant's turn to toolwire.
    can_begin_turn: bool,
}

impl Request<'_> {
    fn name(&self, tool: &Tool) -> String {
        format!("{}{}", self.prefix, tool.name)
    }

    fn notation(&self) -> Option<(&'static Format, Notation)> {
        let formats = [self.format, &format::BARE];
        formats.into_iter().find_map(|format| Some((format, Notation::of(format)?)))
    }

    /// Constrains the complete response to a single call, which is a JSON object.
    fn schema(&self) -> Option<Enforced> {
        let subset = self.means.schema.filter(|_| self.required)?;
        let mut left = MAX_SIZE;
        let mut calls = Vec::new();
        for tool in &self.tools {
            calls.push((self.name(tool), Fitted::arguments(tool, subset, &mut left)?));
        }
        let schema = schema::any_call(&calls, subset)?;
        Some(Enforced { constraint: Constraint::Schema(schema), format: &format::BARE })
    }

    /// The text that is followed by nothing but the rest of a call. If the model may answer in text and no tool is
    /// strict, that is as much as possible, so that the model can write about calls.
    fn trigger(&self, notation: &Notation) -> Option<String> {
        let is_strict = |tool: &&Tool| tool.strict == Some(true);
        match self.required || self.tools.iter().any(is_strict) {
            true => notation.trigger(),
            false => notation.opening(),
        }
    }

    /// Constrains calls between the format's markers.
    fn tags(&self) -> Option<Enforced> {
        if !self.means.tags {
            return None;
        }
        let notation = Notation::of(self.format)?;
        let trigger = self.trigger(&notation)?;
        let subset = self.means.schema.unwrap_or(Subset::PORTABLE);
        let mut left = MAX_SIZE;
        let tag = |tool: &&Tool| {
            let schema = Fitted::arguments(tool, subset, &mut left)?.into_value();
            let (begin, end) = notation.alone(&self.name(tool));
            Some(Tag { begin, schema, end })
        };
        let tags: Option<Vec<Tag>> = self.tools.iter().map(tag).collect();
        let tags = StructuralTags {
            triggers: vec![trigger],
            tags: tags?,
            at_least_one: self.required,
            only_one: self.only_one,
        };
        Some(Enforced { constraint: Constraint::Tags(tags), format: self.format })
    }

    /// Constrains the complete response to calls in the format's notation, or to text with such calls.
    fn grammar(&self) -> Option<Enforced> {
        if !self.means.grammar {
            return None;
        }
        let (format, notation) = match self.required {
            true => self.notation()?,
            false => (self.format, Notation::of(self.format)?),
        };
        let mut left = MAX_SIZE;
        let mut calls = Vec::new();
        for tool in &self.tools {
            calls.push((
                notation.call(&self.name(tool)),
                Fitted::arguments(tool, Subset::GRAMMAR, &mut left)?,
            ));
        }
        let rules = match self.required {
            true => grammar::of_calls(&notation, &calls, self.only_one)?,
            false => grammar::of_text(&notation, &self.trigger(&notation)?, &calls, self.only_one)?,
        };
        let constraint = Constraint::Grammar(Gbnf { rules, allows_text: !self.required });
        Some(Enforced { constraint, format })
    }

    /// Starts the response with the text that all allowed calls have in common.
    fn prefill(&self) -> Option<Enforced> {
        if !(self.means.prefill && self.required && self.can_begin_turn) {
            return None;
        }
        let (format, notation) = self.notation()?;
        let mut begins = self.tools.iter().map(|tool| notation.alone(&self.name(tool)).0);
        let mut common = begins.next()?;
        for begin in begins {
            common.truncate(notation::common_prefix(&common, &begin));
        }
        // The prefill must end at a token boundary: models write a quotation mark and the text after it, or a
        // space and the next word, as a single token (docs/protocols/enforcement.md#prefill).
        common.truncate(common.trim_end_matches([' ', '"']).len());
        (!common.is_empty()).then_some(Enforced { constraint: Constraint::Prefill(common), format })
    }
}

#[cfg(test)]
mod tests;
