//! Prompts of programs without shell integration: interpreters, debuggers, other shells.
//!
//! Classifies a row of the screen as a prompt, a continuation prompt or something else. Learns the prompt of an entered
//! command and recognises that prompt when it returns. Pure: takes rows as input.

use crate::{command, python_entry};

/// Maximum number of characters of a row to inspect, counted from its end.
const MAX_ROW_CHARS: usize = 200;

/// Characters that end the prompt of a shell.
const SHELL_SIGILS: &[char] = &['$', '#', '%', '❯', '➜', 'λ', '»'];

/// Primary and continuation prompt of a known program.
#[derive(Debug)]
struct Interpreter {
    /// Process name.
    name: &'static str,
    /// Returns the length of the prompt at the end of a row, in bytes, if there is one.
    prompt: fn(&str) -> Option<usize>,
    /// Returns true for a row with a continuation prompt.
    continuation: fn(&str) -> bool,
    /// True if an empty line ends an entry of several lines.
    ends_with_empty_line: bool,
    /// True if an empty line at the prompt repeats the last entry.
    repeats_entries: bool,
    /// True if multi-line entries are pasted, because the program auto-indents typed lines.
    takes_pastes: bool,
    /// True if the program prints an empty line before each prompt.
    prints_blank_line: bool,
}

