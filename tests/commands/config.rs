//! Tests how configurations are loaded: error messages, the precedence of sources, and that secrets are never
//! printed.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use proptest::prelude::*;
use secrecy::{ExposeSecret, SecretString};
use tempfile::TempDir;
use toolwire::{
    config::{Config, Loaded, Overrides, Passthrough, Place, Problems, Severity, ToolStyle, load, reference},
    dialect::{Dialect, Skip, UpstreamDialect, facts_table},
    rules::{ArgumentDelivery, Detect, ServerCalls},
};

const SECRET: &str = "sk-5f1c-very-secret";

struct Desk(TempDir);

impl Desk {
    fn with(text: &str) -> Self {
        let desk = Self(TempDir::new().unwrap());
        fs::write(desk.file(), text).unwrap();
        desk
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("toolwire.toml")
    }

    fn load(&self) -> Result<Loaded, Problems> {
        self.load_with(Overrides::default())
    }

    fn load_with(&self, overrides: Overrides) -> Result<Loaded, Problems> {
        load(&Overrides { file: Some(self.file()), ..overrides }, &environment)
    }

    /// Returns the problems as printed, without the file name.
    fn told(&self) -> String {
        let problems = match self.load() {
            Ok(loaded) => Problems(loaded.warnings),
            Err(problems) => problems,
        };
        problems.to_string().replace(&format!("{}:", self.file().display()), "")
    }
}

fn environment(name: &str) -> Option<String> {
    match name {
        "KEY" => Some(SECRET.to_owned()),
        "EMPTY" => Some(String::new()),
        "TWO_LINES" => Some("a\nb".to_owned()),
        _ => None,
    }
}

const GOOD: &str = r#"
[[upstreams]]
name = "lumo"
dialect = "lumo"
base_url = "https://lumo.example/api/"
api_key = "env:KEY"

[[models]]
name = "lumo"
upstream_name = "lumo-max"

[[models]]
name = "*"
tools = "fenced"
"#;

#[test]
fn all_errors_are_reported_with_their_location() {
    let desk = Desk::with(
        r#"lisen = "127.0.0.1:8787"
listen = ["127.0.0.1:8787", "localhost:80", "0.0.0.0:99", "127.0.0.1:8787"]
drain_timeout = 30

[[upstreams]]
name = "lumo"
dialect = "lummo"
base_url = "lumo.example/api"
api_key = "env:NOPE"
conect_timeout = "10s"
header_timeout = "90 parsecs"
max_concurrent = 0
[upstreams.lumo]
version = "v3"
native_tools = ["proton_info", 3]

[[upstreams]]
name = "lumo"
dialect = "chat"
api_key = "env:TWO_LINES"
[upstreams.headers]
"x y" = "1"
host = "elsewhere"
[upstreams.lumo]
verson = "v2"

[[models]]
name = "ä"
upstream = "lummo"
tools = "nativ"
detect = ["pre", "hermess"]
server_calls = "anotate"
arguments = true

[[models]]
name = "ä"
"ünknöwn_cäll" = 1

[limits]
max_body = "10MiX"
max_calls = 1.5
keep_alive = "0s"
maxcalls = 3
"#,
    );
    let expected = "\
1:1: error: unknown key `lisen`; did you mean `listen`? also known: `admin`, `hosts`; `toolwire check --keys` lists all
2:29: error: expected an IP address; write `127.0.0.1:80`
2:45: error: 0.0.0.0:99 can be reached from other machines: without `api_keys` or `[[keys]]`, toolwire listens only on loopback addresses
2:59: error: 127.0.0.1:8787 is listed twice
3:17: error: expected a duration such as \"90s\", found an integer
7:11: error: unknown value `lummo`; did you mean `lumo`? also known: `chat`, `responses`, `messages`, `gemini`, `interactions`, `ollama`, `bedrock`, `completions`
8:12: error: not a URL; expected one such as \"https://host/v1\"
9:11: error: the environment variable `NOPE` is not set
10:1: error: unknown key `conect_timeout`; did you mean `connect_timeout`? also known: `idle_timeout`, `total_timeout`; `toolwire check --keys` lists all
11:18: error: expected a duration such as \"90s\": unknown time unit \"parsecs\", supported units: ns, us/µs, ms, sec, \
min, hours, days, weeks, months, years (and few variations)
12:18: error: expected a whole number of at least 1
14:11: error: unknown value `v3`; known here: `v1`, `v2`
15:32: error: expected a string, found an integer
17:1: error: missing key `base_url`
18:8: error: a second upstream `lumo`
20:11: error: the secret holds characters that no HTTP header can carry
22:1: error: `x y` is not a header's name
23:1: error: the header `host` is toolwire's own
24:1: error: settings of the dialect `lumo`, which this upstream does not speak
25:1: error: unknown key `verson`; did you mean `version`? also known: `session`, `app_version`; `toolwire check --keys` lists all
29:12: error: no upstream `lummo`; did you mean `lumo`?
30:9: error: unknown value `nativ`; did you mean `native`? also known: `bare`, `dots`; `toolwire formats` lists all
31:18: error: unknown value `hermess`; did you mean `hermes`? also known: `harmony`, `apertus`; `toolwire formats` lists all
32:16: error: unknown value `anotate`; did you mean `annotate`? also known: `auto`, `forward`, `hide`
33:13: error: expected one of \"stream\", \"whole\", found a boolean
35:1: error: missing key `upstream`
36:8: error: a second model `ä`
37:1: error: unknown key `ünknöwn_cäll`; did you mean `unknown_calls`? also known: `quoted_calls`, `server_calls`; `toolwire check --keys` lists all
40:12: error: expected a size such as \"10MiB\"
41:13: error: expected a whole number, found a float
42:14: error: expected a duration greater than zero
43:1: error: unknown key `maxcalls`; did you mean `max_calls`? also known: `max_hold`, `max_hops`; `toolwire check --keys` lists all";
    assert_eq!(desk.told(), expected);
}

