//! The registry of workflows that are tools.

use steplatch_protocol::{ListTools, ListToolsReply};

/// All workflows that are tools.
#[derive(Debug, Default)]
pub(crate) struct Tools {}

impl Tools {
    pub(crate) async fn list(&self, _verb: ListTools) -> ListToolsReply {
        ListToolsReply { success: true, ..ListToolsReply::default() }
    }
}
