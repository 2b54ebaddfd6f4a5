//! A machine as a kind of run: it records the decisions of the crate `workflow`, then performs them.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use serde_json::Value;
use steplatch_access::Caller;
use steplatch_clock as clock;
use steplatch_ids::{RunId, StepId, WorkflowName};
use steplatch_protocol::{EngineKind, ExitTerminal, RepairInfo};
use steplatch_sessions::{AskedTerminal, TerminalTools, TerminalUse};
use steplatch_store::Record;
use steplatch_workflow::{
    AnsweredBy, Decision, Definition, Effect, Event, Gate, History, Input, LastScreen, Outcome, RECORDED, RecordedPart,
    Repair, Start, State, Status, accepted_patch, begin_from, decide, resume, terminals_ahead, wants_last_screens,
    wants_screen,
};
use tokio::task::{AbortHandle, JoinHandle};

use super::{act, contract, history};
use crate::child;
use crate::definition_source::{DefinitionSource, LibraryCopy, RunEnding};
use crate::engine::{Attempt, Handled, Recorder, Recovery, RecoveryError, RunKind, StoredRun};
use crate::engine_state::Engine;
use crate::gates::OpenGate;
use crate::origin::Environment;
use crate::outer::{Mirror, MirrorMessage};
use crate::run::{RunHeader, RunInputs, RunState, RunStatus};
use crate::seal::Seal;

/// Time limit for reading a screen for a condition. On timeout, the condition matches its pattern against an empty
/// text.
const SCREEN_TIMEOUT: Duration = Duration::from_secs(5);

/// The field of a gate's context that describes the terminals of the run's next states.
pub(crate) const TERMINAL: &str = "terminal";

/// The action of a run that is opening a terminal.
struct Opening {
    step: StepId,
    /// False while the action waits for a silent terminal host, before it requests the terminal.
    has_requested: Arc<AtomicBool>,
}

/// One run of a machine.
pub(crate) struct MachineRun {
    pub(super) recorder: Recorder,
    pub(super) definition: Arc<Definition>,
    pub(super) history: History,
    /// Effects to perform once the journal has the first entries.
    initial_effects: Vec<Effect>,
    /// True if work remains after the end of the run.
    pub(super) leaves_work: bool,
    /// Effects in progress, by step: one action, or several branches.
    in_flight: HashMap<StepId, AbortHandle>,
    opening: Option<Opening>,
    /// The timer of the whole run.
    deadline: Option<AbortHandle>,
    /// Tasks that must complete before the run is considered finished.
    cleanup_tasks: Vec<JoinHandle<()>>,
    /// The definition's copy in the library, once the run has finished.
    library_copy: Option<LibraryCopy>,
    /// The library's reason for not saving the definition.
    save_error: Option<String>,
    /// True if another daemon recorded the run's end.
    ended_before: bool,
    /// Connection to the outer engine, if one decides the run.
    pub(super) mirror: Option<Mirror>,
    /// True if the outer engine has ended the run on its own.
    pub(super) is_lost: bool,
}

/// Data of a machine in the journal.
pub(crate) struct MachineHistory {
    definition: Arc<Definition>,
    history: History,
    /// All events of a run that an outer engine decides: the engine may lack some of them.
    initial_events: Vec<Event>,
}

impl Recovery for MachineRun {
    type History = MachineHistory;

    async fn read(
        shared: &Arc<Engine>,
        header: &RunHeader,
        _: &RunId,
        records: Vec<Record>,
        seal: Seal,
    ) -> Result<StoredRun<MachineHistory>, RecoveryError> {
        let events = shared.read_all(records, &seal).await?;
        let mut history = History::from_iter(&events);
        let document = history.definition().ok_or(RecoveryError::NoStart)?;
        let definition = Definition::parse(document, &TerminalTools).map_err(RecoveryError::Definition)?;
        let (seal, environment) = (seal.with_definition(&definition), Environment::for_machine(&definition));
        let definition = shared.definitions.share(definition);
        history.share_definition(definition.shared_document());
        let initial_events = if header.engine == EngineKind::Sqlite { Vec::new() } else { events };
        Ok(StoredRun { history: MachineHistory { definition, history, initial_events }, seal, environment })
    }

