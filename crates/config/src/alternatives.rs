//! [`Alternatives`]: the models that may answer in place of the requested one.
//!
//! ```toml
//! [[models]]
//! name = "qwen"
//! targets = { qwen-a = 3, qwen-b = 1 }    # by weight; ["qwen-a", "qwen-b"]: in this order
//! fallback = ["small"]                    # when all targets fail
//! ```
//!
//! Code that needs a single model treats an entry with `targets` as a copy of its first target, with the entry's own
//! name.

use std::{collections::HashSet, sync::Arc, time::Duration};

use toml::{Value, de::DeValue};

use super::{
    Model,
    keys::{Reading, count_value, shown_texts, string, strings, table_of},
    model::WILDCARD,
    table::{Cell, Table},
    value::{count_in, list, text},
};
use toolwire_pipeline::{settings::Settings, wire::suggest::suggest};

pub(super) const TARGETS: &str = "targets";
pub(super) const FALLBACK: &str = "fallback";

const MAX_WEIGHT: usize = 1000;

/// The models that may answer a request: one of the targets, or else one of the fallbacks.
#[derive(Debug, Clone, PartialEq, Eq, Settings)]
pub struct Alternatives {
    /// other entries that [answer](#when-an-upstream-fails) under this name: `["a", "b"]` in this order, `{ a = 3,
    /// b = 1 }` by weight. Then only `fallback` and `retries` may be set
    #[setting(
        or = "none", read = read_targets,
        show = |targets| (!targets.all.is_empty()).then(|| shown(targets))
    )]
    pub targets: Targets,
    /// the entries that answer, in this order, if this one (or all its targets) cannot
    #[setting(or = "none", read = |cell| list(text)(cell), show = |texts| shown_texts(texts))]
    pub fallback: Vec<String>,
    /// how often all of these are tried again, after a growing pause
    #[setting(range = 0..=10)]
    pub retries: usize,
}

/// The models behind one name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Targets {
    pub all: Vec<Target>,
    /// Whether conversations are distributed among the models by weight. If not, the first model that works answers.
    pub are_weighted: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The name of the model's entry.
    pub model: String,
    /// The model's share of the conversations, relative to the other weights.
    pub weight: u32,
}

impl Alternatives {
    pub fn is_empty(&self) -> bool {
        self.targets.all.is_empty() && self.fallback.is_empty() && self.retries == 0
    }
}

fn read_targets(cell: Cell<'_>) -> Option<Targets> {
    let all: Vec<Target> = match cell.value {
        DeValue::Table(_) => {
            let weighted = cell.entries().into_iter().map(|(name, _, weight)| {
                let weight = count_in(1..=MAX_WEIGHT)(weight)?;
                Some(Target { model: name.to_owned(), weight: u32::try_from(weight).ok()? })
            });
            weighted.collect::<Option<_>>()?
        }
        DeValue::Array(_) => {
            list(text)(cell.clone())?.into_iter().map(|model| Target { model, weight: 1 }).collect()
        }
        _ => return cell.expected("names in an array, or a table of names and weights"),
    };
    if all.is_empty() {
        return cell.wrong("no target: which models may answer?");
    }
    Some(Targets { all, are_weighted: matches!(cell.value, DeValue::Table(_)) })
}

fn shown(Targets { all, are_weighted }: &Targets) -> Value {
    let names = || all.iter().map(|target| target.model.as_str());
    match are_weighted {
        false => strings(names()),
        true => {
            let weights = all.iter().map(|target| count_value(target.weight as usize));
            Value::Table(names().map(str::to_owned).zip(weights).collect())
        }
    }
}

/// An entry with `targets`: other entries answer its requests.
pub(super) struct Router<'a> {
    name: Option<(String, Cell<'a>)>,
    alternatives: Alternatives,
}

