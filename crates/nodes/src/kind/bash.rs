//! Bash nodes, which run one command line.
//!
//! The command is the leader of its own session, without a terminal. A time-out or an interrupt ends all processes that
//! it started. A command that ends on its own may leave processes running, as in any shell; nothing reads their later
//! output.

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
use crate::node::{checked, schema_of};
use crate::outcome::{ErrorType, ExecutorOutcome, Failure};
use crate::template::TemplateValues;
use capture::{Capture, CapturedText};

/// Time that programs left running by an ended command may keep its output open.
const OUTPUT_GRACE: Duration = Duration::from_millis(100);

/// Runs one command line with bash; success is exit code 0, and the output is what it printed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Bash {
    /// The command line; {input|sh} is the input, quoted for the shell. Left out, the input is the command line
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Another machine to run it on: one of `steplatch hosts list`. Its two streams come as one there
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Folder to run it in; left out, the workspace's, and on another machine the home directory
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Variables that are set for it; {secret:NAME} is a secret by reference
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Its standard input; {input} is the input
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
}

impl NodeSettings for Bash {
    fn read(own: &Map<String, Value>, common: &[String], problems: &mut Vec<Problem>) -> Option<Self> {
        checked(own, "", "a bash node", common, problems)
    }

    fn schema() -> Value {
        schema_of::<Self>()
    }

    fn warnings(&self) -> Vec<Problem> {
        if !self.command.as_deref().is_some_and(takes_unquoted_input) {
            return Vec::new();
        }
        let message = "the input goes into the command line as it is; '{input|sh}' quotes it for the shell";
        vec![Problem::warning("/command", message)]
    }

    async fn perform(&self, context: &CallContext<'_>) -> ExecutorOutcome {
        let CallContext { call, limit, filling, node_environment, .. } = context;
        let command = match command_of(self, filling) {
            Ok(command) => command,
            Err(failure) => return failure.into(),
        };
        if let Some(host) = &self.host {
            let (step, time) = (call.family.clone(), limit.duration());
            let running = crate::host::run(self, host, command, filling, node_environment, step, time);
            return tokio::select! {
                outcome = running => outcome,
                // Its time limit is that of the command over there, which then returns its output so far.
                () = call.interrupt.cancelled() => Failure::new(ErrorType::Interrupted, "The call was interrupted.").into(),
            };
        }
        // It has to end its programs before it returns.
        run(self, command, filling, node_environment, call.family.clone(), limit).await
    }
}

