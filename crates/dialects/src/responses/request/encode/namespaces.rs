//! Namespaces of tools, which upstreams that know them get as the client has declared them.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::DIALECT;
use crate::{
    conversation::{Conversation, Namespaced},
    responses::upstream::Options,
    server::Server,
    wire::json::Encoder,
};

#[derive(Default)]
pub(super) struct Namespaces<'c> {
    /// The tools in namespaces, by the names under which calls refer to them.
    members: HashMap<&'c str, &'c Namespaced>,
    /// The declarations, with the tools that are shown.
    declared: Vec<(&'c Map<String, Value>, Vec<&'c Value>)>,
}

impl<'c> Namespaces<'c> {
    /// The namespaces that the request declares, if the upstream knows namespaces.
    pub(super) fn new(conversation: &'c Conversation, options: &Options) -> Self {
        let mut namespaces = Self::default();
        if conversation.namespaced.is_empty() || options.server != Server::OpenAi {
            return namespaces;
        }
        let shown: HashSet<&str> = conversation.tools.iter().map(|tool| tool.name.as_str()).collect();
        let shown = conversation.namespaced.iter().filter(|member| shown.contains(member.name.as_str()));
        let known: HashMap<_, _> =
            shown.map(|member| ((member.namespace.as_str(), member.inner.as_str()), member)).collect();
        let written = conversation.repeated.from_dialect(DIALECT).and_then(|it| it.get("tools")?.as_array());
        for declaration in written.into_iter().flatten().filter_map(Value::as_object) {
            if declaration.get("type").is_none_or(|kind| kind != "namespace") {
                continue;
            }
            let name = |members: &'c Map<String, Value>| members.get("name").and_then(Value::as_str);
            let namespace = name(declaration).unwrap_or_default();
            let tools =
                declaration.get("tools").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let mut kept = Vec::new();
            for tool in tools {
                let inner = tool.as_object().and_then(name).unwrap_or_default();
                if let Some(member) = known.get(&(namespace, inner)) {
                    namespaces.members.insert(&member.name, member);
                    kept.push(tool);
                }
            }
            if !kept.is_empty() || tools.is_empty() {
                namespaces.declared.push((declaration, kept));
            }
        }
        namespaces
    }

    /// The namespace of the tool `name`, and its name there.
    pub(super) fn of(&self, name: &str) -> Option<&'c Namespaced> {
        self.members.get(name).copied()
    }

    pub(super) fn are_declared(&self) -> bool {
        !self.declared.is_empty()
    }

    /// Writes the declarations.
    pub(super) fn put(&self, body: &mut Encoder) {
        for (declaration, tools) in &self.declared {
            body.object(|body| {
                for (key, value) in *declaration {
                    match key.as_str() {
                        "tools" => body.key(key).array(|body| tools.iter().for_each(|tool| body.value(tool))),
                        _ => body.key(key).value(value),
                    }
                }
            });
        }
    }

    /// Writes the name of a tool as a call or a choice has it.
    pub(super) fn put_name(&self, body: &mut Encoder, name: &str) {
        match self.of(name) {
            Some(member) => {
                body.key("name").string(&member.inner);
                body.key("namespace").string(&member.namespace);
            }
            None => body.key("name").string(name),
        }
    }
}
