//! Checks that the program's flags match the documentation.

use std::{collections::BTreeMap, fs, path::Path};

use crate::support::{run, toolwire};

const COMMANDS: [&str; 26] = [
    "serve",
    "check",
    "top",
    "keys add",
    "keys list",
    "keys usage",
    "keys revoke",
    "mcp serve",
    "mcp login",
    "mcp logout",
    "mcp list",
    "mcp prompts",
    "mcp prompt",
    "lumo",
    "demo",
    "detect",
    "formats",
    "bench",
    "calibrate",
    "completions",
    "man",
    "record",
    "replay",
    "rewrite",
    "mock",
    "conform",
];

const PAGES: [&str; 9] = [
    "README.md",
    "docs/bench.md",
    "docs/calibrate.md",
    "docs/commands.md",
    "docs/configuration.md",
    "docs/conformance.md",
    "docs/install.md",
    "docs/operations.md",
    "fixtures/README.md",
];

#[derive(Debug, Default)]
struct Flag {
    /// The flag with its value, such as `--listen <ADDR>`.
    written: String,
    environment: String,
    default: String,
    /// The values without a description.
    values: String,
    about: Vec<String>,
}

impl Flag {
    /// The value, such as `<ADDR>`. An optional one counts as none.
    fn value(&self) -> String {
        self.written.split_once(" <").map_or(String::new(), |(_, value)| format!("<{value}"))
    }

    /// What the flag means, without the details of one command.
    fn meaning(&self) -> String {
        let about = self.about.join(" ");
        let ends = [": ", "; ", ", ", " [", " (", ". "].iter().filter_map(|end| about.find(end)).min();
        about.get(..ends.unwrap_or(about.len())).unwrap().to_owned()
    }
}

type Flags = BTreeMap<String, Flag>;

struct Help {
    about: String,
    usage: String,
    flags: Vec<(String, Flag)>,
    examples: Vec<String>,
}

fn page(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// Parses the help of `command`. A line with a flag is indented less than the description of a flag.
fn help_of(command: &str) -> Help {
    let words: Vec<_> = command.split(' ').chain(["--help"]).collect();
    let (status, text, _) = run(&mut toolwire(&words));
    assert_eq!(status, 0);
    let (text, examples) = text.split_once("\nExamples:\n").unwrap();
    let examples = examples.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty());
    let (about, usage, flags) = Default::default();
    let mut help = Help { about, usage, flags, examples: examples.collect() };
    let mut is_list = false;
    for line in text.lines() {
        let text = line.trim();
        let indent = line.len() - line.trim_start().len();
        if let Some(usage) = text.strip_prefix("Usage: ") {
            help.usage = usage.to_owned();
        } else if (1..8).contains(&indent) {
            let long = text.split([' ', '[']).find(|word| word.starts_with("--"));
            let flag = Flag { written: text.to_owned(), ..Flag::default() };
            help.flags.push((long.unwrap_or(text).to_owned(), flag));
        } else if indent == 0 && help.usage.is_empty() {
            help.about += text;
        } else if let Some((_, flag)) = help.flags.last_mut().filter(|_| indent > 0) {
            let inside = |prefix| Some(text.strip_prefix(prefix)?.trim_end_matches([']', '=']).to_owned());
            if let Some(values) = text.strip_prefix("[possible values: ").or(is_list.then_some(text)) {
                is_list = !text.ends_with(']');
                let space = if flag.values.is_empty() { "" } else { " " };
                flag.values += &format!("{space}{}", values.trim_end_matches(']'));
            } else if let Some(variable) = inside("[env: ") {
                flag.environment = variable;
            } else if let Some(default) =
                inside("[default: ").filter(|it| text.ends_with(']') && !it.contains(' '))
            {
                flag.default = default;
            } else if let Some(value) = text.strip_prefix("- ") {
                let (name, about) = value.split_once(':').unwrap();
                flag.about.push(format!("`{name}`: {}.", about.trim()));
            } else if text == "Possible values:" {
                flag.about.iter_mut().last().unwrap().push('.');
            } else if !text.is_empty() {
                flag.about.push(text.to_owned());
            }
        }
    }
    help
}

