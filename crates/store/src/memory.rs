//! A journal in the memory of this process.

use std::collections::HashMap;

use async_trait::async_trait;
use parking_lot::Mutex;
use steplatch_ids::RunId;

use crate::{
    Append, AppendError, Appended, Journal, KnownRun, ReadError, Record, Retention, RunFilter, StorageError, Summary,
};

/// Journal that stores histories in memory.
#[derive(Debug, Default)]
pub struct MemoryJournal {
    histories: Mutex<Histories>,
}

#[derive(Debug, Default)]
struct Histories {
    runs: HashMap<RunId, StoredRun>,
    keys: HashMap<String, RunId>,
    started_runs: u64,
}

#[derive(Debug)]
struct StoredRun {
    number: u64,
    records: Vec<Record>,
    summary: Option<Summary>,
    private: Option<String>,
}

impl StoredRun {
    fn to_known_run(&self, run: &RunId) -> KnownRun {
        KnownRun {
            run: run.clone(),
            number: self.number,
            last: self.records.len() as u64,
            summary: self.summary.clone(),
        }
    }

    fn finished_at(&self) -> Option<u64> {
        self.summary.as_ref().and_then(|summary| summary.finished_at)
    }
}

impl Histories {
    fn write(&mut self, append: Append) -> Result<Appended, AppendError> {
        let Append { run, after, version, texts, summary, key, private, redacted } = append;
        if let Some(existing) = key.as_ref().and_then(|key| self.keys.get(key)) {
            return Ok(Appended::Existing { run: existing.clone() });
        }
        let last = self.runs.get(&run).map_or(0, |stored| stored.records.len() as u64);
        if last != after {
            return Err(AppendError::Conflict { run, expected: after, is: last });
        }
        if last == 0 && texts.is_empty() {
            return Ok(Appended::Written { last: 0 });
        }
        let run_count = &mut self.started_runs;
        let stored = self.runs.entry(run.clone()).or_insert_with(|| {
            *run_count += 1;
            StoredRun { number: *run_count, records: Vec::new(), summary: None, private: None }
        });
        for (seq, text) in redacted {
            if let Some(record) = stored.records.iter_mut().find(|record| record.seq == seq) {
                record.text = text;
            }
        }
        for text in texts {
            stored.records.push(Record { seq: stored.records.len() as u64 + 1, version, text });
        }
        if summary.is_some() {
            stored.summary = summary;
        }
        if private.is_some() {
            stored.private = private;
        }
        if stored.finished_at().is_some() {
            stored.private = None;
        }
        let last = stored.records.len() as u64;
        if let Some(key) = key {
            self.keys.insert(key, run);
        }
        Ok(Appended::Written { last })
    }

    fn forget(&mut self, run: &RunId) {
        self.runs.remove(run);
        self.keys.retain(|_, owner| owner != run);
    }

    fn forget_finished(&mut self, retention: Retention) -> Vec<RunId> {
        let mut finished: Vec<(u64, u64, RunId)> = self
            .runs
            .iter()
            .filter_map(|(run, stored)| Some((stored.finished_at()?, stored.number, run.clone())))
            .collect();
        finished.sort_unstable();
        let surplus = finished.len().saturating_sub(retention.keep);
        let expired_run = |(rank, (at, _, run)): (usize, (u64, u64, RunId))| {
            (rank < surplus || retention.finished_since.is_some_and(|since| at < since)).then_some(run)
        };
        let forgotten: Vec<RunId> = finished.into_iter().enumerate().filter_map(expired_run).collect();
        forgotten.iter().for_each(|run| self.forget(run));
        forgotten
    }
}

impl MemoryJournal {
    fn with<R>(&self, change: impl FnOnce(&mut Histories) -> R) -> R {
        // Each change is atomic under the lock, so a panic elsewhere leaves no partial change.
        change(&mut self.histories.lock())
    }
}

#[async_trait]
impl Journal for MemoryJournal {
    async fn write(&self, append: Append) -> Result<Appended, AppendError> {
        self.with(|histories| histories.write(append))
    }

    async fn read(&self, run: &RunId, from: u64) -> Result<Vec<Record>, ReadError> {
        self.read_some(run, from, usize::MAX).await
    }

    async fn read_some(&self, run: &RunId, from: u64, limit: usize) -> Result<Vec<Record>, ReadError> {
        self.with(|histories| {
            let records = histories.runs.get(run).map(|stored| stored.records.as_slice()).unwrap_or_default();
            let skipped = usize::try_from(from.saturating_sub(1)).unwrap_or(usize::MAX);
            Ok(records.iter().skip(skipped).take(limit).cloned().collect())
        })
    }

    async fn runs(&self, filter: RunFilter) -> Result<Vec<KnownRun>, StorageError> {
        self.with(|histories| {
            let matching = |stored: &StoredRun| {
                filter.before.is_none_or(|before| stored.number < before)
                    && filter.finished.is_none_or(|finished| stored.finished_at().is_some() == finished)
                    && filter
                        .state
                        .as_ref()
                        .is_none_or(|state| stored.summary.as_ref().is_some_and(|summary| summary.state == *state))
            };
            let matching = histories.runs.iter().filter(|(_, stored)| matching(stored));
            let mut runs: Vec<KnownRun> = matching.map(|(run, stored)| stored.to_known_run(run)).collect();
            runs.sort_unstable_by_key(|run| std::cmp::Reverse(run.number));
            runs.truncate(filter.limit.unwrap_or(usize::MAX));
            Ok(runs)
        })
    }

    async fn find(&self, run: &RunId) -> Result<Option<KnownRun>, StorageError> {
        Ok(self.with(|histories| histories.runs.get(run).map(|stored| stored.to_known_run(run))))
    }

    async fn private(&self, run: &RunId) -> Result<Option<String>, StorageError> {
        Ok(self.with(|histories| histories.runs.get(run).and_then(|stored| stored.private.clone())))
    }

    async fn run_with_key(&self, key: &str) -> Result<Option<RunId>, StorageError> {
        Ok(self.with(|histories| histories.keys.get(key).cloned()))
    }

    async fn forget(&self, run: &RunId) -> Result<(), StorageError> {
        self.with(|histories| histories.forget(run));
        Ok(())
    }

    async fn empty_log(&self) -> Result<bool, StorageError> {
        Ok(true)
    }

    async fn forget_finished(&self, retention: Retention) -> Result<Vec<RunId>, StorageError> {
        Ok(self.with(|histories| histories.forget_finished(retention)))
    }
}

#[cfg(test)]
mod tests {
    crate::conformance!(super::MemoryJournal::default());
}
