//! Questions of a server to a person (`elicitation/create`).
//!
//! Before version 2026-07-28, a server sends them as requests that do not say to which call they belong. They are
//! shown while a call is running, and withdrawn when no call is left. Since then, they are the result of a call, which
//! is sent again with the answers.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use rmcp::model::{ElicitResult, ElicitationAction, ErrorCode, ErrorData, MetaObject};
use serde_json::{Map, Value};
use tokio::{
    sync::watch,
    time::{Duration, Instant, MissedTickBehavior, interval},
};

use crate::{
    Given, Invocation, Subject,
    input::Input,
    question::AskPerson,
    reports::{Report, Reports},
};

pub(super) const METHOD: &str = "elicitation/create";

/// The error of a request that needs a person to open pages first.
pub(super) const PAGES_REQUIRED: ErrorCode = ErrorCode(-32_042);

/// Maximum number of questions that are open at a time.
const MAX_OPEN: usize = 4;

/// Maximum number of questions while one call is running.
const MAX_PER_CALL: usize = 16;

/// How often the time limit of a call that waits for a person is renewed.
const RENEWAL: Duration = Duration::from_secs(1);

/// Why a question was declined without asking anybody.
type Reason = String;

/// Asks people on behalf of one server.
#[derive(Debug)]
pub(super) struct People {
    /// The name of the server.
    name: Arc<str>,
    /// `None` if there is no console in which a person could answer.
    permissions: OnceLock<Arc<dyn AskPerson>>,
    /// The running calls.
    calls: watch::Sender<Vec<Arc<Caller>>>,
    open: AtomicUsize,
}

/// A running call.
#[derive(Debug)]
struct Caller {
    number: u64,
    tool: String,
    subject: Subject,
    deadline: Instant,
    reports: Reports,
    asked: AtomicUsize,
}

impl People {
    pub(super) fn new(name: Arc<str>) -> Self {
        Self { name, permissions: OnceLock::new(), calls: watch::Sender::default(), open: AtomicUsize::new(0) }
    }

    /// Lets questions be answered by whoever answers those of `permissions`.
    pub(super) fn answer_by(&self, permissions: Arc<dyn AskPerson>) {
        // Called once.
        let _ = self.permissions.set(permissions);
    }

    /// Whether a person could answer.
    pub(super) fn can_answer(&self) -> bool {
        self.permissions.get().is_some()
    }

    /// Counts `call` as running until the result is dropped.
    pub(super) fn calls(&self, call: &Invocation) -> impl Drop {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let caller = Caller {
            number,
            tool: call.tool.clone(),
            subject: call.subject.clone(),
            deadline: call.deadline,
            reports: call.reports.clone(),
            asked: AtomicUsize::new(0),
        };
        self.calls.send_modify(|calls| calls.push(Arc::new(caller)));
        Ended { people: self, number }
    }

    /// Asks a person, and returns the result for the server. `params` are those of the server's request.
    pub(super) async fn ask(&self, params: &Value) -> ElicitResult {
        let given = match self.given(params).await {
            Ok(given) => given,
            Err(reason) => {
                tracing::debug!(provider = %self.name, reason, "a question of the MCP server was declined");
                let reason = Map::from_iter([("toolwire/reason".to_owned(), reason.into())]);
                return ElicitResult::new(ElicitationAction::Decline).with_meta(MetaObject(reason));
            }
        };
        match given {
            Given::Accepted(values) if params.get("mode").is_some_and(|mode| mode == "url") => {
                // A page has no values.
                drop(values);
                ElicitResult::new(ElicitationAction::Accept)
            }
            Given::Accepted(values) => {
                ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(values))
            }
            Given::Declined => ElicitResult::new(ElicitationAction::Decline),
            Given::Dismissed => ElicitResult::new(ElicitationAction::Cancel),
        }
    }

    /// Asks a person to open the pages that an error lists. Returns whether all of them were opened.
    pub(super) async fn open_pages(&self, error: &ErrorData) -> bool {
        let pages = error.data.as_ref().and_then(|data| data.get("elicitations")).and_then(Value::as_array);
        let Some(pages) = pages.filter(|pages| !pages.is_empty() && pages.len() <= MAX_OPEN) else {
            return false;
        };
        for page in pages {
            let is_page = page.get("mode").is_some_and(|mode| mode == "url");
            if !is_page || self.ask(page).await.action != ElicitationAction::Accept {
                return false;
            }
        }
        true
    }

    async fn given(&self, params: &Value) -> Result<Given, Reason> {
        let permissions = self.permissions.get().ok_or("nobody can be asked")?;
        let input = Input::of_elicitation(params).map_err(|fault| fault.to_string())?;
        let mut calls = self.calls.subscribe();
        let callers = calls.borrow_and_update().clone();
        let latest = callers.iter().map(|caller| caller.deadline).max().ok_or("no call is running")?;
        if callers.iter().all(|caller| caller.asked.fetch_add(1, Ordering::Relaxed) >= MAX_PER_CALL) {
            return Err("it asks too often".to_owned());
        }
        let more = |count: usize| (count < MAX_OPEN).then_some(count + 1);
        if self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
            return Err("it asks too much at once".to_owned());
        }
        let _closed = Closed(&self.open);
        // With several calls, it is unknown which one the question belongs to.
        let (tool, subject) = match callers.as_slice() {
            [caller] => (caller.tool.as_str(), Some(&caller.subject)),
            _ => (&*self.name, None),
        };
        let is_over = |calls: &Vec<Arc<Caller>>| {
            !calls.iter().any(|call| callers.iter().any(|caller| caller.number == call.number))
        };
        tokio::select! {
            answered = permissions.input(tool, &input, subject, latest) => {
                answered.map_err(|fault| fault.to_string())
            }
            _ = calls.wait_for(is_over) => Err("the call has ended".to_owned()),
            () = renew(&callers) => Err("the call has ended".to_owned()),
        }
    }
}

/// Renews the time limits of calls. Never returns.
async fn renew(callers: &[Arc<Caller>]) {
    let mut renewal = interval(RENEWAL);
    renewal.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        renewal.tick().await;
        for caller in callers {
            let message = "waits for a person to answer".to_owned();
            caller.reports.report(Report { done: f64::NAN, total: None, message });
        }
    }
}

/// Removes a call from the running ones on drop.
struct Ended<'p> {
    people: &'p People,
    number: u64,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.people.calls.send_modify(|calls| calls.retain(|call| call.number != self.number));
    }
}

/// Counts a question as closed on drop.
struct Closed<'o>(&'o AtomicUsize);

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
