//! Saving, finding and removing workflows through the public interface.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use expect_test::expect;
use serde_json::{Value, json};
use steplatch_ids::WorkflowName;
use steplatch_library::{Author, CreateError, DirectoryError, Library, LookupError, SaveOutcome, Signature, Status};
use tempfile::TempDir;

/// A library in a directory that does not exist yet.
fn library() -> (TempDir, Library) {
    let directory = tempfile::tempdir().unwrap();
    let library = Library::open(directory.path().join("project/.terminal_control_workflows"));
    (directory, library)
}

fn name(text: &str) -> WorkflowName {
    text.parse().unwrap()
}

/// A machine that types `command`.
fn machine(name: &str, command: &str) -> Value {
    json!({
        "name": name,
        "description": "Types a command",
        "initial_state": "type",
        "states": {"type": {"action": {"tool": "send_input", "params": {"input_text": command}}, "timeout": 30.0}},
    })
}

fn unnamed(command: &str) -> Value {
    let mut machine = machine("", command);
    machine.as_object_mut().unwrap().shift_remove("name");
    machine
}

/// A time that is the same in every test.
fn noon() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_262_400)
}

fn names(library: &Library) -> Vec<String> {
    library.list().unwrap().entries.into_iter().map(|entry| entry.name.to_string()).collect()
}

/// The visible files of a directory with their content.
fn files(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = fs::read_dir(directory)
        .unwrap()
        .map(|file| file.unwrap())
        .filter(|file| !file.file_name().to_string_lossy().starts_with(".lock"))
        .map(|file| (file.file_name().to_string_lossy().into_owned(), fs::read(file.path()).unwrap_or_default()))
        .collect();
    files.sort();
    files
}

fn edit(file: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains(from));
    fs::write(file, text.replace(from, to)).unwrap();
}

