//! `toolwire rewrite`: a filter that turns an upstream's stream into a client's.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
};

use bytes::BytesMut;
use serde_json::json;

use super::{
    offered_values::{
        client_dialect, detected_formats, server_calls, splits, stream_dialect, text, tool_styles,
    },
    output::{Failed, failed, in_file, refused},
};
use toolwire_config as config;
use toolwire_config::{ToolStyle, model_rules};
use toolwire_gateway::{
    manifest::RuleOverrides,
    observe::{terminal::counted, untrusted_text::escaped},
};
use toolwire_lab::fixture::{Fixture, Response, Splits, cuts_in_two, replay};
use toolwire_net::redact::Redactor;
use toolwire_pipeline::{
    conversation::Conversation,
    dialect::{ClientDialect, Dialect, ReaderRules, UpstreamDialect},
    format::{self, KnownFormats},
    pipeline::{Pipeline, State},
    rules::Rules,
};

const STREAMS: &str = "Streams";
const CALLS: &str = "Tool calls";

/// Options of `rewrite`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Dialect of the input
    #[arg(long, value_name = "DIALECT", value_parser = stream_dialect(), help_heading = STREAMS)]
    from: Dialect,
    /// Dialect of the output
    #[arg(long, value_name = "DIALECT", value_parser = client_dialect(), default_value = "chat", help_heading = STREAMS)]
    to: ClientDialect,
    /// How tools are presented to the model: native, or a text format
    #[arg(long, value_name = "TOOLS", default_value = "native", help_heading = CALLS)]
    #[arg(value_parser = tool_styles(), hide_possible_values = true)]
    tools: String,
    /// Text formats to look for in responses: auto, off, or comma-separated names
    #[arg(long, value_name = "FORMATS", help_heading = CALLS)]
    #[arg(value_parser = detected_formats(), hide_possible_values = true)]
    detect: Option<String>,
    /// The client's request, whose tools and options determine what is a call
    #[arg(long, value_name = "FILE", help_heading = CALLS)]
    request: Option<PathBuf>,
    /// Names of declared tools, instead of or in addition to a request
    #[arg(long, value_name = "NAME", value_delimiter = ',', help_heading = CALLS)]
    declare: Vec<String>,
    /// Split the input into pieces of N bytes; with `every`, check that every split gives the same output
    #[arg(long, value_name = "N|every", help_heading = STREAMS)]
    #[arg(value_parser = splits(), hide_possible_values = true)]
    split: Option<Splits>,
    /// Send arguments as they arrive (stream), or a call when it is complete (whole)
    #[arg(long, value_name = "HOW", value_parser = text(["stream", "whole"]), help_heading = CALLS)]
    arguments: Option<String>,
    /// What clients see of calls that the upstream ran itself
    #[arg(long, value_name = "HOW", env = "TOOLWIRE_SERVER_CALLS", value_parser = server_calls(), help_heading = CALLS)]
    server_calls: Option<String>,
    /// Calls of undeclared tools in formats with markers
    #[arg(long, value_name = "HOW", value_parser = text(["forward", "text"]), help_heading = CALLS)]
    unknown_calls: Option<String>,
    /// Prefix of the tool names that the model was taught
    #[arg(long, value_name = "TEXT", help_heading = CALLS)]
    tool_prefix: Option<String>,
    /// Do not repair arguments that are not JSON
    #[arg(long, help_heading = CALLS)]
    no_repair: bool,
    /// Each delta repeats all earlier text
    #[arg(long, help_heading = STREAMS)]
    cumulative: bool,
    /// Accept a stream without its end mark as complete
    #[arg(long, help_heading = STREAMS)]
    tolerate_truncation: bool,
    /// The upstream's stream [default: standard input]
    #[arg(value_name = "FILE")]
    input: Option<PathBuf>,
}

/// Why a rewrite stopped early.
enum Stop {
    /// The command line or the request is wrong: status 2.
    Usage(Failed),
    /// The work failed: status 1.
    Work(Failed),
    /// The output was closed by its reader: status 0.
    Unread,
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Unread,
            _ => Self::Work(error.into()),
        }
    }
}

impl From<Failed> for Stop {
    fn from(error: Failed) -> Self {
        Self::Usage(error)
    }
}

pub(super) fn run(args: Args) -> ExitCode {
    let done = match args.split {
        Some(Splits::Every) => check(&args),
        _ => filter(&args),
    };
    match done {
        Ok(()) | Err(Stop::Unread) => ExitCode::SUCCESS,
        Err(Stop::Usage(error)) => refused(error, Some("`toolwire rewrite --help` describes the options")),
        Err(Stop::Work(error)) => failed(error, None),
    }
}

/// Rewrites the input as it arrives.
fn filter(args: &Args) -> Result<(), Stop> {
    let conversation = args.conversation()?;
    let settings = args.settings(&conversation.model, &conversation)?;
    let reader = args.from()?.side().reader(&ReaderRules {
        max_frame: settings.limits.max_frame,
        tolerate_truncation: settings.tolerate_truncation,
        client: args.to.dialect(),
    });
    let mut pipeline = replay::pipeline(reader, args.to, &settings, KnownFormats::built_in(), &conversation);
    pipeline.redact_with(Arc::new(Redactor::new([])));
    let mut input = args.open()?;
    let mut stdout = io::stdout().lock();
    let mut out = BytesMut::new();
    let mut read = vec![0; 16 << 10];
    while pipeline.state() == State::Open {
        let len = input.read(&mut read)?;
        let bytes = read.get(..len).unwrap_or_default();
        if bytes.is_empty() {
            pipeline.finish(&mut out);
        }
        for piece in bytes.chunks(args.piece_size()) {
            pipeline.push(piece, &mut out);
            pass_on(&mut out, &mut stdout)?;
        }
    }
    // There is no upstream to retry.
    pipeline.end(&mut out);
    let failed = end(&mut pipeline, conversation.stream, &mut out);
    pass_on(&mut out, &mut stdout)?;
    failed.map_or(Ok(()), |message| Err(Stop::Work(message.into())))
}

