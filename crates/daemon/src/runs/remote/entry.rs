//! What the journal keeps of the run of a remote workflow.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use steplatch_ids::RunId;
use steplatch_store::Record;
use steplatch_workflow::Timestamp;

use crate::runs::event::Unreadable;

/// One entry. Its tag is none that entries of other kinds of runs have. Fields may be added with a default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "remote", rename_all = "snake_case")]
pub(super) enum Entry {
    /// The run began. Always the first entry.
    Began(Box<Began>),
    /// As many as the service may have are under way; this one stands in line.
    Queued {
        /// When.
        at: Timestamp,
    },
    /// The service is about to be asked to start it.
    Starting {
        /// When.
        at: Timestamp,
    },
    /// The service certainly did not start it, and may be asked again.
    NotStarted {
        /// When.
        at: Timestamp,
        /// Why.
        error: String,
        /// When it is asked again.
        again: Timestamp,
    },
    /// The service started it.
    Started {
        /// When.
        at: Timestamp,
        /// What the service calls the request.
        correlation_id: String,
        /// What the service calls the run.
        instance: String,
    },
    /// The service says something that it did not say before.
    Told {
        /// When.
        at: Timestamp,
        /// Its status, in its word.
        status: String,
        /// What it waits for there, if it says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        gate: Option<Value>,
    },
    /// Nothing new is to be asked of the service.
    Paused {
        /// When.
        at: Timestamp,
        /// Who wants that.
        by: String,
        /// Whether it is paused because the run above it is.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        above: bool,
    },
    /// It may go on.
    Resumed {
        /// When.
        at: Timestamp,
        /// Who says so.
        by: String,
    },
    /// The service is about to be asked to cancel it.
    Cancelling {
        /// When.
        at: Timestamp,
        /// Why.
        reason: String,
        /// Whether it took longer than it may; else somebody wants its end.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        late: bool,
    },
    /// The service completed it. The last entry, as the next two.
    Completed {
        /// When.
        at: Timestamp,
        /// What is told of it.
        result: Value,
    },
    /// It failed, there or on the way.
    Failed {
        /// When.
        at: Timestamp,
        /// Why.
        error: String,
        /// What is told of it.
        result: Value,
    },
    /// It was cancelled.
    Cancelled {
        /// When.
        at: Timestamp,
        /// Why, and what became of it there.
        reason: String,
        /// What is told of it.
        result: Value,
    },
}

/// The beginning of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::runs) struct Began {
    /// When.
    pub(in crate::runs) at: Timestamp,
    /// The run's id.
    pub(in crate::runs) run: RunId,
    /// The tool, by whose name the run is listed.
    pub(in crate::runs) tool: String,
    /// The service.
    pub(in crate::runs) remote: String,
    /// Id of the workflow there.
    pub(in crate::runs) workflow_id: String,
    /// What it is given.
    pub(in crate::runs) input: Map<String, Value>,
    /// Seconds that whoever started it gives it, if they do; the service's limit holds besides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::runs) timeout: Option<f64>,
}

impl Entry {
    /// Reads an entry. One of another kind of run, or of a newer version, is refused.
    pub(super) fn read(record: &Record) -> Result<Self, Unreadable> {
        serde_json::from_str(&record.text).map_err(|cause| Unreadable::Unknown { seq: record.seq, cause })
    }

    /// When it was written.
    pub(super) fn at(&self) -> Timestamp {
        match self {
            Self::Began(began) => began.at,
            Self::Queued { at }
            | Self::Starting { at }
            | Self::NotStarted { at, .. }
            | Self::Started { at, .. }
            | Self::Told { at, .. }
            | Self::Paused { at, .. }
            | Self::Resumed { at, .. }
            | Self::Cancelling { at, .. }
            | Self::Completed { at, .. }
            | Self::Failed { at, .. }
            | Self::Cancelled { at, .. } => *at,
        }
    }

    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).expect("an entry has only JSON in it")
    }
}
