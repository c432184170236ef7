//! [`LearnedMeans`]: which kinds of constraints an upstream turned out not to support, by model.
//!
//! A server that does not support a constraint may refuse it, which shows in the status. Or it may ignore the
//! constraint, which shows only in responses: the required call is missing several times in a row. Either may also be
//! caused by one client's requests, so [`Experience`] decides for which clients the constraint counts as unsupported.

mod experience;
mod forms;
mod known;
mod refusals;
mod templates;

use std::{borrow::Cow, collections::HashMap, sync::Arc, time::Duration};

pub(super) use self::known::Known;
use self::{
    experience::{Experience, News},
    forms::{LearnedForms, SeenStart},
    refusals::LearnedRefusals,
    templates::Templates,
};
use super::{exchange::Exchange, servers::Servers};
use crate::observe::Metrics;
use parking_lot::Mutex;
use toolwire_config::{Model, Upstream};
use toolwire_net::store::Owner;
use toolwire_pipeline::{
    conversation::{Constraint, Conversation, Thinking},
    dialect::Observed,
    enforce::Means,
    event::Finish,
    format::prompt_opens_reasoning,
    pipeline::{Pipeline, Tally},
    rules::{Enforce, ReasoningStart},
    wire::digest::Digest,
};

/// How long a constraint is not used after it did not work. By then, the server may have been updated or restarted with
/// other options.
const REMEMBERED: Duration = Duration::from_secs(3600);

/// Maximum number of models to track per upstream, since clients may invent names.
const MAX_MODELS: usize = 256;

/// What was learned about upstreams, shared by all threads.
#[derive(Debug)]
pub(super) struct UpstreamCapabilities {
    pub(super) means: Arc<LearnedMeans>,
    pub(super) forms: Arc<LearnedForms>,
    pub(super) refusals: Arc<LearnedRefusals>,
    pub(super) templates: Arc<Templates>,
    pub(super) servers: Servers,
}

impl UpstreamCapabilities {
    /// Returns what is known about the model of `entry` for this request from `owner`.
    pub(super) fn about<'m>(
        &'m self,
        entry: &'m Model,
        conversation: &Conversation,
        owner: Owner,
    ) -> Known<'m> {
        let (upstream, model) = (&*entry.upstream.name, || entry.upstream_name(&conversation.model));
        let facts = entry.facts_for(&conversation.model);
        let options = self.servers.options(&entry.upstream);
        let seen = self.forms.about(upstream, model).and(facts.observed());
        let options = match seen == Observed::default() {
            true => Cow::Borrowed(options),
            false => Cow::Owned(options.clone().observing(seen)),
        };
        let means = self.means.left(options.side().means(), entry, conversation, owner);
        let refused = self.refusals.about(upstream, model, owner);
        Known { options, means, facts, refused }
    }

    /// Returns how the response of `entry` to `conversation` from `owner` starts, and what the request says about
    /// thinking (docs/protocols/text-formats.md#reasoning). `prompt_opens` says whether the prompt opens the reasoning,
    /// if it was rendered here. `now` is the Unix time in seconds.
    pub(super) fn start(
        &self,
        entry: &Model,
        conversation: &Conversation,
        owner: Owner,
        prompt_opens: Option<bool>,
        now: u64,
    ) -> (ReasoningStart, Thinking) {
        if let Some(starts) = entry.starts_in_reasoning {
            return (ReasoningStart::certain(starts), Thinking::Default);
        }
        let model = entry.upstream_name(&conversation.model);
        let (by_family, thinking) = prompt_opens_reasoning(model, conversation);
        if let Some(opens) = prompt_opens {
            return (ReasoningStart::certain(opens), thinking);
        }
        let seen = self.forms.start(&entry.upstream.name, model, owner, thinking);
        let side = self.servers.options(&entry.upstream).side();
        let source = side.template_source();
        if let Some((source, _)) = source.filter(|(_, at_once)| *at_once || seen.is_some()) {
            self.templates.look_at(&entry.upstream, model, source);
        }
        let by_family = by_family.filter(|_| !side.separates_reasoning());
        let known = self.templates.opens(entry, conversation, now).or(by_family);
        let seen = seen.filter(|seen| known.is_none() || seen.outweighs_knowledge());
        let opens = seen.map(|seen| seen.in_reasoning).or(known).unwrap_or_default();
        (ReasoningStart::assumed(opens), thinking)
    }

    /// Records that the upstream of `subject` has accepted a request whose messages were joined, after refusing it with
    /// separate messages.
    pub(super) fn refused_roles(&self, subject: &Subject) {
        self.forms.refused_roles(&subject.upstream.name, &subject.model);
    }

    /// Records that the upstream of `subject` has accepted a request without `members`, after refusing it with each of
    /// them.
    pub(super) fn refused_members(&self, subject: &Subject, members: &[&'static str]) {
        let names = members.iter().map(|member| (*member).to_owned()).collect::<Vec<_>>();
        self.means.metrics.dropped_fields(&subject.upstream.name, &names);
        self.refusals.refused(&subject.upstream.name, &subject.model, subject.owner, members);
    }
}