    fn resume(stored: MachineHistory, recorder: Recorder) -> Self {
        let MachineHistory { definition, history, initial_events } = stored;
        let ended_before = history.is_over();
        let mut run = Self { history, ended_before, ..Self::new(recorder, definition) };
        // A finished run only closes its open terminals.
        if !ended_before {
            run.mirror = Mirror::connect(&run.recorder, false, initial_events);
        }
        run
    }

    fn awaits(&self, step: &StepId) -> bool {
        self.history.awaits_child(step)
    }

    fn pending_steps(&self) -> Option<Vec<StepId>> {
        if self.recorder.header.engine != EngineKind::Sqlite {
            return None;
        }
        let effects = resume(&self.history, self.recorder.shared.clock.now()).into_iter();
        let step_of = |effect| match effect {
            Effect::Perform { step, .. } | Effect::CloseOpened { step } => Some(step),
            _ => None,
        };
        Some(effects.filter_map(step_of).collect())
    }
}

impl RunKind for MachineRun {
    type Entry = Event;
    type Event = MirrorMessage;

    fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    fn recorder_mut(&mut self) -> &mut Recorder {
        &mut self.recorder
    }

    fn is_over(&self) -> bool {
        self.history.is_over()
    }

    fn leaves_work(&self) -> bool {
        self.leaves_work || self.ended_before || self.unsaved_repair().is_some()
    }

    fn progress(&self) -> RunStatus {
        let waiting_children = self.waiting_children();
        let state = match self.history.status() {
            Status::Running if !waiting_children.is_empty() => RunState::Waiting,
            Status::NotStarted | Status::Running => RunState::Running,
            Status::Waiting => RunState::Waiting,
            Status::Completed => RunState::Completed,
            Status::Failed { .. } => RunState::Failed,
            Status::Cancelled { .. } => RunState::Cancelled,
        };
        RunStatus {
            state,
            ended: self.history.ended_at(),
            error: self.recorder.shared.secrets.masked_if(self.history.error().map(str::to_owned)),
            result: (state == RunState::Completed)
                .then(|| Arc::new(self.recorder.shared.secrets.masked_value(history::result_value(&self.history)))),
            gates: self.open_gate().into_iter().collect(),
            waiting_children,
            asks_person: self.asks_person(),
            paused: self.history.paused().cloned(),
            library_copy: self.library_copy.clone(),
            save_error: self.save_error.clone(),
            repairs: self.repairs(),
            repairable: self.repairable(),
            blocked_reason: self.mirror.as_ref().and_then(|mirror| mirror.blocked_reason.clone()),
            ..RunStatus::default()
        }
    }

    async fn prepare(&mut self, entries: &mut [Event]) {
        self.add_terminals(entries).await;
    }

    async fn start(&mut self, attempt: Attempt) -> bool {
        // The history may lack them: older versions and daemons that mirror the run do not record them.
        self.add_terminals(&mut []).await;
        if self.mirror.is_some() {
            return self.start_in_engine(attempt).await;
        }
        if !self.save_repairs().await {
            return false;
        }
        let effects = match attempt {
            Attempt::First => std::mem::take(&mut self.initial_effects),
            Attempt::AfterRestart => resume(&self.history, self.recorder.shared.clock.now()),
        };
        self.perform_all(effects, attempt).await;
        // A passphrase may have been set while no daemon was running, so the private part may need a seal.
        attempt == Attempt::First || self.record(&[]).await
    }

    /// Outcomes and deadlines arrive as inputs. Only a run that an outer engine decides has events.
    async fn next_event(&mut self) -> Self::Event {
        Mirror::next(&mut self.mirror).await
    }

    async fn handle_event(&mut self, event: Self::Event) -> bool {
        self.receive(event).await
    }

