//! [`Capture`]: the upstream's bytes of one exchange, without secrets, and what it takes to read them again.
//!
//! What the client got is not kept. It depends on the upstream's bytes alone, so it can be made again from them (`trace`).

use std::{
    convert::Infallible,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Waker},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};

use super::ExchangeLog;
use crate::{
    conversation::{Conversation, Prefill, Turn},
    dialect::{Answering, ClientDialect, ReaderRules, UpstreamDialect, UpstreamRequest},
    event::{Event, Reasoning},
    failure::Failure,
    format::KnownFormats,
    proxy::{
        report::millis,
        tap::{Ending, Opening, Watch},
    },
    redact::{Pieces, Redactor},
    rules::{HostedRules, Rules},
};

/// Bytes that are kept of one exchange, with [`PIECE`] for each piece. The rest is left out.
const MAX_EXCHANGE: usize = 1 << 20;

/// Bytes that are kept of all exchanges. Beyond, those of the oldest are dropped.
pub(super) const MAX_ALL: usize = 64 << 20;

/// What a piece takes beside its bytes.
const PIECE: usize = 64;

/// See the module.
#[derive(Debug)]
pub(in crate::proxy) struct Capture {
    pub(super) replay: Replay,
    kept: Mutex<Kept>,
    /// Bytes that all exchanges take together.
    total: Arc<AtomicUsize>,
}

/// What it takes to read the bytes again.
#[derive(Debug)]
pub(super) struct Replay {
    /// The client's request, without its turns.
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

/// What happened, in its order.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// The upstream is asked: what the client was shown before, and the beginning of the response in the request.
    Hop { shown: Vec<Event<'static>>, prefill: Option<Prefill> },
    /// It refused that because of a constraint, and is asked otherwise.
    Otherwise(Option<Prefill>),
    /// It answers.
    Answered { is_error: bool, framing: Framing },
    /// A piece of its body, and when it arrived, in milliseconds from the begin.
    Piece(u64, Bytes),
    /// The exchange is over.
    End(Option<Failure>),
}

/// How the events of a body are told apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Framing {
    /// By empty lines.
    Sse,
    /// One on each line.
    Lines,
    /// They are not: a row is a piece as it arrived.
    #[default]
    None,
}

#[derive(Debug, Default)]
struct Kept {
    steps: Vec<Step>,
    size: usize,
    /// Pieces were left out.
    is_cut: bool,
    is_over: bool,
    /// It had to make room for others.
    is_dropped: bool,
    waiting: Vec<Waker>,
}

/// What a reader finds.
#[derive(Debug)]
pub(super) enum Next {
    Steps(Vec<Step>),
    /// More follows; the reader is woken.
    Wait,
    /// That was all.
    Over {
        is_cut: bool,
    },
    /// It is not kept any more.
    Dropped,
}

impl Capture {
    /// The capture of an exchange that begins, and what fills it.
    pub(super) fn begin(
        log: &Arc<ExchangeLog>,
        total: &Arc<AtomicUsize>,
        opening: &Opening<'_>,
        redactor: &Redactor,
    ) -> (Arc<Self>, CaptureWatch) {
        let conversation = Conversation { turns: Vec::new(), ..opening.conversation.clone() };
        let limits = opening.rules.limits;
        let replay = Replay {
            conversation,
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
            answering: opening.answering.clone(),
            redactor: redactor.clone(),
        };
        let first = Step::Hop { shown: Vec::new(), prefill: opening.request.prefill.clone() };
        let kept = Kept { steps: vec![first], ..Kept::default() };
        let capture = Arc::new(Self { replay, kept: Mutex::new(kept), total: Arc::clone(total) });
        // The tools of the request are kept, too.
        capture.lock().grow(opening.body.len().min(MAX_EXCHANGE / 2), total);
        let watch = CaptureWatch {
            capture: Arc::clone(&capture),
            log: Arc::clone(log),
            pieces: Pieces::new(redactor.clone()),
            shown: Vec::new(),
        };
        (capture, watch)
    }

