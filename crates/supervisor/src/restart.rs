//! The decision about a service that has ended.

use std::time::Duration;

use crate::declaration::RestartPolicy;

/// Delay of the first restart, which doubles for each further one up to the maximum.
const RESTART_PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Time after which a service that ended is considered to have worked, so that its restarts are counted anew.
const STABLE_TIME: Duration = Duration::from_secs(60);

/// The restarts of a service in a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RestartHistory {
    /// Number of restarts since the service last worked for a while.
    pub count: u32,
}

/// The decision about a service that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartDecision {
    /// It stays ended, as its policy says.
    Stay,
    /// It has failed too often.
    GiveUp,
    /// It is started again after a pause.
    Restart {
        /// The pause.
        after: Duration,
        /// The history with this restart.
        history: RestartHistory,
    },
}

/// Decides about a service that has ended with `exit_code`, if that is known, `uptime` after its start.
#[must_use]
pub fn decide_restart(
    policy: RestartPolicy,
    max_restarts: u32,
    exit_code: Option<i32>,
    uptime: Duration,
    history: RestartHistory,
) -> RestartDecision {
    let is_restarted = match policy {
        RestartPolicy::Never => false,
        RestartPolicy::OnFailure => exit_code != Some(0),
        RestartPolicy::Always => true,
    };
    if !is_restarted {
        return RestartDecision::Stay;
    }
    let count = if uptime >= STABLE_TIME { 0 } else { history.count };
    if count >= max_restarts {
        return RestartDecision::GiveUp;
    }
    let (first, longest) = RESTART_PAUSES;
    let after = first.saturating_mul(2_u32.saturating_pow(count)).min(longest);
    RestartDecision::Restart { after, history: RestartHistory { count: count + 1 } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_until_the_service_is_given_up() {
        let short = Duration::from_secs(3);
        let mut history = RestartHistory::default();
        let mut pauses = Vec::new();
        while let RestartDecision::Restart { after, history: next } =
            decide_restart(RestartPolicy::OnFailure, 8, Some(1), short, history)
        {
            pauses.push(after.as_secs());
            history = next;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(decide_restart(RestartPolicy::OnFailure, 8, Some(1), short, history), RestartDecision::GiveUp);
        // A service that worked for a while begins anew.
        let after_a_while = decide_restart(RestartPolicy::OnFailure, 8, Some(1), STABLE_TIME, history);
        assert_eq!(
            after_a_while,
            RestartDecision::Restart { after: Duration::from_secs(1), history: RestartHistory { count: 1 } }
        );
    }

    #[test]
    fn policy_decides_by_the_exit_code() {
        use RestartPolicy::{Always, Never, OnFailure};
        let restarts = |policy, exit_code| {
            let decision = decide_restart(policy, 5, exit_code, Duration::ZERO, RestartHistory::default());
            matches!(decision, RestartDecision::Restart { .. })
        };
        for (policy, clean, failed, unknown) in
            [(Never, false, false, false), (OnFailure, false, true, true), (Always, true, true, true)]
        {
            assert_eq!([Some(0), Some(1), None].map(|code| restarts(policy, code)), [clean, failed, unknown]);
        }
        assert_eq!(
            decide_restart(Always, 0, Some(1), Duration::ZERO, RestartHistory::default()),
            RestartDecision::GiveUp
        );
    }
}
