//! Conversion of output bytes to text with offsets, and to marks.
//!
//! Owns a second, small parser next to the emulator. This parser fills the [`History`] and reports sequences that the
//! emulator does not expose: the marks of the shell integration (OSC 133, the FinalTerm convention, documented at
//! <https://gitlab.freedesktop.org/Per_Bothner/specifications/blob/master/proposals/semantic-prompts.md>) and a soft
//! reset (DECSTR).

mod open_line;

use unicode_width::UnicodeWidthChar;
use vte::{Params, Parser, Perform};

use crate::history::{History, Zone};
use crate::leftovers::Leftovers;
use crate::screen::Size;
use crate::screen::control::{Control, Question};
use open_line::OpenLine;

/// A mark and its offset in the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OffsetMark {
    pub(crate) mark: Mark,
    pub(crate) offset: u64,
}

/// An event between two characters of the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mark {
    /// The shell shows its prompt and is ready to read (OSC 133 ; B).
    PromptReady,
    /// Text that is a prompt only if the shell reads after it, because the mark arrived during a command, or the prompt
    /// cannot contain a mark.
    PromptClaimed,
    /// The shell read a command line and begins to run it (OSC 133 ; C).
    CommandStarted,
    /// An earlier line may have a syntax error, according to the exit code of the shell. fish reports an error of the
    /// line itself (OSC 133 ; R, specific to this integration).
    LineRefused,
    /// Within a command of several lines, the shell begins to print the output of the user's hooks before a line.
    HookBegan,
    /// The output of the user's hooks has ended.
    HookEnded,
    /// The output of the shell and the ending command goes through a pipe, so it may arrive after the end.
    OutputPiped,
    /// The command ended (OSC 133 ; D), with its exit code if the shell reported it.
    CommandEnded(Option<i32>),
    /// The shell read the edited line: it no longer accepts pastes.
    LineTaken,
    /// The line editor accepts pastes, so it has begun to read.
    EditorReady,
    /// The entered text is not a complete command, and the shell requests more (OSC 133 ; P ; k=s).
    MoreWanted,
    /// The shell has answered a request, see `exchange` (OSC 133 ; V, specific to this integration).
    Answered,
    /// A program reports its working directory (OSC 7).
    Directory(String),
    /// The innermost shell has ended: its outer shell prints marks again.
    InnerShellEnded,
}

/// Reason for a stop before the end of a portion. The caller acts on it before parsing continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pause {
    /// DECSTR. The emulator does not implement it.
    SoftReset,
    /// Another sequence that the emulator lacks.
    Control(Control),
    /// A cell has more combining characters than any script uses.
    Overloaded,
    /// The prompt ends here, and typed text begins.
    LineBegins,
    /// A command has ended. The caller turns off the modes that the command left on.
    CommandEnded,
    /// The output of a command begins here.
    CommandBegins,
    /// REP: repeat the last character this number of times. The bytes so far end with the final byte of the sequence.
    Repeat(u16),
    /// The answer to a query of the keyboard modes (kitty protocol).
    KeyboardQuery(u8),
}

/// Changes of rows above the lowest row, by their source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Motion {
    /// True for changes by the integrated shell while no command ran.
    pub(crate) at_prompt: bool,
    /// True for changes by a command of the shell, or by a program without marks.
    pub(crate) in_output: bool,
}

/// The incoming text of a terminal.
pub(crate) struct Transcript {
    parser: Parser,
    writer: Writer,
}

impl Transcript {
    /// Creates an empty transcript. Only marks with `nonce` count; without a nonce, no marks count.
    pub(crate) fn new(history: History, nonce: Option<String>) -> Self {
        let sources = nonce.map(|nonce| MarkingShell::new(nonce, false)).into_iter().collect();
        let writer = Writer {
            history,
            sources,
            command_zone: Zone::Output,
            alternate: false,
            marks: Vec::new(),
            prompt_follows_output: false,
            line: OpenLine::default(),
            has_returned: false,
            rows_above: 0,
            saved_cursor: None,
            untracked_modes: 0,
            rows: 0,
            moved_rows: false,
            motion: Motion::default(),
            combining_chars: 0,
            keyboard: Keyboard::default(),
            leftovers: Leftovers::default(),
            takes_pastes: false,
            output_end: None,
            hooks_start: None,
            question: Question::default(),
            pause: None,
            bell_count: 0,
        };
        Self { parser: Parser::new(), writer }
    }

    /// Parses bytes up to the first sequence that requires a [`Pause`].
    ///
    /// Returns the number of parsed bytes, and the reason for a stop before the end.
    pub(crate) fn advance(&mut self, bytes: &[u8]) -> (usize, Option<Pause>) {
        let parsed = self.parser.advance_until_terminated(&mut self.writer, bytes);
        (parsed, self.writer.pause.take())
    }

    /// Takes the marks since the last call.
    pub(crate) fn take_marks(&mut self) -> Vec<OffsetMark> {
        std::mem::take(&mut self.writer.marks)
    }

    /// Also accepts the marks of an inner shell. `begins_at_line_end` is true if the shell has no mark for the start of
    /// commands, so that the end of an entered line begins a command.
    pub(crate) fn enter_shell(&mut self, nonce: String, begins_at_line_end: bool) {
        self.writer.attribute_motion();
        self.writer.sources.push(MarkingShell::new(nonce, begins_at_line_end));
    }

    /// Forgets the innermost shell after its end.
    pub(crate) fn leave_shell(&mut self) {
        self.writer.attribute_motion();
        self.writer.sources.pop();
        self.writer.enter(Zone::Output);
    }

    /// Accepts a claimed prompt that ends at the cursor.
    pub(crate) fn confirm_prompt(&mut self) {
        self.writer.attribute_motion();
        if let Some(source) = self.writer.sources.last_mut() {
            source.is_running = false;
            self.writer.show_prompt();
        }
    }

