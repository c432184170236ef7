//! [`Share`]: a count out of a total, with the confidence interval of the true share.

use serde::{Deserialize, Serialize};

/// The quantile of the normal distribution for 95 % intervals.
const Z: f64 = 1.959_963_984_540_054;

/// A count out of a total, with its 95 % interval by Wilson's method, which is also accurate for shares near 0 and 1 and
/// for small totals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Share {
    pub count: u64,
    /// The total.
    pub of: u64,
    /// The lower end of the interval, 0 to 1.
    pub low: f64,
    /// The upper end of the interval, 0 to 1.
    pub high: f64,
}

impl Share {
    /// Creates the share of `count` in `of`. If `of` is 0, the interval is 0 to 1.
    pub fn new(count: u64, of: u64) -> Self {
        if of == 0 {
            return Self { count, of, low: 0.0, high: 1.0 };
        }
        let (n, share) = (of as f64, count as f64 / of as f64);
        let scale = 1.0 + Z * Z / n;
        let center = (share + Z * Z / (2.0 * n)) / scale;
        let half = Z / scale * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
        // Shares of 0 and 1 have an exact bound, which rounding errors would shift.
        let low = if count == 0 { 0.0 } else { (center - half).max(0.0) };
        let high = if count >= of { 1.0 } else { (center + half).min(1.0) };
        Self { count, of, low, high }
    }

    /// Returns the share itself, 0 to 1, or `None` if the total is 0.
    pub fn value(&self) -> Option<f64> {
        (self.of > 0).then(|| self.count as f64 / self.of as f64)
    }

    /// Returns the lower end of the 95 % interval of the difference `self` − `other`, by Newcombe's method, which combines
    /// the two intervals. Returns -1 if the total of `self` is 0; if that of `other` is 0, its share counts as 0.
    pub fn low_minus(&self, other: &Self) -> f64 {
        let (Some(own), other_value) = (self.value(), other.value()) else { return -1.0 };
        let Some(other_value) = other_value else { return self.low };
        own - other_value - (own - self.low).hypot(other.high - other_value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(count: u64, of: u64) -> (String, String) {
        let share = Share::new(count, of);
        (format!("{:.4}", share.low), format!("{:.4}", share.high))
    }

    #[test]
    fn interval_is_wilsons() {
        // Reference values: R, prop.test(..., correct = FALSE).
        for (count, of, low, high) in [
            (0, 10, "0.0000", "0.2775"),
            (10, 10, "0.7225", "1.0000"),
            (5, 10, "0.2366", "0.7634"),
            (1, 1, "0.2065", "1.0000"),
            (15, 148, "0.0624", "0.1605"),
        ] {
            assert_eq!(ends(count, of), (low.to_owned(), high.to_owned()), "{count} of {of}");
        }
        assert_eq!(Share::new(0, 0), Share { count: 0, of: 0, low: 0.0, high: 1.0 });
    }

    #[test]
    fn difference_is_newcombes() {
        // Newcombe (1998), example (a), method 10: 56/70 - 48/80 is 0.0524 to 0.3339.
        let (one, other) = (Share::new(56, 70), Share::new(48, 80));
        assert_eq!(format!("{:.4}", one.low_minus(&other)), "0.0524");
        assert_eq!(one.low_minus(&Share::default()).to_bits(), one.low.to_bits());
        assert!(Share::new(0, 0).low_minus(&other) <= -1.0);
    }
}
