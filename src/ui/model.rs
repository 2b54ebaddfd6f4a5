//! State of the full screen, as values: lists, the selection, opened views, and questions.
//!
//! Pure. `update.rs` changes the state, and `view.rs` draws it.

use std::cmp::Reverse;
use std::time::Duration;

use steplatch_protocol::{AgentActivity, GateInfo, RunRecord, SessionInfo};

use super::event::{Effect, FeedSelection};
use super::gate_view::GateView;
use super::key::Key;
use super::layout::ListLayout;
use super::line_input::LineInput;
use super::picture::Picture;
use super::steps::Steps;
use crate::commands::{gates, runs, terminal};
use crate::print;

/// Maximum number of listed runs, in addition to the runs in progress.
const MAX_RUNS: usize = 300;

/// The sections of the list, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Section {
    Gates,
    Terminals,
    Runs,
}

impl Section {
    pub(crate) const ALL: [Self; 3] = [Self::Gates, Self::Terminals, Self::Runs];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Gates => "Waits for you",
            Self::Terminals => "Terminals",
            Self::Runs => "Runs",
        }
    }
}

/// Identity of a row of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowId {
    pub(crate) section: Section,
    pub(crate) id: String,
}

impl RowId {
    fn gate(id: &str) -> Self {
        Self { section: Section::Gates, id: id.to_owned() }
    }
}

/// A row of the list, in columns.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) id: RowId,
    /// Symbol of one character.
    pub(crate) mark: &'static str,
    /// Name of the item.
    pub(crate) name: String,
    /// State of the item, in words.
    pub(crate) state: String,
    pub(crate) detail: String,
    /// Meaning of the row. It determines the colour.
    pub(crate) tone: Tone,
}

/// The meaning of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    /// The row waits for a person.
    Waiting,
    Good,
    Bad,
    Quiet,
}

/// Availability of the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DaemonState {
    /// The first attempt to reach the daemon is in progress.
    Connecting,
    Connected,
    Away,
}

/// A view that fills the screen instead of the list.
#[derive(Debug, Clone)]
pub(crate) enum Opened {
    Gate(Box<GateView>),
    Run(RunView),
}

/// An opened run.
#[derive(Debug, Clone)]
pub(crate) struct RunView {
    pub(crate) run_id: String,
    /// Number of this opening. Each opening receives the events of the run from the first one.
    pub(crate) opening: u64,
    pub(crate) steps: Steps,
    /// The selected step. `None` follows the most informative step.
    pub(crate) step: Option<usize>,
    /// Number of lines of input and output above the visible ones.
    pub(crate) scroll: usize,
}

/// A line that the person types outside a question.
#[derive(Debug, Clone)]
pub(crate) enum Typing {
    Filter,
    /// A name, or the beginning of an id, to go to.
    GoTo(LineInput),
    /// A password for the program of a terminal.
    Secret {
        terminal: String,
        /// Program that the person was shown.
        program: String,
        line: LineInput,
    },
}

/// Maximum time between the keys of a typed text.
const TYPING_TIMEOUT: Duration = Duration::from_millis(400);

/// Maximum time between the focus of the window and the click that gave it.
const FOCUS_CLICK_TIMEOUT: Duration = Duration::from_millis(300);

/// Letters that move the selection.
const MOVING_LETTERS: [char; 3] = ['j', 'k', 'G'];

/// An action that further keys confirm. A letter alone has no effect, because it may begin a line for a program.
#[derive(Debug, Clone)]
pub(crate) struct Confirmation {
    pub(crate) question: String,
    /// Keys that are still missing.
    pub(crate) keys: &'static [Key],
    pub(crate) effect: Effect,
}

/// A remark at the bottom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) text: String,
    pub(crate) is_error: bool,
}

