//! Files of functions, as a user of the library sees them.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use expect_test::expect;
use serde_json::{Value, json};
use steplatch_ids::WorkflowName;
use steplatch_library::{
    Author, CreateError, Declares, FunctionFile, Library, LookupError, Origin, Signature, Stamp, Status,
};
use tempfile::TempDir;

const NOTES: &str = "async def notes(ctx):\n    return 1\nWorkflow(id='notes', fn=notes)\n";

fn library() -> (TempDir, Library) {
    let directory = tempfile::tempdir().unwrap();
    let library = Library::open(directory.path().join("project/.terminal_control_workflows"));
    (directory, library)
}

fn name(text: &str) -> WorkflowName {
    text.parse().unwrap()
}

fn noon() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_262_400)
}

/// Keeps `text` as if loaded from `flows/notes.py`.
fn load(library: &Library, text: &str, replaces: Option<&Signature>) -> Result<FunctionFile, CreateError> {
    let origin = Origin { file: "flows/notes.py".into(), hash: Signature::of_text(text) };
    let description = Some("Writes notes".to_owned());
    let declares = vec![Declares { id: "notes".to_owned(), kind: "workflow".to_owned(), description }];
    library.keep_functions(&name("notes"), text, Some(origin), declares, replaces)
}

fn metadata_path(library: &Library) -> PathBuf {
    library.directory().join("notes.meta.json")
}

