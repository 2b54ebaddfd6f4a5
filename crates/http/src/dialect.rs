//! Server side of the protocol of remote workflow services. Other instances discover and run workflows with this
//! protocol.
//!
//! The four addresses use the same verbs as the API. The list has the proven workflows of the library. A run has other
//! field names and formats than in the API: states in upper case, times in milliseconds since 1970. A run that waits at
//! a gate is RUNNING, with the question in `output.pending_gate`.

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
use crate::execute::{idempotency_key, parse_body};
use crate::refusal::Refusal;

/// Base address of the protocol.
pub(crate) const BASE: &str = "/api/v1/service/workflows";

/// Default number of entries per page.
const DEFAULT_PAGE_SIZE: usize = 50;

/// Maximum number of entries per page.
const MAX_PAGE_SIZE: usize = 200;

/// A workflow that clients can start.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OfferedWorkflow {
    /// Id of the workflow, for /{id}/start
    id: String,
    /// Name of the workflow
    name: String,
    /// Same as name
    title: String,
    /// Description of the workflow
    description: String,
    /// Category of the workflow
    category: String,
    /// Version of the workflow
    version: String,
    /// sync if the client should wait for the end of the run, otherwise async
    #[serde(rename = "executionType")]
    execution_type: &'static str,
    /// JSON Schema of the input
    #[serde(rename = "inputSchema")]
    input_schema: Map<String, Value>,
    /// Same as inputSchema
    inputs: Map<String, Value>,
}

/// A page of workflows.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Page {
    /// Number of entries on all pages
    count: usize,
    /// Address of the next page, relative to this one
    next: Option<String>,
    /// Address of the previous page
    previous: Option<String>,
    /// The entries of this page
    results: Vec<OfferedWorkflow>,
}

/// The list of workflows, or one page of it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum List {
    /// The complete list
    All(Vec<OfferedWorkflow>),
    /// One page
    Page(Page),
}

/// The requested page. Without one, the reply has all entries.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PageQuery {
    /// Number of the page, from 1
    #[serde(default)]
    #[schemars(range(min = 1))]
    page: Option<usize>,
    /// Number of entries per page (default 50)
    #[serde(default)]
    #[schemars(range(min = 1, max = 200))]
    page_size: Option<usize>,
}

/// A request to start a run.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Start {
    /// The input, valid for the workflow's schema
    #[serde(default)]
    input: Map<String, Value>,
    /// Client that starts the run; ignored
    #[serde(default)]
    #[expect(dead_code, reason = "other instances send it, so it is documented")]
    source: Option<String>,
}

/// A started run.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StartReply {
    /// Always true
    success: bool,
    /// Identifier of the start: the run's id
    correlation_id: String,
    /// The run, for /{id}/runs/{run_id}/status
    workflow_id: String,
}

/// Status of a run. Times are in milliseconds since 1970, in both spellings of the protocol.
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
    /// The workflow: same as workflow_id
    #[serde(rename = "originalWorkflowId")]
    original_workflow_id: String,
    /// Input of the run; secrets are hidden
    input: Map<String, Value>,
    /// Output of the run: result, final_state, error; pending_gate while it waits; otherwise null while it continues
    output: Option<Map<String, Value>>,
    #[serde(flatten)]
    snake: SnakeTimes,
    #[serde(flatten)]
    camel: CamelTimes,
    /// Duration in milliseconds
    #[serde(rename = "executionDuration")]
    execution_duration: Option<i64>,
}

/// Times of a run, in snake case.
#[derive(Debug, Serialize, JsonSchema)]
struct SnakeTimes {
    /// Time at which the run was created
    create_time: Option<i64>,
    /// Time of the last known change
    update_time: Option<i64>,
    /// Start time
    start_time: Option<i64>,
    /// End time; missing while the run continues
    #[serde(skip_serializing_if = "Option::is_none")]
    end_time: Option<i64>,
}

/// The same times, in camel case.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct CamelTimes {
    /// Same as create_time
    create_time: Option<i64>,
    /// Same as start_time
    start_time: Option<i64>,
    /// Same as update_time
    update_time: Option<i64>,
    /// Same as end_time; null while the run continues
    end_time: Option<i64>,
}

/// Result of a cancellation.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CancelReply {
    /// True if the run has ended
    success: bool,
    /// Current state of the run
    status: &'static str,
    /// Description of the result
    message: String,
}

/// Returns the status of a run in this protocol. A run that waits at a gate is RUNNING.
fn protocol_status(state: &str) -> &'static str {
    match state {
        "completed" => "COMPLETED",
        "failed" => "FAILED",
        "cancelled" => "CANCELLED",
        _ => "RUNNING",
    }
}

fn parse_milliseconds(timestamp: &str) -> Option<i64> {
    timestamp.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
}

