//! Names of workflows, nodes and graphs that never ask a person.
//!
//! An action may start a workflow, node or graph by name, and that definition may ask a person. Such definitions are
//! not part of the run's document. At the start of a run, the driver examines them and passes the names that never ask.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::question::AnsweredBy;
use crate::{child, substitute, tool};

/// Workflows, nodes and graphs that a run starts by name and that never ask a person, at any depth.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatelessNames {
    /// Names of workflows.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub workflows: BTreeSet<String>,
    /// Ids of nodes and graphs.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub nodes: BTreeSet<String>,
}

/// The name of a workflow, node or graph that an action starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CalledName<'n> {
    /// Name of a workflow.
    Workflow(&'n str),
    /// Id of a node or a graph.
    Node(&'n str),
}

impl GatelessNames {
    /// Returns whether no name is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.workflows.is_empty() && self.nodes.is_empty()
    }

    /// Returns whether a name is known never to ask a person.
    #[must_use]
    pub fn contains(&self, name: CalledName<'_>) -> bool {
        match name {
            CalledName::Workflow(name) => self.workflows.contains(name),
            CalledName::Node(id) => self.nodes.contains(id),
        }
    }
}

/// Returns whether an action, or a document with actions, may ask a person: by a gate, also in a nested definition, by
/// a name that is not `gateless`, or by a name with placeholders.
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
        let may_ask = |name| substitute::has_placeholder(text) || !gateless(name);
        match key.as_str() {
            _ if text.is_empty() => false,
            "workflow_name" => may_ask(CalledName::Workflow(text)),
            "node_id" | "graph_id" => may_ask(CalledName::Node(text)),
            // A variable has the value: a definition or a list of workflows.
            child::DEFINITION | "workflows" => true,
            _ => false,
        }
    })
}

/// Returns whether `answered_by` requires a person at a gate. An unknown value is treated as a person.
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
    fn every_possible_question_to_a_person_is_found() {
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
