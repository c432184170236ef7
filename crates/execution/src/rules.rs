//! [`PermissionRule`]: determines which calls may run.

use std::cmp::Reverse;

use super::address::Domain;
use toolwire_net::store::Owner;
use toolwire_pipeline::tools::normalized;

/// Whether a tool may run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Permission {
    /// The tool may run without a question.
    #[default]
    Allow,
    /// A person decides.
    Ask,
    Deny,
}

/// What rules are matched against.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// The client. `None` if it does not matter.
    pub(crate) key: Option<Owner>,
    /// The client's name in events, if it needed a key.
    pub(crate) client: Option<&'a str>,
    /// The model that the client requested.
    pub(crate) model: &'a str,
    pub(crate) tool: &'a str,
    pub(crate) aliases: &'a [String],
    /// The domain in the call's URL, in lower case.
    pub(crate) domain: Option<&'a str>,
}

/// A short fingerprint of a key, which does not reveal it. `None` if the client needed no key.
pub fn key_mark(Owner(digest): Owner) -> Option<String> {
    let [a, b, c, d, ..] = digest;
    (digest != [0; 32]).then(|| format!("key-{a:02x}{b:02x}{c:02x}{d:02x}"))
}

/// A configured rule. It matches if all fields match; a field that is `None` matches anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionRule {
    pub key: Option<Owner>,
    /// The model that the client requests. A trailing `*` matches any suffix.
    pub model: Option<String>,
    /// The tool's name or an alias. A trailing `*` matches any suffix.
    pub tool: Option<String>,
    /// The domain, with its subdomains.
    pub domain: Option<Domain>,
    /// The permission of matching calls.
    pub permission: Permission,
}

/// The permission that the rules give to a call. `None` if no rule matches.
///
/// A rule that specifies more of key, model, tool and domain takes precedence. Of the rules that specify the same
/// fields, the one with the most specific names wins. If several rules remain, `deny` wins over `ask`, and `ask` over
/// `allow`.
pub(crate) fn decide(rules: &[PermissionRule], asked: &Asked<'_>) -> Option<Permission> {
    let matching: Vec<_> = rules.iter().filter(|rule| rule.matches(asked)).collect();
    let most = matching.iter().map(|rule| rule.named()).max()?;
    let level: Vec<_> = matching.into_iter().filter(|rule| rule.named() == most).collect();
    let is_beaten = |rule: &&PermissionRule| {
        level
            .iter()
            .any(|other| other.selectors() == rule.selectors() && other.exactness() > rule.exactness())
    };
    let deciding = level.iter().copied().filter(|rule| !is_beaten(rule));
    deciding.map(|rule| rule.permission).max_by_key(|permission| strictness(*permission))
}

fn strictness(permission: Permission) -> u8 {
    match permission {
        Permission::Allow => 0,
        Permission::Ask => 1,
        Permission::Deny => 2,
    }
}

impl PermissionRule {
    /// Returns the rule with its tool name normalized like the names in calls.
    pub fn normalized(self) -> Self {
        let tool = self.tool.map(|tool| match tool.strip_suffix('*') {
            Some(start) => format!("{}*", normalized(start)),
            None => normalized(&tool),
        });
        Self { tool, ..self }
    }

    fn matches(&self, asked: &Asked<'_>) -> bool {
        self.key.is_none_or(|key| asked.key == Some(key))
            && self.model.as_deref().is_none_or(|pattern| glob(pattern, asked.model))
            && self.tool.as_deref().is_none_or(|pattern| {
                glob(pattern, asked.tool) || asked.aliases.iter().any(|alias| glob(pattern, alias))
            })
            && self
                .domain
                .as_ref()
                .is_none_or(|domain| asked.domain.is_some_and(|asked| self.is_for(domain, asked)))
    }

    /// Whether the rule's domain covers `host`. A rule that forbids one name of this machine covers all of its names; a
    /// rule that allows one does not.
    fn is_for(&self, domain: &Domain, host: &str) -> bool {
        match self.permission {
            Permission::Allow => domain.contains(host),
            Permission::Ask | Permission::Deny => domain.covers(host),
        }
    }

    fn selectors(&self) -> [bool; 4] {
        [self.key.is_some(), self.model.is_some(), self.tool.is_some(), self.domain.is_some()]
    }

    fn named(&self) -> usize {
        self.selectors().into_iter().filter(|is_named| *is_named).count()
    }

