//! Compares the responses that clients of each dialect receive for each fixture with snapshots, both streaming
//! and non-streaming.
//!
//! Snapshots are stored in `tests/golden/DIALECT/FIXTURE.txt`. New fixtures and new client dialects are included
//! automatically. `TOOLWIRE_WRITE=1 cargo test --test golden` rewrites the snapshots; review the diff before
//! committing it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::print_stdout,
    reason = "a failing test panics, wherever its helpers live"
)]

#[path = "../support/repository.rs"]
mod repository;

use std::{
    collections::BTreeSet,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

use toolwire::{
    dialect::ClientDialect,
    fixture::{Fixture, assemble},
};

use self::repository::root;

/// How many lines at each end of a body are shown. The lines in between are counted and hashed.
const SHOWN_LINES: usize = 30;

/// How many bytes at each end of a long line are shown.
const SHOWN_BYTES: usize = 400;

fn folder() -> PathBuf {
    root().join("tests/golden")
}

#[test]
fn responses_in_every_client_dialect_equal_their_snapshots() {
    let writes = std::env::var_os("TOOLWIRE_WRITE").is_some();
    let fixtures = root().join("fixtures");
    let fixtures = Fixture::load_all(&[fixtures]).expect("the fixtures");
    let (mut known, mut wrong) = (BTreeSet::new(), Vec::new());
    for client in ClientDialect::all() {
        let folder = folder().join(client.dialect().name());
        for (_, fixture) in &fixtures {
            let path = folder.join(format!("{}.txt", fixture.name));
            let snapshot = snapshot(fixture, client);
            if writes {
                fs::create_dir_all(&folder).expect("a folder");
                fs::write(&path, &snapshot).expect("a snapshot");
            } else if let Some(difference) = difference(&path, &snapshot) {
                wrong.push(format!("{}: {difference}", path.display()));
            }
            known.insert(path);
        }
    }
    for path in snapshots(&folder()).filter(|path| !known.contains(path)) {
        if writes {
            fs::remove_file(&path).expect("a snapshot without a fixture");
        } else {
            wrong.push(format!("{}: there is no such fixture or dialect", path.display()));
        }
    }
    let hint = "read the differences after TOOLWIRE_WRITE=1 cargo test --test golden";
    assert!(wrong.is_empty(), "{} snapshots differ; {hint}\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn responses_in_every_client_dialect_break_no_rule_of_it() {
    let fixtures = root().join("fixtures");
    let fixtures = Fixture::load_all(&[fixtures]).expect("the fixtures");
    for client in ClientDialect::all() {
        for (_, fixture) in &fixtures {
            for stream in [true, false] {
                let Ok((status, body)) = fixture.received_by(client, stream) else { continue };
                let assembled = assemble(client, &body, stream, status);
                let faults = assembled.faults;
                assert_eq!(faults, Vec::<String>::new(), "{}, {client:?}, stream: {stream}", fixture.name);
            }
        }
    }
}

fn snapshots(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let dialects = fs::read_dir(folder).expect("the folder").flatten().map(|entry| entry.path());
    let dialects = dialects.filter(|path| path.is_dir()).collect::<Vec<_>>();
    dialects
        .into_iter()
        .flat_map(|dialect| fs::read_dir(dialect).expect("a folder").flatten().map(|entry| entry.path()))
}

fn snapshot(fixture: &Fixture, client: ClientDialect) -> String {
    let mut shown = String::new();
    for (mode, stream) in [("streamed", true), ("whole", false)] {
        match fixture.received_by(client, stream) {
            Ok((status, body)) => {
                writeln!(shown, "== {mode}: {status}, {} bytes", body.len()).unwrap();
                show(&body, &mut shown);
            }
            Err(failure) => writeln!(shown, "== {mode}: {failure}").unwrap(),
        }
    }
    shown
}

fn show(body: &[u8], shown: &mut String) {
    let text = std::str::from_utf8(body).expect("the client gets UTF-8");
    let lines: Vec<_> = text.split_inclusive('\n').collect();
    let elided = lines.len().saturating_sub(2 * SHOWN_LINES);
    for (at, line) in lines.iter().enumerate() {
        if elided > 0 && at == SHOWN_LINES {
            let left_out = lines[SHOWN_LINES..SHOWN_LINES + elided].concat();
            writeln!(shown, "~~ {elided} lines, {} bytes, {:016x}", left_out.len(), hash(&left_out)).unwrap();
        }
        if elided == 0 || at < SHOWN_LINES || at >= SHOWN_LINES + elided {
            show_line(line, shown);
        }
    }
}

fn show_line(line: &str, shown: &mut String) {
    // Makes missing line endings and carriage returns visible.
    let (line, end) = line.strip_suffix('\n').map_or((line, "~~\n"), |line| (line, "\n"));
    let line = line.replace('\r', "\u{240d}");
    if line.len() <= 3 * SHOWN_BYTES {
        shown.extend([line.as_str(), end]);
        return;
    }
    let from = line.floor_char_boundary(SHOWN_BYTES);
    let to = line.ceil_char_boundary(line.len() - SHOWN_BYTES);
    let between = &line[from..to];
    write!(shown, "{} ~~ {} bytes, {:016x} ~~ {}", &line[..from], between.len(), hash(between), &line[to..])
        .unwrap();
    shown.push_str(end);
}

/// FNV-1a, since std's hashes may change between toolchains.
fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn difference(path: &Path, snapshot: &str) -> Option<String> {
    let Ok(kept) = fs::read_to_string(path) else { return Some("there is no snapshot".to_owned()) };
    if kept == snapshot {
        return None;
    }
    let mut pairs = kept.lines().zip(snapshot.lines()).enumerate();
    let found = pairs.find(|(_, (kept, new))| kept != new);
    Some(found.map_or_else(
        || format!("{} lines became {}", kept.lines().count(), snapshot.lines().count()),
        |(at, (kept, new))| format!("line {}\n  was {kept}\n  is  {new}", at + 1),
    ))
}
