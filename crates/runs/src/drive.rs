//! The task that drives one run: decide, append, perform, and again.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use serde_json::Value;
use steplatch_access::Caller;
use steplatch_clock as clock;
use steplatch_ids::{RunId, StepId};
use steplatch_protocol::ExitTerminal;
use steplatch_sessions::TerminalUse;
use steplatch_store::{Append, AppendError, Appended, Journal};
use steplatch_workflow::{
    AnsweredBy, Decision, Definition, Effect, Gate, History, Input, Outcome, SEMANTICS_VERSION, Start, Status, decide,
    resume, wants_screen,
};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinHandle};

use super::locked::PrivateForm;
use super::origin::Origin;
use super::run::{About, Progress, RunState};
use super::source::{Ending, Kept};
use super::{act, child, contract};
use crate::seal::Seal;
use crate::shared::Shared;

/// Version of the entries that are written here: the events of `workflow` in JSON, sealed.
pub(super) const ENTRY_VERSION: u16 = SEMANTICS_VERSION as u16;

/// How long reading a screen for a condition may take. After that, the pattern is searched in nothing.
const SCREEN_WITHIN: Duration = Duration::from_secs(5);

/// Drives one run.
pub(super) struct Driver {
    shared: Arc<Shared>,
    caller: Arc<Caller>,
    definition: Definition,
    run: RunId,
    about: About,
    /// The way for outcomes and deadlines to come back.
    inputs: mpsc::UnboundedSender<Box<Input>>,
    progress: watch::Sender<Progress>,
    history: History,
    seq: u64,
    seal: Seal,
    /// How many secrets are stored.
    sealed: usize,
    private: PrivateForm,
    /// Changes whenever the approver's passphrase is set or taken away.
    key_changes: watch::Receiver<u64>,
    /// The state and the end that lists tell of.
    told: Option<RunState>,
    /// What is being performed, and the timer of the whole run.
    in_flight: Option<(StepId, AbortHandle)>,
    /// The step that is opening a terminal.
    opening: Option<StepId>,
    deadline: Option<AbortHandle>,
    /// What has to be done before the run counts as over.
    closing: Vec<JoinHandle<()>>,
    /// Where the definition is now that it is over.
    kept: Option<Kept>,
    /// Why it could not be saved.
    unsaved: Option<String>,
    /// Whether another daemon saw the run end.
    ended_before: bool,
}

/// What a driver is made of.
pub(super) struct Parts {
    pub(super) caller: Arc<Caller>,
    pub(super) definition: Definition,
    pub(super) run: RunId,
    pub(super) about: About,
    pub(super) inputs: mpsc::UnboundedSender<Box<Input>>,
    pub(super) progress: watch::Sender<Progress>,
}

/// What the journal has of a run that goes on.
pub(super) struct Found {
    pub(super) history: History,
    pub(super) seq: u64,
    pub(super) seal: Seal,
    pub(super) private: PrivateForm,
}

impl Driver {
    pub(super) fn new(shared: Arc<Shared>, parts: Parts) -> Self {
        let Parts { caller, definition, run, about, inputs, progress } = parts;
        let seal = Seal::default().of(&definition);
        let caller = Arc::new(Caller { run: Some(run.clone()), ..(*caller).clone() });
        let key_changes = shared.locked.key_changes();
        Self {
            shared,
            caller,
            definition,
            run,
            about,
            inputs,
            progress,
            history: History::new(),
            seq: 0,
            seal,
            sealed: 0,
            private: PrivateForm::default(),
            key_changes,
            told: None,
            in_flight: None,
            opening: None,
            deadline: None,
            closing: Vec::new(),
            kept: None,
            unsaved: None,
            ended_before: false,
        }
    }

    /// Returns one that goes on from where another daemon left the run.
    pub(super) fn at(shared: Arc<Shared>, parts: Parts, found: Found) -> Self {
        let Found { history, seq, seal, private } = found;
        let seal = seal.of(&parts.definition);
        let sealed = seal.secrets().len();
        let ended_before = history.is_over();
        Self { history, seq, seal, sealed, private, ended_before, ..Self::new(shared, parts) }
    }

    /// Publishes how far a run is that another daemon left.
    pub(super) fn publish_found(&self) {
        // One that is over counts as over once what it left behind is cleared away.
        if !self.ended_before {
            self.publish();
        }
    }

    pub(super) fn history(&self) -> &History {
        &self.history
    }

