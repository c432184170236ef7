//! Tests calls with tagged arguments, read through the detector in every split.

use std::borrow::Cow;

use serde_json::json;

use super::Detector;
use crate::tools::DeclaredTools;
use crate::{
    conversation::{Conversation, Tool},
    event::{CallEnd, Event, Finish, Sink},
    format::{self, Format, KnownFormats},
    rules::{Detect, Rules},
};

fn tools() -> Conversation {
    let tool = |name: &str, properties: serde_json::Value| Tool {
        name: name.to_owned(),
        parameters: Some(json!({"type": "object", "properties": properties}).into()),
        description: String::new(),
        strict: None,
        declared: None,
    };
    let text = json!({"type": "string"});
    Conversation {
        tools: vec![
            tool("write", json!({"path": text, "content": text, "mode": {"type": "integer"}})),
            tool(
                "opts",
                json!({"tags": {"type": "array", "items": text}, "cfg": {"type": "object", "properties": {"depth": {"type": "integer"}}}, "note": {"type": ["string", "null"]}}),
            ),
            tool("now", json!({})),
        ],
        ..Conversation::default()
    }
}

/// Text and calls on one line, as in `text|name(arguments)|text`, with `…` if a call was cut off, and the number of
/// argument pieces.
#[derive(Default)]
struct Line(String, usize);

impl Sink for Line {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Text(text) => self.0.push_str(&text),
            Event::CallStart(start) => self.0.push_str(&format!("|{}(", start.name)),
            Event::CallArguments { piece, .. } => {
                self.0.push_str(&piece);
                self.1 += 1;
            }
            Event::CallEnd { end: CallEnd::Complete, .. } => self.0.push_str(")|"),
            Event::CallEnd { .. } => self.0.push_str("…|"),
            _ => {}
        }
    }
}

fn read(format: &'static Format, pieces: &[&str], stopped: bool) -> (String, usize) {
    let settings = Rules { detect: Detect::Formats(vec![format.name]), ..Rules::default() };
    let mut detector =
        Detector::new(DeclaredTools::new(&tools(), ""), &settings, KnownFormats::built_in()).unwrap();
    let mut line = Line::default();
    for piece in pieces {
        detector.event(Event::Text(Cow::Borrowed(piece)), &mut line);
    }
    detector.finish(stopped.then_some(Finish::Stop), &mut line);
    (line.0, line.1)
}

fn check(format: &'static Format, text: &str, stopped: bool, wanted: &str) {
    let (whole, _) = read(format, &[text], stopped);
    assert_eq!(whole, wanted, "{}: {text}", format.name);
    let chars: Vec<String> = text.chars().map(String::from).collect();
    let pieces: Vec<&str> = chars.iter().map(String::as_str).collect();
    assert_eq!(read(format, &pieces, stopped).0, wanted, "{} by character: {text}", format.name);
    for at in (0..text.len()).filter(|&at| text.is_char_boundary(at)) {
        let (one, other) = text.split_at(at);
        assert_eq!(read(format, &[one, other], stopped).0, wanted, "{} at {at}: {text}", format.name);
    }
}

