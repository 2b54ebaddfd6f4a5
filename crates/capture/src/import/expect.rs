//! Scripts of `autoexpect`: `spawn`, `send` and `expect` with texts. Other commands that act are reported with their
//! line, up to 100.

use super::{Timeline, TimelineEvent, requests_secret};
use crate::OmittedInput;
use crate::turn::quoted;

/// Maximum number of commands of a script.
const MAX_COMMANDS: usize = 20_000;

/// A word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Word {
    text: String,
    /// True if the word has a variable or a command. Only Tcl can evaluate such a word.
    begins_substitution: bool,
    is_braced: bool,
}

/// Returns the timeline of a script of `autoexpect`. `None` without `spawn`.
#[must_use]
pub fn expect_script(script: &str) -> Option<Timeline> {
    let commands = Parser { text: script, position: 0, line: 1 }.parse_commands();
    let mut timeline = Timeline::default();
    let mut has_spawned = false;
    for (line, words) in &commands {
        let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        let is_known = !words.iter().any(|word| word.begins_substitution);
        match texts.as_slice() {
            ["set", "force_conservative" | "timeout", ..] | ["match_max", ..] | ["log_user", ..] | ["exit"] => {}
            // The preamble of autoexpect; it slows down typing.
            ["if", condition, ..] if *condition == "$force_conservative" => {}
            ["expect", "eof"] => {}
            ["spawn", command @ ..] if is_known && !has_spawned && !command.is_empty() => {
                has_spawned = true;
                timeline.command = command.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
            }
            ["send", "--", text] | ["send", text] if is_known && !text.starts_with("--") => {
                timeline.events.push((0.0, TimelineEvent::Input((*text).to_owned())));
            }
            ["expect", "-exact", text] if is_known => {
                timeline.events.push((0.0, TimelineEvent::Output((*text).to_owned())));
            }
            ["expect", text] if is_known && !words[1].is_braced && !text.contains(['*', '?', '[']) => {
                timeline.events.push((0.0, TimelineEvent::Output((*text).to_owned())));
            }
            _ => omit_command(&mut timeline, *line, &texts),
        }
    }
    add_echo(&mut timeline);
    has_spawned.then_some(timeline)
}

/// Reports a command by its first words, because the other words may be secrets.
fn omit_command(timeline: &mut Timeline, line: usize, words: &[&str]) {
    let command = words.first().copied().unwrap_or_default();
    let variable = if command == "set" { words.get(1).copied() } else { None };
    let input: String =
        std::iter::once(command).chain(variable).collect::<Vec<_>>().join(" ").chars().take(40).collect();
    if matches!(command, "send" | "spawn" | "interact" | "exp_send") {
        let sentence =
            format!("line {line} of the script ('{input} …') is not supported; add its action to the workflow");
        timeline.undecided.push(sentence);
    }
    if timeline.omitted_inputs.len() < 100 {
        let reason = format!("line {line} of the script is not spawn, send or expect with a text");
        timeline.omitted_inputs.push(OmittedInput { input, reason });
    }
}

/// Returns whether a row is the prompt of a program that reads commands with an echo.
fn is_prompt(row: &str) -> bool {
    row.trim_end().ends_with(['$', '#', '%', '>']) && !requests_secret(row)
}

/// Adds the echo of text typed at prompts to a script without echoes: `autoexpect -p` waits only for last lines. The
/// echo of an answer to a question is not added, except its line end.
fn add_echo(timeline: &mut Timeline) {
    let has_lines = |event: &TimelineEvent| matches!(event, TimelineEvent::Output(text) if text.contains('\n'));
    if timeline.events.iter().any(|(_, event)| has_lines(event)) {
        return;
    }
    let (mut row, mut is_unknown) = (String::new(), false);
    let mut events = Vec::with_capacity(timeline.events.len() * 2);
    for (time, event) in std::mem::take(&mut timeline.events) {
        let echo = match &event {
            TimelineEvent::Output(text) => {
                row = text.rsplit('\n').next().unwrap_or_default().to_owned();
                None
            }
            TimelineEvent::Input(text) if !is_prompt(&row) => {
                is_unknown |= !text.trim().is_empty() && !requests_secret(&row);
                text.ends_with('\r').then(|| "\r\n".to_owned())
            }
            TimelineEvent::Input(text) => {
                let visible: String = text.chars().filter(|character| !character.is_control()).collect();
                Some(if text.ends_with('\r') { format!("{visible}\r\n") } else { visible })
            }
            TimelineEvent::Resize { .. } | TimelineEvent::Exit(_) => None,
        };
        events.push((time, event));
        events.extend(echo.map(|echo| (time, TimelineEvent::Output(echo))));
    }
    timeline.events = events;
    if is_unknown {
        let sentence = "the script does not show which answers had an echo, so all became secret arguments; record it with autoexpect without -p";
        timeline.undecided.push(sentence.to_owned());
    }
}