    /// Takes the sequences that leave the screen of an ended program and its other modes to turn off. The second step
    /// needs the position of the cursor after the first.
    pub(crate) fn take_leftovers(&mut self) -> (String, Leftovers) {
        let writer = &mut self.writer;
        let mut screen = String::new();
        if writer.alternate && writer.keyboard.flags(true) != 0 {
            screen.push_str(Keyboard::RESET);
        }
        writer.keyboard.alternate.clear();
        screen.push_str(&writer.leftovers.leave_screen());
        if writer.keyboard.flags(false) != 0 {
            screen.push_str(Keyboard::RESET);
        }
        (screen, std::mem::take(&mut writer.leftovers))
    }

    /// Returns the end of the output of a command that ends the shell itself, if the shell marks that end.
    pub(crate) fn output_end(&self) -> Option<u64> {
        self.writer.output_end
    }

    /// Returns the number of bells that programs have rung.
    pub(crate) fn bell_count(&self) -> u64 {
        self.writer.bell_count
    }

    pub(crate) fn history(&self) -> &History {
        &self.writer.history
    }

    /// Returns whether the program enabled unambiguous keys.
    pub(crate) fn disambiguates_keys(&self) -> bool {
        self.writer.keyboard.flags(self.writer.alternate) & 1 != 0
    }

    /// Sets the size of the screen and resets its margins.
    pub(crate) fn set_size(&mut self, size: Size) {
        self.writer.line.set_columns(size.cols.into());
        self.writer.rows = size.rows;
        self.writer.untracked_modes &= !(REGION | MARGINS);
    }

    /// Takes the changes of rows above the lowest row since the last call. After such a change, the text differs from
    /// the screen.
    pub(crate) fn take_motion(&mut self) -> Motion {
        self.writer.attribute_motion();
        std::mem::take(&mut self.writer.motion)
    }

    /// Compresses and drops old text, after a portion of output.
    pub(crate) fn settle(&mut self) {
        self.writer.history.settle();
    }
}

/// A shell whose marks count.
///
/// A command can print the marks of prompts, because they are in variables. So during a command, only the mark of its
/// end counts: it has a new number.
struct MarkingShell {
    nonce: String,
    /// True if the shell has no hook that marks the start of commands.
    is_posix: bool,
    /// True if the end of an entered line begins a command.
    begins_at_line_end: bool,
    /// True if a command has begun and not ended.
    is_running: bool,
    /// The highest number of a mark so far.
    last_number: u64,
    /// True during a hook before a line of a running command.
    is_in_hook: bool,
}

impl MarkingShell {
    fn new(nonce: String, is_posix: bool) -> Self {
        Self { nonce, is_posix, begins_at_line_end: is_posix, is_running: false, last_number: 0, is_in_hook: false }
    }

    /// Records the number of a mark and returns whether it is the highest so far. A mark that a command prints from a
    /// prompt's variable has no number, because the shell inserts the number when it shows the prompt.
    fn accept_number(&mut self, params: &[&[u8]]) -> bool {
        let Some(number) = parse_parameter::<u64>(params, b"n=") else { return false };
        let is_new = number > self.last_number;
        self.last_number = number.max(self.last_number);
        is_new
    }

    /// Returns whether the mark of a command's start arrived after a later mark, because it went through a pipe, as
    /// after `exec 2> >(tee log >&2)`.
    fn is_late(&self, params: &[&[u8]]) -> bool {
        parse_parameter::<u64>(params, b"n=").is_some_and(|number| number < self.last_number)
    }
}

