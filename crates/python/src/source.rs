//! The static analysis of a file.
//!
//! Uses the interpreter's own parser, so that the analysis and the interpreter accept the same Python. Finds facts that
//! the interpreter does not report: the parameters and the docstrings of functions. Rewrites a few constructs that the
//! interpreter lacks.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use ruff_python_ast::visitor::{Visitor, walk_expr, walk_stmt};
use ruff_python_ast::{Expr, ExprCall, Parameters, Stmt, StmtFunctionDef, StmtImportFrom};
use ruff_python_parser::parse_module;
use ruff_text_size::{Ranged, TextRange, TextSize};
use serde_json::{Value, json};
use steplatch_python_api::{Failure, FailureKind, Frame, Kind};

/// The code that precedes every file: `prelude.py`, with the functions that declare nodes.
pub(crate) static PRELUDE: LazyLock<String> = LazyLock::new(|| {
    let (before, after) = include_str!("prelude.py").split_once(NODES_MARKER).expect("the prelude contains the marker");
    let kinds = Kind::ALL.iter().filter(|kind| kind.has_only_settings());
    let functions = kinds.map(|kind| {
        let (class, word) = (kind.class(), kind.word());
        format!(
            "def {class}(id=None, session=None, **settings):\n    \
             return _declare(\"{word}\", id, session, {{\"settings\": _plain(settings)}})\n"
        )
    });
    let functions: Vec<String> = functions.collect();
    [before, &functions.join("\n\n"), after].concat()
});

/// The line of the prelude that the functions of nodes replace.
const NODES_MARKER: &str =
    "# NODES: `source.rs` puts a function here for each kind of node with settings only, as `BashNode`.\n";

/// Modules of the interpreter.
const AVAILABLE_MODULES: [&str; 18] = [
    "__future__",
    "asyncio",
    "base64",
    "binascii",
    "collections",
    "dataclasses",
    "datetime",
    "functools",
    "gc",
    "itertools",
    "json",
    "math",
    "os",
    "pathlib",
    "re",
    "sys",
    "typing",
    "unicodedata",
];

/// A function of a file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Function {
    /// True if this function, or another function with the same name, accepts a call with exactly one argument.
    pub(crate) accepts_one_argument: bool,
    pub(crate) docstring: Option<String>,
    pub(crate) line: u32,
}

/// A file with its author's text.
pub(crate) struct Source {
    file: String,
    text: String,
    /// Offsets of the beginnings of the lines.
    lines: Vec<usize>,
    functions: BTreeMap<String, Function>,
    /// Lines of the declarations with a literal id.
    declared_lines: HashMap<String, u32>,
    /// Ranges of `text` with their replacements.
    changes: Vec<(TextRange, String)>,
}

impl Source {
    /// Reads a file.
    ///
    /// # Errors
    /// If the text is not Python, or uses a feature that is certainly unsupported.
    pub(crate) fn read(file: &str, text: &str) -> Result<Self, Failure> {
        let text = text.trim_start_matches('\u{feff}');
        let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        let mut source = Self {
            file: file.to_owned(),
            text: text.to_owned(),
            lines,
            functions: BTreeMap::new(),
            declared_lines: HashMap::new(),
            changes: Vec::new(),
        };
        let parsed = match parse_module(text) {
            Ok(parsed) => parsed,
            Err(error) => {
                let failure = Failure::new(FailureKind::Unreadable, "SyntaxError", error.error.to_string());
                return Err(failure.with_frames(vec![source.frame_at(error.location)]));
            }
        };
        let mut visitor =
            SourceVisitor { source: &mut source, in_class: false, may_be_missing: false, unsupported: None };
        visitor.visit_body(parsed.suite());
        if let Some((range, message)) = visitor.unsupported.take() {
            let failure = Failure::new(FailureKind::Unreadable, "NotImplementedError", message);
            return Err(failure.with_frames(vec![source.frame_at(range)]));
        }
        Ok(source)
    }

    /// Returns the file's name.
    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    /// Returns the text to run, with unchanged lines and columns.
    pub(crate) fn runnable(&self) -> String {
        let mut text = self.text.clone();
        let mut changes: Vec<_> = self.changes.iter().collect();
        // Replace from the end, so that the offsets of earlier ranges stay valid.
        changes.sort_unstable_by_key(|(range, _)| std::cmp::Reverse(range.start()));
        for (range, replacement) in changes {
            text.replace_range(range.start().to_usize()..range.end().to_usize(), replacement);
        }
        text
    }

