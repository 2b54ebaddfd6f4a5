//! Terminal sessions: the terminals of the public interface.
//!
//! Owns the terminal hosts of a daemon and the reading state of its clients. Cheap clones of [`Sessions`] serve
//! requests of clients and steps of runs. A step has its effect only once, even if it is repeated.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use steplatch_access::{Caller, Redactor, hideable_lines, is_short_word};
use steplatch_clock as clock;
use steplatch_host::{
    AskError, CLIENT_CONNECT_TIMEOUT, HostStatus, HostedTerminal, Hosts, ListedTerminal, LostHost, PlacePolicy,
    RUN_CONNECT_TIMEOUT, Refusal, RemotePlace, SendError,
};
use steplatch_ids::{RunId, TerminalId};
use steplatch_picture::TooLarge;
use steplatch_protocol::{
    AbsenceInfo, AgentActivity, ContentMode, CursorPosition, ExitTerminal, ExitTerminalReply, GetScreenContent,
    GetScreenContentReply, HighlightInfo, ListTerminalSessionsReply, MouseAction, MouseEvent, OmittedOutput,
    OpenTerminal, OpenTerminalReply, ResizeTerminal, ResizeTerminalReply, ScreenFormat, ScreenMode, SendInput,
    SendInputReply, SendSignal, SendSignalReply, SessionInfo, Survivor, TypedInput, WriteTerminal, WriteTerminalReply,
};
use steplatch_terminal::{
    Closing, Description, Excerpt, Handover, Highlight, HoldKey, Input, InputError, Limit,
    MouseAction as TerminalMouseAction, MouseInput, Part, Picture, Quiet, SecretText, Settle, Size, Spec, View,
    highlights, highlights_in_place,
};
use tokio::sync::watch;

use crate::command_policy::CommandPolicy;
use crate::ending::ShutdownMode;
use crate::error::{LookupError, PaintError, SessionError, describe_holder};
use crate::held_terminals::{HeldTerminals, TerminalKey};
use crate::readers::Readers;
use crate::search::{MAX_MATCHES, search};
use crate::secret_requests::SecretRequests;
use crate::signals::signal_named;
use crate::wait_request::{input_wait, wait_request};

/// The terminals of a daemon, as sessions. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Sessions {
    pub(crate) hosts: Hosts,
    pub(crate) secrets: Arc<Redactor>,
    held: Arc<HeldTerminals>,
    pub(crate) policy: Arc<dyn CommandPolicy>,
    /// Reading state of each client.
    pub(crate) readers: Arc<Readers>,
    /// Shutdown mode, once the daemon ends.
    pub(crate) ending: watch::Receiver<Option<ShutdownMode>>,
    pub(crate) secret_requests: SecretRequests,
    /// Directories of this installation. File requests neither read nor write there.
    pub(crate) private: Arc<[PathBuf]>,
}

/// Error of a wait for the prompt, if the shell ran nothing of the typed line.
pub(crate) const RAN_NOTHING: &str = "the shell ran nothing of the typed line: it did not understand it, or a word of its history that \
     the line names does not exist; the screen has its message";

/// Interval of the requests to close a terminal while its host does not answer, without a new connection.
const EXIT_RETRY_PAUSE: Duration = Duration::from_secs(15);

/// The name of this computer among the hosts.
pub(crate) const THIS_MACHINE: &str = "local";

/// Maximum wait of a run for a free terminal. The time limit of the run's state may end the wait earlier.
const PLACE_TIMEOUT: Duration = Duration::from_secs(300);

/// Maximum wait for the first prompt of a new terminal.
const FIRST_PROMPT_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum silence of a starting shell with prompt integration. A longer silence means that the integration does not
/// work.
const SILENT_SHELL_TIMEOUT: Duration = Duration::from_secs(3);

/// Minimum silence of a ready program without prompt integration, after its first output.
const READY_AFTER_OUTPUT: Duration = Duration::from_millis(30);

/// Timeout for the first output of a program without prompt integration. A program without output is then considered
/// ready.
const READY_WITHOUT_OUTPUT: Duration = Duration::from_millis(250);

/// Minimum silence before the reply to an input. The next prompt ends the wait earlier.
const INPUT_QUIET_TIME: Duration = Duration::from_millis(10);

/// Maximum time before the reply to an input.
const MAX_SETTLE_TIME: Duration = Duration::from_millis(50);

/// Maximum wait for quiet that an input may request.
const MAX_QUIET_WAIT: Duration = Duration::from_secs(30);

/// The default number of characters in a reply to a client.
pub(crate) const DEFAULT_REPLY_CHARS: usize = 10_000;

/// Maximum length of a text that a step of a run returns, unless its `limit` overrides it. A longer text fails the step
/// instead of being cut, because later steps compute with it.
pub(crate) const MAX_VALUE_BYTES: usize = 1 << 20;

/// The default number of lines of a tail.
const DEFAULT_TAIL_LINES: u32 = 50;

impl Sessions {
    /// Creates the sessions of these hosts. Adds text typed as a secret to `secrets`. File requests do not access the
    /// directories `private`.
    pub fn new(
        hosts: Hosts,
        secrets: Arc<Redactor>,
        policy: Arc<dyn CommandPolicy>,
        ending: watch::Receiver<Option<ShutdownMode>>,
        private: impl IntoIterator<Item = PathBuf>,
    ) -> Self {
        let real = |path: PathBuf| std::fs::canonicalize(&path).unwrap_or(path);
        let private = private.into_iter().map(real).collect();
        Self {
            hosts,
            secrets,
            policy,
            held: Arc::default(),
            readers: Arc::default(),
            secret_requests: SecretRequests::default(),
            ending,
            private,
        }
    }

    /// Returns whether the next daemon takes over the terminals and the interrupted work of their clients.
    pub(crate) fn is_leaving_all(&self) -> bool {
        self.ending.borrow().is_some_and(ShutdownMode::keeps_terminals)
    }

    /// Returns the terminals that runs hold while their gates are open.
    pub fn held(&self) -> &HeldTerminals {
        &self.held
    }

    /// Returns the state of the terminal hosts.
    #[boxed]
    pub async fn hosts(&self) -> Vec<HostStatus> {
        self.hosts.status().await
    }

    /// Returns whether a terminal host may have lost the result of a step of the last daemon.
    pub fn is_in_doubt(&self, step: &str) -> bool {
        self.hosts.is_in_doubt(step)
    }

    /// Records that an earlier daemon may have begun a step. If its terminal host does not answer, the outcome is
    /// unknown.
    pub fn record_repeated(&self, step: &str) {
        self.hosts.record_repeated(step);
    }

    /// Undoes [`Self::record_repeated`] for a step of a client. For a step of a run, settling has the same effect.
    pub fn forget_repeated(&self, step: &str) {
        self.hosts.forget_repeated(step);
    }

    /// Returns whether a terminal host has been silent since the start of this daemon.
    pub fn has_silent_host(&self) -> bool {
        self.hosts.silent_pid().is_some()
    }

    /// Waits until each silent terminal host has answered or ended, if a silent host may have begun the step of an
    /// action or may have its session. An empty `session` matches no terminal.
    #[boxed]
    pub async fn await_silent_hosts(&self, session: &str, is_repeated: bool) {
        let may_have_session =
            async || !session.is_empty() && matches!(self.hosts.get(session).await, Err(AskError::HostSilent { .. }));
        if is_repeated || may_have_session().await {
            self.hosts.await_silent().await;
        }
    }

