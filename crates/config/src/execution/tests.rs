//! Tests for reading and showing these tables.

use std::io::Write as _;

use secrecy::ExposeSecret;

use super::*;
use crate::of_text;
use toolwire_execution::{CacheRule, Domain, Permission};

const UPSTREAM: &str = "[[upstreams]]\nname = \"up\"\ndialect = \"chat\"\nbase_url = \"http://127.0.0.1:1/v1\"\n[[models]]\nname = \"m\"\n";

fn read_text(text: &str) -> Result<Arc<ExecutionSettings>, String> {
    let config = of_text(format!("{text}\n{UPSTREAM}")).map_err(|problems| problems.to_string())?;
    config.execution.ok_or_else(|| "no stage".to_owned())
}

#[test]
fn texts_in_the_file_itself_are_secret_if_their_name_says_so() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"from-a-file").unwrap();
    let text = r#"
        [execution]
        [[providers]]
        name = "local"
        kind = "command"
        command = ["true"]
        env = { LANGUAGE = "english", LEVEL = "1", API_KEY = "plain-key", OUTSIDE = "file:PATH" }
        [[providers]]
        name = "remote"
        kind = "mcp"
        url = "http://127.0.0.1:1/mcp"
        headers = { Authorization = "Bearer abc", x-api-key = "def", X-Region = "europe", X-Own = "file:PATH" }
        "#;
    let settings = read_text(&text.replace("PATH", file.path().to_str().unwrap())).unwrap();
    let mut secrets: Vec<_> = settings.secrets.iter().map(ExposeSecret::expose_secret).collect();
    secrets.sort_unstable();
    assert_eq!(secrets, ["Bearer abc", "def", "from-a-file", "from-a-file", "plain-key"]);
    let shown = format!("{:?}", shown(&settings));
    assert!(shown.contains("english") && shown.contains("europe"), "{shown}");
    assert!(!shown.contains("abc") && !shown.contains("plain-key") && !shown.contains("from-a"), "{shown}");
}

#[test]
fn all_settings_of_calls_are_read_and_shown() {
    let settings = read_text(
        r#"
        [execution]
        max_rounds = 20
        rate_limit = "60/m"
        rate_wait = "1s"
        clash = "prefix"
        permission = "ask"
        unattended = "wait"
        [[providers]]
        name = "calc"
        kind = "command"
        command = ["true"]
        deny = ["x*"]
        max_running = 2
        rate_limit = "5/10s"
        [[tools]]
        name = "calc"
        intent = ["sum|add up", "how much + is"]
        permission = "deny"
        cache_ttl = "off"
        rate_limit = "10/1m"
        max_uses = 1
        retries = 0
        max_result = "1KiB"
        deny_domains = ["bad.example"]
        [[permissions]]
        permission = "allow"
        key = "a-client-key"
        tool = "Calc"
        domain = "*.Example.com"
        "#,
    )
    .unwrap();
    let minute = Duration::from_secs(60);
    assert_eq!(settings.rate_limit, Some(Rate { count: 60.try_into().unwrap(), period: minute }));
    let rules = settings.rules_for("calc", &[]);
    assert_eq!((rules.cache, rules.max_uses, rules.max_result), (CacheRule::Off, Some(1), Some(1024)));
    let rules = settings.all_permissions().rules;
    let [own, of_tool] = &rules[..] else { panic!("two rules: {rules:?}") };
    assert_eq!(own.key, Some(Owner::of_key(b"a-client-key")));
    assert_eq!(
        (own.tool.as_deref(), own.domain.as_ref().map(Domain::as_str)),
        (Some("calc"), Some("example.com"))
    );
    assert_eq!((of_tool.tool.as_deref(), of_tool.permission), (Some("calc"), Permission::Deny));
    let shown = shown(&settings).into_iter().map(|(key, value)| format!("{key}: {value}\n"));
    let shown: String = shown.collect();
    for part in ["60/60s", "10/60s", "5/10s", "how much + is", "\"off\"", "\"deny\"", "prefix", "wait"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains("a-client-key"), "{shown}");
}

#[test]
fn mistakes_are_reported() {
    for (text, word) in [
        ("[execution]\nmax_rounds = 21", "from 1 to 20"),
        ("[execution]\nmax_rounds = 0", "from 1 to 20"),
        ("[execution]\nretries = 11", "from 0 to 10"),
        ("[execution]\nrate_limit = \"0/1m\"", "a rate such as"),
        ("[execution]\nrate_limit = \"10\"", "a rate such as"),
        ("[execution]\nrate_limit = \"10/0s\"", "a rate such as"),
        ("[execution]\n[[tools]]\nname = \"a\"\nintent = [\"+\"]", "expected words"),
        ("[execution]\n[[tools]]\nname = \"a\"\n[[tools]]\nname = \"a\"", "a second entry"),
        ("[execution]\n[[permissions]]\ntool = \"a\"", "missing key `permission`"),
        ("[execution]\n[[permissions]]\npermission = \"maybe\"", "maybe"),
    ] {
        let error = read_text(text).unwrap_err();
        assert!(error.contains(word), "{text}: {error}");
    }
}

#[test]
fn domains_are_read_in_their_normal_form_and_anything_else_is_a_mistake() {
    let tables = |domain: &str| {
        [
            format!("[execution]\n[[tools]]\nname = \"a\"\nallow_domains = [\"ok.example\", \"{domain}\"]"),
            format!("[execution]\n[[tools]]\nname = \"a\"\ndeny_domains = [\"{domain}\"]"),
            format!("[execution]\n[[permissions]]\npermission = \"deny\"\ndomain = \"{domain}\""),
        ]
    };
    for wrong in [
        "https://evil.example",
        "https://evil.example/",
        "evil.example:443",
        "evil.example/x",
        "a b",
        "*",
        "u@evil.example",
    ] {
        for text in tables(wrong) {
            let error = read_text(&text).unwrap_err();
            assert!(error.contains("expected a domain"), "{text}: {error}");
        }
    }
    for (written, normal) in [
        ("bücher.example", "xn--bcher-kva.example"),
        (" Evil.Example ", "evil.example"),
        ("*.evil.example", "evil.example"),
        (".evil.example.", "evil.example"),
        ("[::1]", "[::1]"),
        ("127.1", "127.0.0.1"),
    ] {
        let [_, denied, permission] = tables(written);
        let rules = read_text(&denied).unwrap().rules_for("a", &[]);
        assert_eq!(rules.deny_domains[0].as_str(), normal);
        let rules = &read_text(&permission).unwrap().permissions.rules;
        assert_eq!(rules[0].domain.as_ref().map(Domain::as_str), Some(normal));
    }
}
