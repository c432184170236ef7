//! `[[formats]]`: text formats of the configuration's own, in the words of the built-in tables.
//!
//! Two families can be told here: JSON calls between markers, and calls whose name stands before their arguments
//! (`name_end`). The engine refers to formats for as long as an answer lasts and compares them by reference, which is
//! free for the built-in tables; so a configured one lives as long as the program, too. A configuration is read once,
//! and what it leaks is a few hundred bytes.

use super::{
    table::{Cell, Table},
    value::{list, switch, text},
};
use crate::format::{
    self, CallBody, Calls, Form, Format, Grammar, Header, HeaderEnd, Place, Special, Tag, TagKind, Teach,
};

/// A call, and a result, as a JSON object.
const OBJECT: &str = r#"{"name":{{json_name}},"arguments":{{arguments}}}"#;
const CONTENT: &str = r#"{"name":{{json_name}},"content":{{json_content}}}"#;

/// Reads an entry of `[[formats]]`; `earlier` are those before it. `None` if something in it is wrong.
pub(super) fn read(table: &mut Table<'_>, earlier: &[&'static Format]) -> Option<&'static Format> {
    let known = || format::ALL.iter().chain(earlier).copied();
    let name = table.require("name", |cell| {
        let name = text(cell.clone())?;
        match known().any(|format| format.name == name) || matches!(name.as_str(), "auto" | "off" | "native")
        {
            true => cell.wrong(format!("there is a format `{name}` already")),
            false => Some(name),
        }
    });
    let open = table.require("open", |cell| opener(cell, &known().collect::<Vec<_>>()));
    let close = table.get_or("close", String::new(), text);
    let models = table.get_or("models", Vec::new(), list(text));
    let summary = table.get_or("summary", "from the configuration".to_owned(), text);
    let result = table.get("result", pair);
    let header = table.get("name_end", text);
    let grammar = match header {
        Some(end) => {
            named(table, &known().collect::<Vec<_>>(), open.as_deref().unwrap_or_default(), end, &close)
        }
        None => tagged(table, open.as_deref().unwrap_or_default(), &close),
    };
    let teach = result.filter(|_| matches!(grammar, Grammar::Tagged(_))).zip(open.as_deref()).map(
        |(result, open)| {
            let call = format!("{open}\n{OBJECT}\n{close}");
            let result = format!("{}\n{CONTENT}\n{}", result.0, result.1);
            let form = Form::json(leaked(call)).answered(leaked(result));
            Teach { words: leaked(format!("a JSON object behind {open}")), form }
        },
    );
    let open = open?;
    let example = match &grammar {
        Grammar::Calls(Calls {
            body: CallBody::Header(Header { end: HeaderEnd::Markers(ends), .. }),
            ..
        }) => {
            format!("{open}get_weather{}{{\"city\": \"Paris\"}}{close}", ends.concat())
        }
        _ => format!("{open}{{\"name\": \"get_weather\", \"arguments\": {{\"city\": \"Paris\"}}}}{close}"),
    };
    Some(Box::leak(Box::new(Format {
        name: leaked(name?),
        summary: leaked(summary),
        models: leaked_list(models),
        auto: false,
        example: leaked(example),
        grammars: Box::leak(Box::new([grammar])),
        teach,
    })))
}

/// JSON between markers.
fn tagged(table: &mut Table<'_>, open: &str, close: &str) -> Grammar {
    let special = Special {
        keyed: table.get_or("name_is_key", false, switch),
        common: table.get_or("line_start", false, switch),
        inner: leaked_list(table.get_or("inner", Vec::new(), list(text))),
        no_tool: &[],
    };
    let kind = TagKind::Special(special);
    let tag = Tag { open: leaked(open.to_owned()), close: leaked(close.to_owned()), kind };
    Grammar::Tagged(Box::leak(Box::new([tag])))
}

/// A name, then arguments.
fn named(table: &mut Table<'_>, known: &[&Format], open: &str, end: String, close: &str) -> Grammar {
    let section = table.get("section", |cell| {
        let (open, close) = pair(cell.clone())?;
        Some((distinct(&cell, open, known)?, close))
    });
    let sections = section.map(|(open, close)| (leaked(open), leaked(close)));
    let line = table.get_or("line_start", false, switch);
    let close = Some(close.to_owned()).filter(|close| !close.is_empty());
    Grammar::Calls(Calls {
        sections: Box::leak(sections.into_iter().collect()),
        open: leaked_list(vec![open.to_owned()]),
        naked: true,
        noise: &[],
        place: if line { Place::LineStart } else { Place::Anywhere },
        body: CallBody::Header(Header {
            end: HeaderEnd::Markers(leaked_list(vec![end])),
            read: |header| Some(("", header)),
            legal: "",
            before: &[],
            after: &[],
            close: leaked_list(close.into_iter().collect()),
        }),
    })
}

/// What a call begins with: told apart from every other opener by its own text, and from fences by its first character.
fn opener(cell: Cell<'_>, known: &[&Format]) -> Option<String> {
    let open = text(cell.clone())?;
    distinct(&cell, open, known)
}

fn distinct(cell: &Cell<'_>, open: String, known: &[&Format]) -> Option<String> {
    if open.starts_with(|first: char| first.is_whitespace() || matches!(first, '`' | '~')) {
        return cell.wrong("an opener cannot begin with white space, a backtick or a tilde");
    }
    let mut openers =
        known.iter().flat_map(|format| format.openers().into_iter().map(|open| (format.name, open)));
    let begins = |other: &str| other != open && (other.starts_with(&open) || open.starts_with(other));
    match openers.find(|(_, other)| begins(other)) {
        Some((name, other)) => cell.wrong(format!(
            "it cannot be told from `{other}` of the format `{name}`: one begins with the other"
        )),
        None => Some(open),
    }
}

/// Two markers.
fn pair(cell: Cell<'_>) -> Option<(String, String)> {
    match <[String; 2]>::try_from(list(text)(cell.clone())?) {
        Ok([open, close]) => Some((open, close)),
        Err(_) => cell.wrong("expected two markers: what is before, and what is behind"),
    }
}

fn leaked(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

fn leaked_list(texts: Vec<String>) -> &'static [&'static str] {
    Box::leak(texts.into_iter().map(leaked).collect())
}