#[test]
fn syntax_errors_are_reported_together_with_other_errors() {
    let desk = Desk::with(
        "listen = \"127.0.0.1:1\n[limits]\nmax_body = 10MiB\nmax_bdy = 3\nmax_calls = 1\nmax_calls = 2\n",
    );
    let expected = "\
1:22: error: invalid basic string, expected `\"`
3:12: error: string values must be quoted, expected literal string
4:1: error: unknown key `max_bdy`; did you mean `max_body`? also known: `max_n`, `max_hold`; `toolwire check --keys` lists all
6:1: error: duplicate key";
    assert_eq!(desk.told(), expected);
}

#[test]
fn missing_or_non_utf8_file_is_reported() {
    let desk = Desk::with("");
    fs::write(desk.file(), b"listen = \"127.0.0.1:1\"\n# \xff\n").unwrap();
    assert_eq!(desk.told(), "2:3: error: not UTF-8");
    fs::remove_file(desk.file()).unwrap();
    let Problems(problems) = desk.load().unwrap_err();
    assert_eq!(problems[0].place, Place::Nowhere);
    assert!(problems[0].message.contains("toolwire.toml"), "{problems:?}");
}

#[test]
fn byte_order_mark_does_not_shift_columns() {
    let desk = Desk::with("\u{feff}lisen = 1");
    assert!(desk.told().starts_with("1:1: error: unknown key `lisen`"), "{}", desk.told());
}

#[test]
fn empty_file_lacks_upstreams_and_models() {
    let told = Desk::with("").told();
    assert!(told.contains("no `[[upstreams]]`") && told.contains("no `[[models]]`"), "{told}");
}

#[test]
fn missing_bracket_is_reported_once() {
    let told = Desk::with(&GOOD.replacen("[[upstreams]]", "[upstreams]", 1)).told();
    assert_eq!(told, "2:1: error: expected `[[upstreams]]` with two brackets: there may be several");
}

#[test]
fn probable_mistakes_are_warnings() {
    let desk = Desk::with(&format!(
        r#"
[[upstreams]]
name = "a"
dialect = "lumo"
base_url = "http://far.example"
api_key = "{SECRET}"
header_timeout = "59s"
[upstreams.lumo]
version = "v1"
[[upstreams]]
name = "idle"
dialect = "chat"
base_url = "http://127.0.0.1:1/v1"
api_key = "env:KEY"
[[models]]
name = "m"
upstream = "a"
instructions = "Call tools."
[[models]]
name = "n"
upstream = "a"
tools = "hermes"
detect = "pre"
"#
    ));
    let expected = "\
6:11: warning: a secret in the file itself; `\"env:NAME\"` or `\"file:PATH\"` keeps it out
6:11: warning: the key goes over `http://` to another machine and can be read on its way
7:18: warning: Lumo may send its headers only after 60 s; a shorter limit hides the error that it gives then
10:1: warning: no model uses the upstream `idle`
16:8: warning: Lumo v1 has no field for a client's tools; without a text format in `tools`, the model does not learn of them
18:16: warning: `instructions` are used only where `tools` is a text format
23:10: warning: the model is taught `hermes`, but its calls in this format are not looked for";
    assert_eq!(desk.told(), expected);
    let warnings = desk.load().unwrap().warnings;
    assert!(warnings.iter().all(|warning| warning.severity == Severity::Warning));
}

#[test]
fn invalid_urls_are_rejected_without_being_printed() {
    for (url, said) in [
        ("ftp://host/v1", "begins with `http://`"),
        ("https://user:hunter2@host/v1", "no user or password"),
        ("https://host/v1?key=hunter2", "no query"),
        ("https://host/v1/chat/completions", "leave `chat/completions` out"),
        ("https://ho st/hunter2", "not a URL"),
    ] {
        let told = Desk::with(&GOOD.replace("https://lumo.example/api/", url)).told();
        assert!(told.starts_with("5:12: error: ") && told.contains(said), "{url}: {told}");
        assert!(!told.contains("hunter2"), "{told}");
    }
}

#[test]
fn passthrough_paths_that_are_wrong_or_taken_are_reported_with_their_place() {
    let told = Desk::with(&format!(
        "passthrough = [\"/v1/embeddings\", \"/v1/chat/*\",\n  \"/v1/a/../b\", 7]\n{GOOD}"
    ))
    .told();
    let lines: Vec<_> = told.lines().collect();
    assert_eq!(lines[0], "1:34: error: toolwire serves `/v1/chat/completions` itself", "{told}");
    assert!(lines[1].starts_with("2:3: error: expected a path such as"), "{told}");
    assert!(lines[2].starts_with("2:17: error: expected a string"), "{told}");
    let twice = Desk::with(&format!("passthrough = [\"/v1/embeddings\", \"/v1/embeddings\"]\n{GOOD}")).told();
    assert!(twice.starts_with("1:34: error: `/v1/embeddings` is listed twice"), "{twice}");
    let config = Desk::with(&format!("passthrough = \"/v1/embeddings\"\n{GOOD}")).load().unwrap().config;
    assert_eq!(config.passthrough, Passthrough::parse(&["/v1/embeddings"]).unwrap());
    assert_eq!(config.to_toml()["passthrough"].to_string(), "[\"/v1/embeddings\"]");
}

