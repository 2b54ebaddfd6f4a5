//! Terminals as their users know them: by session, in their fields and words.
//!
//! Between the contract and the crate `terminal`: reads what is asked, says in
//! whole sentences what went wrong and what to do, hides secrets, and cuts what is
//! too long for a reader.

mod attach;
mod signals;
mod waiting;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use steplatch_protocol::{
    ContentMode, CursorPosition, ExitTerminal, ExitTerminalReply, GetScreenContent, GetScreenContentReply,
    ListTerminalSessionsReply, OpenTerminal, OpenTerminalReply, ResizeTerminal, ResizeTerminalReply, ScreenFormat,
    SendInput, SendInputReply, SendSignal, SendSignalReply, SessionInfo, Survivor, WriteTerminal, WriteTerminalReply,
};
use steplatch_terminal::{
    Closing, Excerpt, Input, Limit, OpenError, Opened, Part, Picture, Quiet, Settle, Size, SpawnError, Spec, Terminal,
    Terminals, View,
};

pub(crate) use attach::TerminalEvents;
use signals::signal_named;

use crate::caller::Caller;
use crate::moment;
use crate::secrets::Secrets;

/// Terminals, as sessions. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Sessions {
    terminals: Terminals,
    secrets: Arc<Secrets>,
}

/// How long the first prompt is waited for.
const FIRST_PROMPT: Duration = Duration::from_secs(10);

/// How long a shell that tells its prompt may be silent before it is taken for one that does not.
const SILENT_SHELL: Duration = Duration::from_secs(3);

/// When a program without marks counts as ready: so long after it printed something …
const READY_AFTER_OUTPUT: Duration = Duration::from_millis(30);

/// … or so long after it was started, when it prints nothing.
const READY_WITHOUT_OUTPUT: Duration = Duration::from_millis(250);

/// An input is answered at the next prompt, or after so much silence …
const QUIET: Duration = Duration::from_millis(10);

/// … and at the latest after this.
const AT_MOST: Duration = Duration::from_millis(50);

/// The longest that an input waits for quiet that was asked for.
const LONGEST_QUIET_WAIT: Duration = Duration::from_secs(30);

/// Characters that are returned unless another limit is given.
const CHARACTERS: usize = 10_000;

/// Lines of a tail unless another number is given.
const TAIL_LINES: u32 = 50;

impl Sessions {
    pub(crate) fn new(terminals: Terminals, secrets: Arc<Secrets>) -> Self {
        Self { terminals, secrets }
    }

    pub(crate) fn count(&self) -> usize {
        self.terminals.all().len()
    }

    pub(crate) async fn close_all(&self) {
        self.terminals.close_all().await;
    }

    /// Finds a session, or says that it is not there and which ones are.
    pub(crate) async fn find(&self, session: &str) -> Result<Terminal, String> {
        match self.terminals.get(session) {
            Some(terminal) => Ok(terminal),
            None => Err(self.not_found(session).await),
        }
    }

    async fn not_found(&self, session: &str) -> String {
        if session.is_empty() {
            return "session_id is required; list_terminal_sessions tells which there are".to_owned();
        }
        let mut open: Vec<String> = self
            .list()
            .await
            .sessions
            .into_iter()
            .map(|session| match session.name {
                Some(name) => format!("{} ({name})", session.session_id),
                None => session.session_id,
            })
            .collect();
        let shown: String = session.chars().take(80).collect();
        if open.is_empty() {
            return format!("Session '{shown}' not found; no sessions are open: open one with open_terminal");
        }
        let more = open.len().saturating_sub(10);
        open.truncate(10);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("Session '{shown}' not found; open sessions: {}{more}", open.join(", "))
    }

    pub(crate) async fn open(&self, caller: &Arc<Caller>, verb: OpenTerminal) -> OpenTerminalReply {
        match self.try_open(caller, verb).await {
            Ok(reply) => reply,
            Err(error) => OpenTerminalReply { error: Some(error), ..OpenTerminalReply::default() },
        }
    }

