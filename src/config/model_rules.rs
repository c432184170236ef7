//! The rules of a model's responses as settings, for configurations and for fixtures.

use toml::{Value, de::DeValue};

use super::{
    keys::{Keys, string, strings},
    table::Cell,
    value::{list, listed_choice},
};
use crate::{
    format::{self, Known},
    rules::{ArgumentDelivery, Detect, Limits, Misroute, Reasoning, Rules, ServerCalls, UnknownCalls},
    settings::{Field, Key, OneOf, Settings},
};

/// The keys of `[[models]]` that say how responses are treated. `formats` are those that may be named.
pub(crate) fn rules(keys: &mut impl Keys, rules: &mut Rules, formats: &Known) {
    keys.special(
        Key::new(
            "detect",
            "text formats that are looked for in responses: `\"auto\"`, `\"off\"`, or a list of names, which may \
             include `\"auto\"`. Auto looks for those that are safe in any text (see [formats](formats.md)), and before \
             them for those that the model is taught in `tools` or that its name (the upstream's) implies",
        ),
        &mut rules.detect,
        |cell| detect(cell, formats),
        |detect| Some(detect_value(detect)),
    );
    keys.key(
        Key::new(
            "reasoning",
            "marks of reasoning that are read in responses, whatever `detect` lists: `\"auto\"` reads `<think>` and \
             its variants, and those of the formats that are looked for. Where no calls are looked for (no tools, \
             `tool_choice` `\"none\"`, `detect = \"off\"`), channels and frames of formats are read all the same; a \
             message to a tool is then text as it was written. `\"off\"`: reasoning in text is text",
        ),
        Field::Word(&mut OneOf(&mut rules.reasoning, &REASONING)),
    );
    keys.key(
        Key::new(
            "server_calls",
            "calls that the upstream ran itself: `\"forward\"`, `\"annotate\"`, `\"hide\"`, or `\"auto\"`, which \
             forwards what the client expects and annotates the rest; see \
             [below](#calls-that-the-upstream-runs-itself)",
        ),
        Field::Word(&mut OneOf(&mut rules.server_calls, &SERVER_CALLS)),
    );
    keys.key(
        Key::new("arguments", "`\"whole\"`: a call is sent when it is complete and parsed"),
        Field::Word(&mut OneOf(&mut rules.arguments, &ARGUMENTS)),
    );
    keys.key(
        Key::new(
            "unknown_calls",
            "a call in a marked format to an undeclared name: forwarded, or left as `\"text\"`",
        ),
        Field::Word(&mut OneOf(&mut rules.unknown_calls, &UNKNOWN_CALLS)),
    );
    keys.key(
        Key::new(
            "misroute",
            "a client's tool called over the upstream's server-tool channel: the call goes to the client; \
             `\"bounce\"`: if required arguments are missing and the response has ended well, the model is asked once \
             more",
        ),
        Field::Word(&mut OneOf(&mut rules.misroute, &MISROUTE)),
    );
    keys.key(
        Key::new("repair", "repair arguments that are not quite JSON"),
        Field::Switch(&mut rules.repair),
    );
    keys.key(
        Key::new(
            "tool_prefix",
            "put before tools' names where the model is taught them in text, and removed from its calls in whatever \
             form they come. `\"user:\"` at a Lumo upstream, where taught names must not look like Lumo's own tools; \
             otherwise none",
        )
        .or("`\"user:\"` or `\"\"`"),
        Field::AnyText(&mut rules.tool_prefix),
    );
}

/// Whether responses start inside reasoning. `None`: the model's name decides.
pub(crate) fn starts_in_reasoning(keys: &mut dyn Settings, starts: &mut Option<bool>) {
    keys.key(
        Key::new(
            "starts_in_reasoning",
            "the model's template opens its reasoning, so that responses start inside it and only the closer \
             (`</think>` and its variants) is seen. Known of DeepSeek-R1, QwQ, Qwen3-Thinking, MiniMax-M2, \
             Olmo-3-Think and ERNIE-4.5-Thinking; an upstream that sends reasoning separately has already removed it \
             from the text, and `false` says that it drops it",
        )
        .or("by the model's name"),
        Field::OptionalSwitch(starts),
    );
}

