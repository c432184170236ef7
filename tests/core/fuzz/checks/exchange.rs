//! Checks whole responses, from every upstream dialect to every client dialect: a strict client of that dialect accepts
//! them, splits do not change what it reads, a truncated response never looks complete, and text is neither lost nor
//! invented.

use std::sync::LazyLock;

use serde_json::{Value, json};
use toolwire::{
    conversation::Conversation,
    dialect::ClientDialect,
    format::{self, Format},
    rules::{
        ArgumentDelivery, Detect, Enforce, InvalidArguments, Limits, Misroute, Reasoning, Rules, ServerCalls,
        UnknownCalls,
    },
};

use super::{
    engine::is_left_of,
    input::{Input, cut},
};
use crate::support::{
    exchange::{Exchange, request, tools},
    hostile::{END_MARKS, deviations},
    upstream::Speech,
};

/// The upstreams, with the names by which inputs choose them.
pub(crate) const UPSTREAMS: [(&str, Speech); 10] = [
    ("lumo1", Speech::LumoV1),
    ("lumo2", Speech::LumoV2),
    ("chat", Speech::Chat),
    ("completions", Speech::Completions),
    ("ollama-generate", Speech::Ollama),
    ("messages", Speech::Messages),
    ("responses", Speech::Responses),
    ("gemini", Speech::Gemini),
    ("interactions", Speech::Interactions),
    ("ollama", Speech::OllamaChat),
];

/// Separates what the upstream says. The first byte of a part says what it is: see [`said`].
const NEXT: char = '\u{1e}';

/// Separates a call's name and arguments.
const ARGUMENTS: char = '\u{1f}';

/// The requests, by two bits of the input.
static REQUESTS: LazyLock<[[Conversation; 4]; 2]> = LazyLock::new(|| {
    [false, true].map(|stream| {
        let schema =
            json!({"type": "object", "properties": {"x": {"type": "string"}, "n": {"type": "integer"}}});
        let declared = tools(["a", "b", "get_weather", "set"], &schema);
        [
            json!({"stream": stream, "tools": declared}),
            json!({"stream": stream, "tools": declared, "parallel_tool_calls": false}),
            json!({"stream": stream, "tools": declared, "tool_choice": "none"}),
            json!({"stream": stream}),
        ]
        .map(|fields| request(&fields))
    })
});

/// The first nine bytes are choices. The rest is the upstream's body, or the parts of which it is made.
pub(crate) fn exchange(data: &[u8]) {
    let mut input = Input::new(data);
    let Some(trial) = Trial::new(&mut input) else { return };
    match trial.is_raw {
        true => drop(trial.run(input.bytes())),
        false => trial.run_parts(&input.text()),
    }
}

struct Trial {
    exchange: Exchange,
    is_raw: bool,
    has_tools: bool,
    finish: &'static str,
    seed: u8,
}

impl Trial {
    fn new(input: &mut Input<'_>) -> Option<Self> {
        let clients: Vec<_> = ClientDialect::all().collect();
        let client = input.of(&clients, |client| client.dialect().name())?;
        let (_, speech) = input.of(&UPSTREAMS, |(name, _)| name)?;
        let format = input.of(format::ALL, |format: &Format| format.name)?;
        let (flags, more, seed) = (input.byte(), input.byte(), input.byte());
        let on = |bit: u8| flags >> bit & 1 == 1;
        let fields = usize::from(flags >> 6);
        let conversation = REQUESTS.get(usize::from(on(0)))?.get(fields)?.clone();
        let mut exchange = Exchange::new(conversation, rules(flags, more, seed, format), speech);
        exchange.client = client;
        // A frame that is forwarded unchanged may contain anything.
        exchange.verbatim = false;
        Some(Self {
            exchange,
            is_raw: on(2),
            has_tools: fields < 2,
            finish: ["stop", "length", "tool_calls", "content_filter"][usize::from(more & 3)],
            seed,
        })
    }

    /// Runs the upstream's body in three splits.
    fn run(&self, bytes: &[u8]) -> crate::support::client::Answer {
        let (whole, tally) = self.exchange.run([bytes]);
        for pieces in [bytes.chunks(1).collect(), cut(bytes, self.seed)] {
            let (cut, cut_tally) = self.exchange.run(pieces.iter().copied());
            assert_eq!(cut, whole, "{:?} in {pieces:?}", bytes.escape_ascii().to_string());
            assert_eq!(cut_tally.calls, tally.calls, "{pieces:?}");
        }
        whole
    }

