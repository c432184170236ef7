//! End-to-end tests of `toolwire calibrate`: the built program queries scripted models.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;
use toolwire::{
    calibrate::{
        case::Case,
        judge::Verdict,
        report::{Report, VariantReport},
        set::CaseSet,
    },
    conversation::Call,
    format::{self, Format},
};

use crate::support::{run, toolwire};

/// What a scripted model does with a request.
enum Act {
    Text(String),
    Refuse(u16, &'static str),
    Silence,
}

struct Upstream {
    url: String,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Upstream {
    /// Starts the server. `model` receives the number of the request (from 0), its path and its body.
    fn start(model: impl Fn(usize, &str, &Value) -> Act + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (log, model) = (Arc::clone(&asked), Arc::new(model));
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let (log, model) = (Arc::clone(&log), Arc::clone(&model));
                thread::spawn(move || serve(socket, &log, model.as_ref()));
            }
        });
        Self { url, asked }
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    fn wait_for(&self, count: usize) {
        let mut patience = 3_000;
        while self.asked() < count {
            assert!(patience > 0, "only {} requests came", self.asked());
            patience -= 1;
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn serve(socket: TcpStream, log: &Mutex<Vec<Value>>, model: &dyn Fn(usize, &str, &Value) -> Act) {
    let mut reader = BufReader::new(socket.try_clone().unwrap());
    let mut socket = socket;
    loop {
        let (mut path, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if path.is_empty() {
                path = line.split(' ').nth(1).unwrap().to_owned();
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        if length == 0 {
            // The first segment of the path names the server that owns the model.
            let owner = path.split('/').nth(1).unwrap_or_default();
            let list = json!({ "object": "list", "data": [{ "id": "scripted", "owned_by": owner }] });
            let status = if path.ends_with("/models") { 200 } else { 404 };
            respond(&mut socket, status, "application/json", &list.to_string());
            continue;
        }
        let request: Value = serde_json::from_slice(&body).unwrap();
        let number = {
            let mut log = log.lock().unwrap();
            log.push(request.clone());
            log.len() - 1
        };
        match model(number, &path, &request) {
            Act::Text(text) => respond(&mut socket, 200, "text/event-stream", &stream(&text)),
            Act::Refuse(status, message) => {
                let error = json!({ "error": { "message": message, "type": "invalid_request_error" } });
                respond(&mut socket, status, "application/json", &error.to_string());
            }
            Act::Silence => thread::sleep(Duration::from_secs(600)),
        }
    }
}

fn respond(socket: &mut TcpStream, status: u16, kind: &str, body: &str) {
    let head =
        format!("HTTP/1.1 {status} x\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", body.len());
    // The client may have disconnected.
    let _ = socket.write_all(format!("{head}{body}").as_bytes());
}

fn stream(text: &str) -> String {
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        let chunk = json!({
            "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "scripted", "choices": [choice],
        });
        format!("data: {chunk}\n\n")
    };
    let (one, other) = text.split_at(text.floor_char_boundary(text.len() / 2));
    [
        chunk(json!({ "role": "assistant", "content": one }), Value::Null),
        chunk(json!({ "content": other }), Value::Null),
        chunk(json!({}), json!("stop")),
        "data: [DONE]\n\n".to_owned(),
    ]
    .concat()
}

fn last_text(request: &Value) -> &str {
    request["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap()
}

/// A temporary folder that holds the prompts file and the answers file.
struct Desk(TempDir);

/// Three prompts that call for a tool, and one that does not.
const PROMPTS: &str = r#"
[[prompts]]
name = "lisbon"
user = "CITY Lisbon"
calls = [{ name = "get_weather", arguments = { city = "Lisbon" } }]
[[prompts]]
name = "oslo"
user = "CITY Oslo"
calls = [{ name = "get_weather", arguments = { city = "Oslo" } }]
[[prompts]]
name = "required"
user = "CITY Rome"
tool_choice = "required"
calls = [{ name = "get_weather", arguments = { city = "Rome" } }]
[[prompts]]
name = "hello"
user = "Hello!"
"#;

/// The number of requests that one variant sends for [`PROMPTS`].
const REQUESTS: usize = 4;

impl Desk {
    fn new() -> Self {
        let desk = Self(TempDir::new().unwrap());
        fs::write(desk.path("prompts.toml"), PROMPTS).unwrap();
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Builds a `toolwire calibrate` command for these prompts. It tests one format unless `more` says otherwise.
    fn command(&self, upstream: &str, more: &[&str]) -> Command {
        let mut command = toolwire(&["calibrate", "--upstream", upstream, "--quiet", "--temperature=0.5"]);
        command.args(["--prompts", &self.file("prompts.toml"), "--cache", &self.file("answers.jsonl")]);
        if !more.iter().any(|flag| flag.starts_with("--format")) {
            command.arg("--format=hermes");
        }
        command.args(more);
        command
    }

    fn run(&self, upstream: &Upstream, more: &[&str]) -> (i32, String, String) {
        run(&mut self.command(&upstream.url, more))
    }

    fn report(&self, upstream: &Upstream, more: &[&str]) -> Report {
        let (status, stdout, stderr) = self.run(upstream, &[&["--json"][..], more].concat());
        assert_eq!(status, 0, "{stderr}");
        serde_json::from_str(&stdout).unwrap()
    }
}

fn count(variant: &VariantReport, verdict: Verdict) -> u64 {
    variant.verdicts.get(&verdict).copied().unwrap_or_default()
}

fn hermes_call(arguments: &Value) -> String {
    format!("<tool_call>\n{}\n</tool_call>", json!({ "name": "get_weather", "arguments": arguments }))
}

/// A model that calls a tool if the prompt names a city.
fn good(_: usize, _: &str, request: &Value) -> Act {
    let text = last_text(request);
    let city = text.strip_prefix("CITY ").and_then(|rest| rest.split_whitespace().next());
    Act::Text(city.map_or_else(|| "Hello to you.".to_owned(), |city| hermes_call(&json!({ "city": city }))))
}

#[test]
fn good_model_gets_a_configuration_that_check_accepts() {
    let (desk, upstream) = (Desk::new(), Upstream::start(good));
    let page = desk.file("page.html");
    let (status, stdout, stderr) = desk.run(&upstream, &["--format=hermes,bare", "--html", &page]);
    assert_eq!(status, 0, "{stderr}");
    assert!(stderr.contains("answers are kept in "), "{stderr}");
    assert!(stdout.contains("100 %") && stdout.contains("scripted at http://127.0.0.1"), "{stdout}");
    assert!(fs::read_to_string(page).unwrap().starts_with("<!doctype html>"));
    // Calls in the hermes format are detected no matter which format was taught, so both formats score the same.
    // `bare` is preferred because it needs fewer tokens.
    let (_, entry) = stdout.rsplit_once("\n[[upstreams]]").unwrap();
    let file = desk.path("toolwire.toml");
    fs::write(&file, format!("[[upstreams]]{entry}")).unwrap();
    let (status, shown, stderr) = run(toolwire(&["check", "--config"]).arg(&file));
    assert_eq!((status, stderr.as_str()), (0, ""), "{entry}");
    assert!(shown.contains("name = \"scripted\"") && shown.contains("tools = \"bare\""), "{shown}");
}

#[test]
fn report_counts_calls_by_kind_of_prompt() {
    let (desk, upstream) = (Desk::new(), Upstream::start(good));
    let report = desk.report(&upstream, &["--runs=2", "--seed=7"]);
    let hermes = &report.variants[0];
    assert_eq!((report.model.as_str(), report.prompts, report.runs, report.answers), ("scripted", 4, 2, 8));
    assert_eq!((hermes.proper.count, hermes.proper.of), (6, 6));
    assert_eq!((hermes.proper_required.of, hermes.proper_with_history.of), (2, 0));
    assert_eq!((hermes.false_calls.count, hermes.false_calls.of), (0, 2));
    assert_eq!(count(hermes, Verdict::Answered), 2);
    assert!(hermes.tool_tokens > 50.0 && hermes.call_ms.is_some() && hermes.score > 0.0);
    assert!(report.entry.unwrap().contains("tools = \"hermes\""));
    let asked = upstream.asked.lock().unwrap();
    assert_eq!((&asked[0]["seed"], &asked[4]["seed"]), (&json!(7), &json!(8)));
    assert_eq!((&asked[0]["model"], &asked[0]["max_tokens"]), (&json!("scripted"), &json!(200)));
    assert!(
        asked.iter().all(|request| request["temperature"] == json!(0.5) && request["stream"] == json!(true))
    );
}

#[test]
fn bad_models_are_told_apart() {
    let text = |text: &'static str| move |_: usize, _: &str, _: &Value| Act::Text(text.to_owned());
    let call = |arguments: Value| move |_: usize, _: &str, _: &Value| Act::Text(hermes_call(&arguments));
    let verdict = |upstream: Upstream| {
        let report = Desk::new().report(&upstream, &[]);
        let variant = report.variants[0].clone();
        assert!(report.entry.is_none() || variant.proper.count > 0);
        variant
    };
    let imitating = verdict(Upstream::start(text(
        "<tool_response>\n{\"name\":\"get_weather\",\"content\":\"sunny\"}\n</tool_response>",
    )));
    assert_eq!((count(&imitating, Verdict::Imitation), imitating.imitations.count), (4, 4));
    let placeholder = verdict(Upstream::start(call(json!({ "city": "value" }))));
    assert_eq!((count(&placeholder, Verdict::Imitation), count(&placeholder, Verdict::FalseCall)), (3, 1));
    let ignoring = verdict(Upstream::start(text("I am not sure.")));
    assert_eq!((count(&ignoring, Verdict::NoCall), count(&ignoring, Verdict::Answered)), (3, 1));
    let eager = verdict(Upstream::start(call(json!({ "city": "Lisbon" }))));
    assert_eq!((count(&eager, Verdict::Proper), count(&eager, Verdict::WrongArguments)), (1, 2));
    assert_eq!((eager.false_calls.count, eager.false_calls.of), (1, 1));
    let untyped = verdict(Upstream::start(call(json!({ "town": "Lisbon" }))));
    assert_eq!(count(&untyped, Verdict::SchemaError), 3);
    let leaking = verdict(Upstream::start(text("Action: get_weather with Lisbon")));
    assert_eq!((count(&leaking, Verdict::Leak), leaking.leaks.count), (4, 4));
    assert_eq!(leaking.examples[0].verdict, Verdict::Leak);
}

/// In every format, a model that writes exactly the wanted calls gets full marks on every built-in prompt.
#[test]
fn model_that_does_as_wanted_is_judged_proper_in_all_formats() {
    let cases = CaseSet::built_in().unwrap().cases;
    let known = cases.clone();
    let upstream = Upstream::start(move |_, path, request| {
        let format = path.split('/').nth(1).and_then(format::by_name).unwrap();
        Act::Text(perfect(format, &known, request))
    });
    let desk = TempDir::new().unwrap();
    let formats: Vec<_> = ["hermes", "fenced", "pre", "qwen3_coder", "pythonic", "react", "toolify"].to_vec();
    let mut wrong = Vec::new();
    for format in formats {
        let url = upstream.url.replace("/v1", &format!("/{format}/v1"));
        let cache = desk.path().join(format).display().to_string();
        let mut command = toolwire(&["calibrate", "--json", "-q", "--upstream", &url, "--format", format]);
        let (status, stdout, stderr) = run(command.args(["--cache", &cache, "--enforce=off"]));
        assert_eq!(status, 0, "{stderr}");
        let report: Report = serde_json::from_str(&stdout).unwrap();
        let variant = &report.variants[0];
        assert_eq!(variant.answers, 60);
        let examples = variant.examples.iter();
        wrong.extend(
            examples.map(|it| format!("{format}: {}: {}: {} {:?}", it.prompt, it.verdict, it.why, it.calls)),
        );
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// The output of a perfect model: the wanted calls, or a plain sentence if no call is wanted.
fn perfect(format: &Format, cases: &[Case], request: &Value) -> String {
    // Finds the case by the texts that its prompt contains; the surrounding text differs between formats.
    let texts: Vec<_> = request["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|message| message["content"].as_str())
        .collect();
    let users = |case: &Case| {
        let users = case.messages.iter().filter(|message| message["role"] == "user");
        users.map(|message| message["content"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let is_asked = |case: &&Case| users(case).iter().all(|said| texts.iter().any(|text| text.contains(said)));
    let case = cases.iter().filter(is_asked).max_by_key(|case| case.said().len()).unwrap();
    if !case.wants_call() {
        return "That is all.".to_owned();
    }
    let calls = case.calls.iter().take(1).map(|wanted| {
        let members = wanted.arguments.iter().map(|(key, value)| {
            let listed = value.get("exact").or_else(|| value.get("any")).and_then(|values| values.get(0));
            (key.clone(), listed.unwrap_or(value).clone())
        });
        let arguments = Value::Object(members.collect()).to_string();
        Call::new("call_1", wanted.name.clone(), arguments)
    });
    format.teach.unwrap().form.calls(&calls.collect::<Vec<_>>())
}

#[test]
fn killed_run_is_resumed_by_the_same_command() {
    let desk = Desk::new();
    let upstream = Upstream::start(
        |number, path, request| {
            if number == 2 { Act::Silence } else { good(number, path, request) }
        },
    );
    let mut child = Running::start(desk.command(&upstream.url, &[]));
    upstream.wait_for(3);
    child.0.kill().unwrap();
    child.0.wait().unwrap();
    // A killed run may also leave a truncated last line.
    let answers = desk.path("answers.jsonl");
    let kept = fs::read(&answers).unwrap();
    assert_eq!(kept.iter().filter(|byte| **byte == b'\n').count(), 2);
    fs::write(&answers, [&kept[..], br#"{"key":"torn"#].concat()).unwrap();
    let report = desk.report(&upstream, &[]);
    assert_eq!((report.answers, report.cached, report.stopped), (REQUESTS, 2, None));
    assert_eq!(upstream.asked(), 3 + 2, "what was answered is not asked again");
    assert_eq!(desk.report(&upstream, &[]).cached, REQUESTS);
    assert_eq!(upstream.asked(), 5);
    // Changed settings make a different request, so the cached answers do not apply.
    assert_eq!(desk.report(&upstream, &["--max-tokens=50"]).cached, 0);
}

#[test]
fn signal_ends_the_run_after_the_open_request() {
    let desk = Desk::new();
    let (release, gate) = std::sync::mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let upstream = Upstream::start(move |number, path, request| {
        if number == 1 {
            gate.lock().unwrap().recv().unwrap();
        }
        good(number, path, request)
    });
    let mut child = Running::start(desk.command(&upstream.url, &[]));
    upstream.wait_for(2);
    let pid = child.0.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    // Gives the signal time to arrive before the response.
    thread::sleep(Duration::from_millis(300));
    release.send(()).unwrap();
    let (status, stdout, stderr) = child.end();
    assert_eq!(status, 1, "{stderr}");
    assert!(stderr.contains("2 of 4 requests were not asked"), "{stderr}");
    assert!(stderr.contains("the same command resumes"), "{stderr}");
    assert!(stdout.contains("2 answers, 0 of them"), "{stdout}");
    assert_eq!(upstream.asked(), 2);
}

struct Running(Child);

impl Running {
    fn start(mut command: Command) -> Self {
        Self(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    fn end(&mut self) -> (i32, String, String) {
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.0.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        self.0.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        (self.0.wait().unwrap().code().unwrap(), stdout, stderr)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn refused_key_or_model_is_reported_after_one_request() {
    for (status, message) in [(401, "no such key"), (404, "no such model"), (403, "not for you")] {
        let upstream = Upstream::start(move |_, _, _| Act::Refuse(status, message));
        let (exit, stdout, stderr) = Desk::new().run(&upstream, &["--format=hermes,bare"]);
        assert_eq!((exit, stdout.as_str(), upstream.asked()), (1, "", 1), "{stderr}");
        assert!(stderr.contains(message), "{stderr}");
    }
}

#[test]
fn silent_or_absent_upstream_is_reported() {
    let upstream = Upstream::start(|_, _, _| Act::Silence);
    let (exit, stdout, stderr) = Desk::new().run(&upstream, &["--timeout=200ms", "--model=m"]);
    assert_eq!((exit, stdout.as_str(), upstream.asked()), (1, "", 1), "{stderr}");
    assert!(stderr.contains("within 200ms"), "{stderr}");
    let (exit, stdout, stderr) = run(&mut Desk::new().command("http://127.0.0.1:1/v1", &["--model=m"]));
    assert_eq!((exit, stdout.as_str()), (1, ""), "{stderr}");
    assert!(stderr.contains("error: "), "{stderr}");
}

#[test]
fn what_was_measured_before_the_upstream_died_is_kept() {
    let desk = Desk::new();
    let upstream = Upstream::start(|number, path, request| match number {
        0..5 => good(number, path, request),
        _ => Act::Refuse(503, "shutting down"),
    });
    let (status, stdout, stderr) = desk.run(&upstream, &["--format=hermes,bare"]);
    assert_eq!(status, 1, "{stderr}");
    assert!(
        stderr.contains("shutting down") && stderr.contains("3 of 8 requests were not asked"),
        "{stderr}"
    );
    assert!(stdout.contains("[[models]]") && stdout.contains("shutting down"), "{stdout}");
}

#[test]
fn variant_that_the_upstream_rejects_is_given_up() {
    let desk = Desk::new();
    let upstream = Upstream::start(|number, path, request| match request.get("tools") {
        Some(_) => Act::Refuse(400, "this server has no tools"),
        None => good(number, path, request),
    });
    let report = desk.report(&upstream, &["--format=native,hermes"]);
    assert_eq!(report.variants[0].name, "hermes");
    let native = &report.variants[1];
    assert_eq!((native.answers, count(native, Verdict::Failed)), (3, 3));
    assert!(native.given_up.as_ref().unwrap().contains("no tools"));
    let (status, stdout, stderr) = Desk::new().run(&upstream, &["--format=native"]);
    assert_eq!(status, 1);
    assert!(stderr.contains("rejects every request"), "{stdout}{stderr}");
}

#[test]
fn wordings_are_variants_unless_they_are_the_default() {
    let upstream = Upstream::start(good);
    let desk = Desk::new();
    let (status, stdout, stderr) =
        desk.run(&upstream, &["--json", "--wordings=default,signatures,schemas,turns+examples=1"]);
    let report: Report = serde_json::from_str(&stdout).unwrap();
    let mut names: Vec<_> = report.variants.iter().map(|variant| variant.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(
        (status, &names[..]),
        (0, &["hermes", "hermes schemas", "hermes turns+examples=1"][..]),
        "{stderr}"
    );
    assert!(stderr.contains("hermes signatures"), "{stderr}");
    assert_eq!(upstream.asked(), 3 * REQUESTS);
}

#[test]
fn enforcement_is_a_variant_where_the_server_has_it() {
    let upstream = Upstream::start(good);
    let names = |report: &Report| {
        let mut names: Vec<_> = report.variants.iter().map(|variant| variant.name.clone()).collect();
        names.sort();
        names
    };
    let constrained = |upstream: &Upstream| {
        let asked = upstream.asked.lock().unwrap();
        asked
            .iter()
            .filter(|request| {
                request.as_object().unwrap().keys().any(|key| {
                    ["structured_outputs", "response_format", "guided_json"].contains(&key.as_str())
                })
            })
            .count()
    };
    assert_eq!(names(&Desk::new().report(&upstream, &[])), ["hermes"]);
    assert_eq!(constrained(&upstream), 0);
    let vllm = Upstream { url: upstream.url.replace("/v1", "/vllm/v1"), ..upstream };
    let before = vllm.asked();
    let report = Desk::new().report(&vllm, &[]);
    assert_eq!(names(&report), ["hermes", "hermes enforce=auto"]);
    assert_eq!(vllm.asked() - before, REQUESTS + 1, "only a required call is asked for again");
    assert_eq!(constrained(&vllm), REQUESTS + 1, "any call is constrained");
}

#[test]
fn request_without_capacity_is_repeated() {
    let upstream = Upstream::start(|number, path, request| match number {
        1 => Act::Refuse(429, "slow down"),
        _ => good(number, path, request),
    });
    let report = Desk::new().report(&upstream, &["--concurrency=3"]);
    assert_eq!((report.answers, upstream.asked()), (REQUESTS, REQUESTS + 1));
    assert_eq!(report.variants[0].proper.count, 3);
}

#[test]
fn hostile_text_reaches_neither_terminal_nor_page() {
    const EVIL: &str =
        "\u{1b}[2J\u{7}\r\n\u{202e}</script><script>alert(1)</script> get_weather(x=\u{1b}[31m";
    let (desk, upstream) = (Desk::new(), Upstream::start(|_, _, _| Act::Text(EVIL.to_owned())));
    let page = desk.file("page.html");
    let (status, stdout, stderr) = desk.run(&upstream, &["--html", &page, "--model=\u{1b}]0;x\u{7}"]);
    assert_eq!(status, 0, "{stderr}");
    assert!(stdout.contains("alert(1)"), "{stdout}");
    for text in [&stdout, &stderr] {
        assert!(!text.contains(['\u{1b}', '\u{7}', '\r', '\u{202e}']), "{text:?}");
    }
    assert!(!fs::read_to_string(page).unwrap().contains("<script>alert"));
}

#[test]
fn model_of_a_configuration_keeps_its_own_settings() {
    let (desk, upstream) = (Desk::new(), Upstream::start(good));
    let config = desk.file("toolwire.toml");
    let text = format!(
        "api_keys = [\"secret\"]\nlisten = \"127.0.0.1:8787\"\n\
         [[upstreams]]\nname = \"u\"\ndialect = \"chat\"\nbase_url = \"{}\"\n\
         [[models]]\nname = \"mine\"\nupstream_name = \"theirs\"\nrepair = false\nexamples = 0\n\
         [[models]]\nname = \"other\"\n",
        upstream.url
    );
    fs::write(&config, text).unwrap();
    let command = |more: &[&str]| {
        let mut command = toolwire(&["calibrate", "--json", "-q", "--format=hermes", "--config", &config]);
        command.args(["--prompts", &desk.file("prompts.toml"), "--cache", &desk.file("a.jsonl")]).args(more);
        run(&mut command)
    };
    let (status, stdout, stderr) = command(&["--model=mine"]);
    assert_eq!(status, 0, "{stderr}");
    let report: Report = serde_json::from_str(&stdout).unwrap();
    let entry = "[[models]]\nname = \"mine\"\nupstream = \"u\"\nrepair = false\nupstream_name = \"theirs\"\n\
        tools = \"hermes\"\n";
    assert_eq!(report.entry.as_deref(), Some(entry));
    assert_eq!(upstream.asked.lock().unwrap()[0]["model"], "theirs");
    let (status, _, stderr) = command(&[]);
    assert_eq!(status, 2);
    assert!(stderr.contains("several models") && stderr.contains("mine, other"), "{stderr}");
}

#[test]
fn upstream_that_is_not_there_is_reported_with_the_cause() {
    let (status, stdout, stderr) = run(&mut toolwire(&["calibrate", "--upstream", "http://127.0.0.1:1/v1"]));
    assert_eq!((status, stdout.as_str()), (1, ""));
    assert!(stderr.contains("the upstream lists no models: tcp: ") && stderr.contains("refused"), "{stderr}");
}

#[test]
fn invalid_command_line_exits_with_status_2() {
    let desk = Desk::new();
    fs::write(desk.path("bad.toml"), "[[prompts]]\nusr = 1\n").unwrap();
    let bad = desk.file("bad.toml");
    let upstream = ["--upstream", "http://127.0.0.1:1/v1", "--model=m"];
    for (wrong, told) in [
        (&[][..], "--upstream URL"),
        (&[&upstream[..], &["--format=hermess"]].concat(), "hermes"),
        (&[&upstream[..], &["--wordings=loud"]].concat(), "unknown word `loud`"),
        (&[&upstream[..], &["--enforce=some"]].concat(), "structural_tag"),
        (&[&upstream[..], &["--runs=0"]].concat(), "--runs"),
        (&[&upstream[..], &["--runs=100000"]].concat(), "requests are too many"),
        (&[&upstream[..], &["--temperature=-1"]].concat(), "temperature"),
        (&[&upstream[..], &["--tools-file", &bad]].concat(), "--prompts"),
        (&[&upstream[..], &["--prompts", &bad]].concat(), "bad.toml:2:1: unknown field"),
        (&[&upstream[..], &["--prompts=/nowhere.toml"]].concat(), "/nowhere.toml"),
        (&["--upstream", "nonsense", "--model=m"], "expected a URL"),
        (&["--config=/nowhere.toml"], "/nowhere.toml"),
    ] {
        let (status, stdout, stderr) = run(toolwire(&["calibrate"]).args(wrong));
        assert!(stderr.contains(told), "{wrong:?}: {stderr}");
        assert_eq!((status, stdout.as_str()), (2, ""), "{wrong:?}");
    }
}
