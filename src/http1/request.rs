//! [`RequestHead`]: writes the head of a request.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};
use http::{Request, header};

use super::fields::{put_field, put_fields};

/// Bytes that the line with a body's length takes at most, with the end of the head.
const LENGTH_LINE: usize = 48;

/// The head of a request as it is written, except for the length of its body.
#[derive(Clone)]
pub struct RequestHead(Bytes);

impl RequestHead {
    /// Writes the head of `request`: its target in origin form, and `Host`, unless the headers have one.
    pub fn new(request: &Request<()>) -> Self {
        let uri = request.uri();
        let target = uri.path_and_query().map_or("/", |target| target.as_str());
        let mut head = BytesMut::new();
        for part in [request.method().as_str(), " ", target, " HTTP/1.1\r\n"] {
            head.put_slice(part.as_bytes());
        }
        if let (false, Some(host)) = (request.headers().contains_key(header::HOST), uri.authority()) {
            // The authority of a URL may hold a user and a password, which are not part of the host.
            let host = host.as_str();
            let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
            put_field(&mut head, b"host", host.as_bytes());
        }
        put_fields(&mut head, request.headers());
        Self(head.freeze())
    }

    /// The whole head, for a body of `length` bytes.
    pub fn for_body(&self, length: usize) -> BytesMut {
        let mut head = BytesMut::with_capacity(self.0.len() + LENGTH_LINE);
        head.put_slice(&self.0);
        put_field(&mut head, b"content-length", length.to_string().as_bytes());
        head.put_slice(b"\r\n");
        head
    }
}

/// The head may hold a key, so its bytes are not shown.
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
    fn debug_output_of_request_head_does_not_show_the_key() {
        let request =
            Request::post("http://host/").header("authorization", "Bearer secret").body(()).unwrap();
        assert!(!format!("{:?}", RequestHead::new(&request)).contains("secret"));
    }
}
