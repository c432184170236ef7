//! Selects the formats to search for: those that a model is known to write, and those that are safe to search
//! for in any text.

use std::{cmp::Reverse, sync::LazyLock};

use super::{ALL, CustomFormat, Format, Grammar, all_and};

/// All formats known to a configuration, which are its own and the built-in ones, indexed by globs over model
/// names.
#[derive(Debug)]
pub struct KnownFormats {
    own: Vec<CustomFormat>,
    /// Globs over the names of models that write each format. Those of the configuration's own formats come
    /// first; within each group, longer globs come first.
    writers: Globs<&'static Format>,
}

impl KnownFormats {
    /// Indexes the built-in formats and `own`.
    pub fn new(own: Vec<CustomFormat>) -> Self {
        let formats =
            own.iter().map(|own| (false, own.format)).chain(ALL.iter().map(|format| (true, *format)));
        let globs = formats.flat_map(|(built_in, format)| {
            format.models.iter().map(move |glob| ((built_in, Reverse(glob.len())), *glob, format))
        });
        let mut globs: Vec<_> = globs.collect();
        globs.sort_by_key(|(sure, ..)| *sure);
        Self { own, writers: Globs::new(globs.into_iter().map(|(_, glob, format)| (glob, format)).collect()) }
    }

    /// The index of only the built-in formats.
    pub fn built_in() -> &'static Self {
        static BUILT_IN: LazyLock<KnownFormats> = LazyLock::new(KnownFormats::default);
        &BUILT_IN
    }

    /// The formats with these names, in the same order. Unknown names are skipped.
    pub fn named(&self, names: &[&str]) -> Vec<&'static Format> {
        names.iter().filter_map(|name| self.all().find(|format| format.name == *name)).collect()
    }

    /// The configuration's own formats.
    pub fn own(&self) -> &[CustomFormat] {
        &self.own
    }

    /// All formats, with the built-in ones first.
    pub fn all(&self) -> impl Iterator<Item = &'static Format> {
        all_and(&self.own)
    }

    /// The formats that the model `name` is known to write. The configuration's own formats come first;
    /// within each group, those with the longest matching glob come first. The name may include a vendor and
    /// a slash, and its case is ignored.
    pub fn of_model(&self, name: &str) -> Vec<&'static Format> {
        let mut formats = Vec::new();
        for format in self.writers.fitting(name) {
            if !formats.contains(&format) {
                formats.push(format);
            }
        }
        formats
    }

    /// Whether `prompt`, the complete text that a model continues, ends with a marker that opens reasoning.
    pub fn opens_reasoning(&self, prompt: &str) -> bool {
        let end = prompt.trim_end();
        let thoughts = self.all().flat_map(|format| format.grammars).filter_map(|grammar| match grammar {
            Grammar::Reasoning(thoughts) => Some(*thoughts),
            _ => None,
        });
        thoughts.flatten().any(|thought| !thought.chosen && ends_with_marker(end, thought.open))
    }
}

/// Whether `text` ends with `marker`, ignoring case. A `*` in the marker stands for a colon and a suffix, or
/// for nothing.
fn ends_with_marker(text: &str, marker: &str) -> bool {
    let cut = |text: &str, end: &str| {
        let (before, last) = text.split_at_checked(text.len().checked_sub(end.len())?)?;
        last.eq_ignore_ascii_case(end).then_some(before.len())
    };
    let Some((head, tail)) = marker.split_once('*') else { return cut(text, marker).is_some() };
    let Some(inside) = cut(text, tail).and_then(|length| text.get(..length)) else { return false };
    let is_suffix = |suffix: &str| suffix.is_empty() || suffix.starts_with(':');
    let start = inside.rfind('<').and_then(|at| inside.get(at..)).unwrap_or_default();
    let (word, suffix) = start.split_at_checked(head.len()).unwrap_or_default();
    word.eq_ignore_ascii_case(head) && is_suffix(suffix) && !suffix.contains(char::is_whitespace)
}

impl Default for KnownFormats {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

#[derive(Debug)]
struct Globs<T> {
    /// The byte pairs that each glob in `all` requires. They are stored separately, because every name is
    /// checked against all of them.
    needs: Vec<Pairs>,
    all: Vec<(&'static str, T)>,
}

impl<T: Copy> Globs<T> {
    fn new(all: Vec<(&'static str, T)>) -> Self {
        Self { needs: all.iter().map(|(glob, _)| Pairs::of(glob)).collect(), all }
    }

    /// The values whose globs match `name`, with or without its vendor.
    fn fitting(&self, name: &str) -> impl Iterator<Item = T> {
        let pairs = Pairs::of(name);
        let globs = self.needs.iter().zip(&self.all);
        let fitting = globs.filter(move |(needs, (glob, _))| needs.are_in(pairs) && fits(glob, name));
        fitting.map(|(_, (_, told))| *told)
    }
}

/// A set of pairs of adjacent bytes, each mapped to one of 64 bits. For any name, it rules out nearly all
/// globs, because they require a pair that the name does not contain.
#[derive(Debug, Clone, Copy)]
struct Pairs(u64);

impl Pairs {
    /// The pairs in `text`, ignoring case. The `*` of a glob is not part of any pair.
    fn of(text: &str) -> Self {
        let pairs = text.as_bytes().iter().zip(text.as_bytes().iter().skip(1));
        let literal = pairs.filter(|&(one, other)| *one != b'*' && *other != b'*');
        let bit = |(one, other): (&u8, &u8)| {
            let pair = u16::from_be_bytes([one.to_ascii_lowercase(), other.to_ascii_lowercase()]);
            // The upper bits of the product depend on both bytes.
            1 << (pair.wrapping_mul(0x9e37) >> 10)
        };
        Self(literal.map(bit).fold(0, |all, bit| all | bit))
    }

