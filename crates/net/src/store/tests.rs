//! Tests of which values a store retains, for how long, and whether they survive restarts.

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

use super::*;

fn settings(folder: Option<&Path>) -> StoreSettings {
    let folder = folder.map(Path::to_owned);
    StoreSettings { folder, max_bytes: 10_000, ttl: Duration::from_secs(100) }
}

fn store(folder: Option<&Path>) -> EmbeddedStore {
    EmbeddedStore::new(settings(folder), Box::new(|_| ()))
}

fn key(owner: u8, id: &str) -> Key {
    Key::new(Owner([owner; 32]), id)
}

fn text(store: &EmbeddedStore, key: &Key, now: u64) -> Option<String> {
    let value = store.get(key, now).expect("a store that can be read");
    value.map(|value| String::from_utf8(value.to_vec()).expect("text"))
}

#[test]
fn value_is_read_at_once_and_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("a/b");
    let first = store(Some(&inner));
    assert_eq!(text(&first, &key(1, "x"), 0), None);
    assert!(!inner.exists(), "nothing was stored");
    first.put(key(1, "x"), Bytes::from_static(b"one"), 10);
    first.put(key(1, "\0\u{fffd} "), Bytes::from_static(b"two"), 10);
    assert_eq!(text(&first, &key(1, "x"), 10).as_deref(), Some("one"));
    drop(first);
    let second = store(Some(&inner));
    assert_eq!(text(&second, &key(1, "x"), 10).as_deref(), Some("one"));
    assert_eq!(text(&second, &key(1, "\0\u{fffd} "), 10).as_deref(), Some("two"));
}

#[test]
fn values_belong_to_their_owner_and_expire() {
    let folder = tempfile::tempdir().unwrap();
    for folder in [None, Some(folder.path())] {
        let store = store(folder);
        store.put(key(1, "x"), Bytes::from_static(b"one"), 10);
        assert_eq!(text(&store, &key(2, "x"), 10), None);
        assert_eq!(text(&store, &key(1, "x"), 109).as_deref(), Some("one"));
        assert_eq!(text(&store, &key(1, "x"), 110), None);
        assert!(!store.remove(&key(2, "x"), 10).unwrap());
        assert!(store.remove(&key(1, "x"), 10).unwrap());
        assert!(!store.remove(&key(1, "x"), 10).unwrap());
        assert_eq!(text(&store, &key(1, "x"), 10), None);
    }
}

/// Values in memory count until they are written. The file's cache stays within its limit however much is written.
#[test]
fn held_memory_is_counted_and_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let value = Bytes::from(vec![b'x'; 1000]);
    let in_memory = store(None);
    for count in 1..20 {
        in_memory.put(key(1, &format!("{count:02}")), value.clone(), 0);
        let size = (32 + 2 + 256 + value.len()).min(10_000);
        assert_eq!(in_memory.held(), HeldBytes { values: count.min(10_000 / size) * size, pages: 0 });
    }
    let larger = StoreSettings { max_bytes: 1 << 20, ..settings(Some(folder.path())) };
    let on_disk = EmbeddedStore::new(larger, Box::new(|_| ()));
    for number in 0..1000 {
        on_disk.put(key(1, &number.to_string()), value.clone(), 0);
        let HeldBytes { values, pages } = on_disk.held();
        assert!(values <= 1 << 20 && pages <= open_file::CACHE, "{values} {pages}");
    }
    while on_disk.held().values > 0 {
        thread::yield_now();
    }
    assert!(
        (1..1000).all(|number| text(&on_disk, &key(1, &number.to_string()), 0).is_some() || number < 300)
    );
    let HeldBytes { pages, .. } = on_disk.held();
    assert!((open_file::CACHE / 2..=open_file::CACHE).contains(&pages), "{pages}");
}

