//! Programs: start on a pseudo-terminal or on pipes, wait for the exit, and termination of the remaining processes.

mod child;
mod inspect;
mod orphans;
mod piped;
mod pty;
mod spawn;
mod system;
mod tree;

pub use child::Exit;
pub(crate) use child::{Child, signal_group};
pub(crate) use inspect::{
    InputState, ProcessImage, executable_name, group_arguments, group_name, group_owners, group_reader,
    has_signal_handler, input_state, is_multiplexer, is_relay, process_name, reads_prompt_entries, working_directory,
};
pub(crate) use orphans::Orphans;
pub use piped::{Piped, PipedSpec, ProcessEnd, Programs, Stdin};
pub(crate) use pty::{Discipline, Pty, Read, Reading};
pub use spawn::SpawnError;
pub(crate) use spawn::{Program, Streams};
pub(crate) use system::return_free_memory;
pub use tree::Survivor;
pub(crate) use tree::{SessionLeader, end_all};

/// The variable that identifies the terminal of a process, even if the process left its session.
pub const TERMINAL_VARIABLE: &str = "STEPLATCH_TERMINAL";
