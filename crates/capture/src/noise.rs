//! What a person or an agent did on the way and a procedure does not need: looks, and attempts that failed and were done
//! again.

use crate::LeftOut;
use crate::turn::{Act, Turn};

/// Programs that only show something, whatever their arguments are.
const LOOKS: [&str; 31] = [
    "ls", "ll", "la", "dir", "cat", "bat", "head", "less", "more", "pwd", "which", "whereis", "type", "man", "help",
    "info", "apropos", "history", "clear", "tree", "file", "wc", "stat", "whoami", "id", "uname", "uptime", "df", "du",
    "ps", "printenv",
];

/// Commands of programs that only show something.
const SUBCOMMANDS: [(&str, &[&str]); 4] = [
    ("git", &["status", "log", "diff", "show", "blame", "reflog", "help"]),
    ("npm", &["ls", "list", "help", "view"]),
    ("cargo", &["help", "tree", "metadata"]),
    ("docker", &["ps", "images", "logs", "inspect"]),
];

/// How many turns later a failed command may be done again.
const LATER: usize = 5;

/// Returns for each turn why it is left out, if it is. `is_source` says whether a later input uses what the turn printed.
pub(crate) fn reasons(
    turns: &[Turn],
    keeps_looks: bool,
    is_source: impl Fn(usize) -> bool,
) -> Vec<Option<&'static str>> {
    let reason = |index: usize| {
        let turn = &turns[index];
        let Act::Command { command, exit_code, .. } = &turn.act else { return None };
        if exit_code.is_some_and(|code| code != 0) && is_done_again(turns, index) {
            return Some("it failed and was done again");
        }
        if *exit_code == Some(127) && !command.contains(['|', ';', '&', '\n']) {
            return Some("its program was not found");
        }
        if !keeps_looks && turn.waits.is_empty() && is_look(command) && !is_source(index) {
            return Some("it only looks around");
        }
        None
    };
    (0..turns.len()).map(reason).collect()
}

/// Returns the inputs that are left out, and why.
pub(crate) fn left_out(turns: &[Turn], reasons: &[Option<&'static str>]) -> Vec<LeftOut> {
    let pairs = turns.iter().zip(reasons);
    let named = pairs.filter_map(|(turn, reason)| match (&turn.act, reason) {
        (Act::Command { command, .. }, Some(reason)) => {
            Some(LeftOut { input: command.clone(), reason: (*reason).to_owned() })
        }
        _ => None,
    });
    named.collect()
}

/// Whether a command changes nothing: every program in it only shows something, and nothing is written to a file.
pub(crate) fn is_look(command: &str) -> bool {
    let command = command.trim();
    if command.is_empty() {
        return true;
    }
    let changes = [">", "`", "$(", "\n", "<(", "-exec", "-delete", "-fprint", "-fls", "xargs", "tee "];
    if changes.iter().any(|sign| command.contains(sign)) {
        return false;
    }
    let parts = command.split(['|', ';', '&']).map(str::trim);
    parts.filter(|part| !part.is_empty()).all(|part| {
        let mut words = part.split_whitespace();
        let program = words.next().unwrap_or_default();
        let arguments: Vec<&str> = words.collect();
        let is_help = matches!(arguments.as_slice(), ["--help" | "--version"] | [_, "--help"]);
        let is_shown = |(name, shown): &(&str, &[&str])| {
            *name == program && arguments.first().is_some_and(|first| shown.contains(first))
        };
        let is_filter = matches!(program, "grep" | "rg" | "cut" | "column" | "nl" | "find" | "echo");
        let writes = arguments.iter().any(|word| *word == "-o" || word.starts_with("--output"));
        let is_program = is_help
            || LOOKS.contains(&program)
            || is_filter
            || SUBCOMMANDS.iter().any(is_shown)
            || is_tail(program, &arguments);
        is_program && !(writes && program != "grep")
    })
}

/// Whether it shows the end of a file, and ends.
fn is_tail(program: &str, arguments: &[&str]) -> bool {
    program == "tail" && !arguments.iter().any(|word| word.starts_with("-f") || word.starts_with("--follow"))
}

/// Whether a command of the same kind succeeds a little later.
fn is_done_again(turns: &[Turn], index: usize) -> bool {
    let Act::Command { command: failed, .. } = &turns[index].act else { return false };
    let later = turns[index + 1..].iter().filter(|turn| turn.log == turns[index].log).take(LATER);
    later.into_iter().any(|turn| match &turn.act {
        Act::Command { command, exit_code: Some(0), .. } => is_alike(failed, command),
        Act::Typed { text, .. } if turn.at_prompt => is_alike(failed, text.trim_end()),
        _ => false,
    })
}

/// Whether two commands are attempts at the same: one is mistyped, or the later one only says more.
fn is_alike(failed: &str, done: &str) -> bool {
    let says_more = done.strip_prefix(failed.trim_end()).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
    says_more || distance(failed, done) * 4 <= failed.chars().count().max(done.chars().count())
}

/// Returns how many signs have to be changed, added or taken away (Levenshtein), of the first 200.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().take(200).collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, sign) in one.chars().take(200).enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], line + 1);
        for (column, with) in other.iter().enumerate() {
            let change = diagonal + usize::from(sign != *with);
            diagonal = row[column + 1];
            row[column + 1] = change.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_change_nothing() {
        for look in ["ls -la", "cat a | grep b", "git log --oneline", "npm --help", "pwd; ls", "tail -n 3 log"] {
            assert!(is_look(look), "{look}");
        }
        for change in
            ["ls > list", "git add .", "echo $(rm x)", "cat a | tee b", "tail -f log", "find . -delete", "make"]
        {
            assert!(!is_look(change), "{change}");
        }
    }

    #[test]
    fn attempts_at_the_same_are_alike() {
        assert!(is_alike("gti status", "git status"));
        assert!(is_alike("npm install lodahs", "npm install lodash"));
        assert!(is_alike("git push", "git push -u origin main"));
        assert!(!is_alike("git rebase main", "git rebase --continue"));
        assert!(!is_alike("make", "ls"));
    }
}
