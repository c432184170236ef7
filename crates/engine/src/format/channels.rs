//! Channel formats: a response is a sequence of messages, and each message's header determines its
//! destination.

use super::{
    CallBody, Calls, Format, Grammar, Key, Params, ParamsName, Place, THOUGHT_K3,
    teach::{Form, Values, taught},
};

/// How messages with headers are recognised.
#[derive(Debug)]
pub struct Channels {
    /// The openers of a header and where each is recognised.
    pub open: &'static [(&'static str, Place)],
    /// Whether the text may start inside a header whose opener is in the prompt. Applies only if the format
    /// was chosen by name.
    pub begins_in_header: bool,
    /// Markers within headers.
    pub inner: &'static [&'static str],
    /// The markers that end a header and start the message's body.
    pub body: &'static [&'static str],
    /// The markers that end a body. The next header also ends it.
    pub end: &'static [&'static str],
    /// The markers that end the body of a call. They end text or reasoning only right before a header, an end
    /// marker or the end of the text, so that the model can mention them.
    pub call_end: &'static [&'static str],
    /// Returns the body's destination, given the header (including its opener) and the body marker. `None` if
    /// the header does not belong to this format.
    pub route: for<'a> fn(&'a str, &str) -> Option<Route<'a>>,
    /// Whether the openers also occur in ordinary text. If so, only calls to declared tools count, and
    /// everything else is text.
    pub common: bool,
}

/// What a body that is not a call consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Voice {
    /// Text for the reader.
    Text,
    /// Reasoning.
    Reasoning,
}

/// The destination of a message's body.
#[derive(Debug, Clone, Copy)]
pub enum Route<'a> {
    /// Text or reasoning.
    Said(Voice),
    /// The JSON arguments of a call to this tool. If the body does not start with a brace, it is text or
    /// reasoning as given by the second field, or not a message at all if that field is `None`.
    Call(&'a str, Option<Voice>),
    /// The unchanged single argument of a call to this tool, such as code to run.
    Raw(&'a str),
    /// The arguments of a call to this tool, each in a tag.
    Params(&'a str, &'static Calls),
    /// A JSON object with a name and arguments.
    Envelope,
    /// There is no body, and other messages follow.
    Nothing,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Words<'a> {
    channel: Option<&'a str>,
    recipient: Option<&'a str>,
    constrain: Option<&'a str>,
}

impl<'a> Words<'a> {
    fn of(header: &'a str) -> Self {
        let mut words = Self::default();
        let mut rest = header;
        let mut mark = "";
        loop {
            rest = rest.trim_start();
            if let Some(marked) = [CHANNEL, CONSTRAIN].into_iter().find(|mark| rest.starts_with(mark)) {
                mark = marked;
                rest = rest.split_at(marked.len()).1;
                continue;
            }
            let end = rest.find(|c: char| c.is_whitespace() || c == '<').unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            if word.is_empty() {
                return words;
            }
            match (word.strip_prefix("to="), mark) {
                (Some(name), _) => words.recipient = Some(name),
                (None, CHANNEL) => words.channel = Some(word),
                (None, CONSTRAIN) => words.constrain = Some(word),
                (None, _) => {}
            }
            (rest, mark) = (after, "");
        }
    }

    /// Reads the header of a message. `None` if it is not one of the assistant's.
    fn of_assistant(header: &'a str) -> Option<Self> {
        let Some(rest) = header.strip_prefix(START) else { return Some(Self::of(header)) };
        let rest = rest.trim_start();
        let role =
            rest.find(|c: char| c.is_whitespace() || c == '<').map_or(rest, |end| rest.split_at(end).0);
        matches!(role, "" | "assistant").then(|| Self::of(rest))
    }

    fn tool(&self) -> Option<&'a str> {
        let tool =
            self.recipient.filter(|name| !matches!(*name, "" | "user" | "all" | "self" | "assistant"))?;
        Some(tool.split_once("functions.").map_or(tool, |(_, name)| name))
    }
}

const START: &str = "<|start|>";
const CHANNEL: &str = "<|channel|>";
const CONSTRAIN: &str = "<|constrain|>";
const MESSAGE: &str = "<|message|>";

fn harmony(header: &str) -> Option<Route<'_>> {
    let words = Words::of_assistant(header)?;
    let voice = match words.channel {
        Some("analysis") => Voice::Reasoning,
        Some("commentary" | "final") => Voice::Text,
        // Without a channel, the body is text. If there is a recipient, the header belongs to another format.
        None if words.recipient.is_none() && !header.contains(CHANNEL) => Voice::Text,
        _ => return None,
    };
    if words.constrain == Some("xml") {
        return None;
    }
    Some(words.tool().map_or(Route::Said(voice), |tool| Route::Call(tool, Some(voice))))
}

