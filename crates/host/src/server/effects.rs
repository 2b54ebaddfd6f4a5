//! Effects of the steps of clients. The host performs each effect once, even if the connection of its request is lost.
//!
//! Owns the ledger of this process: one for all terminals and files, so that the result of a step outlives its
//! terminal. Each effect runs in a separate task. A repeated request waits for that task or receives its result. A
//! disconnect changes nothing. A client settles a step once it no longer needs the result.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use steplatch_files::{FileError, FileRequest, FileWritten, disk};
use steplatch_ids::TerminalId;
use steplatch_ledger::{Admission, Effect, EffectDesk, EffectEnd, EffectKey, LedgerLimits};
use steplatch_terminal::{Closing, CommandResult, InputError, RunError, Signal};
use tokio::sync::watch;

use super::Shared;
use crate::blocking::blocking;
use crate::outbox::Outbox;
use crate::wire::{
    HostRequest, OpenRefused, OpenRequest, OpenedTerminal, Refusal, Stage, TerminalRequest, body_of, is_of_run,
    read_body,
};

/// Bounds of the ledger. A run stores a result promptly and then settles its step; other clients repeat a step
/// promptly or never.
const STEP_LIMITS: LedgerLimits = LedgerLimits { max_names: 10_000, max_result_bytes: 16 << 20 };

/// Bounds of the ledger of interactive keystrokes.
const KEYSTROKE_LIMITS: LedgerLimits = LedgerLimits { max_names: 256, max_result_bytes: 64 << 10 };

/// The effects of this process.
#[derive(Debug)]
pub(crate) struct Effects {
    desk: Mutex<HostDesk>,
    /// Interactive keystrokes, kept separately so that they do not evict other effects.
    keystrokes: Mutex<HostDesk>,
}

/// Results are frame bodies. The channel signals that the client abandoned a step.
type HostDesk = EffectDesk<Waiter, Vec<u8>, watch::Sender<bool>, TerminalId>;

/// A request that waits for the result of an effect.
#[derive(Debug)]
struct Waiter {
    outbox: Outbox,
    number: u64,
    part: ResultPart,
}

/// Part of the result that a waiter receives.
#[derive(Debug, Clone, Copy)]
enum ResultPart {
    Whole,
    /// The id of the opened terminal.
    TerminalId,
}

/// An effect that has ended.
pub(crate) struct Performed {
    /// The body of the frame with the result.
    pub(crate) body: Vec<u8>,
    /// True if the effect may have changed anything. If false, a repeated request performs it again.
    pub(crate) has_acted: bool,
}

impl Performed {
    fn new<T: Serialize>(result: T, has_acted: bool) -> Self {
        Self { body: body_of(&Ok::<T, Refusal>(result)), has_acted }
    }

    fn refused(refusal: Refusal) -> Self {
        Self { body: body_of(&Err::<(), _>(refusal)), has_acted: false }
    }
}

impl Default for Effects {
    fn default() -> Self {
        Self {
            desk: Mutex::new(EffectDesk::new(STEP_LIMITS)),
            keystrokes: Mutex::new(EffectDesk::new(KEYSTROKE_LIMITS)),
        }
    }
}

