//! Opens tunnels through an HTTP proxy (RFC 9110, section 9.3.6).

use std::io;

use http::{HeaderValue, StatusCode};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Maximum size of the head of a proxy's response, in bytes.
const MAX_HEAD: usize = 16 << 10;

const MAX_FIELDS: usize = 100;

/// Why a tunnel could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum TunnelError {
    #[error("the proxy answered CONNECT with 407: put its user and password into the proxy's URL")]
    Unauthorized,
    #[error("the proxy refused the tunnel with status {0}")]
    Refused(StatusCode),
    #[error("the proxy's answer to CONNECT is not HTTP")]
    Unreadable,
    #[error("the proxy's answer to CONNECT is too long")]
    TooLong,
    #[error("the proxy closed the connection instead of answering CONNECT")]
    Closed,
    /// Not a `#[source]`, because messages show the innermost source, and that would not mention the proxy.
    #[error("the connection to the proxy failed: {0}")]
    Io(io::Error),
}

/// Asks the proxy at the other end of `stream` for a tunnel to `target`, a `host:port`.
///
/// # Errors
/// The tunnel could not be opened.
pub async fn open<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    target: &str,
    authorization: Option<&HeaderValue>,
) -> Result<S, TunnelError> {
    let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n").into_bytes();
    if let Some(authorization) = authorization {
        request.extend_from_slice(b"Proxy-Authorization: ");
        request.extend_from_slice(authorization.as_bytes());
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    stream.write_all(&request).await.map_err(TunnelError::Io)?;
    let mut head = Vec::new();
    loop {
        let room = (MAX_HEAD - head.len()) as u64;
        if room == 0 {
            return Err(TunnelError::TooLong);
        }
        if (&mut stream).take(room).read_buf(&mut head).await.map_err(TunnelError::Io)? == 0 {
            return Err(TunnelError::Closed);
        }
        // Bytes after the head are discarded: a TLS server sends nothing before the client does.
        match status(&head)? {
            Some(status) if status.is_success() => return Ok(stream),
            Some(StatusCode::PROXY_AUTHENTICATION_REQUIRED) => return Err(TunnelError::Unauthorized),
            Some(status) => return Err(TunnelError::Refused(status)),
            None => {}
        }
    }
}

/// Parses the status of the response in `head`. `None` if the head is not complete yet.
fn status(head: &[u8]) -> Result<Option<StatusCode>, TunnelError> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut answer = httparse::Response::new(&mut fields);
    match answer.parse(head) {
        Ok(httparse::Status::Partial) => Ok(None),
        Ok(httparse::Status::Complete(_)) => {
            let status = answer.code.and_then(|code| StatusCode::from_u16(code).ok());
            status.map(Some).ok_or(TunnelError::Unreadable)
        }
        Err(_) => Err(TunnelError::Unreadable),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    /// Returns the result of [`open`] for the proxy's response `answer`, and the request that the proxy received.
    async fn opened(answer: &[u8], authorization: Option<&HeaderValue>) -> (String, String) {
        let (client, mut proxy) = duplex(64 << 10);
        proxy.write_all(answer).await.unwrap();
        let (opened, asked) = tokio::join!(open(client, "up.example:443", authorization), async {
            let mut asked = Vec::new();
            while !asked.ends_with(b"\r\n\r\n") {
                proxy.read_buf(&mut asked).await.unwrap();
            }
            proxy.shutdown().await.unwrap();
            String::from_utf8(asked).unwrap()
        });
        (opened.map_or_else(|error| error.to_string(), |_| "open".to_owned()), asked)
    }

    #[tokio::test]
    async fn every_status_that_means_success_opens_a_tunnel() {
        for answer in [
            "HTTP/1.1 200 Connection established\r\n\r\n",
            "HTTP/1.0 200\r\n\r\n",
            "HTTP/1.1 204 No Content\r\nVia: 1.1 p\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        ] {
            let (opened, asked) = opened(answer.as_bytes(), None).await;
            assert_eq!(opened, "open", "{answer}");
            assert_eq!(asked, "CONNECT up.example:443 HTTP/1.1\r\nHost: up.example:443\r\n\r\n");
        }
        let (_, asked) = opened(b"HTTP/1.1 200\r\n\r\n", Some(&HeaderValue::from_static("Basic eA=="))).await;
        assert!(asked.ends_with("\r\nProxy-Authorization: Basic eA==\r\n\r\n"), "{asked}");
    }

    #[tokio::test]
    async fn other_answers_are_errors_that_name_the_status() {
        let fields = |count: usize| format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(count));
        let long = |length: usize| format!("HTTP/1.1 200 OK\r\na: {}\r\n\r\n", "b".repeat(length - 24));
        for (answer, words) in [
            ("HTTP/1.1 403 Forbidden\r\n\r\n".to_owned(), "status 403 Forbidden"),
            ("HTTP/1.1 407 No\r\n\r\n".to_owned(), "answered CONNECT with 407"),
            ("HTTP/1.1 302 Found\r\nLocation: http://x/\r\n\r\n".to_owned(), "status 302 Found"),
            ("HTTP/1.1 999 Odd\r\n\r\n".to_owned(), "status 999"),
            ("HTTP/1.1 099 Odd\r\n\r\n".to_owned(), "not HTTP"),
            ("SSH-2.0-OpenSSH\r\n\r\n".to_owned(), "not HTTP"),
            ("HTTP/1.1 200 OK\r\n".to_owned(), "closed the connection"),
            (String::new(), "closed the connection"),
            (fields(MAX_FIELDS), "open"),
            (fields(MAX_FIELDS + 1), "not HTTP"),
            (long(MAX_HEAD), "open"),
            (long(MAX_HEAD + 1), "too long"),
        ] {
            let (opened, _) = opened(answer.as_bytes(), None).await;
            assert!(opened.contains(words), "{opened}, not {words}");
        }
    }
}
