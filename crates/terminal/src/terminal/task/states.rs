//! State in which a terminal's program waits, looked up on request.

use std::time::Duration;

use tokio::time::Instant;
use unicode_width::UnicodeWidthChar as _;

use super::Task;
use crate::command;
use crate::process::{
    Discipline, InputState, folder_of, input_state, is_multiplexer, is_relay, name_of_group, program_of,
    reader_of_group,
};
use crate::question::looks_like_question;
use crate::terminal::input_watch::{Look, ScreenState};

/// Maximum time of the kernel, on a machine without overload, to pass input on to the program.
const DELIVERED: Duration = Duration::from_millis(10);

/// The state of a terminal at one moment, according to the marks, the kernel's terminal and its processes.
#[derive(Debug, Default)]
pub(super) struct States {
    pub(super) cwd: Option<String>,
    pub(super) awaiting_input: Option<bool>,
    pub(super) password: bool,
}

impl Task {
    /// Looks the states up: a few reads of `/proc`, some tens of microseconds.
    pub(super) fn states(&self) -> States {
        if self.is_over() {
            return States { cwd: None, awaiting_input: Some(false), password: false };
        }
        let idle = self.shell.is_idle();
        let discipline = self.pty.line_discipline();
        let password = !idle && discipline.is_some_and(Discipline::is_unseen);
        let awaiting_input = if password { Some(true) } else { self.input_state().awaits() };
        States { cwd: self.directory(), awaiting_input, password }
    }

    /// Returns the directory of the shell, or of the program. The one of an inner shell that does not report it is unknown.
    pub(super) fn directory(&self) -> Option<String> {
        match &self.shell.folder {
            // At its prompt the shell's own directory counts. An inner shell may be on another machine.
            Some(folder) if !self.shell.is_idle() || self.shell.is_inner => Some(folder.clone()),
            None if self.shell.is_inner => None,
            _ => folder_of(self.child.pid().as_raw_nonzero().get()),
        }
    }

    /// Returns the behaviour of the foreground program towards typed input.
    pub(super) fn input_state(&self) -> InputState {
        if self.shell.is_idle() {
            return InputState::Awaits;
        }
        // A program with unread input is about to read it.
        if self.is_input_on_its_way() || self.pty.has_unread_input() {
            return InputState::Works;
        }
        self.program_state()
    }

    /// Returns the state of the processes in the foreground, by what they sleep in.
    pub(super) fn program_state(&self) -> InputState {
        let (Some(group), Some(device), Some(discipline)) =
            (self.pty.foreground(), self.pty.device(), self.pty.line_discipline())
        else {
            return InputState::Unknown;
        };
        let session = self.child.pid().as_raw_nonzero().get();
        let group = group.as_raw_nonzero().get();
        match input_state(session, group, &device, !discipline.whole_lines, !discipline.is_unseen()) {
            // A question from before the last input has its answer.
            InputState::Relays
                if self.intake.transcript.history().end() > self.input_offset
                    && looks_like_question(&self.row_before_cursor()) =>
            {
                InputState::Awaits
            }
            state => state,
        }
    }

    /// Returns whether the last input may not have reached the program: the kernel passes it on in a separate task. A
    /// line editor of a shell echoes what it has read.
    fn is_input_on_its_way(&self) -> bool {
        let is_echoed = self.intake.transcript.history().end() > self.input_offset;
        let awaits_echo = self.shell.is_reporting() && self.shell.sent && !self.shell.running;
        self.is_input_in_transit() || (awaits_echo && !is_echoed)
    }

    /// Returns whether the kernel may not have passed on the last input.
    pub(super) fn is_input_in_transit(&self) -> bool {
        Instant::now() < self.last_input + DELIVERED
    }

    /// Looks whether the foreground program waits for input, for a wait that ends there.
    pub(super) fn look_for_input(&self) -> Look {
        let takes_keys = || self.pty.line_discipline().is_some_and(|discipline| !discipline.whole_lines);
        let screen = if self.intake.screen.modes().alternate_screen && !self.shows_lines_of_other_terminal() {
            ScreenState::Full
        } else if !self.shell.is_idle() && takes_keys() && self.row_before_cursor().trim().is_empty() {
            ScreenState::EditorAtEmptyRow
        } else {
            ScreenState::Lines
        };
        Look { state: self.input_state(), screen }
    }

