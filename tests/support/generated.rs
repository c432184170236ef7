//! The number of cases that property tests generate.

#![allow(dead_code, reason = "each test program uses a part of it")]

use proptest::test_runner::Config;

/// The number of cases in [`Config::default`] if `PROPTEST_CASES` is not set.
const PROPTESTS_OWN: u32 = 256;

/// Returns a configuration with `usual` cases, scaled by the ratio of `PROPTEST_CASES` to proptest's default.
/// Failures are not saved to a file.
pub(crate) fn tries(usual: u32) -> Config {
    let config = Config { failure_persistence: None, ..Config::default() };
    Config { cases: (usual * config.cases).div_ceil(PROPTESTS_OWN), ..config }
}
