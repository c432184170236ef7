//! [`AuditFile`]: a file with one event per line, as JSON.
//!
//! If the file cannot be written, writing is attempted again with the next events, since the disk may have space by
//! then, or the folder may exist. Events that were lost are counted, and reported with the next line:
//! `{"event":"lost","events":3}`. If the file was renamed, for instance by log rotation, a new file is created.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    iter,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, Receiver, SyncSender},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::json;

use super::{Record, unix_millis};

/// Maximum number of queued events. Further ones are dropped and counted.
const WAITING: usize = 4096;

/// Maximum number of events that are written together.
const BATCH: usize = 64;

/// How often to check whether the file was renamed, and to retry opening it.
const CHECK: Duration = Duration::from_secs(1);

/// How long to wait for the file at shutdown.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct AuditFile {
    records: SyncSender<Arc<Record>>,
    /// Disconnected when everything has been written.
    written: Receiver<()>,
}

impl AuditFile {
    /// Starts a thread that writes the file. `lost` counts the events that it could not write.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn start(path: PathBuf, lost: Arc<AtomicU64>) -> io::Result<Self> {
        let (records, waiting) = mpsc::sync_channel(WAITING);
        let (writing, written) = mpsc::sync_channel(0);
        let mut writer = Writer::new(path, lost, CHECK);
        thread::Builder::new().name("toolwire-audit".into()).spawn(move || {
            while let Ok(first) = waiting.recv() {
                let rest = waiting.try_iter().take(BATCH - 1);
                writer.write(iter::once(first).chain(rest));
            }
            drop::<SyncSender<()>>(writing);
        })?;
        Ok(Self { records, written })
    }

    /// Queues an event. Returns `false` if the queue is full.
    pub(super) fn take(&self, record: Arc<Record>) -> bool {
        self.records.try_send(record).is_ok()
    }

    /// Waits until everything has been written, but only for a limited time.
    pub(super) fn close(self) {
        let Self { records, written } = self;
        drop(records);
        // Nothing is sent on this channel: it disconnects when everything has been written. A timeout means that the
        // disk is too slow.
        let _ = written.recv_timeout(PATIENCE);
    }
}

struct Writer {
    path: PathBuf,
    file: Option<File>,
    /// When the file was last checked or opened.
    checked: Option<Instant>,
    check: Duration,
    is_failing: bool,
    lost: Arc<AtomicU64>,
}

impl Writer {
    fn new(path: PathBuf, lost: Arc<AtomicU64>, check: Duration) -> Self {
        Self { path, file: None, checked: None, check, is_failing: false, lost }
    }

    fn write(&mut self, records: impl Iterator<Item = Arc<Record>>) {
        let mut lines = String::new();
        let mut events = 0;
        for record in records {
            lines.push_str(&record.line());
            events += 1;
        }
        let missing = self.lost.swap(0, Ordering::Relaxed);
        if missing > 0 {
            let line = json!({"event": "lost", "t": unix_millis(), "events": missing});
            lines.insert_str(0, &format!("{line}\n"));
        }
        let written = self.file().and_then(|file| file.write_all(lines.as_bytes()));
        let path = self.path.display();
        match written {
            Ok(()) if self.is_failing => tracing::info!(%path, missing, "the audit file is written again"),
            Ok(()) => {}
            Err(error) => {
                if !self.is_failing {
                    tracing::error!(%path, %error, "the audit file cannot be written");
                }
                self.lost.fetch_add(missing + events, Ordering::Relaxed);
                self.file = None;
                self.is_failing = true;
                return;
            }
        }
        self.is_failing = false;
    }

    /// Returns the file, which is opened if necessary.
    fn file(&mut self) -> io::Result<&mut File> {
        if self.checked.is_none_or(|checked| checked.elapsed() >= self.check) {
            self.checked = Some(Instant::now());
            if self.file.as_ref().is_some_and(|file| !self.is_at_path(file)) {
                self.file = None;
            }
            if self.file.is_none() {
                self.file = Some(self.open()?);
            }
        }
        self.file.as_mut().ok_or_else(|| io::Error::other("it could not be written before"))
    }

