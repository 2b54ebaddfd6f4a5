//! Limit of the runs in progress below a root run.

use std::collections::HashMap;
use std::sync::Arc;

use steplatch_ids::{RunId, StepId};

use crate::engine_state::Engine;
use crate::run::Run;

/// Maximum number of runs in progress below one run.
const MAX_RUNS_BELOW: usize = 500;

/// A place among the runs below a root run. Freed on drop.
pub(crate) struct DescendantQuota {
    shared: Arc<Engine>,
    root: RunId,
}

/// There are too many runs below the root run for another one.
#[derive(Debug, thiserror::Error)]
#[error("{MAX_RUNS_BELOW} runs are in progress below one run, which is the limit")]
pub(crate) struct QuotaExceeded;

impl DescendantQuota {
    /// Takes a place for the run that `step` starts. A run that exists already gets one regardless of the limit.
    pub(crate) fn reserve(shared: &Arc<Engine>, step: &StepId, is_known: bool) -> Result<Self, QuotaExceeded> {
        let root = root_of(&shared.lock(), &step.run);
        let mut below = shared.below();
        let count = below.entry(root.clone()).or_default();
        if *count >= MAX_RUNS_BELOW && !is_known {
            return Err(QuotaExceeded);
        }
        *count += 1;
        drop(below);
        Ok(Self { shared: shared.clone(), root })
    }
}

impl DescendantQuota {
    /// Checks that the run which `step` starts has a place, where an outer engine waits for its end: that keeps none.
    pub(crate) fn check(shared: &Engine, step: &StepId) -> Result<(), QuotaExceeded> {
        let driven = shared.lock();
        let root = root_of(&driven, &step.run);
        let below = driven.keys().filter(|run| **run != root && root_of(&driven, run) == root);
        if below.count() >= MAX_RUNS_BELOW { Err(QuotaExceeded) } else { Ok(()) }
    }
}

/// Returns the run in progress that has a run below it, at any depth, and none above it.
fn root_of(driven: &HashMap<RunId, Arc<Run>>, run: &RunId) -> RunId {
    let parent = |run: &RunId| driven.get(run)?.about.parent.as_ref().map(|step| step.run.clone());
    std::iter::successors(Some(run.clone()), parent).last().unwrap_or_else(|| run.clone())
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
