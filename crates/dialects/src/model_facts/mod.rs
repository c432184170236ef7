//! What models and servers refuse, so that it is not sent.
//!
//! [`FACTS`] has what is known, [`ModelFacts`] what of it applies to one model, with the additions of the configuration.
//! They change a conversation before it is encoded, so all dialects use them in the same way. What depends on the form of
//! a dialect is [observed](Observed) by its settings instead.

mod facts;
mod members;
mod names;
mod page;
mod refused;
mod rules;

use std::borrow::Cow;

use self::{
    facts::{FACTS, Fact},
    members::{DISPENSABLE, Given, given},
    names::Name,
    rules::{Change, Rule},
};
pub use self::{page::table as facts_table, refused::refused_member};
use crate::{Dialect, Observed, conversation::Conversation, settings::Settings, thinking::asked_effort};

/// What the configuration says about the members of requests to a model.
#[derive(Debug, Clone, PartialEq, Eq, Settings)]
pub struct MemberSettings {
    /// members of requests that are left out, since the model refuses them, in addition to [those
    /// known](dialects.md): `["top_k", "stop"]`. `"tool_choice"` asks for a required call
    /// [again](#asking-the-model-again) instead
    pub refuses: Vec<String>,
    /// members that are sent although they are among those known, or `["*"]` for all of them
    pub accepts: Vec<String>,
}

/// Members without which a request would not ask for anything.
pub const ESSENTIAL: [&str; 8] =
    ["model", "messages", "input", "instructions", "system", "contents", "tools", "stream"];

/// What one model refuses.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelFacts {
    rules: Vec<Rule>,
    /// Members that the configuration says are refused.
    also: Vec<String>,
}

/// What a request lacks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Adjusted {
    /// The members that were left out or changed.
    pub members: Vec<String>,
    /// Whether the request no longer requires the call that the client requires, so that a response without it must be
    /// asked for again.
    pub lacks_forced_call: bool,
}

impl ModelFacts {
    /// What is known about the model that servers of `provider` have under this name, with the additions in `settings`.
    pub fn new(model: &str, provider: &str, settings: &MemberSettings) -> Self {
        let name = Name::new(model);
        let accepts = |member: &str| settings.accepts.iter().any(|name| name == member || name == "*");
        let is_about =
            |fact: &&Fact| (fact.at.is_empty() || fact.at.contains(&provider)) && fact.is_about(&name);
        let rules = FACTS.iter().filter(is_about).flat_map(|fact| fact.rules);
        let mut rules: Vec<Rule> = rules.filter(|rule| !accepts(rule.member())).copied().collect();
        let (choice, also) =
            settings.refuses.iter().cloned().partition::<Vec<_>, _>(|name| name == "tool_choice");
        if !choice.is_empty() {
            rules.push(Rule::NoForcedCall);
        }
        Self { rules, also }
    }

    /// What a dialect's settings should know.
    pub fn observed(&self) -> Observed {
        let has = |rule: Rule| self.rules.contains(&rule);
        Observed {
            limit_includes_reasoning: has(Rule::LimitIncludesReasoning),
            strict_schemas: has(Rule::StrictSchemas),
            no_thinking_budget: has(Rule::NoThinkingBudget),
            ..Observed::default()
        }
    }

    /// Changes what the model would refuse in the conversation `sent` to an upstream of the dialect `upstream`. `learned`
    /// names further members that it refuses.
    pub fn adjust(
        &self,
        sent: &mut Cow<'_, Conversation>,
        upstream: Dialect,
        learned: &[&'static str],
    ) -> Adjusted {
        let mut adjusted = Adjusted::default();
        if let Some(effort) = asked_effort(sent, upstream).filter(|_| self.may_not_think()) {
            sent.to_mut().sampling.reasoning_effort = Some(effort.to_owned());
        }
        for rule in &self.rules {
            // A request may break a rule in two members.
            for _ in 0..2 {
                let Some(change) = rule.change(sent, upstream) else { break };
                adjusted.add(change, sent);
            }
        }
        let also = self.also.iter().map(String::as_str).chain(learned.iter().copied());
        for member in also {
            if given(sent, member) != Given::Nothing {
                adjusted.add(Change::Without(member), sent);
            }
        }
        adjusted
    }

    /// Whether the model has the effort `none`, which is the default of many such models.
    fn may_not_think(&self) -> bool {
        self.rules.iter().any(|rule| matches!(rule, Rule::Efforts(accepted) if accepted.contains(&"none")))
    }

    /// The members of the request that could be left out without changing what it asks for.
    pub fn dispensable(sent: &Conversation) -> Vec<&'static str> {
        DISPENSABLE.into_iter().filter(|member| given(sent, member) != Given::Nothing).collect()
    }
}

impl Adjusted {
    fn add(&mut self, change: Change<'_>, sent: &mut Cow<'_, Conversation>) {
        if change == Change::FreeChoice {
            self.lacks_forced_call = sent.tool_choice.requires_call();
        }
        let is_new = !self.members.iter().any(|member| member == change.member());
        // Under another name, a member is not lost.
        if is_new && !matches!(change, Change::Renamed(..)) {
            self.members.push(change.member().to_owned());
        }
        change.make(sent.to_mut());
    }
}

/// Whether the model `name` is known to accept this effort of reasoning.
pub(super) fn takes_effort(name: &str, effort: &str) -> bool {
    let takes = |rule: &Rule| matches!(rule, Rule::Efforts(accepted) if accepted.contains(&effort));
    has_fact(name, |fact| fact.rules.iter().any(takes))
}

/// Whether the chat template of the model `name` rejects system messages other than a single one at the start.
pub(super) fn takes_one_system_message(name: &str) -> bool {
    has_fact(name, |fact| fact.rules.contains(&Rule::OneSystemMessage))
}

fn has_fact(name: &str, is_meant: impl Fn(&Fact) -> bool) -> bool {
    let name = Name::new(name);
    FACTS.iter().any(|fact| is_meant(fact) && fact.is_about(&name))
}
