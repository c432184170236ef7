//! The tables of formats: what they promise holds for every one of them.

mod custom;
mod found;
mod json;
mod page;
mod prose;
mod taught;