#[test]
fn max_pending_bodies_is_at_least_max_body() {
    let with = |limits: &str| Desk::with(&format!("{GOOD}[limits]\n{limits}"));
    let small = with("max_body = 10\nmax_pending_bodies = 9\n");
    assert!(small.told().contains("smaller than `max_body`"), "{}", small.told());
    for (limits, pending) in [
        ("max_body = 10\nmax_pending_bodies = 10\n", 10),
        ("max_body = 10\n", 256 << 20),
        ("max_body = \"1GiB\"\n", 1 << 30),
    ] {
        assert_eq!(with(limits).load().unwrap().config.limits.max_pending_bodies, pending, "{limits}");
    }
}

#[test]
fn valid_file_resolves_with_defaults() {
    let Loaded { config, warnings } = Desk::with(GOOD).load().unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(config.listen, ["127.0.0.1:8787".parse().unwrap()]);
    assert_eq!(config.limits.max_body, 10 << 20);
    assert_eq!(config.limits.answer, toolwire::rules::Limits::default());

    let upstream = &config.upstreams[0];
    assert_eq!(upstream.dialect(), Dialect::Lumo);
    assert_eq!(upstream.endpoint().unwrap(), "https://lumo.example/api/ai/v1/chat/completions");
    assert_eq!(upstream.timeouts.header, Duration::from_secs(90));
    assert_eq!(upstream.timeouts.total, None);

    let lumo = config.model("lumo").unwrap();
    assert_eq!((lumo.upstream_name("lumo"), lumo.tools), ("lumo-max", ToolStyle::Native));
    assert_eq!(lumo.settings.tool_prefix, "user:");
    assert!(lumo.settings.server_tools.is_empty(), "a native tool of the same name is the client's");
    let any = config.model("anything").unwrap();
    assert_eq!((any.name.as_str(), any.upstream_name("anything")), ("*", "anything"));
    assert_eq!(any.tools.to_string(), "fenced");
    assert_eq!(any.settings.tool_prefix, "user:");
    assert_eq!(any.settings.server_tools, ["proton_info", "web_search"]);
    assert_eq!(any.teaching().prefix, "user:");
}

#[test]
fn every_key_is_read() {
    let desk = Desk::with(
        r#"
listen = "[::1]:0"
api_keys = ["env:KEY", "file:key"]
passthrough = ["/v1/embeddings", "/v1/audio/*"]
drain_timeout = "1m 30s"
[[upstreams]]
name = "c"
dialect = "chat"
base_url = "https://c.example/v1"
headers = { x-a = "env:KEY" }
connect_timeout = "1s"
header_timeout = "2s"
idle_timeout = "3s"
total_timeout = "30m"
max_concurrent = 5
max_waiting = 0
wait_timeout = "6s"
tolerate_truncation = true
[upstreams.chat]
include_usage = false
cumulative = true
developer_role = "keep"
custom_tools = "keep"
result_images = "keep"
join_user_turns = true
[[models]]
name = "m"
upstream = "c"
upstream_name = "n"
tools = "hermes"
detect = ["hermes", "think"]
reasoning = "inline"
server_calls = "hide"
arguments = "whole"
unknown_calls = "text"
invalid_arguments = "retry"
enforce = "retry"
misroute = "bounce"
repair = false
tool_prefix = "my_"
instructions = "file:words"
system_position = "user"
[limits]
max_body = 1
max_pending_bodies = "8MB"
body_timeout = "9s"
write_timeout = "10s"
max_frame = "2KiB"
max_arguments = "3kB"
max_calls = 4
max_hold = "5B"
max_depth = 6
max_answer = "7KiB"
keep_alive = "7ms"
"#,
    );
    fs::write(desk.0.path().join("key"), "from a file\r\n").unwrap();
    fs::write(desk.0.path().join("words"), "Tools:\n{tools}\n").unwrap();
    let config = desk.load().unwrap().config;
    let keys: Vec<_> = config.api_keys.iter().map(ExposeSecret::expose_secret).collect();
    assert_eq!(keys, [SECRET, "from a file"]);
    assert_eq!(config.upstreams[0].headers["x-a"], SECRET);
    assert!(
        matches!(&config.upstreams[0].options, UpstreamDialect::Chat(chat) if chat.cumulative && !chat.include_usage)
    );
    let model = &config.models[0];
    assert_eq!(model.instructions.as_deref(), Some("Tools:\n{tools}"));
    assert!(model.settings.tolerate_truncation && !model.settings.repair && model.teaching().in_user_turn);
    assert_eq!(model.settings.limits, config.limits.answer);

    // Loading the output of `check` gives the same configuration.
    let shown = toml::to_string(&config.to_toml()).unwrap();
    let again = Desk::with(&shown.replace("********", "env:KEY")).load().unwrap().config;
    assert_eq!(toml::to_string(&again.to_toml()).unwrap(), shown);
    for said in [
        r#"listen = ["[::1]:0"]"#,
        "drain_timeout = \"90s\"",
        "max_body = \"1B\"",
        "max_pending_bodies = \"8000000B\"",
        "body_timeout = \"9s\"",
        "write_timeout = \"10s\"",
        "max_frame = \"2KiB\"",
        "max_arguments = \"3000B\"",
        "max_calls = 4",
        "max_hold = \"5B\"",
        "max_depth = 6",
        "max_answer = \"7KiB\"",
        "keep_alive = \"7ms\"",
        "connect_timeout = \"1s\"",
        "header_timeout = \"2s\"",
        "idle_timeout = \"3s\"",
        "total_timeout = \"1800s\"",
        "max_concurrent = 5",
        "max_waiting = 0",
        "wait_timeout = \"6s\"",
        "upstream_name = \"n\"",
        "tools = \"hermes\"",
        r#"detect = ["hermes", "think"]"#,
        "server_calls = \"hide\"",
        "arguments = \"whole\"",
        "unknown_calls = \"text\"",
        "invalid_arguments = \"retry\"",
        "enforce = \"retry\"",
        "misroute = \"bounce\"",
        "tool_prefix = \"my_\"",
        "system_position = \"user\"",
    ] {
        assert!(shown.lines().any(|line| line == said), "{said} in {shown}");
    }
}