const HARMONY_CHANNELS: Channels = Channels {
    open: &[
        (CHANNEL, Place::Anywhere),
        (START, Place::Anywhere),
        ("to=", Place::MessageStart),
        (MESSAGE, Place::MessageStart),
    ],
    begins_in_header: false,
    inner: &[CHANNEL, CONSTRAIN],
    body: &[MESSAGE],
    // Beam and Muse have the same openers, so each format knows the end markers of all.
    end: &["<|end|>", "<|return|>", "<|eom|>", "<|eot|>"],
    call_end: &["<|call|>"],
    route: |header, _| harmony(header),
    common: false,
};

/// The channels of gpt-oss.
pub static HARMONY: Format = Format {
    name: "harmony",
    summary: "channels of gpt-oss: analysis is reasoning, final is text, a message to functions.NAME is a call",
    models: &["gpt-oss*", "*gpt-oss*"],
    example: r#"<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "Paris"}<|call|>"#,
    grammars: &[Grammar::Channels(HARMONY_CHANNELS)],
    teach: taught(
        "a message to functions.NAME on the commentary channel",
        Form::json(
            "<|channel|>commentary to=functions.{{name}} <|constrain|>json<|message|>{{arguments}}<|call|>",
        ),
    ),
    ..Format::DEFAULT
};

/// How a call's body is written in Beam.
static BEAM_BODY: Calls = Calls {
    sections: &[],
    open: &[START],
    naked: true,
    noise: &["<|call|>", "<|end|>", "<|return|>"],
    place: Place::Anywhere,
    body: CallBody::Params(Params {
        name: ParamsName::Text,
        key: Key::Attribute { open: "<rfl:parameter ", end: ">", key: "name", kind: "type" },
        close: "</rfl:parameter~>",
        end: &["<|call|>", "<|end|>"],
        trim: true,
        cdata: false,
        entities: false,
        json: true,
        common: false,
    }),
};

/// Beam: headers as in harmony, and a tag for each argument.
pub static BEAM: Format = Format {
    name: "beam",
    summary: "harmony's headers with xml as constrain, and a tag for every argument",
    models: &["*beam*"],
    example: "<|start|>assistant to=get_weather<|channel|>analysis <|constrain|>xml<|message|><rfl:parameter name=\"city\">\nParis\n</rfl:parameter><|call|>",
    grammars: &[Grammar::Channels(Channels {
        route: |header, _| {
            let words = Words::of_assistant(header)?;
            match words.tool() {
                Some(tool) => (words.constrain == Some("xml")).then_some(Route::Params(tool, &BEAM_BODY)),
                None => harmony(header),
            }
        },
        ..HARMONY_CHANNELS
    })],
    teach: taught(
        "a message to the tool with a tag for every argument",
        Form::each(
            "<|start|>assistant to={{name}}<|channel|>analysis <|constrain|>xml<|message|>{{arguments}}<|call|>",
            "<rfl:parameter name=\"{{key}}\">\n{{value}}\n</rfl:parameter>",
            "\n",
            Values::Text,
        ),
    ),
    ..Format::DEFAULT
};

/// Muse: a message to a tool contains tagged calls.
pub static MUSE_ATEM: Format = Format {
    name: "muse_atem",
    summary: "messages to self (reasoning), to the user, or to a tool, with calls in <atem:function_calls>",
    models: &["*muse*"],
    example: "<|start|>assistant to=get_weather<|message|><atem:function_calls>\n<atem:invoke name=\"get_weather\">\n<atem:parameter name=\"city\">Paris</atem:parameter>\n</atem:invoke>\n</atem:function_calls><|eom|>",
    grammars: &[
        Grammar::Channels(Channels {
            open: &[(START, Place::Anywhere), ("to=", Place::MessageStart), (MESSAGE, Place::MessageStart)],
            inner: &[],
            route: |header, _| {
                let words = Words::of_assistant(header)?;
                Some(match words.recipient {
                    Some("self") => Route::Said(Voice::Reasoning),
                    // The prompt has the rest of the header, so the body may be text or calls.
                    None if header.is_empty() => Route::Nothing,
                    None | Some("user" | "commentary" | "all") => Route::Said(Voice::Text),
                    Some(_) => Route::Nothing,
                })
            },
            ..HARMONY_CHANNELS
        }),
        Grammar::Calls(Calls {
            sections: &[("<atem:function_calls>", "")],
            open: &["<atem:invoke "],
            naked: true,
            noise: &["</atem:function_calls>", "<|eom|>", "<|eot|>", "<|message|>"],
            place: Place::Anywhere,
            body: CallBody::Params(Params {
                name: ParamsName::Attribute("name", ">"),
                key: Key::Attribute { open: "<atem:parameter ", end: ">", key: "name", kind: "type" },
                close: "</atem:parameter~>",
                end: &["</atem:invoke>"],
                trim: false,
                cdata: false,
                entities: false,
                json: true,
                common: false,
            }),
        }),
    ],
    teach: taught(
        "a message to the tool with a tag for every argument",
        Form::each(
            "<|start|>assistant to={{name}}<|message|><atem:function_calls>\n<atem:invoke name=\"{{name}}\">\n{{arguments}}</atem:invoke>\n</atem:function_calls><|eom|>",
            "<atem:parameter name=\"{{key}}\">{{value}}</atem:parameter>\n",
            "",
            Values::Text,
        ),
    ),
    ..Format::DEFAULT
};

