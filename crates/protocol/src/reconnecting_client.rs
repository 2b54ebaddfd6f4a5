//! A client that reconnects to the daemon and retries what is safe to retry.
//!
//! Owns one connection, made on first use and again after a loss. A request interrupted by the loss is sent again if
//! the verb's [`VerbTraits`] permit it. Every front-end uses this client, so users do not notice that a daemon was
//! killed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use steplatch_ids::random_name;
use tokio::sync::Mutex;

use crate::client::{CallError, Client, Events, Step};
use crate::connect::{ConnectError, Starter, connect, connect_or_start};
use crate::daemon::{Hello, Peer};
use crate::follow::Follower;
use crate::paths::DaemonPaths;
use crate::runs::{RUN_WAIT_SECONDS, RunWorkflow};
use crate::verb::{VERBS, Verb, VerbTraits};

/// A connection that is restored after a loss. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ReconnectingClient {
    shared: Arc<Shared>,
    /// Name of the caller, if it differs from that of the hello.
    caller_name: Option<Arc<str>>,
}

#[derive(Debug)]
struct Shared {
    paths: DaemonPaths,
    starter: Starter,
    /// First request on every connection.
    hello: Hello,
    current: Mutex<Option<Connection>>,
}

#[derive(Debug)]
struct Connection {
    client: Client,
    /// Client name of the last hello.
    name: String,
}

/// Reason why a request has no reply.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// No daemon is running and none could be started.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The daemon did not reply, or refused.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// Policy for a request whose connection breaks before the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryPolicy {
    /// Repeat the request; a repetition has no further effect.
    Freely,
    /// Repeat the request as the same step, which the daemon executes once.
    AsTheSame,
    /// Do not repeat the request, because an unknown outcome is better than a second execution.
    Never,
}

impl RetryPolicy {
    /// Returns the policy for verbs with these traits.
    #[must_use]
    pub fn for_traits(traits: VerbTraits) -> Self {
        match traits {
            VerbTraits { once: true, .. } => Self::AsTheSame,
            VerbTraits { idempotent: true, .. } => Self::Freely,
            _ => Self::Never,
        }
    }

    /// Returns the policy for the verb `name`; an unknown verb is not repeated.
    #[must_use]
    pub fn for_verb(name: &str) -> Self {
        VERBS.iter().find(|verb| verb.name == name).map_or(Self::Never, |verb| Self::for_traits(verb.traits))
    }
}

/// Limit of retries: the number of losses since the connection was last stable.
///
/// The limit ends retries of a request that crashes every daemon. The growing pauses leave a daemon time to exit.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    count: usize,
    since: Instant,
}

/// Maximum number of lost connections in a row.
const MAX_LOSSES: usize = 20;

/// Maximum number of failed starts in a row. A second start succeeds if the first daemon was killed while it started;
/// other failures are permanent.
const MAX_FAILED_STARTS: usize = 3;

/// Time without a loss after which a connection is considered stable, and earlier losses are forgotten.
const STABLE_AFTER: Duration = Duration::from_secs(30);

/// Pause after the second loss in a row. The first loss is retried immediately; later pauses double.
const MIN_RETRY_PAUSE: Duration = Duration::from_millis(5);

/// Maximum pause before a retry.
const MAX_RETRY_PAUSE: Duration = Duration::from_millis(500);

impl RetryBudget {
    pub(crate) fn new() -> Self {
        Self { count: 0, since: Instant::now() }
    }

    /// Forgets earlier losses, because the connection works.
    pub(crate) fn reset(&mut self) {
        self.count = 0;
    }

    /// Counts a loss and pauses. Returns false if the limit is reached.
    pub(crate) async fn pause_before_retry(&mut self, max_losses: usize) -> bool {
        if self.since.elapsed() >= STABLE_AFTER {
            self.count = 0;
        }
        self.count += 1;
        if self.count > max_losses {
            return false;
        }
        tokio::time::sleep(pause_before(self.count)).await;
        self.since = Instant::now();
        true
    }

    /// Like [`RetryBudget::pause_before_retry`], for a lost connection.
    pub(crate) async fn retry_after_loss(&mut self) -> bool {
        self.pause_before_retry(MAX_LOSSES).await
    }

