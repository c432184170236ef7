//! Prints the results as tables.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    behaviour::Tally,
    results::{Behaviour, Prose, Speed, growth, rate},
    speed::Times,
};

#[derive(Default)]
pub struct Report {
    pub behaviours: Vec<Behaviour>,
    pub speeds: Vec<Speed>,
    pub proses: Vec<Prose>,
    pub budget: Duration,
}

const OURS: &str = "toolwire";

fn is_peer(name: &str) -> bool {
    !name.starts_with(OURS)
}

fn figure(value: f64) -> String {
    match value {
        value if value >= 20.0 => format!("{value:.0}"),
        value if value >= 1.0 => format!("{value:.1}"),
        value if value >= 0.1 => format!("{value:.2}"),
        value => format!("{value:.4}"),
    }
}

fn percent(part: usize, whole: usize) -> String {
    if whole == 0 {
        return "–".to_owned();
    }
    let share = part as f64 * 100.0 / whole as f64;
    if part > 0 && share < 0.05 { "<0.1".to_owned() } else { format!("{share:.1}") }
}

impl Report {
    fn cell(&self, bytes: usize, times: &Times) -> String {
        match rate(bytes, times) {
            Some(rate) => format!("{} ±{:.0}%", figure(rate), times.spread() * 100.0),
            None => format!("> {:.1} s", self.budget.as_secs_f64()),
        }
    }

