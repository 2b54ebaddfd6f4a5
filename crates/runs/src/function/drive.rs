//! The task that drives a run of functions and graphs: answer, append, perform, and again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use steplatch_access::Caller;
use steplatch_clock as clock;
use steplatch_ids::RunId;
use steplatch_nodes::graph::GraphInput;
use steplatch_python_api::{Answer, Call, CallKind};
use steplatch_store::Append;
use steplatch_workflow::{By, Input};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::cancel::Ending;
use super::entry::{Asked, Entry};
use super::frame::Frame;
use super::gate::{Question, answer_of, is_for_person, step};
use super::history::{Folded, Open, What, child_of};
use super::node::Declared;
use super::work::{Came, Work, due};
use crate::drive::ENTRY_VERSION;
use crate::locked::PrivateForm;
use crate::origin::Origin;
use crate::run::{About, Progress, RunState};
use crate::seal::{Closed, LiveSeal};
use crate::shared::Shared;
use crate::source::Source;

/// What drives one run.
pub(super) struct Driver {
    pub(super) shared: Arc<Shared>,
    pub(super) caller: Arc<Caller>,
    pub(super) run: RunId,
    pub(super) about: About,
    pub(super) inputs: mpsc::UnboundedReceiver<Box<Input>>,
    pub(super) progress: watch::Sender<Progress>,
    pub(super) cancelling: CancellationToken,
    /// Cancelled once the run that started this one has written down what it returned.
    pub(super) taken: CancellationToken,
    /// Changes whenever the daemon learns a secret.
    pub(super) learned: watch::Receiver<u64>,
    /// Changes whenever the approver's passphrase is set or taken away.
    pub(super) key_changes: watch::Receiver<u64>,
    pub(super) seal: LiveSeal,
    pub(super) private: PrivateForm,
    pub(super) declared: Arc<Declared>,
    /// Who makes calls, by the numbers of the calls that they are the answers to.
    pub(super) frames: HashMap<u64, Frame>,
    pub(super) folded: Folded,
    pub(super) seq: u64,
    /// The state that lists tell of.
    pub(super) told: Option<RunState>,
    pub(super) work: Work,
    /// Runs below this one that wait for somebody, by the calls that started them.
    pub(super) below: HashMap<u64, RunId>,
    /// Frames that are to begin once the run is not paused any more.
    pub(super) to_begin: Vec<u64>,
    pub(super) depth: u32,
    /// Seconds that the run may be at work.
    pub(super) timeout: Option<f64>,
    /// The file of the run, as it is executed; none where it is a call of a node.
    pub(super) file: Option<Arc<OwnFile>>,
    /// Whether the library has counted the run, whose end another daemon saw.
    pub(super) counted: bool,
    /// What is known of its end while it is cancelled.
    pub(super) ending: Ending,
}

/// The file that a run was begun with.
#[derive(Debug)]
pub(crate) struct OwnFile {
    pub(super) name: String,
    pub(super) text: Arc<str>,
}

/// What makes a run go on.
enum Happened {
    Came { number: u64, came: Came, by: Option<By> },
    Child { number: u64, waits: Option<RunId> },
    Cancelled { reason: String },
    CleanedUpTooLong,
    Paused { by: String, above: bool },
    Resumed { by: String, above: bool },
    ChildBegan { number: u64 },
    SecretLearned,
    KeyChanged,
    OutOfTime,
    Stopping,
}

impl Driver {
    /// Drives the run to its end, or until the daemon stops. `again` is whether another daemon began it.
    pub(super) async fn drive(mut self, again: bool) {
        if again {
            self.folded.begins_by(clock::now());
            if let Err(error) = Box::pin(self.take_up()).await {
                tracing::error!(run = %self.run, error, "a run can not be taken up");
                if !self.append(vec![Entry::Failed { at: clock::now(), error, traceback: None }]).await {
                    return;
                }
            }
            // The last daemon may have learned of a secret and not have lived to seal it.
            if !self.write(&[]).await || !Box::pin(self.resume_cancel()).await {
                return;
            }
        } else {
            self.work.came(super::history::ROOT, Came::Begin);
        }
        self.publish();
        while self.folded.end.is_none() {
            let happened = self.next().await;
            // A run at rest keeps no room for what it does when something happens.
            if !Box::pin(self.take(happened)).await {
                return;
            }
        }
        Box::pin(self.finish()).await;
    }

