//! [`Capture`]: the bytes that the upstream sent in one exchange, with secrets masked, and the data needed to interpret
//! them again.
//!
//! The client's response is not stored, since `trace` can reproduce it from the upstream's bytes.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Waker},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use parking_lot::{Mutex, MutexGuard};

use super::{ExchangeLog, held_request, sent::SentContents};
use toolwire_gateway::{
    manifest::{MANIFEST, ManifestBuilder, REQUEST, times_file, upstream_file},
    report::millis,
    tap::{Ending, Opening, Watch},
};
use toolwire_net::redact::{Pieces, Redactor};
use toolwire_pipeline::{
    conversation::{Conversation, Part, Prefill, Turn},
    dialect::{Answering, ClientDialect, ReaderRules, UpstreamDialect, UpstreamRequest},
    event::{Event, Reasoning},
    failure::Failure,
    format::KnownFormats,
    rules::{HostedRules, Rules},
};

/// Maximum number of bytes stored for one exchange, including [`PIECE`] for each piece. Anything beyond the limit is
/// left out.
const MAX_EXCHANGE: usize = 1 << 20;

/// Maximum size in bytes of a client request that is stored for a fixture.
const MAX_REQUEST: usize = MAX_EXCHANGE / 2;

/// Approximate size in bytes of an exchange without its contents: rules, names, and the initial allocations of lists.
const BASE: usize = 4 << 10;

/// Maximum number of bytes stored for all exchanges. Beyond it, the contents of the oldest exchanges are dropped.
pub(super) const MAX_ALL: usize = 64 << 20;

/// Memory overhead of a step in bytes: its entry in a list that may be half empty, and its own allocation.
const PIECE: usize = 2 * size_of::<Step>() + 32;

#[derive(Debug)]
pub(crate) struct Capture {
    pub(super) replay: Replay,
    captured: Mutex<CapturedSteps>,
    /// The fixture's description of the exchange, and the client's unmasked request. Secrets are masked only when the
    /// request is read, since most requests are never read. `None` if they are too long.
    manifest: Mutex<Option<(ManifestBuilder, Bytes)>>,
    /// Bytes stored for all exchanges.
    total: Arc<AtomicUsize>,
}

/// Everything that is needed to interpret the bytes again.
#[derive(Debug)]
pub(super) struct Replay {
    /// The parts of the client's request that the interpretation needs.
    pub(super) conversation: Conversation,
    pub(super) rules: Rules,
    pub(super) formats: Arc<KnownFormats>,
    pub(super) upstream: UpstreamDialect,
    pub(super) reading: ReaderRules,
    pub(super) hosted: Option<HostedRules>,
    pub(super) client: ClientDialect,
    pub(super) answering: Answering,
    pub(super) redactor: Redactor,
}

#[derive(Debug, Clone)]
pub(super) enum Step {
    /// A request is sent to the upstream. `after` is the time since the start of the exchange in milliseconds, `shown`
    /// is what the client received before the request, and `prefill` is the start of the response that the request
    /// contains.
    Hop { after: u64, shown: Vec<Event<'static>>, prefill: Option<Prefill> },
    /// The upstream refused the request because of a constraint, and is sent a different request.
    Otherwise(Option<Prefill>),
    /// The upstream responds.
    Answered { is_error: bool, framing: Framing },
    /// A piece of the body. The number is its arrival time in milliseconds since the start of the exchange.
    Piece(u64, Bytes),
    /// The exchange has ended, with or without a failure.
    End(Option<Failure>),
}

/// How the events of a body are separated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Framing {
    /// Separated by empty lines.
    Sse,
    /// One event per line.
    Lines,
    /// Amazon's frames, which begin with their lengths.
    Lengths,
    /// Not separated: each piece of the body becomes a row.
    #[default]
    None,
}

