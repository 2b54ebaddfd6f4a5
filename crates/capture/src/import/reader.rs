//! The inputs of a recording, each with its position in the output.

use super::edit::{Token, first_token};
use super::lines::Lines;
use super::{MAX_ENTRIES, MAX_PRINTED_BYTES, RecordedScreen, TimelineEvent, floor_boundary, shorten};

/// Maximum length of the row of an input.
const MAX_ROW_BYTES: usize = 1024;

/// Maximum length of the screens of all inputs together.
const MAX_SCREEN_BYTES: usize = 16 << 20;

/// Maximum length of the text that a full-screen program drew after an input.
const MAX_DRAWN_BYTES: usize = 4 << 10;

/// An input as recorded.
#[derive(Debug, Default)]
pub(super) struct RawInput {
    pub(super) text: String,
    /// The row before the input, and the column of the cursor in it.
    pub(super) row: String,
    pub(super) column: usize,
    /// Index in the output of the beginning of that row, and of the input.
    pub(super) line_begin: usize,
    pub(super) begin: usize,
    pub(super) seconds: f64,
    /// Time of the last output before the next input.
    pub(super) last_output_seconds: f64,
    pub(super) is_full_screen: bool,
    /// The rows of a full-screen program before the input.
    pub(super) screen: Option<String>,
    /// Text that a full-screen program drew before the next input, without positions.
    pub(super) drawn: String,
    /// The new columns and rows of the screen, for a change of size.
    pub(super) size: Option<(u16, u16)>,
    /// For a full-screen program: true if the input is text, not keys.
    is_text: bool,
}

/// Content read from a recording.
#[derive(Debug)]
pub(super) struct Recorded {
    /// The output, as lines in their final form.
    pub(super) text: String,
    pub(super) inputs: Vec<RawInput>,
    /// The exit code of the program.
    pub(super) exit: Option<i32>,
    /// True if the reader omitted inputs.
    pub(super) is_full: bool,
}

/// Reader of the events of a recording.
pub(super) struct Reader<'s> {
    lines: Lines,
    screen: &'s mut dyn RecordedScreen,
    now: f64,
    pending: Option<RawInput>,
    /// Changes of size in the middle of a line.
    resized: Vec<RawInput>,
    /// Number of printed lines at the time of the last key.
    line_count_at_key: usize,
    inputs: Vec<RawInput>,
    exit: Option<i32>,
    is_full: bool,
    free_screen_bytes: usize,
}

impl<'s> Reader<'s> {
    pub(super) fn new(screen: &'s mut dyn RecordedScreen, size: Option<(u16, u16)>) -> Self {
        if let Some((cols, rows)) = size {
            screen.resize(cols, rows);
        }
        Self {
            lines: Lines::new(size.map(|(cols, _)| usize::from(cols))),
            screen,
            now: 0.0,
            pending: None,
            resized: Vec::new(),
            line_count_at_key: 0,
            inputs: Vec::new(),
            exit: None,
            is_full: false,
            free_screen_bytes: MAX_SCREEN_BYTES,
        }
    }

    /// Adds the command that the recording begins with as an input at a prompt.
    pub(super) fn start_command(&mut self, command: &str) {
        self.lines.write_text("$ ");
        self.add_typed(&format!("{command}\r"));
        self.lines.write_text(&format!("{command}\r\n"));
    }

    pub(super) fn add_event(&mut self, seconds: f64, event: TimelineEvent) {
        self.now = seconds;
        match event {
            TimelineEvent::Output(text) => self.add_output(&text),
            TimelineEvent::Input(text) => self.add_typed(&text),
            TimelineEvent::Resize { cols, rows } => self.add_resize(cols, rows),
            TimelineEvent::Exit(code) => self.exit = Some(code),
        }
    }

    pub(super) fn finish(mut self) -> Recorded {
        self.flush_pending();
        Recorded { text: self.lines.into_text(), inputs: self.inputs, exit: self.exit, is_full: self.is_full }
    }

    fn add_output(&mut self, text: &str) {
        self.lines.write_text(text);
        self.screen.draw(text);
        let drawn = self.lines.take_drawn();
        if let Some(input) = self.pending.as_mut().or(self.inputs.last_mut()) {
            let room = MAX_DRAWN_BYTES.saturating_sub(input.drawn.len());
            input.drawn.push_str(&drawn[..floor_boundary(&drawn, room)]);
        }
        if let Some(last) = self.inputs.last_mut() {
            last.last_output_seconds = self.now;
        }
    }

    fn add_typed(&mut self, text: &str) {
        // The program printed a line after the last key, so the pending input is complete.
        if self.pending.is_some() && self.lines.count() > self.line_count_at_key {
            self.flush_pending();
        }
        let is_full_screen = self.lines.is_full_screen();
        let mut rest = text;
        while let Some((first_token, length)) = first_token(rest) {
            let (part, after) = rest.split_at(length);
            rest = after;
            if first_token == Token::Report {
                continue;
            }
            let is_text = matches!(first_token, Token::Text(_));
            let is_other_kind = |pending: &RawInput| {
                pending.is_full_screen != is_full_screen || is_full_screen && pending.is_text != is_text
            };
            if self.pending.as_ref().is_some_and(is_other_kind) {
                self.flush_pending();
            }
            if self.pending.is_none() {
                self.pending = Some(RawInput { is_text, ..self.new_input() });
            }
            let Some(pending) = &mut self.pending else { continue };
            pending.text.push_str(part);
            if matches!(first_token, Token::Key("enter" | "ctrl-c" | "ctrl-d" | "ctrl-z"))
                || pending.text.len() >= MAX_PRINTED_BYTES
            {
                self.flush_pending();
            }
        }
        self.line_count_at_key = self.lines.count();
    }

    fn add_resize(&mut self, cols: u16, rows: u16) {
        let input = RawInput { size: Some((cols, rows)), ..self.new_input() };
        // A change of size does not end a line.
        self.resized.push(input);
        if self.pending.is_none() {
            self.flush_pending();
        }
        self.screen.resize(cols, rows);
        self.lines.set_width(usize::from(cols));
    }

    fn new_input(&mut self) -> RawInput {
        let row = self.lines.row();
        let is_full_screen = self.lines.is_full_screen();
        let screen = is_full_screen.then(|| shorten(self.screen.rows().join("\n").trim_end()));
        let screen = screen.filter(|screen| screen.len() <= self.free_screen_bytes);
        self.free_screen_bytes -= screen.as_ref().map_or(0, String::len);
        RawInput {
            line_begin: self.lines.len(),
            begin: self.lines.len() + row.len(),
            column: self.lines.column(),
            row: row[floor_boundary(&row, row.len().saturating_sub(MAX_ROW_BYTES))..].to_owned(),
            seconds: self.now,
            last_output_seconds: self.now,
            is_full_screen,
            screen,
            ..RawInput::default()
        }
    }

    fn flush_pending(&mut self) {
        let resized = std::mem::take(&mut self.resized);
        for input in self.pending.take().into_iter().chain(resized) {
            self.add_input(input);
        }
    }

    fn add_input(&mut self, input: RawInput) {
        self.is_full |= self.inputs.len() >= MAX_ENTRIES;
        if !self.is_full {
            self.inputs.push(input);
        }
    }
}