    /// Like [`RetryBudget::pause_before_retry`], for a connection that could not be made.
    pub(crate) async fn retry_after_error(&mut self, error: &ConnectError) -> bool {
        match error {
            ConnectError::NotRunning(_) | ConnectError::HungUp(_) => self.pause_before_retry(MAX_LOSSES).await,
            ConnectError::NotStarted(_) => self.pause_before_retry(MAX_FAILED_STARTS - 1).await,
            ConnectError::OtherVersion(_) | ConnectError::OtherUser { .. } | ConnectError::System(_) => false,
        }
    }
}

/// Returns the pause before an attempt after this number of losses.
fn pause_before(losses: usize) -> Duration {
    match losses.checked_sub(2) {
        // 16 doublings exceed the maximum pause and do not overflow.
        Some(doublings) => (MIN_RETRY_PAUSE * (1 << doublings.min(16))).min(MAX_RETRY_PAUSE),
        None => Duration::ZERO,
    }
}

/// Parameters that hold a wait in seconds.
const WAIT_FIELDS: [&str; 2] = ["timeout", "wait_seconds"];

/// Subtracts the time that has passed from the waits in the parameters, or from the verb's default. The result is at
/// least the verb's minimum. Also accepts parameters that are wrapped in a `request`.
fn subtract_time_waited(name: &str, params: &mut Value, waited: Duration) {
    let Some(verb) = VERBS.iter().find(|verb| verb.name == name) else { return };
    let schema = (verb.parameters)();
    let params = match params.get_mut("request") {
        Some(wrapped) => wrapped,
        None => params,
    };
    let Some(params) = params.as_object_mut() else { return };
    for wait in WAIT_FIELDS {
        let Some(field_schema) = schema.pointer(&format!("/properties/{wait}")) else { continue };
        let default_seconds = match name {
            // The schema states this default only in the description.
            RunWorkflow::NAME => Some(RUN_WAIT_SECONDS),
            _ => field_schema.get("default").and_then(Value::as_f64),
        };
        let min_seconds = field_schema.get("minimum").and_then(Value::as_f64).unwrap_or_default();
        if let Some(seconds) = params.get(wait).and_then(Value::as_f64).or(default_seconds) {
            params.insert(wait.to_owned(), (seconds - waited.as_secs_f64()).max(min_seconds).into());
        }
    }
}

impl ReconnectingClient {
    /// Returns a client of the daemon of `paths`, without connecting yet.
    #[must_use]
    pub fn new(paths: DaemonPaths, starter: Starter, hello: Hello) -> Self {
        Self { shared: Arc::new(Shared { paths, starter, hello, current: Mutex::new(None) }), caller_name: None }
    }

    /// Returns a client for the caller `caller_name`, over the same connection.
    #[must_use]
    pub fn for_caller(&self, caller_name: &str) -> Self {
        Self { shared: self.shared.clone(), caller_name: Some(caller_name.into()) }
    }

    /// Returns a client with its own connection and the client name `caller_name`: the daemon does not confuse its
    /// requests with those of concurrent callers.
    #[must_use]
    pub fn with_own_connection(&self, caller_name: &str) -> Self {
        let Shared { paths, starter, hello, .. } = &*self.shared;
        Self::new(paths.clone(), starter.clone(), Hello { client: caller_name.to_owned(), ..hello.clone() })
    }

    /// Returns a client with its own connection and the working directory `directory`.
    #[must_use]
    pub fn in_directory(&self, directory: String) -> Self {
        let Shared { paths, starter, hello, .. } = &*self.shared;
        let hello = Hello { cwd: Some(directory), ..hello.clone() };
        Self { caller_name: self.caller_name.clone(), ..Self::new(paths.clone(), starter.clone(), hello) }
    }

    /// Returns a client with its own connection, for the person who uses this `surface`. `peer` is the person's
    /// address if they are served over the network.
    #[must_use]
    pub fn for_person(&self, surface: &str, peer: Option<Peer>) -> Self {
        let Shared { paths, starter, hello, .. } = &*self.shared;
        let peer = peer.map(|Peer(address)| address);
        let hello = Hello { person: true, surface: Some(surface.to_owned()), peer, ..hello.clone() };
        Self { caller_name: self.caller_name.clone(), ..Self::new(paths.clone(), starter.clone(), hello) }
    }

