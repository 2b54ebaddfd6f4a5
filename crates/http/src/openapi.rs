//! The document that describes the API (OpenAPI 3.1, <https://spec.openapis.org/oas/v3.1.0>).
//!
//! The document is generated from the table of routes and the schemas of the contract's types. A committed copy makes
//! changes of the API visible in review.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use steplatch_protocol::{FireScheduleReply, RunEvent};

use crate::dialect;
use crate::health::Health;
use crate::hooks;
use crate::refusal::Refusal;
use crate::route::{BASE, FailureStatus, ROUTES, ResourceKind, Route};
use crate::stream::EventQuery;

/// Descriptions of the statuses other than 200.
const STATUSES: &[(&str, &str)] = &[
    ("400", "The request is invalid"),
    ("401", "The token is missing or wrong"),
    (
        "403",
        "The name in Host or the Origin is not allowed, the approver's passphrase is required, or the request is for the page only",
    ),
    ("404", "The resource of the address does not exist"),
    ("408", "The body did not arrive in time"),
    ("409", "The state of the resource does not allow the request"),
    ("413", "The body is too large"),
    ("415", "The body is not JSON"),
    ("422", "The request is valid, but cannot be executed"),
    ("500", "Internal error"),
    ("501", "The daemon is older than this server, and does not support the request"),
    ("503", "The daemon is unreachable, or the connection to it was lost"),
];

/// Returns the document.
#[must_use]
pub fn document() -> Value {
    let mut paths = Map::new();
    let mut used_verbs: Vec<&str> = Vec::new();
    for route in ROUTES {
        let mut id = route.verb.to_lowercase();
        if used_verbs.contains(&route.verb) {
            id = format!("{id}_{}", route.path.rsplit('/').next().unwrap_or_default());
        }
        used_verbs.push(route.verb);
        add_operation(&mut paths, &route.address(), &route.method.name().to_lowercase(), route_operation(route, &id));
    }
    for (path, method, operation) in other_operations() {
        add_operation(&mut paths, &path, method, operation);
    }
    let responses: Map<String, Value> = STATUSES
        .iter()
        .map(|(status, description)| {
            let content = json!({"application/json": {"schema": {"$ref": "#/components/schemas/Refusal"}}});
            ((*status).to_owned(), json!({"description": description, "content": content}))
        })
        .collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "steplatch",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Real terminals and procedures that run the same every time. Every response is JSON with 'success'; \
                            a refused request also has 'error', a sentence, and 'code'.",
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}, {"api_key": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "Authorization: Bearer TOKEN"},
                "api_key": {"type": "apiKey", "in": "header", "name": "Authorization", "description": "Authorization: Api-Key TOKEN"},
            },
            "responses": responses,
            "schemas": {"Refusal": schema::<Refusal>()},
        },
    })
}

fn add_operation(paths: &mut Map<String, Value>, path: &str, method: &str, operation: Value) {
    let item = paths.entry(path.to_owned()).or_insert_with(|| json!({}));
    item[method] = operation;
}

/// Returns the schema of a type of the contract.
fn schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    if let Some(schema) = schema.as_object_mut() {
        schema.shift_remove("title");
    }
    schema
}

fn route_operation(route: &Route, id: &str) -> Value {
    let verb = route.info();
    let mut parameters_schema = (verb.parameters)();
    let description = parameters_schema["description"].take();
    let mut parameters = Vec::new();
    for (name, field) in route.path_parameters() {
        let description = parameters_schema["properties"][field]["description"].clone();
        parameters.push(json!({
            "name": name, "in": "path", "required": true, "description": description,
            "schema": {"type": "string", "minLength": 1},
        }));
        remove_parameter(&mut parameters_schema, field);
    }
    let mut operation = json!({
        "operationId": id,
        "tags": [route.path.split('/').nth(1)],
        "summary": verb.title,
        "description": description,
    });
    let takes_key = parameters_schema["properties"]["idempotency_key"].is_object();
    if route.method.has_body() {
        if takes_key {
            parameters.push(idempotency_parameter());
        }
        if let Some(schema) = parameters_schema.as_object_mut() {
            schema.shift_remove("description");
        }
        let required = parameters_schema["required"].as_array().is_some_and(|names| !names.is_empty());
        operation["requestBody"] = json!({
            "required": required,
            "content": {"application/json": {"schema": parameters_schema}},
        });
    } else {
        let required = parameters_schema["required"].as_array().cloned().unwrap_or_default();
        let fields = parameters_schema["properties"].as_object().cloned().unwrap_or_default();
        for (name, mut schema) in fields {
            let description = schema.as_object_mut().and_then(|schema| schema.shift_remove("description"));
            parameters.push(json!({
                "name": name, "in": "query", "required": required.contains(&json!(name)), "description": description,
                "schema": schema,
            }));
        }
    }
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    let mut reply = (verb.reply)();
    allow_null(&mut reply);
    let mut statuses = vec!["400"];
    if route.resource.is_some() || route.failure_status == FailureStatus::Run {
        statuses.push("404");
    }
    if route.method.has_body() {
        statuses.extend(["408", "413", "415"]);
    }
    if route.failure_status == FailureStatus::Conflict || takes_key {
        statuses.push("409");
    }
    if matches!(route.resource, Some(ResourceKind::Run)) || route.failure_status != FailureStatus::Value {
        statuses.push("422");
    }
    operation["responses"] =
        responses(json!({"description": "The reply", "content": {"application/json": {"schema": reply}}}), &statuses);
    operation
}

