//! Access to the daemon for every command.

use std::path::Path;

use steplatch_protocol::{Client, DaemonPaths, Hello, ReconnectingClient, Starter, Verb, connect, connect_or_start};

use crate::failure::Failure;

/// Returns the paths of the daemon for a state directory, by default the user's.
pub(crate) fn daemon_paths(state: Option<&Path>) -> Result<DaemonPaths, Failure> {
    DaemonPaths::from_environment(state).map_err(|error| Failure::usage(error.to_string()))
}

/// Returns the command that starts a daemon: this program itself.
pub(crate) fn starter() -> Result<Starter, Failure> {
    let program =
        std::env::current_exe().map_err(|error| Failure::system("the path of this program is unknown", &error))?;
    Ok(Starter { program })
}

/// Returns the first message of this program to the daemon, as the client `name`. It contains the directory and the
/// environment for terminals that the client opens.
pub(crate) fn hello(name: &str) -> Hello {
    Hello {
        person: name == "steplatch",
        // Under the program's own name, the surface is the command line. Other surfaces use their own names.
        surface: Some(if name == "steplatch" { "cli" } else { name }.to_owned()),
        ..Hello::for_process(name)
    }
}

/// Connects to the daemon and starts it if none is running.
pub(crate) async fn client(paths: &DaemonPaths) -> Result<Client, Failure> {
    Ok(connect_or_start(paths, hello("steplatch"), &starter()?).await?.0)
}

/// Creates a client that reconnects automatically and starts the daemon if none is running.
pub(crate) fn reconnecting_client(paths: &DaemonPaths) -> Result<ReconnectingClient, Failure> {
    Ok(ReconnectingClient::new(paths.clone(), starter()?, hello("steplatch")))
}

/// Creates a client like [`reconnecting_client`], for a person at a surface other than the command line.
pub(crate) fn reconnecting_client_at(paths: &DaemonPaths, surface: &str) -> Result<ReconnectingClient, Failure> {
    let hello = Hello { surface: Some(surface.to_owned()), ..hello("steplatch") };
    Ok(ReconnectingClient::new(paths.clone(), starter()?, hello))
}

/// Calls `verb` and starts the daemon if none is running. Repeats the call after a lost connection if that is safe.
pub(crate) async fn ask<V: Verb>(paths: &DaemonPaths, verb: V) -> Result<V::Reply, Failure> {
    Ok(reconnecting_client(paths)?.call(verb).await?)
}

/// Connects to a running daemon.
pub(crate) async fn running(paths: &DaemonPaths) -> Result<Client, Failure> {
    Ok(connect(paths, hello("steplatch")).await?.0)
}
