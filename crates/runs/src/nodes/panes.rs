//! Nodes that are programs in terminals: a call types the input, and returns the output until the program is ready
//! again.
//!
//! The first call starts a program, and later calls reuse the program. Its terminal is an ordinary terminal: people may
//! read it and type into it. Calls of one node take turns.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use steplatch_access::Caller;
use steplatch_ids::{RunId, TerminalId};
use steplatch_nodes::pane::{Parser, Reading};
use steplatch_nodes::{Call, ErrorType, Node, NodeResult, Nodes, Pty, Ready};
use steplatch_protocol::{
    AwaitOutput, AwaitOutputReply, AwaitReason, AwaitUntil, ContentMode, ExitTerminal, GetScreenContent,
    GetScreenContentReply, OpenTerminal, SendInput, SendInputReply, Since,
};
use steplatch_sessions::{PlacePolicy, Sessions};
use tokio::time::Instant;

/// Time limit for a program to become ready, unless the call or the node sets another one.
const READY_TIMEOUT: Duration = Duration::from_secs(600);

/// Time limit for the program of a finished call to exit.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit for the output of a line editor after it has redrawn its prompt.
const REDRAW_TIMEOUT: Duration = Duration::from_millis(250);

/// Maximum number of further outputs of a program that has drawn its first prompt.
const MAX_REDRAWS: usize = 20;

/// Maximum single wait; longer waits are split.
const MAX_WAIT: Duration = Duration::from_secs(3600);

/// Maximum number of lines of a prompt.
const MAX_PROMPT_LINES: u32 = 8;

/// Maximum length of a program's output for one call, in characters.
const MAX_OUTPUT_CHARS: u32 = 512 << 10;

/// Terminals of nodes, by node.
#[derive(Debug)]
pub(crate) struct PtyNodes {
    pub(super) sessions: Sessions,
    owner: String,
    open: Mutex<HashMap<String, Arc<tokio::sync::Mutex<PtyNode>>>>,
}

/// The terminal of one node.
#[derive(Debug, Default)]
pub(super) struct PtyNode {
    session: Option<PtyTerminal>,
    /// The previous terminal. The name of the next opening step is derived from this terminal.
    last: Option<PtyTerminal>,
    /// End of the program's output before its first input, including its prompt.
    opening: String,
    /// True after an abandoned call: the program may still be busy with that call.
    may_be_busy: bool,
    /// The step of an opening without an answer.
    requested: Option<String>,
}

/// Identification of the terminal of a node.
#[derive(Debug, Clone)]
pub(super) enum PtyTerminal {
    Id(TerminalId),
    /// Name of the terminal, or a text that an entry of an earlier daemon has in place of an id.
    Name(String),
}

/// The event after which a program becomes ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The start of the program; nothing was typed yet.
    Opening,
    /// The last input of an abandoned call.
    EarlierCall,
    /// An input, with the offset of the output at that time.
    Input { offset: Option<u64>, has_lines: bool },
}

impl PtyTerminal {
    fn new(text: String) -> Self {
        text.parse().map_or(Self::Name(text), Self::Id)
    }

    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::Id(id) => id.as_str(),
            Self::Name(name) => name,
        }
    }
}

impl PtyNode {
    /// Returns whether no terminal of the node is known or requested.
    fn has_none(&self) -> bool {
        self.session.is_none() && self.requested.is_none()
    }

    pub(super) fn lose(&mut self) {
        self.last = self.session.take().or(self.last.take());
        self.may_be_busy = false;
    }
}

/// Failure of a call.
pub(super) struct PtyNodeError(pub(super) ErrorType, pub(super) String);

impl PtyNodeError {
    /// Returns the error of a call whose input was already typed: if the terminal is lost, the outcome is unknown.
    pub(super) fn after_input(self) -> Self {
        match self {
            Self(ErrorType::Connection, message) => {
                Self(ErrorType::Unknown, format!("The input was typed, but its outcome is unknown: {message}"))
            }
            other => other,
        }
    }
}

/// Maximum length of a node in the name of its terminal, in characters.
const MAX_NODE_CHARS: usize = 40;

/// Maximum length of an owner in the name of a terminal, in characters.
const MAX_OWNER_CHARS: usize = 23;