const GLOBAL: [&str; 4] = ["--log-format", "--log-level", "--help", "--version"];

fn commands_page() -> String {
    let mut page = "# Commands\n\n<!-- Generated from the help of the program: \
        TOOLWIRE_WRITE=1 cargo test --test commands flags:: -->\n\n\
        `toolwire COMMAND --help` describes the same. The exit status is 0 for success, 1 if the work failed or a \
        check found a difference,\nand 2 for an invalid command line or configuration. A flag overrides its \
        environment variable, which overrides the configuration file.\n"
        .to_owned();
    let mut global = Vec::new();
    let serve = flags_of("serve");
    for command in COMMANDS {
        let Help { about, usage, flags, examples } = help_of(command);
        let (every, own): (Vec<_>, Vec<_>) =
            flags.into_iter().partition(|(name, _)| GLOBAL.contains(&name.as_str()));
        if every.len() == GLOBAL.len() {
            global = every;
        }
        let examples: String = examples.iter().map(|example| format!("    {example}\n")).collect();
        page += &format!("\n## `{command}`\n\n{about}.\n\n    {usage}\n\nExamples:\n\n{examples}\n");
        // `check` and `record` read the same configuration as `serve`.
        let (shared, own): (Vec<_>, Vec<_>) =
            own.into_iter().partition(|(name, _)| command != "serve" && serve.contains_key(name));
        let has_all = shared.len() + GLOBAL.len() == serve.len();
        let shown = if has_all { own } else { own.into_iter().chain(shared).collect() };
        page += &table(&shown);
        if has_all {
            page += "\nIt also has the flags of `serve`.\n";
        }
    }
    let rows = meanings().into_iter().filter(|(_, found)| found.len() > 1).map(|(name, found)| {
        let commands: Vec<_> = found.iter().map(|(command, _)| format!("`{command}`")).collect();
        let (_, flag) = &found[0];
        format!("| `{name}` | {} | {} |\n", flag.meaning(), commands.join(", "))
    });
    page + &format!(
        "\n## All commands\n\n{}\n## Flags of several commands\n\nA flag means the same wherever it is; \
         `check`, `record` and `mcp serve` have those of `serve`.\n\n| flag | meaning | commands |\n|---|---|---|\n{}",
        table(&global),
        rows.collect::<String>()
    )
}

/// Each flag with the commands that have it, except those that have all flags of `serve`.
fn meanings() -> BTreeMap<String, Vec<(&'static str, Flag)>> {
    let mut meanings: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for command in COMMANDS.into_iter().filter(|command| !["check", "record", "mcp serve"].contains(command))
    {
        let flags = help_of(command).flags.into_iter().filter(|(name, _)| name.starts_with("--"));
        for (name, flag) in flags.filter(|(name, _)| !GLOBAL.contains(&name.as_str())) {
            meanings.entry(name).or_default().push((command, flag));
        }
    }
    meanings
}

fn table(flags: &[(String, Flag)]) -> String {
    let code = |text: &str| format!("`{}`", text.replace('|', "\\|"));
    let rows = flags.iter().map(|(_, flag)| {
        let mut about = flag.about.join(" ").replace('|', "\\|").replace('<', "&lt;");
        for (name, value) in
            [("values", &flag.values), ("env", &flag.environment), ("default", &flag.default)]
        {
            if !value.is_empty() {
                about.push_str(&format!(" [{name}: {}]", code(value)));
            }
        }
        format!("| {} | {about} |\n", code(&flag.written))
    });
    "| flag | |\n|---|---|\n".to_owned() + &rows.collect::<String>()
}

fn flags_of(command: &str) -> Flags {
    help_of(command).flags.into_iter().collect()
}

fn all() -> BTreeMap<&'static str, Flags> {
    COMMANDS.into_iter().map(|command| (command, flags_of(command))).collect()
}

