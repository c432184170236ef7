//! Questions of servers to people.

use super::*;
use crate::{
    Audit, Given, Question, Subscription,
    permission::{Keeping, Permissions},
    settings::PermissionSettings,
};
use toolwire_net::redact::Redactor;

/// A server whose questions a person can answer.
pub(super) struct Attended {
    server: Started,
    permissions: Arc<Permissions>,
    _reader: Option<Subscription>,
}

pub(super) fn interactive(mode: &str) -> Options {
    let mut options = options(mode);
    let script = SCRIPT.replace("scripted.py", "interactive.py");
    options.program.command = ["python3".to_owned(), script, mode.to_owned()].into();
    options
}

impl Attended {
    pub(super) async fn new(options: &Options) -> Self {
        Self::with_reader(options, true, Duration::from_secs(60)).await
    }

    async fn with_reader(options: &Options, has_reader: bool, ask_timeout: Duration) -> Self {
        let audit = Arc::new(Audit::new(Arc::new(Redactor::new(["secret-word"])), None));
        let settings = PermissionSettings { ask_timeout, ..PermissionSettings::default() };
        let permissions = Permissions::new(settings, Arc::clone(&audit), Keeping::File(None));
        let permissions = Arc::new(permissions);
        let host = Host::detached("s").with_people(Some(Arc::clone(&permissions) as _));
        let provider = options.build(&host).expect("a provider");
        Arc::clone(&provider).start(&host);
        let server = Started(provider);
        server.until(|provider| provider.status().state == ProviderState::Ready).await;
        Self { server, permissions, _reader: has_reader.then(|| audit.subscribe()) }
    }

    async fn questions(&self, count: usize) -> Vec<Question> {
        let waiting = async {
            while self.permissions.questions().len() != count {
                sleep(Duration::from_millis(5)).await;
            }
        };
        let waited = timeout(LONG, waiting).await;
        assert!(waited.is_ok(), "{:?}", self.permissions.questions());
        self.permissions.questions()
    }

    /// Makes a call and returns its result as JSON.
    pub(super) async fn call(&self, tool: &str, arguments: Value) -> Value {
        let output = self.server.call(tool, arguments).await.expect("an output");
        serde_json::from_str(&output.content).unwrap_or_else(|_| panic!("{}", output.content))
    }

    /// Gives this answer to the next question.
    pub(super) async fn give(&self, given: Given) {
        let question = self.questions(1).await.remove(0);
        self.permissions.give(&question.id, given).expect("an open question");
    }
}

fn accepted(values: Value) -> Given {
    Given::Accepted(serde_json::from_value(values).expect("an object"))
}

#[tokio::test]
async fn person_answers_the_question_of_a_call() {
    let attended = Attended::new(&interactive("plain")).await;
    for (given, expected) in [
        (
            accepted(json!({"name": "a", "count": 2})),
            json!({"action": "accept", "content": {"name": "a", "count": 2}}),
        ),
        (Given::Declined, json!({"action": "decline"})),
        (Given::Dismissed, json!({"action": "cancel"})),
    ] {
        let call = attended.call("ask", json!({}));
        let (result, ()) = tokio::join!(call, attended.give(given));
        assert_eq!(result, json!([expected]));
    }
}

#[tokio::test]
async fn question_shows_where_it_comes_from_and_no_secrets() {
    let attended = Attended::new(&interactive("plain")).await;
    let schema = json!({"type": "object", "properties": {"a": {"type": "string", "title": "a secret-word"}}});
    let question = json!({"message": "the secret-word\u{1b}[2J", "requestedSchema": schema});
    let call = attended.call("ask", json!({"questions": [question]}));
    let answer = async {
        let question = attended.questions(1).await.remove(0);
        let shown = question.json();
        assert_eq!(shown.get("tool"), Some(&json!("s__ask")));
        let text = shown.to_string();
        assert!(text.contains("the xxxxxxxxxxx [2J") && !text.contains("secret"), "{text}");
        let wrong = attended.permissions.give(&question.id, accepted(json!({"a": 1})));
        assert!(matches!(wrong, Err(crate::AnswerError::Invalid(_))), "{wrong:?}");
        attended.permissions.give(&question.id, accepted(json!({"a": "x"}))).expect("an open question");
    };
    let (result, ()) = tokio::join!(call, answer);
    assert_eq!(result.pointer("/0/content/a"), Some(&json!("x")));
}

#[tokio::test]
async fn page_is_opened_by_the_person() {
    let attended = Attended::new(&interactive("plain")).await;
    let page =
        json!({"mode": "url", "message": "Sign in", "url": "https://example.org/", "elicitationId": "1"});
    let call = attended.call("ask", json!({"questions": [page]}));
    let (result, ()) = tokio::join!(call, attended.give(accepted(json!({}))));
    assert_eq!(result, json!([{"action": "accept"}]));
}