/// Returns at most `limit` characters that identify `text`: for a long string, its end and a checksum.
fn shortened(text: &str, limit: usize) -> String {
    let chars = text.chars().count();
    if chars <= limit {
        return text.to_owned();
    }
    // FNV-1a (RFC 9923), the same in every daemon.
    let checksum = text.bytes().fold(0x811c_9dc5_u32, |sum, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let suffix = format!("~{checksum:08x}");
    let end: String = text.chars().skip(chars - (limit - suffix.len())).collect();
    end + &suffix
}

impl PtyNodes {
    pub(super) fn new(sessions: Sessions, owner: String) -> Self {
        Self { sessions, owner, open: Mutex::default() }
    }

    /// Returns the owner: a run, or the nodes of a project.
    pub(super) fn owner(&self) -> &str {
        &self.owner
    }

    /// Returns whether the terminals outlive the calls of one run.
    fn is_shared(&self) -> bool {
        self.owner.parse::<RunId>().is_err()
    }

    /// Returns the name of a node's terminal. The daemon finds a terminal of unknown id by this name.
    fn terminal_name(&self, node: &str) -> String {
        format!("{}@{}", shortened(node, MAX_NODE_CHARS), shortened(&self.owner, MAX_OWNER_CHARS))
    }

    /// Returns the step that opens the terminal of a node, after its previous one.
    fn opening_step(&self, node: &str, last: Option<&PtyTerminal>) -> String {
        format!("{}/{node}/{}", self.owner, last.map_or("first", PtyTerminal::as_str))
    }

    /// Takes over the terminal that a call may have opened, if the daemon ended before recording it.
    pub(crate) fn adopt_unknown_terminal(&self, node: &str) {
        let mut open = self.open.lock();
        let known = open.get(node).and_then(|pane| {
            let pane = pane.try_lock().ok()?;
            Some((pane.session.clone()?, pane.requested.clone()))
        });
        let (session, requested) =
            known.unwrap_or_else(|| (PtyTerminal::Name(self.terminal_name(node)), Some(self.opening_step(node, None))));
        let session = Some(session);
        let pane = PtyNode { session, requested, may_be_busy: true, ..PtyNode::default() };
        open.insert(node.to_owned(), Arc::new(tokio::sync::Mutex::new(pane)));
    }

    /// Takes over the terminal that a node had before.
    pub(crate) fn adopt(&self, node: String, session: String) {
        let pane = PtyNode { session: Some(PtyTerminal::new(session)), ..PtyNode::default() };
        let mut open = self.open.lock();
        open.insert(node, Arc::new(tokio::sync::Mutex::new(pane)));
    }

    /// Types the input of a call and returns the program's output until it is ready again.
    pub(super) async fn run(
        &self,
        caller: &Arc<Caller>,
        nodes: &Nodes,
        node: &Node,
        pty: &Pty,
        call: Call,
        step: &str,
    ) -> NodeResult {
        let limits = [node.timeout.map(steplatch_nodes::Seconds::duration), call.timeout];
        let limit = limits.into_iter().flatten().min().unwrap_or(READY_TIMEOUT);
        let pane = {
            let mut open = self.open.lock();
            open.entry(node.id.to_string()).or_default().clone()
        };
        let input = call.input.clone();
        let deadline = Instant::now() + limit;
        let working = async {
            let mut pane = pane.lock().await;
            let result = tokio::select! {
                result = self.exchange(caller, nodes, node, pty, &input, &mut pane, step) => result,
                () = call.interrupt.cancelled() => Err(interrupted()),
                () = tokio::time::sleep_until(deadline) => Err(timeout_error(limit)),
            };
            if let Err(PtyNodeError(ErrorType::Timeout | ErrorType::Interrupted, _)) = &result {
                self.give_up(caller, pty, &mut pane).await;
            }
            result
        };
        let result = tokio::select! {
            result = working => result,
            // Other calls may keep the program busy all the time.
            () = tokio::time::sleep_until(deadline + END_TIMEOUT) => Err(timeout_error(limit)),
        };
        match result {
            Ok((output, attributes)) => {
                let mut result = NodeResult::succeeded(node, input, output);
                result.attributes = attributes;
                result
            }
            Err(PtyNodeError(kind, message)) => NodeResult::failed(node, input, kind, message),
        }
    }

    #[allow(clippy::too_many_arguments, reason = "all parameters describe one call, and the function has one caller")]
    async fn exchange(
        &self,
        caller: &Arc<Caller>,
        nodes: &Nodes,
        node: &Node,
        pty: &Pty,
        input: &Value,
        pane: &mut PtyNode,
        step: &str,
    ) -> Result<(Value, serde_json::Map<String, Value>), PtyNodeError> {
        let text = typed_text(input);
        let (session, is_new) = self.open_or_reuse(caller, nodes, node, pty, !text.is_empty(), pane).await?;
        if let Some(rules) = &pty.dialogue {
            if !is_new && text.is_empty() {
                let message = "An earlier call started the program, so this call needs an input to type.".to_owned();
                return Err(PtyNodeError(ErrorType::InvalidInput, message));
            }
            return self.converse(caller, nodes, rules, &session, &text, pane, step).await;
        }
        if pane.may_be_busy {
            let busy = self.read_content(caller, &session, GetScreenContent::default()).await.busy;
            // Wait from the last input on, the input of the abandoned call.
            self.wait_until_ready(caller, pty, &session, busy, Origin::EarlierCall).await?;
            pane.may_be_busy = false;
        }
        let before = self.read_tail(caller, &session).await;
        if is_new {
            pane.opening.clone_from(&before);
        }
        let prompt = prompt_before_input(&pane.opening, &before).to_owned();
        let input_end = self.send(caller, &session, &text, pane, step).await?;
        // No other call may type until the program is ready again.
        pane.may_be_busy = true;
        self.collect_output(caller, pty, &session, (&text, &prompt), &input_end, pane)
            .await
            .map_err(PtyNodeError::after_input)
    }

    /// Waits until the program is ready after its input, and returns the output.
    async fn collect_output(
        &self,
        caller: &Arc<Caller>,
        pty: &Pty,
        session: &PtyTerminal,
        (text, prompt): (&str, &str),
        sent: &SendInputReply,
        pane: &mut PtyNode,
    ) -> Result<(Value, serde_json::Map<String, Value>), PtyNodeError> {
        let origin = Origin::Input { offset: sent.offset, has_lines: text.contains('\n') };
        let waited = self.wait_until_ready(caller, pty, session, sent.busy, origin).await?;
        let read = self.sessions.read_since_input(caller, session.as_str().to_owned(), MAX_OUTPUT_CHARS).await;
        // The text does not contain the drawing of a full-screen program.
        let is_drawn = read.0.hint.is_some();
        let (raw, printed) = match whole_text(read.0) {
            Ok(raw) => (raw, read.1),
            Err(error) => {
                pane.may_be_busy = false;
                return Err(error);
            }
        };
        let reading = self.parsed(caller, pty, session, &raw).await;
        let is_at_prompt = matches!(waited.reason, AwaitReason::Prompt | AwaitReason::Input);
        let output = match (&reading, printed.filter(|_| is_at_prompt)) {
            // A shell parser recognizes only the last row of a prompt.
            (None, Some(printed)) => trimmed(&printed),
            (Some(_), Some(printed)) if pty.parser == Some(Parser::Shell) => trimmed(&printed),
            (Some(reading), _) => reading.answer(),
            (None, None) if is_drawn => {
                let screen = self.read_content(caller, session, GetScreenContent::default()).await;
                whole_text(screen)?.trim_end().to_owned()
            }
            (None, None) => answer_in(&raw, text, prompt, pty, &waited),
        };
        let has_exited = waited.reason == AwaitReason::Exit;
        if has_exited {
            self.close_one(caller, session).await;
            pane.lose();
        }
        pane.may_be_busy = false;
        if waited.ran_nothing {
            // A prompt alone is not a success.
            let suffix = if output.is_empty() { String::new() } else { format!(": {output}") };
            let message = format!("The shell ran nothing of the input{suffix}");
            return Err(PtyNodeError(ErrorType::InvalidInput, message));
        }
        let is_ready = !has_exited && reading.as_ref().is_none_or(|reading| reading.is_ready);
        let mut attributes = serde_json::Map::new();
        let fields = [
            ("session_id", session.as_str().into()),
            ("raw", raw.into()),
            ("sections", json!(reading.map(|reading| reading.sections))),
            ("is_ready", is_ready.into()),
            ("exit_code", json!(waited.exit_code)),
        ];
        attributes.extend(fields.map(|(name, value)| (name.to_owned(), value)));
        if is_drawn {
            attributes.insert("alternate_screen".to_owned(), true.into());
        }
        Ok((output.into(), attributes))
    }

    /// Enters a text, once for each step.
    pub(super) async fn send(
        &self,
        caller: &Arc<Caller>,
        session: &PtyTerminal,
        text: &str,
        pane: &mut PtyNode,
        step: &str,
    ) -> Result<SendInputReply, PtyNodeError> {
        // Enter ends the input.
        let send = SendInput {
            session_id: session.as_str().to_owned(),
            input_text: text.to_owned(),
            keys: Some(vec!["enter".to_owned()]),
            secret: false,
            wait_for_quiet_ms: Some(0),
            ..SendInput::default()
        };
        let send_reply = self.sessions.send(caller, send, Some(step.to_owned())).await;
        if send_reply.outcome_unknown == Some(true) {
            return Err(PtyNodeError(ErrorType::Unknown, "It is unknown whether the input was typed.".to_owned()));
        }
        if !send_reply.success {
            let error = send_reply.error.unwrap_or_default();
            if self.is_open(session).await? {
                // The terminal has refused the input.
                return Err(PtyNodeError(ErrorType::InvalidInput, error));
            }
            pane.lose();
            return Err(PtyNodeError(ErrorType::Connection, error));
        }
        Ok(send_reply)
    }

    /// Returns whether a terminal is open.
    ///
    /// # Errors
    /// If the terminal host does not answer: the terminal may be open, and a new terminal would not have its
    /// state.
    async fn is_open(&self, session: &PtyTerminal) -> Result<bool, PtyNodeError> {
        match self.sessions.exists(session.as_str()).await {
            Ok(()) => Ok(true),
            Err(error) if error.is_gone() => Ok(false),
            Err(error) => Err(PtyNodeError(ErrorType::Connection, error.to_string())),
        }
    }

    /// Returns the terminal of the program, and true if this call has opened it.
    async fn open_or_reuse(
        &self,
        caller: &Arc<Caller>,
        nodes: &Nodes,
        node: &Node,
        pty: &Pty,
        types: bool,
        pane: &mut PtyNode,
    ) -> Result<(PtyTerminal, bool), PtyNodeError> {
        // A program with a dialogue may ask before it is ready.
        let waits = pty.dialogue.is_none() || types;
        if self.sessions.has_silent_host() {
            let session = pane.session.as_ref().map_or("", PtyTerminal::as_str);
            self.sessions.await_silent_hosts(session, pane.requested.is_some()).await;
        }
        if pane.has_none() && self.is_shared() {
            // An earlier daemon may have opened the terminal, or an opening whose outcome was unknown. A host that does
            // not answer is not waited for.
            let found_by_name = PtyTerminal::Name(self.terminal_name(node.id.as_str()));
            if self.sessions.exists(found_by_name.as_str()).await.is_ok() {
                pane.session = Some(found_by_name);
                pane.may_be_busy = true;
            }
        }
        if let Some(session) = pane.session.clone() {
            let exists = self.is_open(&session).await?;
            // A program that has exited accepts no input: the next call restarts it.
            if exists {
                let content = self.read_content(caller, &session, GetScreenContent::default()).await;
                if content.success && !content.process_running {
                    self.close_one(caller, &session).await;
                    pane.lose();
                }
            }
            match pane.session.clone() {
                Some(session) if exists => return Ok((session, false)),
                Some(_) => pane.lose(),
                None => {}
            }
        }
        let (directory, environment) =
            nodes.start_of(pty).await.map_err(|error| PtyNodeError(error.kind, error.message))?;
        let command = shell_words::split(&pty.command)
            .map_err(|error| PtyNodeError(ErrorType::NotStarted, format!("The command cannot be split: {error}.")))?;
        loop {
            let open = OpenTerminal {
                command: Some(command.clone()),
                working_directory: Some(directory.display().to_string()),
                environment: Some(environment.clone()).filter(|environment: &BTreeMap<_, _>| !environment.is_empty()),
                cols: 120,
                rows: 40,
                wait_ready: waits,
                name: Some(self.terminal_name(node.id.as_str())),
                ..OpenTerminal::default()
            };
            // An earlier daemon may have requested the terminal.
            let requested = pane.requested.take();
            requested.iter().for_each(|step| self.sessions.record_repeated(step));
            let step = requested.unwrap_or_else(|| self.opening_step(node.id.as_str(), pane.last.as_ref()));
            let wait = node.timeout.map_or(READY_TIMEOUT, steplatch_nodes::Seconds::duration);
            pane.requested = Some(step.clone());
            let reply = self.sessions.open_at(caller, open, Some(step.clone()), PlacePolicy::Within(wait)).await;
            pane.requested = None;
            if reply.outcome_unknown == Some(true) {
                // The next opening is another step: this one is not performed again.
                pane.last = Some(PtyTerminal::Name(step));
                return Err(PtyNodeError(
                    ErrorType::Unknown,
                    "It is unknown whether its terminal was opened.".to_owned(),
                ));
            }
            if reply.success {
                let session = PtyTerminal::new(reply.session_id);
                pane.session = Some(session.clone());
                // An earlier terminal keeps its state.
                if self.is_open(&session).await? {
                    // The opening waits only a few seconds for a prompt. Input typed before the prompt is echoed twice,
                    // and a starting program looks like a program that reads.
                    if waits {
                        self.wait_until_ready(caller, pty, &session, None, Origin::Opening).await?;
                    }
                    return Ok((session, true));
                }
                pane.lose();
                continue;
            }
            return Err(PtyNodeError(ErrorType::NotStarted, reply.error.unwrap_or_default()));
        }
    }

    /// Waits until the program is ready for its next input, or has exited. The call limits the wait.
    async fn wait_until_ready(
        &self,
        caller: &Arc<Caller>,
        pty: &Pty,
        session: &PtyTerminal,
        busy: Option<bool>,
        origin: Origin,
    ) -> Result<AwaitOutputReply, PtyNodeError> {
        let (input_offset, has_lines) = match origin {
            Origin::Opening => (Some(0), false),
            Origin::EarlierCall => (None, true),
            Origin::Input { offset, has_lines } => (offset, has_lines),
        };
        let mut since = input_offset;
        // A question does not end a node's call.
        let caller = &Arc::new(caller.unattended());
        let (pattern, mut until) = match &pty.ready {
            Ready::Shell if busy.is_some() => (String::new(), AwaitUntil::Prompt),
            // A shell without command integration is ready when it reads, because a silent command may still be
            // running.
            Ready::Shell => (String::new(), AwaitUntil::Input),
            Ready::Quiet => (String::new(), AwaitUntil::Quiet),
            Ready::Pattern(pattern) => (pattern.clone(), AwaitUntil::Exit),
        };
        loop {
            let wait = AwaitOutput {
                session_id: session.as_str().to_owned(),
                pattern: pattern.clone(),
                timeout: MAX_WAIT.as_secs_f64(),
                since: since.map(Since::Offset),
                until,
                ..AwaitOutput::default()
            };
            let waited = self.sessions.wait(caller, wait).await;
            if !waited.success && !waited.ran_nothing {
                return Err(PtyNodeError(ErrorType::Connection, waited.error.unwrap_or_default()));
            }
            if waited.reason == AwaitReason::Replaced {
                // The program that replaced the shell has no shell prompt; it is ready when it reads.
                until = AwaitUntil::Input;
                continue;
            }
            if origin == Origin::Opening && waited.reason == AwaitReason::Match {
                // Nothing was typed, so the prompt that was drawn remains the prompt.
                self.await_end_of_drawing(caller, session, waited.offset).await;
            } else if since.is_some() && self.is_redrawing(caller, session, &waited).await {
                since = Some(waited.offset);
                continue;
            }
            // The program may be ready for a line that is typed already.
            if has_lines
                && waited.reason == AwaitReason::Match
                && self.prints_more(caller, session, input_offset, waited.offset).await?
            {
                since = Some(waited.offset);
                continue;
            }
            if !waited.timeout_occurred {
                let reads = pty.parser.is_some() && waited.reason != AwaitReason::Exit;
                if reads && !self.parsed(caller, pty, session, "").await.is_none_or(|reading| reading.is_ready) {
                    // The program is quiet, but not done. Wait until it prints again.
                    self.more_output(caller, session, waited.offset, MAX_WAIT).await;
                    continue;
                }
                return Ok(waited);
            }
        }
    }

    /// Waits until a program that has drawn its first prompt prints nothing more, for a limited time: IPython draws it
    /// several times, and input that arrives meanwhile is echoed twice.
    async fn await_end_of_drawing(&self, caller: &Arc<Caller>, session: &PtyTerminal, mut offset: u64) {
        for _ in 0..MAX_REDRAWS {
            let more = self.more_output(caller, session, offset, REDRAW_TIMEOUT).await;
            if more.reason != AwaitReason::Match {
                return;
            }
            offset = more.offset;
        }
    }

    /// Returns whether a pattern matched in the line of the input, with more output to follow: a line editor such as
    /// IPython's redraws its prompt before each key.
    async fn is_redrawing(&self, caller: &Arc<Caller>, session: &PtyTerminal, waited: &AwaitOutputReply) -> bool {
        if waited.reason != AwaitReason::Match {
            return false;
        }
        let since_input = GetScreenContent { content_mode: ContentMode::SinceInput, ..GetScreenContent::default() };
        if self.read_content(caller, session, since_input).await.screen_content.is_some_and(|text| text.contains('\n'))
        {
            return false;
        }
        !self.more_output(caller, session, waited.offset, REDRAW_TIMEOUT).await.timeout_occurred
    }

    /// Waits until the program has read all input since `input_offset`. Returns whether it has printed text after
    /// `matched_offset`.
    async fn prints_more(
        &self,
        caller: &Arc<Caller>,
        session: &PtyTerminal,
        input_offset: Option<u64>,
        matched_offset: u64,
    ) -> Result<bool, PtyNodeError> {
        let wait = AwaitOutput {
            session_id: session.as_str().to_owned(),
            timeout: MAX_WAIT.as_secs_f64(),
            since: input_offset.map(Since::Offset),
            until: AwaitUntil::Input,
            ..AwaitOutput::default()
        };
        let read = self.sessions.wait(caller, wait).await;
        if !read.success {
            return Err(PtyNodeError(ErrorType::Connection, read.error.unwrap_or_default()));
        }
        let content_mode = ContentMode::History;
        let later_output =
            GetScreenContent { content_mode, offset: Some(matched_offset), ..GetScreenContent::default() };
        let later_output = self.read_content(caller, session, later_output).await.screen_content.unwrap_or_default();
        Ok(read.reason != AwaitReason::Exit && !later_output.trim().is_empty())
    }

    /// Waits for any output after an offset.
    async fn more_output(
        &self,
        caller: &Arc<Caller>,
        session: &PtyTerminal,
        offset: u64,
        timeout: Duration,
    ) -> AwaitOutputReply {
        let wait = AwaitOutput {
            session_id: session.as_str().to_owned(),
            pattern: r"[\s\S]".to_owned(),
            timeout: timeout.as_secs_f64(),
            since: Some(Since::Offset(offset)),
            ..AwaitOutput::default()
        };
        self.sessions.wait(caller, wait).await
    }

    /// Returns the requested content of a terminal.
    pub(super) async fn read_content(
        &self,
        caller: &Arc<Caller>,
        session: &PtyTerminal,
        request: GetScreenContent,
    ) -> GetScreenContentReply {
        self.sessions.read(caller, GetScreenContent { session_id: session.as_str().to_owned(), ..request }).await
    }

    /// Returns all of the requested output of a terminal.
    pub(super) async fn read_whole(
        &self,
        caller: &Arc<Caller>,
        session: &PtyTerminal,
        request: GetScreenContent,
    ) -> Result<String, PtyNodeError> {
        let limit = Some(MAX_OUTPUT_CHARS);
        whole_text(self.read_content(caller, session, GetScreenContent { limit, ..request }).await)
    }

    /// Returns the end of the output of a terminal, longer than any prompt.
    async fn read_tail(&self, caller: &Arc<Caller>, session: &PtyTerminal) -> String {
        let (content_mode, line_count) = (ContentMode::Tail, Some(MAX_PROMPT_LINES));
        let tail = GetScreenContent { content_mode, line_count, ..GetScreenContent::default() };
        self.read_content(caller, session, tail).await.screen_content.unwrap_or_default()
    }

    /// Returns the parsed screen, if there is a parser for it.
    async fn parsed(&self, caller: &Arc<Caller>, pty: &Pty, session: &PtyTerminal, raw: &str) -> Option<Reading> {
        let parser = pty.parser?;
        if parser == Parser::Shell && !raw.is_empty() {
            return Some(parser.read(raw));
        }
        let content = self.read_content(caller, session, GetScreenContent::default()).await;
        let screen = content.screen_content.unwrap_or_default();
        Some(parser.read(&screen))
    }

    /// Gives up on a program that did not become ready: interrupts a shell, and leaves any other program alone.
    async fn give_up(&self, caller: &Caller, pty: &Pty, pane: &mut PtyNode) {
        if pty.dialogue.is_some() {
            // The program may be at work: the call waited only for its questions.
            return;
        }
        if let (Ready::Shell, Some(session), true) = (&pty.ready, &pane.session, pane.may_be_busy) {
            let keys = Some(vec!["ctrl-c".to_owned()]);
            let send = SendInput { session_id: session.as_str().to_owned(), keys, ..SendInput::default() };
            self.sessions.send(caller, send, None).await;
        }
    }

    pub(super) async fn close_one(&self, caller: &Caller, session: &PtyTerminal) {
        let exit = ExitTerminal { session_id: session.as_str().to_owned(), ..ExitTerminal::default() };
        self.sessions.exit(caller, exit).await;
    }

    /// Stops the programs.
    pub(crate) async fn close(&self, caller: &Caller) {
        let open: Vec<_> = {
            let mut open = self.open.lock();
            open.drain().map(|(_, pane)| pane).collect()
        };
        for pane in open {
            let (session, requested) = {
                let mut pane = pane.lock().await;
                (pane.session.take(), pane.requested.take())
            };
            if let Some(session) = session {
                self.close_one(caller, &session).await;
            }
            // An abandoned call may have left an opening in progress.
            if let Some(step) = requested {
                self.sessions.exit_opened_by(caller, &step).await;
            }
        }
    }
}

/// Returns the text to type for an input.
fn typed_text(input: &Value) -> String {
    match input {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn interrupted() -> PtyNodeError {
    PtyNodeError(ErrorType::Interrupted, "The call was interrupted.".to_owned())
}

fn timeout_error(limit: Duration) -> PtyNodeError {
    PtyNodeError(ErrorType::Timeout, format!("The call exceeded its time limit of {} s.", limit.as_secs_f64()))
}

/// Returns the text of a reply, if the reply is complete.
fn whole_text(shown: GetScreenContentReply) -> Result<String, PtyNodeError> {
    if let Some(error) = shown.error.filter(|_| !shown.success) {
        return Err(PtyNodeError(ErrorType::Connection, error));
    }
    if shown.truncated || shown.omitted.is_some() {
        let message = format!(
            "The program printed more than {MAX_OUTPUT_CHARS} characters, which is all that an output may have; have \
             it write a file."
        );
        return Err(PtyNodeError(ErrorType::TooLarge, message));
    }
    Ok(shown.screen_content.unwrap_or_default())
}

/// Returns the prompt at the end of `before`, the text before an input: the last lines that also preceded the first
/// input, and at least the last line.
fn prompt_before_input<'a>(opening: &str, before: &'a str) -> &'a str {
    let common = common_lines(opening, before);
    let mut ends = before.trim_end().rmatch_indices('\n');
    ends.nth(common.saturating_sub(1)).map_or(before, |(end, _)| &before[end + 1..]).trim_end()
}

/// Returns the number of lines at the end of two texts that are equal.
fn common_lines(left: &str, right: &str) -> usize {
    let pairs = left.trim_end().lines().rev().zip(right.trim_end().lines().rev());
    pairs.take_while(|(left, right)| left.trim_end() == right.trim_end()).count()
}

/// Returns the output of a program between the echo of its input, if there is one, and the sign of its readiness: the
/// match of a pattern, or the lines that preceded the input.
fn answer_in(raw: &str, typed: &str, prompt: &str, pty: &Pty, waited: &AwaitOutputReply) -> String {
    let raw = raw.trim_end();
    let last_row = prompt.rsplit('\n').next().unwrap_or_default();
    let text = match (&pty.ready, &waited.match_text) {
        (Ready::Pattern(_), Some(sign)) => raw.strip_suffix(sign.trim_end()).unwrap_or(raw).to_owned(),
        _ if !last_row.is_empty() && raw.ends_with(last_row) => {
            let before = raw.strip_suffix(last_row).unwrap_or(raw);
            match common_lines(prompt, raw).saturating_sub(1) {
                0 => before.to_owned(),
                rows => {
                    let lines: Vec<&str> = before.lines().collect();
                    lines[..lines.len().saturating_sub(rows)].join("\n")
                }
            }
        }
        // The prompt differs now; take the last, unterminated line as the prompt.
        _ if waited.reason == AwaitReason::Prompt => raw.rsplit_once('\n').map_or("", |(before, _)| before).to_owned(),
        _ => raw.to_owned(),
    };
    output_after_echo(&text, typed, prompt)
}

/// Returns the output of a program after any echo of its input, without the prompts and echoes of later input lines.
fn output_after_echo(printed: &str, typed: &str, prompt: &str) -> String {
    let mut text = printed;
    let mut lines = typed.split('\n').map(str::trim_end).peekable();
    while let Some(line) = lines.peek() {
        let (first, remaining) = text.split_once('\n').unwrap_or((text, ""));
        // A program prints its prompt before each of several lines.
        let is_echo =
            if line.is_empty() { first.trim().is_empty() } else { before_echo(first.trim_end(), line).is_some() };
        if !is_echo {
            break;
        }
        text = remaining;
        lines.next();
    }
    let mut rows: Vec<&str> = text.lines().collect();
    let mut next = 0;
    for line in lines {
        next = remove_entry(&mut rows, next, line, prompt);
    }
    trimmed(&rows.join("\n"))
}

/// Returns a text without the empty rows around it, and without trailing spaces.
fn trimmed(text: &str) -> String {
    text.trim_matches(['\r', '\n']).trim_end().to_owned()
}

/// Prompts of interpreters for the continuation lines of an entry.
const CONTINUATION_PROMPTS: [&str; 3] = ["...", ">", "...>"];

/// Removes the first row, from `next` on, that is a prompt with a typed line, and the rows of the prompt above it. Uses
/// a row with a continuation prompt only if no row has the prompt itself. Returns the index of the next row.
fn remove_entry(rows: &mut Vec<&str>, next: usize, line: &str, prompt: &str) -> usize {
    let (above, last) = prompt.rsplit_once('\n').unwrap_or(("", prompt));
    let entry = rows.iter().enumerate().skip(next).find_map(|(index, row)| {
        let printed = before_echo(row.trim_end(), line)?.trim_end().strip_suffix(last.trim_end())?;
        // The row of an empty line contains only the prompt.
        let is_entry = !last.is_empty() && (!line.is_empty() || printed.is_empty());
        is_entry.then_some((index, printed))
    });
    if let Some((index, printed)) = entry {
        let above: Vec<&str> = above.lines().map(str::trim_end).collect();
        let begin = index.saturating_sub(above.len()).max(next);
        let has_above = rows[begin..index].iter().map(|row| row.trim_end()).eq(above);
        let begin = if has_above { begin } else { index };
        // Keep output before the prompt in the same row: it does not end with a newline.
        rows.splice(begin..=index, Some(printed).filter(|printed| !printed.is_empty()));
        return begin + usize::from(!printed.is_empty());
    }
    let is_continued = |row: &&str| {
        before_echo(row.trim_end(), line).is_some_and(|prompt| CONTINUATION_PROMPTS.contains(&prompt.trim()))
    };
    match rows[next..].iter().position(is_continued) {
        Some(index) => {
            rows.remove(next + index);
            next + index
        }
        None => next,
    }
}

/// Returns the text before the echo of a typed line in a row that ends with it. The line editor of busybox shows a
/// question mark for a character of unknown width, and tcsh shows its code point.
fn before_echo<'r>(row: &'r str, line: &str) -> Option<&'r str> {
    line.chars().rev().try_fold(row, |row, typed| {
        let with_replacement =
            || row.strip_suffix('?').or_else(|| row.strip_suffix(&format!("\\U+{:X}", u32::from(typed))));
        row.strip_suffix(typed).or_else(|| if typed.is_ascii() { None } else { with_replacement() })
    })
}

