//! Guarantees specific to this journal: durability, damage detection, and refusal to write when it must not.

use std::sync::Arc;

use proptest::prelude::*;
use rusqlite::Connection;
use tempfile::TempDir;

use super::*;
use crate::{MemoryJournal, Summary};

/// A journal that removes its directory on drop.
#[derive(Debug)]
struct Temporary {
    journal: SqliteJournal,
    _directory: TempDir,
}

impl Temporary {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { journal: open(&directory), _directory: directory }
    }
}

#[async_trait]
impl Journal for Temporary {
    async fn write(&self, append: Append) -> Result<Appended, AppendError> {
        self.journal.write(append).await
    }

    async fn read(&self, run: &RunId, from: u64) -> Result<Vec<Record>, ReadError> {
        self.journal.read(run, from).await
    }

    async fn read_some(&self, run: &RunId, from: u64, limit: usize) -> Result<Vec<Record>, ReadError> {
        self.journal.read_some(run, from, limit).await
    }

    async fn runs(&self, filter: RunFilter) -> Result<Vec<KnownRun>, StorageError> {
        self.journal.runs(filter).await
    }

    async fn find(&self, run: &RunId) -> Result<Option<KnownRun>, StorageError> {
        self.journal.find(run).await
    }

    async fn private(&self, run: &RunId) -> Result<Option<String>, StorageError> {
        self.journal.private(run).await
    }

    async fn run_with_key(&self, key: &str) -> Result<Option<RunId>, StorageError> {
        self.journal.run_with_key(key).await
    }

    async fn forget(&self, run: &RunId) -> Result<(), StorageError> {
        self.journal.forget(run).await
    }

    async fn empty_log(&self) -> Result<bool, StorageError> {
        self.journal.empty_log().await
    }

    async fn forget_finished(&self, retention: Retention) -> Result<Vec<RunId>, StorageError> {
        self.journal.forget_finished(retention).await
    }
}

mod conformance {
    crate::conformance!(super::Temporary::new());
}

fn file(directory: &TempDir) -> PathBuf {
    directory.path().join("state/steplatch.db")
}

fn open(directory: &TempDir) -> SqliteJournal {
    open_with(directory, &SqliteOptions::default())
}

fn open_with(directory: &TempDir, options: &SqliteOptions) -> SqliteJournal {
    SqliteJournal::open(&file(directory), options).unwrap()
}

/// Changes the database directly, without the journal.
fn tamper(directory: &TempDir, statement: &str) {
    Connection::open(file(directory)).unwrap().execute_batch(statement).unwrap();
}

fn count(directory: &TempDir, table: &str) -> i64 {
    let connection = Connection::open(file(directory)).unwrap();
    connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

async fn append(journal: &SqliteJournal, run: &RunId, after: u64, texts: &[&str]) -> Result<u64, AppendError> {
    journal.append(run, after, 1, texts.iter().map(|&text| text.to_owned()).collect()).await
}

fn long(seed: usize) -> String {
    (0..20_000).map(|line| format!("{} ", line * seed)).collect()
}

/// Nearly incompressible text.
fn dense(length: usize) -> String {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'!' + u8::try_from((state >> 33) % 90).unwrap())
    };
    (0..length).map(|_| next()).collect()
}

#[tokio::test]
async fn appended_entries_survive_reopening() {
    let directory = tempfile::tempdir().unwrap();
    let run = RunId::random();
    let journal = open(&directory);
    append(&journal, &run, 0, &["one", &long(1)]).await.unwrap();
    journal.close();
    let journal = open(&directory);
    assert_eq!(journal.epoch(), 2);
    let texts: Vec<String> = journal.read(&run, 1).await.unwrap().into_iter().map(|record| record.text).collect();
    assert_eq!(texts, ["one".to_owned(), long(1)]);
    assert_eq!(append(&journal, &run, 2, &["three"]).await.unwrap(), 3);
}

#[test]
fn only_its_user_can_read_the_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let journal = open(&directory);
    for path in [file(&directory), file(&directory).with_extension("db-wal")] {
        assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    journal.close();
}

