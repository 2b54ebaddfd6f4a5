//! Notifications of people, by the rules of the settings.
//!
//! One task owns the [`Board`], which decides. Sources tell it what waits and what has ended; without a rule for their
//! occasions they do not run. The task stores its state before a delivery begins and after it succeeded, so that a
//! daemon that is killed in between leaves the delivery to the next one. The state is one small file, replaced
//! atomically: the journal has histories of runs only, and a second table would need migrations for data that no one
//! queries.

mod sources;

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::FutureExt as _;
use jiff::tz::TimeZone;
use serde_json::Value;
use steplatch_access::{Redactor, write_private_text};
use steplatch_clock::{Clock, to_iso8601};
use steplatch_notify::{
    Board, BoardState, Courier, Delivery, Kind, Message, Observation, Occasion, Phase, Receipt, Rule, Subject, Way,
};
use steplatch_protocol::{
    DaemonPaths, ListNotificationsReply, NotificationResult, NotificationRule, PageServerRecord, TOKEN_VARIABLES,
    TerminalNotification, TestNotification, TestNotificationReply,
};
use steplatch_runs::Runs;
use steplatch_sessions::{Disconnected, EventSink, Sessions, ShutdownMode};
use tokio::sync::{Mutex, broadcast, mpsc, oneshot, watch};
use tokio::task::JoinSet;

use self::sources::Observed;
use crate::changes::ChangeHub;
use crate::configuration::Configuration;

/// Maximum number of observations and of notifications for a terminal that wait for their receiver.
const CHANNEL_CAPACITY: usize = 64;

/// Parts of the daemon that notifications use.
pub(crate) struct NotificationParts {
    pub(crate) paths: DaemonPaths,
    pub(crate) configuration: watch::Receiver<Configuration>,
    pub(crate) clock: Clock,
    pub(crate) secrets: Arc<Redactor>,
    pub(crate) sessions: Sessions,
    pub(crate) runs: Arc<Runs>,
    pub(crate) changes: ChangeHub,
    /// Schedules that could not start their last run.
    pub(crate) failed_schedules: watch::Receiver<Vec<Observation>>,
    /// Services that have failed.
    pub(crate) failed_services: watch::Receiver<Vec<Observation>>,
    pub(crate) stop: watch::Receiver<Option<ShutdownMode>>,
}

/// Handle of the task.
#[derive(Debug)]
pub(crate) struct Notifications {
    requests: mpsc::Sender<Request>,
    terminals: broadcast::Sender<TerminalNotification>,
}

#[derive(Debug)]
enum Request {
    List(oneshot::Sender<ListNotificationsReply>),
    Test(TestNotification, oneshot::Sender<TestNotificationReply>),
}

impl Notifications {
    /// Reads the stored state and starts the task.
    pub(crate) fn start(parts: NotificationParts) -> Self {
        let (requests, receiver) = mpsc::channel(1);
        let terminals = broadcast::Sender::new(CHANNEL_CAPACITY);
        let sender = Sender {
            courier: Courier::without_variables(&TOKEN_VARIABLES),
            terminals: terminals.clone(),
            runtime: parts.paths.runtime().to_owned(),
            secrets: parts.secrets.clone(),
            clock: parts.clock.clone(),
            zone: TimeZone::system(),
        };
        let file = parts.paths.state().join("notifications.json");
        let stored = match std::fs::read_to_string(&file) {
            Ok(text) => {
                let state = BoardState::read(&text);
                if state.is_none() {
                    tracing::warn!(file = %file.display(), "the state of notifications is damaged or newer, and starts anew");
                }
                state
            }
            Err(_) => None,
        };
        let board = Board::new(stored.unwrap_or_else(|| BoardState::new(parts.clock.now())), sender.zone.clone());
        let task = NotificationTask {
            parts,
            sender,
            file,
            board,
            requests: receiver,
            deliveries: JoinSet::new(),
            test: Arc::default(),
            has_logged_write_error: false,
        };
        tokio::spawn(task.run());
        Self { requests, terminals }
    }

