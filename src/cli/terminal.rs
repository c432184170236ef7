//! What stdout and stderr are connected to: whether colours may be written, and how wide lines may be.

use std::{env, io::IsTerminal};

/// Whether `stream` shows colours: it is a terminal that can, and `NO_COLOR` (<https://no-color.org>) is not set.
pub(super) fn is_coloured(stream: &impl IsTerminal) -> bool {
    let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    stream.is_terminal() && !is_set("NO_COLOR") && env::var_os("TERM").is_none_or(|term| term != "dumb")
}
