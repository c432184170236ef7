//! Reads the arguments of a JSON call, which may also be packed into a string.

use super::{Arguments, At, Envelope, Flat};
use crate::{
    body::{Fed, JsonBody},
    escape::{Escape, Read},
    text::{head, slice, tail},
    walk::{CallRules, Out, Piece},
};

impl Envelope {
    /// Reads the first byte of the arguments, which are an object, a string that contains an object, or `null`.
    /// Anything else is accepted only if a marker identifies the call. A marked call starts here unless the
    /// arguments may be the schema in a declaration.
    pub(super) fn begin_arguments(
        &mut self,
        byte: u8,
        quote: bool,
        rules: &CallRules<'_>,
        out: &mut Out<'_>,
    ) -> Option<usize> {
        self.call.flat = Flat::default();
        self.call.arguments = Arguments::Doubtful;
        let strict = !rules.marked && !self.python && !self.call.started;
        self.body = JsonBody::new(rules.repair && !strict, rules.max_depth);
        match byte {
            _ if quote => {
                self.captured.clear();
                let escape = Escape::default();
                self.at = At::Packed { quote: byte, escape, literal: false, brace: String::new() };
                return Some(1);
            }
            // Declarations have the schema under the same key, so the object may be a schema. Under any other key,
            // a marked call is certain.
            b'{' if !rules.marked || self.call.is_declared() => {}
            b'n' | b'N' => {}
            _ if strict || matches!(byte, b'}' | b']' | b')' | b',' | b':') => return None,
            _ => self.call.arguments = Arguments::Open,
        }
        self.at = At::Arguments;
        self.start(out);
        Some(0)
    }

    pub(super) fn arguments(
        &mut self,
        text: &str,
        rules: &CallRules<'_>,
        out: &mut Out<'_>,
    ) -> Option<usize> {
        let piece = match self.call.arguments {
            // Read one character at a time until the first key decides whether these are arguments.
            Arguments::Doubtful => head(text, text.chars().next()?.len_utf8()),
            _ => text,
        };
        match self.feed_body(piece, rules, out)? {
            Fed::More => Some(piece.len()),
            Fed::Done(len) => {
                self.arguments_ended(rules, out)?;
                self.at = At::MemberEnd;
                Some(len)
            }
            // The valid part has been sent, so the next byte is the fault.
            Fed::Fault(len) => (len > 0).then_some(len),
        }
    }

