//! Clients that receive notifications of changes.
//!
//! Before 2026-07-28 a client receives changes of lists without a request, and subscribes to single resources. Since
//! then a client sends a request to listen. The request lasts until the client ends it. Each listener collects the
//! changes of a short interval and sends one notification for them.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::model::ResourceUpdatedNotificationParam;
use rmcp::service::SubscriptionContext;
use rmcp::{ErrorData, Peer, RoleServer};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::offer::{ListChange, ServerBackend, Updates};

/// Time to collect changes of lists.
const GATHER_TIME: Duration = Duration::from_millis(150);

/// Minimum time between two updates of a resource.
const MIN_UPDATE_INTERVAL: Duration = Duration::from_millis(300);

/// Maximum number of resources that one client, or one request to listen, can follow.
const MAX_FOLLOWED: usize = 32;

/// Notifications to a client. Dropping this value ends the notifications for clients before 2026-07-28.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    followed: Mutex<HashMap<String, DropGuard>>,
    lists: Mutex<Option<DropGuard>>,
    /// Changes of lists for acknowledged requests to listen that have not begun, oldest first.
    accepted: Mutex<VecDeque<broadcast::Receiver<ListChange>>>,
}

impl Listeners {
    /// Collects changes of lists for a request to listen that is acknowledged next. The client expects changes since
    /// the acknowledgement, and the request begins later.
    pub(crate) fn accept(&self, changes: broadcast::Receiver<ListChange>) {
        self.accepted.lock().push_back(changes);
    }

    /// Returns the collected changes of lists for the request to listen that now begins.
    pub(crate) fn take_accepted(&self) -> Option<broadcast::Receiver<ListChange>> {
        self.accepted.lock().pop_front()
    }

    /// Checks that the client may follow another resource.
    ///
    /// # Errors
    /// If the client follows the maximum number of resources.
    pub(crate) fn check_limit(&self, uri: &str) -> Result<(), ErrorData> {
        let followed = self.followed.lock();
        if followed.len() < MAX_FOLLOWED || followed.contains_key(uri) {
            return Ok(());
        }
        let error = format!("the maximum of {MAX_FOLLOWED} followed resources is reached; unsubscribe from one first");
        Err(ErrorData::invalid_params(error, None))
    }

    /// Starts sending the changes of a resource to a client.
    ///
    /// # Errors
    /// Same as [`Listeners::check_limit`].
    pub(crate) fn subscribe(
        &self,
        uri: String,
        mut updates: Updates,
        peer: Peer<RoleServer>,
        shutdown: &CancellationToken,
    ) -> Result<(), ErrorData> {
        self.check_limit(&uri)?;
        let token = shutdown.child_token();
        let mut followed = self.followed.lock();
        followed.insert(uri.clone(), token.clone().drop_guard());
        tokio::spawn(token.run_until_cancelled_owned(async move {
            while updates.recv().await.is_some() {
                let update = ResourceUpdatedNotificationParam::new(uri.clone());
                if peer.notify_resource_updated(update).await.is_err() {
                    return;
                }
                tokio::time::sleep(MIN_UPDATE_INTERVAL).await;
            }
        }));
        Ok(())
    }

    pub(crate) fn unsubscribe(&self, uri: &str) {
        self.followed.lock().remove(uri);
    }
}

/// Starts sending changes of lists to a client.
pub(crate) fn notify_of_changes(
    listeners: &Arc<Listeners>,
    changes: broadcast::Receiver<ListChange>,
    peer: Peer<RoleServer>,
    shutdown: &CancellationToken,
) {
    let token = shutdown.child_token();
    *listeners.lists.lock() = Some(token.clone().drop_guard());
    let mut changes = DebouncedChanges::new(changes);
    tokio::spawn(token.run_until_cancelled_owned(async move {
        while let Some(changed) = changes.next().await {
            for list in changed {
                let result = match list {
                    ListChange::Tools => peer.notify_tool_list_changed().await,
                    ListChange::Prompts => peer.notify_prompt_list_changed().await,
                };
                if result.is_err() {
                    return;
                }
            }
        }
    }));
}

/// Truncates the list of resources to the limit of one request to listen.
pub(crate) fn limit_resources(mut uris: Vec<String>) -> Vec<String> {
    uris.truncate(MAX_FOLLOWED);
    uris
}