#[tokio::test]
async fn questions_that_nobody_can_answer_are_declined_with_a_reason() {
    let reasons = |result: &Value| -> Vec<String> {
        let results = result.as_array().expect("results").iter();
        let reason = |result: &Value| {
            assert_eq!(result.get("action"), Some(&json!("decline")), "{result}");
            result["_meta"]["toolwire/reason"].as_str().unwrap_or_default().to_owned()
        };
        results.map(reason).collect()
    };
    let unread = Attended::with_reader(&interactive("plain"), false, LONG).await;
    assert_eq!(reasons(&unread.call("ask", json!({})).await), ["nobody can be asked"]);
    let late = Attended::with_reader(&interactive("plain"), true, Duration::from_millis(200)).await;
    assert_eq!(reasons(&late.call("ask", json!({})).await), ["nobody answered in time"]);
    let nested = json!({"type": "object", "properties": {"a": {"type": "object", "properties": {}}}});
    let questions = json!([
        {"message": "m", "requestedSchema": nested},
        {"message": "x".repeat(1 << 20), "requestedSchema": {"type": "object", "properties": {}}},
        {"mode": "url", "message": "m", "url": "javascript:alert(1)"},
        {"mode": "other", "message": "m"},
    ]);
    let expected = [
        "the form is not a list of simple fields",
        "the question is too large",
        "the URL is not one of a web page",
        "the question is incomplete",
    ];
    let attended = Attended::new(&interactive("plain")).await;
    assert_eq!(reasons(&attended.call("ask", json!({"questions": questions})).await), expected);
    // Nobody is asked, and the server is told so at the beginning.
    let alone = Started::ready(&interactive("plain")).await;
    let capabilities = alone.call("capabilities", json!({})).await.expect("an output").content;
    assert_eq!(capabilities, r#"{"extensions": {"io.modelcontextprotocol/tasks": {}}}"#);
    let capabilities = attended.call("capabilities", json!({})).await;
    assert_eq!(capabilities["elicitation"], json!({"form": {}, "url": {}}));
}

#[tokio::test]
async fn models_and_folders_are_declined_with_a_reason() {
    let server = Started::ready(&interactive("plain")).await;
    let said = server.call("other", json!({})).await.expect("an output").content;
    for part in ["servers get no model", "no folders", "-32601"] {
        assert!(said.contains(part), "{said}");
    }
}

#[tokio::test]
async fn question_without_a_call_is_declined() {
    let attended = Attended::new(&interactive("plain")).await;
    attended.call("ask_later", json!({})).await;
    sleep(Duration::from_millis(500)).await;
    let later = attended.call("later", json!({})).await;
    let is_refused = later["code"] == -32602 || later["_meta"]["toolwire/reason"] == "no call is running";
    assert!(is_refused, "{later}");
    attended.questions(0).await;
}

#[tokio::test]
async fn flood_of_questions_is_limited() {
    let attended = Attended::new(&interactive("plain")).await;
    let schema = json!({"type": "object", "properties": {}});
    let many = vec![json!({"message": "m", "requestedSchema": schema}); 30];
    let call = attended.call("ask", json!({"questions": many}));
    let answer = async {
        for question in attended.questions(4).await {
            attended.permissions.give(&question.id, Given::Declined).expect("an open question");
        }
    };
    let (result, ()) = tokio::join!(call, answer);
    assert_eq!(result.as_array().map(Vec::len), Some(30));
    let call = attended.call("ask_one_by_one", json!({"count": 100}));
    let answer = async {
        for _ in 0..16 {
            attended.give(Given::Dismissed).await;
        }
    };
    let (result, ()) = tokio::join!(call, answer);
    let shown = result.as_array().expect("results").iter().filter(|action| **action == "cancel").count();
    assert_eq!(shown, 16);
}

#[tokio::test]
async fn question_is_withdrawn_with_its_call_or_by_the_server() {
    let attended = Attended::new(&interactive("plain")).await;
    let call = invocation("ask", json!({}));
    let given_up = timeout(Duration::from_millis(300), attended.server.0.run(&call));
    let (given_up, _) = tokio::join!(given_up, attended.questions(1));
    assert!(given_up.is_err());
    attended.questions(0).await;
    let (result, _) = tokio::join!(attended.call("withdraw", json!({})), attended.questions(1));
    assert_eq!(result, json!("withdrawn"));
    attended.questions(0).await;
    assert_eq!(attended.call("echo", json!({"a": 1})).await, json!({"a": 1}));
}

#[tokio::test]
async fn questions_of_two_calls_at_once_name_the_server() {
    let attended = Attended::new(&interactive("plain")).await;
    let calls = async {
        tokio::join!(attended.call("ask", json!({})), attended.call("ask", json!({})));
    };
    let answer = async {
        // The first question may have come while there was only one call.
        let questions = attended.questions(2).await;
        assert!(questions.iter().any(|question| question.json()["tool"] == "s"));
        for question in questions {
            attended.permissions.give(&question.id, Given::Declined).expect("an open question");
        }
    };
    tokio::join!(calls, answer);
}

#[tokio::test]
async fn waiting_for_a_person_renews_the_time_limit() {
    use crate::reports::within;
    let attended = Attended::new(&interactive("plain")).await;
    let call = invocation("ask", json!({}));
    let mut lines = Vec::new();
    let show = |shown: crate::reports::Progress<'_>| lines.extend(shown.report.map(|report| report.line("Ask", str::to_owned)));
    let limits = (Duration::from_secs(2), Instant::now() + LONG);
    let running = within(attended.server.0.run(&call), &call.reports, limits, show);
    let answer = async {
        attended.questions(1).await;
        sleep(Duration::from_secs(3)).await;
        attended.give(Given::Declined).await;
    };
    let (result, ()) = tokio::join!(running, answer);
    assert!(result.expect("in time").is_ok());
    assert_eq!(lines.first().map(String::as_str), Some("Ask: waits for a person to answer"));
}

#[tokio::test]
async fn results_that_ask_are_answered_and_the_call_is_sent_again() {
    let options = Options { protocol: Protocol::Discover, ..interactive("modern") };
    let attended = Attended::new(&options).await;
    let call = attended.call("rounds", json!({}));
    let (result, ()) = tokio::join!(call, attended.give(accepted(json!({"name": "a"}))));
    let answer = json!({"action": "accept", "content": {"name": "a"}});
    assert_eq!(result, json!([{"q0": answer}, "state"]));
    for (arguments, expected) in [
        (json!({"sampling": true}), "The tool asks for a model or for folders, which it does not get."),
        (json!({"count": 9}), "The tool asks for too much input."),
    ] {
        let error = attended.server.call("rounds", arguments).await.expect_err("an error");
        assert_eq!((error.message.as_str(), error.is_retryable), (expected, false));
    }
    let call = attended.server.call("rounds", json!({"again": true}));
    let answer = async {
        for _ in 0..=8 {
            attended.give(Given::Declined).await;
        }
    };
    let (error, ()) = tokio::join!(call, answer);
    assert_eq!(error.expect_err("an error").message, "The tool asks for input again and again.");
}

#[tokio::test]
async fn call_that_needs_a_page_is_sent_again_when_it_was_opened() {
    let attended = Attended::new(&interactive("plain")).await;
    let call = attended.call("opens", json!({"times": 1}));
    let (result, ()) = tokio::join!(call, attended.give(accepted(json!({}))));
    assert_eq!(result, json!("opened"));
    let form = json!({"message": "m", "requestedSchema": {"type": "object", "properties": {}}});
    for pages in [json!([]), json!([5]), json!([form]), json!("x")] {
        let output =
            attended.server.call("opens", json!({"times": 99, "pages": pages})).await.expect("an output");
        assert!(output.is_error && output.content.contains("which nobody did"), "{}", output.content);
    }
    let call = attended.server.call("opens", json!({"times": 99}));
    let (output, ()) = tokio::join!(call, attended.give(Given::Declined));
    assert!(output.expect("an output").is_error);
}

#[tokio::test]
async fn no_rule_answers_a_question_for_input() {
    let attended = Attended::new(&interactive("plain")).await;
    let call = attended.call("ask", json!({}));
    let answer = async {
        let question = attended.questions(1).await.remove(0);
        attended.permissions.set_auto_approve(true).await.expect("kept");
        attended.permissions.allow_all(&["s__ask".into()]).await.expect("kept");
        let yes = crate::Answer { granted: true, remember: true, scope: crate::Scope::Global };
        let wrong = attended.permissions.answer(&question.id, yes).await;
        assert_eq!(wrong.expect_err("an error"), crate::AnswerError::Mismatched);
        assert_eq!(attended.questions(1).await.first().map(Question::json), Some(question.json()));
        attended.permissions.give(&question.id, Given::Declined).expect("an open question");
        let late = attended.permissions.give(&question.id, Given::Dismissed);
        assert!(matches!(late, Err(crate::AnswerError::Late(_))), "{late:?}");
    };
    let (result, ()) = tokio::join!(call, answer);
    assert_eq!(result, json!([{"action": "decline"}]));
}
