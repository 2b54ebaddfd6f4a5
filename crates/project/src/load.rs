//! Loading of a file of functions into a library.
//!
//! Checks the declarations of the file and their conflicts with other workflows, and reports all these problems at
//! once. Replaces a stored file of the same name only on request, or if both have the same original.

use std::path::{Path, PathBuf};

use async_recursion::async_recursion as boxed;
use steplatch_access::Caller;
use steplatch_ids::WorkflowName;
use steplatch_library::{CreateError, FunctionFile, Library, LookupError, Signature};
use steplatch_nodes::NodeKind;
use steplatch_protocol::{FileProblem, LoadFunctions, LoadFunctionsReply};
use steplatch_python_api::Declaration;

use super::directories::{LibraryPaths, LibrarySearch};
use super::functions::{file_name, summarize};
use super::{origin, python, text_file};
use crate::error::LoadError;
use crate::project::Project;
use crate::workers::WorkersError;
use crate::workflows::Workflows;

/// A file to load, with its declarations.
struct LoadRequest {
    name: WorkflowName,
    path: PathBuf,
    text: String,
    declared: Vec<Declaration>,
    overwrite: bool,
    /// Digest of the library's file of this name when the request arrived.
    previous_hash: Option<Signature>,
}

impl Workflows {
    /// Loads a file of functions for `caller`, or only checks it.
    #[boxed]
    pub async fn load(&self, caller: &Caller, verb: LoadFunctions) -> LoadFunctionsReply {
        let path = caller.directory.join(&verb.file);
        let reply = LoadFunctionsReply { file: path.display().to_string(), ..LoadFunctionsReply::default() };
        match self.try_load(caller, verb, path, reply.clone()).await {
            Ok(reply) => reply,
            Err(error) => LoadFunctionsReply { error: Some(error.to_string()), ..reply },
        }
    }

    async fn try_load(
        &self,
        caller: &Caller,
        verb: LoadFunctions,
        path: PathBuf,
        mut reply: LoadFunctionsReply,
    ) -> Result<LoadFunctionsReply, LoadError> {
        let name = parse_library_name(&path)?;
        let (source_path, library_search, library_name) =
            (path.clone(), LibrarySearch::for_caller(caller), name.clone());
        // Read now: the check for conflicts loads the project, and that may replace the library's file.
        let source_and_hash = self.disk.run_read(move || {
            let previous = Library::open(library_search.directories().first).function_file(&library_name);
            (text_file::read(&source_path), previous.ok().map(|file| file.metadata.hash))
        });
        let (text, previous_hash) = source_and_hash.await?;
        let text = text.map_err(|cause| LoadError::Unreadable { file: path.clone(), cause })?;
        let declared = match self.functions.load_declarations(&file_name(&name), &text).await {
            Ok(declared) => declared,
            Err(WorkersError::Refused(failure)) => {
                let line = failure.frames.last().map(|frame| frame.line);
                reply.problems = vec![FileProblem { line, message: failure.to_string() }];
                return Ok(with_refusal(reply));
            }
            Err(cause) => return Err(LoadError::Worker { file: path, cause }),
        };
        reply.declares = declared.iter().map(python::declaration_info).collect();
        reply.problems = python::problems(&declared, &file_name(&name), &text);
        let project = self.projects.find_project(caller).await?;
        let library_search = LibrarySearch::for_caller(caller);
        let request = LoadRequest { name, path, text, declared, overwrite: verb.overwrite, previous_hash };
        let work = move || {
            let directories = library_search.directories();
            reply.problems.extend(conflicts(&directories, &project, &request));
            reply.warnings = warnings(&project, &request);
            if !reply.problems.is_empty() {
                return Ok(with_refusal(reply));
            }
            if verb.check_only {
                reply.success = true;
                return Ok(reply);
            }
            store_file(&Library::open(&directories.first), &request, reply)
        };
        if verb.check_only { self.disk.run_read(work).await? } else { self.disk.run_write(work).await? }
    }
}

/// Returns the name of a file in the library: the file name without the extension.
fn parse_library_name(path: &Path) -> Result<WorkflowName, LoadError> {
    let file = || path.to_owned();
    let is_python = path.extension().is_some_and(|extension| extension == "py");
    let stem = path.file_stem().and_then(|stem| stem.to_str()).filter(|_| is_python);
    let stem = stem.ok_or_else(|| LoadError::NotFunctions { file: file() })?;
    stem.parse().map_err(|cause| LoadError::Name { file: file(), cause })
}

fn with_refusal(reply: LoadFunctionsReply) -> LoadFunctionsReply {
    let reason = match &reply.problems[..] {
        [only] => only.message.clone(),
        many => format!("it has {} problems, listed in problems", many.len()),
    };
    LoadFunctionsReply { error: Some(format!("The file '{}' was not loaded: {reason}", reply.file)), ..reply }
}

