//! Queue of a service: limits the number of its runs in progress. Other runs wait in order of arrival.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

/// A queue with a limited number of permits.
#[derive(Debug)]
pub(crate) struct AdmissionQueue {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    limit: usize,
    in_progress: usize,
    waiting: VecDeque<oneshot::Sender<Permit>>,
}

/// Permission for a run to be in progress. Dropping this value passes the permission to the next waiter.
#[derive(Debug)]
pub struct Permit(Option<Arc<AdmissionQueue>>);

impl AdmissionQueue {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        let inner = Inner { limit, in_progress: 0, waiting: VecDeque::new() };
        Arc::new(Self { inner: Mutex::new(inner) })
    }

    /// Changes the maximum number of runs in progress. Runs in progress continue.
    pub(crate) fn set_limit(self: &Arc<Self>, limit: usize) {
        let mut inner = self.lock();
        inner.limit = limit;
        self.admit_waiters(inner);
    }

    /// Returns a permit if one is available without waiting.
    pub(crate) fn try_enter(self: &Arc<Self>) -> Option<Permit> {
        let mut inner = self.lock();
        inner.waiting.retain(|waiting| !waiting.is_closed());
        if inner.in_progress >= inner.limit || !inner.waiting.is_empty() {
            return None;
        }
        inner.in_progress += 1;
        Some(Permit(Some(self.clone())))
    }

    /// Waits for a permit. Dropping the future leaves the queue.
    pub(crate) async fn enter(self: &Arc<Self>) -> Permit {
        loop {
            let (sender, receiver) = oneshot::channel();
            {
                let mut inner = self.lock();
                inner.waiting.push_back(sender);
                self.admit_waiters(inner);
            }
            if let Ok(permit) = receiver.await {
                return permit;
            }
        }
    }

    /// Returns a permit for a run that is already in progress, regardless of the limit.
    pub(crate) fn enter_anyway(self: &Arc<Self>) -> Permit {
        self.lock().in_progress += 1;
        Permit(Some(self.clone()))
    }

    /// Returns the number of runs in progress and the number of waiting runs.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let inner = self.lock();
        (inner.in_progress, inner.waiting.iter().filter(|waiting| !waiting.is_closed()).count())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    fn admit_waiters(self: &Arc<Self>, mut inner: MutexGuard<'_, Inner>) {
        while inner.in_progress < inner.limit {
            let Some(next) = inner.waiting.pop_front() else { return };
            inner.in_progress += 1;
            if let Err(mut permit) = next.send(Permit(Some(self.clone()))) {
                // The waiter has left; dropping its permit must not acquire the lock held here.
                permit.0 = None;
                inner.in_progress -= 1;
            }
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(queue) = self.0.take() {
            let mut inner = queue.lock();
            inner.in_progress = inner.in_progress.saturating_sub(1);
            queue.admit_waiters(inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn permits_pass_to_waiters_in_order_of_arrival() {
        let queue = AdmissionQueue::new(1);
        let mut context = Context::from_waker(Waker::noop());
        let first = queue.try_enter().expect("the queue has a free permit");
        assert!(queue.try_enter().is_none());
        let mut second = Box::pin(queue.enter());
        let mut third = Box::pin(queue.enter());
        let mut fourth = pin!(queue.enter());
        for waiting in [second.as_mut(), third.as_mut(), fourth.as_mut()] {
            assert!(waiting.poll(&mut context).is_pending());
        }
        assert_eq!(queue.counts(), (1, 3));
        drop(third);
        drop(first);
        let Poll::Ready(turn) = second.as_mut().poll(&mut context) else { panic!("the second waiter has no permit") };
        assert!(fourth.as_mut().poll(&mut context).is_pending());
        assert!(queue.try_enter().is_none(), "waiters precede new requests");
        drop(turn);
        assert!(fourth.as_mut().poll(&mut context).is_ready());
    }

    #[test]
    fn unclaimed_permit_passes_to_the_next_waiter() {
        let queue = AdmissionQueue::new(1);
        let mut context = Context::from_waker(Waker::noop());
        let first = queue.try_enter().expect("the queue has a free permit");
        let mut second = Box::pin(queue.enter());
        assert!(second.as_mut().poll(&mut context).is_pending());
        drop(first);
        // The waiter has a permit, but is no longer polled.
        drop(second);
        assert_eq!(queue.counts(), (0, 0));
        assert!(queue.try_enter().is_some());
    }

    #[test]
    fn permits_beyond_the_limit_count() {
        let queue = AdmissionQueue::new(1);
        let turns = [queue.enter_anyway(), queue.enter_anyway()];
        assert_eq!(queue.counts(), (2, 0));
        assert!(queue.try_enter().is_none());
        queue.set_limit(3);
        assert!(queue.try_enter().is_some());
        drop(turns);
        assert_eq!(queue.counts(), (0, 0));
    }
}