    async fn try_open(&self, caller: &Arc<Caller>, verb: OpenTerminal) -> Result<OpenTerminalReply, String> {
        let arguments = match verb.command {
            Some(command) if command.is_empty() => return Err("command is empty: name a program".to_owned()),
            Some(command) => command,
            None => shell_words::split(&verb.shell)
                .map_err(|error| format!("shell '{}' can not be split into words: {error}", verb.shell))?,
        };
        if arguments.is_empty() {
            return Err("shell is empty: name one, such as bash".to_owned());
        }
        let size = Size { cols: verb.cols, rows: verb.rows }
            .checked()
            .ok_or_else(|| format!("a terminal has 2 to 1000 columns and rows, not {} by {}", verb.cols, verb.rows))?;
        let environment: Vec<(OsString, OsString)> =
            verb.environment.unwrap_or_default().into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        if let Some((key, _)) = environment.iter().find(|(key, value)| !is_variable(key, value)) {
            return Err(format!("'{}' can not be an environment variable", key.to_string_lossy()));
        }
        if arguments.iter().any(|argument| argument.contains('\0')) {
            return Err("a command can not have a NUL character in it".to_owned());
        }
        if verb.name.as_deref().is_some_and(|name| name.trim().is_empty() || name.len() > 64) {
            return Err("a name has 1 to 64 characters".to_owned());
        }
        let folder = verb.working_directory.map_or_else(|| caller.folder.clone(), |asked| at_home(&asked, caller));
        let command = shell_words::join(&arguments);
        let spec = Spec {
            arguments: arguments.into_iter().map(OsString::from).collect(),
            command: command.clone(),
            folder: caller.folder.join(folder),
            inherited: caller.environment.clone(),
            environment,
            size,
            name: verb.name,
            opened_by: caller.name.clone(),
        };
        let Opened { terminal, integrated } = self.terminals.open(spec).await.map_err(not_opened)?;
        let view = if verb.wait_ready {
            let quiet = if integrated {
                Quiet::of(SILENT_SHELL)
            } else {
                Quiet { after_output: READY_AFTER_OUTPUT, without_output: READY_WITHOUT_OUTPUT }
            };
            terminal.ready(quiet, FIRST_PROMPT).await
        } else {
            terminal.view(false).await
        };
        let view = view.map_err(|gone| gone.to_string())?;
        Ok(OpenTerminalReply {
            success: true,
            session_id: terminal.id().to_string(),
            shell: command,
            web_url: None,
            screen_content: Some(self.secrets.masked_screen(view.screen)),
            timestamp: Some(moment::now_told()),
            error: None,
            pid: Some(terminal.pid()),
            cols: Some(view.size.cols),
            rows: Some(view.size.rows),
        })
    }

    pub(crate) async fn send(&self, verb: SendInput) -> SendInputReply {
        let session_id = verb.session_id.clone();
        match self.try_send(verb).await {
            Ok(reply) => reply,
            Err(error) => SendInputReply {
                session_id,
                message: "Input not sent".to_owned(),
                error: Some(error),
                ..SendInputReply::default()
            },
        }
    }

    async fn try_send(&self, verb: SendInput) -> Result<SendInputReply, String> {
        if verb.input_text.is_empty() && verb.keys.as_ref().is_none_or(Vec::is_empty) {
            return Err("nothing to send: give input_text or keys".to_owned());
        }
        let terminal = self.find(&verb.session_id).await?;
        if verb.secret {
            self.secrets.add(&verb.input_text);
        }
        let settle = match verb.wait_for_quiet_ms {
            None => Some(Settle { quiet: QUIET, at_most: AT_MOST }),
            Some(0) => None,
            Some(milliseconds) => {
                Some(Settle { quiet: Duration::from_millis(milliseconds.into()), at_most: LONGEST_QUIET_WAIT })
            }
        };
        let input = Input { text: verb.input_text, keys: verb.keys.unwrap_or_default(), raw: Vec::new(), settle };
        let sent = terminal.send(input).await.map_err(|error| error.to_string())?;
        let View { screen, exit, busy, exit_code, .. } = sent.view;
        Ok(SendInputReply {
            success: true,
            session_id: terminal.id().to_string(),
            message: "Input sent".to_owned(),
            screen_content: Some(self.secrets.masked_screen(screen)),
            timestamp: Some(moment::now_told()),
            process_running: Some(exit.is_none()),
            error: None,
            offset: Some(sent.offset),
            busy,
            exit_code,
        })
    }

