//! The look-only app: a page in the client that shows a terminal or a run (MCP Apps,
//! <https://modelcontextprotocol.io/extensions/apps/overview>, `io.modelcontextprotocol/ui` of 2026-01-26).
//!
//! The app answers nothing: a server cannot tell a call of an app from a call of its model
//! (<https://github.com/modelcontextprotocol/ext-apps/issues/746>). Its page is one constant text, and everything that
//! it shows comes as data. It reads over a connection of its own, so that what it shows does not count as seen by the
//! model.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use rmcp::model::{CallToolResult, JsonObject, MetaObject, Resource, ResourceContents, Tool, ToolAnnotations};
use serde_json::{Value, json};
use steplatch_protocol::{
    AskError, GetRun, GetScreenContent, ListTerminalSessions, ReconnectingClient, RunDetail, ScreenFormat,
};

use super::resources;
use crate::offer::Updates;

/// Address of the app.
const URI: &str = "ui://steplatch/view";

/// Media type of an app, which a client that shows apps declares.
pub(crate) const APP_MIME_TYPE: &str = "text/html;profile=mcp-app";

/// Name of the extension.
pub(crate) const APP_EXTENSION: &str = "io.modelcontextprotocol/ui";

/// The tool with which the app reads.
pub(super) const LOOK: &str = "look";

/// Tools whose results the app shows.
const SHOWN_TOOLS: [&str; 7] =
    ["await_output", "get_run", "get_screen_content", "open_terminal", "run_command", "run_workflow", "send_input"];

/// Maximum wait of the app for a change.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// Pause after a change, so that much output is one change.
const CHANGE_PAUSE: Duration = Duration::from_millis(150);

/// The page, with its styles and its script.
static PAGE: LazyLock<String> = LazyLock::new(|| {
    include_str!("../../app/view.html")
        .replace("/* view.css */", include_str!("../../app/view.css"))
        .replace("/* view.js */", include_str!("../../app/view.js"))
});

fn meta(ui: Value) -> MetaObject {
    let mut meta = MetaObject::default();
    meta.0.insert("ui".to_owned(), ui);
    meta
}

/// Marks the tools whose results the app shows, reserves all of them for the model, and adds the tool of the app, which no
/// model is offered.
pub(super) fn add_to(tools: &mut Vec<Tool>) {
    for tool in tools.iter_mut() {
        let is_shown = SHOWN_TOOLS.contains(&&*tool.name) || tool.name.starts_with("workflow_");
        // The host refuses calls of the app to these tools.
        let mut ui = json!({"visibility": ["model"]});
        if is_shown {
            ui["resourceUri"] = URI.into();
        }
        tool.meta = Some(meta(ui));
    }
    tools.push(look_tool());
}

/// Returns the tool of the app.
pub(super) fn look_tool() -> Tool {
    let Value::Object(schema) = json!({
        "type": "object",
        "properties": {
            "session_id": {"type": "string"},
            "run_id": {"type": "string"},
            "seen": {"type": "string", "description": "Version that the app shows: wait for another one"}
        }
    }) else {
        unreachable!("the schema is an object")
    };
    let annotations = ToolAnnotations::new().read_only(true).destructive(false).idempotent(true).open_world(false);
    let mut tool = Tool::new(LOOK, "Show a terminal or a run in the app.", Arc::new(schema))
        .with_title("Show in the app")
        .with_annotations(annotations);
    tool.meta = Some(meta(json!({"resourceUri": URI, "visibility": ["app"]})));
    tool
}

/// Returns the app as a resource.
pub(super) fn resource() -> Resource {
    Resource::new(URI, "view")
        .with_title("Terminal or run")
        .with_description("Shows the live screen of a terminal, or the steps of a run; answers nothing")
        .with_mime_type(APP_MIME_TYPE)
}

/// Returns the page of the app, if `uri` is its address.
pub(super) fn read(uri: &str) -> Option<ResourceContents> {
    // Nothing is loaded from elsewhere.
    let ui = json!({"csp": {"connectDomains": [], "resourceDomains": []}, "prefersBorder": false});
    (uri == URI).then(|| ResourceContents::text(PAGE.as_str(), URI).with_mime_type(APP_MIME_TYPE).with_meta(meta(ui)))
}

