//! [`DeclaredTools`]: what detection and the request's rules need to know about the declared tools.

use std::{
    collections::HashSet,
    sync::{Arc, OnceLock},
};

use serde_json::Value;

mod arguments;
mod name;
mod references;
mod schema;
mod search;
mod shape;
mod types;

use crate::{
    conversation::{Conversation, Tool, ToolChoice, names_at_upstreams},
    wire::json::Raw,
};
pub use arguments::fault as arguments_fault;
pub use name::{is_spelling_of, normalized};
pub use references::referred;
pub(crate) use references::{Budget, MAX_FOLLOWED, References};
pub(crate) use schema::Schema;
pub use search::{ToolIndex, texts_of_schema};
pub(crate) use shape::ArgumentTypes;
pub use shape::Shape;
pub use types::Types;

/// Prefixes that models add to the names of tools: the namespaces in which OpenAI's prompts declare them.
const NAMESPACES: [&str; 2] = ["functions.", "tools."];

/// The tools that may be called in one request, by name. All stages share them until the response has ended,
/// so only names and schemas are stored.
#[derive(Debug, Clone, Default)]
pub struct DeclaredTools {
    declared: Arc<Table>,
}

#[derive(Debug, Default)]
struct Table {
    prefix: Box<str>,
    /// Sorted by name, without duplicates. A tool whose name some upstreams do not accept is also listed
    /// under the names used there.
    tools: Box<[(Box<str>, Signature)]>,
}

#[derive(Debug, Default)]
struct Signature {
    /// The declared name, if this entry is for another name of the tool.
    declared: Option<Box<str>>,
    schema: Option<Raw>,
    /// The parsed schema. It is parsed only when needed, because most tools of a request are not called, and
    /// many calls do not need it.
    parameters: OnceLock<ArgumentTypes>,
}

impl Signature {
    fn of(tool: &Tool) -> Self {
        Self { schema: tool.parameters.clone(), ..Self::default() }
    }

    fn parameters(&self) -> &ArgumentTypes {
        self.parameters.get_or_init(|| {
            self.schema.as_ref().map(|schema| ArgumentTypes::of(schema.view())).unwrap_or_default()
        })
    }
}

impl DeclaredTools {
    /// The tools in `conversation` that the model may call. `prefix`, which may be empty, precedes their
    /// names in the prompt.
    pub fn new(conversation: &Conversation, prefix: &str) -> Self {
        // If the client chose a hosted tool, that tool is called first, and then the model may choose any
        // tool.
        let chooses_hosted = match &conversation.tool_choice {
            ToolChoice::Named(name) => conversation.hosted_tools.contains(name),
            _ => false,
        };
        let callable = || {
            let all = conversation.tools.iter().filter(move |_| chooses_hosted);
            all.chain(conversation.callable_tools().filter(move |_| !chooses_hosted))
        };
        let tools = callable();
        let mut tools: Vec<_> = tools.map(|tool| (tool.name.as_str().into(), Signature::of(tool))).collect();
        let renamed = names_at_upstreams(&conversation.tools);
        if !renamed.is_empty() {
            let callable: HashSet<&str> = callable().map(|tool| tool.name.as_str()).collect();
            let renamed = renamed.into_iter().filter(|(_, tool)| callable.contains(tool.name.as_str()));
            tools.extend(renamed.map(|(name, tool)| {
                let declared = Some(tool.name.as_str().into());
                (name.into(), Signature { declared, ..Signature::of(tool) })
            }));
        }
        tools.sort_by(|(one, _): &(Box<str>, _), (other, _)| one.cmp(other));
        tools.dedup_by(|(later, _), (first, _)| first == later);
        Self { declared: Arc::new(Table { prefix: prefix.into(), tools: tools.into() }) }
    }

    fn tool(&self, name: &str) -> Option<&Signature> {
        let tools = &self.declared.tools;
        let place = tools.binary_search_by(|(declared, _)| declared.as_ref().cmp(name)).ok()?;
        tools.get(place).map(|(_, tool)| tool)
    }

    /// Whether no tool may be called.
    pub fn is_empty(&self) -> bool {
        self.declared.tools.is_empty()
    }