    fn open(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.create(true).append(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&self.path)?;
        // The last line is incomplete if the disk was full or the process crashed. The next event must not continue it.
        if self.is_torn() {
            file.write_all(b"\n")?;
        }
        Ok(file)
    }

    /// Whether the last line lacks its line ending.
    fn is_torn(&self) -> bool {
        let last = || {
            let mut file = File::open(&self.path).ok()?;
            if !file.metadata().ok()?.is_file() {
                return None;
            }
            file.seek(SeekFrom::End(-1)).ok()?;
            let mut last = [0];
            file.read_exact(&mut last).ok().map(|()| last)
        };
        last().is_some_and(|last| last != *b"\n")
    }

    /// Whether the path still refers to the open file.
    #[cfg(unix)]
    fn is_at_path(&self, file: &File) -> bool {
        use std::os::unix::fs::MetadataExt;
        let id = |metadata: io::Result<std::fs::Metadata>| metadata.map(|it| (it.dev(), it.ino())).ok();
        id(file.metadata()) == id(std::fs::metadata(&self.path))
    }

    #[cfg(not(unix))]
    fn is_at_path(&self, _file: &File) -> bool {
        self.path.exists()
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use serde_json::Value;

    use super::*;
    use crate::AuditEvent;

    fn record(sequence: u64) -> Arc<Record> {
        let event =
            AuditEvent::RegistryChanged { tools: vec!["a\r\nb\u{1b}[31m\u{9b}\u{2028}\u{202e}".to_owned()] };
        Arc::new(Record { sequence, t: 5, subject: None, event })
    }

    fn writer(path: &Path) -> Writer {
        Writer::new(path.to_owned(), Arc::default(), Duration::ZERO)
    }

    fn lines(path: &Path) -> Vec<Value> {
        let text = fs::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn sequences(path: &Path) -> Vec<u64> {
        lines(path).iter().filter_map(|line| line["sequence"].as_u64()).collect()
    }

    #[test]
    fn hostile_text_stays_in_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        writer(&path).write([record(1)].into_iter());
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.matches('\n').count(), 1);
        assert!(!text.trim_end().contains(toolwire_net::untrusted_text::is_unprintable), "{text:?}");
        assert_eq!(lines(&path)[0]["tools"][0], "a\r\nb\u{1b}[31m\u{9b}\u{2028}\u{202e}");
    }

    #[test]
    fn renamed_file_is_left_and_a_new_one_begun() {
        let folder = tempfile::tempdir().unwrap();
        let (path, old) = (folder.path().join("audit.jsonl"), folder.path().join("audit.1"));
        let mut writer = writer(&path);
        writer.write([record(1), record(2)].into_iter());
        fs::rename(&path, &old).unwrap();
        writer.write([record(3)].into_iter());
        assert_eq!((sequences(&old), sequences(&path)), (vec![1, 2], vec![3]));
    }

    #[test]
    fn file_that_appears_later_says_what_it_missed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("logs/audit.jsonl");
        let mut writer = writer(&path);
        writer.write([record(1), record(2)].into_iter());
        writer.write([record(3)].into_iter());
        fs::create_dir(folder.path().join("logs")).unwrap();
        writer.write([record(4)].into_iter());
        let lines = lines(&path);
        assert_eq!((&lines[0]["event"], &lines[0]["events"]), (&"lost".into(), &3.into()));
        assert_eq!(sequences(&path), [4]);
    }

    #[test]
    fn torn_line_is_not_continued() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        fs::write(&path, "{\"event\":\"tool_use\",\"seq").unwrap();
        writer(&path).write([record(1)].into_iter());
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.lines().nth(1).unwrap().contains("\"sequence\":1"), "{text}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn full_disk_loses_events_and_nothing_else() {
        let lost = Arc::new(AtomicU64::new(0));
        let mut writer = Writer::new("/dev/full".into(), Arc::clone(&lost), Duration::ZERO);
        writer.write([record(1)].into_iter());
        writer.write([record(2), record(3)].into_iter());
        assert_eq!(lost.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn closed_file_has_all_events() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let file = AuditFile::start(path.clone(), Arc::default()).unwrap();
        for sequence in 1..=1000 {
            assert!(file.take(record(sequence)));
        }
        file.close();
        assert_eq!(sequences(&path), (1..=1000).collect::<Vec<u64>>());
    }
}
