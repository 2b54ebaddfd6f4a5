//! One script from the modules of the page, so that the first view needs one request for all of them.
//!
//! The modules are in the style of this page, which a test checks: an `import` or `export` begins a line, an `import`
//! names its parts or the whole module, an `export` declares a function, a class or a constant, and no module imports
//! itself through others. Each module becomes a function that runs once and returns its exports.

use std::fmt::Write as _;

/// A module: its file name and its text.
pub(super) type Module = (&'static str, &'static str);

/// Joins the modules that `entry` imports, each after those that it imports. Returns `None` if a module is missing or a
/// statement has another form.
pub(super) fn bundle(entry: &str, modules: &[Module]) -> Option<String> {
    let mut joined = String::from("\"use strict\";\n");
    let mut done = Vec::new();
    add(entry, modules, &mut done, &mut joined)?;
    Some(joined)
}

fn add(name: &str, modules: &[Module], done: &mut Vec<String>, joined: &mut String) -> Option<()> {
    if done.iter().any(|known| known == name) {
        return Some(());
    }
    let (_, text) = modules.iter().find(|(known, _)| *known == name)?;
    let (mut body, mut exports) = (String::new(), Vec::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("import ") {
            let mut statement = line.to_owned();
            while !statement.ends_with(';') {
                statement += lines.next()?;
            }
            let (parts, imported) = parse_import(&statement)?;
            add(imported, modules, done, joined)?;
            let _ = writeln!(body, "const {parts} = {};", variable(imported));
        } else if let Some(declaration) = line.strip_prefix("export ") {
            exports.push(declared_name(declaration)?);
            let _ = writeln!(body, "{declaration}");
        } else {
            let _ = writeln!(body, "{line}");
        }
    }
    let _ =
        writeln!(joined, "const {} = (() => {{\n{body}return {{ {} }};\n}})();", variable(name), exports.join(", "));
    done.push(name.to_owned());
    Some(())
}

/// Returns the pattern that takes the parts of an import from the module's exports, and the file name of the module.
fn parse_import(statement: &str) -> Option<(String, &str)> {
    let (parts, source) = statement.strip_prefix("import ")?.rsplit_once(" from ")?;
    let name = source.strip_prefix("\"./")?.strip_suffix("\";")?;
    match parts.strip_prefix("* as ") {
        Some(whole) => Some((whole.to_owned(), name)),
        None => parts.starts_with('{').then(|| (parts.replace(" as ", ": "), name)),
    }
}

/// Returns the name that an exported declaration has.
fn declared_name(declaration: &str) -> Option<&str> {
    let kinds = ["async function ", "function ", "class ", "const "];
    let rest = kinds.iter().find_map(|kind| declaration.strip_prefix(kind))?;
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '$').unwrap_or(rest.len());
    Some(&rest[..end]).filter(|name| !name.is_empty())
}

/// Returns the variable with the exports of a module.
pub(super) fn variable(module: &str) -> String {
    format!("module_{}", module.trim_end_matches(".js"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_comes_once_and_after_its_imports() {
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
    fn a_statement_of_another_form_is_refused() {
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
