//! Determines the order in which the entries for a model are asked.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
};

use toolwire_config::{Alternatives, Config, Model, Targets};
use toolwire_net::store::Owner;
use toolwire_pipeline::conversation::{Conversation, Part, Role};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) target: String,
    /// The number of the entry's model: 0 for the requested model, then the fallbacks in order.
    pub(super) model: usize,
}

/// Returns the entries that may answer for `model`, in the order in which they are asked. With weights, the order
/// differs between conversations but is fixed for the conversation that `affinity` identifies. `may` returns whether
/// the caller may use a fallback. Other fallbacks are left out.
pub(super) fn order(
    config: &Config,
    model: &Model,
    affinity: impl FnOnce() -> u64,
    may: impl Fn(&str) -> bool,
) -> Vec<Way> {
    let Some(alternatives) = model.alternatives.as_deref() else {
        return vec![Way { target: model.name.clone(), model: 0 }];
    };
    let Alternatives { targets, fallback, .. } = alternatives;
    let key = if targets.are_weighted { affinity() } else { 0 };
    let mut groups = vec![own(&model.name, targets, key)];
    for name in fallback.iter().filter(|name| may(name)) {
        let others = config.model(name).filter(|model| model.name == *name);
        groups.extend(others.map(|model| match &model.alternatives {
            Some(others) => own(name, &others.targets, key),
            None => vec![name.clone()],
        }));
    }
    let ways = groups.into_iter().enumerate();
    let ways = ways.flat_map(|(model, group)| group.into_iter().map(move |target| Way { target, model }));
    let mut seen = HashSet::new();
    ways.filter(|way| seen.insert(way.target.clone())).collect()
}

/// Returns the targets of the model `name`, or the model itself if it has no targets.
fn own(name: &str, targets: &Targets, key: u64) -> Vec<String> {
    if targets.all.is_empty() {
        return vec![name.to_owned()];
    }
    let mut all: Vec<_> = targets.all.iter().collect();
    if targets.are_weighted {
        // Rendezvous hashing: adding or removing a target moves only its own share of the conversations.
        all.sort_by(|a, b| score(&b.model, b.weight, key).total_cmp(&score(&a.model, a.weight, key)));
    }
    all.into_iter().map(|target| target.model.clone()).collect()
}

/// Score of a target for the conversation `key`. The probability that a target scores highest is proportional to its
/// weight.
fn score(name: &str, weight: u32, key: u64) -> f64 {
    let mut hasher = DefaultHasher::new();
    (name, key).hash(&mut hasher);
    // In (0, 1). An `f64` has 53 bits of precision.
    let uniform = ((hasher.finish() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    -f64::from(weight) / uniform.ln()
}

/// Identifies a conversation across its requests, by the client, the instructions and the user's first text.
pub(crate) fn affinity(conversation: &Conversation, owner: Owner) -> u64 {
    let mut hasher = DefaultHasher::new();
    owner.hash(&mut hasher);
    for turn in &conversation.turns {
        for part in &turn.parts {
            if let Part::Text(text) = part {
                text.hash(&mut hasher);
            }
        }
        if turn.role == Role::User {
            break;
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_get_their_shares() {
        let weights = [("a", 1), ("b", 3), ("c", 6)];
        let mut shares = [0; 3];
        for key in 0..10_000 {
            let scores = weights.map(|(name, weight)| score(name, weight, key));
            let highest = (0..3).max_by(|a, b| scores[*a].total_cmp(&scores[*b])).unwrap();
            shares[highest] += 1;
        }
        for (share, (_, weight)) in shares.iter().zip(weights) {
            assert!((share - i64::from(weight) * 1000).abs() < 200, "{shares:?}");
        }
    }

    #[test]
    fn a_lost_target_moves_only_its_own_share() {
        for key in 0..1000 {
            let best = |names: &[&str]| {
                let best = names.iter().max_by(|a, b| score(a, 1, key).total_cmp(&score(b, 1, key)));
                best.map(|name| (*name).to_owned()).unwrap()
            };
            let before = best(&["a", "b", "c"]);
            assert!(before == "c" || best(&["a", "b"]) == before);
        }
    }
}