    pub(crate) async fn read(&self, verb: GetScreenContent) -> GetScreenContentReply {
        let session_id = verb.session_id.clone();
        match self.try_read(verb).await {
            Ok(reply) => reply,
            Err(error) => GetScreenContentReply { session_id, error: Some(error), ..GetScreenContentReply::default() },
        }
    }

    async fn try_read(&self, verb: GetScreenContent) -> Result<GetScreenContentReply, String> {
        let format = match verb.format {
            ScreenFormat::Text => None,
            ScreenFormat::Ansi => Some("ansi"),
            ScreenFormat::Html => Some("html"),
            ScreenFormat::Png => Some("png"),
        };
        if let Some(format) = format.filter(|_| verb.content_mode != ContentMode::Screen) {
            return Err(format!("format {format} is for content_mode screen; the output is kept as plain text"));
        }
        let terminal = self.find(&verb.session_id).await?;
        let gone = |error: steplatch_terminal::Gone| error.to_string();
        let view = terminal.view(verb.format == ScreenFormat::Ansi).await.map_err(gone)?;
        let most = verb.limit.map_or(CHARACTERS, |limit| limit as usize);
        let part = match verb.content_mode {
            ContentMode::Screen => None,
            ContentMode::History => Some(Part::From(verb.offset.unwrap_or(0))),
            ContentMode::SinceInput => Some(Part::SinceInput),
            ContentMode::Tail => Some(Part::Tail(verb.line_count.unwrap_or(TAIL_LINES) as usize)),
        };
        let (content, truncated, next_offset) = match part {
            None if matches!(verb.format, ScreenFormat::Html | ScreenFormat::Png) => (None, false, None),
            None => (Some(view.screen), false, None),
            Some(part) => {
                // Who reads by position reads on; who asks for all of it wants to see its end as well.
                let limit = if verb.offset.is_some() { Limit::Head(most) } else { Limit::HeadAndTail(most) };
                let excerpt = terminal.read(part, limit).await.map_err(gone)?;
                let (truncated, next) = (excerpt.left_out > 0, excerpt.next);
                // Before it is told, so that the words between do not stand between the halves of a secret.
                let (head, tail) = self.secrets.masked_cut(excerpt.head, excerpt.tail);
                (Some(told(Excerpt { head, tail, ..excerpt })), truncated, Some(next))
            }
        };
        let painted = match verb.format {
            ScreenFormat::Text | ScreenFormat::Ansi => Painted::default(),
            ScreenFormat::Html | ScreenFormat::Png => {
                let picture = self.secrets.masked_picture(terminal.picture().await.map_err(gone)?);
                painted(picture, verb.format).await?
            }
        };
        Ok(GetScreenContentReply {
            success: true,
            session_id: terminal.id().to_string(),
            process_running: view.exit.is_none(),
            screen_content: content.map(|content| self.secrets.masked_screen(content)).or(painted.html),
            png: painted.png,
            timestamp: Some(moment::now_told()),
            error: None,
            cursor: Some(CursorPosition { row: view.cursor.row, col: view.cursor.col, visible: view.cursor.visible }),
            title: Some(view.title).filter(|title| !title.is_empty()).map(|title| self.secrets.masked(title)),
            cwd: folder_of(terminal.pid()),
            alternate_screen: Some(view.modes.alternate_screen),
            busy: view.busy,
            exit_code: view.exit_code,
            truncated,
            next_offset,
        })
    }

