//! Runs of workflows: started, driven, looked at, cancelled.
//!
//! Owns every run of this daemon. What happens next is decided in `workflow`; a
//! task for each run appends the events, performs the effects, and brings their
//! outcomes back. A run goes on whoever asked for it.

mod catalog;
mod child;
mod contract;
mod drive;
mod event;
mod named;
mod report;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};
use steplatch_ids::{RunId, StepId};
use steplatch_protocol::{
    AnswerGate, AnswerGateReply, CancelWorkflow, CancelWorkflowReply, GateInfo, GetRun, GetWorkflowRun,
    GetWorkflowRunReply, ListWorkflowRuns, ListWorkflowRunsReply, RunRecord, RunReply, RunWorkflow, Subscribe,
    SubscribeReply,
};
use steplatch_store::{Journal, MemoryJournal};
use steplatch_workflow::{Definition, Gate, Input, InvalidLimits, Limits, NONE_OF_THESE, Start, Timestamp};
use tokio::sync::{mpsc, watch};

pub(crate) use event::RunEvents;

use crate::caller::Caller;
use crate::moment;
use crate::secrets::Secrets;
use crate::sessions::Sessions;
pub use catalog::TerminalTools;
use named::{NamedWorkflows, NoLibrary};

/// How long a start waits for the end of its run unless it says otherwise.
const USUAL_WAIT: f64 = 20.0;

/// Finished runs that are kept; the oldest go first.
const FINISHED_KEPT: usize = 500;

/// All runs.
#[derive(Debug)]
pub(crate) struct Runs {
    shared: Arc<Shared>,
}

/// What runs have in common.
#[derive(Debug)]
struct Shared {
    journal: MemoryJournal,
    sessions: Sessions,
    secrets: Arc<Secrets>,
    named: Box<dyn NamedWorkflows>,
    runs: Mutex<Known>,
}

/// What a new run is made of.
struct Beginning {
    definition: Definition,
    variables: Map<String, Value>,
    /// The step of another run that starts it.
    parent: Option<StepId>,
}

#[derive(Debug, Default)]
struct Known {
    by_id: HashMap<RunId, Arc<Run>>,
    /// In the order in which they began.
    order: Vec<RunId>,
}

/// One run, as it is seen from outside of its task.
#[derive(Debug)]
struct Run {
    id: RunId,
    workflow: String,
    started: Timestamp,
    input: Map<String, Value>,
    parent: Option<StepId>,
    inputs: mpsc::UnboundedSender<Input>,
    progress: watch::Receiver<Progress>,
}

/// How far a run is.
#[derive(Debug, Clone, Default)]
struct Progress {
    /// Number of its last entry.
    seq: u64,
    state: RunState,
    ended: Option<Timestamp>,
    error: Option<String>,
    /// The question that it waits for.
    gate: Option<Gate>,
}

/// The state of a run, as people know it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum RunState {
    #[default]
    Running,
    Waiting,
    Completed,
    Failed,
    Cancelled,
}

impl RunState {
    const ALL: [Self; 5] = [Self::Running, Self::Waiting, Self::Completed, Self::Failed, Self::Cancelled];

