//! Delays before the next requests to a service.
//!
//! Uses no clock and no randomness: the caller passes the jitter, a number from 0 to 1. The jitter shortens a delay by
//! up to a tenth, so that many waiting callers do not send at the same time.

use std::time::Duration;

/// Delay before the first status request for a run, and minimum delay between two requests.
pub const MIN_PAUSE: Duration = Duration::from_secs(1);
/// Maximum delay while a service is busy or down.
pub const MAX_PAUSE: Duration = Duration::from_secs(300);
/// Growth factor of the delay while nothing changes.
const GROWTH_FACTOR: f64 = 1.5;

/// Delays of status requests for one run.
#[derive(Debug, Clone, PartialEq)]
pub struct PollBackoff {
    max_delay: Duration,
    next_delay: Duration,
}

/// The result of a status request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PollResult {
    /// The run changed.
    Changed,
    /// The run did not change.
    Same,
    /// The service was unreachable, or refused the request.
    Failed {
        /// Time until the service accepts requests again.
        retry_after: Option<Duration>,
    },
}

impl PollBackoff {
    /// Begins with the minimum delay. `max_delay` is the maximum while the service answers.
    #[must_use]
    pub fn new(max_delay: Duration) -> Self {
        Self { max_delay: max_delay.max(MIN_PAUSE), next_delay: MIN_PAUSE }
    }

    /// Returns the delay before the first status request.
    #[must_use]
    pub fn first_delay(&self) -> Duration {
        MIN_PAUSE
    }

    /// Returns the delay before the next status request, at least a second. The delay grows up to the maximum while
    /// nothing changes, and up to five minutes while the service fails. It returns to the minimum once the run changes.
    #[must_use]
    pub fn next_delay(&mut self, poll: PollResult, jitter: f64) -> Duration {
        let retry_after = match poll {
            PollResult::Changed => {
                self.next_delay = MIN_PAUSE;
                None
            }
            PollResult::Same => {
                // The delay that the service requested after a failure no longer applies.
                self.next_delay = self.next_delay.mul_f64(GROWTH_FACTOR).min(self.max_delay);
                None
            }
            PollResult::Failed { retry_after } => {
                self.next_delay = (self.next_delay * 2).min(MAX_PAUSE.max(self.max_delay));
                retry_after
            }
        };
        add_jitter(self.next_delay, retry_after, jitter)
    }
}

/// Returns the delay after a failed list request: a second, doubled for each further failure, up to five minutes or the
/// discovery interval, whichever is shorter. `failures` is the number of consecutive failures.
#[must_use]
pub fn discovery_delay(
    failures: u32,
    interval: Option<Duration>,
    retry_after: Option<Duration>,
    jitter: f64,
) -> Duration {
    let max_pause = interval.unwrap_or(MAX_PAUSE).clamp(MIN_PAUSE, MAX_PAUSE);
    let doubled = MIN_PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(16));
    add_jitter(doubled.min(max_pause), retry_after, jitter)
}

/// Returns a delay with jitter, and at least the service's `retry_after` (limited to [`MAX_PAUSE`]).
fn add_jitter(delay: Duration, retry_after: Option<Duration>, jitter: f64) -> Duration {
    let jitter = if jitter.is_finite() { jitter.clamp(0.0, 1.0) } else { 0.0 };
    let delay = delay.mul_f64(1.0 - jitter / 10.0);
    delay.max(retry_after.unwrap_or_default().min(MAX_PAUSE)).max(MIN_PAUSE)
}

/// Returns the delay before retrying a temporarily failed request while a caller waits for the answer: `attempt` is 1
/// before the first retry. `None` if the service requests a longer delay than the caller should wait.
#[must_use]
pub(crate) fn retry_delay(
    attempt: u32,
    first_delay: Duration,
    retry_after: Option<Duration>,
    jitter: f64,
) -> Option<Duration> {
    const MAX_RETRY_PAUSE: Duration = Duration::from_secs(10);
    let retry_after = retry_after.unwrap_or_default();
    if retry_after > MAX_RETRY_PAUSE {
        return None;
    }
    let doubled = first_delay.saturating_mul(1 << attempt.saturating_sub(1).min(16)).min(MAX_RETRY_PAUSE);
    Some(doubled.mul_f64(1.0 - jitter.clamp(0.0, 1.0) / 2.0).max(retry_after))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn polling_slows_while_unchanged_and_resumes_on_change() {
        let mut backoff = PollBackoff::new(ms(5_000));
        assert_eq!(backoff.first_delay(), ms(1_000));
        let same: Vec<u128> = (0..6).map(|_| backoff.next_delay(PollResult::Same, 0.0).as_millis()).collect();
        assert_eq!(same, [1_500, 2_250, 3_375, 5_000, 5_000, 5_000]);
        assert_eq!(backoff.next_delay(PollResult::Changed, 0.0), ms(1_000));
        assert_eq!(backoff.next_delay(PollResult::Same, 1.0), ms(1_350));
    }

    #[test]
    fn failing_service_is_polled_less_often() {
        let mut backoff = PollBackoff::new(ms(5_000));
        let failed = PollResult::Failed { retry_after: None };
        let delays: Vec<u64> = (0..10).map(|_| backoff.next_delay(failed, 0.0).as_secs()).collect();
        assert_eq!(delays, [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(backoff.next_delay(PollResult::Same, 0.0), ms(5_000), "the service answers again");
    }

    #[test]
    fn requested_delay_of_a_service_is_bounded() {
        let after = |seconds| PollResult::Failed { retry_after: Some(Duration::from_secs(seconds)) };
        assert_eq!(PollBackoff::new(ms(5_000)).next_delay(after(60), 1.0), ms(60_000));
        assert_eq!(PollBackoff::new(ms(5_000)).next_delay(after(0), 0.0), ms(2_000));
        assert_eq!(PollBackoff::new(ms(5_000)).next_delay(after(86_400), 0.0), ms(300_000));
        assert_eq!(PollBackoff::new(ms(1_000)).next_delay(PollResult::Same, 1.0), ms(1_000));
    }

    #[test]
    fn list_retries_slow_down_up_to_the_interval() {
        let seconds = |failures, interval| discovery_delay(failures, interval, None, 0.0).as_secs();
        let delays: Vec<u64> = (1..=10).map(|failures| seconds(failures, None)).collect();
        assert_eq!(delays, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]);
        assert_eq!(seconds(9, Some(ms(60_000))), 60);
        assert_eq!(seconds(u32::MAX, Some(ms(1))), 1);
        assert_eq!(discovery_delay(1, None, Some(ms(30_000)), 0.0), ms(30_000));
    }

    proptest! {
        #[test]
        fn poll_delays_stay_within_their_bounds(
            max_delay in 0u64..400_000,
            polls in prop::collection::vec((0u8..3, 0u64..1_000_000_000, -1.0f64..2.0), 0..60),
        ) {
            let mut backoff = PollBackoff::new(ms(max_delay));
            for (kind, retry_after, jitter) in polls {
                let poll = match kind {
                    0 => PollResult::Changed,
                    1 => PollResult::Same,
                    _ => PollResult::Failed { retry_after: (retry_after % 2 == 0).then(|| ms(retry_after)) },
                };
                let delay = backoff.next_delay(poll, jitter);
                prop_assert!(delay >= MIN_PAUSE && delay <= MAX_PAUSE.max(ms(max_delay)));
                if !matches!(poll, PollResult::Failed { .. }) {
                    prop_assert!(delay <= ms(max_delay).max(MIN_PAUSE));
                }
            }
        }
    }
}
