//! A run's history as events for its followers.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use serde_json::{Map, Value, json};
use steplatch_clock as clock;
use steplatch_protocol::RunEvent;
use steplatch_sessions::{Disconnected, EventSink};
use steplatch_store::ReadError;
use steplatch_workflow::{By, Proof};

use super::run::Run;
use crate::engine_state::Engine;

/// The events of one run for one follower.
#[derive(Debug)]
pub struct RunEvents {
    shared: Arc<Engine>,
    run: Arc<Run>,
    next: u64,
    /// Number of events still to send, if the follower limits their number.
    remaining: Option<u64>,
}

/// Maximum number of history entries to read at a time, so that a slow follower needs little memory.
const MAX_PAGE_ENTRIES: usize = 256;

impl RunEvents {
    pub(super) fn new(shared: Arc<Engine>, run: Arc<Run>, from: u64, max_events: Option<u64>) -> Self {
        Self { shared, run, next: from.max(1), remaining: max_events }
    }

    /// Returns the number of the newest event so far; 0 if there is none.
    ///
    /// # Errors
    ///
    /// If reading the history fails.
    pub(super) async fn newest(&self) -> Result<u64, Unreadable> {
        let last = self.run.progress().seq;
        let mut lookback = 1;
        loop {
            // Few consecutive entries produce no event, so the end of the history is nearly always sufficient.
            let from = (last + 1).saturating_sub(lookback).max(1);
            let events = self.shared.events_for_followers(&self.run, from, usize::MAX).await?;
            let visible_numbers = (from..=last).zip(&events).filter(|(_, event)| event.is_some()).map(|(seq, _)| seq);
            match visible_numbers.last() {
                Some(newest) => return Ok(newest),
                None if from == 1 => return Ok(0),
                None => lookback *= 8,
            }
        }
    }

    /// Returns the events so far, without secrets.
    ///
    /// # Errors
    ///
    /// If reading the history fails.
    pub(super) async fn read_recorded(mut self) -> Result<Vec<RunEvent>, Unreadable> {
        let last = self.run.progress().seq;
        let mut events = Vec::new();
        while self.next <= last {
            let page_size = usize::try_from(last - self.next + 1)
                .map_or(MAX_PAGE_ENTRIES, |remaining| remaining.min(MAX_PAGE_ENTRIES));
            let page = self.shared.events_for_followers(&self.run, self.next, page_size).await?;
            if page.is_empty() {
                break;
            }
            self.next += page.len() as u64;
            events.extend(page.into_iter().flatten());
        }
        for event in &mut events {
            self.shared.secrets.mask_fields(&mut event.data);
        }
        Ok(events)
    }

    /// Sends events in order, each once, until the run or the connection ends. Reads the events from the history at the
    /// pace of the client, so a slow client blocks no other part of the daemon.
    #[boxed]
    pub async fn forward(mut self, request_id: &Value, sink: &EventSink) -> Result<(), Disconnected> {
        let mut progress = self.run.follow();
        loop {
            let (last, is_over) = {
                let status = progress.borrow_and_update();
                (status.seq, status.state.is_over())
            };
            // The end of a run follows the cleanup of its resources.
            while self.next <= last && self.remaining != Some(0) {
                let page_size = usize::try_from(last - self.next + 1)
                    .map_or(MAX_PAGE_ENTRIES, |remaining| remaining.min(MAX_PAGE_ENTRIES));
                let events = match self.shared.events_for_followers(&self.run, self.next, page_size).await {
                    Ok(events) => events,
                    Err(error) => {
                        tracing::error!(run = %self.run.id, %error, "failed to read a history for a follower");
                        let data = json!({"error": format!("the history cannot be read: {error}")});
                        let event = envelope(&self.run, self.next, RunEvent::UNREADABLE, data, clock::now_iso8601());
                        return sink.event(request_id, &event).await;
                    }
                };
                if events.is_empty() {
                    // The run was deleted in the meantime.
                    return Ok(());
                }
                for entry in events {
                    self.next += 1;
                    let Some(mut event) = entry else { continue };
                    self.shared.secrets.mask_fields(&mut event.data);
                    sink.event(request_id, &event).await?;
                    self.remaining = self.remaining.map(|remaining| remaining.saturating_sub(1));
                    if self.remaining == Some(0) {
                        return Ok(());
                    }
                }
            }
            if is_over || progress.changed().await.is_err() {
                return Ok(());
            }
        }
    }
}

/// Field that marks an event, or an entry of the execution log, of a step that an earlier run performed.
pub(super) const TAKEN_OVER: &str = "taken_over";

/// Failure to read a history entry.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unreadable {
    /// Reading the journal failed.
    #[error(transparent)]
    Journal(#[from] ReadError),
    /// This version cannot parse the entry.
    #[error("this version cannot read entry {seq}: {cause}")]
    Unknown { seq: u64, cause: serde_json::Error },
}

/// Failure to read the history of a run, for a request or to continue it.
#[derive(Debug, thiserror::Error)]
#[error("the history of the run cannot be read: {0}")]
pub(super) struct HistoryError(#[from] Unreadable);

/// Adds the author of an answer to its data.
pub(super) fn add_author(data: &mut Value, by: Option<By>) {
    let By { name, surface, proof, shown, signed, required, reason } = by.unwrap_or_default();
    data["by"] = name.into();
    data["through"] = surface.into();
    let proof_name = |proof: Proof| proof.name().to_owned();
    let (proof, required) = (proof.map(proof_name), required.map(proof_name));
    for (name, value) in [("proof", proof), ("required", required), ("shown", shown), ("reason", reason)] {
        if let Some(value) = value {
            data[name] = value.into();
        }
    }
    if let Some(signed) = signed {
        data["signed"] = serde_json::to_value(signed).unwrap_or_default();
    }
}

pub(super) fn envelope(run: &Run, seq: u64, event_type: &str, mut data: Value, timestamp: String) -> RunEvent {
    if run.has_taken_over(seq) {
        data[TAKEN_OVER] = true.into();
    }
    RunEvent {
        seq,
        run_id: run.id.to_string(),
        workflow_id: run.header.workflow.clone(),
        event_type: event_type.to_owned(),
        data: match data {
            Value::Object(data) => with_ids(run, event_type, data),
            _ => Map::new(),
        },
        timestamp,
    }
}

/// Adds the ids of a run to the data of its first and last events, since a follower of many runs may read the data
/// alone.
fn with_ids(run: &Run, event_type: &str, data: Map<String, Value>) -> Map<String, Value> {
    let mut ids = match event_type {
        "workflow_started" => Map::from_iter([("workflow_id".to_owned(), run.header.workflow.clone().into())]),
        "workflow_completed" | "workflow_failed" | "workflow_cancelled" => Map::new(),
        _ => return data,
    };
    ids.insert("run_id".to_owned(), run.id.as_str().into());
    ids.extend(data);
    ids
}
