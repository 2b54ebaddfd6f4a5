//! Definitions that a run refers to by name, as they were when the run began.
//!
//! Owns which names a definition refers to, the digests of what they meant at the start, and the comparison at each use.
//! What a person approves is what they could read then: a definition that is another one by now is not executed.
//! Digests are kept, not copies: the run names what was changed and goes no further there.
//!
//! A name that stands in a definition is followed, through all definitions that it leads to. A name that is computed (a
//! placeholder in a machine, an expression in a function) can mean every definition that the caller sees, so all of
//! these are kept in mind then. Text that a definition makes other programs read, such as a script, is none of this.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use steplatch_library::Signature;
use steplatch_nodes::NodeKind;

use super::Shared;
use super::source::Named;
use crate::caller::Caller;
use crate::nodes::{Declared, Project};

/// The call by which a function starts a run.
const RUN_WORKFLOW: &str = "run_workflow";

/// What the definitions that a run refers to meant when it began: their digests, or nothing where a name had no meaning.
/// A name that is not here was not referred to, or came into being later as the answer to a computed name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pins {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    workflows: BTreeMap<String, Option<Signature>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    nodes: BTreeMap<String, Option<Signature>>,
}

impl Pins {
    pub(super) fn is_empty(&self) -> bool {
        self.workflows.is_empty() && self.nodes.is_empty()
    }

    /// Returns a digest of all of it; nothing where the run refers to nothing.
    pub(super) fn signature(&self) -> Option<Signature> {
        let text = || serde_json::to_string(self).unwrap_or_default();
        (!self.is_empty()).then(|| Signature::of_text(&text()))
    }

    /// Returns a digest of it with the nodes that the run was given.
    pub(super) fn signature_with(&self, nodes: &[Value]) -> Option<Signature> {
        let text = || serde_json::to_string(&(self, nodes)).unwrap_or_default();
        (!self.is_empty() || !nodes.is_empty()).then(|| Signature::of_text(&text()))
    }

    /// Checks what a name of a workflow means now.
    ///
    /// # Errors
    /// In a whole sentence, when it meant something else at the start of the run.
    pub(super) fn check_workflow(&self, name: &str, found: &Named) -> Result<(), String> {
        match self.workflows.get(name) {
            // The list of a service may come later than the run.
            Some(None) if matches!(found, Named::Remote(_)) => Ok(()),
            Some(pinned) if *pinned != Some(signature(found)) => Err(changed("Workflow", name, pinned.is_some())),
            _ => Ok(()),
        }
    }

    /// Checks what a call of a node or graph would call, with everything below it.
    ///
    /// # Errors
    /// In a whole sentence, when one of them was something else at the start of the run.
    pub(super) fn check_node(&self, project: &Project, id: &str) -> Result<(), String> {
        let mut called = References::default();
        called.nodes.insert(id.to_owned());
        let mut followed = BTreeSet::new();
        while let Some(id) = called.nodes.pop_first() {
            let Some(declared) = project.nodes.get(&id).filter(|_| followed.insert(id.clone())) else { continue };
            self.check_declared(&id, declared)?;
            called.follow(declared);
            if called.any_node {
                return self.check_nodes(project);
            }
        }
        Ok(())
    }

    /// Checks all nodes of a project, which a function may call.
    ///
    /// # Errors
    /// In a whole sentence, when one of them was something else at the start of the run.
    pub(super) fn check_nodes(&self, project: &Project) -> Result<(), String> {
        project.nodes.iter().try_for_each(|(id, declared)| self.check_declared(id, declared))
    }

    fn check_declared(&self, id: &str, declared: &Declared) -> Result<(), String> {
        match self.nodes.get(id) {
            Some(pinned) if *pinned != Some(signature_of(declared)) => Err(changed("Node", id, pinned.is_some())),
            _ => Ok(()),
        }
    }
}

/// Says that a name means something else than when the run began.
fn changed(what: &str, name: &str, was_there: bool) -> String {
    let how = if was_there { "was changed" } else { "was added" };
    format!(
        "{what} '{name}' {how} after this run was started, and a run does only what it was started with. Start it again \
         to use the new definition"
    )
}

