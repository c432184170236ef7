//! [`PageText`]: the text of a page in HTML, with its headings, lists, tables and links as Markdown.
//!
//! The page is read once, from its start to its end, without building a tree.

use std::borrow::Cow;

use memchr::{memchr, memmem};
use url::Url;

use entities::character;

mod entities;

/// Maximum length of a link's address that is shown, in bytes.
const MAX_LINK: usize = 500;

/// Elements whose content is not text.
const LEFT_OUT: [&str; 10] =
    ["script", "style", "template", "svg", "iframe", "object", "canvas", "audio", "video", "textarea"];

/// Elements that stand on lines of their own.
const BLOCKS: [&str; 32] = [
    "address", "article", "aside", "blockquote", "body", "dd", "details", "div", "dl", "dt", "fieldset", "figcaption",
    "figure", "footer", "form", "header", "hr", "main", "nav", "ol", "option", "p", "pre", "section", "select",
    "summary", "table", "tbody", "thead", "tr", "ul", "caption",
];

/// The text of a page.
#[derive(Debug, Default)]
pub(super) struct PageText {
    pub(super) title: String,
    pub(super) text: String,
    /// Line breaks to write before the next text.
    breaks: usize,
    has_space: bool,
    /// The number of open `pre` elements.
    preformatted: usize,
    /// Where the text of the open link begins, and its address.
    link: Option<(usize, String)>,
}

impl PageText {
    /// Reads `html`, which comes from `base`, until the text is longer than `most` bytes.
    pub(super) fn of(html: &str, base: Option<&Url>, most: usize) -> Self {
        let mut page = Self::default();
        let mut rest = html;
        while !rest.is_empty() && page.text.len() <= most {
            let at = memchr(b'<', rest.as_bytes()).unwrap_or(rest.len());
            let (text, tag) = rest.split_at(at);
            page.push(text);
            rest = page.tag(tag, base);
        }
        page.end_link();
        page
    }