/// Returns a problem for each id that another file declares. Ignores the replaced file.
fn conflicts(directories: &LibraryPaths, project: &Project, request: &LoadRequest) -> Vec<FileProblem> {
    let library = Library::open(&directories.first);
    let replaced_file = library.function_path(&request.name);
    let conflict = |declared: &Declaration| {
        let id = &declared.id;
        if let Some(owner) = project.owner(id) {
            // This declaration hides a workflow in the user's own library.
            let is_other = owner.file != Some(&*replaced_file) && !directories.is_in_other(owner.file);
            return is_other.then(|| owner.conflict_message(id));
        }
        let workflow_file = id.parse().ok().map(|name| library.file(&name)).filter(|file| file.exists())?;
        Some(format!("ID '{id}' conflicts with existing workflow, in {}", workflow_file.display()))
    };
    let found = request.declared.iter().filter_map(|declared| {
        let message = conflict(declared)?;
        Some(FileProblem { line: declared.line, message })
    });
    found.collect()
}

/// Returns the author's warnings: about nodes, and about graphs that call missing nodes.
fn warnings(project: &Project, request: &LoadRequest) -> Vec<FileProblem> {
    let ids = request.declared.iter().map(|declared| declared.id.as_str());
    let known_ids: Vec<&str> = project.nodes.keys().map(String::as_str).chain(ids).collect();
    let mut warnings = Vec::new();
    for declared in &request.declared {
        let Ok(Some(node)) = python::parse_node(declared, &file_name(&request.name), &request.text) else { continue };
        let mut found = node.warnings();
        if let NodeKind::Graph(graph) = &node.kind {
            found.extend(graph.check_nodes(&known_ids));
        }
        let kind = declared.kind.word();
        warnings.extend(found.iter().map(|problem| FileProblem {
            line: declared.line,
            message: format!("{kind} '{}': {}: {}", declared.id, problem.pointer, problem.message),
        }));
    }
    warnings
}

/// Stores the file in the library, and completes the reply. Blocks.
fn store_file(
    library: &Library,
    request: &LoadRequest,
    mut reply: LoadFunctionsReply,
) -> Result<LoadFunctionsReply, LoadError> {
    let LoadRequest { name, path, text, declared, overwrite, previous_hash } = request;
    let file = || path.clone();
    let stored_path = library.function_path(name);
    reply.stored_file = Some(stored_path.display().to_string());
    reply.success = true;
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let origin = origin::for_file(library.directory(), path, text);
    let outcome = match previous_hash {
        None => "loaded",
        Some(hash) if *hash == origin.hash => "unchanged",
        Some(_) => "reloaded",
    };
    reply.outcome = Some(outcome.to_owned());
    let replaced_hash = match library.function_file(name) {
        // The request loads the library's own file.
        Ok(_) if real(&stored_path) == real(path) => {
            reply.outcome = Some("unchanged".to_owned());
            return Ok(reply);
        }
        Ok(old) => {
            if old.text == *text && old.metadata.origin.as_ref() == Some(&origin) {
                return Ok(reply);
            }
            check_replaceable(&old, library.directory(), path, &origin, *overwrite)?;
            Some(old.metadata.hash)
        }
        Err(LookupError::NotFound { .. }) => None,
        Err(LookupError::Broken { .. }) if *overwrite => {
            library.delete_functions(name).map_err(|cause| LoadError::NotReplaced { file: file(), cause })?;
            None
        }
        Err(cause) => return Err(LoadError::Broken { file: file(), cause }),
    };
    match library.keep_functions(name, text, Some(origin), summarize(declared), replaced_hash.as_ref()) {
        Ok(_) => Ok(reply),
        Err(CreateError::Exists { .. }) => Err(LoadError::Conflict { file: file() }),
        Err(cause) => Err(LoadError::NotStored { file: file(), cause }),
    }
}

/// Checks that a file may replace the stored file. With `overwrite`, every file may.
fn check_replaceable(
    old: &FunctionFile,
    library: &Path,
    path: &Path,
    origin: &steplatch_library::Origin,
    overwrite: bool,
) -> Result<(), LoadError> {
    // Replacing an equal text loses nothing.
    if overwrite || old.metadata.hash == origin.hash {
        return Ok(());
    }
    let (file, copy) = (path.to_owned(), library.join(file_name(&old.name)));
    match &old.metadata.origin {
        Some(stored_origin) if stored_origin.file == origin.file && !old.metadata.is_edited() => Ok(()),
        Some(stored_origin) if stored_origin.file == origin.file => Err(LoadError::Edited { file, copy }),
        Some(stored_origin) => {
            Err(LoadError::OtherOriginal { file, copy, original: origin::path(library, stored_origin) })
        }
        None => Err(LoadError::Exists { file, copy }),
    }
}