/// The constraints that upstreams do not support.
#[derive(Debug)]
pub(super) struct LearnedMeans {
    memory: Mutex<Memory>,
    metrics: Arc<Metrics>,
}

/// Experience by the names of upstreams, and then by the upstreams' names for models.
#[derive(Debug, Default)]
struct Memory(HashMap<String, HashMap<String, Vec<Experience>>>);

/// Learns from a response what its model supports, and how its responses start.
#[derive(Debug)]
pub(super) struct Observer {
    capabilities: Arc<UpstreamCapabilities>,
    upstream: Arc<Upstream>,
    /// The upstream's name for the model.
    model: String,
    owner: Owner,
    thinking: Thinking,
    start: ReasoningStart,
}

impl Observer {
    /// Creates an observer of the response of `entry` to `exchange`, whose client is `owner`.
    pub(super) fn new(
        capabilities: &Arc<UpstreamCapabilities>,
        entry: &Model,
        exchange: &Exchange,
        owner: Owner,
    ) -> Self {
        Self {
            capabilities: Arc::clone(capabilities),
            upstream: Arc::clone(&entry.upstream),
            model: entry.upstream_name(&exchange.conversation.model).to_owned(),
            owner,
            thinking: exchange.thinking,
            start: exchange.start,
        }
    }

    /// Records what a hop has shown.
    pub(super) fn saw(&self, pipeline: &Pipeline) {
        let (forms, upstream) = (&self.capabilities.forms, &*self.upstream.name);
        let field = pipeline.reasoning_field();
        if let Some(field) = field.filter(|_| self.upstream.options.side().follows_reasoning()) {
            forms.saw_reasoning(upstream, &self.model, field);
        }
        if let Some(in_reasoning) = pipeline.seen_start().filter(|_| self.start.is_assumed) {
            let seen = SeenStart::new(self.owner, self.thinking, in_reasoning, field.is_some());
            forms.saw_start(upstream, &self.model, seen, in_reasoning == self.start.in_reasoning);
        }
    }
}

/// A kind of constraint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Schema,
    Tags,
    Grammar,
    Prefill,
}

/// The model to which a request is sent, and the owner of the request.
#[derive(Debug, Clone)]
pub(super) struct Subject {
    pub(super) owner: Owner,
    upstream: Arc<Upstream>,
    /// The upstream's name for the model.
    model: String,
    /// The model's configured name.
    entry: String,
    enforce: Enforce,
}

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

    /// Returns `means` without this kind of constraint.
    pub(super) fn removed_from(self, means: Means) -> Means {
        match self {
            Self::Schema => Means { schema: None, ..means },
            Self::Tags => Means { tags: false, ..means },
            Self::Grammar => Means { grammar: false, ..means },
            Self::Prefill => Means { prefill: false, ..means },
        }
    }

    /// Returns the name of this kind as a value of `enforce`.
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
    /// Creates the subject of a request from `owner` to `entry`, requested as `asked`.
    pub(super) fn new(entry: &Model, asked: &str, owner: Owner) -> Self {
        Self {
            owner,
            upstream: Arc::clone(&entry.upstream),
            model: entry.upstream_name(asked).to_owned(),
            entry: entry.name.clone(),
            enforce: entry.settings.enforce,
        }
    }

    pub(super) fn upstream_name(&self) -> &str {
        &self.upstream.name
    }
}