/// Writes and flushes all output so far: a filter must not hold back output that is ready.
fn pass_on(out: &mut BytesMut, stdout: &mut impl Write) -> io::Result<()> {
    if !out.is_empty() {
        stdout.write_all(out)?;
        stdout.flush()?;
        out.clear();
    }
    Ok(())
}

/// If the pipeline has failed, writes the failure in the client's dialect and returns its message.
fn end(pipeline: &mut Pipeline, stream: bool, out: &mut BytesMut) -> Option<String> {
    let failure = pipeline.failure()?.clone();
    if stream {
        pipeline.write_failure(out);
    } else {
        out.extend_from_slice(&pipeline.error_body(&failure));
    }
    Some(match failure.code() {
        Some(code) => format!("{code}: {failure}"),
        None => failure.to_string(),
    })
}

/// Maximum number of bytes to process for all two-piece splits together. For inputs of up to 16 KiB, every such split is
/// tried.
const SPLIT_BUDGET: usize = 256 << 20;

/// Reads the complete input, and checks that every split gives the same output.
fn check(args: &Args) -> Result<(), Stop> {
    let conversation = args.conversation()?;
    let mut upstream = Vec::new();
    args.open()?.read_to_end(&mut upstream)?;
    let fixture = Fixture {
        name: "input".to_owned(),
        title: String::new(),
        from: args.from()?,
        to: args.to,
        settings: args.settings(&conversation.model, &conversation)?,
        formats: Arc::new(KnownFormats::default()),
        hosted: None,
        request: Vec::new(),
        conversation,
        upstream: Response { body: upstream, ..Response::default() },
        hops: Vec::new(),
        expect: None,
        expect_stream: None,
    };
    if let Some(finding) = fixture.check_within(Splits::Every, SPLIT_BUDGET) {
        finding.to_string().lines().for_each(|line| eprintln!("{}", escaped(line)));
        let message = "split this way, the stream gives a different result than in one piece";
        return Err(Stop::Work(message.into()));
    }
    let len = fixture.upstream_len();
    let (made, all) = cuts_in_two(len, SPLIT_BUDGET);
    let places = match made == all {
        true => format!("each of its {all} places"),
        false => format!("{made} of its {all} places (too large for all of them)"),
    };
    eprintln!(
        "{}, in equal pieces of several sizes, and split in two at {places}: always the same result",
        counted(len, "byte")
    );
    Ok(())
}

impl Args {
    fn open(&self) -> Result<Box<dyn Read>, Failed> {
        let Some(path) = &self.input else { return Ok(Box::new(io::stdin().lock())) };
        Ok(Box::new(File::open(path).map_err(in_file(path))?))
    }

    fn from(&self) -> Result<UpstreamDialect, Failed> {
        Ok(UpstreamDialect::try_from(self.from)?.with_cumulative(self.cumulative))
    }

    fn piece_size(&self) -> usize {
        match self.split {
            Some(Splits::Size(size)) => size,
            _ => usize::MAX,
        }
    }

    /// The rules that `serve` would use to read the response of `model` to `conversation`.
    fn settings(&self, model: &str, conversation: &Conversation) -> Result<Rules, Failed> {
        let tools = match self.tools.as_str() {
            "native" => ToolStyle::Native,
            name => ToolStyle::Format(
                format::by_name(name)
                    .ok_or_else(|| config::unknown_format(name, format::ALL.iter().copied()))
                    .map_err(|unknown| format!("--tools expects `native` or a text format: {unknown}"))?,
            ),
        };
        let upstream = UpstreamDialect::try_from(self.from)?;
        let taught_prefix = (tools != ToolStyle::Native).then(|| upstream.side().tool_prefix().to_owned());
        let rules = RuleOverrides::default()
            .with("detect", self.detect.as_deref().map(model_rules::detect_of_flag))
            .with("arguments", self.arguments.clone())
            .with("server_calls", self.server_calls.clone())
            .with("unknown_calls", self.unknown_calls.clone())
            .with("tool_prefix", self.tool_prefix.clone().or(taught_prefix))
            .with("server_tools", Some(upstream.side().server_tools().to_vec()))
            .with("repair", self.no_repair.then_some(false))
            .with("tolerate_truncation", self.tolerate_truncation.then_some(true));
        let settings = rules.settings(KnownFormats::built_in())?;
        let start = config::start_of(model, None, conversation).0;
        Ok(config::settings_for(&settings, tools, start, KnownFormats::built_in(), model).into_owned())
    }

    /// Reads the client's request, if given, and adds the tools of `--declare`.
    fn conversation(&self) -> Result<Conversation, Failed> {
        let declared =
            self.declare.iter().map(|name| json!({"type": "function", "function": {"name": name}}));
        // The flags mean the same for clients of every dialect.
        let request = json!({
            "model": "rewritten",
            "stream": true,
            "stream_options": { "include_usage": true },
            "messages": [{ "role": "user", "content": "" }],
            "tools": declared.collect::<Vec<_>>(),
        });
        let conversation = ClientDialect::Chat.side().decode(request.to_string().as_bytes())?;
        let Some(path) = &self.request else { return Ok(conversation) };
        let bytes = fs::read(path).map_err(in_file(path))?;
        let asked = self.to.side().decode(&bytes).map_err(in_file(path))?;
        Ok(Conversation { tools: asked.tools.into_iter().chain(conversation.tools).collect(), ..asked })
    }
}