#[test]
fn oldest_values_make_room() {
    let folder = tempfile::tempdir().unwrap();
    for folder in [None, Some(folder.path())] {
        for round in 0..2 {
            let store = store(folder);
            for number in 0..50 {
                store.put(key(1, &number.to_string()), Bytes::from(vec![b'x'; 1000]), round);
            }
            drop(store);
        }
        let store = store(folder);
        let kept = |number: u32| text(&store, &key(1, &number.to_string()), 1).is_some();
        let kept: Vec<_> = (0..50).filter(|number| kept(*number)).collect();
        assert_eq!(kept, if folder.is_some() { (43..50).collect::<Vec<_>>() } else { Vec::new() });
    }
}

#[test]
fn removed_value_is_not_written_later() {
    let folder = tempfile::tempdir().unwrap();
    let first = store(Some(folder.path()));
    for number in 0..50 {
        first.put(key(1, &number.to_string()), Bytes::from_static(b"one"), 0);
        assert!(first.remove(&key(1, &number.to_string()), 0).unwrap());
    }
    drop(first);
    let second = store(Some(folder.path()));
    assert!((0..50).all(|number| text(&second, &key(1, &number.to_string()), 0).is_none()));
}

#[test]
fn damaged_file_is_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("store.redb"), vec![b'?'; 100_000]).unwrap();
    let first = store(Some(folder.path()));
    first.put(key(1, "x"), Bytes::from_static(b"one"), 0);
    drop(first);
    assert!(folder.path().join("store.redb.damaged").exists());
    assert_eq!(text(&store(Some(folder.path())), &key(1, "x"), 0).as_deref(), Some("one"));
}

#[test]
fn file_of_a_newer_version_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.redb");
    let values = |version: u64| {
        let database = redb::Database::create(&file).unwrap();
        let writing = database.begin_write().unwrap();
        let table = redb::TableDefinition::<&str, u64>::new("format");
        let before =
            writing.open_table(table).unwrap().insert("version", version).unwrap().map(|old| old.value());
        writing.commit().unwrap();
        before
    };
    values(2);
    let newer = store(Some(folder.path()));
    newer.put(key(1, "x"), Bytes::from_static(b"one"), 0);
    assert_eq!(text(&newer, &key(1, "x"), 0).as_deref(), Some("one"), "in memory");
    drop(newer);
    assert!(!folder.path().join("store.redb.damaged").exists());
    assert_eq!(values(1), Some(2));
    assert_eq!(text(&store(Some(folder.path())), &key(1, "x"), 0), None, "it was not written to the file");
}

#[test]
fn file_that_cannot_be_used_leaves_values_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let blocked = folder.path().join("file");
    fs::write(&blocked, "not a folder").unwrap();
    let failures = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&failures);
    let on_failure = move |values: NotStored| _ = counted.fetch_add(values.count(), Ordering::Relaxed);
    let store = EmbeddedStore::new(settings(Some(&blocked)), Box::new(on_failure));
    store.put(key(1, "x"), Bytes::from_static(b"one"), 0);
    assert_eq!(text(&store, &key(1, "x"), 0).as_deref(), Some("one"));
    if let Some(Writer { wake, thread }) = lock(&store.writer).take() {
        drop(wake);
        thread.join().unwrap();
    }
    assert_eq!(text(&store, &key(1, "x"), 0).as_deref(), Some("one"));
    assert_eq!(failures.load(Ordering::Relaxed), 1);
}

#[test]
fn second_process_at_the_same_file_keeps_its_own_values() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (store(Some(folder.path())), store(Some(folder.path())));
    for (store, value) in [(&first, "one"), (&second, "two")] {
        store.put(key(1, value), Bytes::from(value), 0);
    }
    for (store, value) in [(&first, "one"), (&second, "two")] {
        assert_eq!(text(store, &key(1, value), 0).as_deref(), Some(value));
    }
}

