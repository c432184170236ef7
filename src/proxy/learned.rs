//! [`LearnedMeans`]: which means of enforcement an upstream turned out to lack, by model.
//!
//! A server refuses a constraint that it does not know, or it ignores it and answers as if there were none. The first shows
//! in the status, the second only in responses: the required call is missing, several times in a row.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::servers::Servers;
use crate::{
    config::{Model, Upstream},
    conversation::Constraint,
    dialect::UpstreamDialect,
    enforce::Means,
    event::Finish,
    observe::Metrics,
    pipeline::Tally,
    rules::Enforce,
};

/// How long a means is not used. The server may be updated or started with other options meanwhile.
const REMEMBERED: Duration = Duration::from_secs(3600);

/// This many constrained responses in a row without the required call show that the constraint is ignored. A single one may
/// be an accident: the schema may be one that the server cannot enforce.
const IGNORED_IN_A_ROW: u32 = 3;

/// The most models of an upstream that are remembered. Clients may invent names.
const MAX_MODELS: usize = 256;

/// What was learned about upstreams. Shared by all threads.
#[derive(Debug)]
pub(super) struct Learned {
    pub(super) means: Arc<LearnedMeans>,
    pub(super) servers: Servers,
}

impl Learned {
    /// The settings of the upstream of `entry`, as far as its server is known, and the means that it still has for the model
    /// requested as `asked`.
    pub(super) fn about<'m>(&'m self, entry: &'m Model, asked: &str) -> (&'m UpstreamDialect, Means) {
        let options = self.servers.options(&entry.upstream);
        (options, self.means.left(options.side().means(), entry, asked))
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct LearnedMeans {
    memory: Mutex<Memory>,
    metrics: Arc<Metrics>,
}

/// What was seen of means, by the names of upstreams, and by the names that these know their models by.
#[derive(Debug, Default)]
struct Memory(HashMap<String, HashMap<String, Vec<Experience>>>);

/// What was seen of one means.
#[derive(Debug)]
struct Experience {
    kind: Kind,
    /// Responses in a row that ignored it.
    ignored: u32,
    /// When the upstream turned out to lack it.
    lacking: Option<Instant>,
}

/// A means of enforcement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Schema,
    Tags,
    Grammar,
    Prefill,
}

/// The model that a request goes to.
#[derive(Debug, Clone)]
pub(super) struct Subject {
    upstream: Arc<Upstream>,
    /// The name that the upstream knows the model by.
    model: String,
    /// The name of the configuration's entry.
    entry: String,
    enforce: Enforce,
}

/// Why a means does not work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    Refused,
    Ignored,
}

impl Kind {
    pub(super) fn of(constraint: &Constraint) -> Self {
        match constraint {
            Constraint::Schema(_) => Self::Schema,
            Constraint::Tags(_) => Self::Tags,
            Constraint::Grammar(_) => Self::Grammar,
            Constraint::Prefill(_) => Self::Prefill,
        }
    }

    /// `means` without this one.
    pub(super) fn removed_from(self, means: Means) -> Means {
        match self {
            Self::Schema => Means { schema: None, ..means },
            Self::Tags => Means { tags: false, ..means },
            Self::Grammar => Means { grammar: false, ..means },
            Self::Prefill => Means { prefill: false, ..means },
        }
    }

    /// The name, as the value of `enforce`.
    fn name(self) -> &'static str {
        match self {
            Self::Schema => "schema",
            Self::Tags => "structural_tag",
            Self::Grammar => "grammar",
            Self::Prefill => "prefill",
        }
    }
}

impl Subject {
    /// The model of `entry` that a client requests as `asked`.
    pub(super) fn new(entry: &Model, asked: &str) -> Self {
        Self {
            upstream: Arc::clone(&entry.upstream),
            model: entry.upstream_name(asked).to_owned(),
            entry: entry.name.clone(),
            enforce: entry.settings.enforce,
        }
    }
}

impl LearnedMeans {
    pub(super) fn new(metrics: Arc<Metrics>) -> Self {
        Self { memory: Mutex::default(), metrics }
    }

