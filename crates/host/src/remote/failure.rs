//! Reasons why a connection to a machine has failed, and what to do: read from the output of OpenSSH and the shell over
//! there. Pure.

use crate::client::is_printable;

/// Output of the script over there without an installed steplatch.
pub(super) const MISSING: &str = "steplatch: not installed for this user";

/// Reason why a connection to a machine has failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectFailure {
    /// The name of the machine is unknown.
    #[error("{said}; check the name with 'ssh {ssh}'")]
    UnknownHost {
        /// The destination.
        ssh: String,
        /// Error text of `ssh`.
        said: String,
    },
    /// The machine did not take the user's keys or answers.
    #[error("{said}; check with 'ssh {ssh}' which key or password it takes")]
    Refused {
        /// The destination.
        ssh: String,
        /// Error text of `ssh`.
        said: String,
    },
    /// The machine's key is not the known one, or the user has not accepted it.
    #[error("{said}; check the key of the machine with 'ssh {ssh}'")]
    HostKey {
        /// The destination.
        ssh: String,
        /// Error text of `ssh`.
        said: String,
    },
    /// A question of `ssh` has no answer.
    #[error(
        "ssh asked a question that was not answered; run 'steplatch hosts check {host}' and answer it there, or at its gate"
    )]
    Unanswered {
        /// The name of the host.
        host: String,
    },
    /// Steplatch is not there.
    #[error("steplatch is not installed there; install it with 'steplatch hosts add {host} --ssh {ssh} --install'")]
    NotInstalled {
        /// The name of the host.
        host: String,
        /// The destination.
        ssh: String,
    },
    /// Steplatch is there and does not know the relay.
    #[error(
        "steplatch there is too old for terminals from here ({said}); 'steplatch hosts add {host} --ssh {ssh} --install' installs this version beside it"
    )]
    TooOld {
        /// The name of the host.
        host: String,
        /// The destination.
        ssh: String,
        /// Its error text.
        said: String,
    },
    /// The start of the terminal host over there failed.
    #[error("the terminal host there was not started: {0}")]
    Host(String),
    /// The program there speaks another protocol, or breaks it: a further attempt would meet the same program.
    #[error("{0}; 'steplatch hosts add' with --install installs this version there")]
    Protocol(String),
    /// The connection failed, or broke.
    #[error("{0}")]
    Connection(String),
}

impl ConnectFailure {
    /// Returns whether another attempt may help without a person's action. There are no repeated attempts after a
    /// failure that a person has to settle first.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self, Self::Connection(_) | Self::UnknownHost { .. })
    }
}

/// The exit code of `ssh` where the connection itself failed. Any other one is that of the program over there.
const SSH_FAILED: i32 = 255;

/// Reads why a connection to `host` ended before its relay greeted, from its printed errors and its exit code, if there
/// is one.
pub(crate) fn explain(host: &str, ssh: &str, errors: &str, asked: bool, exit: Option<i32>) -> ConnectFailure {
    let (host, ssh) = (host.to_owned(), ssh.to_owned());
    let lines: Vec<&str> = errors.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let with = |words: &[&str]| {
        let found = lines.iter().rev().find(|line| words.iter().any(|word| line.contains(word)));
        found.map(|line| printable(line))
    };
    if lines.iter().any(|line| line.contains(MISSING)) {
        return ConnectFailure::NotInstalled { host, ssh };
    }
    if let Some(said) = with(&["unrecognized subcommand", "unexpected argument"]) {
        return ConnectFailure::TooOld { host, ssh, said };
    }
    if let Some(code) = exit.filter(|code| *code != SSH_FAILED) {
        let said = lines.last().map_or_else(|| "it ended without a word".to_owned(), |last| printable(last));
        return ConnectFailure::Host(format!("{said} (exit code {code})"));
    }
    let is_offline = with(&["Temporary failure in name resolution"]).is_some();
    if let Some(said) = with(&["Could not resolve hostname", "Name or service not known"]).filter(|_| !is_offline) {
        return ConnectFailure::UnknownHost { ssh, said };
    }
    if let Some(said) = with(&["Host key verification failed", "REMOTE HOST IDENTIFICATION HAS CHANGED"]) {
        return if asked { ConnectFailure::Unanswered { host } } else { ConnectFailure::HostKey { ssh, said } };
    }
    if let Some(said) = with(&["Permission denied", "Too many authentication failures"]) {
        return if asked { ConnectFailure::Unanswered { host } } else { ConnectFailure::Refused { ssh, said } };
    }
    match lines.last() {
        Some(last) => ConnectFailure::Connection(printable(last)),
        None => ConnectFailure::Connection("the connection ended without a word".to_owned()),
    }
}

