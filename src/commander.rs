//! `steplatch commander`: a conversation with the daemon, line by line, for people.
//!
//! The parsed line (`line.rs`, `reference.rs`, `catalog.rs`, `order.rs`) and the state of the session (`session.rs`) do
//! not depend on the terminal or the daemon, so that another view can draw them. `conversation.rs` reads lines, and
//! connects the other modules with the terminal (`editor.rs`, `screen.rs`) and with the daemon (`work.rs`).
//! `carry_out.rs` executes commands, `questions.rs` asks the questions of gates, and `job_events.rs` shows events.

mod carry_out;
mod catalog;
mod completion;
mod conversation;
mod editor;
mod format;
mod help;
mod job_events;
mod line;
mod order;
mod questions;
mod reference;
mod screen;
mod session;
mod work;

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;

use clap::Args;
use steplatch_protocol::{DaemonPaths, ensure_private};

use crate::daemon_client;
use crate::failure::Failure;
use conversation::Conversation;
use editor::Lines;

/// Name of the history file in the state directory.
const HISTORY_FILE: &str = "commander_history";

#[derive(Debug, Args)]
#[command(after_help = "\
@node text, #graph text and %workflow text call by name, ::0 and ::last are earlier results, /help teaches the rest.\n\
If input or output is not a terminal, lines are read from standard input and the exit code is that of the last one.")]
pub(crate) struct Commander {}

impl Commander {
    pub(crate) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let daemon = daemon_client::reconnecting_client_at(paths, "commander")?;
        let lines = if io::stdin().is_terminal() && io::stdout().is_terminal() && moves_its_cursor() {
            ensure_private(paths.state()).map_err(|error| Failure::work(error.to_string()))?;
            let lines = Lines::with_editor(paths.state().join(HISTORY_FILE));
            lines.map_err(|error| Failure::system("this terminal cannot be used for lines", &error))?
        } else {
            Lines::from_stdin()
        };
        Conversation::new(paths, daemon, lines).converse().await
    }
}

/// Returns whether the terminal can move its cursor.
fn moves_its_cursor() -> bool {
    let term = std::env::var("TERM").unwrap_or_default();
    // The line editor does not support these terminals either.
    !matches!(term.as_str(), "" | "dumb" | "cons25" | "emacs")
}
