//! A journal that lasts as long as its process.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use steplatch_ids::RunId;

use crate::{AppendError, Journal, Record};

/// Keeps histories in memory.
#[derive(Debug, Default)]
pub struct MemoryJournal {
    histories: Mutex<Histories>,
}

#[derive(Debug, Default)]
struct Histories {
    records: HashMap<RunId, Vec<Record>>,
    order: Vec<RunId>,
}

impl MemoryJournal {
    fn with<R>(&self, act: impl FnOnce(&mut Histories) -> R) -> R {
        // Every change below is made in one step, so a panic elsewhere left nothing half done.
        act(&mut self.histories.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Journal for MemoryJournal {
    async fn append(&self, run: &RunId, after: u64, version: u16, texts: Vec<String>) -> Result<u64, AppendError> {
        self.with(|histories| {
            let is = histories.records.get(run).map_or(0, |records| records.len() as u64);
            if is != after {
                return Err(AppendError::Conflict { run: run.clone(), expected: after, is });
            }
            if !histories.records.contains_key(run) {
                histories.order.push(run.clone());
            }
            let records = histories.records.entry(run.clone()).or_default();
            for text in texts {
                records.push(Record { seq: records.len() as u64 + 1, version, text });
            }
            Ok(records.len() as u64)
        })
    }

    async fn read(&self, run: &RunId, from: u64) -> Vec<Record> {
        self.with(|histories| {
            let records = histories.records.get(run).map(Vec::as_slice).unwrap_or_default();
            let skipped = usize::try_from(from.saturating_sub(1)).unwrap_or(usize::MAX);
            records.iter().skip(skipped).cloned().collect()
        })
    }

    async fn runs(&self) -> Vec<RunId> {
        self.with(|histories| histories.order.clone())
    }

    async fn forget(&self, run: &RunId) {
        self.with(|histories| {
            histories.records.remove(run);
            histories.order.retain(|known| known != run);
        });
    }
}

#[cfg(test)]
mod tests {
    crate::conformance!(super::MemoryJournal::default());
}
