//! What a terminal's program waits for, looked up on request.

use super::Task;
use crate::process::{Discipline, awaits_input, folder_of, name_of_group};

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
        let awaiting_input = if idle || password {
            Some(true)
        } else {
            self.pty.foreground().zip(self.pty.device()).zip(discipline).and_then(|((group, device), discipline)| {
                let session = self.child.pid().as_raw_nonzero().get();
                awaits_input(session, group.as_raw_nonzero().get(), &device, !discipline.whole_lines)
            })
        };
        let cwd = match &self.shell.folder {
            // At its prompt the shell's own folder is the one that counts.
            Some(folder) if !idle => Some(folder.clone()),
            _ => folder_of(self.child.pid().as_raw_nonzero().get()),
        };
        States { cwd, awaiting_input, password }
    }

    /// The name of what runs in the foreground.
    pub(super) fn foreground_name(&self) -> Option<String> {
        let group = self.pty.foreground()?.as_raw_nonzero().get();
        name_of_group(self.child.pid().as_raw_nonzero().get(), group)
    }

    /// Whether its program has ended, or cannot be reached any more.
    pub(super) fn is_over(&self) -> bool {
        self.ended.is_some() || self.ending.is_some() || self.closed
    }
}
