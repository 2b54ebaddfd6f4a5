//! A client that reconnects to the daemon and retries what is safe to retry.
//!
//! Owns one connection, made when it is first needed and again after it broke. A request that was under way when the daemon ended is sent
//! to the next one where repeating it does no harm, as the verb's [`VerbTraits`] state. Every front-end uses it, so a daemon that is killed
//! goes unnoticed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use steplatch_ids::random_name;
use tokio::sync::Mutex;

use crate::client::{CallError, Client, Events, Step};
use crate::connect::{ConnectError, Starter, connect, connect_or_start};
use crate::daemon::{Hello, Peer};
use crate::follow::Follower;
use crate::place::DaemonPaths;
use crate::runs::{RUN_WAIT_SECONDS, RunWorkflow};
use crate::verb::{VERBS, Verb, VerbTraits};

/// A connection that is restored after a loss. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ReconnectingClient {
    shared: Arc<Shared>,
    /// Name of the caller, where it is not that of the introduction.
    who: Option<Arc<str>>,
}

#[derive(Debug)]
struct Shared {
    place: DaemonPaths,
    starter: Starter,
    /// Introduction of every connection.
    hello: Hello,
    current: Mutex<Option<Connection>>,
}

#[derive(Debug)]
struct Connection {
    client: Client,
    /// The name it introduced itself with.
    name: String,
}

/// Reason for a request without an answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// There is no daemon and none could be started.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The daemon did not answer, or refused.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// Policy for a connection that breaks before the answer came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryPolicy {
    /// Repeat the request: that does no harm.
    Freely,
    /// Repeat it as the same step, which is done once.
    AsTheSame,
    /// Do not repeat it: twice is worse than not knowing.
    Never,
}

impl RetryPolicy {
    /// Returns the policy for verbs with these traits.
    #[must_use]
    pub fn for_traits(nature: VerbTraits) -> Self {
        match nature {
            VerbTraits { once: true, .. } => Self::AsTheSame,
            VerbTraits { idempotent: true, .. } => Self::Freely,
            _ => Self::Never,
        }
    }

    /// Returns the policy for the verb called `name`; an unknown one is requested once.
    #[must_use]
    pub fn of_verb(name: &str) -> Self {
        VERBS.iter().find(|verb| verb.name == name).map_or(Self::Never, |verb| Self::for_traits(verb.nature))
    }
}

/// Number of losses since the connection last held.
///
/// A request that brings down every daemon that it reaches should not be repeated without end, and a daemon that is
/// just ending should not be tried twenty times before it has ended.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    count: usize,
    since: Instant,
}

/// Maximum number of lost connections in a row.
const MAX_LOSSES: usize = 20;

/// Maximum number of failed starts in a row: a daemon that was ended while it started can be started again, one that
/// cannot start stays so.
const MAX_FAILED_STARTS: usize = 3;

/// Time after which a connection counts as stable, and earlier losses are forgotten.
const STABLE_AFTER: Duration = Duration::from_secs(30);

/// Shortest and longest pause. The first loss is retried at once; the pauses after the next ones double.
const RETRY_PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(500));

impl RetryBudget {
    pub(crate) fn new() -> Self {
        Self { count: 0, since: Instant::now() }
    }

    /// Forgets earlier losses, because the connection holds.
    pub(crate) fn forget(&mut self) {
        self.count = 0;
    }

    /// Counts a loss, and pauses before the next attempt. Returns whether there is to be one.
    pub(crate) async fn again(&mut self, max_count: usize) -> bool {
        if self.since.elapsed() >= STABLE_AFTER {
            self.count = 0;
        }
        self.count += 1;
        if self.count > max_count {
            return false;
        }
        tokio::time::sleep(pause_before(self.count)).await;
        self.since = Instant::now();
        true
    }

    /// Like [`RetryBudget::again`] for a lost connection.
    pub(crate) async fn after_a_loss(&mut self) -> bool {
        self.again(MAX_LOSSES).await
    }

