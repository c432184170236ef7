//! The fuzz targets' checks over the committed corpus and mutations of it, on stable Rust: what CI runs of `fuzz/`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test that cannot go on has failed"
)]

mod checks;
mod corpus;
mod dictionary;
mod seeds;

use std::{fs, path::PathBuf};

use proptest::test_runner::{Config, TestCaseError, TestRunner};

use self::{checks::Check, corpus::mutated};

/// Mutations tried of each target's corpus.
const TRIES: u32 = 1500;

/// A file or folder of the fuzz package.
fn fuzz(path: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "fuzz", path].iter().collect()
}

fn run((name, check): Check) {
    let corpus = corpus::read(name);
    assert!(!corpus.is_empty(), "{name} has no corpus");
    for (file, bytes) in &corpus {
        println!("{name}/{file}");
        check(bytes);
    }
    let seeds: Vec<_> = corpus.into_iter().map(|(_, bytes)| bytes).collect();
    let config = Config { cases: TRIES, failure_persistence: None, ..Config::default() };
    let tried = TestRunner::new(config).run(&mutated(seeds, dictionary::markers()), |bytes| {
        check(&bytes);
        Ok::<(), TestCaseError>(())
    });
    tried.unwrap_or_else(|error| panic!("{name}: {error}"));
}

/// The check of this name, over its corpus and mutations.
macro_rules! smoke {
    ($($name:ident),*) => {$(
        #[test]
        fn $name() {
            run(*checks::ALL.iter().find(|(name, _)| *name == stringify!($name)).expect("a check"));
        }
    )*};
}

smoke!(engine, json, literal, params, reader, sse);

/// The dictionary holds what the formats' tables hold today.
#[test]
fn the_dictionary_is_true() {
    let (path, text) = (fuzz("markers.dict"), dictionary::text());
    if std::env::var_os("TOOLWIRE_WRITE").is_some() {
        fs::write(&path, &text).unwrap();
        seeds::write();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == text, "write it anew: TOOLWIRE_WRITE=1 cargo test --test fuzz dictionary");
}
