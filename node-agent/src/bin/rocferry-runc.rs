//! `rocferry-runc`, the OCI runtime wrapper.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    rocferry_agent::wrapper::main(std::env::args_os())
}