impl PartialEq for Interpreter {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Interpreter {}

/// Returns the length of the first of `prompts` that ends the row, in bytes.
fn prompt_suffix_len(row: &str, prompts: &[&str]) -> Option<usize> {
    prompts.iter().find(|prompt| row.ends_with(**prompt)).map(|prompt| prompt.len())
}

/// Returns the length of the row's end starting at the last `prefix`, in bytes, if the text after `prefix` matches.
fn suffix_len_from(row: &str, prefix: &str, matches: impl Fn(&str) -> bool) -> Option<usize> {
    let start = row.rfind(prefix)?;
    matches(&row[start + prefix.len()..]).then_some(row.len() - start)
}

/// Returns the character of a psql prompt that shows the input state, before the sigil and the transaction state; see
/// `PROMPT1` and `PROMPT2` in <https://www.postgresql.org/docs/current/app-psql.html>. The database name precedes it.
fn psql_state(row: &str) -> Option<char> {
    let prompt = row.strip_suffix("# ").or_else(|| row.strip_suffix("> "))?;
    let prompt = prompt.strip_suffix(['*', '!', '?']).unwrap_or(prompt);
    let state = prompt.chars().next_back()?;
    let name = &prompt[..prompt.len() - state.len_utf8()];
    let is_name = name.ends_with(|last: char| last.is_alphanumeric() || last == '_') && !name.contains(['@', '/', '~']);
    is_name.then_some(state)
}

const INTERPRETERS: &[Interpreter] = &[
    Interpreter {
        name: PYTHON,
        prompt: |row| prompt_suffix_len(row, &[">>> "]),
        continuation: |row| row.starts_with("... "),
        ends_with_empty_line: true,
        repeats_entries: false,
        takes_pastes: true,
        prints_blank_line: false,
    },
    Interpreter {
        name: IPYTHON,
        prompt: |row| suffix_len_from(row, "In [", |rest| is_number_with_suffix(rest, "]: ")),
        continuation: |row| row.trim_start().starts_with("...:"),
        ends_with_empty_line: true,
        repeats_entries: false,
        takes_pastes: true,
        prints_blank_line: true,
    },
    Interpreter {
        name: "pdb",
        prompt: |row| prompt_suffix_len(row, &["(Pdb) ", "ipdb> ", "(Pdb++) "]),
        continuation: |row| row.starts_with("... "),
        ends_with_empty_line: true,
        repeats_entries: true,
        takes_pastes: false,
        prints_blank_line: false,
    },
    Interpreter {
        name: "gdb",
        prompt: |row| prompt_suffix_len(row, &["(gdb) ", "(lldb) ", "(rr) "]),
        continuation: |row| row == ">",
        ends_with_empty_line: false,
        repeats_entries: true,
        takes_pastes: false,
        prints_blank_line: false,
    },
    Interpreter {
        name: "sqlite3",
        prompt: |row| prompt_suffix_len(row, &["sqlite> "]),
        continuation: |row| row.ends_with("...> "),
        ends_with_empty_line: false,
        repeats_entries: false,
        takes_pastes: false,
        prints_blank_line: false,
    },
    Interpreter {
        name: "mysql",
        prompt: |row| {
            prompt_suffix_len(row, &["mysql> "])
                .or_else(|| suffix_len_from(row, "MariaDB [", |rest| rest.ends_with("]> ")))
        },
        continuation: |row| row.starts_with("    ") && row.ends_with("> ") && !row.trim().contains(' '),
        ends_with_empty_line: false,
        repeats_entries: false,
        takes_pastes: false,
        prints_blank_line: false,
    },
    Interpreter {
        name: "irb",
        prompt: |row| suffix_len_from(row, "irb(", |rest| rest.ends_with("> ") && !rest.ends_with("\"> ")),
        continuation: |row| row.starts_with("irb(") && (row.ends_with("* ") || row.ends_with("\"> ")),
        ends_with_empty_line: false,
        repeats_entries: false,
        takes_pastes: false,
        prints_blank_line: false,
    },
    Interpreter {
        name: "psql",
        prompt: |row| (psql_state(row) == Some('=')).then_some(row.len()),
        continuation: |row| psql_state(row).is_some_and(|state| matches!(state, '-' | '(' | '\'' | '"' | '$' | '*')),
        ends_with_empty_line: false,
        repeats_entries: false,
        takes_pastes: false,
        prints_blank_line: false,
    },
    Interpreter {
        name: NODE,
        prompt: |row| (row == "> ").then_some(2),
        continuation: |row| row.starts_with("... ") || row.starts_with("| "),
        ends_with_empty_line: false,
        repeats_entries: false,
        takes_pastes: false,
        prints_blank_line: false,
    },
];

/// Names of programs, and of threads of programs, whose prompt is `> `.
const ANGLE_PROMPT_PROGRAMS: &[&str] = &["node", "MainThread", "R", "deno", "bun", "mongosh"];

/// Continuation prompts of shells, in addition to `> `.
const CONTINUATIONS: &[&str] = &[
    "quote>",
    "dquote>",
    "bquote>",
    "heredoc>",
    "pipe>",
    "cmdsubst>",
    "cmdor>",
    "cmdand>",
    "for>",
    "while>",
    "until>",
    "if>",
    "then>",
    "else>",
    "elif>",
    "case>",
    "function>",
    "select>",
    "subsh>",
    "cursh>",
    "math>",
    "braceparam>",
];

/// Maximum length of a continuation prompt that is only punctuation, in characters.
const MAX_CONTINUATION_CHARS: usize = 4;

/// Name of the interpreter entry for Node and similar programs.
const NODE: &str = "node";

/// Name of the interpreter entry for IPython.
const IPYTHON: &str = "ipython";

/// Name of the interpreter entry for Python.
const PYTHON: &str = "python";

/// Programs without a prompt.
const PROMPTLESS_PROGRAMS: &[&str] = &["bc", "dc"];

/// Returns whether a text is a number followed by `suffix`.
fn is_number_with_suffix(text: &str, suffix: &str) -> bool {
    text.strip_suffix(suffix)
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A prompt that a program without marks has shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LearnedPrompt {
    kind: Kind,
    /// The text of the prompt.
    text: String,
    /// True if the prompt text or the program name indicates a shell.
    is_shell: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Known(&'static Interpreter),
    /// No prompt: the cursor is in an empty row.
    Promptless,
    /// A prompt that ends with a common sigil, as in shells and many interactive programs.
    Other,
}

/// Kind of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowKind {
    /// A prompt, possibly after output without a final newline.
    Prompt {
        /// Bytes before the prompt.
        output_bytes: usize,
    },
    /// A continuation prompt: the program requests more of the entry.
    Continuation,
    /// Neither kind of prompt.
    Other,
}

impl LearnedPrompt {
    /// Learns the prompt in the text before the cursor. `program` is the program in the foreground, if known.
    ///
    /// Questions such as `Continue? [Y/n] ` and `Password: ` are not prompts.
    pub(crate) fn learn(before_cursor: &str, program: Option<&str>) -> Option<Self> {
        if before_cursor.is_empty() && program.is_some_and(|program| PROMPTLESS_PROGRAMS.contains(&program)) {
            return Some(Self { kind: Kind::Promptless, text: String::new(), is_shell: false });
        }
        if before_cursor.chars().count() > MAX_ROW_CHARS {
            return None;
        }
        // `> ` is the prompt of many programs, and the continuation prompt of shells.
        if before_cursor == "> " && !program.is_some_and(|program| ANGLE_PROMPT_PROGRAMS.contains(&program)) {
            return None;
        }
        for interpreter in INTERPRETERS {
            if let Some(length) = (interpreter.prompt)(before_cursor) {
                let text = before_cursor[before_cursor.len() - length..].to_owned();
                return Some(Self { kind: Kind::Known(interpreter), text, is_shell: false });
            }
        }
        let (sigil, blanks) = find_sigil(before_cursor)?;
        let prompt = &before_cursor[..before_cursor.len() - blanks];
        // A question that ends with a sigil is a sentence.
        let is_word = !prompt.trim().contains(' ') && !CONTINUATIONS.contains(&prompt.trim());
        let is_percentage = sigil == '%' && prompt.trim_end_matches('%').ends_with(|last: char| last.is_ascii_digit());
        let is_shell = SHELL_SIGILS.contains(&sigil)
            || names_location(before_cursor)
            || program.is_some_and(command::is_shell_name);
        (blanks <= 2 && !is_percentage && !prompt.contains('?') && (is_word || names_location(prompt))).then(|| Self {
            kind: Kind::Other,
            text: before_cursor.to_owned(),
            is_shell,
        })
    }

    /// Returns whether the prompt may belong to a shell, and so accept shell commands.
    pub(crate) fn may_be_shell(&self) -> bool {
        self.is_shell
    }

    /// Returns whether an empty line ends an entry of several lines. After a line such as `def f():`, an empty line is
    /// an error.
    pub(crate) fn ends_with_empty_line(&self, entry: &str) -> bool {
        matches!(self.kind, Kind::Known(interpreter) if interpreter.ends_with_empty_line)
            && !entry.trim_end().ends_with(':')
    }

    /// Splits text into entries to type. Each entry is typed when the program has returned to its prompt, or shows a
    /// continuation prompt.
    ///
    /// # Errors
    /// If the text contains an empty line that is a separate entry. The error is the meaning of this line.
    pub(crate) fn split_entries(&self, text: &str) -> Result<Vec<String>, &'static str> {
        let has_empty_line = text.split('\n').any(|line| line.trim().is_empty());
        match self.kind {
            Kind::Known(interpreter) if interpreter.repeats_entries && has_empty_line => {
                return Err("a repetition of the last entry");
            }
            Kind::Known(interpreter) if interpreter.name == PYTHON => return Ok(python_entry::statements(text)),
            Kind::Known(interpreter) if interpreter.name == IPYTHON && has_empty_line => {
                return Err("the end of the entry");
            }
            Kind::Other if has_empty_line && !self.may_be_shell() => return Err("something unknown"),
            Kind::Known(_) | Kind::Promptless | Kind::Other => {}
        }
        Ok(text.split('\n').map(str::to_owned).collect())
    }

    /// Returns the meaning of an empty line that splits a text typed line by line. Considers only known programs,
    /// because the text may be an answer rather than an entry.
    pub(crate) fn splits_at_empty_line(&self, text: &str) -> Option<&'static str> {
        let Kind::Known(interpreter) = self.kind else { return None };
        let has_empty_line = text.trim_end().split('\n').any(|line| line.trim().is_empty());
        match interpreter.name {
            _ if interpreter.repeats_entries && has_empty_line => Some("a repetition of the last entry"),
            IPYTHON if has_empty_line => Some("the end of the entry"),
            PYTHON if python_entry::ends_early(text) => Some("the end of the block"),
            _ => None,
        }
    }