impl Effects {
    fn desk(&self, is_keystroke: bool) -> parking_lot::MutexGuard<'_, HostDesk> {
        if is_keystroke { &self.keystrokes } else { &self.desk }.lock()
    }

    /// Returns whether a run has an effect in progress, or a result that it has not stored yet.
    pub(crate) fn has_unsettled(&self) -> bool {
        self.desk.lock().has_unsettled()
    }

    /// Returns whether a client may repeat a performed step.
    pub(crate) fn has_unreported(&self) -> bool {
        self.desk.lock().has_unreported()
    }

    /// Returns the unsettled steps of runs.
    pub(crate) fn unsettled(&self) -> Vec<String> {
        self.desk.lock().unsettled()
    }

    /// Returns whether a step has begun an effect here, other than a keystroke.
    pub(crate) fn has_step(&self, step: &str) -> bool {
        self.desk.lock().has_step(step)
    }

    /// Returns the progress of the input of a step.
    pub(crate) fn stage(&self, step: String) -> Option<Stage> {
        let mut desk = self.desk.lock();
        let result = desk.result(&EffectKey::new(Effect::Type, step))?;
        Some(if result.is_some() { Stage::Done } else { Stage::Intent })
    }

    /// Returns the file that a step has written.
    pub(crate) fn written_file(&self, step: &str) -> Option<FileWritten> {
        let mut desk = self.desk.lock();
        let body = desk.result(&EffectKey::new(Effect::Write, step))??;
        decode_result::<Result<FileWritten, FileError>>(body)?.ok()
    }

    /// Sends the id of the terminal that a step opened, or `None`. Waits for an opening in progress.
    pub(crate) fn find_opened(&self, step: String, outbox: &Outbox, number: u64) {
        let waiter = Waiter { outbox: outbox.clone(), number, part: ResultPart::TerminalId };
        let found = self.desk.lock().wait_for(&EffectKey::new(Effect::Open, step), waiter);
        let id = match found {
            Ok(None) => return,
            Ok(Some(body)) => decode_opened_id(&body),
            Err(_) => None,
        };
        // A disconnected client needs no answer.
        let _ = outbox.send_message(number, &Ok::<_, Refusal>(id));
    }

    /// Records that a client no longer needs these results. Prevents effects that have not acted yet.
    /// Returns the terminals to close.
    pub(crate) fn settle(&self, steps: &[String]) -> Vec<TerminalId> {
        let mut desk = self.desk.lock();
        let give_up = |abandoned: &watch::Sender<bool>| {
            abandoned.send_replace(true);
        };
        steps.iter().flat_map(|step| desk.settle(step, give_up)).collect()
    }
}

/// Answers a request for an effect of a step: performs it, waits for it or returns its result.
pub(crate) fn request(shared: &Arc<Shared>, outbox: &Outbox, number: u64, ask: HostRequest, key: EffectKey) {
    let waiter = Waiter { outbox: outbox.clone(), number, part: ResultPart::Whole };
    let (sender, abandoned) = watch::channel(false);
    let admission = shared.effects.desk(ask.is_keystroke()).request(key.clone(), is_of_run(&key.step), waiter, sender);
    let body = match admission {
        Admission::Perform => return begin(shared.clone(), ask, key, abandoned),
        // Keep the unfinished copy, because the effect in progress may use it. A timeout removes another copy.
        Admission::Wait => return,
        Admission::Answer(body) => body,
        Admission::Unknown => body_of(&Err::<(), _>(Refusal::OutcomeUnknown)),
    };
    // A disconnected client needs no answer.
    let _ = outbox.send_body(number, &body);
    if let HostRequest::File(FileRequest::Finish { target, .. }) = ask {
        // The step has already written the file.
        shared.unfinished.forget(&target);
        tokio::task::spawn_blocking(move || disk::abandon(&target));
    }
}

/// Performs an effect in a separate task. Requests to one terminal reach it in the order of these calls.
fn begin(shared: Arc<Shared>, ask: HostRequest, key: EffectKey, abandoned: watch::Receiver<bool>) {
    let mut ending =
        EndOnDrop { shared: shared.clone(), key: key.clone(), is_keystroke: ask.is_keystroke(), has_ended: false };
    // Unconstrained by the cooperative budget: the first poll must reach the terminal, in request order.
    let mut performing: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(tokio::task::unconstrained(async move {
        let can_be_dropped = matches!(key.effect, Effect::Run | Effect::Type);
        let performed = tokio::select! {
            biased;
            performed = perform(&shared, ask, abandoned.clone()) => Some(performed),
            // Stops waiting. The terminal drops a command that still waits for the prompt; an entered command
            // continues, and a received input is typed.
            () = wait_until_abandoned(abandoned.clone()), if can_be_dropped => None,
        };
        let (end, body) = match performed {
            None => (EffectEnd::Lost, body_of(&Err::<(), _>(Refusal::OutcomeUnknown))),
            Some(Performed { body, has_acted: false }) => (EffectEnd::Refused, body),
            Some(Performed { body, has_acted: true }) => (EffectEnd::Performed(body.clone(), body.len()), body),
        };
        ending.end(end, &body);
    }));
    // The first poll, made here in order, hands the request to its terminal; the rest may run later.
    if performing.as_mut().poll(&mut Context::from_waker(Waker::noop())) == Poll::Pending {
        tokio::spawn(performing);
    }
}

