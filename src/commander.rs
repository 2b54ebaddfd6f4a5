//! `steplatch commander`: a conversation with the daemon, line by line, for people.
//!
//! What a line means (`line.rs`, `reference.rs`, `catalog.rs`, `order.rs`) and what was done and is
//! asked (`session.rs`) are values that know neither the terminal nor the daemon, so that
//! another view can draw them. `conversation.rs` brings them together with the terminal
//! (`editor.rs`, `screen.rs`) and with the daemon (`work.rs`): it reads lines, `carry_out.rs` does what
//! commands ask for, `answering.rs` puts questions, and `hearing.rs` tells what happens.

mod answering;
mod carry_out;
mod catalog;
mod completion;
mod conversation;
mod editor;
mod hearing;
mod help;
mod line;
mod order;
mod reference;
mod screen;
mod session;
mod told;
mod work;

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;

use clap::Args;
use steplatch_protocol::{Place, ensure_private};

use crate::failure::Failure;
use crate::front;
use conversation::Conversation;
use editor::Lines;

/// Where lines are remembered, in the state folder.
const HISTORY: &str = "commander_history";

#[derive(Debug, Args)]
#[command(after_help = "\
@node text, #graph text and %workflow text call by name, ::0 and ::last are earlier results, /help teaches the rest.\n\
Where input or output is no terminal, lines are read from standard input and the exit code is that of the last one.")]
pub(crate) struct Commander {}

impl Commander {
    pub(crate) async fn run(self, place: &Place) -> Result<ExitCode, Failure> {
        let daemon = front::steady_at(place, "commander")?;
        let lines = if io::stdin().is_terminal() && io::stdout().is_terminal() && moves_its_cursor() {
            ensure_private(place.state()).map_err(|error| Failure::work(error.to_string()))?;
            let edited = Lines::edited(place.state().join(HISTORY));
            edited.map_err(|error| Failure::system("this terminal can not be used for lines", &error))?
        } else {
            Lines::plain()
        };
        Conversation::new(place, daemon, lines).goes_on().await
    }
}

/// Whether the terminal says that it can do more than print one line below the other.
fn moves_its_cursor() -> bool {
    let term = std::env::var("TERM").unwrap_or_default();
    // Those are not edited on by the editor either.
    !matches!(term.as_str(), "" | "dumb" | "cons25" | "emacs")
}
