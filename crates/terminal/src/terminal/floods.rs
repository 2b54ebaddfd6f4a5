//! Turns of terminals that print without end.
//!
//! A terminal that always has more to read is always ready to run, and so is the program that fills
//! it. A hundred of them would delay the one whose output a caller waits for: in our own queue, and
//! in the kernel's for every process between that output and the caller. So they queue among
//! themselves here, and when they are a crowd, a pause follows each turn: programs that print
//! faster than that wait for us, and no other terminal waits. No output is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of flooding terminals that run at the same time.
const AT_ONCE: usize = 2;

/// Number of flooding terminals above which a pause follows each turn.
const CROWD: usize = 4;

/// The pause after a turn in a crowd. With turns of some twelve kilobytes that is a dozen megabytes a second in all,
/// which takes a quarter of two cores.
const TURN_PAUSE: Duration = Duration::from_millis(1);

/// The queue of all terminals of a process. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct OutputScheduler {
    turns: Arc<Semaphore>,
    flooding: Arc<AtomicUsize>,
}

impl Default for OutputScheduler {
    fn default() -> Self {
        Self { turns: Arc::new(Semaphore::new(AT_ONCE)), flooding: Arc::default() }
    }
}

/// One terminal's place in the queue.
#[derive(Debug)]
pub(super) struct FloodSlot {
    floods: OutputScheduler,
    flooding: bool,
}

/// A turn, which ends with the drop of this value.
#[derive(Debug)]
pub(super) struct Turn {
    permit: Option<OwnedSemaphorePermit>,
    paused: bool,
}

impl FloodSlot {
    pub(super) fn new(floods: OutputScheduler) -> Self {
        Self { floods, flooding: false }
    }

    /// Records whether the last turn ended before the output did.
    pub(super) fn set_flooding(&mut self, flooding: bool) {
        if flooding != self.flooding {
            self.flooding = flooding;
            if flooding {
                self.floods.flooding.fetch_add(1, Ordering::Relaxed);
            } else {
                self.floods.flooding.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    pub(super) fn is_flooding(&self) -> bool {
        self.flooding
    }

    /// Waits for the next turn. A terminal that stops waiting goes to the end of the queue.
    pub(super) fn turn(&self) -> impl Future<Output = Turn> + use<> {
        let floods = self.floods.clone();
        async move {
            // Nothing closes the semaphore.
            let permit = floods.turns.acquire_owned().await.ok();
            Turn { permit, paused: floods.flooding.load(Ordering::Relaxed) > CROWD }
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
        if let (Some(permit), true) = (self.permit.take(), self.paused) {
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
    async fn a_few_take_turns_without_a_pause_and_a_crowd_with_one() {
        let floods = OutputScheduler::default();
        let mut places: Vec<_> = (0..=CROWD).map(|_| FloodSlot::new(floods.clone())).collect();
        let began = tokio::time::Instant::now();
        for place in &mut places[..CROWD] {
            place.set_flooding(true);
        }
        for place in places.iter().cycle().take(1000) {
            drop(place.turn().await);
        }
        assert_eq!(began.elapsed(), Duration::ZERO);
        places[CROWD].set_flooding(true);
        for place in places.iter().cycle().take(1000) {
            drop(place.turn().await);
        }
        // Two at once, so two for each pause.
        let crowded = began.elapsed();
        assert!((TURN_PAUSE * 498..=TURN_PAUSE * 502).contains(&crowded), "{crowded:?}");
        places.truncate(CROWD);
        let began = tokio::time::Instant::now();
        tokio::time::sleep(TURN_PAUSE * 2).await;
        for place in places.iter().cycle().take(1000) {
            drop(place.turn().await);
        }
        assert_eq!(began.elapsed(), TURN_PAUSE * 2, "one that is gone is no part of a crowd");
    }
}