    pub(crate) fn is_repeated(&self, step: Option<&str>) -> bool {
        step.is_some_and(|step| self.hosts.is_repeated(step))
    }

    /// Records the pending steps of the last daemon's runs. These steps are in doubt if a terminal host has ended
    /// since. `are_all` is true if there are no other pending steps.
    pub fn mark_uncertain(&self, pending: BTreeSet<String>, are_all: bool) {
        self.hosts.mark_uncertain(pending, are_all);
    }

    /// Closes every terminal and ends the hosts.
    #[boxed]
    pub async fn close_all(&self) {
        self.hosts.shut_down().await;
    }

    /// Finds a session. Its terminal may have ended.
    pub(crate) async fn find(&self, session: &str) -> Result<HostedTerminal, SessionError> {
        if session.is_empty() {
            return Err(SessionError::Message(LookupError::Unnamed.to_string()));
        }
        self.hosts.get(session).await?.ok_or(SessionError::HostRequest(AskError::Refused(Refusal::NoTerminal)))
    }

    /// Checks that a session exists and that its terminal answers.
    ///
    /// # Errors
    /// If there is no such session, or its host does not answer.
    #[boxed]
    pub async fn exists(&self, session: &str) -> Result<(), LookupError> {
        let described = match self.hosts.get(session).await {
            Ok(Some(terminal)) => terminal.describe().await.map(drop),
            Ok(None) => Err(AskError::Refused(Refusal::NoTerminal)),
            Err(error) => Err(error),
        };
        match described {
            Ok(()) => Ok(()),
            Err(AskError::Refused(Refusal::NoTerminal)) => Err(self.not_found(session).await),
            Err(error) => Err(LookupError::Host(error)),
        }
    }

    /// Describes an error of `session` and its remedy in a whole sentence.
    pub(super) async fn describe_error(&self, session: &str, error: SessionError) -> String {
        match error {
            SessionError::Message(words) | SessionError::NotAsked(words) | SessionError::InDoubt(words) => words,
            SessionError::HostRequest(AskError::Refused(Refusal::NoTerminal)) => {
                self.not_found(session).await.to_string()
            }
            SessionError::HostRequest(error) => error.to_string(),
        }
    }

    /// Returns the reason for the absence of a session.
    pub(crate) async fn not_found(&self, session: &str) -> LookupError {
        if session.is_empty() {
            return LookupError::Unnamed;
        }
        if let Some(LostHost { pid, machine }) = self.hosts.lost_host(session) {
            return LookupError::Lost { session: session.to_owned(), pid, machine };
        }
        let open = self
            .list()
            .await
            .sessions
            .into_iter()
            .map(|session| match session.name {
                Some(name) => format!("{} ({name})", session.session_id),
                None => session.session_id,
            })
            .collect();
        LookupError::NotFound { session: session.chars().take(80).collect(), open }
    }

    /// Opens a terminal, only once for the same `step`. A run waits for a free slot, so that a temporary shortage does
    /// not fail durable work.
    #[boxed]
    pub async fn open(&self, caller: &Arc<Caller>, verb: OpenTerminal, step: Option<String>) -> OpenTerminalReply {
        let place = if caller.run.is_some() { PlacePolicy::Within(PLACE_TIMEOUT) } else { PlacePolicy::AtOnce };
        self.open_at(caller, verb, step, place).await
    }

    /// Opens a terminal with the slot policy `place`, only once for the same `step`.
    #[boxed]
    pub async fn open_at(
        &self,
        caller: &Arc<Caller>,
        verb: OpenTerminal,
        step: Option<String>,
        place: PlacePolicy,
    ) -> OpenTerminalReply {
        let is_repeated = self.is_repeated(step.as_deref());
        if verb.reuse {
            match self.find_reusable(caller, &verb).await {
                Ok(Some(reply)) => return reply,
                Ok(None) => {}
                Err(error) => {
                    let error = Some(self.describe_error("", error).await);
                    return OpenTerminalReply { error, ..OpenTerminalReply::default() };
                }
            }
        }
        match self.try_open(caller, verb.clone(), step, place).await {
            Ok((_, reply)) => reply,
            Err(error) => {
                // Another client may have opened it in the meantime.
                if verb.reuse
                    && let Ok(Some(reply)) = self.find_reusable(caller, &verb).await
                {
                    return reply;
                }
                let outcome_unknown = error.outcome_unknown(is_repeated);
                let error = Some(self.describe_error("", error).await);
                OpenTerminalReply { error, outcome_unknown, ..OpenTerminalReply::default() }
            }
        }
    }

    /// Opens a terminal with the slot policy `place`.
    pub(crate) async fn try_open(
        &self,
        caller: &Arc<Caller>,
        verb: OpenTerminal,
        step: Option<String>,
        place: PlacePolicy,
    ) -> Result<(HostedTerminal, OpenTerminalReply), SessionError> {
        let arguments = match verb.command {
            Some(command) if command.is_empty() => return Err("command is empty: name a program".to_owned().into()),
            Some(command) => command,
            None => shell_words::split(&verb.shell)
                .map_err(|error| format!("shell '{}' cannot be split into words: {error}", verb.shell))?,
        };
        if arguments.is_empty() {
            return Err("shell is empty: name one, such as bash".to_owned().into());
        }
        let size = Size { cols: verb.cols, rows: verb.rows }
            .checked()
            .ok_or_else(|| format!("a terminal has 2 to 1000 columns and rows, not {} by {}", verb.cols, verb.rows))?;
        let environment: Vec<(OsString, OsString)> =
            verb.environment.unwrap_or_default().into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        if let Some((key, _)) = environment.iter().find(|(key, value)| !is_valid_variable(key, value)) {
            return Err(format!("'{}' cannot be an environment variable", key.to_string_lossy()).into());
        }
        if arguments.iter().any(|argument| argument.contains('\0')) {
            return Err("a command cannot contain a NUL character".to_owned().into());
        }
        if let Some(name) = &verb.name {
            if name.trim().is_empty() || name.chars().count() > 64 || name.chars().any(char::is_control) {
                return Err("a name has 1 to 64 characters, and no control characters".to_owned().into());
            }
            if name.parse::<TerminalId>().is_ok() {
                return Err(format!("the name '{name}' looks like a session_id; choose another one").into());
            }
        }
        let host = verb.host.filter(|host| host != THIS_MACHINE);
        if let Some(host) = &host {
            self.check_pinned(caller, host).await?;
        }
        let directory = match (host.is_some(), verb.working_directory) {
            // The remote host resolves the path.
            (true, requested) => requested.unwrap_or_default().into(),
            (false, None) => caller.directory.clone(),
            (false, Some(requested)) => caller.directory.join(expand_home(&requested, caller)),
        };
        let command = shell_words::join(&arguments);
        let spec = Spec {
            arguments: arguments.into_iter().map(OsString::from).collect(),
            command: command.clone(),
            directory,
            inherited: caller.environment.to_vec(),
            environment,
            size,
            name: verb.name,
            opened_by: describe_opener(caller).await,
            step: step.clone(),
        };
        let opened = self.hosts.open_on(spec, host.as_deref(), connect_timeout(caller), place).await;
        let has_requested = || step.as_deref().is_some_and(|step| self.hosts.has_requested_opening(step));
        let (terminal, opened) = opened.map_err(|error| match SessionError::from(error) {
            // An earlier connection may have delivered the request.
            error if has_requested() => error.in_doubt(),
            error => error,
        })?;
        let view = if verb.wait_ready {
            let quiet = if opened.integrated {
                Quiet::for_duration(SILENT_SHELL_TIMEOUT)
            } else {
                Quiet { after_output: READY_AFTER_OUTPUT, without_output: READY_WITHOUT_OUTPUT }
            };
            terminal.ready(quiet, FIRST_PROMPT_TIMEOUT).await
        } else {
            terminal.view(false).await
        };
        let view = match view {
            Ok(view) => Some(view),
            // The step opened the terminal earlier, and it has closed since.
            Err(AskError::Refused(Refusal::NoTerminal)) if step.is_some() => None,
            Err(error) if error.is_outcome_unknown() => return Err(SessionError::HostRequest(error)),
            // The terminal is open; its screen is available once its host reconnects or reads again.
            Err(AskError::NotConnected { .. } | AskError::NotReading { .. }) => None,
            // The terminal may have just closed. Do not report this as a missing session_id.
            Err(error) => return Err(SessionError::Message(error.to_string())),
        };
        let size = view.as_ref().map(|view| view.size);
        let screen_content = view.map(|view| self.secrets.within(terminal.id()).masked_screen(view.screen));
        let reply = OpenTerminalReply {
            success: true,
            session_id: terminal.id().to_string(),
            shell: command,
            web_url: self.policy.page().map(|page| terminal_url(&page, terminal.id())),
            screen_content,
            timestamp: Some(clock::now_iso8601()),
            error: None,
            outcome_unknown: None,
            pid: Some(opened.pid),
            cols: size.map(|size| size.cols),
            rows: size.map(|size| size.rows),
            reused: None,
        };
        Ok((terminal, reply))
    }