/// Whether a stream without an end mark is complete: a key of the upstream.
pub(crate) fn tolerate_truncation(keys: &mut dyn Settings, tolerate: &mut bool) {
    keys.key(
        Key::new(
            "tolerate_truncation",
            "a stream that closes without its end mark has ended well; otherwise it is reported as truncated",
        ),
        Field::Switch(tolerate),
    );
}

/// The keys of `[limits]` that limit one response.
pub(crate) fn limits(keys: &mut dyn Settings, limits: &mut Limits) {
    keys.key(
        Key::new("max_frame", "one upstream event; beyond it the response fails"),
        Field::Size(&mut limits.max_frame),
    );
    keys.key(
        Key::new("max_arguments", "one call's arguments; beyond it the response fails. Also a call's id"),
        Field::Size(&mut limits.max_arguments),
    );
    keys.key(
        Key::new("max_calls", "calls of one response; beyond it the response fails"),
        Field::Count(&mut limits.max_calls, 1),
    );
    keys.key(
        Key::new(
            "max_hold",
            "text held back while it may be the start of a call; beyond it, it is text. Also an argument whose type \
             shows only at its end; beyond it, it is a string",
        ),
        Field::Size(&mut limits.max_hold),
    );
    keys.key(
        Key::new("max_depth", "nesting of values in calls; beyond it, text or a call that is cut off"),
        Field::Count(&mut limits.max_depth, 1),
    );
    keys.key(
        Key::new(
            "max_name",
            "the name of a tool that is not declared; beyond it, the call is text, and a native call fails the \
             response",
        ),
        Field::Size(&mut limits.max_name),
    );
    keys.key(
        Key::new(
            "max_markup",
            "one piece of markup in calls: a header, an opening tag, a name, a key; beyond it, text or a call that is \
             cut off",
        ),
        Field::Size(&mut limits.max_markup),
    );
    keys.key(
        Key::new(
            "max_answer",
            "a response that is not streamed and so has to be kept whole; beyond it the response fails",
        ),
        Field::Size(&mut limits.max_answer),
    );
}

const REASONING: [(&str, Reasoning); 2] = [("auto", Reasoning::Auto), ("off", Reasoning::Off)];

const SERVER_CALLS: [(&str, ServerCalls); 4] = [
    ("auto", ServerCalls::Auto),
    ("forward", ServerCalls::Forward),
    ("annotate", ServerCalls::Annotate),
    ("hide", ServerCalls::Hide),
];

const MISROUTE: [(&str, Misroute); 2] = [("rescue", Misroute::Rescue), ("bounce", Misroute::Bounce)];

const ARGUMENTS: [(&str, ArgumentDelivery); 2] =
    [("stream", ArgumentDelivery::Stream), ("whole", ArgumentDelivery::Whole)];

const UNKNOWN_CALLS: [(&str, UnknownCalls); 2] =
    [("forward", UnknownCalls::Forward), ("text", UnknownCalls::Text)];

fn detect(cell: Cell<'_>, known: &Known) -> Option<Detect> {
    let names: Vec<_> = known.all().map(|format| format.name).collect();
    match cell.value {
        DeValue::Array(_) => {
            let mut choices: Vec<_> = names.into_iter().map(|name| (name, Some(name))).collect();
            choices.push(("auto", None));
            let chosen = list(listed_choice(&choices, Some(format::LISTED_BY)))(cell)?;
            let auto = chosen.contains(&None);
            let names = chosen.into_iter().flatten().collect();
            Some(if auto { Detect::AutoAnd(names) } else { Detect::Formats(names) })
        }
        _ => {
            let mut choices = vec![("auto", Detect::Auto), ("off", Detect::Off)];
            choices.extend(names.into_iter().map(|name| (name, Detect::Formats(vec![name]))));
            listed_choice(&choices, Some(format::LISTED_BY))(cell)
        }
    }
}

fn detect_value(detect: &Detect) -> Value {
    match detect {
        Detect::Auto => string("auto"),
        Detect::Off => string("off"),
        Detect::AutoAnd(names) => strings(std::iter::once("auto").chain(names.iter().copied())),
        Detect::Formats(names) => strings(names.iter().copied()),
    }
}

/// The value of `detect` that a flag's text means: `auto`, `off`, or names with commas between.
pub(crate) fn detect_of_flag(text: &str) -> Value {
    match text {
        "auto" | "off" => string(text),
        names => strings(names.split(',').map(str::trim)),
    }
}
