//! What may follow the closing quote of a Python argument.
//!
//! Models write shell commands and code into quotes of the same kind without escaping the inner ones, such as
//! `command='grep 'a' x'`. A quote therefore ends its string only where the text after it fits the grammar.

/// Where a string is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::literal) struct Around {
    /// Whether it is inside brackets of the value.
    pub(in crate::literal) nested: bool,
    /// Whether an earlier quote in it was part of its text. Adjacent strings are then not joined.
    pub(in crate::literal) loose: bool,
    pub(in crate::literal) argument: Argument,
}

/// Where an argument is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Argument {
    /// Whether the argument has a keyword, so that only other keywords can follow it.
    pub(crate) keyword: bool,
    /// Whether its call is in a list.
    pub(crate) in_list: bool,
    /// Whether its call is in `print(…)`.
    pub(crate) in_print: bool,
}

/// What a quote is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::literal) enum QuoteIs {
    Closer,
    Data,
    /// It depends on the text that follows.
    Open,
}

/// How much text is looked at, in bytes. If it does not decide, the quote is a closer.
const MAX_AHEAD: usize = 256;

#[derive(Debug, Clone, Copy)]
enum At {
    Quote,
    /// After white space behind the quote.
    Blank,
    /// In the prefix of an adjacent string.
    Prefix,
    /// After `<`.
    Markup,
    Comma,
    /// In a word after the comma.
    Word,
    WordEnd,
    /// After the call's closing bracket.
    Call,
    /// After a comma behind the call.
    NextCall,
    /// In the name of the next call.
    NextName,
}

/// Classifies a quote. `after` is the text after it.
pub(in crate::literal) fn quote(after: &str, around: Around) -> QuoteIs {
    let mut at = At::Quote;
    for (offset, character) in after.char_indices() {
        if offset >= MAX_AHEAD {
            return QuoteIs::Closer;
        }
        match next(at, character, around) {
            Ok(next) => at = next,
            Err(is) => return is,
        }
    }
    QuoteIs::Open
}

/// Reads a character. Returns the next state, or the decision.
fn next(at: At, character: char, around: Around) -> Result<At, QuoteIs> {
    let Around { nested, loose, argument: Argument { keyword, in_list, in_print } } = around;
    let closer = |closes: bool| Err(if closes { QuoteIs::Closer } else { QuoteIs::Data });
    let is_quote = matches!(character, '"' | '\'');
    let is_name = character.is_alphanumeric() || matches!(character, '_' | '-');
    let begins_name = character.is_alphabetic() || character == '_';
    if character.is_ascii_whitespace() {
        return match at {
            At::Word | At::WordEnd => Ok(At::WordEnd),
            At::Markup | At::Prefix => closer(false),
            At::Quote => Ok(At::Blank),
            At::Call if !in_list && character == '\n' => closer(true),
            at => Ok(at),
        };
    }
    match (at, character) {
        (At::Quote | At::Blank | At::Prefix, _) if is_quote => closer(!loose),
        // Right after the quote, a letter more likely belongs to its text.
        (At::Blank | At::Prefix, 'r' | 'b' | 'f' | 'u' | 'R' | 'B' | 'F' | 'U') if !loose => Ok(At::Prefix),
        (At::Quote | At::Blank, _) if nested => closer(matches!(character, ',' | ')' | ']' | '}' | ':')),
        (At::Call, '<') if !in_list => closer(true),
        (At::Quote | At::Blank | At::Call | At::NextCall, '<') => Ok(At::Markup),
        (At::Quote | At::Blank, ')') => Ok(At::Call),
        (At::Quote | At::Blank, ',') => Ok(At::Comma),
        (At::Markup, _) => closer(matches!(character, '|' | '/')),
        (At::Comma, ')') => closer(true),
        (At::Comma, _) if begins_name => Ok(At::Word),
        (At::Comma, _) => closer(!keyword && (is_quote || is_name || "([{+.".contains(character))),
        (At::Word, _) if is_name => Ok(At::Word),
        (At::Word | At::WordEnd, '=' | ':') => closer(true),
        (At::Word | At::WordEnd, _) => closer(!keyword && (is_quote || matches!(character, ',' | ')'))),
        (At::Call, ']') => closer(in_list),
        (At::Call, ',' | ';') => Ok(At::NextCall),
        (At::Call, ')') => closer(in_print),
        (At::Call, '`') => closer(!in_list),
        (At::NextCall, ']') => closer(in_list),
        (At::NextCall, _) if begins_name => Ok(At::NextName),
        (At::NextName, '(') => closer(true),
        (At::NextName, _) if is_name || matches!(character, '.' | '/' | ':') => Ok(At::NextName),
        _ => closer(false),
    }
}
