//! Calls that carry the name of a step, each made once in the lifetime of this daemon.
//!
//! A repeated request with the same step, also over another connection, waits for the same call or receives its
//! result. A call without waiters continues for a grace period, in which a client may return, and is then interrupted.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use steplatch_protocol::NodeReply;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long a call continues without waiters.
const GRACE: Duration = Duration::from_secs(10);

/// Bytes of results that are kept.
const MOST_BYTES: usize = 16 << 20;

/// Steps that are remembered: by their names only, once the bytes are used up.
const MOST_STEPS: usize = 10_000;

/// The known steps. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct OnceCalls {
    steps: Arc<Mutex<Steps>>,
    grace: Duration,
}

#[derive(Debug, Default)]
struct Steps {
    known: HashMap<String, Step>,
    /// Those that have ended, in the order in which they ended, with the bytes of the results that are kept.
    over: VecDeque<(String, usize)>,
    /// How many of `over`, at its beginning, are names only.
    emptied: usize,
    bytes: usize,
}

#[derive(Debug)]
struct Step {
    asked: CallFingerprint,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The call is in progress. Waiters receive the reply through this channel.
    Calling(watch::Sender<Option<NodeReply>>),
    Over(Box<NodeReply>),
    /// The call has been made, and its result is no longer kept.
    Emptied,
}

/// The request of a step, identified by a hash, since the input may be large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CallFingerprint(u64);

impl CallFingerprint {
    pub(super) fn of(node: &str, input: &Value) -> Self {
        let mut hasher = DefaultHasher::new();
        (node, input.to_string()).hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// Why a step has no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnceError {
    /// Another call has this name.
    Another,
    /// It was called, and its result is no longer kept; or the call was aborted.
    Lost,
}

impl OnceCalls {
    pub(super) fn new() -> Self {
        Self { steps: Arc::default(), grace: GRACE }
    }

    /// Makes a call, unless one was made as this step, and returns its result.
    ///
    /// # Errors
    ///
    /// When the step made another request before, or its result is no longer known.
    pub(super) async fn once<C: Future<Output = NodeReply> + Send + 'static>(
        &self,
        step: String,
        asked: CallFingerprint,
        working: &TaskTracker,
        interrupt: CancellationToken,
        call: impl FnOnce(CancellationToken) -> C,
    ) -> Result<NodeReply, OnceError> {
        let mut waiting = {
            let mut steps = self.lock();
            match steps.known.get(&step) {
                Some(known) if known.asked != asked => return Err(OnceError::Another),
                Some(Step { state: State::Over(reply), .. }) => return Ok((**reply).clone()),
                Some(Step { state: State::Emptied, .. }) => return Err(OnceError::Lost),
                Some(Step { state: State::Calling(waiting), .. }) => waiting.subscribe(),
                None => {
                    let (sender, waiting) = watch::channel(None);
                    let calling = Step { asked, state: State::Calling(sender.clone()) };
                    steps.known.insert(step.clone(), calling);
                    working.spawn(self.clone().see_through(step, sender, interrupt.clone(), call(interrupt)));
                    waiting
                }
            }
        };
        let reply = waiting.wait_for(Option::is_some).await;
        reply.ok().and_then(|reply| reply.clone()).ok_or(OnceError::Lost)
    }

    async fn see_through(
        self,
        step: String,
        waiting: watch::Sender<Option<NodeReply>>,
        interrupt: CancellationToken,
        call: impl Future<Output = NodeReply> + Send + 'static,
    ) {
        // In a separate task, so that a call that panics is still noted, with an unknown result.
        let mut calling = tokio::spawn(call);
        let reply = tokio::select! {
            reply = &mut calling => reply,
            () = self.nobody_waits(&waiting) => {
                interrupt.cancel();
                calling.await
            }
        };
        match reply {
            Ok(reply) => {
                self.lock().note(step, Some(reply.clone()));
                waiting.send_replace(Some(reply));
            }
            Err(error) => {
                tracing::error!(%error, step, "a call panicked or was aborted");
                // Without a reply, waiters see the closed channel.
                self.lock().note(step, None);
            }
        }
    }

