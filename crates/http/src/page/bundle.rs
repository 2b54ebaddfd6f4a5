//! One script that joins the modules of the page, so that the first view needs only one request for all of them.
//!
//! The modules follow rules that a test checks: an `import` or `export` begins a line, an `import` names its parts or
//! the whole module, an `export` declares a function, a class or a constant, and imports have no cycles. Each module
//! becomes a function that runs once and returns its exports.

use std::fmt::Write as _;

/// A module: its file name and its source.
pub(super) type Module = (&'static str, &'static str);

/// Joins `entry` and the modules that it imports, each after its own imports. Returns `None` if a module is missing or
/// a statement has an unsupported form.
pub(super) fn bundle(entry: &str, modules: &[Module]) -> Option<String> {
    let mut script = String::from("\"use strict\";\n");
    let mut added_names = Vec::new();
    add_module(entry, modules, &mut added_names, &mut script)?;
    Some(script)
}

fn add_module(name: &str, modules: &[Module], added_names: &mut Vec<String>, script: &mut String) -> Option<()> {
    if added_names.iter().any(|added| added == name) {
        return Some(());
    }
    let (_, source) = modules.iter().find(|(file, _)| *file == name)?;
    let (mut body, mut exports) = (String::new(), Vec::new());
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("import ") {
            let mut statement = line.to_owned();
            while !statement.ends_with(';') {
                statement += lines.next()?;
            }
            let (pattern, imported_module) = parse_import(&statement)?;
            add_module(imported_module, modules, added_names, script)?;
            let _ = writeln!(body, "const {pattern} = {};", module_variable(imported_module));
        } else if let Some(declaration) = line.strip_prefix("export ") {
            exports.push(declared_name(declaration)?);
            let _ = writeln!(body, "{declaration}");
        } else {
            let _ = writeln!(body, "{line}");
        }
    }
    let _ = writeln!(
        script,
        "const {} = (() => {{\n{body}return {{ {} }};\n}})();",
        module_variable(name),
        exports.join(", ")
    );
    added_names.push(name.to_owned());
    Some(())
}

/// Returns the destructuring pattern for the imported parts, and the file name of the module.
fn parse_import(statement: &str) -> Option<(String, &str)> {
    let (parts, source) = statement.strip_prefix("import ")?.rsplit_once(" from ")?;
    let name = source.strip_prefix("\"./")?.strip_suffix("\";")?;
    match parts.strip_prefix("* as ") {
        Some(whole) => Some((whole.to_owned(), name)),
        None => parts.starts_with('{').then(|| (parts.replace(" as ", ": "), name)),
    }
}

/// Returns the name of an exported declaration.
fn declared_name(declaration: &str) -> Option<&str> {
    let kinds = ["async function ", "function ", "class ", "const "];
    let unprefixed = kinds.iter().find_map(|kind| declaration.strip_prefix(kind))?;
    let end = unprefixed.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '$').unwrap_or(unprefixed.len());
    Some(&unprefixed[..end]).filter(|name| !name.is_empty())
}

/// Returns the name of the variable with the exports of a module.
pub(super) fn module_variable(module: &str) -> String {
    format!("module_{}", module.trim_end_matches(".js"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_module_is_added_once_after_its_imports() {
        let modules = [
            ("main.js", "import {\n  a,\n  b as c,\n} from \"./ab.js\";\nimport * as d from \"./d.js\";\nd.e(a, c);\n"),
            ("ab.js", "import { e } from \"./d.js\";\nexport const a = e(1);\nexport async function b() {}\n"),
            ("d.js", "export function e(x) {\n  return x;\n}\n"),
        ];
        let expected = "\"use strict\";\n\
            const module_d = (() => {\nfunction e(x) {\n  return x;\n}\nreturn { e };\n})();\n\
            const module_ab = (() => {\nconst { e } = module_d;\nconst a = e(1);\nasync function b() {}\n\
            return { a, b };\n})();\n\
            const module_main = (() => {\nconst {  a,  b: c,} = module_ab;\nconst d = module_d;\nd.e(a, c);\n\
            return {  };\n})();\n";
        assert_eq!(bundle("main.js", &modules).as_deref(), Some(expected));
    }

    #[test]
    fn unsupported_statement_is_refused() {
        for text in [
            "import \"./d.js\";",
            "import d from \"./d.js\";",
            "import { e } from \"d\";",
            "import { e } from \"./missing.js\";",
            "export default e;",
            "export { e };",
            "import {",
        ] {
            assert_eq!(bundle("main.js", &[("main.js", text), ("d.js", "")]), None, "{text}");
        }
    }
}