/// The state of the full screen.
#[derive(Debug, Clone)]
pub(crate) struct Model {
    pub(crate) cols: u16,
    pub(crate) rows: u16,
    /// Time since the start of the full screen.
    pub(crate) elapsed: Duration,
    /// Time of day (ISO 8601, UTC).
    pub(crate) now: String,
    pub(crate) daemon: DaemonState,
    pub(crate) terminals: Vec<SessionInfo>,
    /// Runs, the newest first.
    pub(crate) runs: Vec<RunRecord>,
    /// True if answers of people need the approver's passphrase.
    pub(crate) needs_passphrase: bool,
    pub(crate) selected: Option<RowId>,
    /// Index of the first visible line of the list.
    pub(crate) top: usize,
    pub(crate) filter: LineInput,
    pub(crate) typing: Option<Typing>,
    /// Opened views. Only the last one is visible.
    pub(crate) opened: Vec<Opened>,
    /// Number of runs opened since the start.
    pub(crate) openings: u64,
    pub(crate) confirmation: Option<Confirmation>,
    /// Last letter pressed as a command, with the time since the start.
    pub(crate) last_letter: Option<(Duration, char)>,
    pub(crate) shows_help: bool,
    /// Time of the window's last focus, since the start.
    pub(crate) focused_at: Option<Duration>,
    pub(crate) notice: Option<Notice>,
    /// Earliest time of effective keys, since the start. Earlier keys may belong to a line for a closed question.
    pub(crate) quiet_until: Duration,
    pub(crate) picture: Option<Picture>,
    /// Item to open once the lists arrive: a name, or the beginning of an id.
    pub(crate) requested_item: Option<String>,
}

impl Model {
    /// Creates the state at the start.
    pub(crate) fn new(cols: u16, rows: u16, now: String, requested_item: Option<String>) -> Self {
        Self {
            cols,
            rows,
            elapsed: Duration::ZERO,
            now,
            daemon: DaemonState::Connecting,
            terminals: Vec::new(),
            runs: Vec::new(),
            needs_passphrase: false,
            selected: None,
            top: 0,
            filter: LineInput::default(),
            typing: None,
            opened: Vec::new(),
            openings: 0,
            confirmation: None,
            last_letter: None,
            shows_help: false,
            focused_at: None,
            notice: None,
            quiet_until: Duration::ZERO,
            picture: None,
            requested_item,
        }
    }

    /// Returns the open gates with their workflows, the oldest first.
    pub(crate) fn gates(&self) -> Vec<(&RunRecord, &GateInfo)> {
        gates::open_gates(&self.runs)
    }

    pub(crate) fn run(&self, id: &str) -> Option<&RunRecord> {
        self.runs.iter().find(|run| run.run_id == id)
    }

    pub(crate) fn terminal(&self, id: &str) -> Option<&SessionInfo> {
        self.terminals.iter().find(|terminal| terminal.session_id == id)
    }

    pub(crate) fn gate(&self, id: &str) -> Option<(&RunRecord, &GateInfo)> {
        self.gates().into_iter().find(|(_, gate)| gate.gate_id == id)
    }

    /// Adds a run, or replaces its record.
    pub(crate) fn put_run(&mut self, run: RunRecord) {
        match self.runs.iter_mut().find(|known| known.run_id == run.run_id) {
            Some(known) => *known = run,
            None => {
                self.runs.push(run);
                self.sort_runs();
            }
        }
    }

    /// Sorts the runs and drops old ones that have ended.
    pub(crate) fn sort_runs(&mut self) {
        self.runs.sort_by(|left, right| {
            (Reverse(&left.started_at), &left.run_id).cmp(&(Reverse(&right.started_at), &right.run_id))
        });
        let mut count = 0;
        self.runs.retain(|run| {
            count += 1;
            count <= MAX_RUNS || matches!(run.state.as_str(), "running" | "waiting")
        });
    }

    /// Returns the rows of the list that match the filter.
    pub(crate) fn list(&self) -> Vec<Row> {
        let query = self.filter.text().to_lowercase();
        let matches = |row: &Row| {
            let text = format!("{} {} {} {}", row.id.id, row.name, row.state, row.detail).to_lowercase();
            query.split_whitespace().all(|word| text.contains(word))
        };
        let gates = self.gates().into_iter().map(|(run, gate)| self.gate_row(run, gate));
        let locked = self.runs.iter().filter(|run| run.locked).map(|run| self.locked_row(run));
        let asking = self.terminals.iter().filter(|session| awaits_person(session));
        let asking =
            asking.map(|session| Row { id: RowId::gate(&session.session_id), ..terminal_row(session, &self.now) });
        let terminals = self.terminals.iter().map(|session| terminal_row(session, &self.now));
        let runs = self.runs.iter().map(|run| self.run_row(run));
        gates.chain(locked).chain(asking).chain(terminals).chain(runs).filter(matches).collect()
    }

