//! `steplatch run FILE` and `steplatch run NAME`: start a run and watch it.

use std::collections::VecDeque;
use std::future::pending;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use steplatch_protocol::{
    AnswerGate, AnswerGateReply, AskError, CallError, CancelWorkflow, DaemonPaths, EngineKind, FollowError, GateInfo,
    GetRun, GetWorkflowRun, ReconnectingClient, RerunRequest, RunEvent, RunReply, RunWorkflow,
};
use tokio::signal::unix::{SignalKind, signal};

use crate::child_runs::{ChildRuns, child};
use crate::failure::{FAILED, Failure};
use crate::gate_prompt::GatePrompt;
use crate::question::{Person, SECOND_INTERRUPT_TIMEOUT};
use crate::run_view::{LineView, View};
use crate::secret_arguments;
use crate::wait::AT_GATE_EXIT_CODE;
use crate::{completion, daemon_client, passphrase, print};

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Workflow: a JSON file, a .py file with a function (FILE.py:NAME selects one of several), or the name of a saved workflow
    ///
    /// An argument with a slash, with the ending .json or .py, or that is an existing file is a file.
    #[arg(value_name = "FILE|NAME", required_unless_present = "again", add = completion::files_and_workflows())]
    workflow: Option<String>,
    /// Run an ended run again, with its input; FILE|NAME is the definition to use in place of its own
    #[arg(long, value_name = "RUN", add = completion::runs())]
    again: Option<String>,
    /// State to begin at, with the results recorded before it (NAME, or NAME/2 for its second visit)
    #[arg(long, value_name = "STATE", requires = "again")]
    from: Option<String>,
    /// Perform again what cannot be taken back
    #[arg(long, requires = "from")]
    repeat: bool,
    /// Set a workflow variable (repeatable)
    #[arg(long, short, value_name = "NAME=VALUE", value_parser = parse_variable)]
    input: Vec<(String, String)>,
    /// Terminal to use; without it the workflow opens one
    #[arg(long, value_name = "TERMINAL", add = completion::terminals())]
    session: Option<String>,
    /// Maximum number of states to execute
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    max_states: Option<u32>,
    /// Time limit of the run in seconds (1 to 7200; default 1800); gates and pauses do not count
    #[arg(long, value_name = "SECONDS", value_parser = parse_run_timeout)]
    timeout: Option<f64>,
    /// Leave the terminals that the run opened open when it ends
    #[arg(long)]
    keep_terminals: bool,
    /// Idempotency key: the same key returns the existing run
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Engine that decides the run: sqlite (this daemon) or temporal (see 'steplatch worker') [default: setting engine.kind]
    #[arg(long, value_name = "ENGINE", value_parser = crate::settings::parse_engine)]
    on: Option<EngineKind>,
    /// Save the workflow in the library if the run completes
    // A person already has the file, and two copies diverge; an agent's workflow is lost unless it is saved.
    #[arg(long)]
    save: bool,
    /// Start the run, print its id and exit
    #[arg(long, short)]
    detach: bool,
    /// Print only the result, as JSON
    #[arg(long)]
    json: bool,
}

/// Parses an initial variable of a run.
pub(super) fn parse_variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("a variable must have the form name=value".to_owned()),
    }
}

/// Parses the time limit of a run, in seconds.
pub(super) fn parse_run_timeout(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (1.0..=7200.0).contains(seconds));
    seconds.ok_or_else(|| "must be a number of seconds from 1 to 7200".to_owned())
}

/// Splits an argument into a file and a workflow in it: `stories.py:one` is the workflow `one` of `stories.py`.
pub(crate) fn file_and_workflow(argument: &str) -> (&str, Option<&str>) {
    match argument.rsplit_once(':') {
        Some((file, workflow)) if file.ends_with(".py") => (file, Some(workflow)),
        _ => (argument, None),
    }
}

/// Returns whether `workflow` refers to a file. A workflow may have the name of an existing directory.
fn is_file_argument(workflow: &str) -> bool {
    workflow.contains('/') || workflow.ends_with(".json") || workflow.ends_with(".py") || Path::new(workflow).is_file()
}

/// Part of the daemon's error for an unsaved workflow.
const NOT_FOUND_TEXT: &str = "not found. Available workflows";

