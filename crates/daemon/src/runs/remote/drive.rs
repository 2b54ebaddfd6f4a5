//! The task that drives a run of a remote workflow: decide, append, ask, and again.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use steplatch_remote::{
    AskError, Cancelled, Config, Ids, Looked, Pace, StartError, Started, State as There, Status, clean_text, jitter,
    pace, result,
};
use steplatch_store::Append;
use steplatch_workflow::{Input, Timestamp};
use tokio::sync::{mpsc, watch};

use super::entry::{Began, Entry};
use super::state::{Next, Phase, State};
use crate::moment;
use crate::remotes::{Ended, Service, Setup, Turn};
use crate::runs::Shared;
use crate::runs::drive::ENTRY_VERSION;
use crate::runs::run::{About, Progress, RunState};

/// How long the answer to a start is waited for when the daemon stops: without it, nobody knows what became of it.
const LAST_ANSWER: Duration = Duration::from_secs(8);

/// How long a service may take to answer a cancel: somebody waits for it.
const CANCELS_WITHIN: Duration = Duration::from_secs(8);

/// Changes at its service that are written down of one run: what it waits for may change as often as the service likes.
const MOST_TOLD: u32 = 1_000;

/// Characters of a question there that are kept, of each of its choices, and how many of these.
const LONGEST_PROMPT: usize = 2_000;
const LONGEST_CHOICE: usize = 200;
const MOST_CHOICES: usize = 50;

/// Times in a row that a service may not know a run which it started.
const MOST_UNKNOWN: u32 = 3;

/// What drives one run.
pub(super) struct Driver {
    shared: Arc<Shared>,
    pub(super) began: Began,
    about: About,
    inputs: mpsc::UnboundedReceiver<Box<Input>>,
    progress: watch::Sender<Progress>,
    state: State,
    seq: u64,
    /// The state that lists tell of.
    told: Option<RunState>,
    service: Arc<Service>,
    /// The right to be under way at the service.
    turn: Option<Turn>,
    /// When it is looked at next.
    pace: Pace,
    look_after: Duration,
    /// What was seen last.
    seen: Option<Status>,
    /// Looks in a row at which the service did not know the run.
    unknown: u32,
    /// How long the service's runs may take, as it was configured last.
    longest: Duration,
    /// Why it can not go on just now.
    trouble: Option<String>,
}

/// What is being asked, and waited for.
struct Asking {
    what: What,
    answer: Pin<Box<dyn Future<Output = Came> + Send>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Turn,
    Start,
    Look,
    Cancel,
}

/// What came of it.
enum Came {
    Turn(Turn),
    Start(Result<Started, StartError>),
    Look(Box<Result<Status, AskError>>),
    /// None if there was no answer in time.
    Cancel(Option<Result<Cancelled, AskError>>),
}

impl Driver {
    pub(super) fn new(
        shared: Arc<Shared>,
        began: Began,
        about: About,
        inputs: mpsc::UnboundedReceiver<Box<Input>>,
        progress: watch::Sender<Progress>,
        state: State,
        seq: u64,
    ) -> Self {
        let service = shared.remotes.service(&began.service);
        // Those that are there already count before others begin.
        let turn = state.there.is_some().then(|| service.enter_anyway());
        let pace = Pace::new(Duration::from_secs(5));
        let driver = Self {
            shared,
            began,
            about,
            inputs,
            progress,
            state,
            seq,
            told: None,
            service,
            turn,
            look_after: pace.first(),
            pace,
            seen: None,
            unknown: 0,
            longest: Config::default().execution_timeout,
            trouble: None,
        };
        driver.publish();
        driver
    }

