//! [`Corrections`]: finds wrong calls in a hop, and composes the message that asks the model to make them
//! again.
//!
//! A hop is at fault if a call that `tool_choice` requires is missing, if a tool is not declared, or if
//! arguments violate their schema. If `enforce`, `unknown_calls` or `invalid_arguments` is `"retry"`, the
//! model is asked again; faults that remain in the last hop become warnings in the response.

use std::borrow::Cow;

use super::hops::{FollowUp, Reason};
use crate::{
    conversation::Conversation,
    event::{CallEnd, Warning},
    rules::{Enforce, InvalidArguments, Rules, UnknownCalls},
    tools::{self, DeclaredTools},
    wire::{
        json::Raw,
        text::{boundary_upto, head},
    },
};

/// Maximum bytes of a call's name and of its arguments that are repeated to the model.
const REPEATED: usize = 4 << 10;

pub(super) const UNFULFILLED: &str = "tool_choice_unfulfilled";

const LISTED: usize = 32;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Fault {
    Unknown { name: String },
    Invalid { name: String, arguments: String, why: String },
}

#[derive(Debug)]
pub(super) struct Corrections {
    /// The model must call at least one of the tools with these names. Empty if no call is required.
    required: Vec<String>,
    retries_missing: bool,
    retries_unknown: bool,
    schemas: Option<Vec<(String, Option<Raw>)>>,
    /// Whether a declared tool was called, even if the call is not complete yet.
    is_fulfilled: bool,
    /// Whether a call to a declared tool is complete.
    has_complete_call: bool,
    faults: Vec<Fault>,
    /// The tools that were called without a fault, if the model may be asked again because of others.
    valid: Vec<String>,
}

const MAX_FAULTS: usize = 8;

impl Corrections {
    pub(super) fn new(conversation: &Conversation, tools: &DeclaredTools, rules: &Rules) -> Self {
        let is_checked = !tools.is_empty() && conversation.choices.unwrap_or(1) <= 1;
        let is_required = conversation.tool_choice.requires_call();
        let names = || conversation.callable_tools().map(|tool| tool.name.clone());
        let schemas = || {
            let tools = conversation.callable_tools();
            tools.map(|tool| (tool.name.clone(), tool.parameters.clone())).collect()
        };
        let retries = is_checked && rules.may_follow_up();
        Self {
            required: if is_checked && is_required { names().collect() } else { Vec::new() },
            retries_missing: retries && is_required && rules.enforce == Enforce::Retry,
            retries_unknown: retries && rules.unknown_calls == UnknownCalls::Retry,
            schemas: (retries && rules.invalid_arguments == InvalidArguments::Retry).then(schemas),
            is_fulfilled: false,
            has_complete_call: false,
            faults: Vec::new(),
            valid: Vec::new(),
        }
    }

    /// Whether the model is asked again if a required call is missing.
    pub(super) fn retries_missing(&self) -> bool {
        self.retries_missing
    }

    pub(super) fn retries_calls(&self) -> bool {
        self.retries_unknown || self.checks_arguments()
    }

    pub(super) fn checks_arguments(&self) -> bool {
        self.schemas.is_some()
    }

    /// Whether this hop can no longer lead to a retry.
    pub(super) fn is_settled(&self) -> bool {
        self.is_fulfilled && !self.retries_calls()
    }

    pub(super) fn next_hop(&mut self) {
        (self.is_fulfilled, self.has_complete_call) = (false, false);
        self.faults.clear();
        self.valid.clear();
    }

    /// Records that a required call has been made, so that later hops need not contain one.
    pub(super) fn waive_required(&mut self) {
        (self.required, self.retries_missing) = (Vec::new(), false);
    }

    pub(super) fn begins(&mut self, written: &str, is_declared: bool) {
        if is_declared {
            self.is_fulfilled = true;
        } else if self.retries_unknown {
            self.fault(Fault::Unknown { name: repeated(written) });
        }
    }

    /// Checks a call when it ends.
    pub(super) fn ends(&mut self, name: &str, arguments: &str, end: CallEnd) {
        let schema = self.schemas.iter().flatten().find(|(known, _)| known == name);
        let why = match (schema, end) {
            (Some((_, schema)), CallEnd::Complete) => {
                tools::arguments_fault(schema.as_ref().map(|schema| schema.view().raw()), arguments)
            }
            (None, CallEnd::Complete) => None,
            (Some(_), CallEnd::Broken) => Some("they are not valid JSON".to_owned()),
            (Some(_), CallEnd::Cut) => Some("they end too early and are not valid JSON".to_owned()),
            (None, CallEnd::Broken | CallEnd::Cut) => return,
        };
        match why {
            Some(why) => {
                if end == CallEnd::Complete {
                    self.completes();
                }
                self.fault(Fault::Invalid { name: name.to_owned(), arguments: repeated(arguments), why });
            }
            None => self.is_valid(name),
        }
    }

    /// Records that a call to a declared tool is complete.
    pub(super) fn completes(&mut self) {
        self.has_complete_call = true;
    }

    /// The tools that were called without a fault.
    pub(super) fn valid(&self) -> &[String] {
        &self.valid
    }

    /// Records a complete call without a fault.
    pub(super) fn is_valid(&mut self, name: &str) {
        self.completes();
        if self.retries_calls() && !self.valid.iter().any(|known| known == name) {
            self.valid.push(name.to_owned());
        }
    }

    fn fault(&mut self, fault: Fault) {
        if self.faults.len() < MAX_FAULTS && !self.faults.contains(&fault) {
            self.faults.push(fault);
        }
    }

