//! Error policies: the reaction to a failed step.

use schemars::JsonSchema;
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::node::{NodeId, Seconds};

/// Error policy of a step: its retries, and the action after the last one.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Policy {
    /// Retries, if any.
    pub retry: Option<Retry>,
    /// Action after the last retry, or after the only attempt.
    pub on_failure: OnFailure,
}

/// Retries of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Retry {
    /// Number of retries
    #[schemars(range(min = 1, max = 100))]
    pub count: u8,
    /// Seconds before the first retry (default 1)
    #[serde(default = "one_second")]
    pub delay: Seconds,
    /// Factor by which the delay grows with each retry (default 2)
    #[serde(default = "default_backoff_factor")]
    #[schemars(range(min = 1.0, max = 10.0))]
    pub backoff: f64,
    /// Time limit of each attempt, in seconds
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Seconds>,
}

fn one_second() -> Seconds {
    Seconds::ONE
}

fn default_backoff_factor() -> f64 {
    2.0
}

/// Action after the final failure of a step.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum OnFailure {
    /// The step failed: its dependents do not run, and the graph fails.
    #[default]
    Fail,
    /// The graph continues with this output.
    Skip {
        /// The replacement output.
        value: Value,
    },
    /// The graph calls another node with the same input.
    Fallback {
        /// The node.
        node: NodeId,
    },
}

impl Policy {
    /// Returns the fallback node, if there is one.
    #[must_use]
    pub fn fallback(&self) -> Option<&NodeId> {
        match &self.on_failure {
            OnFailure::Fallback { node } => Some(node),
            OnFailure::Fail | OnFailure::Skip { .. } => None,
        }
    }
}

impl Retry {
    /// Returns the delay between `attempt`, counted from 1, and the next retry; at most a day.
    #[must_use]
    pub fn delay_after(&self, attempt: u32) -> std::time::Duration {
        let factor = self.backoff.powi(i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX));
        let max_delay = Seconds::MAX.duration();
        let delay = std::time::Duration::try_from_secs_f64(self.delay.duration().as_secs_f64() * factor);
        delay.unwrap_or(max_delay).min(max_delay)
    }
}

/// Serializes a policy in the form that authors write.
impl Serialize for Policy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some(retry) = &self.retry {
            map.serialize_entry("policy", "retry")?;
            map.serialize_entry("count", &retry.count)?;
            map.serialize_entry("delay", &retry.delay)?;
            map.serialize_entry("backoff", &retry.backoff)?;
            if let Some(timeout) = &retry.timeout {
                map.serialize_entry("timeout", timeout)?;
            }
            if self.on_failure != OnFailure::Fail {
                let follow_up = Self { retry: None, on_failure: self.on_failure.clone() };
                map.serialize_entry("then", &follow_up)?;
            }
            return map.end();
        }
        match &self.on_failure {
            OnFailure::Fail => map.serialize_entry("policy", "fail")?,
            OnFailure::Skip { value } => {
                map.serialize_entry("policy", "skip")?;
                map.serialize_entry("value", value)?;
            }
            OnFailure::Fallback { node } => {
                map.serialize_entry("policy", "fallback")?;
                map.serialize_entry("node", node)?;
            }
        }
        map.end()
    }
}
