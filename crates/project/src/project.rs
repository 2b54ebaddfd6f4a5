//! The declarations of a project: nodes, graphs, and workflows that are functions.
//!
//! Nodes and graphs are in `steplatch.toml` (TOML 1.0, <https://toml.io/en/v1.0.0>) or in `steplatch.json` next to it:
//! `[nodes.NAME]` and `[graphs.NAME]`, with the keys of a node, and `[services.NAME]`. The id is the name instead of a key. Loaded files in
//! Python syntax may declare nodes, graphs and workflows. The project's own declarations hide declarations with the
//! same name in the user's library. An invalid declaration is reported with its reason, and hides no other declaration.
//! This module does no I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};
use steplatch_nodes::{Node, NodeKind};
use steplatch_python_api::Declaration;
use steplatch_supervisor::ServiceDeclaration;
use steplatch_workflow::suggestion_or_known;

use super::{nesting, python};
use crate::error::{DeclarationError, DocumentError};
use crate::functions::{FunctionLibrary, LoadedFile};
use crate::text_file::FileReadError;

/// Names of the files that declare nodes and graphs.
pub(super) const DECLARATION_FILES: [&str; 2] = ["steplatch.toml", "steplatch.json"];

/// Maximum number of declarations in one file.
const MAX_DECLARATIONS: usize = 2000;

/// Tables of a declaration file, in reading order.
const TABLES: [&str; 3] = ["nodes", "graphs", "services"];

/// The declarations of a project.
#[derive(Debug)]
pub struct Project {
    /// The working directory of its nodes.
    pub directory: PathBuf,
    /// The files with declarations.
    pub(super) files: Vec<PathBuf>,
    /// Nodes and graphs, by their ids.
    pub nodes: BTreeMap<String, NodeDeclaration>,
    /// Services, by their names.
    pub services: BTreeMap<String, ServiceDeclaration>,
    workflows: BTreeMap<String, FunctionWorkflow>,
    /// The loaded files in Python syntax.
    loaded: Vec<Arc<LoadedFile>>,
    pub(crate) broken: Vec<InvalidDeclaration>,
}

/// A workflow that is a function.
#[derive(Debug, Clone)]
pub struct FunctionWorkflow {
    /// Callers' name for the workflow.
    pub id: String,
    /// Purpose of the workflow.
    pub(crate) description: Option<String>,
    /// Line of the declaration in its file, counted from 1.
    pub(crate) line: Option<u32>,
    /// The library that contains its file.
    pub library: PathBuf,
    /// The file.
    pub loaded: Arc<LoadedFile>,
    declared: Arc<[Declaration]>,
}

impl FunctionWorkflow {
    /// Returns the name of its file in errors.
    pub fn file(&self) -> String {
        format!("{}.py", self.loaded.name)
    }

    /// Returns the source text of its file.
    pub fn text(&self) -> &str {
        &self.loaded.text
    }

    /// Returns everything that the file declares, in the order of the file.
    pub fn declared(&self) -> &[Declaration] {
        &self.declared
    }
}

/// A declared node.
#[derive(Debug)]
pub struct NodeDeclaration {
    /// The node.
    pub node: Node,
    /// The file of the declaration; `None` for the built-in node.
    pub(crate) file: Option<PathBuf>,
}

/// An unusable declaration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidDeclaration {
    /// The declared name; `None` for a problem of the whole file.
    pub(crate) name: Option<String>,
    pub(crate) file: PathBuf,
    /// The problems, one per line.
    pub(crate) reason: String,
}

/// The owner of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IdOwner<'p> {
    /// `node`, `graph` or `workflow`.
    pub(crate) kind: &'static str,
    /// The file of the declaration; `None` for the built-in node.
    pub(crate) file: Option<&'p Path>,
}

impl IdOwner<'_> {
    /// Returns the error for another declaration with the same id.
    pub(crate) fn conflict_message(&self, id: &str) -> String {
        let location = match self.file {
            Some(file) => format!("in {}", file.display()),
            None => "which is built in".to_owned(),
        };
        format!("ID '{id}' conflicts with existing {}, {location}", self.kind)
    }
}

impl Project {
    /// Returns the kind of the node `id`, if there is one.
    pub fn kind(&self, id: &str) -> Option<&NodeKind> {
        self.nodes.get(id).map(|declared| &declared.node.kind)
    }

