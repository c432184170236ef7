//! A program that registers a tool with toolwire and runs its calls, over a stream that it opens itself.
//!
//! `cargo run --example provider -- 127.0.0.1:8787 REGISTRATION_KEY`; docs/tools.md describes the protocol.

use std::{
    env,
    error::Error,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    thread::sleep,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

/// How often registration is tried.
const TRIES: usize = 20;

/// Between two tries.
const PAUSE: Duration = Duration::from_secs(3);

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let (Some(address), Some(key)) = (arguments.next(), arguments.next()) else {
        return Err("usage: provider HOST:PORT REGISTRATION_KEY".into());
    };
    let toolwire = Toolwire { address, key };
    loop {
        toolwire.register()?;
        // When the stream ends, toolwire has stopped or forgotten the registration: begin again.
        if let Err(error) = toolwire.serve() {
            eprintln!("the stream of calls broke off: {error}");
        }
        sleep(PAUSE);
    }
}

/// Runs a call: what toolwire gets as its result.
fn run(tool: &str, _arguments: &Value) -> Value {
    match tool {
        "clock.now" => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            json!({"content": [{"type": "text", "text": format!("{now} seconds since 1970, UTC")}]})
        }
        unknown => json!({"error": format!("Unknown tool: {unknown}")}),
    }
}

/// The server, at an address without TLS.
struct Toolwire {
    address: String,
    key: String,
}

impl Toolwire {
    fn register(&self) -> Result<(), Box<dyn Error>> {
        let tool = json!({
            "name": "clock.now",
            "label": "Time",
            "description": "The current time.",
            "parameters": {"type": "object", "properties": {}},
        });
        let registration = json!({"id": "clock-rust", "label": "Clock", "tools": [tool]});
        for tried in 1..=TRIES {
            match self.post("/v1/providers", &registration) {
                Ok(answer) => {
                    eprintln!("registered: {answer}");
                    return Ok(());
                }
                Err(error) if tried == TRIES => return Err(error),
                Err(error) => eprintln!("not registered yet: {error}"),
            }
            sleep(PAUSE);
        }
        Ok(())
    }

    /// Reads calls and answers them until the stream ends.
    fn serve(&self) -> Result<(), Box<dyn Error>> {
        let mut stream = BufReader::new(self.send("GET", "/v1/providers/clock-rust/calls", "")?);
        head(&mut stream)?;
        let mut name = String::new();
        for line in stream.lines() {
            let line = line?;
            if let Some(event) = line.strip_prefix("event: ") {
                name = event.to_owned();
            } else if let (Some(data), "call") = (line.strip_prefix("data: "), name.as_str()) {
                let call: Value = serde_json::from_str(data)?;
                let text = |key: &str| call.get(key).and_then(Value::as_str).unwrap_or_default();
                let result = run(text("toolName"), call.get("params").unwrap_or(&Value::Null));
                self.post(&format!("/v1/providers/clock-rust/results/{}", text("toolCallId")), &result)?;
            }
        }
        Ok(())
    }

    fn post(&self, path: &str, body: &Value) -> Result<String, Box<dyn Error>> {
        let mut response = BufReader::new(self.send("POST", path, &body.to_string())?);
        head(&mut response)?;
        let mut answer = String::new();
        response.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// HTTP/1.0: the response ends with the connection, so there are no chunks to decode.
    fn send(&self, method: &str, path: &str, body: &str) -> Result<TcpStream, Box<dyn Error>> {
        let mut stream = TcpStream::connect(&self.address)?;
        let Self { address, key } = self;
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.0\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        )?;
        Ok(stream)
    }
}

/// Reads the head of a response, which must be a success.
fn head(response: &mut impl BufRead) -> Result<(), Box<dyn Error>> {
    let mut status = String::new();
    response.read_line(&mut status)?;
    let mut line = String::from("…");
    while !line.trim().is_empty() {
        line.clear();
        response.read_line(&mut line)?;
    }
    if status.contains(" 200 ") { Ok(()) } else { Err(format!("toolwire says: {}", status.trim()).into()) }
}