    /// Records that the runs have stored or abandoned the results of `steps`: one step, or a prefix that ends with `/`.
    /// The terminal hosts then discard the results and close the shells of single commands. Does not wait for them.
    pub fn settle(&self, steps: &str) {
        self.hosts.settle(steps);
    }

    /// Abandons a step of a client and cancels the part of it that has not begun.
    pub fn give_up(&self, step: &str) {
        self.hosts.give_up(step);
    }

    /// Returns the steps of runs whose results the terminal hosts store. Skips the connections in `queried`, and adds
    /// the remaining connections to `queried`.
    #[boxed]
    pub async fn unsettled(&self, queried: &mut BTreeSet<u64>) -> Vec<String> {
        self.hosts.unsettled(queried).await
    }

    /// Returns a future that ends once another terminal host may have connected after this call.
    pub fn hosts_changed(&self) -> impl Future<Output = ()> + Send + use<> {
        self.hosts.changed()
    }

    /// Returns the session that a step opened. Prevents the step from opening a session later.
    ///
    /// # Errors
    /// If a host that may know the step does not answer.
    #[boxed]
    pub async fn opened_by(&self, step: &str) -> Result<Option<String>, AskError> {
        // Abandon the step first, so that an opening stops waiting for a free place.
        self.give_up(step);
        Ok(self.hosts.opened_by(step).await?.map(|terminal| terminal.id().to_string()))
    }

    /// Closes the terminal that a step opened, if it still exists and no person holds it. If its host does not answer,
    /// a separate task retries until the host answers or this daemon ends; the next daemon looks for such terminals.
    #[boxed]
    pub async fn exit_opened_by(&self, caller: &Caller, step: &str) {
        let Err(error) = self.try_exit_opened_by(caller, step).await else { return };
        tracing::warn!(%error, step, "a terminal that a step may have opened stays open until its host answers");
        let (sessions, caller, step) = (self.clone(), caller.clone(), step.to_owned());
        let mut ending = self.ending.clone();
        let retrying = async move {
            loop {
                // Ignore the error, because the time has passed without a new connection.
                let _ = tokio::time::timeout(EXIT_RETRY_PAUSE, sessions.hosts_changed()).await;
                if sessions.try_exit_opened_by(&caller, &step).await.is_ok() {
                    return;
                }
            }
        };
        tokio::spawn(async move {
            tokio::select! {
                () = retrying => {}
                _ = ending.wait_for(Option::is_some) => {}
            }
        });
    }

    /// # Errors
    /// If a host that may know the step does not answer.
    async fn try_exit_opened_by(&self, caller: &Caller, step: &str) -> Result<(), AskError> {
        if let Some(session_id) = self.opened_by(step).await? {
            self.exit(caller, ExitTerminal { session_id, ..ExitTerminal::default() }).await;
        }
        Ok(())
    }

    /// Types input, only once for the same `step`.
    #[boxed]
    pub async fn send(&self, caller: &Caller, verb: SendInput, step: Option<String>) -> SendInputReply {
        let session_id = verb.session_id.clone();
        let is_repeated = self.is_repeated(step.as_deref());
        match self.try_send(caller, verb, step).await {
            Ok(reply) => reply,
            Err(error) => {
                let outcome_unknown = error.outcome_unknown(is_repeated);
                let error = Some(self.describe_error(&session_id, error).await);
                let message = "Input not sent".to_owned();
                SendInputReply { session_id, message, error, outcome_unknown, ..SendInputReply::default() }
            }
        }
    }

    /// Hides secrets in an error that has a text of the screen.
    fn masked_send_error(&self, terminal: &HostedTerminal, error: SendError) -> SessionError {
        match error {
            SendError::Input(InputError::Pointer(error)) => {
                SessionError::Message(self.secrets.within(terminal.id()).masked_fragment(error.to_string()))
            }
            error => error.into(),
        }
    }

    /// Makes every terminal host hide these texts, for later daemons too.
    #[boxed]
    pub async fn remember_secrets(&self, secrets: &[String]) {
        let secrets: Vec<_> = secrets.iter().map(|text| SecretText { terminal: None, text: text.clone() }).collect();
        self.hosts.remember(&secrets).await;
    }

    /// Returns whether the shell of a terminal is at its prompt.
    #[boxed]
    pub async fn is_at_shell_prompt(&self, session: &str) -> bool {
        let Ok(terminal) = self.find(session).await else { return false };
        terminal.describe().await.is_ok_and(|described| is_at_prompt(&described))
    }

    /// Hides secrets that are about to be typed into a terminal, or used in a new one, also in the next daemon.
    #[boxed]
    pub async fn hide_named_secrets(&self, session: Option<&str>, secrets: &[String]) {
        let terminal = match session {
            Some(session) => self.find(session).await.ok(),
            None => None,
        };
        for text in secrets {
            let secret = SecretText { terminal: None, text: text.clone() };
            if let Some(terminal) = &terminal {
                terminal.remember_elsewhere(&secret).await;
            }
        }
        self.remember_secrets(secrets).await;
    }

    /// Hides a secret that is about to be typed into a terminal, also in the next daemon of these terminals. A remote host
    /// receives only the secrets that are typed there.
    pub(crate) async fn remember_typed_secret(
        &self,
        terminal: &HostedTerminal,
        text: &str,
    ) -> Result<(), SessionError> {
        self.secrets.add_typed(text).map_err(|error| error.to_string())?;
        let secret = SecretText { terminal: None, text: text.to_owned() };
        tokio::join!(terminal.remember_elsewhere(&secret), self.hosts.remember(std::slice::from_ref(&secret)));
        Ok(())
    }

