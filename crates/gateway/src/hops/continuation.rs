//! [`Continuation`]: how a response continues after a hop.

use toolwire_execution::Ran;
use toolwire_pipeline::{
    conversation::Turn,
    event::{Event, Media, Warning},
};

use super::turns::size_of;
use crate::tool_search::Found;

#[derive(Debug)]
pub(crate) enum Continuation {
    /// Sends another request to the upstream, which [`super::DecideHop::make`] builds.
    Ask(NextHop),
    /// Hosted tools have run. [`super::DecideHop::ran`] gets their results, and decides how to continue.
    Ran(Results),
    /// Ends the response with the output so far, and with a warning that gives the reason.
    End(Option<Warning<'static>>),
    /// Ends the response with the output so far and these events.
    EndWith(Vec<Event<'static>>),
}

/// What the hosted calls of a hop have returned.
#[derive(Debug)]
pub(crate) struct Results {
    pub(crate) ran: Vec<Ran>,
    /// The images for the client.
    pub(crate) images: Vec<Media<'static>>,
    /// What searches for tools have found.
    pub(crate) found: Vec<Found>,
}

#[derive(Debug)]
pub(crate) struct NextHop {
    /// Turns to append to the previous request.
    pub(crate) turns: Vec<Turn>,
    /// Events that the client receives before the hop's response.
    pub(crate) shown: Vec<Event<'static>>,
}

impl NextHop {
    /// Approximate size in bytes of the text and files added to the request.
    pub(crate) fn size(&self) -> usize {
        self.turns.iter().map(size_of).sum()
    }
}
