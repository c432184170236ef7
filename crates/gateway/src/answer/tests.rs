//! Tests what happens between two hops, while the decision is pending. Upstream connections are in-memory HTTP/2 pipes,
//! and the clock is paused.

use std::{
    sync::{Arc, Mutex},
    thread::{self, ThreadId},
};

use http::StatusCode;
use http_body_util::BodyExt;
use tokio::{sync::oneshot, time::Instant};

use super::*;
use crate::{
    budget::{Budget, Reservation},
    drain::Drain,
    hops::{Continuation, DecideHop, Deciding, NextHop},
    large::LARGE,
    observe::{Attempt, Metrics},
    permits::Claimant,
    upstream::{
        Client,
        tests::{Asked, Server, client, upstream},
    },
};
use toolwire_config::Upstream;
use toolwire_pipeline::{
    conversation::{Role, Turn},
    dialect::{
        Answering, ClientDialect, Dialect, Reader, ReaderRules, Stamp, UpstreamDialect, UpstreamRequest,
    },
    format::KnownFormats,
    pipeline::{FollowUp, Pipeline},
    rules::{Misroute, Rules},
};

const REQUEST: &[u8] = br#"{"model":"m","stream":true,"messages":[{"role":"user","content":"weather?"}],
    "tools":[{"type":"function","function":{"name":"weather","parameters":{"type":"object",
    "properties":{"city":{"type":"string"}},"required":["city"]}}}]}"#;

/// A hop whose call lacks an argument, so that another hop must follow.
const INCOMPLETE: &str = "data: {\"object\":\"chat.tool_call\",\"tool_call\":{\"id\":\"n1\",\"name\":\"weather\",\
    \"arguments\":\"{}\"}}\n\ndata: [DONE]\n\n";

const COMPLETE: &str = "data: {\"object\":\"chat.tool_call\",\"tool_call\":{\"id\":\"n2\",\"name\":\"weather\",\
    \"arguments\":\"{\\\"city\\\":\\\"Paris\\\"}\"}}\n\ndata: [DONE]\n\n";

/// A decision that a test completes explicitly.
#[derive(Debug)]
struct Slow(Mutex<Option<oneshot::Receiver<Result<Continuation, Failure>>>>, Arc<Mutex<Vec<ThreadId>>>);

impl DecideHop for Slow {
    fn decide(&mut self, follow_up: FollowUp) -> Deciding {
        assert!(follow_up.turns[0].joined_text().contains("`city` are missing"));
        let decided = self.0.lock().unwrap().take().expect("one decision");
        Box::pin(async { decided.await.unwrap() })
    }

    /// Asks for a second request, but not for a third.
    fn refused(&mut self, _: StatusCode, _: &[u8]) -> bool {
        self.1.lock().unwrap().is_empty()
    }

    fn make(&mut self) -> Result<(UpstreamRequest, Reader), Failure> {
        self.1.lock().unwrap().push(std::thread::current().id());
        Ok((request(), reader()))
    }
}

type Decide = oneshot::Sender<Result<Continuation, Failure>>;

/// An upstream with one slot. It answers the first request of a response with [`INCOMPLETE`], and later ones with
/// [`COMPLETE`].
fn server() -> Arc<Server> {
    Server::answering(100, |asked: Asked| async move {
        let body = if asked.request == 0 { INCOMPLETE } else { COMPLETE };
        asked.say(body);
    })
}

fn client_of(server: &Arc<Server>, change: impl FnOnce(&mut Upstream)) -> Arc<Client> {
    let mut upstream = upstream();
    upstream.queue.max_concurrent = 1;
    upstream.queue.max_waiting = 10;
    change(&mut upstream);
    client(server, upstream)
}

fn reader() -> Reader {
    let lumo = UpstreamDialect::try_from(Dialect::Lumo).unwrap();
    let rules = ReaderRules { max_frame: 1 << 20, tolerate_truncation: false, client: Dialect::Chat };
    lumo.side().reader(&rules)
}

fn request() -> UpstreamRequest {
    UpstreamRequest {
        body: Bytes::from_static(b"{}"),
        path: None,
        dropped: Vec::new(),
        stream: true,
        prefill: None,
        key: None,
    }
}

