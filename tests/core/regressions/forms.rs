//! Forms of calls that released models or engines write in addition to those of the examples.

use serde_json::{Value, json};
use toolwire::{
    format,
    rules::{Detect, Rules},
};

use super::{found, is, read, request};
use crate::support::{cuts::by_characters, exchange::Exchange, upstream::Speech};

const WEATHER: &str = "get_weather";

#[test]
fn arguments_may_be_pairs_of_any_tags() {
    let calls = [(WEATHER, json!({"city": "Paris"}))];
    for (format, text) in [
        (
            "longcat",
            "<longcat_tool_call>get_weather\n<longcat_arg_key>city</longcat_arg_key>\n<longcat_arg_value>Paris</longcat_arg_value>\n</longcat_tool_call>",
        ),
        (
            "iquest",
            "<iquestcoder_tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value></iquestcoder_tool_call>",
        ),
        (
            "solar_open2",
            "<|tool_call:start|>get_weather\n<|tool_arg:start|>city<|tool_arg:value|>Paris<|tool_arg:end|>\n<|tool_call:end|>",
        ),
        ("laguna", "<user>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n</user>"),
    ] {
        is(format, &format!("Well. {text}"), "Well.", &calls);
    }
}

#[test]
fn quantized_hy_checkpoints_end_calls_with_other_closers() {
    let calls = [(WEATHER, json!({"city": "Paris"}))];
    for (suffix, arguments) in [
        (":opensource", "<tool_sep:opensource>{\"city\": \"Paris\"}"),
        ("", "<tool_sep>{\"city\": \"Paris\"}"),
        (
            ":opensource",
            "<tool_sep:opensource><arg_key:opensource>city</arg_key:opensource><arg_value:opensource>Paris</arg_value:opensource>",
        ),
        (
            ":opensource",
            "<arg_key:opensource>city</arg_key:opensource><arg_value:opensource>Paris</arg_value:opensource>",
        ),
    ] {
        let text = format!("<tool_call{suffix}>get_weather{arguments}<end_of_tool_call{suffix}>");
        is("hy_v3", &text, "", &calls);
    }
    is("hy_v3", "<tool_call>now</arg_value>", "", &[("now", json!({}))]);
    let text = "<tool_call:x>gar<tool_call:x>now<tool_sep:x>{}<end_of_tool_call:x>";
    is("hy_v3", text, "<tool_call:x>gar", &[("now", json!({}))]);
}

#[test]
fn json_may_be_in_a_wrapper_of_tags() {
    let text = "<dots_function_call><invoke name=\"now\"></invoke></dots_function_call><dots_function_call>{\"name\":\"now\",\"arguments\":{}}</dots_function_call>";
    is("dots", text, "", &[("now", json!({})), ("now", json!({}))]);
    let text = "<tool_call><invoke name=\"now\"></invoke></tool_call>";
    is("rwkv", text, "", &[("now", json!({}))]);
}

#[test]
fn a_dictionary_may_contain_all_arguments_of_a_python_call() {
    let calls = [(WEATHER, json!({"city": "Paris"}))];
    is("pythonic", "[get_weather({\"city\": \"Paris\"})]", "", &calls);
    is("calling_tool", "Hm. [Calling tool: get_weather({\"city\": \"Paris\"})]", "Hm.", &calls);
    let both = [calls[0].clone(), ("now", json!({}))];
    is(
        "calling_tool",
        "[Calling tool: get_weather({\"city\": \"Paris\"})][Calling tool: now({})]",
        "",
        &both,
    );
    for text in ["[Calling tool: nobody({})]", "[Calling tool: now]", "[Calling tool: now(1)]"] {
        is("calling_tool", text, text, &[]);
    }
}

#[test]
fn arguments_may_be_attributes() {
    let calls = [("write_file", json!({"path": "a b", "content": "1]"}))];
    for text in [
        "[Calling tool=\"write_file\" path=\"a b\" content=\"1]\"]",
        "[Calling tool='write_file' path='a b'  content='1]' ]",
    ] {
        is("calling_tool", &format!("Let me. {text}"), "Let me.", &calls);
    }
    let calls = [("search", json!({"query": "x", "limit": 3}))];
    is("glm47", "<tool_call>search query=x limit=3</tool_call>", "", &calls);
    for text in ["[Calling tool=\"nobody\" a=\"1\"]", "[Calling tool=now and then]", "[Calling tool=\"now"] {
        is("calling_tool", text, text, &[]);
    }
}

#[test]
fn python_dictionaries_may_have_no_marker() {
    let calls = [(WEATHER, json!({"city": "it's [x]"})), ("now", json!({}))];
    let text =
        "[{'name': 'get_weather', 'arguments': {'city': 'it\\'s [x]'}}, {'name': 'now', 'arguments': {}}]";
    is("sarashina", text, "", &calls);
    for text in ["[{'name': 'nobody', 'arguments': {}}]", "[{'a': 1}]", "[1, 2]", "[{'name': 'now'}]"] {
        is("sarashina", text, text, &[]);
    }
}