impl OfferedWorkflow {
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

/// Lists the workflows that can be started.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    query: Result<Query<PageQuery>, QueryRejection>,
) -> Result<Json<List>, Refusal> {
    let Query(PageQuery { page, page_size }) = query.map_err(|error| Refusal::invalid(error.body_text()))?;
    let size = page_size.unwrap_or(DEFAULT_PAGE_SIZE);
    if page == Some(0) || !(1..=MAX_PAGE_SIZE).contains(&size) {
        return Err(Refusal::invalid(format!("page must be at least 1, and page_size must be 1 to {MAX_PAGE_SIZE}")));
    }
    let reply = app.daemon.call(ListTools { scope: Some(ToolScope::Library) }).await?;
    if let Some(error) = reply.error {
        return Err(Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "refused", error));
    }
    let count = reply.tools.len();
    let tools = reply.tools.into_iter();
    if page.is_none() && page_size.is_none() {
        return Ok(Json(List::All(tools.map(OfferedWorkflow::new).collect())));
    }
    let page = page.unwrap_or(1);
    let offset = (page - 1).saturating_mul(size);
    let address = |page: usize| format!("{BASE}/mcp?page={page}&page_size={size}");
    Ok(Json(List::Page(Page {
        count,
        next: (offset.saturating_add(size) < count).then(|| address(page + 1)),
        previous: (page > 1).then(|| address(page - 1)),
        results: tools.skip(offset).take(size).map(OfferedWorkflow::new).collect(),
    })))
}

/// Starts a run. With a repeated Idempotency-Key, returns the run that was started with it.
pub(crate) async fn start(
    State(app): State<Arc<App>>,
    id: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<StartReply>, Refusal> {
    let Path(workflow_id) = id.map_err(|error| Refusal::invalid(error.body_text()))?;
    let fields = parse_body(&headers, &body)?;
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
        let error = reply.error.unwrap_or_else(|| "Failed to start the workflow".to_owned());
        let workflow = app.daemon.call(DescribeWorkflow { name: workflow_id }).await?;
        return Err(match workflow.success || workflow.file.is_some() {
            true => Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "refused", error),
            false => Refusal::not_found(error),
        });
    }
    Ok(Json(StartReply { success: true, correlation_id: reply.run_id.clone(), workflow_id: reply.run_id }))
}

/// Returns the record of a run of this workflow.
async fn find_record(app: &App, workflow: &str, run_id: String) -> Result<RunRecord, Refusal> {
    let reply = app.daemon.call(GetWorkflowRun { run_id }).await?;
    match reply.run {
        Some(run) if run.workflow_id == workflow => Ok(run),
        Some(_) => Err(Refusal::not_found("This run belongs to another workflow")),
        None => Err(Refusal::not_found(reply.error.unwrap_or_else(|| "The run does not exist".to_owned()))),
    }
}

/// Returns the state of a run.
pub(crate) async fn status(
    State(app): State<Arc<App>>,
    ids: Result<Path<(String, String)>, PathRejection>,
) -> Result<Json<Status>, Refusal> {
    let Path((workflow, run_id)) = ids.map_err(|error| Refusal::invalid(error.body_text()))?;
    let run = find_record(&app, &workflow, run_id.clone()).await?;
    let reply = match protocol_status(&run.state) {
        "RUNNING" => None,
        _ => Some(app.daemon.call(GetRun { run_id, wait_seconds: None, ..GetRun::default() }).await?),
    };
    Ok(Json(to_status(run, reply)))
}

fn to_status(run: RunRecord, reply: Option<RunReply>) -> Status {
    let start_time = parse_milliseconds(&run.started_at);
    let end_time = run.completed_at.as_deref().and_then(parse_milliseconds);
    let changes = run.pending_gates.iter().map(|gate| gate.created_at.as_str());
    let changes = changes.chain(run.paused.iter().map(|pause| pause.since.as_str()));
    let update_time = changes.filter_map(parse_milliseconds).chain(start_time).chain(end_time).max();
    let output = match reply {
        Some(reply) => Some(to_output(reply, run.error)),
        None => run.pending_gate.map(|gate| Map::from_iter([("pending_gate".to_owned(), json!(gate))])),
    };
    Status {
        status: protocol_status(&run.state),
        workflow_id: run.workflow_id.clone(),
        correlation_id: run.run_id.clone(),
        workflow_instance_id: run.run_id,
        original_workflow_id: run.workflow_id,
        input: remove_input_variable(match run.input {
            Value::Object(fields) => fields,
            _ => run.params,
        }),
        output,
        snake: SnakeTimes { create_time: start_time, update_time, start_time, end_time },
        camel: CamelTimes { create_time: start_time, start_time, update_time, end_time },
        execution_duration: end_time.zip(start_time).map(|(end, start)| end.saturating_sub(start).max(0)),
    }
}

