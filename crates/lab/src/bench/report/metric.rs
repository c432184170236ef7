//! The names of [`Metric`]s, for programs and for people.

use std::{fmt, str::FromStr};

use strum::VariantArray;

use super::{Distribution, Metric};
use crate::Invalid;

impl Metric {
    /// Returns the name in JSON, CSV, ratios and service levels, such as `first_call`.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns the names of all metrics, for error messages.
    pub(crate) fn names() -> String {
        Self::VARIANTS.iter().map(|metric| metric.name()).collect::<Vec<_>>().join(", ")
    }

    /// Returns the name in the table.
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

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::VARIANTS
            .iter()
            .copied()
            .find(|metric| metric.name() == name)
            .ok_or_else(|| format!("no measure `{name}`: one of {}", Self::names()).into())
    }
}

impl Distribution {
    /// Returns all statistics except the count, each with its name: `mean`, `p99`, …
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
        for &metric in Metric::VARIANTS {
            assert_eq!(serde_json::to_value(metric).unwrap(), metric.name());
            assert_eq!(metric.name().parse(), Ok(metric));
        }
        assert!("ttfx".parse::<Metric>().is_err());
    }
}