    /// Returns the facts about functions that the prelude needs.
    pub(crate) fn functions(&self) -> Value {
        let facts = |function: &Function| json!({ "takes_one": function.accepts_one_argument, "docstring": function.docstring });
        self.functions.iter().map(|(name, function)| (name.clone(), facts(function))).collect()
    }

    /// Returns the last function of this name.
    pub(crate) fn function(&self, name: &str) -> Option<&Function> {
        self.functions.get(name)
    }

    /// Returns the line of the declaration with this literal id.
    pub(crate) fn line_of(&self, id: &str) -> Option<u32> {
        self.declared_lines.get(id).copied()
    }

    /// Creates a frame for a position in the running code; `line` includes the lines of the prelude.
    pub(crate) fn frame(&self, line: u32, column: u32, to: Option<u32>, function: Option<&str>) -> Option<Frame> {
        let function = function.filter(|function| *function != "<module>");
        let line = line.checked_sub(prelude_lines()).filter(|line| *line > 0 && *line as usize <= self.lines.len())?;
        Some(self.make_frame(line, column, to, function))
    }

    fn frame_at(&self, range: TextRange) -> Frame {
        // An error at the end of a file is on its last line.
        let text_end = self.text.trim_end().len();
        let (line, column) = self.position(range.start().to_usize().min(text_end));
        let (end, to) = self.position(range.end().to_usize());
        self.make_frame(line, column, Some(if end == line { to } else { u32::MAX }), None)
    }

    fn make_frame(&self, line: u32, column: u32, to: Option<u32>, function: Option<&str>) -> Frame {
        let full_line = self.line(line);
        let text = full_line.trim_start();
        let indentation = (full_line.chars().count() - text.chars().count()) as u32;
        let text = text.trim_end();
        let length = text.chars().count() as u32;
        let marked = to.map(|to| {
            let from = (column - 1).saturating_sub(indentation);
            (from, (to - 1).saturating_sub(indentation).clamp(from + 1, length.max(from + 1)))
        });
        Frame {
            file: self.file.clone(),
            line,
            column,
            end_column: to.unwrap_or(column).min(indentation + length + 1).max(column),
            function: function.map(str::to_owned),
            text: (!text.is_empty()).then(|| text.to_owned()),
            marked,
        }
    }

    fn line(&self, line: u32) -> &str {
        let from = self.lines.get(line as usize - 1).copied().unwrap_or(self.text.len());
        self.text[from..].split('\n').next().unwrap_or_default()
    }

    /// Returns the line and column of an offset in the file, both from 1.
    fn position(&self, at: usize) -> (u32, u32) {
        let line = self.lines.partition_point(|begin| *begin <= at);
        let before = &self.text[self.lines[line - 1]..at.min(self.text.len())];
        (line as u32, before.chars().count() as u32 + 1)
    }
}

fn prelude_lines() -> u32 {
    PRELUDE.matches('\n').count() as u32
}

/// Collects the facts about a file from its syntax tree.
struct SourceVisitor<'a> {
    source: &'a mut Source,
    in_class: bool,
    may_be_missing: bool,
    unsupported: Option<(TextRange, String)>,
}

impl<'a> Visitor<'a> for SourceVisitor<'_> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::FunctionDef(definition) if !self.in_class => self.add_function(definition),
            Stmt::ClassDef(_) => {
                let outer = std::mem::replace(&mut self.in_class, true);
                walk_stmt(self, statement);
                self.in_class = outer;
                return;
            }
            Stmt::ImportFrom(import) if is_own_import(import) => self.remove_own_import(import),
            Stmt::ImportFrom(import) if import.level == 0 && import.module.as_deref() == Some("asyncio") => {
                self.rewrite_asyncio_import(import);
            }
            Stmt::ImportFrom(import) if import.level == 0 => {
                self.check_module(import.module.as_deref().unwrap_or_default(), import.range);
            }
            Stmt::Import(import) => {
                for name in &import.names {
                    self.check_module(name.name.as_str(), name.range);
                }
            }
            // The code here may handle a missing module.
            Stmt::Try(_) | Stmt::If(_) => {
                let outer = std::mem::replace(&mut self.may_be_missing, true);
                walk_stmt(self, statement);
                self.may_be_missing = outer;
                return;
            }
            _ => {}
        }
        walk_stmt(self, statement);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Call(call) => self.visit_call(call),
            Expr::Attribute(attribute) => {
                if let Expr::Name(module) = &*attribute.value
                    && module.id.as_str() == "asyncio"
                {
                    self.check_asyncio_name(attribute.attr.as_str(), attribute.range);
                }
            }
            _ => {}
        }
        walk_expr(self, expression);
    }
}

