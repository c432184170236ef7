//! detect
mod body;
mod prose;
mod text;
mod tools;
pub use tools::Tools;