#[derive(Debug, Default)]
struct CapturedSteps {
    steps: Vec<Step>,
    sent: SentContents,
    size: usize,
    is_cut: bool,
    is_over: bool,
    /// Whether the contents were dropped to make room for other exchanges.
    is_dropped: bool,
    waiting: Vec<Waker>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoFixture {
    /// The contents were dropped.
    NotKept,
    /// The exchange is still running.
    Running,
    /// The contents were not stored completely.
    TooLong,
    /// No upstream has responded.
    Unanswered,
}

#[derive(Debug)]
pub(super) enum Next {
    Steps(Vec<Step>),
    /// The reader will be woken when there is more.
    Wait,
    Over {
        is_cut: bool,
    },
    Dropped,
}

impl Capture {
    /// Creates the capture of a new exchange, and the watch that fills it.
    pub(super) fn begin(
        log: &Arc<ExchangeLog>,
        total: &Arc<AtomicUsize>,
        opening: &Opening<'_>,
        redactor: &Redactor,
    ) -> (Arc<Self>, CaptureWatch) {
        let own_size = held_request::size(opening.conversation, opening.answering, MAX_REQUEST);
        let conversation =
            own_size.map(|_| held_request::for_reading(opening.conversation)).unwrap_or_default();
        let answering = own_size.map(|_| opening.answering.clone());
        let limits = opening.rules.limits;
        let replay = Replay {
            rules: opening.rules.clone(),
            formats: Arc::clone(&opening.model.formats),
            upstream: opening.upstream.options.clone(),
            reading: ReaderRules {
                max_frame: limits.max_frame,
                tolerate_truncation: opening.upstream.tolerate_truncation,
                client: opening.dialect.dialect(),
            },
            hosted: opening.hosted.cloned(),
            client: opening.dialect,
            answering: answering
                .unwrap_or_else(|| Answering::new(&conversation, opening.answering.stamp.clone())),
            conversation,
            redactor: redactor.clone(),
        };
        let first = Step::Hop { after: 0, shown: Vec::new(), prefill: opening.request.prefill.clone() };
        // If the request is too large to be stored, nothing else is stored either: the response cannot be interpreted
        // without the request's tools.
        let manifest = own_size.filter(|_| opening.body.len() <= MAX_REQUEST).map(|_| {
            // Copied because the body may be a slice of a larger buffer.
            (ManifestBuilder::begin(opening.facts()), Bytes::copy_from_slice(opening.body))
        });
        let captured = CapturedSteps {
            steps: vec![first],
            sent: SentContents::new(manifest.as_ref().map(|(_, body)| body.clone())),
            is_dropped: own_size.is_none(),
            ..CapturedSteps::default()
        };
        let size =
            BASE + own_size.unwrap_or(0) + manifest.as_ref().map_or(0, |(_, body): &(_, Bytes)| body.len());
        let (captured, manifest, total_of) = (Mutex::new(captured), Mutex::new(manifest), Arc::clone(total));
        let capture = Arc::new(Self { replay, captured, manifest, total: total_of });
        capture.lock().grow(size, total);
        capture.sent(opening.request, Some(Duration::ZERO), &[]);
        let watch = CaptureWatch {
            capture: Arc::clone(&capture),
            log: Arc::clone(log),
            pieces: Pieces::new(redactor.clone()),
            shown: Vec::new(),
        };
        (capture, watch)
    }

    /// Returns up to `most` steps, starting at index `from`.
    pub(super) fn next(&self, from: usize, most: usize, cx: Option<&Context<'_>>) -> Next {
        let mut captured = self.lock();
        if captured.is_dropped {
            return Next::Dropped;
        }
        let steps: Vec<_> = captured.steps.iter().skip(from).take(most).cloned().collect();
        if !steps.is_empty() {
            return Next::Steps(steps);
        }
        if captured.is_over {
            return Next::Over { is_cut: captured.is_cut };
        }
        if let Some(cx) = cx
            && !captured.waiting.iter().any(|waiting| waiting.will_wake(cx.waker()))
        {
            captured.waiting.push(cx.waker().clone());
        }
        Next::Wait
    }

    pub(super) fn is_over(&self) -> bool {
        self.lock().is_over
    }

    /// Returns the exchange as a fixture: the names and contents of its files.
    ///
    /// # Errors
    /// Fails if there is no fixture; the error says why.
    pub(super) fn fixture(&self) -> Result<Vec<(String, Vec<u8>)>, NoFixture> {
        let (steps, is_cut) = {
            let captured = self.lock();
            if captured.is_dropped {
                return Err(NoFixture::NotKept);
            }
            if !captured.is_over {
                return Err(NoFixture::Running);
            }
            (captured.steps.clone(), captured.is_cut)
        };
        let (manifest, body) = {
            let manifest = self.manifest.lock();
            let (manifest, body) = manifest.as_ref().filter(|_| !is_cut).ok_or(NoFixture::TooLong)?;
            if !manifest.is_answered() {
                return Err(NoFixture::Unanswered);
            }
            (manifest.text().map_err(|_| NoFixture::Unanswered)?, body.clone())
        };
        let manifest = self.replay.redactor.text(&manifest).into_owned();
        let mut body = body.to_vec();
        self.replay.redactor.cover(&mut body);
        let mut files = vec![(MANIFEST.to_owned(), manifest.into_bytes()), (REQUEST.to_owned(), body)];
        let (mut hop, mut begun) = (0, 0);
        for step in steps {
            match step {
                Step::Hop { after, .. } => {
                    (hop, begun) = (hop + 1, after);
                    files.extend([(times_file(hop), Vec::new()), (upstream_file(hop), Vec::new())]);
                }
                Step::Piece(after, bytes) => {
                    if let [.., (_, times), (_, body)] = files.as_mut_slice() {
                        let line = format!("{} {}\n", after.saturating_sub(begun), bytes.len());
                        times.extend_from_slice(line.as_bytes());
                        body.extend_from_slice(&bytes);
                    }
                }
                Step::Otherwise(_) | Step::Answered { .. } | Step::End(_) => {}
            }
        }
        Ok(files)
    }

