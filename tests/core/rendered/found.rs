//! Runs the detector on a text and collects the results.

use serde_json::json;
use toolwire::{detect::Detector, event::Finish, format::KnownFormats, rules::Rules, tools::DeclaredTools};

pub(crate) use crate::fuzz::checks::{Call, Found};
use crate::{rendered::tools::declared, support::exchange::request};

/// Runs a detector on `pieces`. Returns the results, and the largest number of bytes that it held after a piece.
pub(crate) fn find(settings: &Rules, pieces: &[&str], finish: Finish) -> (Found, usize) {
    thread_local!(static TOOLS: DeclaredTools = DeclaredTools::new(&request(&json!({"tools": declared()})), ""));
    let mut detector = Detector::new(TOOLS.with(DeclaredTools::clone), settings, KnownFormats::built_in())
        .expect("tools are declared");
    let mut most = 0;
    let found = Found::of(&mut detector, pieces, finish, |_, held| most = most.max(held));
    (found, most)
}
