//! Runs as tasks, for clients that poll long calls (<https://modelcontextprotocol.io/extensions/tasks>, the extension
//! `io.modelcontextprotocol/tasks`).
//!
//! A task is a run and has its id. It is therefore durable before it is announced, and any server can return its state.
//! A task's requests for input are the open gates of the run: gates for people, and judgements as well. A person may
//! make a judgement while the agent waits for the task.

use std::collections::VecDeque;

use parking_lot::Mutex;
use rmcp::model::{
    CreateTaskResult, DetailedTask, ElicitRequest, ElicitResult, InputRequest, InputRequests, InputResponses, Task,
    TaskPayload, TaskStatus,
};
use serde_json::Value;
use steplatch_ids::random_name;
use steplatch_protocol::{
    AnswerGate, AskError, CallTool, CancelWorkflow, GateInfo, GetApprover, GetRun, GetWorkflowRun, ReconnectingClient,
    RunDetail, RunRecord, RunWorkflow, Verb, read,
};

use super::gates::dialog::NoDialog;
use super::gates::{DialogOutcome, Elicitor, MAX_ATTEMPTS, Rejection, dialog, submit_answer, where_to_answer};
use super::{ReplyForm, formatted_result};
use crate::offer::ClientContext;

/// Minimum poll interval for clients, in milliseconds.
const POLL_INTERVAL_MS: u64 = 1000;

/// Maximum number of remembered gates whose question was shown.
const MAX_REMEMBERED_GATES: usize = 1000;

/// Open questions to the client.
///
/// An answer is valid only with the key of its question. The key has a random part. An answer to a question from
/// another server, or to an earlier question whose answer was rejected, is not valid.
#[derive(Debug, Default)]
pub(super) struct OpenQuestions(Mutex<VecDeque<OpenQuestion>>);

#[derive(Debug, Clone)]
struct OpenQuestion {
    gate: String,
    /// The key of the question.
    key: String,
    /// Digest of the shown content.
    digest: String,
    /// Number of rejected answers.
    attempts: usize,
    /// Problem of the last rejected answer.
    problem: Option<String>,
}

impl OpenQuestions {
    fn find(&self, gate: &GateInfo) -> Option<OpenQuestion> {
        let questions = self.0.lock();
        questions.iter().find(|question| question.gate == gate.gate_id).cloned()
    }

    fn insert(&self, question: OpenQuestion) {
        let mut questions = self.0.lock();
        questions.retain(|other| other.gate != question.gate);
        if questions.len() == MAX_REMEMBERED_GATES {
            questions.pop_front();
        }
        questions.push_back(question);
    }

    /// Returns the current question of a gate: a new question if the gate's content has changed.
    fn current_question(&self, gate: &GateInfo) -> OpenQuestion {
        match self.find(gate).filter(|question| question.digest == gate.digest) {
            Some(question) => question,
            None => {
                let question = OpenQuestion {
                    gate: gate.gate_id.clone(),
                    key: format!("gate:{}:{}", gate.gate_id, random_name()),
                    digest: gate.digest.clone(),
                    attempts: 0,
                    problem: None,
                };
                self.insert(question.clone());
                question
            }
        }
    }

    /// Records a rejected answer. Returns the number of rejected answers.
    fn record_rejection(&self, question: &OpenQuestion, problem: &str) -> usize {
        let attempts = question.attempts + 1;
        let key = format!("gate:{}:{}", question.gate, random_name());
        self.insert(OpenQuestion { key, attempts, problem: Some(problem.to_owned()), ..question.clone() });
        attempts
    }
}

/// Starts a run as a task. Returns the reply as the inner `Err` if the run has already finished or did not start.
///
/// # Errors
/// If the daemon is unreachable.
pub(super) async fn start_task(
    verb: &str,
    params: Value,
    daemon: &ReconnectingClient,
) -> Result<Result<CreateTaskResult, (Value, Vec<String>)>, AskError> {
    let nonwaiting_call = match verb {
        CallTool::NAME => {
            without_waiting(params.clone(), |parsed: CallTool| CallTool { wait_seconds: Some(0.0), ..parsed })
        }
        _ => without_waiting(params.clone(), |parsed: RunWorkflow| RunWorkflow { wait_seconds: Some(0.0), ..parsed }),
    };
    // Forward invalid parameters unchanged: the daemon returns the best error.
    let Some((params, warnings)) = nonwaiting_call else { return daemon.call_raw(verb, params).await.map(Err) };
    let (reply, _) = daemon.call_raw(verb, params).await?;
    let run = reply["run_id"].as_str().unwrap_or_default();
    if run.is_empty() || !["running", "waiting"].contains(&reply["status"].as_str().unwrap_or_default()) {
        return Ok(Err((reply, warnings)));
    }
    let record = daemon.call(GetWorkflowRun { run_id: run.to_owned() }).await?.run;
    Ok(Ok(CreateTaskResult::new(task_for_run(&record.unwrap_or_default(), TaskStatus::Working))))
}

fn without_waiting<V: Verb>(params: Value, change: impl FnOnce(V) -> V) -> Option<(Value, Vec<String>)> {
    let parsed = read::<V>(params).ok()?;
    let params = serde_json::to_value(change(parsed.verb)).expect("the parameters of a verb contain only JSON");
    Some((params, parsed.warnings))
}

