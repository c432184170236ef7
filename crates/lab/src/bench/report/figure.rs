//! Figures for readers: three significant digits and a suitable unit.

/// Placeholder for a figure that was not measured.
pub(crate) const NONE: &str = "–";

/// Formats a time given in µs: `0.42 µs`, `58.3 µs`, `1.24 ms`, `312 ms`, `2.41 s`.
pub(crate) fn time(us: f64) -> String {
    let (value, unit) = match us {
        us if !us.is_finite() => return NONE.to_owned(),
        us if us < 999.5 => (us, "µs"),
        us if us < 999_500.0 => (us / 1e3, "ms"),
        us => (us / 1e6, "s"),
    };
    format!("{} {unit}", number(value))
}

/// Formats a number with three significant digits and thousands separators: `0.42`, `58.3`, `312`, `18,204`.
pub(crate) fn number(value: f64) -> String {
    match value {
        value if !value.is_finite() => NONE.to_owned(),
        0.0 => "0".to_owned(),
        value if value.abs() < 9.995 => format!("{value:.2}"),
        value if value.abs() < 99.95 => format!("{value:.1}"),
        value => thousands(&format!("{value:.0}")),
    }
}

/// Formats a count: `18,204`.
pub(crate) fn count(value: u64) -> String {
    thousands(&value.to_string())
}

/// Formats a factor: `1.02`, `0.038`, `12.4`. Small factors have two significant digits.
pub(crate) fn factor(value: f64) -> String {
    match value {
        value if value.is_finite() && value != 0.0 && value.abs() < 0.0995 => format!("{value:.3}"),
        value => number(value),
    }
}

/// Formats a duration given in seconds: `850 ms`, `42 s`, `1 min 42 s`.
pub(crate) fn span(seconds: f64) -> String {
    if seconds.is_finite() && seconds >= 99.5 {
        format!("{:.0} min {:.0} s", (seconds.round() / 60.0).floor(), seconds.round() % 60.0)
    } else {
        time(seconds * 1e6)
    }
}

/// Adds thousands separators to `text`, an integer.
fn thousands(text: &str) -> String {
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("-", digits));
    let mut out = sign.to_owned();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_suitable_unit() {
        let told = [0.0, 0.421, 9.996, 58.26, 999.4, 999.6, 1_240.0, 312_400.0, 999_600.0, 2.41e6, 1.234e9];
        let told = told.map(time);
        assert_eq!(
            told,
            [
                "0 µs", "0.42 µs", "10.0 µs", "58.3 µs", "999 µs", "1.00 ms", "1.24 ms", "312 ms", "1.00 s",
                "2.41 s", "1,234 s"
            ]
        );
        assert_eq!(time(f64::NAN), NONE);
    }

    #[test]
    fn numbers_have_three_significant_digits() {
        assert_eq!(
            [0.0, 1.0, 9.994, 99.94, 99.96, 18_204.4, -1_234.0].map(number),
            ["0", "1.00", "9.99", "99.9", "100", "18,204", "-1,234"]
        );
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!([0.003_24, 0.38, 1.018, 27.04].map(factor), ["0.003", "0.38", "1.02", "27.0"]);
        assert_eq!([0.85, 42.0, 102.4, 119.8].map(span), ["850 ms", "42.0 s", "1 min 42 s", "2 min 0 s"]);
    }
}
