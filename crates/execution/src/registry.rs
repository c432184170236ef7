//! [`Registry`]: the hosted tools of all providers.

mod of_key;

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::Arc,
};

use parking_lot::{Mutex, RwLock};
use serde_json::{Map, Value};

use super::{
    audit::{Audit, AuditEvent},
    client_servers::ClientServer,
    intent::Needs,
    progress,
    provider::{Provider, ProviderState},
    rules::glob,
    schema::{self, SchemaFault},
    settings::{ExecutionSettings, Injection, ToolRules},
    tool::ToolSpec,
};
use toolwire_pipeline::{
    tools::normalized,
    wire::{json::Raw, suggest::suggest, text::boundary_upto},
};

/// In bytes. Longer descriptions are cut.
const MAX_DESCRIPTION: usize = 8 << 10;

/// In bytes. Longer labels are cut.
const MAX_LABEL: usize = 100;

/// In bytes. Tools with larger schemas are left out.
const MAX_SCHEMA: usize = 64 << 10;

/// Per provider. Further tools are left out.
const MAX_TOOLS: usize = 256;

#[derive(Debug, Clone)]
pub struct Hosted {
    /// The name for models.
    pub name: Arc<str>,
    /// Other names that models may use, normalized.
    pub aliases: Arc<[String]>,
    /// The tool as its provider offers it, changed by the rules.
    pub spec: Arc<ToolSpec>,
    pub provider_name: Arc<str>,
    pub(crate) provider: Arc<dyn Provider>,
    pub rules: ToolRules,
    /// How clients see the tool, if it is that of a server which the client has named.
    pub(crate) shown: Option<Arc<ShownTool>>,
    /// Whether the tool is offered to models. A person can disable it.
    pub is_enabled: bool,
}

/// A tool of a server that a client has named, in the client's words.
#[derive(Debug)]
pub(crate) struct ShownTool {
    pub(crate) server: Arc<str>,
    pub(crate) tool: Arc<str>,
    /// Distinguishes the server from others of the same name.
    pub(crate) mark: Arc<str>,
    /// Whether calls need the client's approval.
    pub(crate) needs_approval: bool,
    /// Whether clients see calls in any case, since their API has an item for them.
    pub(crate) is_item: bool,
}

impl Hosted {
    /// The line for display while a call runs, with its arguments redacted by `covered`. `None` if the rules want none.
    pub(crate) fn progress(
        &self,
        arguments: &Map<String, Value>,
        covered: impl Fn(&str) -> String,
    ) -> Option<String> {
        match (self.rules.progress.as_deref(), self.spec.progress.as_str()) {
            (Some(""), _) => None,
            (_, "") => Some(progress::plain(&format!("Running: {}", self.spec.label))),
            (_, template) => Some(progress::line(template, arguments, covered)),
        }
    }

    /// The argument with the call's URL, if there is one.
    pub(crate) fn url_argument(&self) -> Option<&str> {
        self.rules.url_argument.as_deref().or(self.spec.url_argument)
    }

    /// Whether the words that are built in decide whether a model gets the tool.
    pub(crate) fn is_offered_by_needs(&self) -> bool {
        self.rules.injection == Injection::Selective && self.rules.intent.is_empty()
    }

    /// Whether the rules limit the domains of calls although it is unknown which argument contains the URL.
    pub(crate) fn is_url_unknown(&self) -> bool {
        let is_limited = !(self.rules.allow_domains.is_empty() && self.rules.deny_domains.is_empty());
        is_limited && self.url_argument().is_none()
    }
}

/// The tools at one point in time. A turn uses the snapshot that was current when it started.
#[derive(Debug, Default, Clone)]
pub struct Snapshot {
    tools: Vec<Hosted>,
    /// Indices into `tools`, by name and alias.
    places: HashMap<String, usize>,
}

impl Snapshot {
    pub fn tools(&self) -> &[Hosted] {
        &self.tools
    }

    /// Finds the tool with this name or alias, in any spelling.
    pub fn find(&self, name: &str) -> Option<&Hosted> {
        let place = self.places.get(&normalized(name))?;
        self.tools.get(*place).filter(|tool| tool.is_enabled)
    }

    pub fn has(&self, provider: &str, name: &str) -> bool {
        self.tools.iter().any(|tool| *tool.provider_name == *provider && tool.spec.name == name)
    }

