//! `/admin/settings`: the resolved configuration. Secrets are only said to be set.

use serde_json::{Value, json};

use super::{AdminError, Said};
use crate::config::Config;

/// All settings.
pub(super) fn list(config: &Config) -> Result<Said, AdminError> {
    let resolved = serde_json::to_value(config.to_toml()).unwrap_or(Value::Null);
    Ok(Said::json(json!({"settings": resolved})))
}
