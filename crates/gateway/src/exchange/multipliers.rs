//! Limits what one request may cost an upstream.

use toolwire_pipeline::{
    conversation::Conversation,
    failure::{Failure, Kind},
};

/// Fields that multiply the upstream's work for one request. A request for a few thousand choices can overload a
/// server.
pub(crate) const MULTIPLIERS: [&str; 4] = ["n", "best_of", "top_logprobs", "prompt_logprobs"];

/// Checks that no field of a request multiplies the upstream's work by more than `max`.
///
/// # Errors
/// [`Kind::Request`]
pub(crate) fn check_multipliers(conversation: &Conversation, max: usize) -> Result<(), Failure> {
    let mut given = MULTIPLIERS.iter().filter_map(|name| Some((name, conversation.rest.get(name)?)));
    given.try_for_each(|(name, value)| check_multiplier(name, value, max))?;
    // Each prompt of a list gives a choice.
    match conversation.choices.filter(|choices| conversation.is_prompt && *choices > max as u64) {
        Some(choices) => {
            let message =
                format!("the prompts ask for {choices} choices, but at most {max} are served (limits.max_n)");
            Err(Failure::new(Kind::Request, message).with_param("prompt"))
        }
        None => Ok(()),
    }
}

/// Checks the value of one of the [`MULTIPLIERS`].
///
/// # Errors
/// [`Kind::Request`]
pub(crate) fn check_multiplier(name: &str, value: &serde_json::Value, max: usize) -> Result<(), Failure> {
    // Servers also accept numbers as strings.
    let number = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok());
    let Some(number) = number else { return Ok(()) };
    // Some servers treat a negative number as the maximum.
    if (0.0..=u32::try_from(max).map_or(f64::MAX, f64::from)).contains(&number) {
        return Ok(());
    }
    let message = format!("`{name}` is {number}, but at most {max} is served (limits.max_n)");
    Err(Failure::new(Kind::Request, message).with_param(name))
}
