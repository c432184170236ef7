//! [`Experience`]: what was observed about one kind of constraint for one model, by client.
//!
//! One client's requests must not decide what is enforced for others. A refusal therefore counts only for that client
//! and the request's tools. The constraint counts as unsupported for a client after refusals for several sets of tools
//! without an accepted request in between, or after several consecutive responses that ignored it. It counts as
//! unsupported for all clients once the same has happened to two clients.

use std::collections::{HashMap, VecDeque};

use tokio::time::Instant;

use super::{Kind, REMEMBERED};
use toolwire_net::store::Owner;
use toolwire_pipeline::wire::digest::Digest;

/// Number of consecutive responses without the required call that show that the constraint is ignored. A single one may
/// be an accident: the server may be unable to enforce that particular schema.
const IGNORED_IN_A_ROW: u32 = 3;

/// Number of refusals for different tools, without an accepted request, that show that the constraint itself is
/// refused.
const REFUSED_TOOLS: usize = 3;

/// Number of clients for which the constraint must have failed before it counts as unsupported for all clients.
const WITNESSES: usize = 2;

/// Maximum number of clients to track, and of refused sets of tools for each client.
const MAX_CLIENTS: usize = 64;
const MAX_REFUSED: usize = 32;

/// Observations about one kind of constraint.
#[derive(Debug)]
pub(super) struct Experience {
    pub(super) kind: Kind,
    /// When the constraint turned out to be unsupported.
    lacking: Option<Instant>,
    /// When the upstream last accepted a request with the constraint.
    accepted: Option<Instant>,
    clients: HashMap<Owner, Client>,
}

#[derive(Debug)]
struct Client {
    seen: Instant,
    /// When the constraint turned out to be unsupported for this client.
    lacking: Option<Instant>,
    /// Number of consecutive responses that ignored the constraint.
    ignored: u32,
    /// The tools with which the constraint was refused.
    refused: VecDeque<(Digest, Instant)>,
}

/// Which clients a new finding affects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    Nobody,
    /// One client, perhaps only with the tools of one request.
    Client,
    All,
}

fn is_recent(when: &Instant) -> bool {
    when.elapsed() < REMEMBERED
}

impl Experience {
    pub(super) fn new(kind: Kind) -> Self {
        Self { kind, lacking: None, accepted: None, clients: HashMap::new() }
    }

    /// Whether the constraint counts as unsupported for all clients.
    pub(super) fn is_lacking(&self) -> bool {
        self.lacking.as_ref().is_some_and(is_recent)
    }

    /// Whether `owner` has had refusals, so that a request's tools matter.
    pub(super) fn has_refusals(&self, owner: Owner) -> bool {
        self.clients.get(&owner).is_some_and(|client| !client.refused.is_empty())
    }

    /// Whether the constraint counts as unsupported for a request from `owner` with these tools.
    pub(super) fn is_lacking_for(&self, owner: Owner, tools: Option<Digest>) -> bool {
        let is_refused = |client: &Client| {
            client.refused.iter().any(|(refused, when)| Some(*refused) == tools && is_recent(when))
        };
        let of_client =
            |client: &Client| client.lacking.as_ref().is_some_and(is_recent) || is_refused(client);
        self.is_lacking() || self.clients.get(&owner).is_some_and(of_client)
    }

    /// Records that the upstream has accepted a request with the constraint.
    pub(super) fn accepted(&mut self) {
        self.accepted = Some(Instant::now());
    }

    /// Records that the upstream refused the constraint in a request from `owner` with these tools, and accepted the
    /// request without it.
    pub(super) fn refused(&mut self, owner: Owner, tools: Digest) -> News {
        let now = Instant::now();
        let is_known = self.is_lacking_for(owner, Some(tools));
        let works = self.accepted.as_ref().is_some_and(is_recent);
        let client = self.client(owner);
        client.refused.retain(|(refused, when)| *refused != tools && is_recent(when));
        if client.refused.len() >= MAX_REFUSED {
            client.refused.pop_front();
        }
        client.refused.push_back((tools, now));
        if !works && client.refused.len() >= REFUSED_TOOLS {
            client.lacking = Some(now);
        }
        let news = self.weigh(now);
        if is_known { News::Nobody } else { news }
    }

    /// Records a complete response to a constrained request from `owner`. Does nothing if the constraint already counts
    /// as unsupported, since the request was sent before that. If `may_change` is set, the constraint is no longer used
    /// once this response shows that it is ignored.
    pub(super) fn answered(&mut self, owner: Owner, is_kept: bool, may_change: bool) -> News {
        if self.is_lacking_for(owner, None) {
            return News::Nobody;
        }
        if is_kept {
            // A client for which constraints work need not be tracked.
            self.clients.entry(owner).and_modify(|client| client.ignored = 0);
            return News::Nobody;
        }
        let client = self.client(owner);
        client.ignored += 1;
        if client.ignored < IGNORED_IN_A_ROW {
            return News::Nobody;
        }
        client.ignored = 0;
        if !may_change {
            return News::Client;
        }
        let now = Instant::now();
        client.lacking = Some(now);
        self.weigh(now)
    }