/// Returns the number after `name` in a mark.
fn parse_parameter<T: std::str::FromStr>(params: &[&[u8]], name: &[u8]) -> Option<T> {
    let value = params.iter().find_map(|param| param.strip_prefix(name))?;
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// The exit code of bash for a syntax error (`EX_BADUSAGE`).
const SYNTAX_ERROR_EXIT_CODE: i32 = 2;

struct Writer {
    history: History,
    /// The shells that print marks, outermost first.
    sources: Vec<MarkingShell>,
    /// The zone according to the marks; the alternate screen takes precedence.
    command_zone: Zone,
    alternate: bool,
    marks: Vec<OffsetMark>,
    /// True if the prompt began on a line with output.
    prompt_follows_output: bool,
    /// The line in progress.
    line: OpenLine,
    /// True if the last motion was a carriage return, a possible part of a line end.
    has_returned: bool,
    /// Maximum number of rows between the cursor and the lowest row with text.
    rows_above: usize,
    /// The line number and the column of the saved cursor.
    saved_cursor: Option<(u64, usize)>,
    /// The current modes and margins that hide the position of characters from the transcript.
    untracked_modes: u8,
    /// Rows of the screen.
    rows: u16,
    /// True if output changed rows above the lowest row since the last attribution.
    moved_rows: bool,
    /// The attributed changes since the last [`Transcript::take_motion`].
    motion: Motion,
    combining_chars: usize,
    keyboard: Keyboard,
    leftovers: Leftovers,
    /// True if a line editor accepts pastes. Such an editor reports the line that it reads.
    takes_pastes: bool,
    /// End offset of the command's output, where hooks of the shell begin to print, until the mark of the command's end
    /// (OSC 133 ; E, specific to this integration).
    output_end: Option<u64>,
    /// Same as `output_end`, until the next command begins.
    hooks_start: Option<u64>,
    question: Question,
    pause: Option<Pause>,
    bell_count: u64,
}

/// The keyboard modes of the kitty protocol, a stack for each screen.
///
/// Source: <https://sw.kovidgoyal.net/kitty/keyboard-protocol/>, "Progressive enhancement".
#[derive(Default)]
struct Keyboard {
    main: Vec<u8>,
    alternate: Vec<u8>,
}

impl Keyboard {
    /// Maximum number of entries of a stack. A new entry then replaces the oldest, as the protocol permits.
    const MAX_DEPTH: usize = 16;

    /// Sequence that removes all entries of the current screen's stack, and clears its flags.
    const RESET: &str = "\x1b[<16u\x1b[=0;1u";

    fn flags(&self, alternate: bool) -> u8 {
        let stack = if alternate { &self.alternate } else { &self.main };
        stack.last().copied().unwrap_or(0)
    }

    fn stack(&mut self, alternate: bool) -> &mut Vec<u8> {
        if alternate { &mut self.alternate } else { &mut self.main }
    }

    fn push(&mut self, alternate: bool, flags: u16) {
        let stack = self.stack(alternate);
        if stack.len() == Self::MAX_DEPTH {
            stack.remove(0);
        }
        stack.push((flags & 31) as u8);
    }

    fn pop(&mut self, alternate: bool, count: u16) {
        let stack = self.stack(alternate);
        stack.truncate(stack.len().saturating_sub(usize::from(count.max(1))));
    }

    fn set(&mut self, alternate: bool, flags: u16, mode: u16) {
        let flags = (flags & 31) as u8;
        let stack = self.stack(alternate);
        if stack.is_empty() {
            stack.push(0);
        }
        if let Some(top) = stack.last_mut() {
            *top = match mode {
                2 => *top | flags,
                3 => *top & !flags,
                _ => flags,
            };
        }
    }
}

/// Number of rows that exceeds any screen.
const ROWS_BEYOND_SCREEN: usize = 1000;

/// Modes and margins that hide the position of characters from the transcript.
const ORIGIN: u8 = 1;
const NO_WRAP: u8 = 1 << 1;
const MARGINS: u8 = 1 << 2;
const INSERT: u8 = 1 << 3;
const LINE_FEED_NEW_LINE: u8 = 1 << 4;
const REGION: u8 = 1 << 5;
const REVERSE_WRAP: u8 = 1 << 6;

/// Maximum number of combining characters on one cell. The screen removes further characters.
const MAX_COMBINING_CHARS: usize = 32;

impl Writer {
    fn write(&mut self, character: char) {
        self.record_untracked();
        if self.line.is_moved() {
            self.apply_motion();
        }
        self.history.push(character);
    }

    #[cold]
    fn apply_motion(&mut self) {
        let has_returned = std::mem::take(&mut self.has_returned);
        if has_returned && self.prompt_follows_output {
            // Shells fill a line with output and continue below it, so they do not overwrite the output.
            return self.end_line();
        }
        self.record_wrapped();
        self.line.write_motion(&mut self.history);
    }

    /// Records a change that may be at an unknown position, or in a row with other text.
    fn record_untracked(&mut self) {
        if self.untracked_modes == 0 && !self.line.is_floating() || self.alternate {
            return;
        }
        // Line editors draw a short line without wrapping.
        let is_within = self.untracked_modes == NO_WRAP && !self.line.is_floating();
        self.moved_rows |= !is_within || self.line.is_full(&self.history);
    }

    /// Records a change of a line with several rows. The transcript does not track positions in such a line.
    fn record_wrapped(&mut self) {
        self.record_untracked();
        if !self.alternate && (self.line.is_full(&self.history) || self.line.is_wrapped(&self.history)) {
            self.moved_rows = true;
        }
    }

    /// Attributes changes of rows to their source, before another source begins.
    fn attribute_motion(&mut self) {
        let is_moved = std::mem::take(&mut self.moved_rows);
        let is_at_prompt = self.sources.last().is_some_and(|source| !source.is_running);
        let motion = if is_at_prompt { &mut self.motion.at_prompt } else { &mut self.motion.in_output };
        *motion |= is_moved;
    }

    fn end_line(&mut self) {
        self.record_untracked();
        match self.line.rows_below(&self.history) {
            1 if self.line.is_blank_below(&self.history) => self.moved_rows |= !self.alternate,
            rows => self.rows_above = self.rows_above.max(rows),
        }
        // The row below already has text.
        let is_drawn = self.rows_above > 0 && !self.alternate;
        if is_drawn {
            self.rows_above -= 1;
            self.moved_rows = true;
        }
        self.moved_rows |= self.line.is_floating() && !self.alternate;
        self.has_returned = false;
        self.prompt_follows_output = false;
        self.history.push('\n');
        self.line.begin(&self.history);
        if is_drawn {
            self.line.set_floating();
        }
        if !self.takes_pastes {
            self.begin_unmarked();
        }
    }

    /// Begins a command at the end of its line, if the shell has no mark for it.
    fn begin_unmarked(&mut self) {
        if self.command_zone == Zone::Input
            && !self.alternate
            && self.sources.last().is_some_and(|source| source.begins_at_line_end)
        {
            self.attribute_motion();
            if let Some(source) = self.sources.last_mut() {
                source.is_running = true;
            }
            self.enter(Zone::Output);
            self.add_mark(Mark::CommandStarted);
        }
    }

    /// Processes a line feed of the program. The cursor keeps its column, unless a return moved it to the first column.
    fn feed_line(&mut self) {
        let is_behind_start = self.line.is_moved() || self.line.is_floating();
        let keeps_column = !self.has_returned && (is_behind_start || !self.history.newest().1.ends_with(['\n', '\r']));
        self.end_line();
        if keeps_column && !self.alternate {
            self.line.set_floating();
            self.moved_rows = true;
        }
    }

    /// Records that the cursor moved to another row and begins a new line there. The new row is at most `rows_above`
    /// rows above the lowest row with text.
    fn leave_row(&mut self, rows_above: usize) {
        if !self.alternate {
            self.moved_rows = true;
            self.rows_above = 0;
        }
        if !self.history.at_line_start() {
            self.end_line();
        }
        self.line.begin(&self.history);
        self.has_returned = false;
        if !self.alternate {
            self.line.set_floating();
            self.rows_above = rows_above.min(ROWS_BEYOND_SCREEN);
        }
    }

    /// Moves the cursor up within the rows of the open line. Returns false if the line has too few rows above the
    /// cursor.
    fn move_up_in_line(&mut self, count: usize) -> bool {
        let is_tracked = !self.alternate && !self.line.is_floating() && self.rows_above == 0;
        let is_moved = is_tracked && self.line.move_up(&self.history, count);
        // The program may now change any row of the wrapped line.
        self.moved_rows |= is_moved;
        is_moved
    }

    fn move_left(&mut self, count: usize) {
        self.record_untracked();
        let is_right_of_start = if self.line.is_moved() { !self.has_returned } else { !self.history.at_line_start() };
        if is_right_of_start {
            self.line.move_left(&mut self.history, count);
        }
    }

    fn move_right(&mut self, count: usize) {
        if self.alternate || self.line.is_floating() && self.history.at_line_start() {
            // Some programs move right instead of printing spaces.
            (0..count.min(256)).for_each(|_| self.write(' '));
        } else {
            self.line.move_right(&self.history, count);
            self.has_returned = false;
        }
    }

    fn move_to_column(&mut self, column: usize) {
        if column == 0 {
            self.line.return_to_start(&self.history);
            self.has_returned = true;
        } else if self.alternate {
            self.write(' ');
        } else if !(self.line.is_floating() && self.history.at_line_start()) {
            self.line.move_to(&self.history, column);
            self.has_returned = false;
        }
    }

    fn erase_in_line(&mut self, range: u16) {
        self.record_wrapped();
        match range {
            0 => self.line.erase_to_end(&mut self.history, false),
            1 if !self.alternate => self.line.erase_to_cursor(&mut self.history),
            2 => self.line.erase_to_end(&mut self.history, true),
            _ => {}
        }
        self.has_returned &= self.line.is_moved();
    }

    fn erase_in_screen(&mut self, range: u16) {
        if self.alternate || range == 3 {
            return;
        }
        if range == 0 && self.line.is_full(&self.history) {
            // Unlike EL, ED erases the character in the last column if the cursor is after it.
            self.line.erase_characters(&mut self.history, 1);
        }
        if range == 0 && self.rows_above == 0 {
            // There is no text below.
            return self.erase_in_line(0);
        }
        self.moved_rows = true;
        match range {
            0 => self.erase_in_line(0),
            1 => self.erase_in_line(1),
            _ => self.leave_row(0),
        }
        if range != 1 {
            self.rows_above = 0;
        }
    }

    /// Repeats the last character `count` times (REP), but at most one row.
    fn repeat(&mut self, count: u16) {
        let last = self.history.newest().1.chars().next_back().filter(|last| !last.is_control());
        let columns = self.line.columns();
        self.moved_rows |= usize::from(count) > columns;
        match last.filter(|_| !self.line.is_moved()) {
            Some(last) => (0..usize::from(count).min(columns)).for_each(|_| self.write(last)),
            None => self.moved_rows = true,
        }
    }

    fn save_cursor(&mut self) {
        let line = self.line.number();
        if self.line.is_full(&self.history) {
            self.saved_cursor = None;
            return;
        }
        self.saved_cursor = self.line.column(&self.history).filter(|_| !self.alternate).map(|column| (line, column));
    }

    fn restore_cursor(&mut self) {
        if self.alternate {
            return;
        }
        match self.saved_cursor {
            // A wrapped line is excluded, because its rows may have scrolled since.
            Some((line, column)) if self.line.number() == line && !self.line.is_wrapped(&self.history) => {
                self.line.restore(column);
                self.has_returned = false;
            }
            _ => self.leave_row(ROWS_BEYOND_SCREEN),
        }
    }

    fn enter(&mut self, zone: Zone) {
        self.command_zone = zone;
        self.apply_zone();
    }

    fn apply_zone(&mut self) {
        let zone = if self.alternate { Zone::Alternate } else { self.command_zone };
        self.history.begin_zone(zone);
    }

    fn semantic_prompt(&mut self, params: &[&[u8]]) {
        let has_nonce = |source: &MarkingShell| {
            params.iter().any(|param| param.strip_prefix(b"k=") == Some(source.nonce.as_bytes()))
        };
        let Some(source_index) = self.sources.iter().rposition(has_nonce) else { return };
        let is_innermost = source_index + 1 == self.sources.len();
        self.attribute_motion();
        let source = &mut self.sources[source_index];
        let kind = params.first().copied().unwrap_or_default();
        let is_accepted = match kind {
            b"D" => source.accept_number(params),
            b"C" | b"R" if source.is_late(params) => return,
            // In such a shell, the end of an incomplete line has counted as the start of a command.
            b"P" if source.is_posix => source.accept_number(params),
            b"R" if source.accept_number(params) && source.is_running => {
                source.is_in_hook = true;
                return self.add_mark(Mark::HookBegan);
            }
            b"C" if source.is_running && std::mem::take(&mut source.is_in_hook) => {
                return self.add_mark(Mark::HookEnded);
            }
            b"A" | b"B" | b"C" | b"P" | b"R" => !source.is_running,
            _ => true,
        };
        if !is_accepted {
            if kind == b"B" && is_innermost {
                self.add_mark(Mark::PromptClaimed);
            }
            return;
        }
        // A shell prints marks only after its inner shells have ended.
        for _ in source_index + 1..self.sources.len() {
            self.sources.pop();
            self.add_mark(Mark::InnerShellEnded);
        }
        let source = &mut self.sources[source_index];
        match kind {
            b"A" => {
                let missing_marks = params.iter().find_map(|param| param.strip_prefix(b"w=")).unwrap_or_default();
                source.begins_at_line_end = source.is_posix || missing_marks.contains(&b'C');
                match self.command_zone {
                    Zone::Output => self.prompt_follows_output = self.follows_output(),
                    // The shell redraws the prompt and has read no line: the text between the two prompts is not a
                    // command line. It may come from a background job.
                    Zone::Input if !self.alternate => self.history.change_zone(Zone::Output),
                    _ => {}
                }
                self.enter(Zone::Prompt);
                if missing_marks.contains(&b'B') {
                    self.add_mark(Mark::PromptClaimed);
                }
            }
            b"B" => self.show_prompt(),
            b"C" => {
                source.is_running = true;
                (self.output_end, self.hooks_start) = (None, None);
                self.has_returned = false;
                self.line.discard_motion();
                self.enter(Zone::Output);
                self.add_mark(Mark::CommandStarted);
                self.pause = Some(Pause::CommandBegins);
            }
            b"D" => {
                let code = params.get(1).and_then(|code| std::str::from_utf8(code).ok()?.parse().ok());
                let was_running = std::mem::take(&mut source.is_running);
                source.is_in_hook = false;
                if params.contains(&b"o=p".as_slice()) {
                    self.marks.push(OffsetMark { mark: Mark::OutputPiped, offset: self.history.end() });
                }
                self.enter(Zone::Output);
                if params.contains(&b"e=0".as_slice()) {
                    // The shell has no other hooks and printed no `E` mark, so a command printed the mark.
                    (self.output_end, self.hooks_start) = (None, None);
                }
                let offset = self.output_end.take().unwrap_or(self.history.end());
                self.marks.push(OffsetMark { mark: Mark::CommandEnded(code), offset });
                if was_running {
                    self.pause = Some(Pause::CommandEnded);
                }
            }
            b"E" => {
                if self.command_zone == Zone::Output {
                    self.prompt_follows_output = !self.history.at_line_start();
                }
                // If a command printed the variable with this mark, another mark follows.
                self.output_end = Some(self.history.end());
                self.hooks_start = self.output_end;
            }
            b"P" if params.contains(&b"k=s".as_slice()) => {
                if source.is_posix {
                    // The ended line has not begun a command.
                    source.is_running = false;
                    self.enter(Zone::Input);
                }
                self.add_mark(Mark::MoreWanted);
            }
            b"R" if parse_parameter::<i32>(params, b"s=").is_none_or(|code| code == SYNTAX_ERROR_EXIT_CODE) => {
                self.add_mark(Mark::LineRefused);
            }
            b"V" => self.add_mark(Mark::Answered),
            _ => {}
        }
    }

    /// Returns whether a prompt that begins here follows output on its line. A shell's marker for output without a
    /// final newline is not output, and the prompt overwrites it.
    fn follows_output(&self) -> bool {
        let keeps_line = self.hooks_start.is_some_and(|begin| begin < self.history.end()) && self.has_returned;
        !keeps_line && !self.history.at_line_start()
    }

    /// Records that the prompt ends here, and the shell reads input.
    fn show_prompt(&mut self) {
        self.enter(Zone::Input);
        self.prompt_follows_output = false;
        self.add_mark(Mark::PromptReady);
        self.pause = Some(Pause::LineBegins);
    }

    fn add_mark(&mut self, mark: Mark) {
        self.marks.push(OffsetMark { mark, offset: self.history.end() });
    }

    /// Resets the state and leaves the alternate screen.
    fn reset(&mut self) {
        self.leave_row(0);
        self.alternate = false;
        self.leftovers = Leftovers::default();
        self.untracked_modes = 0;
        self.moved_rows = true;
        self.apply_zone();
    }

    fn set_untracked(&mut self, mode: u8, enabled: bool) {
        if enabled {
            self.untracked_modes |= mode;
        } else {
            self.untracked_modes &= !mode;
        }
    }

    fn set_modes(&mut self, params: &Params, enabled: bool) {
        params.iter().flatten().for_each(|&mode| self.leftovers.set(mode, enabled));
        let switches_screen = params.iter().flatten().any(|&mode| matches!(mode, 47 | 1047 | 1049));
        if switches_screen && self.alternate != enabled {
            let main = (self.moved_rows, self.rows_above);
            self.leave_row(0);
            self.alternate = enabled;
            self.apply_zone();
            let restores_main = params.iter().flatten().any(|&mode| mode == 1049);
            (self.moved_rows, self.rows_above) = if restores_main { main } else { (true, ROWS_BEYOND_SCREEN) };
            self.line.set_floating();
        }
        for &mode in params.iter().flatten() {
            match mode {
                6 => self.set_untracked(ORIGIN, enabled),
                7 => self.set_untracked(NO_WRAP, !enabled),
                69 => self.set_untracked(MARGINS, enabled),
                45 => self.set_untracked(REVERSE_WRAP, enabled),
                // The screen draws the held output only at the end of the update.
                2026 => self.moved_rows = true,
                1048 if enabled => self.save_cursor(),
                1048 => self.restore_cursor(),
                _ => {}
            }
        }
        if params.iter().flatten().any(|&mode| mode == 2004) {
            self.takes_pastes = enabled;
            if self.command_zone == Zone::Input {
                self.add_mark(if enabled { Mark::EditorReady } else { Mark::LineTaken });
            }
            if !enabled {
                self.begin_unmarked();
            }
        }
    }
}

/// Returns the path of an OSC 7: a percent-encoded URL `file://HOST/PATH`.
///
/// The convention comes from Terminal of macOS. VTE describes it at
/// <https://gitlab.gnome.org/GNOME/vte/-/blob/master/doc/osc-sequences.md>.
fn parse_directory_url(url: &[u8]) -> Option<String> {
    let after_scheme = url.strip_prefix(b"file://")?;
    let path = &after_scheme[after_scheme.iter().position(|&byte| byte == b'/')?..];
    let mut bytes = Vec::with_capacity(path.len());
    let mut remaining = path;
    while let [first, following @ ..] = remaining {
        let encoded = following
            .first_chunk::<2>()
            .filter(|_| *first == b'%')
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        match encoded {
            Some(byte) => {
                bytes.push(byte);
                remaining = &following[2..];
            }
            None => {
                bytes.push(*first);
                remaining = following;
            }
        }
    }
    let directory = String::from_utf8(bytes).ok()?;
    (!directory.contains(char::is_control)).then_some(directory)
}

impl Perform for Writer {
    fn print(&mut self, character: char) {
        if !character.is_ascii() && character.width() == Some(0) {
            self.combining_chars += 1;
            if self.combining_chars > MAX_COMBINING_CHARS {
                self.pause = Some(Pause::Overloaded);
                return;
            }
        } else {
            self.combining_chars = 0;
        }
        self.write(character);
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            b'\n' | 0x0b | 0x0c => self.feed_line(),
            b'\r' => {
                self.line.return_to_start(&self.history);
                self.has_returned = true;
            }
            // SO and SI choose a character set.
            0x0e | 0x0f => self.leftovers.record_shift(byte == 0x0e),
            b'\t' => {
                let (is_within, has_room) = self.line.move_to_tab(&self.history);
                self.moved_rows |= !has_room && !self.alternate;
                if !is_within {
                    self.write('\t');
                }
            }
            0x08 => self.move_left(1),
            0x07 => self.bell_count += 1,
            _ => {}
        }
    }

    fn osc_dispatch(&mut self, params: &[&[u8]], bell_terminated: bool) {
        match params {
            [b"133", rest @ ..] => self.semantic_prompt(rest),
            [b"7", url @ ..] => {
                if let Some(directory) = parse_directory_url(&url.join(&b';')) {
                    self.add_mark(Mark::Directory(directory));
                }
            }
            _ => {
                if let Some(control) = Control::osc(params, bell_terminated) {
                    self.pause = Some(Pause::Control(control));
                }
            }
        }
    }

    fn hook(&mut self, _params: &Params, intermediates: &[u8], _ignore: bool, action: char) {
        self.question.begin(intermediates, action);
    }

    fn put(&mut self, byte: u8) {
        self.question.put(byte);
    }

    fn unhook(&mut self) {
        if let Some(control) = self.question.end() {
            self.pause = Some(Pause::Control(control));
        }
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], ignore: bool, action: char) {
        let first = params.iter().next().and_then(|param| param.first().copied()).unwrap_or(0);
        let count = usize::from(first.max(1));
        match (intermediates, action) {
            // Line editors move up within a wrapped line.
            ([], 'A') if self.move_up_in_line(count) => self.has_returned = false,
            // CUU, CPL, RI.
            ([], 'A' | 'F') => self.leave_row(self.rows_above + count),
            // CUD, CNL, VPR: down.
            ([], 'B' | 'E' | 'e') => self.leave_row(self.rows_above),
            // CUP, HVP, VPA.
            ([], 'H' | 'f' | 'd') => self.leave_row(ROWS_BEYOND_SCREEN),
            // CUF, HPR.
            ([], 'C' | 'a') => self.move_right(count),
            // CUB.
            ([], 'D') => self.move_left(count),
            // CHA and HPA.
            ([], 'G' | '`') => self.move_to_column(count - 1),
            ([], 'K') => self.erase_in_line(first),
            ([], 'J') => self.erase_in_screen(first),
            // ICH, DCH, ECH.
            ([], '@' | 'P' | 'X') if !self.alternate => {
                self.record_wrapped();
                match action {
                    '@' => self.line.insert_blanks(&mut self.history, count),
                    'P' => self.line.delete_characters(&mut self.history, count),
                    _ => self.line.erase_characters(&mut self.history, count),
                }
            }
            // DECSTBM.
            ([], 'r') => {
                self.leave_row(ROWS_BEYOND_SCREEN);
                let bottom = params.iter().nth(1).and_then(|param| param.first().copied()).unwrap_or(0);
                self.leftovers.record_margins(params.iter().flatten().any(|&row| row > 0));
                self.set_untracked(REGION, first > 1 || bottom != 0 && bottom < self.rows);
            }
            // SU, SD, IL, DL, CHT, CBT.
            ([], 'S' | 'T' | 'L' | 'M' | 'I' | 'Z') => self.leave_row(ROWS_BEYOND_SCREEN),
            ([], 's') if params.is_empty() || first == 0 => self.save_cursor(),
            ([], 'u') => self.restore_cursor(),
            // IRM and LNM.
            ([], 'h' | 'l') => {
                for &mode in params.iter().flatten() {
                    match mode {
                        Leftovers::INSERT => {
                            self.set_untracked(INSERT, action == 'h');
                            self.leftovers.record_insert(action == 'h');
                        }
                        20 => self.set_untracked(LINE_FEED_NEW_LINE, action == 'h'),
                        _ => {}
                    }
                }
            }
            // Rectangles, columns and selective erases.
            ([b'$' | b'\'' | b' '], _) | ([b'?'], 'J' | 'K') => self.moved_rows = true,
            ([b'?'], 'h') => self.set_modes(params, true),
            ([b'?'], 'l') => self.set_modes(params, false),
            ([b'>'], 'u') => self.keyboard.push(self.alternate, first),
            ([b'<'], 'u') => self.keyboard.pop(self.alternate, first),
            ([b'='], 'u') => {
                let flag_mode = params.iter().nth(1).and_then(|param| param.first().copied()).unwrap_or(1);
                self.keyboard.set(self.alternate, first, flag_mode);
            }
            // Do not repeat combining characters, because they would accumulate on one cell.
            ([], 'b') if !ignore => {
                self.repeat(first.max(1));
                self.pause = Some(Pause::Repeat(if self.combining_chars > 0 { 0 } else { first.max(1) }));
            }
            ([b'?'], 'u') => self.pause = Some(Pause::KeyboardQuery(self.keyboard.flags(self.alternate))),
            ([b'!'], 'p') => {
                self.untracked_modes = 0;
                self.pause = Some(Pause::SoftReset);
            }
            // modifyOtherKeys.
            ([b'>'], 'm') if first == 4 => {
                self.leftovers.record_other_keys(params.iter().nth(1).is_some_and(|level| level != [0]));
            }
            // DECSCL is a hard reset, like RIS.
            ([b'"'], 'p') if (61..=65).contains(&first) => self.reset(),
            _ => {}
        }
        if let Some(control) = Control::csi(params, intermediates, action) {
            self.pause = Some(Pause::Control(control));
        }
    }

    fn esc_dispatch(&mut self, intermediates: &[u8], _ignore: bool, byte: u8) {
        match (intermediates, byte) {
            // IND, NEL, RI.
            ([], b'D') => self.feed_line(),
            ([], b'E') => self.end_line(),
            ([], b'M') => self.leave_row(self.rows_above + 1),
            // DECSC, DECRC.
            ([], b'7') => self.save_cursor(),
            ([], b'8') => self.restore_cursor(),
            // DECALN.
            ([b'#'], b'8') => self.leave_row(ROWS_BEYOND_SCREEN),
            // RIS.
            ([], b'c') => self.reset(),
            // DECKPAM and DECKPNM.
            ([], b'=' | b'>') => self.leftovers.record_keypad(byte == b'='),
            _ => {
                if intermediates == b"(" {
                    self.leftovers.record_charset(byte != b'B');
                }
                self.pause = Control::escape(intermediates, byte).map(Pause::Control);
                self.moved_rows |= self.pause.is_some();
            }
        }
    }

    fn terminated(&self) -> bool {
        self.pause.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::settled;

    const NONCE: &str = "n1";

    fn parsed_transcript(bytes: &[u8]) -> Transcript {
        let mut transcript = Transcript::new(History::new(1 << 20), Some(NONCE.into()));
        let mut rest = bytes;
        while !rest.is_empty() {
            let (taken, _) = transcript.advance(rest);
            rest = &rest[taken..];
        }
        transcript
    }

    fn text(bytes: &[u8]) -> String {
        let transcript = parsed_transcript(bytes);
        let history = transcript.history();
        history.read(0..history.end()).1
    }

    #[test]
    fn escapes_are_removed_and_line_ends_normalised() {
        assert_eq!(text(b"\x1b[1;31mred\x1b[0m\r\nplain\r\r\n\ttab\x07"), "red\nplain\n\ttab");
    }

    #[test]
    fn bells_are_counted_but_not_ends_of_control_strings() {
        assert_eq!(parsed_transcript(b"\x07a\x1b]0;title\x07b\x1b[?1049h\x07").bell_count(), 2);
    }

    #[test]
    fn coloured_match_of_grep_stays_one_word() {
        assert_eq!(text(b"pre\x1b[01;31m\x1b[Kfix\x1b[m\x1b[Ked\r\n"), "prefixed\n");
    }

    #[test]
    fn erased_line_reads_as_its_replacement() {
        assert_eq!(settled(&text(b"working on it...\r\x1b[Kdone\r\n")), "done\n");
        assert_eq!(settled(&text(b"working on it...\x1b[2K\rdone\r\n")), "done\n");
        assert_eq!(settled(&text(b"working on it...\x1b[2K\x1b[1Gdone\r\n")), "done\n");
    }

    #[test]
    fn edited_command_line_reads_as_the_sent_line() {
        // Readline: type "lss", delete one character, type " -l".
        assert_eq!(settled(&text(b"$ lss\x08\x1b[K -l\r\n")), "$ ls -l\n");
    }

    #[test]
    fn words_on_different_rows_are_not_joined() {
        assert_eq!(text(b"\x1b[2;1Hone\x1b[3;1Htwo\x1b[10;5Hthree"), "one\ntwo\nthree");
    }

    #[test]
    fn continuation_prompt_is_between_two_marks() {
        let marks = |between: &str| {
            let begin = "\x1b]133;R;k=n1;s=0;n=1\x07\x1b]133;C;k=n1\x07one\r\n";
            let mut transcript = parsed_transcript(format!("{begin}{between}").as_bytes());
            let marks = transcript.take_marks().into_iter().map(|marked| (marked.mark, marked.offset));
            marks.skip(1).collect::<Vec<_>>()
        };
        let hook = "\x1b]133;R;k=n1;s=2;n=2\x07hook\r\n\x1b]133;C;k=n1\x07";
        assert_eq!(marks(hook), [(Mark::HookBegan, 4), (Mark::HookEnded, 9)]);
        // A mark printed by a command from the variable has an outdated number.
        assert_eq!(marks("\x1b]133;R;k=n1;s=0;n=1\x07hook\r\n\x1b]133;C;k=n1\x07"), []);
        let end = "\x1b]133;D;0;k=n1;n=3;o=p\x07";
        assert_eq!(marks(end), [(Mark::OutputPiped, 4), (Mark::CommandEnded(Some(0)), 4)]);
    }

    #[test]
    fn marks_divide_the_text_into_prompt_input_and_output() {
        let transcript = parsed_transcript(
            b"\x1b]133;A;k=n1\x07$ \x1b]133;B;k=n1\x07ls\r\n\x1b]133;C;k=n1\x07a b\r\n\x1b]133;D;2;k=n1;n=1\x07",
        );
        let history = transcript.history();
        let zones: Vec<_> =
            history.zones(0..history.end()).map(|(range, zone)| (history.read(range).1, zone)).collect();
        assert_eq!(zones, [("$ ".into(), Zone::Prompt), ("ls\n".into(), Zone::Input), ("a b\n".into(), Zone::Output)]);
    }

    #[test]
    fn marks_report_the_exit_code_and_a_forgery_is_rejected() {
        let mut transcript = parsed_transcript(
            b"\x1b]133;D;0;k=wrong;n=1\x07\x1b]133;D;0;n=1\x07\x1b]133;D;0;k=n1\x07\x1b]133;D;127;k=n1;n=1\x07",
        );
        assert_eq!(transcript.take_marks(), [OffsetMark { mark: Mark::CommandEnded(Some(127)), offset: 0 }]);
    }

    #[test]
    fn command_cannot_print_the_marks_of_its_shell() {
        let prompt = "\x1b]133;A;k=n1\x07$ \x1b]133;B;k=n1\x07";
        let begin = format!("\x1b]133;D;0;k=n1;n=7\x07{prompt}echo $PS1\r\n\x1b]133;C;k=n1\x07");
        let forged = [
            prompt,
            "\x1b]133;C;k=n1\x07",
            "\x1b]133;P;k=s;k=n1\x07",
            "\x1b]133;D;0;k=n1;n=7\x07",
            "\x1b]133;D;0;k=n1;n=6\x07",
            "\x1b]133;D;$?;k=n1;n=$((n=n+1))\x07",
        ];
        for forged in forged {
            let mut transcript =
                parsed_transcript(format!("{begin}{forged}late\r\n\x1b]133;D;1;k=n1;n=8\x07").as_bytes());
            let marks: Vec<Mark> = transcript.take_marks().into_iter().map(|marked| marked.mark).collect();
            let claim = (forged == prompt).then_some(Mark::PromptClaimed);
            let expected = [Mark::CommandEnded(Some(0)), Mark::PromptReady, Mark::CommandStarted].into_iter();
            let expected: Vec<Mark> = expected.chain(claim).chain([Mark::CommandEnded(Some(1))]).collect();
            assert_eq!(marks, expected, "{forged:?}");
            let history = transcript.history();
            let output: String = history
                .zones(0..history.end())
                .filter(|(_, zone)| *zone == Zone::Output)
                .map(|(range, _)| history.read(range).1)
                .collect();
            assert!(output.ends_with("late\n"), "{forged:?}: {output:?}");
        }
    }

    #[test]
    fn hook_output_is_after_the_command_output() {
        let output = b"\x1b]133;B;k=n1\x07x\r\n\x1b]133;C;k=n1\x07said\x1b]133;E;k=n1\x07 \x1b]133;E;k=n1\x07hook\r\n";
        let mut transcript = parsed_transcript(&[output.as_slice(), b"\x1b]133;D;0;k=n1;n=1\x07"].concat());
        let end = transcript.take_marks().pop();
        assert_eq!(
            end,
            Some(OffsetMark { mark: Mark::CommandEnded(Some(0)), offset: 7 }),
            "the last mark of an end counts"
        );
        // A shell without other hooks prints no such mark, so it comes from the command.
        let mut transcript = parsed_transcript(&[output.as_slice(), b"\x1b]133;D;0;k=n1;n=1;e=0\x07"].concat());
        let end = transcript.take_marks().pop();
        assert_eq!(end, Some(OffsetMark { mark: Mark::CommandEnded(Some(0)), offset: transcript.history().end() }));
    }

    #[test]
    fn syntax_error_is_detected_at_the_next_line() {
        let mut transcript = parsed_transcript(b"\x1b]133;R;k=n1;s=2\x07\x1b]133;C;k=n1\x07\x1b]133;R;k=n1;s=2\x07");
        let marks: Vec<Mark> = transcript.take_marks().into_iter().map(|marked| marked.mark).collect();
        assert_eq!(marks, [Mark::LineRefused, Mark::CommandStarted]);
    }

    #[test]
    fn end_of_paste_mode_ends_only_an_edited_line() {
        let mut transcript =
            parsed_transcript(b"\x1b[?2004l\x1b]133;B;k=n1\x07ls\x1b[?2004l\r\n\x1b]133;C;k=n1\x07\x1b[?2004l");
        let marks: Vec<Mark> = transcript.take_marks().into_iter().map(|marked| marked.mark).collect();
        assert_eq!(marks, [Mark::PromptReady, Mark::LineTaken, Mark::CommandStarted]);
        let marks = parsed_transcript(b"\x1b[?2004h\x1b]133;B;k=n1\x07\x1b[?2004h").take_marks();
        assert_eq!(
            marks.into_iter().map(|marked| marked.mark).collect::<Vec<_>>(),
            [Mark::PromptReady, Mark::EditorReady]
        );
    }

    #[test]
    fn directory_is_reported_by_its_url() {
        for (url, directory) in [
            ("file://host/tmp/a%20b;c", Some("/tmp/a b;c")),
            ("file:///tmp/100%", Some("/tmp/100%")),
            ("file://host", None),
            ("http://host/tmp", None),
            ("file:///a%0ab", None),
            ("file:///%ff", None),
        ] {
            assert_eq!(parse_directory_url(url.as_bytes()).as_deref(), directory, "{url}");
        }
        let mut transcript = parsed_transcript(b"\x1b]7;file://h/a;b\x1b\\");
        assert_eq!(transcript.take_marks(), [OffsetMark { mark: Mark::Directory("/a;b".into()), offset: 0 }]);
    }

    #[test]
    fn line_filled_before_a_prompt_is_unchanged() {
        let filled =
            format!("abc\x1b]133;D;0;k=n1;n=1\x07\x1b]133;A;k=n1\x07%{}\r \r\r$ \x1b]133;B;k=n1\x07", " ".repeat(79));
        assert_eq!(settled(&text(filled.as_bytes())), "abc%\n$");
        let whole_line = filled.replacen("abc", "abc\r\n", 1);
        assert_eq!(settled(&text(whole_line.as_bytes())), "abc\n$");
    }

    #[test]
    fn full_screen_drawing_is_recognised() {
        let transcript = parsed_transcript(b"before\r\n\x1b[?1049h\x1b[Hdrawn\x1b[?1049lafter");
        let history = transcript.history();
        let outside: String = history
            .zones(0..history.end())
            .filter(|(_, zone)| *zone != Zone::Alternate)
            .map(|(range, _)| history.read(range).1)
            .collect();
        assert_eq!(outside, "before\nafter");
    }

    #[test]
    fn soft_reset_is_reported_at_its_position() {
        let mut transcript = Transcript::new(History::new(1024), None);
        let (taken, pause) = transcript.advance(b"ab\x1b[!pcd");
        assert_eq!((taken, pause), (6, Some(Pause::SoftReset)));
    }

    #[test]
    fn keyboard_modes_are_a_stack_and_can_be_queried() {
        let mut transcript = Transcript::new(History::new(1024), None);
        transcript.advance(b"\x1b[>1u\x1b[>5u");
        assert!(transcript.disambiguates_keys());
        assert_eq!(transcript.advance(b"\x1b[?u").1, Some(Pause::KeyboardQuery(5)));
        transcript.advance(b"\x1b[<9u");
        assert!(!transcript.disambiguates_keys());
        transcript.advance(&b"\x1b[>1u".repeat(100_000));
        assert!(transcript.disambiguates_keys());
    }

    #[test]
    fn arbitrary_bytes_cause_no_panic() {
        let noise: Vec<u8> = (0..=255).cycle().take(10_000).collect();
        parsed_transcript(&noise);
    }
}