/// Beginning of the daemon's error for an invalid definition. One line for each problem follows.
const INVALID_PREFIX: &str = "Workflow definition validation failed:\n";

/// Formats the daemon's error about a run of the workflow or file `workflow` for people.
fn describe_refusal(workflow: &str, error: String) -> String {
    if let Some(problems) = error.strip_prefix(INVALID_PREFIX) {
        let count = match problems.lines().count() {
            1 => "1 problem".to_owned(),
            many => format!("{many} problems"),
        };
        let problems: String = problems.lines().map(|problem| format!("\n  {problem}")).collect();
        return format!("{workflow}: {count}{problems}");
    }
    match same_named_file(workflow).filter(|_| error.contains(NOT_FOUND_TEXT)) {
        Some(file) => {
            format!("no workflow is saved as '{workflow}'; did you mean the file: steplatch run {}", file.display())
        }
        None => error,
    }
}

/// Returns the file in the current directory that a name without an extension may mean.
pub(super) fn same_named_file(name: &str) -> Option<PathBuf> {
    ["json", "py"].into_iter().map(|extension| PathBuf::from(format!("{name}.{extension}"))).find(|file| file.is_file())
}

impl Run {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let (json, detach) = (self.json, self.detach);
        let workflow = self.workflow.clone().or_else(|| self.again.clone()).unwrap_or_default();
        let reuse_remark = self.from.as_ref().zip(self.again.as_ref());
        let reuse_remark =
            reuse_remark.map(|(state, run)| format!("the steps before '{state}' are taken over from {run}"));
        let daemon = daemon_client::reconnecting_client(paths)?;
        let mut verb = self.request()?;
        if !json {
            secret_arguments::ask(&daemon, &mut verb).await?;
        }
        let reply = daemon.call(verb).await?;
        if reply.run_id.is_empty() {
            let error = reply.error.clone().unwrap_or_else(|| "the run did not start".to_owned());
            let error = describe_refusal(&workflow, error);
            return Err(Failure::usage(error).with(&reply));
        }
        if detach {
            if json {
                print::json(&reply)?;
            } else {
                print::line(&reply.run_id)?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        if let Some(reuse_remark) = reuse_remark.filter(|_| !json) {
            print::remark(&reuse_remark);
        }
        let (end, reply) = watch(&daemon, reply.run_id, json).await?;
        if json {
            print::json(&reply)?;
        } else if let Some(save_error) = reply.error.as_ref().filter(|_| reply.success) {
            print::remark(save_error);
        }
        Ok(ExitCode::from(if end == WatchEnd::AtGate { AT_GATE_EXIT_CODE } else { exit_code(&reply) }))
    }

    fn request(self) -> Result<RunWorkflow, Failure> {
        let mut request = RunWorkflow {
            session_id: self.session,
            initial_variables: Some(self.input.into_iter().map(|(name, text)| (name, text.into())).collect()),
            max_states: self.max_states,
            execution_timeout: self.timeout,
            keep_terminals: self.keep_terminals,
            save_on_success: self.save,
            wait_seconds: Some(0.0),
            idempotency_key: self.key,
            engine: self.on,
            ..RunWorkflow::default()
        };
        request.again =
            self.again.map(|run_id| RerunRequest { run_id, from_state: self.from, repeat_irreversible: self.repeat });
        if let Some(argument) = self.workflow {
            set_workflow(&mut request, &argument)?;
        }
        Ok(request)
    }
}

/// Sets the workflow of a request: a file, a function in a file, or a saved workflow.
///
/// # Errors
/// If the argument is not a path.
pub(super) fn set_workflow(request: &mut RunWorkflow, argument: &str) -> Result<(), Failure> {
    let (file, workflow) = file_and_workflow(argument);
    if !is_file_argument(file) {
        request.workflow_name = Some(argument.to_owned());
        return Ok(());
    }
    request.workflow_name = workflow.map(str::to_owned);
    let file = std::path::absolute(file);
    let file = file.map_err(|error| Failure::usage(format!("'{argument}' is not a path: {error}")))?;
    request.workflow_file = Some(file.display().to_string());
    Ok(())
}

/// Follows a run to its end, or to a gate that is not answered here. Returns the daemon's reply about the run.
pub(super) async fn watch(
    daemon: &ReconnectingClient,
    run: String,
    silent: bool,
) -> Result<(WatchEnd, RunReply), Failure> {
    let mut line_view = LineView::new(std::io::stdout().is_terminal());
    let watcher = RunWatcher {
        daemon,
        run: &run,
        view: if silent { &mut SilentView } else { &mut line_view },
        person: Person::at_terminal().filter(|_| !silent),
        questions: VecDeque::new(),
        children: ChildRuns::new(daemon.clone()),
    };
    let end = watcher.watch().await?;
    // A run's cleanup follows its last event.
    let wait_seconds = (end == WatchEnd::Ended).then_some(10.0);
    let reply = daemon.call(GetRun { run_id: run, wait_seconds, ..GetRun::default() }).await?;
    Ok((end, reply))
}

/// Starts a run and lets the person at this terminal answer its gates. Returns the daemon's reply about the run at its
/// end, or at a gate that is not answered here.
///
/// # Errors
/// If the run did not start, or the connection to the daemon was lost.
pub(super) async fn run_to_end(daemon: &ReconnectingClient, mut verb: RunWorkflow) -> Result<RunReply, Failure> {
    secret_arguments::ask(daemon, &mut verb).await?;
    let reply = daemon.call(RunWorkflow { wait_seconds: Some(0.0), ..verb }).await?;
    if reply.run_id.is_empty() {
        let error = reply.error.clone().unwrap_or_else(|| "the run did not start".to_owned());
        return Err(Failure::usage(error).with(&reply));
    }
    watch(daemon, reply.run_id, false).await.map(|(_, reply)| reply)
}

fn exit_code(reply: &RunReply) -> u8 {
    match reply.status.as_str() {
        "completed" => 0,
        "waiting" => AT_GATE_EXIT_CODE,
        _ => FAILED,
    }
}

/// Watcher of a run, for a person or a script.
struct RunWatcher<'a> {
    daemon: &'a ReconnectingClient,
    run: &'a str,
    view: &'a mut dyn View,
    /// Person at the terminal. `None` unless input and output are terminals.
    person: Option<Person>,
    /// The open questions, the current one first.
    questions: VecDeque<GatePrompt>,
    /// Nested runs that are followed.
    children: ChildRuns,
}

