//! Running an ended run again, as a whole or from a state on.

use std::sync::Arc;

use serde_json::{Map, Value};
use steplatch_access::{Caller, MASK};
use steplatch_capture::irreversible_action;
use steplatch_ids::RunId;
use steplatch_protocol::{EngineKind, RerunInfo, RerunRequest, RunReply, RunWorkflow};
use steplatch_sessions::TerminalTools;
use steplatch_store::Journal as _;
use steplatch_workflow::{Definition, Event, GatelessNames, RecordedPart, Start, TakeOverError, secret_variable};

use crate::definition_source::{DefinitionSource, RunTarget};
use crate::engine::StartError;
use crate::event::{HistoryError, Unreadable};
use crate::function::RunArguments;
use crate::kind::Kind;
use crate::lookup::RunLookupError;
use crate::machine::{MachineLaunch, Rerun, prepare};
use crate::not_started::not_started;
use crate::run::Run;
use crate::runs::{Runs, limits};
use crate::seal::Seal;
use crate::start_key::StartKey;

/// Failure to run a run again.
#[derive(Debug, thiserror::Error)]
enum RerunError {
    /// There is no such run.
    #[error(transparent)]
    Run(#[from] RunLookupError),
    /// Its history is unreadable.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// It has not ended.
    #[error("run {0} has not ended; wait for its end, or cancel it")]
    UnderWay(RunId),
    /// It is no machine, and only machines have states.
    #[error(
        "run {0} is a function or a remote workflow, which has no states; run it again as a whole, without from_state"
    )]
    NoMachine(RunId),
    /// The text of the function is in no library.
    #[error("run {0} is a function from a file; run the file again")]
    FromFile(RunId),
    /// The named workflow is no machine.
    #[error("the workflow beside 'again' is to be a machine, as run {0} is")]
    NoDefinition(RunId),
    /// An outer engine cannot take over a part.
    #[error("a run on Temporal begins at its first state; leave from_state out, or run it with --on sqlite")]
    OnTemporal,
    /// Secrets of the run are not known any more.
    #[error("these values of the run were secret and are not recorded: {}; give them again as initial_variables", .0.join(", "))]
    Secrets(Vec<String>),
    /// A recorded result has a secret.
    #[error("a result before state '{0}' contains a secret, which is not recorded; begin at an earlier state")]
    SecretResult(String),
    /// Variables that would not fit the recorded results.
    #[error(
        "the results before the state came from the input of the run, so it takes no other one ({}); run it again as a whole, \
         without from_state", .0.join(", ")
    )]
    OtherInput(Vec<String>),
    /// The part cannot be taken over.
    #[error(transparent)]
    TakeOver(#[from] TakeOverError),
    /// A terminal that the part needs is closed.
    #[error("terminal {session} of the run is closed{}", .opened_by.as_ref().map(|state| format!("; state '{state}' opened it, so begin at '{state}' or before it")).unwrap_or_default())]
    Closed {
        /// The terminal.
        session: String,
        /// The state that opened it.
        opened_by: Option<String>,
    },
    /// The states act in a way that cannot be taken back, and have done so in the earlier run.
    #[error("the run has done this before, and it would happen again: {}; with repeat_irreversible it does", .0.join("; "))]
    Irreversible(Vec<String>),
    /// The recorded definition is not valid any more.
    #[error("the definition of the run is not valid for this version: {0}")]
    Definition(String),
    /// The start was refused.
    #[error("{}", .0.error.as_deref().unwrap_or("the run did not start"))]
    Refused(Box<RunReply>),
    /// The run could not start.
    #[error(transparent)]
    Start(#[from] StartError),
}

impl From<Unreadable> for RerunError {
    fn from(error: Unreadable) -> Self {
        Self::History(error.into())
    }
}

/// The recorded beginning of a run of a machine.
struct RecordedStart {
    events: Vec<Event>,
    /// True for each event with a value that is hidden because it was secret.
    hides: Vec<bool>,
}

impl Runs {
    /// Runs an ended run again: as a whole, or from a state on with the results recorded before it.
    pub(super) async fn run_again(
        &self,
        caller: &Arc<Caller>,
        verb: RunWorkflow,
        request: RerunRequest,
        key: Option<StartKey>,
    ) -> Result<Arc<Run>, Box<RunReply>> {
        Box::pin(self.try_run_again(caller, verb, request, key)).await.map_err(|error| match error {
            RerunError::Refused(reply) => reply,
            error => not_started("execution_error", self.shared.secrets.masked(error.to_string())),
        })
    }

    async fn try_run_again(
        &self,
        caller: &Arc<Caller>,
        verb: RunWorkflow,
        request: RerunRequest,
        key: Option<StartKey>,
    ) -> Result<Arc<Run>, RerunError> {
        let earlier = self.find_by_text(&request.run_id).await?;
        if earlier.kind() != Kind::Machine {
            return self.call_again(caller, verb, &request, &earlier, key).await;
        }
        let recorded = self.recorded(&earlier).await?;
        let (definition, source) = self.definition_again(caller, &verb, &earlier, &recorded).await?;
        let mut start = start_again(&verb, &recorded, request.from_state.is_some())?;
        let part = match &request.from_state {
            None => None,
            Some(_) if !earlier.progress().state.is_over() => return Err(RerunError::UnderWay(earlier.id.clone())),
            Some(_) if verb.engine == Some(EngineKind::Temporal) => return Err(RerunError::OnTemporal),
            Some(state) => Some(self.part_before(state, &recorded, &definition, request.repeat_irreversible).await?),
        };
        let engine = match part {
            Some(_) => EngineKind::Sqlite,
            None => verb.engine.unwrap_or_else(|| self.shared.engine_policy.default_engine()),
        };
        let refused = |error: String| RerunError::Refused(not_started("validation_failed", error));
        prepare(&definition, caller, &mut start).map_err(|error| refused(error.to_string()))?;
        self.check_engine_served(engine).await.map_err(RerunError::Refused)?;
        let about = RerunInfo { run_id: earlier.id.to_string(), from_state: request.from_state };
        let again = Some(Rerun { about, part });
        let launch = MachineLaunch { definition, source, start, key, engine, again };
        Ok(self.shared.begin(caller, launch).await?)
    }

    /// Starts a function of a library, or a remote workflow, with the input of an earlier run.
    async fn call_again(
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
        if earlier.about.source == DefinitionSource::Function {
            return Err(RerunError::FromFile(earlier.id.clone()));
        }
        let RunArguments { input, params } =
            RunArguments { input: earlier.about.input.clone(), params: earlier.about.params.clone() };
        let given = verb.initial_variables.clone().unwrap_or_default();
        let mut hidden: Vec<String> =
            params.iter().filter(|(_, value)| is_hidden(value)).map(|(name, _)| name.clone()).collect();
        hidden.retain(|name| !given.contains_key(name));
        if !hidden.is_empty() || is_hidden(&input) && given.is_empty() {
            return Err(RerunError::Secrets(if hidden.is_empty() { vec!["input".to_owned()] } else { hidden }));
        }
        let given = match given.is_empty() {
            true => RunArguments { input, params },
            false => {
                let mut params = params;
                params.extend(given);
                RunArguments { input: Value::Object(params.clone()), params }
            }
        };
        let workflow_name = Some(earlier.about.workflow.clone());
        let verb = RunWorkflow {
            workflow_name,
            initial_variables: Some(given.as_variables()),
            workflow_definition: None,
            workflow_file: None,
            again: None,
            ..verb
        };
        self.start_named(caller, verb, Some(given), key, None).await.map_err(RerunError::Refused)
    }

    async fn recorded(&self, run: &Run) -> Result<RecordedStart, RerunError> {
        let records = self.shared.journal.read(&run.id, 1).await.map_err(Unreadable::from)?;
        let hides = records.iter().map(|record| Seal::default().open(record.text.clone()) != record.text).collect();
        let events = self.shared.read_all(records, &Seal::default()).await?;
        Ok(RecordedStart { events, hides })
    }

    /// Returns the definition beside the request, or that of the earlier run.
    async fn definition_again(
        &self,
        caller: &Arc<Caller>,
        verb: &RunWorkflow,
        earlier: &Run,
        recorded: &RecordedStart,
    ) -> Result<(Definition, DefinitionSource), RerunError> {
        if verb.workflow_name.is_some() || verb.workflow_file.is_some() || verb.workflow_definition.is_some() {
            return match self.shared.requested_target(caller, verb).await.map_err(RerunError::Refused)? {
                RunTarget::Machine(definition, source) => Ok((*definition, source)),
                RunTarget::Function(_) | RunTarget::Remote(_) => Err(RerunError::NoDefinition(earlier.id.clone())),
            };
        }
        let Some(Event::Started { definition: document, .. }) = recorded.events.first() else {
            return Err(RerunError::NoMachine(earlier.id.clone()));
        };
        if document.to_string().contains(MASK) && recorded.hides.first() == Some(&true) {
            return Err(RerunError::Secrets(vec!["the definition".to_owned()]));
        }
        let definition = Definition::parse(document, &TerminalTools)
            .map_err(|problems| RerunError::Definition(problems.to_string()))?;
        let source = match &earlier.about.source {
            DefinitionSource::ToKeep { .. } => DefinitionSource::Given,
            source => source.clone(),
        };
        Ok((definition, source))
    }

    /// Returns the part of an earlier run before a state, if another run can take it over.
    async fn part_before(
        &self,
        named: &str,
        recorded: &RecordedStart,
        definition: &Definition,
        repeats_irreversible: bool,
    ) -> Result<RecordedPart, RerunError> {
        let RecordedStart { events, hides } = recorded;
        let (state, visit) = match named.rsplit_once('/').map(|(state, visit)| (state, visit.parse())) {
            Some((state, Ok(visit))) => (state, visit),
            _ => (named, last_visit(events, named)),
        };
        let part = RecordedPart::before(events, definition, state, visit)?;
        let end = part.events().len() + 1;
        if hides.get(1..end).is_some_and(|hides| hides.contains(&true)) {
            return Err(RerunError::SecretResult(state.to_owned()));
        }
        if let Some(started) = events.first() {
            for (session, opened_by) in part.open_terminals(started) {
                if self.shared.sessions.exists(&session).await.is_err() {
                    return Err(RerunError::Closed { session, opened_by });
                }
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

/// Returns the number of the last visit to a state.
fn last_visit(events: &[Event], state: &str) -> u32 {
    let visits = events.iter().filter_map(|event| match event {
        Event::StateEntered { step, .. } if step.place == state => Some(step.visit),
        _ => None,
    });
    visits.max().unwrap_or(1)
}

fn is_hidden(value: &Value) -> bool {
    value.to_string().contains(MASK)
}

/// Returns the start of a run with the input of an earlier one. A run that takes over results has no other input.
fn start_again(verb: &RunWorkflow, recorded: &RecordedStart, takes_over: bool) -> Result<Start, RerunError> {
    let Some(Event::Started {
        variables, session_id, limits: recorded_limits, keep_terminals, save_on_success, ..
    }) = recorded.events.first()
    else {
        return Err(RerunError::Definition("its history has no start".to_owned()));
    };
    let given: Map<String, Value> = verb
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
    let is_hiding = recorded.hides.first() == Some(&true);
    let hidden: Vec<String> =
        variables.iter().filter(|(_, value)| is_hiding && is_hidden(value)).map(|(name, _)| name.clone()).collect();
    let missing: Vec<String> = hidden.iter().filter(|name| !given.contains_key(*name)).cloned().collect();
    if !missing.is_empty() {
        return Err(RerunError::Secrets(missing));
    }
    let others: Vec<String> = given.keys().filter(|name| !hidden.contains(name)).cloned().collect();
    if takes_over && !others.is_empty() {
        return Err(RerunError::OtherInput(others));
    }
    variables.extend(given);
    let limits = match (verb.max_states, verb.execution_timeout) {
        (None, None) => *recorded_limits,
        _ => limits(verb).map_err(|error| RerunError::Refused(not_started("execution_error", error.to_string())))?,
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
