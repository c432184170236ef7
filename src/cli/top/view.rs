//! [`View`]: the lines that `toolwire top` shows for a snapshot, fitted to the terminal.
//!
//! Model names, key names and ids are chosen by other people, so they are escaped and truncated to their columns.

use std::{cmp::Ordering, time::Duration};

use unicode_width::UnicodeWidthChar;

use super::snapshot::{Now, Percentiles, Snapshot, Stream};
use toolwire_gateway::observe::{terminal::counted, untrusted_text::escaped};

/// How the user has chosen to view the table.
#[derive(Debug, Default)]
pub(super) struct View {
    sort: Sort,
    is_reversed: bool,
}

/// What a key press does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Nothing,
    Redraw,
    Quit,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Sort {
    #[default]
    Age,
    FirstContent,
    Tokens,
    Rate,
    Model,
    Key,
    Upstream,
}

impl Sort {
    const ALL: [(Self, &str); 7] = [
        (Self::Age, "age"),
        (Self::FirstContent, "time to first token"),
        (Self::Tokens, "tokens"),
        (Self::Rate, "tokens/s"),
        (Self::Model, "model"),
        (Self::Key, "key"),
        (Self::Upstream, "upstream"),
    ];

    fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(sort, _)| *sort == self).map_or("", |(_, name)| name)
    }

    fn next(self) -> Self {
        let later = Self::ALL.into_iter().skip_while(|(sort, _)| *sort != self).nth(1);
        later.map_or(Self::Age, |(sort, _)| sort)
    }

    /// Orders streams with the largest numbers first, and names alphabetically.
    fn order(self, a: &Stream, b: &Stream) -> Ordering {
        match self {
            Self::Age => b.ms.cmp(&a.ms),
            Self::FirstContent => b.ttft_ms.cmp(&a.ttft_ms),
            Self::Tokens => b.tokens.cmp(&a.tokens),
            Self::Rate => b.tokens_per_s.unwrap_or(-1.0).total_cmp(&a.tokens_per_s.unwrap_or(-1.0)),
            Self::Model => a.model.cmp(&b.model),
            Self::Key => a.key.cmp(&b.key),
            Self::Upstream => a.upstream.cmp(&b.upstream),
        }
    }
}

/// The size of the terminal, and whether it supports colours.
#[derive(Debug, Clone, Copy)]
pub(super) struct Canvas {
    pub(super) columns: usize,
    pub(super) rows: usize,
    pub(super) is_coloured: bool,
}

impl View {
    pub(super) fn press(&mut self, key: u8) -> Act {
        match key {
            // In raw mode, Ctrl-C and Ctrl-D arrive as bytes.
            b'q' | 3 | 4 => return Act::Quit,
            b's' => self.sort = self.sort.next(),
            b'r' => self.is_reversed = !self.is_reversed,
            _ => return Act::Nothing,
        }
        Act::Redraw
    }

    /// Returns the lines of a screen. `lost` says why there is no newer snapshot.
    pub(super) fn screen(
        &self,
        server: &str,
        snapshot: &Snapshot,
        lost: Option<&str>,
        canvas: Canvas,
    ) -> Vec<String> {
        let mut lines = summary(server, snapshot);
        if let Some(lost) = lost {
            lines.push(format!("connecting again: {}", escaped(lost)));
        }
        let mut lines: Vec<_> = lines.iter().map(|line| cut(line, canvas.columns)).collect();
        if let (true, Some(first)) = (canvas.is_coloured, lines.first_mut()) {
            *first = bold(first);
        }
        lines.push(String::new());
        let order = if self.is_reversed { ", reversed" } else { "" };
        let keys = format!("sorted by {}{order}  s: next  r: reverse  q: quit", self.sort.name());
        // Two rows are for the table's header and the last line.
        let room = canvas.rows.saturating_sub(lines.len() + 2);
        lines.extend(self.table(snapshot, room, canvas));
        lines.truncate(canvas.rows.saturating_sub(1));
        lines.push(cut(&keys, canvas.columns));
        lines
    }