    /// Waits for an answer, or for somebody who ends the run.
    async fn next(&mut self) -> Happened {
        let out_of_time = self.timeout.and_then(|timeout| self.folded.at_work_for(timeout));
        if out_of_time.is_some_and(|at| at <= clock::now()) {
            return Happened::OutOfTime;
        }
        loop {
            // What comes at once comes last: a function that asks for nothing else must not keep others from being heard.
            let is_ready = self.work.is_ready();
            tokio::select! {
                biased;
                () = self.shared.stopping.cancelled() => return Happened::Stopping,
                input = self.inputs.recv() => match input {
                    Some(input) => if let Some(happened) = self.heard(*input) {
                        return happened;
                    },
                    None => return Happened::Stopping,
                },
                Some((number, came)) = self.work.next() => return Happened::Came { number, came, by: None },
                Ok(()) = self.learned.changed() => return Happened::SecretLearned,
                Ok(()) = self.key_changes.changed() => return Happened::KeyChanged,
                () = due(out_of_time) => return Happened::OutOfTime,
                () = due(self.ending.cleans_up_until) => return Happened::CleanedUpTooLong,
                () = std::future::ready(()), if is_ready => if let Some((number, came)) = self.work.next_ready() {
                    return Happened::Came { number, came, by: None };
                },
            }
        }
    }

    /// Says what somebody outside wants of this run, if it is anything.
    fn heard(&self, input: Input) -> Option<Happened> {
        match input {
            Input::Cancel { reason } => Some(Happened::Cancelled { reason }),
            Input::GateAnswered { step: gate, choice, by } => {
                let number = u64::from(gate.visit);
                // Somebody else was first, or it is another run's.
                let What::Call(Call { kind: kind @ CallKind::Gate { .. }, .. }) = &self.folded.open.get(number)?.what
                else {
                    return None;
                };
                let came = Came::Answer(answer_of(kind, choice));
                (step(&self.run, number)? == gate).then_some(Happened::Came { number, came, by: Some(by) })
            }
            Input::ChildWaits { step, waits } => {
                let run = waits.then(|| RunId::started_by(&step));
                Some(Happened::Child { number: u64::from(step.visit), waits: run })
            }
            Input::Pause { by, above } => Some(Happened::Paused { by, above }),
            Input::Resume { by, above } => Some(Happened::Resumed { by, above }),
            Input::ChildBegan { step, .. } => Some(Happened::ChildBegan { number: u64::from(step.visit) }),
            // Functions are told nothing else from outside.
            _ => None,
        }
    }

    /// Does what follows from it. Returns false when this run is not ours to go on with.
    async fn take(&mut self, happened: Happened) -> bool {
        let at = clock::now();
        match happened {
            Happened::Stopping => {
                // The next daemon may not know what this one has learned.
                self.write(&[]).await;
                false
            }
            Happened::SecretLearned | Happened::KeyChanged => self.write(&[]).await,
            Happened::Cancelled { reason } => self.cancel(at, reason).await,
            Happened::CleanedUpTooLong => self.cancel_at_once(at, String::new()).await,
            Happened::OutOfTime => {
                let seconds = self.timeout.unwrap_or_default();
                let error = format!("the run was at work for {seconds} s, which is its limit");
                let entries = self.folded.ended_by(&self.run, at, Entry::Failed { at, error, traceback: None });
                self.append(entries).await
            }
            Happened::Paused { .. } if self.folded.paused.is_some() || self.folded.cancel.is_some() => true,
            Happened::Paused { by, above } => {
                if !self.append(vec![Entry::Paused { at, by: by.clone(), above }]).await {
                    return false;
                }
                self.tell_children(|| Input::Pause { by: by.clone(), above: true });
                true
            }
            Happened::ChildBegan { number } => {
                if let Some(pause) = self.folded.paused.clone()
                    && let Some(child) = self.shared.driven(&child_of(&self.run, number))
                {
                    child.tell(Input::Pause { by: pause.by, above: true });
                }
                true
            }
            // One that somebody paused for itself goes on with nobody else.
            Happened::Resumed { above, .. }
                if self.folded.paused.as_ref().is_none_or(|pause| above && !pause.above) =>
            {
                true
            }
            Happened::Resumed { by, .. } => {
                if !self.append(vec![Entry::Resumed { at, by: by.clone() }]).await {
                    return false;
                }
                self.tell_children(|| Input::Resume { by: by.clone(), above: true });
                for number in std::mem::take(&mut self.to_begin) {
                    self.work.came(number, Came::Begin);
                }
                self.go_on_all().await
            }
            Happened::Child { number, waits } => {
                match waits.filter(|_| self.folded.open.contains(number)) {
                    Some(run) => drop(self.below.insert(number, run)),
                    None => drop(self.below.remove(&number)),
                }
                self.publish();
                self.write(&[]).await
            }
            Happened::Came { number, came: Came::Begin, .. } => {
                if self.folded.paused.is_some() {
                    self.to_begin.push(number);
                    return true;
                }
                self.begin_frame(number).await
            }
            Happened::Came { number, came: Came::DelayOver(step), .. } => {
                self.graph_goes_on(number, Vec::new(), GraphInput::DelayOver { step }, None).await
            }
            Happened::Came { number, came, by } => {
                self.below.remove(&number);
                let open = self.folded.open.get(number).cloned();
                let starts_run = |open: &Open| matches!(open.asked(&self.run, number), Asked::Run { .. });
                let child = open.as_ref().is_none_or(starts_run).then(|| child_of(&self.run, number));
                let goes_on = match open {
                    Some(open) => self.answer(number, open, came, by).await,
                    // The call was interrupted; its late result is dropped.
                    None => true,
                };
                if let Some(child) = child.and_then(|child| self.shared.driven(&child)).filter(|_| goes_on) {
                    child.taken.cancel();
                }
                goes_on
            }
        }
    }

