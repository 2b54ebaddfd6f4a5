//! The suite's long-running tools, as tasks for clients that support tasks.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::ErrorData;
use rmcp::model::{
    CallToolResult, ClientCapabilities, ContentBlock, CreateTaskResult, DetailedTask, InputRequests, InputResponses,
    JsonObject, Task, TaskPayload, TaskStatus,
};
use serde_json::{Value, json};
use steplatch_mcp::offer::{Call, Outcome, ToolReply};
use tokio::time::Instant;

use crate::fixture::{invalid_params, text_result};
use crate::rounds::form;

/// The running and finished jobs, by task id.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    jobs: Mutex<BTreeMap<String, Job>>,
    next_id: AtomicU64,
}

#[derive(Debug)]
struct Job {
    started_at: String,
    updated_at: String,
    state: State,
}

#[derive(Debug, Clone)]
enum State {
    /// Works until the instant, then finishes with the payload.
    Working(Instant, TaskPayload),
    /// Waits until all input has arrived, then finishes with the payload.
    WaitingForInput(InputRequests, TaskPayload),
    Finished(TaskPayload),
}

fn now() -> String {
    jiff::Timestamp::now().to_string()
}

fn object(value: impl serde::Serialize) -> JsonObject {
    match serde_json::to_value(value) {
        Ok(Value::Object(object)) => object,
        other => unreachable!("tasks and results are objects, not {other:?}"),
    }
}

fn completed(text: &str) -> TaskPayload {
    TaskPayload::Completed { result: object(CallToolResult::success(vec![ContentBlock::text(text)])) }
}

fn tasks_required() -> ErrorData {
    ErrorData::missing_required_client_capability(ClientCapabilities::builder().enable_tasks().build())
}

impl Jobs {
    fn start(&self, state: State) -> Outcome<ToolReply> {
        let id = format!("job-{}", self.next_id.fetch_add(1, Ordering::Relaxed));
        let started_at = now();
        let task = Task::new(&id, TaskStatus::Working, &started_at, &started_at).with_poll_interval_ms(100);
        let job = Job { updated_at: started_at.clone(), started_at, state };
        self.jobs.lock().insert(id, job);
        Outcome::Done(ToolReply::Task(CreateTaskResult::new(task)))
    }

    /// Calls a long-running tool; `None` if the call is for another tool.
    pub(crate) async fn call(&self, call: &mut Call<'_>) -> Option<Outcome<ToolReply>> {
        let argument = |name: &str| call.arguments.as_ref().and_then(|arguments| arguments.get(name)).cloned();
        let one_second_later = || Instant::now() + Duration::from_secs(1);
        Some(match call.name.as_str() {
            "slow_compute" => {
                let Some(seconds) = argument("seconds").and_then(|seconds| seconds.as_f64()) else {
                    return Some(Outcome::Refused(invalid_params("'seconds' must be a number")));
                };
                let duration = Duration::from_secs_f64(seconds.clamp(0.0, 600.0));
                let text = format!("It took {seconds} s.");
                if !call.client.supports_tasks() {
                    tokio::time::sleep(duration).await;
                    return Some(text_result(text));
                }
                self.start(State::Working(Instant::now() + duration, completed(&text)))
            }
            // The only tool without a result for clients that do not support tasks.
            "failing_job" if !call.client.supports_tasks() => Outcome::Refused(tasks_required()),
            "protocol_error_job" if !call.client.supports_tasks() => {
                Outcome::Refused(ErrorData::internal_error("This job always breaks.", None))
            }
            "confirm_delete" | "multi_input" if !call.client.supports_tasks() => {
                text_result("Nothing was done, because the client does not support tasks.")
            }
            "failing_job" => {
                let result = CallToolResult::error(vec![ContentBlock::text("This job always fails.")]);
                self.start(State::Working(one_second_later(), TaskPayload::Completed { result: object(result) }))
            }
            "protocol_error_job" => {
                let error = object(json!({"code": -32603, "message": "This job always breaks."}));
                self.start(State::Working(one_second_later(), TaskPayload::Failed { error }))
            }
            "confirm_delete" => {
                let file = argument("filename").unwrap_or_default();
                let question = form(&format!("Delete {file}?"), json!({"confirm": {"type": "boolean"}}));
                let questions = InputRequests::from([("confirm".to_owned(), question)]);
                self.start(State::WaitingForInput(questions, completed("The question was answered.")))
            }
            "multi_input" => {
                let name_question =
                    |name: &str| (name.to_owned(), form("A name?", json!({"name": {"type": "string"}})));
                let questions = InputRequests::from([name_question("first"), name_question("second")]);
                self.start(State::WaitingForInput(questions, completed("Both questions were answered.")))
            }
            _ => return None,
        })
    }

    /// Returns a finished task with a greeting to `name`.
    pub(crate) fn greet(&self, name: &str, call: &Call<'_>) -> Outcome<ToolReply> {
        match call.client.supports_tasks() {
            true => self.start(State::Working(Instant::now(), completed(&format!("Hello, {name}!")))),
            false => Outcome::Refused(tasks_required()),
        }
    }

    /// Returns the state of a task, or `None` if it does not exist.
    pub(crate) fn detailed_task(&self, id: &str) -> Option<DetailedTask> {
        let mut jobs = self.jobs.lock();
        let job = jobs.get_mut(id)?;
        if let State::Working(deadline, payload) = &job.state
            && *deadline <= Instant::now()
        {
            (job.state, job.updated_at) = (State::Finished(payload.clone()), now());
        }
        let payload = match &job.state {
            State::Working(..) => TaskPayload::Working,
            State::WaitingForInput(questions, _) => TaskPayload::InputRequired { input_requests: questions.clone() },
            State::Finished(payload) => payload.clone(),
        };
        let task = Task::new(id, payload.status(), &job.started_at, &job.updated_at).with_poll_interval_ms(100);
        Some(DetailedTask::new(task, payload))
    }

    pub(crate) fn answer(&self, id: &str, answers: &InputResponses) -> bool {
        let mut jobs = self.jobs.lock();
        let Some(job) = jobs.get_mut(id) else { return false };
        if let State::WaitingForInput(questions, payload) = &mut job.state {
            questions.retain(|name, _| !answers.contains_key(name));
            if questions.is_empty() {
                job.state = State::Finished(payload.clone());
            }
            job.updated_at = now();
        }
        true
    }

    pub(crate) fn cancel(&self, id: &str) -> bool {
        let mut jobs = self.jobs.lock();
        let Some(job) = jobs.get_mut(id) else { return false };
        if !matches!(job.state, State::Finished(_)) {
            (job.state, job.updated_at) = (State::Finished(TaskPayload::Cancelled), now());
        }
        true
    }
}