fn wait(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn waiting(store: &EmbeddedStore) -> usize {
    lock(&store.shared.memory).len()
}

#[test]
fn values_of_a_full_disk_are_written_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let failures = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&failures);
    let on_failure = move |values: NotStored| _ = counted.fetch_add(values.count(), Ordering::Relaxed);
    let settings = StoreSettings { max_bytes: 1 << 20, ..settings(Some(folder.path())) };
    let first = EmbeddedStore::new(settings.clone(), Box::new(on_failure));
    let faults = lock(&first.shared.disk).faults.clone();
    let put = |name: &str, value: &'static str| first.put(key(1, name), Bytes::from(value), 0);
    for round in 0..3 {
        put("before", "one");
        put("newer", "one");
        wait("written", || waiting(&first) == 0);
        let failed = failures.load(Ordering::Relaxed);
        faults.set_full(true);
        put("newer", "two");
        (0..100).for_each(|number| put(&format!("{round} {number}"), "three"));
        wait("failed", || failures.load(Ordering::Relaxed) > failed);
        // Opening the file again needs space as well, but reading it does not.
        assert_eq!(text(&first, &key(1, "before"), 0).as_deref(), Some("one"));
        put("newer", "four");
        faults.set_full(false);
        wait("written again", || waiting(&first) == 0);
        assert_eq!(text(&first, &key(1, "newer"), 0).as_deref(), Some("four"));
    }
    let failed = failures.load(Ordering::Relaxed);
    faults.set_full(true);
    put("last", "five");
    put("newer", "six");
    wait("failed", || failures.load(Ordering::Relaxed) > failed);
    faults.set_full(false);
    drop(first);
    let second = EmbeddedStore::new(settings, Box::new(|_| ()));
    for (name, value) in
        [("before", "one"), ("newer", "six"), ("0 99", "three"), ("2 0", "three"), ("last", "five")]
    {
        assert_eq!(text(&second, &key(1, name), 0).as_deref(), Some(value), "{name}");
    }
}

/// The content of a file with `count` values.
fn filled(count: usize) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let settings = StoreSettings { max_bytes: 1 << 20, ..settings(Some(folder.path())) };
    let store = EmbeddedStore::new(settings, Box::new(|_| ()));
    (0..count).for_each(|number| store.put(key(1, &number.to_string()), Bytes::from(vec![b'x'; 3000]), 0));
    drop(store);
    fs::read(folder.path().join("store.redb")).unwrap()
}

/// Damages a file like a bad disk or an incomplete copy would.
fn damage(bytes: &mut Vec<u8>, random: &mut fastrand::Rng) {
    const PAGE: usize = 4096;
    let page = |random: &mut fastrand::Rng| random.usize(0..bytes.len() / PAGE) * PAGE;
    let (from, to) = (page(random), page(random));
    match random.usize(0..7) {
        0 => bytes.truncate(random.usize(0..bytes.len())),
        1 => bytes[to..to + PAGE].fill(0),
        2 => bytes.copy_within(from..from + PAGE, to),
        3 => bytes[..random.usize(1..600)].fill_with(|| random.u8(..)),
        4 => bytes[to..].fill(0xff),
        bits => {
            for _ in 0..[0, 0, 0, 0, 0, 1, 500][bits] + random.usize(1..20) {
                let at = random.usize(0..bytes.len());
                bytes[at] ^= 1 << random.u8(0..8);
            }
        }
    }
}

#[test]
fn damaged_files_are_read_or_set_aside() {
    let whole = filled(60);
    let mut random = fastrand::Rng::with_seed(7);
    for round in 0..200 {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("store.redb");
        let mut bytes = whole.clone();
        damage(&mut bytes, &mut random);
        fs::write(&file, bytes).unwrap();
        let first = store(Some(folder.path()));
        for number in 0..60 {
            let value = first.get(&key(1, &number.to_string()), 0).expect("a store that can be read");
            assert!(value.is_none_or(|value| value.iter().all(|byte| *byte == b'x')), "{round}");
        }
        first.put(key(1, "new"), Bytes::from_static(b"one"), 0);
        drop(first);
        let second = store(Some(folder.path()));
        assert_eq!(text(&second, &key(1, "new"), 0).as_deref(), Some("one"), "{round}");
    }
}