#[test]
fn file_is_saved_unchanged_with_metadata_beside_it() {
    let (_directory, library) = library();
    assert_eq!(library.functions().unwrap(), []);
    let saved = load(&library, NOTES, None).unwrap();
    assert_eq!(fs::read_to_string(library.function_path(&name("notes"))).unwrap(), NOTES);
    let mut metadata: Value = serde_json::from_slice(&fs::read(metadata_path(&library)).unwrap()).unwrap();
    assert!(metadata["created"].as_str().unwrap().ends_with('Z'));
    metadata["created"] = "…".into();
    expect![[r#"
        {
          "hash": "d8c4a6d9",
          "created": "…",
          "version": 1,
          "origin": {
            "file": "flows/notes.py",
            "hash": "d8c4a6d9"
          },
          "declares": [
            {
              "id": "notes",
              "kind": "workflow",
              "description": "Writes notes"
            }
          ],
          "workflows": {}
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&metadata).unwrap().replace(saved.metadata.hash.as_str(), "d8c4a6d9"));
    assert_eq!(library.function_file(&name("notes")).unwrap(), saved);
    let found = library.functions().unwrap();
    assert_eq!((found.len(), found[0].file.as_str(), found[0].name.as_ref().unwrap()), (1, "notes.py", &name("notes")));
    assert!(found[0].stamp.is_some() && found[0].metadata_stamp.is_some());
    assert!(
        library.list().unwrap().entries.is_empty() && library.list().unwrap().broken.is_empty(),
        "a file of functions is not a machine"
    );
}

#[test]
fn run_counts_only_for_its_text_and_changes_reset_to_draft() {
    let (_directory, library) = library();
    let saved = load(&library, NOTES, None).unwrap();
    let hash = saved.metadata.hash;
    for (run, succeeded) in [("run_1", false), ("run_2", true), ("run_2", true)] {
        assert!(library.record_function_run(&name("notes"), "notes", run, &hash, succeeded, noon()).unwrap());
    }
    assert!(library.record_function_run(&name("notes"), "other", "run_2", &hash, false, noon()).unwrap());
    let counts =
        |library: &Library, id: &str| library.function_file(&name("notes")).unwrap().metadata.workflows[id].clone();
    let notes = counts(&library, "notes");
    assert_eq!((notes.run_count, notes.success_count, notes.status), (2, 1, Status::Proven), "no run counts twice");
    assert_eq!(notes.last_run.as_deref(), Some("2026-11-21T12:00:00Z"));
    assert_eq!(counts(&library, "other").status, Status::Draft);

    // Edit the file manually, without notifying the library.
    let path = library.function_path(&name("notes"));
    fs::write(&path, NOTES.replace("return 1", "return 2")).unwrap();
    let edited = library.function_file(&name("notes")).unwrap().metadata;
    assert!(edited.is_edited());
    assert_eq!(
        (edited.version, edited.workflows["notes"].status, edited.workflows["notes"].run_count),
        (2, Status::Draft, 2)
    );
    assert!(
        !library.record_function_run(&name("notes"), "notes", "run_4", &hash, true, noon()).unwrap(),
        "a run of the previous text does not count"
    );
    assert!(library.record_function_run(&name("notes"), "notes", "run_5", &edited.hash, true, noon()).unwrap());
    let saved = library.function_file(&name("notes")).unwrap().metadata;
    assert_eq!(
        (saved.version, saved.workflows["notes"].status, saved.workflows["notes"].run_count),
        (2, Status::Proven, 3)
    );
    assert!(saved.is_edited(), "the text counts as edited until it is loaded again");
}

#[test]
fn text_replaces_only_the_expected_version() {
    let (_directory, library) = library();
    let first = load(&library, NOTES, None).unwrap().metadata;
    let changed = NOTES.replace("return 1", "return 2");
    assert!(matches!(load(&library, &changed, None), Err(CreateError::Exists { .. })));
    let wrong = Signature::of_text("something else");
    assert!(matches!(load(&library, &changed, Some(&wrong)), Err(CreateError::Exists { .. })));
    assert_eq!(fs::read_to_string(library.function_path(&name("notes"))).unwrap(), NOTES);
    let second = load(&library, &changed, Some(&first.hash)).unwrap().metadata;
    assert_eq!((second.version, &second.created), (2, &first.created));
    assert_eq!(
        load(&library, &changed, None).unwrap().metadata.version,
        2,
        "saving the same text creates no new version"
    );
    let long = "#".repeat((1 << 20) + 1);
    assert!(matches!(load(&library, &long, Some(&second.hash)), Err(CreateError::TooLarge { .. })));
}

#[test]
fn invalid_metadata_loses_counts_but_not_the_file() {
    let (_directory, library) = library();
    let saved = load(&library, NOTES, None).unwrap().metadata;
    for junk in ["", "[]", "{\"workflows\": 7}", "{\"version\": -1}", "\u{0}", "{\"hash\": {}}"] {
        fs::write(metadata_path(&library), junk).unwrap();
        let file = library.function_file(&name("notes")).unwrap();
        assert_eq!((file.text.as_str(), &file.metadata.hash), (NOTES, &saved.hash), "{junk}");
        assert!(file.metadata_error.is_some() && file.metadata.workflows.is_empty(), "{junk}");
    }
    // Fields of a newer build are kept, even in one of many workflows.
    fs::write(metadata_path(&library), json!({"hash": saved.hash, "colour": "red", "version": 4}).to_string()).unwrap();
    assert!(library.record_function_run(&name("notes"), "notes", "run_6", &saved.hash, true, noon()).unwrap());
    let metadata: Value = serde_json::from_slice(&fs::read(metadata_path(&library)).unwrap()).unwrap();
    assert_eq!(
        (&metadata["colour"], &metadata["version"], &metadata["workflows"]["notes"]["run_count"]),
        (&json!("red"), &json!(4), &json!(1))
    );
}

#[test]
fn file_from_git_needs_no_metadata() {
    let (_directory, library) = library();
    fs::create_dir_all(library.directory()).unwrap();
    fs::write(library.directory().join("notes.py"), NOTES).unwrap();
    fs::write(library.directory().join("not a name.py"), NOTES).unwrap();
    fs::write(library.directory().join(".hidden.py"), NOTES).unwrap();
    fs::create_dir(library.directory().join("folder.py")).unwrap();
    let found = library.functions().unwrap();
    let files: Vec<_> =
        found.iter().map(|found| (found.file.as_str(), found.name.is_ok(), found.stamp.is_some())).collect();
    assert_eq!(files, [("folder.py", true, false), ("not a name.py", false, true), ("notes.py", true, true)]);
    let file = library.function_file(&name("notes")).unwrap();
    assert_eq!((file.metadata.version, file.metadata.origin, file.metadata_error), (1, None, None));
    assert!(matches!(library.function_file(&name("folder")), Err(LookupError::Broken { .. })));
    fs::write(library.directory().join("latin.py"), b"# \xe4\n").unwrap();
    let latin = library.function_file(&name("latin")).unwrap_err();
    assert!(latin.to_string().ends_with("is broken: it is not UTF-8"), "{latin}");
}

#[test]
fn removing_a_file_removes_its_metadata() {
    let (_directory, library) = library();
    load(&library, NOTES, None).unwrap();
    library.delete_functions(&name("notes")).unwrap();
    assert!(!metadata_path(&library).exists() && library.functions().unwrap().is_empty());
    assert!(matches!(library.delete_functions(&name("notes")), Err(LookupError::NotFound { .. })));
    let hash = Signature::of_text(NOTES);
    let counted = library.record_function_run(&name("notes"), "notes", "run_7", &hash, true, noon());
    assert!(matches!(counted, Err(LookupError::NotFound { .. })));
}

#[test]
fn saved_machine_does_not_reuse_an_existing_name() {
    let (_directory, library) = library();
    let machine = json!({"name": "notes", "initial_state": "a", "states": {"a": {}}});
    let saved = library.keep_proven(&machine, None, &|name| name.as_str() == "notes", &Author::default()).unwrap();
    assert_eq!(saved.name, name("notes_2"));
}

#[test]
fn stamp_detects_changes_and_is_unsettled_while_fresh() {
    let (directory, _) = library();
    let file = directory.path().join("a.py");
    assert_eq!(Stamp::at(&file), None);
    fs::write(&file, "1").unwrap();
    let stamp = Stamp::at(&file).unwrap();
    assert!(!stamp.is_settled());
    fs::write(&file, "22").unwrap();
    assert_ne!(Stamp::at(&file).unwrap(), stamp);
}
