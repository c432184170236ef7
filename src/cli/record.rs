//! `toolwire record`: serves, and writes each exchange as a fixture.

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use super::{LogFormat, UpstreamFlags, output::failed, serve};
use toolwire_lab::fixture::record::Recorder;
use toolwire_net::redact::Redactor;

/// Options of `record`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder to write to; `toolwire replay --update` adds the expected output of the fixtures in it
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The configuration.
    #[command(flatten)]
    upstream: UpstreamFlags,
}

pub(super) fn run(args: Args, log_format: LogFormat) -> ExitCode {
    let config = match args.upstream.load_or_say(log_format) {
        Ok(config) => config,
        Err(status) => return status,
    };
    match Recorder::new(args.out.clone(), Redactor::new(config.secrets())) {
        Ok(recorder) => {
            if log_format == LogFormat::Text {
                eprintln!("each exchange is written to a folder in {}", args.out.display());
            }
            serve::until_terminated(config, Some(Arc::new(recorder)), false, log_format)
        }
        Err(error) => failed(
            format_args!("cannot write to {}: {error}", args.out.display()),
            Some("`--out DIR` names a folder that can be created or written to"),
        ),
    }
}
