//! `steplatch terminal resize` and `terminal signal`.

use std::process::ExitCode;

use clap::Args;
use steplatch_protocol::{DaemonPaths, ResizeTerminal, SendSignal};

use super::{check_success, parse_size};
use crate::failure::Failure;
use crate::{completion, daemon_client, print};

/// Set the size of a terminal
#[derive(Debug, Args)]
pub(crate) struct Resize {
    /// Id or name of the terminal
    #[arg(value_name = "TERMINAL", add = completion::terminals())]
    id: String,
    /// Columns and rows, from 2x2 to 1000x1000
    #[arg(value_name = "COLSxROWS", value_parser = parse_size)]
    size: (u16, u16),
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Send a signal to the program in the foreground of a terminal
#[derive(Debug, Args)]
pub(crate) struct Signal {
    /// Id or name of the terminal
    #[arg(value_name = "TERMINAL", add = completion::terminals())]
    id: String,
    /// Signal: INT, TERM, HUP, QUIT, KILL, STOP, CONT, USR1, USR2 or WINCH
    signal: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Resize {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let (cols, rows) = self.size;
        let reply = daemon_client::ask(paths, ResizeTerminal { session_id: self.id, cols, rows }).await?;
        check_success(reply.success, reply.error.as_ref(), &reply)?;
        if self.json {
            print::json(&reply)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Signal {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let reply = daemon_client::ask(paths, SendSignal { session_id: self.id, signal: self.signal }).await?;
        check_success(reply.success, reply.error.as_ref(), &reply)?;
        if self.json {
            print::json(&reply)?;
        } else {
            print::line(&reply.message)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