    async fn handle_input(&mut self, input: Input) -> Handled {
        if self.mirror.is_some() {
            return self.forward_input(input).await;
        }
        let Some(input) = self.request_screen(input) else { return Handled::Ignored };
        match &input {
            Input::Outcome { step, .. } => {
                self.in_flight.remove(step);
                self.opening.take_if(|opening| opening.step == *step);
            }
            Input::ShellAnswered { step, .. } => drop(self.in_flight.remove(step)),
            _ => {}
        }
        let finished_step = match &input {
            Input::Outcome { step, .. } => Some(step.to_string()),
            _ => None,
        };
        let answered_gate = match &input {
            Input::GateAnswered { step, .. } => Some(step.clone()),
            _ => None,
        };
        let mut decision = self.decide(input);
        self.add_recorded(&mut decision.events).await;
        self.add_terminals(&mut decision.events).await;
        if wants_last_screens(&self.history, &decision.events) {
            let last_screens = self.record_last_screens().await;
            decision.events.splice(0..0, last_screens);
        }
        let handled = if decision.events.is_empty() { Handled::Ignored } else { Handled::Recorded };
        if let Some(expiry) =
            answered_gate.filter(|_| handled == Handled::Recorded).and_then(|gate| self.in_flight.remove(&gate))
        {
            expiry.abort();
        }
        if !self.record(&decision.events).await {
            return Handled::Lost;
        }
        if let Some(step) = finished_step {
            self.recorder.shared.sessions.settle(&step);
        }
        if !self.save_repairs().await {
            return Handled::Lost;
        }
        self.perform_all(decision.effects, Attempt::First).await;
        handled
    }

    async fn close(&mut self, inputs: &mut RunInputs) -> bool {
        let stopping = self.recorder.shared.stopping.clone();
        tokio::select! {
            () = self.close_pending_opening(inputs) => true,
            () = stopping.cancelled() => false,
        }
    }

    async fn settle(&mut self) {
        let ending = RunEnding {
            completed: self.progress().state == RunState::Completed,
            states: self.history.states_executed(),
            at: self.history.ended_at().unwrap_or_else(|| self.recorder.shared.clock.now()),
            is_repeated: self.ended_before,
        };
        let Recorder { shared, header, .. } = &self.recorder;
        match shared.update_library(&header.source, &self.definition, self.recorder.live_seal().seal(), ending).await {
            Ok(library_copy) => self.library_copy = library_copy,
            Err(error) => self.save_error = Some(shared.secrets.masked(error.to_string())),
        }
    }

    async fn stop(&mut self) {}

    fn release(&mut self) {
        for task in self.deadline.iter().chain(self.in_flight.values()) {
            task.abort();
        }
    }

    /// Publishes the progress of the run to followers. While a gate for a person is open, the run holds its terminals.
    fn publish(&self) {
        let is_for_person = |gate: &&Gate| gate.answered_by() == AnsweredBy::Human;
        let holds = self.recorder.shared.sessions.held();
        match self.history.gate().filter(is_for_person) {
            Some(gate) => {
                let terminals = sessions_at_gate(&self.definition, &self.history);
                holds.hold(&self.recorder.run.id, gate.step.to_string(), terminals);
            }
            None => match self.history.current() {
                Some(current) => {
                    holds.record_step(&self.recorder.run.id, &current.step, TerminalUse::for_tool(&current.tool));
                }
                None => holds.release(&self.recorder.run.id),
            },
        }
        self.recorder.publish(self.progress());
    }
}

impl MachineRun {
    /// Begins a run, or takes over the recorded part of an earlier run. Returns the run with its first entries.
    pub(super) fn begin(
        recorder: Recorder,
        definition: Arc<Definition>,
        start: Start,
        part: Option<RecordedPart>,
    ) -> (Self, Vec<Event>) {
        let mut run = Self::new(recorder, definition);
        let Decision { events, effects } = match part {
            None => run.decide(Input::Start(start)),
            Some(part) => run.take_over(start, part),
        };
        run.initial_effects = effects;
        run.mirror = Mirror::connect(&run.recorder, false, events.clone());
        // The daemon now knows the secrets of the run.
        let Recorder { shared, header, .. } = &mut run.recorder;
        header.mask(&shared.secrets);
        (run, events)
    }

