//! `/admin/settings`: all settings with their values and sources, and changes to the settings saved through the admin
//! API.
//!
//! A change is checked by loading the complete configuration with it, in the same way as the reload that follows.

use std::{path::PathBuf, sync::Arc};

use http::{HeaderMap, HeaderValue, StatusCode, header};
use parking_lot::{Mutex, RwLock};
use serde_json::{Map, Value, json};

use super::{AdminError, AdminResponse, sessions::digest_of};
use toolwire_config::{
    Config, Facts, Loaded, Overlay, Place, Problem, Problems, Refused, Setting, SettingValue, Severity,
};
use toolwire_pipeline::wire::{hex, suggest::nearest_names};

const MAX_PROBLEMS: usize = 50;

/// Maximum length of a problem's message in characters.
const MAX_MESSAGE: usize = 500;

/// The settings that were saved through the admin API.
#[derive(Debug)]
pub(super) struct SavedSettings {
    /// The folder in which settings are saved, if there is one.
    folder: Option<PathBuf>,
    saved: RwLock<Arc<Saved>>,
    /// Held during a change, since changes must not overlap.
    changing: Mutex<()>,
}

/// The saved settings and those in use, which differ only after a failed reload.
#[derive(Debug)]
struct Saved {
    overlay: Overlay,
    /// The configuration including the saved settings.
    config: Arc<Config>,
    /// The saved settings that are in use.
    running: Overlay,
}

impl Saved {
    fn of(config: &Arc<Config>) -> Arc<Self> {
        let (overlay, running) = (config.overlay(), config.overlay());
        Arc::new(Self { overlay, config: Arc::clone(config), running })
    }
}

#[derive(Debug)]
pub(super) enum Change {
    /// New values by path, flat or nested. `null` resets a setting.
    Patch(Map<String, Value>),
    /// Resets the setting at this path and all settings below it.
    Reset(String),
    ResetAll,
}

impl SavedSettings {
    pub(super) fn new(config: &Arc<Config>) -> Self {
        let saved = RwLock::new(Saved::of(config));
        Self { folder: config.state_dir.clone(), saved, changing: Mutex::default() }
    }

    pub(super) fn reloaded(&self, config: &Arc<Config>) {
        self.replace(Saved::of(config));
    }

    /// Lists all settings. For a secret, lists only whether it is set.
    pub(super) fn list(&self) -> AdminResponse {
        let saved = self.saved();
        let settings = saved.config.settings().into_iter();
        let settings: Vec<_> = settings.map(|setting| saved.shown(setting)).collect();
        AdminResponse::json(json!({"settings": settings})).with(header::ETAG, etag(&saved.overlay))
    }

    /// Applies and saves a change, and returns the paths of the changed settings. Blocks on the disk.
    ///
    /// # Errors
    /// 404, 409, 412 or 422. In these cases, nothing is changed.
    pub(super) fn change(&self, change: &Change, condition: Option<&str>) -> Result<Vec<String>, AdminError> {
        let Some(folder) = &self.folder else {
            let message = "settings cannot be saved without `state_dir`";
            return Err(AdminError::new(StatusCode::CONFLICT, "no_state_dir", message));
        };
        let _changing = self.changing.lock();
        let before = self.saved();
        if condition.is_some_and(|condition| !is_met(condition, &etag(&before.overlay))) {
            let message = "the settings were changed meanwhile: fetch them again";
            return Err(AdminError::new(StatusCode::PRECONDITION_FAILED, "changed", message));
        }
        let (overlay, paths) = match change {
            Change::Patch(patch) => {
                let facts = before.config.facts();
                let patched = before.overlay.patched(patch, &|path| facts.is_json(path));
                patched.map_err(|refused| {
                    let refused = refused.iter().take(MAX_PROBLEMS);
                    invalid(refused.map(|one| shown_refusal(one, &facts)).collect())
                })?
            }
            Change::Reset(path) => {
                let removed = before.overlay.without(path);
                removed.ok_or_else(|| AdminError::unknown("saved setting", path))?
            }
            Change::ResetAll => (Overlay::default(), before.overlay.paths().map(str::to_owned).collect()),
        };
        let config = checked(&before.config, &overlay, &paths)?;
        overlay.write(folder).map_err(|error| {
            tracing::error!(path = %Overlay::file(folder).display(), %error, "settings cannot be saved");
            let message = format!("the settings cannot be saved: {error}");
            AdminError::new(StatusCode::INTERNAL_SERVER_ERROR, "not_saved", message)
        })?;
        let running = self.saved().running.clone();
        self.replace(Arc::new(Saved { overlay, config: Arc::new(config), running }));
        Ok(paths)
    }

    pub(super) fn changed(&self, paths: &[String]) -> AdminResponse {
        let saved = self.saved();
        let settings = saved.config.settings();
        let shown: Vec<_> = paths
            .iter()
            .map(|path| match settings.iter().find(|setting| setting.path == *path) {
                Some(setting) => saved.shown(setting.clone()),
                None => {
                    let mut shown = Map::from_iter([("path".to_owned(), path.as_str().into())]);
                    shown.insert("source".to_owned(), "default".into());
                    saved.mark_pending(path, &mut shown);
                    Value::Object(shown)
                }
            })
            .collect();
        let needs_restart = paths.iter().any(|path| saved.is_pending(path));
        AdminResponse::json(json!({"settings": shown, "restart_required": needs_restart}))
            .with(header::ETAG, etag(&saved.overlay))
    }

    fn saved(&self) -> Arc<Saved> {
        Arc::clone(&self.saved.read())
    }

    fn replace(&self, saved: Arc<Saved>) {
        *self.saved.write() = saved;
    }
}

