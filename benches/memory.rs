//! Measures how much memory an open stream adds to `toolwire serve`. The bench holds 200 streams open after a few
//! tokens, and compares the server's proportional set size with its size before. The result includes the pipeline,
//! and both connections of a stream with their buffers. Linux only.

#![allow(clippy::print_stdout, reason = "the figures are the result")]

mod answers;
mod serve;

use std::{
    error::Error,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    thread,
};

use answers::Upstream;
use serde_json::json;
use serve::Serve;

const STREAMS: usize = 200;
const TOKENS: usize = 20;

fn main() -> Result<(), Box<dyn Error>> {
    if !std::env::args().any(|argument| argument == "--bench")
        || !Path::new("/proc/self/smaps_rollup").exists()
    {
        return Ok(());
    }
    for (name, upstream) in [("lumo", Upstream::LumoV1), ("chat", Upstream::Chat)] {
        for tools in [false, true] {
            measure(name, upstream, tools)?;
        }
    }
    Ok(())
}

fn measure(dialect: &str, upstream: Upstream, tools: bool) -> Result<(), Box<dyn Error>> {
    let serve = start(dialect, scripted(upstream)?)?;
    let open = || Stream::open(serve.address, tools);
    // The first streams cause one-time costs (threads, arenas, tables), so they are opened before measuring.
    let first = (0..8).map(|_| open()).collect::<Result<Vec<_>, _>>()?;
    let before = pss(&serve)?;
    let held = (0..STREAMS).map(|_| open()).collect::<Result<Vec<_>, _>>()?;
    let after = pss(&serve)?;
    let each = after.saturating_sub(before) as f64 / STREAMS as f64;
    let tools = if tools { "4 tools declared" } else { "no tools" };
    println!(
        "{dialect} → chat, {tools:<17} idle {before} KiB, {STREAMS} streams held {after} KiB: {each:.1} KiB a stream"
    );
    drop((first, held));
    Ok(())
}

fn start(dialect: &str, upstream: SocketAddr) -> Result<Serve, Box<dyn Error>> {
    Serve::start(&format!(
        "listen = \"127.0.0.1:0\"\n[[upstreams]]\nname = \"up\"\ndialect = \"{dialect}\"\n\
         base_url = \"http://{upstream}/v1\"\nmax_concurrent = 1000\n[[models]]\nname = \"m\"\nupstream = \"up\"\n"
    ))
}

/// Returns the server's proportional set size in KiB.
fn pss(serve: &Serve) -> Result<u64, Box<dyn Error>> {
    let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", serve.child.id()))?;
    let pss = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
    Ok(pss.ok_or("no Pss")?.trim().trim_end_matches(" kB").parse()?)
}

/// Starts an upstream that begins every response but never ends one.
fn scripted(upstream: Upstream) -> Result<SocketAddr, Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let frames = upstream.frames(&answers::prose(TOKENS));
    let begun: Vec<String> =
        frames.iter().take(TOKENS).map(|frame| format!("{:x}\r\n{frame}\r\n", frame.len())).collect();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let begun = begun.clone();
            thread::spawn(move || answer(stream, &begun));
        }
    });
    Ok(address)
}

fn answer(mut stream: TcpStream, begun: &[String]) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line)? > 2 {
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
        line.clear();
    }
    std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink())?;
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes())?;
    for frame in begun {
        stream.write_all(frame.as_bytes())?;
    }
    // Holds the response open until the peer closes the connection.
    std::io::copy(&mut reader, &mut std::io::sink())?;
    Ok(())
}

/// A client that has received part of a response.
struct Stream(#[expect(dead_code, reason = "it is held, not read")] TcpStream);

impl Stream {
    fn open(address: SocketAddr, tools: bool) -> Result<Self, Box<dyn Error>> {
        let declared: Vec<_> = answers::conversation()
            .tools
            .iter()
            .map(|tool| json!({"type": "function", "function": {"name": tool.name, "parameters": tool.parameters.as_ref().map(|schema| schema.view().to_value())}}))
            .collect();
        let mut request =
            json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "Go on."}]});
        if let (true, Some(request)) = (tools, request.as_object_mut()) {
            request.insert("tools".to_owned(), declared.into());
        }
        let body = request.to_string();
        let mut stream = TcpStream::connect(address)?;
        write!(
            stream,
            "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        )?;
        // The detector may hold back the last few tokens.
        let mut lines = BufReader::new(&stream).lines();
        let mut tokens = 0;
        while tokens < TOKENS - 3 {
            let line = lines.next().ok_or("the stream ended")??;
            tokens += usize::from(line.contains("\"content\""));
        }
        Ok(Self(stream))
    }
}
