//! Execution of the requests in the table of routes.
//!
//! This module merges the parameters of the address, the query and the body into the object that the verb takes; the
//! daemon parses and checks it. The daemon's reply is the response. Its status depends on the fields of the reply and
//! on the existence of the resource in the address, never on the text of an error.

use axum::Json;
use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use steplatch_protocol::{
    AskError, DescribeNode, DescribeWorkflow, GetApprover, GetWorkflowRun, ListGraphs, ListHosts, ListRecordings,
    ListRemoteWorkflows, ListSchedules, ListTerminalSessions, ListTools, Peer, ReconnectingClient,
};

use crate::admission::Caller;
use crate::refusal::Refusal;
use crate::route::{FailureStatus, ResourceKind, Route};

/// Header with the idempotency key of a request, so that a repeated request is executed only once
/// (<https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/>).
pub(crate) const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Maximum idempotency key length, in bytes.
const MAX_KEY_BYTES: usize = 255;

/// Parameter for the idempotency key, in the verbs that accept one.
const KEY_FIELD: &str = "idempotency_key";

/// A route with the cached schema of its verb.
#[derive(Debug)]
pub(crate) struct RouteHandler {
    pub(crate) route: &'static Route,
    /// Properties in the schema of the parameters.
    properties: Map<String, Value>,
}

/// The parts of a request.
#[derive(Debug)]
pub(crate) struct RequestInput {
    /// The parameters of the address, by their names there.
    pub(crate) path: Vec<(String, String)>,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The address of the client.
    pub(crate) peer: Option<Peer>,
    /// Credentials of the client.
    pub(crate) caller: Caller,
}

impl RouteHandler {
    pub(crate) fn new(route: &'static Route) -> Self {
        let mut schema = (route.info().parameters)();
        let properties = match schema["properties"].take() {
            Value::Object(properties) => properties,
            _ => Map::new(),
        };
        Self { route, properties }
    }

    /// Executes a request.
    ///
    /// # Errors
    /// If the request is invalid for this route, or the daemon does not respond.
    pub(crate) async fn execute(
        &self,
        daemon: &ReconnectingClient,
        request: RequestInput,
    ) -> Result<Response, Refusal> {
        if self.route.for_page && request.caller != Caller::Page {
            let error =
                "Only a browser that is logged in to the page may send this request; log in with: steplatch open";
            return Err(Refusal::new(StatusCode::FORBIDDEN, "page_only", error));
        }
        let resource_name = request.path.first().map(|(_, value)| value.clone());
        let peer = request.peer;
        // The record of an answer states the page as its surface if the page sent it.
        let surface = if request.caller == Caller::Page { "page" } else { "http" };
        let params = Value::Object(self.merge_parameters(request)?);
        let (mut reply, warnings) = match self.route.verb {
            "ANSWER_GATE" => answer_gate(daemon, params, peer, surface).await?,
            // The daemon checks the passphrase, and refuses all of them from a program in a steplatch terminal.
            verb @ ("UNLOCK_RUNS" | "DELETE_RUN" | "EDIT_WORKFLOW" | "ENTER_SECRET" | "END_PAGE_SESSIONS") => {
                daemon.for_person(surface, peer).call_raw(verb, params).await?
            }
            verb => daemon.call_raw(verb, params).await?,
        };
        let status = self.find_status(&reply, daemon, resource_name.as_deref()).await?;
        if let Value::Object(fields) = &mut reply {
            // Replies that are always successes have no `success` field.
            fields.entry("success").or_insert(true.into());
            if !warnings.is_empty() {
                match fields.entry("warnings").or_insert_with(|| json!([])) {
                    Value::Array(existing) => existing.extend(warnings.into_iter().map(Value::String)),
                    value => *value = warnings.into(),
                }
            }
            if let Some(code) = status_code_name(status) {
                let message = fields.get("error").or_else(|| fields.get("message")).and_then(Value::as_str);
                let error = message.unwrap_or("The request failed").to_owned();
                fields.insert("error".to_owned(), error.into());
                fields.insert("code".to_owned(), code.into());
            }
        }
        Ok((status, Json(reply)).into_response())
    }

