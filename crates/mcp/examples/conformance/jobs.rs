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

/// The tasks.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    all: Mutex<BTreeMap<String, Job>>,
    next: AtomicU64,
}

#[derive(Debug)]
struct Job {
    began: String,
    updated: String,
    state: State,
}

#[derive(Debug, Clone)]
enum State {
    /// Working until the instant, then finished with the payload.
    Working(Instant, TaskPayload),
    /// Waiting until all input is answered, then finished with the payload.
    Asking(InputRequests, TaskPayload),
    Over(TaskPayload),
}

fn now() -> String {
    jiff::Timestamp::now().to_string()
}

fn object(value: impl serde::Serialize) -> JsonObject {
    match serde_json::to_value(value) {
        Ok(Value::Object(object)) => object,
        other => unreachable!("an object, not {other:?}"),
    }
}

fn completed(text: &str) -> TaskPayload {
    TaskPayload::Completed { result: object(CallToolResult::success(vec![ContentBlock::text(text)])) }
}

fn without_tasks() -> ErrorData {
    ErrorData::missing_required_client_capability(ClientCapabilities::builder().enable_tasks().build())
}

impl Jobs {
    fn begin(&self, state: State) -> Outcome<ToolReply> {
        let id = format!("job-{}", self.next.fetch_add(1, Ordering::Relaxed));
        let began = now();
        let task = Task::new(&id, TaskStatus::Working, &began, &began).with_poll_interval_ms(100);
        let job = Job { updated: began.clone(), began, state };
        self.all.lock().insert(id, job);
        Outcome::Done(ToolReply::Task(CreateTaskResult::new(task)))
    }

    /// Calls a long-running tool; `None` if the call is for another tool.
    pub(crate) async fn call(&self, call: &mut Call<'_>) -> Option<Outcome<ToolReply>> {
        let argument = |name: &str| call.arguments.as_ref().and_then(|arguments| arguments.get(name)).cloned();
        let soon = || Instant::now() + Duration::from_secs(1);
        Some(match call.name.as_str() {
            "slow_compute" => {
                let Some(seconds) = argument("seconds").and_then(|seconds| seconds.as_f64()) else {
                    return Some(Outcome::Refused(invalid_params("slow_compute needs seconds")));
                };
                let takes = Duration::from_secs_f64(seconds.clamp(0.0, 600.0));
                let text = format!("It took {seconds} s.");
                if !call.asker.takes_tasks() {
                    tokio::time::sleep(takes).await;
                    return Some(text_result(text));
                }
                self.begin(State::Working(Instant::now() + takes, completed(&text)))
            }
            // The only tool without a result for clients that do not support tasks.
            "failing_job" if !call.asker.takes_tasks() => Outcome::Refused(without_tasks()),
            "protocol_error_job" if !call.asker.takes_tasks() => {
                Outcome::Refused(ErrorData::internal_error("This job always breaks.", None))
            }
            "confirm_delete" | "multi_input" if !call.asker.takes_tasks() => {
                text_result("Nobody was asked, so nothing was done.")
            }
            "failing_job" => {
                let result = CallToolResult::error(vec![ContentBlock::text("This job always fails.")]);
                self.begin(State::Working(soon(), TaskPayload::Completed { result: object(result) }))
            }
            "protocol_error_job" => {
                let error = object(json!({"code": -32603, "message": "This job always breaks."}));
                self.begin(State::Working(soon(), TaskPayload::Failed { error }))
            }
            "confirm_delete" => {
                let file = argument("filename").unwrap_or_default();
                let question = form(&format!("Delete {file}?"), json!({"confirm": {"type": "boolean"}}));
                let questions = InputRequests::from([("confirm".to_owned(), question)]);
                self.begin(State::Asking(questions, completed("It was answered.")))
            }
            "multi_input" => {
                let name = |name: &str| (name.to_owned(), form("A name?", json!({"name": {"type": "string"}})));
                let questions = InputRequests::from([name("first"), name("second")]);
                self.begin(State::Asking(questions, completed("Both were answered.")))
            }
            _ => return None,
        })
    }

    /// Returns a finished task with a greeting of `name`.
    pub(crate) fn greet(&self, name: &str, call: &Call<'_>) -> Outcome<ToolReply> {
        match call.asker.takes_tasks() {
            true => self.begin(State::Working(Instant::now(), completed(&format!("Hello, {name}!")))),
            false => Outcome::Refused(without_tasks()),
        }
    }

    /// Returns the state of a task.
    pub(crate) fn detailed_task(&self, id: &str) -> Option<DetailedTask> {
        let mut all = self.all.lock();
        let job = all.get_mut(id)?;
        if let State::Working(until, payload) = &job.state
            && *until <= Instant::now()
        {
            (job.state, job.updated) = (State::Over(payload.clone()), now());
        }
        let payload = match &job.state {
            State::Working(..) => TaskPayload::Working,
            State::Asking(questions, _) => TaskPayload::InputRequired { input_requests: questions.clone() },
            State::Over(payload) => payload.clone(),
        };
        let task = Task::new(id, payload.status(), &job.began, &job.updated).with_poll_interval_ms(100);
        Some(DetailedTask::new(task, payload))
    }

    pub(crate) fn answer(&self, id: &str, answers: &InputResponses) -> bool {
        let mut all = self.all.lock();
        let Some(job) = all.get_mut(id) else { return false };
        if let State::Asking(questions, payload) = &mut job.state {
            questions.retain(|name, _| !answers.contains_key(name));
            if questions.is_empty() {
                job.state = State::Over(payload.clone());
            }
            job.updated = now();
        }
        true
    }

    pub(crate) fn cancel(&self, id: &str) -> bool {
        let mut all = self.all.lock();
        let Some(job) = all.get_mut(id) else { return false };
        if !matches!(job.state, State::Over(_)) {
            (job.state, job.updated) = (State::Over(TaskPayload::Cancelled), now());
        }
        true
    }
}
