//! Tests properties that hold for the tables of all formats.

mod custom;
mod examples;
mod found;
mod history;
mod imitations;
mod json;
mod own_form;
mod page;
mod prompts;
mod prose;
mod results;
mod taught;
