//! Deletion of the record of a run, with the records of the runs that it started.

use async_recursion::async_recursion as boxed;
use steplatch_ids::RunId;
use steplatch_protocol::{DeleteRun, DeleteRunReply};
use steplatch_store::{KnownRun, RunFilter, StorageError};

use crate::lookup::{RunLookupError, parse_run_id};
use crate::runs::Runs;
use crate::runs::list::RUNS_PER_PAGE;

/// Failure to delete the record of a run.
#[derive(Debug, thiserror::Error)]
enum DeleteError {
    #[error(transparent)]
    Lookup(#[from] RunLookupError),
    #[error("the run has not finished; cancel it first, with: steplatch runs cancel {run}")]
    InProgress { run: RunId },
    #[error("the run {run} that it started has not finished; cancel it first, with: steplatch runs cancel {run}")]
    ChildInProgress { run: RunId },
    #[error("the run is part of {parent}, which started it; delete that one, with: steplatch runs delete {parent}")]
    Nested { parent: RunId },
    #[error("the journal cannot delete the record: {0}")]
    Storage(#[from] StorageError),
}

impl Runs {
    /// Deletes the record of a finished run, and the records of its descendants. Nothing is deleted if one of them has
    /// not finished, or if the run is a child of a run with a record.
    #[boxed]
    pub async fn delete(&self, verb: DeleteRun) -> DeleteRunReply {
        let run_id = verb.run_id;
        let deleted = match parse_run_id(&run_id) {
            Ok(id) => self.delete_run(&id).await,
            Err(error) => Err(error.into()),
        };
        match deleted {
            Ok(deleted) => DeleteRunReply { success: true, run_id, deleted, error: None },
            Err(error) => DeleteRunReply { run_id, error: Some(error.to_string()), ..DeleteRunReply::default() },
        }
    }

    /// Returns the number of deleted records.
    async fn delete_run(&self, id: &RunId) -> Result<u64, DeleteError> {
        let journal = &self.shared.journal;
        let known = journal.find(id).await.map_err(RunLookupError::from)?;
        let known = known.ok_or_else(|| RunLookupError::not_found(id.as_str()))?;
        let number = known.number;
        let run = self.shared.to_run(known);
        // A run with a driver may still write its end.
        if !run.state().is_over() || run.is_driven() {
            return Err(DeleteError::InProgress { run: run.id.clone() });
        }
        if let Some(parent) = run.header.parent.as_ref().map(|step| &step.run)
            && journal.find(parent).await?.is_some()
        {
            return Err(DeleteError::Nested { parent: parent.clone() });
        }
        let mut family = vec![run.id.clone()];
        for known in self.runs_after(number).await? {
            let run = self.shared.to_run(known);
            if run.header.parent.as_ref().is_some_and(|step| family.contains(&step.run)) {
                if !run.state().is_over() || run.is_driven() {
                    return Err(DeleteError::ChildInProgress { run: run.id.clone() });
                }
                family.push(run.id.clone());
            }
        }
        // The children first: if the deletion is interrupted, the run is still there to be deleted again.
        for id in family.iter().rev() {
            journal.forget(id).await?;
            self.shared.listener.run_changed(id);
        }
        self.shared.empty_log().await;
        Ok(family.len() as u64)
    }

    /// Returns the runs that started after the run with this number, oldest first. A run starts after its parent.
    async fn runs_after(&self, number: u64) -> Result<Vec<KnownRun>, StorageError> {
        let (mut runs, mut oldest_number) = (Vec::new(), None);
        loop {
            let filter = RunFilter { before: oldest_number, limit: Some(RUNS_PER_PAGE), ..RunFilter::default() };
            let page = self.shared.journal.runs(filter).await?;
            let is_last = page.len() < RUNS_PER_PAGE || page.last().is_some_and(|known| known.number <= number);
            oldest_number = page.last().map(|known| known.number);
            runs.extend(page.into_iter().filter(|known| known.number > number));
            if is_last {
                runs.reverse();
                return Ok(runs);
            }
        }
    }
}