/// Returns the output of a finished run.
fn to_output(reply: RunReply, error: Option<String>) -> Map<String, Value> {
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

/// Removes the variable `input`. A machine adds it to its input, in addition to one variable for each field.
fn remove_input_variable(mut input: Map<String, Value>) -> Map<String, Value> {
    let original_input =
        input.get("input").and_then(Value::as_str).and_then(|text| serde_json::from_str::<Value>(text).ok());
    if let Some(Value::Object(fields)) = original_input
        && input.len() == fields.len() + 1
        && fields.keys().all(|name| input.contains_key(name))
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
    find_record(&app, &workflow, run_id.clone()).await?;
    let reply = app.daemon.call(CancelWorkflow { run_id }).await?;
    if !reply.success {
        let error = reply.error.unwrap_or_else(|| "Failed to cancel the run".to_owned());
        return Err(Refusal::new(StatusCode::CONFLICT, "conflict", error));
    }
    Ok(Json(CancelReply { success: true, status: protocol_status(&reply.state), message: reply.message })
        .into_response())
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
    fn waiting_run_is_running_with_its_pending_gate() {
        let gate = GateInfo {
            prompt: "Publish?".to_owned(),
            created_at: "2026-01-31T12:00:03.000Z".to_owned(),
            ..GateInfo::default()
        };
        let record = RunRecord { pending_gates: vec![gate.clone()], pending_gate: Some(gate), ..run("waiting") };
        let status = serde_json::to_value(to_status(record, None)).unwrap();
        assert_eq!(
            (&status["status"], &status["output"]["pending_gate"]["prompt"]),
            (&json!("RUNNING"), &json!("Publish?"))
        );
        assert_eq!(status["startTime"], 1_769_860_800_250_i64);
        assert_eq!((&status["updateTime"], &status["endTime"]), (&json!(1_769_860_803_000_i64), &Value::Null));
        let status = serde_json::to_value(to_status(run("pending"), None)).unwrap();
        assert_eq!((&status["status"], &status["output"]), (&json!("RUNNING"), &Value::Null));
    }

    // Document 004, lines 188-196: create_time, update_time, status, end_time?, start_time, workflow_id, input, output.
    #[test]
    fn status_has_the_documented_fields_in_both_spellings() {
        let status = serde_json::to_value(to_status(run("running"), None)).unwrap();
        for name in ["create_time", "update_time", "start_time", "createTime", "updateTime", "startTime"] {
            assert_eq!(status[name], 1_769_860_800_250_i64, "{name}: {status}");
        }
        assert!(status.get("end_time").is_none() && status["endTime"].is_null(), "{status}");
        assert_eq!((&status["workflow_id"], &status["originalWorkflowId"]), (&json!("release"), &json!("release")));
        let finished_run = RunRecord { completed_at: Some("2026-01-31T12:00:01.000Z".to_owned()), ..run("failed") };
        let status = serde_json::to_value(to_status(finished_run, Some(RunReply::default()))).unwrap();
        assert_eq!(
            (&status["end_time"], &status["endTime"]),
            (&json!(1_769_860_801_000_i64), &json!(1_769_860_801_000_i64))
        );
    }

    #[test]
    fn output_has_the_result_or_the_error() {
        let record = || RunRecord { completed_at: Some("2026-01-31T12:00:01.000Z".to_owned()), ..run("completed") };
        let completed_reply =
            RunReply { status: "completed".to_owned(), result: Some(json!([1])), ..RunReply::default() };
        let status = serde_json::to_value(to_status(record(), Some(completed_reply))).unwrap();
        assert_eq!(status["output"], json!({"result": [1]}));
        assert_eq!(status["executionDuration"], 750);
        let failed_reply = RunReply {
            status: "failed".to_owned(),
            final_state: Some("build".to_owned()),
            error: Some("make ended with 2".to_owned()),
            ..RunReply::default()
        };
        let status =
            serde_json::to_value(to_status(RunRecord { state: "failed".to_owned(), ..record() }, Some(failed_reply)));
        assert_eq!(status.unwrap()["output"], json!({"final_state": "build", "error": "make ended with 2"}));
    }

    #[test]
    fn duplicate_input_variable_is_removed() {
        let without_duplicate = |value: Value| remove_input_variable(serde_json::from_value(value).unwrap());
        let input = without_duplicate(json!({"version": "1.2", "input": r#"{"version":"1.2"}"#}));
        assert_eq!(Value::Object(input), json!({"version": "1.2"}));
        let input = without_duplicate(json!({"version": "1.2", "input": "another value"}));
        assert_eq!(input.len(), 2);
    }
}
