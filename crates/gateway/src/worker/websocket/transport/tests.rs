use std::future::poll_fn;

use futures_util::FutureExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;

const MAX: usize = 1 << 20;

/// A client's frame: the first byte, and a mask that changes the payload.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match payload.len() {
        length @ 0..=125 => frame.push(0x80 | u8::try_from(length).unwrap()),
        length @ 126..=0xffff => {
            frame.push(0x80 | 126);
            frame.extend(u16::try_from(length).unwrap().to_be_bytes());
        }
        length => {
            frame.push(0x80 | 127);
            frame.extend(u64::try_from(length).unwrap().to_be_bytes());
        }
    }
    let mask = [1, 2, 3, 4];
    frame.extend(mask);
    frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

fn transport(buffer: usize) -> (DuplexStream, Transport<DuplexStream>) {
    let (client, server) = duplex(buffer);
    (client, Transport::new(server, MAX))
}

async fn next(transport: &mut Transport<DuplexStream>) -> Result<Incoming, Broken> {
    poll_fn(|cx| transport.poll_message(cx)).await
}

async fn text(transport: &mut Transport<DuplexStream>) -> String {
    match next(transport).await {
        Ok(Incoming::Text(text)) => text.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn message_is_joined_from_fragments_in_any_split() {
    let message = "a é 😀";
    let whole = frame(0x81, message.as_bytes());
    let mut split = Vec::new();
    for (place, byte) in message.as_bytes().iter().enumerate() {
        split.extend(frame(if place == 0 { 0x01 } else { 0x00 }, &[*byte]));
        split.extend(frame(0x89, b"ping"));
    }
    split.extend(frame(0x80, b""));
    for bytes in [whole, split] {
        for size in [1, 2, 7, bytes.len()] {
            let (mut client, mut transport) = transport(1 << 16);
            let sending = async {
                for piece in bytes.chunks(size) {
                    client.write_all(piece).await.unwrap();
                    tokio::task::yield_now().await;
                }
            };
            let reading = async {
                loop {
                    match next(&mut transport).await.unwrap() {
                        Incoming::Text(text) => return text.to_string(),
                        other => assert!(matches!(other, Incoming::Control)),
                    }
                }
            };
            let ((), read) = tokio::join!(sending, reading);
            assert_eq!(read, message, "pieces of {size} bytes");
            assert_eq!(transport.partial(), 0);
        }
    }
}

#[tokio::test]
async fn violations_close_the_connection_with_their_code() {
    let unmasked = vec![0x81, 2, b'h', b'i'];
    for (bytes, code) in [
        (unmasked, CloseCode::Protocol),
        (frame(0x81, b"\xff\xfe"), CloseCode::Invalid),
        ([frame(0x01, b"\xe2\x82"), frame(0x80, b"")].concat(), CloseCode::Invalid),
        (frame(0x82, b"binary"), CloseCode::Unsupported),
        (frame(0x80, b"a continuation of nothing"), CloseCode::Protocol),
        ([frame(0x01, b"a"), frame(0x81, b"b")].concat(), CloseCode::Protocol),
        (frame(0xc1, b"a reserved bit"), CloseCode::Protocol),
        (frame(0x83, b"a reserved opcode"), CloseCode::Protocol),
        (frame(0x09, b"a fragmented ping"), CloseCode::Protocol),
        (frame(0x89, &[b'x'; 126]), CloseCode::Protocol),
    ] {
        let (mut client, mut transport) = transport(1 << 16);
        client.write_all(&bytes).await.unwrap();
        match next(&mut transport).await {
            Err(Broken::Protocol(found)) => assert_eq!(found, code, "{bytes:x?}"),
            other => panic!("{bytes:x?}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn message_beyond_the_limit_is_refused_before_it_arrives() {
    let (mut client, mut transport) = transport(1 << 16);
    let mut head = vec![0x81, 0x80 | 127];
    head.extend((MAX as u64 + 1).to_be_bytes());
    client.write_all(&head).await.unwrap();
    client.write_all(&[0; 4]).await.unwrap();
    assert!(matches!(next(&mut transport).await, Err(Broken::TooLarge)));
    // In fragments, only the sum is too large.
    let (mut client, mut transport) = self::transport(1 << 22);
    let half = vec![b'x'; MAX / 2 + 1];
    client.write_all(&frame(0x01, &half)).await.unwrap();
    client.write_all(&frame(0x80, &half)).await.unwrap();
    assert!(matches!(next(&mut transport).await, Err(Broken::TooLarge)));
}

#[tokio::test]
async fn largest_message_is_read_and_its_memory_is_released() {
    let (mut client, mut transport) = transport(1 << 22);
    let largest = vec![b'x'; MAX];
    client.write_all(&frame(0x81, &largest)).await.unwrap();
    assert_eq!(text(&mut transport).await.len(), MAX);
    assert_eq!(transport.retained(), 0);
    client.write_all(&frame(0x89, b"")).await.unwrap();
    assert!(matches!(next(&mut transport).await, Ok(Incoming::Control)));
    client.write_all(&frame(0x81, b"small")).await.unwrap();
    assert_eq!(text(&mut transport).await, "small");
    // The next message is already there, so the buffer cannot be replaced, and is reported.
    client.write_all(&[frame(0x81, &largest), frame(0x81, b"next")].concat()).await.unwrap();
    assert_eq!(text(&mut transport).await.len(), MAX);
    assert_eq!(transport.retained(), MAX);
    assert_eq!(text(&mut transport).await, "next");
}

#[tokio::test]
async fn unfinished_message_is_counted() {
    let (mut client, mut transport) = transport(1 << 16);
    client.write_all(&frame(0x01, &[b'x'; 1000])).await.unwrap();
    client.write_all(&frame(0x89, b"ping")).await.unwrap();
    while let Some(incoming) = next(&mut transport).now_or_never() {
        assert!(matches!(incoming, Ok(Incoming::Control)));
    }
    assert_eq!(transport.partial(), frame(0x01, &[b'x'; 1000]).len());
}

#[tokio::test]
async fn pings_without_a_reader_do_not_pile_up() {
    let (mut client, mut transport) = transport(256);
    let ping = frame(0x89, &[b'p'; 125]);
    for _ in 0..10_000 {
        client.write_all(&ping).await.unwrap();
        assert!(matches!(next(&mut transport).await, Ok(Incoming::Control)));
    }
    let mut received = Vec::new();
    let flushing = async { poll_fn(|cx| transport.poll_flush(cx)).await.unwrap() };
    let reading = async {
        loop {
            client.read_buf(&mut received).await.unwrap();
        }
    };
    tokio::select! {
        () = flushing => {}
        () = reading => {}
    }
    assert!(received.len() < 2 * BUFFER, "{} bytes of pongs", received.len());
}

#[tokio::test]
async fn long_message_is_sent_in_frames() {
    let (mut client, mut transport) = transport(1000);
    let long = "é".repeat(PIECE) + "end";
    transport.push(long.clone());
    transport.push("short".to_owned());
    let mut received = Vec::new();
    let flushing = async { poll_fn(|cx| transport.poll_flush(cx)).await.unwrap() };
    let expected = long.len() + "short".len();
    let reading = async {
        // The two full frames have headers of four bytes, the others of two.
        while received.len() < expected + 4 + 4 + 2 + 2 {
            client.read_buf(&mut received).await.unwrap();
        }
    };
    tokio::join!(flushing, reading);
    let (mut rest, mut messages, mut frames) = (received.as_slice(), vec![Vec::new()], 0);
    while let [first, length, tail @ ..] = rest {
        let (length, tail) = match *length {
            126 => (usize::from(u16::from_be_bytes([tail[0], tail[1]])), &tail[2..]),
            length => (usize::from(length), tail),
        };
        frames += 1;
        assert!(length <= PIECE);
        messages.last_mut().unwrap().extend_from_slice(&tail[..length]);
        if first & 0x80 != 0 {
            messages.push(Vec::new());
        }
        rest = &tail[length..];
    }
    assert_eq!(frames, 4);
    assert_eq!(messages, [long.as_bytes(), b"short", b""]);
}

#[tokio::test]
async fn close_is_sent_after_the_messages_and_answered() {
    let (mut client, mut transport) = transport(1 << 16);
    transport.push("last".to_owned());
    poll_fn(|cx| transport.poll_flush(cx)).await.unwrap();
    poll_fn(|cx| {
        transport.close(cx, CloseCode::Away, "bye");
        Poll::Ready(())
    })
    .await;
    let _ = poll_fn(|cx| transport.poll_flush(cx)).await;
    let mut received = Vec::new();
    while client.read_buf(&mut received).now_or_never().is_some_and(|read| read.unwrap() > 0) {}
    assert_eq!(received, b"\x81\x04last\x88\x05\x03\xe9bye");

    let (mut client, mut transport) = self::transport(1 << 16);
    client.write_all(&frame(0x88, &1000_u16.to_be_bytes())).await.unwrap();
    assert!(matches!(next(&mut transport).await, Ok(Incoming::Close)));
    let flushed = poll_fn(|cx| transport.poll_flush(cx)).await;
    assert!(matches!(flushed, Err(Broken::Gone(_))), "{flushed:?}");
    let mut received = Vec::new();
    while client.read_buf(&mut received).now_or_never().is_some_and(|read| read.unwrap() > 0) {}
    assert_eq!(received, b"\x88\x02\x03\xe8");
}
