//! Decodes the items of `input` and converts them to turns.

use std::{collections::HashMap, mem};

use serde_json::{Map, Value};

use super::{
    DIALECT,
    approvals::{self, Approvals},
    content::{self, Content},
    no_input, own,
    tools::Toolbox,
};
use crate::{
    Dialect,
    conversation::{
        COMPACTION_TRIGGER, Call, CallOutput, McpState, Part, Rest, Role, Turn, is_approval_call,
    },
    custom_tools::input_arguments,
    failure::{Failure, Kind},
    fields::{Fields, Path, missing, wrong_type, wrong_value},
    fit::output_of,
    opaque::carried_back,
    responses::{Options, built_in::BuiltInTool, is_own_item},
    summary::{self, CarriedSummary},
    wire::{
        json::{Json, Kind as JsonKind},
        text::{boundary_upto, head},
    },
};

/// The turns in an input, the items that declare tools, with their positions, and what it says about MCP servers.
type Input<'a> = (Vec<Turn>, Vec<(usize, Json<'a>)>, McpState);

pub(super) fn take<'a>(request: &mut Fields<'a, '_>, toolbox: &Toolbox) -> Result<Input<'a>, Failure> {
    let Some(input) = request.any("input") else { return Err(no_input(request)) };
    let path = request.at("input");
    let mut history = History { approvals: Approvals::read(&path, input)?, ..History::new(toolbox) };
    let mut late = Vec::new();
    match (input.as_str(), input.kind()) {
        (Some(text), _) => return Ok((vec![Turn::text(Role::User, text)], late, McpState::default())),
        (None, JsonKind::Array) => {
            for (place, item) in input.elements().enumerate() {
                history.item(Path::Element(&path, place), item)?;
                if mem::take(&mut history.declares) {
                    late.push((place, item));
                }
            }
        }
        (None, _) => return Err(wrong_type(path, "a string or an array of items", input)),
    }
    history.add_not_run();
    let turns: Vec<_> = history.runs.into_iter().map(Run::into_turn).collect();
    if turns.is_empty() { Err(no_input(request)) } else { Ok((turns, late, history.approvals.state)) }
}

struct History<'a, 't> {
    toolbox: &'t Toolbox,
    runs: Vec<Run<'a>>,
    /// Number of runs at the end that contain only results of calls run by toolwire.
    own_results: usize,
    /// Whether the last item declares tools.
    declares: bool,
    /// The last item, if it is a search for tools that toolwire ran.
    search: Option<Call>,
    /// The ids of calls of built-in tools, by every id with which an output may refer to them. `None` if the
    /// items are not a complete history.
    built_in_calls: Option<HashMap<String, String>>,
    approvals: Approvals,
    /// Calls that were not approved. They follow the results of the client's calls of the same turn.
    not_run: Vec<(Call, CallOutput)>,
}

struct Run<'a> {
    turn: Turn,
    items: Vec<Json<'a>>,
    /// Whether the items have members that the parts do not contain, such as `phase`.
    has_more: bool,
    has_text: bool,
    has_call: bool,
}

impl<'a> Run<'a> {
    fn new(role: Role) -> Self {
        let turn = Turn::of(role, Vec::new());
        Self { turn, items: Vec::new(), has_more: false, has_text: false, has_call: false }
    }

    fn add(&mut self, parts: Vec<Part>, item: Json<'a>, has_more: bool) {
        self.has_text |= parts.iter().any(|part| matches!(part, Part::Text(_)));
        self.has_call |= parts.iter().any(|part| matches!(part, Part::Call(_)));
        self.has_more |= has_more;
        self.turn.parts.extend(parts);
        self.items.push(item);
    }

    /// Returns the turn. If its parts contain less than the items, the items are stored as well.
    fn into_turn(self) -> Turn {
        let Self { turn, items, has_more, .. } = self;
        let mut rest = Map::new();
        if has_more {
            rest.insert(ITEMS.to_owned(), items.into_iter().map(|item| item.to_value()).collect());
        }
        Turn { rest: Rest::new(DIALECT, rest), ..turn }
    }
}

/// The field of a turn that contains its original items.
pub(super) const ITEMS: &str = "items";