/// Returns what the app shows, at once or when it differs from the version that the app has seen.
pub(super) async fn look(arguments: &JsonObject, daemon: &ReconnectingClient) -> Result<CallToolResult, AskError> {
    let text = |name: &str| arguments.get(name).and_then(Value::as_str);
    let (address, shown) = match (text("session_id"), text("run_id")) {
        (Some(session), None) => (format!("terminal://{session}/screen"), Shown::Terminal(session.to_owned())),
        (None, Some(run)) => (format!("run://{run}"), Shown::Run(run.to_owned())),
        _ => {
            let error = json!({"success": false, "error": "look needs session_id or run_id"});
            return Ok(CallToolResult::structured_error(error));
        }
    };
    let mut state = shown.read(daemon).await?;
    if let (Some(seen), Some(mut updates)) = (text("seen"), resources::follow(&address, daemon).await?) {
        // A change between the first read and the subscription.
        state = shown.read(daemon).await?;
        if version(&state) == seen {
            wait_for_change(&mut updates).await;
            state = shown.read(daemon).await?;
        }
    }
    state["version"] = version(&state).into();
    Ok(CallToolResult::structured(state))
}

async fn wait_for_change(updates: &mut Updates) {
    // The end of the subscription is a change, and so is the end of the wait: the app looks again.
    if let Ok(Some(())) = tokio::time::timeout(MAX_WAIT, updates.recv()).await {
        tokio::time::sleep(CHANGE_PAUSE).await;
    }
}

/// What the app shows.
enum Shown {
    Terminal(String),
    Run(String),
}

impl Shown {
    async fn read(&self, daemon: &ReconnectingClient) -> Result<Value, AskError> {
        let sessions = daemon.call(ListTerminalSessions {}).await?.sessions;
        // Terminals have the address of the page, if it is served.
        let page = sessions.iter().find_map(|session| session.web_url.as_deref()?.split('#').next().map(str::to_owned));
        let link = |place: String| page.as_ref().map(|page| format!("{page}#/{place}"));
        match self {
            Self::Terminal(id) => {
                let request = GetScreenContent {
                    session_id: id.clone(),
                    format: ScreenFormat::Ansi,
                    ..GetScreenContent::default()
                };
                let reply = daemon.call(request).await?;
                let command =
                    sessions.into_iter().find(|session| session.session_id == *id).map(|session| session.command);
                Ok(json!({
                    "success": reply.success,
                    "session_id": id,
                    "screen": reply.screen_content,
                    "title": reply.name.or(reply.title),
                    "command": command,
                    "process_running": reply.process_running,
                    "exit_code": reply.exit_code,
                    "busy": reply.busy,
                    "awaiting_input": reply.awaiting_input,
                    "password": reply.password,
                    "error": reply.error,
                    "url": link(format!("terminals/{id}")),
                }))
            }
            Self::Run(id) => {
                let request = GetRun { run_id: id.clone(), detail: Some(RunDetail::Brief), ..GetRun::default() };
                let reply = serde_json::to_value(daemon.call(request).await?).expect("a reply contains only JSON");
                let mut state = json!({"run_id": id, "url": link(format!("runs/{id}"))});
                for name in ["success", "status", "workflow_name", "execution_log", "pending_gate", "result", "error"] {
                    state[name] = reply[name].clone();
                }
                Ok(state)
            }
        }
    }
}

/// Returns a text that differs for different states.
fn version(state: &Value) -> String {
    let mut hasher = DefaultHasher::new();
    state.to_string().hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_is_one_constant_text_that_loads_nothing() {
        let Some(ResourceContents::TextResourceContents { text, mime_type, meta, .. }) = read(URI) else {
            panic!("the app is a text")
        };
        assert_eq!(mime_type.as_deref(), Some(APP_MIME_TYPE));
        assert_eq!(meta.unwrap().0["ui"]["csp"]["connectDomains"], json!([]));
        assert!(text.len() < 30_000, "{} bytes", text.len());
        for forbidden in ["http://", "https://", "innerHTML", "eval(", "fetch(", "import(", "<img", "decide", "view.js"]
        {
            assert!(!text.contains(forbidden), "{forbidden}");
        }
        assert!(read("ui://steplatch/other").is_none());
    }

    #[test]
    fn tool_of_the_app_is_not_for_models() {
        let mut tools = vec![Tool::new("decide", "", Arc::default()), Tool::new("get_run", "", Arc::default())];
        add_to(&mut tools);
        assert_eq!(tools[0].meta.as_ref().unwrap().0["ui"], json!({"visibility": ["model"]}), "an answer is not shown");
        assert_eq!(tools[1].meta.as_ref().unwrap().0["ui"]["resourceUri"], URI);
        assert_eq!(tools[2].meta.as_ref().unwrap().0["ui"]["visibility"], json!(["app"]));
    }
}
