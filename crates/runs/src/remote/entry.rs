//! What the journal keeps of the run of a remote workflow.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use steplatch_ids::RunId;
use steplatch_store::Record;
use steplatch_workflow::Timestamp;

use crate::event::Unreadable;
use crate::seal::{Seal, SealedEntry};

/// One entry. Its tag is none that entries of other kinds of runs have. Fields may be added with a default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "remote", rename_all = "snake_case")]
pub(crate) enum Entry {
    /// The run began. Always the first entry.
    Began(Box<RemoteStart>),
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
pub(crate) struct RemoteStart {
    /// When.
    pub(crate) at: Timestamp,
    /// The run's id.
    pub(crate) run: RunId,
    /// The tool, by whose name the run is listed.
    pub(crate) tool: String,
    /// The service.
    pub(crate) service: String,
    /// Id of the workflow there.
    pub(crate) workflow_id: String,
    /// What it is given.
    pub(crate) input: Map<String, Value>,
    /// Seconds that whoever started it gives it, if they do; the service's limit holds besides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) timeout: Option<f64>,
}

impl SealedEntry for Entry {
    fn sealed_text(&self, seal: &Seal) -> String {
        let mut entry = self.clone();
        entry.close(seal);
        serde_json::to_string(&entry).expect("an entry has only JSON in it")
    }
}

impl Entry {
    fn close(&mut self, seal: &Seal) {
        match self {
            Self::Began(began) => seal.close_all(&mut began.input),
            Self::NotStarted { error, .. } => seal.close_text(error),
            Self::Told { status, gate, .. } => {
                seal.close_text(status);
                gate.iter_mut().for_each(|gate| seal.close_in(gate));
            }
            Self::Cancelling { reason, .. } => seal.close_text(reason),
            Self::Completed { result, .. } => seal.close_in(result),
            Self::Failed { error: text, result, .. } | Self::Cancelled { reason: text, result, .. } => {
                seal.close_text(text);
                seal.close_in(result);
            }
            // What a service calls its run is needed by who looks for it there, also when the run is over.
            Self::Started { .. }
            | Self::Queued { .. }
            | Self::Starting { .. }
            | Self::Paused { .. }
            | Self::Resumed { .. } => {}
        }
    }
}

impl Entry {
    /// Reads an entry. What a seal does not know stays hidden. One of another kind of run, or of a newer version, is
    /// refused.
    pub(super) fn read(record: &Record, seal: &Seal) -> Result<Self, Unreadable> {
        let text = seal.open(record.text.clone());
        serde_json::from_str(&text).map_err(|cause| Unreadable::Unknown { seq: record.seq, cause })
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
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steplatch_workflow::Event;

    use super::*;

    #[test]
    fn entries_of_remotes_are_stored_as_in_the_golden_file() {
        let golden = include_str!("../../golden/remote_entries.jsonl");
        steplatch_golden::check_enum::<Entry>(golden, steplatch_golden::Tag::Field("remote"));
    }

    #[test]
    fn an_entry_is_read_as_it_was_written_and_never_taken_for_one_of_another_kind() {
        let at = Timestamp(7);
        let began = RemoteStart {
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
            let text = serde_json::to_string(&entry).unwrap();
            assert!(serde_json::from_str::<Event>(&text).is_err(), "{text}");
            assert_eq!(Entry::read(&Record { seq: 1, version: 1, text }, &Seal::default()).unwrap(), entry);
        }
    }

    #[test]
    fn every_entry_hides_its_secrets_and_gives_them_back_to_who_has_the_key() {
        let secret = "s3cret \"quoted\"";
        let mut seal = Seal::default();
        seal.learn(secret);
        let (at, text) = (Timestamp(7), || format!("it is {secret}"));
        let value = || json!({"output": [text()]});
        let began = RemoteStart {
            at,
            run: RunId::random(),
            tool: "workflow_deploy".to_owned(),
            service: "team".to_owned(),
            workflow_id: "7".to_owned(),
            input: Map::from_iter([("to".to_owned(), value())]),
            timeout: None,
        };
        for entry in [
            Entry::Began(Box::new(began)),
            Entry::NotStarted { at, error: text(), again: at },
            Entry::Told { at, status: "RUNNING".to_owned(), gate: Some(value()) },
            Entry::Cancelling { at, reason: text(), late: false },
            Entry::Completed { at, result: value() },
            Entry::Failed { at, error: text(), result: value() },
            Entry::Cancelled { at, reason: text(), result: value() },
        ] {
            let mut closed = entry.clone();
            closed.close(&seal);
            let record = Record { seq: 1, version: 2, text: serde_json::to_string(&closed).unwrap() };
            assert_eq!(Entry::read(&record, &seal).unwrap(), entry, "{}", record.text);
            let shown = serde_json::to_string(&Entry::read(&record, &Seal::default()).unwrap()).unwrap();
            assert!(!shown.contains("s3cret") && shown.contains("it is ••••••"), "{shown}");
        }
    }
}
