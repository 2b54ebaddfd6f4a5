//! Runs a program in a terminal of a terminal host until it ends, for `cargo xtask conformance`.
//!
//! Arguments: the working directory, then the program and its arguments. The terminal has 80 columns and 25 rows, as
//! expected by test suites for terminals.
#![allow(clippy::print_stderr, reason = "a person runs this")]

use std::process::ExitCode;
use std::time::Duration;

use steplatch_host::{Hosts, Role, Starter, WaitRequest};
use steplatch_terminal::{Closing, Size, Spec, Target, Until};

/// Time limit of the suite; a suite that takes longer is stuck.
const SUITE_TIMEOUT: Duration = Duration::from_secs(1800);

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let Some(directory) = arguments.next() else {
        eprintln!("usage: conformance FOLDER PROGRAM [ARGUMENT]…");
        return ExitCode::FAILURE;
    };
    let sockets = tempfile::tempdir().expect("a directory for the sockets");
    let hosts = Hosts::find(
        Role::Visitor,
        sockets.path(),
        sockets.path(),
        Starter::InProcess(Box::default()),
        "conformance",
        drop,
    )
    .await
    .expect("the directory is readable");
    let spec = Spec {
        arguments: arguments.collect(),
        command: "test suite".to_owned(),
        directory: directory.into(),
        inherited: std::env::vars_os().collect(),
        environment: Vec::new(),
        size: Size { cols: 80, rows: 25 },
        name: None,
        opened_by: None,
        step: None,
    };
    let terminal = match hosts.open(spec).await {
        Ok((terminal, _)) => terminal,
        Err(error) => {
            eprintln!("The suite could not be started: {error}.");
            return ExitCode::FAILURE;
        }
    };
    let wait = WaitRequest {
        patterns: Vec::new(),
        target: Target::Output,
        since: None,
        until: Until::Exit,
        input: None,
        timeout: SUITE_TIMEOUT,
        by: None,
        ..WaitRequest::default()
    };
    let waited = terminal.wait(wait).await;
    let has_succeeded = match waited {
        Ok((_, view)) => match view.exit {
            Some(exit) if exit.code == 0 => true,
            Some(exit) => {
                eprintln!("The suite ended with exit code {}. Its screen:\n{}", exit.code, view.screen);
                false
            }
            None => {
                eprintln!("The suite has not ended within {} s. Its screen:\n{}", SUITE_TIMEOUT.as_secs(), view.screen);
                false
            }
        },
        Err(_) => false,
    };
    // Ignore the error, because the terminal is no longer needed, and may have closed already.
    let _ = terminal.close(Closing::default()).await;
    if has_succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
