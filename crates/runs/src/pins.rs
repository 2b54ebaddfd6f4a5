//! Definitions that a run refers to by name, and their digests.
//!
//! Owns the search for names in a definition, their digests ([`Pins`]) at the start of a run, and the check of a name
//! at its use.
//!
//! The search follows names transitively. A computed name (a placeholder in a machine, an expression in a function) can
//! refer to every definition that the caller sees, so the run then pins all of them. Text for other programs, such as
//! scripts, is not searched.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use steplatch_access::{Caller, PinError, Pins};
use steplatch_library::Signature;
use steplatch_nodes::NodeKind;
use steplatch_project::{DiskError, NodeDeclaration, Project};
use steplatch_services::RemoteServices;
use steplatch_sessions::is_this_machine;
use steplatch_workflow::{GatelessNames, may_ask_person};

use crate::definition_source::ResolvedTarget;
use crate::engine_state::Engine;

/// A function's call that starts a run.
const RUN_WORKFLOW_CALL: &str = "run_workflow";

/// A function's call that opens a gate.
const GATE_CALL: &str = "gate";

/// The key of a host in declarations and parameters.
const HOST_WORD: &str = "host";

/// Checks that a name still refers to the same workflow.
///
/// # Errors
///
/// If the name referred to another workflow at the start of the run.
pub(super) fn check_workflow(
    pins: &Pins,
    name: &str,
    found: &ResolvedTarget,
    services: &RemoteServices,
) -> Result<(), PinError> {
    // The list of a service may arrive after the start of the run.
    let is_late = matches!(found, ResolvedTarget::Remote(_)) && pins.has_no_workflow(name);
    // A version without pinned hosts did not record the addresses of services either.
    let services = pins.hosts.is_some().then_some(services);
    if is_late { Ok(()) } else { pins.check_workflow(name, &target_signature(found, services)) }
}

/// Checks the node or graph of a call, and all nodes that it calls.
///
/// # Errors
///
/// If a node has changed since the start of the run.
pub(super) fn check_node(pins: &Pins, project: &Project, id: &str) -> Result<(), PinError> {
    let mut called = References::default();
    called.nodes.insert(id.to_owned());
    let mut checked = BTreeSet::new();
    while let Some(id) = called.nodes.pop_first() {
        let Some(declared) = project.nodes.get(&id).filter(|_| checked.insert(id.clone())) else { continue };
        pins.check_node(&id, &node_signature(project, declared))?;
        called.follow(declared);
        if called.any_node {
            return check_nodes(pins, project);
        }
    }
    Ok(())
}

/// Checks all nodes of a project that existed at the start of the run. A function may call only these.
///
/// # Errors
///
/// If a node has changed since then.
pub(super) fn check_nodes(pins: &Pins, project: &Project) -> Result<(), PinError> {
    let pinned = project.nodes.iter().filter(|(id, _)| pins.has_node(id));
    let check = |(id, declared): (&String, &NodeDeclaration)| pins.check_node(id, &node_signature(project, declared));
    pinned.into_iter().try_for_each(check)
}

/// Returns the nodes of a project that a run may call. A child run may call only nodes that existed at the start.
pub(super) fn callable(caller: &Caller, project: &Project) -> Vec<Value> {
    let mut documents = project.documents();
    if let Some(pins) = &caller.pins {
        documents.retain(|node| node["id"].as_str().is_some_and(|id| pins.has_node(id)));
    }
    documents
}

/// Returns the digest of the target of a workflow name.
fn target_signature(found: &ResolvedTarget, services: Option<&RemoteServices>) -> Signature {
    match found {
        // Nothing verifies the digest stated in the file.
        ResolvedTarget::Machine(saved) => Signature::of_value(&saved.definition),
        ResolvedTarget::Function(workflow) => Signature::of_text(workflow.text()),
        // The daemon cannot check the work of a service, but it can check its identity and its address.
        ResolvedTarget::Remote(tool) => {
            let address = services.and_then(|services| services.address(tool.remote.as_deref()?));
            let address = address.map(|address| format!(" {address}")).unwrap_or_default();
            Signature::of_text(&format!("{} {:?}{address}", tool.name, tool.remote))
        }
    }
}

