//! [`Permissions`]: decides whether a hosted call may run.
//!
//! ```text
//! configured rules ─▶ allow, deny
//!        │ ask
//!        ▼
//! auto-approve ─▶ remembered rules ─▶ is someone connected? ─▶ question ─▶ the first answer, or denied on expiry
//! ```
//!
//! A person answers over the admin API, and can have the answer remembered as a rule. Remembered rules only answer
//! questions; they do not override what the configuration allows or denies.
//!
//! Instances that share a store share the remembered rules. Each call checks their revision, so a change applies
//! everywhere as soon as it is confirmed. While the store cannot be reached, it is unknown whether calls were denied,
//! so only a person can allow one.
//!
//! Questions for input that a tool needs ([`inputs`]) are put to people in the same way. No rule answers them.

mod inputs;
mod keeping;
mod remembered_rules;

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::Arc,
};

use parking_lot::{Mutex, RwLock};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep_until},
};

pub(crate) use self::keeping::Keeping;
pub use self::{keeping::NotKept, remembered_rules::RememberedRule};
use self::{keeping::OpenStorage, remembered_rules::RememberedRules};
use super::{
    address::Domain,
    audit::{Audit, Subject, unix_millis},
    question::{Answer, AnswerError, By, Given, Open, Question, Scope, Settled, Shown, Unanswered},
    rules::{Asked, Permission, PermissionRule, decide},
    settings::{PermissionSettings, Unattended},
    tool::{ErrorCode, ToolError},
};

/// Maximum number of open questions. Beyond it, calls that need a question are denied.
const MAX_OPEN: usize = 256;

/// Maximum number of settled questions that are remembered, so that a second answer gets a useful error.
const MAX_SETTLED: usize = 256;

/// Decides whether calls may run. Shared by all threads.
pub struct Permissions {
    settings: RwLock<Arc<PermissionSettings>>,
    audit: Arc<Audit>,
    state: Mutex<State>,
    /// Notified when the remembered rules have changed.
    changed: Arc<Notify>,
    storage: OpenStorage,
}

#[derive(Default)]
struct State {
    remembered: RememberedRules,
    open: HashMap<String, Open>,
    settled: VecDeque<Settled>,
}

impl Permissions {
    /// Opens the storage of remembered rules, and reads them if they are in a file.
    pub(crate) fn new(settings: PermissionSettings, audit: Arc<Audit>, keeping: Keeping) -> Self {
        let (remembered, storage) = keeping.opened();
        let state = Mutex::new(State { remembered, ..State::default() });
        let settings = RwLock::new(Arc::new(settings));
        Self { settings, audit, state, changed: Arc::default(), storage }
    }

    /// Replaces the settings, for running turns as well.
    pub(crate) fn decide_by(&self, settings: PermissionSettings) {
        *self.settings.write() = Arc::new(settings);
    }

    fn settings(&self) -> Arc<PermissionSettings> {
        Arc::clone(&self.settings.read())
    }