/// The parts that `items`, the originals of a turn, represent. `None` if they belong to several turns, or
/// contain a call to a tool in a namespace, since upstreams know the tool by another name.
pub(super) fn meaning(items: &[Value]) -> Option<Vec<Part>> {
    let toolbox = Toolbox::default();
    let texts: Vec<String> = items.iter().map(Value::to_string).collect();
    let mut history = History { built_in_calls: None, ..History::new(&toolbox) };
    for (item, text) in items.iter().zip(&texts) {
        if item.get("namespace").is_some() {
            return None;
        }
        history.item(Path::Body, Json::parse(text).ok()?).ok()?;
    }
    match history.runs.as_mut_slice() {
        [run] => Some(std::mem::take(&mut run.turn.parts)),
        _ => None,
    }
}

impl<'a, 't> History<'a, 't> {
    fn new(toolbox: &'t Toolbox) -> Self {
        let built_in_calls = Some(HashMap::new());
        Self {
            toolbox,
            runs: Vec::new(),
            own_results: 0,
            declares: false,
            search: None,
            built_in_calls,
            approvals: Approvals::default(),
            not_run: Vec::new(),
        }
    }

    /// Adds an item, which is read field by field, so that an error can name the invalid field.
    fn item(&mut self, path: Path<'_>, item: Json<'a>) -> Result<(), Failure> {
        let mut fields = Fields::new(path, item)?;
        let kind = match fields.string("type")? {
            Some(kind) => kind,
            None if fields.peek("role").is_some() => "message".into(),
            None => return Err(missing(fields.at("type"), "the type of an item")),
        };
        if self.is_about_approval(&kind, &mut fields, item)? {
            return Ok(());
        }
        if let Some((call, output)) = own::call(&kind, item) {
            self.own_call(call, output);
            return Ok(());
        }
        if let Some(call) = own::search(&kind, item) {
            self.search = Some(call);
            return Ok(());
        }
        if let Some(call) = self.search.take()
            && let Some(output) =
                own::found(&kind, item, &call, |namespace, name| self.toolbox.flattened(namespace, name))
        {
            self.declares = true;
            self.own_call(call, output);
            return Ok(());
        }
        match &*kind {
            "message" => self.message(fields, item),
            "function_call" | "custom_tool_call" => {
                let call = self.call(&kind, &mut fields)?;
                self.assistant(vec![Part::Call(call)], item, has_more(fields, &["id", "status"]));
                Ok(())
            }
            "function_call_output" | "custom_tool_call_output" => self.output(fields, item),
            "reasoning" => {
                let part = reasoning(&mut fields)?;
                self.assistant(vec![part], item, has_more(fields, &["id", "status"]));
                Ok(())
            }
            "compaction" => self.compaction(fields, item),
            // A turn of its own, so that it can be removed.
            COMPACTION_TRIGGER => {
                self.begin(Role::Assistant, vec![content::other(item)], item, false);
                Ok(())
            }
            // References to stored items have already been resolved.
            "item_reference" => Err(unknown_item(&fields.needed_string("id")?)),
            // Calls to other tools, and items that the API may add. The `fit` module converts them for other
            // APIs.
            kind => {
                self.declares = kind != "mcp_list_tools"
                    && fields.peek("tools").is_some_and(|tools| tools.kind() == JsonKind::Array);
                if self.built_in(kind, item) {
                    return Ok(());
                }
                self.assistant(vec![content::other(item)], item, false);
                Ok(())
            }
        }
    }

    /// Handles an item about a call that needs an approval, or a list of tools that toolwire has sent.
    fn is_about_approval(
        &mut self,
        kind: &str,
        fields: &mut Fields<'a, '_>,
        item: Json<'a>,
    ) -> Result<bool, Failure> {
        if let Some(id) = approvals::request_id(kind, item) {
            if kind == "mcp_approval_request" {
                self.not_run.extend(self.approvals.request(&id, fields)?);
            }
            return Ok(true);
        }
        if kind == "mcp_list_tools" {
            return Ok(item.get("id").and_then(|id| id.as_str()).is_some_and(|id| is_own_item(&id)));
        }
        let is_answer = matches!(kind, "mcp_approval_request" | "mcp_approval_response");
        if !is_answer && !kind.ends_with("_output") {
            self.add_not_run();
        }
        Ok(false)
    }