/// Returns the digest of a node, with its working directory.
fn node_signature(project: &Project, declared: &NodeDeclaration) -> Signature {
    Signature::of_value(&serde_json::json!([project.directory, declared.node]))
}

/// The names that definitions refer to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct References {
    workflows: BTreeSet<String>,
    nodes: BTreeSet<String>,
    hosts: BTreeSet<String>,
    /// True if a name of a workflow is computed.
    any_workflow: bool,
    /// True if a name of a node is computed.
    any_node: bool,
    /// True if a name of a host is computed.
    any_host: bool,
    /// The digests of nested definitions. A run may save such a definition.
    inner: BTreeSet<Signature>,
}

impl References {
    /// Returns the references of a machine and of its nested machines.
    pub(super) fn of_machine(document: &Value) -> Self {
        let mut references = Self::default();
        references.add_machine(document);
        references
    }

    /// Returns the references of the functions in a file and in declarations of nodes.
    pub(super) fn of_functions(text: &str, nodes: &[Value]) -> Self {
        let mut references = Self::default();
        references.add_functions(text);
        nodes.iter().for_each(|node| references.add_hosts(node));
        nodes.iter().filter_map(|node| node["source"].as_str()).for_each(|source| references.add_functions(source));
        references
    }

    /// Returns whether names remain to follow.
    fn has_pending_names(&self) -> bool {
        self.any_workflow
            || self.any_node
            || self.any_host
            || [&self.workflows, &self.nodes, &self.hosts].iter().any(|names| !names.is_empty())
    }

    fn add_machine(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    let (names, is_computed) = match key.as_str() {
                        "workflow_name" => (&mut self.workflows, &mut self.any_workflow),
                        "node_id" | "graph_id" => (&mut self.nodes, &mut self.any_node),
                        "host" => (&mut self.hosts, &mut self.any_host),
                        "workflow_definition" => {
                            self.inner.insert(Signature::of_value(value));
                            self.add_machine(value);
                            continue;
                        }
                        _ => {
                            self.add_machine(value);
                            continue;
                        }
                    };
                    match value {
                        Value::String(name) if name.contains('{') => *is_computed = true,
                        Value::String(name) if !name.is_empty() => drop(names.insert(name.clone())),
                        _ => {}
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.add_machine(item)),
            _ => {}
        }
    }

    /// Adds the hosts that a document of a node names.
    fn add_hosts(&mut self, node: &Value) {
        match node {
            Value::Object(fields) => fields.iter().for_each(|(key, value)| match value {
                Value::String(name) if key == "host" && name.contains('{') => self.any_host = true,
                Value::String(name) if key == "host" => drop(self.hosts.insert(name.clone())),
                other => self.add_hosts(other),
            }),
            Value::Array(items) => items.iter().for_each(|item| self.add_hosts(item)),
            _ => {}
        }
    }

    /// Adds the names after each `run_workflow(`. An argument that is not a literal is a computed name.
    fn add_functions(&mut self, text: &str) {
        // A function that mentions hosts may name any host.
        self.any_host |= text.contains(HOST_WORD);
        let mut remaining = text;
        while let Some(start) = remaining.find(RUN_WORKFLOW_CALL) {
            remaining = &remaining[start + RUN_WORKFLOW_CALL.len()..];
            match literal_argument(remaining) {
                Some(name) => drop(self.workflows.insert(name.to_owned())),
                None => self.any_workflow = true,
            }
            // The child run may call all nodes of the project.
            self.any_node = true;
        }
    }

    /// Adds the references of a node.
    fn follow(&mut self, declared: &NodeDeclaration) {
        match &declared.node.kind {
            NodeKind::Graph(graph) => {
                self.nodes.extend(steplatch_project::called_nodes(graph).map(|(_, id)| id.to_owned()));
            }
            NodeKind::Function(function) => {
                self.add_functions(function.source.as_deref().unwrap_or_default());
                self.any_node = true;
            }
            NodeKind::Bash(bash) => self.add_host(bash.host.as_deref()),
            _ => {}
        }
    }

    /// Adds the name of a host.
    fn add_host(&mut self, name: Option<&str>) {
        match name {
            Some(name) if name.contains('{') => self.any_host = true,
            Some(name) => drop(self.hosts.insert(name.to_owned())),
            None => {}
        }
    }

    /// Adds the host of the terminal that the caller passes to a run.
    pub(super) fn with_terminal_host(mut self, machine: Option<String>) -> Self {
        self.hosts.extend(machine);
        self
    }
}

