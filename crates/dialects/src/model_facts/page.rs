//! [`table`]: the table of facts for the documentation.

use super::facts::FACTS;

/// The facts as a table in Markdown.
pub fn table() -> String {
    let mut table = "| models | refused | read | source |\n|---|---|---|---|\n".to_owned();
    for fact in FACTS {
        let models: Vec<_> = fact.models.iter().map(|models| models.about()).collect();
        let at = match fact.at {
            [] => String::new(),
            at => format!(" at {}", at.join(", ")),
        };
        let rules: Vec<_> = fact.rules.iter().map(|rule| rule.about()).collect();
        let (models, rules) = (models.join("; "), rules.join("; "));
        table.push_str(&format!("| {models}{at} | {rules} | {} | {} |\n", fact.taken, fact.source));
    }
    table
}