/// Returns the responses of an operation: its reply, and the errors that every operation may return.
fn responses(reply: Value, statuses: &[&str]) -> Value {
    let mut responses = json!({"200": reply});
    let common = ["401", "403", "500", "501", "503"];
    for (status, _) in STATUSES.iter().filter(|(status, _)| common.contains(status) || statuses.contains(status)) {
        responses[*status] = json!({"$ref": format!("#/components/responses/{status}")});
    }
    responses
}

fn idempotency_parameter() -> Value {
    json!({
        "name": "Idempotency-Key", "in": "header", "required": false,
        "description": "Unique key of this request. A repeated request with the same key returns the run that was started",
        "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
    })
}

/// Removes a parameter from a schema, because the path has it.
fn remove_parameter(schema: &mut Value, field: &str) {
    if let Some(fields) = schema["properties"].as_object_mut() {
        fields.shift_remove(field);
    }
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| name != field);
    }
}

/// Allows null for optional fields. The schemas of replies omit that, because agents do not need it.
fn allow_null(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else { return };
    let required = object.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    if let Some(fields) = object.get_mut("properties").and_then(Value::as_object_mut) {
        for (name, field) in fields {
            allow_null(field);
            if !required.contains(&json!(name)) {
                add_null(field);
            }
        }
    }
    if let Some(items) = object.get_mut("items") {
        allow_null(items);
    }
    if let Some(values) = object.get_mut("additionalProperties") {
        allow_null(values);
        add_null(values);
    }
}

fn add_null(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else { return };
    if let Some(Value::Array(values)) = object.get_mut("enum") {
        values.push(Value::Null);
    }
    match object.get_mut("type") {
        Some(Value::Array(types)) if !types.contains(&json!("null")) => types.push("null".into()),
        Some(kind @ Value::String(_)) => *kind = json!([kind.take(), "null"]),
        _ => {}
    }
}

