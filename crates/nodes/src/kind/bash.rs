//! Bash nodes. A call runs one command line.
//!
//! The command is the leader of its own session, without a terminal. A timeout or an interrupt terminates all
//! processes that it started. A command that exits on its own may leave processes running, as in any shell; nothing
//! reads their later output.

mod capture;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use steplatch_terminal::{Exit, Piped, PipedSpec, ProcessEnd, Signal, SpawnError, Stdin, Survivor};
use steplatch_workflow::Problem;
use steplatch_workflow::substitute::{self, Lookup};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe::Sender;

use super::NodeSettings;
use crate::call::CallLimit;
use crate::context::{CallContext, NodeEnvironment};
use crate::node::{read_object, schema_of};
use crate::outcome::{ErrorType, ExecutorOutcome, Failure};
use crate::template::TemplateValues;
use capture::{Capture, CapturedText};

/// Grace period for programs that an exited command left running with its output open.
const OUTPUT_GRACE: Duration = Duration::from_millis(100);

/// Runs one command line with bash; success is exit code 0, and the output is what it printed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Bash {
    /// The command line; {input|sh} is the input, quoted for the shell. By default the input is the command line
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Remote host to run the command on, as listed by `steplatch hosts list`; its two output streams are merged
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Working directory (default: the workspace; on a remote host, the home directory)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Environment variables; {secret:NAME} is a secret by reference
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Standard input; {input} is the input
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
}

impl NodeSettings for Bash {
    fn read(fields: &Map<String, Value>, common_keys: &[String], problems: &mut Vec<Problem>) -> Option<Self> {
        read_object(fields, "", "a bash node", common_keys, problems)
    }

    fn schema() -> Value {
        schema_of::<Self>()
    }

    fn warnings(&self) -> Vec<Problem> {
        if !self.command.as_deref().is_some_and(takes_unquoted_input) {
            return Vec::new();
        }
        let message = "the input is inserted into the command line unquoted; '{input|sh}' quotes it for the shell";
        vec![Problem::warning("/command", message)]
    }

    async fn perform(&self, context: &CallContext<'_>) -> ExecutorOutcome {
        let CallContext { call, limit, template_values, node_environment, .. } = context;
        let command = match command_line(self, template_values) {
            Ok(command) => command,
            Err(failure) => return failure.into(),
        };
        if let Some(host) = &self.host {
            let (step, time) = (call.family.clone(), limit.duration());
            let running = crate::host::run(self, host, command, template_values, node_environment, step, time);
            return tokio::select! {
                outcome = running => outcome,
                // The remote host enforces the time limit, and then returns the output so far.
                () = call.interrupt.cancelled() => Failure::new(ErrorType::Interrupted, "The call was interrupted.").into(),
            };
        }
        // This function checks the limit itself, because it must end the programs before it returns.
        run(self, command, template_values, node_environment, call.family.clone(), limit).await
    }
}

fn takes_unquoted_input(command: &str) -> bool {
    // A placeholder that quotes its value puts the probe in quotes.
    struct Probe(Value);
    impl Lookup for Probe {
        fn get(&self, name: &str) -> Option<&Value> {
            (name == "input").then_some(&self.0)
        }
    }
    const PROBE: &str = "\u{1}probe\u{1}";
    let quoted = format!("'{PROBE}'");
    substitute::text(command, &Probe(PROBE.into())).replace(&quoted, "").contains(PROBE)
}

/// Returns the command line of a call.
fn command_line(bash: &Bash, template_values: &TemplateValues) -> Result<String, Failure> {
    match (&bash.command, template_values.input()) {
        (Some(command), _) => Ok(template_values.text(command)),
        (None, Value::String(line)) => Ok(line.clone()),
        (None, _) => {
            let message = "The node has no command, so its input must be a command, as a string.";
            Err(Failure::new(ErrorType::InvalidInput, message))
        }
    }
}

async fn run(
    bash: &Bash,
    command: String,
    template_values: &TemplateValues,
    node_environment: &NodeEnvironment,
    family: Option<String>,
    limit: &CallLimit,
) -> ExecutorOutcome {
    let stdin = bash.stdin.as_deref().map(|stdin| template_values.text(stdin));
    let spec = PipedSpec {
        arguments: ["bash", "-c", &command].map(OsString::from).to_vec(),
        directory: directory(bash.cwd.as_deref(), template_values, node_environment),
        environment: environment(&bash.env, template_values, node_environment),
        stdin: if stdin.is_some() { Stdin::Piped } else { Stdin::Nothing },
        family,
    };
    let mut piped = match node_environment.programs.start(spec).await {
        Ok(piped) => piped,
        Err(error) => return ExecutorOutcome::from(spawn_failure(&error)).with("command", command),
    };
    let (mut out, mut err) = (Capture::new(piped.take_stdout()), Capture::new(piped.take_stderr()));
    let writing = write_stdin(piped.take_stdin(), stdin.unwrap_or_default());
    let program_outcome = {
        let reading = async { tokio::join!(out.read(), err.read(), writing) };
        tokio::pin!(reading);
        let mut all_read = false;
        loop {
            tokio::select! {
                exit = piped.wait() => {
                    if !all_read {
                        let _ = tokio::time::timeout(OUTPUT_GRACE, &mut reading).await;
                    }
                    break ProgramOutcome::Exited(exit);
                }
                failure = limit.wait_until_reached() => break ProgramOutcome::Stopped(failure),
                _ = &mut reading, if !all_read => all_read = true,
            }
        }
    };
    let (exit, survivors, stop_failure) = match program_outcome {
        ProgramOutcome::Exited(exit) => (exit.ok(), Vec::new(), None),
        ProgramOutcome::Stopped(failure) => {
            let ProcessEnd { exit, survivors } = end_program(piped, &mut out, &mut err).await;
            (exit, survivors, Some(failure))
        }
    };
    outcome(command, &out, &err, exit, &survivors, stop_failure)
}

