//! Unlocking runs, and setting the passphrase that locks them.

use async_recursion::async_recursion as boxed;
use steplatch_access::{AttemptSource, PassphraseError};
use steplatch_ids::RunId;
use steplatch_protocol::{Passphrase, SetApprover, SetApproverReply, UnlockRuns, UnlockRunsReply};
use steplatch_store::StorageError;

use crate::runs::Runs;

/// Failure to unlock runs.
#[derive(Debug, thiserror::Error)]
pub(super) enum UnlockError {
    #[error(transparent)]
    NotPassed(#[from] PassphraseError),
    #[error("the locked runs cannot be read: {0}")]
    Unreadable(#[from] StorageError),
}

impl Runs {
    pub(super) fn is_locked(&self, run: &RunId) -> bool {
        self.shared.locked.contains(run)
    }

    /// Checks a passphrase and resumes the locked runs that it unlocks. Returns their number.
    ///
    /// # Errors
    ///
    /// If the passphrase is not the approver's, or reading the journal fails.
    pub(super) async fn unlock_with(
        &self,
        passphrase: Option<&Passphrase>,
        source: AttemptSource,
    ) -> Result<usize, UnlockError> {
        match self.shared.approver.opening_key(passphrase, source).await? {
            Some(key) => Ok(self.shared.unlock(&key).await?),
            None => Ok(0),
        }
    }

    /// Resumes the locked runs for a caller who knows the passphrase.
    #[boxed]
    pub async fn unlock(&self, verb: UnlockRuns, source: AttemptSource) -> UnlockRunsReply {
        match self.unlock_with(verb.passphrase.as_ref(), source).await {
            Ok(runs) => {
                let still_locked = self.shared.locked.count();
                let error = (still_locked > 0).then(|| {
                    let runs =
                        if still_locked == 1 { "1 run stays".to_owned() } else { format!("{still_locked} runs stay") };
                    format!("{runs} locked, with a passphrase that is no longer set; 'steplatch runs cancel' ends them")
                });
                UnlockRunsReply { success: still_locked == 0, runs, error, ..UnlockRunsReply::default() }
            }
            Err(UnlockError::NotPassed(error)) => UnlockRunsReply {
                passphrase_wanted: error.wants_another(),
                retry_after_seconds: error.retry_after_seconds(),
                error: Some(error.to_string()),
                ..UnlockRunsReply::default()
            },
            Err(error) => UnlockRunsReply { error: Some(error.to_string()), ..UnlockRunsReply::default() },
        }
    }

    /// Sets or removes the approver's passphrase. Resumes locked runs: either change requires the passphrase that
    /// unlocks them.
    #[boxed]
    pub async fn set_approver(&self, verb: SetApprover, source: AttemptSource) -> SetApproverReply {
        let change = match self.shared.approver.change(verb, source).await {
            Ok(change) => change,
            Err(refusal) => return *refusal,
        };
        if let Some(key) = change.key()
            && let Err(error) = self.shared.unlock(key).await
        {
            let error = format!("Nothing was changed, because the locked runs cannot be read: {error}");
            return SetApproverReply { is_set: true, error: Some(error), ..SetApproverReply::default() };
        }
        let reply = change.apply().await;
        self.shared.locked.key_changes.send_modify(|changes| *changes += 1);
        reply
    }
}
