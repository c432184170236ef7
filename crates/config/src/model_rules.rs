//! Settings that control how a model's responses are read. Configurations and fixtures share them.

use toml::{Value, de::DeValue};

use super::{
    format::LISTED_BY,
    keys::{Keys, string, strings},
    table::Cell,
    value::{list, listed_choice},
};
use toolwire_pipeline::{
    format::KnownFormats,
    rules::{Detect, Rules},
    settings::{Field, Key, Settings, Visitor},
};

/// The keys of `[[models]]` that control how responses are read. `formats` are the ones that a key may refer to.
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
    rules.settings(keys);
}

/// The key for whether responses start inside reasoning. With `None`, this is decided for each request.
pub fn starts_in_reasoning(keys: &mut dyn Visitor, starts: &mut Option<bool>) {
    keys.key(
        Key::new(
            "starts_in_reasoning",
            "whether all responses start inside reasoning, because the chat \
             template opens it",
        )
        .or(
            "for each request: what it says, the chat template, the model's family, or what responses showed",
        ),
        Field::OptionalSwitch(starts),
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

/// Parses the `--detect` flag: `auto`, `off`, or comma-separated names.
pub fn detect_of_flag(text: &str) -> Value {
    match text {
        "auto" | "off" => string(text),
        names => strings(names.split(',').map(str::trim)),
    }
}