    /// Parses the declarations of a project. `files` are the declaration files, each with its text or a read error.
    /// `libraries` have the loaded files: the project's library comes first, then the user's own.
    pub(crate) fn from_files(
        directory: PathBuf,
        files: Vec<(PathBuf, Result<String, FileReadError>)>,
        libraries: &[Arc<FunctionLibrary>],
    ) -> Self {
        let identity = serde_json::json!({"id": "identity", "type": "identity", "description": "Returns its input"});
        let node = Node::parse(&identity).expect("the built-in node is valid");
        let nodes = BTreeMap::from([(node.id.to_string(), NodeDeclaration { node, file: None })]);
        let (services, workflows, broken) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let paths = files.iter().map(|(file, _)| file.clone()).collect();
        let mut project = Self { directory, files: paths, nodes, services, workflows, loaded: Vec::new(), broken };
        for (file, text) in files {
            match text.map_err(DocumentError::File).and_then(|text| parse_document(&file, &text)) {
                Ok(document) => project.read_document(&file, document),
                Err(error) => {
                    project.broken.push(InvalidDeclaration { name: None, file, reason: error.to_string() });
                }
            }
        }
        for (index, library) in libraries.iter().enumerate() {
            project.add_library(library, index == 0);
        }
        project.check_graphs();
        project
    }

    /// Returns the problems of the declaration files, each with its file.
    pub fn problems(&self) -> impl Iterator<Item = String> {
        self.broken.iter().map(|broken| format!("{}: {}", broken.file.display(), broken.reason))
    }

    /// Returns the workflow of this id, if it is a function.
    pub(crate) fn workflow(&self, id: &str) -> Option<&FunctionWorkflow> {
        self.workflows.get(id)
    }

    /// Returns all workflows that are functions, by their ids.
    pub(crate) fn workflows(&self) -> impl Iterator<Item = &FunctionWorkflow> {
        self.workflows.values()
    }

    /// Returns the loaded file at `path`.
    pub(crate) fn loaded(&self, path: &Path) -> Option<&Arc<LoadedFile>> {
        self.loaded.iter().find(|loaded| loaded.path == path)
    }

