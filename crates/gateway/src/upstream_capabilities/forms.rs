//! [`LearnedForms`]: the form in which an upstream wants requests, by model. It is learned from responses unless the
//! upstream's settings specify it.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{MAX_MODELS, REMEMBERED};
use toolwire_net::store::Owner;
use toolwire_pipeline::{
    conversation::Thinking,
    dialect::{Observed, ReasoningField},
};

/// Maximum number of starts to remember for a model.
const MAX_STARTS: usize = 64;

/// How many responses in a row must have started otherwise than a known model's responses do.
const OUTWEIGHING: u8 = 3;

/// What was learned, by the names of upstreams and then by the upstreams' names for models. It applies to all clients:
/// every form means the same to the model, so what one client's requests reveal cannot harm another client. Only how
/// responses start is remembered for each client, since a client can make a model write a marker.
#[derive(Debug, Default)]
pub(crate) struct LearnedForms {
    models: Mutex<HashMap<String, HashMap<String, Form>>>,
    /// Whether anything was learned. If not, requests skip the lookup.
    has_any: AtomicBool,
}

/// The known form of requests to one model.
#[derive(Debug)]
struct Form {
    sends_reasoning: bool,
    /// When a request was refused because of its messages' roles, and then accepted with joined messages.
    refused_roles: Option<Instant>,
    /// How the last responses started, oldest first.
    starts: Vec<SeenStart>,
    changed: Instant,
}

/// How the last responses to one kind of request started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SeenStart {
    owner: Owner,
    thinking: Thinking,
    pub(super) in_reasoning: bool,
    /// How many responses in a row have shown that.
    times: u8,
}

impl SeenStart {
    /// `is_separate` is set if the server sends reasoning in a field of its own, so that text never contains it.
    pub(super) fn new(owner: Owner, thinking: Thinking, in_reasoning: bool, is_separate: bool) -> Self {
        Self { owner, thinking, in_reasoning, times: if is_separate { OUTWEIGHING } else { 1 } }
    }

    /// Whether there are enough responses to believe them more than the model's template or family. A single response
    /// may be an exception: models sometimes forget a marker.
    pub(super) fn outweighs_knowledge(&self) -> bool {
        self.times >= OUTWEIGHING
    }

    fn is_like(&self, other: &Self) -> bool {
        self.is_of(other.owner, other.thinking)
    }

    fn is_of(&self, owner: Owner, thinking: Thinking) -> bool {
        self.owner == owner && self.thinking == thinking
    }
}

impl LearnedForms {
    /// Returns what is currently known about a model.
    pub(super) fn about<'m>(&self, upstream: &str, model: impl FnOnce() -> &'m str) -> Observed {
        if !self.has_any.load(Ordering::Relaxed) {
            return Observed::default();
        }
        let models = self.models.lock();
        let form = models.get(upstream).and_then(|models| models.get(model()));
        form.map_or_else(Observed::default, Form::observed)
    }

    /// How the last responses to such requests started, if they have shown that.
    pub(super) fn start(
        &self,
        upstream: &str,
        model: &str,
        owner: Owner,
        thinking: Thinking,
    ) -> Option<SeenStart> {
        if !self.has_any.load(Ordering::Relaxed) {
            return None;
        }
        let models = self.models.lock();
        let starts = &models.get(upstream)?.get(model)?.starts;
        starts.iter().find(|seen| seen.is_of(owner, thinking)).copied()
    }

    /// Records how a response started, and whether that was assumed.
    pub(super) fn saw_start(&self, upstream: &str, model: &str, seen: SeenStart, was_assumed: bool) {
        if was_assumed && !self.has_any.load(Ordering::Relaxed) {
            return;
        }
        let mut models = self.models.lock();
        let known = models.get_mut(upstream).and_then(|models| models.get_mut(model));
        let starts = match known {
            Some(form) => &mut form.starts,
            None if was_assumed => return,
            None => &mut self.form(&mut models, upstream, model).starts,
        };
        let before = starts.iter().position(|known| known.is_like(&seen));
        let before =
            before.map(|at| starts.remove(at)).filter(|known| known.in_reasoning == seen.in_reasoning);
        if was_assumed && before.is_none() {
            return;
        }
        if starts.len() >= MAX_STARTS {
            starts.remove(0);
        }
        let times = before.map_or(0, |known| known.times).saturating_add(seen.times);
        starts.push(SeenStart { times, ..seen });
    }

    /// Records in which field the model sends reasoning.
    pub(super) fn saw_reasoning(&self, upstream: &str, model: &str, field: ReasoningField) {
        let sends_reasoning = field == ReasoningField::Reasoning;
        // The other field is the default.
        if !sends_reasoning && !self.has_any.load(Ordering::Relaxed) {
            return;
        }
        let mut models = self.models.lock();
        let known = models.get_mut(upstream).and_then(|models| models.get_mut(model));
        match known {
            Some(form) => form.sends_reasoning = sends_reasoning,
            None if sends_reasoning => self.form(&mut models, upstream, model).sends_reasoning = true,
            None => {}
        }
    }

    /// Records that the model has accepted a request with joined messages, after refusing it with separate ones.
    pub(super) fn refused_roles(&self, upstream: &str, model: &str) {
        let mut models = self.models.lock();
        let form = self.form(&mut models, upstream, model);
        if !form.observed().strict_roles {
            tracing::warn!(
                upstream,
                model,
                "the upstream has refused the roles of messages; adjacent ones of users are joined for an hour, and all \
                 system messages"
            );
            form.refused_roles = Some(Instant::now());
        }
    }

    /// Forgets everything that was learned about an upstream, because it was replaced.
    pub(crate) fn forget(&self, upstream: &str) {
        self.models.lock().remove(upstream);
    }

    /// Returns the entry of a model. Clients may invent names, so the oldest entry is removed if there are too many.
    fn form<'m>(
        &self,
        models: &'m mut HashMap<String, HashMap<String, Form>>,
        upstream: &str,
        model: &str,
    ) -> &'m mut Form {
        self.has_any.store(true, Ordering::Relaxed);
        let models = models.entry(upstream.to_owned()).or_default();
        if models.len() >= MAX_MODELS && !models.contains_key(model) {
            let oldest = models.iter().min_by_key(|(_, form)| form.changed).map(|(name, _)| name.clone());
            oldest.map(|oldest| models.remove(&oldest));
        }
        let changed = Instant::now();
        models.entry(model.to_owned()).or_insert(Form {
            sends_reasoning: false,
            refused_roles: None,
            starts: Vec::new(),
            changed,
        })
    }
}

