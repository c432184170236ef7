//! [`RequestHead`]: writes the head of a request.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};
use http::{Request, Uri, header};

use super::fields::{put_field, put_fields};

/// The maximum size of the `Content-Length` line and the end of the head, in bytes.
const LENGTH_LINE: usize = 48;

/// The head of a request, already written except for the length of the body.
#[derive(Clone)]
pub struct RequestHead(Bytes);

impl RequestHead {
    /// Writes the head of `request` with its target in origin form. Adds `Host` if the headers have none.
    pub fn new(request: &Request<()>) -> Self {
        Self::with_target(request, &[])
    }

    /// Like [`RequestHead::new`], but for a request through a proxy, which needs the target in absolute form (RFC
    /// 9112, section 3.2.2).
    pub fn for_proxy(request: &Request<()>) -> Self {
        let scheme = request.uri().scheme_str().unwrap_or("http");
        Self::with_target(request, &[scheme, "://", host(request.uri())])
    }

    /// `before` precedes the path in the target.
    fn with_target(request: &Request<()>, before: &[&str]) -> Self {
        let uri = request.uri();
        let target = uri.path_and_query().map_or("/", |target| target.as_str());
        let mut head = BytesMut::new();
        let method = [request.method().as_str(), " "];
        for part in method.iter().chain(before).chain(&[target, " HTTP/1.1\r\n"]) {
            head.put_slice(part.as_bytes());
        }
        if !request.headers().contains_key(header::HOST) && uri.authority().is_some() {
            put_field(&mut head, b"host", host(uri).as_bytes());
        }
        put_fields(&mut head, request.headers());
        Self(head.freeze())
    }

    /// Returns the complete head for a body of `length` bytes.
    pub fn for_body(&self, length: usize) -> BytesMut {
        let mut head = BytesMut::with_capacity(self.0.len() + LENGTH_LINE);
        head.put_slice(&self.0);
        put_field(&mut head, b"content-length", length.to_string().as_bytes());
        head.put_slice(b"\r\n");
        head
    }
}

/// Returns the host and the port, without the user name and the password that the authority of a URL may also
/// contain.
fn host(uri: &Uri) -> &str {
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    authority.rsplit_once('@').map_or(authority, |(_, host)| host)
}

/// Prints only the length, since the head may contain a key.
impl fmt::Debug for RequestHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RequestHead({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_head_has_origin_form_host_and_one_length() {
        let request =
            Request::post("http://u:p@host:81/v1/chat?x=1").header("accept", "a/b").body(()).unwrap();
        assert_eq!(
            RequestHead::new(&request).for_body(5),
            "POST /v1/chat?x=1 HTTP/1.1\r\nhost: host:81\r\naccept: a/b\r\ncontent-length: 5\r\n\r\n"
        );
    }

    #[test]
    fn head_for_a_proxy_has_the_absolute_form() {
        let request = Request::post("http://u:p@host:81/v1/chat?x=1").body(()).unwrap();
        assert_eq!(
            RequestHead::for_proxy(&request).for_body(0),
            "POST http://host:81/v1/chat?x=1 HTTP/1.1\r\nhost: host:81\r\ncontent-length: 0\r\n\r\n"
        );
    }

    #[test]
    fn debug_output_of_request_head_does_not_show_the_key() {
        let request =
            Request::post("http://host/").header("authorization", "Bearer secret").body(()).unwrap();
        assert!(!format!("{:?}", RequestHead::new(&request)).contains("secret"));
    }
}
