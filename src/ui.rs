//! `steplatch ui`: terminals, runs and gates, full screen in a terminal.
//!
//! The shown state is a value (`model.rs`). Events change it (`update.rs`, pure), and `view.rs` (pure) draws it into
//! cells. `event_loop.rs` connects them with the keyboard, the person's terminal (`own_screen.rs`), the events of the
//! daemon (`feeds.rs`), and the effects (`effects.rs`).

mod effects;
mod event;
mod event_loop;
mod feeds;
mod gate_view;
mod key;
mod layout;
mod line_input;
mod model;
mod own_screen;
mod picture;
mod steps;
mod update;
mod view;

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;

use clap::Args;
use steplatch_protocol::DaemonPaths;

use crate::completion;
use crate::failure::Failure;

pub(crate) use event_loop::{ExitReason, show};

/// Show what waits for you, terminals and runs, full screen
#[derive(Debug, Args)]
#[command(after_help = "\
Keys are shown at the bottom, and ? shows all of them. Enter reads and answers a question, attaches to a terminal (ctrl-\\ comes \
back), or opens a run. Leaving ends nothing.")]
pub(crate) struct Ui {
    /// Run or terminal to open at once: the beginning of its id, or the name of a terminal
    #[arg(value_name = "ID", add = completion::runs_and_terminals())]
    id: Option<String>,
}

impl Ui {
    pub(crate) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        check_terminal()?;
        own_screen::restore_at_panic();
        Ok(match show(paths, self.id).await? {
            ExitReason::ByKey => ExitCode::SUCCESS,
            ExitReason::BySignal(signal) => ExitCode::from(128 + signal),
        })
    }
}

/// Checks that this terminal can show the full screen.
///
/// # Errors
/// If input or output is not a terminal, or the terminal cannot move its cursor.
pub(crate) fn check_terminal() -> Result<(), Failure> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(Failure::usage(
            "ui needs a terminal on standard input and output; for scripts there are: steplatch gates list, terminal list, runs \
             list",
        ));
    }
    if matches!(std::env::var("TERM").as_deref(), Err(_) | Ok("" | "dumb")) {
        return Err(Failure::usage(
            "this terminal (TERM) cannot move its cursor, which ui needs; use: steplatch commander",
        ));
    }
    Ok(())
}