    /// Drives the run to its end, or until the daemon stops.
    pub(super) async fn drive(mut self) {
        let mut asking: Option<Asking> = None;
        let stopping = self.shared.stopping.clone();
        while self.state.end.is_none() {
            if let Some(setup) = self.service.setup() {
                self.longest = setup.config.execution_timeout;
            }
            if asking.is_none() && !self.begin_next(&mut asking).await {
                return;
            }
            if self.state.end.is_some() {
                break;
            }
            let late = self.state.at_work_for(self.limit());
            let goes_on = tokio::select! {
                biased;
                () = stopping.cancelled() => return self.leave(asking).await,
                input = self.inputs.recv() => match input {
                    Some(input) => self.heard(*input, &mut asking).await,
                    None => return self.leave(asking).await,
                },
                came = answer(&mut asking) => {
                    asking = None;
                    self.came(came, &mut asking).await
                }
                () = reached(late) => self.late(&mut asking).await,
            };
            if !goes_on {
                return;
            }
        }
        self.finish().await;
    }

    /// Begins to ask what is to be asked next. Returns false when this run is not ours to go on with.
    async fn begin_next(&mut self, asking: &mut Option<Asking>) -> bool {
        match self.state.next(false) {
            Next::Nothing | Next::Rest => true,
            Next::Unknown => {
                let error = format!(
                    "The daemon ended while '{}' was asked to start this, so whether it was started there is not known, \
                     and it is not started again. The request had the Idempotency-Key {}; look there for it.",
                    self.began.service, self.began.run
                );
                self.fail(error, "UNKNOWN").await
            }
            Next::Start { not_before } => {
                self.tell_of_service();
                // One that is left alone for a while keeps no place.
                let turn = if not_before.is_none() { self.service.try_enter() } else { None };
                if turn.is_none()
                    && not_before.is_none()
                    && !self.state.queued
                    && !self.append(Entry::Queued { at: moment::now() }).await
                {
                    return false;
                }
                let service = self.service.clone();
                *asking = Some(Asking {
                    what: What::Turn,
                    answer: Box::pin(async move {
                        if let Some(not_before) = not_before {
                            until(not_before).await;
                        }
                        // One that is not configured just now may be again.
                        service.usable().await;
                        match turn {
                            Some(turn) => Came::Turn(turn),
                            None => Came::Turn(service.enter().await),
                        }
                    }),
                });
                true
            }
            Next::Look => {
                self.tell_of_service();
                let (after, instance) = (self.look_after, self.instance());
                *asking = Some(self.asks(What::Look, after, move |setup, workflow| async move {
                    Came::Look(Box::new(setup.client.status(&workflow, &instance).await))
                }));
                true
            }
            Next::Cancel if !self.is_used() => {
                self.give_up("its service is not configured and enabled any more, so the remote run may go on").await
            }
            Next::Cancel => {
                let instance = self.instance();
                *asking = Some(self.asks(What::Cancel, Duration::ZERO, move |setup, workflow| async move {
                    let asked = setup.client.cancel(&workflow, &instance);
                    Came::Cancel(tokio::time::timeout(CANCELS_WITHIN, asked).await.ok())
                }));
                true
            }
        }
    }