impl<'a> Router<'a> {
    /// Returns `None` if the entry has no `targets`.
    pub(super) fn read(table: &mut Table<'a>) -> Option<Self> {
        table.cell(TARGETS)?;
        let mut alternatives = Alternatives::default();
        let name = table.cell("name");
        if name.is_none() {
            table.report_missing("name");
        }
        alternatives.settings(&mut Reading(table));
        let name = name.and_then(|cell| Some((text(cell.clone())?, cell)));
        Some(Self { name, alternatives })
    }

    pub(super) fn name(&self) -> Option<(String, Cell<'a>)> {
        self.name.clone()
    }

    /// Returns a copy of the first target's entry, with this entry's name. `None` only if a mistake has been reported.
    pub(super) fn resolve(&self, models: &[Model]) -> Option<Model> {
        let (name, _) = self.name.as_ref()?;
        let first = self.alternatives.targets.all.first()?;
        let first = models.iter().find(|model| model.name == first.model)?;
        let upstream_name = first.upstream_name.clone().or_else(|| Some(first.name.clone()));
        let alternatives = Some(Arc::new(self.alternatives.clone()));
        Some(Model { name: name.clone(), upstream_name, alternatives, ..first.clone() })
    }
}

/// Reports names in the value of `key` that no entry has, and names of entries with targets. `routers` contains the
/// latter.
pub(super) fn check(key: &str, cell: &Cell<'_>, names: &HashSet<String>, routers: &HashSet<String>) {
    let mut seen = HashSet::new();
    for (name, cell) in named(cell) {
        if name == WILDCARD {
            cell.wrong::<()>("`\"*\"` is not a model; name an entry");
        } else if !names.contains(name) {
            let names: Vec<_> = names.iter().map(String::as_str).filter(|name| *name != WILDCARD).collect();
            cell.wrong::<()>(format!("no model `{name}`; {}", suggest(name, &names, None)));
        } else if key == TARGETS && routers.contains(name) {
            cell.wrong::<()>(format!("the model `{name}` has targets itself"));
        } else if !seen.insert(name) {
            cell.wrong::<()>(format!("`{name}` is listed twice"));
        }
    }
}

/// The names in an array, or the keys of a table, with their locations.
fn named<'a>(cell: &Cell<'a>) -> Vec<(&'a str, Cell<'a>)> {
    match cell.value {
        DeValue::Array(elements) => {
            let elements = elements.iter().map(|element| Cell::new(element, cell.context));
            elements.filter_map(|cell| Some((cell.value.as_str()?, cell))).collect()
        }
        DeValue::Table(_) => {
            let entries = cell.entries().into_iter();
            entries.map(|(name, span, cell)| (name, Cell { span, ..cell })).collect()
        }
        _ => Vec::new(),
    }
}

/// The settings of `[failover]`.
#[derive(Debug, Clone, PartialEq, Eq, Settings)]
pub struct Failover {
    /// how long after a request to a model further attempts may begin
    ///
    /// Longer than the default timeouts, so that a silent target does not use up the whole time.
    #[setting(default = Duration::from_secs(300))]
    pub deadline: Duration,
    /// time to the first content of a stream after which another target is asked; or `"off"`
    #[setting(default = Some(Duration::from_secs(180)))]
    pub first_content: Option<Duration>,
    /// the pause before a retry, ±25 %; it doubles, and is at least the upstream's `Retry-After`
    #[setting(default = Duration::from_millis(500))]
    pub backoff: Duration,
    /// failures in a row after which a target is not asked for a while
    #[setting(default = 3)]
    pub eject_after: usize,
    /// how long it is not asked; if one request then fails, the time doubles
    #[setting(default = Duration::from_secs(10))]
    pub eject_for: Duration,
    /// the longest time that a target is not asked
    #[setting(default = Duration::from_secs(300))]
    pub max_ejection: Duration,
}

/// Shows the keys of an entry with targets.
pub(super) fn shown_router(name: &str, alternatives: &Alternatives) -> toml::Table {
    let mut alternatives = alternatives.clone();
    let mut table = table_of(|keys| alternatives.settings(keys));
    table.insert("name".to_owned(), string(name));
    table
}
