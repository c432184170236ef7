//! Serves the list of the most recent exchanges, and single exchanges.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use super::{
    AdminError, AdminResponse,
    exchange_log::{ExchangeLog, ExchangeRecord, NoFixture, Query, TraceFeed, Traced},
    object, tar,
};
use toolwire_config::percent::percent_decoded;
use toolwire_gateway::stamp::unix_time;

/// Default number of exchanges in one response.
const LIMIT: usize = 100;

const MAX_LIMIT: usize = 500;

/// Maximum length of a list of formats in bytes.
const MAX_DETECT: usize = 1024;

#[derive(Debug, Default)]
struct Wanted {
    query: Query,
    /// Only exchanges that began before the one with this id are listed.
    before: Option<String>,
    limit: Option<usize>,
}

/// Lists the exchanges that match the query string, newest first.
pub(super) async fn list(log: &Arc<ExchangeLog>, query: Option<&str>) -> Result<AdminResponse, AdminError> {
    let wanted = wanted(query.unwrap_or_default())?;
    let log = Arc::clone(log);
    // Searching thousands of rows would delay other streams on this thread for too long.
    let searching = tokio::task::spawn_blocking(move || rows(&log, &wanted));
    let list = searching.await.map_err(|_| {
        AdminError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the list could not be made")
    })?;
    Ok(AdminResponse::json(list))
}

fn rows(log: &ExchangeLog, wanted: &Wanted) -> Value {
    let listed = log.list(wanted.before.as_deref());
    let mut found = listed.records.iter().filter_map(|record| wanted.query.row_of(record));
    let rows: Vec<_> = found.by_ref().take(wanted.limit.unwrap_or(LIMIT)).collect();
    let has_more = found.next().is_some();
    json!({"exchanges": rows, "more": has_more, "kept": listed.kept, "keep": log.max(), "since": log.since()})
}

pub(super) fn one(log: &ExchangeLog, id: &str) -> Result<AdminResponse, AdminError> {
    Ok(AdminResponse::json(find(log, id)?.json()))
}

/// Follows an exchange's rows as they appear. `None` if the exchange is over, or if it is not captured.
pub(super) fn follow(log: &ExchangeLog, id: &str) -> Option<TraceFeed> {
    log.find(id)?.follow()
}

pub(super) async fn events(log: &ExchangeLog, id: &str) -> Result<AdminResponse, AdminError> {
    let record = find(log, id)?;
    if !record.is_captured() {
        return Ok(AdminResponse::json(json!({"exchange": id, "captured": "off", "rows": record.outline()})));
    }
    let reading = tokio::task::spawn_blocking(move || record.traced());
    shown(id, reading.await.ok().flatten())
}

/// # Errors
/// 404 if the contents were dropped.
fn shown(id: &str, traced: Option<Traced>) -> Result<AdminResponse, AdminError> {
    let Traced { rows, calls, is_cut } = traced.ok_or_else(|| {
        let message = "the contents of this exchange are not kept any more: newer ones took their place";
        AdminError::new(StatusCode::NOT_FOUND, "not_kept", message)
    })?;
    Ok(AdminResponse::json(json!({
        "exchange": id, "captured": "redacted", "rows": rows, "calls": calls, "cut": is_cut,
    })))
}

/// Returns the client's request, what the model was sent because of it, and the hosted calls.
pub(super) async fn requests(log: &ExchangeLog, id: &str) -> Result<AdminResponse, AdminError> {
    let record = find(log, id)?;
    let reading = tokio::task::spawn_blocking(move || record.requests());
    let requests = reading.await.map_err(|_| {
        AdminError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the requests could not be read")
    })?;
    Ok(AdminResponse::json(requests))
}

