//! Suggestions for unknown words: the most similar known words, and the command that lists all of them.

/// How many characters of an unknown word are compared. No known word is longer, and the work grows with the
/// length.
const MAX_COMPARED: usize = 256;

/// The maximum number of suggestions.
const NAMED: usize = 3;

/// Up to this many known words, all of them are named.
const ALL_NAMED: usize = 10;

/// Words that people write for others, each with those that it may stand for, the best first.
const SYNONYMS: [(&str, &[&str]); 40] = [
    ("anthropic", &["messages"]),
    ("claude", &["messages"]),
    ("openai", &["chat"]),
    ("gpt", &["chat"]),
    ("azure", &["chat"]),
    ("openrouter", &["chat"]),
    ("vllm", &["chat"]),
    ("sglang", &["chat"]),
    ("llamacpp", &["chat"]),
    ("lmstudio", &["chat"]),
    ("google", &["gemini"]),
    ("vertex", &["gemini"]),
    ("aws", &["bedrock"]),
    ("amazon", &["bedrock"]),
    ("proton", &["lumo"]),
    ("completion", &["completions"]),
    ("url", &["base_url"]),
    ("uri", &["base_url"]),
    ("endpoint", &["base_url"]),
    ("apibase", &["base_url"]),
    ("baseurl", &["base_url"]),
    ("key", &["api_key", "api_keys"]),
    ("keys", &["api_keys"]),
    ("token", &["api_key"]),
    ("secret", &["api_key"]),
    ("password", &["api_key"]),
    ("apikey", &["api_key"]),
    ("port", &["listen"]),
    ("host", &["listen"]),
    ("bind", &["listen"]),
    ("address", &["listen"]),
    ("type", &["kind", "dialect"]),
    ("provider", &["dialect", "kind"]),
    ("api", &["dialect"]),
    ("format", &["tools", "detect"]),
    ("warning", &["warn"]),
    ("verbose", &["debug"]),
    ("none", &["off"]),
    ("false", &["off"]),
    ("true", &["auto", "on"]),
];

/// Returns a hint that names the words in `known` that the user may have meant by `word`, which is not one of
/// them: a [`synonym`], or the most similar word. Few known words are all named. `listed_by` is the command
/// that lists all known words.
pub fn suggest(word: &str, known: &[&str], listed_by: Option<&str>) -> String {
    let nearest = nearest(word, known);
    let quoted = |names: &[&str]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let is_near = |(distance, name): &(usize, &str)| *distance <= name.len() / 2;
    let meant = synonym(word, known).or_else(|| match nearest.as_slice() {
        [first, others @ ..] if is_near(first) && others.first().is_none_or(|next| next.0 > first.0) => {
            Some(first.1)
        }
        _ => None,
    });
    let others = nearest.iter().map(|(_, name)| *name).filter(|name| Some(*name) != meant);
    let mut others: Vec<_> = others.collect();
    let has_all = nearest.len() <= ALL_NAMED;
    match has_all {
        true => others.sort_by_key(|name| known.iter().position(|known| known == name)),
        false => others.truncate(NAMED - usize::from(meant.is_some())),
    }
    let mut told = match (meant, others.as_slice()) {
        (None, []) => return "there are none".to_owned(),
        (Some(name), []) => format!("did you mean `{name}`?"),
        (Some(name), others) => format!("did you mean `{name}`? also known: {}", quoted(others)),
        (None, others) if has_all => format!("known here: {}", quoted(others)),
        (None, others) => format!("nearest: {}", quoted(others)),
    };
    if let Some(command) = listed_by.filter(|_| !has_all) {
        told.push_str(&format!("; `{command}` lists all"));
    }
    told
}

/// Returns the word in `known` that people also call `word`. Capitals and punctuation do not count.
pub fn synonym<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let letters = word.chars().filter(|char| char.is_ascii_alphanumeric()).take(MAX_COMPARED);
    let word: String = letters.map(|char| char.to_ascii_lowercase()).collect();
    let (_, meant) = SYNONYMS.iter().find(|(synonym, _)| *synonym == word)?;
    meant.iter().find_map(|meant| known.iter().find(|known| *known == meant).copied())
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

    const LIST: Option<&str> = Some("toolwire formats");

    #[test]
    fn the_three_nearest_of_many_are_named_and_the_command_that_lists_all() {
        let fillers = ["aaaaaa1", "aaaaaa2", "aaaaaa3", "aaaaaa4", "aaaaaa5", "aaaaaa6", "aaaaaa7"];
        let known = [&fillers[..], &["hermes", "pre", "fenced", "bare"]].concat();
        assert_eq!(
            suggest("hermess", &known, LIST),
            "did you mean `hermes`? also known: `bare`, `fenced`; `toolwire formats` lists all"
        );
        assert_eq!(
            suggest("zzzzzz", &known, LIST),
            "nearest: `bare`, `fenced`, `hermes`; `toolwire formats` lists all"
        );
    }

    #[test]
    fn up_to_ten_words_are_all_named_in_their_order() {
        let ten = ["j", "i", "h", "g", "f", "e", "d", "c", "b", "a"];
        let named = "`j`, `i`, `h`, `g`, `f`, `e`, `d`, `c`, `b`, `a`";
        assert_eq!(suggest("zzzzzz", &ten, LIST), format!("known here: {named}"));
        assert!(suggest("zzzzzz", &[&ten[..], &["k"]].concat(), LIST).starts_with("nearest: "));
        assert_eq!(suggest("luma", &["lumo", "chat"], LIST), "did you mean `lumo`? also known: `chat`");
        assert_eq!(suggest("lum", &["lumo"], None), "did you mean `lumo`?");
        assert_eq!(suggest("x", &[], None), "there are none");
    }

    #[test]
    fn synonyms_come_before_similar_words() {
        let dialects = ["lumo", "chat", "messages", "gemini"];
        let hint = "did you mean `messages`? also known: `lumo`, `chat`, `gemini`";
        for word in ["anthropic", "Claude", "claude"] {
            assert_eq!(suggest(word, &dialects, None), hint);
        }
        assert!(suggest("OpenAI", &dialects, None).starts_with("did you mean `chat`?"));
        assert!(suggest("llama.cpp", &dialects, None).starts_with("did you mean `chat`?"));
        assert!(suggest("url", &["tls", "base_url"], None).starts_with("did you mean `base_url`?"));
        assert_eq!(synonym("anthropic", &["lumo"]), None);
        assert_eq!(synonym("key", &["api_keys"]), Some("api_keys"));
    }

    #[test]
    fn long_words_are_compared_by_their_beginning() {
        assert_eq!(suggest(&"x".repeat(1 << 20), &["lumo"], None), "known here: `lumo`");
        assert_eq!(synonym(&"x".repeat(1 << 20), &["lumo"]), None);
    }
}
