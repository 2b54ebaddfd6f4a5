//! The server side of the protocol of remote workflow services, by which another instance discovers and runs workflows.
//!
//! It consists of four addresses over the usual verbs. The list shows the library's proven workflows. A run is an
//! ordinary run with other field names and formats: states in upper case, times in milliseconds since 1970. A run that
//! waits on a gate is running, with the question in `output.pending_gate`.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use steplatch_protocol::{
    CancelWorkflow, DescribeWorkflow, ExecuteWorkflow, GetRun, GetWorkflowRun, ListTools, RunRecord, RunReply,
    ToolInfo, ToolScope,
};

use crate::app::App;
use crate::carry_out::{idempotency_key, object};
use crate::refusal::Refusal;

/// The base address.
pub(crate) const BASE: &str = "/api/v1/service/workflows";

/// The default number of entries of a page.
const PAGE: usize = 50;

/// The maximum number of entries of a page.
const MAX_PAGE_SIZE: usize = 200;

/// A workflow that can be started.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Offered {
    /// Its id, for /{id}/start
    id: String,
    /// Its name
    name: String,
    /// The same, as pages call it
    title: String,
    /// Its purpose
    description: String,
    /// Its category
    category: String,
    /// Its version
    version: String,
    /// sync or async: whether the client that starts it waits for its end
    #[serde(rename = "executionType")]
    execution_type: &'static str,
    /// JSON Schema of its input
    #[serde(rename = "inputSchema")]
    input_schema: Map<String, Value>,
    /// The same, as pages call it
    inputs: Map<String, Value>,
}

/// A page of them.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Page {
    /// Number of entries on all pages
    count: usize,
    /// The address of the next page, relative to this one's
    next: Option<String>,
    /// The address of the previous page
    previous: Option<String>,
    /// The entries of this page
    results: Vec<Offered>,
}

/// The list: all of it, or one page.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum List {
    /// All of it
    All(Vec<Offered>),
    /// One page
    Page(Page),
}

/// Requested page. Without one, all entries are returned.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WantedPage {
    /// Its number, from 1
    #[serde(default)]
    #[schemars(range(min = 1))]
    page: Option<usize>,
    /// Entries of a page (default 50)
    #[serde(default)]
    #[schemars(range(min = 1, max = 200))]
    page_size: Option<usize>,
}

/// Start of a run.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Start {
    /// The input, after the workflow's schema
    #[serde(default)]
    input: Map<String, Value>,
    /// Client that starts it; ignored
    #[serde(default)]
    #[expect(dead_code, reason = "others send it, so it is documented")]
    source: Option<String>,
}

/// A run that was started.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StartReply {
    /// Always true
    success: bool,
    /// Identifier of the start: the run's id
    correlation_id: String,
    /// The run, for /{id}/runs/{run_id}/status
    workflow_id: String,
}

/// Status of a run. Times are in milliseconds since 1970, each in both spellings that clients of the dialect read.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Status {
    /// RUNNING, COMPLETED, FAILED or CANCELLED
    status: &'static str,
    /// The workflow, as in the path
    workflow_id: String,
    /// Correlation id of the start
    #[serde(rename = "correlationId")]
    correlation_id: String,
    /// The run
    #[serde(rename = "workflowInstanceId")]
    workflow_instance_id: String,
    /// The workflow: the same as workflow_id
    #[serde(rename = "originalWorkflowId")]
    original_workflow_id: String,
    /// Input of the run; secrets are hidden
    input: Map<String, Value>,
    /// Output of the run: result, final_state, error; while it runs nothing, or pending_gate
    output: Option<Map<String, Value>>,
    #[serde(flatten)]
    snake: SnakeTimes,
    #[serde(flatten)]
    camel: CamelTimes,
    /// Milliseconds that it took
    #[serde(rename = "executionDuration")]
    execution_duration: Option<i64>,
}

/// Times of a run, as services write them.
#[derive(Debug, Serialize, JsonSchema)]
struct SnakeTimes {
    /// Time at which the run was created
    create_time: Option<i64>,
    /// Time of its last change, as far as that is known
    update_time: Option<i64>,
    /// Time of its start
    start_time: Option<i64>,
    /// Time of its end; left out while it runs
    #[serde(skip_serializing_if = "Option::is_none")]
    end_time: Option<i64>,
}

