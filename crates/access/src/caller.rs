//! The caller of a command: its process, and the origin of the command.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_recursion::async_recursion as boxed;
use nix::unistd::User;
use steplatch_ids::RunId;
use steplatch_protocol::{Hello, is_format};
use steplatch_workflow::Proof;

use crate::approver::AttemptSource;
use crate::peer::{PasswordReader, Program, ReaderRefusal};
use crate::pins::Pins;
use crate::standing::{PersonRefusal, Standing};

/// Id of a client connection, unique while the daemon runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConnectionId(u64);

impl ConnectionId {
    /// Returns an id that no other connection has.
    pub fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A client, as described by its HELLO. Its terminals and runs begin in its directory, with its environment.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Name that the client states.
    pub name: Option<String>,
    /// Working directory of the client.
    pub directory: PathBuf,
    /// The environment of the client.
    pub environment: Arc<[(OsString, OsString)]>,
    /// True if the caller is a person, who needs no report of changes while another person held a terminal.
    pub person: bool,
    /// Surface that the caller uses, as the client states it.
    pub surface: Option<String>,
    /// Standing of the process that opened the connection: whether it can belong to a person.
    pub standing: Standing,
    /// The network address of the client behind the calling process, if there is one.
    pub peer: Option<SocketAddr>,
    /// The connection of the client, for replies; `None` for the daemon's own calls.
    pub connection: Option<ConnectionId>,
    /// The schedule that starts a run.
    pub schedule: Option<String>,
    /// The run on whose behalf the daemon itself calls.
    pub run: Option<RunId>,
    /// Pins of the definitions that this run refers to, as of the start of the root run.
    pub pins: Option<Arc<Pins>>,
    /// The gate with a person's approval of the current action of this run or its parent.
    pub approved_at: Option<String>,
    /// Ids of the terminals that this person saw or that the run has opened. The run acts in no other terminals. `None`
    /// if no person was asked, or if the terminals that the person saw are unknown.
    pub approved_terminals: Option<Arc<BTreeSet<String>>>,
}

/// Maximum length of the name of a client or a surface, in characters. Every answer to a gate stores both.
const MAX_NAME_CHARS: usize = 80;

/// Removes control and format characters from a name that a client states and truncates it to [`MAX_NAME_CHARS`].
fn clean_name(name: &str) -> String {
    let visible = name.chars().filter(|character| !character.is_control() && !is_format(*character));
    visible.take(MAX_NAME_CHARS).collect()
}

/// Prefix of the surface of steplatch's own MCP servers when they show a person a dialog.
const DIALOG_SURFACE_PREFIX: &str = "mcp elicitation";

impl Caller {
    /// Returns the reason for not considering the caller a person, if there is one.
    #[boxed]
    pub async fn person_refusal(&self) -> Option<PersonRefusal> {
        if !self.person {
            return Some(PersonRefusal::Agent);
        }
        match (self.standing.verdict().await.refusal, self.peer) {
            (None, Some(address)) => self.standing.client_refusal(address).await,
            (refusal, _) => refusal,
        }
    }

    /// Returns the refusal of a request from a program that an agent may control. The program, or the browser behind
    /// it, is in a steplatch terminal, was started by steplatch, or cannot be determined.
    #[boxed]
    pub async fn kept_terminal_refusal(&self) -> Option<PersonRefusal> {
        let refusal = match self.peer {
            Some(address) => self.standing.client_refusal(address).await,
            None => self.standing.verdict().await.refusal,
        };
        refusal.filter(|refusal| !matches!(refusal, PersonRefusal::Agent | PersonRefusal::Hidden))
    }

    /// Returns the caller's name in the log of a terminal: the run, or the name of the client.
    pub fn label(&self) -> Option<String> {
        self.run.as_ref().map(ToString::to_string).or_else(|| self.name.clone())
    }

    /// Returns the connection of the client that reads the reply itself. A run reads replies by its definition,
    /// regardless of what its starter has seen.
    pub fn reader(&self) -> Option<ConnectionId> {
        self.connection.filter(|_| self.run.is_none())
    }

    /// Returns this caller for a call that the daemon makes on the caller's behalf: no client reads the reply.
    #[must_use]
    pub fn unattended(&self) -> Self {
        Self { connection: None, ..self.clone() }
    }

