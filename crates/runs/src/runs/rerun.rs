//! Repetition of a finished run, as a whole or starting at a state.

use std::sync::Arc;

use serde_json::{Map, Value};
use steplatch_access::{Caller, MASK};
use steplatch_capture::irreversible_action;
use steplatch_ids::RunId;
use steplatch_protocol::{EngineKind, RerunInfo, RerunRequest, RunReply, RunWorkflow};
use steplatch_sessions::TerminalTools;
use steplatch_workflow::{Definition, Event, GatelessNames, RecordedPart, Start, TakeOverError, secret_variable};

use crate::definition_source::{DefinitionSource, RunTarget};
use crate::event::{HistoryError, Unreadable};
use crate::function::RunArguments;
use crate::kind::Kind;
use crate::lookup::RunLookupError;
use crate::machine::{MachineLaunch, Rerun};
use crate::not_started::not_started;
use crate::run::Run;
use crate::runs::{Runs, limits};
use crate::seal::{Seal, has_marks};
use crate::start_key::StartKey;

/// Failure to repeat a run.
#[derive(Debug, thiserror::Error)]
enum RerunError {
    /// There is no such run.
    #[error(transparent)]
    Run(#[from] RunLookupError),
    /// The history of the run is unreadable.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// The run has not finished.
    #[error("run {0} has not finished; wait for its end, or cancel it")]
    InProgress(RunId),
    /// The run is a function or a remote workflow, and so has no states.
    #[error(
        "run {0} is a function or a remote workflow, which has no states; run it again as a whole, without from_state"
    )]
    NoMachine(RunId),
    /// No library contains the text of the function.
    #[error("run {0} is a function from a file; run the file again")]
    FromFile(RunId),
    /// The named workflow is not a machine.
    #[error("the workflow beside 'again' must be a machine, because run {0} is one")]
    NoDefinition(RunId),
    /// An outer engine cannot take over a recorded part.
    #[error("a run on Temporal begins at its first state; omit from_state, or run it with --on sqlite")]
    OnTemporal,
    /// Secrets of the run are no longer known.
    #[error("these values of the run were secret and are not recorded: {}; give them again as initial_variables", .0.join(", "))]
    Secrets(Vec<String>),
    /// A recorded result contains a secret.
    #[error("a result before state '{0}' contains a secret, which is not recorded; begin at an earlier state")]
    SecretResult(String),
    /// The definition of the run contains a secret.
    #[error(
        "the definition of run {0} contains a secret, which is not recorded; name the workflow to run beside 'again'"
    )]
    SecretDefinition(RunId),
    /// The request has variables, but the recorded results depend on the recorded variables.
    #[error(
        "the results before the state came from the input of the run, so it takes no other one ({}); run it again as a whole, \
         without from_state", .0.join(", ")
    )]
    OtherInput(Vec<String>),
    /// The new run cannot take over the recorded part.
    #[error(transparent)]
    TakeOver(#[from] TakeOverError),
    /// A terminal that the recorded part needs is closed.
    #[error("terminal {session} of the run is closed; {}", .opened_by.as_ref().map_or_else(|| "run it again as a whole with another session_id".to_owned(), |state| format!("state '{state}' opened it, so begin at '{state}' or before it")))]
    Closed {
        /// The terminal.
        session: String,
        /// The state that opened it.
        opened_by: Option<String>,
    },
    /// The states would repeat irreversible actions of the earlier run.
    #[error("the run has done this before, and it would happen again: {}; with repeat_irreversible it does", .0.join("; "))]
    Irreversible(Vec<String>),
    /// The recorded definition is no longer valid.
    #[error("the definition of the run is not valid for this version: {0}")]
    Definition(String),
    /// The start was refused.
    #[error("{}", .0.error.as_deref().unwrap_or("the run did not start"))]
    Refused(Box<RunReply>),
}

impl From<Box<RunReply>> for RerunError {
    fn from(reply: Box<RunReply>) -> Self {
        Self::Refused(reply)
    }
}

impl From<Unreadable> for RerunError {
    fn from(error: Unreadable) -> Self {
        Self::History(error.into())
    }
}

/// The history of a run of a machine.
struct RecordedRun {
    events: Vec<Event>,
    /// For each event, true if a secret value in it is hidden.
    hides: Vec<bool>,
}

impl RecordedRun {
    /// Returns whether a value of the start is hidden.
    fn start_hides(&self, value: &Value) -> bool {
        self.hides.first() == Some(&true) && is_hidden(value)
    }
}