enum ProgramOutcome {
    Exited(std::io::Result<Exit>),
    /// The call's limit stopped the program.
    Stopped(Failure),
}

/// Stops a command and captures its remaining output.
async fn end_program(piped: Piped, out: &mut Capture, err: &mut Capture) -> ProcessEnd {
    let ending = piped.end(Some(Signal::TERM));
    let reading = async { tokio::join!(out.read(), err.read()) };
    tokio::pin!(ending, reading);
    tokio::select! {
        ended = &mut ending => ended,
        _ = &mut reading => ending.await,
    }
}

fn outcome(
    command: String,
    out: &Capture,
    err: &Capture,
    exit: Option<Exit>,
    survivors: &[Survivor],
    stop_failure: Option<Failure>,
) -> ExecutorOutcome {
    let interrupted = stop_failure.is_some();
    let (out, err) = (out.text(), err.text());
    let failure = stop_failure.or_else(|| match exit {
        Some(Exit { code: 0, .. }) => None,
        Some(Exit { signal: Some(signal), .. }) => {
            Some(Failure::new(ErrorType::ExitCode, format!("The command was terminated by signal {signal}.")))
        }
        Some(Exit { code, .. }) => {
            let last_line = err.last_line().map(|line| format!(": {line}")).unwrap_or_default();
            Some(Failure::new(ErrorType::ExitCode, format!("The command ended with exit code {code}{last_line}")))
        }
        None => Some(Failure::new(ErrorType::Unknown, "The exit status of the command is unknown.")),
    });
    let outcome = ExecutorOutcome { output: Value::Null, failure, attributes: Map::new() };
    let outcome = match out {
        CapturedText::Whole(text) => outcome.with_output(text),
        CapturedText::Ends { head, tail, omitted_bytes } => outcome.with_excess_output(head, tail, omitted_bytes),
    };
    // A long standard error does not fail the command. Its ends have different names than a complete text.
    let outcome = match err {
        CapturedText::Whole(text) => outcome.with("stderr", text),
        CapturedText::Ends { head, tail, omitted_bytes } => {
            outcome.with("stderr_head", head).with("stderr_tail", tail).with("stderr_left_out", omitted_bytes)
        }
    };
    let outcome = outcome
        .with("exit_code", exit.map_or(Value::Null, |exit| exit.code.into()))
        .with("command", command)
        .with("interrupted", interrupted);
    if survivors.is_empty() {
        return outcome;
    }
    let survivor_names: Vec<Value> =
        survivors.iter().map(|survivor| format!("{} ({})", survivor.name, survivor.pid).into()).collect();
    outcome.with("survivors", survivor_names)
}

/// Writes and closes the command's standard input. Ignores errors, because the command may not read its input.
async fn write_stdin(stdin: Option<Sender>, text: String) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(text.as_bytes()).await;
    }
}

pub(super) fn spawn_failure(error: &SpawnError) -> Failure {
    use std::error::Error as _;
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    Failure::new(ErrorType::NotStarted, format!("The program could not be started: {error}{cause}."))
}

/// Returns the working directory that a declaration names, relative to the workspace.
pub(super) fn directory(
    declared: Option<&str>,
    template_values: &TemplateValues,
    node_environment: &NodeEnvironment,
) -> PathBuf {
    declared.map_or_else(
        || node_environment.directory.clone(),
        |directory| node_environment.directory.join(template_values.text(directory)),
    )
}

/// Returns the environment of a node's program.
pub(super) fn environment(
    declared: &BTreeMap<String, String>,
    template_values: &TemplateValues,
    node_environment: &NodeEnvironment,
) -> Vec<(OsString, OsString)> {
    let declared_variables = declared.iter().map(|(name, value)| (name.into(), template_values.text(value).into()));
    // A later value overrides an earlier one.
    node_environment.environment.iter().cloned().chain(declared_variables).collect()
}

/// Returns the last non-empty line of a program's output, for an error.
pub(crate) fn last_line(text: &str) -> Option<&str> {
    text.lines().map(str::trim).rfind(|line| !line.is_empty())
}
