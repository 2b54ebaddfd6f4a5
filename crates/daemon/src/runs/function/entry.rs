//! What the journal keeps of the run of a function.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use steplatch_ids::RunId;
use steplatch_nodes::NodeId;
use steplatch_nodes::graph::GraphEvent;
use steplatch_protocol::RunEvent;
use steplatch_python::{Answer, Call, Limits};
use steplatch_store::Record;
use steplatch_workflow::{By, Timestamp};

use crate::runs::event::Unreadable;

/// One entry. Its tag is none that an entry of a machine has, so that neither is taken for the other. Fields may be
/// added with a default.
///
/// Calls are numbered within the run, from 1. Whoever makes calls is a frame, and is called by the number of the call
/// that it is the answer to; 0 is what the run itself is: a function, or whoever wants one node called.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "function", rename_all = "snake_case")]
pub(in crate::runs) enum Entry {
    /// The run began. Always the first entry.
    Started(Box<Started>),
    /// A function asked for something, or told something.
    Called {
        /// When.
        at: Timestamp,
        /// The number of the call.
        number: u64,
        /// Whose call it is.
        #[serde(default, skip_serializing_if = "is_root")]
        frame: u64,
        /// What, with its number among the calls of its function.
        call: Call,
    },
    /// It was answered.
    Answered {
        /// When.
        at: Timestamp,
        /// Which call.
        number: u64,
        /// With what.
        answer: Answer,
        /// Who answered, if somebody was asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<By>,
        /// What was asked, in a few words.
        asked: Asked,
        /// The seconds that it might take, where it took longer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout: Option<f64>,
    },
    /// Nobody waits for this call any more.
    Abandoned {
        /// When.
        at: Timestamp,
        /// Which call.
        number: u64,
        /// What was asked, in a few words.
        asked: Asked,
    },
    /// Something happened to a graph.
    Graph {
        /// When.
        at: Timestamp,
        /// Which graph.
        frame: u64,
        /// The call that a step makes, or the one that came to something.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        number: Option<u64>,
        /// What.
        event: GraphEvent,
        /// The node whose call came to something.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<NodeId>,
        /// The seconds that the call might take, where it took longer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout: Option<f64>,
    },
    /// Somebody wants nothing new to begin.
    Paused {
        /// When.
        at: Timestamp,
        /// Who.
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
    /// A function was told an answer that was written down while it was paused.
    Told {
        /// When.
        at: Timestamp,
        /// Which call was answered.
        number: u64,
    },
    /// It returned. The last entry, as the next two.
    Completed {
        /// When.
        at: Timestamp,
        /// What it returned.
        result: Value,
    },
    /// It failed.
    Failed {
        /// When.
        at: Timestamp,
        /// Why: the text of an exception, where one was raised. In entries of older daemons, the whole traceback.
        error: String,
        /// Where the exception was raised, as Python tells it, with its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        traceback: Option<String>,
    },
    /// Somebody ended it.
    Cancelled {
        /// When.
        at: Timestamp,
        /// Why.
        reason: String,
    },
}

/// The beginning of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::runs) struct Started {
    /// When.
    pub(in crate::runs) at: Timestamp,
    /// The run's id.
    pub(in crate::runs) run: RunId,
    /// Which workflow of the file; the node, where the run is a call of one.
    pub(in crate::runs) workflow: String,
    /// Whether the run is a call of a node, which then has no file.
    #[serde(default)]
    pub(in crate::runs) is_call: bool,
    /// How failures name the file.
    pub(in crate::runs) file: String,
    /// What stood in it, so that the run outlives every change to it.
    pub(in crate::runs) text: String,
    /// `ctx.input`
    pub(in crate::runs) input: Value,
    /// `ctx.params`
    pub(in crate::runs) params: Map<String, Value>,
    /// How far it may go.
    pub(in crate::runs) limits: Limits,
    /// The nodes of the file and of the project, as declarations of `nodes`.
    pub(in crate::runs) nodes: Vec<Value>,
    /// How many runs are above this one.
    #[serde(default)]
    pub(in crate::runs) depth: u32,
    /// Seconds that it may take, without those in which it waits for somebody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::runs) timeout: Option<f64>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_root(frame: &u64) -> bool {
    *frame == 0
}

/// What a call asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::runs) enum Asked {
    /// A node, by its id.
    Node(String),
    /// Somebody.
    Gate,
    /// A run of a workflow, by their names.
    Run {
        /// The workflow.
        workflow: String,
        /// The run.
        run: RunId,
    },
    /// Anything that tells nobody anything.
    Other,
}

impl Entry {
    /// Reads an entry. One that a machine wrote, or a newer version, is refused.
    pub(in crate::runs) fn read(record: &Record) -> Result<Self, Unreadable> {
        serde_json::from_str(&record.text).map_err(|cause| Unreadable::Unknown { seq: record.seq, cause })
    }

    /// When it was written.
    pub(super) fn at(&self) -> Timestamp {
        match self {
            Self::Started(started) => started.at,
            Self::Called { at, .. }
            | Self::Answered { at, .. }
            | Self::Abandoned { at, .. }
            | Self::Graph { at, .. }
            | Self::Paused { at, .. }
            | Self::Resumed { at, .. }
            | Self::Told { at, .. }
            | Self::Completed { at, .. }
            | Self::Failed { at, .. }
            | Self::Cancelled { at, .. } => *at,
        }
    }

    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).expect("an entry has only JSON in it")
    }
}

/// The name that an event which a function emits is told under: never one of ours, which mean something to who follows.
pub(super) fn told_as(event_type: &str) -> String {
    if RunEvent::is_own(event_type) { format!("custom_{event_type}") } else { event_type.to_owned() }
}

#[cfg(test)]
mod tests {
    use steplatch_workflow::Event;

    use super::*;

    #[test]
    fn an_entry_of_a_machine_and_one_of_a_function_are_never_taken_for_each_other() {
        let cancelled = Entry::Cancelled { at: Timestamp(1), reason: "so".to_owned() };
        let record = |text: String| Record { seq: 7, version: 1, text };
        assert_eq!(Entry::read(&record(cancelled.text())).unwrap(), cancelled);
        assert!(serde_json::from_str::<Event>(&cancelled.text()).is_err());
        let machine = Event::Cancelled { at: Timestamp(1), reason: "so".to_owned() };
        let refused = Entry::read(&record(serde_json::to_string(&machine).unwrap())).unwrap_err();
        assert!(refused.to_string().contains("entry 7"), "{refused}");
        let newer = cancelled.text().replace("cancelled", "transcended");
        assert!(Entry::read(&record(newer)).is_err(), "a kind of a newer version is refused");
    }

    #[test]
    fn what_a_function_emits_is_never_taken_for_what_happened_to_the_run() {
        assert_eq!(told_as("half_done"), "half_done");
        for ours in ["workflow_completed", "gate_answered", "node_error", "log", RunEvent::UNREADABLE] {
            assert_eq!(told_as(ours), format!("custom_{ours}"));
        }
    }
}
