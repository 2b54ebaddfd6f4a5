//! A loaded file: its declarations, ready for execution.

use std::rc::Rc;

use serde::Deserialize;
use serde_json::{Map, Value};
use steplatch_python_api::{Declaration, Failure, FailureKind, Kind, Limits};

use crate::interpreter::monty::MontyProgram;
use crate::interpreter::{Compiled, Stop};
use crate::source::{PRELUDE, Source};

/// A loaded file. Cheap to clone, and bound to one thread.
#[derive(Clone)]
pub struct Program {
    compiled: Rc<dyn Compiled>,
    declarations: Rc<[Declaration]>,
}

impl Program {
    /// Reads a file: executes its code outside of functions once, within the default limits, and again at the beginning
    /// of every execution. Failures name the file as `file`.
    ///
    /// # Errors
    /// If the file is invalid; the failure states the position. An invalid file declares nothing.
    pub fn load(file: &str, text: &str) -> Result<Self, Failure> {
        let source = std::sync::Arc::new(Source::read(file, text)?);
        let compiled = Rc::new(MontyProgram::compile(&source, &PRELUDE, &source.runnable())?);
        let raw_declarations = match compiled.start(&Value::Null, &Limits::default()).stop {
            Stop::Returned(raw_declarations) => raw_declarations.map_err(|error| {
                Failure::new(FailureKind::NotJson, "TypeError", format!("a declaration in {file} is not JSON: {error}"))
            })?,
            Stop::Failed(failure) => return Err(failure),
            Stop::Called { .. } | Stop::Waiting { .. } => {
                let message = "code outside of functions cannot make calls; move them into a function";
                return Err(Failure::new(FailureKind::Stuck, "RuntimeError", message));
            }
        };
        let raw_declarations: Vec<RawDeclaration> = serde_json::from_value(raw_declarations).map_err(|error| {
            Failure::new(FailureKind::Raised, "TypeError", format!("a declaration in {file} is invalid: {error}"))
        })?;
        let declarations =
            raw_declarations.into_iter().map(|raw_declaration| to_declaration(&source, raw_declaration)).collect();
        Ok(Self { compiled, declarations })
    }

    /// Returns the declarations of the file, in its order.
    #[must_use]
    pub fn declarations(&self) -> &[Declaration] {
        &self.declarations
    }

    /// Returns the executable workflow or function node of this id.
    #[must_use]
    pub fn entry(&self, id: &str) -> Option<&Declaration> {
        let is_executable = |declaration: &&Declaration| matches!(declaration.kind, Kind::Workflow | Kind::Function);
        self.declarations.iter().filter(is_executable).find(|declaration| declaration.id == id)
    }

    pub(crate) fn compiled(&self) -> &dyn Compiled {
        &*self.compiled
    }
}

fn to_declaration(source: &Source, declaration: RawDeclaration) -> Declaration {
    let RawDeclaration { id, kind, function, description, metadata, settings } = declaration;
    let source_function = function.as_deref().and_then(|name| source.function(name));
    let description = description.filter(|text| !text.is_empty());
    let description = description.or_else(|| source_function.and_then(|function| function.docstring.clone()));
    let line = source.line_of(&id).or(source_function.map(|function| function.line));
    Declaration { id, kind, function, description, metadata, settings, line }
}

/// A declaration as the prelude returns it.
#[derive(Deserialize)]
struct RawDeclaration {
    id: String,
    kind: Kind,
    #[serde(default)]
    function: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    metadata: Value,
    #[serde(default)]
    settings: Map<String, Value>,
}
