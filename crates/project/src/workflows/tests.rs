//! The interface for runs, and a read-only directory.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, SystemTime};

use serde_json::json;
use steplatch_protocol::{CreateWorkflow, DeleteWorkflow};
use tempfile::TempDir;

use super::*;
use crate::disk::{DISK_TIMEOUT, MAX_WRITERS};
use crate::workers::WorkerStarter;

/// Returns a caller whose library is the directory `name` of a temporary one.
fn caller(directory: &TempDir, name: &str) -> Caller {
    let library = directory.path().join(name);
    Caller::unnamed(directory.path().to_owned(), [("STEPLATCH_LIBRARY".into(), library.into())].into())
}

/// Returns the workflows of a caller without functions.
fn without_functions() -> Workflows {
    Workflows::new(Workers::new(WorkerStarter::Disabled))
}

/// Returns a project without declarations.
fn empty() -> Project {
    Project::from_files(PathBuf::new(), Vec::new(), &[])
}

fn machine(name: &str, seconds: u32) -> Value {
    json!({
        "name": name,
        "description": "Sleeps",
        "initial_state": "sleep",
        "states": {"sleep": {"action": {"tool": "sleep", "params": {"seconds": seconds}}}},
    })
}

#[tokio::test]
async fn completed_workflow_is_saved_once_and_its_runs_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let caller = caller(&directory, "library");
    let workflows = without_functions();
    let library = workflows.directory(&caller);
    assert_eq!(library, directory.path().join("library"));
    let outcome = workflows.keep_definition(&library, machine("nap", 1).into()).await.unwrap();
    assert!(outcome.saved && outcome.name.as_str() == "nap");
    assert!(
        !workflows.keep_definition(&library, machine("other", 1).into()).await.unwrap().saved,
        "an equivalent definition is not saved again"
    );
    assert_eq!(workflows.keep_definition(&library, machine("nap", 2).into()).await.unwrap().name.as_str(), "nap_2");
    assert_eq!(workflows.available(&caller).await, ["nap", "nap_2"]);

    let WorkflowRef::Machine(saved) = workflows.find(&caller, "nap").await.unwrap() else { panic!("a machine") };
    assert_eq!((&saved.definition, &saved.directory), (&machine("nap", 1), &library));
    let noon = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_262_400);
    for succeeded in [true, false] {
        workflows.record_run(&library, &saved.name, &saved.signature, succeeded, 3, noon).await;
    }
    let counted = Library::open(&library).get(&saved.name).unwrap().metadata;
    assert_eq!((counted.run_count, counted.success_count, counted.total_states), (2, 1, 3));
    // A workflow removed in the meantime is not an error.
    workflows.delete(&caller, DeleteWorkflow { name: "nap".to_owned() }).await;
    workflows.record_run(&library, &saved.name, &saved.signature, true, 3, noon).await;
    assert_eq!(
        workflows.find(&caller, "nap").await.unwrap_err().to_string(),
        "Workflow 'nap' not found. Available workflows: nap_2"
    );
}

#[tokio::test]
async fn number_of_available_names_is_limited() {
    let directory = tempfile::tempdir().unwrap();
    let caller = caller(&directory, "library");
    let workflows = without_functions();
    for number in 0..60 {
        workflows
            .keep_definition(&workflows.directory(&caller), machine(&format!("w{number:02}"), number).into())
            .await
            .unwrap();
    }
    let names = workflows.available(&caller).await;
    assert_eq!((names.len(), names[0].as_str(), names[49].as_str()), (50, "w00", "w49"));
}

#[tokio::test]
async fn writers_fail_after_waiting_for_a_held_lock() {
    let directory = tempfile::tempdir().unwrap();
    let caller = caller(&directory, "library");
    let disk = BlockingPool::new();
    let workflows = Workflows { disk: disk.with_timeout(Duration::from_millis(100)), ..without_functions() };
    let library = workflows.directory(&caller);
    without_functions().keep_definition(&library, machine("nap", 1).into()).await.unwrap();
    let lock = fs::File::open(library.join(".lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    for _ in 0..=MAX_WRITERS {
        let error = workflows.keep_definition(&library, machine("other", 2).into()).await.unwrap_err();
        assert!(error.to_string().contains("another program holds its lock"), "{error}");
    }
    let patient = Workflows { disk: workflows.disk.with_timeout(DISK_TIMEOUT), ..workflows.clone() };
    assert!(patient.find(&caller, "nap").await.is_ok());
    drop(lock);
    assert!(
        patient.keep_definition(&library, machine("third", 3).into()).await.unwrap().saved,
        "waiting writers have released their permits"
    );
}

#[test]
fn read_only_library_is_readable_and_errors_name_a_remedy() {
    let directory = tempfile::tempdir().unwrap();
    let caller = caller(&directory, "library");
    let directories = LibrarySearch::for_caller(&caller).directories();
    let verb =
        |name: &str| CreateWorkflow { workflow_definition: machine(name, 1), overwrite_existing: false, reason: None };
    assert!(crate::verbs::create(&directories, &empty(), &verb("nap"), &Author::default()).success);
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&directories.first, fs::Permissions::from_mode(0o555)).unwrap();
    // Tests may run as root, who bypasses permissions; a thread can change its user.
    let unprivileged = || {
        if rustix::process::geteuid().is_root() {
            let nobody = rustix::process::Uid::from_raw(65534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        }
        let error = crate::verbs::create(&directories, &empty(), &verb("other"), &Author::default()).error.unwrap();
        let expected =
            format!("The workflow was not saved: the library '{}' is read-only", directories.first.display());
        assert!(error.starts_with(&expected), "{error}");
        assert!(error.contains("Set STEPLATCH_LIBRARY to a writable directory"), "{error}");
        let error = crate::verbs::delete(&directories, &empty(), "nap").unwrap_err().to_string();
        assert!(error.starts_with("Workflow 'nap' was not removed: the library '"), "{error}");
        assert_eq!(available_names(&directories, &empty()), ["nap"]);
        assert!(look_up(&directories, &empty(), "nap").is_ok());
    };
    std::thread::scope(|scope| scope.spawn(unprivileged).join().unwrap());
    fs::set_permissions(&directories.first, fs::Permissions::from_mode(0o755)).unwrap();
}