    async fn try_send(
        &self,
        caller: &Caller,
        verb: SendInput,
        step: Option<String>,
    ) -> Result<SendInputReply, SessionError> {
        let has_keys = verb.keys.as_ref().is_some_and(|keys| !keys.is_empty());
        let keys = match &verb.mouse {
            None if verb.input_text.is_empty() && !has_keys => {
                return Err("nothing to send: give input_text, keys or mouse".to_owned().into());
            }
            None => verb.keys.clone().unwrap_or_default(),
            Some(gesture) => {
                let actions = gesture.key_names().map_err(|error| error.to_string())?;
                verb.keys.clone().unwrap_or_default().into_iter().chain(actions).collect()
            }
        };
        let wait = input_wait(&verb)?;
        let wait = wait.map(|wait| wait_request(caller, &wait)).transpose()?;
        let (terminal, key) = self.find_for_input_with_key(caller, &verb.session_id).await?;
        if verb.secret && caller.run.is_none() {
            refuse_at_shell_prompt(&terminal, &verb.input_text).await?;
        }
        if verb.secret {
            self.remember_typed_secret(&terminal, &verb.input_text).await?;
        }
        let settle = match verb.wait_for_quiet_ms {
            _ if wait.is_some() => None,
            None => Some(Settle { quiet: INPUT_QUIET_TIME, timeout: MAX_SETTLE_TIME }),
            Some(0) => None,
            Some(milliseconds) => {
                Some(Settle { quiet: Duration::from_millis(milliseconds.into()), timeout: MAX_QUIET_WAIT })
            }
        };
        let run = self.approved_run(caller, key.as_ref());
        let (by, secret) = (caller.label(), verb.secret);
        // The wait returns its final view.
        let without_view = wait.is_some();
        let input = Input {
            text: verb.input_text,
            keys,
            settle,
            step,
            run,
            by,
            secret,
            without_view,
            approved_at: caller.approved_at.clone(),
            ..Input::default()
        };
        let bytes = input.text.len() + input.keys.len();
        let lines = input.text.ends_with('\n') && !secret;
        let typed_line = input.text.lines().rev().find(|line| lines && !line.trim().is_empty()).map(str::to_owned);
        let warning = secret.then(|| secret_warning(&input.text)).flatten();
        let sent = terminal.send(input).await.map_err(|error| self.masked_send_error(&terminal, error))?;
        self.record_typed(caller, &terminal, sent.offset, typed_line);
        self.count_input(caller, key.as_ref(), bytes).await;
        let result = match (wait, sent.view) {
            // The wait searches starting at the input, so that it misses no output in the meantime.
            (Some(wait), _) => {
                let waited = self.wait_after_input(caller, &terminal, wait, (sent.offset, sent.line)).await;
                waited.map(|(view, waited)| (view, Some(waited)))
            }
            (None, Some(view)) => Ok((view, None)),
            (None, None) => terminal.view(false).await.map(|view| (view, None)).map_err(SessionError::from),
        };
        let (view, waited) = match result {
            Ok(result) => result,
            // The terminal has closed, or its host has ended. The input was typed nevertheless.
            Err(error) => {
                let reason = self.describe_error(terminal.id().as_str(), error).await;
                return Ok(SendInputReply {
                    session_id: terminal.id().to_string(),
                    message: "Input sent".to_owned(),
                    error: Some(format!("the input was typed, but the wait for its reply failed: {reason}")),
                    warning,
                    ..SendInputReply::default()
                });
            }
        };
        let handed_back = self.take_absence_report(caller, &terminal, &view).await;
        let mode = verb.screen.unwrap_or_default();
        let since = Some((sent.offset, sent.version));
        let share = self.screen_share(caller, &terminal, &view, mode, since).await;
        let secrets = self.secrets.within(terminal.id());
        let View { exit, busy, exit_code, awaiting_input, password, name, typed, .. } = view;
        let ran_nothing = waited.as_ref().is_some_and(|waited| waited.ran_nothing);
        let error = share.incomplete.or_else(|| ran_nothing.then(|| RAN_NOTHING.to_owned()));
        Ok(SendInputReply {
            success: error.is_none(),
            session_id: terminal.id().to_string(),
            message: "Input sent".to_owned(),
            handed_back,
            screen_content: (mode != ScreenMode::None).then_some(share.content),
            omitted: share.omitted,
            timestamp: Some(clock::now_iso8601()),
            process_running: Some(exit.is_none()),
            error,
            outcome_unknown: None,
            name,
            waited,
            screen_part: share.part,
            cursor: share.cursor,
            alternate_screen: share.alternate_screen,
            highlighted: share.highlighted,
            typed: secrets.masked_if(typed),
            offset: Some(sent.offset),
            busy,
            exit_code,
            awaiting_input,
            password,
            warning,
        })
    }

    /// Returns the screen of a terminal, or a part of its history.
    #[boxed]
    pub async fn read(&self, caller: &Caller, mut verb: GetScreenContent) -> GetScreenContentReply {
        // A position or a number of lines is one of the output. Of the screen, it would be ignored in silence.
        if verb.content_mode == ContentMode::Screen && verb.search.is_none() && verb.format == ScreenFormat::Text {
            match (verb.offset, verb.line_count) {
                (Some(_), _) => verb.content_mode = ContentMode::History,
                (None, Some(_)) => verb.content_mode = ContentMode::Tail,
                (None, None) => {}
            }
        }
        self.read_parts(caller, verb, false).await.0
    }

    /// Returns the output since the last input, and the output of its commands without the shell's next prompt. The
    /// output of the commands is `None` if the shell does not report its end.
    #[boxed]
    pub async fn read_since_input(
        &self,
        caller: &Caller,
        session_id: String,
        limit: u32,
    ) -> (GetScreenContentReply, Option<String>) {
        let content_mode = ContentMode::SinceInput;
        let verb = GetScreenContent { session_id, content_mode, limit: Some(limit), ..GetScreenContent::default() };
        self.read_parts(caller, verb, true).await
    }

    /// Reads the terminal. With `with_output`, also returns the output of the commands without the shell's next prompt,
    /// if the end of the output is known.
    async fn read_parts(
        &self,
        caller: &Caller,
        verb: GetScreenContent,
        with_output: bool,
    ) -> (GetScreenContentReply, Option<String>) {
        let session_id = verb.session_id.clone();
        match self.try_read(caller, verb, with_output).await {
            // Fail the step, because a run would compute with an empty string.
            Ok((GetScreenContentReply { screen_content: None, hint: hint @ Some(_), .. }, _))
                if caller.run.is_some() && !with_output =>
            {
                (GetScreenContentReply { session_id, error: hint, ..GetScreenContentReply::default() }, None)
            }
            Ok(parts) => parts,
            Err(error) => {
                let error = Some(self.describe_error(&session_id, error).await);
                (GetScreenContentReply { session_id, error, ..GetScreenContentReply::default() }, None)
            }
        }
    }

    /// Returns the screen of a terminal with masked secrets, for the conditions of a run; `None` if there is no such
    /// terminal. Does not count as a read by a client.
    #[boxed]
    pub async fn screen(&self, session: &str) -> Option<String> {
        let terminal = self.find(session).await.ok()?;
        let view = terminal.view(false).await.ok()?;
        Some(self.secrets.within(terminal.id()).masked_screen(view.screen))
    }