fn is_alias(flags: &Flags, name: &str) -> bool {
    flags.values().any(|flag| flag.about.contains(&format!("[alias: {name}]")))
}

/// Returns the long flags in `code`, up to a standalone `--`.
fn flags_in(code: &str) -> impl Iterator<Item = &str> {
    let words = code.split(|char: char| !(char.is_ascii_alphanumeric() || "-=".contains(char)));
    let words = words.map(|word| word.split('=').next().unwrap());
    words.take_while(|word| *word != "--").filter(|word| word.starts_with("--"))
}

/// Returns the code on a page: indented and fenced lines with their continuation lines joined, and inline code.
fn code_on(page: &str) -> Vec<String> {
    let mut code = Vec::new();
    let mut is_fenced = false;
    let joined = page.replace("\\\n", " ");
    for line in joined.lines() {
        is_fenced ^= line.trim_start().starts_with("```");
        if is_fenced || line.starts_with("    ") {
            code.push(line.split(" # ").next().unwrap().to_owned());
        } else {
            code.extend(line.split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    code
}

#[test]
fn flag_means_the_same_in_every_command() {
    let mut letters = BTreeMap::new();
    for command in COMMANDS {
        for (name, flag) in help_of(command).flags.into_iter().filter(|(name, _)| name.starts_with("--")) {
            if let Some((letter, _)) = flag.written.split_once(", --") {
                let first = letters.entry(letter.to_owned()).or_insert_with(|| name.clone());
                assert_eq!(*first, name, "{command} {letter}");
            }
        }
    }
    for (name, found) in meanings() {
        let (first, flag) = &found[0];
        for (command, other) in &found {
            let both = format!("{name} of `{first}` and of `{command}`");
            // The value of `--json` is optional where there are other reports.
            assert_eq!(flag.value(), other.value(), "{both}");
            assert_eq!(flag.meaning(), other.meaning(), "{both}");
            let letter = |flag: &Flag| flag.written.split_once(", --").map(|(letter, _)| letter.to_owned());
            assert_eq!(letter(flag), letter(other), "{both}");
        }
    }
}

#[test]
fn every_command_has_examples_that_are_valid() {
    for command in COMMANDS {
        let Help { examples, .. } = help_of(command);
        assert!(!examples.is_empty(), "{command}");
        for example in examples {
            let words: Vec<_> = example
                .split(" -- ")
                .next()
                .unwrap()
                .split(['<', '>'])
                .next()
                .unwrap()
                .split_whitespace()
                .map(|word| word.trim_matches('\''))
                .collect();
            let (program, arguments) = words.split_first().unwrap();
            assert!(
                *program == "toolwire" && arguments.join(" ").starts_with(command),
                "{command}: {example}"
            );
            let (status, _, stderr) = run(toolwire(arguments).arg("--help").env("ADMIN_KEY", "x"));
            assert_eq!(status, 0, "{example}: {stderr}");
        }
    }
}

#[test]
fn manual_pages_have_examples() {
    let folder = tempfile::TempDir::new().unwrap();
    assert_eq!(run(toolwire(&["man", "--out"]).arg(folder.path())).0, 0);
    let pages: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|page| page.unwrap().path()).collect();
    // Those of the groups `keys` and `mcp` and of the program, too.
    assert_eq!(pages.len(), COMMANDS.len() + 3, "{pages:?}");
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        let (_, examples) = text.split_once(".SH EXAMPLES\n").unwrap_or_else(|| panic!("{page:?}: {text}"));
        assert!(examples.trim_start().starts_with("toolwire "), "{page:?}: {examples}");
        assert!(!text.contains(".SH EXTRA"), "{page:?}");
    }
}

#[test]
fn completions_have_the_values_of_closed_sets() {
    let (status, script, _) = run(&mut toolwire(&["completions", "bash"]));
    assert_eq!(status, 0);
    for (command, flag, values) in [
        ("serve", "--dialect", "lumo chat responses messages "),
        ("serve", "--tools", "native "),
        ("serve", "--detect", "auto off "),
        ("serve", "--server-calls", "auto forward annotate hide"),
        ("calibrate", "--dialect", "lumo chat "),
        ("calibrate", "--format", "auto native all "),
        ("rewrite", "--from", "lumo chat "),
        ("rewrite", "--to", "chat responses "),
        ("rewrite", "--tools", "native "),
        ("rewrite", "--arguments", "stream whole"),
        ("rewrite", "--unknown-calls", "forward text"),
        ("replay", "--split", "every recorded whole"),
        ("mock", "--dialect", "lumo-v1 lumo chat "),
        ("mock", "--answer", "text call text-call"),
        ("mock", "--format", ""),
        ("mock", "--pace", "recorded none"),
        ("bench", "--client", "chat responses "),
        ("bench", "--upstream-dialect", "chat lumo"),
        ("conform", "--upstream-dialect", "chat responses "),
        ("conform", "--format", "all none "),
        ("serve", "--log-level", "error warn info debug trace off"),
    ] {
        let (_, case) = script.split_once(&format!("        toolwire__subcmd__{command})\n")).unwrap();
        let (case, _) = case.split_once("\n            ;;\n").unwrap();
        let (_, option) = case.split_once(&format!("                {flag})\n")).unwrap();
        let (option, _) = option.split_once("return 0").unwrap();
        assert!(option.contains(&format!("compgen -W \"{values}")), "{command} {flag}: {option}");
        assert_eq!(
            option.contains(" hermes "),
            ["--tools", "--detect", "--format"].contains(&flag),
            "{option}"
        );
    }
}

/// Rewrites the page instead of checking it if `TOOLWIRE_WRITE=1` is set.
#[test]
fn generated_page_of_commands_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/commands.md");
    let generated = commands_page();
    if std::env::var_os("TOOLWIRE_WRITE").is_some() {
        fs::write(&path, &generated).unwrap();
    }
    let hint = "write it: TOOLWIRE_WRITE=1 cargo test --test commands flags::";
    assert!(
        fs::read_to_string(&path).unwrap() == generated,
        "docs/commands.md is not what the help says; {hint}"
    );
}

