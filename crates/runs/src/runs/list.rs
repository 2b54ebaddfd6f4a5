//! List of runs, by workflow, state and time.

use async_recursion::async_recursion as boxed;
use steplatch_clock as clock;
use steplatch_ids::RunId;
use steplatch_protocol::{ListWorkflowRuns, ListWorkflowRunsReply};
use steplatch_store::RunFilter;
use steplatch_workflow::Timestamp;

use super::run::{Run, RunState};
use crate::lookup::{RunLookupError, parse_run_id};
use crate::runs::Runs;

/// Default number of listed runs.
const DEFAULT_LISTED_RUNS: usize = 50;

/// Number of runs to read at a time.
const RUNS_PER_PAGE: usize = 200;

/// The criteria of a list.
struct RunQuery<'a> {
    workflow: Option<&'a str>,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
}

impl RunQuery<'_> {
    fn matches(&self, run: &Run) -> bool {
        self.workflow.is_none_or(|workflow| workflow == run.header.workflow)
            && self.since.is_none_or(|since| run.header.started >= since)
            && self.until.is_none_or(|until| run.header.started < until)
    }
}

impl Runs {
    /// Lists runs, the newest first.
    #[boxed]
    pub async fn list(&self, verb: &ListWorkflowRuns) -> ListWorkflowRunsReply {
        let refusal = |error: String| ListWorkflowRunsReply { error: Some(error), ..ListWorkflowRunsReply::default() };
        let is_pending = verb.state.as_deref() == Some(RunState::PENDING);
        if let Some(name) = verb.state.as_deref().filter(|name| !is_pending && RunState::from_name(name).is_none()) {
            let known = RunState::ALL.map(RunState::name).join(", ");
            return refusal(format!("Invalid state: {name}; states are {}, {known}", RunState::PENDING));
        }
        let time =
            |name: &str, text: &Option<String>| match text.as_deref().map(|text| (text, clock::parse_iso8601(text))) {
                None => Ok(None),
                Some((_, Some(moment))) => Ok(Some(moment)),
                Some((text, None)) => {
                    Err(format!("{name} must be a timestamp in ISO 8601, such as 2026-01-31T12:00:00Z, not '{text}'"))
                }
            };
        let query = match (time("since", &verb.since), time("until", &verb.until)) {
            (Ok(since), Ok(until)) => RunQuery { workflow: verb.workflow_id.as_deref(), since, until },
            (Err(error), _) | (_, Err(error)) => return refusal(error),
        };
        let limit = verb.limit.map_or(DEFAULT_LISTED_RUNS, |limit| limit as usize);
        let mut runs = Vec::new();
        let mut before = match &verb.before {
            None => None,
            Some(id) => {
                let number = match parse_run_id(id) {
                    Ok(id) => self.number_of(&id).await,
                    Err(error) => Err(error),
                };
                match number {
                    Ok(number) => Some(number),
                    Err(RunLookupError::NotFound { id }) => {
                        return refusal(format!("before must be a run_id, and there is no run '{id}'"));
                    }
                    Err(error) => return refusal(error.to_string()),
                }
            }
        };
        while runs.len() < limit && !is_pending {
            let filter =
                RunFilter { state: verb.state.clone(), before, limit: Some(RUNS_PER_PAGE), ..RunFilter::default() };
            let page = match self.shared.journal.runs(filter).await {
                Ok(page) => page,
                Err(error) => return refusal(format!("failed to read the runs: {error}")),
            };
            before = page.last().map(|known| known.number);
            let is_last = page.len() < RUNS_PER_PAGE;
            let runs_of_page = page.into_iter().map(|known| self.shared.to_run(known)).filter(|run| query.matches(run));
            for run in runs_of_page.take(limit - runs.len()) {
                runs.push(self.list_record(&run).await);
            }
            if is_last {
                break;
            }
        }
        ListWorkflowRunsReply { success: true, runs, error: None }
    }

    /// Returns the position of a run in the order of all starts.
    ///
    /// # Errors
    ///
    /// If there is no such run, or reading the journal fails.
    async fn number_of(&self, id: &RunId) -> Result<u64, RunLookupError> {
        let known = self.shared.journal.find(id).await?;
        known.map(|known| known.number).ok_or_else(|| RunLookupError::not_found(id.as_str()))
    }
}
