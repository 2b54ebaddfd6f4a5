//! Several processes that share one library, and a process without disk space.
//!
//! The test program starts itself again with one of the ignored tests.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::SystemTime;

use serde_json::{Value, json};
use steplatch_ids::WorkflowName;
use steplatch_library::{Author, CreateError, DirectoryError, Library, Status};

const DIRECTORY: &str = "STEPLATCH_LIBRARY_TEST_FOLDER";
const WRITER: &str = "STEPLATCH_LIBRARY_TEST_WRITER";
const PROCESSES: usize = 4;
const THREADS: usize = 10;

fn machine(name: &str, command: &str) -> Value {
    json!({"name": name, "initial_state": "s", "states": {"s": {"input_text": command}}})
}

fn name(text: &str) -> WorkflowName {
    text.parse().unwrap()
}

fn library() -> Option<Library> {
    std::env::var_os(DIRECTORY).map(|directory| Library::open(PathBuf::from(directory)))
}

#[test]
#[ignore = "started by a test below, as one of several processes"]
fn save_from_many_threads() {
    let Some(library) = library() else { return };
    let process = std::env::var(WRITER).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (library, process) = (Library::open(library.directory()), &process);
            scope.spawn(move || {
                let outcome = library
                    .keep_proven(&machine("same", &format!("{process} {thread}")), None, &|_| false, &Author::default())
                    .unwrap();
                assert!(outcome.saved);
                let shared = library.get(&name("shared")).unwrap();
                library.record_run(&shared.name, &shared.metadata.hash, thread % 2 == 0, 3, SystemTime::now()).unwrap();
                assert!(library.list().unwrap().broken.is_empty());
            });
        }
    });
}

#[test]
fn concurrent_saves_by_four_processes_are_all_kept() {
    let directory = tempfile::tempdir().unwrap();
    let library = Library::open(directory.path());
    library.create(&machine("shared", "x"), false, &Author::default()).unwrap();
    let writers: Vec<_> = (0..PROCESSES)
        .map(|process| {
            Command::new(std::env::current_exe().unwrap())
                .args(["processes::save_from_many_threads", "--exact", "--ignored"])
                .env(DIRECTORY, directory.path())
                .env(WRITER, process.to_string())
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for mut writer in writers {
        assert!(writer.wait().unwrap().success());
    }
    let listing = library.list().unwrap();
    assert!(listing.broken.is_empty(), "{:?}", listing.broken);
    let mut names: Vec<String> = listing.entries.iter().map(|entry| entry.name.to_string()).collect();
    let mut expected: Vec<String> = (2..=PROCESSES * THREADS).map(|number| format!("same_{number}")).collect();
    expected.extend(["same".to_owned(), "shared".to_owned()]);
    names.sort();
    expected.sort();
    assert_eq!(names, expected);
    let mut commands: Vec<String> = (names.iter().filter(|name| *name != "shared"))
        .map(|saved| library.get(&name(saved)).unwrap().definition["states"]["s"]["input_text"].to_string())
        .collect();
    commands.sort();
    commands.dedup();
    assert_eq!(commands.len(), PROCESSES * THREADS, "every workflow has its own content");
    let shared = library.get(&name("shared")).unwrap().metadata;
    let run_total = (PROCESSES * THREADS) as u64;
    assert_eq!((shared.run_count, shared.success_count, shared.total_states), (run_total, run_total / 2, 3));
    let directory_entries = std::fs::read_dir(directory.path()).unwrap().flatten();
    assert_eq!(
        directory_entries.filter(|file| file.file_name().to_string_lossy().starts_with(".unfinished")).count(),
        0
    );
}

#[test]
#[ignore = "started by the test below, where no file can become large"]
fn save_without_disk_space() {
    let Some(library) = library() else { return };
    let no_room = |error: &CreateError| matches!(error, CreateError::Directory(DirectoryError::NoRoom { .. }));
    let large = "x".repeat(500_000);
    let create = library.create(&machine("build", &large), true, &Author::default()).unwrap_err();
    assert!(no_room(&create), "{create:?}");
    let keep = library.keep_proven(&machine("other", &large), None, &|_| false, &Author::default()).unwrap_err();
    assert!(no_room(&keep), "{keep:?}");
    assert_eq!(library.get(&name("build")).unwrap().metadata.status, Status::Draft);
    // After a file that is too large, a smaller file is saved.
    library.create(&machine("small", "x"), false, &Author::default()).unwrap();
}

#[test]
fn full_disk_is_reported_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let library = Library::open(directory.path());
    let before = library.create(&machine("build", "make\n"), false, &Author::default()).unwrap();
    // The shell's blocks have 512 or 1024 bytes. The signal at the limit would terminate the process.
    let status = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 100; exec \"$0\" processes::save_without_disk_space --exact --ignored"])
        .arg(std::env::current_exe().unwrap())
        .env(DIRECTORY, directory.path())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    assert_eq!(library.get(&name("build")).unwrap(), before);
    let names: Vec<String> = library.list().unwrap().entries.into_iter().map(|entry| entry.name.to_string()).collect();
    assert_eq!(names, ["build", "small"]);
    let directory_entries = std::fs::read_dir(directory.path()).unwrap().flatten();
    assert_eq!(
        directory_entries.filter(|file| file.file_name().to_string_lossy().starts_with(".unfinished")).count(),
        0
    );
}
