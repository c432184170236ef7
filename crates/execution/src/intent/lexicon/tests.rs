use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Whether a sentence is held out: words must not be chosen after it.
fn is_held(sentence: &str) -> bool {
    let hash = sentence.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash.is_multiple_of(3)
}

#[derive(Debug, Default, Clone, Copy)]
struct Count {
    found: u32,
    missed: u32,
    wrong: u32,
    right: u32,
}

impl Count {
    fn add(&mut self, is_wanted: bool, is_found: bool) {
        *match (is_wanted, is_found) {
            (true, true) => &mut self.found,
            (true, false) => &mut self.missed,
            (false, true) => &mut self.wrong,
            (false, false) => &mut self.right,
        } += 1;
    }

    fn precision(self) -> f64 {
        f64::from(self.found) / f64::from((self.found + self.wrong).max(1))
    }

    fn recall(self) -> f64 {
        f64::from(self.found) / f64::from((self.found + self.missed).max(1))
    }
}

/// The counts by part of the sentences and language, or `all`. Prints the table.
fn counted(
    table: &'static str,
    wanted: &str,
    part: impl Fn(&str) -> &'static str,
    is_found: impl Fn(&Needs) -> bool,
) -> BTreeMap<(&'static str, &'static str), Count> {
    let mut counts: BTreeMap<_, Count> = BTreeMap::new();
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let mut cells = line.splitn(3, '\t');
        let (label, language, sentence) =
            (cells.next().unwrap(), cells.next().unwrap(), cells.next().unwrap());
        let (is_wanted, is_found) = (label == wanted, is_found(&Needs::of(sentence)));
        for language in [language, "all"] {
            counts.entry((part(sentence), language)).or_default().add(is_wanted, is_found);
        }
        if is_wanted != is_found && part(sentence) != "held out" {
            println!("not recognized: {line}");
        }
    }
    for ((part, language), count) in &counts {
        let (precision, recall) = (count.precision(), count.recall());
        println!("{part:9} {language:8} precision {precision:.3}, recall {recall:.3}, {count:?}");
    }
    counts
}

#[test]
fn searches_are_recognized() {
    let part = |sentence: &str| if is_held(sentence) { "held out" } else { "tuned on" };
    let counts = counted(include_str!("../sentences.tsv"), "search", part, |needs| needs.search);
    for part in ["tuned on", "held out"] {
        let all = counts[&(part, "all")];
        assert!(all.precision() >= 0.95 && all.recall() >= 0.95, "{part}: {all:?}");
    }
}

#[test]
fn further_searches_and_images_are_recognized() {
    let searches = counted(include_str!("../tuning.tsv"), "search", |_| "further", |needs| needs.search);
    let images = counted(include_str!("../images.tsv"), "image", |_| "images", |needs| needs.image);
    for all in [searches[&("further", "all")], images[&("images", "all")]] {
        assert!(all.precision() >= 0.95 && all.recall() >= 0.95, "{all:?}");
    }
}

#[test]
fn only_the_ends_of_a_long_text_are_read() {
    let filler = "the grass grows. ".repeat(MAX_END);
    for (text, is_found) in [
        (format!("{filler} search the web {filler}"), false),
        (format!("search the web: {filler}"), true),
        (format!("{filler} Search the web."), true),
        (format!("{filler} What is the weather today?"), true),
        (format!("See:\n```\n{filler}\n```\nWhat is the weather today?"), true),
        (format!("See:\n```\n{filler}\nWhat is the weather today?\n```"), false),
        (format!("Translate this text: {filler} What is the weather today?"), false),
        (format!("What is the weather today? {filler} Translate this text."), false),
        (format!("{}\u{10348} search the web", "é".repeat(MAX_END)), true),
    ] {
        assert_eq!(Needs::of(&text).search, is_found, "{}", text.replace("the grass grows. ", ""));
    }
}

#[test]
fn negation_counts_near_a_word_for_the_web() {
    for (text, is_found) in [
        ("Find the weather on the internet", true),
        ("Find the weather without the internet", false),
        ("Find the weather without me having to look into the internet", true),
        ("Without sugar. Find the weather on the internet", true),
        ("internet olmadan bugün hava nasıl?", false),
        ("internetten bak bugün hava nasıl?", true),
    ] {
        assert_eq!(Needs::of(text).search, is_found, "{text}");
    }
}

#[test]
fn form_of_characters_does_not_count() {
    for text in [
        "WHAT'S THE WEATHER LIKE TODAY?",
        "ｗｈａｔ’ｓ　ｔｈｅ　ｗｅａｔｈｅｒ　ｔｏｄａｙ？",
        "¿que tiempo hace hoy en Malaga?",
        "¿Que\u{301} tiempo hace hoy en Ma\u{301}laga?",
        "İSTANBUL'DA BUGÜN HAVA NASIL?",
        "Какая сегодня погода на Сене\u{306}?",
        "ما حالة الطَّقْس اليوم؟",
        "آج لاہور کا موسم کیسا ہے؟",
        "आज लखनऊ में मौसम कैसा है?",
    ] {
        assert!(Needs::of(text).search, "{text}");
    }
}

#[test]
fn pages_are_those_of_addresses_outside_code() {
    for (text, is_found) in [
        ("Read https://example.com/a?b=c", true),
        ("看看https://example.com/写了什么", true),
        ("(www.example.com)", true),
        ("example.com/prices", true),
        ("Don't search, but read example.org/a", true),
        ("example.com", false),
        ("src/main.rs and a.b/c", false),
        ("http://localhost:8080/ and http://127.0.0.1/", false),
        ("`https://example.com`", false),
        ("```\nfetch(https://example.com)\n```", false),
        ("Why does this function fail: fetch(https://example.com)", false),
        ("https://", false),
        ("http://.", false),
    ] {
        assert_eq!(Needs::of(text).page, is_found, "{text}");
    }
}

#[test]
fn table_is_read_whole() {
    let table = include_str!("../words.txt");
    let mut words = std::collections::HashSet::new();
    let (mut language, mut count) = ("", 0);
    for line in table.lines().filter(|line| !line.is_empty()) {
        if let Some(name) = line.strip_prefix("## ") {
            language = name;
        } else if !line.starts_with('#') {
            let (class, own) = line.split_once(": ").unwrap_or_else(|| panic!("{line}"));
            assert!(CLASSES.iter().any(|(known, _, _)| *known == class), "{line}");
            for word in own.split(" | ") {
                assert!(words.insert((language, class, word)), "{word} is twice in a class of {language}");
                count += 1;
            }
        }
    }
    assert_eq!(LEXICON.words.len(), count);
    assert!(
        LEXICON
            .words
            .iter()
            .all(|word| word.bytes > 0 && word.length > 0 && word.language < LEXICON.languages)
    );
}

/// A text of the words themselves, in the worst case.
#[test]
fn few_words_begin_at_the_same_character() {
    for word in &LEXICON.words {
        let text = LEXICON.text(word).unwrap();
        assert!(LEXICON.at(text, '\n').count() <= 40, "{text}");
    }
}

proptest! {
    #[test]
    fn any_text_has_needs(text in "(\\PC|[ \n`\"„“«»?.:/w]|https?://|www\\.|\\u{301}){0,300}") {
        let needs = Needs::of(&text);
        prop_assert_eq!(needs.or(needs), needs);
    }
}
