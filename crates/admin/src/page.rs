//! `GET /console/`: the console's page. Its data comes from the admin API, so the page itself needs no key.

use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};

use super::{console, paths::CONSOLE};
use toolwire_gateway::{
    observe::Access,
    reply::{self, ReplyBody},
    routes,
    site::Site,
};

/// Content security policy: nothing is loaded from other origins, and no content is executed as code.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types 'none'";

pub(crate) fn respond(path: &str, headers: &HeaderMap, site: &Site, access: Access) -> Response<ReplyBody> {
    let Some(rest) = path.strip_prefix(CONSOLE) else {
        let plain = HeaderValue::from_static("text/plain; charset=utf-8");
        let mut response = reply::plain(StatusCode::PERMANENT_REDIRECT, plain, "", access);
        response.headers_mut().insert(header::LOCATION, HeaderValue::from_static("console/"));
        return response;
    };
    let Some(asset) = console::find(rest, accepts_gzip(headers)) else {
        let (dialect, failure) = routes::not_found(path, site);
        return reply::error(failure, dialect, access);
    };
    let content_type = HeaderValue::from_static(asset.content_type);
    let mut response = reply::plain(StatusCode::OK, content_type, asset.bytes, access);
    if asset.is_compressed {
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    let caching = if asset.is_immutable { "public, max-age=31536000, immutable" } else { "no-cache" };
    for (name, value) in [
        (header::CACHE_CONTROL, caching),
        (header::VARY, "accept-encoding"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Whether the client accepts gzip (RFC 9110, section 12.5.3).
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let weight = weight.trim().strip_prefix("q=").unwrap_or("1").trim().parse();
        name.trim().eq_ignore_ascii_case("gzip") && weight.is_ok_and(|weight: f32| weight > 0.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_sent_to_those_who_accept_it() {
        for (accepted, expected) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("gzip; q=0", false),
            ("gzip;q=0.000, br", false),
            ("br", false),
            ("", false),
            ("xgzip", false),
            ("gzip;q=x", false),
        ] {
            let headers =
                HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(accepted))]);
            assert_eq!(accepts_gzip(&headers), expected, "{accepted}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}
