//! Who asks, and from where.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use steplatch_protocol::Hello;
use steplatch_terminal::TERMINAL_VARIABLE;

/// A client as it introduced itself. What it opens begins in its folder, with its environment.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) name: Option<String>,
    pub(crate) folder: PathBuf,
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// A person asks, who sees for themselves what changed while somebody held a terminal.
    pub(crate) person: bool,
    /// Through what they ask, in their words.
    pub(crate) surface: Option<String>,
    /// The process that asks, where it came over the socket.
    pub(crate) process: Option<i32>,
    /// From where they are served over the network, if the process that asks does so for somebody.
    pub(crate) peer: Option<SocketAddr>,
}

/// The longest name of a surface, in characters: it is told with every answer.
const LONGEST_SURFACE: usize = 80;

/// How many parents are looked at: more than any process has.
const MOST_PARENTS: usize = 1000;

/// Tells whether a process or one of those that it descends from is wanted. One that has ended descends from nobody.
pub(crate) fn descends_from(process: i32, wanted: impl Fn(i32) -> bool) -> bool {
    let parent = |pid: &i32| {
        // The name may hold anything; what follows its last bracket are the state and the parent. See proc_pid_stat(5).
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (_, behind) = stat.rsplit_once(')')?;
        behind.split_whitespace().nth(1)?.parse().ok().filter(|parent| *parent > 0)
    };
    std::iter::successors(Some(process), parent).take(MOST_PARENTS).any(wanted)
}

/// Returns the name under which steplatch started a process, or one that it descends from, if it still carries it.
pub(crate) fn mark_of(process: i32) -> Option<String> {
    let environment = std::fs::read(format!("/proc/{process}/environ")).ok()?;
    let mark = environment
        .split(|byte| *byte == 0)
        .find_map(|entry| entry.strip_prefix(TERMINAL_VARIABLE.as_bytes())?.strip_prefix(b"=").map(<[u8]>::to_vec))?;
    String::from_utf8(mark).ok()
}

impl Caller {
    /// Returns what whoever asks is called where a history tells who decided something.
    pub(crate) fn who(&self) -> String {
        match &self.name {
            _ if self.person => self.person_name(),
            Some(name) => name.clone(),
            None => "somebody".to_owned(),
        }
    }

    /// Returns through what they ask, for the record.
    pub(crate) fn through(&self) -> String {
        self.surface.clone().unwrap_or_else(|| "socket".to_owned())
    }

    /// Returns what a person who takes over is called: as they are known to the system.
    pub(crate) fn person_name(&self) -> String {
        let user =
            self.environment.iter().find(|(key, value)| (key == "USER" || key == "LOGNAME") && !value.is_empty());
        match (user, &self.name) {
            (Some((_, user)), _) => user.to_string_lossy().into_owned(),
            (None, _) if self.person => user_name(),
            (None, Some(name)) => name.clone(),
            (None, None) => "somebody".to_owned(),
        }
    }
}

/// Returns the name of the user that the daemon belongs to, from the system's list of users; peers are of the same user.
fn user_name() -> String {
    let own = rustix::process::getuid().as_raw();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, uid) = (fields.next()?, fields.nth(1)?);
        (uid.parse() == Ok(own) && !name.is_empty()).then(|| name.to_owned())
    });
    name.unwrap_or_else(|| format!("user {own}"))
}

impl Caller {
    /// One that did not introduce itself: the user's home, the daemon's own environment.
    pub(crate) fn unknown() -> Self {
        let folder = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_dir());
        Self {
            name: None,
            folder: folder.unwrap_or_else(|| "/".into()),
            environment: std::env::vars_os().collect(),
            person: false,
            surface: None,
            process: None,
            peer: None,
        }
    }

    pub(crate) fn introduced(hello: Hello) -> Self {
        let unknown = Self::unknown();
        let environment = hello
            .environment
            .map(|given| given.into_iter().map(|(key, value)| (OsString::from(key), OsString::from(value))).collect());
        Self {
            name: Some(hello.client).filter(|name| !name.is_empty()),
            folder: hello.cwd.map(PathBuf::from).filter(|folder| folder.is_absolute()).unwrap_or(unknown.folder),
            environment: environment.unwrap_or(unknown.environment),
            person: hello.person,
            surface: hello.surface.map(|surface| surface.chars().take(LONGEST_SURFACE).collect()),
            process: None,
            peer: hello.peer,
        }
    }
}
