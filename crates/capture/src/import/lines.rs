//! Printed bytes as lines, as a terminal shows them in the end. A line that is longer than a row stays one line.

/// Maximum bytes of kept text.
const MAX_TEXT_BYTES: usize = 8 << 20;

/// Maximum bytes of the text that a full-screen program drew at once.
const MAX_DRAWN_BYTES: usize = 4 << 10;

/// Maximum length of a line, in characters.
const MAX_LINE_CHARS: usize = 16 << 10;

/// Position of the reader within an escape sequence.
#[derive(Debug, Clone, Default, PartialEq)]
enum Escape {
    #[default]
    None,
    Begun,
    /// A control sequence, with its parameters.
    Control(String),
    /// A text for the terminal, up to BEL or ST.
    Text {
        after_escape: bool,
    },
    /// The next sign chooses a set of signs.
    Skip,
}

/// The lines of an output.
#[derive(Debug, Default)]
pub(super) struct Lines {
    done: String,
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

    pub(super) fn put(&mut self, text: &str) {
        for sign in text.chars() {
            self.sign(sign);
        }
    }

    /// Returns the number of lines that have ended.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Returns the line that has not ended.
    pub(super) fn row(&self) -> String {
        self.line.iter().collect()
    }

    /// Returns the characters of that line before the cursor.
    pub(super) fn column(&self) -> usize {
        self.column
    }

    /// Returns the bytes of all lines that have ended.
    pub(super) fn len(&self) -> usize {
        self.done.len()
    }

    /// Returns what a full-screen program drew since the last call, without its places.
    pub(super) fn take_drawn(&mut self) -> String {
        std::mem::take(&mut self.drawn)
    }

    pub(super) fn is_full_screen(&self) -> bool {
        self.is_full_screen
    }

    pub(super) fn into_text(self) -> String {
        self.done + &self.line.iter().collect::<String>()
    }

    fn sign(&mut self, sign: char) {
        match std::mem::take(&mut self.escape) {
            Escape::None => self.plain(sign),
            Escape::Skip => {}
            Escape::Begun => {
                self.escape = match sign {
                    '[' => Escape::Control(String::new()),
                    ']' | 'P' | '_' | '^' | 'X' => Escape::Text { after_escape: false },
                    '(' | ')' | '*' | '+' | '#' => Escape::Skip,
                    _ => Escape::None,
                }
            }
            Escape::Text { after_escape: true } if sign == '\\' => {}
            Escape::Text { .. } if sign == '\x07' => {}
            Escape::Text { .. } => self.escape = Escape::Text { after_escape: sign == '\x1b' },
            Escape::Control(mut parameters) => {
                if ('@'..='~').contains(&sign) {
                    self.control(&parameters, sign);
                } else if parameters.len() < 64 {
                    parameters.push(sign);
                    self.escape = Escape::Control(parameters);
                }
            }
        }
    }

    fn plain(&mut self, sign: char) {
        match sign {
            '\x1b' => self.escape = Escape::Begun,
            _ if self.is_full_screen => {
                if !sign.is_control() && self.drawn.len() < MAX_DRAWN_BYTES {
                    self.drawn.push(sign);
                }
            }
            '\n' => {
                let line: String = self.line.drain(..).collect();
                self.column = 0;
                self.count += 1;
                if self.done.len() + line.len() < MAX_TEXT_BYTES {
                    self.done.push_str(&line);
                    self.done.push('\n');
                }
            }
            '\r' => self.column = self.begin_of_row(),
            '\x08' => self.column = self.column.saturating_sub(1),
            '\t' => (0..8 - self.column % 8).for_each(|_| self.write(' ')),
            sign if sign.is_control() => {}
            sign => self.write(sign),
        }
    }

    /// Returns where the row begins that the cursor is in, of a line that has several. Behind its last column, the cursor is still in a row.
    fn begin_of_row(&self) -> usize {
        let width = self.width.unwrap_or(usize::MAX);
        self.column.saturating_sub(1) / width * width
    }

    fn write(&mut self, sign: char) {
        if self.column >= MAX_LINE_CHARS {
            return;
        }
        if self.line.len() < self.column {
            self.line.resize(self.column, ' ');
        }
        match self.line.get_mut(self.column) {
            Some(place) => *place = sign,
            None => self.line.push(sign),
        }
        self.column += 1;
    }

    fn control(&mut self, parameters: &str, sign: char) {
        let number = || parameters.parse::<usize>().unwrap_or(1).clamp(1, MAX_LINE_CHARS);
        match (sign, parameters) {
            ('h' | 'l', "?1049" | "?1047" | "?47") => self.is_full_screen = sign == 'h',
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
