//! Handle of a terminal that a host keeps, with the methods of a local terminal.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_recursion::async_recursion as boxed;
use steplatch_ids::TerminalId;
use steplatch_terminal::{
    Closed, Closing, CommandRequest, CommandResult, Description, Excerpt, Exit, Handover, HoldKey, Input, InputError,
    Limit, LockHolder, LoggedInput, NotedState, OutputRecording, Part, Picture, QueryFilter, Quiet, Reason, RunError,
    ScreenDelta, ScreenUpdate, SecretText, Sent, Signal, Size, Variable, VariablesError, View, Waited,
};

use crate::client::{AskError, Events, Host};
use crate::remote::{
    CLIENT_CONNECT_TIMEOUT, ColouredView, RECONNECT_TIMEOUT, RemoteHost, Reply, StateChange, as_requested,
};
use crate::wire::{
    AttachEvent, AttachReply, HostRequest, InvalidPattern, Refusal, Stage, TerminalRequest, WaitRequest,
};

/// A terminal that a host keeps, here or on a remote host. Cheap to clone.
///
/// Every method returns an [`AskError`] if the terminal has closed or its host has ended. For a terminal on a remote
/// machine, a method also fails if the connection is missing for longer than `connect_timeout`. The handle sends
/// repeatable requests again over the next connection.
#[derive(Debug, Clone)]
pub struct HostedTerminal {
    keeper: Keeper,
    id: TerminalId,
    connect_timeout: Duration,
    /// Description of a terminal on a remote host, as recorded by this computer.
    recorded: Option<Arc<Description>>,
}

/// Time limit that is longer than a session lasts without a connection.
const UNLIMITED: Duration = Duration::from_secs(86_400);

/// Time limit for a silent remote host's answer to a request that changes nothing, in addition to the duration of the
/// request itself.
const SILENT_QUERY_TIMEOUT: Duration = Duration::from_secs(30);

/// The same limit for a request with an effect. After it, the outcome of the request is unknown.
const SILENT_ACTION_TIMEOUT: Duration = Duration::from_secs(60);

/// Time limit for the answer of a host that sends other frames meanwhile, or handles files. Longer than a session
/// lasts without a connection.
const BUSY_ANSWER_TIMEOUT: Duration = Duration::from_secs(60 + RECONNECT_TIMEOUT.as_secs());

/// Maximum number of quick repetitions of a request. Without a maximum, a host that ends each session immediately would
/// receive requests without end.
const MAX_REPEATS: usize = 3;

/// The host of a terminal.
#[derive(Debug, Clone)]
pub(crate) enum Keeper {
    /// A host on this computer.
    Local(Host),
    /// A remote terminal host.
    Remote(RemoteHost),
}

impl Keeper {
    /// Sends a request and returns the answer.
    pub(crate) async fn ask<T: Reply>(&self, request: &HostRequest, connect_timeout: Duration) -> Result<T, AskError> {
        match self {
            Self::Local(host) => host.ask(request).await,
            // Box the larger future of a remote request, because it would enlarge the futures of all requests.
            Self::Remote(remote) => {
                let reply: T = Box::pin(Self::ask_remote(remote, request, connect_timeout)).await?;
                if request.max_chars().is_some_and(|max_chars| !reply.is_within(max_chars)) {
                    return Err(remote.implausible("more text than was requested"));
                }
                reply.checked().map_err(|what| remote.implausible(what))
            }
        }
    }

    /// Returns the error for a reply that no valid host sends.
    pub(crate) fn implausible(&self, what: &'static str) -> AskError {
        match self {
            Self::Local(_) => AskError::Garbled(what.to_owned()),
            Self::Remote(remote) => remote.implausible(what),
        }
    }

