//! The names of [`Metric`]s: one for programs, one for readers.

use std::{fmt, str::FromStr};

use super::{Distribution, Metric};
use crate::Invalid;

impl Metric {
    /// All metrics, in the order in which they occur in a stream.
    pub const ALL: [Self; 9] = [
        Self::Ttfb,
        Self::Ttft,
        Self::FirstCall,
        Self::LastCall,
        Self::Itl,
        Self::Tpot,
        Self::E2e,
        Self::Added,
        Self::Slip,
    ];

    /// The name in JSON, CSV, ratios and service levels: `first_call`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ttfb => "ttfb",
            Self::Ttft => "ttft",
            Self::FirstCall => "first_call",
            Self::LastCall => "last_call",
            Self::Itl => "itl",
            Self::Tpot => "tpot",
            Self::E2e => "e2e",
            Self::Added => "added",
            Self::Slip => "slip",
        }
    }

    /// The name in the table.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Ttfb => "TTFB",
            Self::Ttft => "TTFT",
            Self::FirstCall => "first call",
            Self::LastCall => "last call",
            Self::Itl => "ITL",
            Self::Tpot => "TPOT",
            Self::E2e => "E2E",
            Self::Added => "added",
            Self::Slip => "mock's slip",
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Metric {
    type Err = Invalid;

    fn from_str(name: &str) -> Result<Self, Invalid> {
        let metric = Self::ALL.into_iter().find(|metric| metric.name() == name);
        let unknown = || format!("no measure `{name}`: one of {}", Self::ALL.map(Self::name).join(", "));
        metric.ok_or_else(|| unknown().into())
    }
}

impl Distribution {
    /// Returns the statistics by name, without the count: `mean`, `p99`, …
    pub fn statistics(&self) -> [(&'static str, f64); 8] {
        [
            ("min", self.min),
            ("mean", self.mean),
            ("p50", self.p50),
            ("p90", self.p90),
            ("p95", self.p95),
            ("p99", self.p99),
            ("p999", self.p999),
            ("max", self.max),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metric_names_match_the_json() {
        for metric in Metric::ALL {
            assert_eq!(serde_json::to_value(metric).unwrap(), metric.name());
            assert_eq!(metric.name().parse(), Ok(metric));
        }
        assert!("ttfx".parse::<Metric>().is_err());
    }
}
