//! What an upstream's error status means if the body does not say more, for all dialects.

use crate::failure::{Failure, Kind};

pub(crate) fn kind_of(status: u16) -> Kind {
    match status {
        401 => Kind::Unauthorized,
        402 | 403 => Kind::Forbidden,
        404 => Kind::NotFound,
        408 | 504 | 522 | 524 => Kind::Timeout,
        413 => Kind::TooLarge,
        429 => Kind::RateLimit,
        503 | 529 => Kind::Overloaded,
        405 | 407 | 426 => Kind::Upstream,
        400..=499 => Kind::Request,
        _ => Kind::Upstream,
    }
}

/// The failure for a status that the client's response must not have, so that the client gets 502 instead.
/// `None` for all other statuses.
///
/// A redirect, 404 or 405 means that the upstream's URL is wrong. 407 and 426 concern the connection to the
/// upstream, and a response with these statuses must have headers that only the upstream could send (RFC
/// 9110, sections 15.5.8 and 15.5.22).
pub(crate) fn failure_of_hop(status: u16, message: impl Into<String>) -> Option<Failure> {
    let code = match status {
        404 => "upstream_not_found",
        300..=399 | 405 | 407 | 426 => "upstream_error",
        _ => return None,
    };
    Some(Failure::new(Kind::Upstream, message).with_status(502).with_code(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_of_gateways_mean_timeouts_and_overload() {
        for (status, kind) in [
            (400, Kind::Request),
            (402, Kind::Forbidden),
            (409, Kind::Request),
            (499, Kind::Request),
            (500, Kind::Upstream),
            (521, Kind::Upstream),
            (522, Kind::Timeout),
            (524, Kind::Timeout),
            (529, Kind::Overloaded),
        ] {
            assert_eq!(kind_of(status), kind, "{status}");
        }
    }

    #[test]
    fn statuses_about_the_hop_are_not_passed_on() {
        for status in [301, 302, 308, 404, 405, 407, 426] {
            assert_eq!(failure_of_hop(status, "m").map(|failure| failure.status()), Some(502), "{status}");
        }
        for status in [400, 401, 403, 408, 422, 429, 500, 503] {
            assert_eq!(failure_of_hop(status, "m"), None, "{status}");
        }
    }
}