    /// Returns whether each entry is a complete statement.
    pub(crate) fn takes_statements(&self) -> bool {
        matches!(self.kind, Kind::Known(interpreter) if interpreter.name == PYTHON)
    }

    /// Returns whether the program reads input during the execution of an entry, as Node does while it awaits a
    /// promise.
    pub(crate) fn reads_during_execution(&self) -> bool {
        matches!(self.kind, Kind::Known(interpreter) if interpreter.name == NODE)
    }

    /// Returns whether a row may be a continuation prompt: it consists of punctuation, or begins like the prompt.
    pub(crate) fn may_continue(&self, before_cursor: &str) -> bool {
        let row = before_cursor.trim();
        let is_punctuation = !row.is_empty()
            && row.chars().count() <= MAX_CONTINUATION_CHARS
            && row.chars().all(|character| character.is_ascii_punctuation());
        let shared_prefix: String = self.text.chars().take(MIN_SHARED_CHARS).collect();
        let is_variant = shared_prefix.chars().count() == MIN_SHARED_CHARS
            && row.starts_with(&shared_prefix)
            && row.ends_with(|character: char| character.is_ascii_punctuation());
        is_punctuation || is_variant || CONTINUATIONS.contains(&row)
    }

    /// Returns whether to paste an entry of several lines rather than type it.
    pub(crate) fn takes_pastes(&self) -> bool {
        matches!(self.kind, Kind::Known(interpreter) if interpreter.takes_pastes)
    }