    /// Adds a tool. Returns `false` if the name is taken. If the provider yields, another tool's alias also counts as
    /// taken.
    pub(super) fn add(&mut self, hosted: Hosted) -> bool {
        let is_alias = hosted.provider.yields() && self.places.contains_key(&*hosted.name);
        if is_alias || self.tools.iter().any(|other| other.name == hosted.name) {
            return false;
        }
        let place = self.tools.len();
        // A name takes precedence over another tool's alias.
        self.places.insert(hosted.name.to_string(), place);
        for alias in hosted.spec.aliases {
            self.places.entry(normalized(alias)).or_insert(place);
        }
        self.tools.push(hosted);
        true
    }

    /// Applies the rules, once all names and aliases are known.
    fn settle(&mut self, settings: &ExecutionSettings) {
        let places = &self.places;
        for (place, tool) in self.tools.iter_mut().enumerate() {
            let aliases = tool.spec.aliases.iter().map(|alias| normalized(alias));
            tool.aliases = aliases.filter(|alias| places.get(alias) == Some(&place)).collect();
            tool.rules = settings.rules_for(&tool.name, &tool.aliases);
            tool.spec = as_ruled(Arc::clone(&tool.spec), &tool.rules);
        }
    }

    /// Whether both snapshots look the same to models.
    fn equals(&self, other: &Self) -> bool {
        let is_same = |(a, b): (&Hosted, &Hosted)| {
            a.name == b.name
                && a.is_enabled == b.is_enabled
                && a.provider_name == b.provider_name
                && a.spec.description == b.spec.description
                && a.spec.parameters == b.spec.parameters
        };
        self.tools.len() == other.tools.len() && self.tools.iter().zip(&other.tools).all(is_same)
    }
}

type NamedProvider = (Arc<str>, Arc<dyn Provider>);

pub struct Registry {
    providers: Vec<NamedProvider>,
    settings: Arc<ExecutionSettings>,
    audit: Arc<Audit>,
    snapshot: RwLock<Arc<Snapshot>>,
    state: Mutex<State>,
}

/// What a refresh depends on, apart from the providers. The lock serializes refreshes.
#[derive(Default)]
struct State {
    disabled: HashSet<String>,
    /// Warnings that were already logged.
    warned: HashSet<String>,
}

