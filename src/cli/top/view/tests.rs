use serde_json::json;

use super::*;
use toolwire_net::untrusted_text::is_unprintable;

fn snapshot(models: &[&str]) -> Snapshot {
    let streams: Vec<_> = models
        .iter()
        .enumerate()
        .map(|(number, model)| {
            json!({
                "id": format!("req_{number}"), "model": model, "key": null, "client": "messages", "target": "entry",
                "upstream": "local", "state": "streaming", "hops": 1, "tokens": number * 100, "tokens_per_s": 48.1,
                "ttft_ms": 212, "ms": 4610 + number,
            })
        })
        .collect();
    let times = json!({"p50": 212.0, "p95": 61_000.0});
    let json = json!({
        "version": "0.1.0", "count": models.len(), "streams": streams,
        "now": {"requests_per_s": 0.25, "output_tokens_per_s": null, "errors": {"timeout": 2}, "cancelled": 1,
                "ttft_ms": times, "duration_ms": {"p50": null, "p95": null}},
    });
    serde_json::from_value(json).unwrap()
}

fn canvas(columns: usize, rows: usize) -> Canvas {
    Canvas { columns, rows, is_coloured: false }
}

const SERVER: &str = "http://127.0.0.1:8787";

#[test]
fn wide_screen_shows_everything() {
    let lines = View::default().screen(SERVER, &snapshot(&["m", "n"]), None, canvas(160, 24));
    assert_eq!(lines[0], "toolwire 0.1.0 at http://127.0.0.1:8787: 2 responses in progress");
    assert_eq!(lines[1], "last minute: 0.2 requests/s  - tokens/s  2 failed (timeout 2)  1 cancelled");
    assert_eq!(lines[2], "first token: p50 212ms p95 1m01s  duration: p50 - p95 -");
    assert_eq!(
        lines[4],
        " AGE   TTFT  TOKENS  TOK/S  STATE      HOPS  CLIENT    KEY  MODEL  TARGET  UPSTREAM  ID"
    );
    assert_eq!(
        lines[5],
        "4.6s  212ms     100   48.1  streaming     1  messages  -    n      entry   local     req_1"
    );
    assert_eq!(lines.len(), 8, "{lines:#?}");
}

#[test]
fn every_line_fits_every_terminal() {
    let wide = "漢字".repeat(50);
    let marks = format!("e{}", "\u{301}".repeat(500));
    let long = "m".repeat(5000);
    let names = [wide.as_str(), &marks, &long, "\u{1b}[2J\r\n\u{202e}\u{9b}31m", "", "👩‍👩‍👧"];
    let snapshot = snapshot(&names.repeat(10));
    for columns in 0..200 {
        for rows in [1, 2, 5, 24] {
            let lines = View::default().screen(SERVER, &snapshot, Some("\u{1b}gone"), canvas(columns, rows));
            assert!(lines.len() <= rows, "{rows}: {lines:#?}");
            for line in &lines {
                assert!(!line.contains(is_unprintable), "{line:?}");
                assert!(columns_of(line) <= columns, "{columns}: {line:?}");
                assert!(line.chars().count() <= columns, "{columns}: {line:?}");
            }
        }
    }
}

#[test]
fn narrow_terminal_keeps_what_matters() {
    let lines = View::default().report(SERVER, &snapshot(&["a-model"]), canvas(40, 24));
    let (header, row) = (&lines[4], &lines[5]);
    assert_eq!(header, " AGE   TTFT  TOK/S  STATE      MODEL");
    assert_eq!(row, "4.6s  212ms   48.1  streaming  a-model");
}

#[test]
fn rows_beyond_the_screen_are_counted() {
    let lines = View::default().screen(SERVER, &snapshot(&["m"; 50]), None, canvas(100, 12));
    assert_eq!(lines.len(), 12);
    assert_eq!(lines[10], "… 45 more");
    assert!(lines[11].starts_with("sorted by age"), "{lines:#?}");
}

#[test]
fn keys_sort_reverse_and_quit() {
    let mut view = View::default();
    let snapshot = snapshot(&["b", "a", "c"]);
    let order = |view: &View| {
        let lines = view.report(SERVER, &snapshot, canvas(200, 24));
        lines[5..].iter().map(|line| line.split_whitespace().nth(8).unwrap()).collect::<String>()
    };
    assert_eq!(order(&view), "cab");
    assert_eq!(view.press(b'r'), Act::Redraw);
    assert_eq!(order(&view), "bac");
    view.press(b'r');
    (0..4).for_each(|_| _ = view.press(b's'));
    assert_eq!((view.sort, order(&view)), (Sort::Model, "abc".to_owned()));
    (0..3).for_each(|_| _ = view.press(b's'));
    assert_eq!(view.sort, Sort::Age);
    assert_eq!((view.press(b'x'), view.press(0x1b)), (Act::Nothing, Act::Nothing));
    assert_eq!((view.press(b'q'), view.press(3)), (Act::Quit, Act::Quit));
}

#[test]
fn times_are_short() {
    let told = [0, 999, 1500, 59_900, 61_000, 3_661_000].map(|millis| time(Duration::from_millis(millis)));
    assert_eq!(told, ["0ms", "999ms", "1.5s", "59.9s", "1m01s", "1h01m"]);
}