impl Runs {
    /// Repeats a finished run: as a whole, or starting at a state with the results recorded before that state.
    pub(super) async fn rerun(
        &self,
        caller: &Arc<Caller>,
        verb: RunWorkflow,
        request: RerunRequest,
        key: Option<StartKey>,
    ) -> Result<Arc<Run>, Box<RunReply>> {
        Box::pin(self.try_rerun(caller, verb, request, key)).await.map_err(|error| match error {
            RerunError::Refused(reply) => reply,
            error => {
                let mut reply = not_started("execution_error", self.shared.secrets.masked(error.to_string()));
                if let RerunError::Irreversible(actions) = error {
                    reply.irreversible = actions.into_iter().map(|action| self.shared.secrets.masked(action)).collect();
                }
                reply
            }
        })
    }

    async fn try_rerun(
        &self,
        caller: &Arc<Caller>,
        verb: RunWorkflow,
        request: RerunRequest,
        key: Option<StartKey>,
    ) -> Result<Arc<Run>, RerunError> {
        let earlier = self.find_by_text(&request.run_id).await?;
        if earlier.kind() != Kind::Machine {
            return self.repeat_call(caller, verb, &request, &earlier, key).await;
        }
        let recorded = self.read_recorded(&earlier).await?;
        let (definition, source) = self.repeated_definition(caller, &verb, &earlier, &recorded).await?;
        let start = repeated_start(&verb, &recorded, request.from_state.is_some())?;
        let part = match &request.from_state {
            None => None,
            Some(_) if !earlier.progress().state.is_over() => return Err(RerunError::InProgress(earlier.id.clone())),
            Some(_) if verb.engine == Some(EngineKind::Temporal) => return Err(RerunError::OnTemporal),
            Some(state) => Some(self.part_before(state, &recorded, &definition, request.repeat_irreversible).await?),
        };
        let engine = match part {
            Some(_) => EngineKind::Sqlite,
            None => verb.engine.unwrap_or_else(|| self.shared.engine_policy.default_engine()),
        };
        let header = RerunInfo {
            run_id: earlier.id.to_string(),
            from_state: request.from_state,
            taken_over_events: part.as_ref().map(|part| part.event_count() as u64),
        };
        let rerun = Some(Rerun { header, part });
        let launch = MachineLaunch { definition, source, start, key, engine, rerun };
        Ok(self.launch_machine(caller, launch, None).await?)
    }

    /// Starts a function of a library, or a remote workflow, with the input of an earlier run.
    async fn repeat_call(
        &self,
        caller: &Arc<Caller>,
        verb: RunWorkflow,
        request: &RerunRequest,
        earlier: &Run,
        key: Option<StartKey>,
    ) -> Result<Arc<Run>, RerunError> {
        if request.from_state.is_some() {
            return Err(RerunError::NoMachine(earlier.id.clone()));
        }
        if earlier.header.source == DefinitionSource::Function {
            return Err(RerunError::FromFile(earlier.id.clone()));
        }
        let (mut input, mut params) = (earlier.header.input.clone(), earlier.header.params.clone());
        let new_variables = verb.initial_variables.clone().unwrap_or_default();
        if !new_variables.is_empty() {
            params.extend(new_variables);
            input = Value::Object(params.clone());
        }
        let mut hidden: Vec<String> = hidden_names(&params, is_hidden);
        if hidden.is_empty() && is_hidden(&input) {
            hidden.push("input".to_owned());
        }
        if !hidden.is_empty() {
            return Err(RerunError::Secrets(hidden));
        }
        let run_arguments = RunArguments { input, params };
        let workflow_name = Some(earlier.header.workflow.clone());
        let verb = RunWorkflow {
            workflow_name,
            initial_variables: Some(run_arguments.as_variables()),
            workflow_definition: None,
            workflow_file: None,
            again: None,
            ..verb
        };
        Ok(self.start_named(caller, verb, Some(run_arguments), key, None).await?)
    }

    async fn read_recorded(&self, run: &Run) -> Result<RecordedRun, RerunError> {
        let records = self.shared.journal.read(&run.id, 1).await.map_err(Unreadable::from)?;
        let hides = records.iter().map(|record| has_marks(&record.text)).collect();
        let events = self.shared.read_all(records, &Seal::default()).await?;
        Ok(RecordedRun { events, hides })
    }

