//! Handlers of the verbs about saved workflows.

use async_recursion::async_recursion as boxed;
use serde_json::{Map, Value};
use steplatch_access::{Caller, MASK};
use steplatch_diagram::mermaid;
use steplatch_library::{Author, CreateError, Entry, Library, LookupError, Metadata, Status, Stored};
use steplatch_protocol::{
    BrokenWorkflow, ContractVariable, CreateWorkflow, CreateWorkflowReply, DeleteWorkflow, DeleteWorkflowReply,
    DescribeWorkflow, DescribeWorkflowReply, DrawWorkflowReply, EditWorkflow, EditWorkflowReply, GetWorkflowSchema,
    GetWorkflowSchemaReply, ListWorkflows, ListWorkflowsReply, WorkflowInfo, WorkflowMetadata, WorkflowTopic,
};
use steplatch_sessions::TerminalTools;
use steplatch_workflow::{
    Contract, Definition, Problem, SEMANTICS_VERSION, Severity, contract_variables, documentation, schema,
    workflow_signature,
};

use super::directories::{LibraryPaths, LibrarySearch};
use super::{function_verbs, versions};
use crate::error::{DeleteError, FindError, with_causes};
use crate::guide;
use crate::project::Project;
use crate::workflows::{ResolvedWorkflow, Workflows, look_up, not_found};

/// Guide for authors, also a part of the documentation.
const GUIDE: &str = include_str!("../../../docs/machines_reference.md");

/// An example machine that takes a value, loops, and returns a value.
const EXAMPLE: &str = include_str!("../../../examples/count.json");

/// Maximum number of reported problems of one definition.
const MAX_PROBLEMS: usize = 100;

/// Maximum number of broken files that a list names.
const MAX_BROKEN_FILES: usize = 50;

/// Maximum length of the description of a variable in a list, in characters.
const MAX_VARIABLE_DESCRIPTION_CHARS: usize = 100;

/// Maximum length of a description in a list, in characters. Valid descriptions are not longer.
pub(super) const MAX_DESCRIPTION_CHARS: usize = 500;

impl Workflows {
    /// Saves a definition for `caller`, if it is valid.
    #[boxed]
    pub async fn create(&self, caller: &Caller, verb: CreateWorkflow) -> CreateWorkflowReply {
        let refusal = |error: String| CreateWorkflowReply { error: Some(error), ..CreateWorkflowReply::default() };
        let project = match self.projects().find_project(caller).await {
            Ok(project) => project,
            Err(error) => return refusal(error.to_string()),
        };
        let library_search = LibrarySearch::for_caller(caller);
        let author = author(caller, verb.reason.clone()).await;
        let created =
            self.disk.run_write(move || create(&library_search.directories(), &project, &verb, &author)).await;
        created.unwrap_or_else(|error| refusal(error.to_string()))
    }

    /// Saves an edited definition for `caller`, if the definition is valid and its base is still the saved definition.
    #[boxed]
    pub async fn edit(&self, caller: &Caller, verb: EditWorkflow) -> EditWorkflowReply {
        let refusal = |error: String| EditWorkflowReply { error: Some(error), ..EditWorkflowReply::default() };
        let project = match self.projects().find_project(caller).await {
            Ok(project) => project,
            Err(error) => return refusal(error.to_string()),
        };
        let library_search = LibrarySearch::for_caller(caller);
        let author = author(caller, verb.reason.clone()).await;
        let edited = self.disk.run_write(move || edit(&library_search.directories(), &project, verb, &author)).await;
        edited.unwrap_or_else(|error| refusal(error.to_string()))
    }