#[test]
fn qwen_calls_are_read_at_every_cut() {
    let body = "<tool_call>\n<function=write>\n<parameter=path>\na</parameter>\n";
    for (text, wanted) in [
        // A closer counts only where the format allows what follows.
        (
            "<parameter=content>\nx </parameter> y\n</parameter>\n</function>\n</tool_call>",
            r#"|write({"path": "a", "content": "x </parameter> y"})|"#,
        ),
        // Without a closer, the value ends before the next parameter that the tool declares. Other parameters are
        // data.
        (
            "<parameter=content>\nx <parameter=no>\n<parameter=mode>\n7\n</parameter>\n</function>\n</tool_call>",
            r#"|write({"path": "a", "content": "x <parameter=no>", "mode": 7})|"#,
        ),
        // A number ends with the call.
        ("<parameter=mode>\n7\n</function>\n</tool_call>", r#"|write({"path": "a", "mode": 7})|"#),
        // A string ends with the call only at the end of the text.
        ("<parameter=content>\n7\n</function>\n</tool_call>", r#"|write({"path": "a", "content": "7"})|"#),
        (
            "<parameter=content>\n</function></tool_call>\n</parameter></function></tool_call>",
            r#"|write({"path": "a", "content": "</function></tool_call>"})|"#,
        ),
        // A malformed closer.
        ("<parameter=mode>7</parameter/>\n</function>\n</tool_call>", r#"|write({"path": "a", "mode": 7})|"#),
        // The next call follows without any closer, and text follows that call.
        ("<function=now>\n</function></tool_call> ok", r#"|write({"path": "a"})||now({})|ok"#),
        ("</tool_call> ok", r#"|write({"path": "a"})|ok"#),
        ("", r#"|write({"path": "a"})|"#),
        ("<param", r#"|write({"path": "a"})|"#),
        ("<parameter=content>\nrm -r build\n</par", r#"|write({"path": "a", "content": "rm -r build…|"#),
        ("<parameter=mode>\n12", r#"|write({"path": "a", "mode": …|"#),
    ] {
        check(&format::QWEN3_CODER, &format!("{body}{text}"), true, wanted);
    }
    check(
        &format::QWEN3_CODER,
        "<function=now> is a tag, <function=other><parameter=a>1</parameter>",
        true,
        "<function=now> is a tag, <function=other><parameter=a>1</parameter>",
    );
    check(&format::QWEN3_CODER, "a <function=now></function> b", true, "a|now({})|  b");
    check(
        &format::QWEN3_CODER,
        "<tool_call> <tool_<tool_call><function=now></function></tool_call>",
        true,
        "<tool_call> <tool_|now({})|",
    );
    check(&format::QWEN3_CODER, body, false, r#"|write({"path": "a"…|"#);
}

#[test]
fn glm_and_hy_calls_are_read_at_every_cut() {
    let text = "Use <tool_call>now</tool_ or\n<tool_call>now</tool_call><tool_call>write\n<arg_key>path</arg_key>\n<arg_value> a </arg_value> b</arg_value>\n</tool_call>";
    check(
        &format::GLM45,
        text,
        true,
        r#"Use <tool_call>now</tool_ or|now({})||write({"path": " a </arg_value> b"})|"#,
    );
    let prose = "Write <tool_call> tags {\"a\": 1} now.";
    check(&format::GLM45, prose, true, prose);
    check(
        &format::GLM47,
        "<tool_call>write<arg_key>mode</arg_key><arg_value>3<arg_key>path</arg_key><arg_value>p</arg_value></tool_call>",
        true,
        r#"|write({"mode": 3, "path": "p"})|"#,
    );
    check(
        &format::GLM47,
        "Write <tool_call> tags? <tool_call>x y</tool_call>",
        true,
        "Write <tool_call> tags? <tool_call>x y</tool_call>",
    );
    check(
        &format::HY_V3,
        "<tool_calls><tool_call>now<tool_sep></tool_call>\n<tool_call:6124c78e>write<tool_sep:6124c78e><arg_key:6124c78e>path</arg_key:6124c78e><arg_value:6124c78e>x</arg_value:6124c78e></tool_call:6124c78e></tool_calls>",
        true,
        r#"|now({})||write({"path": "x"})|"#,
    );
}

#[test]
fn attributes_shields_and_json() {
    check(
        &format::ANTHROPIC_LEGACY,
        "<ns:function_calls><ns:invoke name='now'></ns:invoke>\n<ns:invoke name=\"write\"><ns:parameter name=\"path\">p</ns:parameter></ns:invoke></ns:function_calls>",
        true,
        r#"|now({})||write({"path": "p"})|"#,
    );
    check(
        &format::ANTHROPIC_LEGACY,
        "<function_calls><invoke><tool_name>write</tool_name><parameters><path>p</path><mode>3</mode></parameters></invoke></function_calls>",
        true,
        r#"|write({"path": "p", "mode": 3})|"#,
    );
    check(
        &format::DOTS,
        "<dots_function_call><invoke name=write>{\"path\": \"p\"}</invoke></dots_function_call>",
        true,
        r#"|write({"path": "p"})|"#,
    );
    check(
        &format::MINICPM5,
        "<function name=\"write\"><param name=\"content\"><![CDATA[a]]b</param>]]></param></function>",
        true,
        r#"|write({"content": "a]]b</param>"})|"#,
    );
    check(
        &format::DEEPSEEK_V4,
        "<|DSML|tool_calls><|DSML|invoke name=\"write\"><|DSML|parameter name=\"x\" string=\"false\">{'a': 1}</|DSML|parameter></|DSML|invoke></|DSML|tool_calls>",
        true,
        r#"|write({"x": {"a": 1}})|"#,
    );
}

#[test]
fn element_calls_are_read_at_every_cut() {
    check(
        &format::TOOLBRIDGE,
        "<toolbridge_calls><write><path>p</path><content>\na <path>b</path> c\n</content></write>\n<now></now></toolbridge_calls>.",
        true,
        r#"|write({"path": "p", "content": "a <path>b</path> c"})||now({})|."#,
    );
    check(
        &format::CLINE,
        "See <write> and <b>x</b>.\n<write>\n<mode>3</mode>\n</write>\n<other>\n<a>1</a>\n</other>",
        true,
        "See <write> and <b>x</b>.|write({\"mode\": 3})|\n\n<other>\n<a>1</a>\n</other>",
    );
    let m3 = |text: &str| text.replace('¦', "]<]minimax[>[");
    check(
        &format::MINIMAX_M3,
        &m3(
            "¦<tool_call>¦<invoke name=\"opts\">¦<tags>¦<item>a</item>¦</item>¦</tags>¦<cfg>¦<depth>1¦</depth>¦</cfg>¦<note>null¦</note>¦</invoke>¦</tool_call>",
        ),
        true,
        r#"|opts({"tags": ["a</item>"], "cfg": {"depth": 1}, "note": null})|"#,
    );
    check(
        &format::MINIMAX_M3,
        &m3("¦<tool_call>¦<invoke name=\"other\">¦<x>¦<y>1¦</y>¦</x>¦</invoke>¦</tool_call>"),
        true,
        r#"|other({"x": {"y": "1"}})|"#,
    );
    check(
        &format::TOOLIFY,
        "<Function_x_Start/><function_calls><function_call><tool>write</tool><args_json><![CDATA[{\"path\": \"]]>\"}]]></args_json></function_call><function_call><tool>now</tool></function_call></function_calls>",
        true,
        r#"|write({"path": "]]>"})||now({})|"#,
    );
}

#[test]
fn a_long_string_streams() {
    let long = "if a < b && c > d:\n    say(\"hi\")\n".repeat(100);
    for (format, before, after) in [
        (
            &format::QWEN3_CODER,
            "<tool_call>\n<function=write>\n<parameter=content>\n",
            "\n</parameter>\n</function>\n</tool_call>",
        ),
        (&format::GLM47, "<tool_call>write<arg_key>content</arg_key><arg_value>", "</arg_value></tool_call>"),
        (
            &format::HY_V3,
            "<tool_calls:x><tool_call:x>write<tool_sep:x><arg_key:x>content</arg_key:x><arg_value:x>",
            "</arg_value:x></tool_call:x></tool_calls:x>",
        ),
        (
            &format::MINIMAX_M2,
            "<minimax:tool_call><invoke name=\"write\"><parameter name=\"content\">",
            "</parameter></invoke></minimax:tool_call>",
        ),
        (
            &format::DEEPSEEK_V4,
            "<｜DSML｜tool_calls><｜DSML｜invoke name=\"write\"><｜DSML｜parameter name=\"content\" string=\"true\">",
            "</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜tool_calls>",
        ),
        (
            &format::STEP3,
            "<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name=\"write\"><steptml:parameter name=\"content\">",
            "</steptml:parameter></steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>",
        ),
        (&format::CLINE, "<write>\n<content>\n", "\n</content>\n</write>"),
        (
            &format::MINIMAX_M3,
            "]<]minimax[>[<tool_call>]<]minimax[>[<invoke name=\"write\">]<]minimax[>[<content>",
            "]<]minimax[>[</content>]<]minimax[>[</invoke>]<]minimax[>[</tool_call>",
        ),
        (
            &format::TOOLIFY,
            "<Function_x/><function_calls><function_call><tool>write</tool><args_json><![CDATA[{\"content\": \"",
            "\"}]]></args_json></function_call></function_calls>",
        ),
    ] {
        let json = before.ends_with('"').then(|| serde_json::to_string(&long).unwrap());
        let long = json.as_deref().map_or(long.as_str(), |json| json.trim_matches('"'));
        let text = format!("{before}{long}{after}");
        let chars: Vec<char> = text.chars().collect();
        let pieces: Vec<String> = chars.chunks(4).map(|piece| piece.iter().collect()).collect();
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        let (line, deltas) = read(format, &pieces, true);
        assert!(line.ends_with(")|"), "{}: {line}", format.name);
        assert!(
            deltas * 10 >= long.len() / 4 * 9,
            "{}: {deltas} deltas of {} pieces",
            format.name,
            long.len() / 4
        );
    }
}