    fn new(mut recorder: Recorder, definition: Arc<Definition>) -> Self {
        let id = recorder.run.id.clone();
        recorder.caller = Arc::new(Caller { run: Some(id), ..(*recorder.caller).clone() });
        Self {
            recorder,
            definition,
            history: History::new(),
            initial_effects: Vec::new(),
            leaves_work: false,
            in_flight: HashMap::new(),
            opening: None,
            deadline: None,
            cleanup_tasks: Vec::new(),
            library_copy: None,
            save_error: None,
            ended_before: false,
            mirror: None,
            is_lost: false,
        }
    }

    /// Returns an input that the driver can handle now. For an outcome whose handling needs the screen, returns `None`:
    /// a task reads the screen, and then sends the screen and the outcome to the driver.
    fn request_screen(&mut self, input: Input) -> Option<Input> {
        let Input::Outcome { step, outcome } = &input else { return Some(input) };
        let Some(session_id) = wants_screen(&self.definition, &self.history, step, outcome) else { return Some(input) };
        let (inputs, sessions, step) =
            (self.recorder.run.inputs(), self.recorder.shared.sessions.clone(), step.clone());
        let reading = {
            let step = step.clone();
            async move {
                let screen = tokio::time::timeout(SCREEN_TIMEOUT, sessions.screen(&session_id)).await.ok().flatten();
                // Ignored if the run has finished.
                inputs.send(Input::ScreenRead { step, session_id, screen });
                inputs.send(input);
            }
        };
        self.in_flight.insert(step, tokio::spawn(reading).abort_handle());
        None
    }

    /// Records the screens of a failed run's terminals before the terminals close.
    async fn record_last_screens(&mut self) -> Option<Event> {
        let sessions = &self.recorder.shared.sessions;
        let worked_in = self.history.session_id();
        let others = self.history.sessions().filter(|session| Some(*session) != worked_in);
        let terminals: Vec<String> =
            worked_in.into_iter().chain(others).take(LastScreen::MAX_PER_RUN).map(str::to_owned).collect();
        let reading = async {
            let mut screens = Vec::with_capacity(terminals.len());
            for session_id in terminals {
                let screen = sessions.screen(&session_id).await.filter(|screen| !screen.trim().is_empty());
                screens.extend(screen.map(|screen| LastScreen::new(session_id, &screen)));
            }
            screens
        };
        let screens = tokio::time::timeout(SCREEN_TIMEOUT, reading).await.unwrap_or_default();
        if screens.is_empty() {
            return None;
        }
        let screens_event = Event::ScreensKept { at: self.recorder.shared.clock.now(), screens };
        self.history.apply(&screens_event);
        Some(screens_event)
    }

    /// Waits for a terminal whose opening was in progress when the run ended and closes the terminal, because no other
    /// component knows it.
    async fn close_pending_opening(&mut self, inputs: &mut RunInputs) {
        let Some(Opening { step: opening, .. }) = self.opening.take() else { return };
        // An opening that still waits for a free place is cancelled.
        self.recorder.shared.sessions.give_up(&opening.to_string());
        // The outcome arrives within the limit of its state.
        while let Some(input) = inputs.recv().await {
            let Input::Outcome { step, outcome } = input.input else { continue };
            if step != opening {
                continue;
            }
            let Outcome::Finished { result } = outcome else { return };
            let session_id =
                result.get("session_id").and_then(Value::as_str).filter(|_| !self.history.keep_terminals());
            if let Some(session_id) = session_id {
                let exit = ExitTerminal { session_id: session_id.to_owned(), ..ExitTerminal::default() };
                self.recorder.shared.sessions.exit(&self.recorder.caller, exit).await;
            }
            return;
        }
    }