#[test]
fn flags_override_the_file_and_are_validated_like_it() {
    let desk = Desk::with(GOOD);
    let flags = Overrides {
        listen: vec!["127.0.0.1:1".to_owned(), "[::1]:2".to_owned()],
        client_keys: vec![SecretString::from("env:KEY")],
        tools: Some("hermes".to_owned()),
        detect: Some("hermes, pre".to_owned()),
        ..Overrides::default()
    };
    let config = desk.load_with(flags).unwrap().config;
    assert_eq!(config.listen.len(), 2);
    assert_eq!(config.api_keys[0].expose_secret(), SECRET);
    for model in &config.models {
        assert_eq!(model.tools.to_string(), "hermes");
        assert!(matches!(&model.settings.detect, Detect::Formats(formats) if formats.len() == 2));
    }

    let wrong = Overrides {
        listen: vec!["0.0.0.0:1".to_owned()],
        tools: Some("hermes".to_owned()),
        detect: Some("of".to_owned()),
        ..Overrides::default()
    };
    let told = desk.load_with(wrong).unwrap_err().to_string();
    assert!(told.contains("error: --listen (TOOLWIRE_LISTEN): 0.0.0.0:1 can be reached"), "{told}");
    assert!(told.contains("error: --detect (TOOLWIRE_DETECT): unknown value `of`"), "{told}");
}

#[test]
fn upstream_flag_replaces_the_upstreams_of_the_file_only() {
    let flags = Overrides {
        upstream: Some("http://127.0.0.1:9/v1".to_owned()),
        dialect: Some("chat".to_owned()),
        api_key: Some(SecretString::from(SECRET)),
        detect: Some("off".to_owned()),
        server_calls: Some("annotate".to_owned()),
        ..Overrides::default()
    };
    let check = |config: &Config| {
        assert_eq!((config.upstreams.len(), config.models.len()), (1, 1));
        let model = config.model("whatever").unwrap();
        assert_eq!(model.upstream.dialect(), Dialect::Chat);
        assert_eq!(model.upstream.api_key.as_ref().unwrap().expose_secret(), SECRET);
        assert_eq!(model.settings.detect, Detect::Off);
        assert_eq!(model.settings.arguments, ArgumentDelivery::Stream);
        assert_eq!(model.settings.server_calls, ServerCalls::Annotate);
    };
    let alone = load(&flags, &environment).unwrap();
    assert!(alone.warnings.is_empty(), "{:?}", alone.warnings);
    check(&alone.config);
    let over_file = Desk::with(&format!("[limits]\nmax_calls = 3\n{GOOD}")).load_with(flags).unwrap();
    check(&over_file.config);
    assert_eq!(over_file.config.limits.answer.max_calls, 3);
}

#[test]
fn nothing_to_serve_is_an_error() {
    let Problems(problems) = load(&Overrides::default(), &environment).unwrap_err();
    assert_eq!(problems.len(), 1);
    assert!(problems[0].message.contains("serve URL"), "{problems:?}");
}

#[test]
fn missing_secrets_are_errors_with_their_location() {
    for (reference, said) in [
        ("env:NOPE", "`NOPE` is not set"),
        ("env:EMPTY", "`EMPTY` is empty"),
        ("env:TWO_LINES", "no HTTP header can carry"),
        ("file:nowhere", "cannot read"),
        ("", "expected text, found an empty string"),
    ] {
        let told = Desk::with(&GOOD.replace("env:KEY", reference)).told();
        assert!(told.starts_with("6:11: error: ") && told.contains(said), "{reference}: {told}");
    }
}

#[test]
fn no_secret_is_ever_shown() {
    let desk = Desk::with(&format!("api_keys = [\"{SECRET}\"]\n{GOOD}").replace(
        "api_key = \"env:KEY\"",
        &format!("api_key = \"{SECRET}\"\nheaders = {{ x-key = \"{SECRET}\" }}"),
    ));
    let loaded = desk.load().unwrap();
    let overrides = Overrides { api_key: Some(SecretString::from(SECRET)), ..Overrides::default() };
    let wrong = Desk::with(&format!("api_keys = [\"{SECRET}\\n\", \"{SECRET}\nx = 1\n")).told();
    for shown in [
        format!("{loaded:?}"),
        format!("{overrides:?}"),
        toml::to_string(&loaded.config.to_toml()).unwrap(),
        desk.told(),
        wrong,
    ] {
        assert!(!shown.is_empty());
        assert!(!shown.contains(SECRET), "{shown}");
    }
}

#[test]
fn custom_formats_can_be_named() {
    let text = r#"
[[formats]]
name = "acme"
open = "<<call>>"
close = "<</call>>"
models = ["acme-*"]
result = ["<<result>>", "<</result>>"]
[[formats]]
name = "acme-header"
open = "@@call "
name_end = "\n"
[[upstreams]]
name = "u"
dialect = "chat"
base_url = "http://127.0.0.1:1/v1"
[[models]]
name = "m"
tools = "acme"
detect = ["auto", "acme-header", "acme"]
[[models]]
name = "*"
"#;
    let config = Desk::with(text).load().unwrap().config;
    let named = |model: &str, asked: &str| match &config.model(model).unwrap().settings_for(asked).detect {
        Detect::AutoAnd(formats) => formats.clone(),
        _ => Vec::new(),
    };
    assert_eq!(config.model("m").unwrap().tools.to_string(), "acme");
    assert_eq!(named("m", "m"), ["acme-header", "acme"]);
    assert_eq!(named("*", "vendor/ACME-7b"), ["acme"]);
    assert_eq!(named("*", "other"), [""; 0]);
}

