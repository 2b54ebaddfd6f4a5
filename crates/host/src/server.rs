//! The host's side: keeps terminals and serves the requests of its clients.
//!
//! A separate task answers every request, but the server hands requests to a terminal in the order of their arrival, so
//! that two inputs cannot overtake each other. A client may disconnect at any time; the terminals continue.

mod effects;

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use parking_lot::{Mutex, RwLock};
use serde::Serialize;
use steplatch_files::{FileAsk, FileError, disk};
use steplatch_ids::TerminalId;
use steplatch_pattern::Pattern;
use steplatch_terminal::{Attached, Closing, HoldKey, Output, Signal, Terminal, Terminals, Wait};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;

use self::effects::Effects;
use crate::blocking::blocking;
use crate::client::HostHello;
use crate::files::UnfinishedFiles;
use crate::inbox::read_frames;
use crate::links::Links;
use crate::outbox::{Outbox, OutboxClosed};
use crate::records;
use crate::wire::{
    Ask, AttachEvent, AttachReply, InvalidPattern, MAX_BODY_BYTES, Refusal, SECRETS, TerminalAsk, WIRE_VERSION,
    WaitRequest, read_body,
};

/// The identity of a host, as sent in its greeting.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The version of the program.
    pub version: String,
}

/// Time that a host without terminals stays without a client.
const LINGER: Duration = Duration::from_secs(10);

/// Time that a person keeps the writer's seat after the end of the connection over which they took it.
const SEAT_LEASE: Duration = Duration::from_secs(15);

/// Time that a host without terminals and clients keeps the results of steps that no daemon has stored yet.
const RESULT_LINGER: Duration = Duration::from_secs(24 * 3600);

/// Time that a retiring host without terminals keeps the results of clients, which may repeat a step at the next daemon.
/// They give up some seconds after its start.
const REPEAT_LINGER: Duration = Duration::from_secs(30);

/// Everything that the connections of a host share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) terminals: Terminals,
    identity: Identity,
    connections: watch::Sender<usize>,
    retiring: AtomicBool,
    ending: watch::Sender<bool>,
    /// The held seats, and the connection that took each one last.
    seats: Mutex<HashMap<HoldKey, u64>>,
    /// Sessions of clients on other machines.
    links: Links,
    /// The number of the last connection.
    numbers: AtomicU64,
    service: RwLock<Service>,
    /// Unfinished copies of files.
    pub(crate) unfinished: UnfinishedFiles,
    /// Effects that the host performs once for each step.
    pub(crate) effects: Effects,
}

/// The clients that the host serves. Locked for reading from the decision to serve a request until its effect is in the
/// ledger, so that a change finds all effects of the clients before it.
#[derive(Debug, Default)]
struct Service {
    /// The number of the connection of the daemon of this machine; 0 before the first one.
    owner: u64,
    /// True if the host is ending and serves no client.
    is_over: bool,
}

impl Shared {
    /// Returns the number of the next connection.
    fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns whether it takes no new terminals.
    pub(crate) fn is_retiring(&self) -> bool {
        self.retiring.load(Ordering::Relaxed)
    }

    /// Has the host check for a reason to stay if it may have lost the last one.
    pub(crate) fn check_retirement(&self) {
        if self.is_retiring() || *self.connections.borrow() == 0 {
            self.connections.send_modify(|_| {});
        }
    }

    /// Closes terminals of single commands, unless a person holds them.
    async fn close_single_commands(&self, ids: Vec<TerminalId>) {
        for id in ids {
            let Some(terminal) = self.terminals.get(id.as_str()) else { continue };
            if terminal.describe().await.is_ok_and(|description| description.holder.is_none()) {
                // It fails only if another client has closed the terminal.
                let _ = terminal.close(Closing::default()).await;
            }
        }
    }
}