    /// Writes the beginning of the run down; with a key, unless there is a run that has it. Returns what is to be
    /// done then.
    pub(super) async fn begin(
        &mut self,
        start: Start,
        key: Option<String>,
    ) -> Result<(Appended, Vec<Effect>), AppendError> {
        let decision = self.decide(Input::Start(start));
        // Its secrets are known now.
        self.shared.secrets.mask_in(&mut self.about.input);
        self.shared.secrets.mask_fields(&mut self.about.params);
        let append = Append { key, ..self.append_of(&decision).await };
        let appended = self.shared.write_first(append).await?;
        if let Appended::Written { last } = &appended {
            self.seq = *last;
            if !self.history.is_over() {
                self.publish();
            }
        }
        Ok((appended, decision.effects))
    }

    /// Drives the run to its end, or until the daemon stops.
    pub(super) async fn drive(mut self, effects: Vec<Effect>, mut received: mpsc::UnboundedReceiver<Box<Input>>) {
        self.perform_all(effects, false).await;
        self.go_on(&mut received).await;
    }

    /// Drives a run that another daemon began.
    pub(super) async fn resume(mut self, mut received: mpsc::UnboundedReceiver<Box<Input>>) {
        let effects = resume(&self.history, clock::now());
        self.perform_all(effects, true).await;
        // A passphrase may have been set while no daemon was there to seal what waits.
        if !self.store_private().await {
            return self.leave();
        }
        self.go_on(&mut received).await;
    }

    async fn go_on(mut self, received: &mut mpsc::UnboundedReceiver<Box<Input>>) {
        let stopping = self.shared.stopping.clone();
        while !self.history.is_over() {
            let input = tokio::select! {
                biased;
                () = stopping.cancelled() => return self.leave(),
                Ok(()) = self.key_changes.changed() => match self.store_private().await {
                    true => continue,
                    false => return self.leave(),
                },
                input = received.recv() => input.map(|input| *input),
            };
            // The sender is ours as well, so there is always another one.
            let Some(input) = input else { return self.leave() };
            let Some(input) = self.look(input) else { continue };
            if let Input::Outcome { step, .. } = &input {
                self.opening.take_if(|opening| opening == step);
            }
            // A run at rest keeps no room for what it does when something happens.
            if !Box::pin(self.take(input)).await {
                return self.leave();
            }
        }
        tokio::select! {
            () = Box::pin(self.close_what_is_opened(received)) => {}
            () = stopping.cancelled() => return self.leave(),
        }
        Box::pin(self.finish()).await;
    }

    /// Returns an input that can be decided now. An outcome that wants the screen returns `None`: the screen is read, and both are
    /// sent to the driver again, the screen first.
    fn look(&mut self, input: Input) -> Option<Input> {
        let Input::Outcome { step, outcome } = &input else { return Some(input) };
        let Some(session_id) = wants_screen(&self.definition, &self.history, step, outcome) else { return Some(input) };
        let (inputs, sessions, step) = (self.inputs.clone(), self.shared.sessions.clone(), step.clone());
        let reading = {
            let step = step.clone();
            async move {
                let screen = tokio::time::timeout(SCREEN_WITHIN, sessions.screen(&session_id)).await.ok().flatten();
                // Ignored if the run is over.
                let _ = inputs.send(Box::new(Input::ScreenRead { step, session_id, screen }));
                let _ = inputs.send(Box::new(input));
            }
        };
        self.in_flight = Some((step, tokio::spawn(reading).abort_handle()));
        None
    }

    /// Does what follows from an input. Returns false when this run is not ours to go on with.
    async fn take(&mut self, input: Input) -> bool {
        let decision = self.decide(input);
        if !decision.events.is_empty() {
            let redacted = self.redacted().await;
            let append = Append { redacted, ..self.append_of(&decision).await };
            if !self.append(append).await {
                return false;
            }
        } else if !self.store_private().await {
            return false;
        }
        self.perform_all(decision.effects, false).await;
        true
    }

    /// Waits for a terminal that was being opened when the run ended, and closes it: nobody else knows of it.
    async fn close_what_is_opened(&mut self, received: &mut mpsc::UnboundedReceiver<Box<Input>>) {
        let Some(opening) = self.opening.take() else { return };
        // It comes within the limit of its state.
        while let Some(input) = received.recv().await {
            let Input::Outcome { step, outcome } = *input else { continue };
            if step != opening {
                continue;
            }
            let Outcome::Finished { result } = outcome else { return };
            let opened = result.get("session_id").and_then(Value::as_str).filter(|_| !self.history.keep_terminals());
            if let Some(session_id) = opened {
                let exit = ExitTerminal { session_id: session_id.to_owned(), ..ExitTerminal::default() };
                self.shared.sessions.exit(&self.caller, exit).await;
            }
            return;
        }
    }