impl SourceVisitor<'_> {
    fn add_function(&mut self, definition: &StmtFunctionDef) {
        let docstring = match definition.body.first() {
            Some(Stmt::Expr(first)) => match &*first.value {
                Expr::StringLiteral(text) => Some(clean_docstring(text.value.to_str())),
                _ => None,
            },
            _ => None,
        };
        let previous = self.source.functions.get(definition.name.as_str());
        let function = Function {
            // Several functions may have the same name; which one is called is known only at run time.
            accepts_one_argument: accepts_one_argument(&definition.parameters)
                || previous.is_some_and(|previous| previous.accepts_one_argument),
            docstring: docstring.filter(|text| !text.is_empty()),
            line: self.source.position(definition.name.range().start().to_usize()).0,
        };
        self.source.functions.insert(definition.name.to_string(), function);
    }

    fn visit_call(&mut self, call: &ExprCall) {
        self.rewrite_item_method(call);
        let Expr::Name(name) = &*call.func else { return };
        if !Kind::ALL.iter().any(|kind| kind.class() == name.id.as_str()) {
            return;
        }
        let keyword = call.arguments.keywords.iter().find(|keyword| keyword.arg.as_deref() == Some("id"));
        if let Some(Expr::StringLiteral(id)) = keyword.map(|keyword| &keyword.value).or(call.arguments.args.first()) {
            let line = self.source.position(call.range().start().to_usize()).0;
            self.source.declared_lines.entry(id.value.to_str().to_owned()).or_insert(line);
        }
    }

    /// Rewrites `x.__setitem__(k, v)` and `x.__getitem__(k)` to prelude calls, because the interpreter's types lack
    /// these methods.
    fn rewrite_item_method(&mut self, call: &ExprCall) {
        let Expr::Attribute(method) = &*call.func else { return };
        let function = match method.attr.as_str() {
            "__setitem__" => "_setitem",
            "__getitem__" => "_getitem",
            _ => return,
        };
        // No other rewrite may overlap the target.
        let mut target = &*method.value;
        while let Expr::Attribute(part) = target {
            target = &part.value;
        }
        let range = TextRange::new(method.range.start(), call.arguments.range.start() + TextSize::from(1));
        let text = &self.source.text[range.start().to_usize()..range.end().to_usize()];
        if !matches!(target, Expr::Name(_)) || text.contains('\n') {
            return;
        }
        let target = &self.source.text[method.range.start().to_usize()..method.attr.range.start().to_usize()];
        let target = target.trim_end().trim_end_matches('.').trim_end().to_owned();
        self.replace_in_place(range, &format!("{function}({target},"));
    }

    /// Removes an import of names that every file has. Keeps the assignment of new names.
    fn remove_own_import(&mut self, import: &StmtImportFrom) {
        let renamed = import.names.iter().filter_map(|name| Some(format!("{} = {}", name.asname.as_ref()?, name.name)));
        self.replace_import(import, &renamed.collect::<Vec<_>>().join("; "));
    }

    /// Removes names that every file has from an import of `asyncio`.
    fn rewrite_asyncio_import(&mut self, import: &StmtImportFrom) {
        let mut kept_names = Vec::new();
        let mut is_unchanged = true;
        for name in &import.names {
            match (name.name.as_str(), &name.asname) {
                ("gather" | "run", asname) => {
                    let renamed = asname.as_ref().map(|asname| format!(" as {asname}")).unwrap_or_default();
                    kept_names.push(format!("{}{renamed}", name.name));
                }
                ("CancelledError" | "TimeoutError", None) => is_unchanged = false,
                (other, _) => self.check_asyncio_name(other, name.range),
            }
        }
        if is_unchanged || self.unsupported.is_some() {
            return;
        }
        let kept_names = kept_names.join(", ");
        self.replace_import(
            import,
            &if kept_names.is_empty() { kept_names } else { format!("from asyncio import {kept_names}") },
        );
    }

    fn replace_import(&mut self, import: &StmtImportFrom, replacement: &str) {
        let replacement = if replacement.is_empty() { "pass" } else { replacement };
        let text = &self.source.text[import.range.start().to_usize()..import.range.end().to_usize()];
        let available_chars = text.split('\n').next().unwrap_or_default().chars().count();
        if replacement.chars().count() > available_chars {
            let message = "an import of this module must be on one line".to_owned();
            self.unsupported.get_or_insert((import.range, message));
        } else {
            self.replace_in_place(import.range, replacement);
        }
    }

    /// Checks an imported module, so that a long-running function does not fail late because a module is missing.
    fn check_module(&mut self, module: &str, range: TextRange) {
        let first = module.split('.').next().unwrap_or_default();
        if self.may_be_missing || AVAILABLE_MODULES.contains(&first) {
            return;
        }
        let replacement = match first {
            "random" | "secrets" | "uuid" => "; ctx.random() gives a number that is the same on every replay",
            "time" => "; ctx.now() tells the time, and ctx.sleep(seconds) waits",
            "subprocess" => "; declare a BashNode, and ctx.run it",
            "requests" | "httpx" | "urllib" | "aiohttp" | "http" | "socket" => "; declare an HttpNode, and ctx.run it",
            "steplatch" | "nerve" => "; its names are there without it, or with `from steplatch import …`",
            _ => "",
        };
        self.unsupported
            .get_or_insert((range, format!("the module {module} is not available in a workflow{replacement}")));
    }

    /// Checks a name of the module `asyncio`. The interpreter supports only a part of that module.
    fn check_asyncio_name(&mut self, name: &str, range: TextRange) {
        let replacement = match name {
            "gather" | "run" => return,
            // Since Python 3.11, this is the built-in class.
            "TimeoutError" => return self.replace_in_place(range, "(TimeoutError)"),
            // The prelude uses this class too.
            "CancelledError" => return self.replace_in_place(range, "(KeyboardInterrupt)"),
            "sleep" => "; await ctx.sleep(seconds) instead, which a restart does not cut short",
            "wait_for" | "timeout" => "; give the call a timeout= instead",
            "create_task" | "TaskGroup" | "wait" | "as_completed" => "; asyncio.gather(…) and ctx.run_parallel(…) are",
            "Semaphore" | "BoundedSemaphore" => "; ctx.run_parallel(…, limit=…) is",
            _ => "",
        };
        let message = format!("asyncio.{name} is not available in a workflow{replacement}");
        self.unsupported.get_or_insert((range, message));
    }

    /// Replaces the text of `range`, padded to its length in characters, so that lines and columns stay.
    fn replace_in_place(&mut self, range: TextRange, replacement: &str) {
        let before = &self.source.text[range.start().to_usize()..range.end().to_usize()];
        let mut replacement = replacement.chars();
        let after =
            before.chars().map(|old| if old == '\n' { '\n' } else { replacement.next().unwrap_or(' ') }).collect();
        self.source.changes.push((range, after));
    }
}

