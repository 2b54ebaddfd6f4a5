//! Programs: starting one on a pseudo-terminal or on pipes, waiting for its end, and ending what it
//! leaves running.

mod child;
mod look;
mod orphans;
mod piped;
mod pty;
mod spawn;
mod system;
mod tree;

pub use child::Exit;
pub(crate) use child::{Child, signal_group};
pub(crate) use look::{
    InputState, ProcessImage, catches, folder_of, input_state, is_multiplexer, is_relay, name_of, name_of_group,
    program_of, reader_of_group, takes_entries,
};
pub(crate) use orphans::Orphans;
pub use piped::{Piped, PipedSpec, ProcessEnd, Programs, Stdin};
pub(crate) use pty::{Discipline, Pty, Read, Reading};
pub use spawn::SpawnError;
pub(crate) use spawn::{Program, Streams};
pub(crate) use system::give_memory_back;
pub use tree::Survivor;
pub(crate) use tree::{SessionLeader, end_all};

/// The variable by which a process that left its family is still known as this terminal's.
pub const TERMINAL_VARIABLE: &str = "STEPLATCH_TERMINAL";