/// redb has a small cache in tests, so it rereads most of the file. A damaged page that was in the cache may be noticed
/// only after the value was written, which is then in the file that was set aside.
#[test]
fn file_that_is_damaged_while_it_is_used_is_set_aside() {
    let whole = filled(60);
    let mut random = fastrand::Rng::with_seed(8);
    for round in 0..50 {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("store.redb");
        fs::write(&file, &whole).unwrap();
        let first = store(Some(folder.path()));
        assert!(first.get(&key(1, "0"), 0).unwrap().is_some());
        let mut bytes = whole.clone();
        damage(&mut bytes, &mut random);
        let in_place = fs::OpenOptions::new().write(true).open(&file).unwrap();
        in_place.set_len(bytes.len() as u64).unwrap();
        std::io::Write::write_all(&mut &in_place, &bytes).unwrap();
        for number in 0..60 {
            let value = first.get(&key(1, &number.to_string()), 0).expect("a store that can be read");
            assert!(value.is_none_or(|value| value.iter().all(|byte| *byte == b'x')), "{round}");
        }
        let put = || {
            first.put(key(1, "new"), Bytes::from_static(b"one"), 0);
            wait("written", || waiting(&first) == 0);
            text(&first, &key(1, "new"), 0)
        };
        let aside = folder.path().join("store.redb.damaged");
        let before = aside.exists();
        let read = put().or_else(|| {
            assert!(!before && aside.exists(), "{round}");
            put()
        });
        assert_eq!(read.as_deref(), Some("one"), "{round}");
        drop(first);
        let second = store(Some(folder.path()));
        assert_eq!(text(&second, &key(1, "new"), 0).as_deref(), Some("one"), "{round}");
    }
}

#[test]
fn damaged_files_are_kept_beside_each_other() {
    let folder = tempfile::tempdir().unwrap();
    for content in ["one", "two", "three"] {
        fs::write(folder.path().join("store.redb"), content.repeat(1000)).unwrap();
        assert_eq!(text(&store(Some(folder.path())), &key(1, "x"), 0), None);
    }
    for (name, content) in [("damaged", "one"), ("damaged.2", "two"), ("damaged.3", "three")] {
        let path = folder.path().join(format!("store.redb.{name}"));
        assert_eq!(fs::read_to_string(path).unwrap(), content.repeat(1000), "{name}");
    }
}

#[test]
fn what_is_not_a_file_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.redb");
    fs::create_dir(&file).unwrap();
    let store = store(Some(folder.path()));
    assert!(store.get(&key(1, "x"), 0).unwrap_err().is_unusable());
    store.put(key(1, "x"), Bytes::from_static(b"one"), 0);
    assert_eq!(text(&store, &key(1, "x"), 0).as_deref(), Some("one"));
    assert!(store.remove(&key(1, "x"), 0).unwrap());
    assert!(file.is_dir());
}

#[test]
fn file_of_a_process_that_has_ended_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let first = store(Some(folder.path()));
    first.put(key(1, "first"), Bytes::from_static(b"one"), 0);
    wait("written", || waiting(&first) == 0);
    let second = store(Some(folder.path()));
    second.put(key(1, "second"), Bytes::from_static(b"two"), 0);
    for _ in 0..3 {
        assert!(second.get(&key(1, "first"), 0).unwrap_err().is_busy());
    }
    assert_eq!(text(&second, &key(1, "second"), 0).as_deref(), Some("two"));
    drop(first);
    wait("written", || waiting(&second) == 0);
    for (name, value) in [("first", "one"), ("second", "two")] {
        assert_eq!(text(&second, &key(1, name), 0).as_deref(), Some(value));
    }
}

