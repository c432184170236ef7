//! Converts between Unix time and the times in the configuration, and finds the UTC calendar month of a time.

use toml::value::{Datetime, Offset};
pub use toolwire_pipeline::wire::calendar::rfc3339;
use toolwire_pipeline::wire::calendar::{DAY, Date};

/// Converts a date (midnight UTC), or a time with an offset, to Unix time in seconds. Returns `None` for other values,
/// and for times before 1970.
pub(super) fn unix_time(written: &Datetime) -> Option<u64> {
    let date = written.date?;
    let date = Date { year: date.year.into(), month: date.month.into(), day: date.day.into() };
    let seconds = match (&written.time, &written.offset) {
        (None, None) => 0,
        (Some(time), Some(offset)) => {
            let minutes = match offset {
                Offset::Z => 0,
                Offset::Custom { minutes } => i64::from(*minutes),
            };
            let second = i64::from(time.second.unwrap_or(0));
            i64::from(time.hour) * 3600 + i64::from(time.minute) * 60 + second - minutes * 60
        }
        _ => return None,
    };
    u64::try_from(date.days() * i64::try_from(DAY).ok()? + seconds).ok()
}

/// Parses a date or time to Unix time in seconds.
pub fn parse(written: &str) -> Option<u64> {
    unix_time(&written.parse().ok()?)
}

/// A calendar month in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Month {
    year: i64,
    /// From 1 to 12.
    month: i64,
}

impl Month {
    /// The month that contains a Unix time in seconds.
    pub fn of(time: u64) -> Self {
        let Date { year, month, .. } = Date::of(time);
        Self { year, month }
    }

    /// The start of the next month, as Unix time in seconds.
    pub fn end(self) -> u64 {
        let (year, month) = if self.month == 12 { (self.year + 1, 1) } else { (self.year, self.month + 1) };
        beginning(Date { year, month, day: 1 })
    }

    /// Formats the month as `2026-11`.
    pub fn name(self) -> String {
        format!("{:04}-{:02}", self.year, self.month)
    }
}

/// The start of a day (UTC), as Unix time in seconds.
fn beginning(date: Date) -> u64 {
    u64::try_from(date.days()).unwrap_or_default().saturating_mul(DAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(written: &str) -> Option<u64> {
        unix_time(&written.parse().unwrap())
    }

    #[test]
    fn dates_and_times_become_unix_time() {
        assert_eq!(time("1970-01-01"), Some(0));
        assert_eq!(time("2000-03-01"), Some(951_868_800));
        assert_eq!(time("2027-01-31T18:00:00+01:00"), Some(1_801_414_800));
        assert_eq!(time("2027-01-31T18:00:00+01:00"), time("2027-01-31T17:00:00Z"));
        for other in ["1969-12-31", "18:00:00", "2027-01-31T18:00:00"] {
            assert_eq!(time(other), None, "{other}");
        }
        for written in
            ["1970-01-01T00:00:00Z", "2024-02-29T23:59:59Z", "2100-03-01T00:00:00Z", "9999-12-31T00:00:00Z"]
        {
            assert_eq!(rfc3339(time(written).unwrap()), written);
        }
        assert_eq!(rfc3339(u64::MAX), "9999-12-31T00:00:00Z");
    }

    #[test]
    fn months_begin_where_the_last_one_ends() {
        for (written, month, end) in [
            ("2026-11-23T12:00:00Z", "2026-11", "2026-12-01"),
            ("2026-12-31T23:59:59Z", "2026-12", "2027-01-01"),
            ("2028-02-29T00:00:00Z", "2028-02", "2028-03-01"),
            ("1970-01-01T00:00:00Z", "1970-01", "1970-02-01"),
        ] {
            let own = Month::of(time(written).unwrap());
            assert_eq!((own.name().as_str(), own.end()), (month, time(end).unwrap()));
            assert_eq!(Month::of(own.end() - 1), own);
            assert!(Month::of(own.end()) > own);
        }
        assert!(Month::of(u64::MAX).end() > 0);
    }
}