/// Reads the first hop again, with the formats that the body names in `detect`.
pub(super) async fn read_again(
    log: &ExchangeLog,
    id: &str,
    body: &[u8],
) -> Result<AdminResponse, AdminError> {
    let object = object(body)?;
    let detect = object.get("detect").and_then(Value::as_str).filter(|detect| detect.len() <= MAX_DETECT);
    let detect = detect.map(str::to_owned).ok_or_else(|| {
        let message =
            format!("`detect` is `auto`, `off`, or names of formats, of at most {MAX_DETECT} bytes");
        AdminError::invalid(message, Some("detect"))
    })?;
    let record = find(log, id)?;
    if !record.is_captured() {
        return Err(not_captured());
    }
    let reading = tokio::task::spawn_blocking(move || record.read_again(&detect));
    let traced = reading.await.ok().transpose();
    let traced = traced.map_err(|error| AdminError::invalid(error.to_string(), Some("detect")))?;
    shown(id, traced.flatten())
}

fn not_captured() -> AdminError {
    let message = "the contents of this exchange were not captured: set `capture = \"redacted\"` in [admin], and repeat it";
    AdminError::new(StatusCode::CONFLICT, "not_captured", message)
}

/// Returns the exchange as a fixture archive, which `toolwire replay` can play once unpacked.
pub(super) async fn fixture(log: &ExchangeLog, id: &str) -> Result<AdminResponse, AdminError> {
    let record = find(log, id)?;
    let conflict = |code, message| Err(AdminError::new(StatusCode::CONFLICT, code, message));
    if !record.is_captured() {
        return Err(not_captured());
    }
    let folder = record.id().to_owned();
    let packing = tokio::task::spawn_blocking(move || {
        record.fixture().map(|files| tar::archive(record.id(), &files, unix_time()))
    });
    match packing.await {
        Ok(Ok(archive)) => {
            Ok(AdminResponse::file(&format!("{folder}.tar"), "application/x-tar", archive.into()))
        }
        Ok(Err(NoFixture::Running)) => conflict("running", "this exchange is not over yet"),
        Ok(Err(NoFixture::TooLong)) => {
            conflict("too_long", "only the beginning of this exchange is kept: it is too long")
        }
        Ok(Err(NoFixture::Unanswered)) => {
            conflict("unanswered", "no upstream has answered: there is nothing to play")
        }
        Ok(Err(NoFixture::NotKept)) | Err(_) => {
            let message = "the contents of this exchange are not kept: newer ones took their place, or no upstream was asked";
            conflict("not_kept", message)
        }
    }
}

/// Finds the record of the exchange `id`.
///
/// # Errors
/// 404 if the exchange is not in the log.
fn find(log: &ExchangeLog, id: &str) -> Result<Arc<ExchangeRecord>, AdminError> {
    log.find(id).ok_or_else(|| {
        let message = format!("this exchange is not kept any more: the last {} are kept", log.max());
        AdminError::new(StatusCode::NOT_FOUND, "not_kept", message).with("since", log.since().into())
    })
}

fn wanted(query: &str) -> Result<Wanted, AdminError> {
    let mut wanted = Wanted::default();
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let Some(key) = ["q", "before", "limit"].into_iter().find(|known| *known == key) else {
            // Browsers and proxies may add other parameters, which are ignored.
            continue;
        };
        let value = percent_decoded(&value.replace('+', " "))
            .ok_or_else(|| AdminError::invalid("the query string is not UTF-8", Some(key)))?;
        match key {
            "q" => {
                wanted.query = Query::parse(&value).map_err(|error| {
                    AdminError::invalid(error.to_string(), Some("q")).with("position", error.position.into())
                })?;
            }
            "before" => wanted.before = Some(value).filter(|id| !id.is_empty()),
            _ => {
                let limit = value.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
                wanted.limit = Some(limit.ok_or_else(|| {
                    let message = format!("`limit` is a number from 1 to {MAX_LIMIT}");
                    AdminError::invalid(message, Some("limit"))
                })?);
            }
        }
    }
    Ok(wanted)
}
