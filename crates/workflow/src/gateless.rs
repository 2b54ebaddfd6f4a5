//! Names of workflows, nodes and graphs known to ask no person.
//!
//! An action that starts something by a name may ask a person in there. The definitions that names meant at the start of a run
//! are not part of its document, so the driver looks through them, and a run begins with the names that ask no person.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::question::AnsweredBy;
use crate::{child, substitute, tool};

/// Workflows, nodes and graphs that a run starts by name, known to ask no person, at any depth.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatelessNames {
    /// Workflows.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub workflows: BTreeSet<String>,
    /// Nodes and graphs.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub nodes: BTreeSet<String>,
}

/// A name by which an action starts something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CalledName<'n> {
    /// Of a workflow.
    Workflow(&'n str),
    /// Of a node or a graph.
    Node(&'n str),
}

impl GatelessNames {
    /// Returns whether it has no name.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.workflows.is_empty() && self.nodes.is_empty()
    }

    /// Returns whether a name is known to ask no person.
    #[must_use]
    pub fn contains(&self, name: CalledName<'_>) -> bool {
        match name {
            CalledName::Workflow(name) => self.workflows.contains(name),
            CalledName::Node(id) => self.nodes.contains(id),
        }
    }
}

/// Returns whether an action, or a document with actions, may ask a person: by a gate in it or in a definition nested
/// in it, by a name that is not `gateless`, or by a computed one.
pub fn may_ask_person<'v>(value: &'v Value, gateless: &dyn Fn(CalledName<'v>) -> bool) -> bool {
    let fields = match value {
        Value::Object(fields) => fields,
        Value::Array(items) => return items.iter().any(|item| may_ask_person(item, gateless)),
        _ => return false,
    };
    let is_gate = fields.get("tool").is_some_and(|name| name == tool::GATE);
    if is_gate && asks_person(fields.get("params").and_then(|params| params.get("answered_by"))) {
        return true;
    }
    fields.iter().any(|(key, value)| {
        let Value::String(text) = value else { return may_ask_person(value, gateless) };
        let asks = |name| substitute::has_placeholder(text) || !gateless(name);
        match key.as_str() {
            _ if text.is_empty() => false,
            "workflow_name" => asks(CalledName::Workflow(text)),
            "node_id" | "graph_id" => asks(CalledName::Node(text)),
            // A definition that a variable holds, or several.
            child::DEFINITION | "workflows" => true,
            _ => false,
        }
    })
}

/// Returns whether `answered_by` of a gate leaves the answer to a person. An unknown one may.
pub(crate) fn asks_person(answered_by: Option<&Value>) -> bool {
    let others = [AnsweredBy::Agent, AnsweredBy::Anyone].map(AnsweredBy::name);
    answered_by.and_then(Value::as_str).is_none_or(|who| !others.contains(&who))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asks(action: &Value) -> bool {
        may_ask_person(action, &|name| matches!(name, CalledName::Workflow("quiet") | CalledName::Node("quiet")))
    }

    #[test]
    fn whatever_may_ask_a_person_is_found() {
        let gate = |who: Value| json!({"tool": "gate", "params": {"prompt": "Go?", "answered_by": who}});
        let run = |params: Value| json!({"tool": "run_workflow", "params": params});
        let nested = |state: Value| run(json!({"workflow_definition": {"states": {"a": {"action": state}}}}));
        for (action, expected) in [
            (json!({"tool": "gate", "params": {"prompt": "Go?"}}), true),
            (gate(json!("human")), true),
            (gate(json!("{who}")), true),
            (gate(json!("agent")), false),
            (gate(json!("anyone")), false),
            (run(json!({"workflow_name": "quiet"})), false),
            (run(json!({"workflow_name": "approval"})), true),
            (run(json!({"workflow_name": "quiet{suffix}"})), true),
            (nested(gate(json!("human"))), true),
            (nested(gate(json!("agent"))), false),
            (nested(run(json!({"workflow_name": "approval"}))), true),
            (run(json!({"workflow_definition": "{made}"})), true),
            (json!({"tool": "parallel", "params": {"workflows": [{"workflow_name": "quiet"}]}}), false),
            (json!({"tool": "parallel", "params": {"workflows": [{"workflow_name": "approval"}]}}), true),
            (json!({"tool": "parallel", "params": {"workflows": {"x": {"workflow_name": "approval"}}}}), true),
            (json!({"tool": "parallel", "params": {"workflows": "{all}"}}), true),
            (json!({"tool": "run_node", "params": {"node_id": "quiet"}}), false),
            (json!({"tool": "run_node", "params": {"node_id": "asks"}}), true),
            (json!({"tool": "run_graph", "params": {"graph_id": "{which}"}}), true),
            (json!({"tool": "run_command", "params": {"command": "gate"}}), false),
        ] {
            assert_eq!(asks(&action), expected, "{action}");
        }
    }
}