/// Reason that watching ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WatchEnd {
    /// The run has ended.
    Ended,
    /// The run, or a nested one, waits at a gate that is not answered here.
    AtGate,
}

type Cancellation = Pin<Box<dyn Future<Output = Result<(), AskError>>>>;

impl RunWatcher<'_> {
    /// Shows the events of the run until its end, or until it waits at a gate that is not answered here. Ctrl-C cancels
    /// the run, and a second Ctrl-C stops watching. At a question, the first Ctrl-C leaves the question open, and the
    /// second Ctrl-C cancels the run.
    async fn watch(mut self) -> Result<WatchEnd, Failure> {
        let mut events = self.daemon.follow(self.run, 1);
        let mut interrupted = signal(SignalKind::interrupt())?;
        let mut ticks = tokio::time::interval(Duration::from_millis(100));
        let mut cancellation: Option<Cancellation> = None;
        let mut cancel_requested = false;
        loop {
            tokio::select! {
                event = events.next() => {
                    let event = event.map_err(|error| follow_failure(self.run, error))?;
                    let Some(event) = event else { return Ok(WatchEnd::Ended) };
                    if let Some(end) = self.show(&event).await? {
                        return Ok(end);
                    }
                }
                event = self.children.next() => {
                    if let Some(end) = self.show(&event).await? {
                        return Ok(end);
                    }
                }
                line = next_line(&mut self.person), if !self.questions.is_empty() => {
                    if let Some(end) = self.answer(line).await? {
                        return Ok(end);
                    }
                }
                _ = interrupted.recv() => {
                    if cancel_requested {
                        return Err(Failure::work(format!("stopped watching; the run continues: {}", self.run)));
                    }
                    if let Some(gate) = self.questions.front().map(|question| question.gate().clone()) {
                        self.end_question();
                        self.view.remark("the question is left open; leaving in 2 s, Ctrl-C again cancels the run")?;
                        if tokio::time::timeout(SECOND_INTERRUPT_TIMEOUT, interrupted.recv()).await.is_err() {
                            return Ok(self.leave_to_others(&gate)?.unwrap_or(WatchEnd::AtGate));
                        }
                        // A cancelled run accepts no answers.
                        self.questions.clear();
                    }
                    cancel_requested = true;
                    let (daemon, run_id) = (self.daemon.clone(), self.run.to_owned());
                    cancellation = Some(Box::pin(async move {
                        daemon.call(CancelWorkflow { run_id }).await.map(|_| ())
                    }));
                }
                result = finish_cancel(&mut cancellation) => {
                    cancellation = None;
                    result?;
                }
                // An animation would overwrite the line that the person types.
                _ = ticks.tick(), if self.view.is_animated() && self.questions.is_empty() => self.view.tick()?,
            }
        }
    }

    /// Shows an event of the run or of a nested run.
    async fn show(&mut self, event: &RunEvent) -> Result<Option<WatchEnd>, Failure> {
        self.children.follow_started_run(event);
        // The events of a nested run come before the end of the state that started it. The end of that state removes
        // the questions of the run.
        for nested in self.children.take_ended(event).await {
            self.view.show(&nested)?;
        }
        match event.event_type.as_str() {
            "state_completed" if event.run_id == self.run => {
                self.questions.retain(|question| question.gate().run_id == self.run);
            }
            "nested_workflow_completed" | "nested_workflow_failed" | "nested_workflow_cancelled" => {
                self.questions.retain(|question| Some(question.gate().run_id.as_str()) != child(event));
            }
            _ => {}
        }
        let had_prompt = self.view.has_prompt_at_end();
        self.view.show(event)?;
        if event.is_last() && event.run_id == self.run {
            return Ok(Some(WatchEnd::Ended));
        }
        // The event replaced the prompt: show the prompt again.
        if let Some(question) = self.questions.front().filter(|_| had_prompt && !self.view.has_prompt_at_end()) {
            self.view.prompt(&question.prompt())?;
        }
        let gate = event.data.get("gate_id").and_then(serde_json::Value::as_str).unwrap_or_default();
        match event.event_type.as_str() {
            "gate_waiting" => {
                // The events of a run also include events of gates that are already answered.
                let Some(gate) = self.open_gate(&event.run_id, gate).await? else { return Ok(None) };
                if self.person.is_none() {
                    self.view.question(&gate)?;
                    return self.leave_to_others(&gate);
                }
                self.questions.push_back(GatePrompt::new(gate));
                if self.questions.len() == 1 {
                    self.ask()?;
                }
            }
            "gate_answered" | "gate_timeout" | "gate_cancelled" => {
                let is_current = self.questions.front().is_some_and(|question| question.gate().gate_id == gate);
                self.questions.retain(|question| question.gate().gate_id != gate);
                if is_current {
                    self.end_question();
                    self.ask()?;
                }
            }
            _ => {}
        }
        Ok(None)
    }

    /// Prints the command that answers the gate elsewhere.
    fn leave_to_others(&mut self, gate: &GateInfo) -> Result<Option<WatchEnd>, Failure> {
        let answer = if gate.form.is_some() { "--field NAME=VALUE" } else { "ANSWER" };
        self.view.remark(&format!("answer it with: steplatch gates answer {} {answer}", gate.name_with_digest()))?;
        Ok(Some(WatchEnd::AtGate))
    }

    /// Shows the first question, if there is one.
    fn ask(&mut self) -> Result<(), Failure> {
        self.end_question();
        if let (Some(question), Some(person)) = (self.questions.front(), &mut self.person) {
            // Listen before the question is visible, because the person may type immediately.
            person.listen();
            self.view.question(question.gate())?;
            self.view.remark("Ctrl-C leaves the question open, twice cancels the run")?;
        }
        self.ask_next_line()
    }

    /// Shows the prompt for the next line of the first question.
    fn ask_next_line(&mut self) -> Result<(), Failure> {
        if let (Some(question), Some(person)) = (self.questions.front(), &mut self.person) {
            match question.is_secret() {
                true => person.listen_without_echo(),
                false => person.end_question(),
            }
            for line in question.lead() {
                self.view.lead(&line)?;
            }
            self.view.prompt(&question.prompt())?;
        }
        Ok(())
    }

    fn end_question(&mut self) {
        if let Some(person) = &mut self.person {
            person.end_question();
        }
    }

    /// Adds a line to the answer of the first question and sends the answer once it is complete.
    async fn answer(&mut self, line: Option<String>) -> Result<Option<WatchEnd>, Failure> {
        let Some(mut question) = self.questions.pop_front() else { return Ok(None) };
        let Some(line) = line else {
            self.end_question();
            return self.leave_to_others(question.gate());
        };
        let error = match question.line(&line) {
            Ok(Some(answer)) => match self.send(&answer).await? {
                Some(reply) => match question.handle_rejection(answer, &reply) {
                    Some(reason) => Some(reason),
                    None => return self.continue_question(question),
                },
                None => None,
            },
            Ok(None) => return self.continue_question(question),
            Err(invalid) => Some(invalid),
        };
        if let Some(error) = error {
            self.view.remark(&error)?;
            // The gate may be closed, because another client may have answered it.
            if self.open_gate(&question.gate().run_id, &question.gate().gate_id).await?.is_some() {
                return self.continue_question(question);
            }
        }
        self.ask()?;
        Ok(None)
    }

    /// Continues a question with the prompt for its next line.
    fn continue_question(&mut self, question: GatePrompt) -> Result<Option<WatchEnd>, Failure> {
        self.questions.push_front(question);
        self.ask_next_line()?;
        Ok(None)
    }

    /// Answers a gate. Returns the reply only if the answer was refused.
    ///
    /// If the connection is lost, the answer may have arrived. An answer names its gate, so that it can be sent again
    /// while the gate is open.
    async fn send(&mut self, answer: &AnswerGate) -> Result<Option<AnswerGateReply>, Failure> {
        loop {
            match self.daemon.call(answer.clone()).await {
                Ok(AnswerGateReply { retry_after_seconds: Some(seconds), .. }) => {
                    self.view.remark(&passphrase::pause_message(seconds))?;
                    if !passphrase::sleep_unless_interrupted(seconds).await? {
                        return Err(Failure::work(format!("stopped watching; the run continues: {}", self.run)));
                    }
                }
                Ok(reply) => return Ok(Some(reply).filter(|reply| !reply.success)),
                Err(AskError::Call(CallError::Lost)) => {
                    let gate = answer.gate_id.as_deref().unwrap_or_default();
                    if self.open_gate(&answer.run_id, gate).await?.is_none() {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns the gate `id` of a run if it is open.
    async fn open_gate(&self, run: &str, id: &str) -> Result<Option<GateInfo>, Failure> {
        let reply = self.daemon.call(GetWorkflowRun { run_id: run.to_owned() }).await?;
        let gates = reply.run.map(|run| run.pending_gates).unwrap_or_default();
        Ok(gates.into_iter().find(|gate| gate.gate_id == id))
    }
}

/// Returns the next line of the person. Never returns without a person.
async fn next_line(person: &mut Option<Person>) -> Option<String> {
    match person {
        Some(person) => person.line().await,
        None => pending().await,
    }
}

async fn finish_cancel(cancellation: &mut Option<Cancellation>) -> Result<(), AskError> {
    match cancellation {
        Some(cancellation) => cancellation.await,
        None => pending().await,
    }
}

fn follow_failure(run: &str, error: FollowError) -> Failure {
    match error {
        FollowError::Unknown(_) => {
            Failure::work(format!("the daemon no longer knows run {run}; list runs with: steplatch runs list"))
        }
        error => error.into(),
    }
}

/// View that shows nothing.
struct SilentView;

impl View for SilentView {
    fn show(&mut self, _: &RunEvent) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_recognised_by_its_notation() {
        assert!(is_file_argument("release.json") && is_file_argument("./release") && is_file_argument("/no/such/file"));
        assert!(is_file_argument("Cargo.toml"), "an existing file is a workflow file");
        assert!(!is_file_argument("src"), "a directory is not a workflow");
        assert!(!is_file_argument("release"));
    }
}
