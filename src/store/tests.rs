//! What a store keeps, for how long, and across restarts.

use std::{
    fs,
    sync::atomic::{AtomicU64, Ordering},
};

use super::*;

fn settings(folder: Option<&std::path::Path>) -> StoreSettings {
    let folder = folder.map(std::path::Path::to_owned);
    StoreSettings { folder, max_bytes: 10_000, ttl: Duration::from_secs(100) }
}

fn store(folder: Option<&std::path::Path>) -> EmbeddedStore {
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

/// The program that wrote it can still read it.
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
    let on_failure = move |count| _ = counted.fetch_add(count, Ordering::Relaxed);
    let store = EmbeddedStore::new(settings(Some(&blocked)), Box::new(on_failure));
    store.put(key(1, "x"), Bytes::from_static(b"one"), 0);
    assert_eq!(text(&store, &key(1, "x"), 0).as_deref(), Some("one"));
    if let Some(Writer { wanted, thread }) = lock(&store.writer).take() {
        drop(wanted);
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