/// Returns the first argument of a call, if that argument is a literal without escapes or placeholders.
fn literal_argument(call: &str) -> Option<&str> {
    let argument = call.trim_start().strip_prefix('(')?.trim_start();
    let quote = argument.chars().next().filter(|first| matches!(first, '"' | '\''))?;
    let (name, after) = argument[1..].split_once(quote)?;
    let is_plain = !name.is_empty() && !name.contains(['\\', '\n']);
    (is_plain && after.trim_start().starts_with([',', ')'])).then_some(name)
}

/// Data of a definition that determines if its runs may ask a person.
struct FollowedDefinition {
    /// True if the definition opens a gate itself, or calls a computed name.
    may_ask: bool,
    calls: References,
}

impl FollowedDefinition {
    fn of_machine(document: &Value) -> Self {
        Self { may_ask: may_ask_person(document, &|_| true), calls: References::of_machine(document) }
    }

    fn of_functions(text: &str) -> Self {
        let mut calls = References { any_node: true, ..References::default() };
        calls.add_functions(text);
        Self { may_ask: has_word(text, GATE_CALL) || calls.any_workflow, calls }
    }

    fn of_node(declared: &NodeDeclaration) -> Self {
        let mut calls = References::default();
        calls.follow(declared);
        let may_ask = match &declared.node.kind {
            // Without `source`, the function is in the file of the declaration. That file is not read here.
            NodeKind::Function(function) => function.source.as_deref().is_none_or(|source| has_word(source, GATE_CALL)),
            _ => false,
        };
        Self { may_ask: may_ask || calls.any_workflow, calls }
    }
}

/// Returns the names of the workflows and nodes that ask no person, directly or through their calls.
fn gateless_names(
    workflows: &BTreeMap<String, FollowedDefinition>,
    nodes: &BTreeMap<String, FollowedDefinition>,
) -> GatelessNames {
    let without_gate = |followed: &BTreeMap<String, FollowedDefinition>| -> BTreeSet<String> {
        followed.iter().filter(|(_, definition)| !definition.may_ask).map(|(name, _)| name.clone()).collect()
    };
    let (mut gateless_workflows, mut gateless_nodes) = (without_gate(workflows), without_gate(nodes));
    loop {
        let previous_count = gateless_workflows.len() + gateless_nodes.len();
        let all_nodes = gateless_nodes.len() == nodes.len();
        let calls_only_gateless = |definition: &FollowedDefinition| {
            definition.calls.workflows.is_subset(&gateless_workflows)
                && definition.calls.nodes.is_subset(&gateless_nodes)
                && (!definition.calls.any_node || all_nodes)
        };
        let retain_gateless =
            |names: &BTreeSet<String>, followed: &BTreeMap<String, FollowedDefinition>| -> BTreeSet<String> {
                names.iter().filter(|name| followed.get(*name).is_some_and(calls_only_gateless)).cloned().collect()
            };
        (gateless_workflows, gateless_nodes) =
            (retain_gateless(&gateless_workflows, workflows), retain_gateless(&gateless_nodes, nodes));
        if gateless_workflows.len() + gateless_nodes.len() == previous_count {
            return GatelessNames { workflows: gateless_workflows, nodes: gateless_nodes };
        }
    }
}

/// Returns whether `text` contains `word` as a whole word.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    text.match_indices(word)
        .any(|(start, _)| !text[..start].ends_with(is_part) && !text[start + word.len()..].starts_with(is_part))
}

