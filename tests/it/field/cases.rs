//! Commands with a known output and exit code.

use crate::field::shells::{Dialect, Shell};

/// A command with its outcome in a shell.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) command: Command,
    pub(crate) output: &'static str,
    pub(crate) exit_code: i64,
    scope: Scope,
}

/// The text of a command.
pub(crate) enum Command {
    Text(&'static str),
    /// `{}` stands for this number of letters.
    Long(&'static str, usize),
}

/// The shells and ways of typing of a case.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    All,
    /// Commands run as written, in integrated shells. In a typed line the shell expands history and completes names.
    AsWrittenIntegrated,
    /// Like [`Self::AsWrittenIntegrated`], only in shells with POSIX syntax.
    AsWrittenPosix,
}

const fn case(name: &'static str, command: &'static str, output: &'static str, exit_code: i64) -> Case {
    Case { name, command: Command::Text(command), output, exit_code, scope: Scope::All }
}

const fn written_case(name: &'static str, command: &'static str, output: &'static str, scope: Scope) -> Case {
    Case { scope, ..case(name, command, output, 0) }
}

/// The table of commands, run in this order in one terminal.
pub(crate) const CASES: &[Case] = &[
    case("a line", "echo first", "first\n", 0),
    case("exit code", "sh -c 'echo some; exit 3'", "some\n", 3),
    case("no output", "sh -c 'exit 1'", "", 1),
    written_case("no end of line", "printf ab", "ab", Scope::AsWrittenIntegrated),
    case("late output", "sh -c 'echo soon; sleep 0.5; echo late'", "soon\nlate\n", 0),
    case("letters of other scripts", "echo 'žluť 漢字 🙂 ñ'", "žluť 漢字 🙂 ñ\n", 0),
    case("looks like a prompt", "printf 'me@host:~$ \\n❯ \\n'", "me@host:~$ \n❯ \n", 0),
    case("output like a question", "echo 'Continue? [y/N] '", "Continue? [y/N] \n", 0),
    case("error stream", "sh -c 'echo wrong >&2; exit 2'", "wrong\n", 2),
    case("many lines", "seq 1 200 | tail -n 3", "198\n199\n200\n", 0),
    case("reads nothing", "cat < /dev/null", "", 0),
    case("its own title", "printf '\\033]0;title\\007x\\n'", "x\n", 0),
    written_case("exclamation marks", "echo 'a!b' \"c!d\"", "a!b c!d\n", Scope::AsWrittenIntegrated),
    written_case("a tab", "printf 'a\tb\\n' | tr '\\t' -", "a-b\n", Scope::AsWrittenIntegrated),
    Case {
        command: Command::Long("printf %s {} | wc -c | tr -d ' '", 5000),
        ..written_case("a long line", "", "5000\n", Scope::AsWrittenIntegrated)
    },
    written_case("lines, one empty", "echo one\n\necho two", "one\ntwo\n", Scope::AsWrittenIntegrated),
    written_case("a trailing comment", "echo a # b", "a\n", Scope::AsWrittenIntegrated),
    written_case("a document", "cat <<END\nbody\n\n\ttab\nEND", "body\n\n\ttab\n", Scope::AsWrittenPosix),
    written_case("an address", "cat <<END\nhttp://x?y=1&z=2\nEND", "http://x?y=1&z=2\n", Scope::AsWrittenPosix),
    written_case("a function", "f() {\n  echo in f\n\n  echo \"$1\"\n}\nf x", "in f\nx\n", Scope::AsWrittenPosix),
    written_case(
        "its own prompt",
        "echo \"$PS1\" > /dev/null; printf '%s\\n' \"${PS1}\" | tail -c 0; echo late",
        "late\n",
        Scope::AsWrittenPosix,
    ),
    written_case(
        "a screen left behind",
        "printf '\\033[?1049h\\033[?1h\\033[>1u\\033[?2004h\\033[?1000h\\033[3;5r\\033[4h'",
        "",
        Scope::AsWrittenIntegrated,
    ),
    written_case("after a screen left behind", "echo back", "back\n", Scope::AsWrittenIntegrated),
    written_case("a terminal made raw", "stty raw -echo", "", Scope::AsWrittenIntegrated),
    written_case("after a terminal made raw", "echo 'back again'", "back again\n", Scope::AsWrittenIntegrated),
    case("the last one", "echo the last", "the last\n", 0),
];

impl Case {
    /// Returns whether the case applies to a shell: for commands run `as_written`, or for typed lines.
    pub(crate) fn applies_to(&self, shell: &Shell, as_written: bool) -> bool {
        let is_posix = shell.dialect == Dialect::Posix;
        match self.scope {
            Scope::All => true,
            Scope::AsWrittenIntegrated => as_written && shell.is_integrated,
            Scope::AsWrittenPosix => as_written && shell.is_integrated && is_posix,
        }
    }

    /// Returns the command text.
    pub(crate) fn text(&self) -> String {
        match self.command {
            Command::Text(text) => text.to_owned(),
            Command::Long(text, letters) => text.replace("{}", &"x".repeat(letters)),
        }
    }
}