    /// Returns whether the screen belongs to another terminal, such as that of `tmux`, here or over `ssh`, and ends with
    /// the row of the cursor, like the output of a shell. A silent command there looks like a command that waits. The
    /// last row of the screen is ignored, because it may be a status line. With text before the cursor, only the screen
    /// of a local multiplexer counts: over `ssh`, any program may have drawn it.
    fn shows_lines_of_other_terminal(&self) -> bool {
        let Some(name) = self.foreground_name().filter(|name| is_relay(name)) else { return false };
        let screen = &self.intake.screen;
        let (before, behind) = self.row_of_cursor();
        let mut rows_below = screen.cursor().row + 1..screen.size().rows.saturating_sub(1);
        (is_multiplexer(&name) || before.trim().is_empty())
            && behind.trim().is_empty()
            && rows_below.all(|row| screen.row(row).trim().is_empty())
    }

    /// Returns the row of the cursor up to the cursor.
    pub(super) fn row_before_cursor(&self) -> String {
        self.row_of_cursor().0
    }

    /// Returns the row of the cursor, starting at the cursor.
    pub(super) fn row_behind_cursor(&self) -> String {
        self.row_of_cursor().1
    }

    /// Returns the row of the cursor, up to the cursor and after it.
    fn row_of_cursor(&self) -> (String, String) {
        let cursor = self.intake.screen.cursor();
        let row = self.intake.screen.row(cursor.row);
        let mut left = usize::from(cursor.col);
        let mut characters = row.chars();
        let mut before = String::new();
        while left > 0
            && let Some(character) = characters.next()
        {
            left = left.saturating_sub(character.width().unwrap_or(0));
            before.push(character);
        }
        // Rows have no blanks at their end.
        before.extend(std::iter::repeat_n(' ', left));
        (before, characters.collect())
    }

    /// The process of the shell whose marks count now.
    pub(super) fn shell_process(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_raw(self.shell.pid).unwrap_or(self.child.pid())
    }

    /// The name of what runs in the foreground.
    pub(super) fn foreground_name(&self) -> Option<String> {
        let group = self.pty.foreground()?.as_raw_nonzero().get();
        name_of_group(self.child.pid().as_raw_nonzero().get(), group)
    }

    /// Returns the name of the program in the foreground, of a shell the one that says how it edits lines: busybox runs
    /// under names such as `sh`.
    pub(super) fn shell_name(&self) -> Option<String> {
        let name = self.foreground_name()?;
        let program = || self.pty.foreground().and_then(|group| program_of(group.as_raw_nonzero().get()));
        Some(program().filter(|program| command::is_shell_name(&name) && command::is_busybox(program)).unwrap_or(name))
    }

    /// Returns the name of the program in the foreground that reads the terminal, such as an editor that another program has
    /// started, or that of what runs there.
    pub(super) fn reader_name(&self) -> Option<String> {
        let (session, group) = (self.child.pid().as_raw_nonzero().get(), self.pty.foreground()?.as_raw_nonzero().get());
        let takes_keys = self.pty.line_discipline().is_some_and(|discipline| !discipline.whole_lines);
        let reader = self.pty.device().and_then(|device| reader_of_group(session, group, &device, takes_keys));
        reader.or_else(|| name_of_group(session, group))
    }

    /// Returns the process group and the name of the program in the foreground, if it waits for input.
    pub(super) fn waiting_program(&self) -> Option<(i32, Option<String>)> {
        if self.is_over() || self.states().awaiting_input != Some(true) {
            return None;
        }
        let group = self.pty.foreground()?.as_raw_nonzero().get();
        Some((group, self.foreground_name()))
    }

    /// Returns whether its program has ended, or is out of reach.
    pub(super) fn is_over(&self) -> bool {
        self.ended.is_some() || self.ending.is_some() || self.closed
    }
}
