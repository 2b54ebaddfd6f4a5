//! State of a terminal's program, read on request.

use std::time::Duration;

use tokio::time::Instant;
use unicode_width::UnicodeWidthChar as _;

use super::Task;
use crate::agent_program::{AgentActivity, AgentProgram, AgentStatus};
use crate::command;
use crate::process::{
    Discipline, InputState, executable_name, group_arguments, group_name, group_owners, group_reader, input_state,
    is_multiplexer, is_relay, working_directory,
};
use crate::question::{looks_like_question, requests_password};
use crate::terminal::input_watch::{InputCheck, ScreenState};

/// Maximum time for the kernel to deliver input to the program on a machine without overload.
const DELIVERY_TIME: Duration = Duration::from_millis(10);

/// Time after which the screen of an agent shows the effect of an input, and an idle agent stays idle.
const AGENT_SETTLE_TIME: Duration = Duration::from_millis(500);

/// The state of a terminal at one moment, derived from marks, the kernel's terminal and its processes.
#[derive(Debug, Default)]
pub(super) struct States {
    pub(super) cwd: Option<String>,
    pub(super) awaiting_input: Option<bool>,
    pub(super) password: bool,
    pub(super) agent: Option<AgentStatus>,
}

impl Task {
    /// Reads the state of the terminal. Requires a few reads of `/proc`, of tens of microseconds in total.
    pub(super) fn states(&self) -> States {
        if self.is_over() {
            return States { awaiting_input: Some(false), ..States::default() };
        }
        let idle = self.shell.is_idle();
        let discipline = self.pty.line_discipline();
        let password = !idle && discipline.is_some_and(Discipline::hides_input);
        let agent = if idle || password { None } else { self.agent_status() };
        let awaiting_input = match agent.as_ref().and_then(|agent| self.agent_input_state(agent)) {
            Some(state) => state.awaits(),
            None if password => Some(true),
            None => self.input_state().awaits(),
        };
        States { cwd: self.directory(), awaiting_input, password, agent }
    }

    /// Returns the agent in the foreground, if there is a known one, with its activity.
    fn agent_status(&self) -> Option<AgentStatus> {
        // All known programs read single keys.
        if self.pty.line_discipline().is_none_or(|discipline| discipline.whole_lines) {
            return None;
        }
        let (session, group) = (self.child.pid().as_raw_nonzero().get(), self.pty.foreground()?.as_raw_nonzero().get());
        // A program that an agent starts, such as an editor, reads the terminal in its place.
        let device = self.pty.device();
        let reader = device.and_then(|device| group_reader(session, group, &device, true)).map(|(pid, _)| pid);
        let arguments = group_arguments(session, group, reader);
        let program = arguments.iter().find_map(|arguments| AgentProgram::find(arguments))?;
        let screen = &self.intake.screen;
        let rows: Vec<String> = (0..screen.size().rows).map(|row| screen.row(row)).collect();
        let activity = program.activity(&screen.title(), &rows);
        Some(AgentStatus { program: program.name.to_owned(), activity })
    }

    /// Returns the directory of the shell, or of the program. `None` for an inner shell that does not report it.
    pub(super) fn directory(&self) -> Option<String> {
        match &self.shell.directory {
            // At the prompt, use the directory of the shell's process. An inner shell may be on a remote host.
            Some(directory) if !self.shell.is_idle() || self.shell.is_inner => Some(directory.clone()),
            None if self.shell.is_inner => None,
            _ => working_directory(self.child.pid().as_raw_nonzero().get()),
        }
    }

    /// Returns the state of the foreground program with regard to typed input.
    ///
    /// A program writes before it waits, so with unread output the screen may lack the end of its prompt: such a
    /// program is considered busy. The output is checked last, because the program may write and wait during the check.
    pub(super) fn input_state(&self) -> InputState {
        match self.reader_state() {
            InputState::Awaits if !self.shell.is_idle() && self.pty.has_unread() => InputState::Works,
            state => state,
        }
    }

    /// Returns the state of the foreground program with regard to typed input, even if its output is unread.
    pub(super) fn reader_state(&self) -> InputState {
        if self.shell.is_idle() {
            return InputState::Awaits;
        }
        // A program with unread input is about to read it.
        if self.is_input_pending() || self.pty.has_unread_input() {
            return InputState::Works;
        }
        self.program_state()
    }

