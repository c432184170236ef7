//! Tests exit statuses, and which output goes to stdout and which to stderr.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::Command,
};

use tempfile::TempDir;

use crate::support::{Server, run, toolwire};

const SECRET: &str = "sk-77aa-very-secret";

pub(crate) fn desk(text: &str) -> (TempDir, PathBuf) {
    let desk = TempDir::new().unwrap();
    let file = desk.path().join("toolwire.toml");
    fs::write(&file, text).unwrap();
    (desk, file)
}

pub(crate) fn good() -> String {
    format!(
        r#"
listen = "127.0.0.1:7001"
[[upstreams]]
name = "a"
dialect = "chat"
base_url = "https://a.example/v1"
api_key = "{SECRET}"
[[models]]
name = "m"
"#
    )
}

#[test]
fn invalid_command_line_exits_with_status_2() {
    for wrong in [
        &[][..],
        &["serf"],
        &["check", "--confg", "x"],
        &["formats", "--json", "more"],
        &["check", "--dialect", "chat"],
        &["--log-level", "=,=", "formats"],
        &["--log-format", "xml", "formats"],
    ] {
        let (status, stdout, stderr) = run(&mut toolwire(wrong));
        assert_eq!((status, stdout.as_str()), (2, ""), "{wrong:?}: {stderr}");
        assert!(!stderr.is_empty(), "{wrong:?}");
    }
}

#[test]
fn help_and_version_go_to_stdout() {
    let (status, stdout, stderr) = run(&mut toolwire(&["--version"]));
    assert_eq!((status, stderr.as_str()), (0, ""));
    assert_eq!(stdout, format!("toolwire {}\n", env!("CARGO_PKG_VERSION")));
    let (status, stdout, _) = run(&mut toolwire(&["--help"]));
    assert_eq!(status, 0);
    for command in ["serve", "demo", "rewrite", "replay", "record", "mock", "bench", "check", "formats"] {
        assert!(stdout.contains(&format!("\n  {command} ")), "{command} in {stdout}");
    }
}

#[test]
fn check_prints_the_resolved_configuration_without_secrets() {
    let (_desk, file) = desk(&good());
    let (status, stdout, stderr) = run(toolwire(&["check", "--config"]).arg(&file));
    assert_eq!(status, 0, "{stderr}");
    let shown: toml::Table = toml::from_str(&stdout).unwrap();
    assert_eq!(shown["upstreams"][0]["api_key"].as_str(), Some("********"));
    assert_eq!(shown["upstreams"][0]["header_timeout"].as_str(), Some("90s"));
    assert!(stderr.starts_with(&format!("{}:7:11: warning: ", file.display())), "{stderr}");

    let (status, json, _) = run(toolwire(&["check", "--json", "--config"]).arg(&file));
    let told: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((status, &told["ok"], &told["config"]["models"][0]["name"]), (0, &true.into(), &"m".into()));
    assert_eq!(told["problems"][0]["severity"], "warning");
    for shown in [stdout, stderr, json] {
        assert!(!shown.contains(SECRET), "{shown}");
    }
}

#[test]
fn check_reports_all_errors_and_exits_with_status_2() {
    let (_desk, file) = desk(&good().replace("base_url", "bas_url").replace("listen", "lisen"));
    let (status, stdout, stderr) = run(toolwire(&["check", "--config"]).arg(&file));
    assert_eq!((status, stdout.as_str()), (2, ""));
    let lines: Vec<_> = stderr.lines().collect();
    let at = |place: &str, what: &str| format!("{}:{place}: error: {what}", file.display());
    let nearest = "did you mean `listen`? also known: `admin`, `hosts`; `toolwire check --keys` lists all";
    assert_eq!(lines[0], at("2:1", &format!("unknown key `lisen`; {nearest}")));
    assert_eq!(lines[1], at("3:1", "missing key `base_url`"));
    assert!(lines[2].starts_with(&at("6:1", "unknown key `bas_url`; did you mean `base_url`?")), "{stderr}");
    assert!(lines.last().unwrap().starts_with("  tip: "), "{stderr}");

    let (status, stdout, _) = run(toolwire(&["check", "--json", "--config"]).arg(&file));
    let told: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((status, &told["ok"]), (2, &false.into()));
    assert_eq!((&told["problems"][2]["line"], &told["problems"][2]["column"]), (&6.into(), &1.into()));
    assert_eq!(told["problems"][2]["file"], file.to_str().unwrap());
}