    /// Stops here, for the next daemon to go on.
    fn leave(self) {
        for task in self.deadline.iter().chain(self.in_flight.iter().map(|(_, task)| task)) {
            task.abort();
        }
    }

    fn decide(&mut self, input: Input) -> Decision {
        // A secret must be known before the first one who follows the run is told of it.
        let mut secrets = contract::secrets_of(&self.definition, &self.history, &input);
        let decision = decide(&self.definition, &self.history, input, clock::now());
        secrets.extend(decision.effects.iter().filter_map(typed_unseen));
        for secret in secrets {
            self.shared.secrets.add(&secret);
            for form in self.seal.learn(&secret) {
                self.shared.secrets.add(&form);
            }
        }
        for event in &decision.events {
            self.history.apply(event);
        }
        decision
    }

    /// Returns earlier entries as they are to be stored now that more is secret than when they were written.
    async fn redacted(&self) -> Vec<(u64, String)> {
        if self.sealed == self.seal.secrets().len() {
            return Vec::new();
        }
        let records = match self.shared.journal.read(&self.run, 1).await {
            Ok(records) => records,
            Err(error) => {
                tracing::error!(run = %self.run, %error, "what a run has shown of a secret stays in its history");
                return Vec::new();
            }
        };
        // The new ones come last, so whatever was sealed before is opened and sealed again as it was.
        let sealed = records.into_iter().filter_map(|record| {
            let opened: Value = serde_json::from_str(&self.seal.open(record.text.clone())).ok()?;
            let text = self.seal.close(&opened);
            (text != record.text).then_some((record.seq, text))
        });
        sealed.collect()
    }

    /// Returns what is to be written for a decision that is part of the history already.
    async fn append_of(&mut self, decision: &Decision) -> Append {
        let texts = decision.events.iter().map(|event| self.seal.close(event)).collect();
        let mut append = Append::new(self.run.clone(), self.seq, ENTRY_VERSION, texts);
        let progress = self.now();
        // A run that leaves something to be done counts as over when that is done.
        let over = progress.state.is_over();
        let completed = progress.state == RunState::Completed;
        let is_awaited = self.shared.is_parent_locked(self.about.parent.as_ref());
        let leaves_more = decision.effects.iter().any(leaves_work) || self.about.source.awaits(completed);
        let at_once = !over || !(leaves_more || is_awaited);
        if at_once && self.told != Some(progress.state) {
            self.told = Some(progress.state);
            append.summary = Some(progress.summary(&self.about));
        } else if self.told.is_none() {
            self.told = Some(RunState::Running);
            append.summary = Some(Progress { state: RunState::Running, ..Progress::default() }.summary(&self.about));
        }
        append.private = self.private_anew().await;
        append
    }

    /// Returns what the run needs to go on as it is to be stored, if that changes.
    async fn private_anew(&mut self) -> Option<String> {
        let has_changed = self.sealed < self.seal.secrets().len() || self.seq == 0;
        self.sealed = self.seal.secrets().len();
        let text = || Origin::of(&self.caller, &self.definition, &self.seal).text();
        let asks_person = self.asks_person();
        let private = self.private.stored_anew(&self.shared, &self.run, (asks_person, has_changed), text).await;
        self.shared.hide_for_next_daemon(private.as_deref(), &self.seal).await;
        private
    }

    /// Stores what the run needs to go on in the form in which it is to be by now. Returns false when this run is not ours to go
    /// on with.
    async fn store_private(&mut self) -> bool {
        let Some(private) = self.private_anew().await else {
            if self.progress.borrow().asks_person != self.asks_person() {
                self.publish();
            }
            return true;
        };
        let mut append = Append::new(self.run.clone(), self.seq, ENTRY_VERSION, Vec::new()).with_private(private);
        let progress = self.now();
        self.told = Some(progress.state);
        append.summary = Some(progress.summary(&self.about));
        self.append(append).await
    }

    /// Whether a person has to answer before the run goes on, here or in the run below it.
    fn asks_person(&self) -> bool {
        let is_for_person = |gate: &Gate| gate.answered_by() == AnsweredBy::Human;
        self.history.gate().is_some_and(is_for_person) || self.shared.ask_person(&self.below())
    }

