//! Splits texts about tools into words.
//!
//! ```text
//! get_weather_by_city, getWeatherByCity, get.weather/by-city  ─▶  get weather by city
//! HTTPServer2  ─▶  http server 2
//! ```

/// Longest word that is indexed, in bytes. The rest of a longer one is not compared.
const MAX_WORD: usize = 48;

/// The words that occur in most sentences and say nothing about a tool.
const COMMON: [&str; 58] = [
    "a", "about", "all", "also", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by", "can",
    "could", "do", "does", "for", "from", "had", "has", "have", "he", "her", "his", "i", "if", "in", "is",
    "it", "its", "me", "my", "of", "on", "or", "our", "please", "she", "that", "the", "their", "them",
    "then", "there", "these", "they", "this", "to", "us", "was", "we", "were", "will", "with", "would",
    "you",
];

/// A kind of character, as far as the borders of words depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Lower,
    Upper,
    Digit,
    /// A letter of a script that writes words without spaces. Each is a word.
    Ideograph,
    Other,
}

impl Kind {
    fn of(letter: char) -> Self {
        match letter {
            'a'..='z' => Self::Lower,
            'A'..='Z' => Self::Upper,
            '0'..='9' => Self::Digit,
            _ if letter.is_ascii() => Self::Other,
            '\u{2e80}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' => Self::Ideograph,
            '\u{0e00}'..='\u{0eff}' | '\u{20000}'..='\u{3ffff}' => Self::Ideograph,
            _ if letter.is_uppercase() => Self::Upper,
            _ if letter.is_alphabetic() => Self::Lower,
            _ if letter.is_numeric() => Self::Digit,
            _ => Self::Other,
        }
    }
}

/// Passes each word of `text` in its basic form to `take`, until that returns `false`.
pub(super) fn words(text: &str, mut take: impl FnMut(&str) -> bool) {
    let mut word = Word::default();
    let mut before = Kind::Other;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let kind = Kind::of(letter);
        let is_border = match (before, kind) {
            (Kind::Lower, Kind::Upper) | (Kind::Digit, Kind::Lower | Kind::Upper) => true,
            (Kind::Lower | Kind::Upper, Kind::Digit) => true,
            // The last capital of several begins the next word.
            (Kind::Upper, Kind::Upper) => letters.peek().is_some_and(|next| Kind::of(*next) == Kind::Lower),
            (_, Kind::Ideograph | Kind::Other) | (Kind::Ideograph, _) => true,
            _ => false,
        };
        if is_border && !word.end(&mut take) {
            return;
        }
        match kind {
            Kind::Other => {}
            _ if letter.is_ascii() => word.push(letter.to_ascii_lowercase()),
            _ => letter.to_lowercase().for_each(|letter| word.push(letter)),
        }
        before = kind;
    }
    word.end(&mut take);
}

#[derive(Default)]
struct Word(String);

impl Word {
    fn push(&mut self, letter: char) {
        if self.0.len() + letter.len_utf8() <= MAX_WORD {
            self.0.push(letter);
        }
    }

    /// Passes the word on, unless it is a common one. Returns what `take` returns.
    fn end(&mut self, take: &mut impl FnMut(&str) -> bool) -> bool {
        let goes_on =
            self.0.is_empty() || COMMON.binary_search(&self.0.as_str()).is_ok() || take(basic(&mut self.0));
        self.0.clear();
        goes_on
    }
}

/// Removes the endings of English words that say only how many or when, so that `cities` matches `city` and `converted`
/// matches `convert`. Words of other languages rarely have them.
fn basic(word: &mut String) -> &str {
    const ENDINGS: [(&str, &str); 7] =
        [("ies", "y"), ("sses", "ss"), ("ing", ""), ("ied", "y"), ("ed", ""), ("es", "e"), ("s", "")];
    const SHORTEST: usize = 3;
    if !word.is_ascii() {
        return word;
    }
    if word.len() > SHORTEST && !word.ends_with("ss") && !word.ends_with("us") {
        let ending = ENDINGS.iter().find(|(ending, new)| {
            word.len() + new.len() >= ending.len() + SHORTEST && word.ends_with(ending)
        });
        if let Some((ending, new)) = ending {
            word.truncate(word.len() - ending.len());
            word.push_str(new);
        }
    }
    // `converting` and `convert`, but also `caching`, `cached` and `cache`.
    if word.len() > SHORTEST && word.ends_with('e') {
        word.pop();
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        words(text, |word| {
            found.push(word.to_owned());
            true
        });
        found
    }

    #[test]
    fn identifiers_are_split_into_words() {
        for name in ["get_weather_by_city", "getWeatherByCity", "GetWeather.byCity", "get-weather/City"] {
            assert_eq!(of(name), ["get", "weather", "city"], "{name}");
        }
        assert_eq!(
            of("HTTPServer2 parseURL v10beta"),
            ["http", "server", "2", "pars", "url", "v", "10", "beta"]
        );
        assert_eq!(of("Größe ÄNDERN"), ["größe", "ändern"]);
        assert_eq!(of("查询天气 now"), ["查", "询", "天", "气", "now"]);
        assert_eq!(of(" _-.. \u{0}\u{1f600}"), [""; 0]);
    }

    #[test]
    fn endings_do_not_count() {
        for (one, other) in [
            ("cities", "city"),
            ("prices", "price"),
            ("caching", "cached"),
            ("converted", "convert"),
            ("classes", "class"),
            ("files", "file"),
        ] {
            assert_eq!(of(one), of(other), "{one} {other}");
        }
        assert_eq!(of("status bus ids"), ["status", "bus", "ids"]);
    }

    #[test]
    fn long_words_are_cut_and_common_ones_left_out() {
        let found = of(&format!("the {}é to", "é".repeat(1000)));
        assert_eq!(found, ["é".repeat(MAX_WORD / 2)]);
        assert!(COMMON.is_sorted());
    }
}
