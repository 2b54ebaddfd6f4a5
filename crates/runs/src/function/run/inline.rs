//! Function nodes that the calling function executes itself.
//!
//! The caller's interpreter executes a function node in the same file as its caller, so that both share the module
//! variables. The call is recorded and limited like any other. The caller's frame makes the requests of the node. These
//! requests name their enclosing call. The execution reports when the node has finished, and the driver then answers
//! the call.

use serde_json::Value;
use steplatch_nodes::{ErrorType, Node, NodeKind, NodeResult};
use steplatch_python_api::{Answer, Call, CallKind};
use steplatch_workflow::Timestamp;

use crate::function::calls::{CallTarget, InlineExecution, PendingCall};
use crate::function::entry::Entry;
use crate::function::history::FunctionState;
use crate::function::run::FunctionRun;
use crate::function::run::frame::{Frame, FrameInput};
use crate::function::work::CallOutcome;

impl FunctionRun {
    /// Returns whether the function that makes this call executes the node itself, because the function and the node
    /// are in the same file.
    pub(in crate::function) fn is_inline(&self, number: u64, node: &Node) -> bool {
        let NodeKind::Function(function) = &node.kind else { return false };
        let Some(PendingCall { frame, target: CallTarget::Call(_), .. }) = self.function_state.open.get(number) else {
            return false;
        };
        let Some(Frame::Function { execution, .. }) = self.frames.get(frame) else { return false };
        let own = self.file.as_ref().map(|file| &*file.text);
        // A run of an older daemon has a heap for each call.
        self.function_state.one_heap && function.source.as_deref().or(own) == Some(execution.text())
    }

    /// Resumes a call that its caller executes, if another daemon may have begun it.
    pub(in crate::function) fn resume_inline(&mut self, number: u64) {
        match self.function_state.open.get(number).and_then(|open| open.inlined.clone()) {
            // The call starts once the driver knows the progress of its caller.
            None => self.work.add_ready(number, CallOutcome::Begin),
            Some(InlineExecution::Begun) => {}
            Some(InlineExecution::Ended(ended)) => self.inline_ended(number, *ended),
        }
    }

    /// Makes the calling function execute a call itself, if the call is inline. Returns false when this daemon must no
    /// longer drive the run.
    pub(in crate::function) async fn begin_inline(&mut self, number: u64, at: Timestamp) -> bool {
        let Some(PendingCall { frame, target: CallTarget::Call(call), inlined: None, .. }) =
            self.function_state.open.get(number)
        else {
            return true;
        };
        let (frame, ordinal) = (*frame, call.ordinal);
        self.resume_function(frame, vec![Entry::Inlined { at, number }], FrameInput::Inline(ordinal)).await
    }

    /// Answers the call of a node that its caller has executed.
    pub(in crate::function) fn inline_ended(&mut self, number: u64, ended: CallKind) {
        let Some(PendingCall { target: CallTarget::Call(Call { kind, .. }), .. }) =
            self.function_state.open.get(number)
        else {
            return;
        };
        let CallKind::Run { node, input, .. } = kind else { return };
        let CallKind::Ended { output, error, cancelled, .. } = ended else { return };
        let Some(node) = self.declared.get(node) else { return };
        let outcome = match error {
            Some(error) if cancelled => CallOutcome::Answer(Answer::cancelled(error)),
            Some(error) => CallOutcome::node(NodeResult::failed(node, input.clone(), ErrorType::Exception, error)),
            None => CallOutcome::node(self.returned(node, input.clone(), output)),
        };
        self.work.add_ready(number, outcome);
    }

    /// Returns the result of a function node that returned `output`.
    pub(in crate::function) fn returned(&self, node: &Node, input: Value, output: Value) -> NodeResult {
        // A run of an older daemon follows the rule of that daemon.
        if self.function_state.one_heap {
            NodeResult::returned(node, input, output)
        } else {
            NodeResult::succeeded(node, input, output)
        }
    }

    /// Closes the calls with these numbers within the function, unless they were open earlier, and all calls made
    /// within a finished call. Returns false when this daemon must no longer drive the run.
    pub(in crate::function) async fn close(&mut self, frame: u64, ordinals: &[u64]) -> bool {
        let known_calls = ordinals
            .iter()
            .filter_map(|ordinal| self.function_state.open.number_of(frame, *ordinal))
            .collect::<Vec<_>>();
        let mut closing = known_calls;
        closing.extend(self.function_state.open.orphans());
        while !closing.is_empty() {
            let at = self.recorder.shared.clock.now();
            let mut entries = Vec::new();
            for number in closing {
                entries.extend(self.abandon(number, at));
            }
            if !self.append(entries).await {
                return false;
            }
            closing = self.function_state.open.orphans();
        }
        true
    }
}

