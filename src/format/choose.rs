//! Which formats are looked for: those of a model, told by its name, and those that are safe to look for in any text.

use super::{ALL, Format, Own};

/// The formats that the model called `name` is known to write: first those of `own`, then the built-in ones; each the
/// surer, the longer the glob that fits. Names come with a vendor before a slash or without one, in any case.
pub fn for_model(name: &str, own: &[Own]) -> Vec<&'static Format> {
    let plain = name.rsplit('/').next().unwrap_or(name);
    let fits = |glob: &&&str| matches(glob, plain) || (plain != name && matches(glob, name));
    let sure = |format: &Format| format.models.iter().filter(fits).map(|glob| glob.len()).max();
    let surest_first = |formats: &[&'static Format]| {
        let mut fitting: Vec<_> =
            formats.iter().filter_map(|format| Some((sure(format)?, *format))).collect();
        fitting.sort_by_key(|(sure, _)| std::cmp::Reverse(*sure));
        fitting.into_iter().map(|(_, format)| format)
    };
    let own: Vec<_> = own.iter().map(|own| own.format).collect();
    surest_first(&own).chain(surest_first(ALL)).collect()
}

/// Models whose template opens their reasoning, so that an answer starts inside it (formats 1.4). Only those that
/// always think: where it depends on the request, the configuration must say.
const PROMPT_OPENS_REASONING: &[&str] =
    &["deepseek-r1*", "qwq*", "qwen3*thinking*", "minimax-m2*", "olmo-3*think*", "ernie-4.5*thinking*"];

/// The model called `name` is known to be prompted inside its reasoning.
pub fn prompt_opens_reasoning(name: &str) -> bool {
    let plain = name.rsplit('/').next().unwrap_or(name);
    PROMPT_OPENS_REASONING.iter().any(|glob| matches(glob, name) || matches(glob, plain))
}

/// All formats with [`Format::auto`], behind `first`.
pub fn auto_behind(first: &[&'static Format]) -> Vec<&'static Format> {
    let others = ALL.iter().copied().filter(|format| format.auto && !first.contains(format));
    first.iter().copied().chain(others).collect()
}

/// Whether `text` fits `glob`, in which `*` stands for any characters. ASCII letters fit in any case.
///
/// Each request asks this of some two hundred globs, most of which fail at their first byte.
fn matches(glob: &str, text: &str) -> bool {
    let (glob, text) = (glob.as_bytes(), text.as_bytes());
    let (mut at, mut in_glob) = (0, 0);
    // Behind the last `*`: where its text ends if it takes one byte more, and where the glob goes on.
    let mut again = None;
    while let Some(byte) = text.get(at) {
        match glob.get(in_glob) {
            Some(b'*') => {
                in_glob += 1;
                again = Some((at, in_glob));
            }
            Some(wanted) if wanted.eq_ignore_ascii_case(byte) => {
                at += 1;
                in_glob += 1;
            }
            _ => {
                let Some((taken, behind)) = &mut again else { return false };
                *taken += 1;
                (at, in_glob) = (*taken, *behind);
            }
        }
    }
    glob.get(in_glob..).is_some_and(|rest| rest.iter().all(|byte| *byte == b'*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(model: &str) -> Vec<&'static str> {
        for_model(model, &[]).into_iter().map(|format| format.name).collect()
    }

    #[test]
    fn globs_fit_whole_names() {
        for (glob, text, fits) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "Ab", true),
            ("a*", "ba", false),
            ("*", "", true),
            ("*b*", "abc", true),
            ("*b", "abb", true),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "a1c2b", false),
            ("*é", "caf\u{e9}", true),
        ] {
            assert_eq!(matches(glob, text), fits, "{glob} {text}");
        }
    }

    #[test]
    fn a_models_name_tells_its_formats() {
        assert_eq!(names("microsoft/Phi-4-mini-instruct"), ["phi4_mini"]);
        assert_eq!(names("phi4-mini:3.8b"), ["phi4_mini"]);
        assert_eq!(names("swiss-ai/Apertus-8B-Instruct-2509"), ["apertus"]);
        assert_eq!(names("gpt-4o"), [""; 0]);
        assert!(names("Qwen2.5-Coder-7B").starts_with(&["bare"]), "{:?}", names("Qwen2.5-Coder-7B"));
    }

    #[test]
    fn a_models_name_tells_whether_it_starts_in_reasoning() {
        for name in
            ["deepseek-ai/DeepSeek-R1-0528", "QwQ-32B", "Qwen/Qwen3-30B-A3B-Thinking-2507", "MiniMax-M2"]
        {
            assert!(prompt_opens_reasoning(name), "{name}");
        }
        for name in ["deepseek-v3.1", "Qwen3-Coder-30B", "Qwen3-32B", "MiniMax-M1", "gpt-4o", "glm-4.5"] {
            assert!(!prompt_opens_reasoning(name), "{name}");
        }
    }

    #[test]
    fn auto_has_each_format_once() {
        let first = for_model("phi-4-mini", &[]);
        let all = auto_behind(&first);
        assert_eq!(all.first().map(|format| format.name), Some("phi4_mini"));
        for (at, format) in all.iter().enumerate() {
            assert!(all.iter().skip(at + 1).all(|other| other != format), "{} twice", format.name);
        }
    }
}