    fn decide(&mut self, input: Input) -> Decision {
        // The daemon must know a secret before any follower of the run can see it.
        let secrets = contract::input_secrets(&self.definition, &self.history, &input);
        if let Some(patched) = self.accepted_machine(&input) {
            self.definition = patched;
        }
        let decision = decide(&self.definition, &self.history, input, self.recorder.shared.clock.now());
        self.apply(decision, secrets)
    }

    /// Decides the start of a run that takes over a part of an earlier run.
    fn take_over(&mut self, start: Start, part: RecordedPart) -> Decision {
        let input = Input::Start(start);
        let secrets = contract::input_secrets(&self.definition, &self.history, &input);
        let Input::Start(start) = input else { return Decision::default() };
        let decision = begin_from(&self.definition, start, part, self.recorder.shared.clock.now());
        self.apply(decision, secrets)
    }

    /// Applies a decision. The daemon learns its secrets and the other `secrets` first.
    fn apply(&mut self, decision: Decision, mut secrets: Vec<String>) -> Decision {
        secrets.extend(decision.effects.iter().filter_map(secret_input));
        for secret in secrets {
            self.recorder.shared.secrets.add(&secret);
            self.recorder.learn(&secret);
        }
        for event in &decision.events {
            self.history.apply(event);
        }
        let completed = *self.history.status() == Status::Completed;
        self.leaves_work =
            decision.effects.iter().any(Effect::closes) || self.recorder.header.source.changes_library(completed);
        decision
    }

    /// Adds the recorded output of its state to a gate that requests the next state of the run.
    async fn add_recorded(&mut self, events: &mut [Event]) {
        let DefinitionSource::Saved { directory, name } = &self.recorder.header.source else { return };
        let asking_gate = self.history.gate().filter(|gate| gate.asks_where_to_go_on()).map(|gate| gate.step.clone());
        let Some(gate_step) = asking_gate else { return };
        let gate_context = events.iter_mut().find_map(|event| match event {
            Event::GateOpened { step, context, .. } if *step == gate_step => Some(context),
            _ => None,
        });
        let Some(context) = gate_context else { return };
        if let Some(text) =
            self.recorder.shared.workflows.recorded_output(directory, name, &gate_step.place, gate_step.visit).await
        {
            context.insert(RECORDED.to_owned(), text.as_str().into());
            self.history.add_to_gate(RECORDED, text.into());
        }
    }

    /// Adds the terminals of the run's next states to a gate for a person, and records the states of the terminals.
    pub(super) async fn add_terminals(&mut self, events: &mut [Event]) {
        let Some(gate) = self.history.gate().filter(|gate| gate.answered_by() == AnsweredBy::Human) else { return };
        if gate.terminals.is_some() {
            return;
        }
        let step = gate.step.clone();
        let current_session = self.history.session_id().map(str::to_owned);
        let mut terminals: Vec<AskedTerminal> = Vec::new();
        for session in current_session.into_iter().chain(sessions_at_gate(&self.definition, &self.history)) {
            if !terminals.iter().any(|known| known.session == session) {
                terminals.push(AskedTerminal { is_own: self.history.has_opened(&session), session });
            }
        }
        let computed = terminals_ahead(&self.definition, &self.history).computed;
        let description = self.recorder.shared.sessions.describe_asked(&step.to_string(), &terminals, &computed).await;
        for event in events {
            match event {
                Event::GateAsked { step: gate, context, terminals, .. } if *gate == step => {
                    context.extend(description.text.iter().map(|text| (TERMINAL.to_owned(), text.as_str().into())));
                    *terminals = Some(description.ids.clone());
                }
                Event::PatchProposed { step: gate, terminals, .. } if *gate == step => {
                    *terminals = Some(description.ids.clone());
                }
                _ => {}
            }
        }
        if let Some(text) = description.text {
            self.history.add_to_gate(TERMINAL, text.into());
        }
        self.history.show_terminals(description.ids);
    }

