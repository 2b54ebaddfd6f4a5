//! Terminals, runs and workflows as resources.
//!
//! | resource | content |
//! |---|---|
//! | `terminal://ID/screen` | the screen as drawn |
//! | `terminal://ID/history`, `…?offset=N` | all output, starting at a position |
//! | `run://ID` | a run, as `get_run` returns it |
//! | `run://ID/events`, `…?from_seq=N` | the events of a run, one JSON line each |
//! | `workflow://NAME` | a saved workflow, as `describe_workflow` returns it |
//!
//! Long content is truncated; its `_meta` has the query that reads the rest.

mod follow;
mod uri;

use rmcp::model::{ArgumentInfo, MetaObject, Reference, Resource, ResourceContents, ResourceTemplate};
use serde_json::{Value, json};
use steplatch_protocol::{
    AskError, ContentMode, DescribeWorkflow, GetRun, GetScreenContent, GetWorkflowRun, ListTerminalSessions,
    ListWorkflowRuns, ListWorkflows, ReconnectingClient, RunEvent,
};

pub(super) use follow::follow;
use uri::{Address, Part};

use crate::offer::CachedList;

/// Maximum length of a resource's text, in characters: about as much as a model reads at once.
const MAX_TEXT_CHARS: u32 = 40_000;

/// Maximum number of events of one read.
const MAX_EVENTS: usize = 500;

/// Maximum numbers of listed runs and workflows. All of them are readable, and completion finds them.
const MAX_RUNS: u32 = 20;
const MAX_WORKFLOWS: u32 = 100;

/// Maximum number of runs, and of workflows, that completion searches.
const MAX_SEARCHED: u32 = 1000;

/// Key in `_meta` for details of a resource's content.
const META_KEY: &str = "steplatch/about";

const TEXT: &str = "text/plain";
const JSON: &str = "application/json";
const JSON_LINES: &str = "application/jsonl";

/// Returns the URI templates of the resources.
pub(super) fn templates() -> CachedList<ResourceTemplate> {
    let template = |uri: &str, name: &str, title: &str, description: &str, kind: &str| {
        ResourceTemplate::new(uri, name).with_title(title).with_description(description).with_mime_type(kind)
    };
    let items = vec![
        template(
            "terminal://{session_id}/screen",
            "terminal_screen",
            "Screen of a terminal",
            "The screen as drawn",
            TEXT,
        ),
        template(
            "terminal://{session_id}/history{?offset}",
            "terminal_history",
            "Output of a terminal",
            "All output, without escapes. Long output is reduced to its head and tail; next_offset in _meta is the offset \
             at which to continue.",
            TEXT,
        ),
        template("run://{run_id}", "run", "Run", "A run of a workflow: its progress, or its result", JSON),
        template(
            "run://{run_id}/events{?from_seq}",
            "run_events",
            "Events of a run",
            "The events of a run so far. If there are more, next_seq in _meta is the from_seq at which to continue.",
            JSON_LINES,
        ),
        template("workflow://{name}", "workflow", "Saved workflow", "A workflow and its arguments", JSON),
    ];
    CachedList { items, ttl_ms: 3_600_000 }
}

/// Returns the available resources: all terminals, the newest runs, and the workflows.
///
/// # Errors
/// If the daemon is unreachable.
pub(super) async fn all(daemon: &ReconnectingClient) -> Result<CachedList<Resource>, AskError> {
    let resource = |address: Address, name: String, description: String, kind: &str| {
        Resource::new(address.to_string(), name).with_description(description).with_mime_type(kind)
    };
    let mut items = Vec::new();
    for session in daemon.call(ListTerminalSessions {}).await?.sessions {
        let (id, command) = (session.session_id, session.command);
        let display_name = session.name.unwrap_or_else(|| id.clone());
        let screen = Address::terminal(&id, Part::Screen);
        items.push(resource(
            screen,
            format!("screen of {display_name}"),
            format!("{command}, {}", session.state),
            TEXT,
        ));
        let history = Address::terminal(&id, Part::History { offset: None });
        items.push(resource(history, format!("output of {display_name}"), format!("All output of {command}"), TEXT));
    }
    let runs = ListWorkflowRuns { limit: Some(MAX_RUNS), ..ListWorkflowRuns::default() };
    for run in daemon.call(runs).await?.runs {
        let description = format!("{}, {}, began {}", run.workflow_id, run.state, run.started_at);
        items.push(resource(Address::Run(run.run_id.clone()), run.run_id.clone(), description, JSON));
        let events = Address::Events { run: run.run_id.clone(), from_seq: None };
        let description = format!("Events of a run of {}", run.workflow_id);
        items.push(resource(events, format!("events of {}", run.run_id), description, JSON_LINES));
    }
    let workflows = ListWorkflows { limit: MAX_WORKFLOWS, ..ListWorkflows::default() };
    for workflow in daemon.call(workflows).await?.workflows {
        let description = workflow.description.unwrap_or_else(|| format!("A {}", workflow.kind));
        items.push(resource(Address::Workflow(workflow.name.clone()), workflow.name, description, JSON));
    }
    Ok(CachedList { items, ttl_ms: 0 })
}

