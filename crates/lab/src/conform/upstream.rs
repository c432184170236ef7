//! [`Frames`]: the frames of the response for a scenario.

use super::scenario::{Scenario, Step, USAGE};
use crate::upstream::{Api, FrameWriter, Identity, Usage};

pub(crate) const IDENTITY: Identity =
    Identity { name: "conform", model: "conform-model", created: 1_750_000_000 };

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Frames {
    /// The frames, each including its terminator.
    pub(crate) all: Vec<Vec<u8>>,
    /// Number of frames before the frame with the finish reason.
    pub(crate) before_finish: usize,
}

impl Frames {
    /// Writes a scenario, leaving out parts that the dialect does not support.
    pub(crate) fn of(scenario: &Scenario, api: Api) -> Self {
        let mut writer = written(scenario, api);
        let before_finish = writer.frames.len();
        let (input, output) = USAGE;
        writer.end(scenario.finish, Usage { input, output }, api != Api::Lumo);
        Self { all: writer.frames.into_iter().map(|frame| frame.bytes).collect(), before_finish }
    }
}

/// Writes a scenario except its end.
pub(crate) fn written(scenario: &Scenario, api: Api) -> FrameWriter {
    let mut writer = FrameWriter::new(api, &IDENTITY);
    writer.begin(USAGE.0);
    for step in &scenario.steps {
        match step {
            Step::Text(text) => writer.text(text),
            Step::Reasoning(text) => writer.reasoning(text),
            Step::Call(call) if api.has_calls() => {
                writer.call(&call.id, &call.name);
                call.arguments.iter().for_each(|piece| writer.arguments(piece));
            }
            Step::Call(_) => {}
        }
    }
    writer.close();
    writer
}
