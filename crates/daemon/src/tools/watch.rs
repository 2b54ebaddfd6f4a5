//! Changes of the list of tools, for one who watches: told only when the list is another.

use std::sync::Arc;

use serde_json::Value;
use steplatch_access::Caller;
use steplatch_protocol::{Change, ListTools, ListToolsReply};
use steplatch_sessions::{Disconnected, EventSink};

use super::Tools;
use super::files::FolderWatch;
use crate::changes::Subscription;

/// Somebody who is told what changes.
#[derive(Debug)]
pub(crate) struct ToolSubscription {
    tools: Tools,
    caller: Arc<Caller>,
    watching: Subscription,
    files: Option<FolderWatch>,
    known: ListToolsReply,
}

impl Tools {
    /// Begins to watch for `caller`: what changes from here on is told.
    pub(crate) async fn watch(&self, caller: &Arc<Caller>) -> ToolSubscription {
        let watching = self.changes.watch();
        let (tools, caller) = (self.clone(), caller.clone());
        let mut watch = ToolSubscription { tools, caller, watching, files: None, known: ListToolsReply::default() };
        watch.look().await;
        watch
    }
}

impl ToolSubscription {
    /// Looks at the list, and returns whether it is another.
    async fn look(&mut self) -> bool {
        let wanted = self.tools.configuration.borrow().library_tools;
        let files = match wanted {
            true => {
                // Anew each time: folders come and go.
                let (tools, caller) = (self.tools.clone(), self.caller.clone());
                let watching = move || tools.files.watch(&tools.workflows.folders(&caller));
                tokio::task::spawn_blocking(watching).await.ok()
            }
            false => None,
        };
        self.files = files;
        let now = self.tools.list(&self.caller, ListTools::default()).await;
        let is_another = now != self.known;
        self.known = now;
        is_another
    }

    /// Tells changes until nobody listens.
    pub(crate) async fn forward(mut self, request_id: &Value, sink: &EventSink) -> Result<(), Disconnected> {
        loop {
            for change in self.watching.next().await {
                if change != Change::Tools || self.look().await {
                    sink.event(request_id, &change).await?;
                }
            }
        }
    }
}
