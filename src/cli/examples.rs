//! The examples in the help and on the manual page of each command.

use clap::Command;

/// The heading of the examples in help.
pub(super) const HEADING: &str = "Examples:";

/// The examples of each command, by its words after `toolwire`.
const EXAMPLES: [(&str, &[&str]); 29] = [
    ("", &["toolwire demo", "toolwire serve http://127.0.0.1:8000/v1"]),
    (
        "serve",
        &["toolwire serve http://127.0.0.1:8000/v1 --tools hermes", "toolwire serve --config toolwire.toml"],
    ),
    (
        "check",
        &[
            "toolwire check --config toolwire.toml",
            "toolwire check --doctor https://api.example/v1 --api-key env:API_KEY",
        ],
    ),
    (
        "top",
        &["toolwire top", "toolwire top --once --server http://127.0.0.1:8787 --admin-key env:ADMIN_KEY"],
    ),
    ("keys", &["toolwire keys add team-a --requests-per-minute 60", "toolwire keys list"]),
    (
        "keys add",
        &[
            "toolwire keys add team-a",
            "toolwire keys add team-b --models 'qwen*' --tokens-per-month 1000000 --expires 2099-01-31",
        ],
    ),
    ("keys list", &["toolwire keys list --config toolwire.toml"]),
    ("keys usage", &["toolwire keys usage --admin-key env:ADMIN_KEY"]),
    ("keys revoke", &["toolwire keys revoke team-a"]),
    ("formats", &["toolwire formats", "toolwire formats --import tokenizer_config.json --name mine"]),
    ("mcp", &["toolwire mcp list --config toolwire.toml", "toolwire mcp login files --config toolwire.toml"]),
    ("mcp serve", &["toolwire mcp serve --config toolwire.toml"]),
    ("mcp login", &["toolwire mcp login files --config toolwire.toml"]),
    ("mcp logout", &["toolwire mcp logout files --config toolwire.toml"]),
    ("mcp list", &["toolwire mcp list --config toolwire.toml"]),
    ("mcp prompts", &["toolwire mcp prompts --config toolwire.toml", "toolwire mcp prompts files"]),
    ("mcp prompt", &["toolwire mcp prompt files summarize path=notes.txt"]),
    ("lumo", &["toolwire lumo status --config toolwire.toml", "toolwire lumo refresh --account lumo"]),
    ("demo", &["toolwire demo", "toolwire demo --hosted-tools --once"]),
    ("detect", &["toolwire detect answer.txt", "toolwire detect --declare get_weather < answer.txt"]),
    (
        "bench",
        &[
            "toolwire bench",
            "toolwire bench --target direct=http://127.0.0.1:8000/v1 --target toolwire=http://127.0.0.1:8787/v1",
            "toolwire bench --rate 20 --duration 10s --html report.html -- --detect off",
        ],
    ),
    (
        "calibrate",
        &[
            "toolwire calibrate --upstream http://127.0.0.1:8000/v1 --model tiny",
            "toolwire calibrate --config toolwire.toml --format native,hermes --html report.html",
        ],
    ),
    ("completions", &["toolwire completions bash > ~/.local/share/bash-completion/completions/toolwire"]),
    ("man", &["toolwire man --out ~/.local/share/man/man1"]),
    ("record", &["toolwire record --out recorded http://127.0.0.1:8000/v1"]),
    ("replay", &["toolwire replay fixtures", "toolwire replay recorded --split every --update"]),
    (
        "rewrite",
        &[
            "toolwire rewrite --from chat --detect hermes --declare get_weather upstream.sse",
            "toolwire rewrite --from lumo --to messages --request request.json --split every < upstream.sse",
        ],
    ),
    (
        "mock",
        &["toolwire mock fixtures", "toolwire mock --generate --answer call --format hermes --pace none"],
    ),
    (
        "conform",
        &[
            "toolwire conform --only 'chat/text/*'",
            "toolwire conform --target http://127.0.0.1:4000/v1 --mock-listen 127.0.0.1:8790 --html report.html",
        ],
    ),
];

/// The examples of the command with these words, each on a line.
pub(super) fn of(words: &str) -> String {
    let found = EXAMPLES.iter().find(|(name, _)| *name == words);
    found.iter().flat_map(|(_, examples)| examples.iter()).map(|example| format!("  {example}\n")).collect()
}

/// Adds the examples to the help of `command`, whose words are `words`, and of its subcommands.
pub(super) fn with_examples(command: Command, words: &str) -> Command {
    let heading = *command.get_styles().get_header();
    let names: Vec<_> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    let text = format!("{heading}{HEADING}{heading:#}\n{}", of(words).trim_end());
    names.into_iter().fold(command.after_long_help(text), |command, name| {
        let words = format!("{words} {name}");
        command.mut_subcommand(&name, |sub| with_examples(sub, words.trim_start()))
    })
}
