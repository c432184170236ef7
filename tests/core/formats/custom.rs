//! Tests user-defined formats: they are imported from a checkpoint's response template and then detected in text.

use serde_json::{Value, json};
use toolwire::{
    format::{self, Definition, KnownFormats},
    rules::Detect,
};

use crate::formats::found::find_among_at_every_cut;
use crate::fuzz::checks::Found;

/// JSON calls between tags, with reasoning. Many chat models use this format.
fn json_between_tags() -> Value {
    json!({
        "version": 1,
        "defaults": {"role": "assistant"},
        "start_anchor": "<|turn|>assistant\n",
        "fields": {
            "thinking": {"open": "<thoughts>\n", "close": "</thoughts>"},
            "tool_calls": {
                "open": "<do_call>", "close": "</do_call>", "repeats": true, "content": "json",
                "transform": {"type": "function", "function": "{content}"},
            },
            "content": {"close": "<|turn_end|>", "content": "text"},
        },
    })
}

/// The name is in the opener, and each argument has its own tag.
fn tagged_arguments() -> Value {
    json!({
        "start_anchor": "<|turn|>assistant\n",
        "fields": {
            "tool_calls": {
                "open_pattern": r"<use>\s*<tool=(?P<name>\w+)>", "close": "</use>", "repeats": true,
                "content": "xml-inline",
                "content_args": {
                    "tag_pattern": r"<arg=(?P<key>\w+)>\s*(?P<value>.*?)\s*</arg>",
                    "value_parser": {"name": "json", "args": {"allow_non_json": true}},
                },
                "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}},
            },
            "content": {},
        },
    })
}

/// Messages in channels, with the name in the header of a call.
fn channels() -> Value {
    json!({
        "start_anchor": "<|begin|>assistant",
        "fields": {
            "thinking": {"open": "<|chan|>inner<|body|>", "close": "<|stop|>"},
            "content": {"open": "<|chan|>outer<|body|>", "close": ["<|stop|>", "<|over|>"]},
            "tool_calls": {
                "open_pattern": r"<\|chan\|>tools to=functions\.(?P<name>\w+).*?<\|body\|>",
                "close": "<|call|>", "repeats": true, "content": "json",
                "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}},
            },
        },
    })
}

/// A JSON array of calls with unusual key names.
fn renamed_keys() -> Value {
    json!({
        "start_anchor_pattern": r"<\|bot\|>",
        "fields": {
            "tool_calls": {
                "open": "<|ACT|>", "close_pattern": r"\s*<\|/ACT\|>", "content": "json", "transform_each": true,
                "transform": {"id": "{tool_call_id}", "function": {"name": "{tool_name}", "arguments": "{parameters}"}},
            },
        },
    })
}

/// Imports a template, writes the definition as TOML like the command does, and parses it again.
fn imported(template: &Value) -> Definition {
    let definition = format::import("theirs", &template.to_string()).unwrap();
    let written = toml::to_string(&definition).unwrap();
    assert_eq!(toml::from_str::<Definition>(&written).unwrap(), definition, "{written}");
    definition
}

/// Returns the calls that the imported format finds in `text`. Asserts that the results are the same when built-in
/// formats are detected automatically as well.
fn find(template: &Value, text: &str) -> Found {
    let own = imported(template).build(&[]).unwrap();
    let known = KnownFormats::new(vec![own.clone()]);
    let example =
        find_among_at_every_cut(&known, &Detect::Formats(vec![own.format.name]), own.format.example);
    assert_eq!(example.parsed_calls(), [("get_weather", json!({"city": "Paris"}))], "{}", own.format.example);
    assert_eq!(example.text, "");
    let alone = find_among_at_every_cut(&known, &Detect::Formats(vec![own.format.name]), text);
    assert_eq!(find_among_at_every_cut(&known, &Detect::AutoAnd(vec![own.format.name]), text), alone);
    alone
}

#[test]
fn json_between_tags_is_imported() {
    let text = "<thoughts>\nHm.\n</thoughts>\nI look.\n<do_call>{\"name\": \"get_weather\", \"arguments\": \
                {\"city\": \"Rome\"}}</do_call><do_call>\n{\"name\": \"now\", \"arguments\": {}}\n</do_call><|turn_end|>";
    let found = find(&json_between_tags(), text);
    assert_eq!(found.parsed_calls(), [("get_weather", json!({"city": "Rome"})), ("now", json!({}))]);
    assert_eq!((found.reasoning.trim(), found.text.trim()), ("Hm.", "I look."));
}

#[test]
fn tagged_arguments_are_imported() {
    let text = "Let me.\n<use>\n<tool=set_light>\n<arg=room>\nden <b>\n</arg>\n<arg=level>\n2\n</arg>\n</tool>\n</use>\n\
                <use><tool=now></tool></use>";
    let found = find(&tagged_arguments(), text);
    assert_eq!(
        found.parsed_calls(),
        [("set_light", json!({"room": "den <b>", "level": 2})), ("now", json!({}))]
    );
    assert_eq!(found.text.trim(), "Let me.");
}

#[test]
fn channels_are_imported() {
    let text = "<|chan|>inner<|body|>Hm.<|stop|><|begin|>assistant<|chan|>outer<|body|>I look.<|stop|>\
                <|begin|>assistant<|chan|>tools to=functions.get_weather <|as|>json<|body|>{\"city\": \"Rome\"}<|call|>";
    let found = find(&channels(), text);
    assert_eq!(found.parsed_calls(), [("get_weather", json!({"city": "Rome"}))]);
    assert_eq!((found.reasoning.as_str(), found.text.as_str()), ("Hm.", "I look."));
}

