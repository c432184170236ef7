//! [`LearnedForms`]: the form in which an upstream wants requests, by model. It is learned from responses unless the
//! upstream's settings specify it.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{MAX_MODELS, REMEMBERED};
use toolwire_pipeline::dialect::{Observed, ReasoningField};

/// What was learned, by the names of upstreams and then by the upstreams' names for models. It applies to all clients:
/// every form means the same to the model, so what one client's requests reveal cannot harm another client.
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
    changed: Instant,
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
            None if sends_reasoning => self.new_form(&mut models, upstream, model).sends_reasoning = true,
            None => {}
        }
    }

    /// Records that the model has accepted a request with joined messages, after refusing it with separate ones.
    pub(super) fn refused_roles(&self, upstream: &str, model: &str) {
        let mut models = self.models.lock();
        let form = self.new_form(&mut models, upstream, model);
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
    fn new_form<'m>(
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
            changed,
        })
    }
}

impl Form {
    fn observed(&self) -> Observed {
        Observed {
            reasoning: self.sends_reasoning.then_some(ReasoningField::Reasoning),
            strict_roles: self.refused_roles.is_some_and(|when| when.elapsed() < REMEMBERED),
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
        assert_eq!(about("m"), Observed { reasoning: Some(ReasoningField::Reasoning), strict_roles: true });
        assert_eq!(about("n"), Observed::default());
        tokio::time::advance(REMEMBERED).await;
        assert_eq!(about("m"), Observed { reasoning: Some(ReasoningField::Reasoning), strict_roles: false });
        forms.saw_reasoning("up", "m", ReasoningField::ReasoningContent);
        assert_eq!(about("m"), Observed::default());
        forms.refused_roles("up", "m");
        assert!(about("m").strict_roles);
        forms.forget("up");
        assert_eq!(about("m"), Observed::default());
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