    /// Returns the evidence, other than a passphrase, that the caller is a person.
    #[boxed]
    pub async fn proof(&self) -> Proof {
        let verdict = self.standing.verdict().await;
        let surface = self.surface.as_deref().unwrap_or_default();
        match verdict.program {
            Program::Ours if surface.starts_with(DIALOG_SURFACE_PREFIX) => Proof::Dialog,
            Program::Ours if verdict.has_terminal && self.peer.is_none() => Proof::Terminal,
            _ => Proof::None,
        }
    }

    /// Returns whether the caller is a program in the foreground of a terminal that a person may have: it is not a
    /// steplatch terminal, and no evidence points to a program of an agent. If the system hides processes of other
    /// users, the terminal alone counts.
    #[boxed]
    pub async fn is_at_own_terminal(&self) -> bool {
        self.peer.is_none() && self.may_be_person().await && self.standing.verdict().await.has_terminal
    }

    /// Returns whether the caller is a browser that a person may have, served by the page server.
    #[boxed]
    pub async fn is_in_own_browser(&self) -> bool {
        self.peer.is_some() && self.may_be_person().await
    }

    /// Returns whether the caller is treated as a person where the system hides processes of other users, too.
    async fn may_be_person(&self) -> bool {
        matches!(self.person_refusal().await, None | Some(PersonRefusal::Hidden))
    }

    /// Returns the program that reads the output of the caller, which is an askpass program.
    ///
    /// # Errors
    /// If that program receives no passwords.
    #[boxed]
    pub async fn password_reader(&self) -> Result<PasswordReader, ReaderRefusal> {
        self.standing.password_reader().await
    }

    /// Returns the source of the caller's passphrases.
    pub fn source(&self) -> AttemptSource {
        self.peer.map_or(AttemptSource::Socket, |peer| AttemptSource::Network(peer.ip()))
    }

    /// Returns the caller's name in histories: for a person, the name of the system's user; for a program, the name
    /// that it states.
    #[boxed]
    pub async fn display_name(&self) -> String {
        if self.person {
            return match self.person_refusal().await {
                None => self.person_name(),
                Some(refusal) => refusal.caller().to_owned(),
            };
        }
        self.name.clone().unwrap_or_else(|| "unnamed client".to_owned())
    }

    /// Returns the caller's surface for records: as the client states it, with the name of the program unless that is
    /// steplatch.
    #[boxed]
    pub async fn display_surface(&self) -> String {
        let surface = self.surface.as_deref().unwrap_or("socket");
        match self.standing.verdict().await.program {
            Program::Ours => surface.to_owned(),
            Program::Other(name) => format!("{surface} ({name})"),
            Program::Unknown => format!("{surface} (unknown program)"),
        }
    }

    /// Returns the name of a person who takes over a terminal: the name of the process's user.
    pub(crate) fn person_name(&self) -> String {
        let user = self.standing.user();
        match User::from_uid(user) {
            Ok(Some(entry)) if !entry.name.is_empty() => entry.name,
            // A user id may have no name.
            _ => format!("user {user}"),
        }
    }
}

impl Caller {
    /// Returns a caller without a HELLO: with the user's home directory and the daemon's own environment.
    pub fn unknown() -> Self {
        let directory = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_dir());
        Self::unnamed(directory.unwrap_or_else(|| "/".into()), std::env::vars_os().collect())
    }

    /// Returns a caller without a name, with a working directory and an environment. It is not a person.
    pub fn unnamed(directory: PathBuf, environment: Arc<[(OsString, OsString)]>) -> Self {
        Self {
            name: None,
            directory,
            environment,
            person: false,
            surface: None,
            standing: Standing::internal(),
            peer: None,
            connection: None,
            schedule: None,
            run: None,
            pins: None,
            approved_at: None,
            approved_terminals: None,
        }
    }

    /// Creates the caller that a client's HELLO describes.
    pub fn from_hello(hello: Hello) -> Self {
        let Self { directory, environment, .. } = Self::unknown();
        let variables = hello.environment.map(|variables| {
            variables.into_iter().map(|(key, value)| (OsString::from(key), OsString::from(value))).collect()
        });
        let directory = hello.cwd.map(PathBuf::from).filter(|directory| directory.is_absolute()).unwrap_or(directory);
        Self {
            name: Some(clean_name(&hello.client)).filter(|name| !name.is_empty()),
            person: hello.person,
            surface: hello.surface.as_deref().map(clean_name),
            peer: hello.peer,
            ..Self::unnamed(directory, variables.unwrap_or(environment))
        }
    }
}
