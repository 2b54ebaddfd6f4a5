//! Starts of runs of machines.

use std::sync::Arc;

use serde_json::{Map, Value};
use steplatch_access::{Caller, NamedSecrets};
use steplatch_library::Signature;
use steplatch_protocol::{EngineKind, RerunInfo};
use steplatch_workflow::{Definition, InvalidVariables, RecordedPart, Start, is_environment_variable, secret_variable};

use super::run::MachineRun;
use crate::definition_source::DefinitionSource;
use crate::engine::{LaunchParts, StartError, uncancelled};
use crate::engine_state::Engine;
use crate::function::RunArguments;
use crate::origin::Environment;
use crate::pins::References;
use crate::run::{Run, RunHeader};
use crate::seal::Seal;
use crate::start_key::StartKey;

/// The data of a new run.
pub(crate) struct MachineLaunch {
    pub(crate) definition: Definition,
    pub(crate) source: DefinitionSource,
    pub(crate) start: Start,
    /// Idempotency key. Only one run begins with this key.
    pub(crate) key: Option<StartKey>,
    /// Engine that decides the run.
    pub(crate) engine: EngineKind,
    /// Earlier run that this run repeats, with the part that it takes over.
    pub(crate) rerun: Option<Rerun>,
}

/// Earlier run that a new run repeats.
pub(crate) struct Rerun {
    pub(crate) header: RerunInfo,
    /// The recorded part that the new run takes over.
    pub(crate) part: Option<RecordedPart>,
}

/// Completes and checks the start of a machine: it fails if a placeholder or an argument has no value.
///
/// A run without a given terminal takes missing arguments from the caller's environment, because its new terminals have
/// the same environment; `PWD` is the caller's directory.
///
/// # Errors
///
/// Returns all problems.
pub(crate) async fn prepare(
    definition: &Definition,
    caller: &Caller,
    secrets: &dyn NamedSecrets,
    start: &mut Start,
) -> Result<(), InvalidVariables> {
    // A person is asked only for the secrets of a run that can start.
    complete_variables(definition, caller, &mut start.variables, start.session_id.as_deref())?;
    let mut violations = Vec::new();
    let purpose = format!("for workflow '{}'", definition.name().map_or("unnamed".to_owned(), ToString::to_string));
    for name in definition.secrets() {
        if start.variables.contains_key(&secret_variable(name)) {
            continue;
        }
        match secrets.resolve(caller, name, &purpose).await {
            Ok(secret) => drop(start.variables.insert(secret_variable(name), secret.value.into())),
            Err(error) => violations.push(error.to_string()),
        }
    }
    if violations.is_empty() { Ok(()) } else { Err(InvalidVariables { violations }) }
}

/// Adds missing arguments from the caller's environment, and checks the start of a machine without its secrets.
///
/// # Errors
///
/// Returns all problems.
pub(crate) fn complete_variables(
    definition: &Definition,
    caller: &Caller,
    variables: &mut Map<String, Value>,
    session_id: Option<&str>,
) -> Result<(), InvalidVariables> {
    definition.rename_by_case(variables);
    let session_variable = variables.get("session_id").and_then(Value::as_str);
    let has_terminal = session_id.or(session_variable).is_some_and(|session| !session.is_empty());
    if !has_terminal {
        for argument in definition.arguments() {
            if let Some(value) = inherited_value(caller, argument.name()) {
                variables.entry(argument.name()).or_insert_with(|| value.into());
            }
        }
    }
    definition.check_start(variables, |_| has_terminal)
}

/// Returns the value of an argument in a caller's environment.
fn inherited_value<'c>(caller: &'c Caller, name: &str) -> Option<&'c str> {
    if !is_environment_variable(name) {
        return None;
    }
    // A program that starts another one in a directory often leaves its own `PWD` in the environment.
    if name == "PWD" {
        return caller.directory.to_str();
    }
    let found = caller.environment.iter().find(|(known, _)| known.to_str() == Some(name));
    found.and_then(|(_, value)| value.to_str())
}