    /// Returns the guide to writing workflows: one topic, or everything about machines.
    pub fn schema(&self, verb: &GetWorkflowSchema) -> GetWorkflowSchemaReply {
        let json_schema = schema(&TerminalTools);
        let actions = json_schema.pointer("/$defs/Action/oneOf").and_then(Value::as_array);
        let tool = |action: &Value| Some(action.pointer("/properties/tool/const")?.as_str()?.to_owned());
        let available_tools = actions.into_iter().flatten().filter_map(tool).collect();
        let schema_version = SEMANTICS_VERSION.to_string();
        match verb.topic {
            None => GetWorkflowSchemaReply {
                documentation: format!(
                    "{GUIDE}\n## An example\n\n```json\n{EXAMPLE}```\n\n{}",
                    documentation(&TerminalTools).replacen("# Machines", "# Every key and every parameter", 1)
                ),
                available_tools,
                schema_version,
                json_schema,
            },
            Some(topic) => GetWorkflowSchemaReply {
                documentation: guide::page(topic),
                available_tools,
                schema_version,
                json_schema: if topic == WorkflowTopic::JsonSchema { json_schema } else { Value::Object(Map::new()) },
            },
        }
    }

    /// Lists the workflows that `caller` may run by name.
    #[boxed]
    pub async fn list(&self, caller: &Caller, verb: ListWorkflows) -> ListWorkflowsReply {
        let library_search = LibrarySearch::for_caller(caller);
        let result = match self.projects().find_project(caller).await {
            Ok(project) => self.disk.run_read(move || list(&library_search.directories(), &project, &verb)).await,
            Err(error) => Err(error),
        };
        result.unwrap_or_else(|error| ListWorkflowsReply {
            error: Some(error.to_string()),
            ..ListWorkflowsReply::default()
        })
    }

    /// Returns the full description of a saved workflow.
    #[boxed]
    pub async fn describe(&self, caller: &Caller, verb: DescribeWorkflow) -> DescribeWorkflowReply {
        let library_search = LibrarySearch::for_caller(caller);
        let described = async {
            let project = self.projects().find_project(caller).await?;
            self.disk.run_read(move || describe(&library_search.directories(), &project, &verb.name)).await?
        };
        described.await.unwrap_or_else(|error: FindError| DescribeWorkflowReply {
            error: Some(error.to_string()),
            ..DescribeWorkflowReply::default()
        })
    }

    /// Draws a saved state machine.
    #[boxed]
    pub async fn draw(&self, caller: &Caller, name: String) -> DrawWorkflowReply {
        let refusal = |error: String| DrawWorkflowReply { error: Some(error), ..DrawWorkflowReply::default() };
        let described = self.describe(caller, DescribeWorkflow { name }).await;
        let Some(document) = described.definition else {
            return refusal(described.error.unwrap_or_else(|| "Only state machines can be drawn".to_owned()));
        };
        match Definition::parse(&document, &TerminalTools) {
            Ok(definition) => DrawWorkflowReply {
                success: true,
                svg: Some(steplatch_diagram::svg(&definition)),
                collapsed_svg: steplatch_diagram::collapsed_svg(&definition),
                definition: Some(document),
                error: None,
            },
            Err(problems) => refusal(format!("the definition is not valid:\n{problems}")),
        }
    }

    /// Removes a saved workflow.
    #[boxed]
    pub async fn delete(&self, caller: &Caller, verb: DeleteWorkflow) -> DeleteWorkflowReply {
        let (library_search, name) = (LibrarySearch::for_caller(caller), verb.name.clone());
        let deleted = async {
            let project = self.projects().find_project(caller).await?;
            self.disk.run_write(move || delete(&library_search.directories(), &project, &name)).await?
        };
        deleted.await.unwrap_or_else(|error: DeleteError| DeleteWorkflowReply {
            workflow_name: verb.name,
            error: Some(error.to_string()),
            ..DeleteWorkflowReply::default()
        })
    }
}

/// Returns the author of a version that is saved for `caller`.
pub(super) async fn author(caller: &Caller, reason: Option<String>) -> Author {
    Author { by: Some(caller.display_name().await), through: Some(caller.display_surface().await), reason }
}