impl Registry {
    /// Creates a registry. `disabled` contains the names of disabled tools.
    pub(crate) fn new(
        settings: Arc<ExecutionSettings>,
        mut providers: Vec<NamedProvider>,
        disabled: HashSet<String>,
        audit: Arc<Audit>,
    ) -> Self {
        providers.sort_by_key(|(_, provider)| provider.yields());
        let (snapshot, state) = (RwLock::default(), Mutex::new(State { disabled, ..State::default() }));
        let registry = Self { providers, settings, audit, snapshot, state };
        registry.refresh();
        registry
    }

    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.read())
    }

    /// The names of the tools that models may get, and of the providers whose tools are not known yet.
    pub fn names(&self) -> (Vec<String>, Vec<String>) {
        let snapshot = self.snapshot();
        let tools = snapshot.tools().iter().filter(|tool| tool.is_enabled);
        let starting =
            self.providers.iter().filter(|(_, provider)| provider.status().state == ProviderState::Starting);
        (
            tools.map(|tool| tool.name.to_string()).collect(),
            starting.map(|(name, _)| name.to_string()).collect(),
        )
    }

    /// The tools of a server that a client has named, by the rules for tools of their names. `provider_name` is that of
    /// the provider which admits the server.
    pub(crate) fn of_client(
        &self,
        provider_name: &Arc<str>,
        client: &ClientServer,
        provider: &Arc<dyn Provider>,
    ) -> Vec<Hosted> {
        let entry = self.settings.providers.iter().find(|entry| *entry.name == **provider_name);
        let label = client.label.as_str();
        let (server, mark): (Arc<str>, _) = (label.into(), client.mark());
        let of_spec = |spec: Arc<ToolSpec>| {
            let name = normalized(&spec.name);
            let spec = usable(spec).inspect_err(|reason| {
                tracing::warn!(server = label, tool = name, %reason, "a tool of a client's MCP server is left out");
            });
            let spec = spec.ok().filter(|spec| entry.is_none_or(|entry| entry.allows(&spec.name)))?;
            let own = spec.name.strip_prefix(label).and_then(|rest| rest.strip_prefix("__"));
            // These names stand for tools of the APIs themselves.
            let is_taken = |own: &&str| {
                own.starts_with("web_") || own.contains("tool_search") || *own == "generate_images"
            };
            let tool = own.filter(|own| !is_taken(own)).unwrap_or(&spec.name);
            let shown = Some(Arc::new(ShownTool {
                server: Arc::clone(&server),
                tool: tool.into(),
                mark: Arc::clone(&mark),
                needs_approval: client.needs_approval(own.unwrap_or(tool), spec.is_read_only()),
                is_item: client.has_items(),
            }));
            let rules = self.settings.rules_for(&name, &[]);
            Some(Hosted {
                name: name.into(),
                aliases: Arc::default(),
                spec: as_ruled(spec, &rules),
                provider_name: Arc::clone(provider_name),
                provider: Arc::clone(provider),
                rules,
                shown,
                is_enabled: true,
            })
        };
        provider.tools().into_iter().take(MAX_TOOLS).filter_map(of_spec).collect()
    }

    pub fn providers(&self) -> &[NamedProvider] {
        &self.providers
    }

    pub(crate) fn disabled(&self) -> HashSet<String> {
        self.state.lock().disabled.clone()
    }

    /// Enables or disables a tool. Returns whether it exists.
    pub fn set_enabled(&self, name: &str, is_enabled: bool) -> bool {
        if !self.snapshot().tools().iter().any(|tool| *tool.name == *name) {
            return false;
        }
        let mut state = self.state.lock();
        match is_enabled {
            true => _ = state.disabled.remove(name),
            false => _ = state.disabled.insert(name.to_owned()),
        }
        self.refresh_with(&mut state);
        true
    }

    /// Collects the tools of all providers again.
    pub fn refresh(&self) {
        self.refresh_with(&mut self.state.lock());
    }

    /// Warns about entries of `[[tools]]` and `[[permissions]]` for tools that no provider offers.
    pub(crate) fn warn_of_unknown(&self) {
        let snapshot = self.snapshot();
        let names = snapshot.tools().iter();
        let names = names.flat_map(|tool| tool.aliases.iter().map(String::as_str).chain([&*tool.name]));
        let names: Vec<&str> = names.collect();
        // Names that no provider can offer were reported when the configuration was read.
        for written in self.settings.tools.keys().filter(|written| self.settings.may_offer(written)) {
            let start = written.strip_suffix('*').map(normalized);
            let is_known = match &start {
                Some(start) => names.iter().any(|name| name.starts_with(start)),
                None => names.contains(&&*normalized(written)),
            };
            if !is_known {
                let hint = suggest(written, &names, None);
                tracing::warn!(
                    tool = written,
                    "[[tools]] has rules for a tool that no provider offers; {hint}"
                );
            }
        }
        let permitted = self.settings.permissions.rules.iter().filter_map(|rule| rule.tool.as_deref());
        for written in permitted.filter(|written| !names.iter().any(|name| glob(written, name))) {
            let hint = suggest(written, &names, None);
            tracing::warn!(
                tool = written,
                "[[permissions]] has a rule for a tool that no provider offers; {hint}"
            );
        }
    }

    /// Adds the tools that a provider offers at the moment.
    fn add_tools(
        &self,
        snapshot: &mut Snapshot,
        (provider_name, provider): &NamedProvider,
        disabled: &HashSet<String>,
        warn: &mut dyn FnMut(String),
    ) {
        let entry = self.settings.providers.iter().find(|entry| *entry.name == **provider_name);
        let offered = provider.tools();
        let allowed = offered.into_iter().filter(|spec| entry.is_none_or(|entry| entry.allows(&spec.name)));
        for (number, spec) in allowed.enumerate() {
            let name = normalized(&spec.name);
            if number == MAX_TOOLS {
                warn(format!("provider {provider_name}: only the first {MAX_TOOLS} tools are used"));
                break;
            }
            let spec = match usable(spec) {
                Ok(spec) => spec,
                Err(reason) => {
                    warn(format!("provider {provider_name}: the tool `{name}` is left out: {reason}"));
                    continue;
                }
            };
            if let Some(owner) = self.owner_of(&name, provider_name) {
                warn(format!(
                    "provider {provider_name}: the tool `{name}` is left out, because its name belongs to provider {owner}"
                ));
                continue;
            }
            let is_enabled = !disabled.contains(&name);
            let (provider_name, provider) = (Arc::clone(provider_name), Arc::clone(provider));
            let text =
                format!("provider {provider_name}: another tool has the name `{name}`; this one is left out");
            if !snapshot.add(Hosted {
                name: name.into(),
                aliases: Arc::default(),
                spec,
                provider_name,
                provider,
                rules: ToolRules::default(),
                shown: None,
                is_enabled,
            }) {
                warn(text);
            }
        }
    }

    /// The other provider to which the name of a tool belongs, if there is one. A server, whose tools have names below
    /// that of its provider, could otherwise choose a name by which it gets another provider's calls.
    fn owner_of(&self, name: &str, provider_name: &str) -> Option<&str> {
        let below = |provider: &str| name.strip_prefix(&*normalized(provider));
        if !below(provider_name)?.starts_with("__") {
            return None;
        }
        let mut others = self.providers.iter().map(|(other, _)| &**other);
        others.find(|other| {
            let is_own = |rest: &str| rest.is_empty() || rest.starts_with("__");
            other.len() > provider_name.len() && below(other).is_some_and(is_own)
        })
    }

    fn refresh_with(&self, state: &mut State) {
        let mut snapshot = Snapshot::default();
        let mut warn = |text: String| {
            if state.warned.len() < 1000 && state.warned.insert(text.clone()) {
                tracing::warn!("{text}");
            }
        };
        for own in &self.providers {
            self.add_tools(&mut snapshot, own, &state.disabled, &mut warn);
        }
        snapshot.settle(&self.settings);
        if snapshot.tools().iter().any(Hosted::is_offered_by_needs) {
            // Not in the first request, which would wait.
            Needs::load();
        }
        for tool in snapshot.tools().iter().filter(|tool| tool.is_url_unknown()) {
            warn(format!(
                "[[tools]] limits the domains of `{}`, but its argument with the URL is not known; its calls are refused until \
                 `url_argument` names it",
                tool.name
            ));
        }
        let snapshot = Arc::new(snapshot);
        let mut current = self.snapshot.write();
        let is_changed = !snapshot.equals(&current);
        *current = Arc::clone(&snapshot);
        drop(current);
        if is_changed {
            let enabled = snapshot.tools().iter().filter(|tool| tool.is_enabled);
            let tools = enabled.map(|tool| tool.name.to_string()).collect();
            self.audit.publish(None, AuditEvent::RegistryChanged { tools });
        }
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("snapshot", &self.snapshot()).finish_non_exhaustive()
    }
}