    /// Returns the owner of an id, ignoring machines.
    pub(crate) fn owner(&self, id: &str) -> Option<IdOwner<'_>> {
        if let Some(workflow) = self.workflows.get(id) {
            return Some(IdOwner { kind: "workflow", file: Some(&workflow.loaded.path) });
        }
        let declared = self.nodes.get(id)?;
        let kind = if matches!(declared.node.kind, NodeKind::Graph(_)) { "graph" } else { "node" };
        Some(IdOwner { kind, file: declared.file.as_deref() })
    }

    /// Adds the loaded files of a library. An id that is already declared elsewhere is an error in the project's
    /// library, and hides the declaration in the user's own.
    fn add_library(&mut self, library: &FunctionLibrary, is_project_library: bool) {
        let broken = library.broken.iter().cloned();
        self.broken.extend(broken.map(|(file, reason)| InvalidDeclaration { name: None, file, reason }));
        for loaded in &library.files {
            self.files.push(loaded.path.clone());
            self.loaded.push(loaded.clone());
            match &loaded.declared {
                Ok(declared) => self.add_loaded_file(library, loaded, declared, is_project_library),
                Err(reason) => {
                    self.broken.push(InvalidDeclaration {
                        name: None,
                        file: loaded.path.clone(),
                        reason: reason.clone(),
                    });
                }
            }
        }
    }

    fn add_loaded_file(
        &mut self,
        library: &FunctionLibrary,
        loaded: &Arc<LoadedFile>,
        declarations: &Arc<[Declaration]>,
        is_project_library: bool,
    ) {
        for declared in declarations.iter() {
            let id = declared.id.clone();
            let invalid =
                |reason: String| InvalidDeclaration { name: Some(id.clone()), file: loaded.path.clone(), reason };
            if let Some(owner) = self.owner(&id) {
                let is_of_same_library = owner.file.is_some_and(|file| file.parent() == Some(&*library.directory));
                if is_project_library || is_of_same_library || owner.file.is_none() {
                    let invalid = invalid(owner.conflict_message(&id));
                    self.broken.push(invalid);
                }
                continue;
            }
            match python::parse_node(declared, &format!("{}.py", loaded.name), &loaded.text) {
                Ok(Some(node)) => {
                    self.nodes.insert(id, NodeDeclaration { node, file: Some(loaded.path.clone()) });
                }
                Ok(None) => {
                    let workflow = FunctionWorkflow {
                        id: id.clone(),
                        description: declared.description.clone(),
                        line: declared.line,
                        library: library.directory.clone(),
                        loaded: loaded.clone(),
                        declared: declarations.clone(),
                    };
                    self.workflows.insert(id, workflow);
                }
                Err(error) => self.broken.push(invalid(error.to_string())),
            }
        }
    }

    /// Returns the declarations as documents with absolute directories.
    pub fn documents(&self) -> Vec<Value> {
        let document = |declared: &NodeDeclaration| {
            let mut document = serde_json::to_value(&declared.node).ok()?;
            let program = match &declared.node.kind {
                // The command runs on a remote host, with directories of that host.
                NodeKind::Bash(bash) if bash.host.is_some() => None,
                NodeKind::Bash(_) | NodeKind::Pty(_) => Some(&mut document),
                NodeKind::Mcp(_) => document.get_mut("server").filter(|server| server.get("command").is_some()),
                _ => None,
            };
            if let Some(Value::Object(fields)) = program {
                let directory = match fields.get("cwd").and_then(Value::as_str) {
                    Some(declared) => self.directory.join(declared),
                    None => self.directory.clone(),
                };
                fields.insert("cwd".to_owned(), directory.display().to_string().into());
            }
            Some(document)
        };
        self.nodes.values().filter_map(document).collect()
    }

    fn read_document(&mut self, file: &Path, document: Map<String, Value>) {
        let mut count = 0;
        let mut tables: Vec<_> = document.into_iter().collect();
        // Nodes come first, so that a node takes precedence over a graph of the same name.
        tables.sort_by_key(|(table, _)| TABLES.iter().position(|known| known == table));
        for (table, entries) in tables {
            let file_problem = |reason: String| InvalidDeclaration { name: None, file: file.to_owned(), reason };
            if !TABLES.contains(&table.as_str()) {
                let nearest = suggestion_or_known(&table, TABLES.into_iter());
                self.broken.push(file_problem(format!("unknown key '{table}'{nearest}")));
                continue;
            }
            let Value::Object(entries) = entries else {
                self.broken.push(file_problem(format!("'{table}' must hold declarations by name")));
                continue;
            };
            for (name, entry) in entries {
                count += 1;
                if count > MAX_DECLARATIONS {
                    let reason = format!(
                        "it declares more than {MAX_DECLARATIONS} nodes; '{name}' and those after it are ignored"
                    );
                    return self.broken.push(file_problem(reason));
                }
                if table == "services" {
                    match ServiceDeclaration::parse(&name, &entry) {
                        Ok(_) if self.services.contains_key(&name) => {
                            self.broken.push(file_problem(format!("service '{name}' is declared in both files")));
                        }
                        Ok(service) => drop(self.services.insert(name, service)),
                        // A node of this name is usable.
                        Err(error) => self.broken.push(file_problem(format!("service '{name}': {error}"))),
                    }
                    continue;
                }
                match self.parse_entry(&table, &name, entry) {
                    Ok(node) => {
                        self.nodes.insert(name, NodeDeclaration { node, file: Some(file.to_owned()) });
                    }
                    Err(error) => {
                        let reason = error.to_string();
                        self.broken.push(InvalidDeclaration { name: Some(name), file: file.to_owned(), reason });
                    }
                }
            }
        }
    }

    fn parse_entry(&self, table: &str, name: &str, entry: Value) -> Result<Node, DeclarationError> {
        if let Some(existing) = self.nodes.get(name) {
            let kind = if matches!(existing.node.kind, NodeKind::Graph(_)) { "graph" } else { "node" };
            return Err(DeclarationError::Conflict { id: name.to_owned(), kind });
        }
        let Value::Object(mut fields) = entry else { return Err(DeclarationError::NotObject) };
        if table == "graphs" {
            let kind = fields.entry("type").or_insert_with(|| "graph".into());
            if kind != "graph" {
                return Err(DeclarationError::NotGraph { kind: kind.clone() });
            }
        }
        let id = fields.entry("id").or_insert_with(|| name.into());
        if id != name {
            return Err(DeclarationError::OtherId { name: name.to_owned(), id: id.clone() });
        }
        Ok(Node::parse(&Value::Object(fields))?)
    }

    /// Rejects the graphs that call unusable nodes, or nest too deeply or in a cycle.
    fn check_graphs(&mut self) {
        loop {
            let unusable: BTreeSet<&str> = self.broken.iter().filter_map(|broken| broken.name.as_deref()).collect();
            let known_names: Vec<&str> =
                self.nodes.keys().map(String::as_str).chain(unusable.iter().copied()).collect();
            let mut invalid: BTreeMap<String, Vec<String>> = BTreeMap::new();
            for (name, declared) in &self.nodes {
                let NodeKind::Graph(graph) = &declared.node.kind else { continue };
                let mut problems: Vec<String> =
                    graph.check_nodes(&known_names).iter().map(ToString::to_string).collect();
                for (index, called) in nesting::called_nodes(graph) {
                    if unusable.contains(called) && !self.nodes.contains_key(called) {
                        let step = &graph.steps()[index].id;
                        problems
                            .push(format!("/steps/{index}: step '{step}' calls '{called}', which is itself unusable"));
                    }
                }
                if !problems.is_empty() {
                    invalid.insert(name.clone(), problems);
                }
            }
            if invalid.is_empty() {
                break;
            }
            for (name, problems) in invalid {
                self.reject_graph(name, problems.join("\n"));
            }
        }
        for (name, reason) in nesting::nesting_errors(&self.nodes) {
            self.reject_graph(name, reason);
        }
    }

    fn reject_graph(&mut self, name: String, reason: String) {
        let file = self.nodes.remove(&name).and_then(|declared| declared.file).unwrap_or_default();
        self.broken.push(InvalidDeclaration { name: Some(name), file, reason });
    }
}

