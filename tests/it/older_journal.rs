//! Continuation of runs from a journal of the previous version.
//!
//! The journal is cut after each append of a run, as if the daemon had been killed there. A daemon of this version must
//! complete the run with the same entries, without a missing or repeated one.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, params};
use serde_json::{Value, json};
use steplatch_testkit::{Agent, CommandOutput, Home};
use xxhash_rust::xxh3::Xxh3;

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

/// Journal with two complete runs: 2 (a state machine with the nested run 3) and 4 (a function with the nested run 5).
const JOURNAL: &str = include_str!("journals/one_of_each.sql");

/// The nested workflow of both runs, as stored in the library.
const INNER: &str = r#"{"name":"inner_machine","description":"Rests twice.","initial_state":"rest","states":{
    "rest":{"action":{"tool":"sleep","params":{"seconds":0.02}},"transitions":[{"condition":{"success":true},"next_state":"done"}]},
    "done":{"action":{"tool":"sleep","params":{"seconds":0}}}}}"#;

/// A run of the journal.
struct OlderRun {
    number: i64,
    id: &'static str,
    /// The number of the nested run.
    child: i64,
    /// The number of the entry that requests the start of the nested run.
    child_start: i64,
    /// The answers to the gates in order, with the numbers of the entries that record them.
    answers: &'static [(i64, &'static str)],
    /// The numbers of the last entries of the appends. A daemon is killed between two appends, not within one.
    appends: &'static [i64],
}

const MACHINE: OlderRun = OlderRun {
    number: 2,
    id: "run_rpnw6zrzx9dd48xz",
    child: 3,
    child_start: 5,
    answers: &[(12, "ship"), (18, "it is good")],
    appends: &[2, 5, 6, 11, 15, 17, 20, 22],
};

const FUNCTION: OlderRun = OlderRun {
    number: 4,
    id: "run_0bmeeehsw2h4x76n",
    child: 5,
    child_start: 10,
    answers: &[(13, "ship")],
    appends: &[1, 2, 4, 6, 8, 10, 12, 14, 16, 19, 21, 23],
};

/// Start of the first run, in microseconds since the Unix epoch.
const START_TIME: i64 = 1_795_407_634_597_340;

/// Returns journal text with all timestamps shifted by this number of microseconds.
fn shift_timestamps(text: &str, by: i64) -> String {
    let mut shifted = String::with_capacity(text.len());
    for part in text.split_inclusive(|character: char| !character.is_ascii_digit()) {
        let digits = part.trim_end_matches(|character: char| !character.is_ascii_digit());
        match digits.parse::<i64>() {
            Ok(at) if digits.len() == 16 && at >= START_TIME => {
                shifted += &(at + by).to_string();
                shifted += &part[digits.len()..];
            }
            _ => shifted += part,
        }
    }
    shifted
}

/// Returns the checksum of a record's run, numbers and text.
fn checksum(run: &str, numbers: [i64; 3], text: &str) -> i64 {
    let mut hash = Xxh3::new();
    hash.update(run.as_bytes());
    numbers.iter().for_each(|number| hash.update(&number.to_le_bytes()));
    hash.update(text.as_bytes());
    hash.digest().cast_signed()
}

/// Moves the start of all runs to a minute ago, because time limits count from the start.
fn move_to_now(journal: &Connection) {
    let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap();
    let shift = now - START_TIME - 60_000_000;
    let select = "SELECT number, seq, format, version, checksum, text, run FROM records JOIN runs USING (number)";
    let mut records = journal.prepare(select).unwrap();
    let mut records = records.query([]).unwrap();
    while let Some(row) = records.next().unwrap() {
        let [number, seq, format, version, stored_checksum] =
            [0, 1, 2, 3, 4].map(|column| row.get::<_, i64>(column).unwrap());
        let (text, run) = (row.get::<_, String>(5).unwrap(), row.get::<_, String>(6).unwrap());
        assert_eq!(checksum(&run, [seq, format, version], &text), stored_checksum);
        let text = shift_timestamps(&text, shift);
        let checksum = checksum(&run, [seq, format, version], &text);
        let update = "UPDATE records SET text = ?3, checksum = ?4 WHERE number = ?1 AND seq = ?2";
        journal.execute(update, params![number, seq, text, checksum]).unwrap();
    }
    let mut runs = journal.prepare("SELECT number, summary FROM runs").unwrap();
    let mut runs = runs.query([]).unwrap();
    while let Some(row) = runs.next().unwrap() {
        let (number, summary) = (row.get::<_, i64>(0).unwrap(), row.get::<_, String>(1).unwrap());
        let update = "UPDATE runs SET summary = ?2, finished_at = finished_at + ?3 WHERE number = ?1";
        journal.execute(update, params![number, shift_timestamps(&summary, shift), shift / 1000]).unwrap();
    }
}