impl Form {
    fn observed(&self) -> Observed {
        Observed {
            reasoning: self.sends_reasoning.then_some(ReasoningField::Reasoning),
            strict_roles: self.refused_roles.is_some_and(|when| when.elapsed() < REMEMBERED),
            ..Observed::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn refused_roles_are_remembered_for_an_hour_and_the_reasoning_field_until_it_changes() {
        let forms = LearnedForms::default();
        forms.refused_roles("up", "m");
        forms.saw_reasoning("up", "m", ReasoningField::Reasoning);
        let about = |model: &'static str| forms.about("up", || model);
        let reasoning = Some(ReasoningField::Reasoning);
        assert_eq!(about("m"), Observed { reasoning, strict_roles: true, ..Observed::default() });
        assert_eq!(about("n"), Observed::default());
        tokio::time::advance(REMEMBERED).await;
        assert_eq!(about("m"), Observed { reasoning, ..Observed::default() });
        forms.saw_reasoning("up", "m", ReasoningField::ReasoningContent);
        assert_eq!(about("m"), Observed::default());
        forms.refused_roles("up", "m");
        assert!(about("m").strict_roles);
        forms.forget("up");
        assert_eq!(about("m"), Observed::default());
    }

    #[test]
    fn starts_are_remembered_by_client_and_thinking() {
        let forms = LearnedForms::default();
        let (one, other) = (Owner([1; 32]), Owner([2; 32]));
        let saw = |owner, in_reasoning, was_assumed| {
            let seen = SeenStart::new(owner, Thinking::Default, in_reasoning, false);
            forms.saw_start("up", "m", seen, was_assumed);
        };
        let start = |owner, thinking| {
            forms.start("up", "m", owner, thinking).map(|seen| (seen.in_reasoning, seen.times))
        };
        saw(one, true, true);
        assert_eq!(start(one, Thinking::Default), None);
        saw(one, true, false);
        assert_eq!(start(one, Thinking::Default), Some((true, 1)));
        assert_eq!(start(one, Thinking::Off), None);
        assert_eq!(start(other, Thinking::Default), None);
        assert_eq!(forms.start("up", "n", one, Thinking::Default), None);
        saw(one, true, true);
        assert_eq!(start(one, Thinking::Default), Some((true, 2)));
        saw(one, false, false);
        assert_eq!(start(one, Thinking::Default), Some((false, 1)));
        saw(one, true, true);
        assert_eq!(start(one, Thinking::Default), None);
        saw(one, false, false);
        for client in 2..=u8::MAX {
            saw(Owner([client; 32]), true, false);
        }
        assert_eq!(forms.models.lock()["up"]["m"].starts.len(), MAX_STARTS);
        assert_eq!(start(one, Thinking::Default), None);
        assert!(SeenStart::new(one, Thinking::Default, false, true).outweighs_knowledge());
    }

    #[tokio::test(start_paused = true)]
    async fn number_of_models_with_a_form_is_bounded() {
        let forms = LearnedForms::default();
        for number in 0..2 * MAX_MODELS {
            forms.saw_reasoning("up", &format!("invented-{number}"), ReasoningField::Reasoning);
            tokio::time::advance(std::time::Duration::from_millis(1)).await;
        }
        assert_eq!(forms.models.lock()["up"].len(), MAX_MODELS);
        let newest = format!("invented-{}", 2 * MAX_MODELS - 1);
        assert!(forms.about("up", || &newest).reasoning.is_some());
    }
}
