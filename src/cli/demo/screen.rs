//! [`Screen`]: two columns, what the upstream sends and what the client gets of it, in the order of time.

use std::{
    io::{self, Stdout, Write},
    net::SocketAddr,
    time::Duration,
};

use serde_json::Value;

use crate::fixture::{Answer, assemble};

/// Columns of the left side; the right side takes what it needs.
const LEFT: usize = 54;
/// Most columns of the right side.
const RIGHT: usize = 70;

/// Whose side something is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// The upstream's: raw bytes of its stream.
    Upstream,
    /// The client's: the data of one frame.
    Client,
}

/// Something that came.
#[derive(Debug, Clone)]
pub(super) struct Moment {
    /// When.
    pub(super) at: Duration,
    /// To whom.
    pub(super) side: Side,
    /// What.
    pub(super) data: String,
}

/// Draws moments on stdout.
#[derive(Debug)]
pub(super) struct Screen {
    out: Stdout,
    is_coloured: bool,
    /// The upstream's piece that stands on the left of the open line.
    left: Option<Duration>,
    delays: Vec<Duration>,
    received: String,
}

impl Screen {
    pub(super) fn new(is_coloured: bool) -> Self {
        Self { out: io::stdout(), is_coloured, left: None, delays: Vec::new(), received: String::new() }
    }

    fn paint(&self, colour: &str, text: &str) -> String {
        match self.is_coloured {
            true => format!("\x1b[{colour}m{text}\x1b[0m"),
            false => text.to_owned(),
        }
    }

    pub(super) fn open(&mut self, title: &str) -> io::Result<()> {
        writeln!(self.out, "{title}\n")?;
        let head = format!("{:>8}  {:<LEFT$}  {}", "ms", "the upstream sends", "the client gets");
        let head = self.paint("1", &head);
        writeln!(self.out, "{head}")
    }

    /// Draws one moment, at once: the left side's line stays open for what it brings about on the right.
    pub(super) fn draw(&mut self, moment: &Moment) -> io::Result<()> {
        match moment.side {
            Side::Upstream => {
                for gist in moment.data.split("\n\n").filter(|frame| !frame.is_empty()).map(gist) {
                    self.end_line()?;
                    let time = self.paint("2", &time(moment.at));
                    let gist = self.paint("36", &format!("{:<LEFT$}", shortened(&gist, LEFT)));
                    write!(self.out, "{time}  {gist}")?;
                    self.left = Some(moment.at);
                }
            }
            Side::Client => {
                self.received.push_str(&format!("data: {}\n\n", moment.data));
                let margin = match self.left.take() {
                    Some(cause) => {
                        self.delays.push(moment.at.saturating_sub(cause));
                        String::new()
                    }
                    None => " ".repeat(8 + 2 + LEFT),
                };
                let gist = self.paint("32", &shortened(&gist(&moment.data), RIGHT));
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

    /// What it came to.
    pub(super) fn close(&mut self) -> io::Result<()> {
        self.end_line()?;
        let Answer { text, calls, results, finish, .. } =
            assemble(self.received.as_bytes(), true, 200).answer;
        let head = self.paint("1", "What the client has at the end");
        writeln!(self.out, "\n{head}")?;
        writeln!(self.out, "  text      {}", text.trim_end())?;
        for result in results.iter().filter(|result| result.call.is_none()) {
            writeln!(self.out, "  Lumo ran  {}({})", result.name, result.arguments)?;
            writeln!(self.out, "  result    {}", result.content)?;
        }
        for (index, call) in (0..).zip(&calls) {
            writeln!(self.out, "  call      {}({})", call.name, call.arguments)?;
            for result in results.iter().filter(|result| result.call == Some(index)) {
                writeln!(self.out, "  result    {}", result.content)?;
            }
        }
        writeln!(self.out, "  finish    {}", finish.unwrap_or_default())?;
        self.delays.sort();
        if let Some(median) = self.delays.get(self.delays.len() / 2) {
            writeln!(
                self.out,
                "  delay     {:.2} ms from an upstream piece to its delta in the client (median)",
                median.as_secs_f64() * 1e3
            )?;
        }
        Ok(())
    }

    /// How to try it oneself.
    pub(super) fn invite(&mut self, proxy: SocketAddr, request: &[u8]) -> io::Result<()> {
        let compact = serde_json::from_slice::<Value>(request).unwrap_or_default().to_string();
        let head = self.paint("1", "It stays up; Ctrl-C ends it. Try");
        writeln!(
            self.out,
            "\n{head}\n  curl -N http://{proxy}/v1/chat/completions -H 'content-type: application/json' -d '{}'",
            compact.replace('\'', r"'\''")
        )
    }
}

fn time(at: Duration) -> String {
    format!("{:>8.1}", at.as_secs_f64() * 1e3)
}

/// A frame without what all frames have in common.
fn gist(frame: &str) -> String {
    let data = frame.trim().strip_prefix("data: ").unwrap_or(frame.trim());
    let Ok(Value::Object(frame)) = serde_json::from_str(data) else { return data.to_owned() };
    if let Some(choice) = frame.get("choices").and_then(|choices| choices.get(0)) {
        if let Some(finish) = choice.get("finish_reason").filter(|finish| !finish.is_null()) {
            return format!("finish_reason: {finish}");
        }
        let delta = choice.get("delta").unwrap_or(&Value::Null);
        return call_gist(delta).unwrap_or_else(|| delta.to_string());
    }
    let said = ["tool_call", "tool_result", "usage", "error"].into_iter().find_map(|key| {
        let value = frame.get(key)?;
        Some(format!("{key}: {value}"))
    });
    said.unwrap_or_else(|| data.to_owned())
}

/// A delta of a call: which one, and what is new of it.
fn call_gist(delta: &Value) -> Option<String> {
    let call = delta.get("tool_calls")?.get(0)?;
    let (index, function) = (call.get("index")?, call.get("function")?);
    let name = function.get("name").map(|name| format!(" name {name}")).unwrap_or_default();
    let arguments = function.get("arguments").filter(|piece| name.is_empty() || *piece != "");
    let arguments = arguments.map(|piece| format!(" arguments {piece}")).unwrap_or_default();
    Some(format!("tool_calls[{index}]{name}{arguments}"))
}

fn shortened(text: &str, columns: usize) -> String {
    let text = text.replace('\n', "⏎");
    match text.chars().count() > columns {
        true => text.chars().take(columns - 1).chain(['…']).collect(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gist_is_what_differs_between_frames() {
        let chunk =
            r#"data: {"id":"i","choices":[{"index":0,"delta":{"content":"A"},"finish_reason":null}]}"#;
        assert_eq!(gist(chunk), r#"{"content":"A"}"#);
        let end = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
        assert_eq!(gist(end), r#"finish_reason: "stop""#);
        let call = r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}}]}"#;
        assert_eq!(gist(call), r#"tool_calls[0] arguments "{""#);
        assert_eq!(gist(":queued"), ":queued");
        assert_eq!(gist("data: [DONE]"), "[DONE]");
        assert_eq!(gist(r#"{"tool_call":{"id":"n"}}"#), r#"tool_call: {"id":"n"}"#);
    }

    #[test]
    fn long_lines_are_cut_by_characters() {
        assert_eq!(shortened("ééééé", 3), "éé…");
        assert_eq!(shortened("é\né", 3), "é⏎é");
    }
}