impl LearnedMeans {
    pub(super) fn new(metrics: Arc<Metrics>) -> Self {
        Self { memory: Mutex::default(), metrics }
    }

    /// Forgets everything that was learned about an upstream, because it was replaced.
    pub(super) fn forget(&self, upstream: &str) {
        self.memory.lock().0.remove(upstream);
    }

    /// Returns `means` without the constraints that the upstream of `entry` is known not to support for this request.
    fn left(&self, means: Means, entry: &Model, conversation: &Conversation, owner: Owner) -> Means {
        let is_used = match entry.settings.enforce {
            Enforce::Calls => means.tags || means.grammar,
            enforce => enforce.uses_means() && means != Means::default(),
        };
        if !is_used || conversation.tools.is_empty() {
            return means;
        }
        let model = entry.upstream_name(&conversation.model);
        self.memory
            .lock()
            .lacking(&entry.upstream.name, model, owner, || of_tools(conversation))
            .fold(means, |means, kind| kind.removed_from(means))
    }

    /// Records that the upstream has accepted a request without constraints of these `kinds`, after refusing it with
    /// them. `tools` is the [digest](of_tools) of the request's tools.
    pub(super) fn refused(&self, subject: &Subject, kinds: &[Kind], tools: Digest) {
        for kind in kinds {
            let mut news = News::Nobody;
            self.learn(subject, *kind, |experience| news = experience.refused(subject.owner, tools));
            self.report(subject, *kind, Why::Refused, news);
        }
    }

    /// Records that the upstream has accepted a request with a constraint of this `kind`.
    pub(super) fn accepted(&self, subject: &Subject, kind: Kind) {
        self.learn(subject, kind, Experience::accepted);
    }

    /// Records a complete response to a request that required a call, with a constraint of this `kind`. Says nothing if
    /// the constraint leaves text free.
    pub(super) fn answered(&self, subject: &Subject, kind: Kind, tally: &Tally) {
        let Some(is_kept) = keeps_constraint(tally).filter(|_| subject.enforce != Enforce::Calls) else {
            return;
        };
        // If the configuration names a constraint, it is always used.
        let may_change = subject.enforce == Enforce::Auto;
        let mut news = News::Nobody;
        self.learn(subject, kind, |experience| {
            news = experience.answered(subject.owner, is_kept, may_change);
        });
        if !is_kept {
            self.report(subject, kind, Why::Ignored, news);
        }
    }

    fn learn(&self, subject: &Subject, kind: Kind, change: impl FnOnce(&mut Experience)) {
        if let Some(experience) = self.memory.lock().of(&subject.upstream.name, &subject.model, kind) {
            change(experience);
        }
    }

    /// Counts a constraint that did not work, and logs it if that is news.
    fn report(&self, subject: &Subject, kind: Kind, why: Why, news: News) {
        let Subject { upstream, model, entry, enforce, .. } = subject;
        let reason = match why {
            Why::Refused => "refused",
            Why::Ignored => "ignored",
        };
        self.metrics.constraint_failed(&upstream.name, entry, kind.name(), reason);
        if news != News::Nobody {
            let (upstream, means) = (upstream.name.as_str(), kind.name());
            let consequence = match (enforce, why, news) {
                (Enforce::Auto, _, News::All) | (_, Why::Refused, News::All) => "it is not used for an hour",
                (_, Why::Refused, _) => "it is not used for these tools of this client for an hour",
                (Enforce::Auto, ..) => "it is not used for this client for an hour",
                (_, Why::Ignored, _) => "it is used all the same, since `enforce` names it",
            };
            tracing::warn!(upstream, model, means, "the upstream has {reason} a constraint; {consequence}");
        }
    }
}