    /// Returns the lines for `--once`.
    pub(super) fn report(&self, server: &str, snapshot: &Snapshot, canvas: Canvas) -> Vec<String> {
        let mut lines = summary(server, snapshot);
        lines.push(String::new());
        lines.extend(self.table(snapshot, usize::MAX, canvas));
        lines
    }

    fn table(&self, snapshot: &Snapshot, room: usize, canvas: Canvas) -> Vec<String> {
        let mut streams: Vec<_> = snapshot.streams.iter().collect();
        streams.sort_by(|a, b| {
            let order = self.sort.order(a, b);
            if self.is_reversed { order.reverse() } else { order }
        });
        let shown = if streams.len() > room { room.saturating_sub(1) } else { streams.len() };
        let rows: Vec<_> = streams.iter().take(shown).map(|stream| cells(stream)).collect();
        let columns = fitted(&rows, canvas.columns);
        let header = line(&columns, &COLUMNS.map(|column| column.title.to_owned()));
        let mut lines = vec![if canvas.is_coloured { bold(&header) } else { header }];
        lines.extend(rows.iter().map(|row| line(&columns, row)));
        let more = snapshot.count.saturating_sub(shown as u64);
        if more > 0 {
            lines.push(cut(&format!("… {more} more"), canvas.columns));
        }
        lines
    }
}

fn bold(text: &str) -> String {
    format!("\x1b[1m{text}\x1b[0m")
}

/// The lines above the table: the number of responses, and the statistics for the last minute.
fn summary(server: &str, snapshot: &Snapshot) -> Vec<String> {
    let Snapshot { version, now, count, streams } = snapshot;
    let Now { requests_per_s, output_tokens_per_s, errors, cancelled, ttft_ms, duration_ms } = now;
    let mut states = ["preparing", "waiting", "tools"].map(|state| {
        let count = streams.iter().filter(|stream| stream.state.as_deref() == Some(state)).count();
        (count > 0).then(|| format!("{count} {state}"))
    });
    let states: Vec<_> = states.iter_mut().filter_map(Option::take).collect();
    let states = if states.is_empty() { String::new() } else { format!(" ({})", states.join(", ")) };
    let count = counted(usize::try_from(*count).unwrap_or(usize::MAX), "response");
    let failed: u64 = errors.values().sum();
    let kinds: Vec<_> = errors.iter().map(|(kind, count)| format!("{} {count}", escaped(kind))).collect();
    let kinds = if kinds.is_empty() { String::new() } else { format!(" ({})", kinds.join(", ")) };
    vec![
        format!("toolwire {} at {}: {count} in progress{states}", escaped(version), escaped(server)),
        format!(
            "last minute: {} requests/s  {} tokens/s  {failed} failed{kinds}  {cancelled} cancelled",
            number(*requests_per_s),
            number(*output_tokens_per_s)
        ),
        format!("first token: {}  duration: {}", percentiles(ttft_ms), percentiles(duration_ms)),
    ]
}

fn percentiles(Percentiles { p50, p95 }: &Percentiles) -> String {
    let time = |millis: &Option<f64>| {
        millis.map_or("-".to_owned(), |millis| {
            time(Duration::try_from_secs_f64(millis / 1e3).unwrap_or_default())
        })
    };
    format!("p50 {} p95 {}", time(p50), time(p95))
}

fn number(number: Option<f64>) -> String {
    number.map_or("-".to_owned(), |number| format!("{number:.1}"))
}

