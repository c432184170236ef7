//! Suggestions for unknown words: the most similar known words, and the command that lists all of them.

/// How many characters of an unknown word are compared. No known word is longer, and the work grows with the
/// length.
const MAX_COMPARED: usize = 256;

/// The maximum number of suggestions.
const NAMED: usize = 3;

/// Returns a hint that names the words in `known` that the user may have meant by `word`, which is not one of
/// them. `listed_by` is the command that lists all known words.
pub fn suggest(word: &str, known: &[&str], listed_by: Option<&str>) -> String {
    let nearest = nearest(word, known);
    let quoted = |names: &[(usize, &str)]| {
        names.iter().map(|(_, name)| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    };
    let named = nearest.get(..NAMED).unwrap_or(&nearest);
    let mut told = match named {
        [(distance, name), others @ ..]
            if *distance <= name.len() / 2 && others.first().is_none_or(|(next, _)| next > distance) =>
        {
            match others {
                [] => format!("did you mean `{name}`?"),
                _ => format!("did you mean `{name}`? also known: {}", quoted(others)),
            }
        }
        named if named.len() == nearest.len() => format!("known here: {}", quoted(named)),
        named => format!("nearest: {}", quoted(named)),
    };
    if let Some(command) = listed_by.filter(|_| nearest.len() > named.len()) {
        told.push_str(&format!("; `{command}` lists all"));
    }
    told
}

/// Returns the words in `known` that are most similar to `word`.
pub fn nearest_names<'k>(word: &str, known: &[&'k str]) -> Vec<&'k str> {
    nearest(word, known).into_iter().take(NAMED).map(|(_, name)| name).collect()
}

/// Returns `known` with the distance of each word from `word`, closest first.
fn nearest<'k>(word: &str, known: &[&'k str]) -> Vec<(usize, &'k str)> {
    let end = word.char_indices().nth(MAX_COMPARED).map_or(word.len(), |(end, _)| end);
    let word = word.get(..end).unwrap_or(word);
    let mut known: Vec<_> =
        known.iter().map(|name| (strsim::damerau_levenshtein(word, name), *name)).collect();
    known.sort_unstable();
    known.dedup();
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_nearest_are_named_and_the_command_that_lists_all() {
        let known = ["hermes", "pre", "fenced", "bare"];
        let list = Some("toolwire formats");
        assert_eq!(
            suggest("hermess", &known, list),
            "did you mean `hermes`? also known: `bare`, `fenced`; `toolwire formats` lists all"
        );
        assert_eq!(
            suggest("zzzzzz", &known, list),
            "nearest: `bare`, `fenced`, `hermes`; `toolwire formats` lists all"
        );
        assert_eq!(suggest("zzzzzz", &["lumo", "chat"], list), "known here: `chat`, `lumo`");
        assert_eq!(suggest("luma", &["lumo", "chat"], list), "did you mean `lumo`? also known: `chat`");
        assert_eq!(suggest("lum", &["lumo"], None), "did you mean `lumo`?");
        assert_eq!(suggest("x", &[], None), "known here: ");
    }
}
