//! Who asks, and from where.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use nix::unistd::User;
use steplatch_ids::RunId;
use steplatch_protocol::{Hello, is_format};
use steplatch_workflow::Proof;

use crate::approver::AttemptSource;
use crate::peer::Program;
use crate::pins::Pins;
use crate::standing::{PersonRefusal, Standing};

/// A client as it introduced itself. What it opens begins in its folder, with its environment.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The name that the client gave itself.
    pub name: Option<String>,
    /// The folder that the client works in.
    pub folder: PathBuf,
    /// The environment of the client.
    pub environment: Arc<[(OsString, OsString)]>,
    /// A person asks, who sees for themselves what changed while somebody held a terminal.
    pub person: bool,
    /// Through what they ask, in their words.
    pub surface: Option<String>,
    /// Whether the process that opened the connection can be a person's.
    pub standing: Standing,
    /// From where they are served over the network, if the process that asks does so for others.
    pub peer: Option<SocketAddr>,
    /// The run in whose name the daemon itself asks.
    pub run: Option<RunId>,
    /// What the definitions meant that this run refers to, when the first run above it began.
    pub pins: Option<Arc<Pins>>,
}

/// The longest name of a client or a surface, in characters. Every answer carries both.
const LONGEST_NAME: usize = 80;

/// Removes control and format characters from a name that a client gave itself, and cuts it to [`LONGEST_NAME`].
fn cleaned(name: &str) -> String {
    let shown = name.chars().filter(|character| !character.is_control() && !is_format(*character));
    shown.take(LONGEST_NAME).collect()
}

/// What the surface of our MCP servers begins with that ask by a dialog.
const DIALOG: &str = "mcp elicitation";

impl Caller {
    /// Says why the caller is not taken for a person, if that is so.
    pub async fn no_person(&self) -> Option<PersonRefusal> {
        if !self.person {
            return Some(PersonRefusal::Agent);
        }
        match (self.standing.verdict().await.refusal, self.peer) {
            (None, Some(address)) => self.standing.refuses_client(address).await,
            (refusal, _) => refusal,
        }
    }

    /// Returns what proves that a person asks, besides a passphrase.
    pub async fn proof(&self) -> Proof {
        let verdict = self.standing.verdict().await;
        let surface = self.surface.as_deref().unwrap_or_default();
        match verdict.program {
            Program::Ours if surface.starts_with(DIALOG) => Proof::Dialog,
            Program::Ours if verdict.has_terminal && self.peer.is_none() => Proof::Terminal,
            _ => Proof::None,
        }
    }

    /// Returns where a passphrase of the caller comes from.
    pub fn source(&self) -> AttemptSource {
        self.peer.map_or(AttemptSource::Socket, |peer| AttemptSource::Network(peer.ip()))
    }

    /// Returns what the caller is called in histories: a person as the system knows them, a program by the name that it gives.
    pub async fn who(&self) -> String {
        if self.person {
            return match self.no_person().await {
                None => self.person_name(),
                Some(refusal) => refusal.caller().to_owned(),
            };
        }
        self.name.clone().unwrap_or_else(|| "unnamed client".to_owned())
    }

    /// Returns through what the caller asks, for the record: in its own words, with the program that says so if it is not ours.
    pub async fn through(&self) -> String {
        let surface = self.surface.as_deref().unwrap_or("socket");
        match self.standing.verdict().await.program {
            Program::Ours => surface.to_owned(),
            Program::Other(name) => format!("{surface} ({name})"),
            Program::Unknown => format!("{surface} (unknown program)"),
        }
    }

    /// Returns what a person who takes over is called: as the system knows the user of the process.
    pub(crate) fn person_name(&self) -> String {
        let user = self.standing.user();
        match User::from_uid(user) {
            Ok(Some(known)) if !known.name.is_empty() => known.name,
            // A user may be known nowhere.
            _ => format!("user {user}"),
        }
    }
}

impl Caller {
    /// One that did not introduce itself: the user's home, the daemon's own environment.
    pub fn unknown() -> Self {
        let folder = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_dir());
        Self {
            name: None,
            folder: folder.unwrap_or_else(|| "/".into()),
            environment: std::env::vars_os().collect(),
            person: false,
            surface: None,
            standing: Standing::internal(),
            peer: None,
            run: None,
            pins: None,
        }
    }

    /// Creates the caller that a client's HELLO describes.
    pub fn introduced(hello: Hello) -> Self {
        let unknown = Self::unknown();
        let environment = hello
            .environment
            .map(|given| given.into_iter().map(|(key, value)| (OsString::from(key), OsString::from(value))).collect());
        Self {
            name: Some(cleaned(&hello.client)).filter(|name| !name.is_empty()),
            folder: hello.cwd.map(PathBuf::from).filter(|folder| folder.is_absolute()).unwrap_or(unknown.folder),
            environment: environment.unwrap_or(unknown.environment),
            person: hello.person,
            surface: hello.surface.as_deref().map(cleaned),
            standing: Standing::internal(),
            peer: hello.peer,
            run: None,
            pins: None,
        }
    }
}
