//! Options that `bench`, `calibrate` and `conform` share.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use super::output::{Failed, failed, in_file, results};
use toolwire_gateway::observe::terminal;

/// The file name that stands for stdout.
pub(super) const STDOUT: &str = "-";

/// Where a report goes.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Results")]
pub(super) struct ReportFlags {
    /// Write JSON; without a file instead of the table
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = STDOUT)]
    json: Option<PathBuf>,
    /// Write an HTML page; - is stdout
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Show no progress on stderr
    #[arg(long, short)]
    pub(super) quiet: bool,
}

impl ReportFlags {
    /// Writes `json` and `page` to the files given by the options. Prints `table`, which is called with the width of the
    /// terminal, unless one of them goes to stdout. Returns `status`, or [`ExitCode::FAILURE`] if writing fails.
    pub(super) fn write(
        &self,
        status: ExitCode,
        json: impl FnOnce() -> String,
        page: impl FnOnce() -> String,
        table: impl FnOnce(Option<usize>) -> String,
    ) -> ExitCode {
        let json = self.json.as_ref().map(|file| (file, json()));
        let page = self.html.as_ref().map(|file| (file, page()));
        let (mut printed, mut wrong) = (None, None);
        for (file, text) in [json, page].into_iter().flatten() {
            if file == Path::new(STDOUT) {
                printed = Some(text);
            } else if let Err(error) = fs::write(file, text) {
                wrong = Some(in_file(file)(error));
            }
        }
        let text = printed.unwrap_or_else(|| table(terminal::width(&io::stdout())));
        let status = results(status, |out| out.write_all(text.as_bytes()));
        wrong.map_or(status, |error| failed(error, None))
    }
}

/// Parses a duration greater than zero.
pub(super) fn duration(text: &str) -> Result<Duration, Failed> {
    match humantime::parse_duration(text) {
        Ok(time) if time.is_zero() => Err("it must be longer than zero".into()),
        Ok(time) => Ok(time),
        Err(error) => Err(format!("{error}; write it as 500ms, 10s or 2m").into()),
    }
}
