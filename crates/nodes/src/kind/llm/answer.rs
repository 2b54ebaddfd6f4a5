//! The answer of a model, in one piece or assembled from a stream.

use serde_json::{Map, Value, json};

use crate::outcome::{ExecutorOutcome, Failure};

/// The answer of a model so far.
#[derive(Debug, Default)]
pub(super) struct Answer {
    text: String,
    refusal: String,
    tool_calls: Vec<ToolCall>,
    finish_reason: Option<String>,
    model: Option<String>,
    id: Option<String>,
    usage: Option<Value>,
}

/// A tool call that the model requests.
#[derive(Debug, Default)]
struct ToolCall {
    id: String,
    name: String,
    arguments: String,
}

/// Maximum number of tool calls in one answer; further calls are ignored.
const MAX_TOOL_CALLS: usize = 128;

impl Answer {
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the size of the answer so far, in bytes.
    pub(super) fn size(&self) -> usize {
        let calls = self.tool_calls.iter().map(|call| call.id.len() + call.name.len() + call.arguments.len());
        self.text.len() + self.refusal.len() + calls.sum::<usize>()
    }

    /// Returns whether the model has reported the end of its answer.
    pub(super) fn is_finished(&self) -> bool {
        self.finish_reason.is_some()
    }

    /// Reads an answer in one piece; returns false if it is not valid.
    pub(super) fn read(&mut self, answer: &Value) -> bool {
        let Some(message) = answer.pointer("/choices/0/message") else { return false };
        self.read_metadata(answer);
        self.add_message(message);
        true
    }

    /// Adds a piece of an answer and returns its text.
    pub(super) fn add(&mut self, piece: &Value) -> Option<String> {
        self.read_metadata(piece);
        let previous_length = self.text.len();
        self.add_message(piece.pointer("/choices/0/delta")?);
        let added = &self.text[previous_length..];
        (!added.is_empty()).then(|| added.to_owned())
    }

    fn read_metadata(&mut self, piece: &Value) {
        let text = |pointer: &str| piece.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        self.model = text("/model").or(self.model.take());
        self.id = text("/id").or(self.id.take());
        self.finish_reason = text("/choices/0/finish_reason").or(self.finish_reason.take());
        if let Some(usage) = piece.get("usage").filter(|usage| !usage.is_null()) {
            self.usage = Some(usage.clone());
        }
    }

    fn add_message(&mut self, message: &Value) {
        let text = |key: &str| message.get(key).and_then(Value::as_str).unwrap_or_default();
        self.text.push_str(text("content"));
        self.refusal.push_str(text("refusal"));
        for (position, call) in message.get("tool_calls").and_then(Value::as_array).into_iter().flatten().enumerate() {
            let index = call.get("index").and_then(Value::as_u64).map_or(position, |index| index as usize);
            if index >= MAX_TOOL_CALLS {
                continue;
            }
            if self.tool_calls.len() <= index {
                self.tool_calls.resize_with(index + 1, ToolCall::default);
            }
            let tool_call = &mut self.tool_calls[index];
            let text = |pointer: &str| call.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            tool_call.id.push_str(text("/id"));
            tool_call.name.push_str(text("/function/name"));
            tool_call.arguments.push_str(text("/function/arguments"));
        }
    }

    /// Returns the answer as the outcome of a call.
    pub(super) fn into_outcome(self, failure: Option<Failure>) -> ExecutorOutcome {
        let mut attributes = Map::new();
        let mut set = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                attributes.insert(name.to_owned(), value);
            }
        };
        set("model", self.model.map(Value::from));
        set("id", self.id.map(Value::from));
        set("finish_reason", self.finish_reason.map(Value::from));
        set("usage", self.usage);
        set("refusal", (!self.refusal.is_empty()).then(|| self.refusal.into()));
        let calls = self.tool_calls.into_iter().map(|call| {
            json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}})
        });
        let calls: Vec<Value> = calls.collect();
        set("tool_calls", (!calls.is_empty()).then(|| calls.into()));
        ExecutorOutcome { output: self.text.into(), failure, attributes }
    }
}