    /// Lists the rules.
    pub(crate) async fn list(&self) -> ListNotificationsReply {
        let (reply, receiver) = oneshot::channel();
        let _ = self.requests.send(Request::List(reply)).await;
        // The task ends only with the daemon.
        receiver.await.unwrap_or_default()
    }

    /// Sends test messages.
    pub(crate) async fn test(&self, verb: TestNotification) -> TestNotificationReply {
        let (reply, receiver) = oneshot::channel();
        let _ = self.requests.send(Request::Test(verb, reply)).await;
        receiver.await.unwrap_or_default()
    }

    /// Subscribes to the notifications for terminals of people.
    pub(crate) fn watch(&self) -> TerminalNotifications {
        TerminalNotifications(self.terminals.subscribe())
    }
}

/// The notifications for the terminal of one person.
#[derive(Debug)]
pub(crate) struct TerminalNotifications(broadcast::Receiver<TerminalNotification>);

impl TerminalNotifications {
    /// Sends the notifications until the client disconnects. A slow client misses some.
    pub(crate) async fn forward(mut self, request_id: &Value, sink: &EventSink) -> Result<(), Disconnected> {
        loop {
            match self.0.recv().await {
                Ok(notification) => sink.event(request_id, &notification).await?,
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return Ok(()),
            }
        }
    }
}

/// Sends single messages. Cheap to clone.
#[derive(Debug, Clone)]
struct Sender {
    courier: Courier,
    terminals: broadcast::Sender<TerminalNotification>,
    runtime: PathBuf,
    secrets: Arc<Redactor>,
    clock: Clock,
    zone: TimeZone,
}

impl Sender {
    async fn send(&self, rule: &Rule, delivery: &Delivery) -> Result<Receipt, String> {
        let page = PageServerRecord::running(&self.runtime).map(|record| record.url());
        // Mask again: a secret may be known only since the occasion was seen.
        let message = Message::compose(rule, delivery, page.as_deref(), &self.zone, |text| self.secrets.masked(text));
        if rule.way == Way::Terminal {
            let is_withdrawn = delivery.phase == Phase::Withdrawn;
            let body = message.body_with_link();
            let notification = TerminalNotification { id: message.thread, title: message.title, body, is_withdrawn };
            let sent = self.terminals.send(notification);
            return sent.map(|_| None).map_err(|_| "neither attach, ui nor watch runs in a terminal".to_owned());
        }
        let delivered = self.courier.deliver(&rule.way, &message, delivery.decided, self.clock.now()).await;
        delivered.map_err(|error| self.secrets.masked(error.to_string()))
    }

    /// Sends a test message by each rule, all at the same time.
    async fn test(&self, rules: Vec<Rule>) -> Vec<NotificationResult> {
        let now = self.clock.now();
        let subject = Subject::default();
        let occasion = Occasion { kind: Kind::Gate, key: "test".to_owned(), since: now, subject };
        let (phase, decided, due) = (Phase::Test, now, now);
        let delivery = Delivery { phase, occasion, decided, due, attempts: 0, receipt: None };
        let tests = rules.iter().map(async |rule| NotificationResult {
            rule: rule.name.clone(),
            way: rule.way.name().to_owned(),
            error: self.send(rule, &delivery).await.err(),
        });
        futures_util::future::join_all(tests).await
    }
}

/// A delivery that has ended.
type Delivered = (Rule, Delivery, Result<Receipt, String>);

struct NotificationTask {
    parts: NotificationParts,
    sender: Sender,
    file: PathBuf,
    board: Board,
    requests: mpsc::Receiver<Request>,
    deliveries: JoinSet<Delivered>,
    /// Locked while a test runs.
    test: Arc<Mutex<()>>,
    has_logged_write_error: bool,
}

impl NotificationTask {
    /// Follows the configuration until the daemon stops.
    async fn run(mut self) {
        let mut configuration = self.parts.configuration.clone();
        loop {
            let rules = configuration.borrow_and_update().notifications.clone();
            if rules != self.board.rules() {
                for (rule, pending) in self.board.configure(rules, self.parts.clock.now()) {
                    tracing::info!(rule, pending, "a rule of notifications was removed, with its pending deliveries");
                }
            }
            let mut observations = self.watch();
            if self.notify(&mut configuration, &mut observations).await.is_none() {
                return;
            }
        }
    }

