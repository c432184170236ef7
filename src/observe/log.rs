//! Where log lines go, and how they look.

use std::io::{self, IsTerminal};

use tracing_subscriber::{EnvFilter, filter::ParseError};

/// How a log line is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Style {
    /// For people: one line of text, coloured if stderr is a terminal.
    #[default]
    Text,
    /// For programs: one JSON object a line.
    Json,
}

/// Sends log lines to stderr. `filter` is what `TOOLWIRE_LOG` holds, in the usual form (`info`,
/// `toolwire=debug,hyper=warn`); `None` means `info`. Does nothing if logging was set up before.
///
/// # Errors
/// If `filter` is not one.
pub fn init(style: Style, filter: Option<&str>) -> Result<(), ParseError> {
    let filter = EnvFilter::try_new(filter.unwrap_or("info"))?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    // Set up twice means that a test or an embedding program was first: its choice stands.
    let _ = match style {
        Style::Text => lines.with_ansi(io::stderr().is_terminal()).try_init(),
        Style::Json => lines.json().flatten_event(true).try_init(),
    };
    Ok(())
}