pub(super) fn create(
    directories: &LibraryPaths,
    project: &Project,
    verb: &CreateWorkflow,
    author: &Author,
) -> CreateWorkflowReply {
    let document = &verb.workflow_definition;
    let name: Option<String> = document.get("name").and_then(Value::as_str).map(|name| name.chars().take(80).collect());
    let refusal = |error: String| CreateWorkflowReply {
        workflow_name: name.clone().unwrap_or_default(),
        error: Some(error),
        ..CreateWorkflowReply::default()
    };
    if let Some(error) = hidden_secret_error(document) {
        return refusal(error);
    }
    let mut problems: Vec<Problem> = missing_fields(document);
    match Definition::parse(document, &TerminalTools) {
        Ok(definition) => problems.extend_from_slice(definition.warnings()),
        Err(found) => problems.extend(found),
    }
    let (errors, warnings): (Vec<_>, Vec<_>) = problems.iter().partition(|problem| problem.severity == Severity::Error);
    if !errors.is_empty() {
        let validation_errors = problem_lines(&errors);
        let reason = match validation_errors.as_slice() {
            [only] => only.clone(),
            _ => format!("it has {} problems, listed in validation_errors", errors.len()),
        };
        let error = format!(
            "Workflow definition does not match current MCP tool schema. The workflow was not saved: {reason}. \
             get_workflow_schema documents how workflows are written."
        );
        return CreateWorkflowReply { validation_errors, warnings: problem_lines(&warnings), ..refusal(error) };
    }
    // A workflow of the project takes precedence over the user's own with the same name.
    let owner = name.as_deref().and_then(|name| project.owner(name));
    if let (Some(owner), Some(name)) = (owner.filter(|owner| !directories.is_in_other(owner.file)), &name) {
        return refusal(format!("The workflow was not saved: {}; choose another name", owner.conflict_message(name)));
    }
    let library = Library::open(&directories.first);
    match library.create(document, verb.overwrite_existing, author) {
        Ok(stored) => CreateWorkflowReply {
            success: true,
            workflow_name: stored.name.to_string(),
            stored_file: format!("{}.json", stored.name),
            path: Some(library.file(&stored.name).display().to_string()),
            version: stored.metadata.version,
            workflow_signature: workflow_signature(&stored.definition),
            warnings: problem_lines(&warnings),
            ..CreateWorkflowReply::default()
        },
        Err(error @ CreateError::Exists { .. }) => {
            let taken_name = name.as_deref().unwrap_or_default();
            let validation_errors = vec![format!("Workflow '{taken_name}' already exists")];
            CreateWorkflowReply { validation_errors, name_taken: true, ..refusal(error.to_string()) }
        }
        Err(error) => refusal(format!("The workflow was not saved: {}", with_causes(&error))),
    }
}

fn edit(directories: &LibraryPaths, project: &Project, verb: EditWorkflow, author: &Author) -> EditWorkflowReply {
    let refusal = |error: String| EditWorkflowReply { error: Some(error), ..EditWorkflowReply::default() };
    let EditWorkflow { name, definition, edited, .. } = verb;
    if definition["name"] != edited["name"] {
        return refusal(format!("The name stays {name}; another name would be another workflow"));
    }
    if let Some(error) = hidden_secret_error(&definition) {
        return refusal(error);
    }
    let saved = match look_up(directories, project, &name) {
        Ok(ResolvedWorkflow::Machine(_, saved)) => saved,
        Ok(ResolvedWorkflow::Function(_)) => return refusal(format!("'{name}' is a function; edit its file")),
        Err(error) => return refusal(error.to_string()),
    };
    if !is_same_json(&saved.definition, &edited) {
        return refusal(format!(
            "'{name}' was saved elsewhere in the meantime; copy your text, and edit the new version"
        ));
    }
    let create_request = CreateWorkflow { workflow_definition: definition, overwrite_existing: true, reason: None };
    let created = create(directories, project, &create_request, author);
    EditWorkflowReply {
        success: created.success,
        version: created.version,
        is_new_version: created.success && saved.metadata.version != created.version,
        validation_errors: created.validation_errors,
        warnings: created.warnings,
        error: created.error,
        ..EditWorkflowReply::default()
    }
}