#[tokio::test]
async fn emptying_the_log_removes_private_text_from_all_files() {
    let directory = tempfile::tempdir().unwrap();
    let journal = open(&directory);
    let run = RunId::random();
    let private = "a secret that nobody reads";
    let started = Append::new(run.clone(), 0, 1, vec!["begun".into()]).with_private(private);
    journal.write(started).await.unwrap();
    let files_contain_private_text = || {
        let files = std::fs::read_dir(directory.path().join("state")).unwrap().flatten();
        let texts = files.map(|file| std::fs::read(file.path()).unwrap());
        texts.into_iter().any(|bytes| bytes.windows(private.len()).any(|window| window == private.as_bytes()))
    };
    assert!(files_contain_private_text());
    let summary = Summary { state: "completed".into(), finished_at: Some(1), text: String::new() };
    journal.write(Append::new(run, 1, 1, vec!["over".into()]).with_summary(summary)).await.unwrap();
    // A reader in the middle of a read prevents emptying the log, and the reply reports this.
    let reader = rusqlite::Connection::open(file(&directory)).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM runs").unwrap();
    assert!(!journal.empty_log().await.unwrap());
    reader.execute_batch("COMMIT").unwrap();
    assert!(journal.empty_log().await.unwrap());
    assert!(!files_contain_private_text());
}

#[tokio::test]
async fn next_owner_empties_the_log_of_a_killed_owner() {
    let directory = tempfile::tempdir().unwrap();
    let journal = open(&directory);
    append(&journal, &RunId::random(), 0, &["one"]).await.unwrap();
    let log = file(&directory).with_extension("db-wal");
    assert!(std::fs::metadata(&log).unwrap().len() > 0);
    // The connections of the killed journal are never closed.
    let next = open(&directory);
    assert_eq!(std::fs::metadata(&log).unwrap().len(), 0);
    next.close();
    journal.close();
}

#[tokio::test]
async fn journal_with_a_removed_file_refuses_to_write() {
    let directory = tempfile::tempdir().unwrap();
    let journal = open(&directory);
    let run = RunId::random();
    append(&journal, &run, 0, &["one"]).await.unwrap();
    std::fs::rename(file(&directory), directory.path().join("elsewhere")).unwrap();
    let result = append(&journal, &run, 1, &["two"]).await;
    assert!(matches!(result, Err(AppendError::Storage(StorageError::Gone))), "{result:?}");
    std::fs::write(file(&directory), "").unwrap();
    assert!(
        matches!(journal.forget(&run).await, Err(StorageError::Gone)),
        "a different file at the same path is refused"
    );
    std::fs::rename(directory.path().join("elsewhere"), file(&directory)).unwrap();
    assert_eq!(append(&journal, &run, 1, &["two"]).await.unwrap(), 2);
}

#[tokio::test]
async fn former_owner_is_refused_but_can_read() {
    let directory = tempfile::tempdir().unwrap();
    let run = RunId::random();
    let former = open(&directory);
    append(&former, &run, 0, &["one"]).await.unwrap();
    let owner = open(&directory);
    let result = append(&former, &run, 1, &["two"]).await;
    assert!(matches!(result, Err(AppendError::Storage(StorageError::NotOwner { own: 1, owner: 2 }))), "{result:?}");
    assert!(matches!(former.forget(&run).await, Err(StorageError::NotOwner { .. })));
    assert_eq!(append(&owner, &run, 1, &["two"]).await.unwrap(), 2);
    assert_eq!(former.read(&run, 1).await.unwrap().len(), 2);
}

#[tokio::test]
async fn one_of_many_concurrent_writers_is_accepted() {
    let directory = tempfile::tempdir().unwrap();
    let journal = Arc::new(open(&directory));
    let run = RunId::random();
    let tasks: Vec<_> = (0..100)
        .map(|writer: u32| {
            let (journal, run) = (journal.clone(), run.clone());
            tokio::spawn(async move { journal.append(&run, 0, 1, vec![writer.to_string()]).await.is_ok() })
        })
        .collect();
    let mut accepted_count = 0;
    for task in tasks {
        accepted_count += usize::from(task.await.unwrap());
    }
    assert_eq!((accepted_count, journal.read(&run, 1).await.unwrap().len()), (1, 1));
}

