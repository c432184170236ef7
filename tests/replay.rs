//! All fixtures, cut in every way: law 1 of the architecture, and what each fixture is about.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{collections::BTreeSet, path::Path};

use toolwire::fixture::{Fixture, Splits, replay::check_all};

fn all() -> Vec<Fixture> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    Fixture::load_all(&[root]).unwrap().into_iter().map(|(_, fixture)| fixture).collect()
}

#[test]
fn every_fixture_gives_what_it_must_however_it_is_cut() {
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
fn fixtures_can_be_told_apart_and_all_say_what_they_expect() {
    let fixtures = all();
    assert!(fixtures.len() >= 40, "only {} fixtures", fixtures.len());
    let names: BTreeSet<_> = fixtures.iter().map(|fixture| &fixture.name).collect();
    assert_eq!(names.len(), fixtures.len(), "two fixtures have one name");
    for fixture in &fixtures {
        assert!(fixture.expect.is_some(), "{} expects nothing", fixture.name);
    }
}