#[test]
fn every_documented_flag_exists() {
    let all = all();
    let mut unknown = Vec::new();
    for name in PAGES {
        for code in code_on(&page(name)) {
            let commands = COMMANDS.iter().filter_map(|command| {
                let (_, rest) = code.split_once(&format!("toolwire {command} "))?;
                Some((*command, rest.split(['|', '&', ';']).next().unwrap()))
            });
            let commands: Vec<_> = commands.collect();
            for (command, rest) in &commands {
                let wrong = flags_in(rest)
                    .filter(|flag| !all[command].contains_key(*flag) && !is_alias(&all[command], flag));
                unknown.extend(wrong.map(|flag| format!("{name}: {command} {flag}")));
            }
            if code.starts_with("--") {
                let exists =
                    |flag: &str| all.values().any(|flags| flags.contains_key(flag) || is_alias(flags, flag));
                let wrong = flags_in(&code).filter(|flag| !exists(flag));
                unknown.extend(wrong.map(|flag| format!("{name}: {flag}")));
            }
        }
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
}

#[test]
fn table_of_flags_matches_serve() {
    let page = page("docs/configuration.md");
    let (_, table) = page.split_once("| flag | environment | replaces |\n|---|---|---|\n").unwrap();
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let documented: BTreeMap<_, _> = rows
        .map(|row| {
            let cells: Vec<_> = row.split('`').collect();
            (cells[1].split(' ').next().unwrap().to_owned(), cells[3].to_owned())
        })
        .collect();
    let flags = help_of("serve").flags.into_iter().map(|(name, flag)| (name, flag.environment));
    let flags: BTreeMap<_, _> = flags.filter(|(_, environment)| !environment.is_empty()).collect();
    assert_eq!(documented, flags);
}
