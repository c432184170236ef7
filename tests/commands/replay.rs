//! Tests `toolwire replay`, and replays every fixture in the repository with every possible split. This checks law
//! 1 of the architecture and the behaviour that each fixture covers.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use tempfile::TempDir;
use toolwire::fixture::{Fixture, Splits, replay::check_all};

use crate::support::{fixture, run, toolwire};

fn all() -> Vec<Fixture> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    Fixture::load_all(&[root]).unwrap().into_iter().map(|(_, fixture)| fixture).collect()
}

#[test]
fn every_fixture_gives_its_expected_output_at_every_split() {
    let fixtures = all();
    let findings = check_all(&fixtures.iter().collect::<Vec<_>>(), Splits::Every);
    let wrong: Vec<_> = fixtures
        .iter()
        .zip(findings)
        .filter_map(|(fixture, finding)| Some(format!("{}: {}", fixture.name, finding?)))
        .collect();
    assert!(wrong.is_empty(), "{} of {} differ\n\n{}", wrong.len(), fixtures.len(), wrong.join("\n\n"));
}

#[test]
fn fixtures_have_unique_names_and_expectations() {
    let fixtures = all();
    assert!(fixtures.len() >= 40, "only {} fixtures", fixtures.len());
    let names: BTreeSet<_> = fixtures.iter().map(|fixture| &fixture.name).collect();
    assert_eq!(names.len(), fixtures.len(), "two fixtures have one name");
    for fixture in &fixtures {
        assert!(fixture.expect.is_some(), "{} expects nothing", fixture.name);
    }
}

fn copy(name: &str) -> (TempDir, PathBuf) {
    let desk = TempDir::new().unwrap();
    let dir = desk.path().join("copy");
    fs::create_dir(&dir).unwrap();
    for file in fs::read_dir(fixture(name)).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), dir.join(file.file_name())).unwrap();
    }
    (desk, dir)
}

#[test]
fn replay_shows_the_first_difference_and_updates_on_request() {
    let (desk, dir) = copy("lumo/v1-search-forward");
    let root = desk.path().display().to_string();
    let (status, stdout, _) = run(&mut toolwire(&["replay", &root, "--split", "every"]));
    assert_eq!(status, 0, "{stdout}");

    let expect = dir.join("expect.json");
    let wrong = fs::read_to_string(&expect).unwrap().replace("18 °C", "19 °C");
    fs::write(&expect, &wrong).unwrap();
    let (status, stdout, _) = run(&mut toolwire(&["replay", &root]));
    assert_eq!(status, 1);
    assert!(stdout.contains("text at byte 26"), "{stdout}");
    assert!(stdout.contains("19 °C") && stdout.contains("18 °C"), "{stdout}");
    assert_eq!(fs::read_to_string(&expect).unwrap(), wrong, "nothing is rewritten unasked");

    let (status, stdout, _) = run(&mut toolwire(&["replay", &root, "--update", "--json"]));
    let line: Value = serde_json::from_str(stdout.trim()).unwrap();
    assert_eq!((status, &line["ok"]), (1, &json!(false)), "{line}");
    assert_eq!(run(&mut toolwire(&["replay", &root])).0, 0);
}

#[test]
fn replay_names_file_and_line_of_invalid_fixtures() {
    let (_desk, dir) = copy("lumo/v1-text");
    fs::write(dir.join("upstream.times"), "10 5\nsoon 7\n").unwrap();
    let (status, _, stderr) = run(&mut toolwire(&["replay", &dir.display().to_string()]));
    assert_eq!(status, 2);
    assert!(stderr.contains("upstream.times:2: "), "{stderr}");
    let empty = TempDir::new().unwrap();
    assert_eq!(run(&mut toolwire(&["replay", &empty.path().display().to_string()])).0, 2);
    assert_eq!(run(&mut toolwire(&["replay", "no/such/place"])).0, 2);
    assert_eq!(run(&mut toolwire(&["replay"])).0, 2);
}
