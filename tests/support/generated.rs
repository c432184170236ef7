//! The number of cases that a property test generates.

#![allow(dead_code, reason = "each test program uses a part of it")]

use proptest::test_runner::Config;

/// The number of cases that [`Config::default`] has without `PROPTEST_CASES`.
const PROPTESTS_OWN: u32 = 256;

/// `usual` cases, scaled by the ratio of `PROPTEST_CASES` to proptest's own default. A failure writes no
/// file.
pub(crate) fn tries(usual: u32) -> Config {
    let config = Config { failure_persistence: None, ..Config::default() };
    Config { cases: (usual * config.cases).div_ceil(PROPTESTS_OWN), ..config }
}
