//! Records as JSON, for the store. A record that cannot be parsed counts as lost.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{DeferredEntry, Record};
use toolwire_pipeline::{
    conversation::{AS_WRITTEN, Call, CallOutput, Part, Role, ToolMedia, Turn, TurnState},
    dialect::Dialect,
    event::Opaque,
};

#[derive(Debug, Serialize, Deserialize)]
struct Saved {
    before: Vec<SavedTurn>,
    turn: SavedTurn,
    hosted: Vec<String>,
    results: Vec<SavedResult>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    files: Vec<(String, Value)>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Under {
    under: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct SavedTurn {
    /// Whether the turn contains results. If not, it is the model's turn.
    is_result: bool,
    parts: Vec<SavedPart>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SavedPart {
    Text(String),
    Reasoning {
        text: String,
        signature: Option<SavedState>,
        redacted: bool,
    },
    Call {
        id: String,
        name: String,
        arguments: String,
        signature: Option<SavedState>,
    },
    Result(SavedResult),
    /// A file that a hosted tool has returned.
    File(Value),
}

/// State that must be sent back to an upstream, with the name of its dialect.
#[derive(Debug, Serialize, Deserialize)]
struct SavedState {
    dialect: String,
    text: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct SavedResult {
    id: String,
    name: String,
    content: String,
    is_error: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct SavedTurnState {
    reasoning: Vec<SavedPart>,
    calls: Vec<(String, Option<SavedState>)>,
}

pub fn write_state(state: &TurnState) -> Vec<u8> {
    let TurnState { reasoning, calls } = state.clone();
    let calls = calls.into_iter().map(|(id, signature)| (id, signature.map(SavedState::of)));
    let saved = SavedTurnState {
        reasoning: reasoning.into_iter().filter_map(SavedPart::of).collect(),
        calls: calls.collect(),
    };
    serde_json::to_vec(&saved).unwrap_or_default()
}

pub fn read_state(bytes: &[u8]) -> Option<TurnState> {
    let SavedTurnState { reasoning, calls } = serde_json::from_slice(bytes).ok()?;
    let calls = calls.into_iter().map(|(id, signature)| (id, signature.and_then(SavedState::opaque)));
    Some(TurnState {
        reasoning: reasoning.into_iter().map(SavedPart::part).collect(),
        calls: calls.collect(),
    })
}

pub(super) fn write(record: &Record) -> Vec<u8> {
    let Record { before, turn, hosted, results, files } = record.clone();
    let files = files.into_iter().filter_map(|(id, file)| Some((id, ToolMedia::of(&file)?.clone())));
    let saved = Saved {
        before: before.into_iter().map(SavedTurn::of).collect(),
        turn: SavedTurn::of(turn),
        hosted,
        results: results.into_iter().map(SavedResult::of).collect(),
        files: files.collect(),
    };
    serde_json::to_vec(&saved).unwrap_or_default()
}

/// Writes a reference to the record that is stored under the id `first`.
pub(super) fn write_under(first: &str) -> Vec<u8> {
    serde_json::to_vec(&Under { under: first.to_owned() }).unwrap_or_default()
}

/// Reads a record, or a reference to one.
pub(super) fn read(bytes: &[u8]) -> Option<DeferredEntry> {
    if let Ok(Under { under }) = serde_json::from_slice(bytes) {
        return Some(DeferredEntry::Under(under));
    }
    let Saved { before, turn, hosted, results, files } = serde_json::from_slice(bytes).ok()?;
    Some(DeferredEntry::Record(Record {
        before: before.into_iter().map(SavedTurn::turn).collect(),
        turn: turn.turn(),
        hosted,
        results: results.into_iter().map(SavedResult::output).collect(),
        files: files.into_iter().map(|(id, file)| (id, ToolMedia::part(file))).collect(),
    }))
}

impl SavedTurn {
    fn of(turn: Turn) -> Self {
        let parts = turn.parts.into_iter().filter_map(SavedPart::of).collect();
        Self { is_result: turn.role == Role::Tool, parts }
    }

    fn turn(self) -> Turn {
        let role = if self.is_result { Role::Tool } else { Role::Assistant };
        Turn::of(role, self.parts.into_iter().map(SavedPart::part).collect())
    }
}

impl SavedPart {
    /// Returns `None` for parts that do not occur in responses.
    fn of(part: Part) -> Option<Self> {
        Some(match part {
            Part::Text(text) => Self::Text(text.into()),
            Part::Reasoning { text, signature, redacted } => {
                Self::Reasoning { text, signature: signature.map(SavedState::of), redacted }
            }
            Part::Call(Call { id, name, arguments, signature }) => {
                Self::Call { id, name, arguments, signature: signature.map(SavedState::of) }
            }
            Part::Result(output) => Self::Result(SavedResult::of(output)),
            part @ Part::Other(_) => Self::File(ToolMedia::of(&part)?.clone()),
            Part::Image { .. } => return None,
        })
    }

    fn part(self) -> Part {
        match self {
            Self::Text(text) => Part::Text(text.into()),
            Self::Reasoning { text, signature, redacted } => {
                Part::Reasoning { text, signature: signature.and_then(SavedState::opaque), redacted }
            }
            Self::Call { id, name, arguments, signature } => {
                Part::Call(Call { id, name, arguments, signature: signature.and_then(SavedState::opaque) })
            }
            Self::Result(result) => Part::Result(result.output()),
            Self::File(file) => ToolMedia::part(file),
        }
    }
}

impl SavedState {
    fn of(state: Opaque<'static>) -> Self {
        Self { dialect: state.dialect.to_owned(), text: state.text.into_owned() }
    }

    fn opaque(self) -> Option<Opaque<'static>> {
        let names = Dialect::ALL.iter().map(|dialect| dialect.name()).chain([AS_WRITTEN]);
        let dialect = names.into_iter().find(|name| *name == self.dialect)?;
        Some(Opaque::new(dialect, self.text))
    }
}

impl SavedResult {
    fn of(CallOutput { id, name, content, is_error }: CallOutput) -> Self {
        Self { id, name, content, is_error }
    }

    fn output(self) -> CallOutput {
        let Self { id, name, content, is_error } = self;
        CallOutput { id, name, content, is_error }
    }
}