    async fn try_read(
        &self,
        caller: &Caller,
        verb: GetScreenContent,
        with_output: bool,
    ) -> Result<(GetScreenContentReply, Option<String>), SessionError> {
        let format = match verb.format {
            ScreenFormat::Text => None,
            ScreenFormat::Ansi => Some("ansi"),
            ScreenFormat::Html => Some("html"),
            ScreenFormat::Png => Some("png"),
        };
        if let Some(format) = format.filter(|_| verb.content_mode != ContentMode::Screen) {
            return Err(format!("format {format} is for content_mode screen; the output is kept as plain text").into());
        }
        let terminal = self.find(&verb.session_id).await?;
        let view = terminal.view(verb.format == ScreenFormat::Ansi).await?;
        let secrets = self.secrets.within(terminal.id());
        let handed_back = self.take_absence_report(caller, &terminal, &view).await;
        let is_value = caller.run.is_some() && verb.limit.is_none();
        let default_chars = if is_value { MAX_VALUE_BYTES } else { DEFAULT_REPLY_CHARS };
        let max_chars = verb.limit.map_or(default_chars, |limit| limit as usize);
        let results = match &verb.search {
            Some(source) => {
                let offset = verb.offset.unwrap_or(0);
                let matches = if is_value { usize::MAX } else { MAX_MATCHES };
                Some(search(&terminal, &secrets, source, verb.context, offset, max_chars, matches).await?)
            }
            None => None,
        };
        let part = match verb.content_mode {
            ContentMode::Screen => None,
            ContentMode::History => Some(Part::From(verb.offset.unwrap_or(0))),
            ContentMode::SinceInput => Some(Part::SinceInput),
            ContentMode::Tail => Some(Part::Tail(verb.line_count.unwrap_or(DEFAULT_TAIL_LINES) as usize)),
        };
        let (mut omitted, mut output) = (None, None);
        let (content, truncated, next_offset) = match part {
            _ if let Some(results) = &results => {
                let is_held = results.lost_before.is_none();
                omitted = results.lost_before.map(OmittedOutput::lost);
                if caller.run.is_some() && !(is_held && (results.next.is_none() || !is_value)) {
                    let what = "the search result, with its context lines,";
                    return Err(incomplete_text(what, results.lost_before, READ_IN_PARTS_ADVICE).into());
                }
                (None, results.next.is_some(), results.next)
            }
            None if matches!(verb.format, ScreenFormat::Html | ScreenFormat::Png) => (None, false, None),
            None if verb.format == ScreenFormat::Ansi => {
                // Colour sequences may divide a secret. A screen with a secret is returned without colours.
                let plain = terminal.view(false).await?.screen;
                let masked = secrets.masked_screen(plain.clone());
                (Some(if masked == plain { view.screen.clone() } else { masked }), false, None)
            }
            None => (Some(view.screen.clone()), false, None),
            Some(part) => {
                // A client that reads by offset continues with the next page; any other request also returns the end of
                // the output.
                let is_page = verb.offset.is_some();
                let limit = if is_page || is_value { Limit::Head(max_chars) } else { Limit::HeadAndTail(max_chars) };
                let excerpt = terminal.read(part, limit).await?;
                let is_whole = !is_value || excerpt.left_out == 0 && excerpt.head.len() <= MAX_VALUE_BYTES;
                if caller.run.is_some() && !(is_whole && excerpt.dropped_before.is_none()) {
                    return Err(incomplete_text("the output", excerpt.dropped_before, READ_IN_PARTS_ADVICE).into());
                }
                let (truncated, next) = (excerpt.left_out > 0, excerpt.next);
                let command_output = excerpt.command_output.as_ref().filter(|_| with_output);
                let command_output = command_output.and_then(|output| output.text(&excerpt.head));
                output = command_output.map(|text| secrets.masked_screen(text.to_owned()));
                let excerpt = match verb.offset {
                    Some(offset) => mask_divided_secrets(&terminal, &secrets, offset, excerpt).await?,
                    None => excerpt,
                };
                let text;
                (text, omitted) = masked_excerpt(&secrets, excerpt, is_page);
                (Some(text), truncated, Some(next))
            }
        };
        let is_drawn = part.is_some() && results.is_none() && view.modes.alternate_screen;
        // Omit an empty text, because it would look like an empty output.
        let is_missing = is_drawn && part == Some(Part::SinceInput) && omitted.is_none();
        let content = content.filter(|content| !is_missing || !content.trim().is_empty());
        let rendered = match verb.format {
            ScreenFormat::Text | ScreenFormat::Ansi => RenderedScreen::default(),
            ScreenFormat::Html | ScreenFormat::Png => {
                TooLarge::check(view.size.cols, view.size.rows.into()).map_err(PaintError::TooLarge)?;
                let picture = secrets.masked_picture(terminal.picture().await?);
                let picture = if verb.crop { crop_to_used(picture) } else { picture };
                render_screen(picture, verb.format).await?
            }
        };
        let shows_screen = part.is_none() && results.is_none();
        let highlighted = match shows_screen && shows_highlights(&view) && caller.reader().is_some() {
            true => {
                let reading = caller.reader().map(|reader| self.readers.reading(reader, terminal.id()));
                let typed_line = reading.and_then(|reading| reading.typed_line);
                highlighted(&view, &secrets.masked_picture(terminal.picture().await?), typed_line.as_deref())
            }
            false => Vec::new(),
        };
        if shows_screen && verb.format == ScreenFormat::Text {
            let screen = secrets.masked_screen(view.screen.clone());
            self.record_seen(caller, &terminal, &view, &screen, &highlighted);
        }
        let reply = GetScreenContentReply {
            success: true,
            session_id: terminal.id().to_string(),
            process_running: view.exit.is_none(),
            screen_content: content.map(|content| secrets.masked_screen(content)).or(rendered.html),
            omitted,
            hint: is_drawn.then(|| FULL_SCREEN_HINT.to_owned()),
            png: rendered.png,
            handed_back,
            timestamp: Some(clock::now_iso8601()),
            error: None,
            cursor: Some(CursorPosition { row: view.cursor.row, col: view.cursor.col, visible: view.cursor.visible }),
            title: Some(view.title).filter(|title| !title.is_empty()).map(|title| secrets.masked_screen(title)),
            cwd: secrets.masked_if(view.cwd),
            alternate_screen: Some(view.modes.alternate_screen),
            busy: view.busy,
            awaiting_input: view.awaiting_input,
            password: view.password,
            exit_code: view.exit_code,
            truncated,
            next_offset,
            name: view.name,
            matches: results.map(|results| results.matches),
            highlighted,
            typed: secrets.masked_if(view.typed),
        };
        Ok((reply, output))
    }

    /// Lists the terminals.
    #[boxed]
    pub async fn list(&self) -> ListTerminalSessionsReply {
        let page = self.policy.page();
        let sessions = self.hosts.list().await.into_iter().map(|ListedTerminal { description: described, place }| {
            let (host, lost_since) =
                place.map_or((None, None), |RemotePlace { host, lost_since }| (Some(host), lost_since));
            let secrets = self.secrets.within(&described.id);
            SessionInfo {
                session_id: described.id.to_string(),
                command: secrets.masked(described.command),
                state: if described.exit.is_some() { "exited" } else { "active" }.to_owned(),
                created_at: clock::unix_seconds(described.created),
                last_activity: clock::unix_seconds(described.last_activity),
                web_url: page.as_ref().map(|page| terminal_url(page, &described.id)),
                name: described.name,
                title: Some(described.title)
                    .filter(|title| !title.is_empty())
                    .map(|title| secrets.masked_screen(title)),
                cwd: secrets.masked_if(described.cwd),
                busy: described.busy,
                awaiting_input: described.awaiting_input,
                password: described.password,
                password_program: described.password_program,
                secret_request: self.secret_requests.get(described.id.as_str()),
                agent_activity: described.agent.as_ref().and_then(|agent| agent.activity).map(to_agent_activity),
                agent: described.agent.map(|agent| agent.program),
                bell_count: described.bell_count.map_or(0, NonZeroU64::get),
                exit_code: described.exit_code,
                cols: described.size.cols,
                rows: described.size.rows,
                pid: described.pid,
                opened_by: described.opened_by,
                attached: described.viewers,
                held_by: described.holder.map(|holder| holder.name),
                host,
                host_lost_since: lost_since.map(clock::system_iso8601),
            }
        });
        let sessions: Vec<SessionInfo> = sessions.collect();
        ListTerminalSessionsReply {
            success: true,
            total_sessions: sessions.len(),
            sessions,
            hosts: self.remote_hosts(),
        }
    }

