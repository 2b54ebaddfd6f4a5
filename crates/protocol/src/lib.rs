//! The contract between the daemon and its front-ends.
//!
//! Owns every verb of the daemon: its name, its parameters, its reply and hints
//! about its effects. Tool schemas and help are derived from these types. This
//! crate also owns the encoding of verbs (JSON lines), the paths of the daemon,
//! and the client that all front-ends use.

mod approver;
mod arguments;
mod brief;
mod capture;
mod client;
mod codec;
mod connect;
mod daemon;
mod engine;
mod files;
mod follow;
#[cfg(test)]
mod fuzz;
mod hosts;
mod inputs;
mod library;
mod message;
mod metrics;
mod nodes;
mod notifications;
mod page;
mod page_server;
mod passkey;
mod paths;
mod read_commands;
mod reconnecting_client;
mod recordings;
mod remote;
mod runs;
mod schedules;
mod schema;
mod screens;
mod services;
mod session;
mod skill;
mod terminals;
mod tools;
mod verb;
mod visible;

pub use arguments::{InvalidArguments, ParsedVerb, check, is_wrapped, read, unwrapped};
pub use brief::is_empty_value;
pub use client::{CallError, Client, Events};
pub use codec::{Line, LineReader, MAX_LINE_BYTES};
pub use connect::{ConnectError, StartError, Starter, connect, connect_or_start};
pub use follow::{EventPage, FollowError, Follower};
pub use message::{ErrorCode, FromClient, FromDaemon, Refusal};
pub use page_server::PageServerRecord;
pub use paths::{DaemonPaths, DaemonRecord, NotPrivate, ensure_private};
pub use read_commands::{ReadCommand, ReadCommandReply};
pub use reconnecting_client::{AskError, ReconnectingClient, RetryPolicy};
pub use schema::{offered, parameters, reply};
pub use session::{DEFAULT_SESSION, take_session};
pub use skill::{
    InvalidSkillName, SkillName, describe_arguments, describe_gates, example_arguments, plain_text, table_cell,
};
pub use verb::{Command, VERBS, Verb, VerbInfo, VerbTraits};
pub use visible::{is_format, visible, with_collapsed_blanks};

// These modules define the types of verbs. All of their public items are part of the contract.
pub use approver::*;
pub use capture::*;
pub use daemon::*;
pub use engine::*;
pub use files::*;
pub use hosts::*;
pub use inputs::*;
pub use library::*;
pub use metrics::*;
pub use nodes::*;
pub use notifications::*;
pub use page::*;
pub use passkey::*;
pub use recordings::*;
pub use remote::*;
pub use runs::*;
pub use schedules::*;
pub use screens::*;
pub use services::*;
pub use terminals::*;
pub use tools::*;

/// Version of the contract. Raised when an older front-end or daemon would misinterpret the other.
pub const PROTOCOL_VERSION: u32 = 1;
