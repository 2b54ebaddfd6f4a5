//! Changes of the list of tools, for one subscriber. A change is reported only if the list differs from the last one.

use std::sync::Arc;

use serde_json::Value;
use steplatch_access::Caller;
use steplatch_protocol::{Change, ListTools, ListToolsReply};
use steplatch_sessions::{Disconnected, EventSink};

use super::Tools;
use super::files::DirectoryWatch;
use crate::changes::Subscription;

/// A subscriber to changes of the tools.
#[derive(Debug)]
pub(crate) struct ToolSubscription {
    tools: Tools,
    caller: Arc<Caller>,
    changes: Subscription,
    files: Option<DirectoryWatch>,
    last_list: ListToolsReply,
}

impl Tools {
    /// Subscribes `caller` to later changes of the tools.
    pub(crate) async fn watch(&self, caller: &Arc<Caller>) -> ToolSubscription {
        let changes = self.changes.watch();
        let (tools, caller) = (self.clone(), caller.clone());
        let mut watch = ToolSubscription { tools, caller, changes, files: None, last_list: ListToolsReply::default() };
        watch.refresh().await;
        watch
    }
}

impl ToolSubscription {
    /// Fetches the list and returns true if it differs.
    async fn refresh(&mut self) -> bool {
        let has_library_tools = self.tools.configuration.borrow().library_tools;
        let files = match has_library_tools {
            true => {
                // Resolve the directories each time, since they appear and disappear.
                let (tools, caller) = (self.tools.clone(), self.caller.clone());
                let watching = move || tools.files.watch(&tools.workflows.directories(&caller));
                tokio::task::spawn_blocking(watching).await.ok()
            }
            false => None,
        };
        self.files = files;
        let current = self.tools.list(&self.caller, ListTools::default()).await;
        let has_changed = current != self.last_list;
        self.last_list = current;
        has_changed
    }

    /// Sends changes until the connection closes.
    pub(crate) async fn forward(mut self, request_id: &Value, sink: &EventSink) -> Result<(), Disconnected> {
        loop {
            for change in self.changes.next().await {
                if change != Change::Tools || self.refresh().await {
                    sink.event(request_id, &change).await?;
                }
            }
        }
    }
}
