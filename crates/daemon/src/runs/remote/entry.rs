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
    pub(in crate::runs) service: String,
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

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steplatch_workflow::Event;

    use super::*;

    #[test]
    fn an_entry_is_read_as_it_was_written_and_never_taken_for_one_of_another_kind() {
        let at = Timestamp(7);
        let began = Began {
            at,
            run: RunId::random(),
            tool: "workflow_deploy".to_owned(),
            service: "team".to_owned(),
            workflow_id: "7".to_owned(),
            input: Map::from_iter([("to".to_owned(), json!("prod"))]),
            timeout: None,
        };
        let entries = [
            Entry::Began(Box::new(began)),
            Entry::Starting { at },
            Entry::Started { at, correlation_id: "c".to_owned(), instance: "i".to_owned() },
            Entry::Told { at, status: "RUNNING".to_owned(), gate: Some(json!({"prompt": "ship?"})) },
            Entry::Cancelling { at, reason: "so".to_owned(), late: true },
            Entry::Failed { at, error: "so".to_owned(), result: json!({}) },
        ];
        for entry in entries {
            let text = entry.text();
            assert!(serde_json::from_str::<Event>(&text).is_err(), "{text}");
            assert_eq!(Entry::read(&Record { seq: 1, version: 1, text }).unwrap(), entry);
        }
    }
}