    /// Feeds the body, and sends or holds its output. Returns `None` if the text cannot be arguments.
    fn feed_body(&mut self, piece: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> Option<Fed> {
        let call = &mut self.call;
        if call.arguments != Arguments::Doubtful {
            let kept = &mut call.kept;
            let fed = if call.started {
                self.body.feed(piece, &mut |text: &str| out(Piece::Arguments(text)))
            } else {
                self.body.feed(piece, &mut |text: &str| kept.push_str(text))
            };
            return Some(fed);
        }
        let before = self.body.clone();
        let fed = self.body.feed(piece, &mut |text: &str| call.kept.push_str(text));
        call.guard.feed(&before, &self.body, piece);
        let declared = |key: &str| call.name.as_deref().is_some_and(|name| rules.tools.declares(name, key));
        if call.name.is_some() && call.guard.refuses(declared) {
            return None;
        }
        if call.guard.is_passed(declared) && self.body.depth() > 0 {
            call.arguments = Arguments::Open;
            self.body.mend(rules.repair);
            self.start(out);
            if self.call.started && !self.call.kept.is_empty() {
                out(Piece::Arguments(&std::mem::take(&mut self.call.kept)));
            }
        }
        Some(fed)
    }

    /// Called at the end of the arguments. Replaces `null` with an empty object.
    fn arguments_ended(&mut self, rules: &CallRules<'_>, out: &mut Out<'_>) -> Option<()> {
        let call = &mut self.call;
        if call.arguments == Arguments::Doubtful {
            // The declaration of a tool without parameters looks the same.
            let is_empty = call.kept.strip_prefix('{').is_some_and(|rest| rest.trim() == "}");
            if is_empty && call.is_described && call.is_declared() {
                return None;
            }
            match call.kept.trim() {
                "" | "null" => call.kept = "{}".to_owned(),
                kept if kept.starts_with('{') => {}
                _ if rules.marked => {}
                _ => return None,
            }
            if call.started {
                out(Piece::Arguments(&std::mem::take(&mut call.kept)));
            }
        }
        call.arguments = Arguments::Done;
        let started = call.started;
        self.arguments_settled(started);
        self.start(out);
        Some(())
    }

    /// Reads arguments in a JSON string: decodes each escape, and reads the decoded text as JSON.
    pub(super) fn packed(
        &mut self,
        text: &str,
        byte: u8,
        rules: &CallRules<'_>,
        out: &mut Out<'_>,
    ) -> Option<usize> {
        let At::Packed { quote, escape, .. } = &mut self.at else { return None };
        if escape.is_empty() && byte == *quote {
            self.packed_ended(rules, out)?;
            self.at = At::MemberEnd;
            return Some(1);
        }
        let strict = !rules.repair || (!rules.marked && self.call.arguments == Arguments::Doubtful);
        if escape.is_empty() && byte != b'\\' {
            let quote = *quote;
            let plain = |byte: u8| byte != quote && byte != b'\\' && (!strict || byte >= 0x20);
            let run = text.bytes().position(|byte| !plain(byte)).unwrap_or(text.len());
            let run = head(text, run);
            let taken = self.feed_packed(run, run, rules, out)?;
            // The valid part before a fault has been sent, so the next byte is the fault.
            return (taken > 0).then_some(taken);
        }
        let character = text.chars().next()?;
        let len = character.len_utf8();
        let written = format!("{}{character}", escape.written());
        let (decoded, written, next) = match escape.read(character) {
            Read::More => return Some(len),
            Read::Whole(decoded) => {
                // The second half of a broken surrogate pair may still be held.
                let written = head(&written, written.len() - escape.written().len()).to_owned();
                (decoded, written, len)
            }
            Read::None(_) if strict => return None,
            // Python and JavaScript escape single quotes like this.
            Read::None(text) if text == "\\" && character == '\'' => ("'".to_owned(), written, len),
            Read::Half(text) | Read::None(text) => (text.clone(), text, 0),
        };
        (self.feed_packed(&decoded, &written, rules, out)? == decoded.len()).then_some(next)
    }

    /// Reads packed arguments, given both as decoded text and as written. They must be an object, but a marked
    /// format also accepts other values. Returns how many bytes of the text were read.
    fn feed_packed(
        &mut self,
        text: &str,
        written: &str,
        rules: &CallRules<'_>,
        out: &mut Out<'_>,
    ) -> Option<usize> {
        if let At::Packed { literal: true, .. } = self.at {
            let fed = self.feed_body(written, rules, out)?;
            return (fed == Fed::More).then_some(text.len());
        }
        let raw = text == written;
        let mut rest = text;
        while !rest.is_empty() {
            let written = if raw { rest } else { written };
            match self.feed_unpacked(rest, written, rules, out)? {
                Fed::More => break,
                Fed::Done(len) => rest = tail(rest, len),
                Fed::Fault(len) => return Some(text.len() - rest.len() + len),
            }
        }
        Some(text.len())
    }

    /// Reads packed arguments that are not forwarded as a string. Returns `Done` with the number of bytes of `text`
    /// that were read, or `More` if all of them were.
    fn feed_unpacked(
        &mut self,
        text: &str,
        written: &str,
        rules: &CallRules<'_>,
        out: &mut Out<'_>,
    ) -> Option<Fed> {
        let first = text.chars().next()?;
        if self.body.is_done() {
            let refuses = rules.whole && !rules.marked && !text.trim().is_empty();
            return (!refuses).then_some(Fed::More);
        }
        let may_be_object = if self.body.depth() == 0 { self.may_be_object(first, rules) } else { None };
        match may_be_object {
            Some(true) => {
                if self.captured.len() < rules.max_markup {
                    self.captured.push_str(if text == written { head(text, 1) } else { written });
                }
                return Some(Fed::Done(1));
            }
            Some(false) => self.object_begins(rules, out)?,
            None if self.body.depth() == 0 => {
                return self.begin_literal(written, rules, out).then_some(Fed::More);
            }
            None => {}
        }
        let piece = match self.call.arguments {
            Arguments::Doubtful => head(text, first.len_utf8()),
            _ => text,
        };
        Some(match self.feed_body(piece, rules, out)? {
            Fed::More => Fed::Done(piece.len()),
            fed => fed,
        })
    }

    /// Reads what precedes the first token in packed arguments. Returns `Some(true)` if they may still be an
    /// object; its first token must be a key or the closing brace. Returns `Some(false)` if `first` begins that
    /// token, and `None` if they are not an object. White space is framing before an object, but part of the string
    /// before anything else.
    fn may_be_object(&mut self, first: char, rules: &CallRules<'_>) -> Option<bool> {
        let At::Packed { brace, .. } = &mut self.at else { return None };
        let opens = first == '{' && brace.is_empty();
        if opens || (first.is_ascii_whitespace() && brace.len() < rules.max_markup) {
            if opens || !brace.is_empty() {
                brace.push(first);
            }
            return Some(true);
        }
        let key = matches!(first, '"' | '}') || (first == '\'' && rules.repair);
        (!brace.is_empty() && key).then_some(false)
    }

    /// Begins an object with the held brace.
    fn object_begins(&mut self, rules: &CallRules<'_>, out: &mut Out<'_>) -> Option<()> {
        let At::Packed { brace, .. } = &mut self.at else { return None };
        let brace = std::mem::take(brace);
        for (at, character) in brace.char_indices() {
            self.feed_body(slice(&brace, at, at + character.len_utf8()), rules, out)?;
        }
        Some(())
    }

    /// Begins a string that does not contain an object. A marked format forwards it as a string.
    fn begin_literal(&mut self, written: &str, rules: &CallRules<'_>, out: &mut Out<'_>) -> bool {
        let At::Packed { quote, literal, .. } = &mut self.at else { return false };
        *literal = true;
        let string = format!("{}{}{written}", char::from(*quote), self.captured);
        self.call.arguments = Arguments::Open;
        self.body = JsonBody::new(rules.repair, rules.max_depth);
        rules.marked && self.feed_body(&string, rules, out) == Some(Fed::More)
    }

    fn packed_ended(&mut self, rules: &CallRules<'_>, out: &mut Out<'_>) -> Option<()> {
        if let At::Packed { literal: true, quote, .. } = self.at {
            let fed = self.feed_body(char::from(quote).encode_utf8(&mut [0; 4]), rules, out)?;
            return if matches!(fed, Fed::Done(_)) { self.arguments_ended(rules, out) } else { None };
        }
        if matches!(&self.at, At::Packed { brace, .. } if !brace.is_empty()) {
            self.begin_literal("", rules, out).then_some(())?;
            return self.packed_ended(rules, out);
        }
        if !self.body.is_done() && !self.call.kept.trim().is_empty() {
            return None;
        }
        if self.call.arguments == Arguments::Open && !self.body.is_done() {
            return None;
        }
        self.arguments_ended(rules, out)
    }
}
