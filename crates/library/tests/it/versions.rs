//! Versions of a machine: saved on every change, with author and reason, and limited in number.

use std::fs;

use serde_json::{Value, json};
use steplatch_ids::WorkflowName;
use steplatch_library::{Author, Library, LookupError, MAX_VERSIONS, SavedVersion, Status, VersionError};
use tempfile::TempDir;

fn library() -> (TempDir, Library) {
    let directory = tempfile::tempdir().unwrap();
    let library = Library::open(directory.path().join("library"));
    (directory, library)
}

fn build_name() -> WorkflowName {
    "build".parse().unwrap()
}

fn machine(command: &str) -> Value {
    json!({"name": "build", "description": "Builds", "initial_state": "type",
           "states": {"type": {"action": {"tool": "send_input", "params": {"input_text": command}}}}})
}

fn author(by: &str, reason: &str) -> Author {
    Author { by: Some(by.to_owned()), through: Some("cli".to_owned()), reason: Some(reason.to_owned()) }
}

/// Returns each version as number, author, command and a flag for the current version.
fn summarize(versions: &[SavedVersion]) -> Vec<(u32, Option<&str>, &str, bool)> {
    let command = |version: &SavedVersion| {
        version.definition.pointer("/states/type/action/params/input_text").unwrap().as_str().unwrap().to_owned()
    };
    versions
        .iter()
        .map(|version| {
            let command: &str = Box::leak(command(version).into_boxed_str());
            (version.version, version.author.by.as_deref(), command, version.is_current)
        })
        .collect()
}

#[test]
fn change_keeps_the_previous_version_with_its_author() {
    let (_directory, library) = library();
    library.create(&machine("make"), false, &author("ana", "first")).unwrap();
    library.create(&machine("ninja"), true, &author("claude", "faster")).unwrap();
    // A definition with the same behaviour is not a new version.
    let mut described = machine("ninja");
    described["description"] = json!("Builds faster");
    library.create(&described, true, &author("bob", "words")).unwrap();
    let versions = library.versions(&build_name()).unwrap();
    assert_eq!(summarize(&versions), [(2, Some("claude"), "ninja", true), (1, Some("ana"), "make", false)]);
    assert_eq!(versions[0].definition["description"], "Builds faster");
    assert_eq!(versions[0].author.reason.as_deref(), Some("faster"));
    assert!(versions.iter().all(|version| version.saved_at.is_some()));
    assert_eq!(library.version(&build_name(), 1).unwrap().definition, machine("make"));
    let error = library.version(&build_name(), 7).unwrap_err();
    assert!(matches!(&error, VersionError::NoVersion { .. }), "{error}");
    assert_eq!(error.to_string(), "workflow 'build' has no version 7; there are 2, 1");
    // Restoring an old version creates a new version.
    let restored =
        library.create(&library.version(&build_name(), 1).unwrap().definition, true, &author("ana", "back")).unwrap();
    assert_eq!((restored.metadata.version, restored.metadata.status), (3, Status::Draft));
    assert_eq!(library.list().unwrap().entries.len(), 1, "versions are not listed as workflows");
    assert!(library.list().unwrap().broken.is_empty());
    let ignored = fs::read_to_string(library.directory().join(".versions/.gitignore")).unwrap();
    assert_eq!(ignored, "*\n", "git ignores the versions");
}

#[test]
fn manually_edited_file_is_a_version_without_author() {
    let (_directory, library) = library();
    library.create(&machine("make"), false, &author("ana", "first")).unwrap();
    let file = library.file(&build_name());
    let edited = fs::read_to_string(&file).unwrap().replace("\"make\"", "\"make -j\"");
    fs::write(&file, edited).unwrap();
    let versions = library.versions(&build_name()).unwrap();
    assert_eq!(summarize(&versions), [(2, None, "make -j", true), (1, Some("ana"), "make", false)]);
    library.create(&machine("ninja"), true, &author("bob", "")).unwrap();
    let versions = library.versions(&build_name()).unwrap();
    assert_eq!(
        summarize(&versions),
        [(3, Some("bob"), "ninja", true), (2, None, "make -j", false), (1, Some("ana"), "make", false)]
    );
    assert_eq!(versions[0].author.reason, None, "an empty reason counts as missing");
}

