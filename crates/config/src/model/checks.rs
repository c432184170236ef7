//! Checks of combinations of a model's keys.

use super::{FROM_TEMPLATE, Model, ToolStyle};
use crate::table::Table;
use toolwire_pipeline::{dialect::ESSENTIAL, format::Format, rules::Detect};

/// Checks the settings that involve the chat template.
fn check_template(model: &Model, table: &mut Table<'_>) {
    let takes_prompt = model.upstream.options.side().takes_prompt();
    let is_taken = model.instructions.as_deref() == Some(FROM_TEMPLATE);
    if let Some(cell) = table.cell("instructions").filter(|_| is_taken) {
        match model.chat_template.as_ref().map(|template| template.check_instructions()) {
            None => _ = cell.wrong::<()>("`instructions = \"template\"` needs a `chat_template`"),
            Some(Err(error)) => _ = cell.wrong::<()>(error.message),
            Some(Ok(())) => {}
        }
    }
    if let Some(cell) = table.cell("chat_template").filter(|_| !takes_prompt && !is_taken) {
        cell.warn(
            "`chat_template` is used only for an upstream of the dialect `completions`, or by \
             `instructions = \"template\"`",
        );
    }
    if takes_prompt
        && model.chat_template.is_none()
        && let Some(name) = table.cell("name")
    {
        name.warn(
            "without a `chat_template` the prompt is the conversation's bare text, without roles and tools",
        );
    }
}

/// Checks the names of members that are left out.
fn check_members(model: &Model, table: &mut Table<'_>) {
    let Some(cell) = table.cell("refuses") else { return };
    if let Some(name) = model.members.refuses.iter().find(|name| ESSENTIAL.contains(&name.as_str())) {
        cell.wrong::<()>(format!("a request without `{name}` asks for nothing"));
    }
}

/// Checks combinations of a model's keys.
pub(super) fn check(model: &Model, table: &mut Table<'_>) {
    check_template(model, table);
    if let Some(instructions) = table.cell("instructions")
        && model.tools == ToolStyle::Native
    {
        instructions.warn("`instructions` are used only where `tools` is a text format");
    }
    if let ToolStyle::Format(format) = model.tools
        && let Some(cell) = table.cell("detect")
        && !is_looked_for(format, &model.settings.detect)
    {
        cell.warn(format!(
            "the model is taught `{}`, but its calls in this format are not looked for",
            format.name
        ));
    }
    check_members(model, table);
    if !model.upstream.options.side().declares_tools()
        && model.tools == ToolStyle::Native
        && let Some(name) = table.cell("name")
    {
        name.warn(
            "Lumo v1 has no field for a client's tools; without a text format in `tools`, the model does not learn of them",
        );
    }
}

fn is_looked_for(format: &Format, detect: &Detect) -> bool {
    match detect {
        Detect::Auto => true,
        Detect::AutoAnd(names) => format.auto || names.contains(&format.name),
        Detect::Off => false,
        Detect::Formats(names) => names.contains(&format.name),
    }
}