    /// Like [`RetryBudget::again`] for a connection that did not come about.
    pub(crate) async fn after(&mut self, error: &ConnectError) -> bool {
        match error {
            ConnectError::NotRunning(_) | ConnectError::HungUp(_) => self.again(MAX_LOSSES).await,
            ConnectError::NotStarted(_) => self.again(MAX_FAILED_STARTS - 1).await,
            ConnectError::OtherVersion(_) | ConnectError::System(_) => false,
        }
    }
}

/// Returns the pause before an attempt after this number of losses.
fn pause_before(losses: usize) -> Duration {
    let (shortest, longest) = RETRY_PAUSES;
    match losses.checked_sub(2) {
        // Far beyond the longest, and far from what cannot be counted.
        Some(doublings) => (shortest * (1 << doublings.min(16))).min(longest),
        None => Duration::ZERO,
    }
}

/// Parameters that state a wait in seconds.
const WAITS: [&str; 2] = ["timeout", "wait_seconds"];

/// Subtracts the time that was waited already, also from a time that was left to the verb. Nothing falls below the
/// minimum of the verb. Tools may be called with their parameters wrapped into a `request`.
fn without_time_waited(name: &str, params: &mut Value, waited: Duration) {
    let Some(verb) = VERBS.iter().find(|verb| verb.name == name) else { return };
    let schema = (verb.parameters)();
    let params = match params.get_mut("request") {
        Some(wrapped) => wrapped,
        None => params,
    };
    let Some(params) = params.as_object_mut() else { return };
    for wait in WAITS {
        let Some(known) = schema.pointer(&format!("/properties/{wait}")) else { continue };
        let usual = match name {
            // Its schema says so in words only.
            RunWorkflow::NAME => Some(RUN_WAIT_SECONDS),
            _ => known.get("default").and_then(Value::as_f64),
        };
        let least = known.get("minimum").and_then(Value::as_f64).unwrap_or_default();
        if let Some(seconds) = params.get(wait).and_then(Value::as_f64).or(usual) {
            params.insert(wait.to_owned(), (seconds - waited.as_secs_f64()).max(least).into());
        }
    }
}

impl ReconnectingClient {
    /// Returns a client of the daemon of `place`. Nothing is connected yet.
    #[must_use]
    pub fn new(place: DaemonPaths, starter: Starter, hello: Hello) -> Self {
        Self { shared: Arc::new(Shared { place, starter, hello, current: Mutex::new(None) }), who: None }
    }

    /// Returns the same client for the caller `who`, over the same connection.
    #[must_use]
    pub fn for_caller(&self, who: &str) -> Self {
        Self { shared: self.shared.clone(), who: Some(who.into()) }
    }

    /// Returns a client with its own connection, introduced as `who`: its requests are not taken for another caller's,
    /// however many there are at once.
    #[must_use]
    pub fn apart(&self, who: &str) -> Self {
        let Shared { place, starter, hello, .. } = &*self.shared;
        Self::new(place.clone(), starter.clone(), Hello { client: who.to_owned(), ..hello.clone() })
    }

    /// Returns a client with its own connection, introduced as working in `directory`.
    #[must_use]
    pub fn in_directory(&self, directory: String) -> Self {
        let Shared { place, starter, hello, .. } = &*self.shared;
        let hello = Hello { cwd: Some(directory), ..hello.clone() };
        Self { who: self.who.clone(), ..Self::new(place.clone(), starter.clone(), hello) }
    }

    /// Returns a client with its own connection, introduced as the person whom this `surface` reaches, over the network
    /// if they have an address there.
    #[must_use]
    pub fn for_person(&self, surface: &str, peer: Option<Peer>) -> Self {
        let Shared { place, starter, hello, .. } = &*self.shared;
        let peer = peer.map(|Peer(address)| address);
        let hello = Hello { person: true, surface: Some(surface.to_owned()), peer, ..hello.clone() };
        Self { who: self.who.clone(), ..Self::new(place.clone(), starter.clone(), hello) }
    }

