//! Text in the form in which words are compared: without case, accents and widths, and without what is only quoted.

/// Encloses code blocks in Markdown.
pub(super) const FENCE: &str = "```";

/// Maximum length of a quotation, in bytes. A quotation mark without a partner this near is not one.
const MAX_QUOTATION: usize = 400;

/// Number of quotation marks without a partner after which quotations are no longer looked for.
const MAX_UNCLOSED: usize = 32;

/// Maximum length of a host name.
const MAX_HOST: usize = 253;

/// Code and quotations are left out, since a text that contains `"the latest news"` does not ask for them.
const QUOTATIONS: [(char, &[char]); 7] = [
    ('"', &['"']),
    ('“', &['”', '“']),
    ('„', &['“', '”']),
    ('«', &['»']),
    ('「', &['」']),
    ('『', &['』']),
    ('`', &['`']),
];

/// Top-level domains after which a path makes a word an address, without a scheme.
const DOMAINS: [&str; 12] = ["com", "org", "net", "io", "dev", "gov", "edu", "info", "uk", "de", "fr", "jp"];

/// A text without its quotations and code blocks, folded.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Prose {
    /// Its sentences end with line feeds. Spaces are single.
    pub(super) text: String,
    /// Whether it contained an address of a public page.
    pub(super) has_url: bool,
}

impl Prose {
    pub(super) fn push(&mut self, mut text: &str) {
        let (mut before, mut unclosed) = (' ', 0);
        while let Some(first) = text.chars().next() {
            let mut skipped = None;
            if let Some(rest) = text.strip_prefix(FENCE) {
                skipped = Some(rest.split_once(FENCE).map_or("", |(_, rest)| rest));
            } else if let Some((_, closers)) = QUOTATIONS.iter().find(|(open, _)| *open == first)
                && unclosed < MAX_UNCLOSED
            {
                skipped = after_quotation(text, closers);
                unclosed += usize::from(skipped.is_none());
            } else if first.is_ascii_alphanumeric()
                && may_precede_url(before)
                && let Some((rest, is_public)) = after_url(text)
            {
                skipped = Some(rest);
                self.has_url |= is_public;
            }
            let rest = skipped.or_else(|| text.get(first.len_utf8()..)).unwrap_or_default();
            before = if skipped.is_some() { ' ' } else { first };
            self.fold(before, rest.chars().next());
            text = rest;
        }
    }

    /// Appends a character of the text, which `next` follows.
    fn fold(&mut self, character: char, next: Option<char>) {
        let ends_sentence = match character {
            '.' => next.is_none_or(char::is_whitespace),
            _ => matches!(
                character,
                '\n' | '\r' | '!' | '?' | '！' | '？' | '؟' | '。' | '।' | '۔' | ';' | '；'
            ),
        };
        if matches!(character, '?' | '？' | '؟') {
            self.text.push('?');
        }
        if ends_sentence {
            self.text.push('\n');
        } else if character.is_whitespace() {
            if !self.text.ends_with([' ', '\n']) && !self.text.is_empty() {
                self.text.push(' ');
            }
        } else {
            self.text.extend(folded(character));
        }
    }
}

/// The folded form of one of our words.
pub(super) fn word(written: &str) -> String {
    written.chars().flat_map(folded).collect()
}

/// The text after the quotation with which it begins.
fn after_quotation<'a>(text: &'a str, closers: &[char]) -> Option<&'a str> {
    let mut near = text.char_indices().skip(1).take_while(|(at, c)| *at < MAX_QUOTATION && *c != '\n');
    let (at, closer) = near.find(|(_, c)| closers.contains(c))?;
    text.get(at + closer.len_utf8()..)
}

fn may_precede_url(character: char) -> bool {
    !character.is_ascii_graphic() || matches!(character, '(' | '<' | '[' | ':' | ',')
}

/// The text after the address with which it begins, and whether a public host may have it.
fn after_url(text: &str) -> Option<(&str, bool)> {
    let starts = |prefix: &str| text.get(..prefix.len()).is_some_and(|own| own.eq_ignore_ascii_case(prefix));
    let scheme = ["https://", "http://"].into_iter().find(|scheme| starts(scheme)).unwrap_or_default();
    let address = text.get(scheme.len()..)?;
    let in_host = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    let host_length = address.chars().take(MAX_HOST).take_while(in_host).count();
    let (host, path) = address.split_at_checked(host_length)?;
    let (_, domain) = host.rsplit_once('.')?;
    let is_public = match scheme {
        "" if starts("www.") => true,
        "" if path.starts_with('/') && DOMAINS.contains(&domain) => true,
        "" => return None,
        _ => domain.starts_with(|c: char| c.is_ascii_alphabetic()),
    };
    let end = path.find(|c: char| !c.is_ascii_graphic() || matches!(c, '"' | '<' | '>' | '\'' | '`' | ')'));
    Some((path.get(end.unwrap_or(path.len())..)?, is_public))
}