/// The same times, in the spelling of results.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct CamelTimes {
    /// The same as create_time
    create_time: Option<i64>,
    /// The same as start_time
    start_time: Option<i64>,
    /// The same as update_time
    update_time: Option<i64>,
    /// The same as end_time; null while it runs
    end_time: Option<i64>,
}

/// Result of a cancel.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Cancelled {
    /// True if the run has ended
    success: bool,
    /// Its state now
    status: &'static str,
    /// Description of the result
    message: String,
}

/// Returns the state of a run in this protocol; a run that waits on a gate is running.
fn word(state: &str) -> &'static str {
    match state {
        "completed" => "COMPLETED",
        "failed" => "FAILED",
        "cancelled" => "CANCELLED",
        _ => "RUNNING",
    }
}

fn milliseconds(moment: &str) -> Option<i64> {
    moment.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
}

impl Offered {
    fn new(tool: ToolInfo) -> Self {
        let schema = match tool.input_schema {
            Value::Object(schema) => schema,
            _ => Map::from_iter([("type".to_owned(), "object".into())]),
        };
        Self {
            id: tool.workflow_id,
            name: tool.title.clone(),
            title: tool.title,
            description: tool.description,
            category: tool.category.unwrap_or_else(|| "workflow".to_owned()),
            version: tool.version.unwrap_or_else(|| "1.0.0".to_owned()),
            execution_type: if tool.sync { "sync" } else { "async" },
            input_schema: schema.clone(),
            inputs: schema,
        }
    }
}

/// Lists the startable workflows.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    query: Result<Query<WantedPage>, QueryRejection>,
) -> Result<Json<List>, Refusal> {
    let Query(WantedPage { page, page_size }) = query.map_err(|error| Refusal::invalid(error.body_text()))?;
    let size = page_size.unwrap_or(PAGE);
    if page == Some(0) || !(1..=MAX_PAGE_SIZE).contains(&size) {
        return Err(Refusal::invalid(format!("page counts from 1, and page_size is 1 to {MAX_PAGE_SIZE}")));
    }
    let reply = app.daemon.call(ListTools { scope: Some(ToolScope::Library) }).await?;
    if let Some(error) = reply.error {
        return Err(Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "refused", error));
    }
    let count = reply.tools.len();
    let tools = reply.tools.into_iter();
    if page.is_none() && page_size.is_none() {
        return Ok(Json(List::All(tools.map(Offered::new).collect())));
    }
    let page = page.unwrap_or(1);
    let before = (page - 1).saturating_mul(size);
    let address = |page: usize| format!("{BASE}/mcp?page={page}&page_size={size}");
    Ok(Json(List::Page(Page {
        count,
        next: (before.saturating_add(size) < count).then(|| address(page + 1)),
        previous: (page > 1).then(|| address(page - 1)),
        results: tools.skip(before).take(size).map(Offered::new).collect(),
    })))
}

/// Starts a run. A repeated Idempotency-Key returns the run started with it.
pub(crate) async fn start(
    State(app): State<Arc<App>>,
    id: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<StartReply>, Refusal> {
    let Path(workflow_id) = id.map_err(|error| Refusal::invalid(error.body_text()))?;
    let fields = object(&headers, &body)?;
    let Start { input, .. } =
        serde_json::from_value(Value::Object(fields)).map_err(|error| Refusal::invalid(error.to_string()))?;
    let reply = app.daemon.call(ExecuteWorkflow {
        workflow_id: workflow_id.clone(),
        input: Value::Object(input.clone()),
        params: Some(input),
        idempotency_key: idempotency_key(&headers)?,
        ..ExecuteWorkflow::default()
    });
    let reply = reply.await?;
    if reply.run_id.is_empty() {
        let error = reply.error.unwrap_or_else(|| "The workflow could not be started".to_owned());
        let found = app.daemon.call(DescribeWorkflow { name: workflow_id }).await?;
        return Err(match found.success || found.file.is_some() {
            true => Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "refused", error),
            false => Refusal::not_found(error),
        });
    }
    Ok(Json(StartReply { success: true, correlation_id: reply.run_id.clone(), workflow_id: reply.run_id }))
}

