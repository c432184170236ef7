//! The tools that all requests declare.

use serde_json::Value;

#[derive(Debug, Clone)]
pub struct Declared {
    pub name: String,
    pub parameters: Value,
}

/// The published cases: a header with the tools, then one case per line.
const CASES: &str = include_str!("../../../fixtures/conformance/formats.jsonl");

/// Returns the tools that all cases declare, and the cases.
pub fn published() -> (Vec<Declared>, Vec<Value>) {
    let mut lines =
        CASES.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line of the cases is JSON"));
    let header = lines.next().expect("the cases have a header");
    let toolset = header["toolset"].as_object().expect("the header has tools");
    let tool = |(name, spec): (&String, &Value)| Declared {
        name: name.clone(),
        parameters: spec["parameters"].clone(),
    };
    (toolset.iter().map(tool).collect(), lines.collect())
}
