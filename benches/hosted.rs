//! Measures, as ratios, how much time the execution stage adds: to a response without calls, and to a hosted call
//! compared with a client that runs the tool itself. The result of the tool is cached, so running it takes no time.

#![allow(clippy::print_stdout, reason = "the figures are the result")]

mod serve;
mod turns;

use std::{
    error::Error,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use serde_json::{Value, json};
use serve::Serve;
use turns::{Bound, Work, best, rounds, tell, wanted};

/// The number of turns per round.
const TURNS: usize = 20;

/// A hosted tool. Repeated calls reuse the first result.
const HOSTED: &str = "[execution]\n[[providers]]\nname = \"serper\"\nkind = \"serper\"\napi_key = \"none\"\n\
    tools = [\"web_search\"]\nbase_url = ";

fn main() -> Result<(), Box<dyn Error>> {
    if !wanted() {
        return Ok(());
    }
    let upstream = Upstream::start()?;
    let plain = start(&upstream, "")?;
    let hosting = start(&upstream, &format!("{HOSTED}\"http://{}\"\n", upstream.address))?;
    // Records the requests that toolwire sends for a hosted call. A client that runs the tool itself sends the same
    // ones.
    connect(&hosting)?.ask(&question("call"))?;
    let by_client = upstream.asked();
    connect(&hosting)?.ask(&question("text"))?;
    let declared = upstream.asked();
    let asking = |serve: &Serve, bodies: Vec<String>| -> Result<Work<'static>, Box<dyn Error>> {
        let mut client = connect(serve)?;
        Ok(Box::new(move || {
            let asks = (0..TURNS).flat_map(|_| &bodies);
            asks.map(|body| client.ask(body).unwrap_or_default()).sum()
        }))
    };
    let without = asking(&plain, declared)?;
    let with = asking(&hosting, vec![question("text")])?;
    report("a response without calls, stage on ÷ off", best(rounds(), [with, without]), Bound::Most(1.1));
    let by_client = asking(&plain, by_client)?;
    let by_toolwire = asking(&hosting, vec![question("call")])?;
    report("a hosted call ÷ the client's own", best(rounds(), [by_toolwire, by_client]), Bound::Most(1.3));
    Ok(())
}

fn report(name: &str, [one, other]: [std::time::Duration; 2], bound: Bound) {
    let each = |time: std::time::Duration| time.as_secs_f64() * 1e6 / TURNS as f64;
    let figures = format!("{:.0} µs ÷ {:.0} µs", each(one), each(other));
    tell(name, &figures, one.as_secs_f64() / other.as_secs_f64(), bound);
}

fn question(wanted: &str) -> String {
    json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": wanted}]}).to_string()
}

/// An upstream that calls the tool if the last message asks for it, and otherwise writes text. It also plays the
/// search engine.
struct Upstream {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Upstream {
    fn start() -> Result<Self, Box<dyn Error>> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (address, requests) = (listener.local_addr()?, Arc::default());
        let kept = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let kept = Arc::clone(&kept);
                thread::spawn(move || serve(stream, &kept));
            }
        });
        Ok(Self { address, requests })
    }

    /// Takes the requests recorded since the last call.
    fn asked(&self) -> Vec<String> {
        self.requests.lock().map(|mut requests| std::mem::take(&mut *requests)).unwrap_or_default()
    }
}

fn serve(stream: TcpStream, requests: &Mutex<Vec<String>>) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut stream = stream;
    loop {
        let (line, body) = message(&mut reader)?;
        let request: Value = serde_json::from_str(&body).ok()?;
        let answer = if line.contains("/search") {
            let page = json!({"title": "Paris", "link": "https://weather.example/", "snippet": "Mild."});
            ("application/json", json!({"organic": [page]}).to_string())
        } else {
            let last = request.pointer("/messages").and_then(Value::as_array)?.last()?;
            let is_call = last.get("content").is_some_and(|content| content == "call");
            // The first requests show what toolwire sends. Recording more would only use memory.
            let mut requests = requests.lock().ok()?;
            if requests.len() < 2 {
                requests.push(body);
            }
            ("text/event-stream", if is_call { call() } else { text() })
        };
        let (kind, body) = answer;
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all((head + &body).as_bytes()).ok()?;
    }
}

fn frames(parts: &[(Value, Value)]) -> String {
    let frame = |(delta, finish): &(Value, Value)| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        let chunk = json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]});
        format!("data: {chunk}\n\n")
    };
    parts.iter().map(frame).collect::<String>() + "data: [DONE]\n\n"
}

fn call() -> String {
    let function = json!({"name": "web_search", "arguments": r#"{"query":"weather in Paris"}"#});
    let call = json!({"index": 0, "id": "call_1", "type": "function", "function": function});
    frames(&[
        (json!({"role": "assistant", "tool_calls": [call]}), Value::Null),
        (json!({}), "tool_calls".into()),
    ])
}

fn text() -> String {
    frames(&[(json!({"role": "assistant", "content": "Mild."}), Value::Null), (json!({}), "stop".into())])
}

/// Reads a message with a content length. Returns its first line and its body.
fn message(reader: &mut impl BufRead) -> Option<(String, String)> {
    let (mut first, mut line, mut length) = (String::new(), String::new(), 0);
    reader.read_line(&mut first).ok().filter(|read| *read > 0)?;
    while line != "\r\n" {
        line.clear();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((first, String::from_utf8(body).ok()?))
}

fn start(upstream: &Upstream, tables: &str) -> Result<Serve, Box<dyn Error>> {
    let address = upstream.address;
    Serve::start(&format!(
        "listen = \"127.0.0.1:0\"\nstore = \"off\"\n[[upstreams]]\nname = \"up\"\ndialect = \"chat\"\n\
         base_url = \"http://{address}/v1\"\n[[models]]\nname = \"m\"\nupstream = \"up\"\n{tables}"
    ))
}

fn connect(serve: &Serve) -> Result<Client, Box<dyn Error>> {
    let stream = TcpStream::connect(serve.address)?;
    stream.set_nodelay(true)?;
    Ok(Client(stream))
}

struct Client(TcpStream);

impl Client {
    /// Sends a request and reads the complete stream. Returns the size of the stream.
    fn ask(&mut self, body: &str) -> Result<usize, Box<dyn Error>> {
        let length = body.len();
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        self.0.write_all((head + body).as_bytes())?;
        let (mut data, mut piece) = (Vec::new(), [0; 4096]);
        while !data.ends_with(b"\r\n0\r\n\r\n") {
            match self.0.read(&mut piece)? {
                0 => return Err("the connection was closed".into()),
                read => data.extend(piece.iter().take(read)),
            }
        }
        Ok(data.len())
    }
}
