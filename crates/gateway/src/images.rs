//! `GET /api/images/{name}`: generated images.

use std::{
    error::Error,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use tokio::task::spawn_blocking;

use super::{
    reply::DEFAULT_DIALECT,
    reply::{self, ReplyBody},
    web_pages,
};
use crate::observe::Access;
use toolwire_execution::files::{self, ImageFiles};
use toolwire_pipeline::failure::{Failure, Kind};

/// Returns the URL at which clients on this machine reach a server that listens on `address`.
pub(super) fn base_url(scheme: &str, address: SocketAddr) -> String {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    format!("{scheme}://{}", SocketAddr::new(ip, address.port()))
}

/// Whether the browser sends the request to show the image in a page, or to follow a link to it. Any page that knows
/// the name may show the image, because images are generated for text that pages show.
pub(super) fn is_shown(headers: &HeaderMap) -> bool {
    let is_shown = web_pages::is_of_image(headers) || web_pages::is_navigation(headers);
    // Browsers send the origin for requests by scripts and for forms submitted by other pages.
    is_shown && !headers.contains_key(header::ORIGIN)
}

/// Returns the image `name`, which is still as the client wrote it in the path.
pub(super) async fn respond(
    files: Option<&Arc<ImageFiles>>,
    name: String,
    asked: &HeaderMap,
    access: Access,
) -> Response<ReplyBody> {
    let content_type = HeaderValue::from_static(files::content_type(&name));
    match find(files, name).await {
        Ok((bytes, ttl)) => {
            let mut response = reply::plain(StatusCode::OK, content_type, bytes, access);
            let headers = response.headers_mut();
            let caching = format!("private, max-age={ttl}, immutable");
            headers.extend(HeaderValue::try_from(caching).ok().map(|value| (header::CACHE_CONTROL, value)));
            // The bytes come from another service, so browsers must not interpret them as anything but an image.
            headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
            reply::put_no_page(headers);
            headers.insert(header::VARY, HeaderValue::from_static("accept, sec-fetch-dest"));
            if is_shown(asked) {
                headers.insert(reply::RESOURCE_POLICY, HeaderValue::from_static("cross-origin"));
            }
            response
        }
        Err(failure) => reply::error(failure, DEFAULT_DIALECT, access),
    }
}

/// Returns the image, and the number of seconds for which it may be cached.
async fn find(files: Option<&Arc<ImageFiles>>, name: String) -> Result<(Vec<u8>, u64), Failure> {
    let unknown = || Failure::new(Kind::NotFound, "there is no such image");
    let files = Arc::clone(files.ok_or_else(unknown)?);
    if !files::is_name(&name) {
        return Err(Failure::new(Kind::Request, "this is not the name of an image"));
    }
    let ttl = files.ttl().as_secs();
    match spawn_blocking(move || files.read(&name)).await {
        Ok(Ok(found)) => found.map(|bytes| (bytes, ttl)).ok_or_else(unknown),
        Ok(Err(error)) => Err(unreadable(error)),
        Err(error) => Err(unreadable(error)),
    }
}

fn unreadable(error: impl Error + Send + Sync + 'static) -> Failure {
    tracing::error!(%error, "a generated image cannot be read");
    Failure::new(Kind::Internal, "the image cannot be read").with_cause(error)
}
