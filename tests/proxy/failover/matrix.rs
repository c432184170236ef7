//! Tests every fault of an upstream at every position among a model's targets, for every upstream dialect and every
//! client API, streaming and not: the upstream breaks off, sends an error or ends silently, both before and after
//! content; the client disconnects; a character is split in two.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    independent::{client, messages, responses, upstream::Speech},
    support::{
        client::{Client, Reply},
        proxy::Proxy,
        soon,
        upstream::{Exchange, Upstream},
    },
};

/// A position among the targets of a model.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// How many targets come before this one. All of them are down.
    down: usize,
    is_last: bool,
}

const PLACES: [Place; 4] = [
    Place { down: 0, is_last: false },
    Place { down: 1, is_last: false },
    Place { down: 2, is_last: false },
    Place { down: 2, is_last: true },
];

/// What the last target says.
const OTHER: &str = "from the other";

/// What a target says first, with characters of every UTF-8 length.
const FIRST: &str = "first é→🙂";

/// What a target does. Its model is named after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// Breaks off after the head.
    DiesSilent,
    /// Breaks off after the events that open a response.
    DiesOpened,
    /// Sends an error at once.
    Error,
    /// Opens a response, then sends an error and ends it.
    ErrorOpened,
    /// Opens a response and ends it without content.
    Ends,
    /// Opens a response and then sends nothing until the client disconnects.
    Left,
    /// Breaks off after content.
    DiesLate,
    /// Sends an error after content.
    ErrorLate,
    /// Ends the body after content, without an end marker.
    EndsLate,
    /// Sends nothing after some content, until the client disconnects.
    LeftLate,
    /// Not a fault: splits characters between pieces.
    Cut,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// The next target answers.
    Next,
    /// The response fails with an error in the client's API.
    Fails,
    /// The response fails without any text, and must not be retried.
    FailsEmpty,
    /// The client disconnects, and no other target gets a request.
    Left,
    Answers,
}

impl Fault {
    const ALL: [Self; 11] = [
        Self::DiesSilent,
        Self::DiesOpened,
        Self::Error,
        Self::ErrorOpened,
        Self::Ends,
        Self::Left,
        Self::DiesLate,
        Self::ErrorLate,
        Self::EndsLate,
        Self::LeftLate,
        Self::Cut,
    ];

    fn outcome(self, place: Place) -> Outcome {
        match self {
            Self::DiesSilent | Self::DiesOpened | Self::Error | Self::ErrorOpened | Self::Ends => {
                if place.is_last { Outcome::FailsEmpty } else { Outcome::Next }
            }
            Self::DiesLate | Self::ErrorLate | Self::EndsLate => Outcome::Fails,
            Self::Left | Self::LeftLate => Outcome::Left,
            Self::Cut => Outcome::Answers,
        }
    }
}

const SPEECHES: [Speech; 7] = [
    Speech::LumoV2,
    Speech::Chat,
    Speech::Messages,
    Speech::Responses,
    Speech::Gemini,
    Speech::Interactions,
    Speech::OllamaChat,
];

/// Returns the dialect's name, and settings with which it always streams.
fn dialect(speech: Speech) -> (&'static str, &'static str) {
    match speech {
        Speech::LumoV2 => ("lumo", ""),
        Speech::Chat => ("chat", "[upstreams.chat]\nstream = \"always\"\n"),
        Speech::Messages => ("messages", ""),
        Speech::Responses => ("responses", ""),
        Speech::Gemini => ("gemini", ""),
        Speech::Interactions => ("interactions", ""),
        Speech::OllamaChat => ("ollama", ""),
        other => panic!("{other:?}"),
    }
}

/// The requests in one cell of the matrix in the order of arrival, and how many are in progress.
#[derive(Debug, Default)]
struct Seen {
    asked: Vec<String>,
    open: usize,
    most_open: usize,
}

type Shared = Arc<Mutex<Seen>>;