/// Returns a response whose first hop is in progress, and the sender of its decision.
async fn answer(client: &Arc<Client>) -> (Pin<Box<AnswerBody>>, Decide) {
    answer_to(0, client, &Arc::default()).await
}

/// Like [`answer`], for a request of `size` bytes. `made` collects the threads on which later requests are built.
async fn answer_to(
    size: usize,
    client: &Arc<Client>,
    made: &Arc<Mutex<Vec<ThreadId>>>,
) -> (Pin<Box<AnswerBody>>, Decide) {
    let side = ClientDialect::Chat.side();
    let conversation = side.decode(REQUEST).unwrap();
    let answering = Answering::new(&conversation, Stamp { seed: 1, created: 1 });
    let rules = Rules { misroute: Misroute::Bounce, ..Rules::default() };
    let writer = side.writer(&answering);
    let pipeline =
        Pipeline::new(&conversation, &rules, KnownFormats::built_in(), reader(), writer, &answering);
    let (decide, decided) = oneshot::channel();
    let asked = AskedModel {
        client: Arc::clone(client),
        stage: Stage::Opening(Arc::clone(client).begin(request(), Claimant::Own).await),
        hops: Some(Box::new(Slow(Mutex::new(Some(decided)), Arc::clone(made)))),
        size,
        claimant: Claimant::Own,
        left_out: Vec::new(),
        pipeline: Box::new(pipeline),
    };
    let observers = ModelObservers { attempt: Some(Attempt::untraced(true)), ..ModelObservers::none() };
    let parts = Parts {
        stream: true,
        allowance: None,
        memory: Reservation::new(&Arc::new(Budget::new(1 << 20))),
        exchange: StartedExchange { asked, observers },
        attempts: None,
    };
    let access = Access::new(Arc::new(Metrics::new(false)), "r".to_owned(), http::Method::POST, "/", "chat");
    (Box::pin(AnswerBody::new(parts, access, Duration::from_secs(15), Drain::default().when_cut())), decide)
}

fn next() -> Result<Continuation, Failure> {
    next_with(Vec::new())
}

fn next_with(turns: Vec<Turn>) -> Result<Continuation, Failure> {
    Ok(Continuation::Ask(NextHop { turns, shown: Vec::new() }))
}

async fn commit(answer: &mut Pin<Box<AnswerBody>>) -> Result<(), Failure> {
    std::future::poll_fn(|cx| answer.as_mut().poll_commit(cx)).await
}

