//! A remote workflow as a kind of run: it records each request to its service, then sends it.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use steplatch_ids::{RunId, StepId};
use steplatch_remote::{Cancelled, Config, LocalEnd, PollBackoff, RequestError, StartError, StartedRun, Status};
use steplatch_services::{Permit, RunEnd, Service, ServiceClient};
use steplatch_store::Record;
use steplatch_workflow::Input;

use super::entry::{Entry, RemoteStart};
use super::state::{Next, Phase, State};
use super::turns::Turns;
use crate::child::ABANDONED_REASON;
use crate::engine::{Attempt, Handled, Recorder, Recovery, RecoveryError, RunKind, StoredRun};
use crate::engine_state::Engine;
use crate::origin::Environment;
use crate::outer::{Mirror, MirrorMessage};
use crate::run::{RunHeader, RunInputs, RunState, RunStatus};
use crate::seal::Seal;
use crate::time_span::TimeSpan;

/// Maximum time that a stopping daemon waits for the answer to a start. Without the answer, the outcome is unknown.
const START_TIMEOUT: Duration = Duration::from_secs(8);

/// Time limit for a service to answer a cancel, since a client waits for it.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(8);

/// One run of a remote workflow.
pub(crate) struct RemoteRun {
    pub(super) recorder: Recorder,
    pub(super) began: RemoteStart,
    pub(super) state: State,
    pub(super) service: Arc<Service>,
    /// Permission to be in progress at the service.
    pub(super) permit: Option<Permit>,
    /// Schedule of the next status request.
    pub(super) pace: PollBackoff,
    pub(super) poll_delay: Duration,
    /// Last known status.
    pub(super) last_status: Option<Status>,
    /// Number of consecutive status requests with the reply that the service does not know the run.
    pub(super) unknown_replies: u32,
    /// Maximum time of the service's runs, from the last configuration.
    pub(super) max_run_time: Duration,
    /// Reason that currently blocks the run.
    pub(super) blocked_reason: Option<String>,
    /// The request in progress, if there is one.
    pending_request: Option<PendingRequest>,
    /// Connection to the outer engine that follows the run, if there is one.
    pub(super) mirror: Option<Mirror>,
    pub(super) turns: Turns,
}

/// A request in progress, with its future answer.
struct PendingRequest {
    kind: RequestKind,
    answer: Pin<Box<dyn Future<Output = ServiceReply> + Send>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestKind {
    Turn,
    Start,
    Poll,
    Cancel,
}

/// The answer to a request.
pub(crate) enum ServiceReply {
    Turn(Permit),
    Start(Result<StartedRun, StartError>),
    Poll(Box<Result<Status, RequestError>>),
    /// None if there was no answer in time.
    Cancel(Option<Result<Cancelled, RequestError>>),
}

/// Event that a run of a remote workflow waits for, in addition to inputs.
pub(crate) enum RemoteEvent {
    Reply(ServiceReply),
    TimedOut,
    /// A message of the outer engine.
    Outer(MirrorMessage),
}

/// Data of a run of a remote workflow in the journal.
pub(crate) struct RemoteHistory {
    began: RemoteStart,
    state: State,
}

impl Recovery for RemoteRun {
    type History = RemoteHistory;

    const CONTINUES_WITHOUT_CALLER: bool = true;

    async fn read(
        _: &Arc<Engine>,
        _: &RunHeader,
        _: &RunId,
        records: Vec<Record>,
        seal: Seal,
    ) -> Result<StoredRun<RemoteHistory>, RecoveryError> {
        let (mut state, mut start) = (State::default(), None);
        for record in &records {
            let entry = Entry::read(record, &seal)?;
            state.apply(&entry);
            if let Entry::Began(first) = entry {
                start = Some(*first);
            }
        }
        let start = start.ok_or(RecoveryError::NoStart)?;
        Ok(StoredRun { history: RemoteHistory { began: start, state }, seal, environment: Environment::Empty })
    }

    fn resume(history: RemoteHistory, recorder: Recorder) -> Self {
        Self::new(recorder, history.began, history.state)
    }

    /// Returns false: a run of a remote workflow starts no runs.
    fn awaits(&self, _: &StepId) -> bool {
        false
    }

    /// Returns no steps: the service performs all actions.
    fn pending_steps(&self) -> Option<Vec<StepId>> {
        Some(Vec::new())
    }
}

impl RunKind for RemoteRun {
    type Entry = Entry;
    type Event = RemoteEvent;

    fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    fn recorder_mut(&mut self) -> &mut Recorder {
        &mut self.recorder
    }

    fn is_over(&self) -> bool {
        self.state.end.is_some()
    }

    fn leaves_work(&self) -> bool {
        false
    }

    fn progress(&self) -> RunStatus {
        let end = self.state.end.as_ref();
        RunStatus {
            state: self.state.run_state(),
            ended: end.map(|end| end.at),
            error: self.recorder.shared.secrets.masked_if(end.and_then(|end| end.error.clone())),
            result: end
                .filter(|end| end.state == RunState::Completed)
                .map(|end| Arc::new(self.recorder.shared.secrets.masked_value(end.result.clone()))),
            returned: end.map(|end| Arc::new(end.result.clone())),
            paused: self.state.paused.clone(),
            open_gate: end.is_none() && self.state.gate().is_some(),
            blocked_reason: self
                .blocked_reason
                .clone()
                .or_else(|| self.mirror.as_ref()?.blocked_reason.clone())
                .filter(|_| end.is_none()),
            ..RunStatus::default()
        }
    }

    async fn start(&mut self, attempt: Attempt) -> bool {
        if attempt == Attempt::First {
            tracing::info!(
                run = %self.began.run,
                workflow = self.began.tool,
                service = self.began.service,
                workflow_id = self.began.workflow_id,
                "a run of a remote workflow started"
            );
        }
        if let Some(mirror) = &mut self.mirror {
            mirror.start(&self.recorder, attempt);
        }
        self.state.limit_start_to(self.recorder.shared.clock.now());
        if attempt == Attempt::First && self.is_abandoned_by_parent().await {
            let reason = ABANDONED_REASON.to_owned();
            if self.record_input(Input::Cancel { reason }).await == Handled::Lost {
                return false;
            }
        }
        // The last daemon of a recovered run may have stopped between learning a secret and sealing it.
        self.record(&[]).await && self.send_next().await
    }

    async fn next_event(&mut self) -> RemoteEvent {
        let work_deadline = self.state.work_deadline(self.limit());
        tokio::select! {
            biased;
            reply = answer(&mut self.pending_request) => {
                self.pending_request = None;
                RemoteEvent::Reply(reply)
            }
            () = self.recorder.shared.clock.deadline(work_deadline) => RemoteEvent::TimedOut,
            message = Mirror::next(&mut self.mirror) => RemoteEvent::Outer(message),
        }
    }

    async fn handle_event(&mut self, event: RemoteEvent) -> bool {
        let continues = match event {
            RemoteEvent::Reply(reply) => self.handle_reply(reply).await,
            RemoteEvent::TimedOut => self.handle_timeout().await,
            RemoteEvent::Outer(message) => self.receive(message).await,
        };
        self.report_status();
        continues && self.send_next().await
    }

    async fn handle_input(&mut self, input: Input) -> Handled {
        let handled = match self.record_input(input).await {
            Handled::Recorded => Handled::recorded(self.send_next().await),
            handled => handled,
        };
        self.report_status();
        handled
    }

    async fn close(&mut self, _: &mut RunInputs) -> bool {
        self.permit = None;
        // The journal answers the engine from now on.
        self.mirror = None;
        self.report_end();
        true
    }

    async fn settle(&mut self) {}

    /// Records the answer to a start if it arrives soon.
    async fn stop(&mut self) {
        if self.pending_request.as_ref().is_some_and(|request| request.kind == RequestKind::Start)
            && let Ok(reply) = tokio::time::timeout(START_TIMEOUT, answer(&mut self.pending_request)).await
        {
            self.pending_request = None;
            self.handle_reply(reply).await;
        }
        // The next daemon may not know the secrets that this daemon has learned.
        self.record(&[]).await;
    }

    fn release(&mut self) {
        self.permit = None;
    }
}

impl RemoteRun {
    pub(super) fn new(recorder: Recorder, began: RemoteStart, state: State) -> Self {
        // Runs in progress at the service take precedence over new runs.
        let service = recorder.shared.remotes.service(&began.service);
        let permit = state.remote.is_some().then(|| service.enter_anyway());
        let pace = PollBackoff::new(Duration::from_secs(5));
        // The journal answers the engine for a finished run.
        let mirror = if state.end.is_none() { Mirror::connect(&recorder, true, Vec::new()) } else { None };
        Self {
            recorder,
            began,
            state,
            service,
            permit,
            poll_delay: pace.first_delay(),
            pace,
            last_status: None,
            unknown_replies: 0,
            max_run_time: Config::default().execution_timeout,
            blocked_reason: None,
            pending_request: None,
            mirror,
            turns: Turns::default(),
        }
    }

