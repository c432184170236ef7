//! [`Variant`]: one way of presenting tools to the model: a format, a wording, and a constraint to enforce.

use std::{collections::HashSet, fmt, str::FromStr};

use toml::{Table, Value};

use crate::Invalid;

/// The name, in place of a format, for tools that are declared natively.
pub const NATIVE: &str = "native";

/// The values of `--enforce` and of the key `enforce`.
pub const ENFORCE: [&str; 8] =
    [DEFAULT_ENFORCE, "auto", "schema", "structural_tag", "grammar", "prefill", "retry", "off"];

/// The value of `enforce` of a model that has none.
const DEFAULT_ENFORCE: &str = "calls";

/// The keys of a `[[models]]` entry that variants set.
pub const VARIED: [&str; 8] =
    ["tools", "detect", "instructions", "system_position", "examples", "examples_as", "tool_list", "enforce"];

/// Abbreviations for wordings, each with the key and the value that it sets.
const WORDS: [(&str, &str); 7] = [
    ("schemas", "tool_list"),
    ("signatures", "tool_list"),
    ("text", "examples_as"),
    ("turns", "examples_as"),
    ("system", "system_position"),
    ("user", "system_position"),
    ("last_user", "system_position"),
];

/// The wordings that `--wordings all` selects.
pub const ALL_WORDINGS: [&str; 6] = ["default", "schemas", "text", "turns", "user", "last_user"];

/// Settings of a `[[models]]` entry that say how tools are described.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Wording {
    name: String,
    keys: Table,
}

impl FromStr for Wording {
    type Err = Invalid;

    /// Parses `default`, or words and settings separated by `+`: `turns`, `schemas+last_user`, `turns+examples=3`.
    fn from_str(text: &str) -> Result<Self, Invalid> {
        if text == "default" {
            return Ok(Self { name: text.to_owned(), keys: Table::new() });
        }
        let mut keys = Table::new();
        for part in text.split('+').map(str::trim) {
            let (key, value) = match (part.split_once('='), WORDS.iter().find(|(word, _)| *word == part)) {
                (_, Some((word, key))) => (*key, Value::String((*word).to_owned())),
                (Some(("examples", count)), _) => ("examples", number(count)?),
                (Some(("max_instructions", count)), _) => ("max_instructions", number(count)?),
                _ => return Err(format!("unknown word `{part}`; {KNOWN}").into()),
            };
            if keys.insert(key.to_owned(), value).is_some() {
                return Err(format!("`{part}` sets `{key}` a second time").into());
            }
        }
        Ok(Self { name: text.to_owned(), keys })
    }
}

/// Lists the words of a wording, for error messages.
const KNOWN: &str = "known are default, schemas, signatures, text, turns, system, user, last_user, examples=N and \
    max_instructions=N, combined with `+`";

fn number(text: &str) -> Result<Value, Invalid> {
    let number = text.parse::<u32>().map_err(|_| format!("`{text}` is not a number"))?;
    Ok(Value::Integer(number.into()))
}

impl fmt::Display for Wording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// One way of presenting tools to the model.
#[derive(Debug, Clone, PartialEq)]
pub struct Variant {
    /// The name of the format, or [`NATIVE`].
    pub(crate) format: String,
    /// The name of the wording.
    pub(crate) wording: String,
    /// The value of `enforce`.
    pub(crate) enforce: String,
    /// The keys that the variant sets in the `[[models]]` entry.
    pub(crate) keys: Table,
}

impl Variant {
    /// Returns all combinations, without duplicates. Native tools form a single variant, since they have no wording and
    /// toolwire does not enforce their calls.
    pub fn combinations(formats: &[String], wordings: &[Wording], enforce: &[String]) -> Vec<Self> {
        let default = [Wording { name: "default".to_owned(), keys: Table::new() }];
        let unset = [DEFAULT_ENFORCE.to_owned()];
        let mut seen = HashSet::new();
        let mut variants = Vec::new();
        for format in formats {
            let (wordings, enforce) = match format.as_str() {
                NATIVE => (&default[..], &unset[..]),
                _ => (wordings, enforce),
            };
            for wording in wordings {
                let made = enforce.iter().map(|enforce| Self::new(format, wording, enforce));
                variants.extend(made.filter(|variant| seen.insert(variant.label())));
            }
        }
        variants
    }

    fn new(format: &str, wording: &Wording, enforce: &str) -> Self {
        let mut keys = Table::new();
        keys.insert("tools".to_owned(), Value::String(format.to_owned()));
        keys.extend(wording.keys.clone());
        if enforce != DEFAULT_ENFORCE {
            keys.insert("enforce".to_owned(), Value::String(enforce.to_owned()));
        }
        Self { format: format.to_owned(), wording: wording.name.clone(), enforce: enforce.to_owned(), keys }
    }

    /// Returns the variant's name in reports: `hermes`, `hermes turns`, `hermes enforce=auto`.
    pub fn label(&self) -> String {
        let mut label = self.format.clone();
        if self.wording != "default" {
            label.extend([" ", &self.wording]);
        }
        if self.enforce != DEFAULT_ENFORCE {
            label.extend([" enforce=", &self.enforce]);
        }
        label
    }

    /// Returns the `[[models]]` entry of this variant: `base` plus the variant's keys, with the name `name`.
    pub fn entry(&self, name: &str, base: &Table) -> Table {
        let mut entry = Table::new();
        entry.insert("name".to_owned(), Value::String(name.to_owned()));
        entry.extend(
            base.iter().filter(|(key, _)| *key != "name").map(|(key, value)| (key.clone(), value.clone())),
        );
        entry.extend(self.keys.clone());
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wording(text: &str) -> Wording {
        text.parse().unwrap()
    }

    #[test]
    fn wording_is_words_and_settings() {
        let keys = wording("turns+examples=3+last_user").keys;
        let expected: Table =
            "examples_as = \"turns\"\nexamples = 3\nsystem_position = \"last_user\"".parse().unwrap();
        assert_eq!(keys, expected);
        assert!(wording("default").keys.is_empty());
        for (wrong, why) in [
            ("loud", "unknown word `loud`"),
            ("", "unknown word ``"),
            ("examples=many", "not a number"),
            ("turns+text", "a second time"),
            ("repair=false", "unknown word"),
        ] {
            let error = wrong.parse::<Wording>().unwrap_err().to_string();
            assert!(error.contains(why), "{wrong}: {error}");
        }
        assert!(ALL_WORDINGS.iter().all(|word| word.parse::<Wording>().is_ok()));
    }

    #[test]
    fn variants_are_all_combinations_and_native_once() {
        let texts = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let variants = Variant::combinations(
            &texts(&["native", "hermes", "hermes"]),
            &[wording("default"), wording("turns")],
            &texts(&["calls", "auto"]),
        );
        let labels: Vec<_> = variants.iter().map(Variant::label).collect();
        assert_eq!(
            labels,
            ["native", "hermes", "hermes enforce=auto", "hermes turns", "hermes turns enforce=auto"]
        );
        let base: Table = "name = \"*\"\nupstream = \"u\"\nrepair = false".parse().unwrap();
        let expected: Table = "name = \"m\"\nupstream = \"u\"\nrepair = false\ntools = \"hermes\"\n\
            examples_as = \"turns\"\nenforce = \"auto\""
            .parse()
            .unwrap();
        assert_eq!(variants[4].entry("m", &base), expected);
    }
}
