//! Waits that tell how far they are.
//!
//! A client that gives a token with its call is told of the states that a run enters
//! and of the gates that open, from the events of the run. Only the wait belongs to the
//! call: a call that is lost or taken back leaves the run alone.

use std::time::{Duration, Instant};

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::{Peer, RoleServer};
use serde_json::{Value, json};
use steplatch_protocol::{
    AskError, AwaitOutput, Follower, GetRun, RUN_WAIT_SECONDS, RunEvent, RunWorkflow, Steady, Verb, read,
};

/// The shortest time between two messages.
const PAUSE: Duration = Duration::from_millis(250);

/// How long events are gathered before the first message.
const GATHERING: Duration = Duration::from_millis(20);

/// The time between two signs of life of a wait in which nothing is to be told.
const SIGN_OF_LIFE: Duration = Duration::from_secs(5);

/// Characters of a message, at the most: it is read on one line.
const LONGEST: usize = 200;

/// What the daemon replied, with its remarks on the parameters.
type Answer = Result<(Value, Vec<String>), AskError>;

/// Somebody who wants to be told.
#[derive(Debug)]
pub(crate) struct Listener {
    peer: Peer<RoleServer>,
    token: ProgressToken,
    /// The last progress that was told. It has to grow.
    told: f64,
    /// What is to be told next; a later message takes its place.
    due: Option<String>,
    /// Not before then.
    next: tokio::time::Instant,
}

impl Listener {
    pub(crate) fn new(peer: Peer<RoleServer>, token: ProgressToken) -> Self {
        Self { peer, token, told: 0.0, due: None, next: tokio::time::Instant::now() }
    }

    /// Asks for the verb called `name` and tells how far it is until it is answered. Nothing is told afterwards.
    pub(crate) async fn ask(mut self, steady: &Steady, name: &str, params: Value) -> Answer {
        let answer = match name {
            RunWorkflow::NAME => self.run(steady, params).await,
            GetRun::NAME => self.look_at(steady, params).await,
            AwaitOutput::NAME => self.wait(steady, params).await,
            _ => steady.call_raw(name, params).await,
        };
        // What is told is written before the answer, which the caller writes.
        self.flush().await;
        answer
    }

    /// Starts a run without waiting, then waits as for one that was there before.
    async fn run(&mut self, steady: &Steady, params: Value) -> Answer {
        // The daemon says best what is wrong with parameters, so it gets them as they are.
        let Ok(known) = read::<RunWorkflow>(params.clone()) else {
            return steady.call_raw(RunWorkflow::NAME, params).await;
        };
        let began = Instant::now();
        let wait = known.verb.wait_seconds.unwrap_or(RUN_WAIT_SECONDS);
        let started = steady.call(RunWorkflow { wait_seconds: Some(0.0), ..known.verb }).await?;
        let (run, status) = (started.run_id.clone(), started.status.clone());
        if status != "running" || run.is_empty() {
            return Ok((as_value(&started), known.warnings));
        }
        let left = (wait - began.elapsed().as_secs_f64()).max(0.0);
        let (data, _) = self.over(steady, &run, json!({"run_id": run, "wait_seconds": left})).await?;
        Ok((data, known.warnings))
    }

    async fn look_at(&mut self, steady: &Steady, params: Value) -> Answer {
        match read::<GetRun>(params.clone()) {
            Ok(known) if known.verb.wait_seconds.is_some_and(|wait| wait > 0.0) => {
                self.over(steady, &known.verb.run_id, params).await
            }
            _ => steady.call_raw(GetRun::NAME, params).await,
        }
    }

    /// Waits for a run, following it meanwhile.
    async fn over(&mut self, steady: &Steady, run: &str, get_run: Value) -> Answer {
        let answer = steady.call_raw(GetRun::NAME, get_run);
        tokio::pin!(answer);
        let mut follower = Some(steady.follow(run, 1));
        // Of a run that began before, all that happened comes at once, and where it is now is what matters.
        self.next = tokio::time::Instant::now() + GATHERING;
        let mut states = 0;
        let answer = loop {
            tokio::select! {
                // What happened before the end is told before it.
                biased;
                event = next(&mut follower) => match event {
                    Some(event) => self.hear(&event, &mut states),
                    None => follower = None,
                },
                () = tokio::time::sleep_until(self.next), if self.due.is_some() => self.flush().await,
                answer = &mut answer => break answer,
            }
        };
        // A gate ends the wait as it opens, so it is told of from here: its event may not have come yet.
        if let Ok((reply, _)) = &answer
            && let Some(prompt) = reply.pointer("/pending_gate/prompt").and_then(Value::as_str)
        {
            self.due = Some(format!("waits for an answer: {prompt}"));
        }
        answer
    }

    fn hear(&mut self, event: &RunEvent, states: &mut u32) {
        let text = |name: &str| event.data.get(name).and_then(Value::as_str).unwrap_or_default();
        match event.event_type.as_str() {
            "state_entered" => {
                *states += 1;
                self.due = Some(format!("state {states}: {} ({})", text("state"), text("tool")));
            }
            "gate_answered" => {
                let answer = event.data.get("answer").cloned().unwrap_or_default();
                let answer = answer.as_str().map_or_else(|| answer.to_string(), str::to_owned);
                self.due = Some(format!("{} answered: {answer}", text("by")));
            }
            "workflow_paused" => self.due = Some(format!("paused by {}", text("by"))),
            "workflow_resumed" => self.due = Some(format!("{} lets it go on", text("by"))),
            _ => {}
        }
    }

    /// Waits for output. There is nothing to tell of it, but clients give up on calls that they hear nothing of.
    async fn wait(&mut self, steady: &Steady, params: Value) -> Answer {
        let began = Instant::now();
        let answer = steady.call_raw(AwaitOutput::NAME, params);
        tokio::pin!(answer);
        let mut signs = tokio::time::interval_at(tokio::time::Instant::now() + SIGN_OF_LIFE, SIGN_OF_LIFE);
        loop {
            tokio::select! {
                answer = &mut answer => return answer,
                _ = signs.tick() => {
                    self.due = Some(format!("waiting since {} s", began.elapsed().as_secs()));
                    self.flush().await;
                }
            }
        }
    }

    /// Tells what is due, if anything is.
    async fn flush(&mut self) {
        let Some(message) = self.due.take() else { return };
        self.told += 1.0;
        let message = match message.char_indices().nth(LONGEST) {
            Some((end, _)) => format!("{}…", &message[..end]),
            None => message,
        };
        let progress = ProgressNotificationParam::new(self.token.clone(), self.told).with_message(message);
        if let Err(error) = self.peer.notify_progress(progress).await {
            tracing::debug!(%error, "progress can not be told");
        }
        self.next = tokio::time::Instant::now() + PAUSE;
    }
}

/// Returns the next event. `None` when there are no more; a run that can not be followed can still be waited for.
async fn next(follower: &mut Option<Follower>) -> Option<RunEvent> {
    match follower {
        Some(follower) => follower.next().await.unwrap_or_else(|error| {
            tracing::debug!(%error, "a run can not be followed");
            None
        }),
        None => std::future::pending().await,
    }
}

fn as_value(reply: &impl serde::Serialize) -> Value {
    serde_json::to_value(reply).expect("a reply has only JSON in it")
}