/// Waits until no request is in progress, since an upstream may notice a closed connection only after the next
/// request has arrived. Gives up after a while, so a connection that is left open is still found.
async fn settled(seen: &Shared) {
    for _ in 0..1000 {
        if seen.lock().unwrap().open == 0 {
            return;
        }
        sleep(Duration::from_millis(2)).await;
    }
}

/// Answers with the fault or the text that the name of the model asks for.
async fn answer(mut exchange: Exchange, (speech, seen): (Speech, Shared)) -> Exchange {
    settled(&seen).await;
    let name = asked_model(&exchange);
    let fault = Fault::ALL.into_iter().find(|fault| format!("{fault:?}") == name);
    {
        let mut seen = seen.lock().unwrap();
        seen.asked.push(name.clone());
        seen.open += 1;
        seen.most_open = seen.most_open.max(seen.open);
    }
    // A complete response stops counting before it is sent, since the proxy may send its next request before this
    // function returns.
    let is_complete =
        matches!(fault, None | Some(Fault::Cut | Fault::Error | Fault::ErrorOpened | Fault::Ends));
    if is_complete {
        seen.lock().unwrap().open -= 1;
    }
    match fault {
        Some(fault) => fail(&mut exchange, speech, fault).await,
        None if name == "other" => {
            exchange.begin().await;
            exchange.piece(speech.says(&[OTHER], "stop")).await;
            exchange.end().await;
        }
        None => {
            let body = r#"{"error":{"message":"down"}}"#;
            exchange.whole("503 Service Unavailable", "content-type: application/json\r\n", body).await;
        }
    }
    if !is_complete {
        seen.lock().unwrap().open -= 1;
    }
    exchange
}

/// Returns the upstream's name for the model. Lumo has no model names, so a header contains it.
fn asked_model(exchange: &Exchange) -> String {
    exchange.header("x-target").map_or_else(
        || {
            let body: Value = serde_json::from_slice(&exchange.body).unwrap();
            body["model"].as_str().unwrap().to_owned()
        },
        |name| {
            Fault::ALL
                .iter()
                .map(|fault| format!("{fault:?}"))
                .find(|fault| fault.to_lowercase() == name)
                .unwrap()
        },
    )
}

async fn fail(exchange: &mut Exchange, speech: Speech, fault: Fault) {
    let error = || json!(["err", {"message": "busy", "type": "overloaded_error"}]);
    let events = match fault {
        Fault::DiesSilent => vec![],
        Fault::DiesOpened | Fault::Ends | Fault::Left => speech.stream(&[]),
        Fault::Error => error_alone(speech),
        Fault::ErrorOpened => speech.stream(&[error()]),
        Fault::DiesLate | Fault::EndsLate | Fault::LeftLate => speech.stream(&[json!(["m", FIRST])]),
        Fault::ErrorLate => speech.stream(&[json!(["m", FIRST]), error()]),
        Fault::Cut => speech.says(&[FIRST, FIRST], "stop"),
    };
    exchange.begin().await;
    match fault {
        Fault::Cut => {
            // Splits only in front of continuation bytes, that is, within characters.
            for piece in events.chunk_by(|_, next| next & 0xc0 != 0x80) {
                exchange.piece(piece).await;
            }
        }
        _ if events.is_empty() => {}
        _ => _ = exchange.piece(events).await,
    }
    match fault {
        Fault::Left | Fault::LeftLate => exchange.gone().await,
        Fault::DiesSilent | Fault::DiesOpened | Fault::DiesLate => {}
        _ => exchange.end().await,
    }
}

/// The event of an error without the events that open a response.
fn error_alone(speech: Speech) -> Vec<u8> {
    let error = json!(["err", {"message": "busy", "type": "overloaded_error"}]);
    let (opening, whole) = (speech.stream(&[]), speech.stream(&[error]));
    whole[opening.len()..].to_vec()
}

#[derive(Debug, Clone, Copy)]
enum Api {
    Chat,
    Messages,
    Responses,
}

