//! Events of the full screen, and the effects that it requests.

use steplatch_protocol::{
    AnswerGate, AnswerGateReply, EnterSecret, GateInfo, RerunRequest, RunEvent, RunRecord, RunReply, ScreenChange,
    SessionInfo,
};

use super::key::TerminalInput;

/// Event: input of the person, or news from the daemon.
#[derive(Debug, Clone)]
pub(crate) enum UiEvent {
    Input(TerminalInput),
    Resized {
        cols: u16,
        rows: u16,
    },
    /// Time has passed.
    Tick,
    /// The daemon is not reachable.
    DaemonAway,
    /// All lists of the daemon, after a new connection.
    Lists {
        terminals: Vec<SessionInfo>,
        runs: Vec<RunRecord>,
        needs_passphrase: bool,
    },
    Terminals(Vec<SessionInfo>),
    Run(Box<RunRecord>),
    /// A finished run was removed.
    RunRemoved(String),
    Screen {
        terminal: String,
        change: Box<ScreenChange>,
    },
    ScreenClosed(String),
    /// An event of the followed run. `opening` identifies the view.
    RunEvent {
        opening: u64,
        event: Box<RunEvent>,
    },
    /// The complete question of a gate, or the error of the request.
    Gate {
        gate_id: String,
        gate: Result<Box<GateInfo>, String>,
    },
    /// The reply to an answer.
    Answered {
        answer: Box<AnswerGate>,
        reply: Result<Box<AnswerGateReply>, String>,
    },
    /// Number of seconds until the daemon checks an answer, after wrong passphrases.
    AnswerDelayed(u64),
    /// The reply to a request to run an ended run again.
    RanAgain {
        request: Box<RerunRequest>,
        reply: Result<Box<RunReply>, String>,
    },
    /// A remark about the success or failure of an effect.
    Done(Result<String, String>),
    /// The person has detached from a terminal, or the program in it has ended.
    Detached(Result<String, String>),
}

/// Effect to perform.
#[derive(Debug, Clone)]
pub(crate) enum Effect {
    /// Attach the person's terminal to a terminal of the daemon until the person detaches.
    Attach {
        terminal: String,
        hold: bool,
    },
    /// Request the complete question.
    ShowGate {
        run_id: String,
        gate_id: String,
    },
    Answer(Box<AnswerGate>),
    /// Type a password into a terminal, or refuse the request for it.
    EnterSecret(Box<EnterSecret>),
    Cancel(String),
    Pause(String),
    Resume(String),
    RunAgain(Box<RerunRequest>),
    StartDaemon,
    /// Suspend the process, like Ctrl-Z in a shell.
    Suspend,
    /// Draw everything again.
    Redraw,
    /// Copy text into the clipboard of the person's terminal.
    Copy(String),
    Leave,
}

/// The terminal and the run that the feeds follow, in addition to the lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FeedSelection {
    /// Terminal whose screen is shown.
    pub(crate) picture: Option<String>,
    /// The shown run and the number of its opening. Each opening receives all events of the run, beginning with the
    /// first.
    pub(crate) run: Option<(String, u64)>,
}

/// Returns the error text of a refusal.
pub(crate) fn refusal_text(error: Option<String>) -> String {
    error.unwrap_or_else(|| "the daemon refused it without a reason".to_owned())
}
