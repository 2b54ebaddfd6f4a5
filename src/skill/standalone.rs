//! Machines that need no library, because they contain the machines that they call.
//!
//! A called machine becomes the `workflow_definition` of the calling action, with the same behaviour.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use steplatch_workflow::tool;

/// Maximum nesting of machines, equal to the maximum nesting of runs.
const MAX_NESTING: u32 = steplatch_workflow::MAX_LEVELS;

/// Maximum number of embedded machines, counted once per call.
const MAX_MACHINES: u32 = 200;

/// Reason that a machine cannot be standalone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotStandalone {
    /// A call has a computed name.
    #[error("state '{state}' calls a workflow whose name is computed ({name}): it cannot be included")]
    Computed {
        /// The state.
        state: String,
        /// The name, with its placeholders.
        name: String,
    },
    /// A state calls a node or a graph.
    #[error("state '{state}' calls {name}, which the project declares: it cannot be included")]
    Node {
        /// The state.
        state: String,
        /// Description of the callee.
        name: String,
    },
    /// The machines call each other in a cycle, or are nested too deeply.
    #[error("'{0}' calls itself, or the machines are nested more than {MAX_NESTING} levels deep")]
    TooDeep(String),
    /// The machine calls too many machines.
    #[error("it calls more than {MAX_MACHINES} machines, directly or through others: they cannot all be included")]
    TooMany,
    /// The called machine is unknown.
    #[error("it calls the workflow '{0}', which is not a saved machine: it cannot be included")]
    Unknown(String),
}

/// Returns the names of the workflows that a machine and its embedded machines call.
///
/// # Errors
/// If a call has a computed name, or calls a node or graph.
pub(crate) fn called_workflows(document: &Value) -> Result<BTreeSet<String>, NotStandalone> {
    let mut names = BTreeSet::new();
    let mut document = document.clone();
    visit_calls(&mut document, &mut |state, params| {
        if let Some(name) = params.get("workflow_name").and_then(Value::as_str) {
            if name.contains('{') {
                return Err(NotStandalone::Computed { state: state.to_owned(), name: name.to_owned() });
            }
            names.insert(name.to_owned());
        }
        Ok(())
    })?;
    Ok(names)
}

/// Embeds all machines that a machine calls, directly or indirectly. `machines` has their definitions by name.
///
/// # Errors
/// If a called machine is missing, calls itself, or has a computed name.
pub(crate) fn include_called(document: &Value, machines: &BTreeMap<String, Value>) -> Result<Value, NotStandalone> {
    embed(document, machines, 0, &mut 0)
}

fn embed(
    document: &Value,
    machines: &BTreeMap<String, Value>,
    depth: u32,
    count: &mut u32,
) -> Result<Value, NotStandalone> {
    let mut document = document.clone();
    visit_calls(&mut document, &mut |_, params| {
        let Some(name) = params.get("workflow_name").and_then(Value::as_str).map(str::to_owned) else { return Ok(()) };
        if depth >= MAX_NESTING {
            return Err(NotStandalone::TooDeep(name));
        }
        let inner = machines.get(&name).ok_or_else(|| NotStandalone::Unknown(name.clone()))?;
        *count += 1;
        if *count > MAX_MACHINES {
            return Err(NotStandalone::TooMany);
        }
        let inner = embed(inner, machines, depth + 1, count)?;
        params.remove("workflow_name");
        params.insert("workflow_definition".to_owned(), inner);
        // The run of a saved machine would not save the machine again.
        params.entry("save_on_success").or_insert(Value::Bool(false));
        Ok(())
    })?;
    Ok(document)
}

type Visitor<'v> = dyn FnMut(&str, &mut Map<String, Value>) -> Result<(), NotStandalone> + 'v;