#[test]
fn serving_commands_reject_an_invalid_configuration() {
    let (_desk, file) = desk("listen = 3");
    let (status, stdout, stderr) = run(toolwire(&["serve", "--config"]).arg(&file));
    assert_eq!((status, stdout.as_str()), (2, ""));
    assert!(stderr.contains(":1:10: error: expected a string, found an integer"), "{stderr}");
    let (status, _, stderr) = run(&mut toolwire(&["serve"]));
    assert!(status == 2 && stderr.contains("nothing to serve"), "{stderr}");
}

#[test]
fn flags_beat_the_environment_beats_the_file() {
    let (_desk, file) = desk(&good());
    let listens = |command: &mut Command| {
        let (status, stdout, stderr) = run(command);
        assert_eq!(status, 0, "{stderr}");
        toml::from_str::<toml::Table>(&stdout).unwrap()["listen"].to_string()
    };
    let by_environment = |arguments: &[&str]| {
        let mut command = toolwire(arguments);
        command.env("TOOLWIRE_CONFIG", &file);
        command
    };
    let one = |port: u16| format!("[\"127.0.0.1:{port}\"]");
    assert_eq!(listens(&mut by_environment(&["check"])), one(7001));
    assert_eq!(listens(by_environment(&["check"]).env("TOOLWIRE_LISTEN", "")), one(7001));
    assert_eq!(listens(by_environment(&["check"]).env("TOOLWIRE_LISTEN", "127.0.0.1:7002")), one(7002));
    let flag = ["check", "--listen", "127.0.0.1:7003"];
    assert_eq!(listens(by_environment(&flag).env("TOOLWIRE_LISTEN", "127.0.0.1:7002")), one(7003));
    let two = listens(by_environment(&["check"]).env("TOOLWIRE_LISTEN", "127.0.0.1:1,[::1]:2"));
    assert_eq!(two, "[\"127.0.0.1:1\", \"[::1]:2\"]");
}

#[test]
fn empty_environment_variable_counts_as_unset() {
    let names = ["CONFIG", "LISTEN", "CLIENT_KEY", "UPSTREAM", "DIALECT", "UPSTREAM_KEY", "TOOLS", "DETECT"];
    let (_desk, file) = desk(&good());
    let mut command = toolwire(&["check"]);
    for name in names.iter().chain(&["LOG", "LOG_FORMAT"]) {
        command.env(format!("TOOLWIRE_{name}"), "");
    }
    let (status, _, stderr) = run(&mut command);
    assert!(status == 2 && stderr.contains("nothing to serve"), "{stderr}");
    let (status, _, stderr) = run(command.arg("--config").arg(&file));
    assert_eq!(status, 0, "{stderr}");
}

#[test]
fn one_upstream_from_flags_needs_no_configuration_file() {
    let flags =
        ["check", "--json", "--upstream", "https://u.example/v1", "--dialect", "chat", "--tools", "pre"];
    let (status, stdout, stderr) = run(toolwire(&flags).env("TOOLWIRE_UPSTREAM_KEY", SECRET));
    assert_eq!((status, stderr.as_str()), (0, ""));
    assert!(!stdout.contains(SECRET));
    let told: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    let config = &told["config"];
    assert_eq!(config["models"][0]["name"], "*");
    assert_eq!(config["models"][0]["tools"], "pre");
    assert_eq!(config["upstreams"][0]["base_url"], "https://u.example/v1");
    assert_eq!(config["upstreams"][0]["api_key"], "********");
}

#[test]
fn failure_is_one_line_with_a_hint() {
    let format = ["rewrite", "--from", "lumo", "--detect", "hermess", "x"];
    let tools = ["rewrite", "--from", "lumo", "--tools", "hermess", "x"];
    let mock = ["mock", "--generate", "--format", "hermess"];
    for (arguments, status, told) in [
        (&format[..], 2, "`hermess`; did you mean `hermes`?"),
        (&tools, 2, "`toolwire formats` lists all"),
        (&mock, 2, "`toolwire formats` lists all"),
        (&["serf"], 2, "'serve', "),
        (&["rewrite", "--from", "lumo", "no/such\u{1b}file"], 2, r"no/such\u{1b}file"),
        (&["replay", "no/such/fixture"], 2, "no/such/fixture"),
        (&["mock", "no/such/fixture"], 2, "no/such/fixture"),
        (&["formats", "--import", "no/such/file"], 2, "no/such/file"),
        (&["check", "--config", "no/such/file"], 2, "no/such/file"),
        (&["serve"], 2, "nothing to serve"),
        (&["bench", "--client", "mesages"], 2, "did you mean `messages`?"),
        (&["--log-level", "=,=", "formats"], 2, "--log-level"),
        (&["demo", "--once", "--listen", "192.0.2.1:0"], 1, "loopback"),
        (&["mock", "--generate", "--listen", "192.0.2.1:0"], 1, "192.0.2.1:0"),
    ] {
        let (code, stdout, stderr) = run(&mut toolwire(arguments));
        assert_eq!((code, stdout.as_str()), (status, ""), "{arguments:?}: {stderr}");
        assert!(stderr.starts_with("error: ") && !stderr.starts_with("error: error"), "{stderr}");
        assert!(stderr.contains(told), "{arguments:?}: {stderr}");
        assert!(stderr.contains("\n  tip: ") || stderr.contains("try '--help'"), "{arguments:?}: {stderr}");
    }
}

