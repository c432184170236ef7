//! `/v1/providers`: programs that register their tools at run time.
//!
//! A program's registration key determines what it may do; see [`Registrations`](toolwire_execution::Registrations).

use std::{
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Method, request};
use serde_json::{Value, json};

use super::{feed_body::FeedSource, routes::ProgramPath};
use toolwire_execution::{CallStream, Execution, Registered, Registrations, ShownRequest};
use toolwire_pipeline::failure::{Failure, Kind};

#[derive(Debug)]
pub(super) enum Outcome {
    Json(Value),
    /// The stream of the program's calls.
    Calls(CallStream),
}

/// Handles a request from a program.
///
/// # Errors
/// If the request has no valid registration key, or is invalid.
pub(super) fn answer(
    execution: &Execution,
    path: &ProgramPath,
    head: &request::Parts,
    body: &Bytes,
) -> Result<Outcome, Failure> {
    let (registrations, key) = authorized(execution, head, body)?;
    let success = json!({"success": true});
    Ok(Outcome::Json(match path {
        ProgramPath::Register => {
            let Registered { lease, mut refused, accepted } = registrations.register(key, body)?;
            execution.registry().refresh();
            let offered = execution.registry().snapshot();
            refused.extend(accepted.into_iter().filter(|name| !offered.has(registrations.name(), name)));
            json!({"success": true, "lease_s": lease.as_secs(), "refused_tools": refused})
        }
        ProgramPath::Heartbeat(id) => {
            let lease = registrations.renew(key, id)?;
            json!({"success": true, "lease_s": lease.as_secs()})
        }
        ProgramPath::Registration(id) => {
            registrations.remove(key, id)?;
            success
        }
        ProgramPath::Calls(id) => return registrations.connect(key, id).map(Outcome::Calls),
        ProgramPath::Result(id, call) => {
            registrations.answer(key, id, call, body)?;
            success
        }
    }))
}

/// Returns the first provider that accepts the request's key, together with the key.
fn authorized(
    execution: &Execution,
    head: &request::Parts,
    body: &Bytes,
) -> Result<(Arc<Registrations>, toolwire_execution::KeyNumber), Failure> {
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let request = ShownRequest::new(&head.method, path, &head.headers, body);
    let mut refusal = None;
    for registrations in execution.registrations() {
        match registrations.authorize(&request) {
            Ok(key) => return Ok((registrations, key)),
            Err(failure) => refusal = Some(failure),
        }
    }
    Err(refusal.unwrap_or_else(|| Failure::new(Kind::NotFound, "no provider lets programs register")))
}

/// Whether a request with this method has a body to read.
pub(super) fn has_body(method: &Method) -> bool {
    *method == Method::POST
}

impl FeedSource for CallStream {
    fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        Poll::Ready(ready!(self.poll_event(cx)).map(Bytes::from))
    }
}
