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

#[cfg(test)]
mod tests {
    use super::*;

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