impl FunctionState {
    /// Applies a function's notification that an inline call has finished. Ignores other calls.
    pub(in crate::function) fn apply_inline(&mut self, frame: u64, call: &Call) {
        if let CallKind::Ended { of, .. } = &call.kind
            && let Some(number) = self.open.number_of(frame, *of)
        {
            self.open.set_inlined(number, InlineExecution::Ended(Box::new(call.kind.clone())));
        }
    }

    /// Returns the open calls of a function that are not in `ordinals`, by their numbers within the function.
    pub(in crate::function) fn open_ordinals_except(&self, frame: u64, ordinals: &[u64]) -> Vec<u64> {
        let own = self.open.of_frame(frame).filter_map(|(_, open)| match &open.target {
            CallTarget::Call(call) => Some(call.ordinal),
            CallTarget::Step { .. } => None,
        });
        own.filter(|ordinal| !ordinals.contains(ordinal)).collect()
    }
}

#[cfg(test)]
mod tests {
    use steplatch_store::Record;

    use super::*;
    use crate::seal::Seal;

    fn function_state(texts: &[&str]) -> FunctionState {
        let mut function_state = FunctionState::default();
        for (at, text) in texts.iter().enumerate() {
            let record = Record { seq: at as u64 + 1, version: 1, text: (*text).to_owned() };
            function_state.apply(&Entry::read(&record, &Seal::default()).unwrap_or_else(|error| panic!("{error}")));
        }
        function_state
    }

    const STARTED: &str = r#"{"function":"started","at":1,"run":"run_0000000000000000","workflow":"it","file":"it.py",
        "text":"","input":"","params":{},"limits":{},"nodes":[]"#;

    #[test]
    fn run_of_an_older_daemon_has_a_heap_for_each_call() {
        let older = function_state(&[
            &format!("{STARTED}}}"),
            r#"{"function":"called","at":2,"number":1,"call":{"ordinal":1,"call":"run","node":"a","input":"","timeout":null,"kwargs":{}}}"#,
            r#"{"function":"called","at":3,"number":2,"frame":1,"call":{"ordinal":1,"call":"run","node":"b","input":"","timeout":null,"kwargs":{}}}"#,
        ]);
        assert!(!older.one_heap);
        assert!(older.open.descendants(1).contains(&2) && older.open.orphans().is_empty());
        assert!(function_state(&[&format!(r#"{STARTED},"one_heap":true}}"#)]).one_heap);
    }

    #[test]
    fn calls_within_a_call_are_below_it_and_orphaned_after_it() {
        let asks = |number: u64, ordinal: u64, within: &str| {
            format!(
                r#"{{"function":"called","at":2,"number":{number}{within},"call":{{"ordinal":{ordinal},"call":"sleep","seconds":1.0}}}}"#
            )
        };
        let call = r#"{"function":"called","at":2,"number":1,"call":{"ordinal":1,"call":"run","node":"a","input":"","timeout":null,"kwargs":{}}}"#;
        let mut run = function_state(&[
            call,
            r#"{"function":"inlined","at":2,"number":1}"#,
            &asks(2, 2, r#","within":1"#),
            &asks(3, 3, ""),
        ]);
        assert!(run.open.descendants(1).into_iter().eq([2]));
        assert!(matches!(run.open.get(1).unwrap().inlined, Some(InlineExecution::Begun)));
        let end_notice = Call {
            ordinal: 4,
            within: None,
            kind: CallKind::Ended { of: 1, output: 7.into(), error: None, cancelled: false },
        };
        run.apply_inline(0, &end_notice);
        assert!(matches!(run.open.get(1).unwrap().inlined, Some(InlineExecution::Ended(_))));
        run.apply(&Entry::Abandoned { at: Timestamp(3), number: 1, label: crate::function::entry::CallLabel::Other });
        assert_eq!(run.open.orphans(), [2]);
        assert_eq!(run.open_ordinals_except(0, &[3]), [2]);
    }
}