    /// Reads what begins with `<`. Returns what follows it.
    fn tag<'h>(&mut self, html: &'h str, base: Option<&Url>) -> &'h str {
        let Some(inner) = html.strip_prefix('<') else { return html };
        if let Some(comment) = inner.strip_prefix("!--") {
            return behind(comment, "-->");
        }
        if inner.starts_with(['!', '?']) {
            return behind(inner, ">");
        }
        let (is_end, named) = inner.strip_prefix('/').map_or((false, inner), |named| (true, named));
        if !named.starts_with(|char: char| char.is_ascii_alphabetic()) {
            self.push("<");
            return inner;
        }
        let end = named.find(|char: char| char.is_whitespace() || matches!(char, '/' | '>')).unwrap_or(named.len());
        let (name, attributes) = named.split_at(end);
        let name = name.get(..20).unwrap_or(name).to_ascii_lowercase();
        let (link, alternative, rest) = attributes_of(attributes);
        match (name.as_str(), is_end) {
            ("title", false) if self.title.is_empty() => {
                let (title, rest) = until_end(rest, "title");
                self.title = decoded(title).split_whitespace().collect::<Vec<_>>().join(" ");
                return rest;
            }
            ("title", false) => return until_end(rest, "title").1,
            (name, false) if LEFT_OUT.contains(&name) => return until_end(rest, name).1,
            (name, is_end) => self.element(name, is_end, (link, alternative), base),
        }
        rest
    }

    fn element(
        &mut self,
        name: &str,
        is_end: bool,
        (link, alternative): (Option<&str>, Option<&str>),
        base: Option<&Url>,
    ) {
        match (name, is_end) {
            ("br", _) => self.breaks = self.breaks.max(1),
            ("li", false) => {
                self.break_lines(1);
                self.push("- ");
            }
            ("h1" | "h2" | "h3" | "h4" | "h5" | "h6", false) => {
                self.break_lines(2);
                let level = name.bytes().last().map_or(1, |digit| usize::from(digit.saturating_sub(b'0')));
                self.push(&"#".repeat(level));
                self.has_space = true;
            }
            ("h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "p" | "table", _) => self.break_lines(2),
            ("td" | "th", true) => self.push(" | "),
            ("img", _) => {
                if let Some(alternative) = alternative.filter(|text| !text.trim().is_empty()) {
                    self.push(&format!("[image: {alternative}]"));
                }
            }
            ("a", false) => {
                self.end_link();
                let address = link.and_then(|link| address(&decoded(link), base));
                self.link = address.map(|address| (self.text.len(), address));
            }
            ("a", true) => self.end_link(),
            ("pre", is_end) => {
                self.break_lines(2);
                self.preformatted = if is_end { self.preformatted.saturating_sub(1) } else { self.preformatted + 1 };
            }
            (name, _) if name == "li" || BLOCKS.contains(&name) => self.break_lines(1),
            _ => {}
        }
    }

    /// Puts the address of the open link behind its text.
    fn end_link(&mut self) {
        let Some((begin, address)) = self.link.take() else { return };
        let text = self.text.get(begin..).unwrap_or_default();
        let blank = text.len() - text.trim_start().len();
        let text = text.trim();
        if !text.is_empty() && text != address {
            self.text.insert(begin + blank, '[');
            self.text.extend(["](", &address, ")"]);
        }
    }

    fn break_lines(&mut self, count: usize) {
        self.breaks = self.breaks.max(count);
        self.has_space = false;
    }

    fn push(&mut self, text: &str) {
        let text = decoded(text);
        if self.preformatted > 0 {
            return self.put(&text);
        }
        for (place, word) in text.split(char::is_whitespace).enumerate() {
            self.has_space |= place > 0;
            if !word.is_empty() {
                self.put(word);
            }
        }
    }

    /// Adds text, with the breaks and the space before it.
    fn put(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let before = match (std::mem::take(&mut self.breaks), std::mem::take(&mut self.has_space)) {
            _ if self.text.is_empty() => "",
            (0, true) => " ",
            (0, false) => "",
            (1, _) => "\n",
            _ => "\n\n",
        };
        self.text.push_str(before);
        self.text.extend(text.chars().filter(|char| !char.is_control() || matches!(char, '\n' | '\t')));
    }
}

/// What follows `end`. Nothing if it is missing.
fn behind<'h>(html: &'h str, end: &str) -> &'h str {
    let found = memmem::find(html.as_bytes(), end.as_bytes());
    found.and_then(|at| html.get(at + end.len()..)).unwrap_or_default()
}

/// The content of the element `name`, and what follows it.
fn until_end<'h>(html: &'h str, name: &str) -> (&'h str, &'h str) {
    let mut from = 0;
    while let Some(at) = html.get(from..).and_then(|rest| memmem::find(rest.as_bytes(), b"</")) {
        let (content, end) = html.split_at(from + at);
        let named = end.get(2..2 + name.len()).is_some_and(|own| own.eq_ignore_ascii_case(name));
        if named {
            return (content, behind(end, ">"));
        }
        from += at + 2;
    }
    (html, "")
}

/// The attributes `href` and `alt` of a tag, and what follows it.
fn attributes_of(html: &str) -> (Option<&str>, Option<&str>, &str) {
    let (mut link, mut alternative) = (None, None);
    let mut rest = html;
    loop {
        rest = rest.trim_start_matches(|char: char| char.is_whitespace() || char == '/');
        if rest.is_empty() {
            return (link, alternative, rest);
        }
        if let Some(rest) = rest.strip_prefix('>') {
            return (link, alternative, rest);
        }
        let is_end = |char: char| char.is_whitespace() || matches!(char, '=' | '>' | '/');
        // An attribute that begins with `=` has it as the first character of its name.
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let end = rest.get(first..).and_then(|rest| rest.find(is_end)).map_or(rest.len(), |end| first + end);
        let (name, after) = rest.split_at(end);
        let Some(value) = after.trim_start().strip_prefix('=') else {
            rest = after;
            continue;
        };
        let value = value.trim_start();
        let quote = value.chars().next().filter(|char| matches!(char, '"' | '\''));
        let (value, after) = match quote {
            Some(quote) => value.get(1..).unwrap_or_default().split_once(quote).unwrap_or((value, "")),
            None => {
                value.split_at(value.find(|char: char| char.is_whitespace() || char == '>').unwrap_or(value.len()))
            }
        };
        rest = after;
        if name.eq_ignore_ascii_case("href") {
            link = link.or(Some(value));
        } else if name.eq_ignore_ascii_case("alt") {
            alternative = alternative.or(Some(value));
        }
    }
}

