//! Finds the markup of calls and results in the text of a response.

use std::sync::LazyLock;

use toolwire_pipeline::format::{self, Format, Grammar, TagKind};

/// Maximum size of a tag, in bytes.
const MAX_TAG: usize = 48;

/// Number of bytes to examine after a tool's name.
const MAX_LOOK: usize = 200;

/// Words in the tags of calls.
const CALL_WORDS: [&str; 7] =
    ["tool_call", "toolcall", "tool▁call", "function_call", "function=", "invoke name", "tool_calls"];

/// Words in the tags of results.
const RESULT_WORDS: [&str; 7] = [
    "tool_response",
    "tool_result",
    "tool_output",
    "tool▁output",
    "function_response",
    "function_result",
    "function_output",
];

/// Maximum size of a quotation, in bytes.
const QUOTED: usize = 60;

/// The markers that open calls in some format and do not occur in ordinary text.
static OPENERS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let openers = format::ALL.iter().filter(|format| is_distinct(format)).flat_map(|format| format.openers());
    let is_marker = |opener: &&str| opener.len() > 6 && opener.starts_with(['<', '[']);
    let mut openers: Vec<_> = openers.map(str::trim_end).filter(is_marker).collect();
    openers.sort_unstable();
    openers.dedup();
    openers
});

/// The prefixes of results, as written by the formats that show results to models.
static RESULTS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let forms = format::ALL.iter().filter_map(|format| Some(format.teach?.form.result));
    let begins = forms.filter_map(|result| result.split("{{").next()).map(str::trim_end);
    // A shorter prefix, such as a bare fence, may also start other content.
    let mut begins: Vec<_> = begins.filter(|begin| begin.len() > 6).collect();
    begins.sort_unstable();
    begins.dedup();
    begins
});

/// Whether the format's openers do not occur in ordinary text.
fn is_distinct(format: &Format) -> bool {
    format.grammars.iter().all(|grammar| match grammar {
        Grammar::Tagged(tags) => tags.iter().all(|tag| tag.kind != TagKind::Html && !tag.special().common),
        _ => true,
    })
}

/// The text of a response, the content of the conversation, and the names of the offered tools.
pub(super) struct Text<'a> {
    pub(super) text: &'a str,
    pub(super) said: &'a str,
    pub(super) names: &'a [&'a str],
}

/// How a text mentions a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mention {
    /// As a call.
    Call,
    /// As a declaration, such as in the list of tools.
    Declaration,
    /// Within a sentence.
    Prose,
}

impl Text<'_> {
    /// Finds the markup of a call, and quotes it.
    pub(super) fn leak(&self) -> Option<String> {
        let tag = self.tag(&CALL_WORDS);
        let opener = || {
            let unsaid = |opener: &&&str| !self.said.contains(**opener);
            OPENERS.iter().filter(unsaid).find_map(|opener| self.text.find(opener))
        };
        let at = tag.or_else(opener).or_else(|| self.mention(Mention::Call))?;
        Some(format!("the text has markup of a call: {}", self.quoted(at)))
    }

    /// Finds a copy of a result, or of the list of tools, and quotes it.
    pub(super) fn imitation(&self) -> Option<String> {
        if let Some(at) = self.tag(&RESULT_WORDS).or_else(|| self.result()) {
            return Some(format!("the text has markup of a result: {}", self.quoted(at)));
        }
        let at = self.mention(Mention::Declaration)?;
        Some(format!("the text repeats the list of tools: {}", self.quoted(at)))
    }

    /// Returns the position of a tag that contains one of `words` and does not occur in the conversation.
    fn tag(&self, words: &[&str]) -> Option<usize> {
        self.text.char_indices().filter(|(_, open)| matches!(open, '<' | '[')).find_map(|(at, open)| {
            let rest = self.text.get(at..)?;
            let close = if open == '<' { '>' } else { ']' };
            let rest = rest.get(..rest.floor_char_boundary(MAX_TAG)).unwrap_or(rest);
            let inside = rest.get(1..)?;
            let end = inside.find([close, '<', '[', '\n', ' ']).unwrap_or(inside.len());
            // `invoke` may be followed by an attribute: `<invoke name=`.
            let tag = match inside.get(..end)? {
                "invoke" => inside.get(..inside.floor_char_boundary(11))?,
                tag => tag,
            };
            let lower = tag.to_ascii_lowercase();
            let has_word = words.iter().any(|word| lower.contains(word));
            (has_word && !self.said.contains(tag)).then_some(at)
        })
    }

    /// Returns the position of a line that begins like a result.
    fn result(&self) -> Option<usize> {
        let begins = RESULTS.iter().filter(|begin| !self.said.contains(**begin));
        let places = begins.flat_map(|begin| self.text.match_indices(begin).map(|(at, _)| at));
        let is_at_line_start = |at: &usize| {
            self.text.get(..*at).is_some_and(|before| before.is_empty() || before.ends_with('\n'))
        };
        places.filter(is_at_line_start).min()
    }

    /// Returns the position of the first mention of a tool of the kind `wanted`.
    fn mention(&self, wanted: Mention) -> Option<usize> {
        let found = self.names.iter().flat_map(|name| self.text.match_indices(name));
        let found = found.filter(|(at, name)| self.kind(*at, name) == wanted);
        found.map(|(at, _)| at).min()
    }

    fn kind(&self, at: usize, name: &str) -> Mention {
        let (before, rest) = self.text.split_at_checked(at).unwrap_or_default();
        let behind = rest.get(name.len()..).unwrap_or_default();
        let joins = |next: Option<char>| next.is_some_and(|next| next.is_alphanumeric() || next == '_');
        // A `user:` prefix is part of the name.
        let before = before.strip_suffix("user:").unwrap_or(before);
        if joins(behind.chars().next()) || joins(before.chars().next_back()) {
            return Mention::Prose;
        }
        if let Some(arguments) = behind.strip_prefix('(') {
            // A program that defines a function of that name.
            let is_defined = ["def ", "function ", "func ", "fn "].iter().any(|word| before.ends_with(word));
            return if is_defined { Mention::Prose } else { in_parentheses(arguments) };
        }
        if let (Some(before), Some(behind)) = (before.strip_suffix('"'), behind.strip_prefix('"')) {
            return in_json(before.trim_end(), behind.trim_start());
        }
        let is_tag = before.ends_with(['<', '=']) && behind.starts_with(['>', ' ', '\n']);
        let is_action =
            ["Action:", "action:", "ACTION:"].iter().any(|word| before.trim_end().ends_with(word));
        if is_tag || is_action { Mention::Call } else { Mention::Prose }
    }

    fn quoted(&self, at: usize) -> String {
        let rest = self.text.get(at..).unwrap_or_default();
        rest.chars().take(QUOTED).collect()
    }
}

