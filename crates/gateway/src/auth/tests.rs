use http::{HeaderName, HeaderValue};

use super::*;
use toolwire_config::{Overrides, load};
use toolwire_net::store::Stores;

/// 23 November 2026.
const NOW: u64 = 1_795_392_000;

fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
    }
    headers
}

/// Returns the keys of a configuration with these entries.
fn keys(entries: &str) -> Keys {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("toolwire.toml");
    let (state, rest) = (
        folder.path().join("state"),
        "[[upstreams]]\nname = \"up\"\ndialect = \"chat\"\nbase_url = \"http://127.0.0.1:1/v1\"\n[[models]]\nname = \"*\"\n",
    );
    std::fs::write(&file, format!("state_dir = {state:?}\n{entries}\n{rest}")).unwrap();
    let overrides = Overrides { file: Some(file), ..Overrides::default() };
    let config = load(&overrides, &|_| None).unwrap().config;
    Keys::new(&Arc::new(config), Ledger::new(&Stores::in_folder(None)), NOW).unwrap()
}

fn refusal(keys: &Keys, fields: &[(&'static str, &str)]) -> (Kind, String) {
    let failure = keys.identify(&headers(fields), None, NOW).unwrap_err();
    (failure.kind(), failure.message().to_owned())
}

#[test]
fn every_key_is_accepted_in_every_header() {
    let keys = keys("api_keys = [\"alpha\"]\n[[keys]]\nname = \"team\"\nkey = \"beta\"");
    let opens = |name, value| keys.identify(&headers(&[(name, value)]), None, NOW).is_ok();
    for (name, value) in [
        ("authorization", "Bearer alpha"),
        ("authorization", "bearer  beta "),
        ("x-api-key", "beta"),
        ("api-key", "alpha"),
    ] {
        assert!(opens(name, value), "{name}: {value}");
    }
    for (name, value) in [
        ("authorization", "Bearer alphabet"),
        ("authorization", "Bearer alph"),
        ("authorization", "Bearer "),
        ("authorization", "Basic alpha"),
        ("x-api-key", ""),
        ("accept", "alpha"),
    ] {
        assert!(!opens(name, value), "{name}: {value}");
    }
    assert!(!opens("x-api-key", &"k".repeat(1 << 20)));
}

#[test]
fn one_key_may_be_shown_twice_and_two_may_not() {
    let keys = keys("api_keys = [\"alpha\", \"beta\"]");
    let identify = |fields: &[(&'static str, &str)]| {
        keys.identify(&headers(fields), None, NOW).map(|caller| caller.owner)
    };
    let alpha = identify(&[("x-api-key", "alpha")]).unwrap();
    assert_eq!(
        identify(&[("authorization", "Bearer alpha"), ("x-api-key", "alpha"), ("api-key", "alpha")]).unwrap(),
        alpha
    );
    assert_eq!(identify(&[("x-api-key", "alpha"), ("x-api-key", "alpha")]).unwrap(), alpha);
    assert_eq!(identify(&[("authorization", "Basic eDp5"), ("api-key", "alpha")]).unwrap(), alpha);
    assert_eq!(identify(&[("authorization", "Bearer "), ("api-key", "alpha")]).unwrap(), alpha);
    for fields in [
        [("authorization", "Bearer alpha"), ("x-api-key", "beta")],
        [("x-api-key", "alpha"), ("x-api-key", "beta")],
        [("authorization", "Bearer alpha"), ("authorization", "Bearer beta")],
        [("api-key", "alpha"), ("x-api-key", "unknown")],
    ] {
        assert_eq!(identify(&fields).unwrap_err().kind(), Kind::Request, "{fields:?}");
    }
}

#[test]
fn without_keys_every_request_is_allowed() {
    let keys = keys("");
    assert_eq!(keys.identify(&HeaderMap::new(), None, NOW).unwrap().owner, Owner::default());
    assert!(keys.identify(&headers(&[("x-api-key", "a"), ("api-key", "b")]), None, NOW).is_ok());
}

#[test]
fn keys_of_one_name_are_one_client() {
    let keys = keys(
        "api_keys = [\"alpha\", \"beta\"]\n[[keys]]\nname = \"team\"\nkey = \"old\"\nmodels = [\"qwen*\"]\n[[keys]]\nname = \"team\"\n\
         hash = \"sha256:11507a0e2f5e69d5dfa40a62a1bd7b6ee57e6bcd85c67c9b8431b36fff21c437\"\n[[keys]]\nname = \"other\"\nkey = \"other\"",
    );
    let caller = |value| keys.identify(&headers(&[("x-api-key", value)]), None, NOW).unwrap();
    let (old, new) = (caller("old"), caller("new"));
    assert_eq!(old.owner, new.owner);
    assert!(Arc::ptr_eq(old.account.as_ref().unwrap(), new.account.as_ref().unwrap()));
    assert!(new.check_model("Qwen3-8b").is_ok());
    assert_eq!(new.check_model("gpt-oss").unwrap_err().kind(), Kind::Forbidden);
    assert!(caller("other").check_model("gpt-oss").is_ok());
    let owners =
        [caller("alpha").owner, caller("beta").owner, caller("other").owner, old.owner, Owner::default()];
    for (at, owner) in owners.iter().enumerate() {
        assert!(!owners[at + 1..].contains(owner));
    }
}

#[test]
fn refusals_say_why_and_repeat_no_key() {
    let keys = keys(
        "[[keys]]\nname = \"team\"\nkey = \"old\"\nexpires = 2026-11-01\n[[keys]]\nname = \"team\"\nkey = \"new\"\nexpires = \"2026-12-01\"",
    );
    for (shown, why) in [
        ("old", "has expired"),
        ("unknown", "is not one that toolwire knows"),
        ("tw_abcdefgh_secret", "is mistyped or not complete"),
    ] {
        let (kind, message) = refusal(&keys, &[("x-api-key", shown)]);
        assert_eq!(kind, Kind::Unauthorized);
        assert!(message.contains(why) && !message.contains("secret"), "{message}");
    }
    assert!(refusal(&keys, &[]).1.contains("is needed"));
    let new = headers(&[("x-api-key", "new")]);
    assert!(keys.identify(&new, None, NOW).is_ok());
    assert_eq!(keys.identify(&new, None, NOW + 10 * 86_400).unwrap_err().kind(), Kind::Unauthorized);
    assert!(keys.identify(&new, None, NOW - 86_400).is_ok(), "a clock that is set back");
}

/// Writes the file of keys in `folder` in the same way as `toolwire keys`.
fn put(folder: &std::path::Path, content: &str) {
    let fresh = folder.join("fresh");
    std::fs::write(&fresh, content).unwrap();
    std::fs::rename(fresh, folder.join("keys.toml")).unwrap();
}

#[test]
fn file_of_keys_is_read_again_and_its_mistakes_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "state_dir = {:?}\n[[upstreams]]\nname = \"up\"\ndialect = \"chat\"\nbase_url = \"http://127.0.0.1:1/v1\"\n[[models]]\nname = \"*\"\n",
        folder.path()
    );
    let file = folder.path().join("toolwire.toml");
    std::fs::write(&file, text).unwrap();
    let overrides = Overrides { file: Some(file), ..Overrides::default() };
    let config = Arc::new(load(&overrides, &|_| None).unwrap().config);
    let keys = Keys::new(&config, Ledger::new(&Stores::in_folder(config.state_dir.clone())), NOW).unwrap();
    let knows = |key: &str| keys.identify(&headers(&[("x-api-key", key)]), None, NOW).is_ok();
    assert!(knows("anything"), "no key is needed");
    let entry = |name: &str, key: &str, rest: &str| {
        format!(
            "[[keys]]\nid = \"{key}\"\nname = \"{name}\"\nhash = \"{}\"\n{rest}\n",
            KeyDigest::of(key.as_bytes()).written()
        )
    };
    let both = entry("a", "one", "streams = 1") + &entry("a", "two", "");
    for (content, known) in [
        (both.as_str(), [true, true]),
        (&*entry("a", "two", ""), [false, true]),
        ("[[keys", [false, true]),
        (&*(both.clone() + "unknown = 1"), [false, true]),
        (&*entry("a", "two", "revoked = 2026-11-01"), [false, false]),
        ("", [false, false]),
        (&*both, [true, true]),
    ] {
        put(folder.path(), content);
        keys.shared.tick(NOW);
        assert_eq!([knows("one"), knows("two")], known, "{content}");
    }
    assert!(!knows("anything"));
    // An editor may write the file in several steps, or remove it first. Incomplete files must be ignored.
    let path = folder.path().join("keys.toml");
    let look = || {
        keys.shared.tick(NOW);
        [knows("one"), knows("two")]
    };
    for half in ["", &*entry("a", "two", "")] {
        std::fs::write(&path, half).unwrap();
        assert_eq!(look(), [true, true], "{half}");
    }
    std::fs::write(&path, &both).unwrap();
    assert_eq!([look(), look(), look()], [[true, true]; 3]);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(look(), [true, true]);
    std::fs::write(&path, entry("a", "two", "")).unwrap();
    assert_eq!([look(), look()], [[true, true], [false, true]]);
    std::fs::remove_file(&path).unwrap();
    assert_eq!([look(), look()], [[false, true], [false, false]]);
    put(folder.path(), "[[keys");
    let other = Keys::new(&config, Ledger::new(&Stores::in_folder(config.state_dir.clone())), NOW).unwrap();
    assert!(other.identify(&HeaderMap::new(), None, NOW).is_err(), "it is not known which keys there are");
}
