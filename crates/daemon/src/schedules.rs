//! Schedules of workflows.
//!
//! One task owns the [`Timetable`], which decides. The task stores its state before it starts a run, and starts each
//! run as a step with the name of the decided start: a daemon that is killed in between repeats the start, and the
//! journal returns the run that has already begun. Between two steps the task sleeps until the next time.

mod files;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use steplatch_access::{Caller, SecretHash, random_secret, write_private_text};
use steplatch_clock::{Clock, Span, Timestamp, to_iso8601};
use steplatch_ids::RunId;
use steplatch_notify::{Kind, Observation, Subject};
use steplatch_protocol::{
    AddSchedule, CancelWorkflow, Change, DaemonPaths, FireSchedule, FireScheduleReply, LastScheduledRun, ListSchedules,
    ListSchedulesReply, MissedTimes, Overlap, PauseSchedule, RemoveSchedule, RunWorkflow, ScheduleInfo, ScheduleReply,
};
use steplatch_runs::Runs;
use steplatch_schedules::{
    Entry, Firing, MissedPolicy, OverlapPolicy, Schedule, StartFailure, Step, Timetable, TimetableState, Trigger,
    check_name,
};
use steplatch_sessions::ShutdownMode;
use steplatch_store::StorageError;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use self::files::FileWatch;
use crate::changes::{ChangeHub, Subscription};

/// Maximum number of requests that wait for the task.
const CHANNEL_CAPACITY: usize = 64;

/// Pause before another look at a run whose record could not be read.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// Maximum length of a key of a request, in bytes.
const MAX_KEY_BYTES: usize = 256;

/// Text in a variable that becomes the time for which the run starts.
const TIME_PLACEHOLDER: &str = "{scheduled_at}";

/// Variables of the environment of the client that adds a schedule, which its runs have. Others may be secrets, and
/// the state is a file.
const KEPT_VARIABLES: [&str; 9] =
    ["HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TZ", "USER", "XDG_RUNTIME_DIR"];

/// Parts of the daemon that schedules use.
pub(crate) struct ScheduleParts {
    pub(crate) paths: DaemonPaths,
    pub(crate) clock: Clock,
    pub(crate) runs: Arc<Runs>,
    pub(crate) changes: ChangeHub,
    pub(crate) stop: watch::Receiver<Option<ShutdownMode>>,
}

/// Handle of the task.
#[derive(Debug)]
pub(crate) struct Schedules {
    requests: mpsc::Sender<Request>,
    failed: watch::Receiver<Vec<Observation>>,
    clock: Clock,
    runs: Arc<Runs>,
}

#[derive(Debug)]
enum Request {
    Add { schedule: Box<Schedule>, replaces: bool, reply: oneshot::Sender<ScheduleReply> },
    List(ListSchedules, oneshot::Sender<ListSchedulesReply>),
    Pause(PauseSchedule, oneshot::Sender<ScheduleReply>),
    Remove(RemoveSchedule, oneshot::Sender<ScheduleReply>),
    Fire { name: String, digest: Option<String>, firing: Box<Firing>, reply: oneshot::Sender<FireScheduleReply> },
}

impl Schedules {
    /// Reads the stored state and starts the task.
    pub(crate) fn start(parts: ScheduleParts) -> Self {
        let (requests, receiver) = mpsc::channel(CHANNEL_CAPACITY);
        let (clock, runs) = (parts.clock.clone(), parts.runs.clone());
        let task = ScheduleTask::new(parts, receiver);
        let failed = task.failed.subscribe();
        tokio::spawn(task.run());
        Self { requests, failed, clock, runs }
    }

    /// Returns the schedules that could not start their last run.
    pub(crate) fn failed(&self) -> watch::Receiver<Vec<Observation>> {
        self.failed.clone()
    }