    /// Does again what a run waits for that another daemon left. What may have been done is not done again.
    async fn take_up(&mut self) -> Result<(), String> {
        let open: Vec<_> = self.folded.open.iter().map(|(number, open)| (number, open.clone())).collect();
        // Those that make calls come before their calls, as they began.
        for (number, open) in open {
            match open.what {
                What::Call(call) => self.perform(number, open.at, call.kind, true),
                What::Step { step, node, input, .. } => {
                    let timeout = self.limit_of(open.frame, &step, &node);
                    self.call_node(number, open.at, node.as_str(), input, timeout, true);
                }
            }
        }
        // The cancel is raised in the function next. Held answers are dropped.
        if self.folded.cancel.as_ref().is_some_and(|cancel| !cancel.is_told) {
            return Ok(());
        }
        let frames: Vec<u64> = self.frames.keys().copied().collect();
        for number in frames {
            self.resume_frame(number).await?;
        }
        // It was let go on, and the daemon did not live to see to it.
        if self.folded.was_paused && self.folded.paused.is_none() && self.folded.end.is_none() {
            self.go_on_all().await;
        }
        Ok(())
    }

    /// Writes, and tells who follows. Returns false when this run is not ours to go on with.
    pub(super) async fn append(&mut self, entries: Vec<Entry>) -> bool {
        if entries.is_empty() {
            return true;
        }
        let entries = self.with_cancelled_end(entries);
        for entry in &entries {
            self.folded.apply(entry);
        }
        self.write(&entries).await
    }

    /// Writes entries that are applied already, and seals what the daemon has learned to be secret. Returns false when this
    /// run is not ours to go on with.
    async fn write(&mut self, entries: &[Entry]) -> bool {
        let Closed { texts, redacted, has_learned } = self.closed(entries).await;
        let text = || Origin::whole(&self.caller, self.seal.seal()).text();
        let asks_person = self.asks_person();
        let private = self.private.stored_anew(&self.shared, &self.run, (asks_person, has_learned), text).await;
        self.shared.hide_for_next_daemon(private.as_deref(), self.seal.seal()).await;
        if texts.is_empty() && redacted.is_empty() && private.is_none() {
            if asks_person != self.progress.borrow().asks_person && self.folded.end.is_none() {
                self.publish();
            }
            return true;
        }
        let mut append = Append { redacted, ..Append::new(self.run.clone(), self.seq, ENTRY_VERSION, texts) };
        // One that is over counts as that once what it started has ended.
        let state = self.folded.state();
        if !state.is_over() && (self.told != Some(state) || private.is_some()) {
            self.told = Some(state);
            append.summary = Some(self.now().summary(&self.about));
        }
        append.private = private;
        let Some(last) = self.shared.written(append, &self.progress).await else { return false };
        self.seq = last;
        if self.folded.end.is_none() {
            self.publish();
        }
        true
    }

    /// Closes new entries. What lists tell of the run hides what was learned, too.
    async fn closed(&mut self, entries: &[Entry]) -> Closed {
        let own = self.declared.secrets();
        let closed = self.seal.close(&self.shared, &self.run, self.seq, entries, &own).await;
        if closed.has_learned {
            self.about.mask(&self.shared.secrets);
        }
        closed
    }