    /// Asks the service something, after a time, once it is configured.
    fn asks<F>(&self, what: What, after: Duration, ask: impl FnOnce(Arc<Setup>, String) -> F + Send + 'static) -> Asking
    where
        F: Future<Output = Came> + Send + 'static,
    {
        let (service, workflow) = (self.service.clone(), self.began.workflow_id.clone());
        let answer = Box::pin(async move {
            tokio::time::sleep(after).await;
            let setup = service.usable().await;
            setup.hide_token().await;
            ask(setup, workflow).await
        });
        Asking { what, answer }
    }

    /// Does what somebody outside wants. Returns false when this run is not ours to go on with.
    async fn heard(&mut self, input: Input, asking: &mut Option<Asking>) -> bool {
        let at = moment::now();
        let entry = match input {
            Input::Cancel { .. } if matches!(self.state.phase, Phase::Cancelling { .. }) => return true,
            Input::Cancel { reason } if matches!(self.state.phase, Phase::ToStart | Phase::ToStartAt(_)) => {
                // It was never started.
                let result = self.result(Some(&reason), Some("CANCELLED"));
                Entry::Cancelled { at, reason, result }
            }
            Input::Cancel { reason } => Entry::Cancelling { at, reason, late: false },
            Input::Pause { by, above } if self.state.paused.is_none() => Entry::Paused { at, by, above },
            Input::Resume { by, above } => match &self.state.paused {
                // One that somebody paused for itself goes on with nobody else.
                Some(pause) if !above || pause.above => Entry::Resumed { at, by },
                _ => return true,
            },
            _ => return true,
        };
        // What may have been done already is not let go of.
        if asking.as_ref().is_some_and(|asking| asking.what != What::Start) {
            *asking = None;
        }
        self.append(entry).await
    }

    async fn late(&mut self, asking: &mut Option<Asking>) -> bool {
        let seconds = self.limit().as_secs_f64();
        let reason = format!("It took longer than {seconds} s, which is its limit");
        *asking = None;
        self.append(Entry::Cancelling { at: moment::now(), reason, late: true }).await
    }

    /// Goes on with an answer. Returns false when this run is not ours to go on with.
    async fn came(&mut self, came: Came, asking: &mut Option<Asking>) -> bool {
        self.trouble = None;
        match came {
            Came::Turn(turn) => {
                self.turn = Some(turn);
                // Written before it is asked: what came of it may never be known.
                if !self.append(Entry::Starting { at: moment::now() }).await {
                    return false;
                }
                let (key, input) = (self.began.run.to_string(), self.began.input.clone());
                *asking = Some(self.asks(What::Start, Duration::ZERO, move |setup, workflow| async move {
                    Came::Start(setup.client.start(&workflow, &input, &key).await)
                }));
                true
            }
            Came::Start(answer) => self.started(answer).await,
            Came::Look(answer) => self.looked(*answer).await,
            Came::Cancel(answer) => self.cancelled(answer).await,
        }
    }

    async fn started(&mut self, answer: Result<Started, StartError>) -> bool {
        let at = moment::now();
        match answer {
            Ok(Started { correlation_id, workflow_instance: instance }) => {
                self.service.numbers.started();
                self.append(Entry::Started { at, correlation_id, instance }).await
            }
            Err(StartError::Unknown { words }) => {
                let error = format!(
                    "Whether '{}' started this is not known, and it is not asked again: {words} The request had the \
                     Idempotency-Key {}; look there for it.",
                    self.began.service, self.began.run
                );
                self.fail(error, "UNKNOWN").await
            }
            Err(StartError::Refused { words, .. }) if matches!(self.state.phase, Phase::Cancelling { .. }) => {
                self.give_up(&format!("it was not started ({words})")).await
            }
            Err(StartError::Refused { words, status, retry_after }) => {
                self.turn = None;
                // It was not reached, or it is busy; whatever else it said, it will say again.
                let again = matches!(status, None | Some(429));
                let most = self.service.setup().map_or(0, |setup| setup.config.retry_attempts);
                if !again || self.state.refusals >= most {
                    return self.fail(words, "FAILED").await;
                }
                let after = pause_before(self.state.refusals + 1).max(retry_after.unwrap_or_default());
                self.append(Entry::NotStarted { at, error: words, again: at.after(after.min(pace::LONGEST)) }).await
            }
        }
    }

    async fn looked(&mut self, answer: Result<Status, AskError>) -> bool {
        let status = match answer {
            Ok(status) => status,
            Err(error) => {
                self.unknown = if error.status == Some(404) { self.unknown + 1 } else { 0 };
                if self.unknown >= MOST_UNKNOWN {
                    let error = format!(
                        "'{}' does not know this run any more, so what became of it is not known: {error}",
                        self.began.service
                    );
                    return self.fail(error, "UNKNOWN").await;
                }
                let looked = Looked::Failed { retry_after: error.retry_after };
                self.look_after = self.pace.next(looked, jitter());
                self.trouble = Some(format!("the service can not be asked how it is, and is asked again: {error}"));
                self.publish();
                return true;
            }
        };
        self.unknown = 0;
        let at = moment::now();
        let gate = status.pending_gate.as_ref().map(bounded);
        let known = self.state.there.as_ref();
        let is_same = known
            .is_some_and(|there| there.status.as_deref() == Some(status.word.as_str()) && there.gate == gate)
            || self.state.tellings >= MOST_TOLD;
        self.look_after = self.pace.next(if is_same { Looked::Same } else { Looked::Changed }, jitter());
        let state = status.state;
        let told = Entry::Told { at, status: status.word.clone(), gate };
        self.seen = Some(status);
        match state {
            There::Running if is_same => {
                self.publish();
                true
            }
            There::Running => self.append(told).await,
            There::Completed => {
                let result = self.result(None, None);
                self.append(Entry::Completed { at, result }).await
            }
            There::Failed => {
                let error = self.seen.as_ref().map(Status::failure_words).unwrap_or_default();
                let result = self.result(None, None);
                self.append(Entry::Failed { at, error, result }).await
            }
            There::Cancelled => {
                let words = self.seen.as_ref().map(Status::failure_words).unwrap_or_default();
                let reason = format!("it was cancelled at its service: {words}");
                let result = self.result(None, None);
                self.append(Entry::Cancelled { at, reason, result }).await
            }
        }
    }

    async fn cancelled(&mut self, answer: Option<Result<Cancelled, AskError>>) -> bool {
        match answer {
            Some(Ok(Cancelled::Asked)) => self.give_up("its service was asked to cancel it").await,
            Some(Ok(Cancelled::NotSupported)) => {
                self.give_up("its service takes no cancels, so the remote run goes on").await
            }
            None => self.give_up("its service did not answer the cancel, so the remote run may go on").await,
            Some(Err(error)) => {
                let words =
                    format!("its service could not be asked to cancel it, so the remote run may go on: {error}");
                self.give_up(&words).await
            }
        }
    }

    /// Ends a run whose end was wanted, saying what became of it there.
    async fn give_up(&mut self, there: &str) -> bool {
        let at = moment::now();
        let Phase::Cancelling { reason, late } = self.state.phase.clone() else { return true };
        let told = format!("{reason}; {there}");
        match late {
            true => {
                let result = self.result(Some(&told), None);
                self.append(Entry::Failed { at, error: told, result }).await
            }
            false => {
                let result = self.result(Some(&told), Some("CANCELLED"));
                self.append(Entry::Cancelled { at, reason: told, result }).await
            }
        }
    }

    async fn fail(&mut self, error: String, status: &str) -> bool {
        let result = self.result(Some(&error), Some(status));
        self.append(Entry::Failed { at: moment::now(), error, result }).await
    }

    /// Returns what is told of the run, with what was seen last.
    fn result(&self, error: Option<&str>, status: Option<&str>) -> Value {
        let there = self.state.there.as_ref();
        let ids = Ids {
            workflow: self.began.workflow_id.clone(),
            correlation: there.map(|there| there.correlation_id.clone()).unwrap_or_default(),
            instance: there.map(|there| there.instance.clone()).unwrap_or_default(),
        };
        let mut result = result(&ids, self.seen.as_ref(), error);
        if let Some(status) = status {
            result["status"] = status.into();
        }
        if result["input"].is_null() {
            result["input"] = Value::Object(self.began.input.clone());
        }
        result
    }

    /// Returns how long it may be at work there.
    fn limit(&self) -> Duration {
        let own = self.began.timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        own.map_or(self.longest, |own| own.min(self.longest))
    }

    /// Whether the service is configured and used just now.
    fn is_used(&self) -> bool {
        self.service.setup().is_some_and(|setup| setup.config.enabled)
    }

    /// Says why it does not go on while its service is not used.
    fn tell_of_service(&mut self) {
        if !self.is_used() {
            let service = &self.began.service;
            self.trouble = Some(format!(
                "the service '{service}' is not configured and enabled just now; the run goes on when it is, or cancel it"
            ));
            self.publish();
        }
    }

    fn instance(&self) -> String {
        self.state.there.as_ref().map(|there| there.instance.clone()).unwrap_or_default()
    }

    /// Writes, and tells who follows. Returns false when this run is not ours to go on with.
    async fn append(&mut self, entry: Entry) -> bool {
        self.state.apply(&entry);
        let mut append = Append::new(self.about_run(), self.seq, ENTRY_VERSION, vec![entry.text()]);
        let state = self.state.run_state();
        if self.told != Some(state) {
            self.told = Some(state);
            append.summary = Some(self.now().summary(&self.about));
        }
        let Some(last) = self.shared.written(append, &self.progress).await else { return false };
        self.seq = last;
        if self.state.end.is_none() {
            self.publish();
        }
        true
    }

    fn about_run(&self) -> steplatch_ids::RunId {
        self.began.run.clone()
    }

    async fn finish(mut self) {
        self.turn = None;
        if let Some(end) = &self.state.end {
            let how = match end.state {
                RunState::Completed => Ended::Completed,
                RunState::Cancelled => Ended::Cancelled,
                _ => Ended::Failed,
            };
            self.service.numbers.ended(how, end.at.since(self.began.at));
        }
        self.publish();
        self.shared.ended(&self.began.run, false);
    }

    /// Leaves the run to the next daemon. The answer to a start is written down if it comes soon.
    async fn leave(mut self, mut asking: Option<Asking>) {
        if asking.as_ref().is_some_and(|asking| asking.what == What::Start)
            && let Ok(came) = tokio::time::timeout(LAST_ANSWER, answer(&mut asking)).await
        {
            self.came(came, &mut asking).await;
        }
    }

    fn now(&self) -> Progress {
        let end = self.state.end.as_ref();
        Progress {
            seq: self.seq,
            state: self.state.run_state(),
            ended: end.map(|end| end.at),
            error: self.shared.secrets.masked_if(end.and_then(|end| end.error.clone())),
            paused: self.state.paused.clone(),
            asks_elsewhere: end.is_none() && self.state.gate().is_some(),
            trouble: self.trouble.clone().filter(|_| end.is_none()),
            ..Progress::default()
        }
    }

    fn publish(&self) {
        self.progress.send_replace(self.now());
        self.shared.changes.run(&self.began.run);
    }
}

/// What a service says that a run waits for, as much of it as is kept: the question and what can be answered.
fn bounded(gate: &Value) -> Value {
    let text = |value: &Value, most| value.as_str().map(|text| clean_text(text, most));
    let prompt = gate.get("prompt").and_then(|prompt| text(prompt, LONGEST_PROMPT)).unwrap_or_default();
    let choices = gate.get("choices").and_then(Value::as_array).into_iter().flatten();
    let choices: Vec<String> = choices.filter_map(|choice| text(choice, LONGEST_CHOICE)).take(MOST_CHOICES).collect();
    json!({"prompt": prompt, "choices": choices})
}

/// Waits for the answer to what is asked; for ever if nothing is.
async fn answer(asking: &mut Option<Asking>) -> Came {
    match asking {
        Some(asking) => asking.answer.as_mut().await,
        None => std::future::pending().await,
    }
}

async fn until(at: Timestamp) {
    tokio::time::sleep(at.since(moment::now())).await;
}

async fn reached(at: Option<Timestamp>) {
    match at {
        Some(at) => until(at).await,
        None => std::future::pending().await,
    }
}

/// How long a service is left alone after so many attempts that came to nothing.
fn pause_before(attempt: u32) -> Duration {
    pace::rediscovery(attempt, None, None, jitter())
}
