//! [`AdminPath`]: the paths of the admin API and their methods.

use http::Method;

use super::paths::{ADMIN, CONSOLE_API};
use toolwire_config::percent::percent_decoded;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AdminPath {
    Session,
    Chat,
    /// One chat of the console, by exchange id.
    OneChat(String),
    Events,
    Exchanges,
    Exchange(String),
    ExchangeEvents(String),
    ExchangeFixture(String),
    ExchangeRequests(String),
    ReadExchange(String),
    Formats,
    Analyze,
    Teach,
    Tools,
    Tool(String),
    RunTool(String),
    TestProvider(String),
    RestartProvider(String),
    ProviderLog(String),
    /// A running call, by exchange and id.
    Call(String, String),
    /// The login at a provider's server.
    Login(String),
    /// The response to a login.
    LoginResponse,
    Prompts,
    /// A prompt, by provider and name.
    Prompt(String, String),
    Permissions,
    AutoApprove,
    AllowAll,
    Question(String),
    ExtendQuestion(String),
    Rule(String),
    Reload,
    Metrics,
    Bench,
    Sample,
    Models,
    Streams,
    Keys,
    Settings,
    Setting(String),
}

impl AdminPath {
    /// Parses a URL path. `None` if the path does not exist.
    pub(super) fn find(path: &str) -> Option<Self> {
        let name = |written: &str| percent_decoded(written).filter(|name| !name.is_empty());
        if let Some(below) = path.strip_prefix(CONSOLE_API) {
            return match below.split_once('/') {
                None if below == "chat" => Some(Self::Chat),
                Some(("chat", id)) => name(id).map(Self::OneChat),
                _ => None,
            };
        }
        let segments: Vec<_> = path.strip_prefix(ADMIN)?.split('/').collect();
        Some(match segments.as_slice() {
            ["session"] => Self::Session,
            ["events"] => Self::Events,
            ["exchanges"] => Self::Exchanges,
            ["exchanges", id] => Self::Exchange(name(id)?),
            ["exchanges", id, "events"] => Self::ExchangeEvents(name(id)?),
            ["exchanges", id, "fixture"] => Self::ExchangeFixture(name(id)?),
            ["exchanges", id, "requests"] => Self::ExchangeRequests(name(id)?),
            ["exchanges", id, "read"] => Self::ReadExchange(name(id)?),
            ["formats"] => Self::Formats,
            ["formats", "analyze"] => Self::Analyze,
            ["formats", "teach"] => Self::Teach,
            ["tools"] => Self::Tools,
            ["tools", tool] => Self::Tool(name(tool)?),
            ["tools", tool, "run"] => Self::RunTool(name(tool)?),
            ["providers", provider, "test"] => Self::TestProvider(name(provider)?),
            ["providers", provider, "restart"] => Self::RestartProvider(name(provider)?),
            ["providers", provider, "log"] => Self::ProviderLog(name(provider)?),
            ["providers", provider, "login"] => Self::Login(name(provider)?),
            ["calls", exchange, call] => Self::Call(name(exchange)?, name(call)?),
            ["logins"] => Self::LoginResponse,
            ["prompts"] => Self::Prompts,
            ["prompts", provider, prompt] => Self::Prompt(name(provider)?, name(prompt)?),
            ["permissions"] => Self::Permissions,
            ["permissions", "auto_approve"] => Self::AutoApprove,
            ["permissions", "allow_all"] => Self::AllowAll,
            ["permissions", "rules", rule] => Self::Rule(name(rule)?),
            ["permissions", question] => Self::Question(name(question)?),
            ["permissions", question, "extend"] => Self::ExtendQuestion(name(question)?),
            ["reload"] => Self::Reload,
            ["metrics"] => Self::Metrics,
            ["bench"] => Self::Bench,
            ["sample"] => Self::Sample,
            ["models"] => Self::Models,
            ["streams"] => Self::Streams,
            ["keys"] => Self::Keys,
            ["settings"] => Self::Settings,
            ["settings", setting] => Self::Setting(name(setting)?),
            _ => return None,
        })
    }

    /// The allowed methods in the format of an `Allow` header.
    pub(super) fn methods(&self) -> &'static str {
        match self {
            Self::Session => "GET, HEAD, POST, DELETE, OPTIONS",
            Self::OneChat(_) => "GET, HEAD, DELETE, OPTIONS",
            Self::Events
            | Self::Exchanges
            | Self::Exchange(_)
            | Self::ExchangeEvents(_)
            | Self::ExchangeFixture(_)
            | Self::ExchangeRequests(_)
            | Self::Formats
            | Self::Tools
            | Self::Prompts
            | Self::Permissions
            | Self::ProviderLog(_)
            | Self::Metrics
            | Self::Models
            | Self::Streams
            | Self::Keys => "GET, HEAD, OPTIONS",
            Self::Reload => "GET, HEAD, POST, OPTIONS",
            Self::Bench => "GET, HEAD, POST, DELETE, OPTIONS",
            Self::Settings => "GET, HEAD, PATCH, DELETE, OPTIONS",
            Self::Login(_) => "POST, DELETE, OPTIONS",
            Self::Tool(_) => "PATCH, OPTIONS",
            Self::AutoApprove => "PUT, OPTIONS",
            Self::Rule(_) | Self::Setting(_) | Self::Call(..) => "DELETE, OPTIONS",
            Self::Chat
            | Self::Sample
            | Self::ReadExchange(_)
            | Self::Analyze
            | Self::Teach
            | Self::RunTool(_)
            | Self::TestProvider(_)
            | Self::RestartProvider(_)
            | Self::LoginResponse
            | Self::Prompt(..)
            | Self::AllowAll
            | Self::Question(_)
            | Self::ExtendQuestion(_) => "POST, OPTIONS",
        }
    }

    pub(super) fn allows(&self, method: &Method) -> bool {
        self.methods().split(", ").any(|allowed| allowed == method.as_str())
    }

    pub(super) fn is_sign_in(&self, method: &Method) -> bool {
        *self == Self::Session && *method == Method::POST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_percent_decoded() {
        assert_eq!(AdminPath::find("/admin/tools/a%2Fb/run"), Some(AdminPath::RunTool("a/b".to_owned())));
        assert_eq!(AdminPath::find("/admin/permissions/rules/r_1"), Some(AdminPath::Rule("r_1".to_owned())));
        for path in
            ["/admin/", "/admin/tools/", "/admin/tools//run", "/admin/nothing", "/admin/tools/%ff", "/adminx"]
        {
            assert_eq!(AdminPath::find(path), None, "{path}");
        }
    }
}