/// Returns the record of a run of this workflow.
async fn record(app: &App, workflow: &str, run_id: String) -> Result<RunRecord, Refusal> {
    let reply = app.daemon.call(GetWorkflowRun { run_id }).await?;
    match reply.run {
        Some(run) if run.workflow_id == workflow => Ok(run),
        Some(_) => Err(Refusal::not_found("This run is one of another workflow")),
        None => Err(Refusal::not_found(reply.error.unwrap_or_else(|| "There is no such run".to_owned()))),
    }
}

/// Returns the state of a run.
pub(crate) async fn status(
    State(app): State<Arc<App>>,
    ids: Result<Path<(String, String)>, PathRejection>,
) -> Result<Json<Status>, Refusal> {
    let Path((workflow, run_id)) = ids.map_err(|error| Refusal::invalid(error.body_text()))?;
    let run = record(&app, &workflow, run_id.clone()).await?;
    let reply = match word(&run.state) {
        "RUNNING" => None,
        _ => Some(app.daemon.call(GetRun { run_id, wait_seconds: None, ..GetRun::default() }).await?),
    };
    Ok(Json(status_of(run, reply)))
}

fn status_of(run: RunRecord, reply: Option<RunReply>) -> Status {
    let began = milliseconds(&run.started_at);
    let ended = run.completed_at.as_deref().and_then(milliseconds);
    let changes = run.pending_gates.iter().map(|gate| gate.created_at.as_str());
    let changes = changes.chain(run.paused.iter().map(|pause| pause.since.as_str()));
    let changed = changes.filter_map(milliseconds).chain(began).chain(ended).max();
    let output = match reply {
        Some(reply) => Some(output_of(reply, run.error)),
        None => run.pending_gate.map(|gate| Map::from_iter([("pending_gate".to_owned(), json!(gate))])),
    };
    Status {
        status: word(&run.state),
        workflow_id: run.workflow_id.clone(),
        correlation_id: run.run_id.clone(),
        workflow_instance_id: run.run_id,
        original_workflow_id: run.workflow_id,
        input: as_it_was_given(match run.input {
            Value::Object(fields) => fields,
            _ => run.params,
        }),
        output,
        snake: SnakeTimes { create_time: began, update_time: changed, start_time: began, end_time: ended },
        camel: CamelTimes { create_time: began, start_time: began, update_time: changed, end_time: ended },
        execution_duration: ended.zip(began).map(|(ended, began)| ended.saturating_sub(began).max(0)),
    }
}

/// Returns the output of a run that has ended.
fn output_of(reply: RunReply, error: Option<String>) -> Map<String, Value> {
    let mut output = Map::new();
    if reply.status == "completed" {
        // The return value of a function, or the return values of a machine.
        output.insert("result".to_owned(), reply.result.unwrap_or_else(|| reply.return_values.into()));
    }
    if let Some(state) = reply.final_state {
        output.insert("final_state".to_owned(), state.into());
    }
    if let Some(error) = reply.error.or(error) {
        output.insert("error".to_owned(), error.into());
    }
    output
}

/// Removes the variable that a machine adds to its input: its whole input, beside one variable for each field.
fn as_it_was_given(mut input: Map<String, Value>) -> Map<String, Value> {
    let whole = input.get("input").and_then(Value::as_str).and_then(|text| serde_json::from_str::<Value>(text).ok());
    if let Some(Value::Object(whole)) = whole
        && input.len() == whole.len() + 1
        && whole.keys().all(|name| input.contains_key(name))
    {
        input.shift_remove("input");
    }
    input
}

/// Cancels a run.
pub(crate) async fn cancel(
    State(app): State<Arc<App>>,
    ids: Result<Path<(String, String)>, PathRejection>,
) -> Result<Response, Refusal> {
    let Path((workflow, run_id)) = ids.map_err(|error| Refusal::invalid(error.body_text()))?;
    record(&app, &workflow, run_id.clone()).await?;
    let reply = app.daemon.call(CancelWorkflow { run_id }).await?;
    if !reply.success {
        let error = reply.error.unwrap_or_else(|| "The run could not be cancelled".to_owned());
        return Err(Refusal::new(StatusCode::CONFLICT, "conflict", error));
    }
    Ok(Json(Cancelled { success: true, status: word(&reply.state), message: reply.message }).into_response())
}