#[test]
fn versions_survive_an_older_library_and_a_foreign_file() {
    let (_directory, library) = library();
    library.create(&machine("make"), false, &author("ana", "")).unwrap();
    let first = fs::read_to_string(library.file(&build_name())).unwrap();
    // An earlier steplatch recorded no versions.
    fs::remove_dir_all(library.directory().join(".versions")).unwrap();
    library.create(&machine("ninja"), true, &author("bob", "")).unwrap();
    let versions = library.versions(&build_name()).unwrap();
    assert_eq!(summarize(&versions), [(2, Some("bob"), "ninja", true), (1, None, "make", false)]);
    // Git brings a file with a number taken by another definition.
    let other = first
        .replace("\"make\"", "\"just\"")
        .replace(&library.versions(&build_name()).unwrap()[1].hash.to_string(), "");
    fs::write(library.file(&build_name()), other).unwrap();
    let before = library.versions(&build_name()).unwrap();
    assert!(before.iter().any(|version| version.is_current));
    library.create(&machine("bazel"), true, &author("eve", "")).unwrap();
    let commands: Vec<_> =
        summarize(&library.versions(&build_name()).unwrap()).into_iter().map(|summary| summary.2.to_owned()).collect();
    for command in ["make", "ninja", "just", "bazel"] {
        assert!(commands.iter().any(|known| known == command), "{command} of {commands:?}");
    }
}

#[test]
fn versions_outlive_the_workflow_until_forgotten() {
    let (_directory, library) = library();
    library.create(&machine("make"), false, &author("ana", "")).unwrap();
    library.create(&machine("ninja"), true, &author("ana", "")).unwrap();
    library.delete(&build_name()).unwrap();
    let versions = library.versions(&build_name()).unwrap();
    assert_eq!(summarize(&versions), [(2, Some("ana"), "ninja", false), (1, Some("ana"), "make", false)]);
    let recreated = library.create(&machine("ninja"), false, &author("bob", "")).unwrap();
    assert_eq!(recreated.metadata.version, 3, "version numbers are not reused");
    assert_eq!(library.forget_versions(&build_name()).unwrap(), 2);
    assert_eq!(summarize(&library.versions(&build_name()).unwrap()), [(3, Some("bob"), "ninja", true)]);
    library.delete(&build_name()).unwrap();
    assert_eq!(library.forget_versions(&build_name()).unwrap(), 1);
    assert!(matches!(library.versions(&build_name()), Err(LookupError::NotFound { .. })));
    assert_eq!(library.forget_versions(&build_name()).unwrap(), 0);
}

#[test]
fn oldest_versions_are_removed_and_other_files_ignored() {
    let (_directory, library) = library();
    for number in 0..MAX_VERSIONS + 5 {
        library.create(&machine(&format!("make {number}")), true, &author("ana", "")).unwrap();
    }
    let versions = library.versions(&build_name()).unwrap();
    assert_eq!((versions.len(), versions.last().unwrap().version), (MAX_VERSIONS, 6));
    let directory = library.directory().join(".versions/build");
    fs::write(directory.join("54.json"), "{").unwrap();
    fs::write(directory.join("notes.json"), "{}").unwrap();
    fs::write(directory.join("53.json"), r#"{"format": 99, "version": 53, "definition": {}}"#).unwrap();
    assert_eq!(library.versions(&build_name()).unwrap().len(), MAX_VERSIONS - 2);
}

#[test]
fn unstorable_version_prevents_the_change() {
    let (_directory, library) = library();
    library.create(&machine("make"), false, &author("ana", "")).unwrap();
    fs::remove_dir_all(library.directory().join(".versions")).unwrap();
    fs::write(library.directory().join(".versions"), "a file in its place").unwrap();
    assert!(library.create(&machine("ninja"), true, &author("ana", "")).is_err());
    assert_eq!(library.get(&build_name()).unwrap().definition, machine("make"));
}

#[test]
fn replacement_applies_only_to_its_own_definition() {
    let (directory, library) = library();
    let replace = |before: &str, after: &str| {
        let replaced = library.replace(&build_name(), (&machine(before), &machine(after)), &author("ana", "repaired"));
        replaced.unwrap().map(|stored| stored.metadata.version)
    };
    assert!(
        library.replace(&build_name(), (&machine("make"), &machine("ninja")), &Author::default()).is_err(),
        "none there"
    );
    library.create(&machine("make"), false, &author("bob", "first")).unwrap();
    assert_eq!(replace("make", "ninja"), Some(2));
    assert_eq!(replace("make", "ninja"), Some(2), "a repeated replacement returns the same version");
    assert_eq!(replace("make", "meson"), None, "the definition has changed in the meantime");
    assert_eq!(library.get(&build_name()).unwrap().definition, machine("ninja"));
    // A process killed after writing the file leaves its version without an author.
    fs::remove_file(directory.path().join("library/.versions/build/2.json")).unwrap();
    assert_eq!(replace("make", "ninja"), Some(2));
    let versions = library.versions(&build_name()).unwrap();
    assert_eq!(summarize(&versions), [(2, Some("ana"), "ninja", true), (1, Some("bob"), "make", false)]);
}
