//! [`Report`]: the results of a run, as a table, as JSON and as a page.

pub mod page;
pub mod table;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    check::{Fault, Found},
    run::Verdict,
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub version: String,
    /// The gateway's URL, or a note that it was started for the run.
    pub gateway: String,
    pub seed: u64,
    /// The clients' dialects, in the order of the table's columns.
    pub clients: Vec<String>,
    /// Counts for each upstream dialect and category.
    pub rows: Vec<Row>,
    /// The violated rules, most frequent first.
    pub rules: Vec<Rule>,
    /// Violations that all tested clients tolerate, which do not make a case fail.
    pub notes: Vec<Rule>,
    pub failures: Vec<Failure>,
}

/// A row of the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    pub upstream: String,
    pub category: String,
    /// Counts for each client.
    pub counts: Vec<Count>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    pub cases: u64,
    /// Number of cases that passed.
    pub held: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    pub rule: String,
    /// Number of violating cases, over all clients.
    pub cases: u64,
    /// The first of these cases.
    pub first: String,
    /// How the first case violates the rule.
    pub detail: String,
    /// The command that reruns the first case.
    pub command: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub case: String,
    pub client: String,
    /// The violated rules, each with a detail.
    pub faults: Vec<(String, String)>,
    /// The command that reruns this case.
    pub command: String,
}

impl Report {
    /// Creates a report. `command` is the command line without the options that select cases and clients.
    pub fn new(gateway: &str, seed: u64, clients: &[String], verdicts: &[Verdict], command: &str) -> Self {
        let mut rows: Vec<Row> = Vec::new();
        for verdict in verdicts {
            let (upstream, category) = (verdict.case.api.name(), verdict.case.category.name());
            let known = rows.iter().position(|row| row.upstream == upstream && row.category == category);
            let place = known.unwrap_or_else(|| {
                let (upstream, category) = (upstream.to_owned(), category.to_owned());
                rows.push(Row { upstream, category, counts: vec![Count::default(); clients.len()] });
                rows.len() - 1
            });
            let column = clients.iter().position(|client| client == verdict.client.dialect().name());
            let count = rows.get_mut(place).zip(column).and_then(|(row, column)| row.counts.get_mut(column));
            if let Some(count) = count {
                count.cases += 1;
                count.held += u64::from(verdict.found.faults.is_empty());
            }
        }
        let found = |of: fn(&Found) -> &Vec<Fault>| -> Vec<Failure> {
            let having = verdicts.iter().filter(|verdict| !of(&verdict.found).is_empty());
            having.map(|verdict| Failure::of(verdict, of(&verdict.found), command)).collect()
        };
        let (failures, noted) = (found(|found| &found.faults), found(|found| &found.notes));
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            gateway: gateway.to_owned(),
            seed,
            clients: clients.to_vec(),
            rows,
            rules: rules(&failures),
            notes: rules(&noted),
            failures,
        }
    }

    pub fn holds(&self) -> bool {
        self.failures.is_empty()
    }

    /// Returns the sum of all counts.
    pub(crate) fn total(&self) -> Count {
        self.rows.iter().flat_map(|row| &row.counts).fold(Count::default(), |total, count| Count {
            cases: total.cases + count.cases,
            held: total.held + count.held,
        })
    }

    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

impl Failure {
    fn of(verdict: &Verdict, faults: &[Fault], command: &str) -> Self {
        let (case, client) = (verdict.case.name.clone(), verdict.client.dialect().name().to_owned());
        let faults = faults.iter().map(|fault| (fault.rule.clone(), fault.detail.clone())).collect();
        let command = format!("{command} --client {client} --only '{case}'");
        Self { case, client, faults, command }
    }
}

/// Returns the rules that these cases violate.
fn rules(failures: &[Failure]) -> Vec<Rule> {
    let mut rules: BTreeMap<&str, Rule> = BTreeMap::new();
    for failure in failures {
        for (rule, detail) in &failure.faults {
            let known = rules.entry(rule).or_insert_with(|| Rule {
                rule: rule.clone(),
                cases: 0,
                first: format!("{} to {}", failure.case, failure.client),
                detail: detail.clone(),
                command: failure.command.clone(),
            });
            known.cases += 1;
        }
    }
    let mut rules: Vec<_> = rules.into_values().collect();
    rules.sort_by(|left, right| right.cases.cmp(&left.cases).then_with(|| left.rule.cmp(&right.rule)));
    rules
}

#[cfg(test)]
pub(crate) mod example {
    use super::*;

    pub(crate) fn report() -> Report {
        let failure = Failure {
            case: "chat/native/two-calls@cut=17".to_owned(),
            client: "messages".to_owned(),
            faults: vec![("a call is lost".to_owned(), "1 of 2 calls".to_owned())],
            command: "toolwire conform --client messages --only 'chat/native/two-calls@cut=17'".to_owned(),
        };
        Report {
            version: "0.0.0".to_owned(),
            gateway: "http://127.0.0.1:4000/v1".to_owned(),
            seed: 1,
            clients: vec!["chat".to_owned(), "messages".to_owned()],
            rows: vec![Row {
                upstream: "chat".to_owned(),
                category: "native".to_owned(),
                counts: vec![Count { cases: 12, held: 12 }, Count { cases: 12, held: 11 }],
            }],
            rules: rules(std::slice::from_ref(&failure)),
            notes: Vec::new(),
            failures: vec![failure],
        }
    }

    #[test]
    fn rules_are_counted_over_all_cases() {
        let failure = report().failures.remove(0);
        let other = Failure { case: "chat/native/one-call".to_owned(), ..failure.clone() };
        let rules = rules(&[failure, other]);
        assert_eq!(rules.len(), 1);
        assert_eq!(
            (rules[0].cases, rules[0].first.as_str()),
            (2, "chat/native/two-calls@cut=17 to messages")
        );
    }
}
