//! A journal that the version before wrote, continued by this one from every entry on.

use std::path::Path;

use rusqlite::{Connection, params};
use serde_json::{Value, json};
use steplatch_testkit::{Agent, Home};

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

/// Runs 2 (a machine, with run 3 below it) and 4 (a function, with run 5 below it), whole.
const JOURNAL: &str = include_str!("journals/one_of_each.sql");

/// The workflow that both start, as the library had it.
const INNER: &str = r#"{"name":"inner_machine","description":"Rests twice.","initial_state":"rest","states":{
    "rest":{"action":{"tool":"sleep","params":{"seconds":0.02}},"transitions":[{"condition":{"success":true},"next_state":"done"}]},
    "done":{"action":{"tool":"sleep","params":{"seconds":0}}}}}"#;

/// One run of the journal.
struct OlderRun {
    number: i64,
    id: &'static str,
    /// The run that it starts, and the entry that requests it.
    child: i64,
    starts_child: i64,
    /// The answers to its gates, in order, and the entries that record them.
    answers: &'static [(i64, &'static str)],
    entries: i64,
}

const MACHINE: OlderRun = OlderRun {
    number: 2,
    id: "run_rpnw6zrzx9dd48xz",
    child: 3,
    starts_child: 5,
    answers: &[(12, "ship"), (18, "it is good")],
    entries: 22,
};

const FUNCTION: OlderRun = OlderRun {
    number: 4,
    id: "run_0bmeeehsw2h4x76n",
    child: 5,
    starts_child: 10,
    answers: &[(13, "ship")],
    entries: 23,
};

/// Writes the journal as a daemon left it that was killed after entry `last` of `run`. The child of the run is there
/// whole, or not at all.
fn write_killed(home: &Home, run: &OlderRun, last: i64, has_child: bool) {
    let state = home.path().join("state");
    std::fs::create_dir_all(&state).unwrap();
    let journal = Connection::open(state.join("steplatch.db")).unwrap();
    let folder = home.path().to_str().unwrap();
    journal.execute_batch(&JOURNAL.replace("FOLDER", folder)).unwrap();
    let kept = if has_child { run.child } else { run.number };
    for table in ["runs", "records"] {
        journal
            .execute(&format!("DELETE FROM {table} WHERE number NOT IN (?1, ?2)"), params![run.number, kept])
            .unwrap();
    }
    journal.execute("DELETE FROM records WHERE number = ?1 AND seq > ?2", params![run.number, last]).unwrap();
    // What the version before stores of a run in progress: its summary without its end.
    let summary = "SELECT summary FROM runs WHERE number = ?1";
    let summary: String = journal.query_row(summary, [run.number], |row| row.get(0)).unwrap();
    let mut summary: Value = serde_json::from_str(&summary).unwrap();
    for end in ["ended", "result", "kept"] {
        summary.as_object_mut().unwrap().remove(end);
    }
    let unfinished = "UPDATE runs SET state = 'running', finished_at = NULL, summary = ?2 WHERE number = ?1";
    journal.execute(unfinished, params![run.number, summary.to_string()]).unwrap();
}

/// The types of the entries of a run.
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

/// Continues a run from entry `last` on, and returns its report and the types of all its entries.
fn continued(run: &OlderRun, last: i64, has_child: bool) -> (Value, Vec<String>) {
    let home = Home::new(STEPLATCH);
    write_killed(&home, run, last, has_child);
    std::fs::write(home.path().join("inner.json"), INNER).unwrap();
    home.runs(&["workflow", "load", "inner.json"]).well();
    let agent = Agent::new(&home);
    let look = || agent.calls("get_run", json!({"run_id": run.id, "wait_seconds": 30}));
    for (_, answer) in run.answers.iter().filter(|(entry, _)| *entry > last) {
        let waiting = look();
        assert_eq!(waiting["status"], "waiting", "entry {last}: {waiting}");
        home.answers(run.id, answer).well();
    }
    let report = look();
    (report, entry_types(&home.path().join("state"), run))
}

fn goes_on_from_every_entry(run: &OlderRun, compare: fn(&Value)) {
    let (_, whole) = continued(run, run.entries, true);
    assert_eq!(whole.len(), usize::try_from(run.entries).unwrap(), "a finished run stays as it is");
    for last in 1..run.entries {
        let children: &[bool] = match last {
            last if last < run.starts_child => &[false],
            // The daemon was killed before or after the child began.
            last if last == run.starts_child => &[false, true],
            _ => &[true],
        };
        for has_child in children {
            let (report, types) = continued(run, last, *has_child);
            assert_eq!(report["status"], "completed", "entry {last}: {report}");
            compare(&report);
            assert_eq!(types, whole, "entry {last}: nothing is missing, and nothing is there twice");
        }
    }
}

#[test]
fn a_machine_of_the_version_before_goes_on_from_every_entry() {
    goes_on_from_every_entry(&MACHINE, |report| assert_eq!(report["final_state"], "good", "{report}"));
}

#[test]
fn a_function_of_the_version_before_goes_on_from_every_entry() {
    goes_on_from_every_entry(&FUNCTION, |report| {
        let result =
            json!({"again": {"doubled": 84}, "answer": "ship", "inner": "completed", "later": true, "drawn": true});
        assert_eq!(report["result"], result, "{report}");
    });
}
