//! The contenders, each driven like its own server drives it.

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

#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// toolwire's name for the format.
    pub format: &'a str,
    pub pieces: &'a [&'a str],
    /// Whether the model stopped on its own rather than at its token limit.
    pub stopped: bool,
}

/// An implementation that finds calls in a stream of text.
pub trait Contender {
    /// The name in the tables.
    fn name(&self) -> &'static str;
    fn version(&self) -> &'static str;
    fn has(&self, format: &str) -> bool;
    /// Reads a response. `clock` measures from the first piece to the end of the response, without the setup for
    /// the request.
    fn read(&self, answer: Answer<'_>, client: &mut dyn Client, clock: &mut Clock);
}

/// Pairs of toolwire's name for a format and the contender's name for it.
#[cfg(feature = "peers")]
type Names = &'static [(&'static str, &'static str)];

#[cfg(feature = "peers")]
fn lookup(names: Names, format: &str) -> Option<&'static str> {
    names.iter().find(|(ours, _)| *ours == format).map(|(_, theirs)| *theirs)
}

/// Returns all contenders, starting with toolwire.
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

/// Measures the thread's CPU time, and stops a reading that exceeds its time budget.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    budget: Duration,
    begun: Instant,
    ran: ThreadTime,
    taken: Duration,
    pieces: u32,
    expired: bool,
}

/// The budget is checked once per this many pieces.
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

    pub fn start(&mut self) {
        self.begun = Instant::now();
        self.ran = ThreadTime::now();
    }

    pub fn stop(&mut self) {
        self.taken = self.ran.elapsed();
        self.expired |= self.begun.elapsed() > self.budget;
    }

    /// Counts a piece. Returns `false` once the budget is used up.
    pub fn piece(&mut self) -> bool {
        self.pieces += 1;
        if self.pieces % GLANCE == 0 && self.begun.elapsed() > self.budget {
            self.expired = true;
        }
        !self.expired
    }

    #[cfg(feature = "peers")]
    /// Like [`Clock::piece`], but for a contender that pulls the pieces itself.
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
