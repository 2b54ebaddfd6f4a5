//! A process killed while it appends: all acknowledged entries are durable.
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

/// Returns an entry of a writer: its number in the history, and occasionally a long text.
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
                // The test notices a process that ends by itself.
                let Ok(_) = journal.write(append).await else { break };
                last = next;
                // One call of write per line: lines of several writers stay whole.
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
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("steplatch.db");
    let mut acknowledged: HashMap<RunId, u64> = HashMap::new();
    for crash in 0..CRASHES {
        let patience = usize::from(rand_byte()) + 1;
        for (run, last) in run_and_kill(&path, patience) {
            let before = acknowledged.insert(run, last);
            assert!(before.is_none_or(|before| before <= last), "a history got shorter");
        }
        let journal = SqliteJournal::open(&path, &SqliteOptions::default()).unwrap();
        assert_eq!(journal.epoch(), 2 * (crash as u64 + 1));
        let known = journal.runs(RunFilter::default()).await.unwrap();
        assert!(known.len() <= WRITERS);
        for (run, last) in &acknowledged {
            let there = known.iter().find(|known| known.run == *run).map_or(0, |known| known.last);
            assert!(there >= *last, "{run} was acknowledged up to {last}, and has entries up to {there}");
        }
        for known in known {
            let records = journal.read(&known.run, 1).await.unwrap();
            let is_whole = records.iter().zip(1..).all(|(record, seq)| record.seq == seq && record.text == text(seq));
            assert!(is_whole, "entries of {} are missing, doubled or out of order", known.run);
            assert_eq!(records.len() as u64, known.last);
            let summary = known.summary.map(|summary| summary.text);
            assert_eq!(summary, Some(known.last.to_string()), "the summary is from another transaction");
        }
        journal.close();
    }
    let total: u64 = acknowledged.values().sum();
    assert!(total > CRASHES as u64, "only {total} entries were written");
}

/// Lets a process append, kills it after this many acknowledgements, and returns its entire output.
fn run_and_kill(path: &Path, patience: usize) -> HashMap<RunId, u64> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["append_until_killed", "--exact", "--ignored", "--nocapture"])
        .env(JOURNAL, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut acknowledged = HashMap::new();
    let mut seen = 0;
    for line in BufReader::new(child.stdout.take().unwrap()).split(b'\n') {
        let line = String::from_utf8(line.unwrap()).unwrap();
        // A line cut off by the kill is not an acknowledgement.
        let words: Vec<&str> = line.split(' ').collect();
        if let ["acknowledged", run, last] = words[..]
            && let (Ok(run), Ok(last)) = (run.parse(), last.parse())
        {
            acknowledged.insert(run, last);
            seen += 1;
            if seen == patience {
                child.kill().unwrap();
            }
        }
    }
    let status = child.wait().unwrap();
    assert!(!status.success() && seen >= patience, "the process ended by itself: {status}");
    acknowledged
}

/// Returns a random byte, so that the kill comes at a different moment each time.
fn rand_byte() -> u8 {
    RunId::random().as_str().bytes().fold(0, |sum: u8, byte| sum.wrapping_mul(31).wrapping_add(byte))
}