    /// Checks whether a call may run, and asks a person if the rules require it.
    ///
    /// # Errors
    /// Why the call may not run, worded for the model.
    pub(crate) async fn check(
        &self,
        asked: &Asked<'_>,
        shown: Shown<'_>,
        subject: Option<&Subject>,
        deadline: Instant,
    ) -> Result<(), ToolError> {
        match self.configured(asked) {
            Permission::Allow => return Ok(()),
            Permission::Deny => return Err(denied()),
            Permission::Ask => {}
        }
        let remembered = self.remembered(asked, &(shown.definition)()).await;
        match &remembered {
            Ok(Some(true)) => return Ok(()),
            Ok(Some(false)) => return Err(denied()),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, tool = asked.tool, "remembered permissions cannot be read"),
        }
        if !self.audit.is_watched() {
            match self.settings().unattended {
                Unattended::Allow if remembered.is_ok() => return Ok(()),
                Unattended::Allow | Unattended::Deny => return Err(denied()),
                Unattended::Wait => {}
            }
        }
        self.ask(asked, shown, subject, deadline).await
    }

    /// The permission that the configuration gives to a call.
    pub(crate) fn configured(&self, asked: &Asked<'_>) -> Permission {
        let settings = self.settings();
        decide(&settings.rules, asked).unwrap_or(settings.default)
    }

    /// The permission that the configuration gives to calls to a tool, disregarding rules for a client, model or
    /// domain.
    pub fn of_tool(&self, tool: &str, aliases: &[String]) -> Permission {
        self.configured(&Asked { key: None, client: None, model: "", tool, aliases, domain: None })
    }

    /// Whether a call to the tool may run for at least one domain.
    pub(crate) fn may_ever_run(&self, asked: &Asked<'_>) -> bool {
        let allows_domain = |rule: &PermissionRule| {
            let asked = Asked { domain: rule.domain.as_ref().map(Domain::as_str), ..*asked };
            rule.domain.is_some() && self.configured(&asked) != Permission::Deny
        };
        self.configured(asked) != Permission::Deny || self.settings().rules.iter().any(allows_domain)
    }

    async fn ask(
        &self,
        asked: &Asked<'_>,
        shown: Shown<'_>,
        subject: Option<&Subject>,
        deadline: Instant,
    ) -> Result<(), ToolError> {
        let expires = self.expiry(deadline);
        let shown = Shown { params: &self.audit.redacted(shown.params), ..shown };
        let question = Question::new(asked, shown, subject, expires);
        match self.put(question, expires, deadline).await {
            Ok(given) if given.is_accepted() => Ok(()),
            Err(Unanswered::Late) => {
                Err(ToolError::new(ErrorCode::PermissionTimeout, "The call was not allowed in time."))
            }
            Ok(_) | Err(_) => Err(denied()),
        }
    }

    /// When a question that is asked now expires.
    fn expiry(&self, deadline: Instant) -> Instant {
        deadline.min(Instant::now() + self.settings().ask_timeout)
    }

    /// Puts a question to a person, and waits for the answer. Dropping the future withdraws the question.
    async fn put(
        &self,
        question: Question,
        expires: Instant,
        deadline: Instant,
    ) -> Result<Given, Unanswered> {
        let (reply, mut answered) = watch::channel(None);
        {
            let mut state = self.state.lock();
            if state.open.len() >= MAX_OPEN {
                return Err(Unanswered::TooMany);
            }
            let open = Open { question: question.clone(), expires, deadline, reply };
            state.open.insert(question.id.clone(), open);
        }
        let (id, subject) = (question.id.clone(), question.context.subject.clone());
        self.audit.publish(subject.as_ref(), question.event());
        // Dropped if the client disconnects, which withdraws the question.
        let _withdrawn = Withdrawn { permissions: self, id: &id };
        loop {
            let expires = self.state.lock().open.get(&id).map(|open| open.expires);
            tokio::select! {
                biased;
                changed = answered.changed() => {
                    let settled = answered.borrow_and_update().clone();
                    match settled {
                        Some(given) => return Ok(given),
                        // The expiry was extended.
                        None if changed.is_ok() => {}
                        None => return Ok(Given::Declined),
                    }
                }
                () = sleep_until(expires.unwrap_or_else(Instant::now)) => {
                    let is_over = |open: &Open| open.expires <= Instant::now();
                    let mut state = self.state.lock();
                    if state.open.get(&id).is_some_and(is_over) {
                        let settled = state.settle(&id, Given::Declined, By::Timeout);
                        drop(state);
                        self.publish(settled);
                        return Err(Unanswered::Late);
                    }
                }
            }
        }
    }

    /// The open questions, oldest first.
    pub fn questions(&self) -> Vec<Question> {
        let mut open: Vec<_> = self.state.lock().open.values().map(|open| open.question.clone()).collect();
        open.sort_by(|a, b| (a.asked_at, &a.id).cmp(&(b.asked_at, &b.id)));
        open
    }

    /// Answers a question. Only the first answer counts.
    ///
    /// # Errors
    /// The question does not exist or is already settled, or the answer was accepted but could not be remembered.
    pub async fn answer(
        self: &Arc<Self>,
        id: &str,
        answer: Answer,
    ) -> Result<Result<Settled, NotKept>, AnswerError> {
        let (settled, tool, domain, definition) = {
            let mut state = self.state.lock();
            let Some(open) = state.open.get(id) else { return Err(state.unopened(id)) };
            if open.question.input.is_some() {
                return Err(AnswerError::Mismatched);
            }
            let domain = match answer.scope {
                Scope::Global => None,
                Scope::Domain => Some(open.question.context.domain.clone().ok_or(AnswerError::NoDomain)?),
            };
            let tool = open.question.tool.to_string();
            let definition = open.question.definition.clone();
            let by = By::Person { remember: answer.remember, scope: answer.scope };
            let settled = state.settle(id, Given::verdict(answer.granted), by).ok_or(AnswerError::Unknown)?;
            (settled, tool, domain, definition)
        };
        self.publish([settled.clone()]);
        if answer.remember {
            let remember = |remembered: &mut RememberedRules| {
                let definition = Some(definition.clone());
                remembered.remember(
                    (tool.clone(), domain.clone()),
                    definition,
                    answer.granted,
                    unix_millis(),
                );
            };
            if let Err(error) = self.change(remember).await {
                return Ok(Err(error));
            }
        }
        Ok(Ok(settled))
    }

    /// Postpones the expiry of a question, up to the end of its turn. Returns the new expiry as Unix time in
    /// milliseconds.
    pub fn extend(&self, id: &str) -> Option<u64> {
        let more = self.settings().ask_timeout;
        let mut state = self.state.lock();
        let open = state.open.get_mut(id)?;
        open.extend(more);
        Some(open.question.expires_at)
    }

    /// The remembered rules, oldest first.
    pub fn rules(&self) -> Vec<RememberedRule> {
        self.state.lock().remembered.rules().to_vec()
    }

    /// Removes a remembered rule. Returns whether there was one.
    ///
    /// # Errors
    /// See [`NotKept`].
    pub async fn revoke(self: &Arc<Self>, id: &str) -> Result<bool, NotKept> {
        self.change(|remembered| remembered.revoke(id)).await
    }

    /// Remembers that these tools may run, and allows their waiting calls.
    ///
    /// # Errors
    /// See [`NotKept`].
    pub async fn allow_all(self: &Arc<Self>, tools: &[Arc<str>]) -> Result<(), NotKept> {
        let allow = |remembered: &mut RememberedRules| {
            tools.iter().for_each(|tool| remembered.allow_everywhere(tool, unix_millis()));
        };
        self.change(allow).await
    }

    /// Whether all questions are answered with yes automatically.
    pub fn auto_approve(&self) -> bool {
        self.state.lock().remembered.auto_approve
    }

    /// Sets whether all questions, including open ones, are answered with yes automatically.
    ///
    /// # Errors
    /// See [`NotKept`].
    pub async fn set_auto_approve(self: &Arc<Self>, is_on: bool) -> Result<(), NotKept> {
        self.change(|remembered| remembered.auto_approve = is_on).await
    }

    /// Settles the open questions that remembered rules answer.
    fn settle_by_rules(&self) {
        let settled = self.state.lock().settle_by_rules();
        if !settled.is_empty() {
            self.changed.notify_one();
        }
        self.publish(settled);
    }

    /// Notified when the remembered rules have changed.
    pub(crate) fn changed(&self) -> Arc<Notify> {
        Arc::clone(&self.changed)
    }

    fn publish(&self, settled: impl IntoIterator<Item = Settled>) {
        for settled in settled {
            let subject = settled.subject.clone();
            self.audit.publish(subject.as_ref(), settled.event());
        }
    }
}

