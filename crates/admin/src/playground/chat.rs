//! [`Chat`]: the contents of one chat so far, which the page's connections read.

use std::{
    collections::VecDeque,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{sync::Notify, time::timeout};

use super::{CLIENT, ChatRequest, GRACE, SessionMark};
use toolwire_execution::{ExchangeId, audit::unix_millis};
use toolwire_gateway::feed_body::FeedSource;
use toolwire_net::{redact::Redactor, untrusted_text::printable_json};

/// Maximum number of bytes stored for one chat. Beyond it, the start of the chat is dropped.
const MAX_KEPT: usize = 1 << 20;

/// Maximum number of bytes of text in one part.
const MAX_PART: usize = 32 << 10;

/// Memory overhead of a part in bytes.
const PART: usize = 64;

/// Maximum number of bytes passed to a reader at once, unless a single event is longer.
const MAX_PIECE: usize = 64 << 10;

/// A chat, written by its task and read by the page's connections.
#[derive(Debug)]
pub(crate) struct Chat {
    id: Arc<str>,
    mark: SessionMark,
    /// Masks configured secrets, which must not reach a browser even if an upstream repeats them.
    redactor: Redactor,
    content: Mutex<ChatContent>,
    /// Wakes the task when readers connect or disconnect, and when the chat is stopped.
    moved: Notify,
}

#[derive(Debug, Default)]
struct ChatContent {
    parts: VecDeque<Part>,
    /// The end of the text, held back while it may be the start of a secret.
    held: Option<(Saying, String)>,
    dropped: usize,
    bytes: usize,
    readers: usize,
    is_over: bool,
    is_stopped: bool,
    waiting: Vec<Waker>,
    summary: Summary,
}

#[derive(Debug)]
enum Part {
    Event(&'static str, String),
    /// Text that may still grow. Everything that was added since a reader's last read becomes one event.
    Text(Saying, String),
}

/// The part of the chat to which text belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Saying {
    Content,
    Reasoning,
    /// The arguments of the call with this id and name.
    Input(String, String),
}

/// The contents of a response that is sent as one object, apart from its text.
#[derive(Debug, Default)]
struct Summary {
    complete: Option<Value>,
    error: Option<Value>,
    /// The most recent result of a hosted tool.
    result: Option<Value>,
}

impl Saying {
    /// Returns the name and data of the event for more text of this kind.
    fn event(&self, text: &str) -> (&'static str, Value) {
        match self {
            Self::Content => ("message_update", json!({"content": text})),
            Self::Reasoning => ("message_update", json!({"reasoning": text})),
            Self::Input(id, name) => {
                ("tool_use", json!({"toolCall": {"id": id, "name": name}, "input_text": text}))
            }
        }
    }
}

impl Part {
    fn len(&self) -> usize {
        let (Self::Event(_, text) | Self::Text(_, text)) = self;
        PART + text.len()
    }
}

impl Chat {
    /// Creates the chat of exchange `id`, started by the visitor `mark`. `redactor` must know the configured secrets.
    pub(crate) fn new(id: Arc<str>, mark: SessionMark, redactor: &Redactor) -> Self {
        // Masks only configured secrets, since a person's text must not change because it looks like a secret.
        let redactor = redactor.of_configured();
        Self { id, mark, redactor, content: Mutex::default(), moved: Notify::new() }
    }

    pub(crate) fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// Identifies the visitor who started the chat.
    pub(super) fn mark(&self) -> SessionMark {
        self.mark
    }

    pub(super) fn is_over(&self) -> bool {
        self.content.lock().is_over
    }

    /// Whether the start of the chat is still stored.
    pub(super) fn is_whole(&self) -> bool {
        self.content.lock().dropped == 0
    }

    /// Adds the first event, which names the model.
    pub(crate) fn started(&self, request: &ChatRequest, exchange: &ExchangeId) {
        let ChatRequest { model, client, .. } = request;
        let data = json!({
            "t": unix_millis(), "exchange": *exchange.own, "request": *exchange.request, "hop": 1, "model": model,
            "key": CLIENT, "client": client.dialect().name(),
        });
        self.event("message_start", &data);
    }

    /// Returns a reader that starts at the beginning of the chat.
    pub(crate) fn reader(self: &Arc<Self>) -> ChatReader {
        self.content.lock().readers += 1;
        self.moved.notify_one();
        ChatReader { chat: Arc::clone(self), at: 0, within: 0 }
    }

    /// Stops the chat, because its response is no longer wanted.
    pub(super) fn stop(&self) {
        self.content.lock().is_stopped = true;
        self.moved.notify_one();
    }

    /// Waits until the chat is stopped or there have been no readers for [`GRACE`].
    pub(super) async fn abandoned(&self) {
        loop {
            let ChatContent { is_stopped, readers, .. } = *self.content.lock();
            if is_stopped {
                return;
            }
            if readers > 0 {
                self.moved.notified().await;
            } else if timeout(GRACE, self.moved.notified()).await.is_err() {
                return;
            }
        }
    }

    pub(super) fn event(&self, name: &'static str, data: &Value) {
        let mut data = data.clone();
        self.redactor.cover_json(&mut data);
        let mut content = self.content.lock();
        content.release();
        let own = match name {
            "message_complete" => Some(&mut content.summary.complete),
            "error" => Some(&mut content.summary.error),
            "tool_result" => Some(&mut content.summary.result),
            _ => None,
        };
        let text = printable_json(&data);
        if let Some(own) = own {
            *own = Some(data);
        }
        content.put(Part::Event(name, text));
    }

    pub(super) fn says(&self, saying: &Saying, text: &str) {
        if text.is_empty() {
            return;
        }
        let mut content = self.content.lock();
        if content.held.as_ref().is_some_and(|(before, _)| before != saying) {
            content.release();
        }
        let before = content.held.take().map(|(_, held)| held).unwrap_or_default();
        let mut text = self.redactor.text(&(before + text)).into_owned();
        let held = text.split_off(text.len() - self.redactor.begun_in(&text));
        content.held = (!held.is_empty()).then(|| (saying.clone(), held));
        content.say(saying, text);
    }

    /// Ends the chat. Nothing can be added afterwards.
    pub(super) fn end(&self) {
        let mut content = self.content.lock();
        content.release();
        content.is_over = true;
        content.wake();
    }

    /// Returns a finished chat as one object: `message`, `type`, `data`.
    pub(crate) fn summary(&self) -> Value {
        let content = self.content.lock();
        let text: String = content.parts.iter().filter_map(Part::content).collect();
        let Summary { complete, error, result } = &content.summary;
        let mut data = complete.clone().unwrap_or_else(|| json!({}));
        if let Value::Object(data) = &mut data {
            data.insert("exchange".to_owned(), (*self.id).into());
            data.extend(result.clone().map(|result| ("result".to_owned(), result)));
            data.extend((content.dropped > 0).then(|| ("cut".to_owned(), true.into())));
        }
        let Some(error) = error.as_ref().map(|error| &error["error"]) else {
            return json!({"message": text, "type": "text", "data": data});
        };
        if let Value::Object(data) = &mut data {
            data.insert("error".to_owned(), error.clone());
            data.insert("content".to_owned(), text.into());
        }
        json!({"message": error["message"], "type": "error", "data": data})
    }

    /// Returns the chat so far as events.
    #[cfg(test)]
    pub(super) fn told(&self) -> Vec<(&'static str, Value)> {
        let content = self.content.lock();
        let told = content.parts.iter().map(|part| match part {
            Part::Event(name, data) => (*name, serde_json::from_str(data).unwrap()),
            Part::Text(saying, text) => saying.event(text),
        });
        told.collect()
    }
}

impl Part {
    fn content(&self) -> Option<&str> {
        match self {
            Self::Text(Saying::Content, text) => Some(text),
            _ => None,
        }
    }
}

impl ChatContent {
    /// Releases the text held back. No more text follows, so it is not the start of a secret.
    fn release(&mut self) {
        if let Some((saying, held)) = self.held.take() {
            self.say(&saying, held);
        }
    }

    fn say(&mut self, saying: &Saying, text: String) {
        if text.is_empty() {
            return;
        }
        if let Some(Part::Text(last, before)) = self.parts.back_mut()
            && last == saying
            && before.len() < MAX_PART
        {
            before.push_str(&text);
            self.bytes += text.len();
            self.shrink();
        } else {
            self.put(Part::Text(saying.clone(), text));
        }
    }

    fn put(&mut self, part: Part) {
        self.bytes += part.len();
        self.parts.push_back(part);
        self.shrink();
    }

    /// Drops parts from the start while the chat is too long, but never the newest part.
    fn shrink(&mut self) {
        while self.bytes > MAX_KEPT && self.parts.len() > 1 {
            self.bytes -= self.parts.pop_front().map_or(0, |part| part.len());
            self.dropped += 1;
        }
        self.wake();
    }

    fn wake(&mut self) {
        self.waiting.drain(..).for_each(Waker::wake);
    }
}

#[derive(Debug)]
pub(crate) struct ChatReader {
    chat: Arc<Chat>,
    at: usize,
    /// Number of bytes already read from the part `at`.
    within: usize,
}

impl ChatReader {
    pub(crate) async fn ended(&mut self) {
        std::future::poll_fn(|cx| {
            let mut content = self.chat.content.lock();
            if content.is_over {
                return Poll::Ready(());
            }
            content.wait(cx);
            Poll::Pending
        })
        .await;
    }
}

impl ChatContent {
    fn wait(&mut self, cx: &Context<'_>) {
        if !self.waiting.iter().any(|waiting| waiting.will_wake(cx.waker())) {
            self.waiting.push(cx.waker().clone());
        }
    }
}

impl FeedSource for ChatReader {
    fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut content = self.chat.content.lock();
        let mut out = String::new();
        if self.at < content.dropped {
            (self.at, self.within) = (content.dropped, 0);
            put(&mut out, "reset", &printable_json(&json!({"reason": "too_slow"})));
        }
        while let Some(part) = content.parts.get(self.at - content.dropped) {
            if out.len() >= MAX_PIECE {
                break;
            }
            let is_last = self.at - content.dropped + 1 == content.parts.len();
            match part {
                Part::Event(name, data) => put(&mut out, name, data),
                Part::Text(saying, text) => {
                    // The text grows by whole characters, so this position is a character boundary.
                    let new = text.get(self.within..).unwrap_or_default();
                    if !new.is_empty() {
                        let (name, data) = saying.event(new);
                        put(&mut out, name, &printable_json(&data));
                    }
                    if is_last {
                        self.within = text.len();
                        break;
                    }
                }
            }
            self.at += 1;
            self.within = 0;
        }
        if !out.is_empty() {
            return Poll::Ready(Some(out.into()));
        }
        if content.is_over {
            return Poll::Ready(None);
        }
        content.wait(cx);
        Poll::Pending
    }
}

