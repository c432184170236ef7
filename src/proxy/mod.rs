//! The asynchronous shell: hyper on both sides, and between them a body that pulls upstream frames through a
//! [`Pipeline`](crate::pipeline::Pipeline).

mod auth;
mod clock;
mod connector;
mod drain;
mod intake;
mod permits;
pub mod tap;
mod upstream;

pub use drain::terminated;
