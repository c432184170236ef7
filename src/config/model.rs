//! [`Model`]: what clients ask for, and the rules by which they are answered.

use std::{fmt, sync::Arc};

use super::Upstream;
use crate::{format::Format, pipeline::Settings};

/// The model name that takes every name that no other entry has.
pub const WILDCARD: &str = "*";

/// One entry of `[[models]]`.
#[derive(Debug, Clone)]
pub struct Model {
    /// What clients ask for, or [`WILDCARD`].
    pub name: String,
    /// Who answers.
    pub upstream: Arc<Upstream>,
    /// What the upstream is asked for. `None`: the name that the client asked for.
    pub upstream_name: Option<String>,
    /// How the model is told of tools.
    pub tools: Tools,
    /// Replaces the format's own instruction template.
    pub instructions: Option<String>,
    /// Where system texts go.
    pub system_position: SystemPosition,
    /// How answers are treated: all that the pipeline wants to know.
    pub settings: Settings,
}

impl Model {
    /// It takes every name that no other entry has.
    pub fn is_wildcard(&self) -> bool {
        self.name == WILDCARD
    }

    /// What the upstream is asked for when a client asks for `asked`.
    pub fn upstream_name<'a>(&'a self, asked: &'a str) -> &'a str {
        self.upstream_name.as_deref().unwrap_or(asked)
    }
}

/// `tools`: how the model is told of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tools {
    /// By the upstream dialect's own structure.
    Native,
    /// In the prompt, in this text format.
    Format(&'static Format),
}

impl fmt::Display for Tools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Native => "native",
            Self::Format(format) => format.name,
        })
    }
}

/// `system_position`: where system texts, and with them a format's instructions, go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SystemPosition {
    /// Into system turns.
    System,
    /// Bracketed, into the first user turn: for models without a system role.
    User,
}
