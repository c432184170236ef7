//! Detects keys that some servers take for a known field even though the case differs.
//!
//! Servers written in Go ignore the case of keys, and use the last key that matches. A request with both
//! `model` and `Model` is rejected, since toolwire would check one value and the server use the other. The same holds
//! for keys with a null character, at which some servers end them. Every field that toolwire checks, limits or writes
//! must be listed here.

use std::borrow::Cow;

/// The fields that toolwire checks, limits, translates or writes itself, at any depth. Sorted.
const KNOWN: [&str; 154] = [
    "action",
    "add_generation_prompt",
    "agent",
    "allowed_tools",
    "approve",
    "arguments",
    "audio",
    "background",
    "best_of",
    "cache_control",
    "cached_content",
    "call_id",
    "chat_template",
    "chat_template_kwargs",
    "code",
    "compaction",
    "container",
    "content",
    "context",
    "context_management",
    "continuation_token",
    "continue_final_message",
    "conversation",
    "custom",
    "data",
    "description",
    "detail",
    "disable_parallel_tool_use",
    "ebnf",
    "echo",
    "effort",
    "encrypted_content",
    "environment",
    "error",
    "format",
    "frequency_penalty",
    "function",
    "function_call",
    "functions",
    "generation_config",
    "grammar",
    "guided_grammar",
    "guided_json",
    "id",
    "image",
    "image_url",
    "images",
    "include",
    "include_usage",
    "input",
    "input_schema",
    "instructions",
    "is_error",
    "json_schema",
    "keep_alive",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_output_tokens",
    "max_tokens",
    "max_tool_calls",
    "mcp_servers",
    "media_type",
    "message",
    "messages",
    "metadata",
    "mime_type",
    "min_tokens",
    "modalities",
    "mode",
    "model",
    "n",
    "name",
    "namespace",
    "num_predict",
    "object",
    "options",
    "output",
    "output_config",
    "parallel_tool_calls",
    "parameters",
    "prediction",
    "prefix",
    "presence_penalty",
    "previous_interaction_id",
    "previous_message_id",
    "previous_response_id",
    "prompt",
    "prompt_cache_key",
    "prompt_logprobs",
    "queries",
    "query",
    "raw",
    "reason",
    "reasoning",
    "reasoning_content",
    "reasoning_effort",
    "refusal",
    "response_format",
    "response_mime_type",
    "response_modalities",
    "result",
    "results",
    "role",
    "safety_identifier",
    "seed",
    "server_label",
    "service_tier",
    "signature",
    "skip_special_tokens",
    "source",
    "status",
    "stop",
    "stop_sequences",
    "store",
    "stream",
    "stream_options",
    "strict",
    "structural_tag",
    "structured_outputs",
    "suffix",
    "summary",
    "system",
    "system_instruction",
    "temperature",
    "template",
    "text",
    "think",
    "thinking",
    "thinking_level",
    "thinking_summaries",
    "thread",
    "tool",
    "tool_call_id",
    "tool_calls",
    "tool_choice",
    "tool_name",
    "tool_results",
    "tool_use_id",
    "tools",
    "toolwire_path",
    "toolwire_previous_interaction_id",
    "toolwire_previous_response_id",
    "toolwire_thread",
    "top_k",
    "top_logprobs",
    "top_p",
    "truncation",
    "type",
    "uri",
    "url",
    "user",
    "verbosity",
    "web_search_options",
];

/// The known field that a server may take `key` for, if `key` is spelled differently.
pub(crate) fn respelled(key: &str) -> Option<&'static str> {
    if !key.bytes().any(|byte| byte.is_ascii_uppercase() || byte == 0 || !byte.is_ascii()) {
        return None;
    }
    let folded: String = letters(key).collect();
    KNOWN.binary_search(&folded.as_str()).ok().and_then(|place| KNOWN.get(place)).copied()
}

/// The longest name in [`CAMEL`], in bytes. Longer names are not compared.
const MAX_CAMEL: usize = 32;

