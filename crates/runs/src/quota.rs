//! Limit on the number of descendants in progress of a root run.

use std::collections::HashMap;
use std::sync::Arc;

use steplatch_ids::{RunId, StepId};

use crate::engine_state::Engine;
use crate::run::Run;

/// Maximum number of descendants in progress of one root run.
const MAX_DESCENDANTS: usize = 500;

/// A reserved place among the descendants of a root run. Freed on drop.
pub(crate) struct DescendantQuota {
    shared: Arc<Engine>,
    root: RunId,
}

/// The root run has the maximum number of descendants.
#[derive(Debug, thiserror::Error)]
#[error("{MAX_DESCENDANTS} runs are in progress below one run, which is the limit")]
pub(crate) struct QuotaExceeded;

impl DescendantQuota {
    /// Reserves a place for the run that `step` starts. An existing run gets a place regardless of the limit.
    pub(crate) fn reserve(shared: &Arc<Engine>, step: &StepId, is_known: bool) -> Result<Self, QuotaExceeded> {
        let root = root_ancestor(&shared.lock(), &step.run);
        let mut descendants = shared.descendants();
        let count = descendants.entry(root.clone()).or_default();
        if *count >= MAX_DESCENDANTS && !is_known {
            return Err(QuotaExceeded);
        }
        *count += 1;
        drop(descendants);
        Ok(Self { shared: shared.clone(), root })
    }
}

impl DescendantQuota {
    /// Checks that there is a place for the run that `step` starts, without reserving one, because an outer engine
    /// waits for the end of that run.
    pub(crate) fn check(shared: &Engine, step: &StepId) -> Result<(), QuotaExceeded> {
        let driven = shared.lock();
        let root = root_ancestor(&driven, &step.run);
        let descendants = driven.keys().filter(|run| **run != root && root_ancestor(&driven, run) == root);
        if descendants.count() >= MAX_DESCENDANTS { Err(QuotaExceeded) } else { Ok(()) }
    }
}

/// Returns the topmost known ancestor of a run, or the run itself.
fn root_ancestor(driven: &HashMap<RunId, Arc<Run>>, run: &RunId) -> RunId {
    let parent = |run: &RunId| driven.get(run)?.header.parent.as_ref().map(|step| step.run.clone());
    std::iter::successors(Some(run.clone()), parent).last().unwrap_or_else(|| run.clone())
}

impl Drop for DescendantQuota {
    fn drop(&mut self) {
        let mut descendants = self.shared.descendants();
        if let Some(count) = descendants.get_mut(&self.root) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                descendants.remove(&self.root);
            }
        }
    }
}
