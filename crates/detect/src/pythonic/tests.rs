//! Complete messages in Python-like formats, split at every position.

use serde_json::json;

use crate::{
    Detector,
    conversation::{Conversation, Tool},
    event::{CallEnd, Event, Finish, Sink},
    format::{self, KnownFormats},
    rules::{Detect, Rules},
    tools::DeclaredTools,
};

/// The output with one item per line: joined text, and calls as `name arguments`, with a `!` if the call was cut
/// off.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    text: String,
    reasoning: String,
    calls: Vec<String>,
}

impl Sink for Seen {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Text(text) => self.text.push_str(&text),
            Event::Reasoning(reasoning) => self.reasoning.push_str(&reasoning.text),
            Event::CallStart(start) => self.calls.push(format!("{} ", start.name)),
            Event::CallArguments { piece, .. } => self.calls.last_mut().unwrap().push_str(&piece),
            Event::CallEnd { end, .. } => {
                self.calls.last_mut().unwrap().push_str(if end == CallEnd::Complete { "." } else { "!" });
            }
            other => panic!("{other:?}"),
        }
    }
}

fn detector(formats: &[&str]) -> Detector {
    let tool = |name: &str, parameters: serde_json::Value| Tool {
        parameters: Some(parameters.into()),
        ..Tool::named(name)
    };
    let text = json!({"type": "string"});
    let number = json!({"type": "number"});
    let tools = vec![
        tool("now", json!({"type": "object", "properties": {}})),
        tool(
            "get_weather",
            json!({"type": "object", "properties": {"days": number, "city": text}, "required": ["city"]}),
        ),
        tool("search", json!({"type": "object", "properties": {"query": text, "limit": number}})),
    ];
    let conversation = Conversation { tools, ..Conversation::default() };
    let formats = formats.iter().map(|name| format::by_name(name).unwrap().name).collect();
    let settings = Rules { detect: Detect::Formats(formats), ..Rules::default() };
    Detector::new(DeclaredTools::new(&conversation, ""), &settings, KnownFormats::built_in()).unwrap()
}

fn run(formats: &[&str], pieces: &[&str], stopped: bool) -> Seen {
    let (mut detector, mut seen) = (detector(formats), Seen::default());
    for piece in pieces {
        detector.event(Event::Text((*piece).into()), &mut seen);
    }
    detector.finish(stopped.then_some(Finish::Stop), &mut seen);
    seen
}

/// Reads `text` in one piece, character by character, and in two pieces. Asserts that the output is always the
/// same.
fn seen(formats: &[&str], text: &str, stopped: bool) -> Seen {
    let whole = run(formats, &[text], stopped);
    let by_char: Vec<&str> = text.split_inclusive(|_| true).collect();
    assert_eq!(run(formats, &by_char, stopped), whole, "by character: {text}");
    for (at, _) in text.char_indices() {
        let (head, tail) = text.split_at(at);
        assert_eq!(run(formats, &[head, tail], stopped), whole, "cut at {at}: {text}");
    }
    whole
}

/// Checks the text and the calls in a message that the model ended by itself.
#[track_caller]
fn check(format: &str, message: &str, text: &str, calls: &[&str]) {
    let seen = seen(&[format, "bare"], message, true);
    assert_eq!((seen.text.as_str(), seen.calls), (text, calls.iter().map(|c| (*c).to_owned()).collect()));
}