    /// Returns the patched machine, if an input accepts a patch.
    fn accepted_machine(&self, input: &Input) -> Option<Arc<Definition>> {
        let proposal = accepted_patch(&self.history, input)?;
        // The patch was valid at its proposal. This version ignores a patch that it cannot parse.
        let patched = Definition::parse(&proposal.definition, &TerminalTools).ok()?;
        Some(self.recorder.shared.definitions.share(patched))
    }

    /// Returns the first accepted patch that the library of the machine has not saved, with its directory and name there.
    fn unsaved_repair(&self) -> Option<(&Path, &WorkflowName, &Repair)> {
        let DefinitionSource::Saved { directory, name } = &self.recorder.header.source else { return None };
        self.history.unsaved_repair().map(|repair| (directory.as_path(), name, repair))
    }

    /// Saves the accepted patches in the library of the machine and records that. The journal stores the patches first:
    /// after a crash before the save, the next daemon saves the patches. A repeated save changes nothing. Returns false
    /// when this daemon must no longer drive the run.
    async fn save_repairs(&mut self) -> bool {
        let shared = self.recorder.shared.clone();
        while let Some((directory, name, repair)) = self.unsaved_repair() {
            let step = repair.step.clone();
            let documents = (Value::clone(&repair.before), Value::clone(&repair.definition));
            let reason = shared.secrets.masked(format!("{} (proposed by {})", repair.reason, repair.proposed_by));
            let author = (repair.accepted_by.name.clone(), reason);
            let (version, error) = match shared.workflows.save_repair(directory, name, documents, author).await {
                Ok(version) => (Some(version), None),
                Err(error) => (None, Some(shared.secrets.masked(error.to_string()))),
            };
            let saved = Input::PatchSaved { step, version, error };
            let Decision { events, .. } = decide(&self.definition, &self.history, saved, shared.clock.now());
            for event in &events {
                self.history.apply(event);
            }
            if events.is_empty() || !self.record(&events).await {
                return false;
            }
        }
        true
    }

    /// Returns the accepted patches, with secrets hidden.
    fn repairs(&self) -> Vec<RepairInfo> {
        let secrets = &self.recorder.shared.secrets;
        let info = |repair: &Repair| RepairInfo {
            state: repair.state.clone(),
            reason: secrets.masked(repair.reason.clone()),
            proposed_by: secrets.masked(repair.proposed_by.clone()),
            accepted_by: secrets.masked(repair.accepted_by.to_string()),
            accepted_at: clock::to_iso8601(repair.at),
            version: repair.saving.as_ref().and_then(|saving| saving.version),
            error: repair.saving.as_ref().and_then(|saving| saving.error.clone()),
        };
        self.history.repairs().iter().map(info).collect()
    }

    /// Returns the gate that accepts a client's patch, and the machine to patch.
    fn repairable(&self) -> Option<(StepId, Arc<Definition>)> {
        // An outer engine does not check patches.
        let gate = self.history.gate().filter(|gate| self.mirror.is_none() && gate.asks_where_to_go_on())?;
        Some((gate.step.clone(), self.definition.clone()))
    }

    fn open_gate(&self) -> Option<OpenGate> {
        let gate = self.history.gate()?;
        let state = self.definition.state(&gate.step.place);
        let on_timeout = state.and_then(State::on_timeout).map(str::to_owned);
        Some(OpenGate { on_timeout, ..OpenGate::from(gate) })
    }

    /// Returns whether the run or a descendant needs a person's answer to continue.
    fn asks_person(&self) -> bool {
        let is_for_person = |gate: &Gate| gate.answered_by() == AnsweredBy::Human;
        self.history.gate().is_some_and(is_for_person) || self.recorder.shared.any_asks_person(&self.waiting_children())
    }

    /// Returns the waiting child runs.
    fn waiting_children(&self) -> Vec<RunId> {
        self.history.waiting_children().map(RunId::started_by).collect()
    }

