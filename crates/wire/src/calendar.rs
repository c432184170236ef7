//! [`Date`]: dates of the Gregorian calendar in UTC, converted with Howard Hinnant's `civil_from_days` and
//! `days_from_civil`.

/// The number of seconds in a day.
pub const DAY: u64 = 86_400;

/// A date in UTC. Earlier dates are less than later ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Date {
    /// The year.
    pub year: i64,
    /// The month, from 1.
    pub month: i64,
    /// The day of the month, from 1.
    pub day: i64,
}

impl Date {
    /// Returns the date at `time`, which is a Unix time in seconds.
    pub fn of(time: u64) -> Self {
        let shifted = i64::try_from(time / DAY).unwrap_or_default() + 719_468;
        let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let from_march = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let index = (5 * from_march + 2) / 153;
        let day = from_march - (153 * index + 2) / 5 + 1;
        let month = if index < 10 { index + 3 } else { index - 9 };
        Self { year: year_of_era + era * 400 + i64::from(month <= 2), month, day }
    }

    /// Returns the number of days from 1 January 1970 to this date.
    pub fn days(self) -> i64 {
        let Self { year, month, day } = self;
        let year = if month <= 2 { year - 1 } else { year };
        let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let from_march = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + from_march;
        era * 146_097 + day_of_era - 719_468
    }
}

/// The last year that a timestamp can be formatted with.
const MAX_YEAR: i64 = 9999;

/// Formats a Unix time in seconds as a UTC timestamp (RFC 3339, section 5.6). Times after the year 9999 are
/// formatted as midnight of the last day of that year.
pub fn rfc3339(time: u64) -> String {
    let (date, second) = match Date::of(time) {
        Date { year, .. } if year > MAX_YEAR => (Date { year: MAX_YEAR, month: 12, day: 31 }, 0),
        date => (date, time % DAY),
    };
    let Date { year, month, day } = date;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_have_the_internet_format() {
        for (time, written) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_868_799, "2000-02-29T23:59:59Z"),
            (1_801_414_800, "2027-01-31T17:00:00Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
            (253_402_300_800, "9999-12-31T00:00:00Z"),
            (u64::MAX, "9999-12-31T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(time), written);
        }
    }

    #[test]
    fn days_follow_each_other() {
        let mut before = Date { year: 1969, month: 12, day: 31 };
        for day in 0..800 * 366 {
            let date = Date::of(day * DAY);
            assert_eq!(date.days(), i64::try_from(day).unwrap());
            assert_eq!(Date::of(day * DAY + DAY - 1), date);
            assert!(
                date > before && (1..=12).contains(&date.month) && (1..=31).contains(&date.day),
                "{date:?}"
            );
            before = date;
        }
        assert_eq!(Date::of(951_782_400), Date { year: 2000, month: 2, day: 29 });
        assert!(Date::of(u64::MAX).days() > 0);
    }
}
