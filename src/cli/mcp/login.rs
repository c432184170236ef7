//! `toolwire mcp login` and `logout`: a person logs in to an MCP server, in a browser on this machine or on another one.

use std::{
    io::{self, Write},
    process::ExitCode,
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    runtime::Builder,
    sync::mpsc::{self, UnboundedReceiver},
    task::JoinSet,
    time::{Instant, timeout, timeout_at},
};

use super::{
    super::{
        block_on::block_on,
        output::{Failed, failed},
        results,
    },
    ConfigArgs,
};
use toolwire_execution::oauth::{Account, OAuthError};
use toolwire_gateway::observe::untrusted_text::escaped;

/// Maximum size of a request's head, in bytes.
const MAX_HEAD: usize = 32 << 10;

/// Time limit for a request.
const REQUEST: Duration = Duration::from_secs(10);

/// Maximum number of requests at the same time.
const MAX_REQUESTS: usize = 32;

#[derive(Debug, clap::Args)]
pub(super) struct LoginArgs {
    /// The server's name in the configuration
    name: String,
    /// The client key whose login it is, by its name [default: that of all clients]
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// The scopes to ask for, separated by spaces [default: those that the server names]
    #[arg(long, value_name = "SCOPES")]
    scope: Option<String>,
    /// Port to listen on at 127.0.0.1, where the browser returns [default: a free one]
    #[arg(long, short, value_name = "PORT")]
    port: Option<u16>,
    /// How long to wait for the browser
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = humantime::parse_duration)]
    wait: Duration,
    #[command(flatten)]
    config: ConfigArgs,
}

#[derive(Debug, clap::Args)]
pub(super) struct LogoutArgs {
    /// The server's name in the configuration
    name: String,
    /// The client key whose login it is, by its name [default: that of all clients]
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    #[command(flatten)]
    config: ConfigArgs,
}

pub(super) fn log_in(args: &LoginArgs) -> ExitCode {
    let account = match args.config.account_to_log_in(&args.name, args.key.as_deref()) {
        Ok(account) => account,
        Err(status) => return status,
    };
    let done = block_on(Builder::new_current_thread(), logging_in(args, &account));
    match done.map_err(Failed::from).flatten() {
        Ok(()) => results(ExitCode::SUCCESS, |out| writeln!(out, "{}: logged in", escaped(&args.name))),
        Err(error) => failed(format_args!("{}: {error}", args.name), None),
    }
}

pub(super) fn log_out(args: &LogoutArgs) -> ExitCode {
    // The key may be gone by now.
    let found =
        args.config.load().and_then(|config| ConfigArgs::account(&config, &args.name, args.key.as_deref()));
    let account = match found {
        Ok(account) => account,
        Err(status) => return status,
    };
    let done = block_on(Builder::new_current_thread(), account.log_out());
    match done.map_err(Failed::from).and_then(|done| Ok(done?)) {
        Ok(true) => results(ExitCode::SUCCESS, |out| writeln!(out, "{}: logged out", escaped(&args.name))),
        Ok(false) => failed(format_args!("there is no login at `{}`", args.name), None),
        Err(error) => failed(format_args!("{}: {error}", args.name), None),
    }
}

async fn logging_in(args: &LoginArgs, account: &Account) -> Result<(), Failed> {
    let listener = TcpListener::bind(("127.0.0.1", args.port.unwrap_or(0))).await?;
    let host = listener.local_addr()?.to_string();
    let url = account.begin(&format!("http://{host}/callback"), args.scope.as_deref()).await?;
    eprintln!("open this address in a browser, and log in there:");
    // A script may read the address before the login has ended.
    let written = writeln!(io::stdout(), "{url}").and_then(|()| io::stdout().flush());
    written.map_err(|error| format!("the address cannot be written: {error}"))?;
    eprintln!("if that browser is on another machine, paste here the address that it shows in the end");
    let deadline = Instant::now() + args.wait;
    match timeout_at(deadline, response(account, &listener, &host)).await {
        Ok(ended) => ended,
        Err(_) => Err(format!("nobody has logged in for {}", humantime::format_duration(args.wait)).into()),
    }
}

/// Waits for the response to the login, which a browser or a person brings.
async fn response(account: &Account, listener: &TcpListener, host: &str) -> Result<(), Failed> {
    let (mut requests, mut pasted) = (JoinSet::new(), pasted_lines());
    loop {
        tokio::select! {
            accepted = listener.accept(), if requests.len() < MAX_REQUESTS => {
                // A connection that broke off is not an error of the listener.
                if let Ok((stream, _)) = accepted {
                    let host = host.to_owned();
                    requests.spawn(async move { timeout(REQUEST, read(stream, &host)).await.ok().flatten() });
                }
            }
            Some(Ok(Some((stream, query)))) = requests.join_next(), if !requests.is_empty() => {
                let query = query.filter(|query| account.awaits(query));
                let Some(query) = query else {
                    answer(stream, "400 Bad Request", "This is not the response to the login that waits here.").await;
                    continue;
                };
                let finished = account.finish(&query).await;
                let (status, text) = match &finished {
                    Ok(()) => ("200 OK", "Logged in. You can close this page.".to_owned()),
                    Err(error) => ("400 Bad Request", format!("Not logged in: {error}")),
                };
                answer(stream, status, &text).await;
                return Ok(finished?);
            }
            Some(line) = pasted.recv() => {
                let query = line.trim().split_once('?').map(|(_, query)| query);
                match query.filter(|query| account.awaits(query)) {
                    Some(query) => return Ok(account.finish(query).await?),
                    None => eprintln!("{}", OAuthError::State),
                }
            }
        }
    }
}

/// The lines of stdin. Their thread ends with the process.
fn pasted_lines() -> UnboundedReceiver<String> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in io::stdin().lines().map_while(Result::ok).filter(|line| !line.trim().is_empty()) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Reads a request. Returns its query if it is for the address that the browser was sent to: another host name would
/// mean that a page of somebody else makes the browser send it.
async fn read(mut stream: TcpStream, host: &str) -> Option<(TcpStream, Option<String>)> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() > MAX_HEAD || stream.read_buf(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let head = String::from_utf8(head).ok()?;
    let mut lines = head.split("\r\n");
    let target =
        lines.next().and_then(|line| line.strip_prefix("GET ")).and_then(|line| line.split(' ').next());
    let query = target.and_then(|target| target.strip_prefix("/callback?")).map(str::to_owned);
    let hosts = lines.filter_map(|line| line.split_once(':'));
    let is_own =
        hosts.filter(|(name, _)| name.eq_ignore_ascii_case("host")).all(|(_, value)| value.trim() == host);
    Some((stream, query.filter(|_| is_own)))
}

/// Sends a response. Errors are ignored, since the browser may have gone.
async fn answer(mut stream: TcpStream, status: &str, text: &str) {
    let length = text.len() + 1;
    let fields = "Content-Type: text/plain; charset=utf-8\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n";
    let response =
        format!("HTTP/1.1 {status}\r\n{fields}Connection: close\r\nContent-Length: {length}\r\n\r\n{text}\n");
    let _ = timeout(REQUEST, stream.write_all(response.as_bytes())).await;
    let _ = stream.shutdown().await;
}