    fn add_not_run(&mut self) {
        for (call, output) in mem::take(&mut self.not_run) {
            self.own_call(call, output);
        }
    }

    /// Adds an item that is a call of a built-in tool that the client runs, or the output of such a call. Returns
    /// `false` if it is neither.
    fn built_in(&mut self, kind: &str, item: Json<'a>) -> bool {
        let text = |key: &str| item.get(key).and_then(|id| Some(id.as_str()?.into_owned()));
        let given = || text("call_id").or_else(|| text("id")).filter(|id| !id.is_empty());
        if let Some(tool) = BuiltInTool::of_call(kind, item) {
            let Some(id) = given() else { return false };
            if let Some(calls) = &mut self.built_in_calls {
                calls.extend(text("id").map(|other| (other, id.clone())));
                calls.insert(id.clone(), id.clone());
            }
            let call = Call::new(id, self.toolbox.built_in_name(tool), tool.arguments(item, false));
            self.assistant(vec![Part::Call(call)], item, true);
            return true;
        }
        let Some(id) = given().filter(|_| BuiltInTool::is_output(kind)) else { return false };
        let id = match &self.built_in_calls {
            Some(calls) => calls.get(&id).cloned(),
            None => Some(id),
        };
        let Some(id) = id else { return false };
        let parts = output_of(&id, &item.to_value(), &Options::default());
        self.begin(Role::Tool, parts, item, true);
        true
    }

    fn message(&mut self, mut message: Fields<'a, '_>, item: Json<'a>) -> Result<(), Failure> {
        let role = message.needed_string("role")?;
        let role = match &*role {
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "system" => Role::System,
            "developer" => Role::Developer,
            other => {
                let known = "`user`, `assistant`, `system` and `developer`";
                return Err(wrong_value(message.at("role"), format_args!("is `{other}`; known are {known}")));
            }
        };
        let Some(content) = message.any("content") else {
            return Err(missing(message.at("content"), "a string or an array of content parts"));
        };
        let Content { parts, has_more: more_content } = content::read(message.at("content"), content)?;
        let more = has_more(message, &["id", "status"]) || more_content;
        match role {
            Role::Assistant => self.assistant(parts, item, more),
            role => self.begin(role, parts, item, more),
        }
        Ok(())
    }

    /// Adds a compaction: as text if toolwire made it, since no upstream can read it.
    fn compaction(&mut self, mut fields: Fields<'a, '_>, item: Json<'a>) -> Result<(), Failure> {
        let content = fields.string("encrypted_content")?;
        match summary::read(content.as_deref().unwrap_or_default()) {
            CarriedSummary::Summary(text) => {
                let text = summary::told(text);
                self.begin(Role::User, vec![Part::Text(text.into())], item, false);
                Ok(())
            }
            CarriedSummary::Damaged => {
                let why = "is a summary by toolwire that is not as it was sent; send the conversation itself";
                Err(wrong_value(fields.at("encrypted_content"), why))
            }
            CarriedSummary::Foreign => {
                self.assistant(vec![content::other(item)], item, false);
                Ok(())
            }
        }
    }

    fn call(&self, kind: &str, fields: &mut Fields<'_, '_>) -> Result<Call, Failure> {
        let id = fields.needed_string("call_id")?.into_owned();
        let name = fields.needed_string("name")?;
        let name = match fields.string("namespace")? {
            Some(namespace) => self.toolbox.flattened(&namespace, &name),
            None => name.into_owned(),
        };
        let arguments = match kind {
            "custom_tool_call" => input_arguments(&fields.string("input")?.unwrap_or_default()),
            _ => fields.string("arguments")?.unwrap_or_default().into_owned(),
        };
        Ok(Call::new(id, name, arguments))
    }

