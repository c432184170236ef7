//! Log lines on their way to stderr. A thread of their own writes them, so that a reader that has stopped (a full pipe, a
//! terminal that is on hold) does not stop the server: then lines wait, and those for which there is no space are
//! counted and dropped.

use std::{
    io::{self, Write},
    mem,
    sync::Arc,
    thread,
    time::Duration,
};

use parking_lot::{Condvar, Mutex};

/// The most bytes of lines that wait. As many may be in the hands of the writing thread.
const MAX_WAITING: usize = 1 << 20;

/// Larger buffers are given back once their lines are written.
const MAX_IDLE: usize = 64 << 10;

/// How long lines are collected before they are written, so that a busy server writes many at once.
const COLLECT: Duration = Duration::from_millis(20);

/// How long the end of the program waits for lines to be written.
const MAX_FLUSH: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
struct Waiting {
    lines: Vec<u8>,
    /// The number of lines that were dropped since the last lines were taken.
    dropped: u64,
    is_writing: bool,
    /// Whether the thread must be told of the next line.
    is_idle: bool,
    is_ending: bool,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    /// The first line for an idle thread was added, or the program ends.
    added: Condvar,
    written: Condvar,
}

/// Takes whole lines, and never blocks.
#[derive(Debug, Clone, Default)]
pub(super) struct Queue(Arc<Shared>);

impl Queue {
    /// Starts the thread that writes the lines to `out`. Lines that cannot be written are lost, since there is no other
    /// place to report them.
    pub(super) fn start(out: impl Write + Send + 'static) -> io::Result<Self> {
        let queue = Self::default();
        let lines = queue.clone();
        thread::Builder::new().name("log".to_owned()).spawn(move || lines.write_to(out))?;
        Ok(queue)
    }

    fn write_to(&self, mut out: impl Write) {
        let mut lines = Vec::new();
        loop {
            let dropped = self.take(&mut lines);
            let _ = out.write_all(&lines);
            lines.clear();
            lines.shrink_to(MAX_IDLE);
            if dropped > 0 {
                tracing::warn!(dropped, "log lines were dropped: nothing read those before them");
            }
        }
    }

    /// Waits for lines, and moves them into the empty `lines`. Returns how many lines were dropped after them.
    fn take(&self, lines: &mut Vec<u8>) -> u64 {
        let mut waiting = self.0.waiting.lock();
        waiting.is_writing = false;
        self.0.written.notify_all();
        while waiting.lines.is_empty() {
            waiting.is_idle = true;
            self.0.added.wait(&mut waiting);
        }
        waiting.is_idle = false;
        let may_collect = |waiting: &mut Waiting| !waiting.is_ending;
        self.0.added.wait_while_for(&mut waiting, may_collect, COLLECT);
        waiting.is_writing = true;
        mem::swap(lines, &mut waiting.lines);
        mem::take(&mut waiting.dropped)
    }

    /// Waits until all lines are written, but not for long.
    fn flush_all(&self) {
        let mut waiting = self.0.waiting.lock();
        waiting.is_ending = true;
        self.0.added.notify_one();
        let is_busy = |waiting: &mut Waiting| waiting.is_writing || !waiting.lines.is_empty();
        self.0.written.wait_while_for(&mut waiting, is_busy, MAX_FLUSH);
    }
}

impl Write for Queue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut waiting = self.0.waiting.lock();
        if waiting.lines.len() + line.len() > MAX_WAITING {
            waiting.dropped += 1;
        } else {
            waiting.lines.extend_from_slice(line);
            if waiting.is_idle {
                self.0.added.notify_one();
            }
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// When dropped, waits for up to one second until the lines that were logged before are written.
#[derive(Debug)]
#[must_use = "the last lines of a program that ends are lost without it"]
pub struct LogFlush(pub(super) Option<Queue>);

impl Drop for LogFlush {
    fn drop(&mut self) {
        if let Some(queue) = &self.0 {
            queue.flush_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

    use super::*;

    /// A pipe without a buffer.
    struct Pipe(SyncSender<Vec<u8>>);

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.send(bytes.to_vec()).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn pipe() -> (Queue, Receiver<Vec<u8>>) {
        let (out, read) = sync_channel(0);
        (Queue::start(Pipe(out)).unwrap(), read)
    }

    #[test]
    fn lines_that_nothing_reads_wait_and_then_are_dropped_and_counted() {
        let (mut queue, read) = pipe();
        queue.write_all(b"first\n").unwrap();
        while !queue.0.waiting.lock().is_writing {
            thread::yield_now();
        }
        let line = [b'x'; 1024];
        for _ in 0..1024 {
            queue.write_all(&line).unwrap();
        }
        assert_eq!(queue.0.waiting.lock().dropped, 0);
        queue.write_all(b"\n").unwrap();
        queue.write_all(&line).unwrap();
        let waiting = queue.0.waiting.lock();
        assert_eq!((waiting.lines.len(), waiting.dropped), (MAX_WAITING, 2));
        drop(waiting);
        assert_eq!(read.recv().unwrap(), b"first\n");
        assert_eq!(read.recv().unwrap().len(), MAX_WAITING);
        queue.write_all(b"last\n").unwrap();
        assert_eq!(read.recv().unwrap(), b"last\n");
        assert_eq!(queue.0.waiting.lock().dropped, 0, "they are reported once");
    }

    #[test]
    fn the_end_waits_for_lines_that_are_read_but_not_for_others() {
        let (mut queue, read) = pipe();
        queue.write_all(b"read\n").unwrap();
        let reader = thread::spawn(move || (read.recv().unwrap(), read));
        drop(LogFlush(Some(queue.clone())));
        let (line, _unread) = reader.join().unwrap();
        assert_eq!(line, b"read\n");
        queue.write_all(b"unread\n").unwrap();
        drop(LogFlush(Some(queue)));
    }

    #[test]
    fn lines_go_on_after_a_writer_that_fails() {
        let (mut queue, read) = pipe();
        drop(read);
        queue.write_all(b"lost\n").unwrap();
        queue.flush_all();
        queue.write_all(b"lost\n").unwrap();
        queue.flush_all();
        assert!(!queue.0.waiting.lock().is_writing);
    }
}