/// Classifies `name(` by the text that follows: a call, a signature, or ordinary parentheses.
fn in_parentheses(arguments: &str) -> Mention {
    let arguments = arguments.get(..arguments.floor_char_boundary(MAX_LOOK)).unwrap_or(arguments);
    let inside = arguments.split([')', '\n']).next().unwrap_or_default().trim_start();
    if inside.is_empty() {
        return Mention::Prose;
    }
    let value = inside.split_once(':').map(|(key, value)| (key.trim_end_matches('?'), value.trim_start()));
    let types = ["string", "number", "integer", "boolean", "object", "array", "{"];
    match value {
        Some((key, value)) if is_word(key) && types.iter().any(|kind| value.starts_with(kind)) => {
            Mention::Declaration
        }
        // An enumeration: `unit?: "celsius" | "fahrenheit"`.
        Some((key, value))
            if is_word(key) && value.split(',').next().is_some_and(|first| first.contains('|')) =>
        {
            Mention::Declaration
        }
        _ => Mention::Call,
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|char| char.is_alphanumeric() || char == '_')
}

/// Classifies a name in quotes by the text around it.
fn in_json(before: &str, behind: &str) -> Mention {
    let key = before.strip_suffix(':').map(str::trim_end).and_then(|before| before.strip_suffix('"'));
    let is_name = key.is_some_and(|key| {
        ["\"name", "\"tool", "\"tool_name", "\"function", "\"action", "\"recipient_name"]
            .iter()
            .any(|word| key.ends_with(word))
    });
    if !is_name {
        // The name as a key: `{"get_weather": {…}}`.
        let keyed = before.ends_with('{')
            && behind.strip_prefix(':').is_some_and(|rest| rest.trim_start().starts_with('{'));
        return if keyed { Mention::Call } else { Mention::Prose };
    }
    // Classified by the next members: those of a declaration, those of a result, or arguments.
    let next = behind.get(..behind.floor_char_boundary(MAX_LOOK)).unwrap_or(behind);
    let first = |words: &[&str]| words.iter().filter_map(|word| next.find(word)).min().unwrap_or(usize::MAX);
    let schema = first(&["\"description\"", "\"type\""]);
    let arguments = first(&["\"arguments\"", "\"parameters\"", "\"input\""]);
    let result = first(&["\"content\"", "\"result\"", "\"output\""]);
    if schema < arguments.min(result) || schema < usize::MAX && next.contains("\"properties\"") {
        Mention::Declaration
    } else if result < arguments {
        Mention::Prose
    } else {
        Mention::Call
    }
}
