//! The inputs of a recording, each with its place in the output.

use super::edit::{Token, token};
use super::lines::Lines;
use super::{MAX_ENTRIES, MAX_PRINTED_BYTES, RecordedScreen, TimelineEvent, floor, shortened};

/// Maximum bytes of a row that an input keeps.
const MAX_ROW_BYTES: usize = 1024;

/// Maximum bytes that all inputs keep of screens.
const MAX_SCREEN_BYTES: usize = 16 << 20;

/// Maximum bytes that an input keeps of the text that a full-screen program drew.
const MAX_DRAWN_BYTES: usize = 4 << 10;

/// An input without a known outcome yet.
#[derive(Debug, Default)]
pub(super) struct RawInput {
    pub(super) text: String,
    /// The row of the input, and the characters of it before the cursor.
    pub(super) row: String,
    pub(super) column: usize,
    /// Bytes of the printed text before that row, and before the input.
    pub(super) line_begin: usize,
    pub(super) begin: usize,
    pub(super) seconds: f64,
    /// Time of the program's last output before the next input.
    pub(super) answered: f64,
    pub(super) is_full_screen: bool,
    /// The rows of a full-screen program before the input.
    pub(super) screen: Option<String>,
    /// Text that a full-screen program drew before the next input, without its places.
    pub(super) drawn: String,
    /// It is the new size of the screen, in columns and rows.
    pub(super) size: Option<(u16, u16)>,
    /// It is text, no keys. Only of those for a full-screen program.
    is_text: bool,
}

/// Content read from a recording.
#[derive(Debug)]
pub(super) struct Recorded {
    /// The output, as lines look in the end.
    pub(super) text: String,
    pub(super) inputs: Vec<RawInput>,
    /// The exit code of the program.
    pub(super) exit: Option<i32>,
    /// True if the reader left out inputs.
    pub(super) is_full: bool,
}

/// Reads the events of a recording.
pub(super) struct Reader<'s> {
    lines: Lines,
    screen: &'s mut dyn RecordedScreen,
    now: f64,
    pending: Option<RawInput>,
    /// The sizes that the screen got in the middle of a line.
    resized: Vec<RawInput>,
    /// Printed lines at the time of the last key.
    lines_then: usize,
    inputs: Vec<RawInput>,
    exit: Option<i32>,
    is_full: bool,
    room_for_screens: usize,
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
            lines_then: 0,
            inputs: Vec::new(),
            exit: None,
            is_full: false,
            room_for_screens: MAX_SCREEN_BYTES,
        }
    }

    /// Begins with a command that no shell of the recording shows.
    pub(super) fn starts(&mut self, command: &str) {
        self.lines.put("$ ");
        self.reads(&format!("{command}\r"));
        self.lines.put(&format!("{command}\r\n"));
    }

    pub(super) fn take(&mut self, seconds: f64, event: TimelineEvent) {
        self.now = seconds;
        match event {
            TimelineEvent::Output(text) => self.prints(&text),
            TimelineEvent::Input(text) => self.reads(&text),
            TimelineEvent::Resize { cols, rows } => self.resizes(cols, rows),
            TimelineEvent::Exit(code) => self.exit = Some(code),
        }
    }

    pub(super) fn finish(mut self) -> Recorded {
        self.flush();
        Recorded { text: self.lines.into_text(), inputs: self.inputs, exit: self.exit, is_full: self.is_full }
    }

    fn prints(&mut self, text: &str) {
        self.lines.put(text);
        self.screen.draw(text);
        let drawn = self.lines.take_drawn();
        if let Some(input) = self.pending.as_mut().or(self.inputs.last_mut()) {
            let room = MAX_DRAWN_BYTES.saturating_sub(input.drawn.len());
            input.drawn.push_str(&drawn[..floor(&drawn, room)]);
        }
        if let Some(last) = self.inputs.last_mut() {
            last.answered = self.now;
        }
    }

    fn reads(&mut self, text: &str) {
        // The program continued without Enter.
        if self.pending.is_some() && self.lines.count() > self.lines_then {
            self.flush();
        }
        let is_full_screen = self.lines.is_full_screen();
        let mut rest = text;
        while let Some((token, length)) = token(rest) {
            let (part, behind) = rest.split_at(length);
            rest = behind;
            if token == Token::Report {
                continue;
            }
            let is_text = matches!(token, Token::Text(_));
            let is_other = |pending: &RawInput| {
                pending.is_full_screen != is_full_screen || is_full_screen && pending.is_text != is_text
            };
            if self.pending.as_ref().is_some_and(is_other) {
                self.flush();
            }
            if self.pending.is_none() {
                self.pending = Some(RawInput { is_text, ..self.input() });
            }
            let Some(pending) = &mut self.pending else { continue };
            pending.text.push_str(part);
            if matches!(token, Token::Key("enter" | "ctrl-c" | "ctrl-d" | "ctrl-z"))
                || pending.text.len() >= MAX_PRINTED_BYTES
            {
                self.flush();
            }
        }
        self.lines_then = self.lines.count();
    }

    fn resizes(&mut self, cols: u16, rows: u16) {
        let input = RawInput { size: Some((cols, rows)), ..self.input() };
        // It is no input: an unfinished line continues.
        self.resized.push(input);
        if self.pending.is_none() {
            self.flush();
        }
        self.screen.resize(cols, rows);
        self.lines.set_width(usize::from(cols));
    }

    fn input(&mut self) -> RawInput {
        let row = self.lines.row();
        let is_full_screen = self.lines.is_full_screen();
        let screen = is_full_screen.then(|| shortened(self.screen.rows().join("\n").trim_end()));
        let screen = screen.filter(|screen| screen.len() <= self.room_for_screens);
        self.room_for_screens -= screen.as_ref().map_or(0, String::len);
        RawInput {
            line_begin: self.lines.len(),
            begin: self.lines.len() + row.len(),
            column: self.lines.column(),
            row: row[floor(&row, row.len().saturating_sub(MAX_ROW_BYTES))..].to_owned(),
            seconds: self.now,
            answered: self.now,
            is_full_screen,
            screen,
            ..RawInput::default()
        }
    }

    fn flush(&mut self) {
        let resized = std::mem::take(&mut self.resized);
        for input in self.pending.take().into_iter().chain(resized) {
            self.add(input);
        }
    }

    fn add(&mut self, input: RawInput) {
        self.is_full |= self.inputs.len() >= MAX_ENTRIES;
        if !self.is_full {
            self.inputs.push(input);
        }
    }
}