    /// Changes the fixture's description, which grows by `more` bytes.
    fn note(&self, more: usize, change: impl FnOnce(&mut ManifestBuilder)) {
        let mut manifest = self.manifest.lock();
        let mut captured = self.lock();
        if captured.size + more > MAX_EXCHANGE || captured.is_dropped {
            *manifest = None;
        }
        if let Some((manifest, _)) = &mut *manifest {
            captured.grow(more, &self.total);
            change(manifest);
        }
    }

    /// Stores a request to the upstream with the `turns` that it adds. `after` is `None` if it replaces one that the
    /// upstream refused.
    fn sent(&self, request: &UpstreamRequest, after: Option<Duration>, turns: &[Turn]) {
        let mut captured = self.lock();
        if !captured.is_dropped {
            let room = MAX_EXCHANGE.saturating_sub(captured.size);
            let size = captured.sent.add(&request.body, after.map(millis), turns, room);
            captured.grow(size, &self.total);
        }
    }

    /// Returns a copy of what the model was sent. `None` if it was dropped.
    pub(super) fn sent_contents(&self) -> Option<SentContents> {
        let captured = self.lock();
        (!captured.is_dropped).then(|| captured.sent.clone())
    }

    /// Reserves `more` bytes for a step. Returns `false` if there is no room.
    fn hold(&self, more: usize) -> bool {
        let mut captured = self.lock();
        captured.is_cut |= captured.size + more > MAX_EXCHANGE;
        let has_room = !captured.is_cut && !captured.is_dropped;
        if has_room {
            captured.grow(more, &self.total);
        }
        has_room
    }

    /// Drops the contents to make room for other exchanges.
    pub(super) fn drop_steps(&self) {
        *self.manifest.lock() = None;
        let mut captured = self.lock();
        captured.is_dropped = true;
        captured.steps = Vec::new();
        captured.sent = SentContents::default();
        self.total.fetch_sub(std::mem::take(&mut captured.size), Ordering::Relaxed);
        captured.wake();
    }

    fn takes_more(&self) -> bool {
        let captured = self.lock();
        !captured.is_cut && !captured.is_dropped
    }

    fn put(&self, step: Step) {
        let mut captured = self.lock();
        let size = PIECE + if let Step::Piece(_, bytes) = &step { bytes.len() } else { 0 };
        if captured.is_dropped {
            return;
        }
        captured.is_over |= matches!(step, Step::End(_));
        if captured.size + size > MAX_EXCHANGE && !captured.is_over {
            captured.is_cut = true;
        }
        if !captured.is_cut || captured.is_over {
            captured.grow(size, &self.total);
            captured.steps.push(step);
        }
        captured.wake();
    }

    fn lock(&self) -> MutexGuard<'_, CapturedSteps> {
        self.captured.lock()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let size = self.lock().size;
        self.total.fetch_sub(size, Ordering::Relaxed);
    }
}

impl CapturedSteps {
    fn grow(&mut self, size: usize, total: &AtomicUsize) {
        self.size += size;
        total.fetch_add(size, Ordering::Relaxed);
    }

    fn wake(&mut self) {
        self.waiting.drain(..).for_each(Waker::wake);
    }
}

/// Number of bytes that a turn takes up in a manifest, in which the text of the turn and of its results occurs at most
/// twice.
fn size_of_turn(turn: &Turn) -> usize {
    let sizes = turn.parts.iter().map(|part| match part {
        Part::Text(text) => text.len(),
        Part::Result(result) => result.id.len() + result.name.len() + 2 * result.content.len(),
        _ => 0,
    });
    PIECE + sizes.sum::<usize>()
}

