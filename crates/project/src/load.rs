//! Loading: checks a file of functions, and keeps it in the library.

use std::path::{Path, PathBuf};

use async_recursion::async_recursion as boxed;
use steplatch_access::Caller;
use steplatch_ids::WorkflowName;
use steplatch_library::{CreateError, FunctionFile, Library, LookupError, Signature};
use steplatch_nodes::NodeKind;
use steplatch_protocol::{FileProblem, LoadFunctions, LoadFunctionsReply};
use steplatch_python_api::Declaration;

use super::folders::{LibraryPaths, LibrarySearch};
use super::functions::{declares, file_name};
use super::{origin, python, text_file};
use crate::error::LoadError;
use crate::project::Project;
use crate::workers::WorkersError;
use crate::workflows::Workflows;

/// A file to load that is valid on its own.
struct LoadRequest {
    name: WorkflowName,
    path: PathBuf,
    text: String,
    declared: Vec<Declaration>,
    overwrite: bool,
    /// The digest of the file that the library had under this name at the time of the request.
    before: Option<Signature>,
}

impl Workflows {
    /// Loads a file of functions for `caller`, or only checks it.
    #[boxed]
    pub async fn load(&self, caller: &Caller, verb: LoadFunctions) -> LoadFunctionsReply {
        let path = caller.folder.join(&verb.file);
        let reply = LoadFunctionsReply { file: path.display().to_string(), ..LoadFunctionsReply::default() };
        match self.loaded(caller, verb, path, reply.clone()).await {
            Ok(reply) => reply,
            Err(error) => LoadFunctionsReply { error: Some(error.to_string()), ..reply },
        }
    }

    async fn loaded(
        &self,
        caller: &Caller,
        verb: LoadFunctions,
        path: PathBuf,
        mut reply: LoadFunctionsReply,
    ) -> Result<LoadFunctionsReply, LoadError> {
        let name = name_of(&path)?;
        let (reading, asker, kept) = (path.clone(), LibrarySearch::for_caller(caller), name.clone());
        // Read before the check for conflicts, which loads the project and so may take over the file's current text.
        let read = self.disk.reading(move || {
            let before = Library::open(asker.folders().first).function_file(&kept);
            (text_file::read(&reading), before.ok().map(|before| before.metadata.hash))
        });
        let (text, before) = read.await?;
        let text = text.map_err(|cause| LoadError::Unreadable { file: path.clone(), cause })?;
        let declared = match self.functions.declared(&file_name(&name), &text).await {
            Ok(declared) => declared,
            Err(WorkersError::Refused(failure)) => {
                let line = failure.frames.last().map(|frame| frame.line);
                reply.problems = vec![FileProblem { line, message: failure.to_string() }];
                return Ok(refused(reply));
            }
            Err(cause) => return Err(LoadError::Worker { file: path, cause }),
        };
        reply.declares = declared.iter().map(python::declaration_info).collect();
        reply.problems = python::problems(&declared, &file_name(&name), &text);
        let project = self.projects.find_project(caller).await?;
        let asker = LibrarySearch::for_caller(caller);
        let request = LoadRequest { name, path, text, declared, overwrite: verb.overwrite, before };
        let work = move || {
            let folders = asker.folders();
            reply.problems.extend(conflicts(&folders, &project, &request));
            reply.warnings = warnings(&project, &request);
            if !reply.problems.is_empty() {
                return Ok(refused(reply));
            }
            if verb.check_only {
                reply.success = true;
                return Ok(reply);
            }
            store_file(&Library::open(&folders.first), &request, reply)
        };
        if verb.check_only { self.disk.reading(work).await? } else { self.disk.writing(work).await? }
    }
}

/// Returns the name of a file in the library: its own, without the extension.
fn name_of(path: &Path) -> Result<WorkflowName, LoadError> {
    let file = || path.to_owned();
    let is_python = path.extension().is_some_and(|ending| ending == "py");
    let stem = path.file_stem().and_then(|stem| stem.to_str()).filter(|_| is_python);
    let stem = stem.ok_or_else(|| LoadError::NotFunctions { file: file() })?;
    stem.parse().map_err(|cause| LoadError::Name { file: file(), cause })
}

fn refused(reply: LoadFunctionsReply) -> LoadFunctionsReply {
    let what = match &reply.problems[..] {
        [only] => only.message.clone(),
        many => format!("it has {} problems, listed in problems", many.len()),
    };
    LoadFunctionsReply { error: Some(format!("The file '{}' was not loaded: {what}", reply.file)), ..reply }
}

