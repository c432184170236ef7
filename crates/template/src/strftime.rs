//! `strftime_now` as in Python's C locale, in UTC.

use minijinja::{Error, ErrorKind};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// Maximum bytes of a format; no real date format is longer.
const MAX_FORMAT: usize = 256;

/// A point in time, split into calendar fields.
struct Moment {
    year: u64,
    /// From 1.
    month: u64,
    /// From 1.
    day: u64,
    /// From 0, Sunday.
    weekday: u64,
    /// From 1.
    day_of_year: u64,
    /// Seconds since midnight.
    second: u64,
}

impl Moment {
    /// `now` is in seconds of Unix time. Days are converted to a date as in Howard Hinnant's
    /// `civil_from_days`.
    fn new(now: u64) -> Self {
        let (days, second) = (now / 86_400, now % 86_400);
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let from_march = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_index = (5 * from_march + 2) / 153;
        let day = from_march - (153 * month_index + 2) / 5 + 1;
        let month = if month_index < 10 { month_index + 3 } else { month_index - 9 };
        let year = year_of_era + era * 400 + u64::from(month <= 2);
        let is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
        let day_of_year = if month <= 2 { from_march - 305 } else { from_march + 60 + u64::from(is_leap) };
        Self { year, month, day, weekday: (days + 4) % 7, day_of_year, second }
    }
}

/// Formats the time `now` with `format`.
pub fn strftime(format: &str, now: u64) -> Result<String, Error> {
    let wrong = |message: String| Error::new(ErrorKind::InvalidOperation, message);
    if format.len() > MAX_FORMAT {
        return Err(wrong("the format of `strftime_now` is too long".to_owned()));
    }
    let moment = Moment::new(now);
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(char) = chars.next() {
        if char != '%' {
            out.push(char);
            continue;
        }
        let mut directive = chars.next();
        let is_bare = directive == Some('-');
        if is_bare {
            directive = chars.next();
        }
        let text = directive.and_then(|directive| field(&moment, directive));
        let text = text.ok_or_else(|| wrong(format!("`strftime_now` does not know all of `{format}`")))?;
        let bare = text.trim_start_matches(['0', ' ']);
        out.push_str(match is_bare {
            true if bare.is_empty() => "0",
            true => bare,
            false => &text,
        });
    }
    Ok(out)
}

fn field(moment: &Moment, directive: char) -> Option<String> {
    let Moment { year, month, day, weekday, day_of_year, second } = *moment;
    let (hour, minute) = (second / 3_600, second / 60 % 60);
    let of = |names: &[&'static str], index: u64| {
        usize::try_from(index).ok().and_then(|at| names.get(at).copied())
    };
    let short = |name: &str| name.chars().take(3).collect::<String>();
    let twelve = (hour + 11) % 12 + 1;
    Some(match directive {
        'Y' => format!("{year:04}"),
        'y' => format!("{:02}", year % 100),
        'C' => format!("{:02}", year / 100),
        'm' => format!("{month:02}"),
        'd' => format!("{day:02}"),
        'e' => format!("{day:2}"),
        'j' => format!("{day_of_year:03}"),
        'B' => of(&MONTHS, month - 1)?.to_owned(),
        'b' | 'h' => short(of(&MONTHS, month - 1)?),
        'A' => of(&DAYS, weekday)?.to_owned(),
        'a' => short(of(&DAYS, weekday)?),
        'w' => weekday.to_string(),
        'u' => ((weekday + 6) % 7 + 1).to_string(),
        'H' => format!("{hour:02}"),
        'I' => format!("{twelve:02}"),
        'M' => format!("{minute:02}"),
        'S' => format!("{:02}", second % 60),
        'f' => "000000".to_owned(),
        'p' => if hour < 12 { "AM" } else { "PM" }.to_owned(),
        'F' => format!("{year:04}-{month:02}-{day:02}"),
        'D' | 'x' => format!("{month:02}/{day:02}/{:02}", year % 100),
        'T' | 'X' => format!("{hour:02}:{minute:02}:{:02}", second % 60),
        'R' => format!("{hour:02}:{minute:02}"),
        // Python's `datetime.now()` has no time zone.
        'Z' | 'z' => String::new(),
        'n' => "\n".to_owned(),
        't' => "\t".to_owned(),
        '%' => "%".to_owned(),
        _ => return None,
    })
}