    /// Evaluates a client's new finding, and returns which clients it affects.
    fn weigh(&mut self, now: Instant) -> News {
        let is_witness = |client: &&Client| client.lacking.as_ref().is_some_and(is_recent);
        // A client for which the constraint was refused and one for which it was ignored contradict each other.
        let was_refused = |client: &Client| client.refused.len() >= REFUSED_TOOLS;
        let (refused, ignored): (Vec<_>, Vec<_>) =
            self.clients.values().filter(is_witness).partition(|client| was_refused(client));
        if refused.len().max(ignored.len()) < WITNESSES || self.is_lacking() {
            return News::Client;
        }
        self.lacking = Some(now);
        News::All
    }

    /// Returns the observations about `owner`. If there are too many clients, drops the one seen least recently.
    fn client(&mut self, owner: Owner) -> &mut Client {
        if self.clients.len() >= MAX_CLIENTS && !self.clients.contains_key(&owner) {
            let oldest = self.clients.iter().min_by_key(|(_, client)| client.seen).map(|(owner, _)| *owner);
            oldest.map(|oldest| self.clients.remove(&oldest));
        }
        let seen = Instant::now();
        let new = || Client { seen, lacking: None, ignored: 0, refused: VecDeque::new() };
        let client = self.clients.entry(owner).or_insert_with(new);
        client.seen = seen;
        client
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const ONE: Owner = Owner([1; 32]);
    const OTHER: Owner = Owner([2; 32]);

    fn tools(name: &str) -> Digest {
        Digest::of(name)
    }

    fn lacks(experience: &Experience, owner: Owner, name: &str) -> bool {
        experience.is_lacking_for(owner, Some(tools(name)))
    }

    #[tokio::test(start_paused = true)]
    async fn refused_tools_of_one_client_concern_no_other() {
        let mut experience = Experience::new(Kind::Schema);
        assert_eq!(experience.refused(ONE, tools("a")), News::Client);
        assert!(
            lacks(&experience, ONE, "a") && !lacks(&experience, ONE, "b") && !lacks(&experience, OTHER, "a")
        );
        experience.refused(ONE, tools("b"));
        experience.refused(ONE, tools("c"));
        assert!(lacks(&experience, ONE, "new"), "nothing was accepted in between");
        assert!(!lacks(&experience, OTHER, "a") && !experience.is_lacking());
        tokio::time::advance(REMEMBERED).await;
        assert!(!lacks(&experience, ONE, "a") && !lacks(&experience, ONE, "new"));
    }

    #[tokio::test(start_paused = true)]
    async fn two_clients_that_are_refused_different_tools_show_that_the_server_lacks_it() {
        let mut experience = Experience::new(Kind::Schema);
        for name in ["a", "b", "c", "d"] {
            experience.refused(ONE, tools(name));
        }
        experience.refused(OTHER, tools("a"));
        assert_eq!(experience.refused(OTHER, tools("b")), News::Client);
        assert!(!experience.is_lacking());
        assert_eq!(experience.refused(OTHER, tools("c")), News::All);
        assert!(experience.is_lacking());
    }

    #[tokio::test(start_paused = true)]
    async fn means_that_was_accepted_is_not_held_to_be_lacking() {
        let mut experience = Experience::new(Kind::Schema);
        experience.accepted();
        for number in 0..100 {
            experience.refused(if number % 2 == 0 { ONE } else { OTHER }, tools(&number.to_string()));
        }
        assert!(lacks(&experience, ONE, "98") && !lacks(&experience, ONE, "new") && !experience.is_lacking());
        assert!(experience.clients.values().all(|client| client.refused.len() <= MAX_REFUSED));
        tokio::time::advance(REMEMBERED.checked_sub(Duration::from_secs(1)).unwrap()).await;
        assert!(!experience.is_lacking());
    }

    #[tokio::test(start_paused = true)]
    async fn number_of_clients_is_bounded() {
        let mut experience = Experience::new(Kind::Schema);
        for number in 0..=u8::MAX {
            experience.refused(Owner([number; 32]), tools("a"));
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert_eq!(experience.clients.len(), MAX_CLIENTS);
        assert!(lacks(&experience, Owner([u8::MAX; 32]), "a") && !lacks(&experience, Owner([0; 32]), "a"));
    }

    #[tokio::test(start_paused = true)]
    async fn responses_without_the_call_count_only_in_a_row() {
        let mut experience = Experience::new(Kind::Schema);
        let mut answered = |owner, is_kept: &[bool]| {
            let news = is_kept.iter().map(|kept| experience.answered(owner, *kept, false));
            news.collect::<Vec<_>>()
        };
        assert_eq!(answered(ONE, &[false, false, true, false, false]), [News::Nobody; 5]);
        assert_eq!(answered(ONE, &[false, false, false]), [News::Client, News::Nobody, News::Nobody]);
    }

    #[tokio::test(start_paused = true)]
    async fn responses_of_one_client_that_ignore_it_concern_no_other() {
        let mut experience = Experience::new(Kind::Schema);
        for _ in 0..9 {
            experience.answered(ONE, false, true);
        }
        assert!(lacks(&experience, ONE, "a") && !lacks(&experience, OTHER, "a"));
        experience.answered(OTHER, false, true);
        experience.answered(OTHER, false, true);
        assert!(!experience.is_lacking());
        assert_eq!(experience.answered(OTHER, false, true), News::All);
        assert!(experience.is_lacking());
        assert_eq!(experience.answered(OTHER, false, true), News::Nobody, "it was asked for before");
    }
}