    /// Merges the parameters of the path, the query, the headers and the body.
    fn merge_parameters(&self, request: RequestInput) -> Result<Map<String, Value>, Refusal> {
        let RequestInput { path, query, headers, body, peer: _, caller: _ } = request;
        let mut params = match self.route.method.has_body() {
            true => {
                if let Some((name, _)) = query.first() {
                    let error =
                        format!("'{name}' is in the query, but this request takes its parameters as a JSON object");
                    return Err(Refusal::invalid(error));
                }
                parse_body(&headers, &body)?
            }
            false if !body.is_empty() => {
                return Err(Refusal::invalid("This request takes its parameters in the query, without a body"));
            }
            false => self.parse_query(query)?,
        };
        for (name, value) in path {
            let parameter = self.route.path_parameters().find(|(parameter, _)| *parameter == name);
            let field = parameter.map_or(name.as_str(), |(_, field)| field);
            match params.get(field) {
                Some(body_value) if *body_value != value => {
                    return Err(Refusal::invalid(format!("{field} differs between the address and the body")));
                }
                _ => {
                    params.insert(field.to_owned(), value.into());
                }
            }
        }
        self.add_idempotency_key(&headers, &mut params)?;
        Ok(params)
    }

    /// Parses a query by the schema of the verb.
    fn parse_query(&self, query: Vec<(String, String)>) -> Result<Map<String, Value>, Refusal> {
        let mut params = Map::new();
        for (name, value) in query {
            let in_path = self.route.path_parameters().any(|(_, field)| field == name);
            let Some(parameter) = self.properties.get(&name).filter(|_| !in_path) else {
                let names: Vec<_> = self.properties.keys().map(String::as_str).collect();
                let path_names: Vec<_> = self.route.path_parameters().map(|(_, field)| field).collect();
                let query_names: Vec<_> = names.into_iter().filter(|name| !path_names.contains(name)).collect();
                let name: String = name.chars().take(60).collect();
                let error = match query_names.is_empty() {
                    true => format!("unknown parameter '{name}': this request has no parameters"),
                    false => format!("unknown parameter '{name}'; the parameters are {}", query_names.join(", ")),
                };
                return Err(Refusal::invalid(error));
            };
            if parameter["type"] == "array" {
                match params.entry(name).or_insert_with(|| json!([])) {
                    Value::Array(values) => values.push(value.into()),
                    other => *other = value.into(),
                }
            } else if params.insert(name.clone(), value.into()).is_some() {
                return Err(Refusal::invalid(format!("{name} occurs more than once")));
            }
        }
        Ok(params)
    }

    /// Adds the idempotency key of the header to the parameters.
    fn add_idempotency_key(&self, headers: &HeaderMap, params: &mut Map<String, Value>) -> Result<(), Refusal> {
        let Some(key) = idempotency_key(headers)? else { return Ok(()) };
        let traits = self.route.info().traits;
        if !self.properties.contains_key(KEY_FIELD) {
            return match traits.idempotent {
                // The verb itself is idempotent.
                true => Ok(()),
                false => Err(Refusal::invalid(
                    "This request does not support Idempotency-Key: only requests that start a run do",
                )),
            };
        }
        match params.get(KEY_FIELD) {
            Some(body_key) if *body_key != key => {
                Err(Refusal::invalid("idempotency_key differs between the header and the body"))
            }
            _ => {
                params.insert(KEY_FIELD.to_owned(), key.into());
                Ok(())
            }
        }
    }

    /// Returns the status of a reply.
    async fn find_status(
        &self,
        reply: &Value,
        daemon: &ReconnectingClient,
        resource_name: Option<&str>,
    ) -> Result<StatusCode, Refusal> {
        if reply["success"] != false {
            return Ok(StatusCode::OK);
        }
        let text = |field: &str| reply[field].as_str().unwrap_or_default();
        let has_state = !text("status").is_empty() || !text("state").is_empty();
        let is_run = has_state && !text("run_id").is_empty();
        let has_entries = |field: &str| reply[field].as_array().is_some_and(|entries| !entries.is_empty());
        match self.route.failure_status {
            FailureStatus::Run if is_run => return Ok(StatusCode::OK),
            FailureStatus::Run if text("final_state") == "workflow_not_found" => return Ok(StatusCode::NOT_FOUND),
            FailureStatus::Run if text("final_state") == "idempotency_conflict" => return Ok(StatusCode::CONFLICT),
            FailureStatus::Value if text("error_type") != "not_found" => return Ok(StatusCode::OK),
            _ => {}
        }
        if reply["passphrase_wanted"] == true {
            return Ok(StatusCode::FORBIDDEN);
        }
        if reply["name_taken"] == true {
            return Ok(StatusCode::CONFLICT);
        }
        if reply["misread"] == true || has_entries("validation_errors") || has_entries("problems") {
            return Ok(StatusCode::UNPROCESSABLE_ENTITY);
        }
        if let (Some(resource), Some(name)) = (self.route.resource, resource_name)
            && !resource.exists(name, daemon).await?
        {
            return Ok(StatusCode::NOT_FOUND);
        }
        Ok(match self.route.failure_status {
            FailureStatus::Conflict => StatusCode::CONFLICT,
            // The node exists, and its call failed.
            FailureStatus::Value => StatusCode::OK,
            FailureStatus::Unprocessable | FailureStatus::Run => StatusCode::UNPROCESSABLE_ENTITY,
        })
    }
}

