//! The journal entries of a run of a function.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use steplatch_ids::RunId;
use steplatch_nodes::graph::{Ending, GraphEvent, StepOutcome};
use steplatch_nodes::{NodeId, NodeResult};
use steplatch_protocol::RunEvent;
use steplatch_python_api::{Answer, Call, CallKind, Limits};
use steplatch_store::Record;
use steplatch_workflow::{By, Timestamp};

use crate::event::Unreadable;
use crate::seal::{Seal, SealedEntry};
use crate::time_span::TimeSpan;

/// One entry. Entries of machines have another tag, so a reader cannot confuse them. A later version may add fields
/// with a default.
///
/// Calls have numbers within the run, from 1. A caller within the run is a frame, with the number of the call that it
/// executes. Frame 0 is the run itself: a function, or the request to call one node.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "function", rename_all = "snake_case")]
pub(crate) enum Entry {
    /// The run started. Always the first entry.
    Started(Box<Started>),
    /// A function made a request or sent a notification.
    Called {
        /// Time of the entry.
        at: Timestamp,
        /// The number of the call.
        number: u64,
        /// Frame that made the call.
        #[serde(default, skip_serializing_if = "is_root")]
        frame: u64,
        /// The enclosing call of a node, where the frame executes that node itself; 0 once that node has finished.
        within: Option<u64>,
        /// The request, with its number among the calls of its function.
        call: Call,
    },
    /// The function that makes a call of a function node executes it.
    Inlined {
        /// Time of the entry.
        at: Timestamp,
        /// Number of the call.
        number: u64,
    },
    /// The call was answered.
    Answered {
        /// Time of the entry.
        at: Timestamp,
        /// Number of the call.
        number: u64,
        /// The answer.
        answer: Answer,
        /// Author of the answer, if it was a gate.
        by: Option<By>,
        /// A short description of the request.
        #[serde(rename = "asked")]
        label: CallLabel,
        /// Time limit of the call, if the call exceeded it.
        timeout: Option<TimeSpan>,
    },
    /// The call's result is no longer needed.
    Abandoned {
        /// Time of the entry.
        at: Timestamp,
        /// Number of the call.
        number: u64,
        /// A short description of the request.
        #[serde(rename = "asked")]
        label: CallLabel,
    },
    /// An event of a graph.
    Graph {
        /// Time of the entry.
        at: Timestamp,
        /// Frame of the graph.
        frame: u64,
        /// Call that a step makes, or call that has an outcome.
        number: Option<u64>,
        /// The event.
        event: GraphEvent,
        /// The node whose call has an outcome.
        node: Option<NodeId>,
        /// Time limit of the call, if the call exceeded it.
        timeout: Option<TimeSpan>,
    },
    /// The run was paused: it starts nothing new.
    Paused {
        /// Time of the entry.
        at: Timestamp,
        /// Client that paused it.
        by: String,
        /// True if the pause came from the parent.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        above: bool,
    },
    /// The run was resumed.
    Resumed {
        /// Time of the entry.
        at: Timestamp,
        /// Client that resumed it.
        by: String,
    },
    /// A function received an answer that the run recorded during a pause.
    #[serde(rename = "told")]
    AnswerDelivered {
        /// Time of the entry.
        at: Timestamp,
        /// Number of the answered call.
        number: u64,
    },
    /// A cancel was requested. The driver ends the calls of the run next, then raises the cancel in its function.
    Cancelling {
        /// Time of the entry.
        at: Timestamp,
        /// Reason for the cancel.
        reason: String,
    },
    /// The driver raised the cancel in the run's function.
    Interrupted {
        /// Time of the entry.
        at: Timestamp,
    },
    /// A child run waits for a person.
    ChildWaits {
        /// Time of the entry.
        at: Timestamp,
        /// Call that started the child.
        number: u64,
    },
    /// A child run no longer waits for a person.
    #[serde(rename = "child_goes_on")]
    ChildContinues {
        /// Time of the entry.
        at: Timestamp,
        /// Call that started the child.
        number: u64,
    },
    /// The function returned. Like `Failed` and `Cancelled`, always the last entry.
    Completed {
        /// Time of the entry.
        at: Timestamp,
        /// Returned value.
        result: Value,
    },
    /// The function failed.
    Failed {
        /// Time of the entry.
        at: Timestamp,
        /// Reason: the text of an exception, if there was one. In entries of older daemons, the whole traceback.
        error: String,
        /// Python's traceback of the exception, with the exception's name.
        traceback: Option<String>,
        /// Result of the node, if the run is a call of a node that failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<Value>,
    },
    /// The run was cancelled.
    Cancelled {
        /// Time of the entry.
        at: Timestamp,
        /// Reason for the cancel.
        reason: String,
    },
}

