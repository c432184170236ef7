//! Reads the committed corpus and mutates it.

use std::{fmt, fs};

use proptest::{prelude::*, sample::Index};

use super::fuzz;

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

/// Whether a fuzzer has added the file called `name`. Git ignores such names.
pub(crate) fn is_added(name: &str) -> bool {
    name.len() == 40
}

/// An input that is printed on one line.
pub(crate) struct Shown(pub(crate) Vec<u8>);

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.0.escape_ascii())
    }
}

#[derive(Debug, Clone)]
enum Part {
    Seed(Vec<u8>),
    OfSeed(Vec<u8>, Index, Index),
    Marker(String),
    Bytes(Vec<u8>),
}

impl Part {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Seed(seed) => seed.get(CHOICES..).unwrap_or_default(),
            Self::OfSeed(seed, from, to) => {
                let (from, to) = (from.index(seed.len() + 1), to.index(seed.len() + 1));
                &seed[from.min(to)..from.max(to)]
            }
            Self::Marker(marker) => marker.as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// The maximum number of choices at the start of an input.
const CHOICES: usize = 9;

/// Generates inputs: choices from the corpus or at random, then parts of the corpus and markers in any order.
pub(crate) fn mutated(seeds: Vec<Vec<u8>>, markers: Vec<String>) -> impl Strategy<Value = Shown> {
    let seed = || prop::sample::select(seeds.clone());
    let choices = prop_oneof![
        2 => seed().prop_map(|seed| seed[..seed.len().min(CHOICES)].to_vec()),
        1 => prop::collection::vec(any::<u8>(), CHOICES),
    ];
    let part = prop_oneof![
        1 => seed().prop_map(Part::Seed),
        6 => (seed(), any::<Index>(), any::<Index>()).prop_map(|(seed, from, to)| Part::OfSeed(seed, from, to)),
        4 => prop::sample::select(markers).prop_map(Part::Marker),
        1 => prop::collection::vec(any::<u8>(), 0..3).prop_map(Part::Bytes),
    ];
    (choices, prop::collection::vec(part, 0..8)).prop_map(|(mut input, parts)| {
        input.extend(parts.iter().flat_map(Part::bytes));
        Shown(input)
    })
}