    /// Returns the paths of the daemon.
    #[must_use]
    pub fn paths(&self) -> &DaemonPaths {
        &self.shared.paths
    }

    /// Calls `verb` and returns its reply, which may report a failure.
    ///
    /// # Errors
    /// If no daemon runs or can be started, the daemon refuses, or the connection was lost: too often, or once for a
    /// verb that must not be repeated.
    pub async fn call<V: Verb>(&self, verb: V) -> Result<V::Reply, AskError> {
        let params = serde_json::to_value(verb).expect("the parameters of a verb contain only JSON");
        let (data, _) = self.call_raw(V::NAME, params).await?;
        serde_json::from_value(data).map_err(|source| CallError::Garbled { verb: V::NAME, source }.into())
    }

    /// Calls the verb `name` with raw JSON parameters. Returns the raw reply and the daemon's warnings about the
    /// parameters.
    ///
    /// # Errors
    /// Same as [`ReconnectingClient::call`].
    pub async fn call_raw(&self, name: &str, mut params: Value) -> Result<(Value, Vec<String>), AskError> {
        let retry_policy = RetryPolicy::for_verb(name);
        let step = random_name();
        let (mut retry_budget, mut is_repeated) = (RetryBudget::new(), false);
        loop {
            let client = self.connect_with_retries(&mut retry_budget).await?;
            let began = Instant::now();
            let result = match retry_policy {
                RetryPolicy::AsTheSame => {
                    client.call_raw_once(name, params.clone(), Step { name: &step, is_repeated }).await
                }
                RetryPolicy::Freely | RetryPolicy::Never => client.call_raw(name, params.clone()).await,
            };
            match result {
                Err(CallError::Lost) if retry_policy != RetryPolicy::Never && retry_budget.retry_after_loss().await => {
                    is_repeated = true;
                    subtract_time_waited(name, &mut params, began.elapsed());
                }
                result => return Ok(result?),
            }
        }
    }

    /// Subscribes with `verb` and returns its reply and its events. The events end with the connection.
    ///
    /// # Errors
    /// Same as [`ReconnectingClient::call`].
    pub async fn subscribe<V: Verb + Clone>(&self, verb: V) -> Result<(V::Reply, Events), AskError> {
        let retry_policy = RetryPolicy::for_verb(V::NAME);
        let mut retry_budget = RetryBudget::new();
        loop {
            let client = self.connect_with_retries(&mut retry_budget).await?;
            match client.subscribe(verb.clone()).await {
                Err(CallError::Lost)
                    if retry_policy == RetryPolicy::Freely && retry_budget.retry_after_loss().await => {}
                result => return Ok(result?),
            }
        }
    }

    /// Connects, with retries. No request was sent yet, so a retry repeats nothing.
    async fn connect_with_retries(&self, retry_budget: &mut RetryBudget) -> Result<Client, ConnectError> {
        loop {
            match self.client().await {
                Err(error) if retry_budget.retry_after_error(&error).await => {}
                result => return result,
            }
        }
    }

    /// Follows the events of a run, starting at number `from`, across restarts of the daemon.
    #[must_use]
    pub fn follow(&self, run_id: &str, from: u64) -> Follower {
        Follower::new(self.clone(), run_id.to_owned(), from, false)
    }

    /// Follows a run that is about to begin, starting at its first event. Retries for some seconds while the run is
    /// unknown to the daemon.
    #[must_use]
    pub fn follow_from_its_beginning(&self, run_id: &str) -> Follower {
        Follower::new(self.clone(), run_id.to_owned(), 1, true)
    }

    /// Returns the current connection, or a new one. It may break at any time.
    ///
    /// # Errors
    /// If no daemon runs or can be started, or it speaks another version.
    pub async fn client(&self) -> Result<Client, ConnectError> {
        self.obtain_client(true).await
    }

    /// Like [`ReconnectingClient::client`], but starts no daemon: for callers that only observe.
    ///
    /// # Errors
    /// If no daemon runs, or it speaks another version.
    pub async fn running(&self) -> Result<Client, ConnectError> {
        self.obtain_client(false).await
    }

