//! [`Flat`]: the members beside the name in a call's object. They may be the call's arguments.

use crate::wire::json::escape_str;

#[derive(Debug, Clone)]
struct Member {
    key: String,
    /// The value as JSON.
    json: String,
    /// Whether envelopes use this key too. If so, the member is an argument only if the tool declares it.
    is_envelope: bool,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Flat {
    members: Vec<Member>,
}

impl Flat {
    pub(super) fn kept(&self) -> usize {
        self.members.iter().map(|member| member.key.len() + member.json.len()).sum()
    }

    pub(super) fn key(&mut self, key: String, is_envelope: bool) {
        self.members.push(Member { key, json: String::new(), is_envelope });
    }

    pub(super) fn value(&mut self, json: &str) {
        if let Some(member) = self.members.last_mut() {
            member.json.push_str(json);
        }
    }

    pub(super) fn text(&mut self, text: &str) {
        if let Some(member) = self.members.last_mut() {
            member.json.push('"');
            escape_str(&mut member.json, text);
            member.json.push('"');
        }
    }

    /// Removes the last member because it is part of the envelope: either the name, or the object that contains the
    /// name.
    pub(super) fn take_back(&mut self) {
        self.members.pop();
    }

    /// Returns the members as the arguments of a tool, or `None` if the tool does not declare one of the keys.
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
