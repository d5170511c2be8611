//! The `gpusched` command: a client of the library like any other.

fn main() -> std::process::ExitCode {
    std::process::ExitCode::FAILURE
}
