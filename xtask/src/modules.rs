//! The check that every source file is compiled: the compiler would skip a file that no `mod` names, and its tests
//! would not run.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::sources::rust_sources;

/// Test programs of crates that have more than one, with the reason.
///
/// The reason for a single test program for each crate: each program links the whole crate again.
const SEVERAL_TEST_PROGRAMS: [(&str, &[&str], &str); 2] = [
    ("crates/mcp", &["conformance", "tools"], "conformance shares its sources with an example of the crate"),
    ("crates/nodes", &["escapees", "it"], "escapees adopts orphans for its whole process"),
];

/// Returns the paths of the packages of this workspace.
fn packages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let crates = std::fs::read_dir(root.join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let mut packages: Vec<PathBuf> = crates.filter(|path| path.join("Cargo.toml").exists()).collect();
    packages.extend([root.to_owned(), root.join("xtask")]);
    packages.sort();
    packages
}

/// Returns the sources of the programs that cargo finds in a directory (`tests` or `src/bin`): `NAME.rs` and
/// `NAME/main.rs`. The directory need not exist.
fn programs(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    let paths = entries.map(|entry| entry.unwrap().path());
    let program = |path: PathBuf| {
        let source = if path.is_dir() { path.join("main.rs") } else { path };
        (source.extension().is_some_and(|extension| extension == "rs") && source.exists()).then_some(source)
    };
    let mut programs: Vec<PathBuf> = paths.filter_map(program).collect();
    programs.sort();
    programs
}

fn program_name(source: &Path) -> String {
    let path = if source.ends_with("main.rs") { source.parent().unwrap() } else { source };
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

/// Returns the names of the modules that a source declares in separate files, with their `path` attributes.
fn declared_modules(source: &str) -> Vec<(String, Option<String>)> {
    let mut modules = Vec::new();
    let mut path = None;
    for line in source.lines().map(str::trim) {
        if let Some(attribute) = line.strip_prefix("#[path = \"") {
            path = attribute.split('"').next().map(str::to_owned);
            continue;
        }
        let words = line.strip_suffix(';').map(|declaration| declaration.split_whitespace().collect::<Vec<_>>());
        if let Some(name) = words.as_deref().and_then(|words| match words {
            ["mod", name] | ["pub" | "pub(crate)" | "pub(super)", "mod", name] => Some(*name),
            _ => None,
        }) {
            modules.push((name.to_owned(), path.take()));
        }
    }
    modules
}

/// Adds a source and the modules below it.
fn follow(source: &Path, is_root: bool, compiled: &mut BTreeSet<PathBuf>) {
    let directory = source.parent().unwrap();
    // Modules of `graph.rs` are in `graph/`; modules of a crate root are next to the root.
    let module_directory = if is_root { directory.to_owned() } else { source.with_extension("") };
    compiled.insert(source.to_owned());
    for (name, path) in declared_modules(&std::fs::read_to_string(source).unwrap()) {
        let file = path.map_or_else(|| module_directory.join(format!("{name}.rs")), |path| directory.join(path));
        if file.exists() {
            follow(&file, false, compiled);
        }
    }
}

#[test]
fn every_source_is_a_module_of_a_program_or_library() {
    let (mut all, mut compiled) = (BTreeSet::new(), BTreeSet::new());
    for package in packages() {
        let mut roots = ["src/lib.rs", "src/main.rs"].map(|root| package.join(root)).to_vec();
        roots.retain(|root| root.exists());
        roots.extend(["src/bin", "tests"].iter().flat_map(|directory| programs(&package.join(directory))));
        for root in roots {
            follow(&root, true, &mut compiled);
        }
        all.extend(["src", "tests"].iter().flat_map(|directory| rust_sources(&package.join(directory)).unwrap()));
    }
    assert!(all.len() > 400, "{}", all.len());
    let unreferenced: Vec<&PathBuf> = all.difference(&compiled).collect();
    assert!(unreferenced.is_empty(), "no `mod` names these files, so they are not compiled: {unreferenced:#?}");
}

#[test]
fn every_crate_has_one_test_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for package in packages() {
        let names: Vec<String> = programs(&package.join("tests")).iter().map(|source| program_name(source)).collect();
        let exception = SEVERAL_TEST_PROGRAMS.iter().find(|(directory, ..)| package == root.join(directory));
        match exception {
            Some((_, listed, _)) => {
                assert_eq!(names, *listed, "the test programs of {}, listed in {}", package.display(), file!());
            }
            None => assert!(
                names.len() <= 1,
                "{} has several test programs: {names:?}. Make them modules of tests/it/main.rs, or list them with a \
                 reason in {}",
                package.display(),
                file!()
            ),
        }
    }
}

#[test]
fn modules_are_found_with_any_visibility() {
    let source =
        "mod one;\npub(crate) mod two;\n#[path = \"../three.rs\"]\nmod other;\nmod inline {\n}\n// mod four;\n";
    let modules = declared_modules(source);
    let names: Vec<(&str, Option<&str>)> =
        modules.iter().map(|(name, path)| (name.as_str(), path.as_deref())).collect();
    assert_eq!(names, [("one", None), ("two", None), ("other", Some("../three.rs"))]);
}