    fn is_over(self) -> bool {
        !matches!(self, Self::Running | Self::Waiting)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl Run {
    fn progress(&self) -> Progress {
        self.progress.borrow().clone()
    }

    /// Waits until the run is over, or the time is up.
    async fn over(&self, at_most: Duration) {
        self.reaches(RunState::is_over, at_most).await;
    }

    /// Waits until the run is over or waits itself for somebody, or the time is up.
    async fn at_rest(&self, at_most: Duration) {
        self.reaches(|state| state != RunState::Running, at_most).await;
    }

    async fn reaches(&self, wanted: impl Fn(RunState) -> bool, at_most: Duration) {
        let mut progress = self.progress.clone();
        let reached = progress.wait_for(|progress| wanted(progress.state));
        // Either way the run is as far as it is.
        let _ = tokio::time::timeout(at_most, reached).await;
    }

    /// Waits until the run is over; tells whether it is, once the time is up.
    async fn over_within(&self, limit: Option<Duration>) -> bool {
        // No run lasts longer than its own limit, which is less than this.
        self.over(limit.unwrap_or(Duration::from_secs(86_400))).await;
        self.progress().state.is_over()
    }

    fn record(&self, secrets: &Secrets) -> RunRecord {
        let progress = self.progress();
        let mut input = Value::Object(self.input.clone());
        secrets.mask_in(&mut input);
        let gate = progress.gate.as_ref().map(|gate| gate_info(&self.id, gate, secrets));
        RunRecord {
            run_id: self.id.to_string(),
            workflow_id: self.workflow.clone(),
            state: progress.state.name().to_owned(),
            started_at: moment::told(self.started),
            completed_at: progress.ended.map(moment::told),
            input: match input {
                Value::Object(input) => input,
                _ => Map::new(),
            },
            error: secrets.masked_if(progress.error),
            pending_gates: gate.iter().cloned().collect(),
            pending_gate: gate,
            parent_run_id: self.parent.as_ref().map(|step| step.run.to_string()),
        }
    }
}

impl Shared {
    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the run that a step of another one started.
    fn started_by(&self, step: &StepId) -> Option<Arc<Run>> {
        self.known().by_id.values().find(|run| run.parent.as_ref() == Some(step)).cloned()
    }

    /// Begins a run, which goes on by itself from here.
    fn begin(
        self: &Arc<Self>,
        caller: &Arc<Caller>,
        beginning: Beginning,
        start: impl FnOnce(RunId, Map<String, Value>, Option<StepId>) -> Start,
    ) -> Arc<Run> {
        let Beginning { definition, variables, parent } = beginning;
        let id = RunId::random();
        let workflow = definition.name().map_or_else(|| "unnamed".to_owned(), ToString::to_string);
        let (inputs, received) = mpsc::unbounded_channel();
        let (progress, watched) = watch::channel(Progress::default());
        let run = Arc::new(Run {
            id: id.clone(),
            workflow,
            started: moment::now(),
            input: variables.clone(),
            parent: parent.clone(),
            inputs: inputs.clone(),
            progress: watched,
        });
        let start = start(id.clone(), variables, parent);
        self.remember(run.clone());
        let driver = drive::Driver::new(self.clone(), caller.clone(), definition, id, inputs, progress);
        tokio::spawn(driver.drive(start, received));
        run
    }

    /// Keeps a new run and forgets the oldest finished ones beyond what is kept.
    fn remember(self: &Arc<Self>, run: Arc<Run>) {
        let mut known = self.known();
        known.order.push(run.id.clone());
        known.by_id.insert(run.id.clone(), run);
        let is_over = |id: &&RunId| known.by_id.get(*id).is_some_and(|run| run.progress().state.is_over());
        let finished: Vec<RunId> = known.order.iter().filter(is_over).cloned().collect();
        let surplus = finished.len().saturating_sub(FINISHED_KEPT);
        let forgotten: Vec<RunId> = finished.into_iter().take(surplus).collect();
        for id in &forgotten {
            known.by_id.remove(id);
        }
        known.order.retain(|id| !forgotten.contains(id));
        drop(known);
        if !forgotten.is_empty() {
            let shared = self.clone();
            // Nobody waits for it: what is forgotten is not found any more.
            tokio::spawn(async move {
                for id in forgotten {
                    if let Err(error) = shared.journal.forget(&id).await {
                        tracing::warn!(run = %id, %error, "a finished run is kept longer than it should be");
                    }
                }
            });
        }
    }
}

impl Runs {
    pub(crate) fn new(sessions: Sessions, secrets: Arc<Secrets>) -> Self {
        let journal = MemoryJournal::default();
        let named = Box::new(NoLibrary);
        Self { shared: Arc::new(Shared { journal, sessions, secrets, named, runs: Mutex::default() }) }
    }

    pub(crate) fn count_running(&self) -> usize {
        self.all().iter().filter(|run| !run.progress().state.is_over()).count()
    }

    pub(crate) async fn cancel_all(&self, reason: &str) {
        let running: Vec<_> = self.all().into_iter().filter(|run| !run.progress().state.is_over()).collect();
        for run in &running {
            // One that ended just now needs no end.
            let _ = run.inputs.send(Input::Cancel { reason: reason.to_owned() });
        }
        for run in running {
            run.over(Duration::from_secs(5)).await;
        }
    }

    /// Starts a run and waits for its end as long as was asked.
    pub(crate) async fn run(&self, caller: &Arc<Caller>, verb: RunWorkflow) -> RunReply {
        let wait = verb.wait_seconds.unwrap_or(USUAL_WAIT).clamp(0.0, 7200.0);
        match self.start(caller, verb).await {
            Ok(run) => {
                run.at_rest(Duration::from_secs_f64(wait)).await;
                self.report(&run).await
            }
            Err(reply) => *reply,
        }
    }

    async fn start(&self, caller: &Arc<Caller>, verb: RunWorkflow) -> Result<Arc<Run>, Box<RunReply>> {
        let definition = definition(caller, &verb)?;
        let limits = limits(&verb).map_err(|error| not_started("execution_error", error.to_string()))?;
        if let Some(session) = &verb.session_id {
            let found = self.shared.sessions.exists(session).await;
            found.map_err(|error| not_started("execution_error", error))?;
        }
        let variables: Map<String, Value> = verb
            .initial_variables
            .unwrap_or_default()
            .into_iter()
            .map(|(name, value)| (name, Value::String(value)))
            .collect();
        let beginning = Beginning { definition, variables, parent: None };
        Ok(self.shared.begin(caller, beginning, |run, variables, parent| Start {
            run,
            session_id: verb.session_id,
            variables,
            limits,
            keep_terminals: verb.keep_terminals,
            parent,
            depth: 0,
        }))
    }

    pub(crate) async fn look_at(&self, verb: GetRun) -> RunReply {
        match self.find(&verb.run_id) {
            Ok(run) => {
                if let Some(wait) = verb.wait_seconds {
                    run.at_rest(Duration::from_secs_f64(wait.clamp(0.0, 7200.0))).await;
                }
                self.report(&run).await
            }
            Err(error) => RunReply { run_id: verb.run_id, error: Some(error), ..RunReply::default() },
        }
    }

    pub(crate) async fn cancel(&self, verb: CancelWorkflow) -> CancelWorkflowReply {
        let run = match self.find(&verb.run_id) {
            Ok(run) => run,
            Err(error) => {
                return CancelWorkflowReply {
                    run_id: verb.run_id,
                    error: Some(error),
                    ..CancelWorkflowReply::default()
                };
            }
        };
        let before = run.progress().state;
        if !before.is_over() {
            // A run that ends at this very moment is over either way.
            let _ = run.inputs.send(Input::Cancel { reason: "cancelled on request".to_owned() });
            run.over(Duration::from_secs(5)).await;
        }
        let state = run.progress().state;
        let message = match (before, state) {
            (before, RunState::Cancelled) if !before.is_over() => "Run cancelled".to_owned(),
            (_, state) => format!("Run was already over: {}", state.name()),
        };
        CancelWorkflowReply {
            success: true,
            run_id: run.id.to_string(),
            state: state.name().to_owned(),
            message,
            error: None,
        }
    }

    /// Passes a judgement on to the run that waits for it.
    pub(crate) async fn answer(&self, caller: &Caller, verb: AnswerGate) -> AnswerGateReply {
        let refused = |status: RunState, error: String| AnswerGateReply {
            success: false,
            run_id: verb.run_id.clone(),
            status: status.name().to_owned(),
            error: Some(error),
        };
        let run = match self.find(&verb.run_id) {
            Ok(run) => run,
            Err(error) => {
                return AnswerGateReply { run_id: verb.run_id, error: Some(error), ..AnswerGateReply::default() };
            }
        };
        let mut progress = run.progress.clone();
        let (seq, state, gate) = {
            let now = progress.borrow_and_update();
            (now.seq, now.state, now.gate.clone())
        };
        let Some(gate) = gate else {
            let error = format!("Run '{}' waits for no answer: it is {}", run.id, state.name());
            return refused(state, error);
        };
        let info = gate_info(&run.id, &gate, &self.shared.secrets);
        if let Some(asked) = verb.gate_id.as_deref().filter(|asked| *asked != info.gate_id) {
            let error = format!("Gate '{asked}' is not the one that waits, which is '{}'", info.gate_id);
            return refused(state, error);
        }
        let Some(choice) = gate
            .choices
            .iter()
            .map(|choice| choice.description.as_str())
            .chain([NONE_OF_THESE])
            .zip(&info.choices)
            // A choice may hold a secret, and then what is shown of it is what can be answered.
            .find(|(choice, shown)| *choice == verb.answer || **shown == verb.answer)
            .map(|(choice, _)| choice.to_owned())
        else {
            let error = format!("'{}' is none of the choices: {}", verb.answer, info.choices.join(" | "));
            return refused(state, error);
        };
        // A run that ends at this very moment waits for nobody.
        let _ = run.inputs.send(Input::GateAnswered { step: gate.step.clone(), choice, by: caller.who() });
        let moved = progress.wait_for(|now| now.seq > seq || now.gate.as_ref() != Some(&gate) || now.state.is_over());
        let _ = tokio::time::timeout(Duration::from_secs(5), moved).await;
        let status = run.progress().state.name().to_owned();
        AnswerGateReply { success: true, run_id: run.id.to_string(), status, error: None }
    }

    pub(crate) fn record(&self, verb: &GetWorkflowRun) -> GetWorkflowRunReply {
        match self.find(&verb.run_id) {
            Ok(run) => GetWorkflowRunReply { success: true, run: Some(run.record(&self.shared.secrets)), error: None },
            Err(error) => GetWorkflowRunReply { error: Some(error), ..GetWorkflowRunReply::default() },
        }
    }

    pub(crate) fn list(&self, verb: &ListWorkflowRuns) -> ListWorkflowRunsReply {
        let state = match verb.state.as_deref() {
            None => None,
            Some(name) => match RunState::ALL.into_iter().find(|state| state.name() == name) {
                Some(state) => Some(state),
                None => {
                    let known = RunState::ALL.map(RunState::name).join(", ");
                    let error = format!("Invalid state: {name}; states are {known}");
                    return ListWorkflowRunsReply { error: Some(error), ..ListWorkflowRunsReply::default() };
                }
            },
        };
        let wanted = |run: &Arc<Run>| {
            state.is_none_or(|state| run.progress().state == state)
                && verb.workflow_id.as_ref().is_none_or(|workflow| *workflow == run.workflow)
        };
        let newest_first = self.all().into_iter().rev().filter(wanted);
        let runs = newest_first.map(|run| run.record(&self.shared.secrets)).collect();
        ListWorkflowRunsReply { success: true, runs, error: None }
    }

    pub(crate) fn subscribe(&self, verb: &Subscribe) -> (SubscribeReply, Option<RunEvents>) {
        match self.find(&verb.run_id) {
            Ok(run) => {
                let events = RunEvents::new(self.shared.clone(), run, verb.from_seq.unwrap_or(1));
                (SubscribeReply { success: true, error: None }, Some(events))
            }
            Err(error) => (SubscribeReply { success: false, error: Some(error) }, None),
        }
    }

    /// All runs, the oldest first.
    fn all(&self) -> Vec<Arc<Run>> {
        let known = self.shared.known();
        known.order.iter().filter_map(|id| known.by_id.get(id).cloned()).collect()
    }

    fn find(&self, id: &str) -> Result<Arc<Run>, String> {
        let known = id.parse::<RunId>().ok().and_then(|id| self.shared.known().by_id.get(&id).cloned());
        known.ok_or_else(|| {
            let shown: String = id.chars().take(80).collect();
            format!("Run '{shown}' not found; list_runs tells which there are")
        })
    }

    async fn report(&self, run: &Run) -> RunReply {
        match self.shared.journal.read(&run.id, 1).await {
            Ok(records) => report::of(run, &records, &self.shared.secrets),
            Err(error) => RunReply {
                run_id: run.id.to_string(),
                error: Some(format!("the history of the run can not be read: {error}")),
                ..RunReply::default()
            },
        }
    }
}

fn definition(caller: &Caller, verb: &RunWorkflow) -> Result<Definition, Box<RunReply>> {
    let invalid = |problems: String| not_started("definition_invalid", problems);
    let parsed = match (&verb.workflow_definition, &verb.workflow_file) {
        (Some(document), None) => Definition::parse(document, &TerminalTools),
        (None, Some(file)) => {
            let path = caller.folder.join(file);
            let text = std::fs::read_to_string(&path)
                .map_err(|error| invalid(format!("workflow file '{}' can not be read: {error}", path.display())))?;
            Definition::from_text(&text, &TerminalTools)
        }
        (Some(_), Some(_)) => {
            return Err(invalid("Provide either 'workflow_definition' OR 'workflow_file', not both".to_owned()));
        }
        (None, None) => {
            return Err(invalid("Either 'workflow_definition' or 'workflow_file' must be provided".to_owned()));
        }
    };
    parsed.map_err(|problems| invalid(format!("the workflow is not valid:\n{problems}")))
}

/// A gate as those who may answer it see it.
fn gate_info(run: &RunId, gate: &Gate, secrets: &Secrets) -> GateInfo {
    let mut context = Value::Object(gate.context.clone());
    secrets.mask_in(&mut context);
    report::shorten(&mut context, report::LONGEST_TEXT);
    let choices = gate.choices.iter().map(|choice| choice.description.as_str()).chain([NONE_OF_THESE]);
    GateInfo {
        gate_id: gate.step.to_string(),
        run_id: run.to_string(),
        prompt: gate.prompt(),
        choices: choices.map(|choice| secrets.masked(choice.to_owned())).collect(),
        answered_by: "agent".to_owned(),
        created_at: moment::told(gate.opened_at),
        context: match context {
            Value::Object(context) => context,
            _ => Map::new(),
        },
    }
}

fn limits(verb: &RunWorkflow) -> Result<Limits, InvalidLimits> {
    let usual = Limits::default();
    Limits::new(
        verb.max_states.unwrap_or(usual.max_states()),
        verb.execution_timeout.unwrap_or(usual.execution_timeout().as_secs_f64()),
    )
}

fn not_started(final_state: &str, error: String) -> Box<RunReply> {
    Box::new(RunReply {
        status: "failed".to_owned(),
        final_state: Some(final_state.to_owned()),
        error: Some(error),
        ..RunReply::default()
    })
}