/// Kimi K3.
pub static KIMI_K3: Format = Format {
    name: "kimi_k3",
    summary: "Kimi's XTML: elements of <|open|>, <|close|> and <|sep|>, a typed one for every argument",
    models: &["kimi-k3*"],
    example: r#"<|open|>tools<|sep|><|open|>call tool="get_weather" index="1"<|sep|><|open|>argument key="city" type="string"<|sep|>Paris<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>"#,
    grammars: &[
        Grammar::Channels(Channels {
            open: &[("<|open|>response<|sep|>", Place::Anywhere)],
            begins_in_header: false,
            inner: &[],
            body: &["<|open|>response<|sep|>"],
            end: &["<|close|>response<|sep|>", "<|close|>message<|sep|>"],
            call_end: &[],
            route: |_, _| Some(Route::Said(Voice::Text)),
            common: false,
        }),
        THOUGHT_K3,
        Grammar::Calls(Calls {
            sections: &[("<|open|>tools<|sep|>", "<|close|>tools<|sep|>")],
            open: &["<|open|>call "],
            naked: true,
            noise: &[],
            place: Place::Anywhere,
            body: CallBody::Params(Params {
                name: ParamsName::Attribute("tool", "<|sep|>"),
                key: Key::Attribute { open: "<|open|>argument ", end: "<|sep|>", key: "key", kind: "type" },
                close: "<|close|>argument<|sep|>",
                end: &["<|close|>call<|sep|>"],
                trim: false,
                cdata: false,
                entities: false,
                json: true,
                common: false,
            }),
        }),
    ],
    teach: taught(
        "elements of <|open|>, <|close|> and <|sep|>, one for every argument",
        Form::each(
            r#"<|open|>call tool="{{name}}" index="{{number}}"<|sep|>{{arguments}}<|close|>call<|sep|>"#,
            r#"<|open|>argument key="{{key}}" type="{{type}}"<|sep|>{{value}}<|close|>argument<|sep|>"#,
            "",
            Values::Text,
        )
        .within("<|open|>tools<|sep|>", "", "<|close|>tools<|sep|>"),
    ),
    ..Format::DEFAULT
};

/// Functionary 2. The prompt ends with the first header's opener.
pub static FUNCTIONARY_V2: Format = Format {
    name: "functionary_v2",
    summary: "<|recipient|> and <|content|>: all is text, any other recipient is a call",
    models: &["*functionary*v2*"],
    auto: false,
    example: "<|from|>assistant\n<|recipient|>get_weather\n<|content|>{\"city\": \"Paris\"}",
    grammars: &[Grammar::Channels(Channels {
        open: &[
            ("\n<|from|>assistant\n<|recipient|>", Place::Anywhere),
            ("<|from|>assistant\n<|recipient|>", Place::Anywhere),
            ("<|recipient|>", Place::Anywhere),
        ],
        begins_in_header: true,
        inner: &[],
        body: &["\n<|content|>", "<|content|>"],
        end: &["<|stop|>"],
        call_end: &[],
        route: |header, _| {
            let recipient = header.rsplit_once("<|recipient|>").map_or(header, |(_, recipient)| recipient);
            match recipient.trim() {
                "" => None,
                "all" => Some(Route::Said(Voice::Text)),
                name => Some(Route::Call(name, None)),
            }
        },
        common: false,
    })],
    teach: None,
    ..Format::DEFAULT
};

