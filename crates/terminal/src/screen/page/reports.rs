//! Answers to the queries that programs send to a terminal (DA, DSR, DECRQSS, XTWINOPS, XTVERSION, XTGETTCAP in xterm's
//! ctlseqs; DEC STD 070).
//!
//! No answer repeats text from the output, because an answer is input of the program, and of the next reader of the
//! terminal. So reports of titles are empty, and reports of capabilities repeat only names from [`CAPABILITIES`].

use std::fmt::Write as _;

use alacritty_terminal::vte::ansi::CursorShape;

use super::super::paint;
use super::XtermScreen;

/// The width and height of a cell, in pixels, as reported to programs.
const CELL_PIXELS: (usize, usize) = (8, 16);

/// The release of xterm that the reports claim. Programs derive the supported features from it.
const XTERM_VERSION: u16 = 380;

/// Reported capabilities by name, with their values in terminfo for our TERM.
const CAPABILITIES: [(&str, &str); 4] = [("Co", "256"), ("colors", "256"), ("TN", "xterm-256color"), ("RGB", "8")];

impl XtermScreen {
    fn answer(&self, text: &str) {
        self.outbox.reply(text.as_bytes());
    }

    /// Replies to DA. Primary: a VT420 with selective erase, horizontal scrolling, colours and rectangles.
    pub(super) fn report_attributes(&self, kind: Option<char>) {
        match kind {
            None => self.answer(&format!("\x1b[?6{};6;21;22;28c", self.level)),
            Some('>') => self.answer(&format!("\x1b[>41;{XTERM_VERSION};0c")),
            // DECRPTUI: the unit id 0.
            Some('=') => self.answer("\x1bP!|00000000\x1b\\"),
            Some(_) => {}
        }
    }

    /// Returns row and column of the cursor relative to the origin, counted from 1.
    fn reported_position(&self) -> (usize, usize) {
        let ((row, column), home) = (self.cursor_position(), self.home());
        (row.saturating_sub(home.0) + 1, column.saturating_sub(home.1) + 1)
    }

    /// Replies to DSR.
    pub(super) fn report_status(&self, what: usize) {
        match what {
            5 => self.answer("\x1b[0n"),
            6 => {
                let (row, column) = self.reported_position();
                self.answer(&format!("\x1b[{row};{column}R"));
            }
            _ => {}
        }
    }

    /// Replies to DEC's variant of DSR (DECDSR).
    pub(super) fn report_device(&self, params: &[u16]) {
        match params.first().copied().unwrap_or(0) {
            6 => {
                let (row, column) = self.reported_position();
                self.answer(&format!("\x1b[?{row};{column};1R"));
            }
            // No printer; locked user-defined keys; a ready keyboard of unknown language; no locator.
            15 => self.answer("\x1b[?13n"),
            25 => self.answer("\x1b[?21n"),
            26 => self.answer("\x1b[?27;0;0;0n"),
            53 | 55 => self.answer("\x1b[?50n"),
            56 => self.answer("\x1b[?57;0n"),
            // No memory for macros; their checksum, 0; no errors; no sessions.
            62 => self.answer("\x1b[0*{"),
            63 => self.answer(&format!("\x1bP{}!~0000\x1b\\", params.get(1).copied().unwrap_or(0))),
            75 => self.answer("\x1b[?70n"),
            85 => self.answer("\x1b[?83n"),
            // The colour scheme: dark. Source:
            // <https://contour-terminal.org/vt-extensions/color-palette-update-notifications/>.
            996 => self.answer("\x1b[?997;1n"),
            _ => {}
        }
    }