    /// Classifies the row of the cursor by the text before the cursor.
    pub(crate) fn classify_row(&self, before_cursor: &str) -> RowKind {
        match self.kind {
            Kind::Promptless if before_cursor.is_empty() => RowKind::Prompt { output_bytes: 0 },
            Kind::Promptless => RowKind::Other,
            Kind::Known(interpreter) => {
                if (interpreter.continuation)(before_cursor) {
                    RowKind::Continuation
                } else if let Some(length) = (interpreter.prompt)(before_cursor) {
                    RowKind::Prompt { output_bytes: before_cursor.len() - length }
                } else {
                    RowKind::Other
                }
            }
            Kind::Other if before_cursor.ends_with(&self.text) => {
                RowKind::Prompt { output_bytes: before_cursor.len() - self.text.len() }
            }
            Kind::Other if is_variant(&self.text, before_cursor) => RowKind::Prompt { output_bytes: 0 },
            Kind::Other => RowKind::Other,
        }
    }

    /// Returns whether the prompt follows output without a final newline.
    pub(crate) fn follows_output(&self, before_cursor: &str) -> bool {
        self.kind == Kind::Other && before_cursor.len() > self.text.len() && before_cursor.ends_with(&self.text)
    }

    /// Returns the length of the redrawn entry `typed` at the beginning of `output`, in bytes. Includes the rows before
    /// the entry that a line editor reserves for a menu.
    pub(crate) fn redrawn_entry(&self, output: &str, typed: &str) -> usize {
        let Kind::Known(interpreter) = self.kind else { return 0 };
        let reserved_bytes = match interpreter.prints_blank_line {
            true => output.split_inclusive('\n').take_while(|line| line.trim().is_empty()).map(str::len).sum(),
            false => 0,
        };
        // The entry number in the prompt may or may not be incremented yet.
        let prompt = without_digits(&self.text);
        let expected_line = format!("{prompt}{}", without_digits(typed.lines().next().unwrap_or_default()));
        let mut lines = output[reserved_bytes..].split_inclusive('\n');
        // A line without the text of the entry is output.
        let Some(first_line) = lines.next().filter(|line| without_digits(line).trim_end() == expected_line.trim_end())
        else {
            return 0;
        };
        let is_continued =
            |line: &str| without_digits(line).starts_with(&prompt) || (interpreter.continuation)(&format!("{line} "));
        let has_more = typed.trim_end().contains('\n');
        let further_lines = lines.take_while(|line| has_more && line.strip_suffix('\n').is_some_and(is_continued));
        reserved_bytes + first_line.len() + further_lines.map(str::len).sum::<usize>()
    }

    /// Returns the length in bytes of a multi-line editor's drawing of the entry `typed`, in the first rows of
    /// `output`.
    pub(crate) fn drawn_entry_rows(&self, output: &str, typed: &str) -> usize {
        let is_drawn = |line: &&str| {
            let row = line.strip_suffix('\n').unwrap_or_default();
            let drawn_text = row.strip_prefix(self.text.as_str()).or_else(|| row.strip_prefix("... "));
            drawn_text.map(str::trim_end).is_some_and(|drawn_text| {
                drawn_text.is_empty() || typed.lines().any(|typed| typed.trim_end() == drawn_text)
            })
        };
        output.split_inclusive('\n').take_while(is_drawn).map(str::len).sum()
    }

