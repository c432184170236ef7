//! [`SplitTurns`]: collects the turns into which a single turn is converted.

use std::mem;

use crate::conversation::{Part, Role, Turn};

pub(super) struct SplitTurns<'t> {
    pub(super) turn: &'t Turn,
    /// Number of elements of `turns` that precede the first collected turn.
    pub(super) first: usize,
    pub(super) parts: Vec<Part>,
    /// Calls that the client runs. They come last.
    pub(super) calls: Vec<Part>,
    pub(super) turns: &'t mut Vec<Turn>,
}

impl SplitTurns<'_> {
    fn flush(&mut self) {
        let mut parts = mem::take(&mut self.parts);
        if self.turn.role == Role::Tool {
            join_result(&mut parts);
        }
        if !parts.is_empty() {
            // The other fields of the message go with the first turn.
            let rest =
                if self.turns.len() == self.first { self.turn.rest.clone() } else { Default::default() };
            self.turns.push(Turn { role: self.turn.role, parts, rest });
        }
    }

    /// Adds a turn by another author.
    pub(super) fn apart(&mut self, turn: Turn) {
        self.flush();
        self.turns.push(turn);
    }

    /// Adds parts that an assistant turn cannot contain, as a user turn.
    pub(super) fn aside(&mut self, parts: Vec<Part>) {
        if self.turn.role == Role::User {
            return self.parts.extend(parts);
        }
        self.apart(Turn::of(Role::User, parts));
    }

    pub(super) fn end(mut self) {
        let calls = mem::take(&mut self.calls);
        self.parts.extend(calls);
        self.flush();
    }
}

/// Moves the text that follows a result into the result.
fn join_result(parts: &mut Vec<Part>) {
    let Some(Part::Result(_)) = parts.first() else { return };
    let (texts, mut others): (Vec<_>, Vec<_>) =
        mem::take(parts).into_iter().partition(|part| matches!(part, Part::Text(_)));
    if let Some(Part::Result(output)) = others.first_mut() {
        for text in texts {
            let Part::Text(text) = text else { continue };
            if !output.content.is_empty() {
                output.content.push('\n');
            }
            output.content.push_str(&text);
        }
    }
    *parts = others;
}
