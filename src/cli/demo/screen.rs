//! [`Screen`]: shows in two columns, in chronological order, what the upstream sends and what the client receives.

use std::{
    io::{self, Stdout, Write},
    net::SocketAddr,
    time::Duration,
};

use serde_json::Value;

use toolwire_gateway::observe::{
    terminal::{self, wrapped},
    untrusted_text::escaped,
};
use toolwire_lab::fixture::{Answer, assemble};
use toolwire_pipeline::dialect::ClientDialect;

/// Prefix of the client's lines in the single-column layout.
const CLIENT: &str = "▶";

const TIME: usize = 8;
const GAP: usize = 2;
/// Maximum widths of the left and right columns.
const MOST: [usize; 2] = [54, 70];
/// Minimum width of a column in the two-column layout.
const LEAST: usize = 24;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arrangement {
    /// The upstream on the left, the client on the right. The fields are the widths of the columns.
    Beside { left: usize, right: usize },
    /// Each piece on its own line, which is `columns` wide.
    Below { columns: usize },
}

impl Arrangement {
    /// Chooses the layout for a terminal that is `width` columns wide.
    fn of(width: usize) -> Self {
        let [most_left, most_right] = MOST;
        let sides = width.saturating_sub(TIME + 2 * GAP);
        let left = (sides / 2).min(most_left);
        let right = sides.saturating_sub(left).min(most_right);
        match left >= LEAST {
            true => Self::Beside { left, right },
            false => Self::Below { columns: width.saturating_sub(TIME + 2 * GAP).max(1) },
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// The piece contains raw bytes of the upstream's stream.
    Upstream,
    /// The piece is the data of one SSE event.
    Client,
}

/// The arrival of a piece.
#[derive(Debug, Clone)]
pub(super) struct Moment {
    /// Time since the start of the demo.
    pub(super) at: Duration,
    pub(super) side: Side,
    pub(super) data: String,
}

/// Draws moments on stdout.
#[derive(Debug)]
pub(super) struct Screen {
    out: Stdout,
    is_coloured: bool,
    width: usize,
    arrangement: Arrangement,
    /// When the upstream's piece on the current line arrived, if the line is unfinished.
    left: Option<Duration>,
    delays: Vec<Duration>,
    received: String,
}

impl Screen {
    /// Creates a screen on stdout that is as wide as the terminal.
    pub(super) fn new() -> Self {
        let out = io::stdout();
        let is_coloured = terminal::is_coloured(&out);
        let width = terminal::width(&out).unwrap_or(terminal::WITHOUT_TERMINAL);
        let arrangement = Arrangement::of(width);
        Self { out, is_coloured, width, arrangement, left: None, delays: Vec::new(), received: String::new() }
    }

    fn paint(&self, colour: &str, text: &str) -> String {
        terminal::painted(colour, text, self.is_coloured)
    }

    pub(super) fn open(&mut self, title: &str) -> io::Result<()> {
        writeln!(self.out, "{}\n", wrapped(title, "", self.width))?;
        const HEADS: [&str; 2] = ["the upstream sends", "the client gets"];
        let [sends, gets] = HEADS;
        let head = match self.arrangement {
            Arrangement::Beside { left, .. } => format!("{:>TIME$}  {sends:<left$}  {gets}", "ms"),
            Arrangement::Below { .. } => format!("{:>TIME$}  {sends}\n{:>TIME$}  {CLIENT} {gets}", "ms", ""),
        };
        let head = self.paint("1", &head);
        writeln!(self.out, "{head}")
    }

    /// Draws one moment immediately. After an upstream piece the line is left unfinished, so that the resulting client
    /// piece can be drawn on the same line.
    pub(super) fn draw(&mut self, moment: &Moment) -> io::Result<()> {
        match moment.side {
            Side::Upstream => {
                for gist in moment.data.split("\n\n").filter(|frame| !frame.is_empty()).map(gist) {
                    self.end_line()?;
                    let time = self.paint("2", &time(moment.at));
                    let gist = match self.arrangement {
                        Arrangement::Beside { left, .. } => format!("{:<left$}", gist.shortened(left)),
                        Arrangement::Below { columns } => gist.shortened(columns),
                    };
                    let gist = self.paint("36", &gist);
                    write!(self.out, "{time}  {gist}")?;
                    self.left = Some(moment.at);
                }
            }
            Side::Client => {
                self.received.push_str(&format!("data: {}\n\n", moment.data));
                let cause = self.left.take();
                self.delays.extend(cause.map(|cause| moment.at.saturating_sub(cause)));
                let gist = gist(&moment.data);
                let (margin, gist) = match self.arrangement {
                    Arrangement::Beside { left, right } => {
                        let margin = if cause.is_some() { 0 } else { TIME + GAP + left };
                        (" ".repeat(margin), gist.shortened(right))
                    }
                    Arrangement::Below { columns } => {
                        let line = if cause.is_some() { "\n" } else { "" };
                        (format!("{line}{:>TIME$}", ""), format!("{CLIENT} {}", gist.shortened(columns)))
                    }
                };
                let gist = self.paint("32", &gist);
                writeln!(self.out, "{margin}  {gist}")?;
            }
        }
        self.out.flush()
    }

    fn end_line(&mut self) -> io::Result<()> {
        match self.left.take() {
            Some(_) => writeln!(self.out),
            None => Ok(()),
        }
    }

    /// Ends the current line and draws the summary.
    pub(super) fn close(&mut self) -> io::Result<()> {
        self.end_line()?;
        let Answer { text, calls, results, finish, .. } =
            assemble(ClientDialect::Chat, self.received.as_bytes(), true, 200).answer;
        let head = self.paint("1", "What the client has received");
        writeln!(self.out, "\n{head}")?;
        self.tell("text", text.trim_end())?;
        for result in results.iter().filter(|result| result.call.is_none()) {
            self.tell("Lumo ran", &format!("{}({})", result.name, result.arguments))?;
            self.tell("result", &result.content)?;
        }
        for (index, call) in (0..).zip(&calls) {
            self.tell("call", &format!("{}({})", call.name, call.arguments))?;
            for result in results.iter().filter(|result| result.call == Some(index)) {
                self.tell("result", &result.content)?;
            }
        }
        self.tell("finish", &finish.unwrap_or_default())?;
        self.delays.sort();
        if let Some(median) = self.delays.get(self.delays.len() / 2) {
            let median = median.as_secs_f64() * 1e3;
            let about = "ms from an upstream piece to its delta at the client (median)";
            self.tell("delay", &format!("{median:.2} {about}"))?;
        }
        Ok(())
    }

    fn tell(&mut self, name: &str, text: &str) -> io::Result<()> {
        writeln!(self.out, "{}", wrapped(&escaped(text), &format!("  {name:<8}  "), self.width))
    }

    /// Prints a `curl` command to try, and the console's URL.
    pub(super) fn invite(&mut self, proxy: SocketAddr, request: &[u8]) -> io::Result<()> {
        let compact = serde_json::from_slice::<Value>(request).unwrap_or_default().to_string();
        let head = self.paint("1", "The demo stays up until Ctrl-C. Try");
        writeln!(
            self.out,
            "\n{head}\n  curl -N http://{proxy}/v1/chat/completions \\\n    -H 'content-type: application/json' \\\n    -d '{}'\n\
             The console shows it event by event: http://{proxy}/console/\n\
             `toolwire demo --hosted-tools` shows a search that toolwire runs for the model",
            compact.replace('\'', r"'\''")
        )
    }
}

fn time(at: Duration) -> String {
    format!("{:>8.1}", at.as_secs_f64() * 1e3)
}

/// The part in which a frame differs from other frames.
#[derive(Debug, PartialEq, Eq)]
enum Gist {
    /// What a delta adds. If there is not enough room, its end matters.
    Added(String),
    Whole(String),
}

impl Gist {
    /// The text on one line of at most `columns`.
    fn shortened(&self, columns: usize) -> String {
        let (Self::Added(text) | Self::Whole(text)) = self;
        let text = text.replace('\n', "⏎");
        let text = escaped(&text);
        let (length, room) = (text.chars().count(), columns.saturating_sub(1));
        match self {
            _ if length <= columns => text.into_owned(),
            Self::Added(_) => ['…'].into_iter().chain(text.chars().skip(length - room)).collect(),
            Self::Whole(_) => text.chars().take(room).chain(['…']).collect(),
        }
    }
}

fn gist(frame: &str) -> Gist {
    let data = frame.trim().strip_prefix("data: ").unwrap_or(frame.trim());
    let Ok(Value::Object(frame)) = serde_json::from_str(data) else { return Gist::Whole(data.to_owned()) };
    if let Some(choice) = frame.get("choices").and_then(|choices| choices.get(0)) {
        if let Some(finish) = choice.get("finish_reason").filter(|finish| !finish.is_null()) {
            return Gist::Whole(format!("finish_reason {finish}"));
        }
        let delta = choice.get("delta").unwrap_or(&Value::Null);
        let added = call_gist(delta).or_else(|| text_gist(delta));
        return added.map_or_else(|| Gist::Whole(delta.to_string()), Gist::Added);
    }
    let said = ["tool_call", "tool_result", "usage", "error"].into_iter().find_map(|key| {
        let value = frame.get(key)?;
        Some(format!("{key}: {value}"))
    });
    Gist::Whole(said.unwrap_or_else(|| data.to_owned()))
}

/// What a delta adds to the text or the reasoning, if it is all that is in it.
fn text_gist(delta: &Value) -> Option<String> {
    let mut members = delta.as_object()?.iter();
    let (name, text) = members.next().filter(|(_, text)| text.is_string())?;
    members.next().is_none().then(|| format!("{name} {text}"))
}

/// What a delta of a tool call adds: its index, and its name or a piece of its arguments.
fn call_gist(delta: &Value) -> Option<String> {
    let call = delta.get("tool_calls")?.get(0)?;
    let (index, function) = (call.get("index")?, call.get("function")?);
    let name = function.get("name").map(|name| format!(" name {name}")).unwrap_or_default();
    let arguments = function.get("arguments").filter(|piece| name.is_empty() || *piece != "");
    let arguments = arguments.map(|piece| format!(" arguments {piece}")).unwrap_or_default();
    Some(format!("tool_calls[{index}]{name}{arguments}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gist_is_the_part_that_differs_between_frames() {
        let chunk =
            r#"data: {"id":"i","choices":[{"index":0,"delta":{"content":"A"},"finish_reason":null}]}"#;
        let (added, whole) = (|it: &str| Gist::Added(it.to_owned()), |it: &str| Gist::Whole(it.to_owned()));
        assert_eq!(gist(chunk), added(r#"content "A""#));
        let end = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
        assert_eq!(gist(end), whole(r#"finish_reason "stop""#));
        let call = r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}}]}"#;
        assert_eq!(gist(call), added(r#"tool_calls[0] arguments "{""#));
        let begin = r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#;
        assert_eq!(gist(begin), whole(r#"{"role":"assistant","content":""}"#));
        assert_eq!(gist(":queued"), whole(":queued"));
        assert_eq!(gist("data: [DONE]"), whole("[DONE]"));
        assert_eq!(gist(r#"{"tool_call":{"id":"n"}}"#), whole(r#"tool_call: {"id":"n"}"#));
    }

    #[test]
    fn both_columns_fit_the_width() {
        for width in 20..300 {
            match Arrangement::of(width) {
                Arrangement::Beside { left, right } => {
                    assert!(TIME + 2 * GAP + left + right <= width && left.min(right) >= LEAST, "{width}");
                }
                Arrangement::Below { columns } => {
                    assert!(
                        TIME + GAP + CLIENT.chars().count() + 1 + columns <= width && width < 80,
                        "{width}"
                    );
                }
            }
        }
        assert_eq!(Arrangement::of(136), Arrangement::Beside { left: 54, right: 70 });
    }

    #[test]
    fn long_lines_are_truncated_at_characters() {
        assert_eq!(Gist::Whole("éèêëē".to_owned()).shortened(3), "éè…");
        assert_eq!(Gist::Added("éèêëē".to_owned()).shortened(3), "…ëē");
        for gist in [Gist::Whole("é\né".to_owned()), Gist::Added("é\né".to_owned())] {
            assert_eq!([3, 1, 0].map(|columns| gist.shortened(columns)), ["é⏎é", "…", "…"]);
        }
    }
}