    /// Finds a session that accepts input from this caller. While a run holds the session for a gate, the session
    /// accepts input only from that run and from people.
    pub(crate) async fn find_for_input(&self, caller: &Caller, session: &str) -> Result<HostedTerminal, SessionError> {
        Ok(self.find_for_input_with_key(caller, session).await?.0)
    }

    /// Finds a session like [`Self::find_for_input`], with its key for holds by runs, if any run holds a terminal.
    pub(crate) async fn find_for_input_with_key(
        &self,
        caller: &Caller,
        session: &str,
    ) -> Result<(HostedTerminal, Option<TerminalKey>), SessionError> {
        self.check_pinned_terminal(caller, session)?;
        let terminal = self.find(session).await?.with_connect_timeout(connect_timeout(caller));
        if self.held.is_empty() {
            return Ok((terminal, None));
        }
        let key = TerminalKey { id: terminal.id().to_string(), name: terminal.describe().await?.name };
        let is_approved =
            |run: &RunId| caller.approved_at.as_deref().is_some_and(|gate| self.held.is_approved_at(gate, run, &key));
        if let Some(run) = self.held.holder(&key, caller.run.as_ref()).filter(|run| !is_approved(run))
            && (caller.run.is_some() || caller.person_refusal().await.is_some())
        {
            return Err(SessionError::NotAsked(format!(
                "Run {run} waits for a person who judges this terminal, so it takes no input until they have answered \
                 (steplatch gates list); cancel_run ends the run"
            )));
        }
        Ok((terminal, Some(key)))
    }

    /// Returns the run that types, if a person has approved its next action in this terminal.
    fn approved_run(&self, caller: &Caller, terminal: Option<&TerminalKey>) -> Option<String> {
        let run = caller.run.as_ref()?;
        self.held.is_held_by(run, terminal?).then(|| run.to_string())
    }

    /// Counts the input of a person into a terminal that a run holds while its gate is open.
    pub(crate) async fn count_input(&self, caller: &Caller, terminal: Option<&TerminalKey>, bytes: usize) {
        if let Some(key) = terminal.filter(|_| caller.run.is_none())
            && self.held.holder(key, None).is_some()
        {
            let (by, bytes, last_at) = (caller.display_name().await, bytes as u64, clock::now_iso8601());
            self.held.count_input(key, &TypedInput { session_id: key.id.clone(), by, bytes, last_at });
        }
    }

    /// Finds a session that this caller may change. A program may not change a session while a person holds it.
    async fn find_unheld(&self, caller: &Caller, session: &str) -> Result<HostedTerminal, SessionError> {
        let terminal = self.find_for_input(caller, session).await?;
        if caller.person_refusal().await.is_none() {
            return Ok(terminal);
        }
        match terminal.describe().await?.holder {
            None => Ok(terminal),
            Some(holder) => Err(SessionError::NotAsked(describe_holder(&holder))),
        }
    }

    /// Closes a terminal and ends its programs.
    #[boxed]
    pub async fn exit(&self, caller: &Caller, verb: ExitTerminal) -> ExitTerminalReply {
        self.exit_once(caller, verb, None).await
    }

    /// Closes a terminal and ends its programs, once for the same `step`.
    #[boxed]
    pub async fn exit_once(&self, caller: &Caller, verb: ExitTerminal, step: Option<String>) -> ExitTerminalReply {
        let session_id = verb.session_id.clone();
        let is_repeated = self.is_repeated(step.as_deref());
        let unknown_outcome = |error: &SessionError| error.outcome_unknown(is_repeated);
        let failed = |message: String| ExitTerminalReply { session_id, message, ..ExitTerminalReply::default() };
        let terminal = match self.find_unheld(caller, &verb.session_id).await {
            Ok(terminal) => terminal,
            Err(SessionError::HostRequest(AskError::Refused(_))) => return failed("Session not found".to_owned()),
            Err(error) => {
                let outcome_unknown = unknown_outcome(&error);
                return ExitTerminalReply { outcome_unknown, ..failed(self.describe_error("", error).await) };
            }
        };
        let signal = match (verb.force, verb.signal.as_deref().map(signal_named)) {
            (true, _) => Some(steplatch_terminal::Signal::KILL),
            (false, None) => None,
            (false, Some(Ok(signal))) => Some(signal),
            (false, Some(Err(error))) => return failed(error.to_string()),
        };
        let closed = match step {
            Some(step) => terminal.close_once(Closing { signal }, step).await,
            None => terminal.close(Closing { signal }).await,
        };
        let closed = match closed {
            Ok(closed) => closed,
            Err(AskError::Refused(refusal)) if refusal != Refusal::OutcomeUnknown => {
                return failed("Session not found".to_owned());
            }
            Err(error) => {
                let (message, outcome_unknown) = (error.to_string(), unknown_outcome(&error.into()));
                return ExitTerminalReply { outcome_unknown, ..failed(message) };
            }
        };
        self.hosts.record_closed(terminal.id()).await;
        self.readers.forget(terminal.id());
        ExitTerminalReply {
            success: true,
            session_id: terminal.id().to_string(),
            message: "Session destroyed".to_owned(),
            exit_code: closed.exit.map(|exit| exit.code),
            survivors: closed
                .survivors
                .into_iter()
                .map(|survivor| Survivor { pid: survivor.pid, name: survivor.name, doubtful: survivor.doubtful })
                .collect(),
            outcome_unknown: None,
        }
    }

    /// Changes the size of a terminal.
    #[boxed]
    pub async fn resize(&self, caller: &Caller, verb: ResizeTerminal) -> ResizeTerminalReply {
        let resized = async {
            let size = Size { cols: verb.cols, rows: verb.rows };
            let size = size.checked().ok_or_else(|| {
                format!("a terminal has 2 to 1000 columns and rows, not {} by {}", verb.cols, verb.rows)
            })?;
            Ok::<_, SessionError>(self.find_unheld(caller, &verb.session_id).await?.resize(size).await?)
        };
        let error = self.failure(&verb.session_id, resized.await).await;
        ResizeTerminalReply { success: error.is_none(), session_id: verb.session_id, error }
    }

    /// Sends a signal to a terminal's foreground process group.
    #[boxed]
    pub async fn signal(&self, caller: &Caller, verb: SendSignal) -> SendSignalReply {
        let signalled = async {
            let signal = signal_named(&verb.signal)?;
            Ok::<_, SessionError>(self.find_unheld(caller, &verb.session_id).await?.signal(signal).await?)
        };
        let error = self.failure(&verb.session_id, signalled.await).await;
        let message = if error.is_none() { "Signal sent" } else { "Signal not sent" }.to_owned();
        SendSignalReply { success: error.is_none(), session_id: verb.session_id, message, error }
    }