impl Api {
    const ALL: [Self; 3] = [Self::Chat, Self::Messages, Self::Responses];

    fn request(self, proxy: &Proxy, model: &str, stream: bool) -> Request<Full<bytes::Bytes>> {
        let turns = json!([{"role": "user", "content": "hi"}]);
        let (path, body) = match self {
            Self::Chat => ("/v1/chat/completions", json!({"messages": turns})),
            Self::Messages => ("/v1/messages", json!({"messages": turns, "max_tokens": 9})),
            Self::Responses => ("/v1/responses", json!({"input": "hi", "store": false})),
        };
        let mut body = body;
        body["model"] = model.into();
        body["stream"] = stream.into();
        let request = Request::post(proxy.url(path)).header("content-type", "application/json");
        request.body(Full::new(body.to_string().into())).unwrap()
    }

    async fn read(self, reply: Reply, stream: bool) -> client::Answer {
        let status = reply.status().as_u16();
        let body = reply.bytes().await;
        let is_stream = stream && status == 200;
        match self {
            Self::Chat if is_stream => client::Answer::of_stream(&body),
            Self::Chat => client::Answer::of_body(&body, status),
            Self::Messages if is_stream => messages::of_stream(&body),
            Self::Messages => messages::of_body(&body, status),
            Self::Responses if is_stream => responses::of_stream(&body),
            Self::Responses => responses::of_body(&body, status),
        }
    }
}

/// Returns the name of the model that has a target with this fault at this position.
fn model(speech: Speech, fault: Fault, Place { down, is_last }: Place) -> String {
    format!("{speech:?}-{fault:?}-{down}-{is_last}")
}

fn down(place: Place) -> impl Iterator<Item = String> {
    (0..place.down).map(|at| format!("down-{at}"))
}

/// Creates all models of the matrix, with one upstream per dialect.
async fn matrix(seen: &Shared) -> (Vec<Upstream>, Proxy) {
    let (mut upstreams, mut config) = (Vec::new(), "[failover]\neject_after = 1000000\n".to_owned());
    let mut models = HashMap::new();
    for speech in SPEECHES {
        let upstream = Upstream::start_sharing((speech, Arc::clone(seen)), answer).await;
        let (address, (dialect, settings)) = (upstream.address, dialect(speech));
        for fault in Fault::ALL {
            let name = format!("{speech:?}-{fault:?}");
            config += &format!(
                "[[upstreams]]\nname = \"{name}\"\ndialect = \"{dialect}\"\nbase_url = \"http://{address}\"\n\
                 headers = {{ x-target = \"{fault:?}\" }}\n{settings}"
            );
            models.insert(name.clone(), format!("upstream = \"{name}\"\n"));
            for place in PLACES {
                let others = (!place.is_last).then(|| "other".to_owned());
                let targets: Vec<_> = down(place).chain([name.clone()]).chain(others).collect();
                models.insert(model(speech, fault, place), format!("targets = {targets:?}\n"));
            }
        }
        upstreams.push(upstream);
    }
    let others = Upstream::start_sharing((Speech::Chat, Arc::clone(seen)), answer).await;
    config += &format!(
        "[[upstreams]]\nname = \"others\"\ndialect = \"chat\"\nbase_url = \"http://{}\"\n\
         [upstreams.chat]\nstream = \"always\"\n",
        others.address
    );
    upstreams.push(others);
    for name in PLACES.into_iter().flat_map(down).chain(["other".to_owned()]) {
        models.insert(name, "upstream = \"others\"\n".to_owned());
    }
    for (name, keys) in models {
        config += &format!("[[models]]\nname = \"{name}\"\n{keys}");
    }
    (upstreams, Proxy::of(&config))
}

