//! Reasons for failed connections to a machine, with their remedies, from the output of OpenSSH and the remote shell.
//! Pure.

use crate::client::is_printable;

/// Output of the remote script if steplatch is not installed.
pub(super) const NOT_INSTALLED_TEXT: &str = "steplatch: not installed for this user";

/// Reason for a failed connection to a machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectFailure {
    /// The name of the machine is unknown.
    #[error("{message}; check the name with 'ssh {ssh}'")]
    UnknownHost {
        /// The destination.
        ssh: String,
        /// Error text of `ssh`.
        message: String,
    },
    /// The machine did not accept the user's keys or answers.
    #[error("{message}; check with 'ssh {ssh}' which key or password it takes")]
    Refused {
        /// The destination.
        ssh: String,
        /// Error text of `ssh`.
        message: String,
    },
    /// The machine's key differs from the known key, or the user has not accepted it.
    #[error("{message}; check the key of the machine with 'ssh {ssh}'")]
    HostKey {
        /// The destination.
        ssh: String,
        /// Error text of `ssh`.
        message: String,
    },
    /// A question of `ssh` was not answered.
    #[error(
        "ssh asked a question that was not answered; run 'steplatch hosts check {host}' and answer it there, or at its gate"
    )]
    Unanswered {
        /// The name of the host.
        host: String,
    },
    /// Steplatch is not installed on the machine.
    #[error("steplatch is not installed there; install it with 'steplatch hosts add {host} --ssh {ssh} --install'")]
    NotInstalled {
        /// The name of the host.
        host: String,
        /// The destination.
        ssh: String,
    },
    /// The installed version of steplatch has no relay.
    #[error(
        "steplatch there is too old for terminals from here ({message}); 'steplatch hosts add {host} --ssh {ssh} --install' installs this version beside it"
    )]
    TooOld {
        /// The name of the host.
        host: String,
        /// The destination.
        ssh: String,
        /// The text of the error.
        message: String,
    },
    /// The start of the remote terminal host failed.
    #[error("the terminal host there was not started: {0}")]
    Host(String),
    /// The remote program speaks another protocol or violates this one, so another attempt would fail too.
    #[error("{0}; 'steplatch hosts add' with --install installs this version there")]
    Protocol(String),
    /// The connection failed, or broke.
    #[error("{0}")]
    Connection(String),
}

impl ConnectFailure {
    /// Returns whether another attempt may succeed without a person's action. Only then are attempts repeated.
    pub(crate) fn is_temporary(&self) -> bool {
        matches!(self, Self::Connection(_) | Self::UnknownHost { .. })
    }
}

/// Exit code of `ssh` if the connection itself failed. Other codes come from the remote program.
const SSH_FAILURE_CODE: i32 = 255;

/// Returns the reason for the end of a connection to `host` before the relay's greeting, from the error output and the
/// exit code of `ssh`, if any. `asked` is true if `ssh` has asked a question.
pub(crate) fn explain(host: &str, ssh: &str, errors: &str, asked: bool, exit: Option<i32>) -> ConnectFailure {
    let (host, ssh) = (host.to_owned(), ssh.to_owned());
    let lines: Vec<&str> = errors.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let find_line = |words: &[&str]| {
        let found = lines.iter().rev().find(|line| words.iter().any(|word| line.contains(word)));
        found.map(|line| printable(line))
    };
    if lines.iter().any(|line| line.contains(NOT_INSTALLED_TEXT)) {
        return ConnectFailure::NotInstalled { host, ssh };
    }
    if let Some(message) = find_line(&["unrecognized subcommand", "unexpected argument"]) {
        return ConnectFailure::TooOld { host, ssh, message };
    }
    if let Some(code) = exit.filter(|code| *code != SSH_FAILURE_CODE) {
        let message = lines.last().map_or_else(|| "it ended without output".to_owned(), |last| printable(last));
        return ConnectFailure::Host(format!("{message} (exit code {code})"));
    }
    let is_offline = find_line(&["Temporary failure in name resolution"]).is_some();
    if let Some(message) =
        find_line(&["Could not resolve hostname", "Name or service not known"]).filter(|_| !is_offline)
    {
        return ConnectFailure::UnknownHost { ssh, message };
    }
    if let Some(message) = find_line(&["Host key verification failed", "REMOTE HOST IDENTIFICATION HAS CHANGED"]) {
        return if asked { ConnectFailure::Unanswered { host } } else { ConnectFailure::HostKey { ssh, message } };
    }
    if let Some(message) = find_line(&["Permission denied", "Too many authentication failures"]) {
        return if asked { ConnectFailure::Unanswered { host } } else { ConnectFailure::Refused { ssh, message } };
    }
    match lines.last() {
        Some(last) => ConnectFailure::Connection(printable(last)),
        None => ConnectFailure::Connection("the connection ended without output".to_owned()),
    }
}

/// Returns the first 200 printable characters of a foreign line.
pub(super) fn printable(line: &str) -> String {
    line.chars().filter(|character| is_printable(*character)).take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ssh_messages_become_problems_with_remedies() {
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
            ("", "without output"),
            ("\x1b[31mred\x1b[0m\n", "[31mred[0m"),
        ];
        for (errors, expected) in cases {
            let message = explain("build", "box", errors, false, None).to_string();
            assert!(message.contains(expected), "{message}");
            assert!(!message.contains('\x1b'));
            assert_eq!(explain("build", "box", errors, false, Some(255)).to_string(), message);
        }
    }

    #[test]
    fn remote_program_failure_is_not_a_connection_failure() {
        let cases = [
            ("", 139, "it ended without output (exit code 139)"),
            ("steplatch: /lib/libc.so.6: version `GLIBC_2.38' not found\n", 1, "`GLIBC_2.38' not found (exit code 1)"),
            ("sh: 1: exec: /h/steplatch: Exec format error\n", 126, "Exec format error (exit code 126)"),
            ("sh: 1: exec: steplatch: Permission denied\n", 126, "steplatch: Permission denied (exit code 126)"),
            ("error: what came from the other machine is not a request of a relay\n", 1, "not a request of a relay"),
            ("", 0, "without output (exit code 0)"),
        ];
        for (errors, code, expected) in cases {
            let failure = explain("build", "box", errors, false, Some(code));
            assert!(matches!(&failure, ConnectFailure::Host(message) if message.contains(expected)), "{failure:?}");
            assert!(!failure.is_temporary());
        }
        let missing = explain("build", "box", "steplatch: not installed for this user\n", false, Some(127));
        assert!(matches!(missing, ConnectFailure::NotInstalled { .. }));
    }

    #[test]
    fn failures_that_need_a_person_are_not_retried() {
        let passing = |errors: &str, asked| explain("build", "box", errors, asked, Some(255)).is_temporary();
        assert!(passing("ssh: connect to host box port 22: Connection timed out", false));
        assert!(passing("client_loop: send disconnect: Broken pipe", false));
        let offline = "ssh: Could not resolve hostname box: Temporary failure in name resolution";
        assert!(matches!(explain("build", "box", offline, false, Some(255)), ConnectFailure::Connection(_)));
        assert!(!passing("Permission denied (publickey,password).", true));
        assert!(!passing("Host key verification failed.", false));
        assert!(!passing("steplatch: not installed for this user", false));
    }
}