/// Returns the digest of what a name of a workflow means.
fn signature(found: &Named) -> Signature {
    match found {
        // The digest that the file states is a claim of the file.
        Named::Machine(saved) => Signature::of(&saved.definition),
        Named::Function(workflow) => Signature::of_text(workflow.text()),
        // What a service does is its own affair; which service it is can be seen.
        Named::Remote(tool) => Signature::of_text(&format!("{} {:?}", tool.name, tool.remote)),
    }
}

fn signature_of(declared: &Declared) -> Signature {
    Signature::of(&serde_json::to_value(&declared.node).unwrap_or_default())
}

/// The names that definitions refer to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct References {
    workflows: BTreeSet<String>,
    nodes: BTreeSet<String>,
    /// A name of a workflow is computed.
    any_workflow: bool,
    /// A name of a node is computed.
    any_node: bool,
    /// The names of definitions that stand in others: a run may save them.
    inner: BTreeSet<String>,
}

impl References {
    /// Returns those of a machine, and of the machines that stand in it.
    pub(super) fn of_machine(document: &Value) -> Self {
        let mut references = Self::default();
        references.add_machine(document);
        references
    }

    /// Returns those of the functions in a file, and of the functions among these declarations of nodes.
    pub(super) fn of_functions(text: &str, nodes: &[Value]) -> Self {
        let mut references = Self::default();
        references.add_functions(text);
        nodes.iter().filter_map(|node| node["source"].as_str()).for_each(|source| references.add_functions(source));
        references
    }

    /// Whether there is a name that was not looked up.
    fn is_open(&self) -> bool {
        self.any_workflow || self.any_node || !self.workflows.is_empty() || !self.nodes.is_empty()
    }

    fn add_machine(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    let (names, any) = match key.as_str() {
                        "workflow_name" => (&mut self.workflows, &mut self.any_workflow),
                        "node_id" | "graph_id" => (&mut self.nodes, &mut self.any_node),
                        "workflow_definition" => {
                            self.inner.extend(value["name"].as_str().map(str::to_owned));
                            self.add_machine(value);
                            continue;
                        }
                        _ => {
                            self.add_machine(value);
                            continue;
                        }
                    };
                    match value {
                        Value::String(name) if name.contains('{') => *any = true,
                        Value::String(name) => drop(names.insert(name.clone())),
                        _ => {}
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.add_machine(item)),
            _ => {}
        }
    }

    /// Adds the names after each `run_workflow(`. Anything else than one literal there is a computed name.
    fn add_functions(&mut self, text: &str) {
        let mut rest = text;
        while let Some(at) = rest.find(RUN_WORKFLOW) {
            rest = &rest[at + RUN_WORKFLOW.len()..];
            match literal_argument(rest) {
                Some(name) => drop(self.workflows.insert(name.to_owned())),
                None => self.any_workflow = true,
            }
            // The run below has the nodes of the project, whichever these are then.
            self.any_node = true;
        }
    }

    /// Adds what a node calls.
    fn follow(&mut self, declared: &Declared) {
        match &declared.node.kind {
            NodeKind::Graph(graph) => self.nodes.extend(crate::nodes::calls(graph).map(|(_, id)| id.to_owned())),
            NodeKind::Function(function) => {
                self.add_functions(function.source.as_deref().unwrap_or_default());
                self.any_node = true;
            }
            _ => {}
        }
    }
}

/// Returns the text between parentheses that begins with one literal, without escapes or placeholders, as the first argument.
fn literal_argument(call: &str) -> Option<&str> {
    let argument = call.trim_start().strip_prefix('(')?.trim_start();
    let quote = argument.chars().next().filter(|first| matches!(first, '"' | '\''))?;
    let (name, after) = argument[1..].split_once(quote)?;
    let is_plain = !name.is_empty() && !name.contains(['\\', '\n']);
    (is_plain && after.trim_start().starts_with([',', ')'])).then_some(name)
}

impl Shared {
    /// Returns the caller of a run that begins, who knows what definitions mean: now, or when the run above it began.
    ///
    /// # Errors
    /// In a whole sentence, when the disk does not answer.
    pub(super) async fn pinned(
        &self,
        caller: Arc<Caller>,
        references: impl FnOnce() -> References,
    ) -> Result<Arc<Caller>, String> {
        if caller.pins.is_some() {
            return Ok(caller);
        }
        let references = references();
        if references == References::default() {
            return Ok(caller);
        }
        let pins = Some(Arc::new(self.pins(&caller, references).await?));
        Ok(Arc::new(Caller { pins, ..(*caller).clone() }))
    }