#[test]
fn global_options_are_listed_last_in_every_help() {
    for command in ["serve", "demo", "rewrite", "replay", "record", "mock", "bench", "check", "conform"] {
        let (status, stdout, _) = run(&mut toolwire(&[command, "-h"]));
        let (own, global) = stdout.split_once("\nGlobal options:\n").unwrap();
        assert_eq!(status, 0);
        for option in ["--log-format", "--log-level", "--help", "--version"] {
            assert!(global.contains(option) && !own.contains(option), "{command} {option}: {stdout}");
        }
        let is_heading = |line: &str| !line.starts_with(' ') && line.ends_with(':');
        assert!(!global.lines().any(is_heading), "{command}: another heading follows: {stdout}");
        assert_eq!(run(&mut toolwire(&[command, "--version"])).0, 0);
    }
}

#[test]
fn commands_for_builders_are_listed_below_the_everyday_ones() {
    let (_, stdout, _) = run(&mut toolwire(&["--help"]));
    let headings =
        ["Serve:", "Try:", "Measure:", "Install:", "For builders:", "Global options:", "Examples:"];
    let places: Vec<_> =
        headings.iter().map(|heading| stdout.find(&format!("\n{heading}\n")).unwrap()).collect();
    assert!(places.is_sorted(), "{stdout}");
    let (_, builders) = stdout.split_once("\nFor builders:\n").unwrap();
    for command in ["record", "replay", "rewrite", "mock", "conform"] {
        assert!(builders.contains(&format!("  {command} ")), "{command} in {stdout}");
    }
}

#[test]
fn commands_that_log_nothing_have_no_options_of_logs() {
    for command in [&["completions"][..], &["man"], &["keys"], &["keys", "add"], &["formats"], &["detect"]] {
        let (status, stdout, _) = run(toolwire(command).arg("--help"));
        assert!(status == 0 && !stdout.contains("--log-"), "{command:?}: {stdout}");
        assert!(stdout.contains("--help") && stdout.contains("--version"), "{command:?}: {stdout}");
    }
    // The options are still read.
    assert_eq!(run(&mut toolwire(&["formats", "--log-level", "debug"])).0, 0);
    assert_eq!(run(&mut toolwire(&["formats", "--log-level", "loud"])).0, 2);
}

#[test]
fn check_lists_every_key() {
    let (status, stdout, stderr) = run(&mut toolwire(&["check", "--keys"]));
    assert_eq!((status, stderr.as_str()), (0, ""));
    for part in ["\n  cors_origins\n", "\n[[upstreams]]\n", "\n[limits]\n", "\n  max_body\n"] {
        assert!(stdout.contains(part), "{part} in {stdout}");
    }
}

#[test]
fn api_key_on_the_command_line_is_warned_about() {
    let flags = ["check", "--upstream", "https://u.example/v1", "--dialect", "chat"];
    let told = |command: &mut Command| {
        let (status, _, stderr) = run(command);
        assert_eq!(status, 0, "{stderr}");
        stderr
    };
    for flag in ["--api-key", "--client-key"] {
        let stderr = told(toolwire(&flags).args([flag, SECRET]));
        assert!(stderr.starts_with(&format!("warning: {flag} (")) && stderr.contains("(`ps`)"), "{stderr}");
        assert!(!stderr.contains(SECRET), "{stderr}");
        let stderr = told(toolwire(&flags).args([flag, "env:THE_KEY"]).env("THE_KEY", SECRET));
        assert_eq!(stderr, "");
    }
    let by_environment = [("TOOLWIRE_UPSTREAM_KEY", SECRET), ("TOOLWIRE_CLIENT_KEY", SECRET)];
    assert_eq!(told(toolwire(&flags).envs(by_environment)), "");
}

#[test]
fn shutdown_is_logged_once_with_any_number_of_threads() {
    let (_desk, file) = desk(&format!("threads = 4\n{}", good().replace("7001", "0")));
    let mut server = Server::start(toolwire(&["serve", "--config"]).arg(&file));
    server.line();
    while !server.line().contains("curl") {}
    let (status, rest) = server.stop();
    assert_eq!((status, rest.matches("shutting down").count()), (Some(0), 1), "{rest}");
}