/// Ends an effect in the ledger, with an unknown result if its task panics.
struct EndOnDrop {
    shared: Arc<Shared>,
    key: EffectKey,
    is_keystroke: bool,
    has_ended: bool,
}

impl EndOnDrop {
    fn end(&mut self, end: EffectEnd<Vec<u8>>, body: &[u8]) {
        self.has_ended = true;
        let waiters = self.shared.effects.desk(self.is_keystroke).end(&self.key, end);
        waiters.iter().for_each(|waiter| waiter.answer(body));
        // A retiring host may end once its last result is settled.
        self.shared.check_retirement();
    }
}

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        if !self.has_ended {
            self.end(EffectEnd::Lost, &body_of(&Err::<(), _>(Refusal::OutcomeUnknown)));
        }
    }
}

/// Waits until the client abandons the step.
async fn wait_until_abandoned(mut abandoned: watch::Receiver<bool>) {
    if abandoned.wait_for(|abandoned| *abandoned).await.is_err() {
        // The effect has ended.
        std::future::pending::<()>().await;
    }
}

impl Waiter {
    fn answer(&self, body: &[u8]) {
        // A disconnected client needs no answer.
        let _ = match self.part {
            ResultPart::Whole => self.outbox.send_body(self.number, body),
            ResultPart::TerminalId => self.outbox.send_message(self.number, &Ok::<_, Refusal>(decode_opened_id(body))),
        };
    }
}

fn decode_result<T: DeserializeOwned>(body: &[u8]) -> Option<T> {
    read_body::<Result<T, Refusal>>(body).ok()?.ok()
}

fn decode_opened_id(body: &[u8]) -> Option<TerminalId> {
    let terminal = decode_result::<Result<OpenedTerminal, OpenRefused>>(body)?.ok()?;
    Some(terminal.id)
}

/// Performs an effect.
async fn perform(shared: &Arc<Shared>, ask: HostRequest, abandoned: watch::Receiver<bool>) -> Performed {
    match ask {
        HostRequest::Open(new) => open(shared, *new, Some(abandoned)).await,
        HostRequest::Terminal(id, ask) => match shared.terminals.get(id.as_str()) {
            None => Performed::refused(Refusal::NoTerminal),
            Some(terminal) => match ask {
                TerminalRequest::Send(input) => {
                    let sent = terminal.send(input).await;
                    let has_acted = !sent.as_ref().is_err_and(has_typed_nothing);
                    Performed::new(sent, has_acted)
                }
                TerminalRequest::Run(request) => {
                    let step = request.step.clone();
                    let result = terminal.run(request).await;
                    if let (Ok(result), Some(step)) = (&result, step)
                        && is_left_to_client(result)
                    {
                        shared.effects.desk.lock().leave_shell(&step);
                    }
                    let has_acted = !result.as_ref().is_err_and(has_run_nothing);
                    Performed::new(result, has_acted)
                }
                TerminalRequest::Close(signal) | TerminalRequest::CloseOnce(signal, _) => {
                    let signal = signal.and_then(Signal::from_named_raw);
                    match terminal.close(Closing { signal }).await {
                        Ok(closed) => Performed::new(closed, true),
                        Err(steplatch_terminal::TerminalClosed) => Performed::refused(Refusal::NoTerminal),
                    }
                }
                _ => Performed::refused(Refusal::NotUnderstood),
            },
        },
        HostRequest::File(ask @ FileRequest::Finish { .. }) => finish(shared, ask).await,
        _ => Performed::refused(Refusal::NotUnderstood),
    }
}

