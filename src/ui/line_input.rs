//! A line that a person types: an answer, a filter, or the beginning of an id.

use super::key::{Key, TerminalInput};

/// Maximum length of a line.
const MAX_LINE_CHARS: usize = 4096;

/// A line with its cursor at the end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LineInput {
    text: String,
}

/// Effect of an input on a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edit {
    Changed,
    /// Enter: the line is complete.
    Entered,
    /// Escape, Ctrl-C or Ctrl-D: the person abandons the line.
    Cancelled,
    /// The key has no meaning here.
    Ignored,
}

impl LineInput {
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Applies a key, or the first line of a paste.
    pub(crate) fn apply(&mut self, input: &TerminalInput) -> Edit {
        match input {
            TerminalInput::Key(Key::Char(character)) => return self.add(&character.to_string()),
            TerminalInput::Key(Key::Backspace) => {
                self.text.pop();
            }
            TerminalInput::Key(Key::Ctrl('u')) => self.text.clear(),
            TerminalInput::Key(Key::Ctrl('w')) => {
                let remaining_length = self.text.trim_end().rfind(' ').map_or(0, |index| index + 1);
                self.text.truncate(remaining_length);
            }
            TerminalInput::Key(Key::Enter) => return Edit::Entered,
            TerminalInput::Key(Key::Escape | Key::Ctrl('c' | 'd')) => return Edit::Cancelled,
            // Drop the further lines and the control characters of a paste, because only a person presses Enter.
            TerminalInput::Paste(text) => {
                let line = text.lines().next().unwrap_or_default();
                return self.add(&line.chars().filter(|character| !character.is_control()).collect::<String>());
            }
            _ => return Edit::Ignored,
        }
        Edit::Changed
    }

    /// Adds text, or nothing if the line would become too long: a cut line is another answer.
    fn add(&mut self, text: &str) -> Edit {
        if self.text.chars().count() + text.chars().count() > MAX_LINE_CHARS {
            return Edit::Ignored;
        }
        self.text.push_str(text);
        Edit::Changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_typed_edited_and_pasted_without_enter() {
        let mut line = LineInput::default();
        for character in "one twö".chars() {
            line.apply(&TerminalInput::Key(Key::Char(character)));
        }
        line.apply(&TerminalInput::Key(Key::Backspace));
        assert_eq!(line.text(), "one tw");
        line.apply(&TerminalInput::Key(Key::Ctrl('w')));
        assert_eq!(line.apply(&TerminalInput::Paste("1\x1b[A\nyes\n".to_owned())), Edit::Changed);
        assert_eq!(line.text(), "one 1[A");
        assert_eq!(line.apply(&TerminalInput::Paste("x".repeat(MAX_LINE_CHARS))), Edit::Ignored);
        assert_eq!(line.text(), "one 1[A");
        assert_eq!(line.apply(&TerminalInput::Key(Key::Enter)), Edit::Entered);
        assert_eq!(line.apply(&TerminalInput::Key(Key::Ctrl('c'))), Edit::Cancelled);
    }
}