/// Number of bytes that an event sent to the client takes up in a manifest.
fn size_of_shown(event: &Event<'_>) -> usize {
    PIECE
        + match event {
            Event::Text(text) => text.len(),
            Event::Reasoning(reasoning) => reasoning.text.len(),
            Event::ServerCall(call) => {
                let texts = [&call.arguments, &call.content];
                texts.iter().filter_map(|text| text.as_ref()).map(|text| text.len()).sum()
            }
            Event::Mcp(item) => item.size(),
            Event::Media(media) => media.data.len(),
            _ => 0,
        }
}

pub(crate) struct CaptureWatch {
    capture: Arc<Capture>,
    log: Arc<ExchangeLog>,
    pieces: Pieces,
    /// Events sent to the client since the last hop.
    shown: Vec<Event<'static>>,
}

impl CaptureWatch {
    /// Stores the pieces whose masking is certain once `piece` has arrived. Without a piece, stores all remaining
    /// pieces.
    fn keep(&mut self, piece: Option<(&[u8], Duration)>) {
        let Self { capture, pieces, .. } = self;
        let pass = |bytes: &[u8], after: Duration| {
            capture.put(Step::Piece(millis(after), Bytes::copy_from_slice(bytes)));
            Ok::<_, Infallible>(())
        };
        let Ok(()) = match piece {
            Some((bytes, after)) => pieces.push(bytes, after, pass),
            None => pieces.finish(pass),
        };
        self.log.make_room();
    }
}

impl Watch for CaptureWatch {
    fn asked_again(&mut self, request: &UpstreamRequest, turns: &[Turn], after: Duration) {
        self.keep(None);
        let size = turns.iter().map(size_of_turn).sum();
        self.capture.note(size, |manifest| _ = manifest.asked_again(request.prefill.as_ref(), turns));
        self.pieces = Pieces::new(self.capture.replay.redactor.clone());
        let shown = std::mem::take(&mut self.shown);
        self.capture.sent(request, Some(after), turns);
        let after = millis(after);
        self.capture.put(Step::Hop { after, shown, prefill: request.prefill.clone() });
        self.log.make_room();
    }

    fn shown(&mut self, event: &Event<'_>) {
        self.capture.note(size_of_shown(event), |manifest| manifest.shown(event));
        if !self.capture.hold(size_of_shown(event)) {
            return;
        }
        let redactor = &self.capture.replay.redactor;
        let covered = |text: &str| redactor.text(text).into_owned().into();
        self.shown.push(match event {
            Event::Text(text) => Event::Text(covered(text)),
            Event::Reasoning(reasoning) => {
                let reasoning = Reasoning { text: covered(&reasoning.text), ..reasoning.clone() };
                Event::Reasoning(reasoning).into_owned()
            }
            event => event.clone().into_owned(),
        });
    }

    fn asked_otherwise(&mut self, request: &UpstreamRequest) {
        self.capture.note(0, |manifest| manifest.prefilled(request.prefill.as_ref()));
        self.capture.sent(request, None, &[]);
        self.capture.put(Step::Otherwise(request.prefill.clone()));
    }

    fn answered(&mut self, status: StatusCode, headers: &HeaderMap, _after: Duration) {
        self.capture.note(0, |manifest| manifest.answered(status, headers));
        let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let framing = match kind {
            kind if kind.contains("event-stream") => Framing::Sse,
            kind if kind.contains("amazon.eventstream") => Framing::Lengths,
            kind if kind.contains("ndjson") || kind.contains("jsonl") => Framing::Lines,
            _ => Framing::None,
        };
        let is_error = status.is_client_error() || status.is_server_error();
        self.capture.put(Step::Answered { is_error, framing });
    }

    fn piece(&mut self, bytes: &[u8], after: Duration) {
        if self.capture.takes_more() {
            self.keep(Some((bytes, after)));
        }
    }

    fn end(&mut self, ending: Ending<'_>, _after: Duration) {
        self.keep(None);
        self.capture.note(0, |manifest| match ending {
            Ending::Done => {}
            Ending::Failed(failure) => manifest.failed(failure),
            Ending::Cancelled => manifest.cancelled(),
        });
        self.capture.put(Step::End(match ending {
            Ending::Failed(failure) => Some(failure.clone()),
            Ending::Done | Ending::Cancelled => None,
        }));
    }
}

/// Ends the capture for its readers, no matter how the exchange ended.
impl Drop for CaptureWatch {
    fn drop(&mut self) {
        if !self.capture.is_over() {
            self.capture.put(Step::End(None));
        }
    }
}
