//! `steplatch terminal …`: open, use and close terminals.

mod control;
mod inputs;
mod record;
mod secret;
mod share;
pub(super) mod wait;

use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use steplatch_protocol::{
    AgentActivity, AwaitUntil, ContentMode, DaemonPaths, ExitTerminal, GetScreenContent, ListTerminalSessions,
    OmittedOutput, OpenTerminal, RunCommand, ScreenFormat, SendInput, SessionInfo,
};

use crate::attach::{DetachKey, attach};
use crate::failure::{FAILED, Failure};
use crate::{completion, daemon_client, pick, print};

#[derive(Debug, Subcommand)]
pub(crate) enum Terminal {
    /// Open a terminal and print its id
    Open(Open),
    /// List the open terminals
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Connect this terminal to a terminal of the daemon
    Attach {
        /// Id or name of the terminal; without one the only open terminal, or one picked from a list
        #[arg(value_name = "TERMINAL", add = completion::terminals())]
        id: Option<String>,
        /// Detach key; the terminal keeps running
        #[arg(long, value_name = "KEY", default_value = "ctrl-\\")]
        detach_key: DetachKey,
        /// Take over: only you can type until you detach
        #[arg(long)]
        hold: bool,
    },
    /// Type into a terminal
    Send(Send),
    /// Run a command in a terminal's shell, print its output and exit with its exit code
    Run(RunInTerminal),
    Wait(wait::Wait),
    /// Print the screen of a terminal, or its output
    Screen(Screen),
    Record(record::Record),
    Inputs(inputs::Inputs),
    Secret(secret::Secret),
    Share(share::Share),
    Resize(control::Resize),
    Signal(control::Signal),
    /// Close a terminal and end its processes
    Close(Close),
}

#[derive(Debug, Args)]
pub(crate) struct Open {
    /// Program to start, with its arguments [default: bash]
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// Name to use in place of the id
    #[arg(long)]
    name: Option<String>,
    /// Print the id of the open terminal with the name, or of the service, if there is one
    #[arg(long, requires = "name")]
    reuse: bool,
    /// Directory to start in [default: the current one]
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// Columns and rows
    #[arg(long, value_name = "COLSxROWS", default_value = "120x40", value_parser = parse_size)]
    size: (u16, u16),
    /// Host to open it on [default: this computer]
    #[arg(long, add = completion::hosts())]
    host: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn parse_size(text: &str) -> Result<(u16, u16), String> {
    let parsed = text.split_once('x').and_then(|(cols, rows)| Some((cols.parse().ok()?, rows.parse().ok()?)));
    parsed.ok_or_else(|| "a size must have the form 120x40".to_owned())
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let parsed = text.parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds > 0.0);
    parsed.ok_or_else(|| "a pause must be a number of seconds, such as 2.5".to_owned())
}

/// Maximum wait for the reaction to a sent line. Then the current screen is printed.
const REACTION_TIMEOUT_SECONDS: f64 = 3.0;