/// Returns the error code of a status.
fn status_code_name(status: StatusCode) -> Option<&'static str> {
    match status {
        StatusCode::NOT_FOUND => Some("not_found"),
        StatusCode::CONFLICT => Some("conflict"),
        StatusCode::FORBIDDEN => Some("passphrase_wanted"),
        StatusCode::UNPROCESSABLE_ENTITY => Some("refused"),
        _ => None,
    }
}

impl ResourceKind {
    /// Returns whether a resource with this name exists.
    async fn exists(self, name: &str, daemon: &ReconnectingClient) -> Result<bool, AskError> {
        let name = name.to_owned();
        Ok(match self {
            Self::Run => daemon.call(GetWorkflowRun { run_id: name }).await?.success,
            Self::Terminal => {
                let sessions = daemon.call(ListTerminalSessions {}).await?.sessions;
                sessions.iter().any(|session| session.session_id == name || session.name.as_ref() == Some(&name))
            }
            Self::Recording => {
                let recordings = daemon.call(ListRecordings { limit: Some(1000), ..ListRecordings::default() });
                recordings.await?.recordings.iter().any(|recording| recording.recording_id == name)
            }
            Self::Host => daemon.call(ListHosts {}).await?.hosts.iter().any(|host| host.name == name),
            Self::Schedule => daemon.call(ListSchedules { name: Some(name) }).await?.success,
            Self::Workflow => {
                let workflow = daemon.call(DescribeWorkflow { name }).await?;
                // An invalid workflow exists as well.
                workflow.success || workflow.file.is_some()
            }
            Self::Node => daemon.call(DescribeNode { node_id: name }).await?.success,
            Self::Graph => {
                let graphs = daemon.call(ListGraphs::default()).await?.graphs;
                graphs.iter().any(|graph| graph.id == name)
            }
            Self::Tool => {
                let tools = daemon.call(ListTools::default()).await?.tools;
                tools.iter().any(|tool| tool.name == name)
            }
            Self::RemoteWorkflow => {
                let workflows = daemon.call(ListRemoteWorkflows::default()).await?.workflows;
                workflows.iter().any(|workflow| workflow.workflow_id == name)
            }
        })
    }
}

/// Sends an answer to a gate to the daemon.
///
/// The holder of the token is a program. The answer is treated as a person's only with the approver's passphrase or a
/// passkey's signature. The daemon checks this proof. If no passphrase is set, only a passkey proves a person.
async fn answer_gate(
    daemon: &ReconnectingClient,
    params: Value,
    peer: Option<Peer>,
    surface: &str,
) -> Result<(Value, Vec<String>), AskError> {
    let has_passphrase = params["passphrase"].as_str().is_some_and(|passphrase| !passphrase.is_empty());
    if params["passkey"].is_object() {
        return daemon.for_person(surface, peer).call_raw("ANSWER_GATE", params).await;
    }
    if has_passphrase && daemon.call(GetApprover {}).await?.is_set {
        return daemon.for_person(surface, peer).call_raw("ANSWER_GATE", params).await;
    }
    daemon.call_raw("ANSWER_GATE", params).await
}

/// Returns the idempotency key of the header, if there is one.
///
/// # Errors
/// If there is more than one key, or the key is invalid.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(key) = values.next() else { return Ok(None) };
    let key = key.to_str().ok().filter(|key| !key.is_empty() && key.len() <= MAX_KEY_BYTES);
    match (key, values.next()) {
        (Some(key), None) => Ok(Some(key.to_owned())),
        _ => Err(Refusal::invalid(format!(
            "Idempotency-Key must occur once, with at most {MAX_KEY_BYTES} visible ASCII characters"
        ))),
    }
}

/// Parses the body of a request; an empty body is an object without fields.
///
/// # Errors
/// If the body is not a JSON object.
pub(crate) fn parse_body(headers: &HeaderMap, body: &[u8]) -> Result<Map<String, Value>, Refusal> {
    if body.is_empty() {
        return Ok(Map::new());
    }
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json") {
        let error = "The body must be JSON, with the header Content-Type: application/json";
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", error));
    }
    match serde_json::from_slice(body) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(Refusal::invalid("The body must be a JSON object")),
        Err(error) => {
            Err(Refusal::new(StatusCode::BAD_REQUEST, "invalid_json", format!("The body is not JSON: {error}")))
        }
    }
}
