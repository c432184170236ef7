//! [`causes`]: an error's message together with those of its causes. [`innermost`]: its root cause.

use std::{error::Error, iter};

/// Returns the message of `error`, followed by the messages of its causes unless they are already part of it.
pub fn causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    for cause in iter::successors(error.source(), |&cause| cause.source()) {
        let cause = cause.to_string();
        if !text.ends_with(&cause) {
            text.extend([": ", &cause]);
        }
    }
    text
}

/// The root cause of `error`, or `error` itself.
pub fn innermost<'e>(error: &'e (dyn Error + 'static)) -> &'e (dyn Error + 'static) {
    iter::successors(Some(error), |&error| error.source()).last().unwrap_or(error)
}
