//! The terminal host: the process that keeps terminals, and the connection to it.
//!
//! Terminals outlive their daemon across a crash, a restart or an upgrade. So pseudo-terminals, children and screens
//! live in a separate process. The process is small, has no state on disk, and only keeps terminals and serves
//! requests. This crate owns that process ([`serve`]), the protocol ([`HostRequest`]) and the client side ([`Hosts`]).
//! The client side finds all running hosts, including older versions, and starts one if there is none.

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
    AttachEvent, HostRequest, InvalidPattern, OpenRefused, OpenedTerminal, PlacePolicy, Refusal, Role, START_TIME,
    Stage, TerminalRequest, WIRE_VERSION, WaitRequest,
};
