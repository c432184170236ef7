//! [`run`]: asks the questions in a plan whose answers are not in the cache.
//!
//! ```text
//! questions ─▶ cached? ─▶ Outcome
//!                 └─no─▶ Asker ─▶ answer ─▶ cache ─▶ Outcome
//!                            └─▶ failure ─▶ Failures: go on, give the variant up, or stop
//! ```

use std::{
    collections::HashSet,
    future::pending,
    hash::{BuildHasher, RandomState},
    io,
    net::{Ipv4Addr, SocketAddr},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use secrecy::SecretString;
use tokio::time::{Instant, sleep};

use super::{
    ask::{AskError, Asker, Reply},
    cache::{Asked, Cache},
    failures::{Failures, Next},
    plan::{Plan, Question},
};
use crate::{
    bench::progress::Progress,
    fixture::{Answer, answer::ErrorSeen},
};
use toolwire_config::Config;
use toolwire_gateway::{ServeError, Server};

/// Maximum number of attempts for a request while the upstream has no capacity.
const REPEATS: u32 = 5;

/// Maximum pause between these attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A question and its answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Outcome {
    /// Index of the variant in the plan.
    pub(crate) variant: usize,
    /// Index of the prompt in the plan.
    pub(crate) case: usize,
    /// Number of the run, counted from 0.
    pub(crate) run: u32,
    /// The answer. If the request failed, it contains an error.
    pub(crate) reply: Reply,
}

/// The results of a run.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    /// The answers, in the order of the questions.
    pub(crate) outcomes: Vec<Outcome>,
    /// Number of questions.
    pub(crate) questions: usize,
    /// Number of answers that were already in the cache.
    pub(crate) cached: usize,
    /// Duration of the run.
    pub(crate) took: Duration,
    /// Why the run ended early, if it did.
    pub(crate) stopped: Option<Stopped>,
    /// Indices of the variants that were given up, with the reasons.
    pub given_up: Vec<(usize, String)>,
}

/// Why a run ended before all questions were asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stopped {
    Signal,
    /// The upstream failed, with this message.
    Upstream(String),
}

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error("the cache of answers cannot be used: {0}")]
    Cache(#[from] io::Error),
}

/// Starts a server with this configuration and returns the names listed at its `/v1/models`.
///
/// # Errors
/// The names could not be read.
pub async fn models(config: &Config, timeout: Duration) -> Result<Vec<String>, AskError> {
    let (server, asker) = serving(config, timeout).map_err(|error| AskError::Broken(error.to_string()))?;
    tokio::select! {
        names = asker.models() => names,
        served = server.run(pending()) => Err(AskError::Broken(
            served.map_or_else(|error| error.to_string(), |()| "the server has ended".to_owned()),
        )),
    }
}

/// Starts a server with this configuration, and creates a client of it. Other users of the machine can also reach the
/// server, and it uses the upstream's key, so it requires a key that only this process knows.
fn serving(config: &Config, timeout: Duration) -> Result<(Server, Asker), ServeError> {
    // `RandomState` is seeded with randomness from the system.
    let random = || RandomState::new().hash_one("key");
    let key = format!("{:016x}{:016x}", random(), random());
    // The server accepts only this key, not those of the configured clients, and stores no state.
    let (api_keys, keys) = (vec![SecretString::from(key.as_str())], Vec::new());
    let config = Config { api_keys, keys, state_dir: None, ..config.clone() };
    let server = Server::bind(Arc::new(config), None)?;
    let address = server.addresses().first().copied();
    let address = address.unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let asker = Asker::new(address, &key, timeout);
    Ok((server, asker))
}

/// Asks the questions whose answers are not in the cache. `stop` ends the run after the open requests have completed, and
/// `abort` drops them.
///
/// # Errors
/// If the server cannot start, or the cache cannot be used. Failures of the upstream are part of the results.
pub async fn run(
    plan: &Plan,
    stop: impl Future<Output = ()>,
    abort: impl Future<Output = ()>,
) -> Result<Measured, RunError> {
    let questions = plan.questions();
    let keys: HashSet<_> = questions.iter().map(|question| question.key.as_str()).collect();
    let cache = Cache::open(&plan.cache, |key| keys.contains(key))?;
    let (server, asker) = serving(&plan.config, plan.timeout)?;
    let mut session = Session {
        plan,
        failures: Failures::new(plan.variants.len()),
        progress: Progress::new(1, plan.quiet),
        measured: Measured { questions: questions.len(), ..Measured::default() },
        answers: questions.iter().map(|question| cache.get(&question.key).cloned()).collect(),
        cache,
    };
    session.measured.cached = session.answers.iter().flatten().count();
    let started = Instant::now();
    tokio::select! {
        asked = session.ask_all(&questions, &asker, stop, abort) => asked?,
        served = server.run(pending()) => served?,
    }
    Ok(session.finish(&questions, started.elapsed()))
}

struct Session<'p> {
    plan: &'p Plan,
    cache: Cache,
    failures: Failures,
    progress: Progress,
    measured: Measured,
    /// The answers so far, by the index of the question.
    answers: Vec<Option<Reply>>,
}

