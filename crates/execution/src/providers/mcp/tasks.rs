//! Calls that a server runs as tasks, whose result is fetched later.
//!
//! In version 2025-11-25, a tool says that it must be called so, and `tasks/result` has the result. Since 2026-07-28, the
//! server decides it for each call, and the task itself has the result.

use std::{collections::HashSet, time::Duration};

use futures_util::FutureExt;
use rmcp::{
    RoleClient,
    model::{
        CallToolRequestParams, CallToolResult, CancelTaskParams, CancelTaskRequest, ClientRequest,
        CreateTaskResult, CustomRequest, GetTaskParams, GetTaskRequest, InputRequests, ServerResult,
        TaskStatus, UpdateTaskParams, UpdateTaskRequest,
    },
    service::{Peer, PeerRequestOptions},
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep;
use toolwire_pipeline::wire::text::boundary_upto;

use super::{
    Server, Unanswered,
    call_tool::{final_failure, result_of},
    not_a_result, output,
};
use crate::{
    Output,
    reports::{MOST, Report, Reports},
};

/// Interval between looks at a task: the minimum, the default, and the maximum.
const INTERVAL: (Duration, Duration, Duration) =
    (Duration::from_millis(100), Duration::from_secs(1), Duration::from_secs(30));

/// Maximum size of a task's id, in bytes.
const MAX_ID: usize = 1 << 10;

/// Maximum size of a message about a task's state, in bytes. The rest is cut.
const MAX_MESSAGE: usize = 4 << 10;

/// Maximum number of questions that one task asks.
const MAX_QUESTIONS: usize = 16;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Task {
    task_id: String,
    status: TaskStatus,
    status_message: Option<String>,
    /// In milliseconds.
    #[serde(alias = "pollIntervalMs")]
    poll_interval: Option<f64>,
    input_requests: Option<InputRequests>,
    result: Option<Value>,
    error: Option<Value>,
}

impl Task {
    /// `None` if it is no valid state of a task, or that of a task other than `id`.
    fn read(value: &Value, id: Option<&str>) -> Option<Self> {
        let task = Self::deserialize(value).ok()?;
        let is_named = !task.task_id.is_empty() && task.task_id.len() <= MAX_ID;
        (is_named && id.is_none_or(|id| task.task_id == id)).then_some(task)
    }

    /// How long to wait before the next look, if the server states it.
    fn interval(&self) -> Option<Duration> {
        let (least, most) = (INTERVAL.0, INTERVAL.2);
        let stated = Duration::try_from_secs_f64(self.poll_interval? / 1000.0);
        Some(stated.unwrap_or(most).clamp(least, most))
    }
}

/// Where the result of a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResultPlace {
    /// In the task (2026-07-28).
    Task,
    /// In the response to `tasks/result` (2025-11-25).
    Apart,
}

impl Server {
    /// Calls a tool that must be called as a task (2025-11-25).
    pub(super) async fn call_as_task(
        &self,
        peer: &Peer<RoleClient>,
        params: CallToolRequestParams,
        reports: &Reports,
    ) -> Result<Output, Unanswered> {
        let longest = self.options.timeout.saturating_mul(MOST);
        let ttl = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
        let params = json!({"name": params.name, "arguments": params.arguments, "task": {"ttl": ttl}});
        let request = CustomRequest::new("tools/call", Some(params));
        let result = match self.answer(peer, ClientRequest::CustomRequest(request)).await? {
            // The server answers at once nevertheless.
            ServerResult::CallToolResult(result) => return Ok(output::of(result)),
            ServerResult::CreateTaskResult(task) => return self.await_task(peer, &task, reports).await,
            result => serde_json::to_value(&result).unwrap_or_default(),
        };
        let task = result.get("task").and_then(|task| Task::read(task, None)).ok_or_else(not_a_result)?;
        self.follow(peer, task, ResultPlace::Apart, reports).await
    }