    /// Returns the paths of the daemon.
    #[must_use]
    pub fn place(&self) -> &DaemonPaths {
        &self.shared.place
    }

    /// Calls `verb` and returns its reply, also if that reports a failure.
    ///
    /// # Errors
    /// If there is no daemon and none starts, when it refuses, or when it was lost too often, or once for
    /// a verb that must not be repeated.
    pub async fn call<V: Verb>(&self, verb: V) -> Result<V::Reply, AskError> {
        let params = serde_json::to_value(verb).expect("the parameters of a verb have only JSON in them");
        let (data, _) = self.call_raw(V::NAME, params).await?;
        serde_json::from_value(data).map_err(|source| CallError::Garbled { verb: V::NAME, source }.into())
    }

    /// Calls the verb `name` with unchanged parameters, and returns the unchanged reply, with the daemon's warnings
    /// about the parameters.
    ///
    /// # Errors
    /// As [`ReconnectingClient::call`].
    pub async fn call_raw(&self, name: &str, mut params: Value) -> Result<(Value, Vec<String>), AskError> {
        let again = RetryPolicy::of_verb(name);
        let step = random_name();
        let (mut losses, mut is_repeated) = (RetryBudget::new(), false);
        loop {
            let client = self.reached_again(&mut losses).await?;
            let began = Instant::now();
            let asked = match again {
                RetryPolicy::AsTheSame => {
                    client.call_raw_once(name, params.clone(), Step { name: &step, is_repeated }).await
                }
                RetryPolicy::Freely | RetryPolicy::Never => client.call_raw(name, params.clone()).await,
            };
            match asked {
                Err(CallError::Lost) if again != RetryPolicy::Never && losses.after_a_loss().await => {
                    is_repeated = true;
                    without_time_waited(name, &mut params, began.elapsed());
                }
                answered => return Ok(answered?),
            }
        }
    }

    /// Calls a verb that brings events, and returns them with its reply. The events end with the connection that brings them.
    ///
    /// # Errors
    /// As [`ReconnectingClient::call`].
    pub async fn subscribe<V: Verb + Clone>(&self, verb: V) -> Result<(V::Reply, Events), AskError> {
        let again = RetryPolicy::of_verb(V::NAME);
        let mut losses = RetryBudget::new();
        loop {
            let client = self.reached_again(&mut losses).await?;
            match client.subscribe(verb.clone()).await {
                Err(CallError::Lost) if again == RetryPolicy::Freely && losses.after_a_loss().await => {}
                answered => return Ok(answered?),
            }
        }
    }

    /// Connects. Nothing was requested yet, so nothing is done twice where a daemon ended in the meantime.
    async fn reached_again(&self, losses: &mut RetryBudget) -> Result<Client, ConnectError> {
        loop {
            match self.client().await {
                Err(error) if losses.after(&error).await => {}
                reached => return reached,
            }
        }
    }

    /// Follows the events of a run, from the one numbered `from` on, over as many daemons as it takes.
    #[must_use]
    pub fn follow(&self, run_id: &str, from: u64) -> Follower {
        Follower::new(self.clone(), run_id.to_owned(), from, false)
    }

    /// Follows a run that is about to begin, from its first event on: while it is unknown, the request is repeated
    /// for some seconds.
    #[must_use]
    pub fn follow_from_its_beginning(&self, run_id: &str) -> Follower {
        Follower::new(self.clone(), run_id.to_owned(), 1, true)
    }

    /// Returns the connection, made now if there is none that holds. It may break at any time.
    ///
    /// # Errors
    /// If there is no daemon and none could be started, or it does not understand us.
    pub async fn client(&self) -> Result<Client, ConnectError> {
        self.reached(true).await
    }