#[test]
fn shown_configuration_loads_and_resolves_to_the_same() {
    let text = r#"
[[formats]]
name = "acme"
summary = "what Acme's models write"
models = ["acme-*"]
open = "<<call>>"
close = "<</call>>"
inner = ["<json>", "</json>"]
line_start = true
name_is_key = true
result = ["<<result>>", "<</result>>"]
frame = ["<<end>>"]
[[formats]]
name = "acme-header"
open = "@@call "
name_end = "\n"
name_first = true
reasoning = ["<<think>>", "<</think>>", "@@call "]
[[formats]]
name = "acme-tags"
open = "<acme="
name_end = ">"
close = "</acme>"
section = ["<acmes>", "</acmes>"]
parameter = ["<arg=", ">", "</arg>"]
trim = true
[[upstreams]]
name = "u"
dialect = "chat"
base_url = "http://127.0.0.1:1/v1"
[[upstreams]]
name = "l"
dialect = "lumo"
base_url = "http://127.0.0.1:1"
[[models]]
name = "m"
upstream = "u"
tools = "acme"
detect = ["auto", "acme-header", "acme-tags"]
[[models]]
name = "taught"
upstream = "l"
tools = "fenced"
[[models]]
name = "qwq-32b"
upstream = "u"
[[models]]
name = "plain"
upstream = "u"
upstream_name = "deepseek-r1"
starts_in_reasoning = false
[[models]]
name = "*"
upstream = "u"
"#;
    let config = Desk::with(text).load().unwrap().config;
    let shown = toml::to_string(&config.to_toml()).unwrap();
    let again = Desk::with(&shown).load().unwrap().config;
    assert_eq!(toml::to_string(&again.to_toml()).unwrap(), shown);

    let definitions =
        |config: &Config| config.formats.own().iter().map(|own| own.definition.clone()).collect::<Vec<_>>();
    assert_eq!(definitions(&again).len(), 3);
    assert_eq!(definitions(&again), definitions(&config));
    for asked in ["m", "taught", "qwq-32b", "plain", "acme-7b", "deepseek-r1", "hermes-3", "other"] {
        let rules = |config: &Config| {
            let model = config.model(asked).unwrap();
            let rules = model.settings_for(asked);
            let formats = match &rules.detect {
                Detect::AutoAnd(formats) => formats.clone(),
                _ => Vec::new(),
            };
            (formats, rules.starts_in_reasoning, rules.server_tools.clone(), model.teaching().prefix)
        };
        assert_eq!(rules(&again), rules(&config), "{asked}");
    }
    assert!(again.model("deepseek-r1").unwrap().settings_for("deepseek-r1").starts_in_reasoning);
}

#[test]
fn ambiguous_custom_formats_are_rejected() {
    let text = r#"[[formats]]
name = "hermes"
open = "<tool_call>{"
close = 1
[[formats]]
name = "a"
open = "```call"
inner = "x"
name_ends = "y"
"#;
    let told = Desk::with(&format!("{text}{GOOD}")).told();
    let wanted = [
        "2:8: error: there is a format `hermes` already",
        "3:8: error: it cannot be told from `<tool_call>` of the format `hermes`: one begins with the other",
        "4:9: error: expected a string, found an integer",
        "7:8: error: an opener cannot begin with white space, a backtick or a tilde",
        "8:9: error: expected an array, found a string",
        "9:1: error: unknown key `name_ends`; did you mean `name_end`? also known: `name_first`, `name`; `toolwire check --keys` lists all",
    ];
    assert_eq!(told.lines().collect::<Vec<_>>(), wanted);
}

/// Replaces a table under `heading` in `page` with `table`. The two tables have the same header row.
fn with_table(page: &str, heading: &str, table: &str) -> String {
    let head = table.split_inclusive('\n').next().unwrap();
    let (before, rest) = page.split_once(heading).unwrap();
    let (between, rest) = rest.split_once(head).unwrap();
    let rows = rest.lines().take_while(|line| line.starts_with('|'));
    let (_, after) = rest.split_at(rows.map(|row| row.len() + 1).sum());
    [before, heading, between, table, after].concat()
}

/// Rewrites the tables instead of checking them if `TOOLWIRE_WRITE=1` is set.
#[test]
fn generated_tables_of_the_documentation_are_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/configuration.md");
    let page = fs::read_to_string(&path).unwrap();
    let mut generated = page.clone();
    for section in reference() {
        let heading = match section.name.as_str() {
            "" => "\n## Top level\n".to_owned(),
            name @ "[upstreams.tls]" => format!("\n`{name}`, "),
            name if name.starts_with("[upstreams.") => format!("\n`{name}`, for `dialect = "),
            name if name.starts_with("kind = ") => format!("\n`{name}`: "),
            name => format!("\n## `{name}`\n"),
        };
        generated = with_table(&generated, &heading, &section.to_markdown());
    }
    let mut reasons = "| reason | |\n|---|---|\n".to_owned();
    for skip in Skip::ALL {
        reasons.push_str(&format!("| `{}` | {} |\n", skip.name(), skip.about()));
    }
    generated = with_table(&generated, "\n## What is left out of ", &reasons);
    if std::env::var_os("TOOLWIRE_WRITE").is_some() {
        fs::write(&path, &generated).unwrap();
    } else {
        let hint = "write it: TOOLWIRE_WRITE=1 cargo test --test commands generated_tables";
        assert!(generated == page, "docs/configuration.md is not what the declarations say; {hint}");
    }
}

