//! Scripts of `autoexpect`: `spawn`, `send` and `expect` with texts. The reader names anything else with its line.

use super::{Timeline, TimelineEvent, asks_for_secret};
use crate::LeftOut;
use crate::turn::quoted;

/// Maximum number of readable commands, and the deepest nesting of braces.
const MAX_COMMANDS: usize = 20_000;

/// A word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Word {
    text: String,
    /// It has a variable or a command in it, which only Tcl knows.
    is_computed: bool,
    is_braced: bool,
}

/// Returns what a script of `autoexpect` has. None where it has no `spawn`.
#[must_use]
pub fn expect_script(script: &str) -> Option<Timeline> {
    let commands = Parser { text: script, at: 0, line: 1 }.commands();
    let mut timeline = Timeline::default();
    let mut has_spawned = false;
    for (line, words) in &commands {
        let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        let is_known = !words.iter().any(|word| word.is_computed);
        match texts.as_slice() {
            ["set", "force_conservative" | "timeout", ..] | ["match_max", ..] | ["log_user", ..] | ["exit"] => {}
            // The preamble of autoexpect, which makes typing slow.
            ["if", condition, ..] if *condition == "$force_conservative" => {}
            ["expect", "eof"] => {}
            ["spawn", rest @ ..] if is_known && !has_spawned && !rest.is_empty() => {
                has_spawned = true;
                timeline.command = rest.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
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
            _ => leave_out(&mut timeline, *line, &texts),
        }
    }
    add_echo(&mut timeline);
    has_spawned.then_some(timeline)
}

/// Names a command by its first words: others may be secrets.
fn leave_out(timeline: &mut Timeline, line: usize, words: &[&str]) {
    let what = words.first().copied().unwrap_or_default();
    let named = if what == "set" { words.get(1).copied() } else { None };
    let input: String = std::iter::once(what).chain(named).collect::<Vec<_>>().join(" ").chars().take(40).collect();
    if matches!(what, "send" | "spawn" | "interact" | "exp_send") {
        let sentence = format!("line {line} of the script ('{input} …') is not understood; add by hand what it does");
        timeline.undecided.push(sentence);
    }
    if timeline.left_out.len() < 100 {
        let reason = format!("line {line} of the script is none of spawn, send and expect with a text");
        timeline.left_out.push(LeftOut { input, reason });
    }
}

/// Returns whether a row is the prompt of a program that reads commands, which it shows.
fn is_prompt(row: &str) -> bool {
    row.trim_end().ends_with(['$', '#', '%', '>']) && !asks_for_secret(row)
}

/// Adds the echo of text typed at prompts where the script has none (`autoexpect -p`): such a script waits for last
/// lines only. The echo of an answer to a question remains unknown.
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
                is_unknown |= !text.trim().is_empty() && !asks_for_secret(&row);
                text.ends_with('\r').then(|| "\r\n".to_owned())
            }
            TimelineEvent::Input(text) => {
                let shown: String = text.chars().filter(|sign| !sign.is_control()).collect();
                Some(if text.ends_with('\r') { format!("{shown}\r\n") } else { shown })
            }
            TimelineEvent::Resize { .. } | TimelineEvent::Exit(_) => None,
        };
        events.push((time, event));
        events.extend(echo.map(|echo| (time, TimelineEvent::Output(echo))));
    }
    timeline.events = events;
    if is_unknown {
        let sentence = "the script does not say which answers were shown: all are secret arguments; record it with autoexpect without -p";
        timeline.undecided.push(sentence.to_owned());
    }
}

/// Reads commands as Tcl divides a script: by line ends and semicolons, into words.
struct Parser<'t> {
    text: &'t str,
    at: usize,
    line: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let sign = self.peek()?;
        self.at += sign.len_utf8();
        self.line += usize::from(sign == '\n');
        Some(sign)
    }

    fn commands(mut self) -> Vec<(usize, Vec<Word>)> {
        let mut commands = Vec::new();
        let (mut words, mut begin) = (Vec::new(), 1);
        while let Some(sign) = self.peek() {
            match sign {
                '\n' | ';' => {
                    self.next();
                    if !words.is_empty() {
                        commands.push((begin, std::mem::take(&mut words)));
                    }
                    if commands.len() >= MAX_COMMANDS {
                        return commands;
                    }
                }
                ' ' | '\t' | '\r' => drop(self.next()),
                '#' if words.is_empty() => while self.next().is_some_and(|sign| sign != '\n') {},
                _ => {
                    if words.is_empty() {
                        begin = self.line;
                    }
                    let word = match sign {
                        '"' => self.quoted(),
                        '{' => self.braced(),
                        _ => self.bare(),
                    };
                    words.push(word);
                }
            }
        }
        if !words.is_empty() {
            commands.push((begin, words));
        }
        commands
    }

    fn quoted(&mut self) -> Word {
        self.next();
        let mut word = Word { text: String::new(), is_computed: false, is_braced: false };
        while let Some(sign) = self.next() {
            match sign {
                '"' => break,
                '\\' => word.text.extend(self.escaped()),
                sign => {
                    word.is_computed |= self.is_computed(sign);
                    word.text.push(sign);
                }
            }
        }
        word
    }

    fn bare(&mut self) -> Word {
        let mut word = Word { text: String::new(), is_computed: false, is_braced: false };
        while let Some(sign) = self.peek().filter(|sign| !matches!(sign, ' ' | '\t' | '\r' | '\n' | ';')) {
            self.next();
            if sign == '\\' {
                word.text.extend(self.escaped());
                continue;
            }
            word.is_computed |= self.is_computed(sign);
            word.text.push(sign);
        }
        word
    }

    /// Returns whether the last read sign begins a command or the name of a variable.
    fn is_computed(&self, sign: char) -> bool {
        let names = |next: char| next.is_ascii_alphanumeric() || matches!(next, '_' | '{' | '(' | ':');
        sign == '[' || sign == '$' && self.peek().is_some_and(names)
    }

    fn braced(&mut self) -> Word {
        self.next();
        let (mut text, mut depth) = (String::new(), 1_usize);
        while let Some(sign) = self.next() {
            match sign {
                '{' => depth += 1,
                '}' => depth -= 1,
                '\\' => {
                    text.push(sign);
                    text.extend(self.next());
                    continue;
                }
                _ => {}
            }
            if depth == 0 {
                break;
            }
            text.push(sign);
        }
        Word { text, is_computed: false, is_braced: true }
    }

    /// Reads what stands behind a backslash.
    fn escaped(&mut self) -> Option<char> {
        let sign = self.next()?;
        let number = |parser: &mut Self, radix: u32, most: usize| {
            let begin = parser.at;
            while parser.at - begin < most && parser.peek().is_some_and(|sign| sign.is_digit(radix)) {
                parser.next();
            }
            u32::from_str_radix(&parser.text[begin..parser.at], radix).ok().and_then(char::from_u32)
        };
        match sign {
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
                self.at -= 1;
                number(self, 8, 3)
            }
            '\n' => Some(' '),
            sign => Some(sign),
        }
    }
}