    /// Like [`ReconnectingClient::client`], and starts no daemon: for callers that only observe.
    ///
    /// # Errors
    /// If there is no daemon, or it does not understand us.
    pub async fn running(&self) -> Result<Client, ConnectError> {
        self.reached(false).await
    }

    async fn reached(&self, may_start: bool) -> Result<Client, ConnectError> {
        let name = self.who.as_deref().unwrap_or(&self.shared.hello.client);
        let mut current = self.shared.current.lock().await;
        if let Some(connection) = current.as_mut().filter(|connection| !connection.client.is_closed()) {
            if connection.name != name {
                // Only a name: what was opened before goes on under the old one.
                connection.client.call(self.hello(name)).await.map_err(ConnectError::HungUp)?;
                name.clone_into(&mut connection.name);
            }
            return Ok(connection.client.clone());
        }
        let Shared { place, starter, .. } = &*self.shared;
        let (client, _) = match may_start {
            true => connect_or_start(place, self.hello(name), starter).await?,
            false => connect(place, self.hello(name)).await?,
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
    fn what_is_asked_again_follows_from_the_kind_of_deed() {
        assert_eq!(RetryPolicy::of_verb("GET_RUN"), RetryPolicy::Freely);
        assert_eq!(RetryPolicy::of_verb("CANCEL_WORKFLOW"), RetryPolicy::Freely);
        assert_eq!(RetryPolicy::of_verb("RUN_WORKFLOW"), RetryPolicy::AsTheSame);
        assert_eq!(RetryPolicy::of_verb("SEND_INPUT"), RetryPolicy::AsTheSame);
        assert_eq!(RetryPolicy::of_verb("SEND_SIGNAL"), RetryPolicy::Never);
        assert_eq!(RetryPolicy::of_verb("NO_SUCH_VERB"), RetryPolicy::Never);
    }

    #[test]
    fn time_that_was_waited_is_taken_off_wherever_it_stands() {
        let left = |name: &str, mut params: Value| {
            without_time_waited(name, &mut params, Duration::from_secs(2));
            params
        };
        assert_eq!(
            left("GET_RUN", json!({"run_id": "run_x", "wait_seconds": 30})),
            json!({"run_id": "run_x", "wait_seconds": 28.0})
        );
        assert_eq!(left("GET_RUN", json!({"run_id": "run_x"})), json!({"run_id": "run_x"}), "it does not wait");
        assert_eq!(left("AWAIT_OUTPUT", json!({"request": {"timeout": 1}})), json!({"request": {"timeout": 0.0}}));
        assert_eq!(left("AWAIT_OUTPUT", json!({})), json!({"timeout": 8.0}), "what is left to the verb is ten seconds");
        assert_eq!(left("RUN_WORKFLOW", json!({})), json!({"wait_seconds": 18.0}));
        assert_eq!(left("RUN_COMMAND", json!({"timeout": 1.5})), json!({"timeout": 0.1}), "less is refused");
        assert_eq!(left("LIST_WORKFLOW_RUNS", json!({})), json!({}));
        assert_eq!(left("LIST_TERMINAL_SESSIONS", Value::Null), Value::Null);
    }

    #[test]
    fn the_first_loss_is_mended_at_once_and_the_later_ones_after_longer_pauses() {
        let pauses = [1, 2, 3, 4, 20, usize::MAX].map(|count| pause_before(count).as_millis());
        assert_eq!(pauses, [0, 5, 10, 20, 500, 500]);
        let all: Duration = (1..=MAX_LOSSES).map(pause_before).sum();
        assert!((5..10).contains(&all.as_secs()), "a daemon that ends needs a moment, a person has no more: {all:?}");
    }

    #[tokio::test]
    async fn losses_in_a_row_are_too_many_at_some_time() {
        let mut losses = RetryBudget::new();
        assert!(losses.again(2).await && losses.again(2).await);
        assert!(!losses.again(2).await);
        losses.forget();
        assert!(losses.again(2).await);
    }
}