    pub(crate) async fn list(&self) -> ListTerminalSessionsReply {
        let mut sessions = Vec::new();
        for terminal in self.terminals.all() {
            // One that was closed just now is not open.
            let Ok(described) = terminal.describe().await else { continue };
            sessions.push(SessionInfo {
                session_id: described.id.to_string(),
                command: self.secrets.masked(described.command),
                state: if described.exit.is_some() { "exited" } else { "active" }.to_owned(),
                created_at: moment::seconds(described.created),
                last_activity: moment::seconds(described.last_activity),
                web_url: None,
                name: described.name,
                title: Some(described.title).filter(|title| !title.is_empty()).map(|title| self.secrets.masked(title)),
                cwd: folder_of(described.pid),
                busy: described.busy,
                exit_code: described.exit_code,
                cols: described.size.cols,
                rows: described.size.rows,
                pid: described.pid,
                opened_by: described.opened_by,
                attached: described.viewers,
            });
        }
        sessions.sort_by(|one, other| one.created_at.total_cmp(&other.created_at));
        ListTerminalSessionsReply { success: true, total_sessions: sessions.len(), sessions }
    }

    pub(crate) async fn exit(&self, verb: ExitTerminal) -> ExitTerminalReply {
        let session_id = verb.session_id.clone();
        let failed = |message: String| ExitTerminalReply { session_id, message, ..ExitTerminalReply::default() };
        let Some(terminal) = self.terminals.get(&verb.session_id) else {
            return failed("Session not found".to_owned());
        };
        let signal = match (verb.force, verb.signal.as_deref().map(signal_named)) {
            (true, _) => Some(steplatch_terminal::Signal::KILL),
            (false, None) => None,
            (false, Some(Ok(signal))) => Some(signal),
            (false, Some(Err(error))) => return failed(error),
        };
        let Ok(closed) = terminal.close(Closing { signal }).await else {
            return failed("Session not found".to_owned());
        };
        ExitTerminalReply {
            success: true,
            session_id: terminal.id().to_string(),
            message: "Session destroyed".to_owned(),
            exit_code: closed.exit.map(|exit| exit.code),
            survivors: closed
                .survivors
                .into_iter()
                .map(|survivor| Survivor { pid: survivor.pid, name: survivor.name })
                .collect(),
        }
    }

    pub(crate) async fn resize(&self, verb: ResizeTerminal) -> ResizeTerminalReply {
        let resized = async {
            let terminal = self.find(&verb.session_id).await?;
            let size = Size { cols: verb.cols, rows: verb.rows };
            let size = size.checked().ok_or_else(|| "a terminal has 2 to 1000 columns and rows".to_owned())?;
            terminal.resize(size).await.map_err(|gone| gone.to_string())
        };
        let error = resized.await.err();
        ResizeTerminalReply { success: error.is_none(), session_id: verb.session_id, error }
    }

    pub(crate) async fn signal(&self, verb: SendSignal) -> SendSignalReply {
        let signalled = async {
            let signal = signal_named(&verb.signal)?;
            let terminal = self.find(&verb.session_id).await?;
            match terminal.signal(signal).await.map_err(|gone| gone.to_string())? {
                Ok(()) => Ok(()),
                Err(exit) => Err(exit.map_or_else(
                    || "its program has ended".to_owned(),
                    |exit| format!("its program has ended with exit code {}", exit.code),
                )),
            }
        };
        let error: Option<String> = signalled.await.err();
        let message = if error.is_none() { "Signal sent" } else { "Signal not sent" }.to_owned();
        SendSignalReply { success: error.is_none(), session_id: verb.session_id, message, error }
    }