    /// Returns the run below this one that waits, if one does.
    fn below(&self) -> Option<RunId> {
        let current = self.history.current().filter(|_| self.history.child_waits());
        current.map(|current| RunId::started_by(&current.step))
    }

    /// Writes, and waits as long as the journal has no room. Returns false when this run is not ours to go on with.
    async fn append(&mut self, append: Append) -> bool {
        let Some(last) = self.shared.written(append, &self.progress).await else { return false };
        self.seq = last;
        // While it runs, everybody is told at once; its end is told when it is complete.
        if !self.history.is_over() {
            self.publish();
        }
        true
    }

    /// Ends the run once everything that it leaves behind is cleared away.
    async fn finish(mut self) {
        let state = self.now().state;
        if self.shared.is_parent_locked(self.about.parent.as_ref()) {
            self.publish();
            if !self.shared.parent_is_open(self.about.parent.as_ref()).await {
                return self.leave();
            }
        }
        if self.told != Some(state) {
            let ending = Ending {
                completed: state == RunState::Completed,
                states: self.history.states_executed(),
                at: self.history.ended_at().unwrap_or_else(clock::now),
                again: self.ended_before,
            };
            match self.shared.keep(&self.about.source, &self.definition, &self.seal, ending).await {
                Ok(kept) => self.kept = kept,
                Err(why) => self.unsaved = Some(self.shared.secrets.masked(why)),
            }
            let mut append = Append::new(self.run.clone(), self.seq, ENTRY_VERSION, Vec::new());
            append.summary = Some(self.now().summary(&self.about));
            if !self.append(append).await {
                return self.leave();
            }
        }
        self.publish();
        self.shared.ended(&self.run, !self.seal.secrets().is_empty());
        self.leave();
    }

    fn now(&self) -> Progress {
        let below = self.below();
        let state = match self.history.status() {
            Status::Running if below.is_some() => RunState::Waiting,
            Status::NotStarted | Status::Running => RunState::Running,
            Status::Waiting => RunState::Waiting,
            Status::Completed => RunState::Completed,
            Status::Failed { .. } => RunState::Failed,
            Status::Cancelled { .. } => RunState::Cancelled,
        };
        Progress {
            seq: self.seq,
            state,
            ended: self.history.ended_at(),
            error: self.shared.secrets.masked_if(self.history.error().map(str::to_owned)),
            result: (state == RunState::Completed).then(|| {
                let mut result = serde_json::json!(self.history.return_values());
                self.shared.secrets.mask_in(&mut result);
                Arc::new(result)
            }),
            gate: self.history.gate().cloned(),
            below: below.into_iter().collect(),
            asks_person: self.asks_person(),
            paused: self.history.paused().cloned(),
            kept: self.kept.clone(),
            unsaved: self.unsaved.clone(),
            ..Progress::default()
        }
    }

    /// Tells how far the run is. While a person is asked, its terminals are held.
    fn publish(&self) {
        let is_for_person = |gate: &&Gate| gate.answered_by() == AnsweredBy::Human;
        let held = self.shared.sessions.held();
        match self.history.gate().filter(is_for_person) {
            Some(gate) => {
                held.hold(&self.run, gate.step.to_string(), self.history.sessions().map(str::to_owned).collect());
            }
            None => match self.history.current() {
                Some(current) => held.go_on(&self.run, &current.step, TerminalUse::of(&current.tool)),
                None => held.release(&self.run),
            },
        }
        self.progress.send_replace(self.now());
        self.shared.listener.run_changed(&self.run);
    }

    /// Does what was decided. `again` is whether another daemon may have done it already.
    async fn perform_all(&mut self, effects: Vec<Effect>, again: bool) {
        for effect in effects {
            self.perform(effect, again);
        }
        // A run counts as over once its terminals are closed: who waits for it may look for them.
        for closed in std::mem::take(&mut self.closing) {
            let _ = closed.await;
        }
    }

