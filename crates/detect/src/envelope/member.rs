//! Reads the keys of an object that may be a call, and the values that are not arguments: names, IDs and types.

use super::{Arguments, At, BARE, Call, Envelope, KEYS, Key, Level, TYPES};
use crate::{
    body::JsonBody,
    text::head,
    walk::{CallRules, Out},
    wire::json::Json,
};

impl Call {
    /// Whether the arguments have the same key as the schema in a declaration.
    pub(super) fn is_declared(&self) -> bool {
        let parameters = KEYS.iter().position(|(key, _)| *key == "parameters");
        parameters.is_some_and(|place| self.seen & (1 << place) != 0)
    }
}

impl Envelope {
    pub(super) fn begin_capture(&mut self, quote: u8, key: bool) {
        self.captured.clear();
        self.at =
            if key { At::KeyText { quote, escaped: false } } else { At::Text { quote, escaped: false } };
    }

    /// Reads one character of a key or of a captured value.
    pub(super) fn capture(
        &mut self,
        text: &str,
        byte: u8,
        rules: &CallRules<'_>,
        out: &mut Out<'_>,
    ) -> Option<usize> {
        let is_key = matches!(self.at, At::KeyText { .. });
        let (At::KeyText { quote, escaped } | At::Text { quote, escaped }) = &mut self.at else {
            return None;
        };
        if *quote == BARE && !(byte.is_ascii_alphanumeric() || byte == b'_') {
            let ends = byte == b':' || byte.is_ascii_whitespace();
            ends.then_some(())?;
            self.key_ended(BARE, rules)?;
            return Some(0);
        }
        if !*escaped && byte == *quote {
            let quote = *quote;
            if is_key {
                self.key_ended(quote, rules)?;
            } else {
                self.text_ended(quote, rules, out)?;
            }
            return Some(1);
        }
        *escaped = !*escaped && byte == b'\\';
        let len = text.chars().next()?.len_utf8();
        if byte < 0x20 || self.captured.len() + len > rules.max_markup {
            return None;
        }
        self.captured.push_str(head(text, len));
        let may_go_on = match self.key {
            // Escapes are decoded at the end.
            _ if self.captured.contains('\\') => true,
            _ if is_key => {
                let begins = || KEYS.iter().any(|(key, _)| key.starts_with(&self.captured));
                rules.marked || !self.first_key || begins()
            }
            Key::Name | Key::Function => rules.may_become_name_in_call(&self.captured),
            _ => true,
        };
        may_go_on.then_some(len)
    }

    fn key_ended(&mut self, quote: u8, rules: &CallRules<'_>) -> Option<()> {
        let text = decode(&self.captured, quote)?;
        if self.keyed && self.keyed_name(&text, rules) {
            return Some(());
        }
        let known = KEYS.iter().enumerate().find(|(_, (key, _))| *key == text);
        self.key = known.map_or(Key::Other, |(_, (_, key))| *key);
        if let Some((place, _)) = known {
            let bit = 1_u32 << place;
            // A repeated key makes the call ambiguous, but a call that is being streamed can no longer be refused.
            let may_refuse = !rules.marked && (rules.whole || !self.call.started);
            if self.call.seen & bit != 0 && may_refuse {
                return None;
            }
            self.call.seen |= bit;
        } else if self.first_key && !rules.marked {
            return None;
        }
        self.first_key = false;
        self.at = At::Colon;
        self.call.is_described |= text == "description";
        if rules.marked && self.call.arguments == Arguments::None {
            let is_envelope = self.key != Key::Other || text == "index";
            self.call.flat.key(text, is_envelope);
        }
        Some(())
    }

    /// Whether a key is the name of a call. A declared name always is. Any other key is, unless envelopes use it.
    fn keyed_name(&mut self, key: &str, rules: &CallRules<'_>) -> bool {
        let call = &mut self.call;
        let fresh = call.seen == 0 && matches!(call.arguments, Arguments::None | Arguments::Done);
        let word = KEYS.iter().any(|(word, _)| *word == key) && rules.tools.resolve(key).is_none();
        let Some(name) = rules.name(key).filter(|_| fresh && !word) else { return false };
        *call = Call { name: Some(name.to_owned()), ..Call::default() };
        // The call before it is whole, although its object goes on.
        self.settled |= std::mem::take(&mut self.ended);
        self.key = Key::Arguments;
        self.first_key = false;
        self.at = At::Colon;
        true
    }

    fn text_ended(&mut self, quote: u8, rules: &CallRules<'_>, out: &mut Out<'_>) -> Option<()> {
        let text = decode(&self.captured, quote)?;
        match self.key {
            Key::Name | Key::Function if self.call.name.is_none() => {
                self.call.flat.take_back();
                let name = rules.name_in_call(&text)?.to_owned();
                if self.call.guard.refuses(|key| rules.tools.declares(&name, key)) {
                    return None;
                }
                self.call.name = Some(name);
                self.start(out);
            }
            Key::Id => {
                self.call.flat.text(&text);
                self.call.id = text;
            }
            Key::Type if !rules.marked && !self.call.started && !TYPES.contains(&text.as_str()) => {
                return None;
            }
            _ => self.call.flat.text(&text),
        }
        self.at = At::MemberEnd;
        Some(())
    }

    /// Reads the first byte of a member's value.
    pub(super) fn value(&mut self, byte: u8, rules: &CallRules<'_>, out: &mut Out<'_>) -> Option<usize> {
        let quote = byte == b'"' || (byte == b'\'' && self.reads_python(rules));
        match self.key {
            Key::Name | Key::Function | Key::Id | Key::Type if quote => {
                self.begin_capture(byte, false);
                return Some(1);
            }
            Key::Function if byte == b'{' => {
                self.call.flat.take_back();
                self.levels.push(Level::Inner);
                self.call.seen = 0;
                self.at = At::Key { or_end: false };
                return Some(1);
            }
            Key::Calls if matches!(byte, b'{' | b'[') && self.call.name.is_none() => {
                self.at = At::Item { or_end: false };
                if byte == b'[' {
                    self.levels.push(Level::List);
                    return Some(1);
                }
                return Some(0);
            }
            Key::Name if self.call.name.is_none() => return None,
            Key::Function => return None,
            Key::Arguments if self.call.arguments == Arguments::None => {
                return self.begin_arguments(byte, quote, rules, out);
            }
            _ => {}
        }
        let repair = rules.repair && self.lenient(rules);
        self.at = At::Skip(JsonBody::new(repair, rules.max_depth));
        Some(0)
    }
}

/// Decodes a string. Single-quoted strings use Python's escapes.
fn decode(body: &str, quote: u8) -> Option<String> {
    if !body.contains('\\') {
        return Some(body.to_owned());
    }
    let body = if quote == b'\'' { body.replace("\\'", "'").replace('"', "\\\"") } else { body.to_owned() };
    let quoted = format!("\"{body}\"");
    Some(Json::parse(&quoted).ok()?.as_str()?.into_owned())
}