    /// Returns the terminal of a row: of the terminal itself, or of its question in the first section.
    pub(crate) fn terminal_of(&self, row: &RowId) -> Option<&SessionInfo> {
        if row.section == Section::Runs { None } else { self.terminal(&row.id) }
    }

    fn gate_row(&self, run: &RunRecord, gate: &GateInfo) -> Row {
        let is_for_agents = gate.answered_by == "agent";
        Row {
            id: RowId::gate(&gate.gate_id),
            mark: "?",
            name: print::visible(&gate.prompt),
            state: print::ago_at(&gate.created_at, Some(&self.now)),
            detail: format!("{} {}", print::visible(&run.workflow_id), gate.run_id),
            tone: if is_for_agents { Tone::Quiet } else { Tone::Waiting },
        }
    }

    fn locked_row(&self, run: &RunRecord) -> Row {
        Row {
            id: RowId::gate(&run.run_id),
            mark: "?",
            name: format!("{} is locked", print::visible(&run.workflow_id)),
            state: print::ago_at(&run.started_at, Some(&self.now)),
            detail: "unlock with: steplatch approver unlock".to_owned(),
            tone: Tone::Waiting,
        }
    }

    fn run_row(&self, run: &RunRecord) -> Row {
        // Use the columns of `runs list`.
        let [_, _, state, _, _, details] = runs::format_row(run).try_into().unwrap_or_default();
        let (mark, tone) = match run.state.as_str() {
            "completed" => ("✓", Tone::Good),
            "failed" => ("✗", Tone::Bad),
            "cancelled" => ("✗", Tone::Quiet),
            "waiting" => ("?", Tone::Waiting),
            _ if run.paused.is_some() => ("‖", Tone::Waiting),
            _ => ("▸", Tone::Plain),
        };
        let end = run.completed_at.as_deref().unwrap_or(&self.now);
        let duration = print::elapsed_between(&run.started_at, Some(end)).map(print::duration).unwrap_or_default();
        let time = match run.completed_at {
            Some(_) => format!("{}, took {duration}", print::ago_at(&run.started_at, Some(&self.now))),
            None => format!("for {duration}"),
        };
        Row {
            id: RowId { section: Section::Runs, id: run.run_id.clone() },
            mark,
            name: print::visible(&run.workflow_id),
            state,
            detail: if details.is_empty() {
                format!("{time}  {}", run.run_id)
            } else {
                format!("{time}  {details}  {}", run.run_id)
            },
            tone,
        }
    }

    /// Returns the index of the selected row, or of the first row if the selected row was removed.
    pub(crate) fn selected_index(&self, list: &[Row]) -> usize {
        let selected = self.selected.as_ref();
        list.iter().position(|row| Some(&row.id) == selected).unwrap_or(0)
    }

    /// Returns the terminal and the run to follow.
    pub(crate) fn feed_selection(&self) -> FeedSelection {
        if self.daemon != DaemonState::Connected {
            return FeedSelection::default();
        }
        let run = self.opened.iter().rev().find_map(|opened| match opened {
            Opened::Run(view) => Some((view.run_id.clone(), view.opening)),
            Opened::Gate(_) => None,
        });
        match self.opened.last() {
            Some(_) => FeedSelection { run, ..FeedSelection::default() },
            None => {
                let list = self.list();
                let layout = ListLayout::for_size(self.cols, self.rows);
                let selected = list.get(self.selected_index(&list)).and_then(|row| self.terminal_of(&row.id));
                let picture = selected.filter(|_| layout.preview.is_some()).map(|session| session.session_id.clone());
                FeedSelection { picture, run: None }
            }
        }
    }

    /// Returns the time of the next change without an event, such as the earliest time of an answer.
    pub(crate) fn next_change(&self) -> Option<Duration> {
        let answerable_from = match self.opened.last() {
            Some(Opened::Gate(view)) => Some(view.answerable_from),
            _ => None,
        };
        let confirmable_from = self.confirmation.as_ref().and(self.text_ends_at());
        answerable_from
            .into_iter()
            .chain(confirmable_from)
            .chain([self.quiet_until])
            .filter(|time| *time > self.elapsed)
            .min()
    }

    /// Returns the end time of the text that began with the last letter. Later keys do not belong to that text.
    pub(crate) fn text_ends_at(&self) -> Option<Duration> {
        self.last_letter.map(|(at, _)| at + TYPING_TIMEOUT)
    }

