//! Properties of stdout and stderr, and text wrapped to their width.

use std::{env, io::IsTerminal, os::fd::AsFd};

use rustix::termios::tcgetwinsize;

/// Width of tables and columns if the output is not a terminal.
pub const WITHOUT_TERMINAL: usize = 120;

/// Minimum width to which output is wrapped.
const LEAST: usize = 20;

/// Whether `stream` is a terminal with colours and `NO_COLOR` (<https://no-color.org>) is not set.
pub fn is_coloured(stream: &impl IsTerminal) -> bool {
    let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    stream.is_terminal() && !is_set("NO_COLOR") && env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Returns `text` in a colour, given as the parameters of the terminal's sequence, if `is_coloured`.
pub fn painted(colour: &str, text: &str, is_coloured: bool) -> String {
    match is_coloured {
        true => format!("\x1b[{colour}m{text}\x1b[0m"),
        false => text.to_owned(),
    }
}

/// Returns the width of the terminal in columns. `None` if `stream` is not a terminal or does not report its width.
pub fn width(stream: &(impl AsFd + IsTerminal)) -> Option<usize> {
    let columns = stream.is_terminal().then(|| tcgetwinsize(stream).ok())??.ws_col;
    (columns > 0).then(|| usize::from(columns).max(LEAST))
}

/// Wraps `text` to `width` columns. The first line starts with `mark`; further lines are indented by the same width. A
/// word is split only if it is longer than a line.
pub fn wrapped(text: &str, mark: &str, width: usize) -> String {
    let columns = |text: &str| text.chars().count();
    let indent = " ".repeat(columns(mark));
    let mut lines = vec![mark.to_owned()];
    let room = width.saturating_sub(indent.len()).max(SHORTEST);
    for word in text.split_whitespace().flat_map(|word| pieces(word, room)) {
        if let Some(line) = lines.last_mut() {
            let is_begun = columns(line) > indent.len();
            let space = usize::from(is_begun);
            if !is_begun || columns(line) + space + columns(word) <= width {
                line.extend(is_begun.then_some(' '));
                line.push_str(word);
                continue;
            }
        }
        lines.push(format!("{indent}{word}"));
    }
    lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n")
}

/// Minimum number of columns for a piece of a word.
const SHORTEST: usize = 8;

/// Splits `word` into pieces of at most `room` characters.
fn pieces(word: &str, room: usize) -> impl Iterator<Item = &str> {
    let mut rest = word;
    std::iter::from_fn(move || {
        let end = rest.char_indices().nth(room).map_or(rest.len(), |(end, _)| end);
        let (piece, behind) = rest.split_at_checked(end).filter(|(piece, _)| !piece.is_empty())?;
        rest = behind;
        Some(piece)
    })
}

/// Formats a count: `1 stream`, `2 streams`.
pub fn counted(count: usize, noun: &str) -> String {
    format!("{count} {}", plural(count as u64, noun))
}

pub fn plural(count: u64, noun: &str) -> String {
    if count == 1 { noun.to_owned() } else { format!("{noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_wrapped_between_words() {
        assert_eq!(wrapped("one two three", "! ", 9), "! one two\n  three");
        assert_eq!(wrapped("one two three", "", 9), "one two\nthree");
        assert_eq!(wrapped("longest of all", "  ", 4), "  longest\n  of\n  all");
        assert_eq!(wrapped("a 0123456789abcdef b", "! ", 12), "! a\n  0123456789\n  abcdef b");
        assert_eq!(wrapped("", "! ", 9), "!");
        assert_eq!(wrapped("é é", "• ", 5), "• é é");
    }

    #[test]
    fn count_of_one_is_singular() {
        assert_eq!([0, 1, 2].map(|count| counted(count, "stream")), ["0 streams", "1 stream", "2 streams"]);
    }
}
