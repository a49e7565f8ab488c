//! `edge-idempotency`: the program. All of it is in the library of this crate.

fn main() -> std::process::ExitCode {
    edge_idempotency_command::run()
}