fn put(out: &mut String, name: &str, data: &str) {
    out.push_str("event: ");
    out.push_str(name);
    out.push_str("\ndata: ");
    out.push_str(data);
    out.push_str("\n\n");
}

impl Drop for ChatReader {
    fn drop(&mut self) {
        self.chat.content.lock().readers -= 1;
        self.chat.moved.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::task::Context;

    use tokio::time::{Instant, advance};

    use super::*;

    fn chat() -> Arc<Chat> {
        Arc::new(Chat::new("ex_1".into(), None, &Redactor::new(["sésame-open"])))
    }

    /// Returns the available events. `None` if the reader must wait or the chat is over.
    fn read(reader: &mut ChatReader) -> Option<String> {
        match reader.poll_events(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(piece) => piece.map(|piece| String::from_utf8(piece.to_vec()).unwrap()),
            Poll::Pending => None,
        }
    }

    #[test]
    fn reader_gets_text_as_it_grows_and_a_later_one_gets_it_as_one_event() {
        let chat = chat();
        let mut first = chat.reader();
        let mut seen = Vec::new();
        for piece in ["Hä", "llo", " \u{1f980}"] {
            chat.says(&Saying::Content, piece);
            seen.push(read(&mut first).unwrap());
            assert_eq!(read(&mut first), None);
        }
        assert_eq!(seen.len(), 3);
        assert_eq!(seen[1], "event: message_update\ndata: {\"content\":\"llo\"}\n\n");
        chat.says(&Saying::Reasoning, "hm");
        chat.event("message_complete", &json!({"finish": "stop"}));
        chat.end();
        let rest = read(&mut first).unwrap();
        assert!(rest.starts_with("event: message_update\ndata: {\"reasoning\":\"hm\"}\n\n"), "{rest}");
        let all = read(&mut chat.reader()).unwrap();
        assert_eq!(
            all,
            format!("event: message_update\ndata: {{\"content\":\"Hällo \u{1f980}\"}}\n\n{rest}")
        );
        let polled = first.poll_events(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Ready(None)));
    }

