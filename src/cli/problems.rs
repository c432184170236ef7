//! Shows the problems of a configuration on stderr.

use std::{fs, io, process::ExitCode};

use super::{
    WRONG_INPUT,
    output::{label, tip},
};
use toolwire_config::{Place, Problem, Problems, Severity};
use toolwire_gateway::observe::{
    terminal::{self, painted},
    untrusted_text::{clip, escaped},
};
use toolwire_pipeline::settings::names_secret;

/// Files larger than this are not read again to show a line of them.
const MAX_FILE: u64 = 8 << 20;

/// Maximum length in bytes of a line that is shown.
const MAX_LINE: usize = 200;

/// Reports the problems of a configuration, and returns the exit status for wrong input.
pub(super) fn refused(Problems(problems): &Problems) -> ExitCode {
    say(problems);
    WRONG_INPUT.into()
}

/// Reports problems, on a terminal with the lines of the file that they are in.
pub(super) fn say(problems: &[Problem]) {
    let stderr = io::stderr();
    let (is_coloured, is_terminal) = (terminal::is_coloured(&stderr), io::IsTerminal::is_terminal(&stderr));
    for problem in problems {
        let (word, message) = (problem.severity.to_string(), escaped(&problem.message).into_owned());
        let label = label(&word, is_coloured);
        match &problem.place {
            Place::Nowhere => eprintln!("{label}: {message}"),
            Place::Flag(name) => eprintln!("{label}: {name}: {message}"),
            place @ (Place::File { .. } | Place::Overlay { .. }) => {
                eprintln!("{}: {label}: {message}", painted("1", &escaped(&place.to_string()), is_coloured));
            }
        }
        if is_terminal && let Some(excerpt) = excerpt(&problem.place, is_coloured) {
            eprintln!("{excerpt}");
        }
    }
    let errors = || problems.iter().filter(|problem| problem.severity == Severity::Error);
    tip(errors().find_map(Problem::advice));
}

/// The line of the file that a problem is in, with a mark below the place.
fn excerpt(place: &Place, is_coloured: bool) -> Option<String> {
    let Place::File { path, line, column } = place else { return None };
    let metadata = fs::metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > MAX_FILE {
        return None;
    }
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim_start_matches('\u{feff}').lines().nth(line.checked_sub(1)?)?;
    let shown = without_secrets(text)?;
    let before = shown.chars().take(column - 1).map(|char| if char == '\t' { '\t' } else { ' ' });
    let before: String = before.collect();
    let (number, margin) = (line.to_string(), " ".repeat(line.to_string().len()));
    let bar = painted("2", "|", is_coloured);
    let mark = match shown.len() > MAX_LINE || before.chars().count() + 1 < *column {
        true => String::new(),
        false => format!("\n  {margin} {bar} {before}{}", painted("1;31", "^", is_coloured)),
    };
    Some(format!("  {number} {bar} {}{mark}", clip(&escaped(&shown), MAX_LINE)))
}

/// The line without the values that may be secret. `None` if it does not say what its values are.
fn without_secrets(line: &str) -> Option<String> {
    let is_bare = |char: char| char.is_ascii_alphanumeric() || "_-. []".contains(char);
    let Some((key, value)) = line.split_once('=') else {
        let is_header = line.trim_start().starts_with('[') && line.chars().all(is_bare);
        return is_header.then(|| line.to_owned());
    };
    if !key.chars().all(is_bare) {
        return None;
    }
    // The keys of a table on the same line count too, and so do addresses with a password.
    let is_secret = names_secret(line) || line.to_ascii_lowercase().contains("hash") || value.contains('@');
    Some(if is_secret { format!("{key}= ********") } else { line.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        for (line, shown) in [
            ("dialect = \"anthropic\"", Some("dialect = \"anthropic\"")),
            ("api_key = \"sk-1", Some("api_key = ********")),
            ("  key=\"sk-1\"", Some("  key= ********")),
            ("headers = { authorization = \"Bearer sk-1\" }", Some("headers = ********")),
            ("base_url = \"http://me:sk-1@host\"", Some("base_url = ********")),
            ("[[upstreams]]", Some("[[upstreams]]")),
            ("  \"sk-1==\",", None),
            ("  \"sk-1\",", None),
            ("c2stMQ", None),
            ("[\"sk-1\"]", None),
            ("", None),
        ] {
            assert_eq!(without_secrets(line).as_deref(), shown, "{line}");
        }
    }
}
