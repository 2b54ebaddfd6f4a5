//! All tools by name: the fixed tools of the contract, and the changing workflows offered as tools.
//!
//! The daemon owns the list of workflows, so the list is the same for every connection. Listing fetches the list from
//! the daemon. A cache keeps the last list for lookups by name, and while no daemon responds. The daemon sends an event
//! when the list changes. Watching does not start a daemon: after the loss of the connection the registry tries to
//! reconnect for some time, then waits for the next request.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::Value;
use steplatch_protocol::{
    AskError, Change, ListTools, ReconnectingClient, ToolInfo, ToolListSize, ToolScope, VerbInfo, Watch,
};
use tokio::sync::{Notify, broadcast};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::client_traits::ClientTraits;
use super::{app, more_tools, tools};
use crate::offer::ListChange;

/// Lifetimes of a cached list in milliseconds: without workflows, and with some.
const TTL_MS: (u64, u64) = (60_000, 5_000);

/// Maximum number of listed workflows: a longer list is useless to a model.
const MAX_WORKFLOWS: usize = 500;

/// Maximum number of changes that a slow listener can lag behind.
const CHANGE_CAPACITY: usize = 16;

/// Pauses before attempts to reconnect to the daemon.
const RETRY_PAUSES_MS: [u64; 10] = [10, 50, 100, 250, 500, 1000, 2000, 4000, 8000, 16_000];

/// Sentence about the result in the description of a workflow tool. The fields are the same as in `run_workflow`.
const RESULT_SENTENCE: &str = " Returns as run_workflow does.";

/// All tools of the contract.
#[derive(Debug)]
pub(super) struct Registry {
    shared: Arc<Shared>,
    /// Stops the watcher on drop.
    _watcher_guard: DropGuard,
}

#[derive(Debug)]
struct Shared {
    daemon: ReconnectingClient,
    cached: RwLock<Arc<CachedTools>>,
    changes: broadcast::Sender<ListChange>,
    /// Notified by each request, since a request implies that a daemon exists or starts.
    requested: Notify,
    /// Stops the watcher.
    shutdown: CancellationToken,
    is_watching: Mutex<bool>,
    /// Held during a fetch of the list, so that only one fetch runs at a time.
    fetch_lock: tokio::sync::Mutex<()>,
}

/// The workflow tools, as of the last fetch.
#[derive(Debug, Default, PartialEq)]
struct CachedTools {
    workflows: BTreeMap<String, Workflow>,
    /// Size of the list by the settings.
    list_size: ToolListSize,
    /// Entries of the user's list of commands that only read.
    read_commands: Vec<String>,
}

#[derive(Debug, PartialEq)]
struct Workflow {
    tool: Tool,
    sync: bool,
}

/// The target of a tool's name.
pub(super) enum FoundTool {
    Verb(&'static VerbInfo),
    /// A workflow. `sync`: a call waits for the end of its run.
    Workflow {
        sync: bool,
    },
}

impl Registry {
    pub(super) fn new(daemon: ReconnectingClient) -> Self {
        let shutdown = CancellationToken::new();
        let shared = Shared {
            daemon,
            cached: RwLock::default(),
            changes: broadcast::Sender::new(CHANGE_CAPACITY),
            requested: Notify::new(),
            shutdown: shutdown.clone(),
            is_watching: Mutex::default(),
            fetch_lock: tokio::sync::Mutex::default(),
        };
        Self { shared: Arc::new(shared), _watcher_guard: shutdown.drop_guard() }
    }

    /// Returns the tools for a client, sorted by name, and the lifetime of the list in milliseconds.
    pub(super) async fn list(&self, client: ClientTraits) -> (Vec<Tool>, u64) {
        self.shared.watch();
        // Fetch the list: the event of a recent change, perhaps made over this connection, may not have arrived yet.
        self.shared.refresh().await;
        let cached = self.shared.cached();
        let is_core = match cached.list_size {
            ToolListSize::Auto => !client.loads_tools_on_demand,
            ToolListSize::Core => true,
            ToolListSize::Full => false,
        };
        let mut tools: Vec<Tool> = match is_core {
            true => tools::core().cloned().chain([more_tools::tool()]).collect(),
            false => tools::all().cloned().collect(),
        };
        tools.extend(tools::read_command(&cached.read_commands));
        tools.extend(cached.workflows.values().map(|workflow| workflow.tool.clone()));
        if client.reads_text {
            tools.iter_mut().for_each(|tool| tool.output_schema = None);
        }
        if client.shows_apps {
            app::add_to(&mut tools);
        }
        tools.sort_by(|left, right| left.name.cmp(&right.name));
        (tools, if cached.workflows.is_empty() { TTL_MS.0 } else { TTL_MS.1 })
    }