impl Saved {
    fn shown(&self, setting: Setting) -> Value {
        let Setting { path, value, default, source, file_value, facts } = setting;
        let mut shown = Map::from_iter([("path".to_owned(), path.as_str().into())]);
        match value {
            SettingValue::Secret(is_set) => {
                shown.insert("secret".to_owned(), true.into());
                shown.insert("set".to_owned(), is_set.into());
            }
            SettingValue::Plain(value) => _ = shown.insert("value".to_owned(), json!(value)),
        }
        let mut put = |key: &str, value: Option<Value>| {
            shown.extend(value.map(|value| (key.to_owned(), value)));
        };
        put("default", default.map(|default| json!(default)));
        put("min", facts.min.map(|least| json!(least)));
        put("max", facts.max.map(|most| json!(most)));
        let (kind, place) = source.map_or(("default", None), |source| (source.kind, source.place));
        put("source", Some(kind.into()));
        put("file_value", file_value);
        put("where", place.map(Into::into));
        put("settable", (!facts.is_settable).then(|| false.into()));
        put("about", (!facts.about.is_empty()).then(|| (*facts.about).into()));
        put("words", (!facts.words.is_empty()).then(|| json!(facts.words)));
        self.mark_pending(&path, &mut shown);
        Value::Object(shown)
    }

    /// Marks a saved value that is not in use yet.
    fn mark_pending(&self, path: &str, shown: &mut Map<String, Value>) {
        if self.is_pending(path) {
            shown.insert("restart_required".to_owned(), true.into());
        }
    }

    fn is_pending(&self, path: &str) -> bool {
        !self.running.agrees(&self.overlay, path)
    }
}

/// Returns the value of the request's `If-Match` header, if present.
///
/// # Errors
/// If the value is not text.
pub(super) fn condition(headers: &HeaderMap) -> Result<Option<String>, AdminError> {
    let values = headers.get_all(header::IF_MATCH).iter().map(HeaderValue::to_str);
    let values: Result<Vec<_>, _> = values.collect();
    let values = values.map_err(|_| AdminError::invalid("the header `If-Match` is not text", None))?;
    Ok((!values.is_empty()).then(|| values.join(", ")))
}

/// Whether `If-Match` matches the tag. Weak tags never match (RFC 9110, section 13.1.1).
fn is_met(condition: &str, tag: &str) -> bool {
    condition.trim() == "*" || condition.split(',').any(|own| own.trim() == tag)
}

/// Returns the entity tag of the saved settings. It is a digest, so that it reveals no secrets.
fn etag(overlay: &Overlay) -> String {
    let digest = hex::encode(&digest_of(overlay.text().as_bytes()));
    format!("\"{}\"", digest.get(..32).unwrap_or(&digest))
}

/// Loads the configuration with `overlay`. `paths` are the settings that the request changes.
fn checked(config: &Config, overlay: &Overlay, paths: &[String]) -> Result<Config, AdminError> {
    let facts = config.facts();
    let Loaded { config, .. } = config.with_overlay(overlay.clone()).map_err(|Problems(problems)| {
        let mut errors: Vec<_> =
            problems.iter().filter(|problem| problem.severity == Severity::Error).collect();
        // Lists errors in the request before the errors that they cause elsewhere.
        errors.sort_by_key(|problem| !matches!(problem.place, Place::Overlay { .. }));
        let errors = errors.into_iter().take(MAX_PROBLEMS);
        invalid(errors.map(|problem| shown_problem(problem, &facts)).collect())
    })?;
    let refused = config.sources.refused().iter().filter(|refused| paths.contains(&refused.path));
    let refused: Vec<_> = refused.take(MAX_PROBLEMS).map(|one| shown_refusal(one, &facts)).collect();
    if refused.is_empty() { Ok(config) } else { Err(invalid(refused)) }
}

/// A 422 error that lists `problems`.
fn invalid(problems: Vec<Value>) -> AdminError {
    let first = problems.first().and_then(|problem| problem.get("message")).and_then(Value::as_str);
    let message = format!("nothing was changed: {}", first.unwrap_or("the settings are not valid"));
    let path = problems.first().and_then(|problem| problem.get("path")).and_then(Value::as_str);
    let error = AdminError::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_settings", message);
    let error = match path {
        Some(path) => error.at(path),
        None => error,
    };
    error.with("problems", Value::Array(problems))
}

fn shown_refusal(refused: &Refused, facts: &Facts) -> Value {
    json!({
        "path": refused.path, "message": refused.message, "nearest": nearest(&refused.path, facts),
    })
}

fn shown_problem(problem: &Problem, facts: &Facts) -> Value {
    // Some messages repeat the value, which may be long.
    let message: String = problem.message.chars().take(MAX_MESSAGE).collect();
    match &problem.place {
        Place::Overlay { setting, .. } => {
            json!({"path": setting, "message": message, "nearest": nearest(setting, facts)})
        }
        Place::Nowhere => json!({"path": null, "message": message, "nearest": []}),
        place => json!({"path": null, "message": message, "nearest": [], "where": place.to_string()}),
    }
}

/// Returns the paths of the settings that most resemble an unknown path.
fn nearest(path: &str, facts: &Facts) -> Vec<String> {
    if facts.find(path).is_some() {
        return Vec::new();
    }
    let known: Vec<_> = facts.settable().collect();
    nearest_names(path, &known).into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn if_match_compares_strongly() {
        let tag = etag(&Overlay::default());
        for (condition, is_it) in [
            ("*", true),
            (tag.as_str(), true),
            (&format!("\"a\", {tag}"), true),
            (&format!("W/{tag}"), false),
            ("\"a\"", false),
            ("", false),
            (tag.trim_matches('"'), false),
        ] {
            assert_eq!(is_met(condition, &tag), is_it, "{condition}");
        }
    }
}
