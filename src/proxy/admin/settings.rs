//! `/admin/settings`: the resolved configuration, with where its values come from.

use serde_json::{Map, Value, json};

use super::Said;
use crate::config::{Config, Setting, SettingValue};

/// All settings. Secrets are only said to be set or not.
pub(super) fn list(config: &Config) -> Said {
    let settings: Vec<_> = config.settings().into_iter().map(shown).collect();
    Said::json(json!({"settings": settings}))
}

fn shown(setting: Setting) -> Value {
    let Setting { path, value, default, source } = setting;
    let mut shown = Map::from_iter([("path".to_owned(), path.into())]);
    match value {
        SettingValue::Secret(is_set) => {
            shown.insert("secret".to_owned(), true.into());
            shown.insert("set".to_owned(), is_set.into());
        }
        SettingValue::Plain(value) => _ = shown.insert("value".to_owned(), json!(value)),
    }
    shown.extend(default.map(|default| ("default".to_owned(), json!(default))));
    let (kind, place) = source.map_or(("default", None), |source| (source.kind, Some(source.place)));
    shown.insert("source".to_owned(), kind.into());
    shown.extend(place.map(|place| ("where".to_owned(), place.into())));
    Value::Object(shown)
}
