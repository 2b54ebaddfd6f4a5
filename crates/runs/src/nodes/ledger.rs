//! Calls with the name of a step, each made once in the lifetime of this daemon.
//!
//! A repeated request with the same step, even over another connection, waits for the same call or receives its result.
//! The ledger interrupts a call without waiters after a grace period. Within this period, a client may return.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use steplatch_ledger::{Effect, EffectKey, EffectState, Ledger, LedgerLimits};
use steplatch_protocol::NodeReply;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Grace period of a call without waiters.
const GRACE_PERIOD: Duration = Duration::from_secs(10);

/// Bounds of the ledger: beyond the bytes, it remembers steps by their names only.
const LEDGER_LIMITS: LedgerLimits = LedgerLimits { max_names: 10_000, max_result_bytes: 16 << 20 };

/// The known steps. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct OnceCalls {
    steps: Arc<Mutex<Ledger<Calling, FinishedCall>>>,
    grace: Duration,
}

/// A call in progress. Waiters receive the reply through the channel.
#[derive(Debug)]
struct Calling {
    fingerprint: CallFingerprint,
    reply: watch::Sender<Option<NodeReply>>,
}

#[derive(Debug)]
struct FinishedCall {
    fingerprint: CallFingerprint,
    reply: Box<NodeReply>,
}

/// The request of a step, identified by a hash, since the input may be large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CallFingerprint(u64);

impl CallFingerprint {
    pub(super) fn new(node: &str, input: &Value) -> Self {
        let mut hasher = DefaultHasher::new();
        (node, input.to_string()).hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// Error about a step without a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnceError {
    /// Another call has this name.
    OtherCall,
    /// The call was made, but the ledger no longer has its result; or the call was aborted.
    Lost,
}

impl OnceCalls {
    pub(super) fn new() -> Self {
        Self { steps: Arc::new(Mutex::new(Ledger::new(LEDGER_LIMITS))), grace: GRACE_PERIOD }
    }

    /// Returns the result of the call of a step. Makes the call if the step has not made it yet.
    ///
    /// # Errors
    /// If the step has already made another request, or the ledger no longer has its result.
    pub(super) async fn once<C: Future<Output = NodeReply> + Send + 'static>(
        &self,
        step: String,
        fingerprint: CallFingerprint,
        working: &TaskTracker,
        interrupt: CancellationToken,
        call: impl FnOnce(CancellationToken) -> C,
    ) -> Result<NodeReply, OnceError> {
        let key = EffectKey::new(Effect::Call, step);
        let mut waiting = {
            let mut steps = self.lock();
            match steps.find(&key) {
                Some(EffectState::Performing(calling)) if calling.fingerprint != fingerprint => {
                    return Err(OnceError::OtherCall);
                }
                Some(EffectState::Performing(calling)) => calling.reply.subscribe(),
                Some(EffectState::Performed(finished)) if finished.fingerprint != fingerprint => {
                    return Err(OnceError::OtherCall);
                }
                Some(EffectState::Performed(finished)) => return Ok((*finished.reply).clone()),
                Some(EffectState::Unknown) => return Err(OnceError::Lost),
                None => {
                    let (reply, waiting) = watch::channel(None);
                    steps.begin(key.clone(), false, Calling { fingerprint, reply: reply.clone() });
                    working.spawn(self.clone().finish_call(
                        key,
                        fingerprint,
                        reply,
                        interrupt.clone(),
                        call(interrupt),
                    ));
                    waiting
                }
            }
        };
        let reply = waiting.wait_for(Option::is_some).await;
        reply.ok().and_then(|reply| reply.clone()).ok_or(OnceError::Lost)
    }

    async fn finish_call(
        self,
        key: EffectKey,
        fingerprint: CallFingerprint,
        waiting: watch::Sender<Option<NodeReply>>,
        interrupt: CancellationToken,
        call: impl Future<Output = NodeReply> + Send + 'static,
    ) {
        // Use a separate task, so that the ledger records a call that panics, with an unknown result.
        let mut calling = tokio::spawn(call);
        let reply = tokio::select! {
            reply = &mut calling => reply,
            () = self.wait_until_abandoned(&waiting) => {
                interrupt.cancel();
                calling.await
            }
        };
        match reply {
            Ok(reply) => {
                let bytes = serde_json::to_vec(&reply).map_or(0, |text| text.len());
                self.lock().finish(&key, FinishedCall { fingerprint, reply: Box::new(reply.clone()) }, bytes);
                waiting.send_replace(Some(reply));
            }
            Err(error) => {
                tracing::error!(%error, step = key.step, "a call panicked or was aborted");
                // Without a reply, waiters see the closed channel.
                self.lock().lose(&key);
            }
        }
    }

    /// Returns once the call has had no waiters for the whole grace period.
    async fn wait_until_abandoned(&self, waiting: &watch::Sender<Option<NodeReply>>) {
        loop {
            waiting.closed().await;
            tokio::time::sleep(self.grace).await;
            if waiting.is_closed() {
                return;
            }
        }
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Ledger<Calling, FinishedCall>> {
        self.steps.lock()
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
        let fingerprint = CallFingerprint::new("node", &Value::Null);
        ledger.once(step.to_owned(), fingerprint, &TaskTracker::new(), CancellationToken::new(), call).await
    }

    #[tokio::test]
    async fn step_makes_one_call_and_refuses_a_different_one() {
        let (ledger, calls) = (OnceCalls::new(), AtomicUsize::new(0));
        assert_eq!(call_once(&ledger, "a", "first", &calls).await, Ok(reply("first")));
        assert_eq!(call_once(&ledger, "a", "second", &calls).await, Ok(reply("first")));
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        let other_call = CallFingerprint::new("node", &Value::Bool(true));
        let call = |_| async { unreachable!("the other call is refused") };
        let result = ledger.once("a".to_owned(), other_call, &TaskTracker::new(), CancellationToken::new(), call).await;
        assert_eq!(result, Err(OnceError::OtherCall));
    }

    #[tokio::test]
    async fn panicked_call_is_not_repeated() {
        let (ledger, calls) = (OnceCalls::new(), AtomicUsize::new(0));
        let fingerprint = CallFingerprint::new("node", &Value::Null);
        let call = |_| async { panic!("the call panics") };
        let result =
            ledger.once("a".to_owned(), fingerprint, &TaskTracker::new(), CancellationToken::new(), call).await;
        assert_eq!(result, Err(OnceError::Lost));
        assert_eq!(call_once(&ledger, "a", "second", &calls).await, Err(OnceError::Lost));
        assert_eq!(calls.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn call_without_waiters_is_interrupted_after_grace_period() {
        for (grace, client_returns) in [(Duration::from_secs(3600), true), (Duration::ZERO, false)] {
            let ledger = OnceCalls { grace, ..OnceCalls::new() };
            let (finish, interrupt, tracker) = (Arc::new(Notify::new()), CancellationToken::new(), TaskTracker::new());
            let (fingerprint, calls) = (CallFingerprint::new("node", &Value::Null), AtomicUsize::new(0));
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
            let request = || ledger.once("a".to_owned(), fingerprint, &tracker, interrupt.clone(), call);
            // Makes a request and drops it before there is an answer.
            tokio::select! {
                biased;
                reply = request() => panic!("{reply:?}"),
                () = std::future::ready(()) => {}
            }
            if client_returns {
                finish.notify_one();
            } else {
                interrupt.cancelled().await;
            }
            let expected = if client_returns { "finished" } else { "interrupted" };
            assert_eq!(request().await, Ok(reply(expected)));
            assert_eq!(calls.load(Ordering::Relaxed), 1);
        }
    }
}
