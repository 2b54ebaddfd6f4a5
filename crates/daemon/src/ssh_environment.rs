//! The environment of the `ssh` that connects the daemon to remote hosts.
//!
//! The environment is the daemon's own, with two differences. `ssh` uses the agent of the last client, because a daemon
//! outlives the login that started it, and that login's agent. This program answers the questions of `ssh`
//! (`SSH_ASKPASS`, see ssh(1)).

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use steplatch_host::{RemoteHostConfig, SshEnvironment};
use steplatch_protocol::Hello;

use crate::ssh_questions::SshQuestions;

/// The variable that names the agent's socket.
const AGENT_VARIABLE: &str = "SSH_AUTH_SOCK";

/// The variable that makes this program forward a question of `ssh`. Its value is the ticket of the connection.
pub const QUESTION_VARIABLE: &str = "STEPLATCH_SSH_QUESTION";

/// The environment of `ssh`.
#[derive(Debug)]
pub(crate) struct DaemonSshEnvironment {
    /// The program that forwards questions, if there is one.
    program: Option<PathBuf>,
    /// The questions from ssh. They issue tickets.
    questions: Arc<SshQuestions>,
    /// The state directory of the daemon.
    state: PathBuf,
    /// The socket of the agent of the client that connected last.
    agent: Mutex<Option<OsString>>,
}

impl DaemonSshEnvironment {
    pub(crate) fn new(program: Option<PathBuf>, state: &Path, questions: Arc<SshQuestions>) -> Self {
        Self { program, questions, state: state.to_owned(), agent: Mutex::default() }
    }

    /// Remembers the agent of a client, if it has one.
    pub(crate) fn record_client(&self, hello: &Hello) {
        let agent = hello.environment.as_ref().and_then(|environment| environment.get(AGENT_VARIABLE));
        if let Some(socket) = agent.filter(|socket| !socket.is_empty()) {
            *self.agent.lock() = Some(socket.into());
        }
    }
}

impl SshEnvironment for DaemonSshEnvironment {
    fn variables(&self, host: &RemoteHostConfig) -> Vec<(OsString, OsString)> {
        let agent = self.agent.lock().clone();
        let is_replaced = |key: &OsString| {
            (key == AGENT_VARIABLE && agent.is_some()) || key == "SSH_ASKPASS" || key == "SSH_ASKPASS_REQUIRE"
        };
        let mut variables: Vec<_> = std::env::vars_os().filter(|(key, _)| !is_replaced(key)).collect();
        variables.extend(agent.map(|socket| (AGENT_VARIABLE.into(), socket)));
        match &self.program {
            Some(program) => variables.extend([
                ("SSH_ASKPASS".into(), program.clone().into()),
                ("SSH_ASKPASS_REQUIRE".into(), "force".into()),
                (QUESTION_VARIABLE.into(), self.questions.issue_ticket(host).into()),
                ("STEPLATCH_STATE_DIR".into(), self.state.clone().into()),
            ]),
            // Without an askpass program, ssh must fail immediately instead of prompting.
            None => variables.push(("SSH_ASKPASS_REQUIRE".into(), "never".into())),
        }
        variables
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_is_that_of_the_last_connected_client() {
        let context = DaemonSshEnvironment::new(Some("/bin/steplatch".into()), Path::new("/state"), Arc::default());
        let host = RemoteHostConfig { name: "box".into(), ssh: "ana@box".into() };
        let value = |key: &str| {
            let variables = context.variables(&host);
            let all: Vec<_> = variables.iter().filter(|(known, _)| known == key).collect();
            assert!(all.len() <= 1, "{key} is set more than once");
            all.first().map(|(_, value)| value.to_string_lossy().into_owned())
        };
        let connect = |key: &str, value: &str| {
            let environment = Some([(key.to_owned(), value.to_owned())].into());
            context.record_client(&Hello { environment, ..Hello::default() });
        };
        connect("SSH_AUTH_SOCK", "/run/one");
        assert_eq!(value("SSH_AUTH_SOCK").as_deref(), Some("/run/one"));
        connect("SSH_AUTH_SOCK", "/run/two");
        connect("HOME", "/home/ana");
        connect("SSH_AUTH_SOCK", "");
        assert_eq!(value("SSH_AUTH_SOCK").as_deref(), Some("/run/two"));
        assert_eq!(value("SSH_ASKPASS").as_deref(), Some("/bin/steplatch"));
        assert_ne!(value(QUESTION_VARIABLE), value(QUESTION_VARIABLE), "each connection has its own ticket");
    }
}