/// The absolute address of a link to another page, if it is not too long.
fn address(link: &str, base: Option<&Url>) -> Option<String> {
    let link = link.trim();
    if link.is_empty() || link.starts_with('#') || link.len() > MAX_LINK {
        return None;
    }
    let url = match base {
        Some(base) => base.join(link).ok()?,
        None => Url::parse(link).ok()?,
    };
    let is_web = matches!(url.scheme(), "http" | "https") && url.as_str().len() <= MAX_LINK;
    // A parenthesis would end the link.
    is_web.then(|| url.as_str().replace('(', "%28").replace(')', "%29"))
}

/// Replaces character references.
fn decoded(text: &str) -> Cow<'_, str> {
    if memchr(b'&', text.as_bytes()).is_none() {
        return Cow::Borrowed(text);
    }
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        decoded.push_str(before);
        match character(after) {
            Some((char, behind)) => {
                decoded.push(char);
                rest = behind;
            }
            None => {
                decoded.push('&');
                rest = after;
            }
        }
    }
    decoded.push_str(rest);
    Cow::Owned(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(html: &str) -> String {
        PageText::of(html, Url::parse("https://a.example/b/").ok().as_ref(), 10_000).text.trim().to_owned()
    }

    #[test]
    fn structure_becomes_markdown() {
        for (html, expected) in [
            ("<p>One<p>Two", "One\n\nTwo"),
            ("<h2>Title</h2>text", "## Title\n\ntext"),
            ("<ul><li>a</li><li>b <b>c</b></ul>", "- a\n- b c"),
            ("a <a href='c?x=1&amp;y=2'>link</a>, b", "a [link](https://a.example/b/c?x=1&y=2), b"),
            ("<a href=\"javascript:x\">no</a> <a href='#x'>here</a>", "no here"),
            ("<a href=/x>one<a href=/y>two", "[one](https://a.example/x)[two](https://a.example/y)"),
            ("<table><tr><td>a</td><td>b</td></tr><tr><td>c</table>", "a | b |\nc"),
            ("<pre>a\n  b</pre>c", "a\n  b\n\nc"),
            ("a<br>b<!-- x > y -->c", "a\nbc"),
            ("<script>if (a < b) '</p>'</script>x<style>p > a {}</style>", "x"),
            ("1 < 2 &amp;&lt;&#233;&#x1F600;&eacute;&nope;&", "1 < 2 &<é😀é&nope;&"),
            ("<img alt='a \"cat\"' src=x><a title='>' href=/z>q</a>", "[image: a \"cat\"][q](https://a.example/z)"),
            ("<svg><text>no</text></svg>yes", "yes"),
            ("<a href='/a(b)'>x</a>", "[x](https://a.example/a%28b%29)"),
        ] {
            assert_eq!(read(html), expected, "{html}");
        }
        let page = PageText::of("<head><title> A\n&amp; B</title></head><body>x", None, 100);
        assert_eq!((page.title.as_str(), page.text.as_str()), ("A & B", "x"));
    }

    #[test]
    fn hostile_pages_end_in_linear_time() {
        for piece in
            ["<", "<a", "<a href='", "</", "<!--", "<script>", "<title>", "&", "&#", "<a href=x>", "<pre>", "<a =", "</script"]
        {
            let html = piece.repeat((1 << 20) / piece.len());
            PageText::of(&html, Url::parse("https://a.example/").ok().as_ref(), 100_000);
        }
    }
}