#[test]
fn markers_similar_to_a_built_in_format_are_distinguished() {
    let like = |text: &str| {
        let words = [
            ("<|chan|>", "<|channel|>"),
            (r"<\\|chan\\|>", r"<\\|channel\\|>"),
            ("inner", "analysis"),
            ("outer", "final"),
            ("tools to", "commentary to"),
            ("<|body|>", "<|message|>"),
            (r"<\\|body\\|>", r"<\\|message\\|>"),
            ("<|stop|>", "<|end|>"),
            ("<|begin|>", "<|start|>"),
        ];
        words.iter().fold(text.to_owned(), |text, (ours, theirs)| text.replace(ours, theirs))
    };
    let template = serde_json::from_str(&like(&channels().to_string())).unwrap();
    let text = "<|chan|>inner<|body|>Hm.<|stop|><|begin|>assistant<|chan|>outer<|body|>I look.<|stop|>\
                <|begin|>assistant<|chan|>tools to=functions.get_weather <|as|>json<|body|>{\"city\": \"Rome\"}<|call|>";
    let aloud = "<|channel|>commentary<|message|>I look.<|end|>";
    let own = imported(&template).build(&[]).unwrap();
    let known = KnownFormats::new(vec![own.clone()]);
    let detect = Detect::AutoAnd(vec![own.format.name]);
    assert!(find_among_at_every_cut(&known, &detect, aloud).text.ends_with("I look."));
    let found = find(&template, &like(text));
    assert_eq!(found.parsed_calls(), [("get_weather", json!({"city": "Rome"}))]);
    assert_eq!((found.reasoning.as_str(), found.text.as_str()), ("Hm.", "I look."));
}

#[test]
fn renamed_keys_are_imported() {
    let text = "<|ACT|>[\n{\"tool_call_id\": \"0\", \"tool_name\": \"get_weather\", \"parameters\": {\"city\": \"Rome\"}}\n]<|/ACT|>";
    let found = find(&renamed_keys(), text);
    assert_eq!(found.parsed_calls(), [("get_weather", json!({"city": "Rome"}))]);
    assert_eq!(found.calls[0].id, "0");
}

#[test]
fn tokenizer_configuration_is_accepted_as_a_template() {
    let file = json!({"tokenizer_class": "X", "response_template": json_between_tags()});
    let definition = format::import("theirs", &file.to_string()).unwrap();
    assert_eq!(definition, imported(&json_between_tags()));
}

#[test]
fn non_literal_templates_are_rejected_with_location_and_reason() {
    let changed = |template: Value, pointer: &str, value: Value| {
        let mut template = template;
        *template.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = value;
        template
    };
    let call = "/fields/tool_calls";
    for (template, told) in [
        (
            json!({"response_schema": {"x-regex": "a"}}),
            "`response_schema`: the older form, made of regular expressions",
        ),
        (json!({"chat_template": "x"}), "`response_template`: there is none in this file"),
        (json!({"version": 2, "fields": {}}), "`version`: only version 1"),
        (json!({"fields": {}}), "`fields.tool_calls`: it is missing"),
        (
            json!({"fields": {"citations": {"open": "<c>"}}}),
            "`fields.citations`: only `tool_calls`, `thinking` and `content`",
        ),
        (
            changed(
                json_between_tags(),
                "/fields/thinking",
                json!({"open_pattern": r"(?:^|<think>\s*)", "close": "x"}),
            ),
            "`fields.thinking.open_pattern`: a regular expression that is not literal from `(?:^|<think>",
        ),
        (
            changed(json_between_tags(), "/fields/thinking", json!({"close": "</think>"})),
            "`fields.thinking.open`: it is missing; for responses that start in reasoning there is `starts_in_reasoning`",
        ),
        (
            changed(json_between_tags(), &format!("{call}/content"), json!("kv-lines")),
            "`fields.tool_calls.content`: `kv-lines`; calls are read in `json` and `xml-inline`",
        ),
        (
            changed(
                json_between_tags(),
                &format!("{call}/transform/function"),
                json!({"name": "{title}", "arguments": "{args}"}),
            ),
            "`fields.tool_calls.transform.function.name`: \"{title}\"; expected one of `{name}`",
        ),
        (
            changed(
                json_between_tags(),
                call,
                json!({"open": "<c>", "content": "json", "content_args": {"string_delims": []}}),
            ),
            "`fields.tool_calls.content_args.string_delims`: not known",
        ),
        (
            changed(json_between_tags(), &format!("{call}/open"), json!(["<a>", "<b>"])),
            "`fields.tool_calls.open`: only one marker can be told here",
        ),
        (
            changed(tagged_arguments(), &format!("{call}/open_pattern"), json!(r"<tool=(?P<name>a|b)>x|y")),
            "`fields.tool_calls.open_pattern`: a regular expression that is not literal from `|y`",
        ),
        (
            changed(
                tagged_arguments(),
                &format!("{call}/content_args/tag_pattern"),
                json!(r"<k>(?P<value>.*?)</k>"),
            ),
            "`fields.tool_calls.content_args.tag_pattern`: a marker, the group `key`",
        ),
        (
            changed(channels(), &format!("{call}/transform"), Value::Null),
            "`fields.tool_calls.transform`: it is missing, so the opener's `name` goes nowhere",
        ),
    ] {
        let error = format::import("theirs", &template.to_string()).unwrap_err().to_string();
        assert!(error.starts_with(told), "{error}\nnot {told}");
    }
}