/// Returns whether two values are equal for JavaScript (1.0 is 1).
fn is_same_json(first: &Value, second: &Value) -> bool {
    match (first, second) {
        (Value::Number(first), Value::Number(second)) => first.as_f64() == second.as_f64(),
        (Value::Array(first), Value::Array(second)) => {
            first.len() == second.len() && first.iter().zip(second).all(|(first, second)| is_same_json(first, second))
        }
        (Value::Object(first), Value::Object(second)) => {
            let is_in_second = |(key, value)| second.get(key).is_some_and(|other| is_same_json(value, other));
            first.len() == second.len() && first.iter().all(is_in_second)
        }
        (first, second) => first == second,
    }
}

/// Returns an error for a definition whose secrets were hidden for display. Saving it would lose the secrets.
fn hidden_secret_error(definition: &Value) -> Option<String> {
    let advice = "pass secrets as arguments, or as {secret:NAME}";
    let is_hidden = definition.to_string().contains(MASK);
    is_hidden.then(|| format!("the definition contains '{MASK}', where a secret was hidden; {advice}"))
}

/// Returns a problem for each missing field that only saving requires.
fn missing_fields(document: &Value) -> Vec<Problem> {
    let is_missing = |key: &str| match document.get(key) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.trim().is_empty(),
        // Parsing reports a wrong type.
        Some(_) => false,
    };
    [("name", "by which it is found"), ("description", "which explains its purpose")]
        .into_iter()
        .filter(|(key, _)| document.is_object() && is_missing(key))
        .map(|(key, purpose)| {
            Problem::error(format!("/{key}"), format!("a saved workflow must have a '{key}', {purpose}"))
        })
        .collect()
}

pub(super) fn problem_lines(problems: &[&Problem]) -> Vec<String> {
    let line = |problem: &&Problem| {
        let separator = if problem.pointer.is_empty() { "" } else { ": " };
        format!("{}{separator}{}", problem.pointer, problem.message)
    };
    let mut lines: Vec<String> = problems.iter().take(MAX_PROBLEMS).map(line).collect();
    if problems.len() > MAX_PROBLEMS {
        lines.push(format!("… and {} more", problems.len() - MAX_PROBLEMS));
    }
    lines
}

pub(super) fn list(directories: &LibraryPaths, project: &Project, verb: &ListWorkflows) -> ListWorkflowsReply {
    let query = verb.containing.as_deref().unwrap_or_default().to_lowercase();
    let entry_matches = |entry: &Entry| {
        let description = entry.description.as_deref().unwrap_or_default();
        [entry.name.as_str(), description].iter().any(|text| text.to_lowercase().contains(&query))
    };
    let mut reply =
        ListWorkflowsReply { library: directories.first.display().to_string(), ..ListWorkflowsReply::default() };
    let mut first_library_names = Vec::new();
    for directory in directories.iter() {
        let library = Library::open(directory);
        match library.list() {
            Ok(listing) => {
                reply.success = true;
                for entry in &listing.entries {
                    if directory == directories.first {
                        first_library_names.push(entry.name.clone());
                    }
                    let hidden =
                        directory != directories.first && first_library_names.binary_search(&entry.name).is_ok();
                    if entry_matches(entry) {
                        reply.workflows.push(machine_info(&library, entry, hidden));
                    }
                }
                let path = |file: &str| directory.join(file).display().to_string();
                let broken = listing.broken.into_iter();
                reply
                    .broken
                    .extend(broken.map(|broken| BrokenWorkflow { file: path(&broken.file), reason: broken.reason }));
            }
            Err(error) => {
                let broken = BrokenWorkflow { file: directory.display().to_string(), reason: with_causes(&error) };
                reply.broken.push(broken);
            }
        }
    }
    let functions = function_verbs::list(directories, project, &first_library_names);
    let info_matches = |info: &WorkflowInfo| {
        let description = info.description.as_deref().unwrap_or_default();
        [info.name.as_str(), description].iter().any(|text| text.to_lowercase().contains(&query))
    };
    reply.workflows.extend(functions.into_iter().filter(info_matches));
    reply.broken.extend(function_verbs::list_broken(directories, project));
    if !reply.success {
        reply.error = reply.broken.first().map(|broken| broken.reason.clone());
    }
    reply.workflows.sort_by(|left, right| (&left.name, left.hidden).cmp(&(&right.name, right.hidden)));
    reply.total = reply.workflows.len();
    reply.workflows.truncate(usize::try_from(verb.limit).unwrap_or(usize::MAX));
    if reply.broken.len() > MAX_BROKEN_FILES {
        let omitted = reply.broken.len() - MAX_BROKEN_FILES;
        reply.broken.truncate(MAX_BROKEN_FILES);
        let reason = format!("{omitted} more files are broken");
        reply.broken.push(BrokenWorkflow { file: directories.first.display().to_string(), reason });
    }
    reply
}

