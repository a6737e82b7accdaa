//! The program `piton`.

fn main() -> std::process::ExitCode {
    gateway::cli::main()
}