/// The fields of Gemini's API, in camel case. Sorted.
const CAMEL: [&str; 46] = [
    "allowedFunctionNames",
    "args",
    "candidateCount",
    "contents",
    "data",
    "description",
    "fileData",
    "fileUri",
    "frequencyPenalty",
    "functionCall",
    "functionCallingConfig",
    "functionDeclarations",
    "functionResponse",
    "generateContentRequest",
    "generationConfig",
    "id",
    "includeThoughts",
    "inlineData",
    "maxOutputTokens",
    "mimeType",
    "mode",
    "model",
    "name",
    "parameters",
    "parametersJsonSchema",
    "parts",
    "presencePenalty",
    "response",
    "responseJsonSchema",
    "responseMimeType",
    "responseSchema",
    "role",
    "seed",
    "stopSequences",
    "systemInstruction",
    "temperature",
    "text",
    "thinkingConfig",
    "thinkingLevel",
    "thought",
    "thoughtSignature",
    "toolConfig",
    "tools",
    "toolwirePath",
    "topK",
    "topP",
];

/// Converts a name in snake case to camel case.
pub(crate) fn camel_case(key: Cow<'_, str>) -> Cow<'_, str> {
    if !key.contains('_') {
        return key;
    }
    let mut camel = String::with_capacity(key.len());
    let mut is_start = false;
    for letter in key.chars() {
        match letter {
            '_' => is_start = !camel.is_empty(),
            letter if std::mem::take(&mut is_start) => camel.push(letter.to_ascii_uppercase()),
            letter => camel.push(letter),
        }
    }
    Cow::Owned(camel)
}

/// Like [`respelled`], for the fields of Gemini's API.
pub(crate) fn respelled_in_camel_case(key: &str) -> Option<&'static str> {
    let is_exact = CAMEL.binary_search(&key).is_ok() || key.len() > MAX_CAMEL;
    if is_exact { None } else { CAMEL.iter().find(|known| is_like(key, known)).copied() }
}

/// Whether a server may take `key` for `name`, because they are equal or differ only in case or in what follows a null
/// character.
pub fn is_like(key: &str, name: &str) -> bool {
    key == name || letters(key).eq(letters(name))
}

/// The letters of a name in lower case. Some servers end names at a null character.
fn letters(name: &str) -> impl Iterator<Item = char> {
    name.chars().take_while(|letter| *letter != '\0').map(folded)
}

/// Converts a letter to lower case. Non-ASCII letters that are case variants of an ASCII letter are converted
/// to that letter.
fn folded(letter: char) -> char {
    match letter {
        'ſ' => 's',
        '\u{212a}' => 'k',
        // By the case rules of Java and of Turkish.
        'İ' | 'ı' => 'i',
        letter => letter.to_ascii_lowercase(),
    }
}

/// Whether variants of this field's name are rejected.
#[cfg(debug_assertions)]
pub(crate) fn is_known(key: &str, is_camel: bool) -> bool {
    let known = if is_camel { CAMEL.as_slice() } else { KNOWN.as_slice() };
    known.binary_search(&key).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_fields_are_sorted() {
        assert!(KNOWN.is_sorted_by(|one, next| one < next));
        assert!(CAMEL.is_sorted_by(|one, next| one < next));
        assert!(CAMEL.iter().all(|name| name.len() <= MAX_CAMEL));
    }

    #[test]
    fn fields_that_differ_in_case_are_found() {
        for (key, known) in [
            ("Model", Some("model")),
            ("MODEL", Some("model")),
            ("\u{17f}tream", Some("stream")),
            ("max_to\u{212a}ens", Some("max_tokens")),
            ("İnput", Some("input")),
            ("N", Some("n")),
            ("model\0", Some("model")),
            ("Model\0x", Some("model")),
            ("\0model", None),
            ("model", None),
            ("Model2", None),
            ("topK", None),
            ("ⅿodel", None),
            ("", None),
            ("é", None),
        ] {
            assert_eq!(respelled(key), known, "{key}");
        }
        assert!(is_like("mODEl", "model") && is_like("model", "model") && is_like("model\0", "model"));
        assert!(!is_like("models", "model") && !is_like("", "model"));
    }
}