/// Why a tool is left out.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error("it has no name")]
    NoName,
    #[error("its schema is longer than {} bytes", MAX_SCHEMA)]
    TooLong,
    #[error("its schema cannot be used: {0}")]
    NotJson(#[from] serde_json::Error),
    #[error("its schema cannot be used: {0}")]
    Schema(#[from] SchemaFault),
}

/// Converts the tool's schema to a form that all upstreams accept.
///
/// # Errors
/// Why the tool is left out.
fn usable(spec: Arc<ToolSpec>) -> Result<Arc<ToolSpec>, Unusable> {
    if normalized(&spec.name).is_empty() {
        return Err(Unusable::NoName);
    }
    let written = spec.parameters.view().raw();
    if written.len() > MAX_SCHEMA {
        return Err(Unusable::TooLong);
    }
    let given: Value = serde_json::from_str(written)?;
    let schema = schema::of_arguments(given.clone())?;
    if schema == given {
        return Ok(spec);
    }
    Ok(Arc::new(ToolSpec { parameters: Raw::from(schema), ..ToolSpec::clone(&spec) }))
}

/// Applies the rules to the tool, and cuts its texts to their maximum size.
fn as_ruled(spec: Arc<ToolSpec>, rules: &ToolRules) -> Arc<ToolSpec> {
    let is_short = spec.description.len() <= MAX_DESCRIPTION && spec.label.len() <= MAX_LABEL;
    let texts = [&rules.description, &rules.label, &rules.progress];
    if is_short && texts.iter().all(|text| text.is_none()) && rules.timeout.is_none() {
        return spec;
    }
    let cut = |own: &Option<String>, given: &str, most: usize| {
        let mut text = own.as_deref().unwrap_or(given).to_owned();
        text.truncate(boundary_upto(&text, most));
        text
    };
    Arc::new(ToolSpec {
        description: cut(&rules.description, &spec.description, MAX_DESCRIPTION),
        label: cut(&rules.label, &spec.label, MAX_LABEL),
        progress: cut(&rules.progress, &spec.progress, MAX_LABEL),
        timeout: rules.timeout.unwrap_or(spec.timeout),
        ..ToolSpec::clone(&spec)
    })
}

#[cfg(test)]
mod tests;