    /// Performs the effects.
    pub(super) async fn perform_all(&mut self, effects: Vec<Effect>, attempt: Attempt) {
        for stage in Effect::split_into_stages(effects) {
            for effect in stage {
                self.perform(effect, attempt);
            }
            // A run is considered finished once its terminals are closed, since its waiters may list the terminals.
            self.await_cleanup().await;
        }
    }

    async fn await_cleanup(&mut self) {
        for task in std::mem::take(&mut self.cleanup_tasks) {
            let _ = task.await;
        }
    }

    fn perform(&mut self, effect: Effect, attempt: Attempt) {
        let (shared, caller) = (self.recorder.shared.clone(), self.approved_caller());
        match effect {
            Effect::Perform { step, tool, params, limit } => {
                let has_requested = Arc::<AtomicBool>::default();
                self.opening = (tool == "open_terminal")
                    .then(|| Opening { step: step.clone(), has_requested: has_requested.clone() });
                let action = act::Action { tool, params, step: step.to_string(), limit, attempt, has_requested };
                self.await_outcome(step, act::perform(shared, caller, action));
            }
            Effect::Sleep { step, until, limit } => {
                self.await_outcome(step, act::sleep(shared.clock.clone(), until, limit));
            }
            Effect::StartRun { step, child, limit } => {
                let parent = self.recorder.run.inputs();
                let is_branch = self.history.current().is_none_or(|current| current.step != step);
                let child_run = child::perform(shared, caller, parent, step.clone(), *child, limit, is_branch);
                self.await_outcome(step, child_run);
            }
            Effect::Answer { step, outcome } => self.await_outcome(step, std::future::ready(outcome)),
            // A gate is part of the run's reported progress; its answer arrives as an ordinary input.
            Effect::OpenGate { .. } => {}
            Effect::ExpireGate { step, at } => self.await_outcome(step, act::expire(shared.clock.clone(), at)),
            Effect::SetVariables { step, session_id, variables } => {
                let shell_answer = async move { contract::set(&shared.sessions, &caller, session_id, variables).await };
                self.await_input(step.clone(), async { Input::ShellAnswered { step, answer: shell_answer.await } });
            }
            Effect::ReadVariables { step, session_id, names } => {
                let shell_answer = async move { contract::read(&shared.sessions, &caller, session_id, names).await };
                self.await_input(step.clone(), async { Input::ShellAnswered { step, answer: shell_answer.await } });
            }
            Effect::PauseChild { step, by } => {
                // A child that has not started yet receives the pause after its start.
                if let Some(run) = shared.driven(&RunId::started_by(&step)) {
                    run.send(Input::Pause { by, above: true });
                }
            }
            Effect::ResumeChild { step, by } => {
                if let Some(run) = shared.driven(&RunId::started_by(&step)) {
                    run.send(Input::Resume { by, above: true });
                }
            }
            Effect::Abandon { step } => {
                self.opening.take_if(|opening| opening.step == step && !opening.has_requested.load(Ordering::Relaxed));
                // The run must close a terminal whose opening is in progress; its id arrives with the outcome.
                if !self.is_opening(&step) {
                    if let Some(task) = self.in_flight.remove(&step) {
                        task.abort();
                    }
                    shared.sessions.settle(&step.to_string());
                }
                // Wait for the end of the child before this run is considered finished, because the child closes its
                // terminals. The child may have completed just before, with an outcome that this run no longer reads.
                let (child, keep) = (RunId::started_by(&step), self.history.keep_terminals());
                self.cleanup_tasks.push(tokio::spawn(async move {
                    let Ok(Some(run)) = shared.find(&child).await else { return };
                    child::give_up(&run).await;
                    if !keep {
                        child::close_left_open(&shared, &caller, &run).await;
                    }
                }));
            }
            Effect::ArmDeadline { after } => {
                let (inputs, timeout) = (self.recorder.run.inputs(), shared.clock.sleep(after));
                let timer = tokio::spawn(async move {
                    timeout.await;
                    // Ignored if the run has finished.
                    inputs.send(Input::DeadlinePassed);
                });
                if let Some(previous) = self.deadline.replace(timer.abort_handle()) {
                    previous.abort();
                }
            }
            Effect::DisarmDeadline => {
                if let Some(deadline) = self.deadline.take() {
                    deadline.abort();
                }
            }
            Effect::CloseTerminal { session_id } => {
                self.cleanup_tasks.push(tokio::spawn(async move {
                    // Closing a terminal that is already closed does nothing; a terminal that a person holds stays
                    // open.
                    shared.sessions.exit(&caller, ExitTerminal { session_id, ..ExitTerminal::default() }).await;
                }));
            }
            // This driver performs the opening: `close_pending_opening` closes the terminal when its id arrives.
            Effect::CloseOpened { step } if self.is_opening(&step) => {}
            Effect::CloseOpened { step } => {
                self.cleanup_tasks.push(tokio::spawn(async move {
                    shared.sessions.exit_opened_by(&caller, &step.to_string()).await;
                }));
            }
        }
    }

