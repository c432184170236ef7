//! The asynchronous shell: hyper on both sides, and between them a body that pulls upstream frames through a
//! [`Pipeline`](crate::pipeline::Pipeline).

mod auth;
mod clock;
mod drain;
mod permits;
pub mod tap;

pub use drain::terminated;