#[tokio::test]
async fn history_longer_than_one_read_is_complete() {
    let directory = tempfile::tempdir().unwrap();
    let journal = open(&directory);
    let run = RunId::random();
    let texts: Vec<String> = (1..=2 * READ_BATCH + 5).map(|number| number.to_string()).collect();
    journal.append(&run, 0, 1, texts.clone()).await.unwrap();
    let stored_texts: Vec<String> =
        journal.read(&run, 1).await.unwrap().into_iter().map(|record| record.text).collect();
    assert_eq!(stored_texts, texts);
}

#[tokio::test]
async fn reading_a_changed_entry_reports_the_damage() {
    let directory = tempfile::tempdir().unwrap();
    let journal = open(&directory);
    let damages = [
        ("text = 'twO'", "its checksum does not match"),
        ("text = NULL", "one of its parts is missing"),
        ("checksum = checksum + 1", "its checksum does not match"),
        ("version = 0", "its checksum does not match"),
        ("number = 0", "it is missing, although a later one exists"),
    ];
    for (change, what) in damages {
        let run = RunId::random();
        append(&journal, &run, 0, &["one", "two", "three"]).await.unwrap();
        let of_run = format!("number = (SELECT number FROM runs WHERE run = '{run}')");
        tamper(&directory, &format!("UPDATE records SET {change} WHERE seq = 2 AND {of_run}"));
        let output = journal.read(&run, 1).await.unwrap_err().to_string();
        assert_eq!(output, format!("entry 2 of run {run} is damaged: {what}"));
        assert!(journal.read(&run, 3).await.is_ok(), "a later entry can be read on its own");
    }
}

#[tokio::test]
async fn entry_of_another_run_is_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let journal = open(&directory);
    let (run, other_run) = (RunId::random(), RunId::random());
    append(&journal, &run, 0, &["one"]).await.unwrap();
    append(&journal, &other_run, 0, &["one"]).await.unwrap();
    tamper(&directory, "DELETE FROM records WHERE number = 1; UPDATE records SET number = 1");
    assert!(matches!(journal.read(&run, 1).await, Err(ReadError::Damaged { seq: 1, .. })));
}

#[tokio::test]
async fn reading_changed_long_text_reports_the_damage() {
    let directory = tempfile::tempdir().unwrap();
    let journal = open(&directory);
    let run = RunId::random();
    append(&journal, &run, 0, &[&long(1), &long(2)]).await.unwrap();
    let swap = "UPDATE blobs SET (length, packed) = (SELECT length, packed FROM blobs WHERE rowid = 2) WHERE rowid = 1";
    let changes = [
        (swap, "the hash of its compressed text does not match"),
        ("UPDATE blobs SET length = 1 << 40", "its length does not match"),
        ("UPDATE blobs SET packed = x'ff', length = 10", "its compressed text cannot be decompressed"),
        ("DELETE FROM blobs", "one of its numbers is missing"),
    ];
    for (change, what) in changes {
        tamper(&directory, change);
        let output = journal.read(&run, 1).await.unwrap_err().to_string();
        assert_eq!(output, format!("entry 1 of run {run} is damaged: {what}"));
    }
}

#[tokio::test]
async fn reading_an_entry_of_a_newer_version_fails() {
    let directory = tempfile::tempdir().unwrap();
    let journal = open_with(&directory, &SqliteOptions { newest_version: 1, ..SqliteOptions::default() });
    let run = RunId::random();
    append(&journal, &run, 0, &["one"]).await.unwrap();
    journal.append(&run, 1, 2, vec!["two".into()]).await.unwrap();
    let output = journal.read(&run, 1).await.unwrap_err().to_string();
    assert_eq!(output, format!("entry 2 of run {run} has version 2, and 1 is the newest that is known here"));
    tamper(&directory, "UPDATE records SET format = 3 WHERE seq = 1");
    let output = journal.read(&run, 1).await.unwrap_err().to_string();
    assert_eq!(output, format!("entry 1 of run {run} has version 3, and 2 is the newest that is known here"));
}

#[tokio::test]
async fn long_text_is_stored_once_while_referenced() {
    let directory = tempfile::tempdir().unwrap();
    let journal = open(&directory);
    let (run, other_run) = (RunId::random(), RunId::random());
    append(&journal, &run, 0, &[&long(1), &long(1), &long(2), "short"]).await.unwrap();
    append(&journal, &other_run, 0, &[&long(1)]).await.unwrap();
    assert_eq!(count(&directory, "blobs"), 2);
    journal.forget(&run).await.unwrap();
    assert_eq!(count(&directory, "blobs"), 1);
    assert_eq!(journal.read(&other_run, 1).await.unwrap()[0].text, long(1));
    journal.forget(&other_run).await.unwrap();
    assert_eq!([count(&directory, "blobs"), count(&directory, "records"), count(&directory, "runs")], [0, 0, 0]);
}