/// Parses a file into its tables.
fn parse_document(file: &Path, text: &str) -> Result<Map<String, Value>, DocumentError> {
    let value = if file.extension().is_some_and(|extension| extension == "toml") {
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| toml_error(&error, text))?;
        let table = toml::Value::Table(table);
        if let Some(pointer) = non_finite_number(&table) {
            // JSON has no such numbers, so they would be treated as omitted.
            let message = format!("{pointer}: 'nan' and 'inf' are not supported");
            return Err(DocumentError::Toml { message, position: None });
        }
        table.try_into().map_err(DocumentError::TomlValue)?
    } else {
        serde_json::from_str(text).map_err(DocumentError::Json)?
    };
    match value {
        Value::Object(tables) => Ok(tables),
        _ => Err(DocumentError::NotTables),
    }
}

/// Returns the JSON pointer of the first number that is not finite.
fn non_finite_number(value: &toml::Value) -> Option<String> {
    let below = |key: &dyn std::fmt::Display, value| Some(format!("/{key}{}", non_finite_number(value)?));
    match value {
        toml::Value::Float(number) if !number.is_finite() => Some(String::new()),
        toml::Value::Table(table) => table.iter().find_map(|(key, value)| below(key, value)),
        toml::Value::Array(values) => values.iter().enumerate().find_map(|(index, value)| below(&index, value)),
        _ => None,
    }
}