#[test]
fn generated_tables_of_facts_about_models_are_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/dialects.md");
    let page = fs::read_to_string(&path).unwrap();
    let generated = with_table(&page, "\n## What models refuse\n", &facts_table());
    if std::env::var_os("TOOLWIRE_WRITE").is_some() {
        fs::write(&path, &generated).unwrap();
    } else {
        let hint = "write it: TOOLWIRE_WRITE=1 cargo test --test commands generated_tables";
        assert!(generated == page, "docs/dialects.md is not what the facts say; {hint}");
    }
}

#[test]
fn documentation_matches_the_configuration() {
    let page = include_str!("../../docs/configuration.md");
    let examples: Vec<_> =
        page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(examples.len() >= 2);
    for example in &examples {
        let desk = Desk::with(example);
        let known = |name: &str| (!name.starts_with("OTEL_")).then(|| "key".to_owned());
        let loaded = load(&Overrides { file: Some(desk.file()), ..Overrides::default() }, &known).unwrap();
        assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    }

    // Every key must appear in a table of the page, with the default that it has at run time.
    let lumo = Desk::with(GOOD).load().unwrap().config.to_toml();
    let chat = GOOD.replace("dialect = \"lumo\"", "dialect = \"chat\"");
    let chat = Desk::with(&chat).load().unwrap().config.to_toml();
    let first = |table: &toml::Table, key: &str| table[key][0].as_table().unwrap().clone();
    let sections = [
        lumo.clone(),
        lumo["limits"].as_table().unwrap().clone(),
        lumo["metrics"].as_table().unwrap().clone(),
        first(&lumo, "upstreams"),
        first(&lumo, "upstreams")["lumo"].as_table().unwrap().clone(),
        first(&chat, "upstreams")["chat"].as_table().unwrap().clone(),
        first(&lumo, "models"),
    ];
    let given = [
        "name",
        "dialect",
        "base_url",
        "api_key",
        "upstream",
        "upstream_name",
        "listen",
        "tool_prefix",
        "system_position",
        "starts_in_reasoning",
        // Depends on the host.
        "profile",
        "server",
        // Depends on the environment.
        "proxy",
        // Depends on the profile.
        "max_tokens_field",
        "call_ids",
        "wants_back",
        "past_reasoning",
        "reasoning_placeholder",
        "exclusive_thinking",
        "required_choice",
        "name_results",
        "cache_control",
        "key_header",
        // Depends on the machine's cores.
        "threads",
    ];
    for (key, value) in sections.iter().flatten().filter(|(_, value)| !value.is_table()) {
        if matches!(key.as_str(), "upstreams" | "models") {
            continue;
        }
        let row = match given.contains(&key.as_str()) {
            true => format!("\n| `{key}` | "),
            false => format!("\n| `{key}` | `{value}` | "),
        };
        assert!(page.contains(&row), "{row}");
    }
}

proptest! {
    /// No damage to a file may cause a panic or an error location outside the file.
    #[test]
    fn damaged_file_is_reported_at_a_valid_location(
        start in 0..GOOD.len(),
        length in 0..20_usize,
        put in "[a-z\"'=\\[\\]\n{},.#ä0-9-]{0,8}",
    ) {
        let kept = |range: std::ops::Range<usize>| GOOD.get(range).unwrap_or_default();
        let end = (start + length).min(GOOD.len());
        let text = format!("{}{put}{}", kept(0..start), kept(end..GOOD.len()));
        let desk = Desk::with(&text);
        if let Err(Problems(problems)) = desk.load() {
            prop_assert!(problems.iter().any(|problem| problem.severity == Severity::Error));
            for problem in problems {
                if let Place::File { line, column, .. } = problem.place {
                    let width = text.split('\n').nth(line - 1).map(|line| line.chars().count());
                    prop_assert!(width.is_some_and(|width| column <= width + 2), "{problem:?} in {text}");
                }
            }
        }
    }
}

#[test]
fn model_name_decides_whether_responses_start_in_reasoning() {
    let text = r#"
[[upstreams]]
name = "u"
dialect = "chat"
base_url = "http://127.0.0.1:1/v1"
[[models]]
name = "told"
upstream_name = "deepseek-r1"
starts_in_reasoning = false
[[models]]
name = "named"
upstream_name = "org/QwQ-32B"
detect = ["hermes"]
[[models]]
name = "set"
starts_in_reasoning = true
[[models]]
name = "*"
"#;
    let config = Desk::with(text).load().unwrap().config;
    let starts =
        |model: &str, asked: &str| config.model(model).unwrap().settings_for(asked).starts_in_reasoning;
    assert!(!starts("told", "told"));
    assert!(starts("named", "named"));
    assert!(starts("set", "set"));
    assert!(starts("*", "deepseek-r1:14b"));
    assert!(!starts("*", "other"));
}

#[test]
fn openai_hosts_get_fields_that_others_do_not_know() {
    let options = |url: &str, more: &str| {
        let text = format!(
            "[[upstreams]]\nname = \"u\"\ndialect = \"chat\"\nbase_url = \"{url}\"\n{more}\n[[models]]\nname = \"*\"\n"
        );
        match &Desk::with(&text).load().unwrap().config.upstreams[0].options {
            UpstreamDialect::Chat(chat) => (chat.keep_developer, chat.keep_custom_tools),
            _ => panic!("the dialect is chat"),
        }
    };
    for url in
        ["https://api.openai.com/v1", "https://EU.api.openai.com/v1", "https://x.openai.azure.com/openai/v1"]
    {
        assert_eq!(options(url, ""), (true, true), "{url}");
        assert_eq!(options(url, "[upstreams.chat]\ncumulative = true"), (true, true), "{url}");
        assert_eq!(options(url, "[upstreams.chat]\ndeveloper_role = \"system\""), (false, true), "{url}");
    }
    for url in
        ["http://127.0.0.1:8000/v1", "https://notapi.openai.com.example/v1", "https://xapi.openai.com/v1"]
    {
        assert_eq!(options(url, ""), (false, false), "{url}");
        assert_eq!(options(url, "[upstreams.chat]\ncustom_tools = \"keep\""), (false, true), "{url}");
    }
}

