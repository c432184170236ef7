//! [`causes`]: an error's message together with those of its causes.

use std::{error::Error, iter};

/// The message of `error`, followed by those of its causes that it does not already contain.
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