    /// Sends the next request, unless one is in progress. Returns false when this daemon must no longer drive the run.
    async fn send_next(&mut self) -> bool {
        if let Some(setup) = self.service.setup() {
            self.max_run_time = setup.config.execution_timeout;
        }
        self.pending_request.is_some() || self.is_over() || self.prepare_next().await
    }

    /// Prepares and sends the next request. Returns false when this daemon must no longer drive the run.
    async fn prepare_next(&mut self) -> bool {
        match self.state.next(false) {
            Next::Nothing | Next::Wait => true,
            Next::Unknown => {
                let error = format!(
                    "The daemon stopped during the request to '{}' to start this run, so it is unknown whether it was \
                     started, and it is not started again. The request had the Idempotency-Key {}; look for it at the \
                     service.",
                    self.began.service, self.began.run
                );
                self.fail(error, "UNKNOWN").await
            }
            Next::Start { not_before } => {
                self.report_missing_service();
                // A run that waits before a retry holds no permit.
                let turn = if not_before.is_none() { self.service.try_enter() } else { None };
                if turn.is_none()
                    && not_before.is_none()
                    && !self.state.queued
                    && !self.append(Entry::Queued { at: self.recorder.shared.clock.now() }).await
                {
                    return false;
                }
                let (service, clock) = (self.service.clone(), self.recorder.shared.clock.clone());
                self.pending_request = Some(PendingRequest {
                    kind: RequestKind::Turn,
                    answer: Box::pin(async move {
                        if let Some(not_before) = not_before {
                            clock.sleep_until(not_before).await;
                        }
                        // A removed service may be configured again.
                        service.usable().await;
                        match turn {
                            Some(turn) => ServiceReply::Turn(turn),
                            None => ServiceReply::Turn(service.enter().await),
                        }
                    }),
                });
                true
            }
            Next::Poll => {
                self.report_missing_service();
                let (after, instance) = (self.poll_delay, self.instance());
                self.pending_request =
                    Some(self.request(RequestKind::Poll, after, move |setup, workflow| async move {
                        ServiceReply::Poll(Box::new(setup.client.status(&workflow, &instance).await))
                    }));
                true
            }
            Next::Cancel if !self.is_service_enabled() => {
                self.give_up("its service is no longer configured and enabled, so the remote run may continue").await
            }
            Next::Cancel => {
                let instance = self.instance();
                self.pending_request =
                    Some(self.request(RequestKind::Cancel, Duration::ZERO, move |setup, workflow| async move {
                        let reply = setup.client.cancel(&workflow, &instance);
                        ServiceReply::Cancel(tokio::time::timeout(CANCEL_TIMEOUT, reply).await.ok())
                    }));
                true
            }
        }
    }

    /// Creates a request to the service. The request is sent after a delay, and once the service is configured.
    fn request<F>(
        &self,
        kind: RequestKind,
        after: Duration,
        ask: impl FnOnce(Arc<ServiceClient>, String) -> F + Send + 'static,
    ) -> PendingRequest
    where
        F: Future<Output = ServiceReply> + Send + 'static,
    {
        let (service, workflow) = (self.service.clone(), self.began.workflow_id.clone());
        let waited = self.recorder.shared.clock.sleep(after);
        let answer = Box::pin(async move {
            waited.await;
            let setup = service.usable().await;
            setup.hide_token().await;
            ask(setup, workflow).await
        });
        PendingRequest { kind, answer }
    }

