//! The journal entries of a run of a remote workflow.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use steplatch_ids::RunId;
use steplatch_store::Record;
use steplatch_workflow::Timestamp;

use crate::event::Unreadable;
use crate::seal::{Seal, SealedEntry};
use crate::time_span::TimeSpan;

/// One entry. No entry of another kind of run has the same tag. A later version may add fields with a default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "remote", rename_all = "snake_case")]
pub(crate) enum Entry {
    /// The run started. Always the first entry.
    Began(Box<RemoteStart>),
    /// The service has its maximum of concurrent runs; this run waits in the queue.
    Queued {
        /// Time of the entry.
        at: Timestamp,
    },
    /// The driver is about to send the start to the service.
    Starting {
        /// Time of the entry.
        at: Timestamp,
    },
    /// The service certainly did not start the run, and the driver may repeat the request.
    NotStarted {
        /// Time of the entry.
        at: Timestamp,
        /// Reason for the refusal.
        error: String,
        /// Time of the next attempt.
        #[serde(rename = "again")]
        retry_at: Timestamp,
    },
    /// The service started the run.
    Started {
        /// Time of the entry.
        at: Timestamp,
        /// The service's id of the request.
        correlation_id: String,
        /// The service's id of the run.
        instance: String,
    },
    /// The service reported a new status.
    #[serde(rename = "told")]
    StatusChanged {
        /// Time of the entry.
        at: Timestamp,
        /// Status of the run, in the service's own word.
        status: String,
        /// The service's gate that the run waits for, if the service reports one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        gate: Option<Value>,
    },
    /// The run was paused: it requests nothing new from the service.
    Paused {
        /// Time of the entry.
        at: Timestamp,
        /// Client that paused it.
        by: String,
        /// True if the pause came from the parent.
        #[serde(rename = "above", default, skip_serializing_if = "std::ops::Not::not")]
        by_parent: bool,
    },
    /// The run was resumed.
    Resumed {
        /// Time of the entry.
        at: Timestamp,
        /// Client that resumed it.
        by: String,
    },
    /// The driver is about to send the cancel to the service.
    Cancelling {
        /// Time of the entry.
        at: Timestamp,
        /// Reason for the cancel.
        reason: String,
        /// True if the run exceeded its time limit; otherwise a client cancelled it.
        #[serde(rename = "late", default, skip_serializing_if = "std::ops::Not::not")]
        timed_out: bool,
    },
    /// The service completed the run. Like `Failed` and `Cancelled`, always the last entry.
    Completed {
        /// Time of the entry.
        at: Timestamp,
        /// The reported result.
        result: Value,
    },
    /// The run failed, at the service or before.
    Failed {
        /// Time of the entry.
        at: Timestamp,
        /// Reason for the failure.
        error: String,
        /// The reported result.
        result: Value,
    },
    /// The run was cancelled.
    Cancelled {
        /// Time of the entry.
        at: Timestamp,
        /// Reason for the cancel, and the state of the run at the service.
        reason: String,
        /// The reported result.
        result: Value,
    },
}

/// Start of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RemoteStart {
    /// Time of the entry.
    pub(crate) at: Timestamp,
    /// The run's id.
    pub(crate) run: RunId,
    /// Name of the tool, and of the run in lists.
    pub(crate) tool: String,
    /// The service.
    pub(crate) service: String,
    /// Id of the workflow at the service.
    pub(crate) workflow_id: String,
    /// Input of the workflow.
    pub(crate) input: Map<String, Value>,
    /// Time limit set by the caller; the service's own limit also applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) timeout: Option<TimeSpan>,
}

impl SealedEntry for Entry {
    fn sealed_text(&self, seal: &Seal) -> String {
        let mut entry = self.clone();
        entry.close(seal);
        serde_json::to_string(&entry).expect("an entry contains only JSON")
    }
}

impl Entry {
    fn close(&mut self, seal: &Seal) {
        match self {
            Self::Began(began) => seal.close_all(&mut began.input),
            Self::NotStarted { error, .. } => seal.close_text(error),
            Self::StatusChanged { status, gate, .. } => {
                seal.close_text(status);
                gate.iter_mut().for_each(|gate| seal.close_in(gate));
            }
            Self::Cancelling { reason, .. } => seal.close_text(reason),
            Self::Completed { result, .. } => seal.close_in(result),
            Self::Failed { error: text, result, .. } | Self::Cancelled { reason: text, result, .. } => {
                seal.close_text(text);
                seal.close_in(result);
            }
            // Do not seal the service's id of the run, because a daemon needs it even after the run has finished.
            Self::Started { .. }
            | Self::Queued { .. }
            | Self::Starting { .. }
            | Self::Paused { .. }
            | Self::Resumed { .. } => {}
        }
    }
}