#[tokio::test]
async fn append_reports_full_disk_and_succeeds_once_space_is_free() {
    let directory = tempfile::tempdir().unwrap();
    let journal = open_with(&directory, &SqliteOptions { max_bytes: Some(1 << 20), ..SqliteOptions::default() });
    let (old, run) = (RunId::random(), RunId::random());
    append(&journal, &old, 0, &[&dense(600_000)]).await.unwrap();
    append(&journal, &run, 0, &["one"]).await.unwrap();
    let summary = Summary { state: "running".into(), finished_at: None, text: "{}".into() };
    let large = Append::new(run.clone(), 1, 1, vec!["two".into(), dense(700_000)]).with_summary(summary).with_key("k");
    let result = journal.write(large.clone()).await;
    assert!(matches!(result, Err(AppendError::Storage(StorageError::Full(_)))), "{result:?}");
    assert_eq!(journal.read(&run, 1).await.unwrap().len(), 1);
    let known = journal.runs(RunFilter { limit: Some(1), ..RunFilter::default() }).await.unwrap();
    assert_eq!((known[0].last, &known[0].summary), (1, &None));
    assert_eq!(journal.run_with_key("k").await.unwrap(), None);
    // A small entry still fits, and the large one fits once another run is removed.
    assert_eq!(append(&journal, &run, 1, &["two"]).await.unwrap(), 2);
    journal.forget(&old).await.unwrap();
    let written = journal.write(Append { after: 2, ..large }).await.unwrap();
    assert_eq!(written, Appended::Written { last: 4 });
    assert_eq!(journal.read(&run, 4).await.unwrap()[0].text, dense(700_000));
}

#[tokio::test]
async fn entry_too_large_for_the_disk_does_not_fail_its_batch() {
    let directory = tempfile::tempdir().unwrap();
    let journal =
        Arc::new(open_with(&directory, &SqliteOptions { max_bytes: Some(1 << 20), ..SqliteOptions::default() }));
    let tasks: Vec<_> = (0..40)
        .map(|number| {
            let journal = journal.clone();
            let text = if number == 20 { dense(2_000_000) } else { number.to_string() };
            tokio::spawn(async move { journal.append(&RunId::random(), 0, 1, vec![text]).await })
        })
        .collect();
    let mut failed_numbers = Vec::new();
    for (number, task) in tasks.into_iter().enumerate() {
        if let Err(error) = task.await.unwrap() {
            assert!(matches!(error, AppendError::Storage(StorageError::Full(_))), "{error:?}");
            failed_numbers.push(number);
        }
    }
    assert_eq!(failed_numbers, [20]);
    assert_eq!(journal.runs(RunFilter::default()).await.unwrap().len(), 39);
}

#[tokio::test]
async fn append_reports_read_only_file_until_it_is_writable() {
    let directory = tempfile::tempdir().unwrap();
    let journal = open(&directory);
    let run = RunId::random();
    append(&journal, &run, 0, &["one"]).await.unwrap();
    let set_read_only = |read_only: bool| {
        journal.request(WriterCommand::Tamper(Box::new(move |connection| {
            connection.pragma_update(None, "query_only", read_only)
        })))
    };
    set_read_only(true).await.map(|_| ()).unwrap();
    let result = append(&journal, &run, 1, &["two"]).await;
    assert!(matches!(result, Err(AppendError::Storage(StorageError::ReadOnly(_)))), "{result:?}");
    set_read_only(false).await.map(|_| ()).unwrap();
    assert_eq!(append(&journal, &run, 1, &["two"]).await.unwrap(), 2);
}

#[tokio::test]
async fn journal_of_a_newer_build_is_refused_and_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    open(&directory).close();
    tamper(&directory, "PRAGMA user_version = 7");
    let error = SqliteJournal::open(&file(&directory), &SqliteOptions::default()).unwrap_err();
    assert!(matches!(error, OpenError::Newer { found: 7, known: 1, .. }), "{error:?}");
    assert!(error.to_string().ends_with("has format 7, and 1 is the newest that is known here"));
    tamper(&directory, "PRAGMA user_version = 1");
    assert_eq!(open(&directory).epoch(), 2, "the failed open has not taken over the journal");
}