    fn is_opening(&self, step: &StepId) -> bool {
        self.opening.as_ref().is_some_and(|opening| opening.step == *step)
    }

    /// Returns the caller of the current actions, with the gate of a person's approval.
    pub(super) fn approved_caller(&self) -> Arc<Caller> {
        let caller = &self.recorder.caller;
        let approved = match self.history.approved_at() {
            Some(_) => self.history.approved_terminals().map(|approved| approved.iter().cloned().collect()),
            // The parent's approval applies, if there is one.
            None => caller.approved_terminals.as_deref().cloned(),
        };
        let approved_at = self.history.approved_at().map(ToString::to_string).or_else(|| caller.approved_at.clone());
        if approved_at == caller.approved_at && approved.is_none() && caller.approved_terminals.is_none() {
            return caller.clone();
        }
        let approved_terminals = approved.map(|mut approved: BTreeSet<String>| {
            approved.extend(self.history.own_sessions().map(str::to_owned));
            Arc::new(approved)
        });
        Arc::new(Caller { approved_at, approved_terminals, ..(**caller).clone() })
    }

    fn await_outcome(&mut self, step: StepId, outcome: impl Future<Output = Outcome> + Send + 'static) {
        self.await_input(step.clone(), async { Input::Outcome { step, outcome: outcome.await } });
    }

    fn await_input(&mut self, step: StepId, input: impl Future<Output = Input> + Send + 'static) {
        let inputs = self.recorder.run.inputs();
        let mut input = Box::pin(input);
        // A ready outcome needs no task.
        if let Poll::Ready(input) = input.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            // Ignored if the run has finished, here and below.
            inputs.send(input);
            return;
        }
        let task = tokio::spawn(async move {
            inputs.send(input.await);
        });
        self.in_flight.insert(step, task.abort_handle());
    }
}

/// Returns the ids or names of the terminals that a run may use after its open gate: its own terminals, and terminals
/// that its states name.
pub(crate) fn sessions_at_gate(definition: &Definition, history: &History) -> Vec<String> {
    let mut sessions: Vec<String> = Vec::new();
    let later_sessions = terminals_ahead(definition, history).sessions;
    let shown_terminals = history.gate().and_then(|gate| gate.terminals.clone()).into_iter().flatten();
    let known = history.sessions().chain(history.own_sessions()).map(str::to_owned);
    for session in known.chain(later_sessions).chain(shown_terminals) {
        if !sessions.contains(&session) {
            sessions.push(session);
        }
    }
    sessions
}

/// Returns the text that an action types as a secret.
fn secret_input(effect: &Effect) -> Option<String> {
    let Effect::Perform { params, .. } = effect else { return None };
    let secret = params.get("secret").is_some_and(|secret| *secret == Value::Bool(true) || *secret == "true");
    params.get("input_text").and_then(Value::as_str).filter(|_| secret).map(str::to_owned)
}