    /// Records an input.
    pub(super) async fn record_input(&mut self, input: Input) -> Handled {
        let at = self.recorder.shared.clock.now();
        let entry = match input {
            Input::Cancel { .. } if matches!(self.state.phase, Phase::Cancelling { .. }) => return Handled::Ignored,
            Input::Cancel { reason } if matches!(self.state.phase, Phase::ToStart | Phase::ToStartAt(_)) => {
                // The service never started the run.
                let result = self.result(Some(LocalEnd { status: "CANCELLED", error: &reason }));
                Entry::Cancelled { at, reason, result }
            }
            Input::Cancel { reason } => Entry::Cancelling { at, reason, timed_out: false },
            Input::Pause { by, above } if self.state.paused.is_none() => Entry::Paused { at, by, by_parent: above },
            Input::Resume { by, above } => match &self.state.paused {
                // A directly paused run does not resume with its parent.
                Some(pause) if !above || pause.above => Entry::Resumed { at, by },
                _ => return Handled::Ignored,
            },
            _ => return Handled::Ignored,
        };
        // Do not drop a start in progress, because the service may already have performed it.
        if self.pending_request.as_ref().is_some_and(|request| request.kind != RequestKind::Start) {
            self.pending_request = None;
        }
        Handled::recorded(self.append(entry).await)
    }

    async fn handle_timeout(&mut self) -> bool {
        let seconds = self.limit().as_secs_f64();
        let reason = format!("The run exceeded its time limit of {seconds} s");
        self.pending_request = None;
        self.append(Entry::Cancelling { at: self.recorder.shared.clock.now(), reason, timed_out: true }).await
    }

    /// Handles an answer. Returns false when this daemon must no longer drive the run.
    async fn handle_reply(&mut self, reply: ServiceReply) -> bool {
        self.blocked_reason = None;
        match reply {
            ServiceReply::Turn(turn) => {
                self.permit = Some(turn);
                // Record the start before the request, since its outcome may stay unknown.
                if !self.append(Entry::Starting { at: self.recorder.shared.clock.now() }).await {
                    return false;
                }
                let (key, input) = (self.began.run.to_string(), self.began.input.clone());
                self.pending_request =
                    Some(self.request(RequestKind::Start, Duration::ZERO, move |setup, workflow| async move {
                        ServiceReply::Start(setup.client.start(&workflow, &input, &key).await)
                    }));
                true
            }
            ServiceReply::Start(answer) => self.handle_start_reply(answer).await,
            ServiceReply::Poll(answer) => self.handle_status(*answer).await,
            ServiceReply::Cancel(answer) => self.handle_cancel_reply(answer).await,
        }
    }

    /// Returns the maximum working time of the run at the service.
    fn limit(&self) -> Duration {
        let requested = self.began.timeout.and_then(TimeSpan::duration);
        requested.map_or(self.max_run_time, |requested| requested.min(self.max_run_time))
    }

    /// Returns whether the service is configured and enabled at present.
    fn is_service_enabled(&self) -> bool {
        self.service.setup().is_some_and(|setup| setup.config.enabled)
    }

    /// Reports that the service is not configured or disabled; this blocks the run.
    fn report_missing_service(&mut self) {
        if !self.is_service_enabled() {
            let service = &self.began.service;
            self.blocked_reason = Some(format!(
                "the service '{service}' is not configured and enabled; configure it to continue the run, or cancel \
                 the run"
            ));
            self.publish();
        }
    }

    fn instance(&self) -> String {
        self.state.remote.as_ref().map(|remote| remote.instance.clone()).unwrap_or_default()
    }

    /// Appends an entry and publishes the progress. Returns false when this daemon must no longer drive the run.
    pub(super) async fn append(&mut self, entry: Entry) -> bool {
        self.state.apply(&entry);
        self.record(&[entry]).await
    }

    /// Counts and logs the end of the run.
    fn report_end(&self) {
        if let Some(end) = &self.state.end {
            let how = match end.state {
                RunState::Completed => RunEnd::Completed,
                RunState::Cancelled => RunEnd::Cancelled,
                _ => RunEnd::Failed,
            };
            let duration = end.at.since(self.began.at);
            self.service.metrics.count_end(how, duration);
            tracing::info!(
                run = %self.began.run,
                workflow = self.began.tool,
                service = self.began.service,
                workflow_id = self.began.workflow_id,
                instance = self.instance(),
                outcome = end.state.name(),
                error = self.recorder.shared.secrets.masked_if(end.error.clone()),
                seconds = duration.as_secs_f64(),
                "a run of a remote workflow ended"
            );
        }
    }
}

/// Waits for the answer to the request in progress, or forever without one.
async fn answer(pending_request: &mut Option<PendingRequest>) -> ServiceReply {
    match pending_request {
        Some(request) => request.answer.as_mut().await,
        None => std::future::pending().await,
    }
}