#[test]
fn foreign_file_is_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(file(&directory).parent().unwrap()).unwrap();
    tamper(&directory, "CREATE TABLE bookmarks (url TEXT)");
    let before = std::fs::read(file(&directory)).unwrap();
    let error = SqliteJournal::open(&file(&directory), &SqliteOptions::default()).unwrap_err();
    assert!(matches!(error, OpenError::Foreign { .. }), "{error:?}");
    assert_eq!(std::fs::read(file(&directory)).unwrap(), before);

    std::fs::write(file(&directory), "not a database, and longer than the head of one. ".repeat(99)).unwrap();
    let error = SqliteJournal::open(&file(&directory), &SqliteOptions::default()).unwrap_err();
    assert!(matches!(error, OpenError::Storage { .. }), "{error:?}");

    let error = SqliteJournal::open(&file(&directory).join("below/a/file.db"), &SqliteOptions::default()).unwrap_err();
    assert!(matches!(error, OpenError::File { .. }), "{error:?}");
}

#[tokio::test]
async fn commits_wait_for_the_disk() {
    let directory = tempfile::tempdir().unwrap();
    let journal = open(&directory);
    let check = |connection: &Connection| {
        let pragma =
            |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, rusqlite::types::Value>(0));
        assert_eq!(pragma("synchronous")?, 2.into(), "2 is FULL");
        assert_eq!(pragma("journal_mode")?, "wal".to_owned().into());
        Ok(())
    };
    // A failed assertion ends the writer thread, and so closes the journal.
    assert!(journal.request(WriterCommand::Tamper(Box::new(check))).await.is_ok());
}

/// An operation on a journal. Runs and keys are numbers, so that operations interact.
#[derive(Debug, Clone)]
enum Operation {
    Append { run: usize, behind: u64, texts: Vec<String>, summary: Option<(u8, Option<u64>)>, key: Option<u8> },
    Forget { run: usize },
    ForgetFinished { keep: usize, since: Option<u64> },
    Reopen,
}

fn operation() -> impl Strategy<Value = Operation> {
    let text = prop_oneof![4 => ".{0,30}", 1 => (1usize..4).prop_map(long)];
    let summary = proptest::option::of((0u8..3, proptest::option::of(0u64..50)));
    let append = (0usize..6, 0u64..8, proptest::collection::vec(text, 0..4), summary, proptest::option::of(0u8..4))
        .prop_map(|(run, behind, texts, summary, key)| Operation::Append {
            run,
            // Most writers know the newest entry.
            behind: behind.saturating_sub(6),
            texts,
            summary,
            key: key.filter(|key| *key < 2),
        });
    prop_oneof![
        12 => append,
        2 => (0usize..6).prop_map(|run| Operation::Forget { run }),
        1 => (0usize..4, proptest::option::of(0u64..50)).prop_map(|(keep, since)| Operation::ForgetFinished { keep, since }),
        1 => Just(Operation::Reopen),
    ]
}

/// Formats the result of an append so that two journals can be compared.
fn comparable(result: Result<Appended, AppendError>) -> String {
    format!("{result:?}")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn sqlite_and_memory_journals_behave_alike(
        operations in proptest::collection::vec(operation(), 1..40)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(compare(operations));
    }
}

