//! Scheduling of terminals that print without end (flooding terminals).
//!
//! A flooding terminal is always ready to run, and so is its program. A hundred of them would delay other terminals: in
//! the queue of this process's runtime, and in the kernel's queue for every process between the output and a client. So
//! flooding terminals have a separate queue here. If there are many, a pause follows each turn. The pause blocks
//! programs that print faster, but does not delay other terminals. No output is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of flooding terminals that read output at the same time.
const MAX_CONCURRENT_TURNS: usize = 2;

/// Maximum number of flooding terminals without a pause after each turn.
const MAX_FLOODS_WITHOUT_PAUSE: usize = 4;

/// The pause after a turn of many flooding terminals. With about 12 KB for each turn, all terminals together read about
/// 12 MB/s and occupy a quarter of two cores.
const TURN_PAUSE: Duration = Duration::from_millis(1);

/// The queue of all terminals of a process. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct OutputScheduler {
    turns: Arc<Semaphore>,
    flooding: Arc<AtomicUsize>,
}

impl Default for OutputScheduler {
    fn default() -> Self {
        Self { turns: Arc::new(Semaphore::new(MAX_CONCURRENT_TURNS)), flooding: Arc::default() }
    }
}

/// Registration of one terminal in the queue.
#[derive(Debug)]
pub(super) struct FloodSlot {
    scheduler: OutputScheduler,
    flooding: bool,
}

/// A turn. It ends with the drop of this value.
#[derive(Debug)]
pub(super) struct Turn {
    permit: Option<OwnedSemaphorePermit>,
    has_pause: bool,
}

impl FloodSlot {
    pub(super) fn new(scheduler: OutputScheduler) -> Self {
        Self { scheduler, flooding: false }
    }

    /// Sets the flooding state: true if the last turn ended before the output did.
    pub(super) fn set_flooding(&mut self, is_flooding: bool) {
        if is_flooding != self.flooding {
            self.flooding = is_flooding;
            if is_flooding {
                self.scheduler.flooding.fetch_add(1, Ordering::Relaxed);
            } else {
                self.scheduler.flooding.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    pub(super) fn is_flooding(&self) -> bool {
        self.flooding
    }

    /// Waits for the next turn. A terminal that stops waiting goes to the end of the queue.
    pub(super) fn wait_for_turn(&self) -> impl Future<Output = Turn> + use<> {
        let scheduler = self.scheduler.clone();
        async move {
            // No code closes the semaphore.
            let permit = scheduler.turns.acquire_owned().await.ok();
            Turn { permit, has_pause: scheduler.flooding.load(Ordering::Relaxed) > MAX_FLOODS_WITHOUT_PAUSE }
        }
    }
}

impl Drop for FloodSlot {
    fn drop(&mut self) {
        self.set_flooding(false);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let (Some(permit), true) = (self.permit.take(), self.has_pause) {
            tokio::spawn(async move {
                tokio::time::sleep(TURN_PAUSE).await;
                drop(permit);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_many_readers_pause_between_turns() {
        let scheduler = OutputScheduler::default();
        let mut places: Vec<_> = (0..=MAX_FLOODS_WITHOUT_PAUSE).map(|_| FloodSlot::new(scheduler.clone())).collect();
        let began = tokio::time::Instant::now();
        for place in &mut places[..MAX_FLOODS_WITHOUT_PAUSE] {
            place.set_flooding(true);
        }
        for place in places.iter().cycle().take(1000) {
            drop(place.wait_for_turn().await);
        }
        assert_eq!(began.elapsed(), Duration::ZERO);
        places[MAX_FLOODS_WITHOUT_PAUSE].set_flooding(true);
        for place in places.iter().cycle().take(1000) {
            drop(place.wait_for_turn().await);
        }
        // Two at once, so two turns per pause.
        let crowded = began.elapsed();
        assert!((TURN_PAUSE * 498..=TURN_PAUSE * 502).contains(&crowded), "{crowded:?}");
        places.truncate(MAX_FLOODS_WITHOUT_PAUSE);
        let began = tokio::time::Instant::now();
        tokio::time::sleep(TURN_PAUSE * 2).await;
        for place in places.iter().cycle().take(1000) {
            drop(place.wait_for_turn().await);
        }
        assert_eq!(began.elapsed(), TURN_PAUSE * 2, "a dropped slot does not count");
    }
}
