//! Tests what packages ship besides the program: completions, manual pages, systemd units and manifests.

use std::{fs, path::Path, process::Command};

use tempfile::TempDir;

use crate::support::{run, toolwire};

fn deployed(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(name)).unwrap()
}

/// Returns what follows `key` on the first line that starts with it.
fn value<'t>(text: &'t str, key: &str) -> &'t str {
    let mut values = text.lines().filter_map(|line| line.trim_start().strip_prefix(key));
    let found = values.next();
    assert!(found.is_some(), "no {key}");
    found.unwrap().trim()
}

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
    // The examples have the program's name in the same place.
    let is_command =
        |word: &&str| word.chars().all(|c| c.is_ascii_lowercase()) && !["", "toolwire"].contains(word);
    let commands: Vec<_> = commands.filter(is_command).collect();
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

#[test]
fn bash_completes_commands_and_flags() {
    let script = r#"source /dev/stdin
        complete_last() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _toolwire toolwire "${!#}" ""; echo "${COMPREPLY[@]}"; }
        complete_last toolwire cal
        complete_last toolwire check --doc"#;
    let folder = TempDir::new().unwrap();
    let completions = folder.path().join("toolwire.bash");
    fs::write(&completions, run(&mut toolwire(&["completions", "bash"])).1).unwrap();
    let (status, out, err) =
        run(Command::new("bash").args(["-c", script]).stdin(fs::File::open(completions).unwrap()));
    assert_eq!((status, out.as_str(), err.as_str()), (0, "calibrate\n--doctor\n", ""));
}

#[test]
fn deployed_configurations_are_valid() {
    let manifest = deployed("kubernetes/toolwire.yaml");
    let inner = manifest.split("toolwire.toml: |\n").nth(1).unwrap().split("---").next().unwrap();
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("toolwire.toml");
    for text in [deployed("toolwire.toml"), inner.to_owned()] {
        fs::write(&file, text).unwrap();
        // Sets the same environment as the compose file and the Kubernetes deployment.
        let mut check = toolwire(&["check", "--config", file.to_str().unwrap()]);
        check.env("TOOLWIRE_LISTEN", "0.0.0.0:8787").env("TOOLWIRE_CLIENT_KEY", "sk-1");
        let (status, out, err) = run(check.env("CLIENT_KEY", "sk-2").env("UPSTREAM_KEY", "sk-3"));
        assert_eq!(status, 0, "{err}");
        assert!(out.contains("0.0.0.0:8787"), "{out}");
    }
}

#[test]
fn manifest_names_the_image_of_this_version() {
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(value(&deployed("kubernetes/toolwire.yaml"), "image:"), format!("toolwire:{version}"));
}

/// If the grace period were shorter than the drain timeout, open responses would be killed.
#[test]
fn grace_periods_exceed_the_drain() {
    let flags = ["check", "--upstream", "http://127.0.0.1:1/v1", "--dialect", "chat"];
    let (_, config, _) = run(&mut toolwire(&flags));
    let seconds = |text: &str| text.trim_matches(['"', 's']).parse::<u64>().unwrap();
    let drain = seconds(value(&config, "drain_timeout ="));
    assert!(seconds(value(&deployed("toolwire.service"), "TimeoutStopSec=")) > drain);
    assert!(seconds(value(&deployed("compose.yaml"), "stop_grace_period:")) > drain);
    let manifest = deployed("kubernetes/toolwire.yaml");
    let sleep = value(&manifest, "sleep: { seconds:").trim_end_matches([' ', '}']);
    assert!(seconds(value(&manifest, "terminationGracePeriodSeconds:")) > seconds(sleep) + drain);
}

#[test]
fn units_are_as_systemd_wants_them() {
    let Ok(version) = Command::new("systemd-analyze").arg("--version").output() else {
        eprintln!("skipped: there is no systemd-analyze on this machine");
        return;
    };
    assert!(version.status.success());
    let folder = TempDir::new().unwrap();
    let units = ["toolwire.service", "toolwire.socket"].map(|name| {
        let unit = folder.path().join(name);
        fs::write(&unit, deployed(name).replace("/usr/bin/toolwire", env!("CARGO_BIN_EXE_toolwire")))
            .unwrap();
        unit
    });
    let (status, _, err) = run(Command::new("systemd-analyze").args(["--man=no", "verify"]).args(&units));
    assert_eq!((status, err.as_str()), (0, ""));
    // The threshold is an exposure level from 0 to 100, where lower means more tightly sandboxed.
    let (status, out, err) = run(Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--threshold=15"])
        .arg(&units[0]));
    assert_eq!(status, 0, "{out}{err}");
}
