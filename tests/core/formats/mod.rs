//! The tables of formats: properties that hold for each of them.

mod custom;
mod found;
mod json;
mod page;
mod prose;
mod results;
mod taught;
