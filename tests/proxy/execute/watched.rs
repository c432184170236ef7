//! Tests what an operator sees of the model requests and tool calls within a response: spans, log lines, events and
//! metrics.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Debug,
    sync::{Arc, Mutex, OnceLock},
};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use tokio::time::{Duration, sleep};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{
    Layer,
    filter::{LevelFilter, Targets},
    layer::{Context, SubscriberExt},
    registry::LookupSpan,
};

use super::script::{Asked, TOOLS, call, end, text, upstream};
use crate::support::{
    client::Client,
    proxy::{Proxy, Setup},
    soon,
    upstream::Upstream,
};

type Fields = BTreeMap<String, String>;

/// A span or a log line.
#[derive(Debug, Clone, Default)]
struct Seen {
    name: &'static str,
    fields: Fields,
    /// The index of the parent span.
    parent: Option<usize>,
}

#[derive(Debug, Default)]
struct All {
    seen: Vec<Seen>,
    /// Maps the ID of each open span to its index.
    open: HashMap<u64, usize>,
}

/// Records the spans and the access log of the whole process, since tools run on another thread.
#[derive(Debug, Clone, Default)]
struct Recorder(Arc<Mutex<All>>);

struct Reading<'f>(&'f mut Fields);

impl Visit for Reading<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Recorder {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let parent = match attributes.is_contextual() {
            true => context.lookup_current().map(|span| span.id()),
            false => attributes.parent().cloned(),
        };
        let mut all = self.0.lock().unwrap();
        let parent = parent.and_then(|parent| all.open.get(&parent.into_u64()).copied());
        let mut seen = Seen { name: attributes.metadata().name(), fields: Fields::new(), parent };
        attributes.record(&mut Reading(&mut seen.fields));
        let place = all.seen.len();
        all.open.insert(id.into_u64(), place);
        all.seen.push(seen);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        let mut all = self.0.lock().unwrap();
        if let Some(place) = all.open.get(&id.into_u64()).copied() {
            values.record(&mut Reading(&mut all.seen[place].fields));
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() == "toolwire::access" {
            let mut seen = Seen { name: "line", ..Seen::default() };
            event.record(&mut Reading(&mut seen.fields));
            self.0.lock().unwrap().seen.push(seen);
        }
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        self.0.lock().unwrap().open.remove(&id.into_u64());
    }
}

fn recorder() -> &'static Recorder {
    static RECORDER: OnceLock<Recorder> = OnceLock::new();
    RECORDER.get_or_init(|| {
        let recorder = Recorder::default();
        let own = Targets::new().with_target("toolwire", LevelFilter::DEBUG);
        let subscriber = tracing_subscriber::registry().with(recorder.clone().with_filter(own));
        tracing::subscriber::set_global_default(subscriber).unwrap();
        recorder
    })
}

impl Recorder {
    /// Returns the request's span, all spans within it, and its log lines.
    fn of(&self, id: &str) -> (Vec<Seen>, Vec<Seen>) {
        let all = self.0.lock().unwrap();
        let is_own = |seen: &&Seen| {
            ["id", "request_id"]
                .iter()
                .filter_map(|key| seen.fields.get(*key))
                .any(|own| own.split(':').next() == Some(id))
        };
        let first = all.seen.iter().position(|seen| is_own(&seen)).unwrap_or_default();
        // Makes indices relative to the request's span.
        let mut places = HashMap::new();
        let (mut spans, mut lines) = (Vec::new(), Vec::new());
        for (place, seen) in all.seen.iter().enumerate().skip(first).filter(|(_, seen)| is_own(seen)) {
            if seen.name == "line" {
                lines.push(seen.clone());
                continue;
            }
            places.insert(place, spans.len());
            let parent = seen.parent.and_then(|parent| places.get(&parent).copied());
            spans.push(Seen { parent, ..seen.clone() });
        }
        (spans, lines)
    }

    /// Waits until the request's log line has been written, then returns the result of [`All::of`].
    async fn ended(&self, id: &str) -> (Vec<Seen>, Vec<Seen>) {
        let ended = async {
            loop {
                let (spans, lines) = self.of(id);
                if lines.iter().any(|line| line.fields.get("id").is_some_and(|own| own == id)) {
                    return (spans, lines);
                }
                sleep(Duration::from_millis(5)).await;
            }
        };
        soon("the line of the request", ended).await
    }
}

/// Sends a request with an image for a model without vision, which also calls hosted tools.
async fn asked(proxy: &Proxy, id: &str) -> Value {
    let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgphYmM="}});
    let content = json!([{"type": "text", "text": "What is it?"}, image]);
    let body = json!({"model": "m", "messages": [{"role": "user", "content": content}]});
    let request = Request::post(proxy.url("/v1/chat/completions"))
        .header("content-type", "application/json")
        .header("x-request-id", id);
    let request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
    Client::new().send(request).await.unwrap().json().await
}

async fn proxy(streams: impl IntoIterator<Item = String>, settings: &str) -> (Proxy, Upstream, Asked) {
    let (upstream, asked) = upstream(streams).await;
    let mut setup = Setup::new(upstream.address);
    setup.vision = Some("org/other");
    setup.execution = format!("[execution]\n{settings}\n{TOOLS}");
    (setup.start().await, upstream, asked)
}

