//! Acknowledged entries survive a kill of the process that appends.
//!
//! The test program starts itself again with the ignored test that appends, and kills that process with SIGKILL after
//! some acknowledgements.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use steplatch_ids::RunId;
use steplatch_store::{Append, Journal as _, RunFilter, SqliteJournal, SqliteOptions, Summary};

const JOURNAL: &str = "STEPLATCH_CRASH_TEST_JOURNAL";
const WRITERS: usize = 8;
const CRASHES: usize = 12;

/// Returns the text of entry `seq`: its number, occasionally repeated to make the text long.
fn text(seq: u64) -> String {
    if seq.is_multiple_of(7) { format!("{seq} ").repeat(9_000) } else { format!("{seq} ") }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "started by the test below, in a process that is to be killed"]
async fn append_until_killed() {
    let Ok(path) = std::env::var(JOURNAL) else { return };
    let journal = Arc::new(SqliteJournal::open(Path::new(&path), &SqliteOptions::default()).unwrap());
    let mut runs: Vec<(RunId, u64)> =
        journal.runs(RunFilter::default()).await.unwrap().into_iter().map(|known| (known.run, known.last)).collect();
    runs.resize_with(WRITERS, || (RunId::random(), 0));
    let writers = runs.into_iter().map(|(run, mut last)| {
        let journal = journal.clone();
        tokio::spawn(async move {
            loop {
                let texts = (1..=1 + last % 3).map(|step| text(last + step)).collect::<Vec<_>>();
                let next = last + texts.len() as u64;
                let summary = Summary { state: "running".into(), finished_at: None, text: next.to_string() };
                let append = Append::new(run.clone(), last, 1, texts).with_summary(summary);
                // The test notices a process that exits on its own.
                let Ok(_) = journal.write(append).await else { break };
                last = next;
                // Write each line in one call, so that lines of several writers do not mix.
                let line = format!("\nacknowledged {run} {last}\n");
                std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
}

#[tokio::test]
async fn acknowledged_entries_survive_a_kill_at_any_moment() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("steplatch.db");
    let mut acknowledged: HashMap<RunId, u64> = HashMap::new();
    for crash in 0..CRASHES {
        let kill_after = usize::from(random_byte()) + 1;
        for (run, last) in run_and_kill(&path, kill_after) {
            let before = acknowledged.insert(run, last);
            assert!(before.is_none_or(|before| before <= last), "a history has lost entries");
        }
        let journal = SqliteJournal::open(&path, &SqliteOptions::default()).unwrap();
        assert_eq!(journal.epoch(), 2 * (crash as u64 + 1));
        let known = journal.runs(RunFilter::default()).await.unwrap();
        assert!(known.len() <= WRITERS);
        for (run, last) in &acknowledged {
            let stored_last = known.iter().find(|known| known.run == *run).map_or(0, |known| known.last);
            assert!(stored_last >= *last, "{run} was acknowledged up to {last}, but has entries up to {stored_last}");
        }
        for known in known {
            let records = journal.read(&known.run, 1).await.unwrap();
            let is_complete =
                records.iter().zip(1..).all(|(record, seq)| record.seq == seq && record.text == text(seq));
            assert!(is_complete, "entries of {} are missing, duplicated or out of order", known.run);
            assert_eq!(records.len() as u64, known.last);
            let summary = known.summary.map(|summary| summary.text);
            assert_eq!(summary, Some(known.last.to_string()), "the summary is from another transaction");
        }
        journal.close();
    }
    let total: u64 = acknowledged.values().sum();
    assert!(total > CRASHES as u64, "only {total} entries were written");
}

/// Lets a process append, kills it after `kill_after` acknowledgements, and returns its entire output.
fn run_and_kill(path: &Path, kill_after: usize) -> HashMap<RunId, u64> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["append_until_killed", "--exact", "--ignored", "--nocapture"])
        .env(JOURNAL, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut acknowledged = HashMap::new();
    let mut acknowledgements = 0;
    for line in BufReader::new(child.stdout.take().unwrap()).split(b'\n') {
        let line = String::from_utf8(line.unwrap()).unwrap();
        // A line cut off by the kill is not an acknowledgement.
        let words: Vec<&str> = line.split(' ').collect();
        if let ["acknowledged", run, last] = words[..]
            && let (Ok(run), Ok(last)) = (run.parse(), last.parse())
        {
            acknowledged.insert(run, last);
            acknowledgements += 1;
            if acknowledgements == kill_after {
                child.kill().unwrap();
            }
        }
    }
    let status = child.wait().unwrap();
    assert!(!status.success() && acknowledgements >= kill_after, "the process exited on its own: {status}");
    acknowledged
}

/// Returns a random byte, so that the kill comes at a different moment each time.
fn random_byte() -> u8 {
    RunId::random().as_str().bytes().fold(0, |sum: u8, byte| sum.wrapping_mul(31).wrapping_add(byte))
}