    /// Returns once the call has had no waiters for the whole grace period.
    async fn nobody_waits(&self, waiting: &watch::Sender<Option<NodeReply>>) {
        loop {
            waiting.closed().await;
            tokio::time::sleep(self.grace).await;
            if waiting.is_closed() {
                return;
            }
        }
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Steps> {
        self.steps.lock()
    }
}

impl Steps {
    fn note(&mut self, step: String, reply: Option<NodeReply>) {
        let bytes = reply.as_ref().and_then(|reply| serde_json::to_vec(reply).ok()).map_or(0, |text| text.len());
        if let Some(known) = self.known.get_mut(&step) {
            known.state = reply.map_or(State::Emptied, |reply| State::Over(Box::new(reply)));
        }
        self.bytes += bytes;
        self.over.push_back((step, bytes));
        while self.bytes > MOST_BYTES && self.emptied < self.over.len() {
            let (step, bytes) = &mut self.over[self.emptied];
            if let Some(known) = self.known.get_mut(step) {
                known.state = State::Emptied;
            }
            self.bytes -= std::mem::take(bytes);
            self.emptied += 1;
        }
        if self.over.len() > MOST_STEPS
            && let Some((oldest, bytes)) = self.over.pop_front()
        {
            self.known.remove(&oldest);
            self.bytes -= bytes;
            self.emptied = self.emptied.saturating_sub(1);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in a test a panic is the message")]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Notify;

    use super::*;

    fn reply(output: &str) -> NodeReply {
        NodeReply { success: true, output: output.into(), ..NodeReply::default() }
    }

    async fn call_once(
        ledger: &OnceCalls,
        step: &str,
        output: &'static str,
        calls: &AtomicUsize,
    ) -> Result<NodeReply, OnceError> {
        let call = |_| {
            calls.fetch_add(1, Ordering::Relaxed);
            async move { reply(output) }
        };
        let asked = CallFingerprint::of("node", &Value::Null);
        ledger.once(step.to_owned(), asked, &TaskTracker::new(), CancellationToken::new(), call).await
    }

    #[tokio::test]
    async fn a_step_is_called_once_and_another_call_of_its_name_is_refused() {
        let (ledger, calls) = (OnceCalls::new(), AtomicUsize::new(0));
        assert_eq!(call_once(&ledger, "a", "first", &calls).await, Ok(reply("first")));
        assert_eq!(call_once(&ledger, "a", "second", &calls).await, Ok(reply("first")));
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        let other = CallFingerprint::of("node", &Value::Bool(true));
        let call = |_| async { unreachable!("it is not called") };
        let refused = ledger.once("a".to_owned(), other, &TaskTracker::new(), CancellationToken::new(), call).await;
        assert_eq!(refused, Err(OnceError::Another));
    }

    #[tokio::test]
    async fn a_call_that_broke_off_is_not_made_again() {
        let (ledger, calls) = (OnceCalls::new(), AtomicUsize::new(0));
        let asked = CallFingerprint::of("node", &Value::Null);
        let call = |_| async { panic!("it breaks off") };
        let lost = ledger.once("a".to_owned(), asked, &TaskTracker::new(), CancellationToken::new(), call).await;
        assert_eq!(lost, Err(OnceError::Lost));
        assert_eq!(call_once(&ledger, "a", "second", &calls).await, Err(OnceError::Lost));
        assert_eq!(calls.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn a_call_that_nobody_waits_for_is_interrupted_unless_somebody_comes_back() {
        for (grace, came_back) in [(Duration::from_secs(3600), true), (Duration::ZERO, false)] {
            let ledger = OnceCalls { grace, ..OnceCalls::new() };
            let (finish, interrupt, tracker) = (Arc::new(Notify::new()), CancellationToken::new(), TaskTracker::new());
            let (asked, calls) = (CallFingerprint::of("node", &Value::Null), AtomicUsize::new(0));
            let call = |interrupt: CancellationToken| {
                calls.fetch_add(1, Ordering::Relaxed);
                let finish = finish.clone();
                async move {
                    tokio::select! {
                        () = interrupt.cancelled() => reply("interrupted"),
                        () = finish.notified() => reply("finished"),
                    }
                }
            };
            let request = || ledger.once("a".to_owned(), asked, &tracker, interrupt.clone(), call);
            // Makes a request, and drops it before there is an answer.
            tokio::select! {
                biased;
                reply = request() => panic!("{reply:?}"),
                () = std::future::ready(()) => {}
            }
            if came_back {
                finish.notify_one();
            } else {
                interrupt.cancelled().await;
            }
            let expected = if came_back { "finished" } else { "interrupted" };
            assert_eq!(request().await, Ok(reply(expected)));
            assert_eq!(calls.load(Ordering::Relaxed), 1);
        }
    }

    #[tokio::test]
    async fn results_give_way_to_newer_ones_and_their_steps_are_still_not_called_again() {
        let (ledger, calls) = (OnceCalls::new(), AtomicUsize::new(0));
        let large: &'static str = "x".repeat(MOST_BYTES / 2).leak();
        for step in ["a", "b", "c"] {
            call_once(&ledger, step, large, &calls).await.unwrap();
        }
        assert_eq!(call_once(&ledger, "a", large, &calls).await, Err(OnceError::Lost));
        assert!(call_once(&ledger, "c", large, &calls).await.is_ok());
        assert_eq!(calls.load(Ordering::Relaxed), 3);
        for step in 0..=MOST_STEPS {
            call_once(&ledger, &step.to_string(), "", &calls).await.unwrap();
        }
        let steps = ledger.lock();
        assert_eq!((steps.known.len(), steps.over.len()), (MOST_STEPS, MOST_STEPS));
        assert!(steps.bytes <= MOST_BYTES);
    }
}
