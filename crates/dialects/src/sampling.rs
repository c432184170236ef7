//! Sampling settings that several APIs have besides those in [`Sampling`](crate::conversation::Sampling). The rest of
//! a request keeps them under these names, whichever API they come from.

/// How many of the most likely tokens are considered.
pub(crate) const TOP_K: &str = "top_k";

/// Penalties for tokens that the text already contains.
pub(crate) const PENALTIES: [&str; 2] = ["presence_penalty", "frequency_penalty"];

/// Whether `key` is one of these settings.
pub(crate) fn is_shared(key: &str) -> bool {
    key == TOP_K || PENALTIES.contains(&key)
}