async fn rest(answer: Pin<Box<AnswerBody>>) -> String {
    let bytes = answer.collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn client_gets_keep_alives_while_a_decision_is_pending() {
    let client = client_of(&server(), |_| {});
    let (mut answer, decide) = answer(&client).await;
    let begun = Instant::now();
    commit(&mut answer).await.unwrap();
    // The idle timeout does not apply while nothing is expected from the upstream.
    assert_eq!(begun.elapsed(), Duration::from_secs(15));
    let decision = async {
        tokio::time::sleep(Duration::from_secs(50)).await;
        decide.send(next()).unwrap();
    };
    let (body, ()) = tokio::join!(rest(answer), decision);
    assert_eq!(body.matches(": keep-alive\n\n").count(), 4, "{body}");
    assert!(body.contains("Paris") && body.ends_with("data: [DONE]\n\n"), "{body}");
}

#[tokio::test(start_paused = true)]
async fn pending_decision_leaves_the_slot_to_others() {
    let client = client_of(&server(), |_| {});
    let (mut first, decide) = answer(&client).await;
    commit(&mut first).await.unwrap();
    // The second response takes the only slot, which the first one has released and must wait for.
    let (mut second, _) = answer(&client).await;
    commit(&mut second).await.unwrap();
    decide.send(next()).unwrap();
    let mut waiting = Box::pin(rest(first));
    let mut cx = Context::from_waker(std::task::Waker::noop());
    assert!(waiting.as_mut().poll(&mut cx).is_pending());
    assert!(rest(second).await.contains("Paris"));
    assert!(waiting.await.contains("Paris"));
}

/// The queue's limit does not apply to a response in progress.
#[tokio::test(start_paused = true)]
async fn later_hop_enters_a_full_queue() {
    let client = client_of(&server(), |upstream| upstream.queue.max_waiting = 0);
    let (mut first, decide) = answer(&client).await;
    commit(&mut first).await.unwrap();
    let (second, _) = answer(&client).await;
    decide.send(next()).unwrap();
    let (first, second) = tokio::join!(rest(first), rest(second));
    assert!(first.contains("Paris") && second.contains("Paris"), "{first} {second}");
}

#[tokio::test(start_paused = true)]
async fn decision_may_end_the_response() {
    let client = client_of(&server(), |_| {});
    let (answer, decide) = answer(&client).await;
    decide.send(Ok(Continuation::End(None))).unwrap();
    let body = rest(answer).await;
    assert!(body.contains("\"id\":\"n1\"") && body.contains("\"finish_reason\":\"tool_calls\""), "{body}");
    assert!(body.ends_with("data: [DONE]\n\n"), "{body}");
}

#[tokio::test(start_paused = true)]
async fn failed_decision_before_any_content_has_its_status() {
    let client = client_of(&server(), |_| {});
    let (mut answer, decide) = answer(&client).await;
    decide.send(Err(Failure::new(Kind::Overloaded, "no tool is free"))).unwrap();
    assert_eq!(commit(&mut answer).await.unwrap_err().status(), 503);
}

#[tokio::test(start_paused = true)]
async fn total_timeout_applies_to_a_pending_decision() {
    let total = Duration::from_secs(40);
    let client = client_of(&server(), |upstream| upstream.timeouts.total = Some(total));
    let (answer, _decide) = answer(&client).await;
    let begun = Instant::now();
    let body = rest(answer).await;
    assert_eq!(begun.elapsed(), total);
    assert!(body.contains("whole response") && !body.contains("finish_reason\":\"tool_calls"), "{body}");
}

/// The size includes what the hop adds to the request.
#[tokio::test(start_paused = true)]
async fn large_request_of_another_hop_is_made_apart() {
    for (size, more, is_apart) in [
        (0, 0, false),
        (LARGE - 1, 0, false),
        (LARGE, 0, true),
        (LARGE - 10, 9, false),
        (LARGE - 10, 10, true),
    ] {
        let (client, made) = (client_of(&server(), |_| {}), Arc::default());
        let (answer, decide) = answer_to(size, &client, &made).await;
        decide.send(next_with(vec![Turn::text(Role::User, "x".repeat(more))])).unwrap();
        assert!(rest(answer).await.contains("Paris"));
        let made = made.lock().unwrap();
        let apart: Vec<_> = made.iter().map(|made| *made != thread::current().id()).collect();
        assert_eq!(apart, [is_apart], "{size} + {more}");
    }
}

#[tokio::test(start_paused = true)]
async fn large_request_in_place_of_a_refused_one_is_made_apart() {
    for (size, is_apart) in [(LARGE - 1, false), (LARGE, true)] {
        let server = Server::answering(100, |asked: Asked| async move {
            match asked.request {
                0 => asked.refuse(StatusCode::BAD_REQUEST),
                _ => asked.say(COMPLETE),
            }
        });
        let (client, made) = (client_of(&server, |_| {}), Arc::default());
        let (answer, _decide) = answer_to(size, &client, &made).await;
        assert!(rest(answer).await.contains("Paris"));
        let made = made.lock().unwrap();
        let apart: Vec<_> = made.iter().map(|made| *made != thread::current().id()).collect();
        assert_eq!(apart, [is_apart], "{size}");
    }
}

#[tokio::test(start_paused = true)]
async fn large_request_that_cannot_be_made_fails_the_response() {
    let (client, made) = (client_of(&server(), |_| {}), Arc::new(Mutex::new(Vec::new())));
    let (mut answer, decide) = answer_to(LARGE, &client, &made).await;
    let lock = Arc::clone(&made);
    let poisoned = thread::spawn(move || {
        let _lock = lock.lock().unwrap();
        panic!("on purpose");
    });
    assert!(poisoned.join().is_err());
    decide.send(next()).unwrap();
    assert_eq!(commit(&mut answer).await.unwrap_err().kind(), Kind::Internal);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_body_drops_the_pending_decision() {
    let client = client_of(&server(), |_| {});
    let (mut answer, mut decide) = answer(&client).await;
    commit(&mut answer).await.unwrap();
    assert!(!decide.is_closed());
    drop(answer);
    decide.closed().await;
}
