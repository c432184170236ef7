//! [`LogLines`]: log lines on their way to stderr. A thread of their own writes them, so a stderr that is not read (a paused
//! terminal, a full pipe) holds up no response. Lines wait for it in memory up to a limit; a warning counts those beyond it.

use std::{
    io::{self, Write},
    mem,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use tracing_subscriber::fmt::MakeWriter;

/// Bytes of lines that may wait while others are written.
const MAX_WAITING: usize = 1 << 20;
/// How long the end of the program waits for lines to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct LogLines(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Lines were added, or have been written.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Vec<u8>,
    /// Lines for which there was no room.
    lost: usize,
    is_writing: bool,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what waits, for as long as the program runs.
    fn write_to(&self, mut out: impl Write) {
        let mut lines = Vec::new();
        let is_idle = |queue: &mut Queue| queue.waiting.is_empty() && queue.lost == 0;
        loop {
            let waited = self.changed.wait_while(self.queue(), is_idle);
            let mut queue = waited.unwrap_or_else(PoisonError::into_inner);
            mem::swap(&mut queue.waiting, &mut lines);
            let lost = mem::take(&mut queue.lost);
            queue.is_writing = true;
            drop(queue);
            // A line that cannot be written is lost: there is no other place to report it.
            let _ = out.write_all(&lines).and_then(|()| out.flush());
            lines.clear();
            if lost > 0 {
                tracing::warn!(lost, "log lines were lost: stderr was not read for a time");
            }
            self.queue().is_writing = false;
            self.changed.notify_all();
        }
    }
}

impl LogLines {
    /// Writes lines to `out`, which may block.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(super) fn start(out: impl Write + Send + 'static) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let writing = Arc::clone(&shared);
        thread::Builder::new().name("log".to_owned()).spawn(move || writing.write_to(out))?;
        Ok(Self(shared))
    }

    /// Waits until the lines so far are written, or a second has passed.
    pub(super) fn flush(&self) {
        let is_busy = |queue: &mut Queue| queue.is_writing || !queue.waiting.is_empty();
        drop(self.0.changed.wait_timeout_while(self.0.queue(), FLUSH_TIMEOUT, is_busy));
    }
}

impl<'a> MakeWriter<'a> for LogLines {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

impl Write for &LogLines {
    /// Takes a whole line, as tracing-subscriber writes them.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut queue = self.0.queue();
        if queue.waiting.len() + line.len() > MAX_WAITING {
            queue.lost += 1;
        } else {
            queue.waiting.extend_from_slice(line);
        }
        drop(queue);
        self.0.changed.notify_all();
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Passes on what is written. Each write waits until the test allows it.
    struct Slow {
        allowed: Receiver<()>,
        written: Sender<Vec<u8>>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.allowed.recv().map_err(io::Error::other)?;
            self.written.send(bytes.to_vec()).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The lines, what allows writes, and what was written.
    fn slow() -> (LogLines, Sender<()>, Receiver<Vec<u8>>) {
        let ((allow, allowed), (written, read)) = (channel(), channel());
        (LogLines::start(Slow { allowed, written }).unwrap(), allow, read)
    }

    #[test]
    fn writer_that_blocks_holds_no_line_up() {
        let (lines, allow, read) = slow();
        (&lines).write_all(b"first\n").unwrap();
        while !lines.0.queue().is_writing {
            thread::yield_now();
        }
        let line = [b'x'; 1024];
        for _ in 0..1024 {
            (&lines).write_all(&line).unwrap();
        }
        assert_eq!(lines.0.queue().lost, 0, "at the limit");
        (&lines).write_all(b"\n").unwrap();
        assert_eq!(lines.0.queue().lost, 1);
        allow.send(()).unwrap();
        allow.send(()).unwrap();
        assert_eq!(read.recv().unwrap(), b"first\n");
        assert_eq!(read.recv().unwrap().len(), MAX_WAITING);
        lines.flush();
        assert_eq!(lines.0.queue().lost, 0, "the warning has counted it");
    }

    #[test]
    fn flush_waits_for_what_is_written() {
        let (lines, allow, read) = slow();
        (&lines).write_all(b"a\n").unwrap();
        allow.send(()).unwrap();
        lines.flush();
        assert_eq!(read.try_recv().unwrap(), b"a\n");
    }
}