/// What can be stored of a file that was created on a full disk is not a damaged file.
#[test]
fn new_file_that_could_not_be_completed_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let metrics = FileMetrics::default();
    let damaged = || metrics.damaged.get_or_create(&[("file", "store.redb")]).get();
    let unwritten = || metrics.unwritten.get_or_create(&[("file", "store.redb")]).get();
    let report = FileReport::new("store.redb", metrics.clone());
    let first = EmbeddedStore::in_file(
        settings(Some(folder.path())),
        report,
        SteadyClock::default(),
        Box::new(|_| ()),
    );
    lock(&first.shared.disk).faults.set_full(true);
    first.put(key(1, "x"), Bytes::from_static(b"one"), 0);
    wait("failed", || unwritten() == 1);
    // The file is created again every second.
    thread::sleep(disk::RETRY + disk::RETRY / 2);
    let names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!((names.as_slice(), damaged()), ([].as_slice(), 0));
    lock(&first.shared.disk).faults.set_full(false);
    wait("written", || waiting(&first) == 0);
    assert_eq!((unwritten(), damaged()), (0, 0));
}

/// A file system may lose the content of a file when a machine crashes.
#[test]
fn file_that_has_lost_its_content_counts_as_damaged() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("store.redb"), "").unwrap();
    let metrics = FileMetrics::default();
    let report = FileReport::new("store.redb", metrics.clone());
    let settings = settings(Some(folder.path()));
    let store = EmbeddedStore::in_file(settings, report, SteadyClock::default(), Box::new(|_| ()));
    assert_eq!(text(&store, &key(1, "x"), 0), None);
    assert_eq!(metrics.damaged.get_or_create(&[("file", "store.redb")]).get(), 1);
}

#[test]
fn values_outlive_a_clock_that_is_wrong_for_a_while() {
    let folder = tempfile::tempdir().unwrap();
    for folder in [None, Some(folder.path())] {
        let report = FileReport::new("store.redb", FileMetrics::default());
        let store =
            EmbeddedStore::in_file(settings(folder), report, SteadyClock::default(), Box::new(|_| ()));
        store.put(key(1, "x"), Bytes::from_static(b"one"), 1000);
        assert_eq!(text(&store, &key(1, "x"), 1000).as_deref(), Some("one"));
        let later = 1000 + 86_400;
        assert_eq!(text(&store, &key(1, "x"), later).as_deref(), Some("one"));
        store.put(key(1, "y"), Bytes::from_static(b"two"), later);
        if folder.is_some() {
            wait("written", || waiting(&store) == 0);
        }
        assert_eq!(text(&store, &key(1, "x"), 1050).as_deref(), Some("one"), "the clock is right again");
        assert_eq!(text(&store, &key(1, "x"), 1101), None, "it has expired");
        assert_eq!(text(&store, &key(1, "y"), later + 99).as_deref(), Some("two"));
        store.put(key(1, "z"), Bytes::from_static(b"three"), 10);
        assert_eq!(
            text(&store, &key(1, "z"), 1150).as_deref(),
            Some("three"),
            "it was stored while the clock was behind"
        );
    }
}

#[test]
fn files_are_examined_without_a_change() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.redb");
    assert_eq!(examine(&file), FileState::Missing);
    let whole = filled(10);
    let mut damaged = whole.clone();
    damaged[..100].fill(b'?');
    for (content, is_damaged) in [(whole.as_slice(), false), (damaged.as_slice(), true), (&[], true)] {
        fs::write(&file, content).unwrap();
        match examine(&file) {
            FileState::Whole(len) => assert!(!is_damaged && len == content.len() as u64),
            FileState::Damaged(_) => assert!(is_damaged),
            other => panic!("{other:?}"),
        }
        assert_eq!(fs::read(&file).unwrap(), content);
    }
    fs::write(&file, &whole).unwrap();
    let running = store(Some(folder.path()));
    assert!(running.get(&key(1, "0"), 0).unwrap().is_some());
    assert_eq!(examine(&file), FileState::InUse);
    // As a process leaves its file that is killed.
    let killed = fs::read(&file).unwrap();
    drop(running);
    fs::write(&file, &killed).unwrap();
    assert_eq!(examine(&file), FileState::Whole(killed.len() as u64));
    assert_eq!(fs::read(&file).unwrap(), killed);
}