    fn perform(&mut self, effect: Effect, again: bool) {
        let (shared, caller) = (self.shared.clone(), self.caller.clone());
        match effect {
            Effect::Perform { step, tool, params, limit } => {
                self.opening = (tool == "open_terminal").then(|| step.clone());
                let action = act::Action { tool, params, step: step.to_string(), limit, again };
                self.await_outcome(step, act::perform(shared, caller, action));
            }
            Effect::Sleep { step, until, limit } => self.await_outcome(step, act::sleep(until, limit)),
            Effect::StartRun { step, child, limit } => {
                let parent = self.inputs.clone();
                self.await_outcome(step.clone(), child::perform(shared, caller, parent, step, *child, limit));
            }
            Effect::Answer { step, outcome } => self.await_outcome(step, std::future::ready(outcome)),
            // It is told as part of the run's progress; whoever answers is an input like any other.
            Effect::OpenGate { .. } => {}
            Effect::ExpireGate { step, at } => self.await_outcome(step, act::expire(at)),
            Effect::SetVariables { step, session_id, variables } => {
                let answering = async move { contract::set(&shared.sessions, &caller, session_id, variables).await };
                self.await_input(step.clone(), async { Input::ShellAnswered { step, answer: answering.await } });
            }
            Effect::ReadVariables { step, session_id, names } => {
                let answering = async move { contract::read(&shared.sessions, &caller, session_id, names).await };
                self.await_input(step.clone(), async { Input::ShellAnswered { step, answer: answering.await } });
            }
            Effect::PauseChild { step, by } => {
                // One that has not begun yet is told when it has.
                if let Some(run) = shared.driven(&RunId::started_by(&step)) {
                    run.tell(Input::Pause { by, above: true });
                }
            }
            Effect::ResumeChild { step, by } => {
                if let Some(run) = shared.driven(&RunId::started_by(&step)) {
                    run.tell(Input::Resume { by, above: true });
                }
            }
            Effect::Abandon { step } => {
                // A terminal that is being opened has to be closed, and its id comes with the outcome.
                let opens = self.opening.as_ref() == Some(&step);
                if let Some((_, task)) = self.in_flight.take_if(|(current, _)| *current == step && !opens) {
                    task.abort();
                }
                // A run that it started ends before this one counts as over: its terminals are closed then.
                if let Some(run) = shared.driven(&RunId::started_by(&step)) {
                    self.closing.push(tokio::spawn(async move { child::give_up(&run).await }));
                }
            }
            Effect::ArmDeadline { after } => {
                let inputs = self.inputs.clone();
                let timer = tokio::spawn(async move {
                    tokio::time::sleep(after).await;
                    // A run that is over does not mind.
                    let _ = inputs.send(Box::new(Input::DeadlinePassed));
                });
                if let Some(before) = self.deadline.replace(timer.abort_handle()) {
                    before.abort();
                }
            }
            Effect::DisarmDeadline => {
                if let Some(deadline) = self.deadline.take() {
                    deadline.abort();
                }
            }
            Effect::CloseTerminal { session_id } => {
                self.closing.push(tokio::spawn(async move {
                    // One that somebody closed before is closed, and one that a person holds is theirs.
                    shared.sessions.exit(&caller, ExitTerminal { session_id, ..ExitTerminal::default() }).await;
                }));
            }
            // This driver performs the opening: `close_what_is_opened` closes the terminal when its id arrives.
            Effect::CloseOpened { step } if self.opening.as_ref() == Some(&step) => {}
            Effect::CloseOpened { step } => {
                self.closing.push(tokio::spawn(async move {
                    shared.sessions.exit_opened_by(&caller, &step.to_string()).await;
                }));
            }
        }
    }

    fn await_outcome(&mut self, step: StepId, outcome: impl Future<Output = Outcome> + Send + 'static) {
        self.await_input(step.clone(), async { Input::Outcome { step, outcome: outcome.await } });
    }

    fn await_input(&mut self, step: StepId, input: impl Future<Output = Input> + Send + 'static) {
        let inputs = self.inputs.clone();
        let mut input = Box::pin(input);
        // What is known at once needs no task, and costs no other thread a turn.
        if let Poll::Ready(input) = input.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            // A run that is over does not mind, here and below.
            let _ = inputs.send(Box::new(input));
            return;
        }
        let task = tokio::spawn(async move {
            let _ = inputs.send(Box::new(input.await));
        });
        self.in_flight = Some((step, task.abort_handle()));
    }
}

/// Whether an effect of a run that is over takes its time.
fn leaves_work(effect: &Effect) -> bool {
    matches!(effect, Effect::CloseTerminal { .. } | Effect::CloseOpened { .. } | Effect::Abandon { .. })
}

/// Returns the text that an action types as a secret.
fn typed_unseen(effect: &Effect) -> Option<String> {
    let Effect::Perform { params, .. } = effect else { return None };
    let secret = params.get("secret").is_some_and(|secret| *secret == Value::Bool(true) || *secret == "true");
    params.get("input_text").and_then(Value::as_str).filter(|_| secret).map(str::to_owned)
}
