//! The tables of formats: properties that hold for each of them.

mod custom;
mod examples;
mod found;
mod imitations;
mod json;
mod page;
mod prompts;
mod prose;
mod results;
mod taught;