async fn compare(operations: Vec<Operation>) {
    let directory = tempfile::tempdir().unwrap();
    let (memory, mut sqlite) = (MemoryJournal::default(), open(&directory));
    let runs: Vec<RunId> = (0..6).map(|_| RunId::random()).collect();
    for operation in operations {
        match operation {
            Operation::Append { run, behind, texts, summary, key } => {
                let last = memory.read(&runs[run], 1).await.unwrap().len() as u64;
                let mut append = Append::new(runs[run].clone(), last.saturating_sub(behind), 3, texts);
                append.summary = summary.map(|(state, finished_at)| Summary {
                    state: state.to_string(),
                    finished_at,
                    text: format!("{{\"last\":{last}}}"),
                });
                append.key = key.map(|key| key.to_string());
                assert_eq!(comparable(sqlite.write(append.clone()).await), comparable(memory.write(append).await));
            }
            Operation::Forget { run } => {
                sqlite.forget(&runs[run]).await.unwrap();
                memory.forget(&runs[run]).await.unwrap();
            }
            Operation::ForgetFinished { keep, since } => {
                let retention = Retention { keep, finished_since: since };
                let forgotten_ids = sqlite.forget_finished(retention).await.unwrap();
                assert_eq!(forgotten_ids, memory.forget_finished(retention).await.unwrap());
            }
            Operation::Reopen => {
                sqlite.close();
                sqlite = open(&directory);
            }
        }
        for filter in [
            RunFilter::default(),
            RunFilter { state: Some("1".into()), before: Some(4), ..RunFilter::default() },
            RunFilter { limit: Some(2), ..RunFilter::default() },
        ] {
            assert_eq!(sqlite.runs(filter.clone()).await.unwrap(), memory.runs(filter).await.unwrap());
        }
        for run in &runs {
            assert_eq!(sqlite.read(run, 2).await.unwrap(), memory.read(run, 2).await.unwrap());
        }
        for key in ["0", "1"] {
            assert_eq!(sqlite.run_with_key(key).await.unwrap(), memory.run_with_key(key).await.unwrap());
        }
    }
    for run in &runs {
        sqlite.forget(run).await.unwrap();
    }
    sqlite.close();
    for table in ["runs", "records", "blobs", "keys"] {
        assert_eq!(count(&directory, table), 0, "{table} still has rows after all runs were removed");
    }
}

#[test]
fn damaged_file_is_not_reported_as_a_full_disk() {
    let directory = tempfile::tempdir().unwrap();
    open(&directory).close();
    let mut bytes = std::fs::read(file(&directory)).unwrap();
    bytes[100..].fill(0x5a);
    std::fs::write(file(&directory), bytes).unwrap();
    let error = SqliteJournal::open(&file(&directory), &SqliteOptions::default()).unwrap_err();
    assert!(matches!(&error, OpenError::Storage { cause: StorageError::Damaged(_), .. }), "{error:?}");
    // A directory in place of the log: the file is unusable, and the disk is not full.
    let directory = tempfile::tempdir().unwrap();
    open(&directory).close();
    std::fs::create_dir(file(&directory).with_extension("db-wal")).unwrap();
    let error = SqliteJournal::open(&file(&directory), &SqliteOptions::default()).unwrap_err();
    assert!(matches!(&error, OpenError::Storage { cause: StorageError::Failed(_), .. }), "{error:?}");
    let file_names = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(file_names.into_iter().all(|name| !name.to_string_lossy().contains("room")), "the trial file is removed");
}

const FULL_DISK: &str = "STEPLATCH_FULL_DISK";

#[test]
#[ignore = "started by the test below, on a small file system"]
fn owner_process_on_a_full_disk() {
    let path =
        std::path::PathBuf::from(std::env::var_os(FULL_DISK).expect("the test sets the directory")).join("journal.db");
    if !path.exists() {
        let journal = SqliteJournal::open(&path, &SqliteOptions::default()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(append(&journal, &RunId::random(), 0, &["one"])).unwrap();
        std::fs::write(path.with_file_name("filler"), vec![1; 64 << 20]).unwrap_err();
        std::process::abort();
    }
    let error = SqliteJournal::open(&path, &SqliteOptions::default()).unwrap_err();
    assert!(matches!(&error, OpenError::Storage { cause: StorageError::Full(_), .. }), "{error:?}");
}

#[test]
fn opening_a_killed_owners_journal_reports_full_disk() {
    let directory = tempfile::tempdir().unwrap();
    // Use a separate mount namespace: it ends with its processes. The first process aborts.
    let script = "mount -t tmpfs -o size=1m none \"$STEPLATCH_FULL_DISK\" || exit 77; \"$@\"; exec \"$@\"";
    let child = std::process::Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["sqlite::tests::owner_process_on_a_full_disk", "--exact", "--ignored"])
        .env(FULL_DISK, directory.path())
        .output();
    let output = match child {
        Ok(output) if output.status.code() != Some(77) && !output.stdout.is_empty() => output,
        refused => return steplatch_patience::skip_test(&format!("a file system cannot be mounted: {refused:?}")),
    };
    let test_output = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && test_output.contains("1 passed"), "{test_output}");
}
