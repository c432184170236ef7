//! Model entries that the program generates and then reads like entries in a file.

use std::path::Path;

use toml::{Table as TomlTable, Value, de::DeTable};

use super::{
    Config, Environment, Model, Problem, Problems,
    problem::Severity,
    read,
    source::Source,
    table::{Context, Table},
    upstream::Declared,
};

impl Config {
    /// Returns this configuration with `entries` as its `[[models]]`. Paths in the entries are relative to the folder
    /// of `file`, if given.
    ///
    /// # Errors
    /// The mistakes in the entries.
    pub fn with_models(
        &self,
        entries: Vec<TomlTable>,
        file: Option<&Path>,
        environment: Environment<'_>,
    ) -> Result<Self, Problems> {
        let wrong = |message: String| {
            let problem = Problem { severity: Severity::Error, place: super::Place::Nowhere, message };
            Problems(vec![problem])
        };
        let entries = Value::Array(entries.into_iter().map(Value::Table).collect());
        let text = toml::to_string(&TomlTable::from_iter([("models".to_owned(), entries)]))
            .map_err(|error| wrong(error.to_string()))?;
        let source = Source::made(file, text);
        let root = DeTable::parse(source.text()).map_err(|error| wrong(error.message().to_owned()))?;
        let context =
            Context { source: &source, files: Default::default(), findings: Default::default(), environment };
        let models = Table::root(root.get_ref(), &context, |table| {
            let cell = table.cell("models")?;
            let declared = |upstream: &std::sync::Arc<super::Upstream>| Declared {
                name: Some(upstream.name.clone()),
                upstream: Some(std::sync::Arc::clone(upstream)),
                cell: cell.clone(),
            };
            let upstreams: Vec<_> = self.upstreams.iter().map(declared).collect();
            read::models(table, &context, &upstreams, &self.formats, self.limits.answer)
        });
        let (problems, failed) = context.findings.into_problems(&source);
        match models {
            Some(models) if !failed => Ok(Self { models, ..self.clone() }),
            _ => Err(Problems(problems)),
        }
    }

    /// Returns the keys that distinguish `model`, one of this configuration's models, from an entry with only a name
    /// and an upstream.
    ///
    /// # Errors
    /// Never fails for a model of this configuration.
    pub fn own_keys(&self, model: &Model, file: Option<&Path>) -> Result<TomlTable, Problems> {
        let name = |key: &str, value: &str| (key.to_owned(), Value::String(value.to_owned()));
        let least = TomlTable::from_iter([name("name", &model.name), name("upstream", &model.upstream.name)]);
        let plain = self.with_models(vec![least], file, &|_| None)?;
        let plain = plain.models.first().map(Model::shown).unwrap_or_default();
        let keys = model.shown().into_iter().filter(|(key, value)| plain.get(key) != Some(value));
        Ok(keys.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Overrides, load};

    fn config() -> Config {
        let overrides = Overrides {
            upstream: Some("http://127.0.0.1:1/v1".to_owned()),
            dialect: Some("chat".to_owned()),
            ..Overrides::default()
        };
        load(&overrides, &|_| None).unwrap().config
    }

    fn entry(text: &str) -> TomlTable {
        text.parse().unwrap()
    }

    #[test]
    fn made_entries_are_read_like_those_of_a_file() {
        let entries = vec![
            entry("name = \"a\"\nupstream = \"upstream\"\ntools = \"hermes\""),
            entry("name = \"b\"\nexamples = 0"),
        ];
        let config = config().with_models(entries, None, &|_| None).unwrap();
        let names: Vec<_> = config.models.iter().map(|model| model.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(config.models[0].tools.to_string(), "hermes");
        let wrong = config.with_models(vec![entry("name = \"a\"\ntools = \"hermess\"")], None, &|_| None);
        assert!(wrong.unwrap_err().to_string().contains("hermes"));
    }

    #[test]
    fn own_keys_are_those_that_differ_from_the_defaults() {
        let entries = vec![entry("name = \"a\"\nrepair = false\ntools = \"hermes\"\narguments = \"stream\"")];
        let config = config().with_models(entries, None, &|_| None).unwrap();
        let keys = config.own_keys(&config.models[0], None).unwrap();
        assert_eq!(keys, entry("repair = false\ntools = \"hermes\""));
    }
}