    /// Adds a result: first its text, then its other parts.
    fn output(&mut self, mut fields: Fields<'a, '_>, item: Json<'a>) -> Result<(), Failure> {
        let id = fields.needed_string("call_id")?.into_owned();
        let (mut texts, mut parts, mut more_content) = (Vec::new(), Vec::new(), false);
        if let Some(output) = fields.any("output") {
            let read = match output.kind() {
                JsonKind::String | JsonKind::Array => {
                    let read = content::read_output(fields.at("output"), output)?;
                    more_content = read.has_more;
                    read.parts
                }
                _ => vec![Part::Text(output.raw().into())],
            };
            for part in read {
                match part {
                    Part::Text(text) => texts.push(String::from(text)),
                    part => parts.push(part),
                }
            }
        }
        let output = CallOutput { id, name: String::new(), content: texts.join("\n"), is_error: false };
        parts.insert(0, Part::Result(output));
        let has_more = texts.len() > 1 || more_content || has_more(fields, &["id", "status"]);
        self.begin(Role::Tool, parts, item, has_more);
        Ok(())
    }

    /// Extends the assistant turn at the end, or starts a new one. Two consecutive messages are two turns,
    /// unless the first one is accompanied by a call, whose result must follow the turn.
    fn assistant(&mut self, parts: Vec<Part>, item: Json<'a>, has_more: bool) {
        let begins = parts.iter().any(|part| matches!(part, Part::Text(_)));
        let takes = |run: &&mut Run<'_>| {
            let is_over = run.has_text && !run.has_call;
            run.turn.role == Role::Assistant && !(begins && is_over)
        };
        match self.runs.last_mut().filter(takes) {
            Some(run) => run.add(parts, item, has_more),
            None => self.begin(Role::Assistant, parts, item, has_more),
        }
    }

    /// Adds a call that toolwire ran, and its result, to the previous turn. Further such calls go to the same
    /// turn.
    ///
    /// Calls that needed an approval begin another turn, since a response may begin with them.
    fn own_call(&mut self, call: Call, output: CallOutput) {
        let is_approval = is_approval_call(&call);
        let before = self.runs.iter_mut().rev().nth(self.own_results);
        let takes = |run: &&mut Run<'_>| {
            run.turn.role == Role::Assistant && (!is_approval || run.turn.begins_with_approval())
        };
        match before.filter(takes) {
            Some(run) => {
                run.turn.parts.push(Part::Call(call));
                run.has_call = true;
            }
            None => {
                let mut run = Run::new(Role::Assistant);
                run.turn.parts.push(Part::Call(call));
                run.has_call = true;
                self.runs.push(run);
                self.own_results = 0;
            }
        }
        let mut run = Run::new(Role::Tool);
        run.turn.parts.push(Part::Result(output));
        self.runs.push(run);
        self.own_results += 1;
    }

    fn begin(&mut self, role: Role, parts: Vec<Part>, item: Json<'a>, has_more: bool) {
        let mut run = Run::new(role);
        run.add(parts, item, has_more);
        self.own_results = if run.turn.is_own_result() { self.own_results + 1 } else { 0 };
        self.runs.push(run);
    }
}

/// Reads a reasoning item: its summary or its text, and the upstream's state. If it has neither a summary nor
/// a text, the upstream does not reveal the reasoning.
fn reasoning(fields: &mut Fields<'_, '_>) -> Result<Part, Failure> {
    let (content, summary) = (fields.any("content"), fields.any("summary"));
    let has_any = |list: &Json<'_>| list.elements().next().is_some();
    let texts = content::texts(content.filter(has_any).or(summary));
    let signature = fields.string("encrypted_content")?.filter(|state| !state.is_empty());
    Ok(Part::Reasoning {
        redacted: texts.is_empty() && signature.is_some(),
        text: texts.join("\n\n"),
        signature: signature.map(|state| carried_back(&state, Dialect::Responses)),
    })
}

/// Whether there are meaningful members other than those in `known`.
fn has_more(fields: Fields<'_, '_>, known: &[&str]) -> bool {
    let is_known = |key: &String, value: &Value| known.contains(&key.as_str()) || value.is_null();
    fields.into_rest().iter().any(|(key, value)| !is_known(key, value))
}

/// The failure for a reference to an item that is not stored.
pub(in crate::responses) fn unknown_item(id: &str) -> Failure {
    let id = clip(id);
    let message = format!("there is no stored item `{id}`; send the item itself");
    Failure::new(Kind::NotFound, message).with_param("input").with_code("item_not_found")
}

/// Shortens an id for an error message.
pub(in crate::responses) fn clip(id: &str) -> &str {
    const SHOWN: usize = 128;
    head(id, boundary_upto(id, SHOWN))
}