/// Start of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Started {
    /// Time of the entry.
    pub(crate) at: Timestamp,
    /// The run's id.
    pub(crate) run: RunId,
    /// Workflow of the file, or the node if the run is a call of one.
    pub(crate) workflow: String,
    /// True if the run is a call of a node; such a run has no file.
    #[serde(default)]
    pub(crate) is_call: bool,
    /// The name of the file in errors.
    pub(crate) file: String,
    /// Source text of the file, so that later changes to the file do not affect the run.
    pub(crate) text: String,
    /// `ctx.input`
    pub(crate) input: Value,
    /// `ctx.params`
    pub(crate) params: Map<String, Value>,
    /// The limits.
    pub(crate) limits: Limits,
    /// The nodes of the file and of the project, as declarations of `nodes`.
    pub(crate) nodes: Vec<Value>,
    /// Number of ancestors of the run.
    #[serde(default)]
    pub(crate) depth: u32,
    /// Time limit, without the time that the run waits for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) timeout: Option<TimeSpan>,
    /// True if the function executes the function nodes of its file itself, with shared variables, and such a node may
    /// return a complete result. False in runs of older daemons.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) one_heap: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_root(frame: &u64) -> bool {
    *frame == 0
}

/// The label of a call's request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CallLabel {
    /// A node, by its id.
    Node(String),
    /// A person or an agent, at a gate.
    Gate,
    /// A run of a workflow, by their names.
    Run {
        /// The workflow.
        workflow: String,
        /// The run.
        run: RunId,
    },
    /// Any other request. Its answer produces no event.
    Other,
}

impl SealedEntry for Entry {
    fn sealed_text(&self, seal: &Seal) -> String {
        let mut entry = self.clone();
        entry.close(seal);
        serde_json::to_string(&entry).expect("an entry contains only JSON")
    }
}

impl Entry {
    /// Returns the end of a run that failed without an exception of its file.
    pub(super) fn failed(at: Timestamp, error: String) -> Self {
        Self::Failed { at, error, traceback: None, result: None }
    }

    /// Returns the number of the call that ends with this entry.
    pub(super) fn ended_call(&self) -> Option<u64> {
        match self {
            Self::Answered { number, .. } | Self::Abandoned { number, .. } => Some(*number),
            Self::Graph { number, .. } => *number,
            _ => None,
        }
    }

    fn close(&mut self, seal: &Seal) {
        match self {
            Self::Started(started) => {
                let Started { text, input, params, nodes, .. } = &mut **started;
                seal.close_text(text);
                seal.close_in(input);
                seal.close_all(params);
                nodes.iter_mut().for_each(|node| seal.close_in(node));
            }
            Self::Called { call, .. } => close_call(&mut call.kind, seal),
            Self::Answered { answer, .. } => match answer {
                Answer::Value(value) => seal.close_in(value),
                Answer::Raise { message, .. } => seal.close_text(message),
            },
            Self::Graph { event, .. } => close_event(event, seal),
            Self::Completed { result, .. } => seal.close_in(result),
            Self::Failed { error, traceback, result, .. } => {
                seal.close_text(error);
                seal.close_if(traceback.as_mut());
                if let Some(result) = result {
                    seal.close_in(result);
                }
            }
            Self::Cancelling { reason, .. } | Self::Cancelled { reason, .. } => seal.close_text(reason),
            Self::Abandoned { .. }
            | Self::Inlined { .. }
            | Self::Interrupted { .. }
            | Self::Paused { .. }
            | Self::Resumed { .. }
            | Self::ChildWaits { .. }
            | Self::ChildContinues { .. }
            | Self::AnswerDelivered { .. } => {}
        }
    }
}

fn close_call(call: &mut CallKind, seal: &Seal) {
    match call {
        CallKind::Run { input, kwargs, .. } => {
            seal.close_in(input);
            seal.close_all(kwargs);
        }
        CallKind::Gate { prompt, choices, form, context, .. } => {
            seal.close_text(prompt);
            choices.iter_mut().flatten().for_each(|choice| seal.close_text(choice));
            form.iter_mut().chain(context).for_each(|value| seal.close_in(value));
        }
        CallKind::RunWorkflow { input, params, .. } => {
            seal.close_in(input);
            seal.close_all(params);
        }
        CallKind::RunGraph { input, .. } => seal.close_in(input),
        CallKind::Emit { data, .. } => seal.close_in(data),
        CallKind::Log { text } => seal.close_text(text),
        CallKind::Ended { output, error, .. } => {
            seal.close_in(output);
            seal.close_if(error.as_mut());
        }
        CallKind::Sleep { .. } | CallKind::Now {} | CallKind::Random {} => {}
    }
}

