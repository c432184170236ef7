//! [`Cache`]: the answers of earlier runs, one JSON object per line, so that a run can be stopped and resumed.
//!
//! An answer's key is the digest of everything that the answer depends on (see `plan`). Unreadable lines are ignored: if
//! the program was killed, the last line may be incomplete.

use std::{
    collections::HashMap,
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write},
    path::Path,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::ask::Reply;
use crate::fixture::Answer;

/// Maximum size of a line, in bytes. The limits of `ask` keep every answer below this size.
const MAX_LINE: u64 = 4 << 20;

/// A line of the file. The variant and the prompt are only for human readers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Record {
    key: String,
    variant: String,
    prompt: String,
    run: u32,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    to_call_ms: Option<f64>,
    total_ms: f64,
    answer: Answer,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) variant: &'a str,
    pub(crate) prompt: &'a str,
    pub(crate) run: u32,
}

/// The answers of earlier runs.
#[derive(Debug)]
pub(crate) struct Cache {
    file: File,
    replies: HashMap<String, Reply>,
}

impl Cache {
    /// Opens or creates the file, creating its folder if necessary, and reads the answers whose keys satisfy `is_wanted`.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub(crate) fn open(path: &Path, is_wanted: impl Fn(&str) -> bool) -> io::Result<Self> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder)?;
        }
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let replies = read(&file, is_wanted)?;
        end_line(&mut file)?;
        Ok(Self { file, replies })
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Reply> {
        self.replies.get(key)
    }

    /// Appends an answer to the file, in a single write.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn keep(&mut self, key: &str, asked: Asked<'_>, reply: Reply) -> io::Result<()> {
        let millis = |time: Duration| (time.as_secs_f64() * 1e6).round() / 1e3;
        let record = Record {
            key: key.to_owned(),
            variant: asked.variant.to_owned(),
            prompt: asked.prompt.to_owned(),
            run: asked.run,
            to_call_ms: reply.to_call.map(millis),
            total_ms: millis(reply.total),
            answer: reply.answer.clone(),
        };
        let mut line = serde_json::to_vec(&record)?;
        line.push(b'\n');
        self.file.write_all(&line)?;
        self.replies.insert(key.to_owned(), reply);
        Ok(())
    }
}

/// Reads the answers in `file` whose keys satisfy `is_wanted`. If a key occurs twice, the later line counts.
fn read(file: &File, is_wanted: impl Fn(&str) -> bool) -> io::Result<HashMap<String, Reply>> {
    let mut lines = BufReader::new(file);
    let (mut replies, mut line) = (HashMap::new(), Vec::new());
    loop {
        line.clear();
        if lines.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)? == 0 {
            return Ok(replies);
        }
        let Ok(record) = serde_json::from_slice::<Record>(&line) else { continue };
        if is_wanted(&record.key) {
            let time = |millis: f64| Duration::try_from_secs_f64(millis / 1e3).unwrap_or_default();
            let reply = Reply {
                answer: record.answer,
                to_call: record.to_call_ms.map(time),
                total: time(record.total_ms),
            };
            replies.insert(record.key, reply);
        }
    }
}

/// Completes an incomplete last line, so that the next record starts on a new line.
fn end_line(file: &mut File) -> io::Result<()> {
    if file.metadata()?.len() == 0 {
        return Ok(());
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    if last == *b"\n" { Ok(()) } else { file.write_all(b"\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: Asked<'_> = Asked { variant: "hermes", prompt: "p", run: 0 };

    fn reply(text: &str) -> Reply {
        let answer = Answer { text: text.to_owned(), ..Answer::default() };
        Reply { answer, to_call: Some(Duration::from_millis(12)), total: Duration::from_millis(34) }
    }

    #[test]
    fn answers_are_found_again_by_their_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/cache.jsonl");
        let mut cache = Cache::open(&path, |_| true).unwrap();
        cache.keep("one", ASKED, reply("1")).unwrap();
        cache.keep("two", ASKED, reply("2")).unwrap();
        cache.keep("one", ASKED, reply("3\n\u{2028}")).unwrap();
        assert_eq!(cache.get("one"), Some(&reply("3\n\u{2028}")));
        let again = Cache::open(&path, |key| key == "one").unwrap();
        assert_eq!((again.get("one"), again.get("two")), (Some(&reply("3\n\u{2028}")), None));
    }

    #[test]
    fn torn_and_foreign_lines_are_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache.jsonl");
        let mut cache = Cache::open(&path, |_| true).unwrap();
        cache.keep("one", ASKED, reply("1")).unwrap();
        drop(cache);
        let whole = fs::read(&path).unwrap();
        for end in 0..whole.len() {
            fs::write(&path, [b"{}\n\xff\xfe\n", &whole[..], &whole[..end]].concat()).unwrap();
            let mut cache = Cache::open(&path, |_| true).unwrap();
            cache.keep("two", ASKED, reply("2")).unwrap();
            let again = Cache::open(&path, |_| true).unwrap();
            assert_eq!((again.get("one"), again.get("two")), (Some(&reply("1")), Some(&reply("2"))), "{end}");
        }
    }
}
