//! The simulated disk of the journal: writes take time, fail while it is full, and may be lost with the daemon.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::Value;
use steplatch_ids::RunId;
use steplatch_store::{
    Append, AppendError, Appended, Journal, KnownRun, MemoryJournal, ReadError, Record, Retention, RunFilter,
    StorageError,
};
use tokio::sync::oneshot;

use crate::stage::Stage;

/// Maximum duration of a write, in milliseconds.
pub(crate) const MAX_WRITE_MS: u64 = 2000;

/// Maximum length of a field of an entry in the schedule, in characters.
const MAX_FIELD_CHARS: usize = 200;

/// The journal of one daemon, on a disk that all daemons share.
#[derive(Debug)]
pub(crate) struct SimulatedJournal {
    pub(crate) disk: Arc<Disk>,
    pub(crate) stage: Arc<Stage>,
}

/// The disk, with its pending writes.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    pub(crate) stored: MemoryJournal,
    pending: Mutex<VecDeque<Write>>,
}

#[derive(Debug)]
struct Write {
    due: Duration,
    append: Append,
    reply: oneshot::Sender<Result<Appended, AppendError>>,
}

impl Disk {
    /// Performs the writes that are due. They fail if `is_full` is true.
    pub(crate) fn write_due(&self, stage: &Stage, is_full: bool) {
        let now = stage.now();
        loop {
            let Some(write) = self.pending.lock().pop_front_if(|write| write.due <= now) else { return };
            stage.record_activity();
            let result = match is_full {
                true => Err(AppendError::Storage(StorageError::Full(Box::new(io::Error::other("the disk is full"))))),
                false => self.store(stage, write.append),
            };
            // The daemon may have exited.
            let _ = write.reply.send(result);
        }
    }

    /// Ends the daemon: performs the first `written_count` pending writes, and loses the others.
    pub(crate) fn crash(&self, stage: &Stage, written_count: usize) {
        let pending = std::mem::take(&mut *self.pending.lock());
        for write in pending.into_iter().take(written_count) {
            // A write that the journal refuses changes nothing.
            let _ = self.store(stage, write.append);
        }
    }

    /// Returns the number of pending writes.
    pub(crate) fn pending(&self) -> usize {
        self.pending.lock().len()
    }

    fn store(&self, stage: &Stage, append: Append) -> Result<Appended, AppendError> {
        append.texts.iter().for_each(|text| stage.log(|| format!("{} stores {}", append.run, summarize(text))));
        poll_ready(self.stored.write(append))
    }

    /// Returns the runs of the journal.
    pub(crate) fn runs(&self) -> Vec<KnownRun> {
        poll_ready(self.stored.runs(RunFilter::default())).expect("the journal in memory is readable")
    }

    /// Returns the history of a run.
    pub(crate) fn history(&self, run: &RunId) -> Vec<Record> {
        poll_ready(self.stored.read(run, 1)).expect("the journal in memory is readable")
    }
}

/// Describes an entry for the schedule.
fn summarize(entry: &str) -> String {
    let event: Value = serde_json::from_str(entry).unwrap_or_default();
    let fields = ["event", "step", "tool", "outcome", "error", "definition"].map(|name| match &event[name] {
        Value::Null => String::new(),
        Value::String(text) => format!("{text} "),
        value => format!("{} ", value.to_string().chars().take(MAX_FIELD_CHARS).collect::<String>()),
    });
    match fields.concat() {
        // The entry of a function has other fields.
        fields if fields.is_empty() => entry.chars().take(MAX_FIELD_CHARS).collect(),
        fields => fields,
    }
}

/// Returns the result of a future that is ready immediately.
fn poll_ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => unreachable!("the journal in memory never waits"),
    }
}

#[async_trait]
impl Journal for SimulatedJournal {
    async fn write(&self, append: Append) -> Result<Appended, AppendError> {
        let (reply, written) = oneshot::channel();
        {
            let mut pending = self.disk.pending.lock();
            let delay = self.stage.random(|random| {
                let max = if random.one_in(10) { MAX_WRITE_MS } else { 15 };
                random.below(max)
            });
            let due = self.stage.now() + Duration::from_millis(delay);
            // Writes complete in the order of their requests.
            let due = pending.back().map_or(due, |last| last.due.max(due));
            pending.push_back(Write { due, append, reply });
        }
        self.stage.record_activity();
        written.await.unwrap_or(Err(AppendError::Storage(StorageError::Closed)))
    }

    async fn read(&self, run: &RunId, from: u64) -> Result<Vec<Record>, ReadError> {
        self.disk.stored.read(run, from).await
    }

    async fn read_some(&self, run: &RunId, from: u64, limit: usize) -> Result<Vec<Record>, ReadError> {
        self.disk.stored.read_some(run, from, limit).await
    }

    async fn runs(&self, filter: RunFilter) -> Result<Vec<KnownRun>, StorageError> {
        self.disk.stored.runs(filter).await
    }

    async fn find(&self, run: &RunId) -> Result<Option<KnownRun>, StorageError> {
        self.disk.stored.find(run).await
    }

    async fn private(&self, run: &RunId) -> Result<Option<String>, StorageError> {
        self.disk.stored.private(run).await
    }

    async fn run_with_key(&self, key: &str) -> Result<Option<RunId>, StorageError> {
        self.disk.stored.run_with_key(key).await
    }

    async fn forget(&self, run: &RunId) -> Result<(), StorageError> {
        self.disk.stored.forget(run).await
    }

    async fn empty_log(&self) -> Result<bool, StorageError> {
        self.disk.stored.empty_log().await
    }

    /// Keeps every run for the check of the rules.
    async fn forget_finished(&self, _: Retention) -> Result<Vec<RunId>, StorageError> {
        Ok(Vec::new())
    }
}