    /// Waits for the result of a call that the server runs as a task (2026-07-28).
    pub(super) async fn await_task(
        &self,
        peer: &Peer<RoleClient>,
        created: &CreateTaskResult,
        reports: &Reports,
    ) -> Result<Output, Unanswered> {
        let created = serde_json::to_value(created).unwrap_or_default();
        let task = Task::read(&created, None).ok_or_else(not_a_result)?;
        self.follow(peer, task, ResultPlace::Task, reports).await
    }

    /// Looks at a task until it has ended. Dropping the future cancels the task.
    async fn follow(
        &self,
        peer: &Peer<RoleClient>,
        mut task: Task,
        place: ResultPlace,
        reports: &Reports,
    ) -> Result<Output, Unanswered> {
        let id = task.task_id.clone();
        let mut given_up = CancelOnDrop { peer, id: Some(id.clone()) };
        let (mut said, mut asked, mut interval) = (None, HashSet::new(), INTERVAL.1);
        loop {
            interval = task.interval().unwrap_or(interval);
            if said != task.status_message {
                said.clone_from(&task.status_message);
                let mut message = task.status_message.take().unwrap_or_default();
                message.truncate(boundary_upto(&message, MAX_MESSAGE));
                reports.report(Report { done: f64::NAN, total: None, message });
            }
            match (task.status, place) {
                (TaskStatus::Cancelled, _) => {
                    given_up.id = None;
                    return Err(final_failure("The server cancelled the task.").into());
                }
                (TaskStatus::Completed | TaskStatus::Failed, ResultPlace::Task) => {
                    given_up.id = None;
                    return ended(task);
                }
                // Questions come while the result is awaited.
                (TaskStatus::Completed | TaskStatus::Failed | TaskStatus::InputRequired, ResultPlace::Apart) => {
                    let request = CustomRequest::new("tasks/result", Some(json!({"taskId": id})));
                    let result = self.answer(peer, ClientRequest::CustomRequest(request)).await?;
                    given_up.id = None;
                    return result_of(result);
                }
                (TaskStatus::InputRequired, ResultPlace::Task) => {
                    let requests = task.input_requests.take().unwrap_or_default();
                    self.answer_task(peer, &id, requests, &mut asked).await?;
                }
                _ => {}
            }
            sleep(interval).await;
            let request = GetTaskRequest::new(GetTaskParams::new(id.as_str()));
            let result = self.answer(peer, request.into()).await?;
            let result = serde_json::to_value(&result).unwrap_or_default();
            task = Task::read(&result, Some(&id)).ok_or_else(not_a_result)?;
        }
    }

    /// Asks a person what a task needs to know. `asked` are the questions that it has asked.
    async fn answer_task(
        &self,
        peer: &Peer<RoleClient>,
        id: &str,
        requests: InputRequests,
        asked: &mut HashSet<String>,
    ) -> Result<(), Unanswered> {
        let new = requests.into_iter().filter(|(key, _)| asked.insert(key.clone()));
        let new: InputRequests = new.collect();
        if asked.len() > MAX_QUESTIONS {
            return Err(final_failure("The tool asks for too much input.").into());
        }
        if let Some(responses) = self.input(new).await? {
            let request = UpdateTaskRequest::new(UpdateTaskParams::new(id, responses));
            self.answer(peer, request.into()).await?;
        }
        Ok(())
    }
}

/// The output of a task that has ended and has its result.
fn ended(task: Task) -> Result<Output, Unanswered> {
    if let Some(error) = task.error {
        let message = error.get("message").and_then(Value::as_str).unwrap_or("The task has failed.");
        return Ok(Output::failed(message.to_owned()));
    }
    let result = task.result.and_then(|result| serde_json::from_value::<CallToolResult>(result).ok());
    Ok(output::of(result.ok_or_else(not_a_result)?))
}

/// Cancels a task on drop.
struct CancelOnDrop<'p> {
    peer: &'p Peer<RoleClient>,
    /// `None` if the task has ended.
    id: Option<String>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            let request = CancelTaskRequest::new(CancelTaskParams::new(id));
            let options = PeerRequestOptions::no_options();
            // Polled once, which puts it into the queue of the connection if that is not full.
            let _ = self.peer.send_cancellable_request(request.into(), options).now_or_never();
        }
    }
}
