//! The product's binary, built with the tests, so that a story that kills it always runs the fresh one.

fn main() -> std::process::ExitCode {
    gateway::cli::main()
}