    /// Starts the sources that the rules need.
    fn watch(&mut self) -> Observations {
        let ends_from = self.board.begin_list_of_ends(self.parts.clock.now());
        let has_rule_for =
            |kinds: fn(Kind) -> bool| self.board.rules().iter().any(|rule| rule.when.iter().any(|kind| kinds(*kind)));
        let (sender, receiver) = mpsc::channel(CHANNEL_CAPACITY);
        let mut sources = JoinSet::new();
        if has_rule_for(Kind::is_about_run) {
            let changes = self.parts.changes.watch();
            let includes_prompt = self.board.rules().iter().any(|rule| rule.include_prompt);
            let runs = self.parts.runs.clone();
            sources.spawn(sources::watch_runs(runs, changes, ends_from, includes_prompt, sender.clone()));
        }
        if has_rule_for(Kind::is_about_terminal) {
            sources.spawn(sources::watch_terminals(self.parts.sessions.clone(), sender.clone()));
        }
        let known =
            [(Kind::ScheduleFailed, &self.parts.failed_schedules), (Kind::ServiceFailed, &self.parts.failed_services)];
        for (kind, failed) in known {
            if self.board.rules().iter().any(|rule| rule.when.contains(&kind)) {
                sources.spawn(sources::watch_known(kind, failed.clone(), sender.clone()));
            }
        }
        if has_rule_for(|kind| kind == Kind::HostLost) {
            sources.spawn(sources::watch_hosts(self.parts.sessions.clone(), sender));
        }
        if !has_rule_for(Kind::is_about_run) {
            // No rule misses an end.
            self.board.finish_list_of_ends();
        }
        Observations { receiver, _sources: sources }
    }

    /// Decides and delivers until the rules change. Returns `None` once the daemon stops.
    async fn notify(
        &mut self,
        configuration: &mut watch::Receiver<Configuration>,
        observations: &mut Observations,
    ) -> Option<()> {
        loop {
            let clock = &self.parts.clock;
            self.board.advance(clock.now());
            if self.board.is_changed() {
                self.store().await;
            }
            for (rule, delivery) in self.board.begin_due(self.parts.clock.now()) {
                let sender = self.sender.clone();
                self.deliveries.spawn(async move {
                    let result = catch_panic(sender.send(&rule, &delivery)).await;
                    (rule, delivery, result)
                });
            }
            let clock = &self.parts.clock;
            let next_time = self.board.next_time(clock.now());
            tokio::select! {
                // An error means that the configuration is constant.
                Ok(()) = configuration.changed() => {
                    if configuration.borrow().notifications != self.board.rules() {
                        return Some(());
                    }
                }
                Some(observed) = observations.receiver.recv() => self.observe(observed),
                Some(Ok(delivered)) = self.deliveries.join_next() => self.finish(delivered),
                request = self.requests.recv() => self.answer(request?),
                () = clock.deadline(next_time) => {}
                () = async { drop(self.parts.stop.wait_for(Option::is_some).await) } => return None,
            }
        }
    }

    fn observe(&mut self, observed: Observed) {
        let now = self.parts.clock.now();
        match observed {
            Observed::Open { scope, observations } => {
                self.board.observe(|occasion| scope.contains(occasion), observations, now);
            }
            Observed::End(end) => self.board.record_end(*end, now),
            Observed::EndsListed => self.board.finish_list_of_ends(),
        }
    }

    fn finish(&mut self, (rule, delivery, result): Delivered) {
        let error = result.as_ref().err().cloned();
        let is_given_up = self.board.finish(&rule.name, &delivery, result, self.parts.clock.now());
        let is_for_terminal = rule.way == Way::Terminal;
        let (rule, occasion) = (&rule.name, delivery.occasion.id());
        match error {
            None => tracing::debug!(rule, occasion, "a notification was delivered"),
            // Without a front-end in a terminal, this way reaches no person, which is no fault.
            Some(error) if is_given_up && !is_for_terminal => {
                tracing::warn!(rule, occasion, error, "a notification was not delivered");
            }
            Some(error) if is_given_up => tracing::info!(rule, occasion, error, "a notification was not shown"),
            Some(error) => tracing::info!(rule, occasion, error, "a notification is delivered later"),
        }
    }

