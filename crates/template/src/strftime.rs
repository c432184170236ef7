//! `strftime_now`, with Python's C locale and in UTC.

use minijinja::{Error, ErrorKind};

use crate::wire::calendar::{DAY, Date};

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

/// The maximum length of a format in bytes. No real date format is longer.
const MAX_FORMAT: usize = 256;

/// Formats the time `now`, which is a Unix time in seconds, with `format`.
pub fn strftime(format: &str, now: u64) -> Result<String, Error> {
    let wrong = |message: String| Error::new(ErrorKind::InvalidOperation, message);
    if format.len() > MAX_FORMAT {
        return Err(wrong("the format of `strftime_now` is too long".to_owned()));
    }
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
        let text = directive.and_then(|directive| field(now, directive));
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

fn field(now: u64, directive: char) -> Option<String> {
    let date @ Date { year, month, day } = Date::of(now);
    let (hour, minute, second) = (now % DAY / 3_600, now / 60 % 60, now % 60);
    // From 0, which is Sunday.
    let weekday = (date.days() + 4) % 7;
    let of = |names: &[&'static str], index: i64| {
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
        'j' => format!("{:03}", date.days() - Date { year, month: 1, day: 1 }.days() + 1),
        'B' => of(&MONTHS, month - 1)?.to_owned(),
        'b' | 'h' => short(of(&MONTHS, month - 1)?),
        'A' => of(&DAYS, weekday)?.to_owned(),
        'a' => short(of(&DAYS, weekday)?),
        'w' => weekday.to_string(),
        'u' => ((weekday + 6) % 7 + 1).to_string(),
        'H' => format!("{hour:02}"),
        'I' => format!("{twelve:02}"),
        'M' => format!("{minute:02}"),
        'S' => format!("{second:02}"),
        'f' => "000000".to_owned(),
        'p' => if hour < 12 { "AM" } else { "PM" }.to_owned(),
        'F' => format!("{year:04}-{month:02}-{day:02}"),
        'D' | 'x' => format!("{month:02}/{day:02}/{:02}", year % 100),
        'T' | 'X' => format!("{hour:02}:{minute:02}:{second:02}"),
        'R' => format!("{hour:02}:{minute:02}"),
        // Python's `datetime.now()` has no time zone.
        'Z' | 'z' => String::new(),
        'n' => "\n".to_owned(),
        't' => "\t".to_owned(),
        '%' => "%".to_owned(),
        _ => return None,
    })
}