#[test]
fn configured_secrets_are_passed_to_the_redactor() {
    let text = format!(
        "api_keys = [\"client-secret\"]\n[[upstreams]]\nname = \"u\"\ndialect = \"chat\"\nbase_url = \"http://127.0.0.1:1/v1\"\n\
         api_key = \"{SECRET}\"\nheaders = {{ x-team-key = \"Bearer header-secret\", user-agent = \"public-words\" }}\n\
         [[models]]\nname = \"*\"\n"
    );
    let config = Desk::with(&text).load().unwrap().config;
    let secrets: Vec<_> = config.secrets().collect();
    assert_eq!(secrets, ["client-secret", SECRET, "header-secret"]);
}

#[test]
fn each_invalid_origin_is_reported_at_its_location() {
    let desk = Desk::with(&format!(
        "cors_origins = [\"https://ui.example/\", \"null\", \"http://localhost:3000\", \"ui.example\"]{GOOD}"
    ));
    let told = desk.told();
    let lines: Vec<_> = told.lines().collect();
    assert!(lines[0].starts_with("1:17: error: ") && lines[0].ends_with("`https://ui.example`"), "{told}");
    assert!(lines[1].starts_with("1:40: error: ") && lines[1].contains("`null`"), "{told}");
    assert!(lines[2].starts_with("1:73: error: expected an origin such as "), "{told}");
    assert_eq!(lines.len(), 3, "{told}");

    let shown = |origins: &str| {
        let desk = Desk::with(&format!("cors_origins = {origins}{GOOD}"));
        desk.load().unwrap().config.to_toml()["cors_origins"].to_string()
    };
    assert_eq!(shown(r#"["https://UI.example:443"]"#), r#"["https://ui.example"]"#);
    assert_eq!(shown(r#""*""#), r#"["*"]"#);
    assert_eq!(shown("[]"), "[]");
}

#[test]
fn tool_names_are_a_metric_label_only_if_enabled() {
    let shows = |text: &str| Desk::with(&format!("{GOOD}{text}")).load().unwrap().config.metrics.tool_names;
    assert!(!shows(""));
    assert!(shows("[metrics]\ntool_names = true\n"));
    let told = Desk::with(&format!("{GOOD}[metrics]\ntool_name = true\n")).told();
    assert!(told.contains("unknown key `tool_name`; did you mean `tool_names`?"), "{told}");
}

#[test]
fn mistake_in_a_chat_template_names_its_file_and_line() {
    let text = |more: &str| {
        format!(
            "[[upstreams]]\nname = \"up\"\ndialect = \"completions\"\nbase_url = \"http://h\"\n\
             [[models]]\nname = \"m\"\n{more}"
        )
    };
    let desk = Desk::with(&text("chat_template = \"file:model.jinja\"\n"));
    assert!(desk.told().contains("7:17: error: cannot read "), "{}", desk.told());
    let template = desk.0.path().join("model.jinja");
    fs::write(&template, "a\n{% if x %}\n{{ y | }}\n").unwrap();
    let told = desk.told();
    assert!(
        told.contains("7:17: error: the chat template in") && told.contains("model.jinja, line 3: "),
        "{told}"
    );
    fs::write(&template, "{{ messages }}").unwrap();
    assert_eq!(desk.told(), "");
    let model = desk.load().unwrap().config.models.remove(0);
    assert_eq!(model.chat_template.unwrap().origin(), "model.jinja");
    assert!(Desk::with(&text("")).told().contains("without a `chat_template` the prompt is"));
    assert!(Desk::with(&text("chat_template = \"x\"")).told().contains("expected \"file:PATH\""));
}

#[test]
fn instructions_from_a_template_need_one_that_describes_tools() {
    let text = "[[upstreams]]\nname = \"up\"\ndialect = \"chat\"\nbase_url = \"http://h\"\n[[models]]\n\
                name = \"m\"\ntools = \"hermes\"\ninstructions = \"template\"\n";
    assert!(Desk::with(text).told().contains("needs a `chat_template`"));
    let desk = Desk::with(&format!("{text}chat_template = \"file:m.jinja\"\n"));
    let template = desk.0.path().join("m.jinja");
    fs::write(&template, "{{ tools }}{% for m in messages %}<m>{{ m.content }}</m>{% endfor %}").unwrap();
    assert!(desk.told().contains("does not describe tools within the system message"), "{}", desk.told());
    fs::write(
        &template,
        "{% for m in messages %}<m>{{ m.content }}{{ tools if loop.first else '' }}</m>{% endfor %}",
    )
    .unwrap();
    // Without tools, this template prints `none`.
    assert!(desk.told().contains("error"), "{}", desk.told());
    fs::write(&template, "{% for m in messages %}<m>{{ m.content }}{{ tools if loop.first and tools else '' }}</m>{% endfor %}")
        .unwrap();
    assert_eq!(desk.told(), "");
}

#[test]
fn model_that_describes_images_must_be_one_of_the_models() {
    let named = GOOD.replace("\"*\"", "\"other\"");
    let vision = |name: &str| format!("{named}[[models]]\nname = \"blind\"\nvision = \"{name}\"\n");
    let said = Desk::with(&vision("blindd")).told();
    assert!(said.contains("error: no model `blindd`; did you mean `blind`?"), "{said}");
    let config = Desk::with(&vision("blind")).load().unwrap().config;
    assert_eq!(config.model("blind").unwrap().vision.as_deref(), Some("blind"));
}

const ALTERNATIVES: &str = r#"
[[upstreams]]
name = "a"
dialect = "chat"
base_url = "https://a.example/v1"

[[upstreams]]
name = "b"
dialect = "messages"
base_url = "https://b.example/v1"

[[models]]
name = "both"
targets = { two = 3, one = 1 }
fallback = ["one"]
retries = 2

[[models]]
name = "one"
upstream = "a"
tools = "hermes"

[[models]]
name = "two"
upstream = "b"
upstream_name = "theirs"

[failover]
eject_for = "20s"
"#;

#[test]
fn an_entry_with_targets_is_its_first_one_under_another_name() {
    let config = Desk::with(ALTERNATIVES).load().unwrap().config;
    let both = config.model("both").unwrap();
    assert_eq!((both.upstream.name.as_str(), both.upstream_name("both")), ("b", "theirs"));
    let alternatives = both.alternatives.as_deref().unwrap();
    let targets: Vec<_> =
        alternatives.targets.all.iter().map(|target| (&*target.model, target.weight)).collect();
    assert_eq!((targets, alternatives.targets.are_weighted), (vec![("two", 3), ("one", 1)], true));
    assert_eq!((alternatives.fallback.as_slice(), alternatives.retries), (&["one".to_owned()][..], 2));
    assert!(config.model("one").unwrap().alternatives.is_none());
    assert_eq!(config.failover.eject_for, Duration::from_secs(20));
    // The printed values parse back to the same values.
    let shown = toml::to_string(&config.to_toml()).unwrap();
    let again = Desk::with(&shown).load().unwrap().config;
    assert_eq!(again.model("both").unwrap().alternatives, both.alternatives);
    assert_eq!(toml::to_string(&again.to_toml()).unwrap(), shown);
}

#[test]
fn alternatives_that_lead_nowhere_are_reported() {
    let reported = |entries: &str| {
        let upstream =
            "[[upstreams]]\nname = \"a\"\ndialect = \"chat\"\nbase_url = \"https://a.example/v1\"\n";
        let models = "[[models]]\nname = \"one\"\n[[models]]\nname = \"*\"\n";
        Desk::with(&format!("{upstream}{models}[[models]]\nname = \"m\"\n{entries}")).told()
    };
    let cases = [
        ("targets = [\"oen\"]", "11:12: error: no model `oen`; did you mean `one`?"),
        ("targets = [\"*\"]", "11:12: error: `\"*\"` is not a model; name an entry"),
        ("targets = [\"m\"]", "11:12: error: the model `m` has targets itself"),
        ("targets = [\"one\", \"one\"]", "11:19: error: `one` is listed twice"),
        ("targets = []", "11:11: error: no target: which models may answer?"),
        ("targets = \"one\"", "11:11: error: expected names in an array, or a table of names and weights"),
        ("targets = { one = 0 }", "11:19: error: expected"),
        ("targets = { oen = 1 }", "11:13: error: no model `oen`"),
        ("targets = [\"one\"]\ntools = \"native\"", "12:1: error: unknown key `tools`"),
        ("fallback = [\"oen\"]", "11:13: error: no model `oen`"),
        ("retries = 11", "11:11: error: expected"),
    ];
    for (entries, expected) in cases {
        let told = reported(entries);
        assert!(told.contains(expected), "{entries}: {told}");
    }
    assert_eq!(reported("fallback = [\"one\"]\nretries = 10"), "");
}

const BEDROCK: &str = r#"
[[upstreams]]
name = "b"
dialect = "bedrock"
base_url = "https://bedrock-runtime.eu-west-1.amazonaws.com"

[[models]]
name = "m"
upstream = "b"
"#;

#[test]
fn dialect_of_a_feature_is_refused_without_it() {
    let told = Desk::with(BEDROCK).told();
    assert_eq!(told.contains("build it with `--features bedrock`"), !cfg!(feature = "bedrock"), "{told}");
}

#[cfg(feature = "bedrock")]
#[test]
fn signing_needs_credentials_and_a_region() {
    let with = |host: &str, settings: &str, variables: &[(&str, &str)]| {
        let text = BEDROCK.replace("bedrock-runtime.eu-west-1.amazonaws.com", host);
        let desk =
            Desk::with(&text.replace("[[models]]", &format!("[upstreams.bedrock]\n{settings}\n[[models]]")));
        let environment = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        load(&Overrides { file: Some(desk.file()), ..Overrides::default() }, &environment)
            .map(|loaded| {
                let upstream = loaded.config.upstreams.into_iter().next().unwrap();
                upstream.options.side().signing().map(|signing| signing.region.clone())
            })
            .map_err(|problems| problems.to_string())
    };
    let keys = [("AWS_ACCESS_KEY_ID", "AKID"), ("AWS_SECRET_ACCESS_KEY", "secret")];
    let amazon = "bedrock-runtime.eu-west-1.amazonaws.com";
    let fips = "bedrock-runtime-fips.us-gov-west-1.amazonaws.com";
    assert_eq!(with(amazon, "", &keys), Ok(None));
    assert_eq!(with(amazon, "sign = true", &keys), Ok(Some("eu-west-1".into())));
    assert_eq!(with(fips, "sign = true", &keys), Ok(Some("us-gov-west-1".into())));
    assert_eq!(with(amazon, "sign = true\nregion = \"us-east-1\"", &keys), Ok(Some("us-east-1".into())));
    let region = [&keys[..], &[("AWS_REGION", "us-west-2")]].concat();
    assert_eq!(with("proxy.example", "sign = true", &region), Ok(Some("us-west-2".into())));
    assert!(with("proxy.example", "sign = true", &keys).unwrap_err().contains("AWS_REGION"));
    assert!(with(amazon, "sign = true", &keys[1..]).unwrap_err().contains("AWS_ACCESS_KEY_ID"));
}
