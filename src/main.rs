//! Arguments in, one command called.

fn main() -> std::process::ExitCode {
    toolwire::cli::run()
}
