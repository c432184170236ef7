//! Decodes content blocks and converts them to turns.

use serde_json::{Map, Value};

use super::own;
use crate::{
    Dialect,
    conversation::{Call, CallOutput, Part, Received, Rest, Role, Text, Turn, is_own},
    failure::Failure,
    fields::{Fields, Path, wrong_type},
    fit::adopted,
    messages::toolsets::{TOOLSET_NAME, joined},
    opaque::carried_back,
    wire::json::{Encoder, Json, Kind as JsonKind},
};

pub(super) struct Blocks {
    /// The parts that the blocks represent, in order.
    pub(super) parts: Vec<Part>,
    /// The media in results, each with the index of the result.
    media: Vec<(usize, Vec<Part>)>,
    /// The blocks as they were received. `None` if the parts contain all of their information.
    originals: Option<Vec<Value>>,
}

struct Block {
    part: Part,
    /// The contents of a result that are not text.
    media: Vec<Part>,
    /// Whether the block has members that the part does not contain, such as `cache_control`.
    has_more: bool,
}

impl Blocks {
    /// Reads the blocks of `content`. A string counts as one text block.
    pub(super) fn read(path: Path<'_>, content: Json<'_>) -> Result<Self, Failure> {
        let (mut parts, mut media) = (Vec::new(), Vec::new());
        if let Some(text) = Text::received(content) {
            return Ok(Self { parts: vec![Part::Text(text)], media, originals: None });
        }
        if content.kind() != JsonKind::Array {
            return Err(wrong_type(path, "a string or an array of content blocks", content));
        }
        let mut has_more = false;
        for (place, element) in content.elements().enumerate() {
            let block = block(Path::Element(&path, place), element)?;
            has_more |= block.has_more;
            parts.push(block.part);
            if !block.media.is_empty() {
                media.push((place, block.media));
            }
        }
        let originals = has_more.then(|| content.elements().map(|element| element.to_value()).collect());
        Ok(Self { parts, media, originals })
    }

    /// Creates one turn from all blocks and the message's other fields.
    pub(super) fn into_turn(self, role: Role, mut rest: Map<String, Value>) -> Turn {
        if let Some(originals) = self.originals {
            rest.insert("content".to_owned(), originals.into());
        }
        Turn { role, parts: self.parts, rest: Rest::new(Dialect::Messages.name(), rest) }
    }

    /// Adds a turn by `author` for each group of consecutive blocks, and a separate turn for each result,
    /// whether the client or toolwire ran the call. The message's other fields go with the last turn.
    pub(super) fn into_turns(self, author: Role, rest: Map<String, Value>, turns: &mut Vec<Turn>) {
        let mut media = self.media.into_iter().peekable();
        let mut originals = self.originals.map(Vec::into_iter);
        let mut runs: Vec<(Turn, Vec<Value>)> = Vec::new();
        for (place, part) in self.parts.into_iter().enumerate() {
            let original = originals.as_mut().and_then(Iterator::next).filter(|_| !is_own(&part));
            let is_turn = matches!(part, Part::Result(_)) && (author == Role::User || is_own(&part));
            let role = if is_turn { Role::Tool } else { author };
            let continues = |(turn, _): &&mut (Turn, _)| role == author && turn.role == author;
            match runs.last_mut().filter(continues) {
                Some((turn, kept)) => {
                    turn.parts.push(part);
                    kept.extend(original);
                }
                None => {
                    let mut parts = vec![part];
                    if let Some((_, more)) = media.next_if(|(at, _)| *at == place) {
                        parts.extend(more);
                    }
                    runs.push((Turn::of(role, parts), Vec::from_iter(original)));
                }
            }
        }
        if runs.is_empty() {
            runs.push((Turn::of(author, Vec::new()), Vec::new()));
        }
        let last = runs.len() - 1;
        let mut rest = Some(rest);
        turns.extend(runs.into_iter().enumerate().map(|(place, (turn, originals))| {
            let mut fields = if place == last { rest.take().unwrap_or_default() } else { Map::new() };
            if !originals.is_empty() {
                fields.insert("content".to_owned(), originals.into());
            }
            Turn { rest: Rest::new(Dialect::Messages.name(), fields), ..turn }
        }));
    }
}

