#![no_main]

#[path = "../../tests/core/fuzz/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::http1(data));