fn machine_info(library: &Library, entry: &Entry, is_hidden: bool) -> WorkflowInfo {
    let Metadata { status, version, created, run_count, success_count, last_run, .. } = &entry.metadata;
    let description = entry.description.as_ref();
    WorkflowInfo {
        created_at: Some(created.clone()).filter(|created| !created.is_empty()),
        name: entry.name.to_string(),
        kind: "machine".to_owned(),
        description: description.map(|text| text.chars().take(MAX_DESCRIPTION_CHARS).collect()),
        status: status_name(*status).to_owned(),
        version: *version,
        run_count: *run_count,
        success_count: *success_count,
        last_run: last_run.clone(),
        created: created.clone(),
        arguments: summarize_variables(&entry.arguments),
        return_values: summarize_variables(&entry.return_values),
        state_count: entry.state_count,
        file: library.file(&entry.name).display().to_string(),
        hidden: is_hidden,
        ..WorkflowInfo::default()
    }
}

/// Returns the variables of a contract in short form for lists: `{NAME: {name, description, required}}`.
fn summarize_variables(contract: &Map<String, Value>) -> Map<String, Value> {
    let mut variables = contract_variables(&Value::Object(contract.clone()));
    for variable in variables.values_mut().filter_map(Value::as_object_mut) {
        variable.retain(|key, _| ["name", "description", "required"].contains(&key.as_str()));
        if let Some(Value::String(description)) = variable.get_mut("description")
            && description.chars().count() > MAX_VARIABLE_DESCRIPTION_CHARS
        {
            *description = description.chars().take(MAX_VARIABLE_DESCRIPTION_CHARS - 1).chain(['…']).collect();
        }
    }
    variables
}

pub(super) fn status_name(status: Status) -> &'static str {
    match status {
        Status::Draft => "draft",
        Status::Proven => "proven",
    }
}

pub(super) fn describe(
    directories: &LibraryPaths,
    project: &Project,
    name: &str,
) -> Result<DescribeWorkflowReply, FindError> {
    if let Some((name, version)) = versions::split_version(name) {
        return versions::describe(directories, project, name, version);
    }
    let (library, stored) = match look_up(directories, project, name)? {
        ResolvedWorkflow::Machine(library, stored) => (library, *stored),
        ResolvedWorkflow::Function(workflow) => return Ok(function_verbs::describe(workflow)),
    };
    Ok(describe_machine(&library, stored))
}

