//! [`Stdio`]: a server that is a program. Messages are lines of JSON on its stdin and stdout.

use std::{
    collections::{HashSet, VecDeque},
    io,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use memchr::memchr;
use rmcp::{
    RoleClient,
    model::{ClientJsonRpcMessage, ClientNotification, JsonRpcMessage, RequestId, ServerJsonRpcMessage},
    transport::Transport,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, ChildStdout},
    task::AbortHandle,
    time::timeout,
};

use super::message;
use crate::{process::{Group, Process, Program}, stderr::StderrLog};

/// How long a program may take to end after its stdin was closed.
const GRACE: Duration = Duration::from_secs(2);

/// Number of bytes of an overlong line that are retained.
const MAX_BEGINNING: usize = 4 << 10;

/// A program that is an MCP server. Dropping it kills the program's process group.
#[derive(Debug)]
pub(super) struct Stdio {
    group: Group,
    child: Child,
    has_ended: bool,
    stdin: Arc<tokio::sync::Mutex<Option<ChildStdin>>>,
    lines: LineReader<ChildStdout>,
    /// Requests without a response.
    pending: Arc<Mutex<HashSet<RequestId>>>,
    /// Error responses in place of responses that were too large.
    failures: VecDeque<ServerJsonRpcMessage>,
    logging: AbortHandle,
}

impl Stdio {
    /// Starts the program. `max_message` is the maximum size of a message from it, in bytes.
    ///
    /// # Errors
    /// The program cannot be started.
    pub(super) fn start(program: &Program, max_message: usize, log: Arc<StderrLog>) -> io::Result<Self> {
        let arguments = program.command.iter().skip(1).map(String::as_str);
        let Process { group, child, stdin, stdout, stderr } = program.spawn(arguments)?;
        let logging = tokio::runtime::Handle::current().spawn(async move { log.read(stderr).await });
        Ok(Self {
            group,
            child,
            has_ended: false,
            stdin: Arc::new(tokio::sync::Mutex::new(Some(stdin))),
            lines: LineReader::new(stdout, max_message),
            pending: Arc::default(),
            failures: VecDeque::new(),
            logging: logging.abort_handle(),
        })
    }

    /// Removes the request that `message` answers from the pending ones.
    fn answered(&self, message: &ServerJsonRpcMessage) {
        if let Some(id) = message::answered_id(message) {
            self.pending.lock().remove(id);
        }
    }

    /// Fails the request that an overlong line answers. If the start of the line does not identify the request, fails
    /// all pending requests.
    fn fail_pending(&mut self, beginning: &[u8]) {
        let head = message::head(beginning);
        if head.has_method {
            return;
        }
        let mut pending = self.pending.lock();
        let failed: Vec<_> = match head.id {
            Some(id) => pending.take(&id).into_iter().collect(),
            None => pending.drain().collect(),
        };
        self.failures.extend(failed.into_iter().map(|id| message::failure(message::TOO_LARGE, id)));
    }
}

impl Transport<RoleClient> for Stdio {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        {
            let mut pending = self.pending.lock();
            match &message {
                JsonRpcMessage::Request(request) => _ = pending.insert(request.id.clone()),
                // Nothing waits for the response any more.
                JsonRpcMessage::Notification(sent) => {
                    if let ClientNotification::CancelledNotification(cancelled) = &sent.notification
                        && let Some(id) = &cancelled.params.request_id
                    {
                        pending.remove(id);
                    }
                }
                _ => {}
            }
        }
        let stdin = Arc::clone(&self.stdin);
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            let mut stdin = stdin.lock().await;
            let stdin = stdin.as_mut().ok_or(io::ErrorKind::NotConnected)?;
            stdin.write_all(&line).await?;
            stdin.flush().await
        }
    }

    /// Returns `None` if the server has ended or closed its stdout.
    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            if let Some(failure) = self.failures.pop_front() {
                return Some(failure);
            }
            tokio::select! {
                line = self.lines.next() => match line? {
                    Line::Whole(line) => {
                        if let Some(message) = message::read(&line) {
                            self.answered(&message);
                            return Some(message);
                        }
                    }
                    Line::TooLong(beginning) => self.fail_pending(&beginning),
                },
                // Another process that the server has started could keep stdout open.
                _ = self.child.wait(), if !self.has_ended => {
                    self.has_ended = true;
                    self.group.kill();
                }
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        // If a write is waiting for the program, it holds this lock. Stdin then stays open, and the program is killed
        // after the grace period.
        if let Ok(mut stdin) = self.stdin.try_lock() {
            *stdin = None;
        }
        let _ = timeout(GRACE, self.child.wait()).await;
        self.group.kill();
        Ok(())
    }
}

impl Drop for Stdio {
    fn drop(&mut self) {
        self.logging.abort();
    }
}

/// A line without its line ending.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    Whole(Vec<u8>),
    /// The line is longer than the limit. Contains its start.
    TooLong(Vec<u8>),
}

/// Reads lines. [`LineReader::next`] is cancel-safe.
#[derive(Debug)]
struct LineReader<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    limit: usize,
    /// Whether the rest of an overlong line is being skipped.
    is_skipping: bool,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    fn new(reader: R, limit: usize) -> Self {
        Self {
            reader: BufReader::with_capacity(32 << 10, reader),
            line: Vec::new(),
            limit,
            is_skipping: false,
        }
    }

    /// Returns the next line, or `None` at the end. An unterminated last line is not a message, so it is dropped.
    async fn next(&mut self) -> Option<Line> {
        loop {
            let available = self.reader.fill_buf().await.ok().filter(|bytes| !bytes.is_empty())?;
            let end = memchr(b'\n', available);
            let piece = available.get(..end.unwrap_or(available.len())).unwrap_or(available);
            let read = piece.len() + usize::from(end.is_some());
            let was_skipping = self.is_skipping;
            let is_too_long = !was_skipping && self.line.len() + piece.len() > self.limit;
            if is_too_long {
                self.line.extend_from_slice(piece.get(..MAX_BEGINNING).unwrap_or(piece));
                self.line.truncate(MAX_BEGINNING);
                self.line.shrink_to_fit();
            } else if !was_skipping {
                self.line.extend_from_slice(piece);
            }
            self.is_skipping = end.is_none() && (was_skipping || is_too_long);
            self.reader.consume(read);
            match end {
                _ if is_too_long => {
                    return Some(Line::TooLong(std::mem::take(&mut self.line)));
                }
                Some(_) if !was_skipping => return Some(Line::Whole(std::mem::take(&mut self.line))),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(text: &[u8], limit: usize) -> Vec<Line> {
        let mut found = Vec::new();
        let mut reader = LineReader::new(text, limit);
        while let Some(line) = reader.next().await {
            found.push(line);
        }
        found
    }

    #[tokio::test]
    async fn lines_have_at_most_the_limit() {
        let whole = |text: &[u8]| Line::Whole(text.to_vec());
        assert_eq!(
            lines(b"abc\nabcd\n\nab\nend", 3).await,
            [whole(b"abc"), Line::TooLong(b"abcd".to_vec()), whole(b""), whole(b"ab")]
        );
    }

    #[tokio::test]
    async fn a_long_line_is_reported_once_and_not_kept() {
        let mut text = vec![b'a'; 1 << 20];
        text.extend(b"\nb\n");
        assert_eq!(
            lines(&text, 1000).await,
            [Line::TooLong(vec![b'a'; MAX_BEGINNING]), Line::Whole(b"b".to_vec())]
        );
    }
}
