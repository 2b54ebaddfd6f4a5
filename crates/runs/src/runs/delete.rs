//! Deletion of the record of a run, with the records of the runs that it started.

use async_recursion::async_recursion as boxed;
use steplatch_ids::RunId;
use steplatch_protocol::{DeleteRun, DeleteRunReply};
use steplatch_store::{RunFilter, StorageError};

use crate::lookup::{RunLookupError, parse_run_id};
use crate::run::Run;
use crate::runs::Runs;

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
    /// Deletes the record of a finished run, and the records of its descendants. Deletes nothing if a descendant has
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
        let has_finished = |run: &Run| run.state().is_over() && !run.is_driven();
        if !has_finished(&run) {
            return Err(DeleteError::InProgress { run: run.id.clone() });
        }
        if let Some(parent) = run.header.parent.as_ref().map(|step| &step.run)
            && journal.find(parent).await?.is_some()
        {
            return Err(DeleteError::Nested { parent: parent.clone() });
        }
        // The journal lists the newest first, and a run starts after its parent.
        let mut family = vec![run.id.clone()];
        let all = journal.runs(RunFilter::default()).await?;
        for known in all.into_iter().rev().filter(|known| known.number > number) {
            let run = self.shared.to_run(known);
            if run.header.parent.as_ref().is_some_and(|step| family.contains(&step.run)) {
                if !has_finished(&run) {
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
}