    async fn obtain_client(&self, may_start: bool) -> Result<Client, ConnectError> {
        let name = self.caller_name.as_deref().unwrap_or(&self.shared.hello.client);
        let mut current = self.shared.current.lock().await;
        if let Some(connection) = current.as_mut().filter(|connection| !connection.client.is_closed()) {
            if connection.name != name {
                // Changes only the client name; earlier requests keep the old one.
                connection.client.call(self.hello(name)).await.map_err(ConnectError::HungUp)?;
                name.clone_into(&mut connection.name);
            }
            return Ok(connection.client.clone());
        }
        let Shared { paths, starter, .. } = &*self.shared;
        let (client, _) = match may_start {
            true => connect_or_start(paths, self.hello(name), starter).await?,
            false => connect(paths, self.hello(name)).await?,
        };
        *current = Some(Connection { client: client.clone(), name: name.to_owned() });
        Ok(client)
    }

    fn hello(&self, name: &str) -> Hello {
        Hello { client: name.to_owned(), ..self.shared.hello.clone() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn retry_policy_depends_on_the_verb() {
        assert_eq!(RetryPolicy::for_verb("GET_RUN"), RetryPolicy::Freely);
        assert_eq!(RetryPolicy::for_verb("CANCEL_WORKFLOW"), RetryPolicy::Freely);
        assert_eq!(RetryPolicy::for_verb("RUN_WORKFLOW"), RetryPolicy::AsTheSame);
        assert_eq!(RetryPolicy::for_verb("SEND_INPUT"), RetryPolicy::AsTheSame);
        assert_eq!(RetryPolicy::for_verb("SEND_SIGNAL"), RetryPolicy::Never);
        assert_eq!(RetryPolicy::for_verb("NO_SUCH_VERB"), RetryPolicy::Never);
    }

    #[test]
    fn elapsed_time_is_subtracted_from_waits() {
        let remaining = |name: &str, mut params: Value| {
            subtract_time_waited(name, &mut params, Duration::from_secs(2));
            params
        };
        assert_eq!(
            remaining("GET_RUN", json!({"run_id": "run_x", "wait_seconds": 30})),
            json!({"run_id": "run_x", "wait_seconds": 28.0})
        );
        assert_eq!(
            remaining("GET_RUN", json!({"run_id": "run_x"})),
            json!({"run_id": "run_x"}),
            "the request does not wait"
        );
        assert_eq!(remaining("AWAIT_OUTPUT", json!({"request": {"timeout": 1}})), json!({"request": {"timeout": 0.0}}));
        assert_eq!(
            remaining("AWAIT_OUTPUT", json!({})),
            json!({"timeout": 8.0}),
            "the default of ten seconds is reduced"
        );
        assert_eq!(remaining("RUN_WORKFLOW", json!({})), json!({"wait_seconds": 18.0}));
        assert_eq!(
            remaining("RUN_COMMAND", json!({"timeout": 1.5})),
            json!({"timeout": 0.1}),
            "the result is at least the minimum"
        );
        assert_eq!(remaining("LIST_WORKFLOW_RUNS", json!({})), json!({}));
        assert_eq!(remaining("LIST_TERMINAL_SESSIONS", Value::Null), Value::Null);
    }

    #[test]
    fn first_retry_is_immediate_and_later_ones_are_delayed() {
        let pauses = [1, 2, 3, 4, 20, usize::MAX].map(|count| pause_before(count).as_millis());
        assert_eq!(pauses, [0, 5, 10, 20, 500, 500]);
        let all: Duration = (1..=MAX_LOSSES).map(pause_before).sum();
        assert!(
            (5..10).contains(&all.as_secs()),
            "all pauses allow a daemon to exit without a long wait for people: {all:?}"
        );
    }

    #[tokio::test]
    async fn retries_end_after_the_maximum_number_of_losses() {
        let mut retry_budget = RetryBudget::new();
        assert!(retry_budget.pause_before_retry(2).await && retry_budget.pause_before_retry(2).await);
        assert!(!retry_budget.pause_before_retry(2).await);
        retry_budget.reset();
        assert!(retry_budget.pause_before_retry(2).await);
    }
}
