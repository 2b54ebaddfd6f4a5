//! Gates of machines in their history.

use steplatch_ids::RunId;
use steplatch_store::Record;
use steplatch_workflow::Event;

use super::history::read;
use crate::event::Unreadable;
use crate::gates::{ClosedGate, GateEnd};
use crate::seal::Seal;

/// Returns the gate that an event closes, if any.
pub(crate) fn closed_gate(_: &RunId, record: &Record) -> Result<Option<ClosedGate>, Unreadable> {
    Ok(match read(record.clone(), &Seal::default())? {
        Event::GateAnswered { at, step, choice, by } => {
            Some(ClosedGate { step, end: GateEnd::Answered { at, answer: choice, by } })
        }
        Event::GateExpired { step, .. } => Some(ClosedGate { step, end: GateEnd::Expired }),
        Event::GateCancelled { step, .. } => Some(ClosedGate { step, end: GateEnd::Other }),
        _ => None,
    })
}
