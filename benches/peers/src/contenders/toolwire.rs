//! toolwire's detector by itself, driven like the pipeline drives it. The peers do no more than that.

use std::borrow::Cow;

use toolwire::{
    conversation::{Conversation, Tool},
    detect::{DETECTED, Detector}, tools::DeclaredTools,
    event::{Event, Finish, Sink},
    format::{self, KnownFormats},
    rules::{Detect, Rules},
};

use super::{Answer, Clock, Contender};
use crate::{client::Client, tools::Declared};

pub struct Toolwire {
    tools: DeclaredTools,
    auto: bool,
}

impl Toolwire {
    /// Detects only the format of the response, like a peer that is configured for it.
    pub fn named(tools: &[Declared]) -> Self {
        Self { tools: declared(tools), auto: false }
    }

    /// Detects all formats that are safe in any text, as toolwire does by default.
    pub fn auto(tools: &[Declared]) -> Self {
        Self { tools: declared(tools), auto: true }
    }
}

fn declared(tools: &[Declared]) -> DeclaredTools {
    let tool = |tool: &Declared| Tool {
        name: tool.name.clone(),
        description: String::new(),
        parameters: Some(tool.parameters.clone().into()),
        strict: None,
        declared: None,
    };
    let conversation = Conversation {
        tools: tools.iter().map(tool).collect(),
        parallel_calls: true,
        stream: true,
        ..Conversation::default()
    };
    DeclaredTools::new(&conversation, "")
}

impl Contender for Toolwire {
    fn name(&self) -> &'static str {
        if self.auto { "toolwire, auto" } else { "toolwire" }
    }

    fn version(&self) -> &'static str {
        "this tree"
    }

    fn has(&self, format: &str) -> bool {
        format::by_name(format).is_some_and(|format| !self.auto || format.auto)
    }

    fn read(&self, answer: Answer<'_>, client: &mut dyn Client, clock: &mut Clock) {
        let Some(format) = format::by_name(answer.format) else { return };
        let detect = if self.auto { Detect::Auto } else { Detect::Formats(vec![format.name]) };
        let settings = Rules { detect, ..Rules::default() };
        let Some(mut detector) = Detector::new(self.tools.clone(), &settings, KnownFormats::built_in()) else { return };
        let mut out = Out(client);
        clock.start();
        for piece in answer.pieces {
            if !clock.piece() {
                break;
            }
            out.0.piece();
            detector.event(Event::Text(Cow::Borrowed(piece)), &mut out);
        }
        let finish = if answer.stopped { Finish::Stop } else { Finish::Length };
        detector.event(Event::Finish(finish), &mut out);
        clock.stop();
    }
}

struct Out<'c>(&'c mut dyn Client);

fn place(index: u32) -> usize {
    (index & !DETECTED) as usize
}

impl Sink for Out<'_> {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Text(text) => self.0.text(&text),
            Event::CallStart(start) => self.0.call(place(start.index), &start.name),
            Event::CallArguments { index, piece } => self.0.arguments(place(index), &piece),
            _ => {}
        }
    }
}
