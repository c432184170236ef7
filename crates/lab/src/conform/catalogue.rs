//! Builds the cases: each combines a response with a way of sending it.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    case::{Ask, Case, Category, Expected, Source, Wanted},
    places::Places,
    recorded_responses::recorded,
    scenario::{Scenario, pieces},
    upstream::Frames,
    variant::Variant,
};
use crate::{fixture::Fixture, upstream::Api};
use toolwire_pipeline::{conversation::Call, event::Finish, format::Format};

/// What the cases are built from.
#[derive(Debug)]
pub struct Selection {
    /// Dialects of upstreams.
    pub apis: Vec<Api>,
    /// Formats of calls written as text.
    pub formats: Vec<&'static Format>,
    /// Recorded responses.
    pub fixtures: Vec<Fixture>,
    /// Number of positions at which a response is cut in two. A shorter response is cut at every position.
    pub cuts: usize,
    /// Seed for choosing those positions.
    pub seed: u64,
}

/// Returns all cases, ordered by dialect.
pub fn cases(selection: &Selection) -> Vec<Arc<Case>> {
    let mut all = Vec::new();
    for &api in &selection.apis {
        let mut catalogue = Catalogue { api, selection, tools: Arc::new(tools()), all: &mut all };
        catalogue.texts();
        catalogue.calls();
        catalogue.reasoning();
        catalogue.usage();
        catalogue.framing();
        catalogue.splits();
        catalogue.truncation();
        catalogue.errors();
        catalogue.whole();
        catalogue.images();
        catalogue.cancellation();
        catalogue.text_calls();
        let found = recorded(api, &selection.fixtures);
        for (name, recorded, tools, wanted) in found {
            let cut = recorded.body.clone();
            catalogue.tools = Arc::new(tools);
            let places = Places { name: &name, len: cut.len() }.chosen(selection);
            for variant in [Variant::Whole, Variant::Bytes(1)].into_iter().chain(places.map(Variant::Cut)) {
                catalogue.all.push(Arc::new(Case {
                    name: format!("{api}/recorded/{name}{variant}"),
                    category: Category::Recorded,
                    api,
                    ask: Ask::Stream,
                    source: Source::Recorded(Arc::clone(&recorded), variant),
                    format: None,
                    tools: Arc::clone(&catalogue.tools),
                    expected: wanted.clone(),
                }));
            }
        }
    }
    all
}

/// Builds the cases of one dialect.
struct Catalogue<'c> {
    api: Api,
    selection: &'c Selection,
    tools: Arc<Vec<Value>>,
    all: &'c mut Vec<Arc<Case>>,
}

/// The statuses of error responses, each with the range of statuses that the client may receive instead. The ranges are
/// wide because a gateway may hide errors that concern only its own key and address.
const STATUSES: [(u16, u16, u16); 7] = [
    (400, 400, 499),
    (401, 400, 599),
    (403, 400, 599),
    (404, 400, 599),
    (429, 429, 429),
    (500, 500, 599),
    (503, 500, 599),
];

