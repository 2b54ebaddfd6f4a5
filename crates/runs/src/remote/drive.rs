//! The task that drives a run of a remote workflow: decide, append, ask, and again.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use steplatch_clock as clock;
use steplatch_remote::{AskError, Cancelled, Config, LocalEnd, Pace, StartError, Started, Status};
use steplatch_services::{Ended, Service, Setup, Turn};
use steplatch_store::Append;
use steplatch_workflow::Input;
use tokio::sync::{mpsc, watch};

use super::entry::{Began, Entry};
use super::state::{Next, Phase, State};
use crate::drive::ENTRY_VERSION;
use crate::function::{due, until};
use crate::origin::Origin;
use crate::run::{About, Progress, RunState};
use crate::seal::{Closed, LiveSeal};
use crate::shared::Shared;

/// How long the answer to a start is waited for when the daemon stops: without it, nobody knows what became of it.
const LAST_ANSWER: Duration = Duration::from_secs(8);

/// How long a service may take to answer a cancel: somebody waits for it.
const CANCELS_WITHIN: Duration = Duration::from_secs(8);

/// What drives one run.
pub(super) struct Driver {
    pub(super) shared: Arc<Shared>,
    pub(super) began: Began,
    pub(super) about: About,
    pub(super) inputs: mpsc::UnboundedReceiver<Box<Input>>,
    pub(super) progress: watch::Sender<Progress>,
    pub(super) state: State,
    pub(super) seq: u64,
    /// The state that lists tell of.
    pub(super) told: Option<RunState>,
    pub(super) service: Arc<Service>,
    /// The right to be under way at the service.
    pub(super) turn: Option<Turn>,
    /// When it is looked at next.
    pub(super) pace: Pace,
    pub(super) look_after: Duration,
    /// What was seen last.
    pub(super) seen: Option<Status>,
    /// Looks in a row at which the service did not know the run.
    pub(super) unknown: u32,
    /// How long the service's runs may take, as it was configured last.
    pub(super) longest: Duration,
    /// Why it can not go on just now.
    pub(super) trouble: Option<String>,
    sealing: Sealing,
    /// Changes whenever the daemon learns a secret.
    learned: watch::Receiver<u64>,
}