/// Returns a run as a task, without status-specific fields.
fn task_for_run(run: &RunRecord, status: TaskStatus) -> Task {
    let last_gate = run.pending_gates.iter().map(|gate| &gate.created_at).max();
    let updated_at = run.completed_at.as_ref().or(last_gate).unwrap_or(&run.started_at);
    Task::new(&run.run_id, status, &run.started_at, updated_at).with_poll_interval_ms(POLL_INTERVAL_MS)
}

impl Elicitor {
    /// Returns the state of a task. `None` if its run does not exist.
    ///
    /// # Errors
    /// If the daemon is unreachable.
    pub(super) async fn task(
        &self,
        run_id: &str,
        daemon: &ReconnectingClient,
        client: &ClientContext<'_>,
    ) -> Result<Option<DetailedTask>, AskError> {
        let Some(run) = daemon.call(GetWorkflowRun { run_id: run_id.to_owned() }).await?.run else {
            return Ok(None);
        };
        let task_info = task_for_run(&run, TaskStatus::Working);
        Ok(Some(match run.state.as_str() {
            "cancelled" => DetailedTask::new(task_info, TaskPayload::Cancelled),
            "completed" | "failed" => {
                let params = serde_json::json!({ "run_id": run_id, "detail": RunDetail::Brief });
                let (reply, warnings) = daemon.call_raw(GetRun::NAME, params).await?;
                let is_failed = run.state == "failed";
                let result = formatted_result(ReplyForm::Structured, is_failed, reply, warnings);
                let result = match serde_json::to_value(result) {
                    Ok(Value::Object(result)) => result,
                    other => unreachable!("the result of a tool is an object, not {other:?}"),
                };
                DetailedTask::new(task_info, TaskPayload::Completed { result })
            }
            _ => {
                let (input_requests, instructions) = self.questions(&run.pending_gates, daemon, client).await?;
                let task_info = match instructions {
                    Some(instructions) => task_info.with_status_message(instructions),
                    None => task_info,
                };
                let payload = match input_requests.is_empty() {
                    true => TaskPayload::Working,
                    false => TaskPayload::InputRequired { input_requests },
                };
                DetailedTask::new(task_info, payload)
            }
        }))
    }

    /// Returns the questions for the client's person and instructions to answer a gate that the client cannot show.
    async fn questions(
        &self,
        gates: &[GateInfo],
        daemon: &ReconnectingClient,
        client: &ClientContext<'_>,
    ) -> Result<(InputRequests, Option<String>), AskError> {
        let (mut questions, mut instructions) = (InputRequests::new(), None);
        for gate in gates {
            let is_for_person = gate.answered_by == "human";
            let reason = if !client.supports_forms() || self.is_unanswered(gate) {
                "The run waits for an answer."
            } else if is_for_person && daemon.call(GetApprover {}).await?.is_set {
                "The run waits for a person and the approver's passphrase."
            } else {
                let question = self.open_questions.current_question(gate);
                match dialog::form(gate, question.problem.as_deref(), client.supports_titles()) {
                    Ok(form) => {
                        questions.insert(question.key, InputRequest::Elicitation(ElicitRequest::new(form)));
                        continue;
                    }
                    Err(NoDialog::Form) => "The run waits for a form that clients cannot show.",
                    Err(NoDialog::TooLong) => "The run's question is too long for a dialog.",
                }
            };
            instructions.get_or_insert_with(|| match is_for_person {
                true => where_to_answer(gate, daemon, reason),
                false => format!("{} Answer it with decide: {}", where_to_answer(gate, daemon, reason), gate.prompt),
            });
        }
        Ok((questions, instructions))
    }

    /// Submits a person's answers to the questions that this server sent to a client with dialogs. A response without
    /// an answer leaves its gate open.
    ///
    /// # Errors
    /// If the daemon is unreachable.
    pub(super) async fn submit_answers(
        &self,
        run_id: &str,
        responses: InputResponses,
        daemon: &ReconnectingClient,
        client: &ClientContext<'_>,
    ) -> Result<bool, AskError> {
        let Some(run) = daemon.call(GetWorkflowRun { run_id: run_id.to_owned() }).await?.run else {
            return Ok(false);
        };
        for gate in run.pending_gates.iter().filter(|_| client.supports_forms()) {
            let Some(question) = self.open_questions.find(gate) else { continue };
            let response = responses.get(&question.key).cloned();
            let Some(response) = response.and_then(|response| serde_json::from_value::<ElicitResult>(response).ok())
            else {
                continue;
            };
            match dialog::read(gate, response) {
                DialogOutcome::Answered(answer) => {
                    let answer = AnswerGate { digest: Some(question.digest.clone()), ..*answer };
                    match submit_answer(answer, daemon, client).await? {
                        Err(Rejection { reason, may_retry: true })
                            if self.open_questions.record_rejection(&question, &reason) < MAX_ATTEMPTS => {}
                        Err(_) => self.mark_unanswered(gate),
                        Ok(()) => {}
                    }
                }
                DialogOutcome::LeftOpen(_) => self.mark_unanswered(gate),
            }
        }
        Ok(true)
    }
}

/// Cancels the run of a task. Returns whether the run exists.
///
/// # Errors
/// If the daemon is unreachable.
pub(super) async fn cancel(run_id: &str, daemon: &ReconnectingClient) -> Result<bool, AskError> {
    let exists = daemon.call(GetWorkflowRun { run_id: run_id.to_owned() }).await?.run.is_some();
    if exists {
        // Cancelling has no effect on a finished run.
        daemon.call(CancelWorkflow { run_id: run_id.to_owned() }).await?;
    }
    Ok(exists)
}