#[derive(Debug, Args)]
pub(crate) struct Send {
    /// Id or name of the terminal
    #[arg(value_name = "TERMINAL", add = completion::terminals())]
    id: String,
    /// Text to type; - reads it from standard input
    #[arg(default_value = "")]
    text: String,
    /// Press Enter after the text
    #[arg(long, short)]
    enter: bool,
    /// Key to press after the text, such as ctrl-c or up, or click:LABEL for the mouse (repeatable)
    #[arg(long, short, value_name = "KEY")]
    key: Vec<String>,
    /// The text is a secret: redact it in all output
    #[arg(long)]
    secret: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RunInTerminal {
    /// Id or name of the terminal; its shell or its REPL must be at its prompt
    #[arg(value_name = "TERMINAL", add = completion::terminals())]
    id: String,
    /// The command: one argument in the language of the shell, or a program with its arguments
    #[arg(
        trailing_var_arg = true,
        required_unless_present = "integrate",
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    command: Vec<String>,
    /// Seconds to wait for the end of the command
    #[arg(long, value_name = "SECONDS", default_value_t = 3600.0)]
    timeout: f64,
    /// Directory to change to first
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// In a shell within ssh, su or docker: set up exit codes and variables first
    #[arg(long)]
    integrate: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Screen {
    /// Id or name of the terminal; without one the only open terminal, or one picked from a list
    #[arg(value_name = "TERMINAL", add = completion::terminals())]
    id: Option<String>,
    /// Print all output since the terminal was opened
    #[arg(long, conflicts_with = "tail")]
    history: bool,
    /// Print the last lines of the output
    #[arg(long, value_name = "LINES")]
    tail: Option<u32>,
    /// Keep the colours of the screen (short for --format ansi)
    #[arg(long, conflicts_with_all = ["history", "tail", "format"])]
    color: bool,
    /// Format of the screen
    #[arg(long, value_enum, default_value_t = Format::Text, conflicts_with_all = ["history", "tail"])]
    format: Format,
    /// File to write to
    #[arg(long, short, value_name = "FILE", conflicts_with = "json")]
    output: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Plain text
    Text,
    /// Text with colour sequences
    Ansi,
    /// A web page
    Html,
    /// An image
    Png,
}

#[derive(Debug, Args)]
pub(crate) struct Close {
    /// Id or name of the terminal
    #[arg(value_name = "TERMINAL", add = completion::terminals())]
    id: String,
    /// First signal to send, such as TERM [default: HUP]
    #[arg(long)]
    signal: Option<String>,
    /// Send KILL at once
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Maximum length of the output in one reply, in bytes.
const MAX_PAGE_BYTES: u32 = 1_000_000;

impl Terminal {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        match self {
            Self::Open(command) => command.run(paths).await,
            Self::List { json } => list(paths, json).await,
            Self::Attach { id, detach_key, hold } => {
                let id = pick::terminal(paths, id).await?;
                attach(paths, &id, detach_key, hold).await
            }
            Self::Send(command) => command.run(paths).await,
            Self::Run(command) => command.run(paths).await,
            Self::Wait(command) => command.run(paths).await,
            Self::Screen(command) => command.run(paths).await,
            Self::Record(command) => command.run(paths).await,
            Self::Inputs(command) => command.run(paths).await,
            Self::Secret(command) => command.run(paths).await,
            Self::Share(command) => command.run(paths).await,
            Self::Resize(command) => command.run(paths).await,
            Self::Signal(command) => command.run(paths).await,
            Self::Close(command) => command.run(paths).await,
        }
    }
}

fn check_success(success: bool, error: Option<&String>, reply: &impl Serialize) -> Result<(), Failure> {
    if success {
        return Ok(());
    }
    let error = error.cloned().unwrap_or_else(|| "it failed, and the daemon gave no reason".to_owned());
    Err(Failure::work(error).with(reply))
}

impl Open {
    async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let reply = daemon_client::ask(
            paths,
            OpenTerminal {
                shell: "bash".to_owned(),
                working_directory: self.cwd,
                command: Some(self.command).filter(|command| !command.is_empty()),
                cols: self.size.0,
                rows: self.size.1,
                name: self.name,
                reuse: self.reuse,
                wait_ready: true,
                host: self.host,
                ..OpenTerminal::default()
            },
        )
        .await?;
        check_success(reply.success, reply.error.as_ref(), &reply)?;
        if self.json {
            print::json(&reply)?;
        } else {
            print::line(&reply.session_id)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

async fn list(paths: &DaemonPaths, json: bool) -> Result<ExitCode, Failure> {
    let reply = daemon_client::ask(paths, ListTerminalSessions {}).await?;
    if json {
        print::json(&reply)?;
    } else if reply.sessions.is_empty() {
        print::remark("no terminals are open; open one with: steplatch terminal open");
    } else {
        let head = ["ID", "NAME", "STATE", "SIZE", "OPENED BY", "COMMAND", "DIRECTORY"].map(str::to_owned).to_vec();
        let rows: Vec<_> = std::iter::once(head).chain(reply.sessions.iter().map(format_row)).collect();
        for line in print::list(&rows, 2, print::width()) {
            print::line(line)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Describes the state of a terminal.
fn state(session: &SessionInfo) -> String {
    state_at(session, None)
}

/// Describes the state of a terminal. `now` replaces the current time.
pub(crate) fn state_at(session: &SessionInfo, now: Option<&str>) -> String {
    if let Some(since) = &session.host_lost_since {
        return format!("host lost {}", print::ago_at(since, now));
    }
    match (session.state.as_str(), session.exit_code) {
        ("exited", Some(code)) => return format!("exited {code}"),
        ("exited", None) => return "exited".to_owned(),
        _ => {}
    }
    if let Some(holder) = &session.held_by {
        return format!("held by {holder}");
    }
    if let (Some(agent), Some(activity)) = (&session.agent, session.agent_activity) {
        let activity = match activity {
            AgentActivity::Working => "working",
            AgentActivity::Asks => "asks",
            AgentActivity::Idle => "idle",
        };
        return format!("{activity} ({agent})");
    }
    let awaits_input = session.awaiting_input == Some(true);
    match (session.busy, awaits_input) {
        _ if session.password => "asks for a password",
        (Some(false), _) => "at prompt",
        (_, true) => "waits for input",
        (Some(true), false) => "busy",
        (None, false) => "running",
    }
    .to_owned()
}

/// Formats a terminal as a row of a table.
pub(crate) fn format_row(session: &SessionInfo) -> Vec<String> {
    let state = state(session);
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    vec![
        session.session_id.clone(),
        or_dash(&session.name),
        state,
        format!("{}x{}", session.cols, session.rows),
        or_dash(&session.opened_by),
        print::fitted(&print::visible(&session.command), 40),
        directory(session).unwrap_or_else(|| "-".to_owned()),
    ]
}

/// Returns the directory of a terminal, with the host as in scp(1) if the terminal is on a remote host.
pub(crate) fn directory(session: &SessionInfo) -> Option<String> {
    match &session.host {
        Some(host) => Some(format!("{host}:{}", session.cwd.as_deref().unwrap_or_default())),
        None => session.cwd.clone(),
    }
}

impl Send {
    async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let mut text = self.text;
        if text == "-" {
            text.clear();
            std::io::stdin().read_to_string(&mut text)?;
        }
        if self.enter {
            text = with_enter(text);
        }
        let is_enter = |key: &String| matches!(key.to_ascii_lowercase().as_str(), "enter" | "return");
        let is_line = text.ends_with('\n') && self.key.is_empty() || self.key.last().is_some_and(is_enter);
        let reply = daemon_client::ask(
            paths,
            SendInput {
                session_id: self.id,
                input_text: text,
                keys: Some(self.key).filter(|keys| !keys.is_empty()),
                secret: self.secret,
                until: is_line.then_some(AwaitUntil::Input),
                timeout: is_line.then_some(REACTION_TIMEOUT_SECONDS),
                ..SendInput::default()
            },
        )
        .await?;
        if self.json && reply.success {
            print::json(&reply)?;
        } else if !self.json
            && let Some(screen) = &reply.screen_content
        {
            // Print the screen even if the shell ran nothing from the line, because it shows the shell's message.
            print::line(screen)?;
        }
        check_success(reply.success, reply.error.as_ref(), &reply)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns text that ends with Enter. The line end of `echo` or `pass` is that Enter, and is not typed twice.
fn with_enter(mut text: String) -> String {
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    text.push('\n');
    text
}

/// Destination of a screen.
enum Destination {
    File(File),
    Output,
}

impl Destination {
    fn open(file: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = file else { return Ok(Self::Output) };
        let to_failure = |error: io::Error| Failure::usage(format!("'{}' cannot be written: {error}", path.display()));
        File::create(path).map(Self::File).map_err(to_failure)
    }

    fn is_terminal(&self) -> bool {
        matches!(self, Self::Output) && io::stdout().is_terminal()
    }

    fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::File(file) => file.write_all(bytes),
            Self::Output => print::bytes(bytes),
        }
    }

    fn exactly(&mut self, text: &str) -> io::Result<()> {
        match self {
            Self::File(file) => file.write_all(text.as_bytes()),
            Self::Output => print::unchanged(text),
        }
    }

    fn line(&mut self, text: &str) -> io::Result<()> {
        match self {
            Self::File(file) => writeln!(file, "{text}"),
            Self::Output => print::line(text),
        }
    }
}

/// Prints a remark if the beginning of an output was dropped.
fn report_lost_output(omitted: Option<&OmittedOutput>) {
    if let Some(offset) = omitted.and_then(|omitted| omitted.lost_before) {
        print::remark(&format!("output before offset {offset} was dropped"));
    }
}

impl RunInTerminal {
    async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let reply = daemon_client::ask(
            paths,
            RunCommand {
                session_id: Some(self.id),
                // A single argument is a command line; several arguments are its words.
                command: match self.command.as_slice() {
                    [line] => line.clone(),
                    words => shell_words::join(words),
                },
                timeout: self.timeout,
                working_directory: self.cwd,
                integrate: self.integrate.then_some(true),
                limit: Some(MAX_PAGE_BYTES),
                environment: None,
                host: None,
            },
        )
        .await?;
        if !self.json {
            report_lost_output(reply.omitted.as_ref());
            print::unchanged(&reply.output)?;
            if let Some(OmittedOutput { bytes, offset, tail: Some(tail), .. }) = &reply.omitted {
                print::remark(&format!(
                    "{bytes} bytes are omitted here, from offset {offset} of the terminal's output"
                ));
                print::unchanged(tail)?;
            }
        }
        if let Some(error) = reply.error.clone().filter(|_| !reply.success) {
            return Err(Failure::work(error).with(&reply));
        }
        if self.json {
            print::json(&reply)?;
        }
        if reply.exit_code_unknown {
            print::remark(
                "the shell reports no exit codes, so the command may have failed; --integrate has it report them",
            );
        }
        // Exit with the command's exit code, like a shell. An entry in an interpreter has no exit code.
        let command_code = reply.exit_code.map_or(0, |code| u8::try_from(code & 0xff).unwrap_or(FAILED));
        let code = if reply.exit_code_unknown { FAILED } else { command_code };
        Ok(ExitCode::from(code))
    }
}

impl Screen {
    async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let content_mode = match (self.history, self.tail) {
            (true, _) => ContentMode::History,
            (false, Some(_)) => ContentMode::Tail,
            (false, None) => ContentMode::Screen,
        };
        let mut verb = GetScreenContent {
            session_id: pick::terminal(paths, self.id).await?,
            content_mode,
            line_count: self.tail,
            offset: self.history.then_some(0),
            limit: Some(MAX_PAGE_BYTES),
            format: match self.format {
                _ if self.color => ScreenFormat::Ansi,
                Format::Text => ScreenFormat::Text,
                Format::Ansi => ScreenFormat::Ansi,
                Format::Html => ScreenFormat::Html,
                Format::Png => ScreenFormat::Png,
            },
            ..GetScreenContent::default()
        };
        let mut out = Destination::open(self.output.as_deref())?;
        if self.format == Format::Png && !self.json && out.is_terminal() {
            return Err(Failure::usage("a terminal cannot show images; name a file with --output, or pipe the output"));
        }
        loop {
            let reply = daemon_client::ask(paths, verb.clone()).await?;
            check_success(reply.success, reply.error.as_ref(), &reply)?;
            let has_more = self.history && reply.truncated;
            verb.offset = reply.next_offset;
            if self.json {
                print::json(&reply)?;
            } else if let Some(png) = reply.png {
                let image =
                    STANDARD.decode(png).map_err(|error| Failure::work(format!("the image is broken: {error}")))?;
                out.bytes(&image)?;
            } else {
                let content = reply.screen_content.unwrap_or_default();
                report_lost_output(reply.omitted.as_ref());
                match reply.omitted.and_then(|omitted| Some((omitted.tail?, omitted.bytes))) {
                    Some((tail, bytes)) => {
                        out.line(content.trim_end())?;
                        print::remark(&format!("{bytes} bytes are omitted here; --history shows everything"));
                        out.line(&tail)?;
                    }
                    // The next page continues this one, so add no newline.
                    None if has_more => out.exactly(&content)?,
                    None => out.line(content.trim_end())?,
                }
            }
            if !has_more {
                return Ok(ExitCode::SUCCESS);
            }
        }
    }
}

impl Close {
    async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let verb = ExitTerminal { session_id: self.id.clone(), signal: self.signal, force: self.force };
        let reply = daemon_client::ask(paths, verb).await?;
        if !reply.success && reply.message == "Session not found" {
            let error = format!("terminal '{}' not found; list terminals with: steplatch terminal list", self.id);
            return Err(Failure::work(error).with(&reply));
        }
        check_success(reply.success, Some(&reply.message), &reply)?;
        if self.json {
            print::json(&reply)?;
        } else {
            let code = reply.exit_code.map(|code| format!(", exit code {code}")).unwrap_or_default();
            print::line(format!("closed {}{code}", reply.session_id))?;
            for survivor in &reply.survivors {
                let reason = if survivor.doubtful {
                    "may belong to another terminal and was not ended"
                } else {
                    "could not be ended"
                };
                print::remark(&format!("process {} ({}) {reason}", survivor.pid, survivor.name));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailing_newline_of_piped_text_is_enter() {
        for (text, typed) in
            [("a", "a\n"), ("a\n", "a\n"), ("a\r\n", "a\n"), ("a\n\n", "a\n\n"), ("", "\n"), ("\n", "\n")]
        {
            assert_eq!(with_enter(text.to_owned()), typed, "{text:?}");
        }
    }
}