/// Returns the full description of a machine.
pub(super) fn describe_machine(library: &Library, stored: Stored) -> DescribeWorkflowReply {
    let Metadata { hash, created, version, status, run_count, success_count, last_run, total_states, .. } =
        stored.metadata;
    let description = stored.definition.get("description").and_then(Value::as_str).map(str::to_owned);
    let mut reply = DescribeWorkflowReply {
        success: true,
        name: Some(stored.name.to_string()),
        kind: Some("machine".to_owned()),
        description,
        file: Some(library.file(&stored.name).display().to_string()),
        metadata: Some(WorkflowMetadata {
            hash: hash.to_string(),
            created,
            version,
            status: status_name(status).to_owned(),
            run_count,
            success_count,
            last_run,
            total_states,
        }),
        ..DescribeWorkflowReply::default()
    };
    match Definition::parse(&stored.definition, &TerminalTools) {
        Ok(definition) => {
            reply.arguments = contract(definition.arguments(), &stored.definition["arguments"]);
            reply.return_values = contract(definition.return_values(), &stored.definition["return_values"]);
            reply.problems = problem_lines(&definition.warnings().iter().collect::<Vec<_>>());
            reply.graph = Some(mermaid(&definition));
        }
        Err(problems) => reply.problems = problem_lines(&problems.iter().collect::<Vec<_>>()),
    }
    reply.definition = Some(stored.definition);
    reply
}

/// Returns the variables of a contract, with their schemas from the author's document.
fn contract(contract: &Contract, document: &Value) -> Vec<ContractVariable> {
    let variable = contract.iter().map(|variable| ContractVariable {
        name: variable.name().to_owned(),
        description: variable.description().map(str::to_owned),
        required: variable.is_required() && variable.default().is_none(),
        default: variable.default().map(str::to_owned),
        secret: variable.is_secret(),
        export: variable.declared_export(),
        schema: document.get(variable.name()).and_then(|entry| entry.get("schema")).cloned(),
    });
    variable.collect()
}

pub(super) fn delete(
    directories: &LibraryPaths,
    project: &Project,
    name: &str,
) -> Result<DeleteWorkflowReply, DeleteError> {
    if let Some(stem) = name.strip_suffix(".py") {
        return function_verbs::delete_file(directories, project, stem);
    }
    let Ok(workflow) = name.parse() else { return Err(not_found(directories, project, name).into()) };
    if let Ok(ResolvedWorkflow::Function(workflow)) = look_up(directories, project, name) {
        return function_verbs::delete(directories, workflow);
    }
    let mut removed = None;
    for directory in directories.iter() {
        let library = Library::open(directory);
        let file = library.file(&workflow).display().to_string();
        match (&removed, library.get(&workflow)) {
            (Some(_), Ok(_) | Err(LookupError::Broken { .. })) => {
                return Ok(DeleteWorkflowReply {
                    success: true,
                    workflow_name: name.to_owned(),
                    file: removed,
                    remaining: Some(file),
                    ..DeleteWorkflowReply::default()
                });
            }
            (None, Ok(_) | Err(LookupError::Broken { .. })) => match library.delete(&workflow) {
                Ok(()) => removed = Some(file),
                // Another client has removed it already.
                Err(LookupError::NotFound { .. }) => {}
                Err(cause) => return Err(DeleteError::Machine { name: workflow, cause }),
            },
            (_, Err(_)) => {}
        }
    }
    match removed {
        Some(file) => Ok(DeleteWorkflowReply {
            success: true,
            workflow_name: name.to_owned(),
            file: Some(file),
            remaining: project.workflow(name).map(|workflow| workflow.loaded.path.display().to_string()),
            ..DeleteWorkflowReply::default()
        }),
        None => Err(not_found(directories, project, name).into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_of_a_browser_are_the_same_definition() {
        let saved = json!({"states": [{"seconds": 1.0, "text": "1"}]});
        assert!(is_same_json(&saved, &json!({"states": [{"text": "1", "seconds": 1}]})));
        for other in [
            json!({"states": [{"seconds": 2, "text": "1"}]}),
            json!({"states": [{"seconds": 1, "text": 1}]}),
            json!({"states": [{"seconds": 1, "text": "1", "more": null}]}),
            json!({"states": [{"seconds": 1}]}),
            json!({"states": []}),
        ] {
            assert!(!is_same_json(&saved, &other), "{other}");
        }
    }
}