    /// Returns the state of the foreground program, derived from its system calls and, for a relay, from the row of the
    /// cursor.
    pub(super) fn program_state(&self) -> InputState {
        match self.foreground_state() {
            InputState::Relays if self.has_output_since_input() && looks_like_question(&self.row_before_cursor()) => {
                InputState::Awaits
            }
            state => state,
        }
    }

    /// Returns the state of the processes in the foreground, derived from their system calls.
    fn foreground_state(&self) -> InputState {
        let (Some(group), Some(device), Some(discipline)) =
            (self.pty.foreground(), self.pty.device(), self.pty.line_discipline())
        else {
            return InputState::Unknown;
        };
        if let Some(state) = self.agent_status().and_then(|agent| self.agent_input_state(&agent)) {
            return state;
        }
        let session = self.child.pid().as_raw_nonzero().get();
        let group = group.as_raw_nonzero().get();
        input_state(session, group, &device, !discipline.whole_lines, !discipline.hides_input())
    }

    /// Returns the state of an agent with regard to typed input. It polls for keys at any time, so the kernel cannot tell.
    /// `None` if its screen does not tell either.
    fn agent_input_state(&self, agent: &AgentStatus) -> Option<InputState> {
        match agent.activity {
            Some(AgentActivity::Working) => Some(InputState::Works),
            // The program may not have drawn the effect of the last input.
            Some(_) if self.last_input.elapsed() < AGENT_SETTLE_TIME => Some(InputState::Works),
            Some(AgentActivity::Asks) => Some(InputState::Awaits),
            // Between two steps, the screen may look idle.
            Some(AgentActivity::Idle) if self.last_output.elapsed() < AGENT_SETTLE_TIME => Some(InputState::Works),
            Some(AgentActivity::Idle) => Some(InputState::Awaits),
            // It has not drawn its first screen.
            None if self.intake.screen.text().trim().is_empty() => Some(InputState::Works),
            None => None,
        }
    }

    /// Returns whether the row of the cursor can be a question: one from before the last input is answered.
    fn has_output_since_input(&self) -> bool {
        self.intake.transcript.history().end() > self.input_offset
    }

    /// Returns whether the last input may not have reached the program: it may be in transit, or the line editor of the
    /// shell has not echoed it.
    fn is_input_pending(&self) -> bool {
        let is_echoed = self.intake.transcript.history().end() > self.input_offset;
        let awaits_echo = self.shell.is_reporting() && self.shell.sent && !self.shell.running;
        self.is_input_in_transit() || (awaits_echo && !is_echoed)
    }

    /// Returns whether the kernel may not have delivered the last input. It delivers input in a separate task.
    pub(super) fn is_input_in_transit(&self) -> bool {
        Instant::now() < self.last_input + DELIVERY_TIME
    }

    /// Reads the state of the foreground program and the screen, for a wait that ends when the program waits for input.
    pub(super) fn check_for_input(&self) -> InputCheck {
        let takes_keys = || self.pty.line_discipline().is_some_and(|discipline| !discipline.whole_lines);
        let screen = if self.intake.screen.modes().alternate_screen && !self.shows_lines_of_other_terminal() {
            ScreenState::Full
        } else if !self.shell.is_idle() && takes_keys() && self.row_before_cursor().trim().is_empty() {
            ScreenState::EditorAtEmptyRow
        } else {
            ScreenState::Lines
        };
        InputCheck { state: self.input_state(), screen }
    }

    /// Returns whether the screen belongs to another terminal, such as `tmux` here or over `ssh`, and ends with the row
    /// of the cursor, like the output of a shell. A silent command there looks like a command that waits for input.
    ///
    /// Ignores the last row of the screen, because it may be a status line. With text before the cursor, only a local
    /// multiplexer counts, because over `ssh`, any program may have drawn the screen.
    fn shows_lines_of_other_terminal(&self) -> bool {
        let Some(name) = self.foreground_name().filter(|name| is_relay(name)) else { return false };
        let screen = &self.intake.screen;
        let (before, after) = self.row_of_cursor();
        let mut rows_below = screen.cursor().row + 1..screen.size().rows.saturating_sub(1);
        (is_multiplexer(&name) || before.trim().is_empty())
            && after.trim().is_empty()
            && rows_below.all(|row| screen.row(row).trim().is_empty())
    }