impl Engine {
    /// Starts a run and its driver, or finds the run that started under the same key or id. Returns once the start is
    /// in the journal.
    ///
    /// # Errors
    ///
    /// If the run cannot start.
    pub(crate) async fn begin(
        self: &Arc<Self>,
        caller: &Arc<Caller>,
        launch: MachineLaunch,
    ) -> Result<Arc<Run>, StartError> {
        self.begin_with(caller, launch, None).await
    }

    /// Starts a run like [`Self::begin`]. `run_arguments` is the input of its variables, if the input is not a map of
    /// texts.
    ///
    /// # Errors
    ///
    /// If the run cannot start.
    pub(crate) async fn begin_with(
        self: &Arc<Self>,
        caller: &Arc<Caller>,
        launch: MachineLaunch,
        run_arguments: Option<RunArguments>,
    ) -> Result<Arc<Run>, StartError> {
        let (shared, caller) = (self.clone(), caller.clone());
        uncancelled(async move { shared.begin_machine(caller, launch, run_arguments).await }).await
    }

    async fn begin_machine(
        self: Arc<Self>,
        caller: Arc<Caller>,
        launch: MachineLaunch,
        run_arguments: Option<RunArguments>,
    ) -> Result<Arc<Run>, StartError> {
        let MachineLaunch { definition, source, mut start, key, engine, rerun } = launch;
        let (rerun_info, part) = rerun.map(|Rerun { header, part }| (header, part)).unzip();
        if self.stopping.is_cancelled() {
            return Err(StartError::Stopping);
        }
        let session_variable = start.variables.get("session_id").and_then(Value::as_str);
        let machine =
            start.session_id.as_deref().or(session_variable).and_then(|session| self.sessions.machine_of(session));
        let references = || References::of_machine(definition.document()).with_terminal_host(machine);
        let caller = self.pinned(caller, references).await?;
        if let Some(pins) = &caller.pins {
            start.gateless = pins.gateless.clone();
        }
        let id = start.run.clone();
        let variables = || {
            let mut input = start.variables.clone();
            input.retain(|name, _| !definition.secrets().any(|secret| *name == secret_variable(secret)));
            RunArguments { input: Value::Object(input), params: Map::new() }
        };
        let RunArguments { mut input, mut params } = run_arguments.unwrap_or_else(variables);
        let session_variable = Seal::default().with_definition(&definition);
        definition.rename_by_case(&mut params);
        if let Value::Object(input) = &mut input {
            definition.rename_by_case(input);
        }
        session_variable.hide_named(&mut params);
        if let Value::Object(fields) = &mut input {
            session_variable.hide_named(fields);
        }
        let header = RunHeader {
            workflow: definition.name().map_or_else(|| "unnamed".to_owned(), ToString::to_string),
            started: self.clock.now(),
            input,
            params,
            parent: start.parent.clone(),
            signature: Some(Signature::of_value(definition.document())),
            pins: caller.pins.as_ref().and_then(|pins| pins.signature()),
            hosts: caller.pins.as_ref().map(|pins| pins.describe_hosts()).unwrap_or_default(),
            request: StartKey::request(key.as_ref()),
            rerun: rerun_info,
            schedule: caller.schedule.clone(),
            source,
            engine,
        };
        let (seal, environment) = (session_variable, Environment::for_machine(&definition));
        let parts = LaunchParts { caller, run: id, header, environment, seal, key };
        let definition = self.definitions.share(definition);
        self.launch(parts, |recorder| MachineRun::begin(recorder, definition, start, part.flatten())).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_directory_does_not_come_from_its_environment() {
        let environment = [("PWD", "/home/ana"), ("EDITOR", "vi")].map(|(name, value)| (name.into(), value.into()));
        let caller = Caller::unnamed("/home/ana/shop".into(), environment.into());
        assert_eq!(inherited_value(&caller, "PWD"), Some("/home/ana/shop"));
        assert_eq!((inherited_value(&caller, "EDITOR"), inherited_value(&caller, "LANG")), (Some("vi"), None));
    }
}