/// Whether the script is written without spaces, so that a word may begin and end anywhere. Korean has spaces, but its
/// words have suffixes and form compounds.
pub(super) fn is_open(character: char) -> bool {
    matches!(character,
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{3040}'..='\u{30ff}'
        | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..)
}

pub(super) fn is_arabic(character: char) -> bool {
    matches!(character, '\u{600}'..='\u{6ff}')
}

/// Whether the character continues a word of a script with spaces. The two signs are viramas, which join consonants.
pub(super) fn is_joined(character: char) -> bool {
    (character.is_alphanumeric() || matches!(character, '_' | '\u{94d}' | '\u{9cd}')) && !is_open(character)
}

fn folded(character: char) -> impl Iterator<Item = char> {
    let narrow = match character {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(character) - 0xfee0).unwrap_or(character),
        _ => character,
    };
    narrow.to_lowercase().filter_map(base)
}

/// The letter without its accents, or `None` for an accent. Letters that are often confused become the same.
fn base(lower: char) -> Option<char> {
    Some(match lower {
        // Accents, vowel signs of Arabic, dots below Indic letters, and characters without a width.
        '\u{300}'..='\u{36f}'
        | '\u{640}'
        | '\u{64b}'..='\u{65f}'
        | '\u{670}'
        | '\u{93c}'
        | '\u{9bc}'
        | '\u{ad}'
        | '\u{200b}'..='\u{200f}'
        | '\u{feff}' => return None,
        '’' | '‘' | 'ʼ' => '\'',
        'à'..='å' | 'ā' | 'ă' | 'ą' | '\u{1ea1}'..='\u{1eb7}' => 'a',
        'ç' | 'ć' | 'č' => 'c',
        'ď' | 'đ' => 'd',
        'è'..='ë' | 'ē' | 'ė' | 'ę' | 'ě' | '\u{1eb9}'..='\u{1ec7}' => 'e',
        'ğ' => 'g',
        'ì'..='ï' | 'ĩ' | 'ī' | 'į' | 'ı' | '\u{1ec9}' | '\u{1ecb}' => 'i',
        'ł' => 'l',
        'ñ' | 'ń' | 'ň' => 'n',
        'ò'..='ö' | 'ø' | 'ō' | 'ő' | 'ơ' | '\u{1ecd}'..='\u{1ee3}' => 'o',
        'ř' => 'r',
        'ś' | 'š' | 'ş' | 'ș' => 's',
        'ť' | 'ţ' | 'ț' => 't',
        'ù'..='ü' | 'ũ' | 'ū' | 'ů' | 'ű' | 'ư' | '\u{1ee5}'..='\u{1ef1}' => 'u',
        'ý' | 'ÿ' | '\u{1ef3}'..='\u{1ef9}' => 'y',
        'ź' | 'ż' | 'ž' => 'z',
        'ё' => 'е',
        'й' => 'и',
        'ї' => 'і',
        'أ' | 'إ' | 'آ' | 'ٱ' => 'ا',
        'ؤ' => 'و',
        'ئ' | 'ى' | 'ی' => 'ي',
        'ک' => 'ك',
        'ة' | 'ہ' | 'ھ' | 'ۃ' => 'ه',
        'ँ' => 'ं',
        '\u{958}' => 'क',
        '\u{959}' => 'ख',
        '\u{95a}' => 'ग',
        '\u{95b}' => 'ज',
        '\u{95c}' => 'ड',
        '\u{95d}' => 'ढ',
        '\u{95e}' => 'फ',
        '\u{95f}' => 'य',
        '\u{9dc}' => 'ড',
        '\u{9dd}' => 'ঢ',
        '\u{9df}' => 'য',
        _ => lower,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotations_and_code_are_left_out() {
        for (text, folded) in [
            ("Translate \"the News\" now", "translate now"),
            ("„die Neuesten“ und «les nouvelles»", "und"),
            ("把「今天」翻译", "把 翻译"),
            ("a 5\" screen", "a 5\" screen"),
            ("say \"one\ntwo\"", "say \"one\ntwo\""),
            ("run `ls` in\n```\na \"b\n``` end", "run in\nend"),
            ("``` open", ""),
            ("One.  Two! Three? v1.2", "one\ntwo\nthree?\nv1.2"),
        ] {
            let mut prose = Prose::default();
            prose.push(text);
            assert_eq!(prose.text.trim(), folded, "{text}");
        }
    }

    #[test]
    fn unclosed_quotations_are_not_looked_for_again_and_again() {
        let mut prose = Prose::default();
        prose.push(&"„ ".repeat(MAX_UNCLOSED));
        prose.push("\"a\"");
        assert_eq!(prose.text.matches('„').count(), MAX_UNCLOSED);
        let mut prose = Prose::default();
        prose.push(&format!("{}\"a\"", "„ ".repeat(MAX_UNCLOSED)));
        assert!(prose.text.ends_with("\"a\""));
    }
}
