//! [`Changes`]: the settings that differ between two configurations.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};

use toml::{Table, Value};

use super::{Config, overlay::below};

const FIXED: [&str; 11] = [
    "listen",
    "tls",
    "threads",
    "state_dir",
    "store",
    "limits.max_store",
    "limits.store_ttl",
    "limits.instances",
    "limits.unchecked_budgets",
    "metrics.tool_names",
    "telemetry",
];

/// The paths of the settings that differ. If one configuration lacks a whole table, only the table's path is listed. A
/// changed secret counts as a difference.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes(Vec<String>);

impl Changes {
    /// Whether a setting at or below `path` differs.
    pub fn touch(&self, path: &str) -> bool {
        self.0.iter().any(|changed| is_at(changed, path) || is_at(path, changed))
    }

    /// Whether a setting differs in the entry `name` of the array `array`.
    pub fn touch_entry(&self, array: &str, name: &str) -> bool {
        self.touch(&below(array, name))
    }

    pub fn paths(&self) -> &[String] {
        &self.0
    }
}

impl Config {
    /// Returns the settings whose values differ in `other`, or that only one of the two configurations has.
    pub fn changes_to(&self, other: &Self) -> Changes {
        let (before, after) = (Value::Table(self.comparable()), Value::Table(other.comparable()));
        let mut paths = Vec::new();
        compare(String::new(), (Some(&before), Some(&after)), &mut paths);
        paths.sort_unstable();
        Changes(paths)
    }

    /// Returns this configuration, but with the values from `running` for all settings that cannot change while the
    /// process runs. Also returns the changes that therefore need a restart.
    pub fn keeping_fixed(self, running: &Self) -> (Self, Changes) {
        let Changes(mut paths) = running.changes_to(&self);
        paths.retain(|path| FIXED.iter().any(|fixed| is_at(path, fixed)));
        let mut kept = self;
        kept.listen.clone_from(&running.listen);
        kept.tls.clone_from(&running.tls);
        kept.threads = running.threads;
        kept.state_dir.clone_from(&running.state_dir);
        kept.store.clone_from(&running.store);
        kept.limits.max_store = running.limits.max_store;
        kept.limits.store_ttl = running.limits.store_ttl;
        kept.limits.instances = running.limits.instances;
        kept.limits.unchecked_budgets = running.limits.unchecked_budgets;
        kept.metrics = running.metrics;
        kept.telemetry.clone_from(&running.telemetry);
        (kept, Changes(paths))
    }

    /// Returns the first of `addresses` that is reachable from other machines, if clients need no key. Reads the key
    /// file.
    pub fn open_to_all(&self, addresses: &[SocketAddr]) -> Option<SocketAddr> {
        let is_open = !self.needs_key();
        addresses.iter().find(|address| is_open && !address.ip().to_canonical().is_loopback()).copied()
    }
}