    async fn ask_remote<T: Reply>(
        remote: &RemoteHost,
        request: &HostRequest,
        connect_timeout: Duration,
    ) -> Result<T, AskError> {
        let mut repeated_ask;
        let mut request = request;
        let mut quick_repeats = None;
        loop {
            let began = Instant::now();
            // A wait lasts its full time, even while there is no connection.
            let connect_timeout = connect_timeout.max(request.wait_time());
            let host = match remote.wait_until_connected(connect_timeout).await {
                // The host may have executed an earlier attempt.
                Err(AskError::NotConnected { .. }) if quick_repeats.is_some() && request.acts() => {
                    return Err(remote.unanswered_error());
                }
                reached => reached?,
            };
            // Wait for a request with an effect until the session ends; its outcome is unknown only then.
            let limit = if request.is_repeatable() { connect_timeout } else { UNLIMITED };
            let answer = tokio::select! {
                answer = host.ask(request) => answer,
                stall_error = remote.wait_until_stalled(limit) => Err(stall_error.unwrap_or(AskError::HostLost { pid: host.greeting().pid })),
                () = wait_for_silence(remote, &host, request) => return Err(remote.silent_error()),
            };
            match answer {
                Err(AskError::HostLost { .. }) if request.is_repeatable() => {
                    let quick = if began.elapsed() < RECONNECT_TIMEOUT { quick_repeats.unwrap_or(0) + 1 } else { 0 };
                    if quick > MAX_REPEATS {
                        return Err(remote.unanswered_error());
                    }
                    quick_repeats = Some(quick);
                    repeated_ask = request.after(began.elapsed());
                    request = &repeated_ask;
                }
                Err(AskError::HostLost { .. } | AskError::NotConnected { .. }) if request.acts() => {
                    return Err(remote.unanswered_error());
                }
                // An earlier attempt was sent.
                Err(AskError::NotReading { .. }) if quick_repeats.is_some() && request.acts() => {
                    return Err(remote.unanswered_error());
                }
                answer => return answer,
            }
        }
    }
}

/// Waits for the time limit of an answer, or forever if the request has none.
async fn wait_for_silence(remote: &RemoteHost, host: &Host, request: &HostRequest) {
    let Some(duration) = request.max_duration() else { return std::future::pending().await };
    let max_silence = match request {
        HostRequest::File(_) => BUSY_ANSWER_TIMEOUT,
        request if request.acts() => SILENT_ACTION_TIMEOUT,
        _ => SILENT_QUERY_TIMEOUT,
    };
    tokio::select! {
        () = remote.wait_until_silent(host, duration.saturating_add(max_silence)) => {}
        () = tokio::time::sleep(duration.saturating_add(BUSY_ANSWER_TIMEOUT)) => {}
    }
}