/// Opens a terminal, after waiting for a free place if requested. Closes a single-command terminal if the client
/// abandons the step meanwhile.
pub(crate) async fn open(
    shared: &Arc<Shared>,
    new: OpenRequest,
    abandoned: Option<watch::Receiver<bool>>,
) -> Performed {
    if shared.is_retiring() {
        return Performed::refused(Refusal::Retiring);
    }
    let (is_for_command, step) = (new.single_command.is_some(), new.step.clone());
    let wait = new.place_wait();
    let spec = new.into_spec();
    let result = match (wait, &abandoned) {
        (None, _) => shared.terminals.open(spec).await,
        (Some(wait), abandoned) => {
            let name = spec.name.clone();
            let place = shared.terminals.reserve_place(name.as_deref(), wait);
            let abandoned = async {
                match abandoned {
                    Some(abandoned) => wait_until_abandoned(abandoned.clone()).await,
                    None => std::future::pending().await,
                }
            };
            let place = tokio::select! {
                biased;
                place = place => place,
                () = abandoned => return Performed::refused(Refusal::OutcomeUnknown),
            };
            match place {
                Ok(place) => shared.terminals.open_at(place, spec).await,
                Err(error) => Err(error),
            }
        }
    };
    let opened = match result {
        Ok(opened) => opened,
        Err(error) => return Performed::new(Err::<OpenedTerminal, _>(OpenRefused::from(error)), false),
    };
    let (id, pid) = (opened.terminal.id().clone(), opened.terminal.pid());
    if let Some(step) = step.filter(|_| is_for_command) {
        let key = EffectKey::new(Effect::Open, step);
        let is_abandoned = {
            let mut desk = shared.effects.desk.lock();
            desk.retain_shells(|shell| shared.terminals.get(shell.as_str()).is_some());
            desk.add_shell(&key, id.clone()).is_some()
        };
        if is_abandoned {
            // Ignore the error, because another client has closed the terminal.
            let _ = opened.terminal.close(Closing::default()).await;
        }
    }
    Performed::new(Ok::<_, OpenRefused>(OpenedTerminal { id, pid, integrated: opened.integrated }), true)
}

/// Moves a completely written file to its target.
pub(crate) async fn finish(shared: &Arc<Shared>, ask: FileRequest) -> Performed {
    let FileRequest::Finish { target, length, digest, mode, replace, .. } = ask else {
        return Performed::refused(Refusal::NotUnderstood);
    };
    shared.unfinished.forget(&target);
    let written = blocking(move || disk::finish(&target, length, digest, mode, replace)).await;
    let has_acted = written.is_ok();
    Performed::new(written, has_acted)
}

/// Returns whether the terminal refused an input before typing any of it.
fn has_typed_nothing(error: &InputError) -> bool {
    !matches!(error, InputError::InDoubt | InputError::Gone(_))
}

/// Returns whether the terminal refused a command before it entered anything.
fn has_run_nothing(error: &RunError) -> bool {
    matches!(
        error,
        RunError::NotIntegrated { .. }
            | RunError::Busy { .. }
            | RunError::NoPrompt { .. }
            | RunError::HalfTyped { .. }
            | RunError::Expanded
            | RunError::Wrapped { .. }
            | RunError::Control(_)
            | RunError::Full { .. }
            | RunError::LineTooLong(_)
            | RunError::EmptyLine { .. }
            | RunError::NoDirectory
            | RunError::Ended(_)
            | RunError::Held(_)
            | RunError::Changed(_)
    )
}

/// Returns whether a single-command terminal stays open for its client: the command is still running, or some output
/// was not returned.
fn is_left_to_client(result: &CommandResult) -> bool {
    result.timed_out || result.asks.is_some() || result.left_out > 0 || result.dropped_before.is_some()
}
