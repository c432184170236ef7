//! What packages contain beside the program: completions and manual pages.

use std::fs;

use tempfile::TempDir;

use crate::support::{run, toolwire};

#[test]
fn every_shell_has_completions_that_know_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (status, out, err) = run(&mut toolwire(&["completions", shell]));
        assert_eq!((status, err.as_str()), (0, ""), "{shell}");
        assert!(out.contains("calibrate") && out.contains("listen"), "{shell}");
    }
    let (status, _, err) = run(&mut toolwire(&["completions", "tcsh"]));
    assert_eq!(status, 2);
    assert!(err.contains("possible values: bash"), "{err}");
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("new/man1");
    for _ in 0..2 {
        let (status, _, err) =
            run(toolwire(&["man", "--out", out.to_str().unwrap()]).env("TOOLWIRE_CLIENT_KEY", "sk-1"));
        assert_eq!((status, err.as_str()), (0, ""));
    }
    let (_, help, _) = run(&mut toolwire(&["--help"]));
    let page = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    let commands = help.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let commands: Vec<_> =
        commands.filter(|word| word.chars().all(|c| c.is_ascii_lowercase()) && !word.is_empty()).collect();
    assert!(commands.len() > 10, "{commands:?}");
    for command in commands {
        assert!(page(&format!("toolwire-{command}.1")).contains(".SH SYNOPSIS"), "{command}");
    }
    assert!(!page("toolwire-serve.1").contains("sk-1"));
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let (status, _, err) = run(&mut toolwire(&["man", "--out", file.to_str().unwrap()]));
    assert_eq!(status, 1);
    assert!(err.starts_with("error: cannot write to "), "{err}");
}