#[cfg(test)]
mod tests {
    use steplatch_nodes::NodeKind;

    use super::*;

    #[test]
    fn answer_is_the_output_between_echo_and_prompt() {
        let at_prompt = AwaitOutputReply { reason: AwaitReason::Prompt, ..AwaitOutputReply::default() };
        let matched = AwaitOutputReply { match_text: Some(">>> ".to_owned()), ..AwaitOutputReply::default() };
        let shell = json!({"id": "a", "type": "pty", "command": "bash"});
        let repl = json!({"id": "a", "type": "pty", "command": "python3", "ready": {"pattern": ">>> $"}});
        for (declared, waited, typed, raw, expected) in [
            (&shell, &at_prompt, "echo a", "a\n$ ", "a"),
            (&shell, &at_prompt, "printf 'a\\nb'", "a\nb$ ", "a\nb"),
            (&shell, &at_prompt, "cd /; echo a", "a\n/ # ", "a"),
            (&shell, &at_prompt, "echo a", "$ echo a\na\nb\n$ ", "a\nb"),
            (&shell, &at_prompt, "true", "$ ", ""),
            (&shell, &at_prompt, "echo a\necho b", "a\n$ echo b\nb\n$ ", "a\nb"),
            (&shell, &at_prompt, "", "\nhook\n$ ", "hook"),
            (&shell, &at_prompt, "cat price\n", "5 $\n$ ", "5 $"),
            (&shell, &at_prompt, "cat price\n", "5 $\n$\n$ ", "5 $"),
            (&shell, &at_prompt, "printf a\necho b", "a$ echo b\nb\n$ ", "a\nb"),
            (&shell, &at_prompt, "echo '> b'\nb", "> b\n$ b\nsh: b: not found\n$ ", "> b\nsh: b: not found"),
            (&shell, &at_prompt, "if true; then\necho b; fi", "> echo b; fi\nb\n$ ", "b"),
            (&repl, &matched, "1 + 1", "1 + 1\n2\n>>>", "2"),
            (&repl, &matched, "for x in y:\n  x\n", "for x in y:\n...   x\n... \n1\n>>> ", "1"),
            (&repl, &matched, "1\n2", "1\n1\n>>> 2\n2\n>>> ", "1\n2"),
            (&repl, &matched, "x = 1", "x = 1\n>>> ", ""),
        ] {
            let NodeKind::Pty(pty) = Node::parse(declared).unwrap().kind else { panic!("the node is not a pty node") };
            let prompt = if matches!(pty.ready, Ready::Pattern(_)) { ">>>" } else { "$" };
            assert_eq!(answer_in(raw, typed, prompt, &pty, waited), expected, "{raw:?}");
        }
    }