    /// Adds a schedule, if its runs can start.
    pub(crate) async fn add(&self, caller: &Arc<Caller>, verb: AddSchedule) -> ScheduleReply {
        let refusal = |error: String| ScheduleReply { error: Some(error), ..ScheduleReply::default() };
        let (schedule, token) = match read_schedule(caller, &verb, self.clock.now()) {
            Ok(read) => read,
            Err(error) => return refusal(error),
        };
        let runs_as = Arc::new(caller_of(&schedule));
        // The variables of a request come with it.
        let checks_variables = !verb.webhook;
        if let Err(error) = Box::pin(self.runs.check_startable(&runs_as, &verb.run, checks_variables)).await {
            return refusal(error);
        }
        let replaces = verb.replace;
        let reply = self.ask(|reply| Request::Add { schedule: Box::new(schedule), replaces, reply }).await;
        ScheduleReply { token: token.filter(|_| reply.success), ..reply }
    }

    /// Lists the schedules.
    pub(crate) async fn list(&self, verb: ListSchedules) -> ListSchedulesReply {
        let mut reply = self.ask(|reply| Request::List(verb, reply)).await;
        for last in reply.schedules.iter_mut().filter_map(|schedule| schedule.last.as_mut()) {
            // The journal knows more than the timetable about a run that waits, or was deleted.
            if let Some(run_id) = &last.run_id
                && let Ok(record) = self.runs.brief_record(run_id).await
            {
                last.state = Some(record.map_or_else(|| "deleted".to_owned(), |record| record.state));
            }
        }
        reply
    }

    /// Pauses or resumes a schedule.
    pub(crate) async fn pause(&self, verb: PauseSchedule) -> ScheduleReply {
        self.ask(|reply| Request::Pause(verb, reply)).await
    }

    /// Removes a schedule.
    pub(crate) async fn remove(&self, verb: RemoveSchedule) -> ScheduleReply {
        self.ask(|reply| Request::Remove(verb, reply)).await
    }

    /// Starts a run of a schedule.
    pub(crate) async fn fire(&self, verb: FireSchedule, step: Option<String>) -> FireScheduleReply {
        let FireSchedule { name, token, key, arguments } = verb;
        if key.as_ref().is_some_and(|key| key.is_empty() || key.len() > MAX_KEY_BYTES) {
            return refuse(format!("the key of a request must have 1 to {MAX_KEY_BYTES} bytes"));
        }
        let key = match (key, step) {
            (Some(key), _) => format!("request {key}"),
            // A request from outside starts nothing without a key.
            (None, _) if token.is_some() => String::new(),
            (None, Some(step)) => format!("step {step}"),
            (None, None) => format!("manual {}", RunId::random()),
        };
        let firing = Box::new(Firing::requested(key, arguments, self.clock.now()));
        let digest = token.as_deref().map(|token| SecretHash::from_secret(token).as_str().to_owned());
        self.ask(|reply| Request::Fire { name, digest, firing, reply }).await
    }

    async fn ask<R: Default>(&self, request: impl FnOnce(oneshot::Sender<R>) -> Request) -> R {
        let (reply, receiver) = oneshot::channel();
        let _ = self.requests.send(request(reply)).await;
        // The task ends only with the daemon.
        receiver.await.unwrap_or_default()
    }
}

fn refuse(error: String) -> FireScheduleReply {
    FireScheduleReply { status: "refused".to_owned(), error: Some(error), ..FireScheduleReply::default() }
}