#[cfg(test)]
mod tests {
    use steplatch_protocol::GateInfo;

    use super::*;

    fn run(state: &str) -> RunRecord {
        RunRecord {
            run_id: "run_x".to_owned(),
            workflow_id: "release".to_owned(),
            state: state.to_owned(),
            started_at: "2026-01-31T12:00:00.250Z".to_owned(),
            ..RunRecord::default()
        }
    }

    #[test]
    fn a_run_that_waits_is_running_and_shows_its_question() {
        let gate = GateInfo {
            prompt: "Publish?".to_owned(),
            created_at: "2026-01-31T12:00:03.000Z".to_owned(),
            ..GateInfo::default()
        };
        let record = RunRecord { pending_gates: vec![gate.clone()], pending_gate: Some(gate), ..run("waiting") };
        let told = serde_json::to_value(status_of(record, None)).unwrap();
        assert_eq!(
            (&told["status"], &told["output"]["pending_gate"]["prompt"]),
            (&json!("RUNNING"), &json!("Publish?"))
        );
        assert_eq!(told["startTime"], 1_769_860_800_250_i64);
        assert_eq!((&told["updateTime"], &told["endTime"]), (&json!(1_769_860_803_000_i64), &Value::Null));
        let told = serde_json::to_value(status_of(run("pending"), None)).unwrap();
        assert_eq!((&told["status"], &told["output"]), (&json!("RUNNING"), &Value::Null));
    }

    // Document 004, lines 188-196: create_time, update_time, status, end_time?, start_time, workflow_id, input, output.
    #[test]
    fn a_status_has_the_documented_fields_in_both_spellings() {
        let told = serde_json::to_value(status_of(run("running"), None)).unwrap();
        for name in ["create_time", "update_time", "start_time", "createTime", "updateTime", "startTime"] {
            assert_eq!(told[name], 1_769_860_800_250_i64, "{name}: {told}");
        }
        assert!(told.get("end_time").is_none() && told["endTime"].is_null(), "{told}");
        assert_eq!((&told["workflow_id"], &told["originalWorkflowId"]), (&json!("release"), &json!("release")));
        let ended = RunRecord { completed_at: Some("2026-01-31T12:00:01.000Z".to_owned()), ..run("failed") };
        let told = serde_json::to_value(status_of(ended, Some(RunReply::default()))).unwrap();
        assert_eq!(
            (&told["end_time"], &told["endTime"]),
            (&json!(1_769_860_801_000_i64), &json!(1_769_860_801_000_i64))
        );
    }

    #[test]
    fn the_output_is_what_came_of_the_run() {
        let record = || RunRecord { completed_at: Some("2026-01-31T12:00:01.000Z".to_owned()), ..run("completed") };
        let done = RunReply { status: "completed".to_owned(), result: Some(json!([1])), ..RunReply::default() };
        let told = serde_json::to_value(status_of(record(), Some(done))).unwrap();
        assert_eq!(told["output"], json!({"result": [1]}));
        assert_eq!(told["executionDuration"], 750);
        let failed = RunReply {
            status: "failed".to_owned(),
            final_state: Some("build".to_owned()),
            error: Some("make ended with 2".to_owned()),
            ..RunReply::default()
        };
        let told = serde_json::to_value(status_of(RunRecord { state: "failed".to_owned(), ..record() }, Some(failed)));
        assert_eq!(told.unwrap()["output"], json!({"final_state": "build", "error": "make ended with 2"}));
    }

    #[test]
    fn the_input_is_told_as_it_was_given() {
        let read = |value: Value| as_it_was_given(serde_json::from_value(value).unwrap());
        let given = read(json!({"version": "1.2", "input": r#"{"version":"1.2"}"#}));
        assert_eq!(Value::Object(given), json!({"version": "1.2"}));
        let own = read(json!({"version": "1.2", "input": "a text of its own"}));
        assert_eq!(own.len(), 2);
    }
}
