//! Which tools a model is shown when a response begins.

use std::{
    cell::OnceCell,
    collections::{HashMap, HashSet},
};

use super::LIKELY;
use toolwire_pipeline::{
    conversation::{Conversation, Part, Role, Tool, ToolChoice, Turn},
    dialect::loaded_tools,
    tools::ToolIndex,
    wire::text::{boundary_upto, head, tail},
};

/// The most tools that each later message of the user adds.
const LIKELY_LATER: usize = 4;

/// The most later messages of the user that are compared with the tools, so that the work does not grow with the product of
/// messages and tools. The model can search for more.
const MAX_LATER: usize = 16;

/// The most bytes at each end of a text that are compared with the tools.
const MAX_TEXT: usize = 4 << 10;

/// The places of tools, in the order in which they are shown.
pub(super) struct Selection {
    places: Vec<usize>,
    known: HashSet<usize>,
}

impl Selection {
    fn new(first: Vec<usize>) -> Self {
        Self { known: first.iter().copied().collect(), places: first }
    }

    fn add(&mut self, place: usize) {
        if self.known.insert(place) {
            self.places.push(place);
        }
    }

    /// The tools that fit the user's words: many for the first message, and a few more for each later one. Tools that the
    /// history has called come in between, where it called them.
    pub(super) fn of_words(conversation: &Conversation, index: &ToolIndex) -> Self {
        let places = Places::new(conversation);
        let asked = conversation.turns.iter().find(|turn| turn.role == Role::User);
        // The first message alone determines the beginning of the list, which therefore never changes.
        let mut first = index.best(&asked.map(words).unwrap_or_default(), LIKELY, |_| true);
        first.sort_unstable();
        let mut selection = Self::new(first);
        let mut messages = 0;
        for turn in &conversation.turns {
            match turn.role {
                Role::User => {
                    if (1..=MAX_LATER).contains(&messages) {
                        let best = index.best(&words(turn), LIKELY_LATER, |_| true);
                        best.into_iter().for_each(|place| selection.add(place));
                    }
                    messages += 1;
                }
                Role::Assistant => selection.add_called(turn, &places),
                _ => {}
            }
        }
        selection.add_named(conversation, &places);
        selection
    }

    /// The tools that are not deferred, and those that the history has called.
    pub(super) fn of_eager(conversation: &Conversation) -> Self {
        let deferred: HashSet<&str> = conversation.deferral.deferred.iter().map(String::as_str).collect();
        let eager = conversation.tools.iter().enumerate();
        let eager = eager.filter(|(_, tool)| !deferred.contains(tool.name.as_str())).map(|(place, _)| place);
        let mut selection = Self::new(eager.collect());
        let places = Places::new(conversation);
        for turn in conversation.turns.iter().filter(|turn| turn.role == Role::Assistant) {
            selection.add_called(turn, &places);
        }
        selection.add_named(conversation, &places);
        selection
    }

    fn add_called(&mut self, turn: &Turn, places: &Places<'_>) {
        for part in &turn.parts {
            if let Part::Call(call) = part
                && let Some(place) = places.of(&call.name)
            {
                self.add(place);
            }
        }
    }

    /// Adds the tools that searches in the history have found, and those that the tool choice names.
    fn add_named(&mut self, conversation: &Conversation, places: &Places<'_>) {
        let chosen: &[String] = match &conversation.tool_choice {
            ToolChoice::Named(name) => std::slice::from_ref(name),
            ToolChoice::Allowed { names, .. } => names,
            ToolChoice::Auto | ToolChoice::None | ToolChoice::Required => &[],
        };
        for name in loaded_tools(conversation).iter().chain(chosen) {
            if let Some(place) = places.of(name) {
                self.add(place);
            }
        }
    }

    /// The names of the tools, in order.
    pub(super) fn names(self, conversation: &Conversation) -> Vec<String> {
        let name = |place: usize| Some(conversation.tools.get(place)?.name.clone());
        self.places.into_iter().filter_map(name).collect()
    }
}

/// The places of the tools by name, which many requests do not need.
struct Places<'c> {
    tools: &'c [Tool],
    known: OnceCell<HashMap<&'c str, usize>>,
}

impl<'c> Places<'c> {
    fn new(conversation: &'c Conversation) -> Self {
        Self { tools: &conversation.tools, known: OnceCell::new() }
    }

    fn of(&self, name: &str) -> Option<usize> {
        let names = || self.tools.iter().map(|tool| tool.name.as_str());
        self.known.get_or_init(|| names().zip(0..).collect()).get(name).copied()
    }
}

/// The words of a message. Of a long one, those at its ends, where the request is, if it includes a document.
fn words(turn: &Turn) -> String {
    let text = turn.joined_text();
    if text.len() <= 2 * MAX_TEXT {
        return text;
    }
    let end = tail(&text, boundary_upto(&text, text.len() - MAX_TEXT));
    format!("{}\n{end}", head(&text, boundary_upto(&text, MAX_TEXT)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_messages_are_not_compared_with_the_tools() {
        let tools: Vec<_> = (0..100).map(|number| Tool::named(format!("tool_{number}"))).collect();
        let index = ToolIndex::new(&tools);
        let turns = (0..40).map(|number| Turn::text(Role::User, number.to_string())).collect();
        let conversation = Conversation { tools, turns, ..Conversation::default() };
        let expected: Vec<_> = (0..=MAX_LATER).map(|number| format!("tool_{number}")).collect();
        assert_eq!(Selection::of_words(&conversation, &index).names(&conversation), expected);
    }
}