impl Session<'_> {
    async fn ask_all(
        &mut self,
        questions: &[Question],
        asker: &Asker,
        stop: impl Future<Output = ()>,
        abort: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let (mut stop, mut abort) = (pin!(stop), pin!(abort));
        let mut open = FuturesUnordered::new();
        let mut waiting = questions.iter().enumerate();
        self.progress.steady();
        loop {
            while self.measured.stopped.is_none() && open.len() < self.plan.concurrency.max(1) {
                let Some((place, question)) =
                    waiting.find(|(place, question)| self.is_open(*place, question))
                else {
                    break;
                };
                self.show_progress(question);
                open.push(async move { (place, question, answered(asker, question).await) });
            }
            if open.is_empty() {
                return Ok(());
            }
            tokio::select! {
                biased;
                () = &mut abort => return Ok(()),
                () = &mut stop, if self.measured.stopped.is_none() => {
                    self.measured.stopped = Some(Stopped::Signal);
                }
                Some((place, question, reply)) = open.next() => self.answered(place, question, reply)?,
            }
        }
    }

    /// Whether a question must still be asked. It need not be asked if another variant has already sent the same request.
    fn is_open(&mut self, place: usize, question: &Question) -> bool {
        let Some(slot) = self.answers.get_mut(place) else { return false };
        if slot.is_none() {
            *slot = self.cache.get(&question.key).cloned();
        }
        slot.is_none() && !self.failures.is_given_up(question.variant)
    }

    fn answered(
        &mut self,
        place: usize,
        question: &Question,
        reply: Result<Reply, AskError>,
    ) -> io::Result<()> {
        let reply = match reply {
            Ok(reply) if reply.answer.error.is_none() => {
                self.failures.succeeded(question.variant);
                let asked = Asked {
                    variant: &self
                        .plan
                        .variants
                        .get(question.variant)
                        .map(|it| it.label())
                        .unwrap_or_default(),
                    prompt: self.plan.cases.get(question.case).map_or("", |case| &case.name),
                    run: question.run,
                };
                self.cache.keep(&question.key, asked, reply.clone())?;
                reply
            }
            Ok(reply) => {
                let message = reply.answer.error.as_ref().and_then(|error| error.message.clone());
                let error = AskError::Broken(message.unwrap_or_else(|| "the response failed".to_owned()));
                self.failed(place, question, &error);
                reply
            }
            Err(error) => {
                self.failed(place, question, &error);
                Reply { answer: failed_answer(&error), to_call: None, total: Duration::ZERO }
            }
        };
        if let Some(slot) = self.answers.get_mut(place) {
            *slot = Some(reply);
        }
        Ok(())
    }

    fn failed(&mut self, place: usize, question: &Question, error: &AskError) {
        match self.failures.failed(question.variant, place, error) {
            Next::GoOn => {}
            Next::GiveUp => self.measured.given_up.push((question.variant, error.to_string())),
            Next::Stop => {
                self.measured.stopped.get_or_insert(Stopped::Upstream(error.to_string()));
            }
        }
    }

    fn show_progress(&self, question: &Question) {
        let done = self.answers.iter().flatten().count();
        let label = self.plan.variants.get(question.variant).map(|variant| variant.label());
        let label = format!("{} of {}, {}", done + 1, self.answers.len(), label.unwrap_or_default());
        self.progress.tick(&label, done as f64 / self.answers.len().max(1) as f64);
    }

    /// Collects the answers. Leaves out the failures that stopped the run, since they say nothing about the model.
    fn finish(mut self, questions: &[Question], took: Duration) -> Measured {
        self.progress.finish();
        if let Some(Stopped::Upstream(_)) = self.measured.stopped {
            for place in self.failures.last_places() {
                if let Some(slot) = self.answers.get_mut(*place) {
                    *slot = None;
                }
            }
        }
        let answered = questions.iter().zip(self.answers);
        let outcomes = answered.filter_map(|(question, reply)| {
            let Question { variant, case, run, .. } = *question;
            Some(Outcome { variant, case, run, reply: reply? })
        });
        Measured { outcomes: outcomes.collect(), took, ..self.measured }
    }
}

/// An answer that contains only an error.
fn failed_answer(error: &AskError) -> Answer {
    let (status, code) = match error {
        AskError::Refused { status, code, .. } => (Some(*status), code.clone()),
        AskError::Broken(_) | AskError::Slow(_) => (None, None),
    };
    let error = ErrorSeen { status, kind: "calibrate".to_owned(), code, message: Some(error.to_string()) };
    Answer { error: Some(error), ..Answer::default() }
}

/// Asks a question. While the upstream has no capacity, retries after a pause.
async fn answered(asker: &Asker, question: &Question) -> Result<Reply, AskError> {
    for attempt in 0..REPEATS {
        match asker.ask(question.body.clone()).await {
            Err(AskError::Refused { status: 429, retry_after, .. }) => {
                let pause = retry_after.unwrap_or(Duration::from_secs(1 << attempt));
                sleep(pause.min(LONGEST_PAUSE)).await;
            }
            other => return other,
        }
    }
    asker.ask(question.body.clone()).await
}
