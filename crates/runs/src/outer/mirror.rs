//! The connection between a run and the outer engine that decides it.

use std::time::Duration;

use steplatch_protocol::EngineKind;
use steplatch_workflow::Event;

use super::{MirrorInbox, MirrorMessage, NOT_SERVED};
use crate::engine::{Attempt, Recorder};

/// Maximum age of a run at its start in the engine. The engine may have forgotten an older run, and such a run would
/// repeat all its actions. No engine forgets a run within a day of its end.
const MAX_START_AGE: Duration = Duration::from_secs(12 * 3600);

/// Connection between the driver of a run and the outer engine.
pub(crate) struct Mirror {
    pub(crate) inbox: MirrorInbox,
    /// Known reason that blocks the run.
    pub(crate) blocked_reason: Option<String>,
}

impl Mirror {
    /// Connects a machine that begins with these events, or a run that continues here in turns (a function or a remote
    /// workflow). `None` if this daemon decides the run.
    pub(crate) fn connect(recorder: &Recorder, is_function: bool, first: Vec<Event>) -> Option<Self> {
        let Recorder { shared, caller, run, header, .. } = recorder;
        if header.engine == EngineKind::Sqlite {
            return None;
        }
        let (workflow, is_root) = (header.workflow.clone(), header.parent.is_none());
        let inbox = shared.outer.register(&run.id, caller.clone(), workflow, is_function, is_root, first);
        Some(Self { inbox, blocked_reason: None })
    }

    /// Waits for a message of the engine; forever if there is no mirror. Safe to drop and call again.
    pub(crate) async fn next(mirror: &mut Option<Self>) -> MirrorMessage {
        match mirror {
            Some(mirror) => mirror.inbox.next().await,
            None => std::future::pending().await,
        }
    }

    /// Sets the reason that blocks the run. Returns whether the reason has changed, so that the driver must publish
    /// the run.
    pub(crate) fn set_blocked_reason(mirror: &mut Option<Self>, blocked_reason: Option<String>) -> bool {
        let Some(mirror) = mirror.as_mut().filter(|mirror| mirror.blocked_reason != blocked_reason) else {
            return false;
        };
        mirror.blocked_reason = blocked_reason;
        true
    }

    /// Returns the error of a run that the engine has ended on its own.
    pub(crate) fn lost(how: &str) -> String {
        format!("Temporal has ended the run: {how}")
    }

    /// Makes the engine start the run, unless the parent starts it there. Without a worker, sets the reason that blocks
    /// the run.
    pub(crate) fn start(&mut self, recorder: &Recorder, attempt: Attempt) {
        let Recorder { shared, run, header, .. } = recorder;
        let is_young = shared.clock.now().since(header.started) < MAX_START_AGE;
        match header.parent {
            Some(_) => {}
            None if attempt == Attempt::First || is_young => shared.outer.start(&run.id),
            None => shared.outer.watch(&run.id),
        }
        self.blocked_reason = (!shared.outer.is_served()).then(|| NOT_SERVED.to_owned());
    }
}
