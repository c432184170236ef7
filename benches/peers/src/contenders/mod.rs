//! The contenders, each driven as in its own server.

#[cfg(feature = "peers")]
mod dynamo_v1;
#[cfg(feature = "peers")]
mod dynamo_v2;
#[cfg(feature = "peers")]
mod tool_parser;
mod toolwire;

use std::time::{Duration, Instant};

use cpu_time::ThreadTime;

use crate::{client::Client, tools::Declared};

/// One response.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// The format's name in toolwire.
    pub format: &'a str,
    pub pieces: &'a [&'a str],
    /// Whether the model had finished; otherwise it reached its token limit.
    pub stopped: bool,
}

/// A way of finding calls in a stream of text.
pub trait Contender {
    /// The name in the tables.
    fn name(&self) -> &'static str;
    /// Package and version.
    fn version(&self) -> &'static str;
    /// Whether the contender supports this format.
    fn has(&self, format: &str) -> bool;
    /// Reads a response. `clock` runs from the first piece to the end of the response; setup for each
    /// request is not measured.
    fn read(&self, answer: Answer<'_>, client: &mut dyn Client, clock: &mut Clock);
}

/// Maps a format's name in toolwire to the contender's name for it.
#[cfg(feature = "peers")]
type Names = &'static [(&'static str, &'static str)];

#[cfg(feature = "peers")]
fn lookup(names: Names, format: &str) -> Option<&'static str> {
    names.iter().find(|(ours, _)| *ours == format).map(|(_, theirs)| *theirs)
}

/// All contenders; toolwire first.
pub fn all(tools: &[Declared]) -> Vec<Box<dyn Contender>> {
    vec![
        Box::new(toolwire::Toolwire::named(tools)),
        Box::new(toolwire::Toolwire::auto(tools)),
        #[cfg(feature = "peers")]
        Box::new(tool_parser::ToolParser::new(tools)),
        #[cfg(feature = "peers")]
        Box::new(dynamo_v1::Jail::new(tools)),
        #[cfg(feature = "peers")]
        Box::new(dynamo_v2::Calls::new(tools)),
        #[cfg(feature = "peers")]
        Box::new(dynamo_v2::Unified::new(tools)),
    ]
}

/// Measures the thread's CPU time, and ends a reading that takes too long.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    budget: Duration,
    begun: Instant,
    ran: ThreadTime,
    taken: Duration,
    pieces: u32,
    expired: bool,
}

/// The number of pieces between two checks of the budget.
const GLANCE: u32 = 64;

impl Clock {
    pub fn new(budget: Duration) -> Self {
        Self {
            budget,
            begun: Instant::now(),
            ran: ThreadTime::now(),
            taken: Duration::ZERO,
            pieces: 0,
            expired: false,
        }
    }

    /// Starts the clock.
    pub fn start(&mut self) {
        self.begun = Instant::now();
        self.ran = ThreadTime::now();
    }

    /// Stops the clock.
    pub fn stop(&mut self) {
        self.taken = self.ran.elapsed();
        self.expired |= self.begun.elapsed() > self.budget;
    }

    /// Counts a piece; returns `false` if the budget is used up.
    pub fn piece(&mut self) -> bool {
        self.pieces += 1;
        if self.pieces % GLANCE == 0 && self.begun.elapsed() > self.budget {
            self.expired = true;
        }
        !self.expired
    }

    #[cfg(feature = "peers")]
    /// As [`Clock::piece`], for a contender that pulls the pieces itself.
    pub fn in_time<T>(&self) -> impl FnMut(&T) -> bool + Send + use<T> {
        let (budget, begun, mut pieces) = (self.budget, self.begun, 0);
        move |_| {
            pieces += 1;
            pieces % GLANCE != 0 || begun.elapsed() <= budget
        }
    }

    pub fn taken(&self) -> Duration {
        self.taken
    }

    pub fn has_expired(&self) -> bool {
        self.expired
    }
}