    /// The steps from number `from` on, at most `most`.
    pub(super) fn next(&self, from: usize, most: usize, cx: Option<&Context<'_>>) -> Next {
        let mut kept = self.lock();
        if kept.is_dropped {
            return Next::Dropped;
        }
        let steps: Vec<_> = kept.steps.iter().skip(from).take(most).cloned().collect();
        if !steps.is_empty() {
            return Next::Steps(steps);
        }
        if kept.is_over {
            return Next::Over { is_cut: kept.is_cut };
        }
        if let Some(cx) = cx
            && !kept.waiting.iter().any(|waiting| waiting.will_wake(cx.waker()))
        {
            kept.waiting.push(cx.waker().clone());
        }
        Next::Wait
    }

    /// Whether nothing will be added.
    pub(super) fn is_over(&self) -> bool {
        self.lock().is_over
    }

    /// Makes room for others.
    pub(super) fn drop_steps(&self) {
        let mut kept = self.lock();
        kept.is_dropped = true;
        kept.steps = Vec::new();
        self.total.fetch_sub(std::mem::take(&mut kept.size), Ordering::Relaxed);
        kept.wake();
    }

    /// Whether more of the body is kept.
    fn takes_more(&self) -> bool {
        let kept = self.lock();
        !kept.is_cut && !kept.is_dropped
    }

    fn put(&self, step: Step) {
        let mut kept = self.lock();
        let size = PIECE + if let Step::Piece(_, bytes) = &step { bytes.len() } else { 0 };
        if kept.is_dropped {
            return;
        }
        kept.is_over |= matches!(step, Step::End(_));
        if kept.size + size > MAX_EXCHANGE && !kept.is_over {
            kept.is_cut = true;
        }
        if !kept.is_cut || kept.is_over {
            kept.grow(size, &self.total);
            kept.steps.push(step);
        }
        kept.wake();
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let size = self.lock().size;
        self.total.fetch_sub(size, Ordering::Relaxed);
    }
}

impl Kept {
    fn grow(&mut self, size: usize, total: &AtomicUsize) {
        self.size += size;
        total.fetch_add(size, Ordering::Relaxed);
    }

    fn wake(&mut self) {
        self.waiting.drain(..).for_each(Waker::wake);
    }
}

/// Fills a capture while its exchange runs.
pub(in crate::proxy) struct CaptureWatch {
    capture: Arc<Capture>,
    log: Arc<ExchangeLog>,
    pieces: Pieces,
    /// What the client was shown since the last hop.
    shown: Vec<Event<'static>>,
}

impl CaptureWatch {
    /// Keeps the pieces that are decided, with a new one; without one, all of them.
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
    fn asked_again(&mut self, request: &UpstreamRequest, _turns: &[Turn], _after: Duration) {
        self.keep(None);
        self.pieces = Pieces::new(self.capture.replay.redactor.clone());
        let shown = std::mem::take(&mut self.shown);
        self.capture.put(Step::Hop { shown, prefill: request.prefill.clone() });
    }

    fn shown(&mut self, event: &Event<'_>) {
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
        self.capture.put(Step::Otherwise(request.prefill.clone()));
    }

    fn answered(&mut self, status: StatusCode, headers: &HeaderMap, _after: Duration) {
        let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let framing = match kind {
            kind if kind.contains("event-stream") => Framing::Sse,
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
        self.capture.put(Step::End(match ending {
            Ending::Failed(failure) => Some(failure.clone()),
            Ending::Done | Ending::Cancelled => None,
        }));
    }
}

/// However the exchange ends, its readers do.
impl Drop for CaptureWatch {
    fn drop(&mut self) {
        if !self.capture.is_over() {
            self.capture.put(Step::End(None));
        }
    }
}