/// Reads a resource; `None` if no resource has that URI.
///
/// # Errors
/// If the daemon is unreachable.
pub(super) async fn read(uri: &str, daemon: &ReconnectingClient) -> Result<Option<Vec<ResourceContents>>, AskError> {
    let Some(address) = Address::parse(uri) else { return Ok(None) };
    let content = match address {
        Address::Terminal { id, part } => read_terminal(uri, id, part, daemon).await?,
        Address::Run(run_id) => read_run(uri, run_id, daemon).await?,
        Address::Events { run, from_seq } => read_events(uri, run, from_seq.unwrap_or(1), daemon).await?,
        Address::Workflow(name) => {
            let description = daemon.call(DescribeWorkflow { name }).await?;
            // A workflow with problems is a resource as well.
            description.name.is_some().then(|| json_content(uri, &description))
        }
    };
    Ok(content.map(|content| vec![content]))
}

async fn read_terminal(
    uri: &str,
    session_id: String,
    part: Part,
    daemon: &ReconnectingClient,
) -> Result<Option<ResourceContents>, AskError> {
    let mut verb = GetScreenContent { session_id, limit: Some(MAX_TEXT_CHARS), ..GetScreenContent::default() };
    if let Part::History { offset } = part {
        (verb.content_mode, verb.offset) = (ContentMode::History, offset);
    }
    let mut reply = daemon.call(verb).await?;
    let Some(text) = reply.screen_content.take().filter(|_| reply.success) else { return Ok(None) };
    let details = serde_json::to_value(reply).expect("a reply contains only JSON");
    Ok(Some(ResourceContents::text(text, uri).with_mime_type(TEXT).with_meta(meta(details))))
}

async fn read_run(
    uri: &str,
    run_id: String,
    daemon: &ReconnectingClient,
) -> Result<Option<ResourceContents>, AskError> {
    // Check first that the run exists: the reply about a failed run has success: false as well.
    if daemon.call(GetWorkflowRun { run_id: run_id.clone() }).await?.run.is_none() {
        return Ok(None);
    }
    let reply = daemon.call(GetRun { run_id, wait_seconds: None, ..GetRun::default() }).await?;
    Ok(Some(json_content(uri, &reply)))
}

async fn read_events(
    uri: &str,
    run_id: String,
    from_seq: u64,
    daemon: &ReconnectingClient,
) -> Result<Option<ResourceContents>, AskError> {
    if daemon.call(GetWorkflowRun { run_id: run_id.clone() }).await?.run.is_none() {
        return Ok(None);
    }
    let mut follower = daemon.follow(&run_id, from_seq);
    let (mut text, mut event_count) = (String::new(), 0);
    let newest = follower.newest_seq().await.unwrap_or(0);
    let mut next = from_seq;
    while next <= newest {
        let Ok(Some(event)) = follower.next().await else { break };
        // Events after the start of this read belong to the next read.
        if event.seq > newest {
            break;
        }
        let line = event_line(&event);
        if event_count == MAX_EVENTS || (event_count > 0 && text.len() + line.len() > MAX_TEXT_CHARS as usize) {
            break;
        }
        text.push_str(&line);
        (event_count, next) = (event_count + 1, event.seq + 1);
    }
    let details = match next <= newest {
        true => json!({"newest_seq": newest, "next_seq": next}),
        false => json!({"newest_seq": newest}),
    };
    Ok(Some(ResourceContents::text(text, uri).with_mime_type(JSON_LINES).with_meta(meta(details))))
}

fn event_line(event: &RunEvent) -> String {
    let line = serde_json::to_string(event).expect("an event contains only JSON");
    format!("{line}\n")
}

fn json_content(uri: &str, reply: &impl serde::Serialize) -> ResourceContents {
    let text = serde_json::to_string_pretty(reply).expect("a reply contains only JSON");
    ResourceContents::text(text, uri).with_mime_type(JSON)
}

fn meta(details: Value) -> MetaObject {
    let mut meta = MetaObject::default();
    meta.0.insert(META_KEY.to_owned(), details);
    meta
}

/// Returns the completions of a URI template variable, or of a run in a prompt: first the values that begin with the
/// typed text, then the values that contain it.
///
/// # Errors
/// If the daemon is unreachable.
pub(super) async fn complete(
    reference: &Reference,
    argument: &ArgumentInfo,
    daemon: &ReconnectingClient,
) -> Result<Vec<String>, AskError> {
    let is_known = match reference {
        Reference::Resource(template) => {
            templates().items.iter().any(|candidate| candidate.uri_template == template.uri)
        }
        Reference::Prompt(prompt) => super::prompts::has_argument(&prompt.name, &argument.name),
        _ => false,
    };
    if !is_known {
        return Ok(Vec::new());
    }
    let mut values: Vec<String> = match argument.name.as_str() {
        "session_id" => {
            let sessions = daemon.call(ListTerminalSessions {}).await?.sessions;
            sessions.into_iter().rev().map(|session| session.session_id).collect()
        }
        "run_id" => {
            let runs = ListWorkflowRuns { limit: Some(MAX_SEARCHED), ..ListWorkflowRuns::default() };
            daemon.call(runs).await?.runs.into_iter().map(|run| run.run_id).collect()
        }
        "name" => {
            let workflows = ListWorkflows { limit: MAX_SEARCHED, ..ListWorkflows::default() };
            daemon.call(workflows).await?.workflows.into_iter().map(|workflow| workflow.name).collect()
        }
        _ => Vec::new(),
    };
    let typed = argument.value.as_str();
    values.retain(|value| value.contains(typed));
    values.sort_by_key(|value| !value.starts_with(typed));
    Ok(values)
}