    fn run_parts(&self, text: &str) {
        let speech = self.exchange.speech;
        let mut events: Vec<Value> = Vec::new();
        for part in text.split(NEXT) {
            events.extend(said(speech, part, events.len()));
        }
        let is_text = events.iter().all(|event| event[0] == "m" && event[1].is_string());
        events.extend((speech != Speech::LumoV1).then(|| json!(["fin", self.finish])));
        events.push(json!(["done"]));
        let bytes = speech.stream(&events);
        let answer = self.run(&bytes);
        let rules = &self.exchange.settings;
        if is_text && answer.error.is_none() && !rules.may_follow_up() {
            let said: String =
                events.iter().filter_map(|event| event[1].as_str().filter(|_| event[0] == "m")).collect();
            if !self.has_tools && rules.reasoning == Reasoning::Off {
                assert_eq!(answer.text, said, "without tools, text is text");
            }
            if rules.reasoning != Reasoning::Inline {
                assert!(is_left_of(&answer.text, &said), "invented: {:?} of {said:?}", answer.text);
            }
        }
        self.check_truncated(&bytes, text);
    }

    /// Checks that the response is an error if it breaks off before its end.
    fn check_truncated(&self, bytes: &[u8], text: &str) {
        let whole = str::from_utf8(bytes).expect("frames are text");
        let says_end = END_MARKS.iter().any(|mark| text.contains(mark)) || text.contains('\u{3}');
        let mark = END_MARKS.iter().filter_map(|mark| whole.find(mark)).min();
        let Some(mark) = mark.filter(|_| !says_end && !self.exchange.settings.tolerate_truncation) else {
            return;
        };
        let end = mark + whole[mark..].find('\n').unwrap_or_default();
        let at = end * usize::from(self.seed) / 256;
        let (answer, _) = self.exchange.run([&bytes[..at]]);
        assert!(answer.error.is_some(), "complete after {at} of {end} bytes: {whole:?}");
        assert_eq!(answer.finish, None, "{whole:?}");
    }
}

fn rules(flags: u8, more: u8, seed: u8, format: &'static Format) -> Rules {
    let on = |bit: u8| flags >> bit & 1 == 1;
    let has = |bit: u8| more >> bit & 1 == 1;
    let small = Limits { max_hold: 300, max_arguments: 300, max_depth: 5, max_calls: 3, ..Limits::default() };
    let server_calls = [ServerCalls::Auto, ServerCalls::Forward, ServerCalls::Annotate, ServerCalls::Hide];
    let reasoning = [Reasoning::Auto, Reasoning::Inline, Reasoning::Drop, Reasoning::Off];
    Rules {
        detect: if seed >> 5 & 1 == 1 { Detect::Formats(vec![format.name]) } else { Detect::Auto },
        arguments: if on(1) { ArgumentDelivery::Whole } else { ArgumentDelivery::Stream },
        tolerate_truncation: on(4),
        repair: !on(5),
        limits: if has(3) { small } else { Limits::default() },
        server_calls: server_calls[usize::from(more >> 4 & 3)],
        unknown_calls: if has(6) { UnknownCalls::Retry } else { UnknownCalls::Forward },
        invalid_arguments: if has(6) { InvalidArguments::Retry } else { InvalidArguments::Forward },
        misroute: if has(6) { Misroute::Bounce } else { Misroute::Rescue },
        enforce: if has(6) { Enforce::Retry } else { Enforce::Off },
        tool_prefix: if has(7) { "user:".to_owned() } else { String::new() },
        server_tools: vec!["web_search".to_owned()],
        reasoning: reasoning[usize::from(seed >> 6)],
        ..Rules::default()
    }
}

/// The event of a part, which is number `at`: text, unless its first byte says otherwise.
fn said(speech: Speech, part: &str, at: usize) -> Option<Value> {
    let behind = |mark: char| part.strip_prefix(mark);
    if let Some(text) = behind('\u{1}') {
        return Some(json!(["r", text]));
    }
    if let Some(call) = behind('\u{2}') {
        let (name, arguments) = call.split_once(ARGUMENTS).unwrap_or((call, "{}"));
        return call_event(speech, at, name, arguments);
    }
    if let Some(choice) = behind('\u{3}').filter(|_| !Speech::COMPLETIONS.contains(&speech)) {
        let all = deviations(speech);
        return all.get(choice.bytes().next().map_or(0, usize::from) % all.len()).cloned();
    }
    Some(json!(["m", part]))
}

/// A native call in the dialect of the upstream.
fn call_event(speech: Speech, at: usize, name: &str, arguments: &str) -> Option<Value> {
    let value = || serde_json::from_str(arguments).unwrap_or_else(|_| json!({}));
    Some(match speech {
        Speech::LumoV1 => json!(["tc", format!("{{\"name\":{},\"arguments\":{arguments}}}", json!(name))]),
        Speech::Gemini => json!(["d", {"functionCall": {"name": name, "args": value()}}]),
        Speech::OllamaChat => json!(["d", {"role": "assistant", "content": "",
            "tool_calls": [{"function": {"name": name, "arguments": value()}}]}]),
        Speech::Completions | Speech::Ollama => return None,
        _ => json!(["d", {"tool_calls": [{"index": at, "id": format!("p{at}"), "type": "function",
            "function": {"name": name, "arguments": arguments}}]}]),
    })
}