/// Returns the printable characters of a foreign line, 200 at most.
pub(super) fn printable(line: &str) -> String {
    line.chars().filter(|character| is_printable(*character)).take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ssh_prints_becomes_what_is_wrong_and_what_to_do() {
        let cases = [
            ("ssh: Could not resolve hostname nowhere: Name or service not known\r\n", "check the name with 'ssh box'"),
            (
                "ana@box: Permission denied (publickey).\n",
                "Permission denied (publickey).; check with 'ssh box' which key",
            ),
            (
                "No ED25519 host key is known\nHost key verification failed.\n",
                "check the key of the machine with 'ssh box'",
            ),
            ("steplatch: not installed for this user\n", "steplatch hosts add build --ssh box --install"),
            ("error: unrecognized subcommand 'host'\n\nUsage: steplatch", "too old for terminals from here"),
            ("ssh: connect to host box port 22: Connection refused\n", "port 22: Connection refused"),
            ("", "without a word"),
            ("\x1b[31mred\x1b[0m\n", "[31mred[0m"),
        ];
        for (errors, expected) in cases {
            let said = explain("build", "box", errors, false, None).to_string();
            assert!(said.contains(expected), "{said}");
            assert!(!said.contains('\x1b'));
            assert_eq!(explain("build", "box", errors, false, Some(255)).to_string(), said);
        }
    }

    #[test]
    fn a_program_that_fails_over_there_is_no_failure_of_the_connection() {
        let cases = [
            ("", 139, "it ended without a word (exit code 139)"),
            ("steplatch: /lib/libc.so.6: version `GLIBC_2.38' not found\n", 1, "`GLIBC_2.38' not found (exit code 1)"),
            ("sh: 1: exec: /h/steplatch: Exec format error\n", 126, "Exec format error (exit code 126)"),
            ("sh: 1: exec: steplatch: Permission denied\n", 126, "steplatch: Permission denied (exit code 126)"),
            ("error: what came from the other machine is no request of a relay\n", 1, "no request of a relay"),
            ("", 0, "without a word (exit code 0)"),
        ];
        for (errors, code, expected) in cases {
            let failure = explain("build", "box", errors, false, Some(code));
            assert!(matches!(&failure, ConnectFailure::Host(said) if said.contains(expected)), "{failure:?}");
            assert!(!failure.is_passing());
        }
        let missing = explain("build", "box", "steplatch: not installed for this user\n", false, Some(127));
        assert!(matches!(missing, ConnectFailure::NotInstalled { .. }));
    }

    #[test]
    fn what_a_person_has_to_settle_is_not_tried_again_and_again() {
        let passing = |errors: &str, asked| explain("build", "box", errors, asked, Some(255)).is_passing();
        assert!(passing("ssh: connect to host box port 22: Connection timed out", false));
        assert!(passing("client_loop: send disconnect: Broken pipe", false));
        let offline = "ssh: Could not resolve hostname box: Temporary failure in name resolution";
        assert!(matches!(explain("build", "box", offline, false, Some(255)), ConnectFailure::Connection(_)));
        assert!(!passing("Permission denied (publickey,password).", true));
        assert!(!passing("Host key verification failed.", false));
        assert!(!passing("steplatch: not installed for this user", false));
    }
}