    /// A sort key: greater for longer domains, and for names without `*`.
    fn exactness(&self) -> (usize, Reverse<bool>, usize, Reverse<bool>, usize) {
        let length = |name: &Option<String>| name.as_ref().map_or(0, String::len);
        let is_open = |name: &Option<String>| Reverse(name.as_ref().is_some_and(|name| name.ends_with('*')));
        let Self { model, tool, domain, .. } = self;
        let domain = domain.as_ref().map_or(0, |domain| domain.as_str().len());
        (domain, is_open(tool), length(tool), is_open(model), length(model))
    }
}

/// Whether `name` matches `pattern`, in which a trailing `*` matches any suffix.
pub(crate) fn glob(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Owner = Owner([1; 32]);

    fn rule(key: bool, model: &str, tool: &str, domain: &str, permission: Permission) -> PermissionRule {
        let named = |name: &str| (!name.is_empty()).then(|| name.to_owned());
        let key = key.then_some(KEY);
        PermissionRule {
            key,
            model: named(model),
            tool: named(tool),
            domain: Domain::parse(domain),
            permission,
        }
    }

    fn of(rules: &[PermissionRule], tool: &str, domain: Option<&str>) -> Option<Permission> {
        decide(
            rules,
            &Asked {
                key: Some(KEY),
                client: None,
                model: "qwen3",
                tool,
                aliases: &["other-name".to_owned()],
                domain,
            },
        )
    }

    #[test]
    fn the_rule_that_names_the_most_decides() {
        use Permission::{Allow, Ask, Deny};
        let rules = [
            rule(false, "", "", "", Deny),
            rule(false, "", "scrape", "", Ask),
            rule(false, "", "scrape", "example.com", Allow),
            rule(true, "qwen*", "scrape", "example.com", Deny),
        ];
        assert_eq!(of(&rules[..1], "other", None), Some(Deny));
        assert_eq!(of(&rules[..3], "scrape", None), Some(Ask));
        assert_eq!(of(&rules[..3], "scrape", Some("example.com")), Some(Allow));
        assert_eq!(of(&rules[..3], "scrape", Some("www.example.com")), Some(Allow));
        assert_eq!(of(&rules[..3], "scrape", Some("badexample.com")), Some(Ask));
        assert_eq!(of(&rules, "scrape", Some("example.com")), Some(Deny));
        assert_eq!(of(&rules[1..], "other", None), None);
    }

    #[test]
    fn deny_beats_allow_at_equal_level_in_any_order() {
        use Permission::{Allow, Ask, Deny};
        for (one, other, stricter) in [(Allow, Deny, Deny), (Allow, Ask, Ask), (Ask, Deny, Deny)] {
            for (first, second) in [(one, other), (other, one)] {
                let by_different = [rule(true, "", "", "", first), rule(false, "", "scrape", "", second)];
                assert_eq!(of(&by_different, "scrape", None), Some(stricter));
                let by_same = [rule(false, "", "scrape", "", first), rule(false, "", "scrape", "", second)];
                assert_eq!(of(&by_same, "scrape", None), Some(stricter));
            }
        }
    }

    #[test]
    fn a_rule_may_have_another_name_of_the_tool() {
        use Permission::{Allow, Deny};
        for pattern in ["Other-Name", "other-*"] {
            let rules = [rule(false, "", pattern, "", Deny).normalized(), rule(false, "", "", "", Allow)];
            assert_eq!(of(&rules, "web_search", None), Some(Deny), "{pattern}");
        }
    }

    #[test]
    fn more_exact_names_decide_between_rules_that_name_the_same() {
        use Permission::{Allow, Deny};
        let rules = [
            rule(false, "", "files__*", "", Deny),
            rule(false, "", "files__read*", "", Allow),
            rule(false, "", "files__read_all", "", Deny),
            rule(false, "", "", "example.com", Deny),
            rule(false, "", "", "api.example.com", Allow),
        ];
        assert_eq!(of(&rules, "files__write", None), Some(Deny));
        assert_eq!(of(&rules, "files__read_one", None), Some(Allow));
        assert_eq!(of(&rules, "files__read_all", None), Some(Deny));
        assert_eq!(of(&rules, "x", Some("example.com")), Some(Deny));
        assert_eq!(of(&rules, "x", Some("v1.api.example.com")), Some(Allow));
        // A rule for the tool and a rule for the domain have the same precedence.
        assert_eq!(of(&rules, "files__write", Some("api.example.com")), Some(Deny));
    }
}
