//! Commands of bash nodes on remote hosts. This crate creates the commands; the daemon runs them.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::context::NodeEnvironment;
use crate::kind::Bash;
use crate::outcome::{ErrorType, ExecutorOutcome, Failure};
use crate::template::TemplateValues;

/// A command line for a remote host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCommand {
    /// Name of the host.
    pub host: String,
    /// Command line for bash.
    pub line: String,
    /// Working directory on the host; `None` for the home directory.
    pub directory: Option<String>,
    /// Environment variables that are set for the command.
    pub environment: BTreeMap<String, String>,
    /// Name of the call; the host runs a name only once.
    pub step: Option<String>,
    /// Time limit of the command.
    pub limit: Option<Duration>,
}

/// End of a command on a remote host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostCommandEnd {
    /// The command exited.
    Ended {
        /// The output of both streams, or its beginning.
        output: String,
        /// For an output that is too long: its end, and the number of omitted bytes.
        rest: Option<(String, u64)>,
        /// The exit code, if the shell of the host reports one.
        exit_code: Option<i32>,
    },
    /// The host ended the command at its time limit.
    TimedOut {
        /// Output before the time limit.
        output: String,
    },
    /// The command did not run, or the connection to its host was lost.
    Failed {
        /// Reason, as a complete sentence.
        reason: String,
    },
}

/// A boxed future, because [`HostCommands`] is used as a trait object.
pub type Running<'a> = Pin<Box<dyn Future<Output = HostCommandEnd> + Send + 'a>>;

/// Runs commands on remote hosts.
pub trait HostCommands: fmt::Debug + Send + Sync {
    /// Runs a command to its end. Dropping the future ends it.
    fn run(&self, command: HostCommand) -> Running<'_>;
}

/// The hosts of a process that cannot reach any remote host.
#[derive(Debug, Clone, Copy)]
pub struct NoHosts;

impl HostCommands for NoHosts {
    fn run(&self, command: HostCommand) -> Running<'_> {
        let reason = format!("Host '{}' cannot be reached from here.", command.host);
        Box::pin(std::future::ready(HostCommandEnd::Failed { reason }))
    }
}

/// Returns a command line that runs a command like a node on this computer: without a terminal, and with this standard
/// input. Standard output and standard error share a pipe.
fn shell_line(command: &str, stdin: Option<&str>) -> String {
    let quote = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    let stdin = match stdin {
        Some(text) => format!("< <(printf %s {})", quote(text)),
        None => "< /dev/null".to_owned(),
    };
    format!("( set -o pipefail; bash -c {} {stdin} 2>&1 | cat )", quote(command))
}

/// Runs the command of a bash node on a remote host.
pub(crate) async fn run(
    bash: &Bash,
    host: &str,
    command: String,
    template_values: &TemplateValues,
    node_environment: &NodeEnvironment,
    step: Option<String>,
    limit: Option<Duration>,
) -> ExecutorOutcome {
    let stdin = bash.stdin.as_deref().map(|stdin| template_values.text(stdin));
    let host_command = HostCommand {
        host: template_values.text(host),
        line: shell_line(&command, stdin.as_deref()),
        directory: bash.cwd.as_deref().map(|directory| template_values.text(directory)),
        environment: bash.env.iter().map(|(name, value)| (name.clone(), template_values.text(value))).collect(),
        step,
        limit,
    };
    let host = host_command.host.clone();
    outcome(node_environment.hosts.run(host_command).await, limit).with("command", command).with("host", host)
}

fn outcome(end: HostCommandEnd, limit: Option<Duration>) -> ExecutorOutcome {
    let (output, exit_code, failure, excess) = match end {
        HostCommandEnd::Failed { reason } => return Failure::new(ErrorType::Connection, reason).into(),
        HostCommandEnd::TimedOut { output } => {
            let seconds = limit.unwrap_or_default().as_secs_f64();
            let message = format!("The call exceeded its time limit of {seconds} s.");
            (output, None, Some(Failure::new(ErrorType::Timeout, message)), None)
        }
        HostCommandEnd::Ended { output, exit_code, rest: excess } => {
            let failure = match exit_code {
                Some(0) => None,
                Some(code) => {
                    let end = excess.as_ref().map_or(&output, |(tail, _)| tail);
                    let last_line = crate::kind::last_line(end).map(|line| format!(": {line}")).unwrap_or_default();
                    Some(Failure::new(
                        ErrorType::ExitCode,
                        format!("The command ended with exit code {code}{last_line}"),
                    ))
                }
                None => Some(Failure::new(ErrorType::Unknown, "The exit status of the command is unknown.")),
            };
            (output, exit_code, failure, excess)
        }
    };
    let outcome = ExecutorOutcome { output: Value::Null, failure, attributes: Map::new() };
    let outcome = match excess {
        None => outcome.with_output(output),
        Some((tail, omitted_bytes)) => outcome.with_excess_output(output, tail, omitted_bytes),
    };
    outcome.with("stderr", "").with("exit_code", json!(exit_code))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a line like the remote shell.
    fn run_locally(line: &str) -> (Option<i32>, String) {
        let output = std::process::Command::new("bash").args(["-c", line]).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    }

    #[test]
    fn line_runs_without_a_terminal_and_keeps_its_exit_code() {
        assert_eq!(run_locally(&shell_line("echo 'a b'; echo c >&2; exit 3", None)), (Some(3), "a b\nc\n".to_owned()));
        assert_eq!(
            run_locally(&shell_line("cat; echo .", Some("it's\n$HOME"))),
            (Some(0), "it's\n$HOME.\n".to_owned())
        );
        assert_eq!(run_locally(&shell_line("cat", None)), (Some(0), String::new()));
        assert_eq!(run_locally(&shell_line("[ -t 1 ] || echo none", None)).1, "none\n");
    }

    #[test]
    fn host_command_end_becomes_node_result() {
        let end_with = |exit_code| HostCommandEnd::Ended { output: "x\nno disk\n".to_owned(), rest: None, exit_code };
        let good = outcome(end_with(Some(0)), None);
        assert_eq!((good.failure, good.output), (None, json!("x\nno disk")));
        assert_eq!(good.attributes["stdout"], "x\nno disk\n");
        let excess = Some(("the end".to_owned(), 9));
        let excess_outcome =
            outcome(HostCommandEnd::Ended { output: "begin".to_owned(), rest: excess, exit_code: Some(0) }, None);
        assert_eq!((excess_outcome.failure.unwrap().kind, excess_outcome.output), (ErrorType::TooLarge, Value::Null));
        assert!(!excess_outcome.attributes.contains_key("stdout"), "{:?}", excess_outcome.attributes);
        assert_eq!(
            (&excess_outcome.attributes["stdout_head"], &excess_outcome.attributes["stdout_tail"]),
            (&json!("begin"), &json!("the end"))
        );
        let failed = outcome(end_with(Some(2)), None);
        assert_eq!(failed.failure.unwrap().message, "The command ended with exit code 2: no disk");
        assert_eq!(failed.attributes["exit_code"], 2);
        assert_eq!(outcome(end_with(None), None).failure.unwrap().kind, ErrorType::Unknown);
        let timeout_outcome =
            outcome(HostCommandEnd::TimedOut { output: "x".to_owned() }, Some(Duration::from_secs(2)));
        assert_eq!(timeout_outcome.failure.unwrap().message, "The call exceeded its time limit of 2 s.");
        assert_eq!(
            outcome(HostCommandEnd::Failed { reason: "gone".to_owned() }, None).failure.unwrap().kind,
            ErrorType::Connection
        );
    }
}
