//! [`reference()`]: documentation for every key of a configuration file.

use super::{
    AdminSettings, Failover, Limits, Metrics, client_keys, execution, format,
    keys::{Documenting, Row},
    model, read, telemetry, tls, upstream, upstream_tls,
};
use toolwire_execution::{ExecutionSettings, KINDS, ToolRules};
use toolwire_pipeline::{
    dialect::UpstreamDialect,
    format::{Definition, KnownFormats},
    settings::Settings,
};

/// A table of a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// The table's header in the file, such as `[[models]]`. Empty for the top level.
    pub name: String,
    pub rows: Vec<Row>,
}

impl Section {
    fn new(name: impl Into<String>, visit: impl FnOnce(&mut Documenting)) -> Self {
        let mut keys = Documenting::default();
        visit(&mut keys);
        Self { name: name.into(), rows: keys.0 }
    }

    pub fn to_markdown(&self) -> String {
        let mut page = "| key | default | |\n|---|---|---|\n".to_owned();
        for Row { key, default, about } in &self.rows {
            let [default, about] = [default.as_str(), about.as_ref()].map(|cell| cell.replace('|', "\\|"));
            let default = if default.is_empty() { " ".to_owned() } else { format!(" {default} ") };
            page.push_str(&format!("| `{key}` |{default}| {about} |\n"));
        }
        page
    }
}

/// All tables of a configuration file, in the order of the documentation.
pub fn reference() -> Vec<Section> {
    let mut sections = vec![
        Section::new("", |keys| read::Root::default().settings(keys)),
        Section::new("[[keys]]", |keys| client_keys::Draft::default().settings(keys)),
        Section::new("[[upstreams]]", |keys| upstream::Draft::default().settings(keys)),
    ];
    sections.push(Section::new("[upstreams.tls]", |keys| upstream_tls::Draft::default().settings(keys)));
    for mut dialect in UpstreamDialect::all() {
        dialect.adapt_to_host("");
        let name = format!("[upstreams.{}]", dialect.dialect());
        sections.push(Section::new(name, |keys| dialect.settings(keys)));
    }
    sections.extend([
        Section::new("[[models]]", |keys| {
            let mut draft = model::Draft::default();
            model::selection(keys, &mut draft, &[], KnownFormats::built_in());
            model::treatment(keys, &mut draft, KnownFormats::built_in());
        }),
        Section::new("[failover]", |keys| Failover::default().settings(keys)),
        Section::new("[[formats]]", |keys| format::keys(keys, &mut Definition::default())),
        Section::new("[metrics]", |keys| Metrics::default().settings(keys)),
        Section::new("[limits]", |keys| Limits::default().settings(keys)),
        Section::new("[execution]", |keys| execution::keys(keys, &mut ExecutionSettings::default())),
        Section::new("[[providers]]", |keys| {
            execution::ProviderDraft::default().settings(keys);
        }),
    ]);
    for (kind, default) in KINDS {
        let name = format!("kind = \"{kind}\"");
        sections.push(Section::new(name, |keys| default().settings(keys)));
    }
    sections.push(Section::new("[[tools]]", |keys| execution::tool_keys(keys, &mut ToolRules::default())));
    sections.push(Section::new("[[permissions]]", |keys| {
        execution::PermissionDraft::default().settings(keys);
    }));
    sections.push(Section::new("[tls]", |keys| tls::Draft::default().settings(keys)));
    sections.push(Section::new("[telemetry]", |keys| {
        telemetry::Draft::default().settings(keys);
    }));
    sections.push(Section::new("[admin]", |keys| AdminSettings::default().settings(keys)));
    sections
}
