//! Tests what the program says about mistakes in its command line and its configuration.

use std::io::Read;

use crate::{
    cli::{desk, good},
    support::{run, terminal, toolwire},
};

#[test]
fn unknown_log_levels_are_refused() {
    for (filter, hint) in [
        ("warning", "there is no level `warning`; did you mean `warn`? also known: `error`, `info`,"),
        ("verbose", "did you mean `debug`?"),
        ("loud", "there is no level `loud`; known here: `error`, `warn`, `info`, `debug`, `trace`, `off`"),
        ("info,toolwire=loud", "there is no level `loud`"),
        ("toolwire", "there is no level `toolwire`"),
        ("info,[span{a=\"b,c\"}]=loud", "there is no level `loud`"),
    ] {
        for command in [toolwire(&["formats", "--log-level", filter]), {
            let mut command = toolwire(&["formats"]);
            command.env("TOOLWIRE_LOG", filter);
            command
        }] {
            let (status, stdout, stderr) = run(&mut { command });
            assert_eq!((status, stdout.as_str()), (2, ""), "{filter}: {stderr}");
            assert!(
                stderr.starts_with("error: --log-level (TOOLWIRE_LOG): ") && stderr.contains(hint),
                "{stderr}"
            );
        }
    }
    for filter in [
        "WARN",
        "off",
        "info,toolwire=debug,hyper=warn",
        "toolwire::access=trace",
        "toolwire::access",
        "[span{a=b}]",
        "info,",
        "3",
    ] {
        assert_eq!(run(&mut toolwire(&["formats", "--log-level", filter])).0, 0, "{filter}");
    }
}

#[test]
fn hints_know_the_words_of_others() {
    let serve = ["serve", "--upstream", "http://127.0.0.1:1/v1", "--dialect"];
    let (_desk, file) = desk(&good().replace("base_url", "url").replace("\"chat\"", "\"claude\""));
    for (arguments, hint) in [
        ([&serve[..], &["anthropic"]].concat(), "did you mean `messages`?"),
        ([&serve[..], &["openai"]].concat(), "did you mean `chat`?"),
        (vec!["check", "--config", file.to_str().unwrap()], "unknown key `url`; did you mean `base_url`?"),
        (vec!["doctor"], "'check --doctor'"),
        (vec!["rewrite", "--from", "google"], "did you mean `gemini`?"),
        (vec!["rewrite", "--from", "chat", "--to", "claude"], "did you mean `messages`?"),
        (vec!["mock", "--generate", "--dialect", "claude"], "did you mean `messages`?"),
        (vec!["conform", "--client", "anthropic"], "did you mean `messages`?"),
        (vec!["conform", "--upstream-dialect", "openai"], "did you mean `chat`?"),
        (vec!["serve", "--key", "x"], "'--api-key'"),
        (vec!["serve", "--url", "x"], "'--upstream'"),
        (vec!["top", "--url", "x"], "'--server'"),
        (vec!["conform", "--gateway", "x"], "'--target'"),
        (vec!["demo", "--port", "1"], "'--listen'"),
        (vec!["conform", "--formats=all"], "'--format'"),
        (vec!["serve", "--host", "x"], "'--listen'"),
        (vec!["mock"], "`--generate` serves generated responses"),
        (vec!["bench", "--dialect", "chat"], "'--client'"),
        (vec!["lumo", "status", "--upstream", "x"], "'--account'"),
    ] {
        let (status, _, stderr) = run(&mut toolwire(&arguments));
        assert!(status == 2 && stderr.contains(hint), "{arguments:?}: {stderr}");
    }
}

#[test]
fn advice_fits_the_fault() {
    let (_desk, file) = desk(&good().replace("api_key = ", "api_key = \"env:UNSET\"#"));
    let file = file.to_str().unwrap();
    for (arguments, tip) in [
        (&["serve"][..], Some("toolwire serve http://127.0.0.1:8000/v1")),
        (&["check", "--config", "no/such/file"], Some("`--config FILE` names another file")),
        (&["check", "http://127.0.0.1:1/v1", "--dialect", "chat", "--listen", "nonsense"], None),
        (&["check", "http://127.0.0.1:1/v1", "--dialect", "chat", "--tools", "nonsense"], None),
        (&["check", "--config", file], None),
    ] {
        let (status, _, stderr) = run(&mut toolwire(arguments));
        assert_eq!(status, 2, "{arguments:?}: {stderr}");
        let tips: Vec<_> = stderr.lines().filter_map(|line| line.strip_prefix("  tip: ")).collect();
        match tip {
            Some(tip) => assert!(tips.len() == 1 && tips[0].contains(tip), "{stderr}"),
            None => assert!(tips.is_empty() && stderr.contains("error: "), "{stderr}"),
        }
    }
}

#[test]
fn errors_of_a_file_show_the_line_on_a_terminal() {
    let text = good().replace("listen", "lisen").replace("[[models]]", "[[models]]\napi_key = 3 # sk-unseen");
    let (_desk, file) = desk(&text);
    for (name, value) in [("TERM", "xterm"), ("NO_COLOR", "1"), ("TERM", "dumb")] {
        let (mut person, program) = terminal();
        let mut child = toolwire(&["check", "--config"])
            .arg(&file)
            .env_remove("NO_COLOR")
            .env("TERM", "xterm")
            .env(name, value)
            .stdout(std::process::Stdio::null())
            .stderr(program)
            .spawn()
            .unwrap();
        // Reading fails once the program has closed its end.
        let mut told = Vec::new();
        let _ = person.read_to_end(&mut told);
        assert_eq!(child.wait().unwrap().code(), Some(2));
        let told = String::from_utf8(told).unwrap();
        assert_eq!(told.contains("\x1b[1;31merror\x1b[0m: unknown key `lisen`"), value == "xterm", "{told}");
        assert_eq!(told.contains('\x1b'), value == "xterm", "{told}");
        let plain = told.replace("\x1b[2m", "").replace("\x1b[1;31m", "").replace("\x1b[0m", "");
        assert!(plain.contains("  2 | lisen = ") && plain.contains("\n    | ^"), "{plain}");
        assert!(plain.contains(" | api_key = ********") && !plain.contains("sk-unseen"), "{plain}");
    }
}

#[test]
fn keys_are_described_without_markdown() {
    let (status, stdout, _) = run(&mut toolwire(&["check", "--keys"]));
    assert_eq!(status, 0);
    assert!(!stdout.contains("](") && stdout.contains(" (docs/"), "{stdout}");
}
