//! A run as a person sees it: a line for each state, as it happens.
//!
//! On a terminal the line of the state that is being executed moves on in place;
//! elsewhere each state is printed once, when it is over.

use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use serde_json::Value;
use steplatch_protocol::RunEvent;

use crate::print::{BAD, GOOD, QUIET, STRONG, duration, fitted, padded, visible, width};

/// Something that shows the events of a run.
pub(crate) trait View {
    /// Shows one event.
    fn show(&mut self, event: &RunEvent) -> io::Result<()>;

    /// Whether something moves on its own right now.
    fn moves(&self) -> bool {
        false
    }

    /// Moves on what moves.
    fn tick(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The columns of names; longer names push their line.
const STATE: usize = 16;
const TOOL: usize = 18;

/// Lines of the screen that are shown when a run breaks.
const SCREEN_LINES: usize = 12;

/// A state being executed.
#[derive(Debug, Clone)]
struct Current {
    state: String,
    tool: String,
    detail: String,
    since: Instant,
}

/// What has been seen of a run.
#[derive(Debug, Default)]
struct Story {
    current: Option<Current>,
    states: u32,
    began: Option<Instant>,
    /// The screen as the last action left it.
    screen: String,
    /// A terminal that the run opened and has not closed.
    terminals: Vec<String>,
    /// What the run returned, by name.
    returned: Vec<(String, String)>,
}

impl Story {
    /// Remembers what the run returns, once that was looked up.
    fn check(&mut self, event: &RunEvent) {
        if event.data.get("side").is_some_and(|side| side == "return_values") {
            let values = event.data.get("variables").and_then(Value::as_object);
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            self.returned = values.into_iter().flatten().map(|(name, value)| (name.clone(), text(value))).collect();
        }
    }

    fn enter(&mut self, event: &RunEvent) -> Current {
        let text = |name: &str| event.data.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let tool = text("tool");
        let detail = detail(&tool, event.data.get("params").unwrap_or(&Value::Null));
        let current = Current { state: text("state"), tool, detail, since: Instant::now() };
        self.states += 1;
        self.current = Some(current.clone());
        current
    }

    /// Returns the line of a state that is over.
    fn leave(&mut self, event: &RunEvent, width: Option<usize>) -> Option<String> {
        let current = self.current.take()?;
        let result = event.data.get("result").unwrap_or(&Value::Null);
        let seconds = event.data.get("elapsed_time").and_then(Value::as_f64).unwrap_or_default();
        if let Some(screen) = result.get("screen_content").and_then(Value::as_str) {
            screen.clone_into(&mut self.screen);
        }
        if let Some(session) = result.get("session_id").and_then(Value::as_str) {
            match current.tool.as_str() {
                "open_terminal" if succeeded(result) => self.terminals.push(session.to_owned()),
                "exit_terminal" => self.terminals.retain(|known| known != session),
                _ => {}
            }
        }
        let timed_out = event.data.get("outcome").is_some_and(|outcome| outcome == "timed_out")
            || result.get("timeout_occurred") == Some(&Value::Bool(true));
        let (mark, style) = match (timed_out, succeeded(result)) {
            (true, _) => ("◌", QUIET),
            (false, true) => ("✓", GOOD),
            (false, false) => ("✗", BAD),
        };
        let outcome = outcome(&current.tool, result, timed_out);
        let detail = match (current.detail.as_str(), outcome.as_str()) {
            (detail, "") => detail.to_owned(),
            ("", outcome) => outcome.to_owned(),
            (detail, outcome) => format!("{detail} → {outcome}"),
        };
        let time = duration(Duration::from_secs_f64(seconds));
        Some(line(&format!("{style}{mark}{style:#}"), &current.state, &current.tool, &detail, &time, width))
    }

    fn finished(&self, event: &RunEvent) -> Vec<String> {
        let time = self.began.map(|began| format!(" in {}", duration(began.elapsed()))).unwrap_or_default();
        let states = if self.states == 1 { "1 state".to_owned() } else { format!("{} states", self.states) };
        let mut lines = Vec::new();
        match event.event_type.as_str() {
            "workflow_completed" => lines.push(format!("{GOOD}✓{GOOD:#} {STRONG}completed{STRONG:#}{time}, {states}")),
            "workflow_cancelled" => lines.push(format!("{BAD}✗{BAD:#} {STRONG}cancelled{STRONG:#}{time}, {states}")),
            _ => {
                let error = event.data.get("error").and_then(Value::as_str).unwrap_or("no reason was given");
                lines.push(format!("{BAD}✗{BAD:#} {STRONG}failed{STRONG:#}{time}, {states}: {error}"));
                let screen: Vec<&str> = self.screen.lines().collect();
                if !screen.is_empty() {
                    lines.push(format!("  {QUIET}the screen as it was left:{QUIET:#}"));
                    let shown = screen.iter().skip(screen.len().saturating_sub(SCREEN_LINES));
                    lines.extend(shown.map(|line| format!("  {QUIET}│{QUIET:#} {line}")));
                }
            }
        }
        if event.event_type == "workflow_completed" {
            lines.extend(self.returned.iter().map(|(name, value)| format!("  {name} = {}", visible(value))));
            lines.extend(self.terminals.iter().map(|terminal| {
                format!("  {QUIET}terminal {terminal} is still open: steplatch terminal attach {terminal}{QUIET:#}")
            }));
        }
        lines
    }
}

/// Whether an action did what it was asked to.
pub(crate) fn succeeded(result: &Value) -> bool {
    result.get("success") != Some(&Value::Bool(false)) && !result.is_null()
}

/// What an action is about, in a few words.
pub(crate) fn detail(tool: &str, params: &Value) -> String {
    let text = |name: &str| params.get(name).and_then(Value::as_str).unwrap_or_default();
    match tool {
        "open_terminal" => match params.get("command").and_then(Value::as_array) {
            Some(command) => command.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
            None if text("shell").is_empty() => "bash".to_owned(),
            None => text("shell").to_owned(),
        },
        "send_input" => {
            let keys = params.get("keys").and_then(Value::as_array);
            let keys: Vec<String> =
                keys.into_iter().flatten().filter_map(Value::as_str).map(|key| format!("<{key}>")).collect();
            format!("{}{}", visible(text("input_text")), keys.concat())
        }
        "await_output" if !text("pattern").is_empty() => format!("/{}/", visible(text("pattern"))),
        "await_output" => text("until").to_owned(),
        "get_screen_content" => text("content_mode").to_owned(),
        "run_workflow" if text("workflow_name").is_empty() => {
            let name = params.get("workflow_definition").and_then(|inner| inner.get("name")?.as_str());
            name.unwrap_or("unnamed").to_owned()
        }
        "run_workflow" => text("workflow_name").to_owned(),
        "sleep" => params.get("seconds").map(|seconds| format!("{seconds} s")).unwrap_or_default(),
        _ => String::new(),
    }
}

/// What came of an action, where that says more than that it worked.
pub(crate) fn outcome(tool: &str, result: &Value, timed_out: bool) -> String {
    if timed_out {
        return "time is up".to_owned();
    }
    if let Some(error) = result.get("error").and_then(Value::as_str).filter(|_| !succeeded(result)) {
        return visible(error);
    }
    match tool {
        "await_output" => match result.get("match_text").and_then(Value::as_str) {
            Some(found) => visible(found),
            None => match result.get("exit_code").and_then(Value::as_i64) {
                Some(code) => format!("exit code {code}"),
                None => result.get("reason").and_then(Value::as_str).unwrap_or_default().to_owned(),
            },
        },
        "open_terminal" => result.get("session_id").and_then(Value::as_str).unwrap_or_default().to_owned(),
        "run_workflow" => result.get("status").and_then(Value::as_str).unwrap_or_default().to_owned(),
        _ => String::new(),
    }
}

/// `  ✓ state  tool  detail … time`, fitted to the width of the terminal where there is one.
fn line(mark: &str, state: &str, tool: &str, detail: &str, time: &str, width: Option<usize>) -> String {
    let head = format!("{}  {}  ", padded(state, STATE), padded(tool, TOOL));
    let used = 4 + unicode_width::UnicodeWidthStr::width(head.as_str());
    // The widest time is "59 min 59 s".
    let room = width.unwrap_or(100).min(120).saturating_sub(used + 12);
    let detail = match width {
        Some(_) => padded(&fitted(detail, room), room),
        None => padded(detail, room),
    };
    format!(
        "  {mark} {}  {QUIET}{}{QUIET:#}  {detail} {QUIET}{time:>10}{QUIET:#}",
        padded(state, STATE),
        padded(tool, TOOL)
    )
    .trim_end()
    .to_owned()
}

fn title(event: &RunEvent) -> String {
    format!("{STRONG}{}{STRONG:#} {QUIET}{}{QUIET:#}", event.workflow_id, event.run_id)
}

/// A run, shown line by line. On a terminal, the line of the current state moves on in place.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    story: Story,
    /// Whether somebody watches, rather than a file or a pipe.
    watched: bool,
    frame: usize,
    /// A line that is to be replaced stands on the screen.
    open: bool,
}

const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// A state that is over sooner than this shows no sign of being at work.
const PATIENCE: Duration = Duration::from_millis(150);

impl Shown {
    /// Shows a run on standard output; `watched` is whether that is a terminal.
    pub(crate) fn new(watched: bool) -> Self {
        Self { watched, ..Self::default() }
    }