    /// Forgets what was learned about an upstream: it is another one now.
    pub(super) fn forget(&self, upstream: &str) {
        self.memory().0.remove(upstream);
    }

    /// Of the `means` of the upstream of `entry`, those that the model requested as `asked` does not lack.
    pub(super) fn left(&self, means: Means, entry: &Model, asked: &str) -> Means {
        if means == Means::default() || !entry.settings.enforce.uses_means() {
            return means;
        }
        self.memory()
            .lacking(&entry.upstream.name, entry.upstream_name(asked))
            .fold(means, |means, kind| kind.removed_from(means))
    }

    /// The upstream answers once it is asked without these.
    pub(super) fn refused(&self, subject: &Subject, kinds: &[Kind]) {
        for kind in kinds {
            let mut is_news = false;
            self.learn(subject, *kind, |experience| {
                is_news = !experience.is_lacking();
                experience.lacking = Some(Instant::now());
            });
            self.report(subject, *kind, Why::Refused, is_news);
        }
    }

    /// A response to a request that requires a call, constrained by `kind`, is complete.
    pub(super) fn answered(&self, subject: &Subject, kind: Kind, tally: &Tally) {
        let Some(is_kept) = keeps_constraint(tally) else { return };
        // If the configuration names the means, it is used all the same.
        let may_change = subject.enforce == Enforce::Auto;
        let mut is_lacking = false;
        self.learn(subject, kind, |experience| {
            is_lacking = experience.answered(is_kept);
            if is_lacking && may_change {
                experience.lacking = Some(Instant::now());
            }
        });
        if !is_kept {
            self.report(subject, kind, Why::Ignored, is_lacking);
        }
    }

