//! The clock of a component's timers: the system clock, a test's clock, or a simulated runtime's clock.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;

use crate::Timestamp;

/// A clock, and the timers that follow it. Cheap to clone; clones are the same clock.
#[derive(Debug, Clone, Default)]
pub struct Clock(Source);

#[derive(Debug, Clone, Default)]
enum Source {
    #[default]
    System,
    /// Tokio's clock. A simulation pauses it.
    Runtime {
        start: Timestamp,
        origin: tokio::time::Instant,
    },
    Manual(Arc<Mutex<ManualTime>>),
}

/// A time limit was exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the time limit was exceeded")]
pub struct Elapsed;

impl Clock {
    /// Returns the system clock.
    #[must_use]
    pub fn system() -> Self {
        Self::default()
    }

    /// Returns the clock of the current Tokio runtime. The clock reads `start` now. A runtime whose clock is paused has
    /// simulated time.
    #[must_use]
    pub fn of_runtime(start: Timestamp) -> Self {
        Self(Source::Runtime { start, origin: tokio::time::Instant::now() })
    }

    /// Reads the clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System => crate::now(),
            Source::Runtime { start, origin } => start.after(origin.elapsed()),
            Source::Manual(time) => time.lock().now,
        }
    }

    /// Returns a future that completes `duration` after this call. The system clock needs a Tokio runtime.
    pub fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send + use<> {
        match &self.0 {
            Source::System | Source::Runtime { .. } => Timer::System(tokio::time::sleep(duration)),
            Source::Manual(time) => Timer::Manual(Sleeper::new(time.clone(), |now| now.after(duration))),
        }
        .elapse()
    }

    /// Returns a future that completes at a point in time, or immediately if that time has passed.
    pub fn sleep_until(&self, deadline: Timestamp) -> impl Future<Output = ()> + Send + use<> {
        match &self.0 {
            Source::System | Source::Runtime { .. } => Timer::System(tokio::time::sleep(deadline.since(self.now()))),
            Source::Manual(time) => Timer::Manual(Sleeper::new(time.clone(), |_| deadline)),
        }
        .elapse()
    }

    /// Returns a future that completes at a deadline, or never without one.
    pub fn deadline(&self, deadline: Option<Timestamp>) -> impl Future<Output = ()> + Send + use<> {
        let timer = deadline.map(|deadline| self.sleep_until(deadline));
        async move {
            match timer {
                Some(timer) => timer.await,
                None => std::future::pending().await,
            }
        }
    }

    /// Waits for `future` for at most `limit`. A ready future is considered completed, even after the time limit.
    ///
    /// # Errors
    /// If the time limit was exceeded, after dropping the future.
    pub async fn timeout<F: Future>(&self, limit: Duration, future: F) -> Result<F::Output, Elapsed> {
        let timer = self.sleep(limit);
        tokio::select! {
            biased;
            output = future => Ok(output),
            () = timer => Err(Elapsed),
        }
    }
}

/// A running timer.
enum Timer {
    System(tokio::time::Sleep),
    Manual(Sleeper),
}

impl Timer {
    async fn elapse(self) {
        match self {
            Self::System(sleep) => sleep.await,
            Self::Manual(sleeper) => sleeper.await,
        }
    }
}

/// A clock for tests. It stands still until a test advances it.
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<Mutex<ManualTime>>);

#[derive(Debug)]
struct ManualTime {
    now: Timestamp,
    /// The number of the next sleeper.
    next_number: u64,
    /// Sleepers that are not due, by due time and then in the order of their creation.
    sleepers: BTreeMap<(Timestamp, u64), Waker>,
}

impl ManualClock {
    /// Returns a clock that is stopped at `now`.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self(Arc::new(Mutex::new(ManualTime { now, next_number: 0, sleepers: BTreeMap::new() })))
    }

    /// Returns a clock for the tested component.
    #[must_use]
    pub fn clock(&self) -> Clock {
        Clock(Source::Manual(self.0.clone()))
    }

    /// Reads the clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.0.lock().now
    }

    /// Advances the clock by `duration` and wakes the sleepers that are then due: the earliest first, and of sleepers
    /// with the same time the oldest first. A sleeper that a woken task creates starts at the new time.
    pub fn advance(&self, duration: Duration) {
        let due = {
            let mut time = self.0.lock();
            time.now = time.now.after(duration);
            let first_later = (Timestamp(time.now.0.saturating_add(1)), 0);
            let later = time.sleepers.split_off(&first_later);
            std::mem::replace(&mut time.sleepers, later)
        };
        // Wake after releasing the lock, because a waker may poll immediately.
        due.into_values().for_each(Waker::wake);
    }

    /// Returns the due times of the sleepers, in order. Sleepers that are due now do not count.
    #[must_use]
    pub fn sleepers(&self) -> Vec<Timestamp> {
        self.0.lock().sleepers.keys().map(|(due, _)| *due).collect()
    }
}

/// A future that completes when the manual clock reaches its time.
struct Sleeper {
    time: Arc<Mutex<ManualTime>>,
    key: (Timestamp, u64),
}