impl Catalogue<'_> {
    fn add(&mut self, category: Category, name: &str, scenario: &Arc<Scenario>, variant: Variant) {
        let wanted = self.wanted(scenario);
        self.put(category, name, scenario, variant, Expected::Response(wanted));
    }

    fn put(
        &mut self,
        category: Category,
        name: &str,
        scenario: &Arc<Scenario>,
        variant: Variant,
        expected: Expected,
    ) {
        self.ask(Ask::Stream, category, name, scenario, variant, expected);
    }

    fn ask(
        &mut self,
        ask: Ask,
        category: Category,
        name: &str,
        scenario: &Arc<Scenario>,
        variant: Variant,
        expected: Expected,
    ) {
        let has_calls = scenario.calls().next().is_some();
        self.all.push(Arc::new(Case {
            name: format!("{}/{name}{variant}", self.api),
            category,
            api: self.api,
            ask,
            source: Source::Generated(Arc::clone(scenario), variant),
            format: None,
            tools: if has_calls { Arc::clone(&self.tools) } else { Arc::default() },
            expected,
        }));
    }

    /// Returns the response that must arrive for a scenario, without the parts that the dialect cannot express.
    fn wanted(&self, scenario: &Scenario) -> Wanted {
        let mut wanted = Wanted::of(scenario);
        if !self.api.has_calls() {
            wanted.calls.clear();
        }
        wanted
    }

    fn frames(&self, scenario: &Scenario) -> Frames {
        Frames::of(scenario, self.api)
    }

    fn texts(&mut self) {
        let long: Vec<String> = (0..400).map(|number| format!("Line {number} of a long answer.\n")).collect();
        let texts = [
            ("text/short", Scenario::text(["Hello", ", ", "world", "."])),
            ("text/characters", Scenario::text(pieces(CHARACTERS, 7))),
            ("text/escapes", Scenario::text(pieces(ESCAPES, 5))),
            ("text/white-space", Scenario::text(["  ", "\n\n", "indented", "\n", "\tend \n"])),
            ("text/long", Scenario::text(long)),
            ("text/large-delta", Scenario::text(["a large delta ".repeat(20_000)])),
            ("text/empty-deltas", Scenario::text(["", "a", "", "", "b", ""])),
            ("text/nothing", Scenario::text([""; 0])),
            ("text/length", Scenario::text(["This answer is too"]).ends(Finish::Length)),
        ];
        for (name, scenario) in texts {
            self.add(Category::Text, name, &Arc::new(scenario), Variant::Frames);
        }
        if matches!(self.api, Api::Chat | Api::Messages | Api::Responses | Api::Gemini) {
            let filtered = Scenario::text(["I can"]).ends(Finish::Filter);
            self.add(Category::Text, "text/filtered", &Arc::new(filtered), Variant::Frames);
        }
    }

    fn calls(&mut self) {
        if !self.api.has_calls() {
            return;
        }
        let none = || Scenario::text([""; 0]);
        let long = json!({"path": "notes.txt", "content": "long argument \"quoted\" é\n".repeat(36_000)})
            .to_string();
        let tiny = json!({"path": "notes.txt", "content": "tiny pieces ".repeat(2_000)}).to_string();
        let odd = json!({"path": "a \"b\" \\ c", "content": CHARACTERS}).to_string();
        let many = (0..5).fold(none(), |all, number| {
            all.called("get_weather", &json!({"city": format!("City {number}")}).to_string(), 4)
        });
        let calls = [
            ("native/one-call", none().called("get_weather", PARIS, 5)),
            ("native/text-then-call", text_then_call()),
            ("native/whole-call", none().called("get_weather", PARIS, usize::MAX)),
            ("native/two-calls", none().called("get_weather", PARIS, 5).called("write_file", NOTE, 6)),
            ("native/same-tool-twice", none().called("get_weather", PARIS, 5).called("get_weather", OSLO, 5)),
            ("native/five-calls", many),
            ("native/no-arguments", none().called("list_files", "{}", 1)),
            ("native/characters", none().called("write_file", &odd, 3)),
            ("native/numbers", none().called("measure", NUMBERS, 4)),
            ("native/nested", none().called("measure", NESTED, 7)),
            ("native/long-arguments", none().called("write_file", &long, 4096)),
            ("native/tiny-pieces", none().called("write_file", &tiny, 8)),
        ];
        for (name, scenario) in calls {
            let mut wanted = self.wanted(&scenario);
            wanted.verbatim_arguments = name == "native/numbers" && !self.api.has_parsed_arguments();
            let scenario = Arc::new(scenario);
            self.put(Category::Native, name, &scenario, Variant::Frames, Expected::Response(wanted));
        }
    }

    fn reasoning(&mut self) {
        if !self.api.has_reasoning() {
            return;
        }
        let thought = ["Let me", " think: 2 + 2", "\n= 4 …"];
        let mut all = vec![("reasoning/then-text", Scenario::text(["It is ", "4."]).reasoned(&thought))];
        if self.api.has_calls() {
            all.push(("reasoning/then-call", text_then_call().reasoned(&thought)));
        }
        for (name, scenario) in all {
            self.add(Category::Reasoning, name, &Arc::new(scenario), Variant::Frames);
        }
    }

    fn usage(&mut self) {
        if self.api == Api::Lumo {
            return;
        }
        let mut all = vec![("usage/text", Scenario::text(["Counted", "."]))];
        if self.api.has_calls() {
            all.push(("usage/call", text_then_call()));
        }
        for (name, scenario) in all {
            let wanted = self.wanted(&scenario).counted();
            let scenario = Arc::new(scenario);
            self.put(Category::Usage, name, &scenario, Variant::Frames, Expected::Response(wanted));
        }
    }

    /// Returns the response for cases about how bytes are sent. It contains a call if the dialect has calls.
    fn probe(&self) -> Arc<Scenario> {
        let text = Scenario::text(["Écoute", " — 日本", "語 😀."]);
        Arc::new(match self.api.has_calls() {
            true => text.called("get_weather", OSLO, 5).called("write_file", NOTE, 9),
            false => text,
        })
    }

    fn framing(&mut self) {
        let scenario = self.probe();
        let events = [Variant::CrLf, Variant::Cr, Variant::NoSpace, Variant::Comments];
        let variants = if self.api.has_events() { &events[..] } else { &events[..1] };
        for &variant in variants {
            self.add(Category::Framing, "framing/calls", &scenario, variant);
        }
    }

    fn splits(&mut self) {
        let scenario = self.probe();
        let len = self.frames(&scenario).all.concat().len();
        let cuts = Places { name: "splits", len }.chosen(self.selection).map(Variant::Cut);
        let even = [1, 2, 3, 7, 100].map(Variant::Bytes);
        for variant in [Variant::Whole].into_iter().chain(even).chain(cuts) {
            self.add(Category::Splits, "splits/calls", &scenario, variant);
        }
    }

    fn truncation(&mut self) {
        let scenario = self.probe();
        for frames in 0..=self.frames(&scenario).before_finish {
            for variant in [Variant::End(frames), Variant::Drop(frames)] {
                let expected = self.failure(&scenario, 500..=599, true);
                self.put(Category::Truncation, "truncation/calls", &scenario, variant, expected);
            }
        }
    }

    fn errors(&mut self) {
        let scenario = self.probe();
        for (status, from, to) in STATUSES {
            let expected = self.failure(&scenario, from..=to, false);
            self.put(Category::Errors, "errors/refused", &scenario, Variant::Status(status), expected);
        }
        for frames in 0..=self.frames(&scenario).before_finish {
            let expected = self.failure(&scenario, 400..=599, false);
            self.put(Category::Errors, "errors/stream", &scenario, Variant::Error(frames), expected);
        }
    }

    fn whole(&mut self) {
        let text = || Scenario::text(["Écoute", " — 日本", "語 😀."]);
        let mut all = vec![
            ("whole/text", text()),
            ("whole/length", Scenario::text(["This answer is too"]).ends(Finish::Length)),
        ];
        if self.api.has_reasoning() {
            all.push(("whole/reasoning", text().reasoned(&["Let me", " think."])));
        }
        if self.api.has_calls() {
            all.push(("whole/calls", text_then_call().called("write_file", NOTE, 9)));
        }
        for (name, scenario) in all {
            let wanted = self.wanted(&scenario);
            let wanted = if self.api == Api::Lumo { wanted } else { wanted.counted() };
            let expected = Expected::Response(wanted);
            self.ask(Ask::Whole, Category::Whole, name, &Arc::new(scenario), Variant::Frames, expected);
        }
        let scenario = self.probe();
        for (name, variant) in [("whole/refused", Variant::Status(503)), ("whole/cut", Variant::End(1))] {
            let expected = self.failure(&scenario, 500..=599, true);
            self.ask(Ask::Whole, Category::Whole, name, &scenario, variant, expected);
        }
    }

    fn images(&mut self) {
        if self.api.has_images() {
            let scenario = Scenario::text(["A red", " dot."]);
            let expected = Expected::Response(self.wanted(&scenario));
            let (category, name) = (Category::Images, "images/png");
            self.ask(Ask::Image, category, name, &Arc::new(scenario), Variant::Frames, expected);
        }
    }

    fn cancellation(&mut self) {
        let scenario = Scenario::text(["It", " goes", " on"]);
        let expected = Expected::Response(self.wanted(&scenario));
        let (category, name) = (Category::Cancellation, "cancellation/text");
        let variant = Variant::End(self.frames(&scenario).before_finish);
        self.ask(Ask::Leave, category, name, &Arc::new(scenario), variant, expected);
    }

    fn failure(&self, of: &Scenario, status: std::ops::RangeInclusive<u16>, is_truncated: bool) -> Expected {
        Expected::Failure { of: self.wanted(of), status, is_truncated }
    }

    fn text_calls(&mut self) {
        for &format in &self.selection.formats {
            let Some(teach) = &format.teach else { continue };
            let calls = [Call::new("", "get_weather", OSLO), Call::new("", "write_file", WRITTEN)];
            let [first, _] = &calls;
            let first = std::slice::from_ref(first);
            let (one, two) = (teach.form.calls(first), teach.form.calls(&calls));
            let kinds = [
                ("alone", one.clone(), first),
                ("after-text", format!("{BEFORE}\n{one}"), first),
                ("two", two, &calls),
            ];
            for (kind, text, calls) in kinds {
                let scenario = Scenario::text(pieces(&text, 4));
                let before = if kind == "after-text" { BEFORE } else { "" };
                self.text_call(format, kind, &Arc::new(scenario), before, calls);
            }
        }
    }

    fn text_call(
        &mut self,
        format: &'static Format,
        kind: &str,
        scenario: &Arc<Scenario>,
        before: &str,
        calls: &[Call],
    ) {
        let wanted = Wanted {
            text: before.to_owned(),
            calls: calls.iter().map(|call| (call.name.clone(), call.arguments.clone())).collect(),
            finish: Finish::Calls,
            trimmed: true,
            // Not compared: formats have their own markers for reasoning, and some responses begin inside reasoning.
            reasoning: None,
            ..Wanted::of(scenario)
        };
        let name = format!("text-calls/{}/{kind}", format.name);
        let len = self.frames(scenario).all.concat().len();
        // There are many formats, so each gets only a few cuts.
        let few = Selection { cuts: self.selection.cuts.div_ceil(8), ..self.selection.seeded() };
        let cuts = Places { name: &name, len }.chosen(&few).map(Variant::Cut).collect::<Vec<_>>();
        // Sending single bytes is slow, so only one case per format does it.
        let single = (kind == "after-text").then_some(Variant::Bytes(1));
        for variant in [Variant::Frames, Variant::Whole].into_iter().chain(single).chain(cuts) {
            self.all.push(Arc::new(Case {
                name: format!("{}/{name}{variant}", self.api),
                category: Category::TextCalls,
                api: self.api,
                ask: Ask::Stream,
                source: Source::Generated(Arc::clone(scenario), variant),
                format: Some(format),
                tools: Arc::clone(&self.tools),
                expected: Expected::Response(wanted.clone()),
            }));
        }
    }
}