/// Keeps `terminals` and serves every client that connects to `listener`, until there is nothing left to keep.
///
/// It ends when it receives a shutdown request, when its last terminal closes after a retire request, or when it has
/// neither terminals nor clients for a while.
///
/// `listen_again` makes its socket again, at the path of the removed one.
///
/// # Errors
/// If the socket accepts no more connections.
#[boxed]
pub async fn serve(
    mut listener: UnixListener,
    terminals: Terminals,
    identity: Identity,
    listen_again: Arc<Notify>,
) -> io::Result<()> {
    let path = listener.local_addr()?.as_pathname().map(Path::to_owned);
    let shared = Arc::new(Shared {
        terminals,
        identity,
        connections: watch::Sender::new(0),
        retiring: AtomicBool::new(false),
        ending: watch::Sender::new(false),
        seats: Mutex::default(),
        links: Links::default(),
        numbers: AtomicU64::new(0),
        service: RwLock::default(),
        unfinished: UnfinishedFiles::default(),
        effects: Effects::default(),
    });
    let user = rustix::process::getuid().as_raw();
    let over = wait_for_end(shared.clone());
    tokio::pin!(over);
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) if stream.peer_cred().is_ok_and(|peer| peer.uid() == user || peer.uid() == 0) => {
                    // In the order of arrival: a later daemon has a larger one.
                    let number = shared.next_number();
                    tokio::spawn(Connection::serve(shared.clone(), stream, number));
                }
                Ok(_) => tracing::warn!("a connection of another user was refused"),
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    // Out of descriptors: others have to close first.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            () = listen_again.notified() => {
                if let Some(path) = &path {
                    match listen(path) {
                        Ok(anew) => listener = anew,
                        Err(error) => tracing::warn!(%error, "the socket cannot be made again"),
                    }
                }
            }
            () = &mut over => break,
        }
    }
    shared.terminals.close_all().await;
    shared.service.write().is_over = true;
    if let Some(path) = path.as_ref().filter(|_| !shared.effects.has_unsettled()) {
        // Without the mark, a daemon takes the results of this host for lost.
        let _ = std::fs::write(records::end_mark(path), "");
    }
    shared.ending.send_replace(true);
    shared.unfinished.remove_all();
    if let Some(path) = path {
        // The host no longer answers there; a running daemon may have removed the socket already.
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

/// Listens at the path of a removed socket, whose directory may be removed as well.
fn listen(path: &Path) -> io::Result<UnixListener> {
    if let Some(folder) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Waits until there is no reason to stay.
async fn wait_for_end(shared: Arc<Shared>) {
    let mut terminals = shared.terminals.follow_count();
    let mut connections = shared.connections.subscribe();
    let mut ending = shared.ending.subscribe();
    loop {
        let empty = *terminals.borrow_and_update() == 0;
        let alone = *connections.borrow_and_update() == 0;
        let has_results = shared.effects.has_unsettled();
        let is_retired = empty && shared.is_retiring() && !has_results;
        if *ending.borrow_and_update() || (is_retired && !shared.effects.has_unreported()) {
            return;
        }
        let is_unused = is_retired || (empty && alone);
        let linger = match has_results {
            true => RESULT_LINGER,
            false if is_retired => REPEAT_LINGER,
            false => LINGER,
        };
        let linger = async { if is_unused { tokio::time::sleep(linger).await } else { std::future::pending().await } };
        // The senders are ours and stay.
        tokio::select! {
            _ = terminals.changed() => {}
            _ = connections.changed() => {}
            _ = ending.changed() => {}
            () = linger => return,
        }
    }
}

/// The connection of one client.
struct Connection {
    shared: Arc<Shared>,
    number: u64,
    outbox: Outbox,
    asked: Arc<Mutex<HashMap<u64, AbortHandle>>>,
    /// The number of the request that hands the connection over to a link.
    link_request: watch::Sender<Option<u64>>,
    /// True if its client is, or was, the daemon of this machine.
    is_owner: AtomicBool,
}

impl Connection {
    async fn serve(shared: Arc<Shared>, stream: UnixStream, number: u64) {
        let stream = Arc::new(stream);
        let outbox = Outbox::new(stream.clone());
        let connection = Arc::new(Self {
            shared,
            number,
            outbox: outbox.clone(),
            asked: Arc::default(),
            link_request: watch::Sender::new(None),
            is_owner: AtomicBool::new(false),
        });
        connection.shared.connections.send_modify(|count| *count += 1);
        let mut ending = connection.shared.ending.subscribe();
        let mut link_request = connection.link_request.subscribe();
        // The sender is ours and stays.
        let link_request = async { link_request.wait_for(Option::is_some).await.ok().and_then(|number| *number) };
        tokio::select! {
            () = read_frames(&stream, Some(&outbox), || {}, |_| MAX_BODY_BYTES, |number, body| {
                connection.handle(number, body.and_then(|body| read_body(body).ok()));
            }) => {}
            () = outbox.write_on() => {}
            Some(number) = link_request => connection.link(&stream, number),
            // The sender is ours and stays.
            _ = ending.wait_for(|ending| *ending) => {}
        }
        outbox.close();
        for (_, task) in connection.lock().drain() {
            task.abort();
        }
        connection.shared.connections.send_modify(|count| *count -= 1);
        connection.give_seats_back().await;
    }

    /// Hands the connection over to a link, and answers the request for it. Its client sends nothing before the answer,
    /// so that the link reads all further bytes.
    fn link(&self, stream: &UnixStream, number: u64) {
        let handed = stream.as_fd().try_clone_to_owned().map(std::os::unix::net::UnixStream::from);
        match handed.and_then(UnixStream::from_std) {
            Ok(stream) => {
                if self.say(number, ()).is_err() {
                    return;
                }
                let (links, shared) = (self.shared.links.clone(), self.shared.clone());
                tokio::spawn(async move {
                    let number = shared.next_number();
                    let serve = |stream| drop(tokio::spawn(boxed(Self::serve(shared, stream, number))));
                    links.join(stream, serve).await;
                });
            }
            Err(error) => tracing::warn!(%error, "a connection from another machine cannot be served"),
        }
    }

    /// Returns whether a later daemon of this machine has connected.
    fn is_superseded(&self, service: &Service) -> bool {
        self.is_owner.load(Ordering::Relaxed) && service.owner > self.number
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, HashMap<u64, AbortHandle>> {
        self.asked.lock()
    }

    /// Takes one request. A task serves requests without an immediate answer.
    fn handle(self: &Arc<Self>, number: u64, ask: Option<Ask>) {
        if let Some(Ask::Hello { is_owner: true, .. }) = ask {
            self.is_owner.store(true, Ordering::Relaxed);
            let mut service = self.shared.service.write();
            service.owner = service.owner.max(self.number);
        }
        let service = self.shared.service.read();
        // The connection stays: its daemon may still run, and would take its end for that of the host.
        // A secret stays one, and a step that was given up stays given up.
        let is_lasting = matches!(ask, Some(Ask::Remember(_) | Ask::Settle(_)));
        if service.is_over || (self.is_superseded(&service) && !is_lasting) {
            return;
        }
        if let Some(Ask::Cancel(number)) = ask {
            if let Some(task) = self.lock().remove(&number) {
                task.abort();
            }
            return;
        }
        if let Some((ask, key)) = ask.as_ref().and_then(|ask| Some((ask.clone(), ask.effect()?))) {
            return effects::request(&self.shared, &self.outbox, number, ask, key);
        }
        let connection = self.clone();
        let mut answering: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
            // A disconnected client does not need an answer.
            let _ = match ask {
                Some(ask) => connection.answer(number, ask).await,
                None => connection.outbox.send_message(number, &Err::<(), _>(Refusal::NotUnderstood)),
            };
        });
        // The first poll hands the request over, here and in order; the rest may take its time.
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        if answering.as_mut().poll(&mut context) == Poll::Ready(()) {
            return;
        }
        let asked = self.asked.clone();
        // Held until the table has the task, so that it cannot end before that.
        let mut noted = self.lock();
        let task = tokio::spawn(async move {
            answering.await;
            asked.lock().remove(&number);
        });
        noted.insert(number, task.abort_handle());
    }

    fn say<T: Serialize>(&self, number: u64, answer: T) -> Result<(), OutboxClosed> {
        self.outbox.send_message(number, &Ok::<T, Refusal>(answer))
    }

    async fn answer(self: &Arc<Self>, number: u64, ask: Ask) -> Result<(), OutboxClosed> {
        let shared = &self.shared;
        match ask {
            Ask::Hello { wire, .. } => self.greet(number, wire),
            Ask::Open(new) => self.outbox.send_body(number, &effects::open(shared, *new, None).await.body),
            Ask::List => {
                let mut descriptions = Vec::new();
                for terminal in shared.terminals.all() {
                    // A terminal that has just closed is not on the list.
                    descriptions.extend(terminal.describe().await.ok());
                }
                self.say(number, descriptions)
            }
            Ask::Find(name) => self.say(number, shared.terminals.get(&name).map(|terminal| terminal.id().clone())),
            Ask::OpenedBy(step) => {
                shared.effects.find_opened(step, &self.outbox, number);
                Ok(())
            }
            Ask::HasStep(step) => self.say(number, shared.effects.has_step(&step)),
            Ask::Settle(steps) => {
                let closing = shared.effects.settle(&steps);
                let sent = self.say(number, ());
                shared.check_retirement();
                let shared = shared.clone();
                // The client needs no more of them, and may have disconnected in the meantime.
                tokio::spawn(async move { shared.close_single_commands(closing).await });
                sent
            }
            Ask::Unsettled => self.say(number, shared.effects.unsettled()),
            Ask::Terminal(id, ask) => match shared.terminals.get(id.as_str()) {
                None => self.outbox.send_message(number, &Err::<(), _>(Refusal::NoTerminal)),
                Some(terminal) => match self.answer_for(&terminal, number, ask).await {
                    Ok(sent) => sent,
                    Err(steplatch_terminal::TerminalClosed) => {
                        self.outbox.send_message(number, &Err::<(), _>(Refusal::NoTerminal))
                    }
                },
            },
            Ask::Remember(hidden) => {
                shared.terminals.hidden_log().record_text(hidden);
                self.say(number, ())
            }
            Ask::Retire => {
                shared.retiring.store(true, Ordering::Relaxed);
                shared.check_retirement();
                self.say(number, ())
            }
            Ask::Shutdown => {
                shared.terminals.close_all().await;
                let sent = self.say(number, ());
                shared.ending.send_replace(true);
                sent
            }
            Ask::Cancel(_) => Ok(()),
            // The answer follows after the last read of a frame.
            Ask::Link => {
                self.link_request.send_replace(Some(number));
                Ok(())
            }
            Ask::WatchActivity(known) => {
                let mut activity = shared.terminals.follow_activity();
                match activity.wait_for(|count| Some(*count) != known).await.map(|count| *count) {
                    Ok(count) => self.say(number, count),
                    // The sender is ours and stays.
                    Err(_) => Ok(()),
                }
            }
            Ask::File(ask) => self.answer_about_file(number, ask).await,
        }
    }

    async fn answer_about_file(&self, number: u64, ask: FileAsk) -> Result<(), OutboxClosed> {
        let unfinished = &self.shared.unfinished;
        match ask {
            FileAsk::Describe(path) => self.say(number, blocking(move || disk::describe(&path)).await),
            FileAsk::List(path) => self.say(number, blocking(move || disk::list(&path)).await),
            FileAsk::MakeDirectory(path) => self.say(number, blocking(move || disk::make_directory(&path)).await),
            FileAsk::Read { path, identity, offset, limit } => {
                self.say(number, blocking(move || disk::read(&path, identity, offset, limit)).await)
            }
            FileAsk::Digest { path, identity, length } => {
                self.say(number, blocking(move || disk::digest(&path, identity, length)).await)
            }
            FileAsk::Write { target, offset, bytes } => {
                unfinished.touch(&target);
                self.say(number, blocking(move || disk::write(&target, offset, &bytes)).await)
            }
            ask @ FileAsk::Finish { .. } => {
                self.outbox.send_body(number, &effects::finish(&self.shared, ask).await.body)
            }
            FileAsk::Written(step) => {
                let written: Result<_, FileError> = Ok(self.shared.effects.written_file(&step));
                self.say(number, written)
            }
            FileAsk::Abandon(target) => {
                unfinished.forget(&target);
                blocking(move || disk::abandon(&target)).await;
                self.say(number, Ok::<(), FileError>(()))
            }
        }
    }

    fn greet(self: &Arc<Self>, number: u64, wire: u32) -> Result<(), OutboxClosed> {
        let (secrets, mut news) = self.shared.terminals.hidden_log().follow();
        let connection = Arc::downgrade(self);
        let outbox = self.outbox.clone();
        let following = tokio::spawn(async move {
            loop {
                let texts = match news.recv().await {
                    Ok(text) => vec![text],
                    Err(RecvError::Lagged(_)) => match connection.upgrade() {
                        Some(connection) => connection.shared.terminals.hidden_log().follow().0,
                        None => return,
                    },
                    Err(RecvError::Closed) => return,
                };
                for text in texts {
                    if outbox.send_message(SECRETS, &text).is_err() {
                        return;
                    }
                }
            }
        });
        // Ends with the connection, as every task does.
        self.lock().insert(SECRETS, following.abort_handle());
        let greeting = HostHello {
            wire: WIRE_VERSION,
            version: self.shared.identity.version.clone(),
            pid: std::process::id(),
            secrets: if wire == WIRE_VERSION { secrets } else { Vec::new() },
            terminals: self.shared.terminals.all().len(),
        };
        self.say(number, greeting)
    }

    async fn answer_for(
        self: &Arc<Self>,
        terminal: &Terminal,
        number: u64,
        ask: TerminalAsk,
    ) -> Result<Result<(), OutboxClosed>, steplatch_terminal::TerminalClosed> {
        Ok(match ask {
            TerminalAsk::Send(input) => self.say(number, terminal.send(input).await),
            TerminalAsk::Wait(wait) => match compiled(wait) {
                Ok(wait) => self.say(number, Ok::<_, InvalidPattern>(terminal.wait(wait).await?)),
                Err(error) => self.say(number, Err::<(), _>(error)),
            },
            TerminalAsk::Ready(quiet, at_most) => self.say(number, terminal.ready(quiet, at_most).await?),
            TerminalAsk::View(colours) => self.say(number, terminal.view(colours).await?),
            TerminalAsk::Picture => self.say(number, terminal.picture().await?),
            TerminalAsk::Pieces(ranges, limit) => self.say(number, terminal.pieces(ranges, limit).await?),
            TerminalAsk::Inputs(from) => self.say(number, terminal.inputs(from).await?),
            TerminalAsk::Scrollback(limit) => self.say(number, terminal.scrollback(limit).await?),
            TerminalAsk::WatchScreen(known) => self.say(number, terminal.watch_screen(known).await?),
            TerminalAsk::WatchRows(known) => self.say(number, terminal.watch_rows(known).await?),
            TerminalAsk::Read(part, limit) => self.say(number, terminal.read(part, limit).await?),
            TerminalAsk::Describe => self.say(number, terminal.describe().await?),
            TerminalAsk::Resize(size) => self.say(number, terminal.resize(size).await?),
            TerminalAsk::Signal(signal) => match Signal::from_named_raw(signal) {
                Some(signal) => self.say(number, terminal.signal(signal).await?),
                None => self.outbox.send_message(number, &Err::<(), _>(Refusal::NotUnderstood)),
            },
            TerminalAsk::Attach => self.attach(terminal, number).await?,
            TerminalAsk::Hold(holder, key) => {
                let held = terminal.hold(holder, key.clone()).await?;
                if held.is_ok() {
                    self.seats().insert(key, self.number);
                }
                self.say(number, held)
            }
            TerminalAsk::GiveBack(key) => {
                self.seats().remove(&key);
                self.say(number, terminal.give_back(key).await?)
            }
            TerminalAsk::HandBack(key, note) => {
                self.seats().remove(&key);
                self.say(number, terminal.hand_back(key, Some(note)).await?)
            }
            TerminalAsk::HandedBack => self.say(number, terminal.handed_back().await?),
            TerminalAsk::Stage(step) => self.say(number, self.shared.effects.stage(step)),
            TerminalAsk::Run(request) => self.say(number, terminal.run(request).await),
            TerminalAsk::Variables(names) => self.say(number, terminal.variables(names).await),
            TerminalAsk::SetVariables(values, export) => self.say(number, terminal.set_variables(values, export).await),
            TerminalAsk::NoteState(gate) => self.say(number, terminal.record_state(gate).await?),
            TerminalAsk::CheckState(gate) => self.say(number, terminal.check_state(&gate).await?),
            TerminalAsk::Close(signal) | TerminalAsk::CloseOnce(signal, _) => {
                let signal = signal.and_then(Signal::from_named_raw);
                self.say(number, terminal.close(Closing { signal }).await?)
            }
        })
    }

    fn seats(&self) -> parking_lot::MutexGuard<'_, HashMap<HoldKey, u64>> {
        self.shared.seats.lock()
    }

    /// Gives back the seats that this connection took, unless their holders come back soon over another.
    async fn give_seats_back(&self) {
        let mine = |seats: &HashMap<HoldKey, u64>| -> Vec<HoldKey> {
            seats.iter().filter(|(_, by)| **by == self.number).map(|(key, _)| key.clone()).collect()
        };
        if mine(&self.seats()).is_empty() {
            return;
        }
        tokio::time::sleep(SEAT_LEASE).await;
        let left = mine(&self.seats());
        for key in left {
            self.seats().remove(&key);
            for terminal in self.shared.terminals.all() {
                // Only the terminal with this key in its seat heeds it, and a closed one is free.
                let _ = terminal.give_back(key.clone()).await;
            }
        }
    }

    /// Sends the output until the client cancels it. A client that falls behind receives the whole screen anew.
    async fn attach(
        &self,
        terminal: &Terminal,
        number: u64,
    ) -> Result<Result<(), OutboxClosed>, steplatch_terminal::TerminalClosed> {
        let Attached { snapshot, size, mut output } = terminal.attach().await?;
        if self.say(number, AttachReply { snapshot, size }).is_err() {
            return Ok(Err(OutboxClosed));
        }
        loop {
            let event = match output.recv().await {
                Ok(Output::Bytes(bytes)) => AttachEvent::Bytes(bytes.to_vec()),
                Ok(Output::Resized(size)) => AttachEvent::Resized(size),
                Ok(Output::Ended(exit)) => AttachEvent::Ended(exit),
                Err(RecvError::Lagged(_)) => match terminal.attach().await {
                    Ok(Attached { snapshot, output: anew, .. }) => {
                        output = anew;
                        AttachEvent::Redrawn(snapshot)
                    }
                    Err(_) => AttachEvent::Closed,
                },
                Err(RecvError::Closed) => AttachEvent::Closed,
            };
            let last = matches!(event, AttachEvent::Ended(_) | AttachEvent::Closed);
            if self.outbox.send_paced(number, &event).await.is_err() {
                return Ok(Err(OutboxClosed));
            }
            if last {
                return Ok(Ok(()));
            }
        }
    }
}

/// Erases the type of a future, which would otherwise contain itself: the connection of a link serves another one.
fn boxed(future: impl Future<Output = ()> + Send + 'static) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(future)
}

fn compiled(wait: WaitRequest) -> Result<Wait, InvalidPattern> {
    let WaitRequest { patterns, target, since, until, input, reads, reads_lines, highlighted, timeout, by, line } =
        wait;
    let patterns =
        patterns.iter().map(|source| Pattern::new(source).map_err(|error| InvalidPattern(error.to_string())));
    let patterns = patterns.collect::<Result<_, _>>()?;
    Ok(Wait { patterns, target, since, until, input, reads, reads_lines, highlighted, timeout, by, line })
}

#[cfg(test)]
mod tests;
