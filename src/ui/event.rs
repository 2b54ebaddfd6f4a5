//! Events of the full screen, and the effects that it requests.

use steplatch_protocol::{
    AnswerGate, AnswerGateReply, GateInfo, RerunRequest, RunEvent, RunRecord, RunReply, ScreenChange, SessionInfo,
};

use super::key::TerminalInput;

/// Event: input of the person, or a report of the daemon.
#[derive(Debug, Clone)]
pub(crate) enum UiEvent {
    Input(TerminalInput),
    Resized {
        cols: u16,
        rows: u16,
    },
    /// Time has passed.
    Tick,
    /// The daemon does not answer.
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
    RunGone(String),
    Screen {
        terminal: String,
        change: Box<ScreenChange>,
    },
    ScreenGone(String),
    /// An event of the followed run, with the opening of its view.
    RunEvent {
        opening: u64,
        event: Box<RunEvent>,
    },
    /// The whole question of a gate, or the error of its request.
    Gate {
        gate_id: String,
        gate: Result<Box<GateInfo>, String>,
    },
    /// The reply to an answer.
    Answered {
        answer: Box<AnswerGate>,
        reply: Result<Box<AnswerGateReply>, String>,
    },
    /// Seconds until the check of an answer, after wrong passphrases.
    AnswerWaits(u64),
    /// The reply to a request to run an ended run again.
    RanAgain {
        request: Box<RerunRequest>,
        reply: Result<Box<RunReply>, String>,
    },
    /// A remark about a success or a failure.
    Done(Result<String, String>),
    /// The person has left a terminal that they had attached to.
    CameBack(Result<String, String>),
}

/// Effect to perform.
#[derive(Debug, Clone)]
pub(crate) enum Effect {
    /// Hand the person's terminal over to a terminal of the daemon, until the person leaves that.
    Attach {
        terminal: String,
        hold: bool,
    },
    /// Fetch the whole question.
    ShowGate {
        run_id: String,
        gate_id: String,
    },
    Answer(Box<AnswerGate>),
    Cancel(String),
    Pause(String),
    Resume(String),
    RunAgain(Box<RerunRequest>),
    StartDaemon,
    /// Suspend the process, as Ctrl-Z does.
    Suspend,
    /// Draw everything again.
    Redraw,
    Leave,
}

/// The terminal and the run that the feeds follow, besides the lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FeedSelection {
    /// The terminal on the screen.
    pub(crate) picture: Option<String>,
    /// The run on the screen, with the number of its opening: its events come from the first one for each opening.
    pub(crate) run: Option<(String, u64)>,
}

/// Returns the error of a reply that reports a refusal.
pub(crate) fn refusal_text(error: Option<String>) -> String {
    error.unwrap_or_else(|| "the daemon refused it without a reason".to_owned())
}
