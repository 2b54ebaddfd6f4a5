//! Access to the daemon for every command.

use std::path::Path;

use steplatch_protocol::{Client, DaemonPaths, Hello, ReconnectingClient, Starter, Verb, connect, connect_or_start};

use crate::failure::Failure;

/// Returns the paths of the daemon for a state directory, or for the user's default one.
pub(crate) fn daemon_paths(state: Option<&Path>) -> Result<DaemonPaths, Failure> {
    DaemonPaths::from_environment(state).map_err(|error| Failure::usage(error.to_string()))
}

/// Returns the command that starts a daemon: this program itself.
pub(crate) fn starter() -> Result<Starter, Failure> {
    let program =
        std::env::current_exe().map_err(|error| Failure::system("the path of this program is unknown", &error))?;
    Ok(Starter { program })
}

/// Returns the greeting of this program as `name`, with the directory and the environment for opened terminals.
pub(crate) fn hello(name: &str) -> Hello {
    Hello {
        person: name == "steplatch",
        // The program itself is the command line; other surfaces have names of their own.
        surface: Some(if name == "steplatch" { "cli" } else { name }.to_owned()),
        ..Hello::of_process(name)
    }
}

/// Connects to the daemon, and starts it if there is none.
pub(crate) async fn client(paths: &DaemonPaths) -> Result<Client, Failure> {
    Ok(connect_or_start(paths, hello("steplatch"), &starter()?).await?.0)
}

/// Returns a connection to the daemon that reconnects automatically, and starts the daemon if there is none.
pub(crate) fn steady(paths: &DaemonPaths) -> Result<ReconnectingClient, Failure> {
    Ok(ReconnectingClient::new(paths.clone(), starter()?, hello("steplatch")))
}

/// As [`steady`], for a person at a surface other than the command line.
pub(crate) fn steady_at(paths: &DaemonPaths, surface: &str) -> Result<ReconnectingClient, Failure> {
    let hello = Hello { surface: Some(surface.to_owned()), ..hello("steplatch") };
    Ok(ReconnectingClient::new(paths.clone(), starter()?, hello))
}

/// Calls `verb`, and starts the daemon if there is none. Repeats the call after a lost connection if that is safe.
pub(crate) async fn ask<V: Verb>(paths: &DaemonPaths, verb: V) -> Result<V::Reply, Failure> {
    Ok(steady(paths)?.call(verb).await?)
}

/// Connects to the daemon, if there is one.
pub(crate) async fn running(paths: &DaemonPaths) -> Result<Client, Failure> {
    Ok(connect(paths, hello("steplatch")).await?.0)
}
