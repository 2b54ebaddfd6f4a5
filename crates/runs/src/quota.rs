//! How many runs may be in progress below a root run.

use std::sync::Arc;

use steplatch_ids::{RunId, StepId};

use crate::engine_state::Engine;

/// The most runs that may be under way below one run.
const MOST_BELOW: usize = 500;

/// A place among the runs below a root run. Freed on drop.
pub(crate) struct DescendantQuota {
    shared: Arc<Engine>,
    root: RunId,
}

/// There are too many runs below the root run for another one.
#[derive(Debug, thiserror::Error)]
#[error("{MOST_BELOW} runs are in progress below one run, which is the limit")]
pub(crate) struct QuotaExceeded;

impl DescendantQuota {
    /// Takes a place for the run that `step` starts. A run that exists already gets one regardless of the limit.
    pub(crate) fn reserve(shared: &Arc<Engine>, step: &StepId, is_known: bool) -> Result<Self, QuotaExceeded> {
        let root = {
            let driven = shared.lock();
            let parent = |run: &RunId| driven.get(run)?.about.parent.as_ref().map(|step| step.run.clone());
            std::iter::successors(Some(step.run.clone()), parent).last().unwrap_or_else(|| step.run.clone())
        };
        let mut below = shared.below();
        let count = below.entry(root.clone()).or_default();
        if *count >= MOST_BELOW && !is_known {
            return Err(QuotaExceeded);
        }
        *count += 1;
        drop(below);
        Ok(Self { shared: shared.clone(), root })
    }
}

impl Drop for DescendantQuota {
    fn drop(&mut self) {
        let mut below = self.shared.below();
        if let Some(count) = below.get_mut(&self.root) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                below.remove(&self.root);
            }
        }
    }
}