    /// Returns whether a key continues a typed text: Enter or `q` soon after a letter. Before Enter, letters that move
    /// the selection are not treated as text.
    pub(crate) fn continues_text(&self, key: Key) -> bool {
        let is_typing = self.text_ends_at().is_some_and(|end| self.elapsed < end);
        let last_letter = self.last_letter.map(|(_, letter)| letter);
        match key {
            Key::Enter => is_typing && last_letter.is_none_or(|letter| !MOVING_LETTERS.contains(&letter)),
            Key::Char('q') => is_typing,
            _ => false,
        }
    }

    /// Returns whether a click may have given the window the focus.
    pub(crate) fn was_just_focused(&self) -> bool {
        self.focused_at.is_some_and(|at| self.elapsed < at + FOCUS_CLICK_TIMEOUT)
    }

    /// Returns whether typed input has no effect now.
    pub(crate) fn is_quiet(&self) -> bool {
        self.elapsed < self.quiet_until
    }

    /// Opens a run over the current view.
    pub(crate) fn open_run(&mut self, run_id: String) {
        self.openings += 1;
        let (steps, opening) = (Steps::default(), self.openings);
        self.opened.push(Opened::Run(RunView { run_id, opening, steps, step: None, scroll: 0 }));
    }

    /// Closes the current view and returns to the view below.
    pub(crate) fn close(&mut self) {
        if let (Some(Opened::Run(_)), Some(Opened::Run(view))) = (self.opened.pop(), self.opened.last_mut()) {
            // The feed follows only one run, so the view below has missed events: load it again.
            self.openings += 1;
            (view.steps, view.opening) = (Steps::default(), self.openings);
        }
    }

    /// Returns whether a duration on the screen changes with time.
    pub(crate) fn is_moving(&self) -> bool {
        self.runs.iter().any(|run| matches!(run.state.as_str(), "running" | "waiting"))
    }
}

/// A drawn line of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListLine {
    /// The title of a section, and its number of rows.
    Heading(Section, usize),
    /// A row, with its index.
    Row(usize),
}

/// Returns the lines of a list: for each section, the heading and the rows.
pub(crate) fn lines(list: &[Row]) -> Vec<ListLine> {
    let section = |section: Section| {
        let rows: Vec<usize> = (0..list.len()).filter(|index| list[*index].id.section == section).collect();
        std::iter::once(ListLine::Heading(section, rows.len())).chain(rows.into_iter().map(ListLine::Row))
    };
    Section::ALL.into_iter().flat_map(section).collect()
}

/// Returns whether a program in a terminal waits for a person: it asks for a password, or an AI agent asks for a
/// decision.
fn awaits_person(session: &SessionInfo) -> bool {
    asks_for_secret(session) || (session.state != "exited" && session.agent_activity == Some(AgentActivity::Asks))
}

/// Returns whether a program asks for a password, or an agent requests one of a person.
pub(crate) fn asks_for_secret(session: &SessionInfo) -> bool {
    session.state != "exited" && (session.password || session.secret_request.is_some())
}

fn terminal_row(session: &SessionInfo, now: &str) -> Row {
    let state = print::visible(&terminal::state_at(session, Some(now)));
    let (mark, tone) = match state.split(' ').next() {
        Some("exited") if state == "exited 0" => ("✓", Tone::Quiet),
        Some("exited") => ("✗", Tone::Bad),
        Some("host") => ("!", Tone::Bad),
        Some("held") => ("●", Tone::Waiting),
        Some("asks" | "waits") => ("?", Tone::Waiting),
        Some("busy" | "working") => ("▸", Tone::Plain),
        _ => ("›", Tone::Plain),
    };
    let name = session.name.as_deref().map_or_else(|| session.session_id.clone(), print::visible);
    let opener =
        session.opened_by.as_deref().map(|opener| format!(" by {}", print::visible(opener))).unwrap_or_default();
    let directory =
        terminal::directory(session).map(|directory| format!(" in {}", print::visible(&directory))).unwrap_or_default();
    Row {
        id: RowId { section: Section::Terminals, id: session.session_id.clone() },
        mark,
        name,
        state,
        detail: format!("{}{directory}, opened{opener}", print::visible(&session.command))
            .replace(", opened by", ", by")
            .trim_end_matches(", opened")
            .to_owned(),
        tone,
    }
}