    fn clear(&mut self, out: &mut impl io::Write) -> io::Result<()> {
        if std::mem::take(&mut self.open) {
            // To the beginning of the line, and erase it.
            write!(out, "\r\x1b[2K")?;
        }
        Ok(())
    }
}

impl View for Shown {
    fn show(&mut self, event: &RunEvent) -> io::Result<()> {
        let mut out = anstream::stdout().lock();
        match event.event_type.as_str() {
            "workflow_started" => {
                self.story.began = Some(Instant::now());
                writeln!(out, "{}", title(event))
            }
            "state_entered" => {
                self.story.enter(event);
                Ok(())
            }
            "state_completed" => {
                self.clear(&mut out)?;
                let width = if self.watched { width() } else { None };
                match self.story.leave(event, width) {
                    Some(line) => writeln!(out, "{line}"),
                    None => Ok(()),
                }
            }
            "contract_checked" => {
                self.story.check(event);
                Ok(())
            }
            _ if event.is_last() => {
                self.clear(&mut out)?;
                self.story.finished(event).iter().try_for_each(|line| writeln!(out, "{line}"))
            }
            _ => Ok(()),
        }
    }

    fn moves(&self) -> bool {
        self.watched && self.story.current.is_some()
    }

    fn tick(&mut self) -> io::Result<()> {
        let Some(current) = self.story.current.clone().filter(|current| current.since.elapsed() > PATIENCE) else {
            return Ok(());
        };
        let mut out = anstream::stdout().lock();
        self.clear(&mut out)?;
        self.frame = (self.frame + 1) % FRAMES.len();
        let time = duration(current.since.elapsed());
        let mark = format!("{QUIET}{}{QUIET:#}", FRAMES[self.frame]);
        write!(out, "{}", line(&mark, &current.state, &current.tool, &current.detail, &time, width()))?;
        self.open = true;
        out.flush()
    }
}