/// Functionary 3.2. The first `>>>` is part of the prompt.
pub static FUNCTIONARY_V32: Format = Format {
    name: "functionary_v32",
    summary: ">>> and a recipient on a separate line: all is text, python is code, any other tool name is a call",
    models: &["*functionary*v3.2*"],
    auto: false,
    example: "get_weather\n{\"city\": \"Paris\"}",
    grammars: &[Grammar::Channels(Channels {
        open: &[(">>>", Place::Anywhere)],
        begins_in_header: true,
        inner: &[],
        body: &["\n"],
        end: &[],
        call_end: &[],
        route: |header, _| match header.trim_start_matches('>').trim() {
            "all" => Some(Route::Said(Voice::Text)),
            "python" => Some(Route::Raw("python")),
            name => Some(Route::Call(name, None)),
        },
        common: true,
    })],
    teach: None,
    ..Format::DEFAULT
};

/// GLM-4-9B: a message consists of a call's name on a line of its own and the arguments.
pub static GLM4_9B: Format = Format {
    name: "glm4_9b",
    summary: "a declared tool's name on the message's first line, the arguments as JSON on the next",
    models: &["*glm-4-9b*", "*glm4-9b*"],
    auto: false,
    example: "get_weather\n{\"city\": \"Paris\"}",
    grammars: &[Grammar::Channels(Channels {
        open: &[],
        begins_in_header: true,
        inner: &[],
        body: &["\n"],
        end: &[],
        call_end: &[],
        route: |header, _| Some(Route::Call(header.trim(), None)),
        common: true,
    })],
    teach: None,
    ..Format::DEFAULT
};

/// Inkling. The name in the header is redundant.
pub static INKLING: Format = Format {
    name: "inkling",
    summary: "messages by kind: text, thinking, or JSON that invokes a tool",
    models: &["*inkling*"],
    example: r#"<|message_model|>get_weather<|content_invoke_tool_json|>{"name": "get_weather", "args": {"city": "Paris"}}<|end_message|>"#,
    grammars: &[Grammar::Channels(Channels {
        open: &[
            ("<|message_model|>", Place::Anywhere),
            ("<|content_text|>", Place::Anywhere),
            ("<|content_thinking|>", Place::Anywhere),
            ("<|content_invoke_tool_json|>", Place::Anywhere),
            ("<|content_invoke_tool_text|>", Place::Anywhere),
            ("<|content_tool_error|>", Place::Anywhere),
        ],
        begins_in_header: true,
        inner: &[],
        body: &[
            "<|content_text|>",
            "<|content_thinking|>",
            "<|content_invoke_tool_json|>",
            "<|content_invoke_tool_text|>",
            "<|content_tool_error|>",
        ],
        end: &["<|end_message|>", "<|content_model_end_sampling|>"],
        call_end: &[],
        route: |_, body| match body {
            "<|content_invoke_tool_json|>" => Some(Route::Envelope),
            "<|content_thinking|>" => Some(Route::Said(Voice::Reasoning)),
            _ => Some(Route::Said(Voice::Text)),
        },
        common: false,
    })],
    teach: taught(
        "a message with a JSON object that invokes a tool",
        Form::json(
            r#"<|message_model|>{{name}}<|content_invoke_tool_json|>{"name": {{json_name}}, "args": {{arguments}}}<|end_message|>"#,
        ),
    ),
    ..Format::DEFAULT
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_words_may_be_in_any_order() {
        let harmony = |header| harmony(header).map(|route| format!("{route:?}"));
        let tool = Some(format!("{:?}", Route::Call("f", Some(Voice::Text))));
        for header in [
            "<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json",
            " to=functions.f<|channel|>commentary json",
            " to=f <|channel|>commentary<|constrain|> json",
            "<|channel|> commentary to=functions.f",
        ] {
            assert_eq!(harmony(header), tool, "{header}");
        }
        assert_eq!(
            harmony("<|channel|>analysis to=self"),
            Some(format!("{:?}", Route::Said(Voice::Reasoning)))
        );
        assert_eq!(harmony(""), Some(format!("{:?}", Route::Said(Voice::Text))));
        assert_eq!(harmony(" to=f"), None);
        assert_eq!(harmony("<|channel|>musings"), None);
        assert_eq!(harmony("<|channel|>"), None);
        assert_eq!(harmony("<|channel|>commentary to=f<|constrain|>xml"), None);
        assert_eq!(harmony("<|start|>"), Some(format!("{:?}", Route::Said(Voice::Text))));
        assert_eq!(harmony("<|start|>user"), None);
        assert_eq!(harmony("<|start|>functions.f to=assistant<|channel|>commentary"), None);
    }
}