impl Selection {
    /// Returns an empty selection with the same seed and number of cuts.
    fn seeded(&self) -> Self {
        Self { apis: Vec::new(), formats: Vec::new(), fixtures: Vec::new(), cuts: self.cuts, seed: self.seed }
    }
}

fn text_then_call() -> Scenario {
    Scenario::text(["I will", " look", " that up."]).called("get_weather", PARIS, 5)
}

const BEFORE: &str = "I will look that up.";

const PARIS: &str = r#"{"city":"Paris"}"#;

const OSLO: &str = r#"{"city":"Oslo — øst","days":3}"#;

const NOTE: &str = r#"{"path":"notes/today.txt","content":"line 1\nline \"2\"\n"}"#;

/// Arguments whose values have no leading or trailing whitespace, since formats with tags do not preserve it.
const WRITTEN: &str = r#"{"path":"notes/today.txt","content":"line 1\nline \"2\" <b>&amp;</b>"}"#;

/// Numbers that change if they are parsed as floating-point numbers.
const NUMBERS: &str = r#"{"a": 2.50, "b": 12345678901234567890, "c": 1e400, "d": -0.0}"#;

const NESTED: &str = r#"{"list":[1,[2,{"three":[]}],null,true],"object":{"":{"a b":"c"}},"z":1,"a":2}"#;

