//! Tests how `check` and `serve` read settings saved through the admin API, and how they check providers and tools.

use std::{fs, path::PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Server, run, toolwire};

/// A configuration with hosted tools and the admin API, and a state folder beside it.
struct Desk(TempDir);

impl Desk {
    fn new(stage: &str) -> Self {
        let desk = Self(TempDir::new().unwrap());
        let state = desk.state().display().to_string();
        let text = format!(
            "listen = \"127.0.0.1:0\"\nstate_dir = {state:?}\n[[upstreams]]\nname = \"up\"\ndialect = \"chat\"\n\
             base_url = \"http://127.0.0.1:1/v1\"\n[[models]]\nname = \"m\"\n[admin]\n[execution]\nmax_calls = 7\n{stage}"
        );
        fs::write(desk.0.path().join("toolwire.toml"), text).unwrap();
        desk
    }

    fn state(&self) -> PathBuf {
        self.0.path().join("state")
    }

    fn with_saved(self, text: &str) -> Self {
        fs::create_dir_all(self.state()).unwrap();
        fs::write(self.state().join("settings.json"), text).unwrap();
        self
    }

    fn check(&self) -> (i32, Value) {
        let file = self.0.path().join("toolwire.toml");
        let (status, stdout, stderr) = run(toolwire(&["check", "--json", "--config"]).arg(file));
        (status, serde_json::from_str(&stdout).unwrap_or(Value::String(stderr)))
    }

    /// Returns the problems that `check` finds, each with its severity, its line or setting, and its message.
    fn problems(&self) -> (i32, String) {
        let (status, report) = self.check();
        let problems = report["problems"].as_array().unwrap().iter().map(|problem| {
            let place = if problem["line"].is_null() { &problem["setting"] } else { &problem["line"] };
            format!("{} {place}: {}\n", problem["severity"].as_str().unwrap(), problem["message"])
        });
        (status, problems.collect())
    }
}

const SERPER: &str =
    "[[providers]]\nname = \"serper\"\nkind = \"serper\"\napi_key = \"env:SERPER\"\nmax_results = 4\n";