    fn are_in(self, others: Self) -> bool {
        self.0 & !others.0 == 0
    }
}

/// All formats with [`Format::auto`] set.
pub fn auto() -> Vec<&'static Format> {
    ALL.iter().copied().filter(|format| format.auto).collect()
}

fn fits(glob: &str, name: &str) -> bool {
    matches(glob, name) || name.rsplit_once('/').is_some_and(|(_, plain)| matches(glob, plain))
}

/// Whether `text` matches `glob`, in which `*` stands for any characters. ASCII case is ignored.
pub fn matches(glob: &str, text: &str) -> bool {
    let (glob, text) = (glob.as_bytes(), text.as_bytes());
    let (mut at, mut in_glob) = (0, 0);
    // For the latest `*`: where its match ends when extended by one byte, and where the glob continues.
    let mut again = None;
    while let Some(byte) = text.get(at) {
        match glob.get(in_glob) {
            Some(b'*') => {
                in_glob += 1;
                again = Some((at, in_glob));
            }
            Some(wanted) if wanted.eq_ignore_ascii_case(byte) => {
                at += 1;
                in_glob += 1;
            }
            _ => {
                let Some((taken, behind)) = &mut again else { return false };
                *taken += 1;
                (at, in_glob) = (*taken, *behind);
            }
        }
    }
    glob.get(in_glob..).is_some_and(|rest| rest.iter().all(|byte| *byte == b'*'))
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, sample::select};

    use super::*;
    use crate::format::Definition;

    /// Computes the result of [`KnownFormats::of_model`] without the index.
    fn searched(name: &str, own: &[CustomFormat]) -> Vec<&'static str> {
        let surest_first = |formats: &mut dyn Iterator<Item = &'static Format>| {
            let sure = |format: &Format| {
                format.models.iter().filter(|glob| fits(glob, name)).map(|glob| glob.len()).max()
            };
            let mut fitting: Vec<_> =
                formats.filter_map(|format| Some((Reverse(sure(format)?), format.name))).collect();
            fitting.sort_by_key(|(sure, _)| *sure);
            fitting.into_iter().map(|(_, name)| name)
        };
        let own = surest_first(&mut own.iter().map(|own| own.format));
        own.chain(surest_first(&mut ALL.iter().copied())).collect()
    }

    /// Parts of globs. Some names composed of them match globs.
    fn pieces() -> Vec<&'static str> {
        let globs = ALL.iter().flat_map(|format| format.models);
        let pieces = globs.flat_map(|glob| glob.split('*'));
        pieces.chain(["/", "-", "v3", "x", "\u{e9}", "ACME", "*"]).collect()
    }

    fn some_name() -> impl Strategy<Value = String> {
        let letters = "[a-zA-Z0-9*./-]{0,3}";
        prop::collection::vec(prop_oneof![3 => select(pieces()).prop_map(str::to_owned), 1 => letters], 0..5)
            .prop_map(|pieces| pieces.concat())
            .prop_flat_map(|name| select(vec![name.to_ascii_uppercase(), name]))
    }

    proptest! {
        #[test]
        fn the_index_finds_what_a_search_does(
            name in some_name(),
            globs in prop::collection::vec(prop::collection::vec(some_name(), 0..3), 0..3),
        ) {
            let mut own = Vec::new();
            for (at, models) in globs.into_iter().enumerate() {
                let (name, open) = (format!("own{at}"), format!("<<{at}>>"));
                let definition = Definition { name, open, close: "<<end>>".into(), models, ..Definition::default() };
                own.push(definition.build(&own).unwrap());
            }
            let wanted = searched(&name, &own);
            let found: Vec<_> = KnownFormats::new(own).of_model(&name).iter().map(|format| format.name).collect();
            prop_assert_eq!(found, wanted);
        }
    }

    #[test]
    fn a_name_is_compared_with_few_globs() {
        let known = KnownFormats::default();
        for name in ["m", "gpt-4o", "Qwen/Qwen3-Coder-480B-A35B-Instruct", "deepseek-ai/DeepSeek-R1-0528"] {
            let pairs = Pairs::of(name);
            let compared = known.writers.needs.iter().filter(|needs| needs.are_in(pairs)).count();
            let fitting = known.writers.all.iter().filter(|(glob, _)| fits(glob, name)).count();
            assert!(compared <= fitting + 6, "{name}: {compared} of {fitting}");
        }
    }

    fn names(model: &str) -> Vec<&'static str> {
        KnownFormats::default().of_model(model).into_iter().map(|format| format.name).collect()
    }

    #[test]
    fn globs_match_whole_names() {
        for (glob, text, fits) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "Ab", true),
            ("a*", "ba", false),
            ("*", "", true),
            ("*b*", "abc", true),
            ("*b", "abb", true),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "a1c2b", false),
            ("*é", "caf\u{e9}", true),
        ] {
            assert_eq!(matches(glob, text), fits, "{glob} {text}");
        }
    }

    #[test]
    fn formats_are_chosen_by_model_name() {
        assert_eq!(names("microsoft/Phi-4-mini-instruct"), ["phi4_mini"]);
        assert_eq!(names("phi4-mini:3.8b"), ["phi4_mini"]);
        assert_eq!(names("swiss-ai/Apertus-8B-Instruct-2509"), ["apertus"]);
        assert_eq!(names("gpt-4o"), [""; 0]);
        assert!(names("Qwen2.5-Coder-7B").starts_with(&["bare"]), "{:?}", names("Qwen2.5-Coder-7B"));
    }
}
