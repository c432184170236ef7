//! The asynchronous shell: hyper on both sides, and between them a body that pulls upstream frames through a
//! [`Pipeline`](crate::pipeline::Pipeline).

pub mod tap;