#[test]
fn workflow_is_one_file_with_keys_in_document_order() {
    let (_directory, library) = library();
    let definition = json!({"states": {"b": {}, "a": {}}, "name": "build", "initial_state": "b"});
    let stored = library.create(&definition, false, &Author::default()).unwrap();
    let text = fs::read_to_string(library.file(&stored.name)).unwrap();
    expect![[r#"
        {
          "definition": {
            "states": {
              "b": {},
              "a": {}
            },
            "name": "build",
            "initial_state": "b"
          },
          "metadata": {
            "hash": "HASH",
            "created": "NOW",
            "version": "1.0",
            "status": "draft",
            "run_count": 0,
            "success_count": 0,
            "last_run": null,
            "total_states": 0
          }
        }
    "#]]
    .assert_eq(&text.replace(stored.metadata.hash.as_str(), "HASH").replace(&stored.metadata.created, "NOW"));
    assert_eq!(stored.metadata.hash.short().len(), 16);
    assert_eq!(library.get(&name("build")).unwrap(), stored);
}

#[test]
fn recording_a_run_changes_only_run_statistics() {
    let (_directory, library) = library();
    let stored = library.create(&machine("build", "make\n"), false, &Author::default()).unwrap();
    let before = fs::read_to_string(library.file(&stored.name)).unwrap();
    assert!(library.record_run(&stored.name, &stored.metadata.hash, true, 3, noon()).unwrap());
    let after = fs::read_to_string(library.file(&stored.name)).unwrap();
    let changed: Vec<&str> =
        after.lines().zip(before.lines()).filter(|(new, old)| new != old).map(|(new, _)| new.trim()).collect();
    expect![[r#"
            "status": "proven",
            "run_count": 1,
            "success_count": 1,
            "last_run": "2026-11-21T12:00:00Z",
            "total_states": 3"#]]
    .assert_eq(&changed.join("\n"));
}

#[test]
fn existing_name_is_refused_unless_overwriting() {
    let (_directory, library) = library();
    let first = library.create(&machine("build", "make\n"), false, &Author::default()).unwrap();
    library.record_run(&first.name, &first.metadata.hash, true, 1, noon()).unwrap();
    let error = library.create(&machine("build", "ninja\n"), false, &Author::default()).unwrap_err();
    assert_eq!(error.to_string(), "Workflow 'build' already exists. Use overwrite_existing=true to replace.");
    assert_eq!(library.get(&first.name).unwrap().metadata.hash, first.metadata.hash);

    let mut described = machine("build", "make\n");
    described["description"] = json!("Makes everything");
    let same = library.create(&described, true, &Author::default()).unwrap();
    assert_eq!(
        (same.metadata.version, same.metadata.status),
        (1, Status::Proven),
        "equal behaviour keeps version and status"
    );
    assert_eq!(library.list().unwrap().entries[0].description.as_deref(), Some("Makes everything"));

    let replaced = library.create(&machine("build", "ninja\n"), true, &Author::default()).unwrap();
    assert_eq!((replaced.metadata.version, replaced.metadata.status), (2, Status::Draft));
    assert_eq!((replaced.metadata.run_count, replaced.metadata.created), (1, first.metadata.created));
}

#[test]
fn invalid_file_names_are_refused_and_create_nothing() {
    let (directory, library) = library();
    for bad in ["..", "../evil", "a/b", "/etc/passwd", "", "a b", &"x".repeat(65)] {
        let result = library.create(&machine(bad, "x"), true, &Author::default());
        assert!(matches!(result, Err(CreateError::InvalidName(_))), "{bad}");
        assert!(library.keep_proven(&machine(bad, "x"), None, &|_| false, &Author::default()).is_err(), "{bad}");
    }
    assert!(matches!(
        library.create(&machine("index", "x"), true, &Author::default()),
        Err(CreateError::ReservedName { .. })
    ));
    assert!(matches!(library.create(&unnamed("x"), true, &Author::default()), Err(CreateError::NoName)));
    assert!(matches!(library.create(&json!([1]), true, &Author::default()), Err(CreateError::NotAnObject)));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    assert!(matches!(library.get(&name("index")), Err(LookupError::NotFound { .. })));
    assert!(matches!(library.delete(&name("index")), Err(LookupError::NotFound { .. })));
    assert!(names(&library).is_empty());
}

#[test]
fn executed_definition_is_saved_once_under_a_free_name() {
    let (_directory, library) = library();
    let keep = |definition: &Value, preferred_name: Option<&str>| {
        let SaveOutcome { saved, name } =
            library.keep_proven(definition, preferred_name.map(name).as_ref(), &|_| false, &Author::default()).unwrap();
        (saved, name.to_string())
    };
    assert_eq!(keep(&machine("build", "make\n"), None), (true, "build".into()));
    assert_eq!(keep(&machine("build", "ninja\n"), None), (true, "build_2".into()));
    assert_eq!(keep(&machine("build", "cargo build\n"), None), (true, "build_3".into()));
    assert_eq!(
        keep(&machine("other", "ninja\n"), None),
        (false, "build_2".into()),
        "an equal definition is not saved again"
    );
    assert_eq!(keep(&machine("build", "x\n"), Some("index")), (true, "index_2".into()));
    let hash = Signature::of_value(&unnamed("y\n"));
    assert_eq!(keep(&unnamed("y\n"), None), (true, format!("workflow_{}", hash.short())));
    let long = "x".repeat(64);
    assert_eq!(keep(&machine(&long, "1"), None), (true, long.clone()));
    assert_eq!(keep(&machine(&long, "2"), None), (true, format!("{}_2", "x".repeat(62))));

    let saved_workflow = library.get(&name("build_2")).unwrap();
    assert_eq!(saved_workflow.definition["name"], "build_2", "the definition is named like its file");
    assert_eq!(saved_workflow.metadata.status, Status::Proven);
    assert_eq!(saved_workflow.metadata.hash, Signature::of_value(&machine("any", "ninja\n")));
    let nameless = library.get(&format!("workflow_{}", hash.short()).parse().unwrap()).unwrap();
    assert_eq!(nameless.definition.as_object().unwrap().keys().next().unwrap(), "name");
}

#[test]
fn completed_draft_is_proven() {
    let (_directory, library) = library();
    library.create(&machine("build", "make\n"), false, &Author::default()).unwrap();
    let outcome = library.keep_proven(&machine("inline", "make\n"), None, &|_| false, &Author::default()).unwrap();
    assert_eq!(outcome, SaveOutcome { saved: false, name: name("build") });
    assert_eq!(library.get(&name("build")).unwrap().metadata.status, Status::Proven);
}

#[test]
fn successes_count_only_for_the_saved_definition() {
    let (_directory, library) = library();
    let stored = library.create(&machine("build", "make\n"), false, &Author::default()).unwrap();
    let record_run =
        |hash: &Signature, succeeded| library.record_run(&stored.name, hash, succeeded, 4, noon()).unwrap();
    assert!(record_run(&stored.metadata.hash, false));
    assert_eq!(library.get(&stored.name).unwrap().metadata.status, Status::Draft);
    assert!(record_run(&stored.metadata.hash, true));
    assert!(
        !record_run(&Signature::of_value(&machine("build", "old\n")), true),
        "a run of the previous definition does not count"
    );
    let metadata = library.get(&stored.name).unwrap().metadata;
    assert_eq!((metadata.run_count, metadata.success_count, metadata.total_states), (2, 1, 4));
    let missing = library.record_run(&name("missing"), &stored.metadata.hash, true, 1, noon());
    assert!(matches!(missing, Err(LookupError::NotFound { .. })));
}

#[test]
fn edited_workflow_is_a_draft_again() {
    let (_directory, library) = library();
    library.keep_proven(&machine("build", "make\n"), None, &|_| false, &Author::default()).unwrap();
    assert_eq!(library.list().unwrap().entries[0].metadata.status, Status::Proven);
    edit(&library.file(&name("build")), "make", "just");
    let entry = library.list().unwrap().entries.remove(0);
    assert_eq!((entry.metadata.status, entry.metadata.version), (Status::Draft, 2));
    assert_eq!(entry.metadata.hash, Signature::of_value(&machine("", "just\n")));
    // Only different behaviour makes a different workflow.
    library.keep_proven(&machine("build", "just\n"), None, &|_| false, &Author::default()).unwrap();
    edit(&library.file(&name("build")), "Types a command", "Types another command");
    assert_eq!(library.get(&name("build")).unwrap().metadata.status, Status::Proven);
    // A copy takes the name of its file, and a file without metadata is a draft.
    fs::copy(library.file(&name("build")), library.file(&name("copy"))).unwrap();
    assert_eq!(library.get(&name("copy")).unwrap().definition["name"], "copy");
    fs::write(library.file(&name("bare")), r#"{"definition": {"states": {}}}"#).unwrap();
    assert_eq!(library.get(&name("bare")).unwrap().metadata.status, Status::Draft);
    assert_eq!(names(&library), ["bare", "build", "copy"]);
}

#[test]
fn unknown_metadata_keys_are_kept() {
    let (_directory, library) = library();
    let stored = library.create(&machine("build", "make\n"), false, &Author::default()).unwrap();
    edit(&library.file(&stored.name), r#""total_states": 0"#, r#""total_states": 0, "stars": 5"#);
    library.record_run(&stored.name, &stored.metadata.hash, true, 1, noon()).unwrap();
    assert!(fs::read_to_string(library.file(&stored.name)).unwrap().contains(r#""stars": 5"#));
}

/// Document 001, lines 436-446: a file of `store_workflow`, and next to it its index (lines 451-469).
#[test]
fn reads_and_counts_library_of_document_001_line_436() {
    let (_directory, library) = library();
    fs::create_dir_all(library.directory()).unwrap();
    let definition = machine("build_project", "make\n");
    let metadata = json!({
        "created": "2025-08-03T12:00:00.123456+00:00", "run_count": 3, "last_run": "2025-08-04T12:00:00.123456+00:00",
        "version": "1.0"
    });
    let file = library.file(&name("build_project"));
    fs::write(&file, serde_json::to_string(&json!({"definition": definition, "metadata": metadata})).unwrap()).unwrap();
    fs::write(library.directory().join(".index.jsonl"), "{\"name\": \"build_project\"}\n").unwrap();
    let listing = library.list().unwrap();
    assert!(listing.broken.is_empty(), "{:?}", listing.broken);
    assert_eq!(names(&library), ["build_project"]);
    let stored = library.get(&name("build_project")).unwrap();
    assert_eq!(stored.definition, definition);
    assert_eq!((stored.metadata.version, stored.metadata.run_count), (1, 3));
    assert_eq!(stored.metadata.created, "2025-08-03T12:00:00.123456+00:00");
    assert!(library.record_run(&stored.name, &stored.metadata.hash, true, 2, noon()).unwrap());
    let written: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!((&written["metadata"]["version"], &written["metadata"]["run_count"]), (&json!("1.0"), &json!(4)));
}

/// Document 000, lines 70-79: a file of `save_successful_workflow`. Line 77: `total_states` counts the states of one
/// execution.
#[test]
fn reads_and_counts_library_of_document_000_line_70() {
    let (_directory, library) = library();
    fs::create_dir_all(library.directory()).unwrap();
    let definition = machine("duplicate_test", "make\n");
    let metadata = json!({
        "hash": "0123456789abcdef", "created": "2025-08-03T12:00:00+00:00", "success_count": 1,
        "last_execution": "2025-08-03T12:00:00+00:00", "total_states": 7
    });
    let file = library.file(&name("duplicate_test"));
    fs::write(&file, serde_json::to_string(&json!({"definition": definition, "metadata": metadata})).unwrap()).unwrap();
    let stored = library.get(&name("duplicate_test")).unwrap();
    assert_eq!((stored.metadata.version, stored.metadata.success_count), (1, 1));
    for states in [5, 2] {
        assert!(library.record_run(&stored.name, &stored.metadata.hash, true, states, noon()).unwrap());
    }
    let counted = library.get(&stored.name).unwrap().metadata;
    assert_eq!((counted.success_count, counted.total_states), (3, 2), "total_states is of the last execution");
    assert_eq!(counted.other["last_execution"], "2025-08-03T12:00:00+00:00");
}

#[test]
fn metadata_never_makes_a_definition_unreadable() {
    let (_directory, library) = library();
    fs::create_dir_all(library.directory()).unwrap();
    let definition = machine("build", "make\n");
    let foreign = [
        (json!(null), 1),
        (json!("by hand"), 1),
        (json!({"run_count": -1, "success_count": 2.5, "status": "archived", "last_run": 1, "created": {}}), 1),
        (json!({"version": 3}), 3),
        (json!({"version": "2.7.1"}), 2),
        (json!({"version": "draft"}), 1),
        (json!({"version": [1]}), 1),
        (json!({"hash": 5, "version": "4.0"}), 4),
    ];
    for (metadata, version) in foreign {
        let text = json!({"definition": definition, "metadata": metadata}).to_string();
        fs::write(library.file(&name("build")), text).unwrap();
        let stored = library.get(&name("build")).unwrap();
        assert_eq!((stored.definition, stored.metadata.version), (definition.clone(), version), "{metadata}");
        assert_eq!(stored.metadata.status, Status::Draft, "{metadata}");
        assert!(library.list().unwrap().broken.is_empty(), "{metadata}");
    }
}

/// Document 001, lines 452-462: an entry of the index.
#[test]
fn list_has_the_contract_and_the_number_of_states() {
    let (_directory, library) = library();
    let mut definition = machine("build", "make\n");
    definition["arguments"] = json!({"ROOT": "where"});
    library.create(&definition, false, &Author::default()).unwrap();
    for round in ["read", "from the index"] {
        let entry = library.list().unwrap().entries.remove(0);
        assert_eq!(Value::Object(entry.arguments), json!({"ROOT": "where"}), "{round}");
        assert_eq!((entry.return_values.len(), entry.state_count), (0, 1), "{round}");
    }
}

#[test]
fn broken_files_are_listed_with_reasons_beside_valid_ones() {
    let (_directory, library) = library();
    library.create(&machine("good", "make\n"), false, &Author::default()).unwrap();
    let at = |name: &str| library.directory().join(name);
    fs::write(at("cut.json"), r#"{"definition": {"#).unwrap();
    fs::write(at("list.json"), "[]").unwrap();
    fs::write(at("empty.json"), "{}").unwrap();
    fs::write(at("text.json"), r#"{"definition": "x"}"#).unwrap();
    fs::write(at("bytes.json"), b"{\"definition\": \"\xff\"}").unwrap();
    fs::write(at("huge.json"), vec![b' '; 10_000_000]).unwrap();
    fs::write(at("no name.json"), "{}").unwrap();
    fs::create_dir(at("folder.json")).unwrap();
    std::os::unix::fs::symlink("nowhere", at("link.json")).unwrap();
    fs::write(at("function.meta.json"), "{}").unwrap();
    fs::write(at("README.md"), "about these workflows").unwrap();
    for round in ["read", "from the index"] {
        let listing = library.list().unwrap();
        assert_eq!(listing.entries.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), ["good"], "{round}");
        let reported: Vec<String> =
            listing.broken.iter().map(|broken| format!("{}: {}", broken.file, broken.reason)).collect();
        expect![[r#"
            bytes.json: this is not JSON: invalid unicode code point at line 1 column 17
            cut.json: this is not JSON: EOF while parsing an object at line 1 column 16
            empty.json: missing field `definition`
            folder.json: it is not a file
            huge.json: it has more than 1048576 bytes
            link.json: it cannot be read: No such file or directory (os error 2)
            list.json: this is not a JSON object
            no name.json: its name cannot be that of a workflow: 'no name' is not a workflow name (1 to 64 letters, digits, '_' or '-', not beginning with '-')
            text.json: its 'definition' is not a JSON object"#]]
        .assert_eq(&reported.join("\n"));
    }
    let broken = library.get(&name("cut")).unwrap_err();
    assert!(matches!(broken, LookupError::Broken { .. }), "{broken}");
    assert!(matches!(library.create(&machine("cut", "x"), false, &Author::default()), Err(CreateError::Exists { .. })));
    assert_eq!(
        library.keep_proven(&machine("cut", "x"), None, &|_| false, &Author::default()).unwrap().name,
        name("cut_2")
    );
    library.create(&machine("cut", "mended"), true, &Author::default()).unwrap();
    library.delete(&name("text")).unwrap();
    assert_eq!(names(&library), ["cut", "cut_2", "good"]);
    assert_eq!(library.list().unwrap().broken.len(), 7);
}

#[test]
fn missing_stale_or_broken_index_is_rebuilt() {
    let (_directory, library) = library();
    library.create(&machine("one", "1"), false, &Author::default()).unwrap();
    let listing = library.list().unwrap();
    let index = library.directory().join("index.json");
    let good = fs::read_to_string(&index).unwrap();
    let newer = good.replace(r#""format": 2"#, r#""format": 3"#);
    assert_ne!(newer, good);
    for bad in ["", "{", "[]", r#"{"format": 2, "files": 3}"#, &newer] {
        fs::write(&index, bad).unwrap();
        assert_eq!(library.list().unwrap(), listing, "{bad}");
        assert_eq!(fs::read_to_string(&index).unwrap(), good, "{bad}");
    }
    fs::remove_file(&index).unwrap();
    assert_eq!(library.list().unwrap(), listing);
    assert!(index.exists());
    // As after `git checkout`: files appear, disappear and change without the library.
    fs::copy(library.file(&name("one")), library.file(&name("two"))).unwrap();
    assert_eq!(names(&library), ["one", "two"]);
    fs::remove_file(library.file(&name("one"))).unwrap();
    assert_eq!(names(&library), ["two"]);
}

#[test]
fn workflow_can_be_deleted_once() {
    let (_directory, library) = library();
    assert!(matches!(library.delete(&name("build")), Err(LookupError::NotFound { .. })));
    library.create(&machine("build", "make\n"), false, &Author::default()).unwrap();
    library.delete(&name("build")).unwrap();
    let error = library.delete(&name("build")).unwrap_err();
    assert_eq!(error.to_string(), "there is no workflow 'build' in the library");
    assert!(matches!(library.get(&name("build")), Err(LookupError::NotFound { .. })));
}

#[test]
fn ten_megabyte_definition_is_refused() {
    let (_directory, library) = library();
    library.create(&machine("build", "make\n"), false, &Author::default()).unwrap();
    let before = files(library.directory());
    let large = machine("build", &"x".repeat(10_000_000));
    for result in [
        library.create(&large, true, &Author::default()).map(|_| ()),
        library.keep_proven(&large, None, &|_| false, &Author::default()).map(|_| ()),
    ] {
        assert!(matches!(result, Err(CreateError::TooLarge { max_bytes: 1_044_480, .. })), "{result:?}");
    }
    assert_eq!(files(library.directory()), before);
    // The largest accepted definition can be read again.
    library.create(&machine("large", &"x".repeat(1_044_000)), false, &Author::default()).unwrap();
    assert_eq!(names(&library), ["build", "large"]);
}

#[test]
fn git_ignores_other_files_of_the_library() {
    let (_directory, library) = library();
    library.create(&machine("build", "make\n"), false, &Author::default()).unwrap();
    library.list().unwrap();
    let ignored = fs::read_to_string(library.directory().join(".gitignore")).unwrap();
    for (file, _) in files(library.directory()) {
        assert!(
            ["build.json", ".gitignore", ".versions"].contains(&file.as_str())
                || ignored.lines().any(|line| line == format!("/{file}")),
            "{file}"
        );
    }
}

#[test]
fn next_writer_removes_unfinished_files() {
    let (_directory, library) = library();
    library.create(&machine("build", "make\n"), false, &Author::default()).unwrap();
    let unfinished_file = library.directory().join(".unfinished-1-0");
    fs::write(&unfinished_file, "{").unwrap();
    assert_eq!(names(&library), ["build"]);
    library.create(&machine("other", "make\n"), false, &Author::default()).unwrap();
    assert!(!unfinished_file.exists());
}

#[test]
fn read_only_directory_is_readable_and_reported_on_write() {
    let (directory, library) = library();
    library.create(&machine("build", "make\n"), false, &Author::default()).unwrap();
    let hash = library.get(&name("build")).unwrap().metadata.hash;
    use std::os::unix::fs::PermissionsExt as _;
    // Tests may run as root, who bypasses permissions; a thread can change its user.
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(library.directory(), fs::Permissions::from_mode(0o555)).unwrap();
    let before = files(library.directory());
    std::thread::scope(|scope| {
        let unprivileged = scope.spawn(|| {
            if rustix::process::geteuid().is_root() {
                let nobody = rustix::process::Uid::from_raw(65534);
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            }
            assert_eq!(names(&library), ["build"]);
            let read_only = |error: &DirectoryError| matches!(error, DirectoryError::ReadOnly { .. });
            let create = library.create(&machine("other", "x"), false, &Author::default()).unwrap_err();
            assert!(matches!(&create, CreateError::Directory(error) if read_only(error)), "{create:?}");
            let keep = library.keep_proven(&machine("other", "x"), None, &|_| false, &Author::default()).unwrap_err();
            assert!(matches!(&keep, CreateError::Directory(error) if read_only(error)), "{keep:?}");
            let delete = library.delete(&name("build")).unwrap_err();
            assert!(matches!(&delete, LookupError::Directory(error) if read_only(error)), "{delete:?}");
            let record_run = library.record_run(&name("build"), &hash, true, 1, noon()).unwrap_err();
            assert!(matches!(&record_run, LookupError::Directory(error) if read_only(error)), "{record_run:?}");
            assert!(record_run.to_string().ends_with(".terminal_control_workflows' is read-only"), "{record_run}");
        });
        unprivileged.join().unwrap();
    });
    assert_eq!(files(library.directory()), before);
    fs::set_permissions(library.directory(), fs::Permissions::from_mode(0o755)).unwrap();
}