/// The description of the image, a hop with two calls, and the answer.
fn streams() -> [String; 3] {
    let calls = call(0, "call_0", "search", r#"{"query":"fox"}"#) + &call(1, "call_1", "broken", "{}");
    [text("a red fox") + &end("stop"), calls + &end("tool_calls"), text("A fox.") + &end("stop")]
}

#[tokio::test]
async fn spans_show_the_request_its_hops_and_their_tools() {
    let recorder = recorder();
    let (proxy, _upstream, _) = proxy(streams(), "").await;
    let id = "spans-of-one-request";
    assert_eq!(asked(&proxy, id).await["choices"][0]["message"]["content"], "A fox.");
    let (spans, lines) = recorder.ended(id).await;
    let field = |seen: &Seen, key: &str| seen.fields.get(key).cloned().unwrap_or_default();
    let shown: Vec<_> = spans
        .iter()
        .map(|span| {
            let parent =
                span.parent.map(|parent| spans[parent].fields.get("id").cloned().unwrap_or_default());
            let what =
                ["purpose", "model", "upstream", "tool", "provider", "outcome"].map(|key| field(span, key));
            let id = field(span, "id");
            (span.name, id, parent, what.join(" ").split_whitespace().collect::<Vec<_>>().join(" "))
        })
        .collect();
    let hop = |number: usize| format!("{id}:hop{number}");
    let request = || Some(id.to_owned());
    let calls = || Some(hop(1));
    assert_eq!(
        shown,
        [
            ("request", id.to_owned(), None, "m up done".to_owned()),
            ("hop", hop(1), request(), "vision org/other up stop".to_owned()),
            ("hop", hop(1), request(), "m up calls".to_owned()),
            ("hosted_call", String::new(), calls(), "search search ok".to_owned()),
            ("hosted_call", String::new(), calls(), "broken broken provider_error".to_owned()),
            ("hop", hop(2), request(), "m up stop".to_owned()),
        ]
    );
    let ids: Vec<_> = spans.iter().filter_map(|span| span.fields.get("call_id")).collect();
    assert_eq!(ids.len(), 2);
    assert_ne!(ids[0], ids[1]);
    let lines: Vec<_> =
        lines.iter().map(|line| (field(line, "id"), field(line, "end"), field(line, "hops"))).collect();
    let line = |id: String, end: &str, hops: &str| (id, end.to_owned(), hops.to_owned());
    assert_eq!(
        lines,
        [
            line(hop(1), "stop", ""),
            line(hop(1), "calls", ""),
            line(hop(2), "stop", ""),
            line(id.to_owned(), "done", "2")
        ]
    );
}

#[tokio::test]
async fn events_and_metrics_count_questions_to_models_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let (mut proxy, _upstream, _) = proxy(streams(), &format!("audit = \"{}\"", path.display())).await;
    asked(&proxy, "events-of-one-request").await;
    let metrics = Client::new().get(&proxy, "/metrics").await.rest().await;
    for (direction, model, count) in
        [("input", "m", 20), ("output", "m", 6), ("input", "org/other", 10), ("output", "org/other", 3)]
    {
        let line = format!(
            "toolwire_tokens_total{{direction=\"{direction}\",model=\"{model}\",upstream=\"up\"}} {count}\n"
        );
        assert!(metrics.contains(&line), "{line} {metrics}");
    }
    proxy.stop();
    proxy.ended().await;
    drop(proxy);
    let text = std::fs::read_to_string(path).unwrap();
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let hops = |name: &str| {
        let of_name = events.iter().filter(|event| event["event"] == name);
        let parts = of_name.map(|event| {
            assert_eq!(event["request"], "events-of-one-request");
            (
                event["id"].as_str().unwrap().to_owned(),
                event["purpose"].as_str().unwrap_or_default().to_owned(),
            )
        });
        parts.collect::<Vec<_>>()
    };
    let hop =
        |number: usize, purpose: &str| (format!("events-of-one-request:hop{number}"), purpose.to_owned());
    let expected = [hop(1, "vision"), hop(1, ""), hop(2, "")];
    assert_eq!(hops("hop_start"), expected);
    assert_eq!(hops("hop_end"), expected);
    let ends = events.iter().filter(|event| event["event"] == "hop_end");
    assert!(
        ends.clone().all(|end| end["usage"] == json!({"input_tokens": 10, "output_tokens": 3})),
        "{text}"
    );
    assert_eq!(
        ends.map(|end| end["finish"].as_str().unwrap()).collect::<Vec<_>>(),
        ["stop", "calls", "stop"]
    );
}

/// Metric labels must not contain tool names that a model has invented.
#[tokio::test]
async fn spellings_of_a_model_are_no_series() {
    let spelled = |name: &str| call(0, "c", name, r#"{"query":1}"#) + &end("tool_calls");
    let names = ["SEARCH", "default_api:search"];
    let streams = names.iter().map(|name| spelled(name)).chain([text("Done.") + &end("stop")]);
    let streams = std::iter::once(text("a fox") + &end("stop")).chain(streams);
    let (proxy, _upstream, requests) = proxy(streams, "").await;
    asked(&proxy, "spellings").await;
    assert_eq!(requests.lock().unwrap().len(), 4);
    let metrics = Client::new().get(&proxy, "/metrics").await.rest().await;
    let series: Vec<_> =
        metrics.lines().filter(|line| line.starts_with("toolwire_hosted_calls_total{")).collect();
    assert!(
        series.iter().all(|line| line.contains("tool=\"search\"") || line.contains("tool=\"other\"")),
        "{series:?}"
    );
    assert!(
        series.iter().any(|line| line.contains("invalid_arguments") && line.ends_with(" 2")),
        "{series:?}"
    );
}
