//! The imports between crates: the table in `docs/contributing/directions.md`, compared with the manifests.
//!
//! Also checks that every file named in ARCHITECTURE.md and `docs/contributing/recipes.md` exists.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The crates that each crate imports, by name.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// The document with the table of imports.
const TABLE: &str = "docs/contributing/directions.md";

/// The documents with checked paths of sources.
const MAPS: [&str; 2] = ["ARCHITECTURE.md", "docs/contributing/recipes.md"];

/// The crate of the program. Its manifest is also the manifest of the workspace.
const PROGRAM: &str = "steplatch";

/// Parses the table of imports. It is the only table of its document.
fn documented_imports(document: &str) -> Imports {
    let rows = document.lines().filter(|line| line.starts_with("| ")).skip(1);
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [name, imports] = cells[..] else { panic!("a row does not have two cells: {line}") };
        let imports = imports.split(", ").filter(|import| *import != "–").map(str::to_owned).collect();
        (name.split(' ').next().unwrap_or_default().to_owned(), imports)
    };
    rows.map(row).collect()
}

/// Parses the section `dependencies` of every manifest. Dependencies of tests and benchmarks may point anywhere.
fn declared_imports(root: &Path) -> Imports {
    let imports_of = |manifest: &Path| -> BTreeSet<String> {
        let text = std::fs::read_to_string(manifest).unwrap();
        let table: toml::Table = text.parse().unwrap();
        let names = table.get("dependencies").and_then(toml::Value::as_table).into_iter().flat_map(toml::Table::keys);
        names.filter_map(|name| name.strip_prefix("steplatch-")).map(str::to_owned).collect()
    };
    let crates = std::fs::read_dir(root.join("crates")).unwrap().map(|directory| directory.unwrap().path());
    let mut imports: Imports = crates
        .filter(|directory| directory.join("Cargo.toml").exists())
        .map(|directory| {
            (directory.file_name().unwrap().to_string_lossy().into_owned(), imports_of(&directory.join("Cargo.toml")))
        })
        .collect();
    imports.insert(PROGRAM.to_owned(), imports_of(&root.join("Cargo.toml")));
    imports
}

#[test]
fn table_lists_the_imports_of_each_crate() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let documented = documented_imports(&std::fs::read_to_string(root.join(TABLE)).unwrap());
    let declared = declared_imports(root);
    assert!(declared.len() > 15, "{declared:?}");
    for name in documented.keys().chain(declared.keys()) {
        assert_eq!(
            documented.get(name),
            declared.get(name),
            "the imports of '{name}' in {TABLE} and in its manifest differ"
        );
    }
}

#[test]
fn files_named_in_maps_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let is_path = |word: &&str| word.contains("src/") && word.ends_with(".rs") && !word.contains(['…', ' ', '{']);
    let is_missing = |path: &&&str| !root.join(path).exists() && !root.join("crates").join(path).exists();
    for map in MAPS {
        let text = std::fs::read_to_string(root.join(map)).unwrap();
        let paths: Vec<&str> = text.split('`').skip(1).step_by(2).filter(is_path).collect();
        assert!(paths.len() > 30, "{map}: {paths:?}");
        let missing_paths: Vec<&&str> = paths.iter().filter(is_missing).collect();
        assert!(missing_paths.is_empty(), "{map} names missing files: {missing_paths:?}");
    }
}