impl Memory {
    /// Returns the kinds of constraints that the model's upstream does not support for a request from `owner` with
    /// these `tools`.
    fn lacking(
        &self,
        upstream: &str,
        model: &str,
        owner: Owner,
        tools: impl FnOnce() -> Digest,
    ) -> impl Iterator<Item = Kind> {
        let experiences = self.0.get(upstream).and_then(|models| models.get(model));
        let has_refusals = experiences.into_iter().flatten().any(|experience| experience.has_refusals(owner));
        let tools = has_refusals.then(tools);
        let experiences = experiences.into_iter().flatten();
        let lacking = experiences.filter(move |experience| experience.is_lacking_for(owner, tools));
        lacking.map(|experience| experience.kind)
    }

    /// Returns the experience with a kind of constraint. `None` if too many models are tracked.
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
            experiences.push(Experience::new(kind));
            experiences.len() - 1
        });
        experiences.get_mut(at)
    }
}

/// Digest of the callable tools and the tool choice, which identifies requests that are refused for the same reason.
pub(super) fn of_tools(conversation: &Conversation) -> Digest {
    let mut text = format!("{:?} {}", conversation.tool_choice.requires_call(), conversation.parallel_calls);
    for tool in conversation.callable_tools() {
        let schema = tool.parameters.as_ref().map_or("", |schema| schema.view().raw());
        for part in ["\0", &tool.name, "\0", if tool.strict == Some(true) { "strict" } else { "" }, schema] {
            text.push_str(part);
        }
    }
    Digest::of(&text)
}

/// Whether the response to a request that required a call contains a well-formed call. `None` if that says nothing
/// about the constraint, because the response was cut off or filtered, or because the model refused.
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

    const CLIENTS: [Owner; 2] = [Owner([1; 32]), Owner([2; 32])];

    fn lacking(memory: &Memory, model: &str) -> Vec<Kind> {
        memory.lacking("up", model, Owner::default(), || Digest::of("tools")).collect()
    }

    /// Records enough refusals that the upstream counts as not supporting the constraint.
    fn refuse(experience: &mut Experience) {
        for owner in CLIENTS {
            for name in ["a", "b", "c"] {
                experience.refused(owner, Digest::of(name));
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn lacking_means_is_tried_again_after_an_hour() {
        let mut memory = Memory::default();
        refuse(memory.of("up", "m", Kind::Schema).unwrap());
        memory.of("up", "m", Kind::Tags).unwrap();
        assert_eq!(lacking(&memory, "m"), [Kind::Schema]);
        assert_eq!(lacking(&memory, "n"), []);
        tokio::time::advance(REMEMBERED.checked_sub(Duration::from_millis(1)).unwrap()).await;
        assert_eq!(lacking(&memory, "m"), [Kind::Schema]);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(lacking(&memory, "m"), []);
    }

    /// Invented model names neither fill the memory nor displace what was learned.
    #[tokio::test(start_paused = true)]
    async fn number_of_models_is_bounded() {
        let mut memory = Memory::default();
        refuse(memory.of("up", "m", Kind::Schema).unwrap());
        for number in 0..2 * MAX_MODELS {
            memory.of("up", &format!("invented-{number}"), Kind::Schema).unwrap();
            assert!(memory.0["up"].len() <= MAX_MODELS);
        }
        assert_eq!(lacking(&memory, "m"), [Kind::Schema]);
        for number in 0..2 * MAX_MODELS {
            if let Some(experience) = memory.of("up", &format!("lacking-{number}"), Kind::Schema) {
                refuse(experience);
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