/// Returns the schedule that a client adds, and the token for its requests.
fn read_schedule(caller: &Caller, verb: &AddSchedule, now: Timestamp) -> Result<(Schedule, Option<String>), String> {
    check_name(&verb.name).map_err(|error| error.to_string())?;
    let span = |name: &str, text: &str| {
        text.parse::<Span>().map(|span| span.0.as_secs()).map_err(|error| format!("{name} '{text}' {error}"))
    };
    let run = &verb.run;
    let unsupported = [
        ("idempotency_key", run.idempotency_key.is_some()),
        ("rehearse", run.rehearse.is_some()),
        ("again", run.again.is_some()),
        ("session_id", run.session_id.is_some()),
        ("workflow_definition", run.workflow_definition.is_some()),
    ];
    if let Some((name, _)) = unsupported.iter().find(|(_, is_given)| *is_given) {
        return Err(format!("'{name}' does not apply to the runs of a schedule; save the workflow and give its name"));
    }
    let mut token = None;
    let trigger = match (&verb.cron, &verb.every, &verb.paths, verb.webhook) {
        (Some(expression), None, None, false) => {
            Trigger::Cron { expression: expression.trim().to_owned(), zone: verb.timezone.clone() }
        }
        (None, Some(interval), None, false) => Trigger::Every { seconds: span("the interval", interval)? },
        (None, None, Some(paths), false) if !paths.is_empty() => {
            let paths = paths.iter().map(|path| files::check_path(&caller.directory.join(path)));
            Trigger::Files { paths: paths.collect::<Result<_, _>>()? }
        }
        (None, None, None, true) => {
            let secret = random_secret().map_err(|error| format!("there is no random token: {error}"))?.0;
            let token_digest = SecretHash::from_secret(&secret).as_str().to_owned();
            token = Some(secret);
            Trigger::Webhook { token_digest }
        }
        _ => return Err("give exactly one trigger: cron, every, paths or webhook".to_owned()),
    };
    if verb.timezone.is_some() && verb.cron.is_none() {
        return Err("timezone applies to cron only".to_owned());
    }
    trigger.check(now).map_err(|error| error.to_string())?;
    let environment = caller.environment.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)));
    let environment: BTreeMap<String, String> = environment
        .filter(|(name, _)| KEPT_VARIABLES.contains(name))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let schedule = Schedule {
        name: verb.name.clone(),
        trigger,
        missed: match verb.missed {
            MissedTimes::CatchUp => MissedPolicy::CatchUp,
            MissedTimes::Skip => MissedPolicy::Skip,
            MissedTimes::Latest => MissedPolicy::Latest,
        },
        // A change during a run would be lost otherwise.
        overlap: match verb.overlap.unwrap_or(if verb.paths.is_some() { Overlap::Queue } else { Overlap::Skip }) {
            Overlap::Skip => OverlapPolicy::Skip,
            Overlap::Queue => OverlapPolicy::Queue,
            Overlap::CancelPrevious => OverlapPolicy::CancelPrevious,
        },
        jitter_seconds: verb.jitter.as_deref().map_or(Ok(0), |jitter| span("the jitter", jitter))?,
        created: now,
        request: json!(RunWorkflow { wait_seconds: None, ..(**run).clone() }),
        directory: caller.directory.clone(),
        environment,
    };
    Ok((schedule, token))
}

/// Returns the caller of the runs of a schedule.
fn caller_of(schedule: &Schedule) -> Caller {
    let environment = schedule.environment.iter().map(|(name, value)| (name.into(), value.into())).collect();
    Caller {
        name: Some(format!("schedule {}", schedule.name)),
        surface: Some("schedule".to_owned()),
        schedule: Some(schedule.name.clone()),
        ..Caller::unnamed(schedule.directory.clone(), environment)
    }
}

/// Returns the request for a run of a schedule.
fn request_of(schedule: &Schedule, firing: &Firing) -> Result<RunWorkflow, String> {
    let request = serde_json::from_value::<RunWorkflow>(schedule.request.clone());
    let mut request = request.map_err(|error| format!("the schedule was stored by another version: {error}"))?;
    let time = to_iso8601(firing.scheduled);
    let mut variables = request.initial_variables.take().unwrap_or_default();
    variables.values_mut().for_each(|value| fill_in_time(value, &time));
    for (name, value) in firing.arguments.clone().unwrap_or_default() {
        if variables.contains_key(&name) {
            return Err(format!("the schedule sets '{name}' itself; omit it in the request"));
        }
        variables.insert(name, value);
    }
    Ok(RunWorkflow { initial_variables: Some(variables), wait_seconds: Some(0.0), save_on_success: false, ..request })
}