    /// Replies to DECRQSS with the parameters of the sequence that sets the current value.
    pub(super) fn report_setting(&self, name: &[u8]) {
        let cursor = &self.term.grid().cursor;
        let value = match name {
            b"m" => paint::attributes(&cursor.template),
            b"r" => format!("{};{}", self.top + 1, self.bottom + 1),
            b"s" if self.level >= 4 => {
                let (left, right) = self.left_and_right();
                format!("{};{}", left + 1, right + 1)
            }
            // DECSLPP and DECSNLS: lines of the page and of the screen.
            b"t" | b"*|" => self.rows().to_string(),
            b" q" => self.cursor_style().to_string(),
            b"\"q" => u8::from(self.protects()).to_string(),
            b"*x" => if self.attributes_in_rectangle { "2" } else { "0" }.to_owned(),
            b"\"p" => format!("6{};1", self.level),
            // DECSASD and DECSSDT: there is no status line.
            b"$}" | b"$~" => "0".to_owned(),
            // The reply to an unknown name does not repeat the name.
            _ => return self.answer("\x1bP0$r\x1b\\"),
        };
        let name = String::from_utf8_lossy(name);
        self.answer(&format!("\x1bP1$r{value}{name}\x1b\\"));
    }

    /// Returns the parameter of DECSCUSR that sets the current shape of the cursor.
    fn cursor_style(&self) -> u8 {
        let style = self.term.cursor_style();
        let blinking = match style.shape {
            CursorShape::Underline => 3,
            CursorShape::Beam => 5,
            CursorShape::Block | CursorShape::HollowBlock | CursorShape::Hidden => 1,
        };
        blinking + u8::from(!style.blinking)
    }

    /// Performs XTWINOPS. Ignores moves and resizes of the window: only clients set the size.
    pub(super) fn window_operation(&mut self, params: &[u16]) {
        let (rows, columns) = (self.rows(), self.columns());
        match params.first().copied().unwrap_or(0) {
            // The window is not an icon, and at the corner of the screen.
            11 => self.answer("\x1b[1t"),
            13 => self.answer("\x1b[3;0;0t"),
            15 => self.answer(&format!("\x1b[5;{};{}t", rows * CELL_PIXELS.1, columns * CELL_PIXELS.0)),
            16 => self.answer(&format!("\x1b[6;{};{}t", CELL_PIXELS.1, CELL_PIXELS.0)),
            19 => self.answer(&format!("\x1b[9;{rows};{columns}t")),
            20 => self.answer("\x1b]L\x1b\\"),
            21 => self.answer("\x1b]l\x1b\\"),
            // Icon titles alone have no stack.
            22 if params.get(1) != Some(&1) => self.titles.push(self.outbox.title()),
            23 if params.get(1) != Some(&1) => {
                if let Some(title) = self.titles.pop() {
                    self.outbox.set_title(title);
                }
            }
            _ => {}
        }
    }

    /// Replies to XTWINOPS 14.
    pub(super) fn report_pixels(&self) {
        self.answer(&format!("\x1b[4;{};{}t", self.rows() * CELL_PIXELS.1, self.columns() * CELL_PIXELS.0));
    }

    /// Replies to XTVERSION.
    pub(super) fn report_version(&self) {
        self.answer(concat!("\x1bP>|steplatch(", env!("CARGO_PKG_VERSION"), ")\x1b\\"));
    }

    /// Replies to XTGETTCAP with known names and their values, up to the first unknown name.
    pub(super) fn report_capabilities(&self, names: &[u8]) {
        let mut reply = String::new();
        for name in names.split(|byte| *byte == b';') {
            let Some((name, value)) = CAPABILITIES.iter().find(|(reply, _)| to_hexadecimal(reply).as_bytes() == name)
            else {
                break;
            };
            let separator = if reply.is_empty() { "" } else { ";" };
            // A write to a `String` does not fail.
            let _ = write!(reply, "{separator}{}={}", to_hexadecimal(name), to_hexadecimal(value));
        }
        self.answer(&format!("\x1bP{}+r{reply}\x1b\\", u8::from(!reply.is_empty())));
    }
}

fn to_hexadecimal(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02X}");
        out
    })
}