/// Reads a block field by field, so that an error can name the invalid field.
fn block(path: Path<'_>, element: Json<'_>) -> Result<Block, Failure> {
    let mut fields = Fields::new(path, element)?;
    let kind = fields.needed_string("type")?;
    if let Some(part) = own::part(&kind, element) {
        return Ok(Block { part, media: Vec::new(), has_more: false });
    }
    let mut media = Vec::new();
    let part = match &*kind {
        "text" => Part::Text(fields.needed_text("text")?),
        "thinking" => Part::Reasoning {
            text: fields.needed_string("thinking")?.into_owned(),
            signature: fields
                .string("signature")?
                .filter(|text| !text.is_empty())
                .map(|text| carried_back(&text, Dialect::Messages)),
            redacted: false,
        },
        "redacted_thinking" => {
            let data = fields.needed_string("data")?;
            let signature = Some(carried_back(&data, Dialect::Messages));
            Part::Reasoning { text: String::new(), signature, redacted: true }
        }
        "tool_use" => {
            let (id, name) = (fields.needed_string("id")?, fields.needed_string("name")?);
            let toolset = element.get(TOOLSET_NAME).and_then(|toolset| toolset.as_str());
            let name = toolset.map_or_else(|| name.to_string(), |toolset| joined(&toolset, &name));
            Part::Call(Call::new(id, name, arguments(&mut fields)?))
        }
        "tool_result" => {
            let (output, others) = result(&mut fields)?;
            media = others;
            Part::Result(output)
        }
        "image" => image(&mut fields)?.unwrap_or_else(|| other(element)),
        _ => other(element),
    };
    let part = match part {
        Part::Other(other) => adopted(Dialect::Messages, other.parts().1).unwrap_or(Part::Other(other)),
        part => part,
    };
    let is_other = matches!(part, Part::Other(_));
    // The parts of a result do not show where one text ends and the next one starts.
    let is_joined = matches!(part, Part::Result(_))
        && element.get("content").is_some_and(|content| content.kind() == JsonKind::Array);
    let has_more = is_joined || !is_other && !fields.into_rest().is_empty();
    Ok(Block { part, media, has_more })
}

fn other(element: Json<'_>) -> Part {
    Part::Other(Received::new(Dialect::Messages.name(), element.to_value()))
}

/// Takes `input` as written, but without the white space of an indented body: models do not write that white
/// space, and an upstream's prompt cache is based on what the model wrote.
fn arguments(fields: &mut Fields<'_, '_>) -> Result<String, Failure> {
    match fields.any("input") {
        Some(input) if input.kind() == JsonKind::Object => Ok(compact(input)),
        Some(input) => Err(wrong_type(fields.at("input"), "an object", input)),
        None => Ok("{}".to_owned()),
    }
}

/// The JSON of a value, without white space between tokens.
pub(super) fn compact(json: Json<'_>) -> String {
    let mut compact = Encoder::with_capacity(json.raw().len());
    compact.compact(json);
    compact.finish_text()
}

/// Reads a `tool_result`: its text, and those of its blocks that are not text.
fn result(fields: &mut Fields<'_, '_>) -> Result<(CallOutput, Vec<Part>), Failure> {
    let id = fields.needed_string("tool_use_id")?.into_owned();
    let is_error = fields.boolean("is_error")?.unwrap_or(false);
    let (mut texts, mut media) = (Vec::new(), Vec::new());
    if let Some(content) = fields.any("content") {
        for part in Blocks::read(fields.at("content"), content)?.parts {
            match part {
                Part::Text(text) => texts.push(String::from(text)),
                part => media.push(part),
            }
        }
    }
    Ok((CallOutput { id, name: String::new(), content: texts.join("\n"), is_error }, media))
}

/// Reads an `image` that is given by its data or a URL. `None` if the source exists only in this API.
fn image(fields: &mut Fields<'_, '_>) -> Result<Option<Part>, Failure> {
    let mut source = fields.needed_object("source")?;
    let url = match &*source.needed_string("type")? {
        "base64" => {
            let mime = source.needed_string("media_type")?;
            let data = source.needed_string("data")?;
            format!("data:{mime};base64,{data}")
        }
        "url" => source.needed_string("url")?.into_owned(),
        _ => return Ok(None),
    };
    Ok(Some(Part::Image { url, detail: None }))
}