fn toml_error(error: &toml::de::Error, text: &str) -> DocumentError {
    let preceding_text = error.span().and_then(|span| text.get(..span.start));
    let position = preceding_text.map(|preceding_text| {
        let column = preceding_text.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        (preceding_text.matches('\n').count() + 1, column)
    });
    DocumentError::Toml { message: error.message().to_owned(), position }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;
    use steplatch_library::Signature;
    use steplatch_python_api::Kind;

    use super::*;

    fn project(files: &[(&str, &str)]) -> Project {
        let files = files.iter().map(|(name, text)| (PathBuf::from(name), Ok((*text).to_owned()))).collect();
        Project::from_files("/p".into(), files, &[])
    }

    fn declaration(id: &str, kind: Kind, settings: Value) -> Declaration {
        let function = matches!(kind, Kind::Workflow | Kind::Function).then(|| format!("{id}_fn"));
        let settings = settings.as_object().cloned().unwrap_or_default();
        Declaration {
            id: id.to_owned(),
            kind,
            function,
            description: None,
            metadata: Value::Null,
            settings,
            line: None,
        }
    }

    fn loaded(directory: &str, name: &str, declared: Result<Vec<Declaration>, &str>) -> Arc<LoadedFile> {
        let text = format!("# {name}");
        Arc::new(LoadedFile {
            name: name.parse().expect("the name is valid"),
            path: format!("{directory}/{name}.py").into(),
            hash: Signature::of_text(&text),
            text: text.into(),
            declared: declared.map(Into::into).map_err(str::to_owned),
            original: None,
            note: None,
        })
    }

    #[test]
    fn loaded_and_declared_ids_are_combined_without_conflicts() {
        let bash = |id: &str| declaration(id, Kind::Bash, json!({"command": "ls"}));
        let workflow = |id: &str| declaration(id, Kind::Workflow, Value::Null);
        let steps = |node: &str| json!({"steps": [{"id": "one", "node": node}]});
        let library = |directory: &str, files| {
            Arc::new(FunctionLibrary { directory: directory.into(), files, broken: Vec::new() })
        };
        let project_library = library(
            "/p/l",
            vec![
                loaded("/p/l", "a", Ok(vec![workflow("notes"), bash("log"), bash("list"), bash("identity")])),
                loaded("/p/l", "b", Err("SyntaxError: no")),
                loaded(
                    "/p/l",
                    "c",
                    Ok(vec![
                        workflow("list"),
                        bash("notes"),
                        declaration("shout", Kind::Function, Value::Null),
                        declaration("bad", Kind::Bash, json!({"comand": "ls"})),
                        declaration("both", Kind::Graph, steps("log")),
                        declaration("none", Kind::Graph, steps("bad")),
                    ]),
                ),
            ],
        );
        let own_library =
            library("/own", vec![loaded("/own", "a", Ok(vec![workflow("notes"), workflow("mine"), bash("log")]))]);
        let toml = ("steplatch.toml".into(), Ok("[nodes.log]\ntype = \"bash\"\ncommand = \"git log\"".to_owned()));
        let project = Project::from_files("/p".into(), vec![toml], &[project_library, own_library]);
        expect![[r#"
            + both
            + identity
            + list
            + log
            + shout
            - log in /p/l/a.py: ID 'log' conflicts with existing node, in steplatch.toml
            - identity in /p/l/a.py: ID 'identity' conflicts with existing node, which is built in
            - (file) in /p/l/b.py: SyntaxError: no
            - list in /p/l/c.py: ID 'list' conflicts with existing node, in /p/l/a.py
            - notes in /p/l/c.py: ID 'notes' conflicts with existing workflow, in /p/l/a.py
            - bad in /p/l/c.py: /comand: unknown key 'comand' in a bash node, did you mean 'command'?
            - none in /p/l/c.py: /steps/0: step 'one' calls 'bad', which is itself unusable"#]]
        .assert_eq(&summary(&project));
        let files = |id: &str| project.workflow(id).map(|found| found.loaded.path.display().to_string());
        assert_eq!(files("notes").as_deref(), Some("/p/l/a.py"));
        assert_eq!(files("mine").as_deref(), Some("/own/a.py"));
        assert_eq!(files("list"), None);
        let NodeKind::Function(shout) = &project.nodes["shout"].node.kind else { panic!("a function") };
        let function = (shout.function.as_str(), shout.source.as_deref(), shout.file.as_deref());
        assert_eq!(function, ("shout_fn", Some("# c"), Some("c.py")));
    }

    fn summary(project: &Project) -> String {
        let mut lines: Vec<String> = project.nodes.keys().map(|name| format!("+ {name}")).collect();
        lines.extend(project.broken.iter().map(|InvalidDeclaration { name, file, reason }| {
            format!("- {} in {}: {reason}", name.as_deref().unwrap_or("(file)"), file.display())
        }));
        lines.join("\n")
    }

    #[test]
    fn invalid_declaration_does_not_hide_other_nodes() {
        let toml = r#"
            [nodes.log]
            type = "bash"
            command = "git log {input|sh}"
            timeout = 5
            [nodes.bad]
            type = "bash"
            comand = "ls"
            [nodes.identity]
            type = "bash"
            [nodes."1st"]
            type = "identity"
            [nodes.other]
            id = "another"
            type = "identity"
            [node]
            [graphs.twice]
            steps = [{id = "a", node = "log"}, {id = "b", node = "log", depends_on = ["a"]}]
            [graphs.log]
            steps = [{id = "a", node = "log"}]
            [graphs.not]
            type = "bash"
        "#;
        let json =
            r#"{"nodes": {"same": {"type": "identity"}, "twice": {"type": "identity"}, "seven": 7}, "graphs": []}"#;
        expect![[r#"
            + identity
            + log
            + same
            + twice
            - (file) in steplatch.toml: unknown key 'node', did you mean 'nodes'?
            - 1st in steplatch.toml: /id: '1st' is not an id: a letter, then letters, digits, '_' or '-', 64 in all at most
            - bad in steplatch.toml: /comand: unknown key 'comand' in a bash node, did you mean 'command'?
            - identity in steplatch.toml: ID 'identity' conflicts with existing node
            - other in steplatch.toml: /id: the entry is named 'other', so its id cannot be "another"; omit the id
            - log in steplatch.toml: ID 'log' conflicts with existing node
            - not in steplatch.toml: /type: entries of 'graphs' must have type 'graph', not "bash"
            - twice in steplatch.json: ID 'twice' conflicts with existing graph
            - seven in steplatch.json: a node must be an object
            - (file) in steplatch.json: 'graphs' must hold declarations by name"#]]
        .assert_eq(&summary(&project(&[("steplatch.toml", toml), ("steplatch.json", json)])));
    }

    #[test]
    fn unparsable_file_is_reported_with_its_position() {
        let files = [("steplatch.toml", "[nodes.a]\ntype = \n"), ("steplatch.json", "{\"nodes\": {}")];
        let output = summary(&project(&files));
        assert!(output.contains("- (file) in steplatch.toml: it is not valid TOML: "), "{output}");
        assert!(output.contains(" at line 2 column 8"), "{output}");
        assert!(output.contains("- (file) in steplatch.json: it is not valid JSON: EOF while parsing"), "{output}");
        assert!(output.starts_with("+ identity\n"), "{output}");
        let output_for_infinity = summary(&project(&[("steplatch.toml", "[nodes.a]\ntype = 'bash'\ntimeout = inf\n")]));
        assert!(
            output_for_infinity.contains("/nodes/a/timeout: 'nan' and 'inf' are not supported"),
            "{output_for_infinity}"
        );
    }

    #[test]
    fn graphs_that_call_unusable_nodes_are_reported() {
        let json = r#"{
            "nodes": {"bad": {"type": "bsh"}, "good": {"type": "identity"}},
            "graphs": {
                "unknown": {"steps": [{"id": "a", "node": "goood"}]},
                "of_bad": {"steps": [{"id": "a", "node": "good"}, {"id": "b", "node": "bad"}]},
                "of_of_bad": {"steps": [{"id": "a", "node": "good", "on_error": {"policy": "fallback", "node": "of_bad"}}]},
                "one": {"steps": [{"id": "a", "node": "two"}]},
                "two": {"steps": [{"id": "a", "node": "one"}]},
                "into": {"steps": [{"id": "a", "node": "one"}]},
                "self": {"steps": [{"id": "a", "node": "self"}]},
                "fine": {"steps": [{"id": "a", "node": "good"}]},
                "nested": {"steps": [{"id": "a", "node": "fine"}]}
            }}"#;
        expect![[r#"
            + fine
            + good
            + identity
            + nested
            - bad in f.json: /type: there is no node of type 'bsh', did you mean 'bash'?
            - of_bad in f.json: /steps/1: step 'b' calls 'bad', which is itself unusable
            - unknown in f.json: /steps/0/node: step 'a' calls node 'goood', which does not exist, did you mean 'good'?
            - of_of_bad in f.json: /steps/0: step 'a' calls 'of_bad', which is itself unusable
            - into in f.json: it calls graphs that form a cycle: one → two → one
            - one in f.json: it calls graphs that form a cycle: one → two → one
            - self in f.json: it calls graphs that form a cycle: self → self
            - two in f.json: it calls graphs that form a cycle: two → one → two"#]]
        .assert_eq(&summary(&project(&[("f.json", json)])));
    }

    #[test]
    fn graph_nesting_depth_is_limited() {
        let mut graphs: Vec<String> = vec![r#""g0": {"steps": [{"id": "a", "node": "identity"}]}"#.to_owned()];
        graphs.extend((1..20).map(|at| format!(r#""g{at}": {{"steps": [{{"id": "a", "node": "g{}"}}]}}"#, at - 1)));
        let project = project(&[("f.json", &format!(r#"{{"graphs": {{{}}}}}"#, graphs.join(",")))]);
        assert!(project.nodes.contains_key("g15") && !project.nodes.contains_key("g16"));
        assert_eq!(project.broken[0].reason, "it nests graphs 17 levels deep; the limit is 16");
        assert_eq!(project.broken.len(), 4);
    }
}