    /// Returns the definition that the request names, or the definition of the earlier run.
    async fn repeated_definition(
        &self,
        caller: &Arc<Caller>,
        verb: &RunWorkflow,
        earlier: &Run,
        recorded: &RecordedRun,
    ) -> Result<(Definition, DefinitionSource), RerunError> {
        if verb.workflow_name.is_some() || verb.workflow_file.is_some() || verb.workflow_definition.is_some() {
            return match self.shared.requested_target(caller, verb).await? {
                RunTarget::Machine(definition, source) => Ok((*definition, source)),
                RunTarget::Function(_) | RunTarget::Remote(_) => Err(RerunError::NoDefinition(earlier.id.clone())),
            };
        }
        let Some(Event::Started { definition: document, .. }) = recorded.events.first() else {
            return Err(RerunError::Definition(NO_START.to_owned()));
        };
        if recorded.start_hides(document) {
            return Err(RerunError::SecretDefinition(earlier.id.clone()));
        }
        let definition = Definition::parse(document, &TerminalTools)
            .map_err(|problems| RerunError::Definition(problems.to_string()))?;
        let source = match &earlier.header.source {
            DefinitionSource::ToKeep { .. } => DefinitionSource::Given,
            source => source.clone(),
        };
        Ok((definition, source))
    }

    /// Returns the part of an earlier run before a state, if another run can take over that part.
    async fn part_before(
        &self,
        state_name: &str,
        recorded: &RecordedRun,
        definition: &Definition,
        repeats_irreversible: bool,
    ) -> Result<RecordedPart, RerunError> {
        let RecordedRun { events, hides } = recorded;
        let (state, visit) = match state_name.rsplit_once('/').map(|(state, visit)| (state, visit.parse())) {
            Some((state, Ok(visit))) => (state, visit),
            _ => (state_name, RecordedPart::last_visit(events, state_name)),
        };
        let part = RecordedPart::before(events, definition, state, visit)?;
        let end = part.events().len() + 1;
        if hides.get(1..end).is_some_and(|hides| hides.contains(&true)) {
            return Err(RerunError::SecretResult(state.to_owned()));
        }
        for (session, opened_by) in part.open_terminals(events) {
            if self.shared.sessions.exists(&session).await.is_err() {
                return Err(RerunError::Closed { session, opened_by });
            }
        }
        let repeated = part.states_to_repeat(events);
        let reasons: Vec<String> = repeated.iter().filter_map(|state| irreversible_action(definition, state)).collect();
        if !reasons.is_empty() && !repeats_irreversible {
            return Err(RerunError::Irreversible(reasons));
        }
        Ok(part)
    }
}

fn is_hidden(value: &Value) -> bool {
    value.to_string().contains(MASK)
}

/// Returns the names of the fields whose values are hidden.
fn hidden_names(fields: &Map<String, Value>, is_hidden: impl Fn(&Value) -> bool) -> Vec<String> {
    fields.iter().filter(|(_, value)| is_hidden(value)).map(|(name, _)| name.clone()).collect()
}

/// Error of a history that does not begin with a start.
const NO_START: &str = "its history has no start";

/// Returns the start of a run with the input of an earlier run. A run that takes over results accepts no other input.
fn repeated_start(verb: &RunWorkflow, recorded: &RecordedRun, takes_over: bool) -> Result<Start, RerunError> {
    let Some(Event::Started {
        variables, session_id, limits: recorded_limits, keep_terminals, save_on_success, ..
    }) = recorded.events.first()
    else {
        return Err(RerunError::Definition(NO_START.to_owned()));
    };
    let new_variables: Map<String, Value> = verb
        .initial_variables
        .iter()
        .flatten()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let mut variables = variables.clone();
    // Secrets by reference come from the caller's environment.
    let by_reference = secret_variable("");
    variables.retain(|name, _| !name.starts_with(&by_reference));
    let hidden = hidden_names(&variables, |value| recorded.start_hides(value));
    let missing: Vec<String> = hidden.iter().filter(|name| !new_variables.contains_key(*name)).cloned().collect();
    if !missing.is_empty() {
        return Err(RerunError::Secrets(missing));
    }
    let terminal = verb.session_id.as_ref().map(|_| "session_id".to_owned());
    let others: Vec<String> =
        new_variables.keys().filter(|name| !hidden.contains(name)).cloned().chain(terminal).collect();
    if takes_over && !others.is_empty() {
        return Err(RerunError::OtherInput(others));
    }
    variables.extend(new_variables);
    let limits = match (verb.max_states, verb.execution_timeout) {
        (None, None) => *recorded_limits,
        _ => limits(verb).map_err(|error| not_started("execution_error", error.to_string()))?,
    };
    Ok(Start {
        run: RunId::random(),
        session_id: verb.session_id.clone().or_else(|| session_id.clone()),
        variables,
        limits,
        keep_terminals: verb.keep_terminals || *keep_terminals,
        save_on_success: *save_on_success,
        parent: None,
        depth: 0,
        gateless: GatelessNames::default(),
    })
}
