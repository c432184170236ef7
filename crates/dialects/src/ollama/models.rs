//! Describes models as Ollama does. Members about files, which toolwire does not have, are empty.

use serde_json::{Map, Value, json};

use crate::{ModelAbout, digest::Digest, wire::calendar::rfc3339};

/// An entry of `/api/tags` and of `/api/ps`, made from one in OpenAI's format.
pub(super) fn entry(model: &Value) -> Value {
    let name = model.get("id").and_then(Value::as_str).unwrap_or_default();
    let created = rfc3339(model.get("created").and_then(Value::as_u64).unwrap_or_default());
    json!({
        "name": name,
        "model": name,
        "modified_at": created,
        "size": 0,
        "digest": format!("{:064x}", Digest::of(name).short()),
        "details": details(name),
        // For `/api/ps`: the models never expire.
        "expires_at": "9999-12-31T00:00:00Z",
        "size_vram": 0,
    })
}

/// The response of `/api/show`.
pub(super) fn shown(model: &Value, about: &ModelAbout<'_>) -> Value {
    let name = model.get("id").and_then(Value::as_str).unwrap_or_default();
    let created = rfc3339(model.get("created").and_then(Value::as_u64).unwrap_or_default());
    let family = family(about.name);
    // Copilot shows the base name.
    let known = [("general.architecture", family), ("general.basename", name)];
    let mut info: Map<_, _> = known.map(|(key, value)| (key.to_owned(), value.into())).into_iter().collect();
    let sizes = ["context_length", "max_model_len", "context_window"];
    if let Some(size) = sizes.iter().find_map(|key| model.get(*key).and_then(Value::as_u64)) {
        info.insert(format!("{family}.context_length"), size.into());
    }
    // toolwire makes every model call tools.
    let mut capabilities = vec!["completion", "tools"];
    capabilities.extend((about.sees_images || takes_images(model, about.name)).then_some("vision"));
    capabilities.extend(thinks(about.name).then_some("thinking"));
    json!({
        "modelfile": "",
        "parameters": "",
        "template": "",
        "details": details(about.name),
        "model_info": info,
        "capabilities": capabilities,
        "modified_at": created,
        "remote_model": name,
    })
}

fn details(name: &str) -> Value {
    let family = family(name);
    json!({
        "parent_model": "",
        "format": "",
        "family": family,
        "families": [family],
        "parameter_size": "",
        "quantization_level": "",
    })
}

/// The first word of a model's name, without its owner.
fn family(name: &str) -> &str {
    let name = name.rsplit('/').next().unwrap_or(name);
    let end = name.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(name.len());
    name.get(..end).filter(|family| !family.is_empty()).unwrap_or("unknown")
}

/// Whether the upstream's entry or the model's name says that it accepts images.
fn takes_images(model: &Value, name: &str) -> bool {
    let modalities = model.pointer("/architecture/input_modalities").and_then(Value::as_array);
    let is_listed = modalities.is_some_and(|kinds| kinds.iter().any(|kind| kind == "image"));
    is_listed || names(name, &VISION)
}

fn thinks(name: &str) -> bool {
    names(name, &THINKING)
}

fn names(name: &str, words: &[&str]) -> bool {
    let name = name.to_ascii_lowercase();
    words.iter().any(|word| name.contains(word))
}

/// Parts of names of models that accept images.
const VISION: [&str; 14] = [
    "-vl",
    "vision",
    "llava",
    "pixtral",
    "gpt-4o",
    "gpt-4.1",
    "gpt-5",
    "claude",
    "gemini",
    "gemma3",
    "gemma-3",
    "llama4",
    "llama-4",
    "mistral-small3",
];

/// Parts of names of models that think.
const THINKING: [&str; 14] = [
    "gpt-oss",
    "gpt-5",
    "qwen3",
    "qwq",
    "deepseek-r1",
    "deepseek-v3.1",
    "magistral",
    "glm-4.5",
    "glm-4.6",
    "claude",
    "gemini-2.5",
    "gemini-3",
    "thinking",
    "reason",
];