/// Reason why an input has failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The terminal refused the input.
    #[error(transparent)]
    Input(#[from] InputError),
    /// There is no such terminal.
    #[error(transparent)]
    HostRequest(#[from] AskError),
}

/// Reason why a terminal did not execute a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TerminalError<E> {
    /// The terminal refused.
    #[error("{0}")]
    Refused(E),
    /// There is no such terminal, or its host has ended.
    #[error(transparent)]
    HostRequest(#[from] AskError),
}

/// Reason why a signal has failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignalError {
    /// The program has ended.
    #[error("its program has ended{}", .0.map(|exit| format!(" with exit code {}", exit.code)).unwrap_or_default())]
    Ended(Option<Exit>),
    /// There is no such terminal.
    #[error(transparent)]
    HostRequest(#[from] AskError),
}

impl HostedTerminal {
    pub(crate) fn new(host: Host, id: TerminalId) -> Self {
        Self { keeper: Keeper::Local(host), id, connect_timeout: CLIENT_CONNECT_TIMEOUT, recorded: None }
    }

    /// Returns a terminal on a remote host, with its recorded description.
    pub(crate) fn on_machine(host: RemoteHost, recorded: Description) -> Self {
        let id = recorded.id.clone();
        Self {
            keeper: Keeper::Remote(host),
            id,
            connect_timeout: CLIENT_CONNECT_TIMEOUT,
            recorded: Some(Arc::new(recorded)),
        }
    }

    /// Returns the name of the terminal's machine, unless it is this one.
    pub(crate) fn machine(&self) -> Option<&str> {
        match &self.keeper {
            Keeper::Local(_) => None,
            Keeper::Remote(remote) => Some(remote.machine()),
        }
    }

    /// Returns the view with the recorded name of the terminal.
    fn with_recorded_name(&self, view: View) -> View {
        match &self.recorded {
            Some(recorded) => View { name: recorded.name.clone(), ..view },
            None => view,
        }
    }

    /// Returns a handle that waits up to `connect_timeout` for a machine without a connection.
    #[must_use]
    pub fn with_connect_timeout(self, connect_timeout: Duration) -> Self {
        Self { connect_timeout, ..self }
    }

    /// Returns the id of the terminal.
    #[must_use]
    pub fn id(&self) -> &TerminalId {
        &self.id
    }

    /// Makes the host of a remote terminal hide a secret, also for later daemons. Does nothing for a terminal
    /// on this computer. A host without a connection within [`CLIENT_CONNECT_TIMEOUT`] does not receive the secret.
    #[boxed]
    pub async fn remember_elsewhere(&self, secret: &SecretText) {
        if matches!(self.keeper, Keeper::Remote(_)) {
            let remembered =
                self.keeper.ask::<()>(&HostRequest::Remember(secret.clone()), CLIENT_CONNECT_TIMEOUT).await;
            if let Err(error) = remembered {
                tracing::warn!(%error, terminal = %self.id, "a secret was not sent to a remote host");
            }
        }
    }

    async fn ask<T: Reply>(&self, request: TerminalRequest) -> Result<T, AskError> {
        self.keeper.ask(&HostRequest::Terminal(self.id.clone(), request), self.connect_timeout).await
    }

    /// Sends a request that the terminal itself may refuse.
    async fn ask_to<T: Reply, E: Reply>(&self, request: TerminalRequest) -> Result<T, TerminalError<E>> {
        let answer: Result<T, E> = self.ask(request).await?;
        answer.map_err(TerminalError::Refused)
    }

    /// Types into the terminal, see [`steplatch_terminal::Terminal::send`].
    ///
    /// # Errors
    /// If the terminal has typed nothing, with the reason.
    #[boxed]
    pub async fn send(&self, input: Input) -> Result<Sent, SendError> {
        let sent: Result<Sent, InputError> = self.ask(TerminalRequest::Send(input)).await?;
        let sent = sent?;
        Ok(Sent { view: sent.view.map(|view| self.with_recorded_name(view)), ..sent })
    }

    /// Waits for output, see [`steplatch_terminal::Terminal::wait`]. Dropping the future ends the wait.
    ///
    /// # Errors
    /// If a pattern is invalid, or there is no such terminal.
    #[boxed]
    pub async fn wait(&self, wait: WaitRequest) -> Result<(Waited, View), TerminalError<InvalidPattern>> {
        let patterns = wait.patterns.len();
        let (waited, view): (Waited, View) = self.ask_to(TerminalRequest::Wait(wait)).await?;
        let reason = match &waited.found {
            Some(found) if found.pattern >= patterns => Some("a match of a pattern that was not given"),
            None if waited.reason == Reason::Match => Some("a match without its text"),
            _ => None,
        };
        match reason {
            Some(reason) => Err(self.keeper.implausible(reason).into()),
            None => Ok((waited, self.with_recorded_name(view))),
        }
    }

    /// Runs a command in its shell, see [`steplatch_terminal::Terminal::run`].
    ///
    /// # Errors
    /// If the command was not run, or there is no such terminal.
    #[boxed]
    pub async fn run(&self, request: CommandRequest) -> Result<CommandResult, TerminalError<RunError>> {
        self.ask_to(TerminalRequest::Run(request)).await
    }

    /// Returns variables of its shell, see [`steplatch_terminal::Terminal::variables`].
    ///
    /// # Errors
    /// If the shell did not answer, or there is no such terminal.
    #[boxed]
    pub async fn variables(
        &self,
        names: Vec<String>,
    ) -> Result<Vec<(String, Option<Variable>)>, TerminalError<VariablesError>> {
        let mut variables: Vec<(String, Option<Variable>)> =
            self.ask_to(TerminalRequest::Variables(names.clone())).await?;
        variables.retain(|(name, _)| names.contains(name));
        match variables.len() <= names.len() {
            true => Ok(variables),
            false => Err(self.keeper.implausible("more variables than were requested").into()),
        }
    }

    /// Sets variables of its shell, see [`steplatch_terminal::Terminal::set_variables`].
    ///
    /// # Errors
    /// If the shell did not set them, or there is no such terminal.
    #[boxed]
    pub async fn set_variables(
        &self,
        values: Vec<(String, String)>,
        export: bool,
    ) -> Result<(), TerminalError<VariablesError>> {
        self.ask_to(TerminalRequest::SetVariables(values, export)).await
    }

    /// Waits until the program takes input.
    ///
    /// # Errors
    /// If there is no such terminal.
    #[boxed]
    pub async fn ready(&self, quiet: Quiet, timeout: Duration) -> Result<View, AskError> {
        Ok(self.with_recorded_name(self.ask(TerminalRequest::Ready(quiet, timeout)).await?))
    }

    /// Returns the current screen and state.
    ///
    /// # Errors
    /// If there is no such terminal.
    #[boxed]
    pub async fn view(&self, with_colours: bool) -> Result<View, AskError> {
        let view = match with_colours {
            true => self.ask::<ColouredView>(TerminalRequest::View(true)).await?.0,
            false => self.ask(TerminalRequest::View(false)).await?,
        };
        Ok(self.with_recorded_name(view))
    }

    /// Returns the current cells of the screen, with their colours. Check the size first: a frame cannot hold a million
    /// cells of different colours.
    ///
    /// # Errors
    /// If there is no such terminal.
    #[boxed]
    pub async fn picture(&self) -> Result<Picture, AskError> {
        self.ask(TerminalRequest::Picture).await
    }

    /// Returns the cells of at most `max_rows` rows of the scrollback, followed by the cells of the screen.
    ///
    /// # Errors
    /// If the terminal has closed, or its host is of an older version.
    #[boxed]
    pub async fn scrollback(&self, max_rows: usize) -> Result<Picture, AskError> {
        let picture: Picture = self.ask(TerminalRequest::Scrollback(max_rows)).await?;
        match picture.rows.len() <= max_rows.saturating_add(usize::from(*Size::BOUNDS.end())) {
            true => Ok(picture),
            false => Err(self.keeper.implausible("more rows than were requested")),
        }
    }

    /// Returns the entries of the log of inputs starting at this number, oldest first.
    ///
    /// # Errors
    /// If the terminal has closed, or its host is of an older version.
    #[boxed]
    pub async fn inputs(&self, from: u64) -> Result<Vec<LoggedInput>, AskError> {
        self.ask(TerminalRequest::Inputs(from)).await
    }

    /// Returns the recording of the recent output.
    ///
    /// # Errors
    /// If the terminal has closed, or its host is of an older version.
    pub async fn recording(&self) -> Result<OutputRecording, AskError> {
        self.ask(TerminalRequest::Recording).await
    }

    /// Returns the output in each range of offsets, cut in the middle to at most `max_chars` characters.
    ///
    /// # Errors
    /// If the terminal has closed, or its host is of an older version.
    #[boxed]
    pub async fn pieces(&self, ranges: Vec<(u64, u64)>, max_chars: usize) -> Result<Vec<String>, AskError> {
        let expected = ranges.len();
        let pieces: Vec<String> = self.ask(TerminalRequest::Pieces(ranges, max_chars)).await?;
        match pieces.len() == expected {
            true => Ok(pieces),
            false => Err(self.keeper.implausible("more or fewer texts than were requested")),
        }
    }

    /// Returns the screen once it differs from the known version, or immediately without a known version. Hosts of
    /// older versions do not understand this request.
    ///
    /// # Errors
    /// If there is no such terminal, or it closes in the meantime.
    #[boxed]
    pub async fn watch_screen(&self, known: Option<u64>) -> Result<ScreenUpdate, AskError> {
        self.ask(TerminalRequest::WatchScreen(known)).await
    }

    /// Returns the rows of the screen that differ from the known version, once there are any; all rows at once if
    /// `known` is `None`. Hosts of older versions do not understand this request.
    ///
    /// # Errors
    /// If there is no such terminal, or it closes in the meantime.
    #[boxed]
    pub async fn watch_rows(&self, known: Option<u64>) -> Result<ScreenDelta, AskError> {
        self.ask(TerminalRequest::WatchRows(known)).await
    }

    /// Returns a part of the output.
    ///
    /// # Errors
    /// If there is no such terminal.
    #[boxed]
    pub async fn read(&self, part: Part, limit: Limit) -> Result<Excerpt, AskError> {
        self.ask(TerminalRequest::Read(part, limit)).await
    }

    /// Returns the state of the terminal without its screen.
    ///
    /// # Errors
    /// If there is no such terminal.
    #[boxed]
    pub async fn describe(&self) -> Result<Description, AskError> {
        let described = self.ask(TerminalRequest::Describe).await?;
        Ok(match &self.recorded {
            Some(recorded) => as_requested(recorded, described),
            None => described,
        })
    }

    /// Changes the size.
    ///
    /// # Errors
    /// If there is no such terminal.
    #[boxed]
    pub async fn resize(&self, size: Size) -> Result<(), AskError> {
        self.ask(TerminalRequest::Resize(size)).await
    }

    /// Sends a signal to the foreground program.
    ///
    /// # Errors
    /// If the program has ended, or there is no such terminal.
    #[boxed]
    pub async fn signal(&self, signal: Signal) -> Result<(), SignalError> {
        let sent: Result<(), Option<Exit>> = self.ask(TerminalRequest::Signal(signal.as_raw())).await?;
        sent.map_err(SignalError::Ended)
    }

    /// Attaches to the terminal: returns its current screen and its later output.
    ///
    /// # Errors
    /// If there is no such terminal.
    #[boxed]
    pub async fn attach(&self) -> Result<Attached, AskError> {
        let ask = HostRequest::Terminal(self.id.clone(), TerminalRequest::Attach);
        let host = match &self.keeper {
            Keeper::Local(host) => host.clone(),
            Keeper::Remote(remote) => remote.wait_until_connected(self.connect_timeout).await?,
        };
        let (reply, events) = match &self.keeper {
            Keeper::Local(_) => host.subscribe::<AttachReply, _>(&ask).await?,
            Keeper::Remote(remote) => {
                let subscribed = tokio::select! {
                    subscribed = host.subscribe::<AttachReply, _>(&ask) => subscribed?,
                    () = wait_for_silence(remote, &host, &ask) => return Err(remote.silent_error()),
                };
                (subscribed.0.checked().map_err(|what| remote.implausible(what))?, subscribed.1)
            }
        };
        let filter = matches!(self.keeper, Keeper::Remote(_)).then(QueryFilter::drawing_only);
        let mut attached =
            Attached { snapshot: reply.snapshot, size: reply.size, events, terminal: self.clone(), filter };
        let snapshot = std::mem::take(&mut attached.snapshot);
        attached.snapshot = attached.filtered_screen(snapshot);
        Ok(attached)
    }

    /// Takes the writer's seat, see [`steplatch_terminal::Terminal::hold`].
    ///
    /// # Errors
    /// If a client holds it, or there is no such terminal.
    #[boxed]
    pub async fn hold(&self, holder: LockHolder, key: HoldKey) -> Result<(), TerminalError<LockHolder>> {
        self.ask_to(TerminalRequest::Hold(holder, key)).await
    }

    /// Gives the writer's seat back.
    ///
    /// # Errors
    /// If there is no such terminal.
    #[boxed]
    pub async fn give_back(&self, key: HoldKey) -> Result<(), AskError> {
        self.ask(TerminalRequest::GiveBack(key)).await
    }

    /// Gives the writer's seat back, with a note to the next client that types. A host of an older version drops the
    /// note.
    ///
    /// # Errors
    /// If there is no such terminal.
    #[boxed]
    pub async fn hand_back(&self, key: HoldKey, note: String) -> Result<(), AskError> {
        match self.ask(TerminalRequest::HandBack(key.clone(), note)).await {
            Err(AskError::Refused(Refusal::NotUnderstood)) => self.give_back(key).await,
            answer => answer,
        }
    }

    /// Returns the client that held the terminal and gave it back since the last call, if any.
    ///
    /// # Errors
    /// If there is no such terminal.
    #[boxed]
    pub async fn handed_back(&self) -> Result<Option<Handover>, AskError> {
        self.ask(TerminalRequest::HandedBack).await
    }

    /// Returns the progress of the input of a step, or `None` if the input was never accepted.
    ///
    /// # Errors
    /// If there is no such terminal.
    #[boxed]
    pub async fn stage(&self, step: &str) -> Result<Option<Stage>, AskError> {
        self.ask(TerminalRequest::Stage(step.to_owned())).await
    }

    /// Records the state of the terminal for a gate, see [`steplatch_terminal::Terminal::record_state`].
    ///
    /// # Errors
    /// If there is no such terminal, or its host is of an older version.
    #[boxed]
    pub async fn record_state(&self, gate: String) -> Result<NotedState, AskError> {
        self.ask(TerminalRequest::NoteState(gate)).await
    }

    /// Checks that the state has not changed since it was recorded for a gate.
    ///
    /// # Errors
    /// If the state has changed, or there is no such terminal.
    #[boxed]
    pub async fn check_state(&self, gate: String) -> Result<(), TerminalError<String>> {
        let checked: Result<(), StateChange> = self.ask(TerminalRequest::CheckState(gate)).await?;
        checked.map_err(|StateChange(what)| TerminalError::Refused(what))
    }

    /// Ends everything in the terminal and closes it.
    ///
    /// # Errors
    /// If there is no such terminal.
    #[boxed]
    pub async fn close(&self, closing: Closing) -> Result<Closed, AskError> {
        self.ask(TerminalRequest::Close(closing.signal.map(Signal::as_raw))).await
    }

    /// Closes the terminal as an effect of a step: a repeated request returns the first result. A host of an older
    /// version does not record the step.
    ///
    /// # Errors
    /// If there is no such terminal, and the step has closed none.
    #[boxed]
    pub async fn close_once(&self, closing: Closing, step: String) -> Result<Closed, AskError> {
        let signal = closing.signal.map(Signal::as_raw);
        match self.ask(TerminalRequest::CloseOnce(signal, step)).await {
            Err(AskError::Refused(Refusal::NotUnderstood)) => self.close(closing).await,
            closed => closed,
        }
    }
}

/// First screen of a viewer, and its later events.
#[derive(Debug)]
pub struct Attached {
    /// Escape sequences that show the current screen.
    pub snapshot: String,
    /// The size of the screen.
    pub size: Size,
    events: Events<AttachEvent>,
    terminal: HostedTerminal,
    /// Removes queries, titles and similar sequences from remote output, because the remote host may not filter them.
    filter: Option<QueryFilter>,
}

impl Attached {
    /// Returns the next event; `None` once the host has ended. A slow viewer receives the whole screen instead.
    #[boxed]
    pub async fn next(&mut self) -> Option<AttachEvent> {
        while let Some(event) = self.events.next().await {
            match (event, &mut self.filter) {
                (AttachEvent::Bytes(bytes), Some(filter)) => match filter.pass(&bytes) {
                    passed if passed.is_empty() => {}
                    passed => return Some(AttachEvent::Bytes(passed)),
                },
                (AttachEvent::Redrawn(screen), Some(_)) => {
                    return Some(AttachEvent::Redrawn(self.filtered_screen(screen)));
                }
                (AttachEvent::Resized(size), Some(_)) if size.checked().is_none() => {
                    // Not a warning: the remote machine could fill the log.
                    tracing::debug!(terminal = %self.terminal.id, ?size, "a remote host reports an impossible size");
                }
                (event, _) => return Some(event),
            }
        }
        match self.terminal.attach().await {
            Ok(attached) => {
                (self.events, self.filter) = (attached.events, attached.filter);
                Some(AttachEvent::Redrawn(attached.snapshot))
            }
            Err(AskError::Refused(_)) => Some(AttachEvent::Closed),
            Err(_) => None,
        }
    }

    /// Filters a whole screen. The filter then starts again for the output after it.
    fn filtered_screen(&mut self, screen: String) -> String {
        let Some(filter) = &mut self.filter else { return screen };
        filter.reset();
        let passed = filter.pass(screen.as_bytes());
        filter.reset();
        String::from_utf8_lossy(&passed).into_owned()
    }
}