    fn is_unfulfilled(&self) -> bool {
        !self.required.is_empty() && !self.is_fulfilled
    }

    /// Whether a fault was found in a call with this name and these arguments.
    pub(super) fn is_wrong(&self, called: &str, given: &str) -> bool {
        self.faults.iter().any(|fault| match fault {
            Fault::Unknown { name } => *name == repeated(called),
            Fault::Invalid { name, arguments, .. } => name == called && *arguments == repeated(given),
        })
    }

    /// The follow-up request to the model after this hop, in which it wrote `text`. `others` names the valid
    /// calls in this hop; they are not run either, because the next hop replaces this one.
    pub(super) fn follow_up(&self, text: &str, tools: &DeclaredTools, others: &[String]) -> Option<FollowUp> {
        let reason = match self.faults.first() {
            Some(Fault::Unknown { .. }) => Reason::UnknownTool,
            Some(Fault::Invalid { .. }) => Reason::InvalidArguments,
            None if self.is_unfulfilled() && self.retries_missing => Reason::MissingCall,
            None => return None,
        };
        let mut lines: Vec<String> = self.faults.iter().map(|fault| fault.message(tools)).collect();
        if lines.is_empty() {
            let names = one_of(self.required.iter().map(|name| tools.as_taught(name)));
            lines.push(format!(
                "Your answer calls no tool, but a call to {names} is required. Answer with the call alone."
            ));
        }
        if !others.is_empty() {
            let names = listed(others.iter().map(|name| tools.as_taught(name)));
            lines.push(format!(
                "Your calls to {names} were not run either. Make them again if they are still needed."
            ));
        }
        Some(FollowUp::new(reason, text, lines.join("\n")))
    }

    /// The warning that the client received calls to `names` whose arguments are not JSON. `None` if another
    /// warning already covers this.
    pub(super) fn broken_warning(&self, names: &[String]) -> Option<Warning<'static>> {
        let is_told = |name: &&String| {
            self.faults
                .iter()
                .any(|fault| matches!(fault, Fault::Invalid { name: told, .. } if told == *name))
        };
        let names: Vec<_> = names.iter().filter(|name| !is_told(name)).collect();
        if names.is_empty() {
            return None;
        }
        let mut known: Vec<_> = names.into_iter().filter(|name| !name.is_empty()).cloned().collect();
        known.dedup();
        let names =
            if known.is_empty() { "an undeclared tool".to_owned() } else { listed(known.into_iter()) };
        let message =
            format!("the arguments of a call to {names} are not valid JSON, and are passed on as they are");
        Some(Warning { code: INVALID, message: Cow::Owned(message) })
    }

    /// The warnings about this hop. The client receives them if the response ends with this hop.
    pub(super) fn warnings(&self) -> Vec<Warning<'static>> {
        let mut warnings: Vec<_> = self.faults.iter().map(Fault::warning).collect();
        if !self.required.is_empty() && !self.has_complete_call {
            let names = one_of(self.required.iter().cloned());
            let made = if self.is_fulfilled { "did not complete one" } else { "made none" };
            let message = format!("tool_choice requires a call to {names}, and the model {made}");
            warnings.push(Warning { code: UNFULFILLED, message: Cow::Owned(message) });
        }
        warnings
    }
}

const INVALID: &str = "invalid_arguments";

/// The warning that `tools` were left out of the instructions because the instructions would have been too
/// long.
pub(super) fn left_out(tools: &[String]) -> Warning<'static> {
    let names = repeated(&listed(tools.iter().cloned()));
    let message = format!(
        "the model was not told of {names}, since the instructions would be longer than max_instructions"
    );
    Warning { code: "tools_left_out", message: Cow::Owned(message) }
}

impl Fault {
    fn message(&self, tools: &DeclaredTools) -> String {
        match self {
            Self::Unknown { name } => {
                let names: Vec<_> = tools.names().map(|name| tools.as_taught(name)).collect();
                format!(
                    "Your call to the tool `{name}` was not run: there is no such tool, only {}. If you need \
                     one of these, call it. Do not apologise or explain.",
                    listed(names.into_iter())
                )
            }
            Self::Invalid { name, arguments, why } => {
                let name = tools.as_taught(name);
                let given = match arguments.trim() {
                    "" => "without arguments".to_owned(),
                    _ => format!("with the arguments {arguments}"),
                };
                format!(
                    "Your call to the tool `{name}` {given} was not run: {why}. Make the call again with valid \
                     arguments. Do not apologise or explain."
                )
            }
        }
    }

    fn warning(&self) -> Warning<'static> {
        match self {
            Self::Unknown { name } => {
                let message = format!("the model called `{name}`, which is not a declared tool");
                Warning { code: "unknown_tool", message: Cow::Owned(message) }
            }
            Self::Invalid { name, why, .. } => {
                let message = format!("the arguments of a call to `{name}` break its schema: {why}");
                Warning { code: INVALID, message: Cow::Owned(message) }
            }
        }
    }
}

/// The only name, or "one of" and all names.
fn one_of(names: impl ExactSizeIterator<Item = String>) -> String {
    let several = if names.len() > 1 { "one of " } else { "" };
    format!("{several}{}", listed(names))
}

/// The names in backquotes, separated by commas.
fn listed(names: impl ExactSizeIterator<Item = String>) -> String {
    let more = if names.len() > LISTED { ", …" } else { "" };
    let names: Vec<_> = names.take(LISTED).map(|name| format!("`{name}`")).collect();
    format!("{}{more}", names.join(", "))
}

fn repeated(text: &str) -> String {
    head(text, boundary_upto(text, REPEATED)).to_owned()
}