    /// Returns the tool `name` from the cached list.
    pub(super) fn find_cached_tool(&self, name: &str) -> Option<Tool> {
        match tools::find_tool(name) {
            _ if name == more_tools::MORE_TOOLS => Some(more_tools::tool()),
            _ if name == app::LOOK => Some(app::look_tool()),
            Some(tool) => Some(tool.clone()),
            None => self.shared.cached().workflows.get(name).map(|workflow| workflow.tool.clone()),
        }
    }

    /// Returns the target of the tool `name`. An unknown name causes a fetch of the list.
    pub(super) async fn find(&self, name: &str) -> Option<FoundTool> {
        if let Some(verb) = tools::verb(name) {
            return Some(FoundTool::Verb(verb));
        }
        self.shared.watch();
        let find_workflow =
            || self.shared.cached().workflows.get(name).map(|workflow| FoundTool::Workflow { sync: workflow.sync });
        match find_workflow() {
            Some(found) => Some(found),
            None => {
                self.shared.refresh().await;
                find_workflow()
            }
        }
    }

    /// Returns a receiver of later changes.
    pub(super) fn changes(&self) -> broadcast::Receiver<ListChange> {
        let changes = self.shared.changes.subscribe();
        self.shared.watch();
        changes
    }
}

impl Shared {
    fn cached(&self) -> Arc<CachedTools> {
        self.cached.read().clone()
    }

    /// Starts the watcher unless it is running. Wakes a watcher that has stopped trying to reconnect.
    fn watch(self: &Arc<Self>) {
        let mut is_started = self.is_watching.lock();
        if std::mem::replace(&mut *is_started, true) {
            self.requested.notify_waiters();
            return;
        }
        let (shared, shutdown) = (self.clone(), self.shutdown.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = watch_changes(shared) => {}
            }
        });
    }

    /// Fetches the list of workflow tools. The cached list is kept if no daemon responds.
    async fn refresh(&self) {
        let _fetch_guard = self.fetch_lock.lock().await;
        let reply = self.daemon.call(ListTools { scope: Some(ToolScope::Offered) }).await;
        let reply = match reply {
            Ok(reply) if reply.success => reply,
            Ok(reply) => return tracing::debug!(error = reply.error, "failed to list the tools"),
            Err(AskError::Call(error)) => return tracing::debug!(%error, "failed to list the tools"),
            Err(error) => return tracing::warn!(%error, "failed to list the tools"),
        };
        let workflows = reply.tools.into_iter().filter_map(to_tool).take(MAX_WORKFLOWS).collect();
        let current = CachedTools { workflows, list_size: reply.list_size, read_commands: reply.read_commands };
        let mut cached = self.cached.write();
        let has_changed = **cached != current;
        *cached = Arc::new(current);
        drop(cached);
        if has_changed {
            // Ignore the error, because there are no listeners.
            let _ = self.changes.send(ListChange::Tools);
        }
    }
}

/// Fetches the list whenever the daemon reports a change, and after each reconnection.
async fn watch_changes(shared: Arc<Shared>) {
    let mut failures = 0;
    loop {
        if let Ok(client) = shared.daemon.running().await
            && let Ok((reply, mut events)) = client.subscribe(Watch {}).await
            && reply.success
        {
            failures = 0;
            shared.refresh().await;
            while let Some(event) = events.next().await {
                if matches!(serde_json::from_value(event), Ok(Change::Tools)) {
                    shared.refresh().await;
                }
            }
        }
        match RETRY_PAUSES_MS.get(failures) {
            Some(pause) => {
                failures += 1;
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_millis(*pause)) => {}
                    () = shared.requested.notified() => {}
                }
            }
            None => shared.requested.notified().await,
        }
    }
}

/// Returns a workflow as a tool, with the author's description. The workflow's effects are unknown, so the annotations
/// state the worst case.
fn to_tool(workflow: ToolInfo) -> Option<(String, Workflow)> {
    let ToolInfo { name, title, description, input_schema, sync, .. } = workflow;
    let Value::Object(input_schema) = input_schema else { return None };
    // A workflow cannot take the name of a tool of the contract.
    if tools::find_tool(&name).is_some() || name == more_tools::MORE_TOOLS {
        return None;
    }
    let description = description.trim_end();
    let full_stop = if description.ends_with(['.', '!', '?', ':']) { "" } else { "." };
    let description = format!("{description}{full_stop}{RESULT_SENTENCE}");
    let annotations = ToolAnnotations::new().read_only(false).destructive(true).idempotent(false).open_world(true);
    let tool = Tool::new(name.clone(), description, Arc::new(input_schema))
        .with_title(title)
        .with_raw_output_schema(Arc::new(object_schema()))
        .with_annotations(annotations);
    Some((name, Workflow { tool, sync }))
}

fn object_schema() -> JsonObject {
    JsonObject::from_iter([("type".to_owned(), "object".into())])
}