    #[test]
    fn long_chat_stays_bounded_and_slow_readers_are_told() {
        let chat = chat();
        let mut slow = chat.reader();
        for _ in 0..(2 * MAX_KEPT / 1000) {
            chat.says(&Saying::Content, &"x".repeat(1000));
            assert!(chat.content.lock().bytes <= MAX_KEPT + MAX_PART + PART);
        }
        assert!(!chat.is_whole());
        assert!(read(&mut slow).unwrap().starts_with("event: reset\n"));
        let sum = chat.content.lock().parts.iter().map(Part::len).sum::<usize>();
        assert_eq!(chat.content.lock().bytes, sum);
        chat.event("message_complete", &json!({}));
        chat.end();
        assert_eq!(chat.summary()["data"]["cut"], true);
    }

    #[test]
    fn configured_secret_is_covered_wherever_it_is_split() {
        let text = "It is sésame-open, or sésam";
        for cut in (0..=text.len()).filter(|cut| text.is_char_boundary(*cut)) {
            let chat = chat();
            let (before, after) = text.split_at(cut);
            chat.says(&Saying::Content, before);
            chat.says(&Saying::Content, after);
            chat.event("tool_result", &json!({"result": ["sésame-open", {"a": "sésame-open"}], "ms": 7}));
            chat.end();
            let told = chat.told();
            let said: String = told.iter().filter_map(|(_, data)| data["content"].as_str()).collect();
            assert_eq!(said, "It is xxxxxxxxxxxx, or sésam", "{cut}");
            assert_eq!(told.last().unwrap().1["result"], json!(["xxxxxxxxxxxx", {"a": "xxxxxxxxxxxx"}]));
        }
    }

    #[test]
    fn text_is_not_held_longer_than_it_may_be_a_secret() {
        let chat = chat();
        let mut reader = chat.reader();
        chat.says(&Saying::Content, "a sés");
        assert!(read(&mut reader).unwrap().contains("\"a \""));
        chat.says(&Saying::Content, "same");
        assert!(read(&mut reader).unwrap().contains("\"séssame\""));
    }

    #[tokio::test(start_paused = true)]
    async fn chat_is_abandoned_after_the_grace_period_without_readers() {
        let chat = chat();
        let reader = chat.reader();
        let begun = Instant::now();
        let leave = async {
            advance(10 * GRACE).await;
            drop(reader);
            advance(GRACE / 2).await;
            let again = chat.reader();
            advance(2 * GRACE).await;
            drop(again);
            Instant::now()
        };
        let ((), left) = tokio::join!(chat.abandoned(), leave);
        assert!(begun.elapsed() >= 12 * GRACE && left.elapsed() >= GRACE, "{:?}", begun.elapsed());
    }
}
