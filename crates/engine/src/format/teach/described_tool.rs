//! [`DescribedTool`]: a tool to describe. Everything that is derived from its schema is derived only
//! once.

use std::cell::OnceCell;

use super::sample::{self, ReadBack};
use crate::{
    conversation::Tool,
    tools::{Budget, References},
};

/// Maximum number of examples per tool, with different values.
pub(super) const VARIANTS: usize = 2;

/// A tool, and what has been derived from its schema so far.
#[derive(Debug)]
pub(super) struct DescribedTool<'a> {
    pub(super) tool: &'a Tool,
    /// Shared by all tools.
    left: &'a Budget,
    references: OnceCell<References<'a>>,
    /// Example arguments, by variant.
    arguments: [OnceCell<Option<String>>; VARIANTS],
    /// The shortest description, as a signature and as a declaration.
    shortest: [OnceCell<String>; 2],
}

impl<'a> DescribedTool<'a> {
    pub(super) fn new(tool: &'a Tool, left: &'a Budget) -> Self {
        let (references, arguments, shortest) = Default::default();
        Self { tool, left, references, arguments, shortest }
    }

    /// The references in the tool's schema. The schema is null if the tool has none.
    pub(super) fn references(&self) -> &References<'a> {
        self.references.get_or_init(|| {
            let root = self.tool.parameters.as_ref().map(|schema| schema.view());
            References::new(root.unwrap_or_default(), self.left)
        })
    }

    /// Example arguments from [`sample::arguments`]. `read_back` must always be the same for one tool.
    pub(super) fn arguments(&self, read_back: ReadBack, variant: usize) -> Option<&str> {
        let made = || {
            let has_schema = self.tool.parameters.is_some();
            sample::arguments(has_schema.then(|| self.references()), read_back, variant)
        };
        self.arguments.get(variant)?.get_or_init(made).as_deref()
    }

    /// The shortest description, which `write` creates on first use.
    pub(super) fn shortest(&self, is_signature: bool, write: impl FnOnce() -> String) -> String {
        let [signature, declaration] = &self.shortest;
        let kept = if is_signature { signature } else { declaration };
        kept.get_or_init(write).clone()
    }
}