/// Parser of the commands of a Tcl script, separated by line ends and semicolons, and of their words.
struct Parser<'t> {
    text: &'t str,
    position: usize,
    line: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.position..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let character = self.peek()?;
        self.position += character.len_utf8();
        self.line += usize::from(character == '\n');
        Some(character)
    }

    fn parse_commands(mut self) -> Vec<(usize, Vec<Word>)> {
        let mut commands = Vec::new();
        let (mut words, mut start_line) = (Vec::new(), 1);
        while let Some(character) = self.peek() {
            match character {
                '\n' | ';' => {
                    self.next();
                    if !words.is_empty() {
                        commands.push((start_line, std::mem::take(&mut words)));
                    }
                    if commands.len() >= MAX_COMMANDS {
                        return commands;
                    }
                }
                ' ' | '\t' | '\r' => drop(self.next()),
                '#' if words.is_empty() => while self.next().is_some_and(|character| character != '\n') {},
                _ => {
                    if words.is_empty() {
                        start_line = self.line;
                    }
                    let word = match character {
                        '"' => self.parse_quoted(),
                        '{' => self.parse_braced(),
                        _ => self.parse_bare(),
                    };
                    words.push(word);
                }
            }
        }
        if !words.is_empty() {
            commands.push((start_line, words));
        }
        commands
    }

    fn parse_quoted(&mut self) -> Word {
        self.next();
        let mut word = Word { text: String::new(), begins_substitution: false, is_braced: false };
        while let Some(character) = self.next() {
            match character {
                '"' => break,
                '\\' => word.text.extend(self.parse_escape()),
                character => {
                    word.begins_substitution |= self.begins_substitution(character);
                    word.text.push(character);
                }
            }
        }
        word
    }

    fn parse_bare(&mut self) -> Word {
        let mut word = Word { text: String::new(), begins_substitution: false, is_braced: false };
        while let Some(character) = self.peek().filter(|character| !matches!(character, ' ' | '\t' | '\r' | '\n' | ';'))
        {
            self.next();
            if character == '\\' {
                word.text.extend(self.parse_escape());
                continue;
            }
            word.begins_substitution |= self.begins_substitution(character);
            word.text.push(character);
        }
        word
    }

    /// Returns whether the last read character begins a command or a variable.
    fn begins_substitution(&self, character: char) -> bool {
        let begins_name = |next: char| next.is_ascii_alphanumeric() || matches!(next, '_' | '{' | '(' | ':');
        character == '[' || character == '$' && self.peek().is_some_and(begins_name)
    }

    fn parse_braced(&mut self) -> Word {
        self.next();
        let (mut text, mut depth) = (String::new(), 1_usize);
        while let Some(character) = self.next() {
            match character {
                '{' => depth += 1,
                '}' => depth -= 1,
                '\\' => {
                    text.push(character);
                    text.extend(self.next());
                    continue;
                }
                _ => {}
            }
            if depth == 0 {
                break;
            }
            text.push(character);
        }
        Word { text, begins_substitution: false, is_braced: true }
    }

    /// Parses the escape after a backslash.
    fn parse_escape(&mut self) -> Option<char> {
        let character = self.next()?;
        let number = |parser: &mut Self, radix: u32, max_digits: usize| {
            let start_line = parser.position;
            while parser.position - start_line < max_digits
                && parser.peek().is_some_and(|character| character.is_digit(radix))
            {
                parser.next();
            }
            u32::from_str_radix(&parser.text[start_line..parser.position], radix).ok().and_then(char::from_u32)
        };
        match character {
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            'a' => Some('\x07'),
            'b' => Some('\x08'),
            'f' => Some('\x0c'),
            'v' => Some('\x0b'),
            'x' => number(self, 16, 2),
            'u' => number(self, 16, 4),
            '0'..='7' => {
                self.position -= 1;
                number(self, 8, 3)
            }
            '\n' => Some(' '),
            character => Some(character),
        }
    }
}
