//! Tests bodies whose end two programs could see at different places (request smuggling).

use crate::support::{
    client::WHOLE,
    proxy::Setup,
    raw::Raw,
    upstream::{Upstream, at_once},
};

/// A request whose body is sent with these chunks, and another one behind it.
fn request(chunks: &str) -> String {
    let next = "GET /v1/models HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         transfer-encoding: chunked\r\n\r\n{chunks}{next}"
    )
}

/// Whether nothing was answered but that the request is wrong. The answer may be lost when the connection is closed.
fn is_refused((statuses, requests): (Vec<u16>, usize)) -> bool {
    requests == 0 && (statuses.is_empty() || statuses == [400])
}

/// Sends these bytes. Returns the statuses of all responses, and how many requests the upstream has received.
async fn statuses(bytes: &str) -> (Vec<u16>, usize) {
    let upstream = Upstream::start(at_once).await;
    let proxy = Setup::new(upstream.address).start().await;
    let mut client = Raw::connect(&proxy).await;
    client.send_lossy(bytes).await;
    let answer = client.rest().await;
    let lines = answer.split("HTTP/1.1 ").skip(1);
    (lines.map(|line| line[..3].parse().unwrap()).collect(), upstream.requests())
}

/// CVE-2025-43859 (h11): any two bytes were taken for the end of a chunk.
#[tokio::test]
async fn end_of_a_chunk_is_a_line_end() {
    let size = WHOLE.len();
    assert_eq!(statuses(&request(&format!("{size:x}\r\n{WHOLE}\r\n0\r\n\r\n"))).await, (vec![200, 200], 1));
    for end in ["XX", "\n\n", "\r\r", " \r\n", "\n", "\r", "0\r", ""] {
        let found = statuses(&request(&format!("{size:x}\r\n{WHOLE}{end}0\r\n\r\n"))).await;
        assert!(is_refused(found.clone()), "{end:?}: {found:?}");
    }
}

/// CVE-2025-55315 (ASP.NET Core), CVE-2025-58056 (Netty): a line feed alone ended a chunk's extension for one program
/// only.
#[tokio::test]
async fn line_of_a_chunk_ends_with_a_line_end() {
    let size = WHOLE.len();
    let with_extension = format!("{size:x};name=\"value\"\r\n{WHOLE}\r\n0\r\n\r\n");
    assert_eq!(statuses(&request(&with_extension)).await, (vec![200, 200], 1));
    for line in [
        format!("{size:x};\n"),
        format!("{size:x};a=b\nx\r\n"),
        format!("{size:x};a=\"\n\"\r\n"),
        format!("{size:x}\n"),
        format!("{size:x};a\rb\r\n"),
        format!("{size:x}\r\r\n"),
        format!("+{size:x}\r\n"),
        format!("-{size:x}\r\n"),
        format!("0x{size:x}\r\n"),
        format!("{size:x}_0\r\n"),
        format!("ffffffffffffffff{size:x}\r\n"),
        "\r\n".to_owned(),
    ] {
        let found = statuses(&request(&format!("{line}{WHOLE}\r\n0\r\n\r\n"))).await;
        assert!(is_refused(found.clone()), "{line:?}: {found:?}");
    }
}

/// CVE-2025-55315 (ASP.NET Core): as above, with two statements of a body's length.
#[tokio::test]
async fn body_has_one_length() {
    let size = WHOLE.len();
    for (fields, body) in [
        (
            format!("content-length: {size}\r\ntransfer-encoding: chunked\r\n"),
            format!("{size:x}\r\n{WHOLE}\r\n0\r\n\r\n"),
        ),
        (format!("content-length: {size}\r\ncontent-length: 3\r\n"), WHOLE.to_owned()),
        (format!("content-length: {size}, 3\r\n"), WHOLE.to_owned()),
        (format!("content-length: +{size}\r\n"), WHOLE.to_owned()),
        ("transfer-encoding: xchunked\r\n".to_owned(), format!("{size:x}\r\n{WHOLE}\r\n0\r\n\r\n")),
        ("transfer-encoding: chunked, identity\r\n".to_owned(), format!("{size:x}\r\n{WHOLE}\r\n0\r\n\r\n")),
        (format!("content-length : {size}\r\n"), WHOLE.to_owned()),
    ] {
        let head =
            "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
        let (found, requests) = statuses(&format!(
            "{head}{fields}\r\n{body}GET /v1/models HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
        ))
        .await;
        // A message with both may be read by its chunks if the connection is closed behind it (RFC 9112, section 6.1).
        let is_read = found == [200] && fields.contains("transfer-encoding: chunked\r\n");
        assert!(is_read || is_refused((found.clone(), requests)), "{fields}: {found:?}");
    }
}