    /// Removes the trailing prompt from `output`: the empty line before the prompt, and the prompt itself if only blank
    /// lines follow. A line editor reserves blank lines for a menu.
    pub(crate) fn trim_prompt(&self, output: &mut String) {
        let Kind::Known(interpreter) = self.kind else { return };
        // For other programs, such a last line is output.
        if !interpreter.prints_blank_line {
            return;
        }
        let text = output.trim_end_matches(['\n', ' ']);
        let last_line_start = text.rfind('\n').map_or(0, |newline| newline + 1);
        if let Some(length) = (interpreter.prompt)(&format!("{} ", &text[last_line_start..])) {
            output.truncate(text.len() + 1 - length);
        }
        if output.ends_with("\n\n") || output == "\n" {
            output.pop();
        }
    }
}

/// Returns the sigil at the end of a prompt, and the number of spaces after it.
fn find_sigil(prompt: &str) -> Option<(char, usize)> {
    let text = prompt.trim_end_matches(' ');
    let last = text.chars().next_back()?;
    (SHELL_SIGILS.contains(&last) || last == '>').then_some((last, prompt.len() - text.len()))
}

/// Returns whether a prompt names a host or a directory, as shell prompts do.
fn names_location(prompt: &str) -> bool {
    prompt.contains(['@', '/', '~'])
}

/// Minimum length of the common prefix of two prompts of one shell, in characters.
const MIN_SHARED_CHARS: usize = 3;

fn without_digits(text: &str) -> String {
    text.replace(|character: char| character.is_ascii_digit(), "")
}

/// Returns whether `row` is the prompt `learned` with a different directory, time or number.
fn is_variant(learned: &str, row: &str) -> bool {
    if find_sigil(learned) != find_sigil(row) || find_sigil(row).is_none() || row.chars().count() > MAX_ROW_CHARS {
        return false;
    }
    let is_path = |prompt: &str| prompt.starts_with(['/', '~']);
    let shared = learned.chars().zip(row.chars()).take_while(|(left, right)| left == right).count();
    without_digits(learned) == without_digits(row)
        || (is_path(learned) && is_path(row))
        || (names_location(learned) && shared >= MIN_SHARED_CHARS)
}

