//! Decodes `input` into turns.

use super::{super::DIALECT, content};
use crate::{
    conversation::{Call, CallOutput, Part, Received, Role, Turn},
    failure::Failure,
    fields::{Fields, Path, missing, wrong_type},
    google_signatures::state,
    wire::json::{Encoder, Json, Kind},
};

/// Takes the input: a text, a content, a list of contents, or a list of steps.
pub(super) fn take(request: &mut Fields<'_, '_>) -> Result<Vec<Turn>, Failure> {
    let path = request.at("input");
    let Some(input) = request.peek("input") else {
        return Err(missing(path, "a string, a content, or an array of contents or steps"));
    };
    let mut turns = Turns::default();
    match input.kind() {
        Kind::Array => {
            for (place, element) in input.elements().enumerate() {
                turns.element(Path::Element(&path, place), element)?;
            }
        }
        _ => turns.add(Role::User, content::read_all(path, input)?),
    }
    request.any("input");
    Ok(turns.0)
}

/// Turns of which neighbours differ in their roles, except results.
#[derive(Debug, Default)]
struct Turns(Vec<Turn>);

impl Turns {
    fn add(&mut self, role: Role, parts: Vec<Part>) {
        match self.0.last_mut().filter(|turn| turn.role == role) {
            Some(turn) => turn.parts.extend(parts),
            None => self.0.push(Turn::of(role, parts)),
        }
    }

    /// Reads a step, a content, or a message with a role, as clients wrote them before there were steps.
    fn element(&mut self, path: Path<'_>, element: Json<'_>) -> Result<(), Failure> {
        let mut step = Fields::new(path, element)?;
        if let Some(role) = step.peek("role").and_then(|role| role.as_str()) {
            let role = if matches!(&*role, "model" | "assistant") { Role::Assistant } else { Role::User };
            return self.said(role, step);
        }
        match &*step.needed_string("type")? {
            "user_input" => self.said(Role::User, step),
            "model_output" => self.said(Role::Assistant, step),
            "thought" => {
                let thought = thought(step)?;
                self.add(Role::Assistant, vec![thought]);
                Ok(())
            }
            "function_call" => {
                let call = call(step)?;
                self.add(Role::Assistant, vec![Part::Call(call)]);
                Ok(())
            }
            "function_result" => {
                let parts = result(step)?;
                self.0.push(Turn::of(Role::Tool, parts));
                Ok(())
            }
            kind if content::is_content(kind) => {
                let content = content::read(path, element)?;
                self.add(Role::User, vec![content]);
                Ok(())
            }
            // What Google's servers did.
            _ => {
                self.add(Role::Assistant, vec![Part::Other(Received::new(DIALECT, element.to_value()))]);
                Ok(())
            }
        }
    }

    fn said(&mut self, role: Role, mut step: Fields<'_, '_>) -> Result<(), Failure> {
        let Some(given) = step.any("content") else { return Ok(()) };
        let parts = content::read_all(step.at("content"), given)?;
        if !parts.is_empty() {
            self.add(role, parts);
        }
        Ok(())
    }
}

fn thought(mut step: Fields<'_, '_>) -> Result<Part, Failure> {
    let signature = step.string("signature")?.filter(|text| !text.is_empty()).map(|text| state(&text));
    let (signature, redacted) = signature.unzip();
    let summary = step.list("summary")?;
    let texts = summary.filter_map(|content| Some(content.get("text")?.as_str()?.into_owned()));
    let text = texts.collect::<Vec<_>>().join("\n");
    Ok(Part::Reasoning { text, signature, redacted: redacted.unwrap_or(false) })
}

fn call(mut step: Fields<'_, '_>) -> Result<Call, Failure> {
    let (id, name) = (step.needed_string("id")?.into_owned(), step.needed_string("name")?.into_owned());
    let arguments = match step.any("arguments") {
        Some(arguments) if arguments.kind() == Kind::Object => compact(arguments),
        Some(other) => return Err(wrong_type(step.at("arguments"), "an object", other)),
        None => "{}".to_owned(),
    };
    let signature = step.string("signature")?.filter(|text| !text.is_empty()).map(|text| state(&text).0);
    Ok(Call { signature, ..Call::new(id, name, arguments) })
}

/// A result, followed by its media.
fn result(mut step: Fields<'_, '_>) -> Result<Vec<Part>, Failure> {
    let id = step.needed_string("call_id")?.into_owned();
    let name = step.string("name")?.unwrap_or_default().into_owned();
    let is_error = step.boolean("is_error")?.unwrap_or(false);
    let (mut texts, mut media) = (Vec::new(), Vec::new());
    match step.any("result") {
        None => {}
        Some(given)
            if given.kind() == Kind::Array && given.elements().all(|part| part.get("type").is_some()) =>
        {
            for part in content::read_all(step.at("result"), given)? {
                match part {
                    Part::Text(text) => texts.push(text.as_str().to_owned()),
                    other => media.push(other),
                }
            }
        }
        Some(given) => texts.push(match given.as_str() {
            Some(text) => text.into_owned(),
            None => given.to_value().to_string(),
        }),
    }
    let output = CallOutput { id, name, content: texts.join("\n"), is_error };
    Ok([Part::Result(output)].into_iter().chain(media).collect())
}

/// The JSON of a value, without white space between tokens.
fn compact(json: Json<'_>) -> String {
    let mut compact = Encoder::with_capacity(json.raw().len());
    compact.compact(json);
    compact.finish_text()
}