fn close_event(event: &mut GraphEvent, seal: &Seal) {
    match event {
        GraphEvent::Started { input } | GraphEvent::AttemptStarted { input, .. } => seal.close_in(input),
        GraphEvent::AttemptEnded { outcome: StepOutcome::Finished { result }, .. } => {
            let NodeResult { output, error, input, attributes, .. } = &mut **result;
            seal.close_in(output);
            seal.close_if(error.as_mut());
            seal.close_in(input);
            seal.close_all(attributes);
        }
        GraphEvent::StepEnded { ending: Ending::Skipped { value }, .. } => seal.close_in(value),
        GraphEvent::StepEnded { ending: Ending::Failed { error, .. }, .. } => seal.close_text(error),
        GraphEvent::AttemptEnded { .. }
        | GraphEvent::RetryPlanned { .. }
        | GraphEvent::RetryDue { .. }
        | GraphEvent::FallbackPlanned { .. }
        | GraphEvent::StepEnded { .. }
        | GraphEvent::Ended { .. } => {}
    }
}

impl Entry {
    /// Reads an entry. A mark unknown to the seal remains hidden. Refuses an entry of a machine, or of a newer
    /// version.
    pub(crate) fn read(record: &Record, seal: &Seal) -> Result<Self, Unreadable> {
        let text = seal.open(record.text.clone());
        serde_json::from_str(&text).map_err(|cause| Unreadable::Unknown { seq: record.seq, cause })
    }

    /// Returns the time of the entry.
    pub(super) fn time(&self) -> Timestamp {
        match self {
            Self::Started(started) => started.at,
            Self::Called { at, .. }
            | Self::Inlined { at, .. }
            | Self::Cancelling { at, .. }
            | Self::Interrupted { at }
            | Self::Answered { at, .. }
            | Self::Abandoned { at, .. }
            | Self::Graph { at, .. }
            | Self::Paused { at, .. }
            | Self::Resumed { at, .. }
            | Self::ChildWaits { at, .. }
            | Self::ChildContinues { at, .. }
            | Self::AnswerDelivered { at, .. }
            | Self::Completed { at, .. }
            | Self::Failed { at, .. }
            | Self::Cancelled { at, .. } => *at,
        }
    }
}