/// Returns the length of output without a final newline before a prompt of zsh or fish, in bytes. After such output,
/// these shells print a marker and fill the row, so that the prompt starts on the next row.
pub(crate) fn unfinished_line_bytes(line: &str, cols: u16) -> usize {
    // On a continuation row, a carriage return appears as backspaces.
    let Some((filled_row, _)) = line.split_once(['\r', '\x08']) else { return 0 };
    let text = filled_row.trim_end_matches(' ');
    if filled_row.len() - text.len() + 1 < usize::from(cols) {
        return 0;
    }
    text.strip_suffix(['%', '#', '⏎', '¶', '~']).unwrap_or(text).len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learn_prompt(row: &str) -> LearnedPrompt {
        let program = (row == "> ").then_some("node");
        LearnedPrompt::learn(row, program).unwrap_or_else(|| panic!("{row:?} is a prompt"))
    }

    #[test]
    fn learned_prompts_are_recognised() {
        let prompts = [
            (">>> ", ">>> "),
            ("In [1]: ", "In [23]: "),
            ("(gdb) ", "(gdb) "),
            ("(Pdb) ", "(Pdb) "),
            ("sqlite> ", "sqlite> "),
            ("mysql> ", "mysql> "),
            ("MariaDB [(none)]> ", "MariaDB [shop]> "),
            ("irb(main):001:0> ", "irb(main):002:0> "),
            ("irb(main):001> ", "irb(main):014> "),
            ("postgres=# ", "postgres=# "),
            ("postgres=# ", "shop=*# "),
            ("> ", "> "),
            ("$ ", "$ "),
            ("ana@box:~$ ", "ana@box:/tmp$ "),
            ("[root@box /]# ", "[root@box etc]# "),
            ("/ # ", "/tmp # "),
            ("~ $ ", "/etc $ "),
            ("sh-5.2$ ", "sh-5.2$ "),
            ("box% ", "box% "),
            ("ana@box ~> ", "ana@box /tmp> "),
            ("redis:6379> ", "redis:6379> "),
            ("12:30:01 ana@box $ ", "12:30:44 ana@box $ "),
        ];
        for (first, next) in prompts {
            assert_eq!(
                learn_prompt(first).classify_row(next),
                RowKind::Prompt { output_bytes: 0 },
                "{first:?} and {next:?}"
            );
        }
    }

    #[test]
    fn output_without_newline_precedes_the_prompt() {
        for prompt in [">>> ", "$ ", "(gdb) ", "ana@box:~$ ", "sqlite> "] {
            assert_eq!(
                learn_prompt(prompt).classify_row(&format!("done{prompt}")),
                RowKind::Prompt { output_bytes: 4 },
                "{prompt:?}"
            );
        }
    }

    #[test]
    fn continuation_prompts_are_recognised() {
        let rows = [
            (">>> ", "... "),
            ("In [1]: ", "   ...: "),
            ("In [1]: ", "   ...:     "),
            ("sqlite> ", "   ...> "),
            ("mysql> ", "    -> "),
            ("postgres=# ", "postgres-# "),
            ("postgres=# ", "postgres(# "),
            ("irb(main):001:0> ", "irb(main):002:1* "),
            ("> ", "... "),
            ("(gdb) ", ">"),
        ];
        for (prompt, row) in rows {
            assert_eq!(learn_prompt(prompt).classify_row(row), RowKind::Continuation, "{prompt:?} and {row:?}");
        }
    }

    #[test]
    fn text_is_split_into_entries() {
        let lines = |prompt: &str, text: &str| learn_prompt(prompt).split_entries(text);
        assert_eq!(lines(">>> ", "if a:\n  b\n\n  c\nd").unwrap(), ["if a:\n  b\n \n  c", "d"]);
        for prompt in ["$ ", "> ", "sqlite> ", "postgres=# ", "irb(main):001:0> "] {
            assert_eq!(lines(prompt, "a\n\nb").unwrap(), ["a", "", "b"], "{prompt:?}");
        }
        let splits = |prompt: &str, text: &str| learn_prompt(prompt).splits_at_empty_line(text).is_some();
        for (prompt, text, expected) in [
            (">>> ", "if a:\n  b\n\n  c\nd", true),
            (">>> ", "if a:\n  b\n\nelse:\n  c", true),
            (">>> ", "if a:\n  b\n\nd\n", false),
            (">>> ", "x = \'\'\'a\n\n  b\'\'\'\ny = [1,\n\n  2]", false),
            (">>> ", "if a:\n  b\n \n  c\n\n", false),
            ("In [1]: ", "a\n\nb", true),
            ("(Pdb) ", "p 1\n\np 2", true),
            ("(Pdb) ", "p 1\n\n", false),
            ("sqlite> ", "a\n\nb", false),
            ("redis:6379> ", "a\n\nb", false),
            ("$ ", "a\n\nb", false),
        ] {
            assert_eq!(splits(prompt, text), expected, "{prompt:?} {text:?}");
        }
        for prompt in ["(gdb) ", "(Pdb) ", "redis:6379> ", "In [1]: "] {
            assert!(lines(prompt, "a\n\nb").is_err(), "{prompt:?}");
            assert_eq!(lines(prompt, "a\nb").unwrap(), ["a", "b"], "{prompt:?}");
        }
    }

    #[test]
    fn entry_continues_at_a_continuation_prompt() {
        for (prompt, row) in [("$ ", "> "), ("box% ", "heredoc> "), ("ftp> ", "+ "), ("lua> ", ">> ")] {
            assert!(learn_prompt(prompt).may_continue(row), "{row:?}");
        }
        for row in ["", "Name: ", "Continue? [y/N] ", "total 12"] {
            assert!(!learn_prompt("$ ").may_continue(row), "{row:?}");
        }
    }

    #[test]
    fn questions_and_output_are_not_prompts() {
        let rows = [
            "",
            "Continue? [Y/n] ",
            "Password: ",
            "Are you sure you want to continue connecting (yes/no/[fingerprint])? ",
            "Name: ",
            " 42% ",
            "Compiling serde",
            "Press <Enter> to go on> ",
            "ana@box:~$ ls",
            "Amount in $ ",
            "Really delete? type #",
            "quote> ",
            "heredoc> ",
            "> ",
        ];
        for row in rows {
            assert_eq!(LearnedPrompt::learn(row, None), None, "{row:?}");
        }
        for (prompt, row) in
            [(">>> ", "Name: "), ("$ ", "total 12"), ("(gdb) ", "--Type <RET> for more--"), ("$ ", "# ")]
        {
            assert_eq!(learn_prompt(prompt).classify_row(row), RowKind::Other, "{prompt:?} and {row:?}");
        }
    }

    #[test]
    fn zsh_and_fish_fill_a_row_after_output_without_newline() {
        let fill = |output: &str| format!("{output}%{}\r \r\rbox% ", " ".repeat(79));
        assert_eq!(unfinished_line_bytes(&fill("abc"), 80), 3);
        assert_eq!(unfinished_line_bytes(&fill(""), 80), 0);
        assert_eq!(unfinished_line_bytes(&fill("100%"), 80), 4);
        let steps = |output: &str| format!("{output}⏎{}\x08\x08\x08⏎ \r\r{output}⏎ box ~# ", " ".repeat(79));
        assert_eq!(unfinished_line_bytes(&steps("abc"), 80), 3);
        assert_eq!(unfinished_line_bytes("50%\r100%\rbox% ", 80), 0, "a progress bar is not an unfinished line");
        assert_eq!(unfinished_line_bytes("box% ", 80), 0);
    }

    #[test]
    fn line_editor_drawings_are_not_output() {
        let prompt = learn_prompt("In [2]: ");
        let drawn = "In [2]: for i in x:\n   ...:     print(i)\n   ...:\n0\n1\n";
        assert_eq!(&drawn[prompt.redrawn_entry(drawn, "for i in x:\n    print(i)")..], "0\n1\n");
        for (drawn, typed, output) in [
            ("\n\n \nIn [2]: 1+1\nOut[2]: 2\n", "1+1", "Out[2]: 2\n"),
            ("\n \nIn [2]: print('In [1]: x')\nIn [1]: x\n", "print('In [1]: x')", "In [1]: x\n"),
            ("\n\nIn [2]: f()\n   ...: g()\n1\n", "f()\ng()", "1\n"),
            ("\n\nOut[2]: 2\n", "1+1", "\n\nOut[2]: 2\n"),
            ("In [1]: x\n", "print('In [1]: x')", "In [1]: x\n"),
        ] {
            assert_eq!(&drawn[prompt.redrawn_entry(drawn, typed)..], output, "{drawn:?}");
        }
        let python = learn_prompt(">>> ");
        assert_eq!(python.redrawn_entry("\n>>> 1\n", "1"), 0, "an empty line of output is not an entry");
        let drawn = "... x = 1\n...     \n>>> print(x)\n... \n... 1\n... \n";
        assert_eq!(&drawn[python.drawn_entry_rows(drawn, "x = 1\nprint(x)")..], "... 1\n... \n");
        let outputs = [
            ("Out[2]: 45\n\nIn [3]:\n\n\n\n", "Out[2]: 45\n"),
            ("Out[2]: 45\n\n", "Out[2]: 45\n"),
            ("In [3]:\n\n", ""),
            ("\n", ""),
            ("no prompt\n", "no prompt\n"),
        ];
        for (output, expected) in outputs {
            let mut trimmed = output.to_owned();
            prompt.trim_prompt(&mut trimmed);
            assert_eq!(trimmed, expected, "{output:?}");
        }
        let mut output = "$\n\n".to_owned();
        learn_prompt("$ ").trim_prompt(&mut output);
        assert_eq!(output, "$\n\n", "other programs may print such a line");
    }

    #[test]
    fn calculator_has_no_prompt() {
        let silent = LearnedPrompt::learn("", Some("bc")).unwrap();
        assert_eq!(silent.classify_row(""), RowKind::Prompt { output_bytes: 0 });
        assert_eq!(silent.classify_row("12"), RowKind::Other);
        assert!(!silent.may_be_shell());
    }

    #[test]
    fn shell_lines_are_typed_only_at_shell_prompts() {
        for prompt in ["$ ", "# ", "ana@box:~$ ", "box% ", "ana@box ~> ", "/ # "] {
            assert!(learn_prompt(prompt).may_be_shell(), "{prompt:?}");
        }
        for prompt in [">>> ", "> ", "sqlite> ", "postgres=# ", "postgres=> ", "(gdb) ", "ftp> ", "In [3]: "] {
            assert!(!learn_prompt(prompt).may_be_shell(), "{prompt:?}");
        }
    }
}