    /// Returns what everything means now that these names lead to.
    ///
    /// # Errors
    /// In a whole sentence, when the disk does not answer.
    async fn pins(&self, caller: &Caller, mut references: References) -> Result<Pins, String> {
        let mut pins = Pins::default();
        let project = self.projects.of(caller).await?;
        while references.is_open() {
            if std::mem::take(&mut references.any_workflow) {
                let all = self.workflows.names(caller).await;
                references.workflows.extend(all.into_iter().chain(self.remotes.tool_names()));
            }
            let mut names: Vec<String> = std::mem::take(&mut references.workflows).into_iter().collect();
            names.retain(|name| !pins.workflows.contains_key(name));
            let found = self.meanings_of(caller, names.clone()).await?;
            for (name, found) in names.into_iter().zip(found) {
                match &found {
                    Ok(Named::Machine(saved)) => references.add_machine(&saved.definition),
                    Ok(Named::Function(workflow)) => {
                        references.add_functions(workflow.text());
                        references.any_node = true;
                    }
                    Ok(Named::Remote(_)) | Err(_) => {}
                }
                pins.workflows.insert(name, found.as_ref().ok().map(signature));
            }
            if std::mem::take(&mut references.any_node) {
                references.nodes.extend(project.nodes.keys().cloned());
            }
            for id in std::mem::take(&mut references.nodes) {
                let declared = project.nodes.get(&id);
                pins.nodes.entry(id).or_insert_with(|| {
                    declared.into_iter().for_each(|declared| references.follow(declared));
                    declared.map(signature_of)
                });
            }
        }
        // One that stands in a definition is known by that one, and may be saved before it is used by its name.
        pins.workflows.retain(|name, meaning| meaning.is_some() || !references.inner.contains(name));
        Ok(pins)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set<'n>(names: impl IntoIterator<Item = &'n str>) -> BTreeSet<String> {
        names.into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn a_machine_refers_to_what_its_states_and_those_of_inner_machines_name() {
        let document = json!({"states": {
            "one": {"action": {"tool": "run_workflow", "params": {"workflow_name": "deploy"}}},
            "two": {"action": {"tool": "run_node", "params": {"node_id": "build"}}},
            "three": {"action": {"tool": "run_workflow", "params": {"workflow_definition": {"name": "inner", "states": {
                "four": {"action": {"tool": "run_graph", "params": {"graph_id": "all"}}}}}}}},
        }});
        let References { workflows, nodes, any_workflow, any_node, inner } = References::of_machine(&document);
        assert_eq!((workflows, nodes, inner), (set(["deploy"]), set(["build", "all"]), set(["inner"])));
        assert!(!any_workflow && !any_node);
        let computed = json!({"params": {"workflow_name": "deploy_{where}", "node_id": "{node}"}});
        let References { workflows, any_workflow, any_node, .. } = References::of_machine(&computed);
        assert!(workflows.is_empty() && any_workflow && any_node);
    }

    #[test]
    fn a_function_refers_to_literals_and_anything_else_is_computed() {
        let literal = References::of_functions("await ctx.run_workflow( 'a' , 1)\nawait ctx.run_workflow(\"b\")", &[]);
        assert_eq!((literal.workflows, literal.any_workflow), (set(["a", "b"]), false));
        for computed in [
            "ctx.run_workflow(name)",
            "ctx.run_workflow('a' + suffix)",
            "ctx.run_workflow(f'a{x}')",
            "ctx.run_workflow(id='a')",
            "go = ctx.run_workflow",
            "ctx.run_workflow('a' 'b')",
            "ctx.run_workflow('\\x61')",
            "ctx.run_workflow('''a''')",
        ] {
            assert!(References::of_functions(computed, &[]).any_workflow, "{computed}");
        }
        let node = json!({"id": "n", "type": "function", "source": "ctx.run_workflow('c')"});
        assert_eq!(References::of_functions("", &[node]).workflows, set(["c"]));
        assert_eq!(References::of_functions("await ctx.run('node')", &[]), References::default());
    }
}