fn fill_in_time(value: &mut Value, time: &str) {
    match value {
        Value::String(text) if text.contains(TIME_PLACEHOLDER) => *text = text.replace(TIME_PLACEHOLDER, time),
        Value::Array(items) => items.iter_mut().for_each(|item| fill_in_time(item, time)),
        Value::Object(fields) => fields.values_mut().for_each(|field| fill_in_time(field, time)),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The end of a performed step, or of a wait.
enum Performed {
    Started {
        schedule: Box<Schedule>,
        key: String,
        result: Result<String, StartFailure>,
    },
    CancelFailed {
        schedule: String,
        run_id: String,
    },
    /// A run that has ended, with its state.
    Ended {
        run_id: String,
        state: String,
    },
    /// A run that has not ended, or the end of a cancellation.
    Nothing,
}

/// A reply that is sent once the state is stored.
enum UnsentReply {
    Change(oneshot::Sender<ScheduleReply>, ScheduleReply),
    Start(oneshot::Sender<FireScheduleReply>, FireScheduleReply),
}

impl UnsentReply {
    /// Sends the reply, or the failure to store the state.
    fn send(self, failure: Option<&str>) {
        let error = failure.map(|error| {
            format!("the schedules could not be stored, so the change is lost when the daemon stops: {error}")
        });
        // A client that has disconnected needs no reply.
        match (self, error) {
            (Self::Change(sender, reply), None) => drop(sender.send(reply)),
            (Self::Change(sender, reply), error) => {
                drop(sender.send(ScheduleReply {
                    success: false,
                    error: reply.error.or(error),
                    ..ScheduleReply::default()
                }));
            }
            (Self::Start(sender, reply), None) => drop(sender.send(reply)),
            (Self::Start(sender, reply), error) => {
                drop(sender.send(FireScheduleReply { success: false, error: reply.error.clone().or(error), ..reply }));
            }
        }
    }
}

struct ScheduleTask {
    parts: ScheduleParts,
    file: PathBuf,
    timetable: Timetable,
    requests: mpsc::Receiver<Request>,
    steps: JoinSet<Performed>,
    /// Replies about changes that are not stored yet.
    unsent: Vec<UnsentReply>,
    /// Clients that wait for a start, by the name of the schedule and the key of the start.
    waiting: HashMap<(String, String), Vec<oneshot::Sender<FireScheduleReply>>>,
    watch: FileWatch,
    failed: watch::Sender<Vec<Observation>>,
    has_logged_write_error: bool,
}

impl ScheduleTask {
    fn new(parts: ScheduleParts, requests: mpsc::Receiver<Request>) -> Self {
        let file = parts.paths.state().join("schedules.json");
        let state = match std::fs::read_to_string(&file) {
            Ok(text) => TimetableState::read(&text).unwrap_or_else(|| {
                let kept = file.with_extension("json.damaged");
                // A schedule that is lost in silence would be a missed night.
                let moved = std::fs::rename(&file, &kept).map(|()| kept.display().to_string());
                tracing::error!(file = %file.display(), ?moved, "the schedules are damaged or of a newer version, and start anew");
                TimetableState::default()
            }),
            Err(_) => TimetableState::default(),
        };
        Self {
            file,
            timetable: Timetable::new(state),
            requests,
            steps: JoinSet::new(),
            unsent: Vec::new(),
            waiting: HashMap::new(),
            watch: FileWatch::new(),
            failed: watch::Sender::default(),
            has_logged_write_error: false,
            parts,
        }
    }

    /// Starts runs until the daemon stops.
    async fn run(mut self) {
        // The loop below drops waits that have not ended, and one for changes takes a while to collect them.
        let (sender, mut changed) = mpsc::channel(CHANNEL_CAPACITY);
        let changes = self.parts.changes.watch();
        let mut follower = JoinSet::new();
        follower.spawn(async move { while sender.send(next_runs(&changes).await).await.is_ok() {} });
        for run_id in self.timetable.active_runs() {
            self.look_at(run_id);
        }
        self.watch_files();
        loop {
            let now = self.parts.clock.now();
            self.timetable.advance(now);
            for run_id in self.timetable.blocking_runs(now) {
                // The news of its end may be on the way.
                if let Ok(Some(state)) = find_end(&self.parts.runs, &run_id).await {
                    self.timetable.record_end(&run_id, &state);
                }
            }
            let steps = self.timetable.begin_due(now);
            let error = if self.timetable.is_changed() { self.store().await } else { None };
            self.report_failed();
            for reply in std::mem::take(&mut self.unsent) {
                reply.send(error.as_deref());
            }
            steps.into_iter().for_each(|step| self.perform(step));
            let clock = self.parts.clock.clone();
            let next_time = self.timetable.next_time();
            tokio::select! {
                request = self.requests.recv() => match request {
                    Some(request) => self.answer(request),
                    None => return,
                },
                Some(Ok(performed)) = self.steps.join_next() => self.finish(performed),
                Some(runs) = changed.recv() => self.look_at_active(&runs),
                state = self.watch.next() => self.record_files(state),
                () = clock.deadline(next_time) => {}
                () = async { drop(self.parts.stop.wait_for(Option::is_some).await) } => return,
            }
        }
    }

    /// Reports the schedules that could not start their last run.
    fn report_failed(&self) {
        let failed = self.timetable.entries().filter(|entry| entry.failures > 0);
        let observations: Vec<Observation> = failed
            .map(|entry| Observation {
                kind: Kind::ScheduleFailed,
                key: entry.schedule.name.clone(),
                // Each further failure belongs to the same occasion.
                since: None,
                subject: Subject { schedule: Some(entry.schedule.name.clone()), ..Subject::default() },
            })
            .collect();
        self.failed.send_if_modified(|known| {
            let is_changed = *known != observations;
            *known = observations;
            is_changed
        });
    }

    /// Stores the state. If that fails, runs start anyway: the journal knows the starts. Returns the failure.
    async fn store(&mut self) -> Option<String> {
        let state = self.timetable.state_to_store();
        let text = serde_json::to_string(state).expect("the keys of the state are strings");
        let file = self.file.clone();
        let written = tokio::task::spawn_blocking(move || write_private_text(&file, &text)).await;
        let error = written.map_err(std::io::Error::other).flatten().err();
        if let Some(error) = error.as_ref().filter(|_| !self.has_logged_write_error) {
            tracing::warn!(%error, file = %self.file.display(), "failed to store the schedules");
        }
        self.has_logged_write_error = error.is_some();
        error.map(|error| error.to_string())
    }

    fn perform(&mut self, step: Step) {
        let runs = self.parts.runs.clone();
        match step {
            Step::Start { schedule, firing } => {
                self.steps.spawn(async move {
                    let result = start_run(&runs, &schedule, &firing).await;
                    Performed::Started { schedule, key: firing.key, result }
                });
            }
            Step::Cancel { schedule, run_id } => {
                self.steps.spawn(async move {
                    tracing::info!(schedule, run_id, "cancelling a run for the next run of its schedule");
                    let reply = runs.cancel(CancelWorkflow { run_id: run_id.clone() }).await;
                    match (reply.success, state_of(&runs, &run_id).await) {
                        (_, Some(state)) => Performed::Ended { run_id, state },
                        (true, None) => Performed::Nothing,
                        (false, None) => Performed::CancelFailed { schedule, run_id },
                    }
                });
            }
            Step::LeftOut { schedule, firing, run_id } => {
                tracing::info!(schedule, run_id, "left out a start of a schedule, because its last run has not ended");
                let error = Some(format!("run {run_id} of the schedule has not ended; wait for it, or cancel it"));
                let (status, active_run_id) = ("left_out".to_owned(), Some(run_id));
                let reply = FireScheduleReply { status, active_run_id, error, ..FireScheduleReply::default() };
                self.reply_to(schedule, firing.key, &reply);
            }
        }
    }

    fn reply_to(&mut self, schedule: String, key: String, reply: &FireScheduleReply) {
        for waiting in self.waiting.remove(&(schedule, key)).unwrap_or_default() {
            // A client that has disconnected needs no reply.
            let _ = waiting.send(reply.clone());
        }
    }

    fn finish(&mut self, performed: Performed) {
        let now = self.parts.clock.now();
        match performed {
            Performed::Started { schedule, key, result } => {
                let name = schedule.name.clone();
                let reply = match &result {
                    Ok(run_id) => {
                        self.look_at(run_id.clone());
                        let (success, status, run_id) = (true, "started".to_owned(), Some(run_id.clone()));
                        FireScheduleReply { success, status, run_id, ..FireScheduleReply::default() }
                    }
                    Err(failure) => {
                        tracing::warn!(schedule = name, error = failure.error, "failed to start a run of a schedule");
                        let (status, error) = ("failed".to_owned(), Some(failure.error.clone()));
                        FireScheduleReply { status, error, ..FireScheduleReply::default() }
                    }
                };
                if self.timetable.finish_start(&schedule, &key, result, now) {
                    self.reply_to(name, key, &reply);
                }
            }
            Performed::CancelFailed { schedule, run_id } => self.timetable.fail_cancel(&schedule, &run_id, now),
            Performed::Ended { run_id, state } => self.timetable.record_end(&run_id, &state),
            Performed::Nothing => {}
        }
    }

    fn look_at_active(&mut self, changed: &[String]) {
        let active = self.timetable.active_runs();
        for run_id in changed.iter().filter(|run_id| active.contains(*run_id)) {
            self.look_at(run_id.clone());
        }
    }

    /// Looks whether a run has ended.
    fn look_at(&mut self, run_id: String) {
        let runs = self.parts.runs.clone();
        self.steps.spawn(async move {
            match state_of(&runs, &run_id).await {
                Some(state) => Performed::Ended { run_id, state },
                None => Performed::Nothing,
            }
        });
    }

    /// Watches the files of all schedules.
    fn watch_files(&mut self) {
        let watched = self.timetable.entries().filter_map(|entry| match &entry.schedule.trigger {
            Trigger::Files { paths } => Some((entry.schedule.name.clone(), paths.iter().map(PathBuf::from).collect())),
            Trigger::Cron { .. } | Trigger::Every { .. } | Trigger::Webhook { .. } => None,
        });
        self.watch.replace(watched.collect());
    }

    /// Records the state of watched files, and starts a run if they have changed.
    fn record_files(&mut self, state: files::FilesState) {
        let files::FilesState { schedule, digest, is_first } = state;
        let Ok(entry) = self.timetable.entry(&schedule) else { return };
        let (is_paused, missed, has_start) = (entry.is_paused, entry.schedule.missed, entry.is_start_waiting());
        if entry.files_digest.as_ref() == Some(&digest) {
            return;
        }
        let has_changed = self.timetable.record_files(&schedule, digest);
        // A change before the first look happened while no daemon ran. The run of a start that has not begun sees this
        // change, too.
        if !has_changed || is_paused || has_start || (is_first && missed == MissedPolicy::Skip) {
            return;
        }
        let now = self.parts.clock.now();
        if let Err(error) = self.timetable.fire(&schedule, Firing::requested(format!("files {}", now.0), None, now)) {
            tracing::warn!(schedule, %error, "a change of files starts no run");
        }
    }

    fn answer(&mut self, request: Request) {
        let now = self.parts.clock.now();
        // A client that has disconnected needs no reply.
        match request {
            Request::Add { schedule, replaces, reply } => {
                let added = self.timetable.add(*schedule, replaces).map(describe_changed);
                self.watch_files();
                self.unsent.push(UnsentReply::Change(reply, added.unwrap_or_else(|error| failure(&error))));
            }
            Request::List(ListSchedules { name: None }, reply) => {
                let schedules = self.timetable.entries().map(describe).collect();
                let _ = reply.send(ListSchedulesReply { success: true, schedules, error: None });
            }
            Request::List(ListSchedules { name: Some(name) }, reply) => {
                let _ = reply.send(match self.timetable.entry(&name) {
                    Ok(entry) => ListSchedulesReply { success: true, schedules: vec![describe(entry)], error: None },
                    Err(error) => ListSchedulesReply { error: Some(error.to_string()), ..Default::default() },
                });
            }
            Request::Pause(PauseSchedule { name, paused }, reply) => {
                let dropped = self.timetable.set_paused(&name, paused, now);
                let changed = dropped.and_then(|dropped| {
                    let dropped_starts = dropped as u64;
                    Ok(ScheduleReply { dropped_starts, ..describe_changed(self.timetable.entry(&name)?) })
                });
                self.unsent.push(UnsentReply::Change(reply, changed.unwrap_or_else(|error| failure(&error))));
            }
            Request::Remove(RemoveSchedule { name }, reply) => {
                let removed = self.timetable.remove(&name);
                self.watch_files();
                let removed = removed.map(|entry| {
                    let (schedule, dropped_starts) = (Some(Box::new(describe(&entry))), entry.waiting.len() as u64);
                    ScheduleReply { success: true, schedule, dropped_starts, ..ScheduleReply::default() }
                });
                self.unsent.push(UnsentReply::Change(reply, removed.unwrap_or_else(|error| failure(&error))));
            }
            Request::Fire { name, digest, firing, reply } => {
                if let Some(known) = self.fire(&name, digest.as_deref(), &firing) {
                    self.unsent.push(UnsentReply::Start(reply, known));
                    return;
                }
                self.waiting.entry((name, firing.key)).or_default().push(reply);
            }
        }
    }

    /// Adds a start. Returns the reply if there is one already.
    fn fire(&mut self, name: &str, digest: Option<&str>, firing: &Firing) -> Option<FireScheduleReply> {
        let entry = match self.timetable.entry(name) {
            Ok(entry) => entry,
            // A client with a token learns no names.
            Err(_) if digest.is_some() => return Some(refuse_token()),
            Err(error) => return Some(refuse(error.to_string())),
        };
        if let Some(digest) = digest {
            let expected = match &entry.schedule.trigger {
                Trigger::Webhook { token_digest } => token_digest.as_str(),
                Trigger::Cron { .. } | Trigger::Every { .. } | Trigger::Files { .. } => "",
            };
            // Digests: their comparison reveals nothing about the token.
            if digest != expected {
                return Some(refuse_token());
            }
            if firing.key.is_empty() {
                return Some(refuse("a request with a token needs a key".to_owned()));
            }
            if entry.is_paused {
                return Some(refuse(format!("the schedule '{name}' is paused")));
            }
        }
        if let Some(run_id) = entry.run_of(&firing.key) {
            let (success, status, run_id) = (true, "repeated".to_owned(), Some(run_id.to_owned()));
            return Some(FireScheduleReply { success, status, run_id, ..FireScheduleReply::default() });
        }
        if let Err(error) = request_of(&entry.schedule, firing) {
            return Some(refuse(error));
        }
        let active_run_id = entry.active.clone();
        let waits = active_run_id.is_some() && entry.schedule.overlap == OverlapPolicy::Queue;
        if let Err(error) = self.timetable.fire(name, firing.clone()) {
            return Some(refuse(error.to_string()));
        }
        let status = "waiting".to_owned();
        waits.then(|| FireScheduleReply { success: true, status, active_run_id, ..FireScheduleReply::default() })
    }
}

fn refuse_token() -> FireScheduleReply {
    let error = "there is no webhook with this name and token; 'steplatch schedule add --webhook' prints a token";
    FireScheduleReply { status: "unauthorized".to_owned(), ..refuse(error.to_owned()) }
}

/// Waits for runs to change.
async fn next_runs(changes: &Subscription) -> Vec<String> {
    let runs = changes.next().await.into_iter().filter_map(|change| match change {
        Change::Run { run_id } => Some(run_id),
        Change::Tools => None,
    });
    runs.collect()
}

/// Returns the state of a run, if it has ended.
async fn find_end(runs: &Runs, run_id: &str) -> Result<Option<String>, StorageError> {
    let state = runs.brief_record(run_id).await?.map_or_else(|| "deleted".to_owned(), |record| record.state);
    Ok(matches!(state.as_str(), "completed" | "failed" | "cancelled" | "deleted").then_some(state))
}

/// Returns the state of a run, if it has ended, once its record can be read.
async fn state_of(runs: &Runs, run_id: &str) -> Option<String> {
    loop {
        match find_end(runs, run_id).await {
            Ok(state) => return state,
            // Without the record, the run would seem to go on forever.
            Err(error) => {
                tracing::warn!(%error, run_id, "failed to read a run of a schedule; retrying");
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
    }
}

async fn start_run(runs: &Runs, schedule: &Schedule, firing: &Firing) -> Result<String, StartFailure> {
    let permanent = |error: String| StartFailure { error, is_temporary: false };
    let request = request_of(schedule, firing).map_err(permanent)?;
    let Schedule { name, created, .. } = schedule;
    let step = format!("schedule {name} {} {}", created.0, firing.key);
    // A person may be asked for a secret first, however long that takes.
    let reply = runs.run(&Arc::new(caller_of(schedule)), request, Some(step)).await;
    if !reply.run_id.is_empty() {
        return Ok(reply.run_id);
    }
    // The journal may not be able to write, or the daemon may stop.
    let is_temporary = reply.final_state.as_deref() == Some("execution_error");
    Err(StartFailure { error: reply.error.unwrap_or_else(|| "the run did not start".to_owned()), is_temporary })
}

fn failure(error: &steplatch_schedules::TimetableError) -> ScheduleReply {
    ScheduleReply { error: Some(error.to_string()), ..ScheduleReply::default() }
}

fn describe_changed(entry: &Entry) -> ScheduleReply {
    let next_times = entry.next_times().take(3).map(to_iso8601).collect();
    ScheduleReply { success: true, schedule: Some(Box::new(describe(entry))), next_times, ..ScheduleReply::default() }
}

fn describe(entry: &Entry) -> ScheduleInfo {
    let schedule = &entry.schedule;
    let text = |name: &str| schedule.request.get(name).and_then(Value::as_str);
    let workflow = match (text("workflow_file"), text("workflow_name")) {
        (Some(file), Some(name)) => format!("{file}:{name}"),
        (file, name) => file.or(name).unwrap_or_default().to_owned(),
    };
    let (trigger, timezone) = match &schedule.trigger {
        Trigger::Cron { expression, zone } => (format!("cron {expression}"), zone.clone()),
        Trigger::Every { seconds } => (format!("every {}", format_span(*seconds)), None),
        Trigger::Files { paths } => (format!("changes of {}", paths.join(", ")), None),
        Trigger::Webhook { .. } => ("webhook".to_owned(), None),
    };
    let variables = schedule.request.get("initial_variables").and_then(Value::as_object);
    ScheduleInfo {
        name: schedule.name.clone(),
        workflow,
        trigger,
        timezone,
        missed: match schedule.missed {
            MissedPolicy::CatchUp => MissedTimes::CatchUp,
            MissedPolicy::Skip => MissedTimes::Skip,
            MissedPolicy::Latest => MissedTimes::Latest,
        },
        overlap: match schedule.overlap {
            OverlapPolicy::Skip => Overlap::Skip,
            OverlapPolicy::Queue => Overlap::Queue,
            OverlapPolicy::CancelPrevious => Overlap::CancelPrevious,
        },
        jitter_seconds: Some(schedule.jitter_seconds).filter(|seconds| *seconds > 0),
        directory: schedule.directory.display().to_string(),
        initial_variables: variables.map_or_else(Map::new, Clone::clone),
        paused: entry.is_paused,
        next_start: entry.next_start().map(to_iso8601),
        last: entry.last.as_ref().map(|last| LastScheduledRun {
            scheduled_at: to_iso8601(last.scheduled),
            started_at: to_iso8601(last.at),
            run_id: last.run_id.clone(),
            state: last.outcome.clone(),
            missed_times: u64::from(last.missed),
            error: last.error.clone(),
        }),
        active_run_id: entry.active.clone(),
        waiting_starts: entry.waiting.len() as u64,
        overlapped: entry.overlapped,
        missed_times: entry.missed,
        failed_starts: entry.failures,
    }
}

/// Formats seconds with the largest unit that divides them.
fn format_span(seconds: u64) -> String {
    let units = [(86_400, "d"), (3_600, "h"), (60, "m")];
    match units.iter().find(|(unit, _)| seconds >= *unit && seconds.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", seconds / unit),
        None => format!("{seconds}s"),
    }
}