#[test]
fn check_shows_what_was_saved() {
    let desk = Desk::new("").with_saved(r#"{"execution.max_calls": 3}"#);
    let (status, report) = desk.check();
    assert_eq!((status, &report["config"]["execution"]["max_calls"]), (0, &json!(3)), "{report}");
    assert_eq!(report["saved"], json!({"execution.max_calls": desk.state().join("settings.json")}));

    let file = desk.0.path().join("toolwire.toml");
    let (status, stdout, _) = run(toolwire(&["check", "--config"]).arg(file));
    assert_eq!(status, 0);
    let comment = stdout.lines().find(|line| line.starts_with('#')).unwrap();
    assert!(comment.contains("execution.max_calls") && comment.contains("settings.json"), "{comment}");
    assert!(stdout.parse::<toml::Table>().is_ok());
    assert_eq!(Desk::new("").check().1.get("saved"), None);
}

#[test]
fn wrong_saved_setting_is_reported_with_its_path() {
    let desk = Desk::new("").with_saved(r#"{"execution.max_calls": 0}"#);
    let (status, problems) = desk.problems();
    assert_eq!(status, 2);
    assert!(problems.starts_with("error \"execution.max_calls\": "), "{problems}");
    let file = desk.0.path().join("toolwire.toml");
    let (status, _, stderr) = run(toolwire(&["serve", "--config"]).arg(file));
    assert_eq!(status, 2);
    assert!(stderr.contains("settings.json: execution.max_calls: error: "), "{stderr}");

    for (saved, word) in [
        (r#"{"providers.gone.timeout": "5s"}"#, "has no `[[providers]]`"),
        (r#"{"listen": "0.0.0.0:1"}"#, "only be set in the configuration file"),
        (r#"{"a b": 1}"#, "not the path of a setting"),
        (r#"{"execution.max_calls": null}"#, "cannot have the value `null`"),
    ] {
        let (status, problems) = Desk::new("").with_saved(saved).problems();
        assert_eq!(status, 0, "{saved}: {problems}");
        assert!(problems.starts_with("warning ") && problems.contains(word), "{saved}: {problems}");
    }
}

#[test]
fn broken_file_of_saved_settings_is_an_error_that_names_it() {
    for (text, word) in [
        ("", "ends too early"),
        (r#"{"execution.max_calls": 3"#, "ends too early"),
        ("[]", "not an object"),
        ("\u{0}\u{1}", "not JSON"),
        (r#"{"a": "sk-secret-of-a-provider" "b"}"#, "not JSON"),
    ] {
        let (status, report) = Desk::new("").with_saved(text).check();
        assert_eq!(status, 2, "{text}");
        let problem = &report["problems"][0];
        assert!(problem["file"].as_str().unwrap().ends_with("settings.json"), "{problem}");
        assert!(problem["message"].as_str().unwrap().contains(word), "{problem}");
        assert!(!report.to_string().contains("sk-secret"));
    }
    let large = format!("{{\"a\": \"{}\"}}", "x".repeat(3 << 20));
    for (desk, word) in [
        (Desk::new("").with_saved(&large), "larger than"),
        (
            {
                let desk = Desk::new("");
                fs::create_dir_all(desk.state().join("settings.json")).unwrap();
                desk
            },
            "not a regular file",
        ),
        (
            {
                let desk = Desk::new("");
                fs::create_dir_all(desk.state()).unwrap();
                std::os::unix::fs::symlink("/etc/hostname", desk.state().join("settings.json")).unwrap();
                desk
            },
            "not a regular file",
        ),
    ] {
        let (status, problems) = desk.problems();
        assert_eq!(status, 2);
        assert!(problems.contains("settings.json") && problems.contains(word), "{problems}");
    }
}

#[test]
fn without_the_admin_api_nothing_saved_is_read() {
    let desk = Desk::new("").with_saved("broken");
    let file = desk.0.path().join("toolwire.toml");
    let text = fs::read_to_string(&file).unwrap().replace("[admin]\n", "");
    fs::write(&file, text).unwrap();
    assert_eq!(desk.problems(), (0, String::new()));
}

#[test]
fn faults_in_the_settings_of_providers_are_errors_at_their_place() {
    for (provider, line, word) in [
        ("kind = \"command\"", 12, "`command` is missing"),
        ("kind = \"command\"\ncommand = []", 15, "`command` is missing"),
        ("kind = \"command\"\ncommand = [\"a\", \"{x}\"]", 15, "no property `x`"),
        ("kind = \"mcp\"", 12, "`command` or `url` is missing"),
        ("kind = \"mcp\"\ncommand = [\"a\"]\nurl = \"http://h/\"", 16, "not both"),
        ("kind = \"search\"", 12, "`model` is missing"),
        ("kind = \"search\"\nmodel = \"mm\"", 15, "no model `mm`"),
        ("kind = \"images\"\nengine = \"openai\"", 12, "`model` is missing"),
        ("kind = \"http\"", 12, "`keys` is missing"),
        ("kind = \"serper\"\nextra_tools = [\"video_search\"]", 15, "unknown tool: `video_search`"),
        ("kind = \"serper\"\ndenied_domains = [\"a b\"]", 15, "is not a domain"),
    ] {
        let (status, problems) = Desk::new(&format!("[[providers]]\nname = \"p\"\n{provider}\n")).problems();
        assert_eq!(status, 2, "{provider}: {problems}");
        assert!(problems.contains(word), "{provider}: {problems}");
        assert_eq!(problems.lines().count(), 1, "{provider}: {problems}");
        assert!(problems.starts_with(&format!("error {line}: ")), "{provider}: {problems}");
    }
    // A wrong type is reported only once.
    let (_, problems) =
        Desk::new("[[providers]]\nname = \"p\"\nkind = \"command\"\ncommand = 5\n").problems();
    assert_eq!(problems.lines().count(), 1, "{problems}");
}

#[test]
fn rules_for_tools_that_no_provider_offers_are_warned_about() {
    let warned = |providers: &str, tool: &str| {
        let stage = format!("{providers}[[tools]]\nname = \"{tool}\"\n");
        let (status, problems) = Desk::new(&stage).problems();
        assert_eq!(status, 0, "{problems}");
        problems.contains(&format!("no provider offers a tool `{tool}`"))
    };
    let serper = SERPER.replace("\"env:SERPER\"", "\"k\"");
    for (tool, is_warned) in [
        ("web_search", false),
        ("Web_Search", false),
        ("scrape", false),
        ("web*", false),
        ("*", false),
        ("scrap", true),
        ("news_search", true),
        ("x*", true),
    ] {
        assert_eq!(warned(&serper, tool), is_warned, "{tool}");
    }
    let denied = format!("{serper}deny = [\"scrape\"]\n");
    assert!(warned(&denied, "scrape"));
    let mcp = "[[providers]]\nname = \"files\"\nkind = \"mcp\"\ncommand = [\"x\"]\n";
    for (tool, is_warned) in [("files__read", false), ("files*", false), ("read", true)] {
        assert_eq!(warned(mcp, tool), is_warned, "{tool}");
    }
    let registered = "[[providers]]\nname = \"p\"\nkind = \"http\"\nkeys = [\"k\"]\n";
    assert!(!warned(registered, "whatever"), "a program may register it");
    assert!(warned("", "web_search"));
}

#[test]
fn serve_names_the_hosted_tools_and_prints_no_code_into_a_pipe() {
    let desk = Desk::new("[[providers]]\nname = \"calc\"\nkind = \"command\"\ncommand = [\"cat\"]\n");
    let file = desk.0.path().join("toolwire.toml");
    let text = fs::read_to_string(&file).unwrap().replace("[admin]\n", "[admin]\napi_keys = [\"k\"]\n");
    fs::write(&file, text).unwrap();
    for format in ["text", "json"] {
        let server = Server::start(toolwire(&["--log-format", format, "serve", "--config"]).arg(&file));
        let start = server.start.clone();
        let (_, rest) = server.stop();
        let said = start + &rest;
        assert!(said.contains("hosted") && said.contains("calc"), "{said}");
        assert!(!said.contains("code="), "{said}");
    }
}
