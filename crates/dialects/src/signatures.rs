//! Signatures of calls, which Gemini 3 requires in all of Google's APIs
//! (docs/protocols/gemini.md#signatures).

use crate::conversation::{Role, Turn};

/// Stands in for an unknown signature, because another model wrote the call or the signature was lost.
pub(super) const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// Whether the model rejects calls without a signature, as Gemini 3 and later models do.
pub(super) fn checks_signatures(model: &str) -> bool {
    let model = model.to_ascii_lowercase();
    let Some((_, version)) = model.rsplit_once("gemini-") else { return false };
    let digits = version.len() - version.trim_start_matches(|char: char| char.is_ascii_digit()).len();
    let major = version.get(..digits).and_then(|major| major.parse::<u32>().ok());
    // `gemini-flash-latest` is the newest model.
    major.map_or_else(|| version.ends_with("-latest"), |major| major >= 3)
}

/// The index in `spoken` of the last group of user turns without results. The upstream checks the signatures
/// of the calls that follow. `spoken` must not contain instructions.
pub(super) fn begin_of_turn(spoken: &[&Turn]) -> usize {
    let (mut begin, mut place) = (0, 0);
    for run in spoken.chunk_by(|one, next| (one.role == Role::Assistant) == (next.role == Role::Assistant)) {
        if run.iter().all(|turn| !matches!(turn.role, Role::Assistant | Role::Tool)) {
            begin = place;
        }
        place += run.len();
    }
    begin
}
