//! Runs the checks of the fuzz targets on the committed corpus and its mutations, on stable Rust. This is the part
//! of `fuzz/` that CI runs.

pub(crate) mod checks;
mod corpus;
mod dictionary;
mod regressions;
mod seeds;

use std::{fs, panic::catch_unwind, path::PathBuf};

use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};

use self::{
    checks::Check,
    corpus::{Shown, mutated},
};
use crate::support::{generated::tries, repository::root};

/// The default number of mutations per target.
const TRIES: u32 = 1500;

fn fuzz(path: &str) -> PathBuf {
    root().join("fuzz").join(path)
}

fn run((name, check): Check) {
    let corpus = corpus::read(name);
    assert!(!corpus.is_empty(), "{name} has no corpus");
    for (file, bytes) in &corpus {
        println!("{name}/{file}");
        check(bytes);
    }
    let seeds: Vec<_> = corpus.into_iter().map(|(_, bytes)| bytes).collect();
    let config = Config { max_shrink_iters: 0, ..tries(TRIES) };
    let tried = TestRunner::new(config).run(&mutated(seeds, dictionary::markers()), |Shown(input)| {
        check(&input);
        Ok::<(), TestCaseError>(())
    });
    match tried {
        Ok(()) => {}
        Err(TestError::Fail(_, Shown(input))) => {
            let least = least(input, |input| catch_unwind(|| check(input)).is_err());
            println!("{name} fails for {:?}", Shown(least.clone()));
            check(&least);
        }
        Err(error) => panic!("{name}: {error}"),
    }
}

/// Minimizes `input`: removes every part without which the check still fails.
fn least(mut input: Vec<u8>, fails: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut size = input.len() / 2;
    while size > 0 {
        let mut at = 0;
        while at < input.len() {
            let mut less = input.clone();
            less.drain(at..(at + size).min(input.len()));
            if fails(&less) { input = less } else { at += size }
        }
        size /= 2;
    }
    input
}

macro_rules! smoke {
    ($($name:ident),*) => {$(
        #[test]
        fn $name() {
            run(*checks::ALL.iter().find(|(name, _)| *name == stringify!($name)).expect("a check"));
        }
    )*};
}

smoke!(engine, exchange, finder, http1, json, literal, params, quoted, reader, request, sse, template);

#[test]
fn dictionary_is_up_to_date() {
    let writes = std::env::var_os("TOOLWIRE_WRITE").is_some();
    if writes {
        seeds::write();
    }
    for (name, text) in dictionary::texts_of_files() {
        let path = fuzz(name);
        if writes {
            fs::write(&path, &text).unwrap();
        }
        let written = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            written == text,
            "write {name} again: TOOLWIRE_WRITE=1 cargo test --test core fuzz::dictionary"
        );
    }
}
