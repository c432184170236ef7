//! Measures how much memory an open stream adds to `toolwire serve`. The bench holds 200 streams open after a few
//! tokens, and compares the server's proportional set size with its size before. The result includes the pipeline,
//! and both connections of a stream with their buffers. Then it does the same with 1,000 hosted calls that run, each
//! with a third connection to the tool's service. Linux only.

#![allow(clippy::print_stdout, reason = "the figures are the result")]

mod answers;
mod serve;

use std::{
    error::Error,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use answers::Upstream;
use rustix::process::{Resource, getrlimit, setrlimit};
use serde_json::json;
use serve::Serve;

const STREAMS: usize = 200;
const TOKENS: usize = 20;
const CALLS: usize = 1000;

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
    measure_calls()
}

fn measure(dialect: &str, upstream: Upstream, tools: bool) -> Result<(), Box<dyn Error>> {
    let (upstream, _) = scripted(begun(upstream))?;
    let serve = start(dialect, upstream, "")?;
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

/// Measures calls of a search service that does not respond. The client has the text before the call by then, so no bytes of the
/// response are held.
fn measure_calls() -> Result<(), Box<dyn Error>> {
    // A call takes five files of this process.
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit)?;
    let function = json!({"name": "web_search", "arguments": r#"{"query":"weather in Paris"}"#});
    let call = json!([{"index": 0, "id": "call_1", "type": "function", "function": function}]);
    let call =
        json!({"choices": [{"index": 0, "delta": {"tool_calls": call}, "finish_reason": "tool_calls"}]});
    let mut frames = begun(Upstream::Chat);
    frames.extend([chunk(&format!("data: {call}\n\ndata: [DONE]\n\n")), "0\r\n\r\n".to_owned()]);
    let (upstream, _) = scripted(frames)?;
    let (search, running) = scripted(Vec::new())?;
    let hosted = format!(
        "[execution]\nmax_running = {CALLS}\n[[providers]]\nname = \"serper\"\nkind = \"serper\"\napi_key = \"none\"\n\
         base_url = \"http://{search}\"\nmax_running = {CALLS}\ntimeout = \"120s\"\ntools = [\"web_search\"]\n"
    );
    let serve = start("chat", upstream, &hosted)?;
    let open = |calls: usize| -> Result<Vec<_>, Box<dyn Error>> {
        let all = running.load(Ordering::Relaxed) + calls;
        let held = (0..calls).map(|_| Stream::open(serve.address, false)).collect();
        while running.load(Ordering::Relaxed) < all {
            thread::sleep(Duration::from_millis(10));
        }
        held
    };
    let first = open(8)?;
    let before = pss(&serve)?;
    let calls = CALLS - first.len();
    let held = open(calls)?;
    let each = pss(&serve)?.saturating_sub(before) as f64 / calls as f64;
    println!("chat → chat, {calls} hosted calls that run: {each:.1} KiB a call");
    drop((first, held));
    Ok(())
}

/// Starts the server. `tables` are further tables of its configuration.
fn start(dialect: &str, upstream: SocketAddr, tables: &str) -> Result<Serve, Box<dyn Error>> {
    Serve::start(&format!(
        "listen = \"127.0.0.1:0\"\n[[upstreams]]\nname = \"up\"\ndialect = \"{dialect}\"\n\
         base_url = \"http://{upstream}/v1\"\nmax_concurrent = 1000\n[[models]]\nname = \"m\"\nupstream = \"up\"\n{tables}"
    ))
}

/// Returns the server's proportional set size in KiB.
fn pss(serve: &Serve) -> Result<u64, Box<dyn Error>> {
    let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", serve.child.id()))?;
    let pss = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
    Ok(pss.ok_or("no Pss")?.trim().trim_end_matches(" kB").parse()?)
}

/// Returns the chunks of the body with which a response begins.
fn begun(upstream: Upstream) -> Vec<String> {
    upstream.frames(&answers::prose(TOKENS)).iter().take(TOKENS).map(|frame| chunk(frame)).collect()
}

fn chunk(data: &str) -> String {
    format!("{:x}\r\n{data}\r\n", data.len())
}

/// Starts a server that sends these chunks and nothing more. Also returns the number of requests that it has received.
fn scripted(chunks: Vec<String>) -> Result<(SocketAddr, Arc<AtomicUsize>), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let requests = Arc::<AtomicUsize>::default();
    let (chunks, received) = (Arc::new(chunks), Arc::clone(&requests));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (chunks, received) = (Arc::clone(&chunks), Arc::clone(&received));
            thread::spawn(move || answer(stream, &chunks, &received));
        }
    });
    Ok((address, requests))
}

fn answer(mut stream: TcpStream, chunks: &[String], received: &AtomicUsize) -> std::io::Result<()> {
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
    received.fetch_add(1, Ordering::Relaxed);
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes())?;
    for chunk in chunks {
        stream.write_all(chunk.as_bytes())?;
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