impl Sleeper {
    fn new(time: Arc<Mutex<ManualTime>>, due: impl FnOnce(Timestamp) -> Timestamp) -> Self {
        let key = {
            let mut time = time.lock();
            let key = (due(time.now), time.next_number);
            time.next_number += 1;
            if key.0 > time.now {
                time.sleepers.insert(key, Waker::noop().clone());
            }
            key
        };
        Self { time, key }
    }
}

impl Future for Sleeper {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match self.time.lock().sleepers.get_mut(&self.key) {
            Some(waker) => {
                waker.clone_from(context.waker());
                Poll::Pending
            }
            None => Poll::Ready(()),
        }
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let waker = self.time.lock().sleepers.remove(&self.key);
        // Drop the waker after releasing the lock, because the last waker of a task drops the task.
        drop(waker);
    }
}

#[cfg(test)]
mod tests {
    use std::task::Wake;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn seconds(seconds: i64) -> Timestamp {
        Timestamp(seconds * 1_000_000)
    }

    fn is_ready(sleeper: impl Future<Output = ()>) -> bool {
        std::pin::pin!(sleeper).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    /// A waker that records its number.
    struct Bell(u64, Arc<Mutex<Vec<u64>>>);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.1.lock().push(self.0);
        }
    }

    #[test]
    fn missing_deadline_never_completes() {
        let manual = ManualClock::new(seconds(100));
        let (clock, never) = (manual.clock(), manual.clock().deadline(None));
        assert!(is_ready(clock.deadline(Some(seconds(100)))) && !is_ready(clock.deadline(Some(seconds(101)))));
        manual.advance(SECOND * 1_000_000);
        assert!(is_ready(clock.deadline(Some(seconds(101)))) && !is_ready(never));
    }

    #[test]
    fn advancing_wakes_only_due_sleepers_in_order() {
        let (manual, woken) = (ManualClock::new(seconds(100)), Arc::default());
        let clock = manual.clock();
        let mut sleepers: Vec<Pin<Box<dyn Future<Output = ()>>>> = vec![
            Box::pin(clock.sleep(SECOND * 5)),
            Box::pin(clock.sleep_until(seconds(102))),
            Box::pin(clock.sleep(SECOND * 2)),
            Box::pin(clock.sleep(SECOND * 3)),
        ];
        let mut poll = |at: usize| {
            let waker = Waker::from(Arc::new(Bell(at as u64, Arc::clone(&woken))));
            sleepers[at].as_mut().poll(&mut Context::from_waker(&waker)).is_ready()
        };
        assert_eq!([0, 1, 2, 3].map(&mut poll), [false; 4]);
        assert_eq!(manual.sleepers(), [seconds(102), seconds(102), seconds(103), seconds(105)]);
        manual.advance(SECOND);
        assert_eq!((woken.lock().as_slice(), clock.now()), ([].as_slice(), seconds(101)));
        manual.advance(SECOND * 2);
        assert_eq!(std::mem::take(&mut *woken.lock()), [1, 2, 3]);
        assert_eq!([0, 1, 2, 3].map(&mut poll), [false, true, true, true]);
        manual.advance(SECOND * 2);
        assert_eq!((woken.lock().as_slice(), poll(0)), ([0].as_slice(), true));
        assert_eq!(manual.sleepers(), []);
    }

    #[test]
    fn sleeper_counts_from_creation_until_dropped() {
        let manual = ManualClock::new(seconds(100));
        let clock = manual.clock();
        let (sleeper, passed) = (clock.sleep(SECOND), clock.sleep_until(seconds(99)));
        assert_eq!(manual.sleepers(), [seconds(101)]);
        manual.advance(SECOND);
        assert!(is_ready(sleeper) && is_ready(passed));
        drop(clock.sleep(SECOND));
        assert_eq!(manual.sleepers(), []);
    }

    #[tokio::test]
    async fn result_at_the_end_of_the_time_limit_counts() {
        let manual = ManualClock::new(seconds(100));
        let clock = manual.clock();
        let never = tokio::spawn({
            let clock = clock.clone();
            async move { clock.timeout(SECOND * 3600, std::future::pending::<()>()).await }
        });
        while manual.sleepers().is_empty() {
            tokio::task::yield_now().await;
        }
        manual.advance(SECOND * 3599);
        tokio::task::yield_now().await;
        assert!(!never.is_finished());
        manual.advance(SECOND);
        assert_eq!(never.await.unwrap(), Err(Elapsed));
        assert_eq!(clock.timeout(Duration::ZERO, async { 1 }).await, Ok(1));
    }

    #[tokio::test(start_paused = true)]
    async fn system_clock_sleeps_in_real_time() {
        let began = tokio::time::Instant::now();
        Clock::system().sleep(SECOND * 3600).await;
        let result = Clock::system().timeout(SECOND, std::future::pending::<()>()).await;
        assert_eq!((result, began.elapsed() >= SECOND * 3601), (Err(Elapsed), true));
        Clock::system().sleep_until(Timestamp(0)).await;
    }
}
