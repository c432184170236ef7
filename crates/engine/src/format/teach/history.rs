//! [`history`]: writes past calls and their results as text.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use super::{Form, Teach, Teaching, said::Schemas};
use crate::conversation::{Call, CallOutput, Part, Role, Tool, Turn, results_in_call_order, take_media};

/// The calls of the history.
struct Calls<'t> {
    prefix: &'t str,
    tools: &'t [Tool],
    server_tools: &'t [String],
    /// The names of the calls that are written as text, by id.
    names: HashMap<String, String>,
    /// The ids of the calls to the upstream's own tools, which stay calls.
    native: HashSet<String>,
}

impl Calls<'_> {
    /// Whether `call` is written as text.
    fn take(&mut self, call: &Call) -> bool {
        let is_declared = || self.tools.iter().any(|tool| tool.name == call.name);
        let is_native = self.server_tools.contains(&call.name) && !is_declared();
        match is_native {
            true => drop(self.native.insert(call.id.clone())),
            false => drop(self.names.insert(call.id.clone(), call.name.clone())),
        }
        !is_native
    }

    fn is_result_in_text(&self, part: &Part) -> bool {
        matches!(part, Part::Result(result) if !self.native.contains(&result.id))
    }
}

/// Writes the calls and results of the history as text, in which only their order shows which result belongs
/// to which call. Media follow the result that they belong to. The model has seen `count` calls before the history.
pub(super) fn history(
    turns: Vec<Turn>,
    tools: &[Tool],
    teach: &Teach,
    teaching: &Teaching,
    mut count: usize,
) -> Vec<Turn> {
    let Teaching { prefix, server_tools, .. } = teaching;
    let mut known = Calls { prefix, tools, server_tools, names: HashMap::new(), native: HashSet::new() };
    let mut schemas = Schemas::new(tools);
    let ordered = match results_in_call_order(&turns) {
        Cow::Owned(ordered) => Some(ordered),
        Cow::Borrowed(_) => None,
    };
    let turns = ordered.unwrap_or(turns);
    let mut told: Vec<Turn> = Vec::with_capacity(turns.len());
    let mut after_results = false;
    let mut media = Vec::new();
    for turn in turns {
        let results = turn.parts.iter().any(|part| known.is_result_in_text(part));
        if !results && let Some(last) = told.last_mut() {
            last.parts.append(&mut media);
        }
        let turn = match turn.role {
            Role::Assistant => assistant(turn, teach, &mut known, &mut schemas, &mut count),
            _ if results => results_turn(turn, teach, &known, &mut media),
            _ => turn,
        };
        match told.last_mut() {
            // The results of parallel calls form one turn, since some models do not accept two consecutive
            // turns with the same role.
            Some(last) if results && after_results => {
                last.add_text("\n", &turn.joined_text());
                last.parts.extend(turn.parts.into_iter().filter(|part| !matches!(part, Part::Text(_))));
            }
            _ => told.push(turn),
        }
        after_results = results;
    }
    if let Some(last) = told.last_mut() {
        last.parts.append(&mut media);
    }
    told
}

/// Writes the calls of an assistant turn as text, after the turn's own text, or the turn as the model wrote it.
fn assistant<'t>(
    mut turn: Turn,
    teach: &Teach,
    known: &mut Calls<'_>,
    schemas: &mut Schemas<'t>,
    count: &mut usize,
) -> Turn {
    let written = turn.as_written().map(str::to_owned);
    let mut calls = Vec::new();
    turn.parts.retain(|part| match part {
        Part::Call(call) if known.take(call) => {
            calls.push(call.clone());
            false
        }
        _ => true,
    });
    if let Some(written) = written {
        Form::count(count, &calls, known.prefix);
        turn.parts.retain(|part| !matches!(part, Part::Text(_)));
        turn.parts.push(Part::Text(written.into()));
    } else if !calls.is_empty() {
        turn.add_text(teach.form.after_text, &teach.form.calls_of(count, &calls, known.prefix, schemas));
    }
    turn
}

fn results_turn(mut turn: Turn, teach: &Teach, known: &Calls<'_>, media: &mut Vec<Part>) -> Turn {
    let name_of = |result: &CallOutput| {
        let name = known.names.get(&result.id).unwrap_or(&result.name);
        if name.is_empty() { String::new() } else { format!("{}{name}", known.prefix) }
    };
    let is_in_text = |part: &Part| known.is_result_in_text(part) || matches!(part, Part::Text(_));
    let name = turn.parts.iter().find_map(|part| match part {
        Part::Result(result) => Some(name_of(result)),
        _ => None,
    });
    media.append(&mut take_media(&mut turn, &name.unwrap_or_default()));
    let texts = turn.parts.iter().filter_map(|part| match part {
        Part::Result(result) if is_in_text(part) => {
            Some(teach.form.result(&CallOutput { name: name_of(result), ..result.clone() }))
        }
        Part::Text(text) => Some(text.clone().into()),
        _ => None,
    });
    let text = texts.collect::<Vec<_>>().join("\n");
    let kept = turn.parts.into_iter().filter(|part| !is_in_text(part));
    Turn::of(Role::User, std::iter::once(Part::Text(text.into())).chain(kept).collect())
}