    fn fastest<'s>(&'s self, label: &str) -> Option<(&'s Speed, f64)> {
        let peers = self
            .speeds
            .iter()
            .filter(|speed| speed.label == label && is_peer(speed.contender) && !speed.missed);
        let rates = peers.filter_map(|speed| {
            let (bytes, times) = speed.cells.last()?;
            Some((speed, rate(*bytes, times)?))
        });
        rates.max_by(|(_, a), (_, b)| a.total_cmp(b))
    }

    fn of(&self, label: &str, contender: &str) -> Option<&Speed> {
        self.speeds.iter().find(|speed| speed.label == label && speed.contender == contender && !speed.missed)
    }

    fn long_rate(speed: Option<&Speed>) -> Option<f64> {
        let (bytes, times) = speed?.cells.last()?;
        rate(*bytes, times)
    }

    /// Returns a table that compares toolwire with the fastest peer, with one line per format.
    pub fn summary(&self) -> String {
        let mut out = "| format | toolwire, 200 KB call, MB/s | looking for all formats | × time of 20 KB | pieces with a delta, % | fastest peer | its MB/s | ratio |\n|---|---|---|---|---|---|---|---|\n".to_owned();
        for ours in self.speeds.iter().filter(|speed| speed.contender == OURS) {
            let rate = Self::long_rate(Some(ours).filter(|ours| !ours.missed));
            let auto = Self::long_rate(self.of(ours.label, "toolwire, auto"));
            let peer = self.fastest(ours.label);
            let ratio = rate.zip(peer.as_ref()).map(|(rate, (_, peer))| figure(rate / peer));
            let streamed = ours.cells.last().map(|(_, times)| format!("{:.0}", times.streamed * 100.0));
            let dash = || "–".to_owned();
            out += &format!(
                "| {} | {} | {} | {} | {} | {} | {} | {} |\n",
                ours.label,
                if ours.missed { "missed".to_owned() } else { rate.map_or_else(dash, figure) },
                auto.map_or_else(dash, figure),
                growth(ours, self.budget).map_or_else(dash, figure),
                streamed.unwrap_or_else(dash),
                peer.as_ref().map_or_else(dash, |(speed, _)| marked(speed)),
                peer.as_ref().map_or_else(dash, |(_, rate)| figure(*rate)),
                ratio.unwrap_or_else(dash),
            );
        }
        out
    }

    /// Returns a table of the correctness of each contender.
    pub fn sums(&self) -> String {
        let mut out = "| format | contender | published cases: right in one piece | wrong, % of splits | plain calls: right in one piece | wrong, % of splits | splits with another sum than one piece, % |\n|---|---|---|---|---|---|---|\n".to_owned();
        for row in &self.behaviours {
            let (cases, plain) = (&row.cases, &row.plain);
            let right = |tally: &Tally| {
                if tally.samples == 0 {
                    "–".to_owned()
                } else {
                    format!("{}/{}", tally.right, tally.samples)
                }
            };
            out += &format!(
                "| {} | {} | {} | {} | {} | {} | {} |\n",
                row.format,
                row.contender,
                right(cases),
                percent(cases.wrong, cases.splits),
                right(plain),
                percent(plain.wrong, plain.splits),
                percent(cases.differ + plain.differ, cases.splits + plain.splits),
            );
        }
        out + &self.sums_over_all()
    }

    fn sums_over_all(&self) -> String {
        let mut names: Vec<&str> = Vec::new();
        self.behaviours.iter().for_each(|row| {
            if !names.contains(&row.contender) {
                names.push(row.contender);
            }
        });
        let line = |name: &&str| {
            let (mut cases, mut plain) = (Tally::default(), Tally::default());
            for row in self.behaviours.iter().filter(|row| row.contender == *name) {
                add(&mut cases, &row.cases);
                add(&mut plain, &row.plain);
            }
            format!(
                "| **all that it has** | {name} | {}/{} | {} | {}/{} | {} | {} |\n",
                cases.right,
                cases.samples,
                percent(cases.wrong, cases.splits),
                plain.right,
                plain.samples,
                percent(plain.wrong, plain.splits),
                percent(cases.differ + plain.differ, cases.splits + plain.splits)
            )
        };
        names.iter().map(line).collect()
    }

    pub fn times(&self) -> String {
        let mut out = "| format | contender | 2 KB, MB/s | 20 KB | 200 KB | × time of 20 KB | pieces with a delta, % |\n|---|---|---|---|---|---|---|\n".to_owned();
        for speed in &self.speeds {
            out += &format!("| {} | {} |", speed.label, marked(speed));
            if speed.missed {
                out += " call missed | | | | |\n";
                continue;
            }
            for (bytes, times) in &speed.cells {
                out += &format!(" {} |", self.cell(*bytes, times));
            }
            let expired = speed.cells.last().is_some_and(|(_, times)| times.expired);
            let more = if expired { "> " } else { "" };
            let growth = growth(speed, self.budget)
                .map_or("–".to_owned(), |growth| format!("{more}{}", figure(growth)));
            let done = speed.cells.iter().rev().find(|(_, times)| !times.expired);
            let streamed =
                done.map_or("–".to_owned(), |(_, times)| format!("{:.0}", times.streamed * 100.0));
            out += &format!(" {growth} | {streamed} |\n");
        }
        out
    }

    pub fn prose(&self) -> String {
        let mut out = "| format looked for | toolwire, MB/s | toolwire, all formats | fastest peer | its MB/s | ratio | ratio, all formats |\n|---|---|---|---|---|---|---|\n".to_owned();
        for ours in self.proses.iter().filter(|prose| prose.contender == OURS) {
            let of = |name: &str| {
                self.proses.iter().find(|prose| prose.format == ours.format && prose.contender == name)
            };
            let rated = |prose: &Prose| rate(prose.bytes, &prose.times).filter(|_| !prose.missed);
            let peers =
                self.proses.iter().filter(|prose| prose.format == ours.format && is_peer(prose.contender));
            let peer = peers
                .filter_map(|prose| Some((prose.contender, rated(prose)?)))
                .max_by(|(_, a), (_, b)| a.total_cmp(b));
            let (own, auto) = (rated(ours), of("toolwire, auto").and_then(rated));
            let dash = || "–".to_owned();
            let ratio =
                |own: Option<f64>| own.zip(peer).map_or_else(dash, |(own, (_, peer))| figure(own / peer));
            out += &format!(
                "| {} | {} | {} | {} | {} | {} | {} |\n",
                ours.format,
                own.map_or("changed".to_owned(), figure),
                auto.map_or_else(dash, figure),
                peer.map_or_else(dash, |(name, _)| name.to_owned()),
                peer.map_or_else(dash, |(_, rate)| figure(rate)),
                ratio(own),
                ratio(auto),
            );
        }
        out
    }

    pub fn json(&self) -> Value {
        let tally = |tally: &Tally| json!({"samples": tally.samples, "right": tally.right, "splits": tally.splits, "differ": tally.differ, "wrong": tally.wrong});
        let times = |bytes: usize, times: &Times| json!({"bytes": bytes, "seconds": times.median().map(|median| median.as_secs_f64()), "spread": times.spread(), "expired": times.expired, "streamed": times.streamed});
        let behaviour = |row: &Behaviour| json!({"format": row.format, "contender": row.contender, "cases": tally(&row.cases), "plain": tally(&row.plain), "wrong": row.wrong});
        let speed = |row: &Speed| json!({"format": row.label, "contender": row.contender, "whole_markers": row.whole, "missed": row.missed, "sizes": row.cells.iter().map(|(bytes, cell)| times(*bytes, cell)).collect::<Value>()});
        let prose = |row: &Prose| json!({"format": row.format, "contender": row.contender, "changed": row.missed, "times": times(row.bytes, &row.times)});
        json!({
            "budget_seconds": self.budget.as_secs_f64(),
            "sums": self.behaviours.iter().map(behaviour).collect::<Value>(),
            "calls": self.speeds.iter().map(speed).collect::<Value>(),
            "prose": self.proses.iter().map(prose).collect::<Value>(),
        })
    }
}

fn marked(speed: &Speed) -> String {
    format!("{}{}", speed.contender, if speed.whole { " †" } else { "" })
}

fn add(sum: &mut Tally, tally: &Tally) {
    sum.samples += tally.samples;
    sum.right += tally.right;
    sum.splits += tally.splits;
    sum.differ += tally.differ;
    sum.wrong += tally.wrong;
}
