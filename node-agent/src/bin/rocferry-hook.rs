//! `rocferry-hook`, the OCI hook that records which GPUs a container was given.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    rocferry_agent::hook::main(std::env::args_os())
}
