//! [`Flat`]: the members of a call's object beside its name, which may be its arguments.

use crate::wire::json::escape_str;

/// One member.
#[derive(Debug, Clone)]
struct Member {
    key: String,
    /// Its value, as JSON.
    json: String,
    /// An envelope may have it, so it is an argument only if the tool declares it.
    is_envelope: bool,
}

/// Members in the order in which they were written.
#[derive(Debug, Clone, Default)]
pub(super) struct Flat {
    members: Vec<Member>,
}

impl Flat {
    /// Bytes kept.
    pub(super) fn kept(&self) -> usize {
        self.members.iter().map(|member| member.key.len() + member.json.len()).sum()
    }

    /// A member begins.
    pub(super) fn key(&mut self, key: String, is_envelope: bool) {
        self.members.push(Member { key, json: String::new(), is_envelope });
    }

    /// A piece of its value's JSON.
    pub(super) fn value(&mut self, json: &str) {
        if let Some(member) = self.members.last_mut() {
            member.json.push_str(json);
        }
    }

    /// Its value is this text.
    pub(super) fn text(&mut self, text: &str) {
        if let Some(member) = self.members.last_mut() {
            member.json.push('"');
            escape_str(&mut member.json, text);
            member.json.push('"');
        }
    }

    /// The last member is part of the envelope: the name, or what holds it.
    pub(super) fn take_back(&mut self) {
        self.members.pop();
    }

    /// The arguments that the members are for a tool that declares these keys; `None` if a key is not declared.
    pub(super) fn arguments(&self, declares: impl Fn(&str) -> bool) -> Option<String> {
        let mut json = String::from("{");
        for Member { key, json: value, is_envelope } in &self.members {
            if !declares(key) {
                if *is_envelope {
                    continue;
                }
                return None;
            }
            json.push_str(if json.len() > 1 { ",\"" } else { "\"" });
            escape_str(&mut json, key);
            json.push_str("\":");
            json.push_str(value);
        }
        json.push('}');
        Some(json)
    }
}
