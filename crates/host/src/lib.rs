//! The terminal host: the process that keeps terminals, and the connection to it.
//!
//! A terminal must outlive the daemon that serves it: a crash, a restart, an upgrade. So
//! pseudo-terminals, children and screens live in a separate process, which is small, has no state on disk, and does
//! nothing but keep them and answer. This crate owns that process ([`serve`]), the protocol ([`Ask`]) and the client
//! side ([`Hosts`]), which finds every running host, also older ones, and starts one when there is none.

mod blocking;
mod client;
mod files;
#[cfg(test)]
mod fuzz;
mod hosts;
mod inbox;
mod links;
mod outbox;
mod records;
mod relay;
mod remote;
mod server;
mod terminal;
mod wire;

pub use client::{AskError, Host, HostHello};
pub use files::{Copied, CopyOptions, MachineFiles, TransferError};
pub use hosts::{
    HostStarter, HostState, HostStatus, Hosts, HostsError, ListedTerminal, LostHost, SeenActivity, Starter,
};
pub use relay::{Relay, RelayError};
pub use remote::{
    CLIENT_CONNECT_TIMEOUT, Channel, ConnectFailure, ConnectionGuard, DialFuture, DialedTargets, ErrorText,
    FixedConnection, HostTarget, INSTALLED, MachineSecretSink, NoQuestions, OpenSsh, QuestionWatch, RECONNECT_TIMEOUT,
    RUN_CONNECT_TIMEOUT, RemoteError, RemoteHostConfig, RemoteHostState, RemoteHostStatus, RemotePlace, RemoteSetup,
    SshEnvironment, TargetFuture, Transport, client_on, ssh_arguments,
};
pub use server::{Identity, serve};
pub use terminal::{Attached, HostedTerminal, SendError, SignalError, TerminalError};
pub use wire::{
    Ask, AttachEvent, InvalidPattern, OpenRefused, OpenedTerminal, PlacePolicy, Refusal, Role, START_TIME, Stage,
    TerminalAsk, WIRE_VERSION, WaitRequest,
};