/// Sends the request, and disconnects once the target has received it or, if the fault comes after content, once
/// the content has arrived.
async fn leave(
    request: Request<Full<bytes::Bytes>>,
    (stream, fault): (bool, Fault),
    seen: &Shared,
    place: Place,
) {
    let client = Client::new();
    let asked = async {
        let mut reply = client.send(request).await.unwrap();
        if stream && fault == Fault::LeftLate {
            reply.until("first").await;
            return;
        }
        panic!("nobody answers: {}", reply.status());
    };
    let is_asked = async {
        while seen.lock().unwrap().asked.len() <= place.down {
            sleep(Duration::from_millis(2)).await;
        }
        if stream && fault == Fault::LeftLate {
            std::future::pending().await
        }
    };
    tokio::select! { () = asked => {}, () = soon("the target is asked", is_asked) => {} }
    drop(client);
    // Waits until the upstream has noticed the closed connection.
    soon("the upstream's request is cancelled", async {
        while seen.lock().unwrap().open > 0 {
            sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_fault_at_every_place_in_every_dialect_is_honest_and_asks_no_two_models_at_once() {
    let seen = Shared::default();
    let (_upstreams, proxy) = matrix(&seen).await;
    for speech in SPEECHES {
        for (fault, place) in Fault::ALL.into_iter().flat_map(|fault| PLACES.map(|place| (fault, place))) {
            for (api, stream) in Api::ALL.into_iter().flat_map(|api| [(api, true), (api, false)]) {
                let cell = format!("{speech:?} {fault:?} at {place:?}, {api:?} stream={stream}");
                settled(&seen).await;
                *seen.lock().unwrap() = Seen::default();
                let request = api.request(&proxy, &model(speech, fault, place), stream);
                let outcome = fault.outcome(place);
                if outcome == Outcome::Left {
                    leave(request, (stream, fault), &seen, place).await;
                } else {
                    let reply = Client::new().send(request).await.unwrap();
                    let attempts = place.down + if outcome == Outcome::Next { 2 } else { 1 };
                    let count = attempts.to_string();
                    assert_eq!(reply.header("x-toolwire-attempts"), Some(count.as_str()), "{cell}");
                    if outcome == Outcome::FailsEmpty && reply.status() != 200 {
                        assert_eq!(reply.header("x-should-retry"), Some("false"), "{cell}");
                    }
                    check(outcome, &api.read(reply, stream).await, stream, &cell);
                }
                let seen = seen.lock().unwrap();
                let mut expected: Vec<_> = down(place).collect();
                expected.push(format!("{fault:?}"));
                expected.extend((outcome == Outcome::Next).then(|| "other".to_owned()));
                assert_eq!((&seen.asked, seen.most_open), (&expected, 1), "{cell}");
            }
        }
    }
}

fn check(outcome: Outcome, answer: &client::Answer, stream: bool, cell: &str) {
    match outcome {
        Outcome::Next => {
            let client::Answer { text, finish, error, done, status, .. } = answer;
            assert_eq!((text.as_str(), finish.as_deref(), error), (OTHER, Some("stop"), &None), "{cell}");
            assert_eq!((*status, *done || !stream), (200, true), "{cell}");
        }
        Outcome::Fails if stream => {
            assert_eq!((answer.text.as_str(), answer.status), (FIRST, 200), "{cell}");
            assert!(answer.error.is_some() && answer.finish.is_none(), "{cell}: {answer:?}");
        }
        Outcome::Fails => assert!(answer.error.is_some() && answer.status >= 500, "{cell}: {answer:?}"),
        Outcome::FailsEmpty => {
            assert!(answer.error.is_some() && answer.finish.is_none(), "{cell}: {answer:?}");
            assert_eq!((answer.text.as_str(), answer.done), ("", false), "{cell}: {answer:?}");
        }
        Outcome::Answers => {
            let text = FIRST.repeat(2);
            assert_eq!((answer.text.as_str(), answer.error.as_ref()), (text.as_str(), None), "{cell}");
            assert_eq!((answer.finish.as_deref(), answer.status), (Some("stop"), 200), "{cell}");
        }
        Outcome::Left => {}
    }
}