/// Returns whether an import has only names that every file has: for an editor, or because the file was written for
/// Nerve.
fn is_own_import(import: &StmtImportFrom) -> bool {
    let module = import.module.as_deref().unwrap_or_default();
    import.level == 0 && (module == "steplatch" || module == "nerve" || module.starts_with("nerve."))
}

fn accepts_one_argument(parameters: &Parameters) -> bool {
    let positional = || parameters.posonlyargs.iter().chain(&parameters.args);
    let required = positional().filter(|parameter| parameter.default.is_none()).count();
    let possible = positional().count() > 0 || parameters.vararg.is_some();
    required <= 1 && possible && parameters.kwonlyargs.iter().all(|parameter| parameter.default.is_some())
}

/// Removes the indentation of a docstring, as Python's `inspect.cleandoc` does.
fn clean_docstring(text: &str) -> String {
    let indentation = |line: &str| line.len() - line.trim_start().len();
    let common = text.lines().skip(1).filter(|line| !line.trim().is_empty()).map(indentation).min().unwrap_or(0);
    let lines = text
        .lines()
        .enumerate()
        .map(|(at, line)| if at == 0 { line.trim_start() } else { line.get(common..).unwrap_or_default() }.trim_end());
    lines.collect::<Vec<_>>().join("\n").trim_matches('\n').to_owned()
}
