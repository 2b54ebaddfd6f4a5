//! What every command needs to reach the daemon.

use std::collections::BTreeMap;
use std::path::Path;

use steplatch_ids::random_name;
use steplatch_protocol::{
    CallError, Client, ConnectError, Hello, PROTOCOL_VERSION, Place, Starter, VERBS, Verb, connect, connect_or_start,
};

use crate::failure::Failure;

/// Returns where the daemon is, for a state folder or the user's own.
pub(crate) fn place(state: Option<&Path>) -> Result<Place, Failure> {
    Place::from_environment(state).map_err(|error| Failure::usage(error.to_string()))
}

/// Returns how this program starts a daemon: by running itself.
pub(crate) fn starter() -> Result<Starter, Failure> {
    let program =
        std::env::current_exe().map_err(|error| Failure::system("this program can not find itself", &error))?;
    Ok(Starter { program })
}

/// Introduces this program as `name`, with its folder and environment for what it opens.
pub(crate) fn hello(name: &str) -> Hello {
    // What is no text can not travel; a variable of that kind is rarer than a client that needs it.
    let environment: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    Hello {
        protocol_version: PROTOCOL_VERSION,
        client: name.to_owned(),
        cwd: std::env::current_dir().ok().map(|folder| folder.display().to_string()),
        environment: Some(environment),
        person: name == "steplatch",
    }
}

/// Connects to the daemon and starts it when there is none.
pub(crate) async fn client(place: &Place) -> Result<Client, Failure> {
    Ok(connect_or_start(place, hello("steplatch"), &starter()?).await?.0)
}

/// Asks the daemon for `verb`, and starts it when there is none. Asks again when it goes away in the middle, where that
/// does no harm.
pub(crate) async fn ask<V: Verb + Clone>(place: &Place, verb: V) -> Result<V::Reply, Failure> {
    let nature = VERBS.iter().find(|known| known.name == V::NAME).map(|known| known.nature);
    let again = nature.is_some_and(|nature| nature.idempotent || nature.once);
    let step = random_name();
    let mut losses = 0;
    loop {
        let asked = match connect_or_start(place, hello("steplatch"), &starter()?).await {
            Ok((client, _)) => client.call_once(&verb, &step).await,
            // It ended while we came: nothing was asked yet.
            Err(ConnectError::HungUp(_) | ConnectError::NotRunning(_)) if losses < MOST_LOSSES => {
                losses += 1;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        match asked {
            Err(CallError::Lost) if again && losses < MOST_LOSSES => losses += 1,
            answered => return Ok(answered?),
        }
    }
}

/// How often a question is asked anew. One that brings down every daemon it reaches should not go on for ever.
const MOST_LOSSES: usize = 5;

/// Connects to the daemon, if there is one.
pub(crate) async fn running(place: &Place) -> Result<Client, Failure> {
    Ok(connect(place, hello("steplatch")).await?.0)
}