#[test]
fn help_does_not_show_secrets_from_the_environment() {
    let mut command = toolwire(&["serve", "--help"]);
    let (status, stdout, _) =
        run(command.env("TOOLWIRE_UPSTREAM_KEY", SECRET).env("TOOLWIRE_CLIENT_KEY", SECRET));
    assert_eq!(status, 0);
    assert!(stdout.contains("TOOLWIRE_UPSTREAM_KEY") && !stdout.contains(SECRET), "{stdout}");
}

#[test]
fn chat_template_is_imported_or_rejected_with_its_location() {
    let desk = tempfile::TempDir::new().unwrap();
    let file = desk.path().join("tokenizer_config.json");
    let import = |template: &str| {
        std::fs::write(&file, template).unwrap();
        run(toolwire(&["formats", "--name", "theirs", "--import"]).arg(&file))
    };
    let calls = r#"{"open": "<c>", "close": "</c>", "content": "json"}"#;
    let (status, text, _) =
        import(&format!(r#"{{"response_template": {{"fields": {{"tool_calls": {calls}}}}}}}"#));
    assert_eq!(status, 0);
    assert!(
        text.starts_with("[[formats]]\nname = \"theirs\"\n") && text.contains("open = \"<c>\"\n"),
        "{text}"
    );
    let (status, text, told) = import(&format!(r#"{{"fields": {{"tool_calls": {calls}, "plan": {{}}}}}}"#));
    assert_eq!((status, text.as_str()), (2, ""));
    assert!(told.contains("tokenizer_config.json: `fields.plan`: only `tool_calls`"), "{told}");
}

#[test]
fn formats_lists_every_format() {
    let (status, text, _) = run(&mut toolwire(&["formats"]));
    assert_eq!(status, 0);
    let (status, json, _) = run(&mut toolwire(&["formats", "--json"]));
    assert_eq!(status, 0);
    let told: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
    let names: Vec<_> = told.iter().map(|format| format["name"].as_str().unwrap()).collect();
    let known: Vec<_> = toolwire::format::ALL.iter().map(|format| format.name).collect();
    assert_eq!(names, known);
    for format in &told {
        assert!(text.lines().any(|line| line.starts_with(format["name"].as_str().unwrap())), "{text}");
        assert!(format["example"].is_string() && format["models"].is_array(), "{format}");
    }
}

#[test]
fn closed_stdout_is_not_an_error() {
    for arguments in [&["formats"][..], &["formats", "--json"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let (status, _, stderr) = run(toolwire(arguments).stdout(writer));
        assert_eq!((status, stderr.as_str()), (0, ""));
    }
}

const SERVE: [&str; 7] =
    ["serve", "--upstream", "http://127.0.0.1:9/v1", "--dialect", "chat", "--listen", "127.0.0.1:0"];

#[test]
fn serve_announces_its_address_and_stops_on_sigterm() {
    let mut server = Server::start(&mut toolwire(&SERVE));
    let address = server.address.clone();
    assert!(server.start.ends_with(&format!(" listens on http://{address}\n")), "{}", server.start);
    assert!(server.line().contains("every model name from upstream (chat, http://127.0.0.1:9/v1)"));
    assert!(server.line().contains(&format!("base URL http://{address}/v1 and any API key")));
    assert!(server.line().contains(&format!("curl -N http://{address}/v1/chat/completions")));

    let mut client = TcpStream::connect(&address).unwrap();
    client.write_all(b"GET /healthz HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");

    let (status, rest) = server.stop();
    assert_eq!(status, Some(0), "{rest}");
}

#[test]
fn json_log_format_makes_every_line_of_serve_json() {
    let server = Server::start(toolwire(&SERVE).args(["--log-format", "json"]));
    let first = server.start.clone();
    let (status, rest) = server.stop();
    assert_eq!(status, Some(0));
    let lines: Vec<serde_json::Value> =
        first.lines().chain(rest.lines()).map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["message"], "listening");
    assert_eq!(lines[0]["models"], serde_json::json!(["*"]));
    assert!(lines[0]["addresses"][0].as_str().unwrap().starts_with("127.0.0.1:"), "{first}");
    assert!(lines[0]["base_url"].as_str().unwrap().starts_with("http://127.0.0.1:"), "{first}");
}

#[test]
fn address_in_use_exits_with_status_1() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (_, flags) = SERVE.split_last().unwrap();
    let (status, stdout, stderr) = run(toolwire(flags).arg(&address));
    assert_eq!((status, stdout.as_str()), (1, ""));
    assert!(stderr.contains(&format!("cannot listen on {address}")), "{stderr}");
}