    /// Stores the state. If that fails, messages are delivered anyway, and perhaps again by the next daemon.
    async fn store(&mut self) {
        let state = self.board.state_to_store(self.parts.clock.now());
        let text = serde_json::to_string(state).expect("the keys of the state are strings");
        let file = self.file.clone();
        let written = tokio::task::spawn_blocking(move || write_private_text(&file, &text)).await;
        let error = written.map_err(std::io::Error::other).flatten().err();
        if let Some(error) = error.as_ref().filter(|_| !self.has_logged_write_error) {
            tracing::warn!(%error, file = %self.file.display(), "failed to store the state of notifications");
        }
        self.has_logged_write_error = error.is_some();
    }

    fn answer(&self, request: Request) {
        // A client that has disconnected needs no reply.
        match request {
            Request::List(reply) => {
                let rules = self.board.rules().iter().map(|rule| self.describe(rule)).collect();
                let _ = reply.send(ListNotificationsReply { success: true, rules });
            }
            Request::Test(TestNotification { rule: name }, reply) => {
                let all = self.board.rules();
                let is_requested = |rule: &&Rule| name.as_ref().is_none_or(|name| *name == rule.name);
                let rules: Vec<Rule> = all.iter().filter(is_requested).cloned().collect();
                if rules.is_empty() {
                    let names = all.iter().map(|rule| rule.name.as_str()).collect::<Vec<_>>().join(", ");
                    let error = match (name, all.is_empty()) {
                        (_, true) => "There is no rule of notifications; add a table [[notify]] to the settings: \
                                      steplatch docs notifications"
                            .to_owned(),
                        (name, false) => format!("There is no rule '{}'; rules are {names}", name.unwrap_or_default()),
                    };
                    let _ =
                        reply.send(TestNotificationReply { error: Some(error), ..TestNotificationReply::default() });
                    return;
                }
                let Ok(lock) = self.test.clone().try_lock_owned() else {
                    let error = Some("Another test still runs; try again when it has ended".to_owned());
                    let _ = reply.send(TestNotificationReply { error, ..TestNotificationReply::default() });
                    return;
                };
                let sender = self.sender.clone();
                tokio::spawn(async move {
                    let results = sender.test(rules).await;
                    drop(lock);
                    let success = results.iter().all(|result| result.error.is_none());
                    let _ = reply.send(TestNotificationReply { success, results, error: None });
                });
            }
        }
    }

    fn describe(&self, rule: &Rule) -> NotificationRule {
        let (last, pending, earliest, failures) = self.board.status(&rule.name).unwrap_or_default();
        NotificationRule {
            name: rule.name.clone(),
            way: rule.way.name().to_owned(),
            destination: rule.way.destination(),
            when: rule.when.iter().map(|kind| kind.name().to_owned()).collect(),
            last_at: last.map(|last| to_iso8601(last.at)),
            last_occasion: last.map(|last| last.kind.name().to_owned()),
            last_error: last.and_then(|last| last.error.clone()),
            pending,
            next_attempt: earliest.map(|delivery| to_iso8601(delivery.due)),
            failures,
        }
    }
}

/// Waits for a delivery. A panic is a failure, so that the delivery does not remain begun forever.
async fn catch_panic(delivery: impl Future<Output = Result<Receipt, String>>) -> Result<Receipt, String> {
    AssertUnwindSafe(delivery)
        .catch_unwind()
        .await
        .unwrap_or_else(|_| Err("the delivery failed by an error of steplatch; see daemon.log".to_owned()))
}

/// The observations of the sources, which end when this is dropped.
struct Observations {
    receiver: mpsc::Receiver<Observed>,
    _sources: JoinSet<()>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn panicked_delivery_has_failed() {
        let failed = catch_panic(async { panic!("a fault") }).await;
        assert_eq!(failed.unwrap_err(), "the delivery failed by an error of steplatch; see daemon.log");
        assert_eq!(catch_panic(async { Ok(Some(1)) }).await, Ok(Some(1)));
    }
}