/// Characters of one to four bytes, joined characters, and line separators.
const CHARACTERS: &str = "naïve café — 日本語 😀 👩\u{200d}👩\u{200d}👧 e\u{301} \u{2028} \u{202e}rtl\u{202c} ﷽ 🏳\u{fe0f}\u{200d}🌈 𝔘 \u{feff}end";

/// Text that must be escaped in JSON or in event streams.
const ESCAPES: &str = "a \"quoted\" \\ backslash\r\nline\n\ndata: [DONE]\n\nevent: error\n: comment\n\ttab \u{1} \u{7f} </script> &amp; {\"x\":1}";

fn tools() -> Vec<Value> {
    let tool = |name: &str, about: &str, properties: Value, required: Value| {
        let parameters = json!({"type": "object", "properties": properties, "required": required});
        json!({"type": "function", "function": {"name": name, "description": about, "parameters": parameters}})
    };
    let text = || json!({"type": "string"});
    vec![
        tool(
            "get_weather",
            "The weather of a city",
            json!({"city": text(), "days": {"type": "integer"}}),
            json!(["city"]),
        ),
        tool(
            "write_file",
            "Writes a file",
            json!({"path": text(), "content": text()}),
            json!(["path", "content"]),
        ),
        tool("list_files", "Lists all files", json!({}), json!([])),
        tool("measure", "Measures anything", json!({"a": {"type": "number"}}), json!([])),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn selection(cuts: usize, seed: u64) -> Selection {
        let formats = toolwire_pipeline::format::ALL.to_vec();
        Selection { apis: Api::ALL.to_vec(), formats, fixtures: Vec::new(), cuts, seed }
    }

    #[test]
    fn names_are_unique_and_the_same_for_the_same_seed() {
        let names =
            |seed| cases(&selection(5, seed)).iter().map(|case| case.name.clone()).collect::<Vec<_>>();
        let first = names(1);
        assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), first.len());
        assert_eq!(first, names(1));
        assert_ne!(first, names(2));
    }

    #[test]
    fn every_case_survives_the_way_through_a_request() {
        for case in cases(&selection(1, 1)) {
            let body =
                super::super::request::body(toolwire_pipeline::dialect::ClientDialect::Chat, &case, "m")
                    .to_string();
            let found = super::super::request::case_of(&serde_json::from_str(&body).unwrap());
            assert_eq!(found, Some((case.name.clone(), "chat".to_owned())));
        }
    }
}