impl Entry {
    /// Reads an entry. A mark unknown to the seal remains hidden. Refuses an entry of another kind of run, or of a
    /// newer version.
    pub(super) fn read(record: &Record, seal: &Seal) -> Result<Self, Unreadable> {
        let text = seal.open(record.text.clone());
        serde_json::from_str(&text).map_err(|cause| Unreadable::Unknown { seq: record.seq, cause })
    }

    /// Returns the time of the entry.
    pub(super) fn time(&self) -> Timestamp {
        match self {
            Self::Began(began) => began.at,
            Self::Queued { at }
            | Self::Starting { at }
            | Self::NotStarted { at, .. }
            | Self::Started { at, .. }
            | Self::StatusChanged { at, .. }
            | Self::Paused { at, .. }
            | Self::Resumed { at, .. }
            | Self::Cancelling { at, .. }
            | Self::Completed { at, .. }
            | Self::Failed { at, .. }
            | Self::Cancelled { at, .. } => *at,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steplatch_workflow::Event;

    use super::*;

    #[test]
    fn remote_entries_match_the_golden_file() {
        let golden = include_str!("../../golden/remote_entries.jsonl");
        steplatch_golden::check_enum::<Entry>(golden, steplatch_golden::Tag::Field("remote"));
    }

    #[test]
    fn entry_is_read_back_and_never_confused_with_another_kind() {
        let at = Timestamp(7);
        let start = RemoteStart {
            at,
            run: RunId::random(),
            tool: "workflow_deploy".to_owned(),
            service: "team".to_owned(),
            workflow_id: "7".to_owned(),
            input: Map::from_iter([("to".to_owned(), json!("prod"))]),
            timeout: None,
        };
        let entries = [
            Entry::Began(Box::new(start)),
            Entry::Starting { at },
            Entry::Started { at, correlation_id: "c".to_owned(), instance: "i".to_owned() },
            Entry::StatusChanged { at, status: "RUNNING".to_owned(), gate: Some(json!({"prompt": "ship?"})) },
            Entry::Cancelling { at, reason: "so".to_owned(), timed_out: true },
            Entry::Failed { at, error: "so".to_owned(), result: json!({}) },
        ];
        for entry in entries {
            let text = serde_json::to_string(&entry).unwrap();
            assert!(serde_json::from_str::<Event>(&text).is_err(), "{text}");
            assert_eq!(Entry::read(&Record { seq: 1, version: 1, text }, &Seal::default()).unwrap(), entry);
        }
    }

    #[test]
    fn every_entry_hides_its_secrets_and_opens_with_the_key() {
        let secret = "s3cret \"quoted\"";
        let mut seal = Seal::default();
        seal.learn(secret);
        let (at, text) = (Timestamp(7), || format!("it is {secret}"));
        let value = || json!({"output": [text()]});
        let start = RemoteStart {
            at,
            run: RunId::random(),
            tool: "workflow_deploy".to_owned(),
            service: "team".to_owned(),
            workflow_id: "7".to_owned(),
            input: Map::from_iter([("to".to_owned(), value())]),
            timeout: None,
        };
        for entry in [
            Entry::Began(Box::new(start)),
            Entry::NotStarted { at, error: text(), retry_at: at },
            Entry::StatusChanged { at, status: "RUNNING".to_owned(), gate: Some(value()) },
            Entry::Cancelling { at, reason: text(), timed_out: false },
            Entry::Completed { at, result: value() },
            Entry::Failed { at, error: text(), result: value() },
            Entry::Cancelled { at, reason: text(), result: value() },
        ] {
            let mut sealed = entry.clone();
            sealed.close(&seal);
            let record = Record { seq: 1, version: 2, text: serde_json::to_string(&sealed).unwrap() };
            assert_eq!(Entry::read(&record, &seal).unwrap(), entry, "{}", record.text);
            let masked = serde_json::to_string(&Entry::read(&record, &Seal::default()).unwrap()).unwrap();
            assert!(!masked.contains("s3cret") && masked.contains("it is ••••••"), "{masked}");
        }
    }
}