/// What hides the secrets of a run in its history.
pub(super) struct Sealing {
    pub(super) seal: LiveSeal,
    /// What is stored beside the run, with its secrets.
    pub(super) origin: Origin,
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
        (state, seq): (State, u64),
        sealing: Sealing,
    ) -> Self {
        let service = shared.remotes.service(&began.service);
        // Those that are there already count before others begin.
        let turn = state.there.is_some().then(|| service.enter_anyway());
        let (pace, learned) = (Pace::new(Duration::from_secs(5)), shared.secrets.learned());
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
            sealing,
            learned,
        };
        driver.publish();
        driver
    }

    /// Drives the run to its end, or until the daemon stops.
    pub(super) async fn drive(mut self) {
        let mut asking: Option<Asking> = None;
        let stopping = self.shared.stopping.clone();
        self.state.begins_by(clock::now());
        // Of a run that is found, the last daemon may have learned of a secret and not have lived to seal it.
        if !self.write(&[]).await {
            return;
        }
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
                () = due(late) => self.late(&mut asking).await,
                Ok(()) = self.learned.changed() => self.write(&[]).await,
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
                    && !self.append(Entry::Queued { at: clock::now() }).await
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
        let at = clock::now();
        let entry = match input {
            Input::Cancel { .. } if matches!(self.state.phase, Phase::Cancelling { .. }) => return true,
            Input::Cancel { reason } if matches!(self.state.phase, Phase::ToStart | Phase::ToStartAt(_)) => {
                // It was never started.
                let result = self.result(Some(LocalEnd { status: "CANCELLED", error: &reason }));
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
        self.append(Entry::Cancelling { at: clock::now(), reason, late: true }).await
    }

    /// Goes on with an answer. Returns false when this run is not ours to go on with.
    async fn came(&mut self, came: Came, asking: &mut Option<Asking>) -> bool {
        self.trouble = None;
        match came {
            Came::Turn(turn) => {
                self.turn = Some(turn);
                // Written before it is asked: what came of it may never be known.
                if !self.append(Entry::Starting { at: clock::now() }).await {
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
    pub(super) async fn append(&mut self, entry: Entry) -> bool {
        self.state.apply(&entry);
        self.write(&[entry]).await
    }

    /// Writes entries that are applied already, and seals what the daemon has learned to be secret. Returns false when this
    /// run is not ours to go on with.
    async fn write(&mut self, entries: &[Entry]) -> bool {
        let (run, none) = (self.began.run.clone(), BTreeSet::new());
        let closed = self.sealing.seal.close(&self.shared, &run, self.seq, entries, &none).await;
        let Closed { texts, redacted, has_learned } = closed;
        if texts.is_empty() && redacted.is_empty() && !has_learned {
            return true;
        }
        let mut append = Append { redacted, ..Append::new(run, self.seq, ENTRY_VERSION, texts) };
        if has_learned {
            self.about.mask(&self.shared.secrets);
            append.private = Some(self.sealing.origin.sealed_by(self.sealing.seal.seal()).text());
        }
        let state = self.state.run_state();
        if self.told != Some(state) || has_learned {
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

    async fn finish(mut self) {
        self.turn = None;
        if let Some(end) = &self.state.end {
            let how = match end.state {
                RunState::Completed => Ended::Completed,
                RunState::Cancelled => Ended::Cancelled,
                _ => Ended::Failed,
            };
            let took = end.at.since(self.began.at);
            self.service.numbers.ended(how, took);
            tracing::info!(
                run = %self.began.run,
                workflow = self.began.tool,
                service = self.began.service,
                workflow_id = self.began.workflow_id,
                instance = self.instance(),
                outcome = end.state.name(),
                error = self.shared.secrets.masked_if(end.error.clone()),
                seconds = took.as_secs_f64(),
                "a run of a remote workflow ended"
            );
        }
        self.publish();
        self.shared.ended(&self.began.run, !self.sealing.seal.seal().secrets().is_empty());
    }

    /// Leaves the run to the next daemon. The answer to a start is written down if it comes soon.
    async fn leave(mut self, mut asking: Option<Asking>) {
        if asking.as_ref().is_some_and(|asking| asking.what == What::Start)
            && let Ok(came) = tokio::time::timeout(LAST_ANSWER, answer(&mut asking)).await
        {
            self.came(came, &mut asking).await;
        }
        // The next daemon may not know what this one has learned.
        self.write(&[]).await;
    }

    fn now(&self) -> Progress {
        let end = self.state.end.as_ref();
        Progress {
            seq: self.seq,
            state: self.state.run_state(),
            ended: end.map(|end| end.at),
            error: self.shared.secrets.masked_if(end.and_then(|end| end.error.clone())),
            result: end.filter(|end| end.state == RunState::Completed).map(|end| {
                let mut result = end.result.clone();
                self.shared.secrets.mask_in(&mut result);
                Arc::new(result)
            }),
            returned: end.map(|end| Arc::new(end.result.clone())),
            paused: self.state.paused.clone(),
            asks_elsewhere: end.is_none() && self.state.gate().is_some(),
            trouble: self.trouble.clone().filter(|_| end.is_none()),
            ..Progress::default()
        }
    }

    pub(super) fn publish(&self) {
        self.progress.send_replace(self.now());
        self.shared.listener.run_changed(&self.began.run);
    }
}

/// Waits for the answer to what is asked; for ever if nothing is.
async fn answer(asking: &mut Option<Asking>) -> Came {
    match asking {
        Some(asking) => asking.answer.as_mut().await,
        None => std::future::pending().await,
    }
}