impl State {
    /// Why a question that is not open cannot be answered.
    fn unopened(&self, id: &str) -> AnswerError {
        let earlier = self.settled.iter().find(|settled| settled.request_id == id);
        earlier.map_or(AnswerError::Unknown, |earlier| AnswerError::Late(earlier.clone()))
    }

    /// Settles a question. Returns `None` if it is not open.
    fn settle(&mut self, id: &str, given: Given, by: By) -> Option<Settled> {
        let open = self.open.remove(id)?;
        let settled = open.settled(given, by);
        if self.settled.len() == MAX_SETTLED {
            self.settled.pop_front();
        }
        self.settled.push_back(settled.clone());
        Some(settled)
    }

    /// Settles all open questions that remembered rules answer.
    fn settle_by_rules(&mut self) -> Vec<Settled> {
        let now = unix_millis();
        let Self { remembered, open, .. } = self;
        let permissions = open.values().filter(|open| open.question.input.is_none());
        let answered = permissions.filter_map(|open| {
            let asked = open.question.asked();
            let answer = remembered.answer(&asked, &open.question.definition, now);
            answer.map(|granted| (open.question.id.clone(), granted))
        });
        let answered: Vec<_> = answered.collect();
        answered
            .into_iter()
            .filter_map(|(id, granted)| self.settle(&id, Given::verdict(granted), By::Rule))
            .collect()
    }
}

/// Settles a question on drop, because its call no longer exists.
struct Withdrawn<'q> {
    permissions: &'q Permissions,
    id: &'q str,
}

impl Drop for Withdrawn<'_> {
    fn drop(&mut self) {
        let settled = self.permissions.state.lock().settle(self.id, Given::Dismissed, By::Cancelled);
        self.permissions.publish(settled);
    }
}

/// Writes changes that are not on disk yet.
impl Drop for Permissions {
    fn drop(&mut self) {
        // Failures were logged.
        let _ = self.write();
    }
}

impl fmt::Debug for Permissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permissions").field("settings", &self.settings()).finish_non_exhaustive()
    }
}

fn denied() -> ToolError {
    ToolError::new(ErrorCode::PermissionDenied, "Permission denied: this call may not run.")
}

#[cfg(test)]
mod tests;
