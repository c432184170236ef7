//! Fragments from which texts and strings are generated: words, special characters, and complete or partial
//! markers.

use proptest::prelude::*;

/// Harmless words for the start and the end of a text.
const WORDS: &[&str] =
    &["Let me see", "ok", "naïve 東京 😀 then", "I will look that up.", "1.50 and so on", "So"];

/// Fragments for the middle of a text that cannot begin a call: incomplete markers, quoted markers, code, and JSON
/// that is not a call.
#[rustfmt::skip]
const BESIDE: &[&str] = &[
    "a < b & c > d", "set {a, b}", "[1, 2]", "[x]", "{\"a\": 1}", "f(x=1)", "} ]", "\\", "don't", "it's \"quoted\"",
    "<b>bold</b>", "&lt;", "| a | b |", "http://x/y?z=1&b", "three ``` in line", "see\n```js\nlet x = {a: [1]};\n```\nwas it",
    "`<tool_call>` is a tag", "Write <tool_call> tags", "`[TOOL_CALLS]` too", "\n* item\n* other", "🧑‍🚀",
    "<tool_", "<tool_ca", "<func", "<function", "<|", "<|tool", "<|tool_call", "<｜", "<｜tool▁ca", "</", "</tool", "[TOOL",
    "[TOOL_CALL", "funct", "Action", "<invo", "<minimax", "]<]mini", "<｜DSML｜", "<｜DSML｜inv", "<thin", "<pr", "<seed:", "<ifm|",
    "<|channel", "<|start", "<|python", "<dots_", "<longcat", "<TOOLC", "<|action_", "<|tools_", "<|message", "<|START_AC",
    "<start_func", "<Function_", "<steptml", ">>", "<rfl", "<atem", "<|open", "<|plamo:",
];

/// Fragments that have no special meaning in a string.
#[rustfmt::skip]
const INSIDE: &[&str] = &[
    "word", "x", " ", "  ", "\n", "\t", "\r\n", "\u{1}", "é", "日本", "😀", "🧑‍🚀", "\"", "\\", "'", "`", "```", "\n```\n", "\"\"\"", "'''",
    "{", "}", "[", "]", "(", ")", ",", ",}", ":", ";", "=", "/", "//", "/* x */", "# y", "\\n", "\\u00e9", "\\x41", "&lt;", "&amp", "&quot;", "&",
    "42", "-1.5", "1e3", "true", "False", "null", "None", "{\"name\": \"now\", \"arguments\": {}}", "now()", "call:now{}",
    "<", ">", "</", "<|", "|>", "<tool_", "</par", "</func", "[TOOL", "]]>", "<![CDATA[", "```json",
    "<tool_call>", "</tool_call>", "<tool_calls>", "</tool_calls>", "<function_call>", "</function_call>", "<function_calls>",
    "</function_calls>", "<pre>", "</pre>", "<code>", "</code>", "<think>", "</think>", "<longcat_tool_call>", "</longcat_tool_call>",
    "<|tool_call|>", "<|/tool_call|>", "<TOOLCALL>", "</TOOLCALL>", "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "<|python_tag|>", "<|eom_id|>",
    "<function=now>", "</function>", "<parameter=x>", "</parameter>", "functools[", "<|action_start|>", "<|plugin|>", "<|action_end|>",
    "<|tools_prefix|>", "<|tools_suffix|>", "<|message_sep|>", "<|function_call|>", "Action:", "\nAction: now\n", "Action Input:",
    "\nObservation:", "<|START_ACTION|>", "<|END_ACTION|>", "<ifm|tool_call>", "</ifm|tool_call>", "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>", "<|tool_calls_section_begin|>", "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>", "<|tool_call_end|>", "<|tool_calls_section_end|>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>",
    "<tool_sep>", "<minimax:tool_call>", "</minimax:tool_call>", "<invoke name=\"now\">", "<invoke name=", "</invoke>", "<parameter name=\"x\">",
    "<｜DSML｜invoke name=\"now\">", "</｜DSML｜invoke>", "</｜DSML｜parameter>", "<｜DSML｜function_calls>", "</｜DSML｜function_calls>",
    "<steptml:invoke name=\"now\">", "</steptml:invoke>", "</steptml:parameter>", "<｜tool_calls_end｜>", "<dots_function_call>",
    "</dots_function_call>", "<param name=\"x\">", "</param>", "<function name=\"now\">", "]<]minimax[>[", "</item>", "</args>", "</args_json>",
    "<toolbridge_calls>", "</toolbridge_calls>", "<now>", "</now>", "<path>", "</path>", "</content>", "</city>", "</write_file>",
    "<|python_start|>", "<|python_end|>", "<|tool_call_start|>", "<|tool_call_end|>", "<start_function_call>", "<end_function_call>",
    "<escape>", "<|tool_call>", "<tool_call|>", "<|\"|>", "<|tool_calls|>", "</seed:tool_call>", "<|channel|>", "<|message|>", "<|call|>",
    "<|end|>", "<|start|>", ">>>", ">>>now\n", "<|open|>", "<|close|>", "<|sep|>", "<|end_message|>", "<|eom|>",
];