    /// Writes bytes to a terminal unchanged, at most once for the same `step`.
    #[boxed]
    pub async fn write(&self, caller: &Caller, verb: WriteTerminal, step: Option<String>) -> WriteTerminalReply {
        let written = async {
            let raw = STANDARD.decode(&verb.bytes).map_err(|error| format!("bytes are not Base64: {error}"))?;
            let (terminal, key) = self.find_for_input_with_key(caller, &verb.session_id).await?;
            let pasted_text = match verb.paste {
                Some(text) => encode_paste(&text, terminal.view(false).await?.modes.bracketed_paste),
                None => String::new(),
            };
            let holder = verb.hold_key.map(HoldKey);
            let mouse = verb.mouse.into_iter().map(mouse_input).collect::<Vec<_>>();
            let bytes = pasted_text.len() + verb.keys.len() + raw.len();
            let by = caller.label();
            let input = Input {
                attached: true,
                text: pasted_text,
                keys: verb.keys,
                mouse,
                raw,
                holder,
                step,
                by,
                without_view: true,
                ..Input::default()
            };
            terminal.send(input).await?;
            self.count_input(caller, key.as_ref(), bytes).await;
            Ok::<_, SessionError>(())
        };
        let error = self.failure(&verb.session_id, written.await).await;
        WriteTerminalReply { success: error.is_none(), error }
    }

    pub(crate) async fn failure(&self, session: &str, result: Result<(), SessionError>) -> Option<String> {
        match result {
            Ok(()) => None,
            Err(error) => Some(self.describe_error(session, error).await),
        }
    }

    /// Reports once to a program that a person held the terminal in the meantime, with the output of that time.
    pub(crate) async fn take_absence_report(
        &self,
        caller: &Caller,
        terminal: &HostedTerminal,
        view: &View,
    ) -> Option<AbsenceInfo> {
        if caller.person || !view.handed_back {
            return None;
        }
        // `None` if another client has just received the report, or the terminal has ended.
        let Handover { holder, until, from, note, .. } = terminal.handed_back().await.ok()??;
        let excerpt = terminal.read(Part::From(from), Limit::HeadAndTail(DEFAULT_REPLY_CHARS / 2)).await.ok()?;
        let secrets = self.secrets.within(terminal.id());
        let (output, omitted) = masked_excerpt(&secrets, excerpt, false);
        Some(AbsenceInfo {
            by: holder.name,
            since: clock::system_iso8601(holder.since),
            until: clock::system_iso8601(until),
            note: note.map(|note| secrets.masked(note)),
            output,
            omitted,
        })
    }
}

/// Returns the address of a terminal's view in the page.
fn terminal_url(page: &str, terminal: &TerminalId) -> String {
    format!("{page}#/terminals/{terminal}")
}

/// Returns the name of a terminal's opener: the run, the person, or the program.
async fn describe_opener(caller: &Caller) -> Option<String> {
    if caller.run.is_none() && caller.person && caller.person_refusal().await.is_none() {
        return Some(format!("{} (a person)", caller.display_name().await));
    }
    caller.label()
}

/// Returns the maximum wait of this caller's request for an unconnected host.
pub(crate) fn connect_timeout(caller: &Caller) -> Duration {
    if caller.run.is_some() { RUN_CONNECT_TIMEOUT } else { CLIENT_CONNECT_TIMEOUT }
}

/// Encodes text as a paste: without control characters that affect the program, and in bracketed-paste marks if the
/// program has requested them. A person's terminal removes such characters; other senders may not.
fn encode_paste(text: &str, is_bracketed: bool) -> String {
    let clean: String =
        text.chars().filter(|character| !character.is_control() || matches!(character, '\t' | '\r' | '\n')).collect();
    if is_bracketed { format!("\x1b[200~{}\x1b[201~", clean.replace("\r\n", "\n")) } else { clean }
}

fn to_agent_activity(activity: steplatch_terminal::AgentActivity) -> AgentActivity {
    match activity {
        steplatch_terminal::AgentActivity::Working => AgentActivity::Working,
        steplatch_terminal::AgentActivity::Asks => AgentActivity::Asks,
        steplatch_terminal::AgentActivity::Idle => AgentActivity::Idle,
    }
}

/// Returns a warning about a secret that is a common word, or too short to be hidden.
pub(crate) fn secret_warning(secret: &str) -> Option<String> {
    let warning = if hideable_lines(secret).any(is_short_word) {
        "the secret is a short word: it is hidden only as a whole word, not within other words"
    } else if hideable_lines(secret).next().is_none() && !secret.trim().is_empty() {
        "the secret is too short to be hidden: if the terminal shows it, it is returned and stored"
    } else {
        return None;
    };
    Some(warning.to_owned())
}

/// Refuses a secret of one word at the prompt of a shell, because the shell would show the secret and run it as a
/// command. The program that needs the secret has not asked yet, or has ended.
async fn refuse_at_shell_prompt(terminal: &HostedTerminal, text: &str) -> Result<(), SessionError> {
    let word = text.trim();
    let is_word = !word.is_empty() && !word.contains(|character: char| character.is_whitespace() || character == '=');
    // The shell runs only entered lines.
    if !is_word || !text.ends_with(['\n', '\r']) {
        return Ok(());
    }
    if is_at_prompt(&terminal.describe().await?) {
        return Err(SessionError::Message(SECRET_AT_PROMPT.to_owned()));
    }
    Ok(())
}

/// Error of a secret that a shell would run as a command.
pub const SECRET_AT_PROMPT: &str = "nothing was typed: the shell is at its prompt, where the secret would be shown and run \
                                    as a command; wait until the program asks for it (password: true)";

/// Returns whether the shell of a terminal is at its prompt.
fn is_at_prompt(terminal: &Description) -> bool {
    terminal.busy == Some(false) && terminal.exit.is_none() && !terminal.password
}

/// Crops a picture to the used rows and columns, at least one of each.
fn crop_to_used(mut picture: Picture) -> Picture {
    let cursor = picture.cursor.as_ref().map(|cell| (cell.row, cell.col));
    let used = picture.rows.iter().rposition(|row| !row.is_empty()).map_or(0, |last| last + 1);
    let rows = used.max(cursor.map_or(0, |(row, _)| usize::from(row) + 1)).max(1);
    picture.rows.truncate(rows);
    let cols = picture.rows.iter().flatten().map(|run| run.col + run.cols).max().unwrap_or(0);
    picture.cols = cols.max(cursor.map_or(0, |(_, col)| col + 1)).clamp(1, picture.cols);
    picture
}