/// Sends the requested notifications until the client or the server ends the request. `changes` receives the changes of
/// lists since before the acknowledgement.
///
/// # Errors
/// If following a resource fails.
pub(crate) async fn listen(
    offer: &impl ServerBackend,
    changes: broadcast::Receiver<ListChange>,
    context: SubscriptionContext,
    shutdown: &CancellationToken,
) -> Result<(), ErrorData> {
    let mut changes = DebouncedChanges::new(changes);
    let (update_sender, mut update_receiver) = mpsc::channel(MAX_FOLLOWED);
    // The tasks end with this request.
    let mut follow_tasks = JoinSet::new();
    let work = async {
        for uri in context.accepted().resource_subscriptions.iter().flatten() {
            // A resource that does not exist has no updates. Reading it returns an error.
            let Some(mut updates) = offer.follow(uri).await? else { continue };
            let (uri, update_sender) = (uri.clone(), update_sender.clone());
            follow_tasks.spawn(async move {
                // Assume a change: changes since the acknowledgement of the request are unknown.
                if update_sender.send(uri.clone()).await.is_err() {
                    return;
                }
                while updates.recv().await.is_some() && update_sender.send(uri.clone()).await.is_ok() {
                    tokio::time::sleep(MIN_UPDATE_INTERVAL).await;
                }
            });
        }
        let is_subscribed = |list: &ListChange| match list {
            ListChange::Tools => context.accepted().tools_list_changed == Some(true),
            ListChange::Prompts => context.accepted().prompts_list_changed == Some(true),
        };
        loop {
            tokio::select! {
                changed = changes.next() => {
                    let Some(changed) = changed else { return std::future::pending().await };
                    for list in changed.into_iter().filter(is_subscribed) {
                        let result = match list {
                            ListChange::Tools => context.sink().notify_tool_list_changed().await,
                            ListChange::Prompts => context.sink().notify_prompt_list_changed().await,
                        };
                        if result.is_err() {
                            return Ok(());
                        }
                    }
                }
                Some(uri) = update_receiver.recv() => {
                    if context.sink().notify_resource_updated(uri).await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
    };
    tokio::select! {
        result = work => result,
        () = context.cancelled() => Ok(()),
        () = shutdown.cancelled() => Ok(()),
    }
}

/// Changes of lists, collected over a short interval.
struct DebouncedChanges {
    changes: broadcast::Receiver<ListChange>,
    changed: BTreeSet<ListChange>,
    /// The end of the interval that began with the first change.
    deadline: Option<Instant>,
}

impl DebouncedChanges {
    fn new(changes: broadcast::Receiver<ListChange>) -> Self {
        Self { changes, changed: BTreeSet::new(), deadline: None }
    }

    /// Waits for a change and collects further ones. `None` if no more changes will follow. Cancellation-safe.
    async fn next(&mut self) -> Option<BTreeSet<ListChange>> {
        loop {
            let next = match self.deadline {
                Some(deadline) => tokio::time::timeout_at(deadline, self.changes.recv()).await.ok(),
                None => Some(self.changes.recv().await),
            };
            match next {
                Some(Ok(list)) => drop(self.changed.insert(list)),
                // The receiver missed changes, so any list may have changed.
                Some(Err(RecvError::Lagged(_))) => self.changed.extend([ListChange::Tools, ListChange::Prompts]),
                Some(Err(RecvError::Closed)) if self.changed.is_empty() => return None,
                Some(Err(RecvError::Closed)) | None => {
                    self.deadline = None;
                    return Some(std::mem::take(&mut self.changed));
                }
            }
            self.deadline.get_or_insert_with(|| Instant::now() + GATHER_TIME);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn change_between_acknowledgement_and_start_is_delivered() {
        let (listeners, (sender, _)) = (Listeners::default(), broadcast::channel(2));
        for list in [ListChange::Tools, ListChange::Prompts] {
            listeners.accept(sender.subscribe());
            sender.send(list).unwrap();
        }
        let mut first = DebouncedChanges::new(listeners.take_accepted().unwrap());
        assert_eq!(first.next().await, Some(BTreeSet::from([ListChange::Tools, ListChange::Prompts])));
        let mut second = DebouncedChanges::new(listeners.take_accepted().unwrap());
        assert_eq!(second.next().await, Some(BTreeSet::from([ListChange::Prompts])));
        assert!(listeners.take_accepted().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn changes_are_batched_and_none_is_lost() {
        let (sender, receiver) = broadcast::channel(2);
        let mut debounced = DebouncedChanges::new(receiver);
        let began = Instant::now();
        sender.send(ListChange::Tools).unwrap();
        tokio::time::timeout(GATHER_TIME / 3, debounced.next()).await.unwrap_err();
        sender.send(ListChange::Tools).unwrap();
        sender.send(ListChange::Prompts).unwrap();
        assert_eq!(debounced.next().await.unwrap(), BTreeSet::from([ListChange::Tools, ListChange::Prompts]));
        // The test controls the clock; tokio's timers are accurate to a millisecond.
        let elapsed = began.elapsed();
        assert!(
            elapsed >= GATHER_TIME && elapsed <= GATHER_TIME + Duration::from_millis(2),
            "{elapsed:?} since the first change"
        );
        // Exceed the buffer of a slow listener.
        for _ in 0..3 {
            sender.send(ListChange::Tools).unwrap();
        }
        assert!(debounced.next().await.unwrap().contains(&ListChange::Tools));
        drop(sender);
        assert_eq!(debounced.next().await, None);
    }
}