    async fn finish(mut self) {
        self.work.end().await;
        self.declared.close(&self.caller).await;
        // Before the summary: a run that is finished is not looked at by the next daemon.
        self.count().await;
        if !self.write(&[]).await {
            return;
        }
        if self.shared.is_parent_locked(self.about.parent.as_ref()) {
            self.publish();
            if !self.shared.parent_is_open(self.about.parent.as_ref()).await {
                return;
            }
        }
        if !self.hand_over().await {
            return;
        }
        let mut append = Append::new(self.run.clone(), self.seq, ENTRY_VERSION, Vec::new());
        append.summary = Some(self.now().summary(&self.about));
        if self.shared.written(append, &self.progress).await.is_none() {
            return;
        }
        self.publish();
        self.shared.ended(&self.run, !self.seal.seal().secrets().is_empty());
    }

    /// Waits until a function that started this run has written down what it returned, if there are secrets in that: what
    /// their marks stand for is gone with the summary. Returns false when the daemon stops before.
    async fn hand_over(&self) -> bool {
        let returned = self.folded.end.as_ref().and_then(|end| end.result.as_ref());
        if !returned.is_some_and(|returned| self.seal.hides(returned)) {
            return true;
        }
        let parent = self.about.parent.as_ref().and_then(|step| self.shared.driven(&step.run));
        let Some(parent) = parent.filter(|parent| parent.is_function()) else { return true };
        self.publish();
        let mut above = parent.follow();
        tokio::select! {
            () = self.taken.cancelled() => true,
            // It does not wait for this run, or not any more.
            _ = above.wait_for(|progress| progress.state.is_over()) => true,
            () = self.cancelling.cancelled() => true,
            () = self.shared.stopping.cancelled() => false,
        }
    }

    /// Has the library count the run, if it has the workflow.
    async fn count(&self) {
        let Source::SavedFunction { folder, file, hash } = &self.about.source else { return };
        let Some(end) = self.folded.end.as_ref().filter(|_| !self.counted) else { return };
        let succeeded = end.state == RunState::Completed;
        let at = UNIX_EPOCH + Duration::from_micros(u64::try_from(end.at.0).unwrap_or(0));
        let of = (self.about.workflow.as_str(), &self.run);
        self.shared.workflows.note_function(folder, file, of, hash, succeeded, at).await;
    }

    fn now(&self) -> Progress {
        let end = self.folded.end.as_ref();
        let state = match self.folded.state() {
            RunState::Running if !self.below.is_empty() => RunState::Waiting,
            state => state,
        };
        Progress {
            seq: self.seq,
            state,
            ended: end.map(|end| end.at),
            error: self.shared.secrets.masked_if(end.and_then(|end| end.error.clone())),
            traceback: self.shared.secrets.masked_if(end.and_then(|end| end.traceback.clone())),
            result: end.filter(|end| end.state == RunState::Completed).map(|end| {
                let mut result = end.result.clone().unwrap_or_default();
                self.shared.secrets.mask_in(&mut result);
                Arc::new(result)
            }),
            paused: self.folded.paused.clone(),
            questions: self
                .folded
                .open
                .waiting()
                .filter_map(|(number, open)| Question::of(&self.run, number, open))
                .collect(),
            below: self.below.values().cloned().collect(),
            asks_person: self.asks_person(),
            returned: end.and_then(|end| end.result.clone()).map(Arc::new),
            ..Progress::default()
        }
    }

    /// Whether a person has to answer a question of the run, or of one below it.
    fn asks_person(&self) -> bool {
        let mut waiting = self.folded.open.waiting();
        waiting.any(|(_, open)| matches!(&open.what, What::Call(call) if is_for_person(&call.kind)))
            || self.shared.ask_person(self.below.values())
    }

    /// Tells the runs below this one something.
    fn tell_children(&self, input: impl Fn() -> Input) {
        for (number, open) in self.folded.open.iter() {
            if matches!(&open.what, What::Call(Call { kind: CallKind::RunWorkflow { .. }, .. }))
                && let Some(child) = self.shared.driven(&child_of(&self.run, number))
            {
                child.tell(input());
            }
        }
    }

    pub(super) fn publish(&self) {
        self.progress.send_replace(self.now());
        self.shared.listener.run_changed(&self.run);
    }

    /// Returns an answer that says what is not there.
    pub(super) fn not_found(what: &str, id: &str) -> Came {
        Came::Answer(Answer::refused(format!("{what} '{id}' not found in session")))
    }
}