/// Formats a duration. Up to 27 hours, the result takes at most six columns.
fn time(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{}ms", time.as_millis()),
        1..60 => format!("{:.1}s", time.as_secs_f64()),
        seconds @ 60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        seconds => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

struct Column {
    title: &'static str,
    is_number: bool,
    /// The column's maximum width.
    widest: usize,
    /// If the columns do not fit, those with the smallest weights are truncated or left out first.
    weight: u8,
}

const fn column(title: &'static str, is_number: bool, widest: usize, weight: u8) -> Column {
    Column { title, is_number, widest, weight }
}

const COLUMNS: [Column; 12] = [
    column("AGE", true, 8, 10),
    column("TTFT", true, 8, 8),
    column("TOKENS", true, 10, 7),
    column("TOK/S", true, 8, 9),
    column("STATE", false, 10, 11),
    column("HOPS", true, 5, 3),
    column("CLIENT", false, 12, 4),
    column("KEY", false, 24, 5),
    column("MODEL", false, 40, 12),
    column("TARGET", false, 24, 2),
    column("UPSTREAM", false, 24, 6),
    column("ID", false, 40, 1),
];

/// A column that would be narrower than this is left out.
const SHORTEST: usize = 8;

type Row = [String; COLUMNS.len()];

fn cells(stream: &Stream) -> Row {
    let Stream { id, model, key, client, target, upstream, state, hops, tokens, tokens_per_s, ttft_ms, ms } =
        stream;
    let millis = |millis: u64| time(Duration::from_millis(millis));
    // Show the target only if it differs from the model.
    let target = if target == model { "" } else { target };
    let text = |text: &str| escaped(text).into_owned();
    [
        millis(*ms),
        ttft_ms.map_or("-".to_owned(), millis),
        tokens.to_string(),
        number(*tokens_per_s),
        text(state.as_deref().unwrap_or("?")),
        hops.to_string(),
        text(client),
        text(key.as_deref().unwrap_or("-")),
        text(model),
        text(target),
        text(upstream),
        text(id),
    ]
}

/// Fits the columns into `room`. Columns that are left out have width 0.
fn fitted(rows: &[Row], room: usize) -> [usize; COLUMNS.len()] {
    let mut widths = COLUMNS.map(|column| column.title.len());
    for row in rows {
        for ((width, cell), column) in widths.iter_mut().zip(row).zip(&COLUMNS) {
            *width = (*width).max(columns_of(cell)).min(column.widest);
        }
    }
    let total = |widths: &[usize]| {
        let shown = widths.iter().filter(|width| **width > 0).count();
        widths.iter().sum::<usize>() + shown.saturating_sub(1) * 2
    };
    loop {
        let excess = total(&widths).saturating_sub(room);
        if excess == 0 {
            return widths;
        }
        let shown = widths.iter_mut().zip(&COLUMNS).filter(|(width, _)| **width > 0);
        let Some((width, _)) = shown.min_by_key(|(_, column)| column.weight) else { return widths };
        // A column that is only slightly too wide is truncated.
        let cut = width.saturating_sub(excess);
        *width = if cut >= SHORTEST { cut } else { 0 };
        if widths.iter().all(|width| *width == 0) {
            // Not even the most important column fits: truncate it to the available width.
            if let Some((width, _)) = widths.iter_mut().zip(&COLUMNS).max_by_key(|(_, column)| column.weight)
            {
                *width = room;
            }
            return widths;
        }
    }
}

fn line(widths: &[usize; COLUMNS.len()], row: &Row) -> String {
    let cells = widths.iter().zip(row).zip(&COLUMNS).filter(|((width, _), _)| **width > 0);
    let cells: Vec<_> = cells
        .map(|((width, cell), column)| {
            let cell = cut(cell, *width);
            let gap = " ".repeat(width.saturating_sub(columns_of(&cell)));
            if column.is_number { gap + &cell } else { cell + &gap }
        })
        .collect();
    cells.join("  ").trim_end().to_owned()
}

/// The width of a character. Combining marks count as one column, so that a name cannot hold arbitrarily many of them.
fn width(char: char) -> usize {
    char.width().unwrap_or(0).max(1)
}

fn columns_of(text: &str) -> usize {
    text.chars().map(width).sum()
}

/// Truncates `text` to at most `room` columns.
fn cut(text: &str, room: usize) -> String {
    if columns_of(text) <= room {
        return text.to_owned();
    }
    let (mut kept, mut left) = (String::new(), room.saturating_sub(1));
    for char in text.chars() {
        if width(char) > left {
            break;
        }
        left -= width(char);
        kept.push(char);
    }
    if room > 0 {
        kept.push('…');
    }
    kept
}

#[cfg(test)]
mod tests;
