//! Servers whose tools a request would have, but which cannot be used at the moment. The model and the client are told.

use std::sync::Arc;

use super::{
    asker::Asker,
    inject::add_instructions,
    oauth::Account,
    provider::{Provider, ProviderState},
    settings::Injection,
    stage::Execution,
};
use toolwire_pipeline::{
    conversation::{Conversation, ToolChoice},
    event::Warning,
    tools::normalized,
};

/// What the model is told above the sentences about servers.
const HEAD: &str = "Some tools are missing. If the user needs them, say why:";

impl Execution {
    /// Which servers' tools a client does not get, and why, in a sentence each. Contains nothing that a server has said.
    pub(crate) fn missing(&self, asker: &Asker) -> Vec<String> {
        self.away(asker, |_| true).collect()
    }

    /// Why a client does not have the tool `tool`, if that is one of a server that cannot be used.
    #[cfg_attr(not(feature = "mcp"), expect(dead_code, reason = "only MCP clients call tools by name"))]
    pub(crate) fn why_missing(&self, tool: &str, asker: &Asker) -> Option<String> {
        self.away(asker, |name| tool.starts_with(&prefix(name))).next()
    }

    /// The sentences about the servers that `is_meant` names.
    fn away(&self, asker: &Asker, is_meant: impl Fn(&str) -> bool) -> impl Iterator<Item = String> {
        let providers = self.registry().providers().iter();
        providers.filter(move |(name, _)| is_meant(name)).filter_map(|(name, provider)| {
            let why = why_away(&**provider, asker.key())?;
            self.may_have_tools(name, asker).then(|| format!("The tools of `{name}` are missing: {why}."))
        })
    }

    /// Whether the rules let the client have any tool of the server `name`, by the names that its tools would have.
    fn may_have_tools(&self, name: &str, asker: &Asker) -> bool {
        let (settings, permissions) = (self.settings(), self.permissions());
        let prefix = prefix(name);
        let permitted = settings.permissions.rules.iter().filter_map(|rule| rule.tool.as_ref());
        let ruled = settings.tools.keys().chain(permitted).map(|tool| normalized(tool.trim_end_matches('*')));
        let mut names = ruled.filter(|tool| tool.starts_with(&prefix)).chain([prefix.clone()]);
        names.any(|tool| {
            settings.rules_for(&tool, &[]).injection != Injection::Off
                && permissions.may_ever_run(&asker.asked_of(&tool, &[]))
        })
    }

    /// Tells the model which tools are missing, unless the client does not let it choose. Returns the warnings for the
    /// client.
    pub(super) fn tell_missing(
        &self,
        conversation: &mut Conversation,
        asker: &Asker,
    ) -> Vec<Warning<'static>> {
        if !matches!(conversation.tool_choice, ToolChoice::Auto | ToolChoice::Required) {
            return Vec::new();
        }
        let missing = self.missing(asker);
        if !missing.is_empty() {
            add_instructions(conversation, format!("{HEAD}\n{}", missing.join("\n")));
        }
        let warning = |message: String| Warning { code: "tools_missing", message: message.into() };
        missing.into_iter().map(warning).collect()
    }
}

/// How the names of the tools of the server `name` begin.
fn prefix(name: &str) -> String {
    format!("{}__", normalized(name))
}

/// Why the provider's server offers no tools to the client key `key`. `None` if it can be used.
fn why_away(provider: &dyn Provider, key: Option<&str>) -> Option<String> {
    let own = provider.of_key(key);
    let is_per_key = own.is_some();
    let used = own.as_deref().unwrap_or(provider);
    let state = used.status().state;
    if state == ProviderState::Ready || !used.tools().is_empty() {
        return None;
    }
    let why = match state {
        ProviderState::NeedsLogin if is_per_key && key.is_none() => {
            "each client key has a login of its own, so the request needs a key that has a name".to_owned()
        }
        ProviderState::NeedsLogin => {
            let account = provider.account(key.filter(|_| is_per_key));
            needed_login(account.as_ref())
        }
        ProviderState::Starting => "its server is starting".to_owned(),
        ProviderState::Failed | ProviderState::Restarting | ProviderState::Ready => {
            "its server cannot be used at the moment".to_owned()
        }
    };
    Some(why)
}

fn needed_login(account: Option<&Arc<Account>>) -> String {
    let Some(account) = account else { return "a person must log in at its server".to_owned() };
    let who = account.key().map_or_else(|| "a person".to_owned(), |key| format!("the client key `{key}`"));
    format!("{who} must log in with `{}`", account.command())
}

#[cfg(test)]
mod tests;
