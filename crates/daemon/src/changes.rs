//! Notifications of changes, for subscribers.
//!
//! A component announces its changes to every subscriber. Subscribers receive it after a short delay, once for many
//! changes of the same object. The number of objects bounds the pending changes, so a slow subscriber loses nothing and
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

/// Time to collect changes before sending them.
const GATHER_TIME: Duration = Duration::from_millis(100);

/// All subscribers. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct ChangeHub {
    all: Arc<HubState>,
}

#[derive(Debug, Default)]
struct HubState {
    watchers: Mutex<Vec<Weak<Subscriber>>>,
    /// The number of subscribers, so that a run without subscribers costs nothing.
    count: AtomicUsize,
}

/// One subscriber.
#[derive(Debug, Default)]
struct Subscriber {
    noted: Mutex<PendingChanges>,
    something: Notify,
}

/// Unsent changes.
#[derive(Debug, Default)]
struct PendingChanges {
    tools: bool,
    runs: BTreeSet<RunId>,
}

impl ChangeHub {
    /// Records that the tools may have changed.
    pub(crate) fn tools(&self) {
        self.notify_watchers(|noted| noted.tools = true);
    }

    /// Records that a run has progressed.
    pub(crate) fn run(&self, run: &RunId) {
        self.notify_watchers(|noted| {
            noted.runs.insert(run.clone());
        });
    }

    fn notify_watchers(&self, note: impl Fn(&mut PendingChanges)) {
        if self.all.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut watchers = self.all.watchers.lock();
        watchers.retain(|watcher| match watcher.upgrade() {
            Some(watcher) => {
                note(&mut watcher.noted.lock());
                watcher.something.notify_one();
                true
            }
            None => false,
        });
        self.all.count.store(watchers.len(), Ordering::Release);
    }

    /// Subscribes to changes.
    pub(crate) fn watch(&self) -> Subscription {
        let watcher = Arc::<Subscriber>::default();
        let mut watchers = self.all.watchers.lock();
        watchers.push(Arc::downgrade(&watcher));
        self.all.count.store(watchers.len(), Ordering::Release);
        drop(watchers);
        Subscription(watcher)
    }
}

impl ToolListener for ChangeHub {
    fn tools_changed(&self) {
        self.tools();
    }
}

impl RunListener for ChangeHub {
    fn run_changed(&self, run: &RunId) {
        self.run(run);
    }
}

/// The receiving end of a subscription.
#[derive(Debug)]
pub(crate) struct Subscription(Arc<Subscriber>);

impl Subscription {
    /// Waits for changes, and returns the gathered ones. Safe to drop and call again.
    pub(crate) async fn next(&self) -> Vec<Change> {
        loop {
            self.0.something.notified().await;
            tokio::time::sleep(GATHER_TIME).await;
            let noted = std::mem::take(&mut *self.0.noted.lock());
            let runs = noted.runs.into_iter().map(|run| Change::Run { run_id: run.to_string() });
            let changes: Vec<Change> = noted.tools.then_some(Change::Tools).into_iter().chain(runs).collect();
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
    async fn many_changes_of_one_thing_are_told_once_and_none_is_lost() {
        let changes = ChangeHub::default();
        changes.tools();
        let watching = changes.watch();
        let (one, other) = (RunId::random(), RunId::random());
        for _ in 0..1000 {
            changes.run(&one);
        }
        changes.run(&other);
        changes.tools();
        let told = watching.next().await;
        let mut runs = [one.to_string(), other.to_string()];
        runs.sort();
        let [first, second] = runs.map(|run_id| Change::Run { run_id });
        assert_eq!(told, [Change::Tools, first, second]);
        changes.tools();
        assert_eq!(watching.next().await, [Change::Tools]);
        drop(watching);
        changes.tools();
        assert_eq!(changes.all.count.load(Ordering::Acquire), 0, "who does not watch any more is forgotten");
    }
}
