//! Tools that the model is not shown at once.
//!
//! A request may declare more tools than a model can be taught. The model is then shown some of them, and a tool that
//! searches the others. All of them stay declared: a call to a tool that was not shown is a call like any other.

use std::{borrow::Cow, collections::HashMap, mem};

use super::{Conversation, Tool};

/// Which tools of a request the model is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deferral {
    /// The names of the tools that a search finds, if the client declares a search that the server runs.
    pub deferred: Vec<String>,
    /// The names of the tools that search other tools and that toolwire runs. They are also hosted tools.
    pub searches: Vec<String>,
    /// The names of the tools that the model is shown, in this order. `None` means all.
    pub shown: Option<Vec<String>>,
}

/// Precedes the name of a tool in the result of a search.
const LOADED: &str = "Loaded: ";

/// The line in the result of a search that names a tool that it found.
pub fn loaded_line(name: &str) -> String {
    format!("{LOADED}{name}")
}

/// The names of the tools in the result of a search.
pub fn loaded_in(result: &str) -> impl Iterator<Item = &str> {
    result.lines().filter_map(|line| line.strip_prefix(LOADED))
}

impl Conversation {
    /// The conversation with only the tools that the model is shown. `named` is this conversation, whose tools may have
    /// other names.
    pub fn with_shown_tools<'c>(&self, named: Cow<'c, Self>) -> Cow<'c, Self> {
        let Some(shown) = &self.deferral.shown else { return named };
        let places: HashMap<&str, usize> = shown.iter().map(String::as_str).zip(0..).collect();
        let places = self.tools.iter().map(|tool| places.get(tool.name.as_str()));
        let mut tools: Vec<(usize, Tool)> = Vec::with_capacity(shown.len());
        let conversation = match named {
            Cow::Borrowed(named) => {
                let found =
                    places.zip(&named.tools).filter_map(|(place, tool)| Some((*place?, tool.clone())));
                tools.extend(found);
                named.without_tools()
            }
            Cow::Owned(mut named) => {
                let all = mem::take(&mut named.tools);
                tools.extend(places.zip(all).filter_map(|(place, tool)| Some((*place?, tool))));
                named
            }
        };
        tools.sort_by_key(|(place, _)| *place);
        let tools = tools.into_iter().map(|(_, tool)| tool).collect();
        Cow::Owned(Self { tools, ..conversation })
    }

    /// A copy without the tools, of which there may be thousands.
    fn without_tools(&self) -> Self {
        let Self {
            model,
            turns,
            is_prompt,
            tools: _,
            late_tools,
            custom_tools,
            namespaced,
            built_in,
            hosted_tools,
            mcp,
            server_tools,
            server_choice,
            deferral,
            tool_choice,
            parallel_calls,
            choices,
            stream,
            include_usage,
            legacy_functions,
            sampling,
            constraint,
            stored,
            compaction,
            repeated,
            rest,
        } = self;
        Self {
            model: model.clone(),
            turns: turns.clone(),
            is_prompt: *is_prompt,
            tools: Vec::new(),
            late_tools: late_tools.clone(),
            custom_tools: custom_tools.clone(),
            namespaced: namespaced.clone(),
            built_in: built_in.clone(),
            hosted_tools: hosted_tools.clone(),
            mcp: mcp.clone(),
            server_tools: server_tools.clone(),
            server_choice: server_choice.clone(),
            deferral: deferral.clone(),
            tool_choice: tool_choice.clone(),
            parallel_calls: *parallel_calls,
            choices: *choices,
            stream: *stream,
            include_usage: *include_usage,
            legacy_functions: *legacy_functions,
            sampling: sampling.clone(),
            constraint: constraint.clone(),
            stored: *stored,
            compaction: compaction.clone(),
            repeated: repeated.clone(),
            rest: rest.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::{IdForm, NameForm};

    #[test]
    fn shown_tools_have_the_names_that_all_tools_would_give_them() {
        let tools = ["a_b", "c", "a.b", "d"].map(Tool::named).to_vec();
        let mut asked = Conversation { tools, ..Conversation::default() };
        let names = |asked: &Conversation| -> Vec<String> {
            let named = asked.in_forms(NameForm::Word, IdForm::Any);
            asked.with_shown_tools(named).tools.iter().map(|tool| tool.name.clone()).collect()
        };
        let all = names(&asked);
        asked.deferral.shown = Some(["d", "a.b", "unknown"].map(str::to_owned).to_vec());
        assert_eq!(names(&asked), [all[3].clone(), all[2].clone()]);
        assert_ne!(all[2], "a_b");
        asked.deferral.shown = Some(vec!["c".to_owned()]);
        assert_eq!(names(&asked), ["c"]);
    }

    #[test]
    fn copy_without_tools_has_all_else() {
        let asked = Conversation {
            model: "m".to_owned(),
            tools: vec![Tool::named("a")],
            hosted_tools: vec!["a".to_owned()],
            parallel_calls: true,
            stream: true,
            ..Conversation::default()
        };
        assert_eq!(asked.without_tools(), Conversation { tools: Vec::new(), ..asked });
    }

    #[test]
    fn results_name_the_tools_that_they_load() {
        let text = [loaded_line("a b"), "No more.".to_owned(), loaded_line("c")].join("\n");
        assert_eq!(loaded_in(&text).collect::<Vec<_>>(), ["a b", "c"]);
    }
}