/// Whether `path` is equal to `above`, or below it.
fn is_at(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Appends the paths at which two values differ.
fn compare(path: String, values: (Option<&Value>, Option<&Value>), paths: &mut Vec<String>) {
    let parts = match values {
        (Some(Value::Table(before)), Some(Value::Table(after))) => Some((by_key(before), by_key(after))),
        (before, after) => entries(before).zip(entries(after)),
    };
    match parts {
        Some((before, after)) => {
            let keys: BTreeSet<_> = before.keys().chain(after.keys()).collect();
            for key in keys {
                let both = (before.get(key).copied(), after.get(key).copied());
                compare(below(&path, key), both, paths);
            }
        }
        None if values.0 != values.1 => paths.push(path),
        None => {}
    }
}

fn by_key(table: &Table) -> BTreeMap<String, &Value> {
    table.iter().map(|(key, value)| (key.clone(), value)).collect()
}

/// Returns the entries of an array of tables by name, or by index if they have no name. An absent array counts as
/// empty.
fn entries(value: Option<&Value>) -> Option<BTreeMap<String, &Value>> {
    let Some(value) = value else { return Some(BTreeMap::new()) };
    let entries = value.as_array().filter(|entries| entries.iter().any(Value::is_table))?;
    let named = entries.iter().enumerate().map(|(place, entry)| {
        let name = entry.get("name").and_then(Value::as_str);
        (name.map_or_else(|| place.to_string(), str::to_owned), entry)
    });
    Some(named.collect())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::{Overrides, load};

    const FILE: &str = r#"
listen = "127.0.0.1:0"
api_keys = ["env:CLIENT"]
[[upstreams]]
name = "up"
dialect = "chat"
base_url = "http://127.0.0.1:1/v1"
api_key = "env:UPSTREAM"
headers = { x-token = "env:HEADER" }
[[upstreams]]
name = "up.2"
dialect = "chat"
base_url = "http://127.0.0.1:2/v1"
[[models]]
name = "m"
upstream = "up"
[admin]
api_keys = ["admin-key"]
[execution]
[[providers]]
name = "serper"
kind = "serper"
api_key = "env:SERPER"
[[permissions]]
permission = "deny"
key = "env:CLIENT"
"#;

    fn config(text: &str, secret: impl Fn(&str) -> String) -> Config {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let overrides = Overrides { file: Some(file.path().to_owned()), ..Overrides::default() };
        load(&overrides, &|name| Some(secret(name))).unwrap().config
    }

    fn changes(text: &str, secret: impl Fn(&str) -> String) -> Vec<String> {
        let before = config(FILE, |name| format!("secret of {name}"));
        before.changes_to(&config(text, secret)).paths().to_vec()
    }

    #[test]
    fn settings_that_differ_are_found() {
        let same = |name: &str| format!("secret of {name}");
        assert_eq!(changes(FILE, same), [""; 0]);
        assert_eq!(
            changes(&FILE.replace(":2/v1", ":3/v1").replace("deny", "ask"), same),
            ["permissions.0.permission", "upstreams.\"up.2\".base_url"]
        );
        let more = format!("{FILE}[[tools]]\nname = \"scrape\"\npermission = \"ask\"\n");
        assert!(changes(&more, same).contains(&"tools.scrape".to_owned()));
        let without = FILE.replace("[admin]\napi_keys = [\"admin-key\"]\n", "");
        assert!(changes(&without, same).contains(&"admin".to_owned()));
    }

    #[test]
    fn secrets_are_compared_and_not_shown() {
        for (variable, paths) in [
            ("CLIENT", &["api_keys", "permissions.0.key"][..]),
            ("UPSTREAM", &["upstreams.up.api_key"]),
            ("HEADER", &["upstreams.up.headers.x-token"]),
            ("SERPER", &["providers.serper.api_key"]),
        ] {
            let secret = |name: &str| {
                if name == variable { "another secret".to_owned() } else { format!("secret of {name}") }
            };
            assert_eq!(changes(FILE, secret), paths, "{variable}");
        }
        let shown = config(FILE, |name| format!("secret of {name}")).to_toml().to_string();
        assert_eq!(shown.matches("\"********\"").count(), 6, "{shown}");
    }

    #[test]
    fn changes_are_found_by_paths_above_and_below_them() {
        let changes = Changes(vec!["upstreams.\"up.2\".base_url".to_owned()]);
        assert!(changes.touch("upstreams") && changes.touch_entry("upstreams", "up.2"));
        assert!(!changes.touch_entry("upstreams", "up") && !changes.touch("upstream"));
        assert!(Changes(vec!["admin".to_owned()]).touch("admin.api_keys"));
    }

    #[test]
    fn fixed_settings_stay_and_are_named() {
        let same = |name: &str| format!("secret of {name}");
        let running = config(FILE, same);
        let text = FILE.replace("127.0.0.1:0", "127.0.0.1:9").replace(":2/v1", ":3/v1")
            + "[limits]\nmax_store = \"1MiB\"\nmax_body = \"1MiB\"\n";
        let (kept, restart) = config(&text, same).keeping_fixed(&running);
        assert_eq!(restart.paths(), ["limits.max_store", "listen"]);
        assert_eq!(running.changes_to(&kept).paths(), ["limits.max_body", "upstreams.\"up.2\".base_url"]);
    }

    #[test]
    fn server_without_keys_must_not_be_reached_by_others() {
        let mut config = config(FILE, |name| format!("secret of {name}"));
        let addresses =
            ["127.0.0.1:1", "[::ffff:127.0.0.1]:1", "0.0.0.0:1"].map(|text| text.parse().unwrap());
        assert_eq!(config.open_to_all(&addresses), None);
        config.api_keys.clear();
        config.state_dir = None;
        assert_eq!(config.open_to_all(&addresses), Some(addresses[2]));
    }
}