    #[test]
    fn similar_owners_have_distinct_terminal_names() {
        let shortened = |owner: &str| shortened(owner, MAX_OWNER_CHARS);
        assert_eq!(shortened("run_1mbvxrqq6130y4wa"), "run_1mbvxrqq6130y4wa");
        let [shop, store] = ["nodes of /srv/projects/shop", "nodes of /srv/projects/store"].map(&shortened);
        assert!(shop.starts_with("/projects/shop~"), "{shop}");
        assert_ne!(shop, store);
        assert!(shortened(&"ä".repeat(100)).chars().count() == MAX_OWNER_CHARS);
    }

    #[test]
    fn prompt_rows_are_those_of_the_first_prompt() {
        let reads = AwaitOutputReply { reason: AwaitReason::Input, ..AwaitOutputReply::default() };
        let NodeKind::Pty(pty) = Node::parse(&json!({"id": "a", "type": "pty", "command": "dash"})).unwrap().kind
        else {
            panic!("the node is not a pty node")
        };
        for (opening, before, raw, expected) in [
            ("dir\n$ ", "dir\n$ ", "a\ndir\n$ ", "a"),
            ("dir\n$ ", "a\ndir\n$ ", "a\ndir\n$ ", "a"),
            ("\n$ ", "\n$ ", "a\n\n$ ", "a"),
            ("Welcome\ndir\n$ ", "a\ndir\n$ ", "Welcome\ndir\n$ ", "Welcome"),
            ("dir\n$ ", "dir\n$ ", "dir\n$ ", ""),
            ("dir\n$ ", "dir\n$ ", "a\nb$ ", "a\nb"),
            // Not a shell that reports the end of its output, and the first row is another row.
            ("dir\n$ ", "dir\n$ ", "a\nfolder\n$ ", "a\nfolder"),
            ("", "a\ndir\n$ ", "a\ndir\n$ ", "a\ndir"),
        ] {
            let prompt = prompt_before_input(opening, before);
            assert_eq!(answer_in(raw, "", prompt, &pty, &reads), expected, "{opening:?} {before:?} {raw:?}");
        }
    }
}