    /// The declared names in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let declared = self.declared.tools.iter().filter(|(_, tool)| tool.declared.is_none());
        declared.map(|(name, _)| name.as_ref())
    }

    /// The declared name of the tool `name`, which may be its name at an upstream.
    pub fn declared<'a>(&'a self, name: &'a str) -> &'a str {
        self.tool(name).and_then(|tool| tool.declared.as_deref()).unwrap_or(name)
    }

    /// The name by which the model knows the tool `name`.
    pub fn as_taught(&self, name: &str) -> String {
        format!("{}{name}", self.declared.prefix)
    }

    /// The declared name that `written` refers to. It may be preceded by the prefix, by a namespace of
    /// OpenAI's prompts, or by the namespace and then the prefix.
    pub fn resolve<'a>(&self, written: &'a str) -> Option<&'a str> {
        self.resolve_plain(written).or_else(|| {
            let inner = NAMESPACES.iter().find_map(|namespace| written.strip_prefix(namespace))?;
            self.resolve_plain(inner)
        })
    }

    /// The declared name inside `written`, which is the undeclared name of a native call. There must be
    /// exactly one, and everything else must be decoration: markup of the model's format, white space, a
    /// namespace, or a number.
    pub fn undecorated<'a>(&self, written: &'a str) -> Option<&'a str> {
        if self.is_empty() {
            return None;
        }
        name::undecorated(written, |name| self.resolve_plain(name).is_some())
    }

    fn resolve_plain<'a>(&self, written: &'a str) -> Option<&'a str> {
        let stripped = self.unprefixed(written);
        stripped
            .filter(|name| self.tool(name).is_some())
            .or_else(|| self.tool(written).is_some().then_some(written))
    }

    /// `written` without the prefix, if it has that prefix.
    pub fn unprefixed<'a>(&self, written: &'a str) -> Option<&'a str> {
        self.is_prefixed().then(|| written.strip_prefix(self.declared.prefix.as_ref())).flatten()
    }

    /// Whether the model knows the tools by prefixed names.
    pub fn is_prefixed(&self) -> bool {
        !self.declared.prefix.is_empty()
    }

    /// Whether `name` is declared and not a prefix of another declared name, so that it is known to be
    /// complete.
    pub fn is_whole(&self, name: &str) -> bool {
        let tools = &self.declared.tools;
        let place = tools.binary_search_by(|(declared, _)| declared.as_ref().cmp(name));
        // The names are sorted, so a longer one would come next.
        place.is_ok_and(|place| tools.get(place + 1).is_none_or(|(next, _)| !next.starts_with(name)))
    }

    /// Whether `start` is a prefix of a declared name.
    pub fn may_become(&self, start: &str) -> bool {
        self.may_become_plain(start)
            || NAMESPACES.iter().any(|namespace| match start.strip_prefix(namespace) {
                Some(inner) => self.may_become_plain(inner),
                None => namespace.starts_with(start),
            })
    }

    fn may_become_plain(&self, start: &str) -> bool {
        let begins = |start: &str| self.declared.tools.iter().any(|(name, _)| name.starts_with(start));
        begins(start) || self.declared.prefix.starts_with(start) || self.unprefixed(start).is_some_and(begins)
    }

    /// Whether the tool `name` declares an argument `key`.
    pub fn declares(&self, name: &str, key: &str) -> bool {
        self.tool(name).is_some_and(|tool| tool.parameters().keys().any(|property| property == key))
    }

    /// The argument that the tool `name` declares at position `place`.
    pub fn property(&self, name: &str, place: usize) -> Option<&str> {
        self.tool(name)?.parameters().keys().nth(place)
    }

    /// The argument of the tool `name` to which text without a key belongs: a required string, or else any
    /// string, or else any argument.
    pub fn text_parameter(&self, name: &str) -> Option<&str> {
        let tool = self.tool(name)?;
        let is_text = |key: &&str| self.types(name, key).is_some_and(|types| types.is_string());
        let mut keys = tool.parameters().required().chain(tool.parameters().keys());
        keys.find(is_text).or(tool.parameters().keys().next())
    }

    /// The only argument of the tool `name`, if it is a string.
    pub fn only_string(&self, name: &str) -> Option<&str> {
        let mut keys = self.tool(name)?.parameters().keys();
        let key = keys.next().filter(|_| keys.next().is_none())?;
        self.types(name, key).is_some_and(|types| types.is_string()).then_some(key)
    }

    /// The types that the argument `key` of the tool `name` may have. `None` if it is not declared.
    pub fn types(&self, name: &str, key: &str) -> Option<Types> {
        Some(self.shape(name)?.inner(Some(key))?.types())
    }

    /// The argument types of the tool `name`. `None` if it is not declared.
    pub fn shape(&self, name: &str) -> Option<Shape<'_>> {
        self.tool(name)?.parameters().shape()
    }

    /// Whether the tool `name` declares any arguments. Their keys distinguish arguments from similar text.
    pub fn has_arguments(&self, name: &str) -> bool {
        self.tool(name).is_some_and(|tool| tool.parameters().keys().next().is_some())
    }

    /// The required arguments of the tool `name` that the JSON object `arguments` lacks.
    pub fn missing(&self, name: &str, arguments: &str) -> Vec<&str> {
        let Some(tool) = self.tool(name) else { return Vec::new() };
        let given: Option<serde_json::Map<String, Value>> = serde_json::from_str(arguments).ok();
        let given = |key: &str| given.as_ref().is_some_and(|members| members.contains_key(key));
        tool.parameters().required().filter(|key| !given(key)).collect()
    }
}
