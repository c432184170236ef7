//! What the model is told of calls over the upstream's server-tool channel that lack required arguments
//! (`misroute = "bounce"`).

use crate::{
    conversation::{Role, Turn},
    event::CallStart,
};

/// A call that lacks required arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Incomplete {
    pub(super) start: CallStart<'static>,
    pub(super) arguments: String,
    pub(super) missing: Vec<String>,
}

impl Incomplete {
    pub(super) fn name(&self) -> &str {
        &self.start.name
    }
}

/// The turns that ask for the calls again. `said` is the model's text in this hop.
pub(super) fn turns(said: &str, calls: &[Incomplete]) -> Vec<Turn> {
    let told = calls.iter().map(|call| {
        let (name, arguments, missing) = (call.name(), &call.arguments, call.missing.join("`, `"));
        format!(
            "Your call to the tool `{name}` with the arguments {arguments} was not run: the required arguments \
             `{missing}` are missing. Make the call again with all of them. Do not apologise or explain."
        )
    });
    let told = Turn::text(Role::User, told.collect::<Vec<_>>().join("\n\n"));
    let said = (!said.is_empty()).then(|| Turn::text(Role::Assistant, said));
    said.into_iter().chain([told]).collect()
}
