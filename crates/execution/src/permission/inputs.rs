//! Questions for input that a tool needs while it runs.

use tokio::time::Instant;

use super::Permissions;
use crate::{
    audit::Subject,
    input::Input,
    question::{AnswerError, AskPerson, AskingPerson, By, Given, Question, Scope, Settled, Unanswered},
    settings::Unattended,
};

impl AskPerson for Permissions {
    fn input<'a>(
        &'a self,
        tool: &'a str,
        input: &'a Input,
        subject: Option<&'a Subject>,
        deadline: Instant,
    ) -> AskingPerson<'a> {
        Box::pin(self.ask_for(tool, input, subject, deadline))
    }
}

impl Permissions {
    async fn ask_for(
        &self,
        tool: &str,
        input: &Input,
        subject: Option<&Subject>,
        deadline: Instant,
    ) -> Result<Given, Unanswered> {
        if !self.audit.is_watched() && self.settings().unattended != Unattended::Wait {
            return Err(Unanswered::Unattended);
        }
        let expires = self.expiry(deadline);
        let input = input.redacted(|text| self.audit.redacted(text));
        self.put(Question::for_input(tool, input, subject, expires), expires, deadline).await
    }

    /// Answers a question for input. Only the first answer counts.
    ///
    /// # Errors
    /// The question does not exist, is already settled, or is not for input, or the values do not match its form.
    pub fn give(&self, id: &str, given: Given) -> Result<Settled, AnswerError> {
        let settled = {
            let mut state = self.state.lock();
            let Some(open) = state.open.get(id) else { return Err(state.unopened(id)) };
            let input = open.question.input.as_ref().ok_or(AnswerError::Mismatched)?;
            if let Given::Accepted(values) = &given {
                input.check(values).map_err(AnswerError::Invalid)?;
            }
            let by = By::Person { remember: false, scope: Scope::Global };
            state.settle(id, given, by).ok_or(AnswerError::Unknown)?
        };
        self.publish([settled.clone()]);
        Ok(settled)
    }
}
