//! Server of the host: keeps terminals and serves the requests of clients.
//!
//! Each request is answered in its own task. A terminal still receives requests in the order of their arrival, so that
//! inputs cannot overtake each other. A client may disconnect at any time; the terminals continue.

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
use steplatch_files::{FileError, FileRequest, disk};
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
    AttachEvent, AttachReply, HostRequest, InvalidPattern, MAX_BODY_BYTES, Refusal, SECRETS, TerminalRequest,
    WIRE_VERSION, WaitRequest, read_body,
};

/// The identity of a host, as sent in its greeting.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The version of the program.
    pub version: String,
}

/// Idle timeout: a host without terminals and clients exits after this time.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Retention period of a person's writer's seat after the loss of their connection.
const SEAT_TIMEOUT: Duration = Duration::from_secs(15);

/// Retention period, at a host without terminals and clients, of step results that no daemon has stored yet.
const RESULT_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// Retention period of results at a retiring host without terminals. Clients may repeat a step at the next daemon, and
/// give up some seconds after its start.
const REPEAT_TIMEOUT: Duration = Duration::from_secs(30);

/// State that the connections of a host share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) terminals: Terminals,
    identity: Identity,
    connections: watch::Sender<usize>,
    retiring: AtomicBool,
    ending: watch::Sender<bool>,
    /// Held writer's seats, with the connections that last took them.
    seats: Mutex<HashMap<HoldKey, u64>>,
    /// Sessions of clients on remote hosts.
    links: Links,
    /// Number of the last connection.
    last_number: AtomicU64,
    service: RwLock<Service>,
    /// Unfinished copies of files.
    pub(crate) unfinished: UnfinishedFiles,
    /// Effects that the host performs once for each step.
    pub(crate) effects: Effects,
}

/// Clients that the host serves. A request holds the read lock until its effect is in the ledger, so that a change of
/// the owner waits for these effects.
#[derive(Debug, Default)]
struct Service {
    /// The number of the connection from this computer's daemon; 0 before the first one.
    owner: u64,
    /// True if the host is ending and serves no client.
    is_over: bool,
}

impl Shared {
    /// Returns the number of the next connection.
    fn next_number(&self) -> u64 {
        self.last_number.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns whether the host opens no new terminals.
    pub(crate) fn is_retiring(&self) -> bool {
        self.retiring.load(Ordering::Relaxed)
    }

    /// Makes the host check for its end after a reason to stay may have disappeared.
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
                // Ignore the error, because another client has closed the terminal.
                let _ = terminal.close(Closing::default()).await;
            }
        }
    }
}