#[test]
fn the_body_of_a_call_may_be_its_only_argument() {
    let code = "if a <b:\n    print('</tool>')\n";
    let read = read_code;
    for (text, wanted) in [
        (format!("<tool: python>\n{code}\n</tool>"), code),
        ("<tool: python>ls</tool>".to_owned(), "ls"),
        ("<tool: python>\n</tool>".to_owned(), ""),
        ("<tool: python>\nls\n".to_owned(), "ls"),
    ] {
        assert_eq!(read(&text), [("python".to_owned(), json!({"code": wanted}))], "{text}");
    }
    is("cwm", "<tool: nobody>\nx\n</tool>", "<tool: nobody>\nx\n</tool>", &[]);
    let calls = [(WEATHER, json!({"city": "Paris"}))];
    is("cwm", "Hi.\n<tool: get_weather>\n{\"city\": \"Paris\"}\n</tool>", "Hi.", &calls);
}

/// Reads CWM's calls with a tool that takes code.
fn read_code(text: &str) -> Vec<(String, Value)> {
    let tool = json!({"type": "function", "function": {"name": "python", "parameters": {"type": "object", "properties": {"code": {"type": "string"}}}}});
    calls_of("cwm", &tool, text)
}

fn calls_of(format: &str, tool: &Value, text: &str) -> Vec<(String, Value)> {
    let settings =
        Rules { detect: Detect::Formats(vec![format::by_name(format).unwrap().name]), ..Rules::default() };
    let exchange = Exchange::new(request(&json!({"tools": [tool], "stream": true})), settings, Speech::Chat);
    let (whole, _) = exchange.run([Speech::Chat.says(&[text], "stop").as_slice()]);
    let (pieces, _) = exchange.run([Speech::Chat.says(&by_characters(text, 1), "stop").as_slice()]);
    assert_eq!(pieces, whole, "{text}");
    read(&whole).into_iter().map(|(name, arguments)| (name.to_owned(), arguments)).collect()
}

#[test]
fn actions_are_calls_of_the_tool_that_operates_a_computer() {
    let tool = json!({"type": "function", "function": {"name": "computer"}});
    for (text, arguments) in [
        (
            "Thought: I look.\nAction: click(point='<point>200 300</point>')",
            json!({"action": "click", "point": [200, 300]}),
        ),
        (
            "Action: click(start_box='<|box_start|>(23,45)<|box_end|>')",
            json!({"action": "click", "point": [23, 45]}),
        ),
        (
            "Action: drag(start_box='(1,2)', end_box='(3,4)')",
            json!({"action": "drag", "start_point": [1, 2], "end_point": [3, 4]}),
        ),
        (
            "Action: type(content='Action: wait()\\n')",
            json!({"action": "type", "content": "Action: wait()\n"}),
        ),
        ("Action: wait()", json!({"action": "wait"})),
        ("Action: click(point='the button')", json!({"action": "click", "point": "the button"})),
    ] {
        assert_eq!(calls_of("ui_tars", &tool, text), [("computer".to_owned(), arguments)], "{text}");
    }
}

#[test]
fn markers_in_a_name_mean_nothing() {
    for name in ["no<|message|>w", "now<|message|><|message|>"] {
        let text = format!(
            " to=now<|message|><atem:function_calls>\n<atem:invoke name=\"{name}\"></atem:invoke>\n</atem:function_calls><|eot|>"
        );
        is("muse_atem", &text, "", &[("now", json!({}))]);
    }
}

#[test]
fn gemma_calls_may_lack_their_word_or_have_round_brackets() {
    let calls = [(WEATHER, json!({"city": "Paris"}))];
    for body in [
        ":get_weather{city:<|\"|>Paris<|\"|>}<tool_call|>",
        "call:get_weather(city=\"Paris\")<tool_call|>",
        "call:get_weather(city=\"Paris\")",
    ] {
        is("gemma4", &format!("Hello: world<|tool_call>{body}"), "Hello: world", &calls);
    }
}

#[test]
fn meaningless_markers_are_dropped_in_text_and_reasoning() {
    let answer = found("command_r7b", "<think>A <co>b</co: 0:[1]>.</think><co>Paris</co: 0:[1,2],1:[3,4]>.");
    assert_eq!((answer.reasoning.as_str(), answer.text.as_str()), ("A b.", "Paris."));
    let answer = found("glm45", "<think><|begin_of_box|>a</think><|begin_of_box|>42<|end_of_box|>");
    assert_eq!((answer.reasoning.as_str(), answer.text.as_str()), ("a", "42"));
}

#[test]
fn roles_of_other_messages_are_markup() {
    let calls = [(WEATHER, json!({"city": "Paris"}))];
    let json = "[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}]";
    is("hyperclova", &format!(" -> tool/function_call\n{json}<|im_end|>"), "", &calls);
    let text = format!("Hi<|im_end|>\n<|im_start|>assistant -> tool/function_call\n{json}<|im_end|>");
    is("hyperclova", &text, "Hi", &calls);
    let text = "<|from|>assistant\n<|recipient|>get_weather\n<|content|>{\"city\": \"Paris\"}";
    is("functionary_v2", text, "", &calls);
    is("functionary_v2", "all\n<|content|>Hi", "Hi", &[]);
}
