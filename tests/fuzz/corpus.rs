//! The committed corpus, and mutations of it.

use std::fs;

use proptest::{prelude::*, sample::Index};

use super::fuzz;

/// The inputs of one target, by name.
pub(crate) fn read(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = fuzz("corpus").join(target);
    let Ok(entries) = fs::read_dir(&folder) else { return Vec::new() };
    let mut inputs: Vec<_> = entries
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .collect();
    inputs.sort();
    inputs
}

/// One thing that is done to an input.
#[derive(Debug, Clone)]
enum Change {
    /// A byte becomes another.
    Set(Index, u8),
    /// A part is taken out.
    Cut(Index, Index),
    /// A part is said twice.
    Twice(Index, Index),
    /// A marker is put in.
    Marker(Index, String),
    /// It goes on as another input does from some place on.
    Splice(Index, Vec<u8>, Index),
}

impl Change {
    fn of(&self, mut input: Vec<u8>) -> Vec<u8> {
        match self {
            Self::Set(at, byte) => {
                if let Some(old) = at.index(input.len() + 1).checked_sub(1) {
                    input[old] = *byte;
                }
            }
            Self::Cut(from, to) => {
                let (from, to) = part(&input, from, to);
                input.drain(from..to);
            }
            Self::Twice(from, to) => {
                let (from, to) = part(&input, from, to);
                let again = input[from..to].to_vec();
                input.splice(to..to, again);
            }
            Self::Marker(at, marker) => {
                let at = at.index(input.len() + 1);
                input.splice(at..at, marker.bytes());
            }
            Self::Splice(at, other, from) => {
                input.truncate(at.index(input.len() + 1));
                input.extend_from_slice(&other[from.index(other.len() + 1)..]);
            }
        }
        input
    }
}

fn part(input: &[u8], from: &Index, to: &Index) -> (usize, usize) {
    let (from, to) = (from.index(input.len() + 1), to.index(input.len() + 1));
    (from.min(to), from.max(to))
}

/// An input of the corpus, changed a few times.
pub(crate) fn mutated(seeds: Vec<Vec<u8>>, markers: Vec<String>) -> impl Strategy<Value = Vec<u8>> {
    let seed = || prop::sample::select(seeds.clone());
    let place = any::<Index>;
    let change = prop_oneof![
        2 => (place(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        2 => (place(), place()).prop_map(|(from, to)| Change::Cut(from, to)),
        1 => (place(), place()).prop_map(|(from, to)| Change::Twice(from, to)),
        4 => (place(), prop::sample::select(markers)).prop_map(|(at, marker)| Change::Marker(at, marker)),
        2 => (place(), seed(), place()).prop_map(|(at, other, from)| Change::Splice(at, other, from)),
    ];
    let changes = prop::collection::vec(change, 0..8);
    (seed(), changes).prop_map(|(seed, changes)| changes.iter().fold(seed, |input, change| change.of(input)))
}