impl Engine {
    /// Returns the caller of a new run with its pins: the pins of the root run, or new pins.
    ///
    /// # Errors
    ///
    /// If reading the disk fails.
    pub(super) async fn pinned(
        &self,
        caller: Arc<Caller>,
        references: impl FnOnce() -> References,
    ) -> Result<Arc<Caller>, DiskError> {
        if caller.pins.is_some() {
            return Ok(caller);
        }
        let pins = Some(Arc::new(self.pins(&caller, references()).await?));
        Ok(Arc::new(Caller { pins, ..(*caller).clone() }))
    }

    /// Returns the current pins of these names, followed transitively.
    ///
    /// # Errors
    ///
    /// If reading the disk fails.
    async fn pins(&self, caller: &Caller, mut references: References) -> Result<Pins, DiskError> {
        let mut pins = Pins { hosts: Some(BTreeMap::new()), ..Pins::default() };
        if !references.has_pending_names() {
            return Ok(pins);
        }
        let project = self.projects.find_project(caller).await?;
        let (mut workflows, mut nodes) = (BTreeMap::new(), BTreeMap::new());
        while references.has_pending_names() {
            if std::mem::take(&mut references.any_workflow) {
                let all = self.workflows.names(caller).await;
                references.workflows.extend(all.into_iter().chain(self.remotes.tool_names()));
            }
            let mut names: Vec<String> = std::mem::take(&mut references.workflows).into_iter().collect();
            names.retain(|name| !pins.workflows.contains_key(name));
            let found = self.resolve_names(caller, names.clone()).await?;
            for (name, found) in names.into_iter().zip(found) {
                match &found {
                    Ok(ResolvedTarget::Machine(saved)) => {
                        references.add_machine(&saved.definition);
                        workflows.insert(name.clone(), FollowedDefinition::of_machine(&saved.definition));
                    }
                    Ok(ResolvedTarget::Function(workflow)) => {
                        references.add_functions(workflow.text());
                        references.any_node = true;
                        workflows.insert(name.clone(), FollowedDefinition::of_functions(workflow.text()));
                    }
                    // The daemon does not know the questions of a service.
                    Ok(ResolvedTarget::Remote(_)) | Err(_) => {}
                }
                let target = found.as_ref().ok().map(|found| target_signature(found, Some(&self.remotes)));
                pins.workflows.insert(name, target);
            }
            if std::mem::take(&mut references.any_host) {
                references.hosts.extend(self.sessions.host_names());
            }
            for host in std::mem::take(&mut references.hosts) {
                let hosts = pins.hosts.get_or_insert_default();
                if !hosts.contains_key(&host) && !is_this_machine(&host) {
                    hosts.insert(host.clone(), self.sessions.host_pin(&host).await);
                }
            }
            if std::mem::take(&mut references.any_node) {
                references.nodes.extend(project.nodes.keys().cloned());
            }
            for id in std::mem::take(&mut references.nodes) {
                let declared = project.nodes.get(&id);
                if let Some(declared) = declared {
                    nodes.entry(id.clone()).or_insert_with(|| FollowedDefinition::of_node(declared));
                }
                pins.nodes.entry(id).or_insert_with(|| {
                    declared.into_iter().for_each(|declared| references.follow(declared));
                    declared.map(|declared| node_signature(&project, declared))
                });
            }
        }
        pins.inner = references.inner;
        pins.gateless = gateless_names(&workflows, &nodes);
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
    fn names_that_may_lead_to_a_gate_are_not_gateless() {
        let run = |params: Value| json!({"states": {"s": {"action": {"tool": "run_workflow", "params": params}}}});
        let calls = |name: &str| run(json!({"workflow_name": name}));
        let may_ask = json!({"states": {"s": {"action": {"tool": "gate", "params": {"prompt": "Go?"}}}}});
        let machines = [
            ("asks", may_ask.clone()),
            ("deep", calls("middle")),
            ("middle", run(json!({"workflow_definition": calls("asks")}))),
            ("computed", calls("{name}")),
            ("unknown", calls("elsewhere")),
            ("agent", json!({"states": {"s": {"action": {"tool": "gate", "params": {"answered_by": "agent"}}}}})),
            ("round", calls("trip")),
            ("trip", calls("round")),
            ("calm", calls("agent")),
            ("by function", calls("asking")),
            ("by quiet function", calls("aggregating")),
            ("node", json!({"states": {"s": {"action": {"tool": "run_node", "params": {"node_id": "missing"}}}}})),
        ];
        let mut workflows: BTreeMap<String, FollowedDefinition> = machines
            .iter()
            .map(|(name, document)| ((*name).to_owned(), FollowedDefinition::of_machine(document)))
            .collect();
        let functions = [("asking", "await ctx.gate('Go?')"), ("aggregating", "investigate(ctx.aggregate())")];
        workflows.extend(functions.map(|(name, text)| (name.to_owned(), FollowedDefinition::of_functions(text))));
        let found = gateless_names(&workflows, &BTreeMap::new());
        assert_eq!(found.workflows, set(["agent", "round", "trip", "calm", "aggregating", "by quiet function"]));
        let asking = BTreeMap::from([("n".to_owned(), FollowedDefinition::of_functions("ctx.gate()"))]);
        let found = gateless_names(&workflows, &asking);
        let expected = GatelessNames { workflows: set(["agent", "round", "trip", "calm"]), nodes: set([]) };
        assert_eq!(found, expected, "a function may call a node that asks");
    }

    #[test]
    fn machine_refers_to_names_of_its_and_inner_states() {
        let document = json!({"states": {
            "one": {"action": {"tool": "run_workflow", "params": {"workflow_name": "deploy"}}},
            "two": {"action": {"tool": "run_node", "params": {"node_id": "build"}}},
            "three": {"action": {"tool": "run_workflow", "params": {"workflow_definition": {"name": "inner", "states": {
                "four": {"action": {"tool": "run_graph", "params": {"graph_id": "all"}}}}}}}},
        }});
        let References { workflows, nodes, any_workflow, any_node, inner, .. } = References::of_machine(&document);
        assert_eq!(
            (workflows, nodes, inner),
            (
                set(["deploy"]),
                set(["build", "all"]),
                [Signature::of_value(&document["states"]["three"]["action"]["params"]["workflow_definition"])].into()
            )
        );
        assert!(!any_workflow && !any_node);
        let computed = json!({"params": {"workflow_name": "deploy_{where}", "node_id": "{node}"}});
        let References { workflows, any_workflow, any_node, .. } = References::of_machine(&computed);
        assert!(workflows.is_empty() && any_workflow && any_node);
    }

    #[test]
    fn hosts_are_found_everywhere_in_a_definition() {
        let document = json!({"states": {
            "one": {"action": {"tool": "open_terminal", "params": {"host": "build"}}},
            "two": {"for_each": ["a"], "action": {"tool": "put_file", "params": {"host": "files", "path": "x"}}},
            "three": {"action": {"tool": "parallel", "params": {"branches": [
                {"tool": "run_command", "params": {"host": "branch", "command": "true"}}]}}},
            "four": {"action": {"tool": "run_workflow", "params": {"workflow_definition": {"states": {
                "five": {"action": {"tool": "get_file", "params": {"host": "nested", "path": "x"}}}}}}}},
        }});
        let found = References::of_machine(&document);
        assert_eq!((found.hosts, found.any_host), (set(["build", "files", "branch", "nested"]), false));
        let computed = json!({"params": {"host": "{where}"}});
        assert!(References::of_machine(&computed).any_host);
        let node = json!({"id": "n", "type": "bash", "host": "of node", "command": "true"});
        let functions = References::of_functions("await ctx.run('n')", &[node]);
        assert_eq!((functions.hosts, functions.any_host), (set(["of node"]), false));
        assert!(References::of_functions("bash(id='n', host=where)", &[]).any_host);
    }

    #[test]
    fn non_literal_arguments_of_a_function_are_computed_names() {
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