fn takes_unquoted_input(command: &str) -> bool {
    // A template that quotes its value shows it in quotes.
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
fn command_of(bash: &Bash, filling: &TemplateValues) -> Result<String, Failure> {
    match (&bash.command, filling.input()) {
        (Some(command), _) => Ok(filling.text(command)),
        (None, Value::String(line)) => Ok(line.clone()),
        (None, _) => {
            let message = "The node has no command, so its input must be one, as a text.";
            Err(Failure::new(ErrorType::InvalidInput, message))
        }
    }
}

async fn run(
    bash: &Bash,
    command: String,
    filling: &TemplateValues,
    node_environment: &NodeEnvironment,
    family: Option<String>,
    cut: &CallLimit,
) -> ExecutorOutcome {
    let stdin = bash.stdin.as_deref().map(|stdin| filling.text(stdin));
    let spec = PipedSpec {
        arguments: ["bash", "-c", &command].map(OsString::from).to_vec(),
        folder: folder(bash.cwd.as_deref(), filling, node_environment),
        environment: environment(&bash.env, filling, node_environment),
        stdin: if stdin.is_some() { Stdin::Piped } else { Stdin::Nothing },
        family,
    };
    let mut piped = match node_environment.programs.start(spec).await {
        Ok(piped) => piped,
        Err(error) => return ExecutorOutcome::from(not_started(&error)).with("command", command),
    };
    let (mut out, mut err) = (Capture::new(piped.take_stdout()), Capture::new(piped.take_stderr()));
    let feeding = feed(piped.take_stdin(), stdin.unwrap_or_default());
    let over = {
        let reading = async { tokio::join!(out.read(), err.read(), feeding) };
        tokio::pin!(reading);
        let mut all_read = false;
        loop {
            tokio::select! {
                exit = piped.wait() => {
                    if !all_read {
                        let _ = tokio::time::timeout(OUTPUT_GRACE, &mut reading).await;
                    }
                    break ProgramOutcome::ByItself(exit);
                }
                failure = cut.reached() => break ProgramOutcome::Cut(failure),
                _ = &mut reading, if !all_read => all_read = true,
            }
        }
    };
    let (exit, survivors, cut) = match over {
        ProgramOutcome::ByItself(exit) => (exit.ok(), Vec::new(), None),
        ProgramOutcome::Cut(failure) => {
            let ProcessEnd { exit, survivors } = end(piped, &mut out, &mut err).await;
            (exit, survivors, Some(failure))
        }
    };
    outcome(command, &out, &err, exit, &survivors, cut)
}

enum ProgramOutcome {
    ByItself(std::io::Result<Exit>),
    Cut(Failure),
}

/// Ends a command, and captures the rest of its output.
async fn end(piped: Piped, out: &mut Capture, err: &mut Capture) -> ProcessEnd {
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
    cut: Option<Failure>,
) -> ExecutorOutcome {
    let interrupted = cut.is_some();
    let (out, err) = (out.text(), err.text());
    let failure = cut.or_else(|| match exit {
        Some(Exit { code: 0, .. }) => None,
        Some(Exit { signal: Some(signal), .. }) => {
            Some(Failure::new(ErrorType::ExitCode, format!("The command was ended by signal {signal}.")))
        }
        Some(Exit { code, .. }) => {
            let last_line = err.last_line().map(|line| format!(": {line}")).unwrap_or_default();
            Some(Failure::new(ErrorType::ExitCode, format!("The command ended with exit code {code}{last_line}")))
        }
        None => Some(Failure::new(ErrorType::Unknown, "The exit status of the command is unknown.")),
    });
    let outcome = ExecutorOutcome { output: Value::Null, failure, attributes: Map::new() };
    let outcome = match out {
        CapturedText::Whole(text) => outcome.printed(text),
        CapturedText::Ends { head, tail, left_out } => outcome.printed_too_much(head, tail, left_out),
    };
    // Messages do not fail a successful command: a part of them has another name than the whole.
    let outcome = match err {
        CapturedText::Whole(text) => outcome.with("stderr", text),
        CapturedText::Ends { head, tail, left_out } => {
            outcome.with("stderr_head", head).with("stderr_tail", tail).with("stderr_left_out", left_out)
        }
    };
    let outcome = outcome
        .with("exit_code", exit.map_or(Value::Null, |exit| exit.code.into()))
        .with("command", command)
        .with("interrupted", interrupted);
    if survivors.is_empty() {
        return outcome;
    }
    let named: Vec<Value> = survivors.iter().map(|left| format!("{} ({})", left.name, left.pid).into()).collect();
    outcome.with("survivors", named)
}

/// Writes the command's standard input, and closes it. The command may ignore it.
async fn feed(stdin: Option<Sender>, text: String) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(text.as_bytes()).await;
    }
}

pub(super) fn not_started(error: &SpawnError) -> Failure {
    use std::error::Error as _;
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    Failure::new(ErrorType::NotStarted, format!("The program could not be started: {error}{cause}."))
}

/// Returns the working directory that a declaration names, relative to the workspace.
pub(super) fn folder(declared: Option<&str>, filling: &TemplateValues, node_environment: &NodeEnvironment) -> PathBuf {
    declared
        .map_or_else(|| node_environment.folder.clone(), |folder| node_environment.folder.join(filling.text(folder)))
}

/// Returns the environment of a node's program.
pub(super) fn environment(
    declared: &BTreeMap<String, String>,
    filling: &TemplateValues,
    node_environment: &NodeEnvironment,
) -> Vec<(OsString, OsString)> {
    let own = declared.iter().map(|(name, value)| (name.into(), filling.text(value).into()));
    // A later setting counts.
    node_environment.environment.iter().cloned().chain(own).collect()
}

/// Returns the last non-empty line of a program's output, for an error.
pub(crate) fn last_line(text: &str) -> Option<&str> {
    text.lines().map(str::trim).rfind(|line| !line.is_empty())
}