/// Returns the ids with a declaration elsewhere, other than in the file that this one replaces.
fn conflicts(folders: &LibraryPaths, project: &Project, request: &LoadRequest) -> Vec<FileProblem> {
    let library = Library::open(&folders.first);
    let own = library.function_path(&request.name);
    let conflict = |declared: &Declaration| {
        let id = &declared.id;
        if let Some(owner) = project.owner(id) {
            // A declaration in the user's own library is hidden by this one.
            let is_other = owner.file != Some(&*own) && !folders.is_of_other(owner.file);
            return is_other.then(|| owner.conflict(id));
        }
        let machine = id.parse().ok().map(|name| library.file(&name)).filter(|file| file.exists())?;
        Some(format!("ID '{id}' conflicts with existing workflow, in {}", machine.display()))
    };
    let found = request.declared.iter().filter_map(|declared| {
        let message = conflict(declared)?;
        Some(FileProblem { line: declared.line, message })
    });
    found.collect()
}

/// Returns warnings for the author: about nodes, and about graphs that call missing nodes.
fn warnings(project: &Project, request: &LoadRequest) -> Vec<FileProblem> {
    let ids = request.declared.iter().map(|declared| declared.id.as_str());
    let known: Vec<&str> = project.nodes.keys().map(String::as_str).chain(ids).collect();
    let mut warnings = Vec::new();
    for declared in &request.declared {
        let Ok(Some(node)) = python::node(declared, &file_name(&request.name), &request.text) else { continue };
        let mut found = node.warnings();
        if let NodeKind::Graph(graph) = &node.kind {
            found.extend(graph.check_nodes(&known));
        }
        let what = declared.kind.word();
        warnings.extend(found.iter().map(|problem| FileProblem {
            line: declared.line,
            message: format!("{what} '{}': {}: {}", declared.id, problem.pointer, problem.message),
        }));
    }
    warnings
}

/// Puts the file into the library. Blocks.
fn store_file(
    library: &Library,
    request: &LoadRequest,
    mut reply: LoadFunctionsReply,
) -> Result<LoadFunctionsReply, LoadError> {
    let LoadRequest { name, path, text, declared, overwrite, before } = request;
    let file = || path.clone();
    let kept = library.function_path(name);
    reply.stored_file = Some(kept.display().to_string());
    reply.success = true;
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let origin = origin::for_file(library.folder(), path, text);
    let outcome = match before {
        None => "loaded",
        Some(before) if *before == origin.hash => "unchanged",
        Some(_) => "reloaded",
    };
    reply.outcome = Some(outcome.to_owned());
    let over = match library.function_file(name) {
        // It is in the library because a person put it there.
        Ok(_) if real(&kept) == real(path) => {
            reply.outcome = Some("unchanged".to_owned());
            return Ok(reply);
        }
        Ok(old) => {
            if old.text == *text && old.metadata.origin.as_ref() == Some(&origin) {
                return Ok(reply);
            }
            replaceable(&old, library.folder(), path, &origin, *overwrite)?;
            Some(old.metadata.hash)
        }
        Err(LookupError::NotFound { .. }) => None,
        Err(LookupError::Broken { .. }) if *overwrite => {
            library.delete_functions(name).map_err(|cause| LoadError::NotReplaced { file: file(), cause })?;
            None
        }
        Err(cause) => return Err(LoadError::Broken { file: file(), cause }),
    };
    match library.keep_functions(name, text, Some(origin), declares(declared), over.as_ref()) {
        Ok(_) => Ok(reply),
        Err(CreateError::Exists { .. }) => Err(LoadError::Conflict { file: file() }),
        Err(cause) => Err(LoadError::NotStored { file: file(), cause }),
    }
}

/// Returns the reason that a file must not replace another one, unless there is a request for that.
fn replaceable(
    old: &FunctionFile,
    library: &Path,
    path: &Path,
    origin: &steplatch_library::Origin,
    overwrite: bool,
) -> Result<(), LoadError> {
    // Equal texts lose nothing.
    if overwrite || old.metadata.hash == origin.hash {
        return Ok(());
    }
    let (file, copy) = (path.to_owned(), library.join(file_name(&old.name)));
    match &old.metadata.origin {
        Some(known) if known.file == origin.file && !old.metadata.is_edited() => Ok(()),
        Some(known) if known.file == origin.file => Err(LoadError::Edited { file, copy }),
        Some(known) => Err(LoadError::OtherOriginal { file, copy, original: origin::path(library, known) }),
        None => Err(LoadError::Exists { file, copy }),
    }
}
