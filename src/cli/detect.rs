//! `toolwire detect`: finds the format in which a text contains calls, and says how to configure it.

use std::{
    fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use serde_json::{Value, json};

use super::{
    output::{Failed, in_file, refused},
    results,
};
use toolwire_admin::found_format;
use toolwire_gateway::observe::{
    terminal::{self, counted},
    untrusted_text::escaped,
};
use toolwire_net::untrusted_text::clip;
use toolwire_pipeline::{
    conversation::{Conversation, Tool},
    detect::find_format::{Confidence, FoundCall, FoundFormat, find_formats_of_any_tool},
    dialect::ClientDialect,
    format::KnownFormats,
};

/// Maximum size in bytes of a text.
const MAX_TEXT: u64 = 1 << 20;

/// How many calls and other formats are shown.
const SHOWN: usize = 3;

/// Options of `detect`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What the model wrote: text, or a response with it as JSON [default: standard input]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Names of declared tools; without them, any name counts as one
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    declare: Vec<String>,
    /// The client's request, whose tools are declared
    #[arg(long, value_name = "FILE")]
    request: Option<PathBuf>,
    /// Write JSON: a line for each file
    #[arg(long)]
    json: bool,
}

/// Texts, each with its file. Standard input has none.
type Texts<'a> = Vec<(Option<&'a Path>, String)>;

pub(super) fn run(args: Args) -> ExitCode {
    match args.inputs() {
        Ok((conversation, texts)) => say(&args, &conversation, &texts),
        Err(error) => refused(error, None),
    }
}

fn say(args: &Args, conversation: &Conversation, texts: &Texts<'_>) -> ExitCode {
    let found: Vec<_> = texts
        .iter()
        .map(|(path, text)| (path, find_formats_of_any_tool(text, conversation, KnownFormats::built_in())))
        .collect();
    let status = ExitCode::from(u8::from(found.iter().any(|(_, found)| found.is_empty())));
    results(status, |out| {
        found.iter().try_for_each(|(path, found)| match path {
            _ if args.json => writeln!(
                out,
                "{}",
                json!({"file": path, "formats": found.iter().map(found_format).collect::<Vec<_>>()})
            ),
            Some(path) if texts.len() > 1 => {
                writeln!(out, "{}:", escaped(&path.display().to_string()))?;
                tell(found, conversation, out)
            }
            _ => tell(found, conversation, out),
        })
    })
}

/// Describes the best format, what it reads and how to configure it, and names the others.
fn tell(found: &[FoundFormat], conversation: &Conversation, out: &mut dyn Write) -> io::Result<()> {
    let Some((best, others)) = found.split_first() else {
        writeln!(out, "no format reads a call in this text")?;
        return writeln!(
            out,
            "  `toolwire formats` lists the formats; docs/no-calls.md says what else may be wrong"
        );
    };
    writeln!(out, "{} ({}): {}", best.format.name, best.confidence.name(), best.format.summary)?;
    let width = terminal::width(&io::stdout()).unwrap_or(120);
    for FoundCall { name, arguments, .. } in best.calls.iter().take(SHOWN) {
        let call = escaped(&format!("{name} {arguments}")).to_string();
        writeln!(out, "  call: {}", clip(&call, width.saturating_sub(8)))?;
    }
    if let Some(more) = best.calls.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        writeln!(out, "  and {} more", counted(more, "call"))?;
    }
    writeln!(out, "  why: {}", reasons(best))?;
    writeln!(out, "{}", advice(best, conversation))?;
    let others = others.iter().filter(|other| !best.equals.contains(&other.format.name));
    for other in others.take(SHOWN) {
        let (name, calls) = (other.format.name, counted(other.calls.len(), "call"));
        writeln!(out, "  less likely: {name}, {calls}, {} stay text", counted(other.text, "byte"))?;
    }
    Ok(())
}

fn reasons(found: &FoundFormat) -> String {
    let marker = match found.marker {
        Some(marker) => format!("the text has its marker `{marker}`"),
        None => "the format has no marker, so it is known by its shape alone".to_owned(),
    };
    let complete = match found.confidence {
        Confidence::Possible => "; a call is not complete",
        _ => "; the calls are complete",
    };
    let equals = match found.equals.as_slice() {
        [] => String::new(),
        equals => format!(
            "; {} read the same",
            equals.iter().take(SHOWN).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
        ),
    };
    format!("{marker}{complete}{equals}")
}

fn advice(found: &FoundFormat, conversation: &Conversation) -> String {
    let undeclared = found.calls.iter().find(|call| !call.is_declared);
    let name = found.format.name;
    let set = match found.is_automatic {
        true => "  set: nothing, `detect = \"auto\"` finds it".to_owned(),
        false => format!(
            "  set: `--detect {name}`, or in the configuration\n\n    [[models]]\n    name = \"*\"\n    detect = [\"{name}\"]\n"
        ),
    };
    match undeclared {
        Some(call) if !conversation.tools.is_empty() => {
            format!("{set}\n  but: the request declares no tool `{}`", clip(&escaped(&call.name), 64))
        }
        _ => set,
    }
}

impl Args {
    /// Reads the declared tools and the texts.
    fn inputs(&self) -> Result<(Conversation, Texts<'_>), Failed> {
        let mut conversation = match &self.request {
            Some(path) => declared(path)?,
            None => Conversation::default(),
        };
        conversation.tools.extend(self.declare.iter().map(Tool::named));
        let texts = match self.files.as_slice() {
            [] => vec![(None, text(io::stdin().lock())?)],
            files => {
                let read = files.iter().map(|path| {
                    let text = fs::File::open(path).map_err(Failed::from).and_then(text);
                    Ok((Some(path.as_path()), text.map_err(in_file(path))?))
                });
                read.collect::<Result<_, Failed>>()?
            }
        };
        Ok((conversation, texts))
    }
}

/// The tools of a request of any dialect.
fn declared(path: &Path) -> Result<Conversation, Failed> {
    let bytes = fs::read(path).map_err(in_file(path))?;
    let mut decoded = ClientDialect::all().map(|dialect| dialect.side().decode(&bytes));
    let found =
        decoded.find_map(|decoded| decoded.ok().filter(|conversation| !conversation.tools.is_empty()));
    Ok(found.ok_or("it declares no tools").map_err(in_file(path))?)
}

/// The model's text. Of a whole response, its message.
fn text(input: impl Read) -> Result<String, Failed> {
    let mut bytes = Vec::new();
    input.take(MAX_TEXT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_TEXT {
        return Err(format!("the text has more than {MAX_TEXT} bytes").into());
    }
    let text = String::from_utf8(bytes)?;
    let response: Value = serde_json::from_str(&text).unwrap_or_default();
    let message = ["/choices/0/message/content", "/choices/0/text", "/content/0/text", "/message/content"];
    let said = message.iter().find_map(|at| response.pointer(at)?.as_str());
    Ok(said.map_or_else(|| text.clone(), str::to_owned))
}