/// Masks the parts of secrets that a read starting at `offset` cuts off. Otherwise a client could read a secret
/// character by character.
pub(crate) async fn mask_divided_secrets(
    terminal: &HostedTerminal,
    secrets: &Redactor,
    offset: u64,
    excerpt: Excerpt,
) -> Result<Excerpt, SessionError> {
    let reach = secrets.reach();
    if reach == 0 || excerpt.head.is_empty() {
        return Ok(excerpt);
    }
    let begin = excerpt.dropped_before.map_or(offset, |dropped| dropped.max(offset));
    let from = begin.saturating_sub(reach as u64);
    let max_chars = excerpt.head.chars().count() + 2 * reach;
    let context = terminal.read(Part::From(from), Limit::Head(max_chars)).await?;
    let context_begin = context.dropped_before.map_or(from, |dropped| dropped.max(from));
    let start = usize::try_from(begin.saturating_sub(context_begin)).unwrap_or(usize::MAX);
    let begins_there = context.head.get(start..).is_some_and(|tail| tail.starts_with(&excerpt.head));
    // Earlier lines may have lost spaces at their ends, so the start does not match. Complete excerpts have the same
    // end.
    let ends_alike = excerpt.left_out == 0 && context.left_out == 0 && context.head.ends_with(&excerpt.head);
    let head = if begins_there {
        secrets.masked_portion(&context.head, start..start + excerpt.head.len())
    } else if ends_alike {
        secrets.masked_portion(&context.head, context.head.len() - excerpt.head.len()..context.head.len())
    } else if secrets.masked(context.head.clone()) == context.head
        && !cuts_secret_as_printed(terminal, secrets, begin..excerpt.next, reach).await
    {
        excerpt.head
    } else {
        // The output has changed meanwhile, or an offset is within a character, so a nearby secret has an unknown
        // offset.
        secrets.masked_at_cuts(&excerpt.head)
    };
    Ok(Excerpt { head, ..excerpt })
}

/// Returns whether this range divides a secret in the raw output. The text of an overwritten line depends on the start
/// offset of the read.
async fn cuts_secret_as_printed(
    terminal: &HostedTerminal,
    secrets: &Redactor,
    range: std::ops::Range<u64>,
    reach: usize,
) -> bool {
    let from = range.start.saturating_sub(reach as u64);
    let max_chars = usize::try_from(range.end.saturating_sub(from)).unwrap_or(usize::MAX).saturating_add(reach);
    // A terminal host of an older version does not support this read.
    let Ok(printed) = terminal.read(Part::RawFrom(from), Limit::Head(max_chars)).await else { return true };
    let printed_begin = printed.dropped_before.map_or(from, |dropped| dropped.max(from));
    let index_in_printed = |offset: u64| {
        usize::try_from(offset.saturating_sub(printed_begin)).unwrap_or(usize::MAX).min(printed.head.len())
    };
    let portion = index_in_printed(range.start)..index_in_printed(range.end);
    let Some(text) = printed.head.get(portion.clone()) else { return true };
    secrets.masked_portion(&printed.head, portion) != text
}

/// A rendered screen, in the requested format.
#[derive(Debug, Default)]
struct RenderedScreen {
    html: Option<String>,
    png: Option<String>,
}

/// Renders a screen on a blocking thread, because that takes milliseconds.
async fn render_screen(picture: Picture, format: ScreenFormat) -> Result<RenderedScreen, PaintError> {
    let painting = tokio::task::spawn_blocking(move || match format {
        ScreenFormat::Png => {
            let image = steplatch_picture::png(&picture)?;
            Ok(RenderedScreen { png: Some(STANDARD.encode(image)), ..RenderedScreen::default() })
        }
        ScreenFormat::Text | ScreenFormat::Ansi | ScreenFormat::Html => {
            Ok(RenderedScreen { html: Some(steplatch_picture::html(&picture)), ..RenderedScreen::default() })
        }
    });
    painting.await?
}

/// Advice for a step that reads more output than a value may have.
pub(crate) const READ_IN_PARTS_ADVICE: &str = "read it in parts with offset and limit, or redirect it to a file";

/// Returns the error of a step whose text exceeds the maximum size of a value.
pub(crate) fn too_long_text(what: &str, advice: &str) -> String {
    format!("{what} is longer than a value of a run may be ({MAX_VALUE_BYTES} bytes); {advice}")
}

/// Returns the error of a step whose text is too long, or whose beginning the terminal host has discarded.
pub(crate) fn incomplete_text(what: &str, lost_before: Option<u64>, advice: &str) -> String {
    match lost_before {
        Some(oldest_offset) => {
            format!("{what} is incomplete: output before offset {oldest_offset} is no longer held; {advice}")
        }
        None => too_long_text(what, advice),
    }
}

/// Hint for a text that lacks the drawing of a full-screen program.
const FULL_SCREEN_HINT: &str = "a full-screen program controls the screen, and the text omits its drawing: read the \
                                screen with content_mode: screen";

/// Returns the text of an excerpt without secrets, and the omitted output. The text of a page is as printed; other
/// texts have no trailing spaces.
pub(crate) fn masked_excerpt(secrets: &Redactor, excerpt: Excerpt, is_page: bool) -> (String, Option<OmittedOutput>) {
    let Excerpt { head, tail, left_out, next, dropped_before, .. } = excerpt;
    // Mask both parts together, since the cut may divide a secret.
    let (head, tail) = secrets.masked_cut(head, tail);
    let trimmed = |text: String| text.trim_end().to_owned();
    let head = secrets.masked_screen(head);
    let tail = tail.map(|tail| trimmed(secrets.masked_screen(tail)));
    let omitted = (tail.is_some() || dropped_before.is_some()).then(|| OmittedOutput {
        bytes: if tail.is_some() { left_out } else { 0 },
        offset: next,
        tail,
        lost_before: dropped_before,
    });
    (if is_page { head } else { trimmed(head) }, omitted)
}

fn is_valid_variable(key: &std::ffi::OsStr, value: &std::ffi::OsStr) -> bool {
    let has_nul = |text: &std::ffi::OsStr| text.as_encoded_bytes().contains(&0);
    !key.is_empty() && !key.as_encoded_bytes().contains(&b'=') && !has_nul(key) && !has_nul(value)
}

/// Replaces a leading `~` with the caller's home directory.
#[must_use]
pub fn expand_home(directory: &str, caller: &Caller) -> PathBuf {
    let home = || caller.environment.iter().find(|(key, _)| key == "HOME").map(|(_, home)| PathBuf::from(home));
    match directory.strip_prefix('~') {
        Some("") => home().unwrap_or_else(|| directory.into()),
        Some(path) if path.starts_with('/') => {
            home().map_or_else(|| directory.into(), |home| home.join(path.trim_start_matches('/')))
        }
        _ => directory.into(),
    }
}

/// Converts a mouse event for a terminal.
fn mouse_input(event: MouseEvent) -> MouseInput {
    let MouseEvent { action, button, col, row, shift, alt, ctrl } = event;
    let action = match action {
        MouseAction::Press => TerminalMouseAction::Press(button),
        MouseAction::Release => TerminalMouseAction::Release(button),
        MouseAction::Drag => TerminalMouseAction::Drag(button),
        MouseAction::Move => TerminalMouseAction::Move,
        MouseAction::WheelUp => TerminalMouseAction::Wheel { up: true },
        MouseAction::WheelDown => TerminalMouseAction::Wheel { up: false },
    };
    MouseInput { action, col, row, shift, alt, ctrl }
}

/// Returns whether a program may have highlighted a part of the screen: on a full screen, or in place while it waits for
/// input.
pub(crate) fn shows_highlights(view: &View) -> bool {
    let draws_in_place = view.awaiting_input == Some(true) && view.busy != Some(false) && !view.password;
    view.modes.alternate_screen || draws_in_place && view.exit.is_none()
}

/// Returns the highlighted parts of a screen, from top to bottom; in place, below the last typed line.
pub(crate) fn highlighted(view: &View, picture: &Picture, typed_line: Option<&str>) -> Vec<HighlightInfo> {
    let found = match view.modes.alternate_screen {
        true => highlights(picture),
        false => highlights_in_place(picture, typed_line),
    };
    found.into_iter().map(|Highlight { row, text }| HighlightInfo { row, text }).collect()
}
