//! Verbs about schedules, which start runs at times, when files change, and on requests.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::runs::RunWorkflow;

/// The rule for times at which no daemon ran.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MissedTimes {
    /// One run for all missed times, as of the first of them
    #[default]
    CatchUp,
    /// No run
    Skip,
    /// One run for all missed times, as of the last of them
    Latest,
}

/// The rule for a start while the last run has not ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// The start is left out
    #[default]
    Skip,
    /// The start waits for the end of that run
    Queue,
    /// That run is cancelled first
    CancelPrevious,
}

/// Add a schedule that starts runs of a workflow. Give exactly one of cron, every, paths and webhook.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct AddSchedule {
    /// Name of the schedule: letters, digits, '-' and '_'
    pub name: String,
    /// Arguments of run_workflow for each run: workflow_name or workflow_file, initial_variables and limits. The text
    /// {scheduled_at} in a variable becomes the time for which the run starts (ISO 8601, UTC)
    #[schemars(with = "Map<String, Value>")]
    pub run: Box<RunWorkflow>,
    /// Cron expression: minute, hour, day, month and weekday
    pub cron: Option<String>,
    /// Interval, such as 10m
    pub every: Option<String>,
    /// Files and directories whose changes start a run
    pub paths: Option<Vec<String>>,
    /// True for runs that requests with a token start
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub webhook: bool,
    /// Time zone of cron, such as Europe/Berlin (default: of the system)
    pub timezone: Option<String>,
    /// Rule for times at which no daemon ran
    #[serde(default)]
    pub missed: MissedTimes,
    /// Rule for a start while the last run has not ended (default: queue for paths, else skip)
    pub overlap: Option<Overlap>,
    /// Maximum delay of a start, such as 5m, which spreads the starts of several schedules
    pub jitter: Option<String>,
    /// Replace an existing schedule with this name
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replace: bool,
}

/// Result of adding or changing a schedule.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleReply {
    /// True if the schedule was added or changed
    pub success: bool,
    /// The schedule
    pub schedule: Option<Box<ScheduleInfo>>,
    /// The next three times (ISO 8601, UTC)
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub next_times: Vec<String>,
    /// Token for requests, which is not shown again
    pub token: Option<String>,
    /// Number of waiting starts that were dropped
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped_starts: u64,
    /// Error message, with a suggested next step
    pub error: Option<String>,
}

// serde requires this signature.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// List the schedules, with their next and last runs.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListSchedules {
    /// Name of a schedule (default: all)
    pub name: Option<String>,
}

/// The schedules in the order of their names.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListSchedulesReply {
    /// True if the schedules were listed
    pub success: bool,
    /// The schedules
    #[serde(default)]
    pub schedules: Vec<ScheduleInfo>,
    /// Error message, with a suggested next step
    pub error: Option<String>,
}

/// A schedule.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleInfo {
    /// Name
    pub name: String,
    /// Workflow: its name, or the path of its file
    pub workflow: String,
    /// The trigger, such as "cron 30 2 * * *", "every 10m", "changes of src" or "webhook"
    pub trigger: String,
    /// Time zone of cron, if it is not that of the system
    pub timezone: Option<String>,
    /// Rule for times at which no daemon ran
    #[serde(default)]
    pub missed: MissedTimes,
    /// Rule for a start while the last run has not ended
    #[serde(default)]
    pub overlap: Overlap,
    /// Maximum delay of a start, in seconds
    pub jitter_seconds: Option<u64>,
    /// Directory in which the runs begin
    pub directory: String,
    /// Variables of the runs
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub initial_variables: Map<String, Value>,
    /// True if the schedule is paused
    #[serde(default)]
    pub paused: bool,
    /// Time of the next start (ISO 8601, UTC)
    pub next_start: Option<String>,
    /// The last start
    pub last: Option<LastScheduledRun>,
    /// Run that has not ended
    pub active_run_id: Option<String>,
    /// Number of starts that wait
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waiting_starts: u64,
    /// Number of starts that were left out because a run had not ended
    #[serde(default, skip_serializing_if = "is_zero")]
    pub overlapped: u64,
    /// Number of times without a run because no daemon ran
    #[serde(default, skip_serializing_if = "is_zero")]
    pub missed_times: u64,
    /// Number of starts that failed since the last one that succeeded
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed_starts: u64,
}

/// The last start of a schedule.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LastScheduledRun {
    /// Time for which the run started (ISO 8601, UTC)
    pub scheduled_at: String,
    /// Time of the start (ISO 8601, UTC)
    pub started_at: String,
    /// The run, unless it did not start
    pub run_id: Option<String>,
    /// State of the run: running, waiting, completed, failed, cancelled or deleted
    pub state: Option<String>,
    /// Number of missed times that the run stands for, besides its own
    #[serde(default, skip_serializing_if = "is_zero")]
    pub missed_times: u64,
    /// Reason for not starting a run
    pub error: Option<String>,
}

/// Pause or resume a schedule. The times of a pause are not missed.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct PauseSchedule {
    /// Name of the schedule
    pub name: String,
    /// False to resume it
    #[serde(default = "default_true")]
    pub paused: bool,
}

const fn default_true() -> bool {
    true
}

/// Remove a schedule. Its runs remain.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct RemoveSchedule {
    /// Name of the schedule
    pub name: String,
}

/// Start a run of a schedule now, also while it is paused.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct FireSchedule {
    /// Name of the schedule
    pub name: String,
    /// Token of the schedule, from a client that is not trusted otherwise
    pub token: Option<String>,
    /// Name of the request: a repeated request starts no second run
    pub key: Option<String>,
    /// Variables of the run, besides those of the schedule
    pub arguments: Option<Map<String, Value>>,
}

/// Result of starting a run of a schedule.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FireScheduleReply {
    /// True if the run has started, or starts later
    pub success: bool,
    /// started, waiting (for the end of active_run_id), repeated, left_out, refused, unauthorized or failed
    #[serde(default)]
    pub status: String,
    /// The run
    pub run_id: Option<String>,
    /// Run that has not ended
    pub active_run_id: Option<String>,
    /// Error message, with a suggested next step
    pub error: Option<String>,
}