/// Returns the operations that are not verbs.
fn other_operations() -> Vec<(String, &'static str, Value)> {
    let json_reply = |description: &str, schema: Value| json!({"description": description, "content": {"application/json": {"schema": schema}}});
    let text = |description: &str, kind: &str| json!({"description": description, "content": {kind: {"schema": {"type": "string"}}}});
    let path_parameter = |name: &str, description: &str| json!({"name": name, "in": "path", "required": true, "description": description, "schema": {"type": "string", "minLength": 1}});
    let mut operations = Vec::new();
    let event = json!({
        "type": "object",
        "required": ["id", "event", "data"],
        "properties": {
            "id": {"type": "string", "description": "Number of the event"},
            "event": {"type": "string", "description": "Type of the event"},
            "data": {"type": "string", "contentMediaType": "application/json", "contentSchema": schema::<RunEvent>()},
        },
    });
    let mut events = json!({
        "tags": ["runs"],
        "summary": "Follow the events of a run",
        "description": "Server-sent events, starting at the first or a later one, until the end of the run: 'id' is the number of the \
                        event, 'event' its type, 'data' the event. With Last-Event-ID the stream continues after that event.",
        "parameters": [path_parameter("run_id", "The run")],
        "responses": responses(json!({"description": "The events", "content": {"text/event-stream": {"schema": event}}}), &["400", "404"]),
    });
    events["parameters"].as_array_mut().expect("the parameters are a list").extend(query_parameters::<EventQuery>());
    let last_event_id = json!({"name": "Last-Event-ID", "in": "header", "required": false, "description": "Number of the last received event",
        "schema": {"type": "integer", "minimum": 0}});
    events["parameters"].as_array_mut().expect("the parameters are a list").push(last_event_id);
    events["responses"]["204"] = json!({"description": "The run has ended, and the client has received all events"});
    for (path, id) in [
        (format!("{BASE}/runs/{{run_id}}/events"), "run_events"),
        ("/events/workflow/{run_id}".to_owned(), "workflow_events"),
    ] {
        events["operationId"] = id.into();
        operations.push((path, "get", events.clone()));
    }
    let health = json!({
        "operationId": "health", "tags": ["operating"], "summary": "Report the health of the server",
        "description": "Without the token, the reply has only the status of the server.",
        "security": [{}, {"bearer": []}, {"api_key": []}],
        "responses": {
            "200": json_reply("The health", schema::<Health>()),
            "403": {"$ref": "#/components/responses/403"},
            "503": json_reply("The daemon is unreachable", schema::<Health>()),
        },
    });
    operations.push(("/health".to_owned(), "get", health));
    let metrics = json!({
        "operationId": "metrics", "tags": ["operating"], "summary": "Report metrics for monitoring",
        "description": "In Prometheus' text format, version 0.0.4.",
        "responses": responses(text("The metrics", "text/plain"), &[]),
    });
    operations.push(("/metrics".to_owned(), "get", metrics));
    let document = json!({
        "operationId": "openapi", "tags": ["operating"], "summary": "This document", "security": [{}],
        "responses": {
            "200": json_reply("This document", json!({"type": "object"})),
            "403": {"$ref": "#/components/responses/403"},
        },
    });
    operations.push(("/api/openapi.json".to_owned(), "get", document));
    let key_parameter = json!({"name": "Idempotency-Key", "in": "header", "required": true,
        "description": "Name of the request; webhook-id and X-GitHub-Delivery have the same meaning",
        "schema": {"type": "string", "minLength": 1, "maxLength": 256}});
    let hook = json!({
        "operationId": "fire_hook", "tags": ["runs"], "summary": "Start a run of a schedule with its own token",
        "description": "The fields of the body are variables of the run. A repeated request starts no second run.",
        "security": [{"bearer": []}],
        "parameters": [path_parameter("name", "The schedule"), key_parameter],
        "requestBody": {"required": false, "content": {"application/json": {"schema": {"type": "object"}}}},
        "responses": responses(json_reply("The run", schema::<FireScheduleReply>()), &["400", "408", "409", "413", "415", "422"]),
    });
    operations.push((hooks::ROUTE.to_owned(), "post", hook));
    let dialect = |path: &str| format!("{}{path}", dialect::BASE);
    let operation = |id: &str, summary: &str, parameters: Vec<Value>, reply: Value, statuses: &[&str]| {
        let parameters: Vec<Value> = parameters.into_iter().collect();
        json!({"operationId": id, "tags": ["service"], "summary": summary, "parameters": parameters,
            "responses": responses(reply, statuses)})
    };
    let list_operation = operation(
        "service_list",
        "List the workflows that other instances can run",
        query_parameters::<dialect::PageQuery>(),
        json_reply("All workflows, or one page", schema::<dialect::List>()),
        &["400", "422"],
    );
    operations.push((dialect("/mcp"), "get", list_operation));
    let mut start_operation = operation(
        "service_start",
        "Start a workflow",
        vec![path_parameter("id", "The workflow"), idempotency_parameter()],
        json_reply("The run", schema::<dialect::StartReply>()),
        &["400", "404", "408", "413", "415", "422"],
    );
    start_operation["requestBody"] =
        json!({"required": false, "content": {"application/json": {"schema": schema::<dialect::Start>()}}});
    operations.push((dialect("/{id}/start"), "post", start_operation));
    let run_parameters = || vec![path_parameter("id", "The workflow"), path_parameter("run_id", "The run")];
    let status_reply = json_reply("The status", schema::<dialect::Status>());
    operations.push((
        dialect("/{id}/runs/{run_id}/status"),
        "get",
        operation("service_status", "Show the status of a run", run_parameters(), status_reply, &["400", "404"]),
    ));
    let cancel_reply = json_reply("The outcome", schema::<dialect::CancelReply>());
    let cancel_operation =
        operation("service_cancel", "Cancel a run", run_parameters(), cancel_reply, &["400", "404", "409", "413"]);
    operations.push((dialect("/{id}/runs/{run_id}/cancel"), "post", cancel_operation));
    operations
}

/// Returns the fields of a type of the contract as query parameters.
fn query_parameters<T: JsonSchema>() -> Vec<Value> {
    let schema = schema::<T>();
    let fields = schema["properties"].as_object().cloned().unwrap_or_default();
    let parameters = fields.into_iter().map(|(name, mut schema)| {
        let description = schema.as_object_mut().and_then(|schema| schema.shift_remove("description"));
        // A query cannot express null; the parameter is absent instead.
        if let Some(Value::Array(types)) = schema.get_mut("type") {
            types.retain(|kind| kind != "null");
            if let [only] = types.as_slice() {
                schema["type"] = only.clone();
            }
        }
        if let Some(schema) = schema.as_object_mut() {
            schema.retain(|keyword, value| keyword != "format" && !(keyword == "default" && value.is_null()));
        }
        json!({"name": name, "in": "query", "required": false, "description": description, "schema": schema})
    });
    parameters.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn committed_document_is_current() {
        let text = serde_json::to_string_pretty(&document()).unwrap() + "\n";
        expect_test::expect_file!["../openapi.json"].assert_eq(&text);
    }

    #[test]
    fn every_route_is_an_operation_with_a_unique_id() {
        let document = document();
        let mut ids = BTreeSet::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                assert!(ids.insert(operation["operationId"].as_str().unwrap()), "{method} {path}");
                for parameter in operation["parameters"].as_array().into_iter().flatten() {
                    assert!(parameter["description"].is_string(), "{method} {path}: {parameter}");
                }
            }
        }
        for route in ROUTES {
            assert!(
                document["paths"][route.address()][route.method.name().to_lowercase()].is_object(),
                "{}",
                route.path
            );
        }
        assert!(!document.to_string().contains("$defs") && !document.to_string().contains("$schema"));
    }
}