/// Returns the followers' name of an event that a function emitted. The name is never one of the daemon's own event
/// names.
pub(super) fn event_name(event_type: &str) -> String {
    if RunEvent::is_own(event_type) { format!("custom_{event_type}") } else { event_type.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steplatch_nodes::{ErrorType, NodeType};
    use steplatch_workflow::Event;

    use super::*;

    #[test]
    fn function_entries_match_the_golden_file() {
        let golden = include_str!("../../golden/function_entries.jsonl");
        steplatch_golden::check_enum::<Entry>(golden, steplatch_golden::Tag::Field("function"));
    }
    use steplatch_access::hides_in_names;

    #[test]
    fn machine_and_function_entries_are_never_confused() {
        let cancelled = Entry::Cancelled { at: Timestamp(1), reason: "so".to_owned() };
        let text = serde_json::to_string(&cancelled).unwrap();
        let read = |text: String| Entry::read(&Record { seq: 7, version: 1, text }, &Seal::default());
        assert_eq!(read(text.clone()).unwrap(), cancelled);
        assert!(serde_json::from_str::<Event>(&text).is_err());
        let machine = Event::Cancelled { at: Timestamp(1), reason: "so".to_owned() };
        let error = read(serde_json::to_string(&machine).unwrap()).unwrap_err();
        assert!(error.to_string().contains("entry 7"), "{error}");
        let newer = text.replace("cancelled", "transcended");
        assert!(read(newer).is_err(), "an entry of a newer version is refused");
    }

    /// Returns every kind of entry, with a secret in each foreign string.
    fn sample_entries(secret: &str) -> Vec<Entry> {
        let (at, number) = (Timestamp(1), 1);
        let text = || format!("it is {secret}, says somebody");
        // A lowercase word may be a field name of an entry, and is not hidden there.
        let name = || if hides_in_names(secret) { text() } else { "name".to_owned() };
        let value = || json!({"list": [text(), 7], "deeper": {name(): {name(): text()}}});
        let fields = || Map::from_iter([("field".to_owned(), value()), (name(), value())]);
        let call = |kind: CallKind| Entry::Called {
            at,
            number,
            frame: 0,
            within: None,
            call: Call { ordinal: 1, within: None, kind },
        };
        let label = || CallLabel::Node("greet".to_owned());
        let answered = |answer: Answer| Entry::Answered { at, number, answer, by: None, label: label(), timeout: None };
        let node: NodeId = "greet".parse().unwrap();
        let graph = |event: GraphEvent| Entry::Graph { at, frame: 1, number: None, event, node: None, timeout: None };
        let ended = |ending: Ending| graph(GraphEvent::StepEnded { step: node.clone(), ending });
        let result = NodeResult {
            success: false,
            output: value(),
            error: Some(text()),
            error_type: Some(ErrorType::ExitCode),
            node_type: NodeType::Bash,
            node_id: "greet".to_owned(),
            input: value(),
            attributes: fields(),
        };
        let finished = StepOutcome::Finished { result: Box::new(result.clone()) };
        let (step, attempt) = (node.clone(), 1);
        vec![
            Entry::Started(Box::new(Started {
                at,
                run: RunId::random(),
                workflow: "story".to_owned(),
                is_call: false,
                file: "story.py".to_owned(),
                text: text(),
                input: value(),
                params: fields(),
                limits: Limits::default(),
                nodes: vec![value()],
                depth: 0,
                timeout: None,
                one_heap: false,
            })),
            call(CallKind::Run { node: "greet".to_owned(), input: value(), timeout: None, kwargs: fields() }),
            call(CallKind::Gate {
                prompt: text(),
                timeout: None,
                choices: Some(vec![text(), "no".to_owned()]),
                form: Some(value()),
                answered_by: None,
                context: Some(value()),
                with_reason: true,
                approvers: None,
                escalate_after: None,
            }),
            call(CallKind::RunWorkflow { workflow: "w".to_owned(), input: value(), params: fields(), timeout: None }),
            call(CallKind::RunGraph { graph: "g".to_owned(), input: value(), timeout: None }),
            call(CallKind::Emit { event_type: "half".to_owned(), data: value() }),
            call(CallKind::Log { text: text() }),
            call(CallKind::Ended { of: 1, output: value(), error: Some(text()), cancelled: false }),
            answered(Answer::Value(serde_json::to_value(result).unwrap())),
            answered(Answer::refused(text())),
            graph(GraphEvent::Started { input: value() }),
            graph(GraphEvent::AttemptStarted { step: step.clone(), attempt, node: node.clone(), input: value() }),
            graph(GraphEvent::AttemptEnded { step, attempt, outcome: finished }),
            ended(Ending::Skipped { value: value() }),
            ended(Ending::Failed { error: text(), error_type: ErrorType::ExitCode }),
            Entry::Completed { at, result: value() },
            Entry::Failed { at, error: text(), traceback: Some(text()), result: Some(value()) },
            Entry::Cancelling { at, reason: text() },
            Entry::Cancelled { at, reason: text() },
        ]
    }

    #[test]
    fn every_entry_hides_its_secrets_and_opens_with_the_key() {
        // A text that resembles JSON, a word of the entries themselves, and a text that a program may print.
        for secret in ["quo\"te\\d", "function", "\u{FDD0}0\u{FDD1}x"] {
            let mut seal = Seal::default();
            seal.learn(secret);
            for entry in sample_entries(secret) {
                let mut sealed = entry.clone();
                sealed.close(&seal);
                let text = serde_json::to_string(&sealed).unwrap();
                let read = |seal: &Seal| Entry::read(&Record { seq: 1, version: 2, text: text.clone() }, seal).unwrap();
                assert_eq!(read(&seal), entry, "{text}");
                let masked = serde_json::to_value(read(&Seal::default())).unwrap();
                assert!(!masked.to_string().contains(&format!("it is {secret}")), "{masked}");
                assert!(masked.to_string().contains("it is ••••••, says"), "{masked}");
                let sealed_again = sealed.clone();
                assert_eq!(sealed_again, sealed);
            }
        }
    }

    #[test]
    fn entry_of_an_older_daemon_is_read_unchanged() {
        let text = r#"{"function":"failed","at":1,"error":"Traceback\nValueError: bad \u{FDD0}x\u{FDD1} \u{FDD0}"}"#;
        let text = text.replace("\\u{FDD0}", "\u{FDD0}").replace("\\u{FDD1}", "\u{FDD1}");
        let read = Entry::read(&Record { seq: 1, version: 1, text }, &Seal::default()).unwrap();
        let error = "Traceback\nValueError: bad \u{FDD0}x\u{FDD1} \u{FDD0}".to_owned();
        assert_eq!(read, Entry::Failed { at: Timestamp(1), error, traceback: None, result: None });
        let answered_text =
            r#"{"function":"answered","at":1,"number":1,"answer":{"value":7},"asked":"gate"}"#.to_owned();
        let read = Entry::read(&Record { seq: 1, version: 1, text: answered_text }, &Seal::default()).unwrap();
        assert!(matches!(read, Entry::Answered { timeout: None, .. }));
    }

    #[test]
    fn emitted_event_is_never_taken_for_a_run_event() {
        assert_eq!(event_name("half_done"), "half_done");
        for ours in ["workflow_completed", "gate_answered", "node_error", "log", RunEvent::UNREADABLE] {
            assert_eq!(event_name(ours), format!("custom_{ours}"));
        }
    }
}
