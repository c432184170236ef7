//! [`LearnedRefusals`]: members of requests that upstreams have refused, by model and client.
//!
//! A member counts as refused if a request with it failed with an error that names it, and the same request without it was
//! accepted. What other members a request has may matter, so one client's requests decide nothing for others.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{MAX_MODELS, REMEMBERED};
use toolwire_net::store::Owner;

/// Maximum number of refusals to remember for a model.
const MAX_REFUSALS: usize = 256;

/// The refusals, by the names of upstreams and then by the upstreams' names for models, oldest first.
#[derive(Debug, Default)]
pub(crate) struct LearnedRefusals {
    models: Mutex<HashMap<String, HashMap<String, Vec<Refusal>>>>,
    /// Whether anything was learned. If not, requests skip the lookup.
    has_any: AtomicBool,
}

#[derive(Debug)]
struct Refusal {
    owner: Owner,
    member: &'static str,
    when: Instant,
}

impl Refusal {
    fn is_recent(&self) -> bool {
        self.when.elapsed() < REMEMBERED
    }
}

impl LearnedRefusals {
    /// Returns the members that the model refuses in requests of `owner`.
    pub(super) fn about<'m>(
        &self,
        upstream: &str,
        model: impl FnOnce() -> &'m str,
        owner: Owner,
    ) -> Vec<&'static str> {
        if !self.has_any.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let models = self.models.lock();
        let refusals = models.get(upstream).and_then(|models| models.get(model()));
        let own = refusals.into_iter().flatten().filter(|refusal| refusal.owner == owner);
        own.filter(|refusal| refusal.is_recent()).map(|refusal| refusal.member).collect()
    }

    /// Records that the model refuses `members`.
    pub(super) fn refused(&self, upstream: &str, model: &str, owner: Owner, members: &[&'static str]) {
        self.has_any.store(true, Ordering::Relaxed);
        let mut models = self.models.lock();
        let models = models.entry(upstream.to_owned()).or_default();
        if models.len() >= MAX_MODELS && !models.contains_key(model) {
            // Clients may invent names.
            let newest = |refusals: &Vec<Refusal>| refusals.last().map(|refusal| refusal.when);
            let oldest = models.iter().min_by_key(|(_, refusals)| newest(refusals));
            let oldest = oldest.map(|(name, _)| name.clone());
            oldest.map(|oldest| models.remove(&oldest));
        }
        let refusals = models.entry(model.to_owned()).or_default();
        for &member in members {
            refusals.retain(|known| known.is_recent() && (known.owner, known.member) != (owner, member));
            if refusals.len() >= MAX_REFUSALS {
                refusals.remove(0);
            }
            refusals.push(Refusal { owner, member, when: Instant::now() });
            tracing::warn!(
                upstream,
                model,
                member,
                "the upstream has refused a member of a request; it is left out for this client for an hour"
            );
        }
    }

    /// Forgets everything that was learned about an upstream, because it was replaced.
    pub(crate) fn forget(&self, upstream: &str) {
        self.models.lock().remove(upstream);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const ONE: Owner = Owner([1; 32]);
    const OTHER: Owner = Owner([2; 32]);

    fn about(refusals: &LearnedRefusals, model: &str, owner: Owner) -> Vec<&'static str> {
        refusals.about("up", || model, owner)
    }

    #[tokio::test(start_paused = true)]
    async fn refused_member_is_left_out_for_its_client_for_an_hour() {
        let refusals = LearnedRefusals::default();
        assert!(about(&refusals, "m", ONE).is_empty());
        refusals.refused("up", "m", ONE, &["temperature", "top_p"]);
        assert_eq!(about(&refusals, "m", ONE), ["temperature", "top_p"]);
        assert!(about(&refusals, "m", OTHER).is_empty() && about(&refusals, "n", ONE).is_empty());
        tokio::time::advance(REMEMBERED.checked_sub(Duration::from_millis(1)).unwrap()).await;
        assert_eq!(about(&refusals, "m", ONE).len(), 2);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(about(&refusals, "m", ONE).is_empty());
        refusals.refused("up", "m", ONE, &["top_p"]);
        refusals.forget("up");
        assert!(about(&refusals, "m", ONE).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn numbers_of_models_and_refusals_are_bounded() {
        let refusals = LearnedRefusals::default();
        for number in 0..2 * MAX_MODELS {
            refusals.refused("up", &format!("invented-{number}"), ONE, &["seed"]);
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert_eq!(refusals.models.lock()["up"].len(), MAX_MODELS);
        let newest = format!("invented-{}", 2 * MAX_MODELS - 1);
        assert_eq!(about(&refusals, &newest, ONE), ["seed"]);
        for client in 0..=u8::MAX {
            refusals.refused("up", &newest, Owner([client; 32]), &["seed", "top_p"]);
        }
        assert_eq!(refusals.models.lock()["up"][&newest].len(), MAX_REFUSALS);
        assert_eq!(about(&refusals, &newest, Owner([u8::MAX; 32])), ["seed", "top_p"]);
        for _ in 0..1000 {
            refusals.refused("up", &newest, ONE, &["seed"]);
        }
        assert_eq!(about(&refusals, &newest, ONE), ["seed"]);
    }
}
