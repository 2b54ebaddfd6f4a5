//! Terminal sessions: the terminals of the public interface.
//!
//! Connects the contract with the crates `host` and `terminal`: validates requests, explains failures and their
//! remedies in whole sentences, hides secrets, and shortens long texts.

pub mod actions;
mod answer;
mod asked_terminals;
mod attach;
mod backlog;
mod capture;
mod command_policy;
mod commands;
mod dialogue;
mod ending;
mod error;
mod event_sink;
mod evidence;
mod files;
mod held_terminals;
mod hosts;
mod inputs;
mod pinned_hosts;
mod readers;
mod recordings;
mod reuse;
mod screen_follower;
mod screen_part;
mod search;
mod secret_requests;
mod sessions;
mod signals;
mod wait_request;
mod waiting;
mod watch_screen;

pub use answer::VerbReply;
pub use asked_terminals::{AskedTerminal, NOT_COMPARED, ShownTerminals};
pub use attach::TerminalEvents;
pub use capture::CaptureRange;
pub use command_policy::CommandPolicy;
pub use commands::ShellQueryError;
pub use ending::ShutdownMode;
pub use error::LookupError;
pub use event_sink::{Disconnected, EventSink, refused};
pub use files::CopyEvents;
pub use held_terminals::TerminalUse;
pub use pinned_hosts::is_this_machine;
pub use recordings::Recordings;
pub use sessions::{SECRET_AT_PROMPT, Sessions, expand_home};
pub use steplatch_actions::{self as action_catalog, TerminalTools};
pub use steplatch_host::PlacePolicy;
pub use watch_screen::{ActivityEvents, HeldTerminal, ScreenEvents};