/// Keeps `terminals` and serves every client that connects to `listener`.
///
/// Ends after a shutdown request, when the last terminal closes after a retire request, or after a period without
/// terminals and clients.
///
/// `listen_again` creates the socket again, at the path of the removed one.
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
        last_number: AtomicU64::new(0),
        service: RwLock::default(),
        unfinished: UnfinishedFiles::default(),
        effects: Effects::default(),
    });
    let user = rustix::process::getuid().as_raw();
    let end = wait_for_end(shared.clone());
    tokio::pin!(end);
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) if stream.peer_cred().is_ok_and(|peer| peer.uid() == user || peer.uid() == 0) => {
                    // Numbers follow the order of arrival: a later daemon has a larger number.
                    let number = shared.next_number();
                    tokio::spawn(Connection::serve(shared.clone(), stream, number));
                }
                Ok(_) => tracing::warn!("a connection of another user was refused"),
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    // No descriptors are left: wait until others are closed.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            () = listen_again.notified() => {
                if let Some(path) = &path {
                    match listen(path) {
                        Ok(new_listener) => listener = new_listener,
                        Err(error) => tracing::warn!(%error, "the socket cannot be created again"),
                    }
                }
            }
            () = &mut end => break,
        }
    }
    shared.terminals.close_all().await;
    shared.service.write().is_over = true;
    if let Some(path) = path.as_ref().filter(|_| !shared.effects.has_unsettled()) {
        // Without this mark, a daemon assumes that the results of this host are lost.
        let _ = std::fs::write(records::end_mark(path), "");
    }
    shared.ending.send_replace(true);
    shared.unfinished.remove_all();
    if let Some(path) = path {
        // Ignore the error, because a daemon may have removed the socket already.
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

/// Listens at the path of a removed socket, whose directory may also be missing.
fn listen(path: &Path) -> io::Result<UnixListener> {
    if let Some(directory) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Waits until the host has no reason to stay.
async fn wait_for_end(shared: Arc<Shared>) {
    let mut terminals = shared.terminals.follow_count();
    let mut connections = shared.connections.subscribe();
    let mut ending = shared.ending.subscribe();
    loop {
        let has_no_terminals = *terminals.borrow_and_update() == 0;
        let has_no_clients = *connections.borrow_and_update() == 0;
        let has_results = shared.effects.has_unsettled();
        let is_retired = has_no_terminals && shared.is_retiring() && !has_results;
        if *ending.borrow_and_update() || (is_retired && !shared.effects.has_unreported()) {
            return;
        }
        let is_unused = is_retired || (has_no_terminals && has_no_clients);
        let idle_timeout = match has_results {
            true => RESULT_TIMEOUT,
            false if is_retired => REPEAT_TIMEOUT,
            false => IDLE_TIMEOUT,
        };
        let idle_end =
            async { if is_unused { tokio::time::sleep(idle_timeout).await } else { std::future::pending().await } };
        // `changed` cannot fail: `shared` owns the senders.
        tokio::select! {
            _ = terminals.changed() => {}
            _ = connections.changed() => {}
            _ = ending.changed() => {}
            () = idle_end => return,
        }
    }
}

/// The connection of one client.
struct Connection {
    shared: Arc<Shared>,
    number: u64,
    outbox: Outbox,
    tasks: Arc<Mutex<HashMap<u64, AbortHandle>>>,
    /// Number of the request that turns the connection into a link.
    link_request: watch::Sender<Option<u64>>,
    /// True if the client is, or was, the daemon of this computer.
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
            tasks: Arc::default(),
            link_request: watch::Sender::new(None),
            is_owner: AtomicBool::new(false),
        });
        connection.shared.connections.send_modify(|count| *count += 1);
        let mut ending = connection.shared.ending.subscribe();
        let mut link_request = connection.link_request.subscribe();
        // `wait_for` cannot fail: `connection` owns the sender.
        let link_request = async { link_request.wait_for(Option::is_some).await.ok().and_then(|number| *number) };
        tokio::select! {
            () = read_frames(&stream, Some(&outbox), || {}, |_| MAX_BODY_BYTES, |number, body| {
                connection.handle(number, body.and_then(|body| read_body(body).ok()));
            }) => {}
            () = outbox.write_queued() => {}
            Some(number) = link_request => connection.link(&stream, number),
            // `wait_for` cannot fail: `connection` owns the sender.
            _ = ending.wait_for(|ending| *ending) => {}
        }
        outbox.close();
        for (_, task) in connection.lock().drain() {
            task.abort();
        }
        connection.shared.connections.send_modify(|count| *count -= 1);
        connection.give_seats_back().await;
    }

    /// Turns the connection into a link and answers the request for it. The client sends nothing before the answer, so
    /// that the link reads all further bytes.
    fn link(&self, stream: &UnixStream, number: u64) {
        let duplicate = stream.as_fd().try_clone_to_owned().map(std::os::unix::net::UnixStream::from);
        match duplicate.and_then(UnixStream::from_std) {
            Ok(stream) => {
                if self.reply(number, ()).is_err() {
                    return;
                }
                let (links, shared) = (self.shared.links.clone(), self.shared.clone());
                tokio::spawn(async move {
                    let number = shared.next_number();
                    let serve = |stream| drop(tokio::spawn(boxed(Self::serve(shared, stream, number))));
                    links.join(stream, serve).await;
                });
            }
            Err(error) => tracing::warn!(%error, "a connection from a remote host cannot be served"),
        }
    }

    /// Returns whether a later daemon of this computer has connected.
    fn is_superseded(&self, service: &Service) -> bool {
        self.is_owner.load(Ordering::Relaxed) && service.owner > self.number
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, HashMap<u64, AbortHandle>> {
        self.tasks.lock()
    }

    /// Handles one request. A task continues requests without an immediate answer.
    fn handle(self: &Arc<Self>, number: u64, request: Option<HostRequest>) {
        if let Some(HostRequest::Hello { is_owner: true, .. }) = request {
            self.is_owner.store(true, Ordering::Relaxed);
            let mut service = self.shared.service.write();
            service.owner = service.owner.max(self.number);
        }
        let service = self.shared.service.read();
        // Ignore requests of a superseded daemon but keep its connection, because that daemon would take a disconnect
        // for the end of the host. Still record secrets and settled steps.
        let is_lasting = matches!(request, Some(HostRequest::Remember(_) | HostRequest::Settle(_)));
        if service.is_over || (self.is_superseded(&service) && !is_lasting) {
            return;
        }
        if let Some(HostRequest::Cancel(number)) = request {
            if let Some(task) = self.lock().remove(&number) {
                task.abort();
            }
            return;
        }
        if let Some((request, key)) = request.as_ref().and_then(|request| Some((request.clone(), request.effect()?))) {
            return effects::request(&self.shared, &self.outbox, number, request, key);
        }
        let connection = self.clone();
        let mut answering: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
            // A disconnected client does not need an answer.
            let _ = match request {
                Some(request) => connection.answer(number, request).await,
                None => connection.outbox.send_message(number, &Err::<(), _>(Refusal::NotUnderstood)),
            };
        });
        // The first poll passes the request to its terminal in order; the rest may run later.
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        if answering.as_mut().poll(&mut context) == Poll::Ready(()) {
            return;
        }
        let tasks = self.tasks.clone();
        // Locked until the task is in the table, so that it cannot remove itself before.
        let mut task_table = self.lock();
        let task = tokio::spawn(async move {
            answering.await;
            tasks.lock().remove(&number);
        });
        task_table.insert(number, task.abort_handle());
    }

    fn reply<T: Serialize>(&self, number: u64, answer: T) -> Result<(), OutboxClosed> {
        self.outbox.send_message(number, &Ok::<T, Refusal>(answer))
    }

    async fn answer(self: &Arc<Self>, number: u64, request: HostRequest) -> Result<(), OutboxClosed> {
        let shared = &self.shared;
        match request {
            HostRequest::Hello { wire, .. } => self.greet(number, wire),
            HostRequest::Open(new) => self.outbox.send_body(number, &effects::open(shared, *new, None).await.body),
            HostRequest::List => {
                let mut descriptions = Vec::new();
                for terminal in shared.terminals.all() {
                    // Omit a terminal that has just closed.
                    descriptions.extend(terminal.describe().await.ok());
                }
                self.reply(number, descriptions)
            }
            HostRequest::Find(name) => {
                self.reply(number, shared.terminals.get(&name).map(|terminal| terminal.id().clone()))
            }
            HostRequest::OpenedBy(step) => {
                shared.effects.find_opened(step, &self.outbox, number);
                Ok(())
            }
            HostRequest::HasStep(step) => self.reply(number, shared.effects.has_step(&step)),
            HostRequest::Settle(steps) => {
                let closing = shared.effects.settle(&steps);
                let sent = self.reply(number, ());
                shared.check_retirement();
                let shared = shared.clone();
                // In a separate task: the client may disconnect meanwhile.
                tokio::spawn(async move { shared.close_single_commands(closing).await });
                sent
            }
            HostRequest::Unsettled => self.reply(number, shared.effects.unsettled()),
            HostRequest::Terminal(id, request) => match shared.terminals.get(id.as_str()) {
                None => self.outbox.send_message(number, &Err::<(), _>(Refusal::NoTerminal)),
                Some(terminal) => match self.answer_for(&terminal, number, request).await {
                    Ok(sent) => sent,
                    Err(steplatch_terminal::TerminalClosed) => {
                        self.outbox.send_message(number, &Err::<(), _>(Refusal::NoTerminal))
                    }
                },
            },
            HostRequest::Remember(hidden) => {
                shared.terminals.hidden_log().record_text(hidden);
                self.reply(number, ())
            }
            HostRequest::Retire => {
                shared.retiring.store(true, Ordering::Relaxed);
                shared.check_retirement();
                self.reply(number, ())
            }
            HostRequest::Shutdown => {
                shared.terminals.close_all().await;
                let sent = self.reply(number, ());
                shared.ending.send_replace(true);
                sent
            }
            HostRequest::Cancel(_) => Ok(()),
            // The answer follows once no more frames are read.
            HostRequest::Link => {
                self.link_request.send_replace(Some(number));
                Ok(())
            }
            HostRequest::WatchActivity(known) => {
                let mut activity = shared.terminals.follow_activity();
                match activity.wait_for(|count| Some(*count) != known).await.map(|count| *count) {
                    Ok(count) => self.reply(number, count),
                    // Unreachable: `shared` owns the sender.
                    Err(_) => Ok(()),
                }
            }
            HostRequest::File(request) => self.answer_about_file(number, request).await,
        }
    }

    async fn answer_about_file(&self, number: u64, request: FileRequest) -> Result<(), OutboxClosed> {
        let unfinished = &self.shared.unfinished;
        match request {
            FileRequest::Describe(path) => self.reply(number, blocking(move || disk::describe(&path)).await),
            FileRequest::List(path) => self.reply(number, blocking(move || disk::list(&path)).await),
            FileRequest::MakeDirectory(path) => self.reply(number, blocking(move || disk::make_directory(&path)).await),
            FileRequest::Read { path, identity, offset, limit } => {
                self.reply(number, blocking(move || disk::read(&path, identity, offset, limit)).await)
            }
            FileRequest::Digest { path, identity, length } => {
                self.reply(number, blocking(move || disk::digest(&path, identity, length)).await)
            }
            FileRequest::Write { target, offset, bytes } => {
                unfinished.touch(&target);
                self.reply(number, blocking(move || disk::write(&target, offset, &bytes)).await)
            }
            request @ FileRequest::Finish { .. } => {
                self.outbox.send_body(number, &effects::finish(&self.shared, request).await.body)
            }
            FileRequest::Written(step) => {
                let written: Result<_, FileError> = Ok(self.shared.effects.written_file(&step));
                self.reply(number, written)
            }
            FileRequest::Abandon(target) => {
                unfinished.forget(&target);
                blocking(move || disk::abandon(&target)).await;
                self.reply(number, Ok::<(), FileError>(()))
            }
        }
    }

    fn greet(self: &Arc<Self>, number: u64, wire: u32) -> Result<(), OutboxClosed> {
        let (secrets, mut new_secrets) = self.shared.terminals.hidden_log().follow();
        let connection = Arc::downgrade(self);
        let outbox = self.outbox.clone();
        let following = tokio::spawn(async move {
            loop {
                let texts = match new_secrets.recv().await {
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
        // The task ends with the connection.
        self.lock().insert(SECRETS, following.abort_handle());
        let greeting = HostHello {
            wire: WIRE_VERSION,
            version: self.shared.identity.version.clone(),
            pid: std::process::id(),
            secrets: if wire == WIRE_VERSION { secrets } else { Vec::new() },
            terminals: self.shared.terminals.all().len(),
        };
        self.reply(number, greeting)
    }

    async fn answer_for(
        self: &Arc<Self>,
        terminal: &Terminal,
        number: u64,
        request: TerminalRequest,
    ) -> Result<Result<(), OutboxClosed>, steplatch_terminal::TerminalClosed> {
        Ok(match request {
            TerminalRequest::Send(input) => self.reply(number, terminal.send(input).await),
            TerminalRequest::Wait(wait) => match compile_wait(wait) {
                Ok(wait) => self.reply(number, Ok::<_, InvalidPattern>(terminal.wait(wait).await?)),
                Err(error) => self.reply(number, Err::<(), _>(error)),
            },
            TerminalRequest::Ready(quiet, timeout) => self.reply(number, terminal.ready(quiet, timeout).await?),
            TerminalRequest::View(colours) => self.reply(number, terminal.view(colours).await?),
            TerminalRequest::Picture => self.reply(number, terminal.picture().await?),
            TerminalRequest::Pieces(ranges, limit) => self.reply(number, terminal.pieces(ranges, limit).await?),
            TerminalRequest::Inputs(from) => self.reply(number, terminal.inputs(from).await?),
            TerminalRequest::Recording => self.reply(number, terminal.recording().await?),
            TerminalRequest::Scrollback(limit) => self.reply(number, terminal.scrollback(limit).await?),
            TerminalRequest::WatchScreen(known) => self.reply(number, terminal.watch_screen(known).await?),
            TerminalRequest::WatchRows(known) => self.reply(number, terminal.watch_rows(known).await?),
            TerminalRequest::Read(part, limit) => self.reply(number, terminal.read(part, limit).await?),
            TerminalRequest::Describe => self.reply(number, terminal.describe().await?),
            TerminalRequest::Resize(size) => self.reply(number, terminal.resize(size).await?),
            TerminalRequest::Signal(signal) => match Signal::from_named_raw(signal) {
                Some(signal) => self.reply(number, terminal.signal(signal).await?),
                None => self.outbox.send_message(number, &Err::<(), _>(Refusal::NotUnderstood)),
            },
            TerminalRequest::Attach => self.attach(terminal, number).await?,
            TerminalRequest::Hold(holder, key) => {
                let held = terminal.hold(holder, key.clone()).await?;
                if held.is_ok() {
                    self.seats().insert(key, self.number);
                }
                self.reply(number, held)
            }
            TerminalRequest::GiveBack(key) => {
                self.seats().remove(&key);
                self.reply(number, terminal.give_back(key).await?)
            }
            TerminalRequest::HandBack(key, note) => {
                self.seats().remove(&key);
                self.reply(number, terminal.hand_back(key, Some(note)).await?)
            }
            TerminalRequest::HandedBack => self.reply(number, terminal.handed_back().await?),
            TerminalRequest::Stage(step) => self.reply(number, self.shared.effects.stage(step)),
            TerminalRequest::Run(request) => self.reply(number, terminal.run(request).await),
            TerminalRequest::Variables(names) => self.reply(number, terminal.variables(names).await),
            TerminalRequest::SetVariables(values, export) => {
                self.reply(number, terminal.set_variables(values, export).await)
            }
            TerminalRequest::NoteState(gate) => self.reply(number, terminal.record_state(gate).await?),
            TerminalRequest::CheckState(gate) => self.reply(number, terminal.check_state(&gate).await?),
            TerminalRequest::Close(signal) | TerminalRequest::CloseOnce(signal, _) => {
                let signal = signal.and_then(Signal::from_named_raw);
                self.reply(number, terminal.close(Closing { signal }).await?)
            }
        })
    }

    fn seats(&self) -> parking_lot::MutexGuard<'_, HashMap<HoldKey, u64>> {
        self.shared.seats.lock()
    }

    /// Gives back the seats that this connection took, unless their holders reconnect soon.
    async fn give_seats_back(&self) {
        let own_seats = |seats: &HashMap<HoldKey, u64>| -> Vec<HoldKey> {
            seats.iter().filter(|(_, connection)| **connection == self.number).map(|(key, _)| key.clone()).collect()
        };
        if own_seats(&self.seats()).is_empty() {
            return;
        }
        tokio::time::sleep(SEAT_TIMEOUT).await;
        let unclaimed = own_seats(&self.seats());
        for key in unclaimed {
            self.seats().remove(&key);
            for terminal in self.shared.terminals.all() {
                // Ignore the error, because a closed terminal has no seat. Terminals with another key ignore the
                // request.
                let _ = terminal.give_back(key.clone()).await;
            }
        }
    }

    /// Sends the output until the client cancels the request. A client that falls behind receives the whole screen.
    async fn attach(
        &self,
        terminal: &Terminal,
        number: u64,
    ) -> Result<Result<(), OutboxClosed>, steplatch_terminal::TerminalClosed> {
        let Attached { snapshot, size, mut output } = terminal.attach().await?;
        if self.reply(number, AttachReply { snapshot, size }).is_err() {
            return Ok(Err(OutboxClosed));
        }
        loop {
            let event = match output.recv().await {
                Ok(Output::Bytes(bytes)) => AttachEvent::Bytes(bytes.to_vec()),
                Ok(Output::Resized(size)) => AttachEvent::Resized(size),
                Ok(Output::Ended(exit)) => AttachEvent::Ended(exit),
                Err(RecvError::Lagged(_)) => match terminal.attach().await {
                    Ok(Attached { snapshot, output: new_output, .. }) => {
                        output = new_output;
                        AttachEvent::Redrawn(snapshot)
                    }
                    Err(_) => AttachEvent::Closed,
                },
                Err(RecvError::Closed) => AttachEvent::Closed,
            };
            let is_last = matches!(event, AttachEvent::Ended(_) | AttachEvent::Closed);
            if self.outbox.send_paced(number, &event).await.is_err() {
                return Ok(Err(OutboxClosed));
            }
            if is_last {
                return Ok(Ok(()));
            }
        }
    }
}

/// Erases the type of a future. The future of a connection would otherwise contain itself, because a link serves a
/// connection.
fn boxed(future: impl Future<Output = ()> + Send + 'static) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(future)
}

fn compile_wait(wait: WaitRequest) -> Result<Wait, InvalidPattern> {
    let WaitRequest { patterns, target, since, until, input, reads, reads_lines, highlighted, timeout, by, line } =
        wait;
    let patterns =
        patterns.iter().map(|source| Pattern::new(source).map_err(|error| InvalidPattern(error.to_string())));
    let patterns = patterns.collect::<Result<_, _>>()?;
    Ok(Wait { patterns, target, since, until, input, reads, reads_lines, highlighted, timeout, by, line })
}

#[cfg(test)]
mod tests;
