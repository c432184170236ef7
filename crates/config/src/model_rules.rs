//! Settings for the rules of a model's responses, used by configurations and fixtures.

use toml::{Value, de::DeValue};

use super::{
    format::LISTED_BY,
    keys::{Keys, string, strings},
    table::Cell,
    value::{list, listed_choice},
};
use toolwire_pipeline::{
    format::KnownFormats,
    rules::{Detect, Limits, Rules},
    settings::{Field, Key, Settings},
};

/// The keys of `[[models]]` for handling responses. `formats` are those that can be named.
pub fn rules(keys: &mut impl Keys, rules: &mut Rules, formats: &KnownFormats) {
    keys.special(
        Key::new(
            "detect",
            "text formats to look for in responses: `\"off\"`, a list of names, or `\"auto\"`: those that are \
             safe in any text, and those that `tools` or the model's name implies",
        ),
        &mut rules.detect,
        |cell| detect(cell, formats),
        |detect| Some(detect_value(detect)),
    );
    keys.key(
        Key::new(
            "reasoning",
            "how clients get the model's [reasoning](#reasoning): `\"auto\"`, `\"reasoning_content\"`, \
             `\"reasoning\"`, `\"inline\"`, `\"drop\"` or `\"off\"`",
        ),
        Field::Word(&mut rules.reasoning),
    );
    call_rules(keys, rules);
}

/// The keys for handling calls.
fn call_rules(keys: &mut impl Keys, rules: &mut Rules) {
    keys.key(
        Key::new(
            "server_calls",
            "what clients see of [calls that the upstream ran itself](#calls-that-the-upstream-runs-itself)",
        ),
        Field::Word(&mut rules.server_calls),
    );
    keys.key(
        Key::new(
            "arguments",
            "`\"stream\"` sends arguments as they arrive, `\"whole\"` a call once it is complete and parsed",
        ),
        Field::Word(&mut rules.arguments),
    );
    keys.key(
        Key::new(
            "unknown_calls",
            "a call to an undeclared name in a format with markers: `\"forward\"`, `\"text\"`, or `\"retry\"` to \
             ask [again](#asking-the-model-again), also after native calls",
        ),
        Field::Word(&mut rules.unknown_calls),
    );
    keys.key(
        Key::new(
            "invalid_arguments",
            "a call whose arguments break the schema of its tool: `\"forward\"`, or `\"retry\"` to ask \
             [again](#asking-the-model-again)",
        ),
        Field::Word(&mut rules.invalid_arguments),
    );
    keys.key(
        Key::new(
            "enforce",
            "how required calls and `strict` tools are [enforced](#enforcing-calls): `\"schema\"`, \
             `\"structural_tag\"`, `\"grammar\"`, `\"prefill\"`, or `\"auto\"`, the best of these; `\"retry\"` \
             asks [again](#asking-the-model-again) if a required call is missing; `\"off\"` only warns",
        ),
        Field::Word(&mut rules.enforce),
    );
    keys.key(
        Key::new(
            "misroute",
            "a client tool that the model calls over the upstream's server-tool channel: `\"rescue\"` forwards \
             the call, `\"bounce\"` asks [again](#asking-the-model-again) if required arguments are missing",
        ),
        Field::Word(&mut rules.misroute),
    );
    keys.key(
        Key::new("repair", "repair arguments that are not quite JSON"),
        Field::Switch(&mut rules.repair),
    );
    keys.key(
        Key::new(
            "tool_prefix",
            "prefix of taught tool names, removed from calls: `\"user:\"` for Lumo, which has tools of its own",
        )
        .or("`\"user:\"` or `\"\"`"),
        Field::AnyText(&mut rules.tool_prefix),
    );
}

/// Whether responses start inside reasoning. `None` lets the model's name decide.
pub fn starts_in_reasoning(keys: &mut dyn Settings, starts: &mut Option<bool>) {
    keys.key(
        Key::new(
            "starts_in_reasoning",
            "whether responses start inside reasoning, as those of DeepSeek-R1, QwQ, Qwen3-Thinking, MiniMax-M2, \
             Olmo-3-Think and ERNIE-4.5-Thinking",
        )
        .or("by the model's name"),
        Field::OptionalSwitch(starts),
    );
}

/// Whether a stream without an end mark is complete: a key of the upstream.
pub fn tolerate_truncation(keys: &mut dyn Settings, tolerate: &mut bool) {
    keys.key(
        Key::new("tolerate_truncation", "accept a stream that closes without its end mark as complete"),
        Field::Switch(tolerate),
    );
}

/// The keys of `[limits]` that limit one response.
pub fn limits(keys: &mut dyn Settings, limits: &mut Limits) {
    keys.key(
        Key::new("max_frame", "one upstream event; a larger one fails the response"),
        Field::Size(&mut limits.max_frame),
    );
    keys.key(
        Key::new("max_arguments", "the arguments of one call; larger ones fail the response"),
        Field::Size(&mut limits.max_arguments),
    );
    keys.key(
        Key::new("max_calls", "calls of one response; more fail the response"),
        Field::Count(&mut limits.max_calls, 1),
    );
    keys.key(
        Key::new(
            "max_hold",
            "text that may be the start of a call, or an argument whose type is not known yet; more is released \
             as text",
        ),
        Field::Size(&mut limits.max_hold),
    );
    keys.key(
        Key::new("max_depth", "nesting of values in calls; deeper ones make it text or a truncated call"),
        Field::Count(&mut limits.max_depth, 1),
    );
    keys.key(
        Key::new(
            "max_name",
            "the name of an undeclared tool; a call in text with a longer one is text, a native one fails the \
             response",
        ),
        Field::Size(&mut limits.max_name),
    );
    keys.key(
        Key::new(
            "max_markup",
            "one header, opening tag, name or key in calls; longer ones make it text or a truncated call",
        ),
        Field::Size(&mut limits.max_markup),
    );
    keys.key(
        Key::new("max_answer", "a response that is not streamed; a larger one fails"),
        Field::Size(&mut limits.max_answer),
    );
    keys.key(
        Key::new(
            "max_hops",
            "upstream requests for one response, where the model is [asked again](#asking-the-model-again)",
        ),
        Field::Count(&mut limits.max_hops, 1),
    );
}

fn detect(cell: Cell<'_>, known: &KnownFormats) -> Option<Detect> {
    let names: Vec<_> = known.all().map(|format| format.name).collect();
    match cell.value {
        DeValue::Array(_) => {
            let mut choices: Vec<_> = names.into_iter().map(|name| (name, Some(name))).collect();
            choices.push(("auto", None));
            let chosen = list(listed_choice(&choices, Some(LISTED_BY)))(cell)?;
            let auto = chosen.contains(&None);
            let names = chosen.into_iter().flatten().collect();
            Some(if auto { Detect::AutoAnd(names) } else { Detect::Formats(names) })
        }
        _ => {
            let mut choices = vec![("auto", Detect::Auto), ("off", Detect::Off)];
            choices.extend(names.into_iter().map(|name| (name, Detect::Formats(vec![name]))));
            listed_choice(&choices, Some(LISTED_BY))(cell)
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

/// Parses a flag's text to a value of `detect`: `auto`, `off`, or names separated by commas.
pub fn detect_of_flag(text: &str) -> Value {
    match text {
        "auto" | "off" => string(text),
        names => strings(names.split(',').map(str::trim)),
    }
}