/// Visits the parameters of every call of a workflow in a machine and in its embedded machines.
fn visit_calls(document: &mut Value, visitor: &mut Visitor<'_>) -> Result<(), NotStandalone> {
    let states = document.get_mut("states").and_then(Value::as_object_mut);
    for (state, value) in states.into_iter().flatten() {
        let Some(action) = value.get_mut("action").and_then(Value::as_object_mut) else { continue };
        let tool = action.get("tool").and_then(Value::as_str).unwrap_or_default().to_owned();
        let Some(params) = action.get_mut("params").and_then(Value::as_object_mut) else { continue };
        match tool.as_str() {
            tool::RUN_WORKFLOW => visit_call(state, params, visitor)?,
            tool::PARALLEL => match params.get_mut("workflows") {
                Some(Value::Array(list)) => {
                    list.iter_mut()
                        .filter_map(Value::as_object_mut)
                        .try_for_each(|params| visit_call(state, params, visitor))?;
                }
                Some(Value::Object(named)) => {
                    let calls = named.values_mut().filter_map(Value::as_object_mut);
                    calls.into_iter().try_for_each(|params| visit_call(state, params, visitor))?;
                }
                _ => {}
            },
            callee_tool if tool::CALLS.contains(&callee_tool) => {
                let text = |key: &str| params.get(key).and_then(Value::as_str);
                let name = match (text("node_id"), text("graph_id")) {
                    (Some(node), _) => format!("the node '{node}'"),
                    (None, Some(graph)) => format!("the graph '{graph}'"),
                    (None, None) => "a node".to_owned(),
                };
                return Err(NotStandalone::Node { state: state.clone(), name });
            }
            _ => {}
        }
    }
    Ok(())
}

fn visit_call(state: &str, params: &mut Map<String, Value>, visitor: &mut Visitor<'_>) -> Result<(), NotStandalone> {
    if let Some(inner) = params.get_mut("workflow_definition") {
        visit_calls(inner, visitor)?;
    }
    visitor(state, params)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn calls(params: &Value) -> Value {
        json!({"initial_state": "go", "states": {"go": {"action": {"tool": "run_workflow", "params": params}}}})
    }

    #[test]
    fn called_machines_are_embedded() {
        let inner = json!({"initial_state": "end", "states": {"end": {"action": {"tool": "return"}}}});
        let middle = calls(&json!({"workflow_name": "inner", "save_on_success": true}));
        let outer = json!({"initial_state": "all", "states": {"all": {"action": {"tool": "parallel", "params": {
            "workflows": {"one": {"workflow_name": "middle", "initial_variables": {"workflow_name": "x"}},
                          "two": {"workflow_definition": calls(&json!({"workflow_name": "inner"}))}}}}}}});
        assert_eq!(called_workflows(&outer).unwrap().into_iter().collect::<Vec<_>>(), ["inner", "middle"]);
        let known = BTreeMap::from([("inner".to_owned(), inner.clone()), ("middle".to_owned(), middle)]);
        let standalone = include_called(&outer, &known).unwrap();
        assert!(called_workflows(&standalone).unwrap().is_empty(), "{standalone:#}");
        let workflows = &standalone["states"]["all"]["action"]["params"]["workflows"];
        let params = &workflows["one"]["workflow_definition"]["states"]["go"]["action"]["params"];
        assert_eq!(params, &json!({"save_on_success": true, "workflow_definition": inner}));
        assert_eq!(workflows["one"]["initial_variables"], json!({"workflow_name": "x"}));
        assert_eq!(workflows["one"]["save_on_success"], false);
    }

    #[test]
    fn unincludable_parts_are_named() {
        let computed = called_workflows(&calls(&json!({"workflow_name": "deploy_{kind}"}))).unwrap_err();
        assert!(computed.to_string().contains("deploy_{kind}"), "{computed}");
        let node = json!({"states": {"ask": {"action": {"tool": "run_node", "params": {"node_id": "model"}}}}});
        assert!(called_workflows(&node).unwrap_err().to_string().contains("the node 'model'"));
        let circle = calls(&json!({"workflow_name": "circle"}));
        let known = BTreeMap::from([("circle".to_owned(), circle.clone())]);
        assert_eq!(include_called(&circle, &known), Err(NotStandalone::TooDeep("circle".to_owned())));
        let unknown = include_called(&circle, &BTreeMap::new());
        assert_eq!(unknown, Err(NotStandalone::Unknown("circle".to_owned())));
    }
}
