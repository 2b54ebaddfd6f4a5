//! Output as lines in their final form. A line that is longer than a row remains one line.

/// Maximum length of all lines together.
const MAX_TEXT_BYTES: usize = 8 << 20;

/// Maximum length of the text that a full-screen program drew since the last call.
const MAX_DRAWN_BYTES: usize = 4 << 10;

/// Maximum length of a line, in characters.
const MAX_LINE_CHARS: usize = 16 << 10;

/// Position of the reader within an escape sequence.
#[derive(Debug, Clone, Default, PartialEq)]
enum Escape {
    #[default]
    None,
    Started,
    /// A control sequence, with its parameters.
    Control(String),
    /// A string for the terminal, up to BEL or ST.
    Text {
        after_escape: bool,
    },
    /// The next character selects a character set.
    Skip,
}

/// The lines of an output.
#[derive(Debug, Default)]
pub(super) struct Lines {
    complete_lines: String,
    count: usize,
    line: Vec<char>,
    column: usize,
    /// The columns of the screen, if known.
    width: Option<usize>,
    escape: Escape,
    is_full_screen: bool,
    drawn: String,
}

impl Lines {
    pub(super) fn new(width: Option<usize>) -> Self {
        Self { width: width.filter(|width| *width > 1), ..Self::default() }
    }

    pub(super) fn set_width(&mut self, width: usize) {
        self.width = Some(width).filter(|width| *width > 1);
    }

    pub(super) fn write_text(&mut self, text: &str) {
        for character in text.chars() {
            self.write_character(character);
        }
    }

    /// Returns the number of complete lines.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Returns the incomplete last line.
    pub(super) fn row(&self) -> String {
        self.line.iter().collect()
    }

    /// Returns the number of characters before the cursor in the last line.
    pub(super) fn column(&self) -> usize {
        self.column
    }

    /// Returns the length of all complete lines in bytes.
    pub(super) fn len(&self) -> usize {
        self.complete_lines.len()
    }

    /// Returns the text that a full-screen program drew since the last call, without positions.
    pub(super) fn take_drawn(&mut self) -> String {
        std::mem::take(&mut self.drawn)
    }

    pub(super) fn is_full_screen(&self) -> bool {
        self.is_full_screen
    }

    pub(super) fn into_text(self) -> String {
        self.complete_lines + &self.line.iter().collect::<String>()
    }

    fn write_character(&mut self, character: char) {
        match std::mem::take(&mut self.escape) {
            Escape::None => self.write_plain(character),
            Escape::Skip => {}
            Escape::Started => {
                self.escape = match character {
                    '[' => Escape::Control(String::new()),
                    ']' | 'P' | '_' | '^' | 'X' => Escape::Text { after_escape: false },
                    '(' | ')' | '*' | '+' | '#' => Escape::Skip,
                    _ => Escape::None,
                }
            }
            Escape::Text { after_escape: true } if character == '\\' => {}
            Escape::Text { .. } if character == '\x07' => {}
            Escape::Text { .. } => self.escape = Escape::Text { after_escape: character == '\x1b' },
            Escape::Control(mut parameters) => {
                if ('@'..='~').contains(&character) {
                    self.apply_control(&parameters, character);
                } else if parameters.len() < 64 {
                    parameters.push(character);
                    self.escape = Escape::Control(parameters);
                }
            }
        }
    }

    fn write_plain(&mut self, character: char) {
        match character {
            '\x1b' => self.escape = Escape::Started,
            _ if self.is_full_screen => {
                if !character.is_control() && self.drawn.len() < MAX_DRAWN_BYTES {
                    self.drawn.push(character);
                }
            }
            '\n' => {
                let line: String = self.line.drain(..).collect();
                self.column = 0;
                self.count += 1;
                if self.complete_lines.len() + line.len() < MAX_TEXT_BYTES {
                    self.complete_lines.push_str(&line);
                    self.complete_lines.push('\n');
                }
            }
            '\r' => self.column = self.row_start(),
            '\x08' => self.column = self.column.saturating_sub(1),
            '\t' => (0..8 - self.column % 8).for_each(|_| self.put_character(' ')),
            character if character.is_control() => {}
            character => self.put_character(character),
        }
    }

    /// Returns the first column of the cursor's row within the line. After the last column of a row, the cursor is
    /// still in that row.
    fn row_start(&self) -> usize {
        let width = self.width.unwrap_or(usize::MAX);
        self.column.saturating_sub(1) / width * width
    }

    fn put_character(&mut self, character: char) {
        if self.column >= MAX_LINE_CHARS {
            return;
        }
        if self.line.len() < self.column {
            self.line.resize(self.column, ' ');
        }
        match self.line.get_mut(self.column) {
            Some(cell) => *cell = character,
            None => self.line.push(character),
        }
        self.column += 1;
    }

    fn apply_control(&mut self, parameters: &str, character: char) {
        let number = || parameters.parse::<usize>().unwrap_or(1).clamp(1, MAX_LINE_CHARS);
        match (character, parameters) {
            ('h' | 'l', "?1049" | "?1047" | "?47") => self.is_full_screen = character == 'h',
            _ if self.is_full_screen => {}
            ('K' | 'J', "" | "0") => self.line.truncate(self.column),
            ('K', "2") => self.line.clear(),
            ('C', _) => self.column = (self.column + number()).min(MAX_LINE_CHARS),
            ('D', _) => self.column = self.column.saturating_sub(number()),
            ('G', _) => self.column = number() - 1,
            ('P', _) => {
                let end = (self.column + number()).min(self.line.len());
                self.line.drain(self.column.min(end)..end);
            }
            ('@', _) if self.column < self.line.len() && self.line.len() < MAX_LINE_CHARS => {
                let column = self.column;
                self.line.splice(column..column, std::iter::repeat_n(' ', number()));
            }
            _ => {}
        }
    }
}