    /// Returns the row of the cursor up to the cursor.
    pub(super) fn row_before_cursor(&self) -> String {
        self.row_of_cursor().0
    }

    /// Returns the row of the cursor, starting at the cursor.
    pub(super) fn row_after_cursor(&self) -> String {
        self.row_of_cursor().1
    }

    /// Returns the row of the cursor, up to the cursor and after it.
    fn row_of_cursor(&self) -> (String, String) {
        let cursor = self.intake.screen.cursor();
        let row = self.intake.screen.row(cursor.row);
        let mut columns_left = usize::from(cursor.col);
        let mut characters = row.chars();
        let mut before = String::new();
        while columns_left > 0
            && let Some(character) = characters.next()
        {
            columns_left = columns_left.saturating_sub(character.width().unwrap_or(0));
            before.push(character);
        }
        // Restore the trailing spaces that rows omit.
        before.extend(std::iter::repeat_n(' ', columns_left));
        (before, characters.collect())
    }

    /// Returns the process of the innermost integrated shell.
    pub(super) fn shell_process(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_raw(self.shell.pid).unwrap_or(self.child.pid())
    }

    /// Returns the name of the foreground program.
    pub(super) fn foreground_name(&self) -> Option<String> {
        let group = self.pty.foreground()?.as_raw_nonzero().get();
        group_name(self.child.pid().as_raw_nonzero().get(), group)
    }

    /// Returns the name of the foreground program. For a shell of busybox, returns the name of the executable instead
    /// of a name such as `sh`, because the executable determines the line editor.
    pub(super) fn shell_name(&self) -> Option<String> {
        let name = self.foreground_name()?;
        let program = || self.pty.foreground().and_then(|group| executable_name(group.as_raw_nonzero().get()));
        Some(program().filter(|program| command::is_shell_name(&name) && command::is_busybox(program)).unwrap_or(name))
    }

    /// Returns the name of the foreground program that reads the terminal, such as an editor started by another
    /// program. Without such a program, returns the name of the foreground program.
    pub(super) fn reader_name(&self) -> Option<String> {
        let (session, group) = (self.child.pid().as_raw_nonzero().get(), self.pty.foreground()?.as_raw_nonzero().get());
        let takes_keys = self.pty.line_discipline().is_some_and(|discipline| !discipline.whole_lines);
        let reader = self.pty.device().and_then(|device| group_reader(session, group, &device, takes_keys));
        reader.map(|(_, name)| name).or_else(|| group_name(session, group))
    }

    /// Returns the name of the program that reads a line without echo, or of the relay behind which one asks for a
    /// password.
    ///
    /// The user follows in parentheses if all programs of the foreground run as one other user. Any program can take the
    /// name of another, and a reader can share its group with a program of another user.
    pub(super) fn hidden_reader(&self, password: bool) -> Option<String> {
        if !password && !self.asks_remote_password() {
            return None;
        }
        let (session, group) = (self.child.pid().as_raw_nonzero().get(), self.pty.foreground()?.as_raw_nonzero().get());
        let name = self.reader_name()?.replace(['(', ')'], "");
        let own = rustix::process::getuid().as_raw();
        Some(match group_owners(session, group).as_slice() {
            [owner] if *owner == own => name,
            [0] => format!("{name} (root)"),
            [other] => format!("{name} (user {other})"),
            _ => format!("{name} (among programs of several users)"),
        })
    }

    /// Returns whether a program on another computer asks for a password, as far as the row of the cursor tells.
    fn asks_remote_password(&self) -> bool {
        !self.shell.is_idle()
            && self.has_output_since_input()
            && requests_password(&self.row_before_cursor())
            && matches!(self.foreground_state(), InputState::Relays)
    }

    /// Returns the process group and the name of the foreground program, if it waits for input.
    pub(super) fn waiting_program(&self) -> Option<(i32, Option<String>)> {
        if self.is_over() || self.states().awaiting_input != Some(true) {
            return None;
        }
        let group = self.pty.foreground()?.as_raw_nonzero().get();
        Some((group, self.foreground_name()))
    }

    /// Returns whether its program has ended or closed the terminal.
    pub(super) fn is_over(&self) -> bool {
        self.ended.is_some() || self.ending.is_some() || self.closed
    }
}