/// Removes every occurrence of the strings in `never`.
fn without(mut text: String, never: &[&str]) -> String {
    while let Some(found) = never.iter().find(|never| text.contains(**never)) {
        text = text.replace(found, "");
    }
    text
}

/// Generates a string that contains no string of `never` or `nor`.
pub(crate) fn string(never: &'static [&'static str], nor: &'static [&'static str]) -> BoxedStrategy<String> {
    let some = prop::collection::vec(prop::sample::select(INSIDE), 0..7).prop_map(|parts| parts.concat());
    let long =
        (20_usize..90, prop::sample::select(INSIDE)).prop_map(|(times, end)| "long é ".repeat(times) + end);
    let string = prop_oneof![24 => some, 1 => long];
    string.prop_map(|text| without(without(text, never), nor)).boxed()
}

/// Generates the text around calls, which may be empty. If `plain` is set, it begins with a word. It does not begin with
/// `>`, which would quote the calls on its line.
pub(crate) fn beside(never: &'static [&'static str], plain: bool) -> BoxedStrategy<String> {
    let word = || prop::sample::select(WORDS);
    let any = || prop::sample::select(BESIDE);
    let first = if plain { word().boxed() } else { prop_oneof![word(), any()].boxed() };
    let text = (first, prop::collection::vec(prop_oneof![1 => word(), 3 => any()], 0..3), word());
    let text = text.prop_map(|(first, middle, last)| {
        let parts: Vec<&str> = [first].into_iter().chain(middle).chain([last]).collect();
        parts.join(" ").trim().to_owned()
    });
    let text =
        text.prop_map(move |text| without(text, never).trim_start_matches(['>', ' ', '\n']).to_owned());
    prop_oneof![1 => Just(String::new()), 4 => text].boxed()
}

/// Generates reasoning: like the text around calls, but never empty.
pub(crate) fn thought() -> BoxedStrategy<String> {
    beside(&["</"], true).prop_map(|text| format!("Hm. {text}").trim().to_owned()).boxed()
}

/// Generates a fragment of any kind, or many repetitions of one character.
pub(crate) fn trouble() -> BoxedStrategy<String> {
    let inside = prop::sample::select(INSIDE).prop_map(str::to_owned);
    let beside = prop::sample::select(BESIDE).prop_map(str::to_owned);
    let word = prop::sample::select(WORDS).prop_map(str::to_owned);
    let many = (prop::sample::select(&[" ", "\n", "x", "=", "<", "`", "é"] as &[_]), 200..700_usize);
    let many = many.prop_map(|(what, times): (&str, usize)| what.repeat(times));
    prop_oneof![8 => inside, 8 => beside, 4 => word, 1 => many].boxed()
}
