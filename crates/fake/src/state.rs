//! The state of the fake service.

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde_json::{Map, Value, json};

use crate::Answer;

/// Kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Route {
    /// List the workflows.
    List,
    /// Start a run.
    Start,
    /// Return the status of a run.
    Status,
    /// Cancel a run.
    Cancel,
    /// Any request to the MCP endpoint.
    Mcp,
}

/// A request that the service received.
#[derive(Debug, Clone)]
pub struct RecordedRequest {
    /// Kind of request; `None` for an unknown path.
    pub route: Option<Route>,
    /// The method.
    pub method: String,
    /// The path and query as sent.
    pub path: String,
    /// The headers, by names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body; null if absent.
    pub body: Value,
    /// Time of its arrival.
    pub at: std::time::Instant,
    /// Client address of the request's connection.
    pub from: std::net::SocketAddr,
}

/// A started run.
#[derive(Debug, Clone)]
pub struct Run {
    /// Run id, called `workflow_id` in the dialect.
    pub id: String,
    /// The workflow.
    pub workflow: String,
    /// The input.
    pub input: Value,
    /// Idempotency key of the request that started the run.
    pub idempotency_key: String,
    /// A client requested its cancellation.
    pub is_cancelled: bool,
    pub(crate) number: usize,
    pub(crate) statuses: VecDeque<Value>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) entries: Vec<Value>,
    pub(crate) page_size: Option<usize>,
    /// Link to the next page, for all pages.
    pub(crate) next_page: Option<String>,
    pub(crate) queued_answers: HashMap<Route, VecDeque<Answer>>,
    pub(crate) default_answers: HashMap<Route, Answer>,
    pub(crate) scripts: BTreeMap<String, Vec<Value>>,
    pub(crate) runs: BTreeMap<String, Run>,
    pub(crate) requests: Vec<RecordedRequest>,
    pub(crate) is_down: bool,
}

impl State {
    /// Returns the response that a test configured for requests of this kind, if any.
    pub(crate) fn configured_answer(&mut self, route: Route) -> Option<Answer> {
        let queued = self.queued_answers.get_mut(&route).and_then(VecDeque::pop_front);
        queued.or_else(|| self.default_answers.get(&route).cloned())
    }

    /// Returns a page of the list, or the complete list.
    pub(crate) fn list_page(&self, page: usize, url: &str) -> Value {
        let Some(size) = self.page_size else {
            if let Some(next) = &self.next_page {
                return json!({ "count": self.entries.len(), "next": next, "previous": null, "results": self.entries });
            }
            return Value::Array(self.entries.clone());
        };
        let from = (page - 1) * size;
        let results: Vec<&Value> = self.entries.iter().skip(from).take(size).collect();
        let is_last = from + size >= self.entries.len();
        let next = match &self.next_page {
            Some(next) => Value::from(next.as_str()),
            None if is_last => Value::Null,
            None => format!("{url}?page={}", page + 1).into(),
        };
        let previous = if page == 1 { Value::Null } else { format!("{url}?page={}", page - 1).into() };
        json!({ "count": self.entries.len(), "next": next, "previous": previous, "results": results })
    }

    /// Starts a run. Returns the existing run if this key has started one.
    pub(crate) fn start_run(&mut self, workflow: &str, body: &Value, key: &str) -> Value {
        let input = body.get("input").cloned().unwrap_or_default();
        let existing = self.runs.values().find(|run| !key.is_empty() && run.idempotency_key == key);
        let number = existing.map_or(self.runs.len() + 1, |run| run.number);
        let id = format!("run-{number}");
        if existing.is_none() {
            let default_statuses = || {
                let running = json!({ "status": "RUNNING", "input": input, "output": null });
                let completed = json!({ "status": "COMPLETED", "input": input, "output": { "echo": input } });
                vec![running, completed]
            };
            let statuses = self.scripts.get(workflow).cloned().unwrap_or_else(default_statuses).into();
            let (workflow, idempotency_key) = (workflow.to_owned(), key.to_owned());
            let run = Run { id: id.clone(), workflow, input, idempotency_key, is_cancelled: false, number, statuses };
            self.runs.insert(id.clone(), run);
        }
        json!({ "correlation_id": format!("cor-{number}"), "workflow_id": id })
    }

    /// Returns the next status of a run, or `None` if the run does not exist.
    pub(crate) fn next_status(&mut self, workflow: &str, run: &str) -> Option<Value> {
        let run = self.runs.get_mut(run).filter(|run| run.workflow == workflow)?;
        let mut status = match run.statuses.len() {
            1 => run.statuses[0].clone(),
            _ => run.statuses.pop_front().expect("a run has at least one status"),
        };
        if let Value::Object(fields) = &mut status {
            let is_final = is_final(fields);
            let mut add = |name: &str, value: Value| {
                fields.entry(name.to_owned()).or_insert(value);
            };
            add("create_time", 1_700_000_000_000_i64.into());
            add("update_time", 1_700_000_000_200_i64.into());
            add("start_time", 1_700_000_000_100_i64.into());
            if is_final {
                add("end_time", 1_700_000_000_200_i64.into());
            }
            // In a status this is the id of the workflow; in the answer to a start it is the id of the run.
            add("workflow_id", run.workflow.as_str().into());
        }
        Some(status)
    }

    /// Cancels a run that has not finished. Returns `None` if the run does not exist.
    pub(crate) fn cancel_run(&mut self, workflow: &str, run: &str) -> Option<Value> {
        let run = self.runs.get_mut(run).filter(|run| run.workflow == workflow)?;
        run.is_cancelled = true;
        let has_finished = run.statuses.len() == 1 && run.statuses[0].as_object().is_some_and(is_final);
        if !has_finished {
            let cancelled = json!({ "status": "CANCELLED", "input": run.input, "output": null });
            run.statuses = [cancelled].into();
        }
        Some(Value::Object(Map::new()))
    }
}

/// Returns whether a status is final.
fn is_final(status: &Map<String, Value>) -> bool {
    let status = status.get("status").and_then(Value::as_str).unwrap_or_default();
    matches!(status, "COMPLETED" | "FAILED" | "CANCELLED")
}
