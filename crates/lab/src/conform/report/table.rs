//! The report for a terminal.

use super::{Count, Report};
use crate::bench::report::{figure::NONE, grid::Grid};
use toolwire_gateway::observe::{terminal::WITHOUT_TERMINAL, untrusted_text::escaped};

/// Maximum number of rules shown with an example.
const SHOWN: usize = 40;

/// Returns the tables in lines of at most `width` characters. `width` is `None` if the output is not a terminal.
pub fn table(report: &Report, width: Option<usize>) -> String {
    let width = width.unwrap_or(WITHOUT_TERMINAL);
    let heads = ["upstream", "category"].into_iter().chain(report.clients.iter().map(String::as_str));
    let mut grid = Grid::new(heads, 2);
    for row in &report.rows {
        let names = [row.upstream.clone(), row.category.clone()];
        grid.add_row(names.into_iter().chain(row.counts.iter().map(|count| held(*count))));
    }
    let mut parts = vec![grid.fitted(width)];
    for rule in report.rules.iter().take(SHOWN) {
        let detail = escaped(&rule.detail);
        parts.push(format!(
            "{} × {}\n  first in {}: {detail}\n  {}",
            rule.cases,
            escaped(&rule.rule),
            rule.first,
            escaped(&rule.command)
        ));
    }
    if report.rules.len() > SHOWN {
        parts.push(format!("and {} more rules; --json has all of them", report.rules.len() - SHOWN));
    }
    for note in &report.notes {
        parts.push(format!(
            "{} × {} (tolerated by all tested clients)\n  first in {}",
            note.cases,
            escaped(&note.rule),
            note.first
        ));
    }
    let Count { cases, held } = report.total();
    parts.push(format!("{held} of {cases} cases held at {}", escaped(&report.gateway)));
    parts.join("\n\n")
}

/// Returns the text of a cell.
pub(super) fn held(count: Count) -> String {
    match count {
        Count { cases: 0, .. } => NONE.to_owned(),
        Count { cases, held } if cases == held => format!("{held}"),
        Count { cases, held } => format!("{held} of {cases}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::example::report, *};

    #[test]
    fn table_shows_counts_and_a_command_for_each_rule() {
        let table = table(&report(), None);
        for part in
            ["11 of 12", "1 × a call is lost", "--only 'chat/native/two-calls@cut=17'", "23 of 24 cases held"]
        {
            assert!(table.contains(part), "{part}: {table}");
        }
    }
}
