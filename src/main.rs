//! Runs the command line.

// With many short requests, mimalloc uses 10 % less CPU time than the system's allocator, and it returns memory after a
// burst (docs/performance.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    toolwire::cli::run()
}
