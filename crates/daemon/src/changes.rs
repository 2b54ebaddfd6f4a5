//! Notifications of changes, for subscribers.
//!
//! A component announces its changes to every subscriber. A subscriber receives them after a short delay, once for many
//! changes of one object. The number of objects limits the pending changes, so a slow subscriber loses nothing and
//! delays no other component.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use steplatch_ids::RunId;
use steplatch_protocol::Change;
use steplatch_runs::RunListener;
use steplatch_services::ToolListener;
use tokio::sync::Notify;

/// Collection time of changes before their sending.
const GATHER_TIME: Duration = Duration::from_millis(100);

/// All subscribers. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct ChangeHub {
    state: Arc<HubState>,
}

#[derive(Debug, Default)]
struct HubState {
    subscribers: Mutex<Vec<Weak<Subscriber>>>,
    /// Number of subscribers. Without subscribers, a change costs one load.
    subscriber_count: AtomicUsize,
}

/// One subscriber.
#[derive(Debug, Default)]
struct Subscriber {
    pending: Mutex<PendingChanges>,
    has_changes: Notify,
}

/// Unsent changes.
#[derive(Debug, Default)]
struct PendingChanges {
    tools: bool,
    runs: BTreeSet<RunId>,
}

impl PendingChanges {
    fn is_empty(&self) -> bool {
        !self.tools && self.runs.is_empty()
    }
}

impl ChangeHub {
    /// Records that the tools may have changed.
    pub(crate) fn report_tools(&self) {
        self.notify_subscribers(|pending| pending.tools = true);
    }

    /// Records that a run has progressed.
    pub(crate) fn report_run(&self, run: &RunId) {
        self.notify_subscribers(|pending| {
            pending.runs.insert(run.clone());
        });
    }

    fn notify_subscribers(&self, record: impl Fn(&mut PendingChanges)) {
        if self.state.subscriber_count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut subscribers = self.state.subscribers.lock();
        subscribers.retain(|subscriber| match subscriber.upgrade() {
            Some(subscriber) => {
                record(&mut subscriber.pending.lock());
                subscriber.has_changes.notify_one();
                true
            }
            None => false,
        });
        self.state.subscriber_count.store(subscribers.len(), Ordering::Release);
    }

    /// Subscribes to changes.
    pub(crate) fn watch(&self) -> Subscription {
        let subscriber = Arc::<Subscriber>::default();
        let mut subscribers = self.state.subscribers.lock();
        subscribers.push(Arc::downgrade(&subscriber));
        self.state.subscriber_count.store(subscribers.len(), Ordering::Release);
        drop(subscribers);
        Subscription(subscriber)
    }
}

impl ToolListener for ChangeHub {
    fn tools_changed(&self) {
        self.report_tools();
    }
}

impl RunListener for ChangeHub {
    fn run_changed(&self, run: &RunId) {
        self.report_run(run);
    }
}

/// The receiving end of a subscription.
#[derive(Debug)]
pub(crate) struct Subscription(Arc<Subscriber>);

impl Subscription {
    /// Waits for changes and returns the changes of a short interval. Cancel-safe.
    pub(crate) async fn next(&self) -> Vec<Change> {
        loop {
            // An earlier call may have been dropped after the notification.
            if self.0.pending.lock().is_empty() {
                self.0.has_changes.notified().await;
            }
            tokio::time::sleep(GATHER_TIME).await;
            let pending = std::mem::take(&mut *self.0.pending.lock());
            let runs = pending.runs.into_iter().map(|run| Change::Run { run_id: run.to_string() });
            let changes: Vec<Change> = pending.tools.then_some(Change::Tools).into_iter().chain(runs).collect();
            if !changes.is_empty() {
                return changes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn repeated_changes_are_reported_once() {
        let changes = ChangeHub::default();
        changes.report_tools();
        let watching = changes.watch();
        let (first, second) = (RunId::random(), RunId::random());
        for _ in 0..1000 {
            changes.report_run(&first);
        }
        changes.report_run(&second);
        changes.report_tools();
        let reported = watching.next().await;
        let mut runs = [first.to_string(), second.to_string()];
        runs.sort();
        let [first, second] = runs.map(|run_id| Change::Run { run_id });
        assert_eq!(reported, [Change::Tools, first, second]);
        changes.report_tools();
        assert_eq!(watching.next().await, [Change::Tools]);
        drop(watching);
        changes.report_tools();
        assert_eq!(changes.state.subscriber_count.load(Ordering::Acquire), 0, "a dropped subscription is removed");
    }

    #[tokio::test(start_paused = true)]
    async fn dropped_call_leaves_its_changes_to_the_next_one() {
        let changes = ChangeHub::default();
        let watching = changes.watch();
        changes.report_tools();
        assert!(tokio::time::timeout(GATHER_TIME / 2, watching.next()).await.is_err());
        assert_eq!(tokio::time::timeout(GATHER_TIME * 2, watching.next()).await.unwrap(), [Change::Tools]);
    }
}
