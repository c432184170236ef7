//! `/admin/bench`: measures a configured upstream with the program's bench, one run at a time.

use std::sync::{Arc, OnceLock};

use http::StatusCode;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::{AdminError, AdminResponse};
use toolwire_config::{Config, Upstream, WILDCARD};
use toolwire_gateway::{Bench, BenchRequest, BenchRun};

const MAX_STREAMS: u64 = 200;

/// Maximum number of tokens in one stream's response.
const MAX_TOKENS: u64 = 2000;

/// The program's bench, if it has one, and the most recent run.
#[derive(Debug, Default)]
pub(super) struct BenchPlace {
    bench: OnceLock<Arc<dyn Bench>>,
    run: Mutex<Option<Box<dyn BenchRun>>>,
}

impl BenchPlace {
    pub(super) fn offer(&self, bench: Arc<dyn Bench>) {
        // A process has only one bench, so it is never replaced.
        let _ = self.bench.set(bench);
    }

    /// Reports the most recent run.
    ///
    /// # Errors
    /// 404 without a bench.
    pub(super) fn state(&self) -> Result<AdminResponse, AdminError> {
        self.bench()?;
        Ok(AdminResponse::json(shown(self.run.lock().as_deref())))
    }

    /// Starts a run: `{"upstream", "streams", "tokens", "model"?}`.
    ///
    /// # Errors
    /// 404 without a bench; 409 while a run is in progress; 400 and 422 for invalid fields; 422 for an upstream that
    /// cannot be measured.
    pub(super) fn begin(
        &self,
        config: &Config,
        object: &Map<String, Value>,
    ) -> Result<AdminResponse, AdminError> {
        let bench = self.bench()?;
        let streams = number(object, "streams", MAX_STREAMS)?;
        let tokens = number(object, "tokens", MAX_TOKENS)?;
        let (upstream, model) = target(config, object)?;
        let mut run = self.run.lock();
        if run.as_ref().is_some_and(|run| run.result().is_none()) {
            let message = "a bench is running; wait for its end, or stop it with DELETE";
            return Err(AdminError::new(StatusCode::CONFLICT, "running", message));
        }
        let name = upstream.name.clone();
        let begun = bench.begin(BenchRequest { upstream, model, streams, tokens });
        *run = Some(begun.map_err(|error| unprocessable(error.to_string(), "upstream"))?);
        tracing::info!(upstream = %name, streams, tokens, "a bench was begun over the admin API");
        Ok(AdminResponse::json(shown(run.as_deref())))
    }

    /// Stops the run, or deletes its report.
    ///
    /// # Errors
    /// 404 without a bench.
    pub(super) fn stop(&self) -> Result<AdminResponse, AdminError> {
        self.bench()?;
        *self.run.lock() = None;
        Ok(AdminResponse::json(shown(None)))
    }

    fn bench(&self) -> Result<&Arc<dyn Bench>, AdminError> {
        self.bench.get().ok_or_else(|| {
            let message = "this program has no bench in its API; only `toolwire serve` has one";
            AdminError::new(StatusCode::NOT_FOUND, "no_bench", message)
        })
    }
}

fn shown(run: Option<&dyn BenchRun>) -> Value {
    let Some(run) = run else { return json!({"state": "idle"}) };
    match run.result() {
        None => json!({"state": "running", "progress": run.progress()}),
        Some(Ok(report)) => json!({"state": "done", "progress": 1, "report": report}),
        Some(Err(error)) => {
            json!({"state": "failed", "error": {"code": "bench_failed", "message": error.to_string()}})
        }
    }
}

/// Returns the requested upstream, and the requested model or the first configured one.
fn target(config: &Config, object: &Map<String, Value>) -> Result<(Arc<Upstream>, String), AdminError> {
    let text = |key: &'static str| match object.get(key) {
        None => Ok(None),
        Some(Value::String(text)) if !text.is_empty() && text.len() <= 256 => Ok(Some(text.as_str())),
        Some(_) => Err(AdminError::invalid(format!("`{key}` is a string of 1 to 256 bytes"), Some(key))),
    };
    let name =
        text("upstream")?.ok_or_else(|| AdminError::invalid("`upstream` is missing", Some("upstream")))?;
    let found = config.upstreams.iter().find(|upstream| upstream.name == name);
    let upstream = found.ok_or_else(|| {
        let known: Vec<_> = config.upstreams.iter().map(|upstream| upstream.name.as_str()).collect();
        unprocessable(
            format!("the configuration has no such upstream; it has {}", known.join(", ")),
            "upstream",
        )
    })?;
    let own = || {
        let mut models = config.models.iter().filter(|model| model.upstream.name == name);
        let named = models.find(|model| model.upstream_name.is_some() || model.name != WILDCARD)?;
        Some(named.upstream_name(&named.name).to_owned())
    };
    let model = text("model")?.map(str::to_owned).or_else(own);
    let model = model.ok_or_else(|| {
        unprocessable("no model of this upstream has a name: say which in `model`".to_owned(), "model")
    })?;
    Ok((Arc::clone(upstream), model))
}

fn number(object: &Map<String, Value>, key: &'static str, max: u64) -> Result<u64, AdminError> {
    let number = object.get(key).and_then(Value::as_u64);
    let number =
        number.ok_or_else(|| AdminError::invalid(format!("`{key}` is a whole number"), Some(key)))?;
    if (1..=max).contains(&number) {
        return Ok(number);
    }
    Err(unprocessable(format!("`{key}` is from 1 to {max}; `toolwire bench` has no such limit"), key))
}

fn unprocessable(message: String, path: &str) -> AdminError {
    AdminError::new(StatusCode::UNPROCESSABLE_ENTITY, "unprocessable", message).at(path)
}