#[test]
fn a_bare_list_of_declared_names_is_calls() {
    let paris = r#"get_weather {"city": "Paris"}."#;
    check("pythonic", "[get_weather(city='Paris'), now()]", "", &[paris, "now {}."]);
    check("pythonic", "[now()]", "", &["now {}."]);
    check("pythonic", "[ now ( ) , now() ]", "", &["now {}.", "now {}."]);
    check("pythonic", "Sure! [get_weather(city='Paris',)] ok", "Sure!  ok", &[paris]);
    check("pythonic", "[get_weather(city='Paris')\n, now(),]", "", &[paris, "now {}."]);
    check(
        "pythonic",
        "[get_weather(3, 'Paris', 'x')]",
        "",
        &[r#"get_weather {"days": 3, "city": "Paris", "arg2": "x"}."#],
    );
    check("pythonic", "[search(query='a' 'b', limit=1_0)]", "", &[r#"search {"query": "ab", "limit": 10}."#]);
    check("pythonic", "<|python_start|>[nope(a=None)]<|python_end|>", "", &[r#"nope {"a": null}."#]);
    check("pythonic", "<|python_start|>now()<|python_end|>!", "!", &["now {}."]);
    check("pythonic", "<|python_start|>[now()] and", "and", &["now {}."]);
    check("pythonic", "<|python_start|>[now(), what now", ", what now", &["now {}."]);
}

#[test]
fn text_that_is_not_a_call_list_passes_unchanged() {
    for text in [
        "[nope(a=1)]",
        "[get_weather](https://example.org)",
        "[get_weather(city)](https://example.org)",
        "a[get_weather] = [1, 2, [now, 3]]",
        "`[now()]`",
        "<|python_start|>[]<|python_end|>",
        "<|python_start|> x <|python_start",
        "[x for x in y]\n[[now(]",
    ] {
        check("pythonic", text, text, &[]);
    }
    check("pythonic", r#"[{"name": "now", "arguments": {}}]"#, "", &["now {}."]);
}

#[test]
fn calls_that_stop_short_are_cut_and_broken_ones_end() {
    for (text, stopped, call) in [
        ("[get_weather(city='Pa", false, r#"get_weather {"city": "Pa!"#),
        ("[get_weather(city='Pa", true, r#"get_weather {"city": "Pa!"#),
        ("[get_weather(city='Pa'", true, r#"get_weather {"city": "Pa"}."#),
        ("[get_weather(city='Pa'", false, r#"get_weather {"city": "Pa!"#),
        ("[get_weather(city='Pa')", false, r#"get_weather {"city": "Pa"}."#),
        ("[get_weather(days=1", true, r#"get_weather {"days": !"#),
        ("[get_weather(days=[1, {'a': True", true, r#"get_weather {"days": [1, {"a": !"#),
        ("[get_weather(days=(1", true, r#"get_weather {"days": !"#),
        ("[get_weather(city='x',", true, r#"get_weather {"city": "x"!"#),
    ] {
        let seen = seen(&["pythonic"], text, stopped);
        assert_eq!((seen.text.as_str(), seen.calls), ("", vec![call.to_owned()]), "{text}");
    }
    let broken = r#"get_weather {"city": !"#;
    check("pythonic", "[get_weather(city=x)] on", "on", &[broken]);
    check("pythonic", "[get_weather(city=x y), now()] on", "on", &[broken, "now {}."]);
    check(
        "lfm2",
        "<|tool_call_start|>[now(a=x [1, ')'], now()]<|tool_call_end|>on",
        "on",
        &["now {\"a\": !"],
    );
}

#[test]
fn quotes_end_a_string_only_where_the_next_text_fits() {
    for (written, wanted) in [
        ("'grep -n 'a,b' /etc/hosts'", "grep -n 'a,b' /etc/hosts"),
        (r#"'cd && python3 -c "print(f(x, s='\,'))"'"#, r#"cd && python3 -c "print(f(x, s='\,'))""#),
        (r#""say "hi", then go""#, r#"say "hi", then go"#),
        ("'echo 'b' 'c''", "echo 'b' 'c'"),
        ("'a' 'b'", "ab"),
        ("'it''s'", "its"),
    ] {
        let call = format!("search {{\"query\": {}}}.", serde_json::Value::from(wanted));
        check(
            "lfm2",
            &format!("<|tool_call_start|>[search(query={written})]<|tool_call_end|>"),
            "",
            &[&call],
        );
        check("pythonic", &format!("[search(query={written})]"), "", &[&call]);
        check(
            "olmo3",
            &format!("<function_calls>\nsearch(query={written})\n</function_calls>"),
            "",
            &[&call],
        );
        let two = call.replace("}.", ", \"limit\": 1}.");
        check("pythonic", &format!("[search(query={written}, limit=1), now()]"), "", &[&two, "now {}."]);
    }
}

#[test]
fn python_sections_are_read() {
    let paris = r#"get_weather {"city": "Paris"}."#;
    check(
        "lfm2",
        "<|tool_call_start|>[get_weather(city=\"Paris\")]<|tool_call_end|>Wait.",
        "Wait.",
        &[paris],
    );
    check("lfm2", "<|tool_call_start|>[{'name': 'now'}]<|tool_call_end|>", "", &["now {}."]);
    check(
        "lfm2",
        "<|tool_call_start|>nothing<|tool_call_end|>",
        "<|tool_call_start|>nothing<|tool_call_end|>",
        &[],
    );
    check(
        "olmo3",
        "a\n<function_calls>\nget_weather(city=\"Paris\")\nnow()\n</function_calls>\nb",
        "a\n\nb",
        &[paris, "now {}."],
    );
    for formats in [["anthropic_legacy", "olmo3"], ["olmo3", "anthropic_legacy"]] {
        let lines = seen(&formats, "<function_calls>\nnow()\n</function_calls>", true);
        assert_eq!((lines.text.as_str(), lines.calls), ("", vec!["now {}.".to_owned()]));
        let prose = "The <function_calls> element(s) and <|tool_call_start|> f(x)";
        assert_eq!(seen(&formats, prose, true).text, prose);
    }
    let invoke = "<function_calls>\n<invoke name=\"now\">\n</invoke>\n</function_calls>";
    check("olmo3", invoke, invoke, &[]);
}

#[test]
fn python_calls_in_code_fences_are_read() {
    let paris = r#"get_weather {"city": "Paris"}."#;
    let check = |message: &str, text: &str, calls: &[&str]| {
        check("gemma3_toolcode", message, text, calls);
        let both = seen(&["fenced", "gemma3_toolcode"], message, true);
        assert_eq!((both.text.as_str(), both.calls.len()), (text, calls.len()), "{message}");
    };
    check("```tool_code\nget_weather(city='Paris')\n```", "", &[paris]);
    check("```tool_code\nprint(get_weather(city='Paris'))\n```\nb", "b", &[paris]);
    check("```tool_code\nprint(default_api.get_weather(city='Paris'))\nnow()\n```", "", &[paris, "now {}."]);
    check("```tool_code\n{\"name\": \"now\", \"arguments\": {}}\n```", "", &["now {}."]);
    check("```tool_code\nx = 1\n```\nb", "```tool_code\nx = 1\n```\nb", &[]);
    check("```python\nnow()\n```\nb", "```python\nnow()\n```\nb", &[]);
}

#[test]
fn gemma_writes_bare_keys_and_marked_strings() {
    let call = r#"search {"query": "a\"}\n<", "o": {"n": -1.5, "l": [true, null, "x y"]}}."#;
    check(
        "gemma4",
        "<|tool_call>call:search{query:<|\"|>a\"}\n<<|\"|>,o:{n:-1.5,l:[true,null,<|\"|>x y<|\"|>]}}<tool_call|>",
        "",
        &[call],
    );
    check("gemma4", "<|tool_call>call:now{}<tool_call|><|tool_call>call:now{}", "", &["now {}.", "now {}."]);
    check(
        "gemma4",
        "<|tool_call>call:search{query: word two}<tool_call|>.",
        ".",
        &[r#"search {"query": "word two"}."#],
    );
    check("gemma4", "<|tool_call>see<tool_call|>", "<|tool_call>see<tool_call|>", &[]);
    check(
        "functiongemma",
        "<start_function_call>call:search{query:<escape>a<esc<escape>,limit:3}<end_function_call>",
        "",
        &[r#"search {"query": "a<esc", "limit": 3}."#],
    );
    let cut = seen(&["gemma4"], "<|tool_call>call:search{query:<|\"|>rm -r<|", false);
    assert_eq!(cut.calls, [r#"search {"query": "rm -r!"#]);
}

#[test]
fn react_calls_are_read() {
    let paris = r#"get_weather {"city": "Paris"}."#;
    let json = "Thought: t\nAction: get_weather\nAction Input: {\"city\": \"Paris\"}";
    let text = "Action: get_weather \nAction Input: Paris";
    check("react", json, "Thought: t", &[paris]);
    check("react", &format!("{json}\nObservation: 20\nThought: done"), "Thought: t", &[paris]);
    check("react", text, "", &[paris]);
    check("react", &format!("{text}\n\n  Observation: 20\nAction: x"), "", &[paris]);
    check(
        "react",
        "Action: search\nAction Input: \"a\" b\n\nObs \"c\"\n\nObservation:",
        "",
        &[r#"search {"query": "a\" b\n\nObs \"c"}."#],
    );
    check("react", "Action: now\nAction Input:\nObservation: 3", "", &["now {}."]);
    check(
        "react",
        &format!("{json}\n\nAction: now\nAction Input: {{}}\nso"),
        "Thought: t\n\n\n\nso",
        &[paris, "now {}."],
    );
    for prose in [
        "Action: dance\nAction Input: {}",
        "Action: now\nand then",
        "An Action: now\nAction Input: {}",
        "Action: now",
    ] {
        check("react", prose, prose, &[]);
    }
}

#[test]
fn sarashina_dictionaries_are_read() {
    check(
        "sarashina",
        "<|tool_calls|>[{'name': 'search', 'arguments': {'query': \"it's\", 'limit': None}}] b",
        "b",
        &[r#"search {"query": "it's", "limit": null}."#],
    );
}

#[test]
fn built_in_llama_tools_are_read() {
    check("llama3_json", "<|python_tag|>search.call(query=\"x\")", "", &[r#"search {"query": "x"}."#]);
    check("llama3_json", "<|python_tag|>{\"name\": \"now\", \"parameters\": {}}", "", &["now {}."]);
    let code = "<|python_tag|>print(search(query='x'))";
    check("llama3_json", code, code, &[]);
}
