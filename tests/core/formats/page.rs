//! Checks the documentation page about the formats, and its examples.

use serde_json::json;
use toolwire::{
    format::{self, ALL},
    rules::Detect,
};

use crate::formats::found::find_at_every_cut;

#[test]
fn formats_page_matches_the_tables() {
    let page = include_str!("../../../docs/formats.md");
    assert!(page == format::page(), "write it anew: toolwire formats --markdown > docs/formats.md");
}

#[test]
fn every_example_is_detected_in_its_format_and_in_auto() {
    for format in ALL {
        let mut detects = vec![Detect::Formats(vec![format.name])];
        if format.auto {
            detects.push(Detect::Auto);
        }
        for detect in detects {
            let found = find_at_every_cut(&detect, format.example);
            let what = format!("{} {found:?}", format.name);
            if found.reasoning.is_empty() {
                assert_eq!(found.parsed_calls(), [("get_weather", json!({"city": "Paris"}))], "{what}");
                assert!(found.calls[0].is_complete(), "{what}");
            }
            assert_eq!(found.text, "", "{what}");
        }
    }
}

#[test]
fn format_names_are_unique_and_documented() {
    for (at, format) in ALL.iter().enumerate() {
        assert!(ALL[at + 1..].iter().all(|other| other.name != format.name), "{} twice", format.name);
        assert!(!format.summary.is_empty() && !format.example.is_empty(), "{}", format.name);
    }
}