    fn learn(&self, subject: &Subject, kind: Kind, change: impl FnOnce(&mut Experience)) {
        if let Some(experience) = self.memory().of(&subject.upstream.name, &subject.model, kind) {
            change(experience);
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts that a constraint did not work, and logs it if that `is_news`.
    fn report(&self, subject: &Subject, kind: Kind, why: Why, is_news: bool) {
        let Subject { upstream, model, entry, enforce } = subject;
        let reason = match why {
            Why::Refused => "refused",
            Why::Ignored => "ignored",
        };
        self.metrics.constraint_failed(&upstream.name, entry, (kind.name(), reason));
        if is_news {
            let (upstream, means) = (upstream.name.as_str(), kind.name());
            let consequence = match (enforce, why) {
                (Enforce::Auto, _) | (_, Why::Refused) => "it is not used for an hour",
                (_, Why::Ignored) => "it is used all the same, since `enforce` names it",
            };
            tracing::warn!(upstream, model, means, "the upstream has {reason} a constraint; {consequence}");
        }
    }
}

impl Memory {
    /// The means that the model's upstream lacks now.
    fn lacking(&self, upstream: &str, model: &str) -> impl Iterator<Item = Kind> {
        let experiences = self.0.get(upstream).and_then(|models| models.get(model));
        let lacking = experiences.into_iter().flatten().filter(|experience| experience.is_lacking());
        lacking.map(|experience| experience.kind)
    }

    /// What was seen of a means. `None`: too many models are remembered.
    fn of(&mut self, upstream: &str, model: &str, kind: Kind) -> Option<&mut Experience> {
        let models = self.0.entry(upstream.to_owned()).or_default();
        if models.len() >= MAX_MODELS && !models.contains_key(model) {
            models.retain(|_, experiences| experiences.iter().any(Experience::is_lacking));
            if models.len() >= MAX_MODELS {
                return None;
            }
        }
        let experiences = models.entry(model.to_owned()).or_default();
        let known = experiences.iter().position(|experience| experience.kind == kind);
        let at = known.unwrap_or_else(|| {
            experiences.push(Experience { kind, ignored: 0, lacking: None });
            experiences.len() - 1
        });
        experiences.get_mut(at)
    }
}

impl Experience {
    /// Another response is complete. Returns whether the upstream has just turned out to lack the means; responses to
    /// requests that were sent before it did change nothing.
    fn answered(&mut self, is_kept: bool) -> bool {
        if self.is_lacking() {
            return false;
        }
        self.ignored = if is_kept { 0 } else { self.ignored + 1 };
        let is_lacking = self.ignored == IGNORED_IN_A_ROW;
        if is_lacking {
            self.ignored = 0;
        }
        is_lacking
    }

    fn is_lacking(&self) -> bool {
        self.lacking.is_some_and(|since| since.elapsed() < REMEMBERED)
    }
}

/// Whether the response to a request that requires a call keeps the constraint: it has a well-formed call. `None`: it does
/// not show, since the response was cut off or filtered, or the model refused.
fn keeps_constraint(tally: &Tally) -> Option<bool> {
    match tally.finish? {
        Finish::Length | Finish::Filter => None,
        Finish::Stop | Finish::Calls if tally.is_refusal => None,
        Finish::Stop => Some(false),
        Finish::Calls => Some(!tally.lacks_required_call()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(finish: Finish) -> Tally {
        Tally { finish: Some(finish), ..Tally::default() }
    }

    fn lacking(memory: &Memory, model: &str) -> Vec<Kind> {
        memory.lacking("up", model).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn lacking_means_is_tried_again_after_an_hour() {
        let mut memory = Memory::default();
        memory.of("up", "m", Kind::Schema).unwrap().lacking = Some(Instant::now());
        memory.of("up", "m", Kind::Tags).unwrap();
        assert_eq!(lacking(&memory, "m"), [Kind::Schema]);
        assert_eq!((lacking(&memory, "n"), memory.lacking("other", "m").count()), (Vec::new(), 0));
        tokio::time::advance(REMEMBERED.checked_sub(Duration::from_millis(1)).unwrap()).await;
        assert_eq!(lacking(&memory, "m"), [Kind::Schema]);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(lacking(&memory, "m"), []);
    }

    #[test]
    fn responses_without_the_call_count_only_in_a_row() {
        let mut memory = Memory::default();
        let experience = memory.of("up", "m", Kind::Schema).unwrap();
        let mut answered =
            |is_kept: &[bool]| is_kept.iter().map(|kept| experience.answered(*kept)).collect::<Vec<_>>();
        assert_eq!(answered(&[false, false, true, false, false]), [false; 5]);
        assert_eq!(answered(&[false, false, false, false]), [true, false, false, true]);
        experience.lacking = Some(Instant::now());
        assert!(!(0..9).any(|_| experience.answered(false)), "they were asked for before");
    }

    /// Invented names of models do not fill the memory, and do not displace what was learned.
    #[tokio::test(start_paused = true)]
    async fn number_of_models_is_bounded() {
        let mut memory = Memory::default();
        memory.of("up", "m", Kind::Schema).unwrap().lacking = Some(Instant::now());
        for number in 0..2 * MAX_MODELS {
            memory.of("up", &format!("invented-{number}"), Kind::Schema).unwrap();
            assert!(memory.0["up"].len() <= MAX_MODELS);
        }
        assert_eq!(lacking(&memory, "m"), [Kind::Schema]);
        for number in 0..2 * MAX_MODELS {
            if let Some(experience) = memory.of("up", &format!("lacking-{number}"), Kind::Schema) {
                experience.lacking = Some(Instant::now());
            }
        }
        assert_eq!(memory.0["up"].len(), MAX_MODELS);
        tokio::time::advance(REMEMBERED).await;
        assert!(memory.of("up", "new", Kind::Schema).is_some());
        assert_eq!(memory.0["up"].len(), 1);
    }

    #[test]
    fn only_complete_responses_show_whether_a_constraint_works() {
        let unfulfilled = Tally { warnings: vec!["tool_choice_unfulfilled"], ..tally(Finish::Calls) };
        let refusal = Tally { is_refusal: true, ..tally(Finish::Stop) };
        for (tally, expected) in [
            (tally(Finish::Calls), Some(true)),
            (tally(Finish::Stop), Some(false)),
            (unfulfilled, Some(false)),
            (tally(Finish::Length), None),
            (tally(Finish::Filter), None),
            (refusal, None),
            (Tally::default(), None),
        ] {
            assert_eq!(keeps_constraint(&tally), expected, "{tally:?}");
        }
    }
}