    pub(crate) async fn write(&self, verb: WriteTerminal) -> WriteTerminalReply {
        let written = async {
            let raw = STANDARD.decode(&verb.bytes).map_err(|error| format!("bytes are not base 64: {error}"))?;
            let terminal = self.find(&verb.session_id).await?;
            let input = Input { raw, ..Input::default() };
            terminal.send(input).await.map(drop).map_err(|error| error.to_string())
        };
        let error: Option<String> = written.await.err();
        WriteTerminalReply { success: error.is_none(), error }
    }
}

/// A screen that was painted, as what was asked for.
#[derive(Debug, Default)]
struct Painted {
    html: Option<String>,
    png: Option<String>,
}

/// Paints a screen. That takes milliseconds, in which others are answered.
async fn painted(picture: Picture, format: ScreenFormat) -> Result<Painted, String> {
    let painting = tokio::task::spawn_blocking(move || match format {
        ScreenFormat::Png => steplatch_picture::png(&picture)
            .map(|image| Painted { png: Some(STANDARD.encode(image)), ..Painted::default() })
            .map_err(|error| error.to_string()),
        ScreenFormat::Text | ScreenFormat::Ansi | ScreenFormat::Html => {
            Ok(Painted { html: Some(steplatch_picture::html(&picture)), ..Painted::default() })
        }
    });
    painting.await.map_err(|error| format!("the screen could not be painted: {error}"))?
}

/// An excerpt as one text, with what is missing said in between.
fn told(excerpt: Excerpt) -> String {
    let mut text = String::new();
    if let Some(begins) = excerpt.dropped_before {
        text.push_str(&format!("[… output before offset {begins} is no longer held …]\n"));
    }
    text.push_str(&excerpt.head);
    if excerpt.left_out > 0 {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&format!(
            "[… {} bytes left out; read on with content_mode=history, offset={} …]\n",
            excerpt.left_out, excerpt.next
        ));
    }
    text.push_str(excerpt.tail.as_deref().unwrap_or_default());
    text.truncate(text.trim_end().len());
    text
}

fn not_opened(error: OpenError) -> String {
    match error {
        OpenError::TooMany { most } => format!(
            "{most} terminals are open, which is the limit; close one with exit_terminal (list_terminal_sessions tells which there are)"
        ),
        OpenError::NameTaken { name, by } => format!("the name '{name}' is taken by {by}; choose another one"),
        OpenError::Program(SpawnError::NotFound(program)) => {
            format!("program '{program}' was not found; install it, or give its full path")
        }
        OpenError::Program(SpawnError::NoFolder(folder)) => {
            format!("working_directory '{}' does not exist", folder.display())
        }
        OpenError::Program(SpawnError::System(error)) => format!("the program could not be started: {error}"),
        OpenError::Program(error) => error.to_string(),
    }
}

fn is_variable(key: &std::ffi::OsStr, value: &std::ffi::OsStr) -> bool {
    let has_nul = |text: &std::ffi::OsStr| text.as_encoded_bytes().contains(&0);
    !key.is_empty() && !key.as_encoded_bytes().contains(&b'=') && !has_nul(key) && !has_nul(value)
}

/// Replaces a leading `~` by the caller's home, as their shell would.
fn at_home(folder: &str, caller: &Caller) -> PathBuf {
    let home = || caller.environment.iter().find(|(key, _)| key == "HOME").map(|(_, home)| PathBuf::from(home));
    match folder.strip_prefix('~') {
        Some("") => home().unwrap_or_else(|| folder.into()),
        Some(rest) if rest.starts_with('/') => {
            home().map_or_else(|| folder.into(), |home| home.join(rest.trim_start_matches('/')))
        }
        _ => folder.into(),
    }
}

/// The folder that a process is in, see proc_pid_cwd(5).
fn folder_of(pid: i32) -> Option<String> {
    Some(std::fs::read_link(format!("/proc/{pid}/cwd")).ok()?.display().to_string())
}
