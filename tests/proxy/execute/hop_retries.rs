//! Tests later hops whose upstream fails before their first content: they are tried again, then sent to another model,
//! like the first request, and no tool runs twice.

use std::{
    collections::{HashMap, VecDeque},
    fmt::Write as _,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::sleep;

use crate::{
    independent::upstream::Speech,
    support::{
        client::{Client, Reply, stream_error},
        proxy::Proxy,
        soon,
        upstream::{Exchange, Upstream},
    },
};

/// How an upstream fails in a later hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Status(&'static str, &'static str),
    /// Closes the connection without a response.
    Closed,
    /// Sends these events and closes the connection.
    Broken(&'static str),
    /// Sends these events as a complete response.
    Complete(&'static str),
    /// Sends the head, and nothing after it.
    Silent,
}

const ROLE: &str = "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"up\",\
    \"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n";

/// The beginning of a marker, which is held back, and an error.
const HELD: &str = "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"up\",\
    \"choices\":[{\"index\":0,\"delta\":{\"content\":\"<tool_c\"},\"finish_reason\":null}]}\n\n\
    data: {\"error\":{\"message\":\"busy\",\"type\":\"overloaded_error\"}}\n\n";

const ERROR: &str = "data: {\"error\":{\"message\":\"busy\",\"type\":\"overloaded_error\"}}\n\n";

const FAULTS: [Fault; 7] = [
    Fault::Status("503 Service Unavailable", ""),
    Fault::Status("429 Too Many Requests", "retry-after: 0\r\n"),
    Fault::Closed,
    Fault::Broken(""),
    Fault::Broken(ROLE),
    Fault::Complete(ERROR),
    Fault::Complete(HELD),
];

/// One conversation, named in the user's message.
#[derive(Debug, Clone, Default)]
struct Case {
    /// The faults of the requests with results, in order. Later requests succeed.
    faults: VecDeque<Option<Fault>>,
    has_text: bool,
    /// Number of hops that call the tool.
    calls: usize,
    /// The models of all requests.
    asked: Vec<String>,
    /// The last request.
    last: Value,
}

type Cases = Arc<Mutex<HashMap<String, Case>>>;

fn results(body: &str) -> usize {
    body.matches("found ").count()
}

async fn play(mut exchange: Exchange, (speech, cases): (Speech, Cases)) -> Exchange {
    let body = String::from_utf8(exchange.body.to_vec()).unwrap();
    let request: Value = serde_json::from_str(&body).unwrap();
    let (fault, has_text, calls_in_all) = {
        let mut cases = cases.lock().unwrap();
        let case = cases.iter_mut().find(|(name, _)| body.contains(name.as_str())).unwrap().1;
        case.asked.push(request["model"].as_str().unwrap().to_owned());
        case.last = request;
        let fault = if results(&body) > 0 { case.faults.pop_front().flatten() } else { None };
        (fault, case.has_text, case.calls)
    };
    match fault {
        Some(Fault::Status(status, headers)) => {
            let headers = format!("content-type: application/json\r\n{headers}");
            exchange.whole(status, &headers, r#"{"error":{"message":"busy"}}"#).await;
        }
        Some(Fault::Closed) => {}
        Some(Fault::Broken(events)) => {
            exchange.begin().await;
            exchange.piece(events).await;
        }
        Some(Fault::Complete(events)) => return exchange.stream(events).await,
        Some(Fault::Silent) => {
            exchange.begin().await;
            exchange.gone().await;
        }
        None => {
            let number = results(&body);
            let said = json!(["m", "Let me look."]);
            let call = json!({"tool_calls": [{"index": 0, "id": format!("call_{number}"), "type": "function",
                "function": {"name": "search", "arguments": format!("{{\"query\":\"{number}\"}}")}}]});
            let calls = [said, json!(["d", call]), json!(["fin", "tool_calls"]), json!(["done"])];
            let events = match number >= calls_in_all {
                true => speech.says(&["Final"], "stop"),
                false => speech.stream(calls.get(usize::from(!has_text)..).unwrap()),
            };
            exchange.begin().await;
            exchange.piece(events).await;
            exchange.end().await;
        }
    }
    exchange
}

/// A proxy with the models `plain`, `again` (`retries = 2`) and `other` (a fallback with another dialect), whose tool
/// counts its calls.
struct Stand {
    proxy: Proxy,
    cases: Cases,
    folder: TempDir,
    _upstreams: [Upstream; 2],
}

impl Stand {
    async fn new(failover: &str, settings: &str) -> Self {
        Self::with("", "", &format!("backoff = \"1ms\"\n{failover}"), settings).await
    }

    async fn with_keys(keys: &str) -> Self {
        Self::with(keys, "", "backoff = \"1ms\"\n", "").await
    }

    async fn with(keys: &str, upstream: &str, failover: &str, settings: &str) -> Self {
        let (folder, cases) = (tempfile::tempdir().unwrap(), Cases::default());
        let one = Upstream::start_sharing((Speech::Chat, Arc::clone(&cases)), play).await;
        let two = Upstream::start_sharing((Speech::Messages, Arc::clone(&cases)), play).await;
        let mut config = format!("{keys}[failover]\neject_after = 1000\n{failover}\n");
        for (name, dialect, address) in [("one", "chat", one.address), ("two", "messages", two.address)] {
            let _ = write!(
                config,
                "[[upstreams]]\nname = \"{name}\"\ndialect = \"{dialect}\"\nbase_url = \"http://{address}\"\n\
                 retry_unanswered = false\n{upstream}"
            );
        }
        config += "[[models]]\nname = \"plain\"\nupstream = \"one\"\n\
            [[models]]\nname = \"again\"\nupstream = \"one\"\nretries = 2\n\
            [[models]]\nname = \"other\"\nupstream = \"one\"\nfallback = [\"z\"]\n\
            [[models]]\nname = \"z\"\nupstream = \"two\"\n";
        let counted = folder.path().join("calls");
        let script = format!("echo x >> '{}'; printf 'found '; cat", counted.display());
        let _ = write!(
            config,
            "[execution]\n{settings}\n[[providers]]\nname = \"search\"\nkind = \"command\"\n\
             command = [\"sh\", \"-c\", {}]\nparameters = {{ type = \"object\", properties = {{ query = {{ type = \"string\" }} }} }}\n",
            json!(script)
        );
        Self { proxy: Proxy::of(&config), cases, folder, _upstreams: [one, two] }
    }

    fn add(&self, name: &str, faults: &[Fault], has_text: bool, calls: usize) {
        self.add_with(name, faults.iter().copied().map(Some).collect(), has_text, calls);
    }

    fn add_with(&self, name: &str, faults: VecDeque<Option<Fault>>, has_text: bool, calls: usize) {
        let case = Case { faults, has_text, calls, ..Case::default() };
        self.cases.lock().unwrap().insert(name.to_owned(), case);
    }

    fn case(&self, name: &str) -> Case {
        self.cases.lock().unwrap()[name].clone()
    }

    /// How often tools have run since the last call.
    fn runs(&self) -> usize {
        let counted = self.folder.path().join("calls");
        let runs = std::fs::read_to_string(&counted).unwrap_or_default().lines().count();
        if Path::exists(&counted) {
            std::fs::remove_file(counted).unwrap();
        }
        runs
    }

    async fn ask(&self, api: Api, model: &str, says: &str, stream: bool) -> Reply {
        Client::new().send(api.request(&self.proxy, model, says, stream)).await.unwrap()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Api {
    Chat,
    Messages,
    Responses,
    Gemini,
    Interactions,
    Ollama,
}

impl Api {
    const ALL: [Self; 6] =
        [Self::Chat, Self::Messages, Self::Responses, Self::Gemini, Self::Interactions, Self::Ollama];

    fn request(self, proxy: &Proxy, model: &str, says: &str, stream: bool) -> Request<Full<bytes::Bytes>> {
        let turns = json!([{"role": "user", "content": says}]);
        let path = match self {
            Self::Chat => "/v1/chat/completions".to_owned(),
            Self::Messages => "/v1/messages".to_owned(),
            Self::Responses => "/v1/responses".to_owned(),
            Self::Gemini if stream => format!("/v1beta/models/{model}:streamGenerateContent?alt=sse"),
            Self::Gemini => format!("/v1beta/models/{model}:generateContent"),
            Self::Interactions => "/v1beta/interactions".to_owned(),
            Self::Ollama => "/api/chat".to_owned(),
        };
        let mut body = match self {
            Self::Chat | Self::Ollama => json!({"messages": turns}),
            Self::Messages => json!({"messages": turns, "max_tokens": 9}),
            Self::Responses | Self::Interactions => json!({"input": says, "store": false}),
            Self::Gemini => json!({"contents": [{"role": "user", "parts": [{"text": says}]}]}),
        };
        if self != Self::Gemini {
            body["model"] = model.into();
            body["stream"] = stream.into();
        }
        let request = Request::post(proxy.url(&path)).header("content-type", "application/json");
        request.body(Full::new(body.to_string().into())).unwrap()
    }
}

#[tokio::test]
async fn hop_that_is_sent_again_cites_the_pages_that_were_found() {
    let asked = Arc::new(Mutex::new(0));
    let script = |mut exchange: Exchange, asked: Arc<Mutex<usize>>| async move {
        let number = {
            let mut asked = asked.lock().unwrap();
            *asked += 1;
            *asked
        };
        let call = json!({"tool_calls": [{"index": 0, "id": "c", "type": "function",
            "function": {"name": "web_search", "arguments": "{}"}}]});
        match number {
            1 => {
                let events = [json!(["d", call]), json!(["fin", "tool_calls"]), json!(["done"])];
                return exchange.stream(Speech::Chat.stream(&events)).await;
            }
            2 => exchange.whole("503 Service Unavailable", "content-type: application/json\r\n", "{}").await,
            _ => return exchange.stream(Speech::Chat.says(&["Final"], "stop")).await,
        }
        exchange
    };
    let upstream = Upstream::start_sharing(Arc::clone(&asked), script).await;
    let found = json!({"results": [{"title": "A", "url": "https://a.example/"}]});
    let proxy = Proxy::of(&format!(
        "[failover]\nbackoff = \"1ms\"\n[[upstreams]]\nname = \"u\"\ndialect = \"chat\"\nbase_url = \"http://{}\"\n\
         [[models]]\nname = \"m\"\nupstream = \"u\"\nretries = 1\n[execution]\n[[providers]]\nname = \"web_search\"\n\
         kind = \"command\"\ncommand = [\"echo\", '{found}']\n",
        upstream.address
    ));
    let body = Client::new().send(Api::Chat.request(&proxy, "m", "hi", true)).await.unwrap().rest().await;
    assert!(body.contains("Final") && *asked.lock().unwrap() == 3, "{body}");
    assert_eq!(body.matches("https://a.example/").count(), 1, "{body}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_later_hop_is_sent_again_or_to_another_model_and_tools_run_once() {
    let stand = Stand::new("", "").await;
    let mut number = 0;
    for api in Api::ALL {
        for (model, fault) in
            ["again", "other"].into_iter().flat_map(|model| FAULTS.map(|fault| (model, fault)))
        {
            for (stream, has_text) in [(true, true), (true, false), (false, true), (false, false)] {
                // A response in one piece has content once its upstream has written text.
                if fault == Fault::Complete(HELD) && !stream {
                    continue;
                }
                number += 1;
                let name = format!("case{number}.");
                let about = format!("{api:?} {model} {fault:?} {stream} {has_text}");
                stand.add(&name, &[fault], has_text, 1);
                let reply = stand.ask(api, model, &name, stream).await;
                assert_eq!(reply.status(), 200, "{about}");
                let body = reply.rest().await;
                assert!(body.contains("Final") && !body.contains("busy"), "{about}: {body}");
                assert_eq!(body.contains("Let me look."), has_text, "{about}: {body}");
                assert!(!body.contains("<tool_c"), "{about}: {body}");
                let case = stand.case(&name);
                assert_eq!(
                    case.asked,
                    if model == "again" { vec!["again"; 3] } else { vec!["other", "other", "z"] }
                );
                assert_eq!(results(&case.last.to_string()), 1, "{about}");
                assert_eq!(stand.runs(), 1, "{about}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_hop_has_all_attempts_and_those_of_a_model_that_took_over_too() {
    let stand = Stand::new("", "").await;
    let busy = Some(FAULTS[0]);
    let others = ["other", "other", "z", "z", "other", "other", "z"].to_vec();
    for (model, faults, asked) in [
        ("again", [busy, busy, None].repeat(4), vec!["again"; 13]),
        ("other", vec![busy, None, busy, None, busy, None], others),
    ] {
        let name = format!("hops of {model}");
        let calls = if model == "again" { 4 } else { 3 };
        stand.add_with(&name, faults.into(), true, calls);
        let body = stand.ask(Api::Chat, model, &name, true).await.rest().await;
        assert!(body.contains("Final"), "{body}");
        assert_eq!(body.matches("Let me look.").count(), calls, "{body}");
        assert_eq!(
            (stand.case(&name).asked, stand.runs()),
            (asked.iter().map(|it| (*it).to_owned()).collect(), calls)
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn content_of_the_later_hop_ends_the_attempts() {
    const LATE: &str = "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"up\",\
        \"choices\":[{\"index\":0,\"delta\":{\"content\":\"It is\"},\"finish_reason\":null}]}\n\n";
    let stand = Stand::new("", "").await;
    stand.add("late", &[Fault::Broken(LATE)], true, 1);
    let body = stand.ask(Api::Chat, "again", "late", true).await.rest().await;
    assert!(body.contains("Let me look.") && body.contains("It is"), "{body}");
    assert!(stream_error(&body).is_object() && !body.contains("Final"), "{body}");
    assert_eq!((stand.case("late").asked.len(), stand.runs()), (2, 1));
}

/// The silence of an upstream does not count for the request that follows after a pause.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_upstream_is_asked_again_after_the_pause() {
    let stand = Stand::with("", "idle_timeout = \"2s\"\n", "backoff = \"300ms\"\n", "").await;
    stand.add("silent", &[Fault::Silent], true, 1);
    let body = stand.ask(Api::Chat, "again", "silent", true).await.rest().await;
    assert!(body.contains("Let me look.") && body.contains("Final"), "{body}");
    assert_eq!((stand.case("silent").asked.len(), stand.runs()), (3, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempts_of_a_later_hop_end_with_retries_and_deadline() {
    let stand = Stand::new("", "").await;
    let busy = FAULTS[0];
    for (model, requests) in [("plain", 2), ("again", 4), ("other", 3)] {
        for stream in [true, false] {
            let name = format!("{model} {stream}");
            stand.add(&name, &[busy; 9], false, 1);
            let reply = stand.ask(Api::Chat, model, &name, stream).await;
            assert_eq!(reply.status(), 503, "{name}");
            assert_eq!((stand.case(&name).asked.len(), stand.runs()), (requests, 1), "{name}");
        }
    }
    // The upstream asks for a longer pause than there is time for.
    let later = Fault::Status("429 Too Many Requests", "retry-after: 400\r\n");
    stand.add("later", &[later; 9], false, 1);
    assert_eq!(stand.ask(Api::Chat, "again", "later", false).await.status(), 429);
    assert_eq!((stand.case("later").asked.len(), stand.runs()), (2, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_that_leaves_during_the_pause_ends_the_attempts() {
    let stand = Stand::new("", "").await;
    let later = Fault::Status("429 Too Many Requests", "retry-after: 100\r\n");
    stand.add("left", &[later; 9], true, 1);
    let mut reply = stand.ask(Api::Chat, "again", "left", true).await;
    reply.until("Let me look.").await;
    soon("the request of the second hop", async {
        while stand.case("left").asked.len() < 2 {
            sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    drop(reply);
    Client::new().metrics_with(&stand.proxy, "toolwire_streams_in_flight 0").await;
    assert_eq!((stand.case("left").asked.len(), stand.runs()), (2, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn same_request_goes_on_after_the_results_of_a_failed_response() {
    let stand = Stand::new("", "").await;
    let later = Fault::Status("429 Too Many Requests", "retry-after: 1\r\n");
    let mut number = 0;
    for api in Api::ALL {
        for (fault, stream, has_text) in [
            (FAULTS[0], false, true),
            (later, true, false),
            (Fault::Closed, true, true),
            (Fault::Complete(HELD), false, false),
        ] {
            number += 1;
            let name = format!("{api:?} {number}.");
            stand.add(&name, &[fault, fault], has_text, 2);
            // The second of two hops with tools fails, then the first one of the repeated request.
            for runs in [1, 0] {
                let reply = stand.ask(api, "plain", &name, stream).await;
                let is_begun = runs == 1 && stream && has_text;
                assert_eq!(reply.status() == 200, is_begun, "{name}");
                if !is_begun {
                    assert_eq!(reply.header("x-should-retry"), Some("true"), "{name}");
                }
                let body = reply.rest().await;
                assert!(!body.contains("Final") && body.contains("error"), "{name}: {body}");
                assert_eq!(stand.runs(), runs, "{name}");
            }
            let body = stand.ask(api, "plain", &name, stream).await.rest().await;
            assert!(body.contains("Final"), "{name}: {body}");
            assert_eq!((stand.runs(), results(&stand.case(&name).last.to_string())), (1, 2), "{name}");
            // The results have been used.
            let body = stand.ask(api, "plain", &name, stream).await.rest().await;
            assert!(body.contains("Final"), "{name}: {body}");
            assert_eq!(stand.runs(), 2, "{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn error_has_the_results_if_clients_see_the_calls() {
    for (visibility, is_told) in [("items", true), ("reasoning", false), ("off", false)] {
        let stand = Stand::new("", &format!("visibility = \"{visibility}\"")).await;
        for api in Api::ALL {
            stand.add("told", &[FAULTS[0]], true, 1);
            let reply = stand.ask(api, "plain", "told", false).await;
            assert_eq!(reply.status(), 503, "{api:?}");
            let error = reply.json().await;
            assert!(error.get("error").is_some(), "{api:?}: {error}");
            let call = &error["toolwire"]["tool_results"][0];
            assert_eq!(call.is_object(), is_told, "{api:?}: {error}");
            if is_told {
                let expected = ("search", r#"{"query":"0"}"#, r#"found {"query":"0"}"#);
                let text = |key: &str| call[key].as_str().unwrap();
                assert_eq!((text("name"), text("arguments"), text("content")), expected, "{api:?}");
            }
            // Uses the results.
            assert!(stand.ask(api, "plain", "told", false).await.rest().await.contains("Final"), "{api:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempts_of_a_repeated_request_keep_the_results_too() {
    let stand = Stand::new("", "").await;
    for model in ["again", "other"] {
        let name = format!("repeated at {model}");
        stand.add(&name, &[FAULTS[0]; 5], false, 2);
        let attempts = if model == "again" { 3 } else { 2 };
        let reply = stand.ask(Api::Messages, model, &name, true).await;
        // The attempts that the client would repeat have just been made.
        assert_eq!((reply.status().as_u16(), reply.header("x-should-retry")), (503, Some("false")));
        assert_eq!((stand.case(&name).asked.len(), stand.runs()), (1 + attempts, 1));
        stand.cases.lock().unwrap().get_mut(&name).unwrap().faults.truncate(attempts - 1);
        let body = stand.ask(Api::Messages, model, &name, true).await.rest().await;
        assert!(body.contains("Final"), "{body}");
        let case = stand.case(&name);
        assert_eq!((results(&case.last.to_string()), stand.runs()), (2, 1), "{:?}", case.asked);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_are_kept_for_their_client_alone_and_for_one_that_left() {
    let stand = Stand::with_keys("api_keys = [\"good\", \"evil\"]\n").await;
    let later = Fault::Status("429 Too Many Requests", "retry-after: 100\r\n");
    stand.add("left", &[later], true, 1);
    let ask = async |key: &str| {
        let mut request = Api::Chat.request(&stand.proxy, "again", "left", true);
        request.headers_mut().insert("authorization", format!("Bearer {key}").parse().unwrap());
        Client::new().send(request).await.unwrap()
    };
    let mut reply = ask("good").await;
    reply.until("Let me look.").await;
    soon("the second hop", async {
        while stand.case("left").asked.len() < 2 {
            sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    drop(reply);
    assert_eq!(stand.runs(), 1);
    // The response ends a moment after its client has left.
    let metrics = async || {
        let request = Request::get(stand.proxy.url("/metrics")).header("authorization", "Bearer good");
        Client::new().send(request.body(Full::default()).unwrap()).await.unwrap().rest().await
    };
    soon("the end of the response", async {
        while !metrics().await.contains("toolwire_streams_in_flight 0") {
            sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    for (key, runs) in [("evil", 1), ("good", 0), ("good", 1)] {
        let body = ask(key).await.rest().await;
        assert!(body.contains("Final"), "{key}: {body}");
        assert_eq!(stand.runs(), runs, "{key}");
    }
}

/// Results of megabytes are sent again from another thread, and are not copied for each attempt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_results_are_sent_again() {
    let stand = Stand::new("", "max_result = \"8MiB\"\nmax_results = \"16MiB\"").await;
    let name = format!("large {}", "x".repeat(300 << 10));
    stand.add(&name, &[FAULTS[0], FAULTS[2]], true, 1);
    let reply = stand.ask(Api::Responses, "again", &name, false).await;
    assert_eq!(reply.header("x-toolwire-attempts"), Some("3"));
    let body = reply.rest().await;
    assert!(body.contains("Final"), "{}", body.len());
    assert_eq!((stand.case(&name).asked.len(), stand.runs()), (4, 1));
    let counted =
        |outcome: &str| format!("toolwire_attempts_total{{target=\"again\",outcome=\"{outcome}\"}} 1");
    let metrics = Client::new().metrics_with(&stand.proxy, &counted("ok")).await;
    assert!(metrics.contains(&counted("overloaded")), "{metrics}");
}