/// Writes the journal of a daemon that was killed after entry `last` of `run`. The child of the run is complete or
/// absent.
fn write_interrupted_journal(home: &Home, run: &OlderRun, last: i64, has_child: bool) {
    let file = home.path().join("state/steplatch.db");
    // Replace the journal of the daemon that filled the library.
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{suffix}", file.display()));
    }
    let journal = Connection::open(&file).unwrap();
    let directory = home.path().join("project");
    journal.execute_batch(&JOURNAL.replace("FOLDER", directory.to_str().unwrap())).unwrap();
    move_to_now(&journal);
    let child = if has_child { run.child } else { run.number };
    for table in ["runs", "records"] {
        journal
            .execute(&format!("DELETE FROM {table} WHERE number NOT IN (?1, ?2)"), params![run.number, child])
            .unwrap();
    }
    journal.execute("DELETE FROM records WHERE number = ?1 AND seq > ?2", params![run.number, last]).unwrap();
    // The previous version stores the summary of a run in progress without its end.
    let summary = "SELECT summary FROM runs WHERE number = ?1";
    let summary: String = journal.query_row(summary, [run.number], |row| row.get(0)).unwrap();
    let mut summary: Value = serde_json::from_str(&summary).unwrap();
    for key in ["ended", "result", "kept"] {
        summary.as_object_mut().unwrap().remove(key);
    }
    let unfinished = "UPDATE runs SET state = 'running', finished_at = NULL, summary = ?2 WHERE number = ?1";
    journal.execute(unfinished, params![run.number, summary.to_string()]).unwrap();
}

/// Returns the types of the entries of a run.
fn entry_types(state: &Path, run: &OlderRun) -> Vec<String> {
    let journal = Connection::open(state.join("steplatch.db")).unwrap();
    let mut texts = journal.prepare("SELECT text FROM records WHERE number = ?1 ORDER BY seq").unwrap();
    let texts = texts.query_map([run.number], |row| row.get::<_, String>(0)).unwrap();
    let entry_type = |text: String| {
        let entry: Value = serde_json::from_str(&text).unwrap();
        let name = ["event", "function"].iter().find_map(|tag| entry[tag].as_str()).unwrap();
        format!("{name} {}", entry["call"]["call"].as_str().or(entry["choice"].as_str()).unwrap_or_default())
    };
    texts.map(|text| entry_type(text.unwrap())).collect()
}

/// Continues a run after entry `last` and returns its report and the types of all its entries.
fn continue_run(run: &OlderRun, last: i64, has_child: bool) -> (Value, Vec<String>) {
    let home = Home::new(STEPLATCH);
    let project = home.path().join("project");
    std::fs::create_dir(&project).unwrap();
    std::fs::write(project.join("inner.json"), INNER).unwrap();
    let output = home.steplatch().current_dir(&project).args(["workflow", "load", "inner.json"]).output().unwrap();
    CommandOutput::from_process(&output).expect_success();
    home.run(&["daemon", "stop"]).expect_success();
    write_interrupted_journal(&home, run, last, has_child);
    let agent = Agent::new(&home);
    let get_run = || agent.call_tool("get_run", json!({"run_id": run.id, "wait_seconds": 30}));
    for (_, answer) in run.answers.iter().filter(|(entry, _)| *entry > last) {
        let waiting = get_run();
        assert_eq!(waiting["status"], "waiting", "entry {last}: {waiting}");
        home.answer_gate(run.id, answer).expect_success();
    }
    let report = get_run();
    (report, entry_types(&home.path().join("state"), run))
}

fn continue_from_every_append(run: &OlderRun, check_report: fn(&Value)) {
    let [unfinished @ .., end] = run.appends else { panic!("a run has entries") };
    let (_, complete_types) = continue_run(run, *end, true);
    assert_eq!(complete_types.len(), usize::try_from(*end).unwrap(), "a finished run is unchanged");
    for &last in unfinished {
        let children: &[bool] = match last {
            last if last < run.child_start => &[false],
            // The daemon was killed before or after the child started.
            last if last == run.child_start => &[false, true],
            _ => &[true],
        };
        for has_child in children {
            let (report, entry_types) = continue_run(run, last, *has_child);
            assert_eq!(report["status"], "completed", "entry {last}: {report}");
            check_report(&report);
            assert_eq!(entry_types, complete_types, "entry {last}: no entry is missing or repeated");
        }
    }
}

#[test]
fn machine_of_the_previous_version_continues_from_every_append() {
    continue_from_every_append(&MACHINE, |report| assert_eq!(report["final_state"], "good", "{report}"));
}

#[test]
fn function_of_the_previous_version_continues_from_each_append() {
    continue_from_every_append(&FUNCTION, |report| {
        let result =
            json!({"again": {"doubled": 84}, "answer": "ship", "inner": "completed", "later": true, "drawn": true});
        assert_eq!(report["result"], result, "{report}");
    });
}
