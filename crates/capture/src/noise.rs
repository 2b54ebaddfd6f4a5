//! Recorded inputs that a captured procedure omits: read-only commands, failed attempts, and refused answers.
//!
//! Pure: reads the turns of a session and returns a reason for each omitted input. An input whose output a later input
//! uses always stays.

use std::ops::Range;

use crate::OmittedInput;
use crate::act::Act;
use crate::turn::{Ending, Turn};

/// Programs that change nothing, regardless of their arguments.
const READ_ONLY_PROGRAMS: [&str; 31] = [
    "ls", "ll", "la", "dir", "cat", "bat", "head", "less", "more", "pwd", "which", "whereis", "type", "man", "help",
    "info", "apropos", "history", "clear", "tree", "file", "wc", "stat", "whoami", "id", "uname", "uptime", "df", "du",
    "ps", "printenv",
];

/// Subcommands that change nothing, by program.
const READ_ONLY_SUBCOMMANDS: [(&str, &[&str]); 4] = [
    ("git", &["status", "log", "diff", "show", "blame", "reflog", "help"]),
    ("npm", &["ls", "list", "help", "view"]),
    ("cargo", &["help", "tree", "metadata"]),
    ("docker", &["ps", "images", "logs", "inspect"]),
];

/// Maximum number of turns between a failed command and its corrected repetition. An unchanged repetition may be at any
/// distance.
const MAX_RETRY_TURNS: usize = 5;

/// Returns, for each turn, the reason to omit it, if any. `is_source` returns true if a later input uses the turn's
/// output.
pub(crate) fn reasons(
    turns: &[Turn],
    keep_read_only_commands: bool,
    is_source: impl Fn(usize) -> bool,
) -> Vec<Option<String>> {
    let mut reasons: Vec<Option<String>> = (0..turns.len())
        .map(|index| {
            let turn = &turns[index];
            let Act::Command { command, exit_code, .. } = &turn.act else { return None };
            if let Some(attempt) = failed_attempt(turns, index..index + 1) {
                return Some(attempt);
            }
            if *exit_code == Some(127) && !command.contains(['|', ';', '&', '\n']) {
                return Some("its program was not found".to_owned());
            }
            if !keep_read_only_commands && turn.waits.is_empty() && is_read_only(command) && !is_source(index) {
                return Some("it only looks around; keep: true keeps it".to_owned());
            }
            None
        })
        .collect();
    for conversation in conversations(turns) {
        if let Some(attempt) = failed_attempt(turns, conversation.clone()) {
            let log_index = turns[conversation.start].log_index;
            for index in conversation.filter(|index| turns[*index].log_index == log_index) {
                reasons[index] = Some(attempt.clone());
            }
        }
    }
    for index in refused_answers(turns) {
        reasons[index].get_or_insert_with(|| "the program refused it and asked again".to_owned());
    }
    for (index, corrected) in corrected_lines(turns) {
        reasons[index]
            .get_or_insert_with(|| format!("the program reported an error, and it was repeated as '{corrected}'"));
    }
    reasons
}

/// Returns the inputs to omit, with reasons.
pub(crate) fn omitted_inputs(turns: &[Turn], reasons: &[Option<String>]) -> Vec<OmittedInput> {
    let mut omitted: Vec<OmittedInput> = Vec::new();
    for (turn, reason) in turns.iter().zip(reasons) {
        let Some(reason) = reason.clone() else { continue };
        let input = match &turn.act {
            Act::Command { command, .. } => command.clone(),
            Act::Typed { text, keys } if text.trim().is_empty() => keys.join(" "),
            Act::Typed { text, .. } => text.trim_end().to_owned(),
            Act::Hidden { row, .. } => format!("a secret at '{}'", row.trim()),
        };
        omitted.push(OmittedInput { input, reason });
    }
    omitted
}

/// Returns the turns of each program that was started at a prompt and got input, up to the next prompt.
fn conversations(turns: &[Turn]) -> Vec<Range<usize>> {
    let begins = |index: &usize| turns[*index].at_prompt && matches!(turns[*index].act, Act::Typed { .. });
    let end = |begin: usize| {
        let mut turns_of_log = (begin..turns.len()).filter(|index| turns[*index].log_index == turns[begin].log_index);
        let is_last = |index: &usize| matches!(turns[*index].ending, Ending::Prompt { .. });
        turns_of_log.clone().find(is_last).or(turns_of_log.next_back()).map_or(begin, |last| last + 1)
    };
    (0..turns.len()).filter(begins).map(|begin| begin..end(begin)).collect()
}

/// Returns the line that a turn enters at a prompt.
fn prompt_line(turn: &Turn) -> Option<&str> {
    match &turn.act {
        Act::Command { command, .. } => Some(command.trim()),
        Act::Typed { text, .. } if turn.at_prompt => Some(text.trim()),
        Act::Typed { .. } | Act::Hidden { .. } => None,
    }
}

/// Returns the reason to omit a failed attempt that a later turn repeats. `None` if there is no such repetition. The
/// reason names the last command before the repetition that may have changed the conditions.
fn failed_attempt(turns: &[Turn], attempt: Range<usize>) -> Option<String> {
    let (first, last) = (&turns[attempt.start], &turns[attempt.end - 1]);
    let failed = prompt_line(first)?;
    let Ending::Prompt { exit_code: Some(code) } = last.ending else { return None };
    if code == 0 {
        return None;
    }
    let later: Vec<&Turn> = turns[attempt.end..].iter().filter(|turn| turn.log_index == first.log_index).collect();
    let succeeds = |turn: &Turn| match &turn.act {
        Act::Command { exit_code, .. } => *exit_code == Some(0),
        Act::Typed { .. } | Act::Hidden { .. } => true,
    };
    let repetition = later.iter().enumerate().position(|(distance, turn)| {
        let is_repetition =
            |corrected: &str| corrected == failed || (distance < MAX_RETRY_TURNS && is_correction(failed, corrected));
        succeeds(turn) && prompt_line(turn).is_some_and(is_repetition)
    })?;
    let corrected = prompt_line(later[repetition])?;
    let failed_too = |turn: &Turn| matches!(turn.ending, Ending::Prompt { exit_code: Some(code) } if code != 0);
    let only_changes_directory = |line: &str| line.starts_with("cd ") && !line.contains(['&', ';', '|']);
    let changes = |turn: &&&Turn| {
        prompt_line(turn).is_some_and(|line| !is_read_only(line) && !only_changes_directory(line)) && !failed_too(turn)
    };
    let first_line = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    let suffix = if corrected == failed { String::new() } else { format!(" as '{}'", first_line(corrected)) };
    Some(match later[..repetition].iter().rfind(changes).and_then(|turn| prompt_line(turn)) {
        Some(change) => format!(
            "it failed with exit code {code} and was repeated{suffix} after '{}', which may have changed what it needs",
            first_line(change)
        ),
        None => format!("it failed with exit code {code} and was repeated{suffix}"),
    })
}

/// Words of a message that refuses an answer.
const REFUSAL_WORDS: [&str; 15] = [
    "again",
    "denied",
    "do not match",
    "don't match",
    "failed",
    "failure",
    "incorrect",
    "invalid",
    "mismatch",
    "must be",
    "not valid",
    "please answer",
    "please enter",
    "sorry",
    "wrong",
];

/// Returns the answers that a program refused before it repeated its question: an answer, or a secret and its
/// confirmation.
fn refused_answers(turns: &[Turn]) -> Vec<usize> {
    let turn_before =
        |current: usize| (0..current).rev().find(|earlier| turns[*earlier].log_index == turns[current].log_index);
    let mut refused_turns = Vec::new();
    for (index, turn) in turns.iter().enumerate() {
        let is_refused = is_refusal(&turn.printed) && (is_hidden(turn) || reports(&turn.printed, &REFUSAL_WORDS));
        let Some(question_text) = question(turn).filter(|_| is_answer(turn) && is_refused) else { continue };
        let mut attempt = vec![index];
        let mut current = index;
        while let Some(previous) = turn_before(current) {
            if question(&turns[previous]) == Some(question_text) {
                refused_turns.extend(attempt);
                break;
            }
            let is_repetition = is_hidden(&turns[current]) && is_answer(&turns[previous]);
            if !is_repetition || attempt.len() == MAX_REPEATED_SECRETS {
                break;
            }
            attempt.push(previous);
            current = previous;
        }
    }
    refused_turns
}

/// Maximum number of lines of a refusal. A program with more output accepted the answer.
const MAX_REFUSAL_LINES: usize = 3;

/// Returns whether a program's output refuses an answer. The first line of `printed` is the answer, and the last line
/// is the next question.
fn is_refusal(printed: &str) -> bool {
    let reply = printed.split_once('\n').map_or("", |(_, reply)| reply);
    let reply = reply.trim_end().rsplit_once('\n').map_or("", |(reply, _)| reply).to_lowercase();
    let lines = reply.lines().filter(|line| !line.trim().is_empty()).count();
    (1..=MAX_REFUSAL_LINES).contains(&lines) && REFUSAL_WORDS.iter().any(|word| reply.contains(word))
}

/// Words of a message that reports an error.
const ERROR_WORDS: [&str; 8] =
    ["error", "exception", "illegal", "invalid", "no such", "not found", "undefined", "unknown"];

/// Returns the lines that an interpreter reported as errors, with their corrected repetitions.
fn corrected_lines(turns: &[Turn]) -> Vec<(usize, String)> {
    let prompt = |turn: &Turn| match &turn.ending {
        Ending::Question(line) if question(turn).is_none() => Some(line.trim().to_owned()),
        _ => None,
    };
    let typed_line = |turn: &Turn| match &turn.act {
        Act::Typed { text, keys } if is_answer(turn) && keys.is_empty() => Some(text.trim().to_owned()),
        _ => None,
    };
    let mut corrected = Vec::new();
    for (index, turn) in turns.iter().enumerate() {
        let Some((failed, prompt_text)) = typed_line(turn).zip(prompt(turn)) else { continue };
        let is_same_log = |other: &&Turn| other.log_index == turn.log_index;
        let is_same_prompt =
            turns[..index].iter().rev().find(is_same_log).and_then(prompt).is_some_and(|before| before == prompt_text);
        if !is_same_prompt || !reports(&turn.printed, &ERROR_WORDS) {
            continue;
        }
        let next = turns[index + 1..].iter().filter(is_same_log).take(MAX_RETRY_TURNS);
        let mut next =
            next.map_while(|turn| typed_line(turn).map(|repeated| (repeated, reports(&turn.printed, &ERROR_WORDS))));
        // If the program prints such words about the repetition too, it accepted both lines.
        let repeated = next.find(|(repeated, _)| is_correction(&failed, repeated)).filter(|(_, is_report)| !is_report);
        corrected.extend(repeated.map(|(repeated, _)| (index, repeated)));
    }
    corrected
}

/// Maximum number of words before the refusal or error word of a message.
const MAX_WORDS_BEFORE: usize = 3;

/// Returns whether the output has one of these words near the beginning of a line. Ignores the first line, the echo of
/// the input. A count of zero, as in `0 errors`, `no invalid names` or `failed: 0`, is not a report.
fn reports(printed: &str, words: &[&str]) -> bool {
    let reply = printed.split_once('\n').map_or("", |(_, reply)| reply).to_lowercase();
    let is_report = |line: &str| {
        words.iter().filter_map(|word| line.split_once(word)).any(|(before, after)| {
            let after = after.split(|character: char| !character.is_alphanumeric()).find(|word| !word.is_empty());
            let is_zero = |word: &str| word.bytes().all(|byte| byte == b'0');
            let words: Vec<&str> =
                before.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
            words.len() <= MAX_WORDS_BEFORE
                && !after.is_some_and(is_zero)
                && !words.iter().any(|word| is_zero(word) || matches!(*word, "no" | "not" | "without"))
        })
    };
    reply.lines().any(is_report)
}

fn is_hidden(turn: &Turn) -> bool {
    matches!(turn.act, Act::Hidden { .. })
}

/// Maximum number of secrets in one repeated request: a secret and its confirmation.
const MAX_REPEATED_SECRETS: usize = 2;

/// Returns whether a turn answers the question of a program.
fn is_answer(turn: &Turn) -> bool {
    !turn.at_prompt && matches!(turn.act, Act::Typed { .. } | Act::Hidden { .. })
}

/// Returns the question at the end of a turn. The prompt of an interpreter is not a question.
pub(crate) fn question(turn: &Turn) -> Option<&str> {
    match &turn.ending {
        Ending::Question(line) | Ending::Password(line) => Some(line.trim()),
        Ending::Prompt { .. } | Ending::Screen(_) | Ending::Silent(_) | Ending::Open => None,
    }
    .filter(|line| line.contains(char::is_alphabetic) && line.ends_with([':', '?', ']']))
}

/// Returns whether a command changes nothing: its programs only show something, and do not write to a file.
pub(crate) fn is_read_only(command: &str) -> bool {
    let command = command.trim();
    if command.is_empty() {
        return true;
    }
    let change_marks = [">", "`", "$(", "\n", "<(", "-exec", "-delete", "-fprint", "-fls", "xargs", "tee "];
    if change_marks.iter().any(|mark| command.contains(mark)) {
        return false;
    }
    let parts = command.split(['|', ';', '&']).map(str::trim);
    parts.filter(|part| !part.is_empty()).all(|part| {
        let mut words = part.split_whitespace();
        let program = words.next().unwrap_or_default();
        let arguments: Vec<&str> = words.collect();
        let is_help = matches!(arguments.as_slice(), ["--help" | "--version"] | [_, "--help"]);
        let is_subcommand = |(name, subcommands): &(&str, &[&str])| {
            *name == program && arguments.first().is_some_and(|first| subcommands.contains(first))
        };
        let is_filter = matches!(program, "grep" | "rg" | "cut" | "column" | "nl" | "find" | "echo");
        let writes = arguments.iter().any(|word| *word == "-o" || word.starts_with("--output"));
        let is_program = is_help
            || READ_ONLY_PROGRAMS.contains(&program)
            || is_filter
            || READ_ONLY_SUBCOMMANDS.iter().any(is_subcommand)
            || is_tail(program, &arguments);
        is_program && !(writes && program != "grep")
    })
}

/// Returns whether a command shows the end of a file without following it.
fn is_tail(program: &str, arguments: &[&str]) -> bool {
    program == "tail" && !arguments.iter().any(|word| word.starts_with("-f") || word.starts_with("--follow"))
}

/// Returns whether the later of two commands corrects the first one: a typo, or missing words at the end.
fn is_correction(failed: &str, later: &str) -> bool {
    let adds_words = later.strip_prefix(failed.trim_end()).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
    adds_words || edit_distance(failed, later) * 4 <= failed.chars().count().max(later.chars().count())
}

/// Returns the edit distance of the first 200 characters of two texts, with exchanges of neighbouring characters
/// (optimal string alignment).
fn edit_distance(left: &str, right: &str) -> usize {
    let [left, right]: [Vec<char>; 2] = [left, right].map(|text| text.chars().take(200).collect());
    let mut rows = [vec![0; right.len() + 1], (0..=right.len()).collect::<Vec<usize>>()];
    for (line, character) in left.iter().enumerate() {
        let mut row = vec![line + 1; right.len() + 1];
        for (column, other_character) in right.iter().enumerate() {
            let [earlier, above] = &rows;
            let change = above[column] + usize::from(character != other_character);
            row[column + 1] = change.min(above[column + 1] + 1).min(row[column] + 1);
            if line > 0 && column > 0 && *character == right[column - 1] && left[line - 1] == *other_character {
                row[column + 1] = row[column + 1].min(earlier[column - 1] + 1);
            }
        }
        rows = [std::mem::take(&mut rows[1]), row];
    }
    rows[1][right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_only_commands_are_recognised() {
        for look in ["ls -la", "cat a | grep b", "git log --oneline", "npm --help", "pwd; ls", "tail -n 3 log"] {
            assert!(is_read_only(look), "{look}");
        }
        for change in
            ["ls > list", "git add .", "echo $(rm x)", "cat a | tee b", "tail -f log", "find . -delete", "make"]
        {
            assert!(!is_read_only(change), "{change}");
        }
    }

    #[test]
    fn corrections_resemble_their_failed_commands() {
        assert!(is_correction("gti status", "git status"));
        assert!(is_correction("npm install lodahs", "npm install lodash"));
        assert!(is_correction("git push", "git push -u origin main"));
        assert!(
            is_correction("make tset", "make test")
                && is_correction("cd prjo", "cd proj")
                && is_correction("gti st", "git st")
        );
        assert!(!is_correction("git rebase main", "git rebase --continue"));
        assert!(!is_correction("make", "ls"));
    }

    /// Returns a turn with this ending, for a line typed at a prompt.
    fn turn(act: Act, ending: Ending, printed: &str) -> Turn {
        Turn {
            key_count: 0,
            answer: String::new(),
            log_index: 0,
            timestamp: String::new(),
            number: 1,
            at_prompt: matches!(act, Act::Command { .. }),
            act,
            waits: Vec::new(),
            ending,
            printed: printed.to_owned(),
            rows_above: Vec::new(),
            elapsed: None,
            screen: None,
            menu: crate::menu::Menu::None,
            leeway: crate::question::Leeway::Data,
            next_read: crate::turn::NextRead::None,
        }
    }

    fn command(command: &str, code: i32) -> Turn {
        let exit_code = Some(code);
        let act = Act::Command { command: command.to_owned(), directory: None, exit_code, output: String::new() };
        turn(act, Ending::Prompt { exit_code }, "")
    }

    fn reason_to_omit(turns: &[Turn]) -> Vec<String> {
        let reasons = reasons(turns, false, |_| false);
        omitted_inputs(turns, &reasons)
            .into_iter()
            .map(|omitted| format!("{}: {}", omitted.input, omitted.reason))
            .collect()
    }

    #[test]
    fn failed_attempt_is_omitted_with_its_retry_as_reason() {
        assert_eq!(
            reason_to_omit(&[command("make tset", 2), command("ls", 0), command("make test", 0)]),
            [
                "make tset: it failed with exit code 2 and was repeated as 'make test'",
                "ls: it only looks around; keep: true keeps it"
            ]
        );
        let fixed = [command("make", 2), command("cat log", 0), command("sed -i s/a/b/ x", 0), command("make", 0)];
        let reason = "make: it failed with exit code 2 and was repeated after 'sed -i s/a/b/ x', which may have changed what it needs";
        assert_eq!(reason_to_omit(&fixed)[0], reason);
        // The same command is found at any distance, but a similar one is not.
        let reasons_after_many_turns = |first: &str| {
            let unrelated = (0..MAX_RETRY_TURNS).map(|number| command(&format!("touch file-{number}"), 0));
            let turns: Vec<Turn> =
                std::iter::once(command(first, 2)).chain(unrelated).chain([command("make test", 0)]).collect();
            reason_to_omit(&turns)
        };
        assert!(reasons_after_many_turns("make test")[0].contains("after 'touch file-4'"));
        assert_eq!(reasons_after_many_turns("make tset"), [""; 0]);
        assert_eq!(
            reason_to_omit(&[command("grep x y", 1), command("make", 0)]),
            ["grep x y: it only looks around; keep: true keeps it"]
        );
        assert_eq!(reason_to_omit(&[command("git rebase main", 1), command("git rebase --continue", 0)]), [""; 0]);
    }

    #[test]
    fn failed_program_with_questions_is_omitted_entirely() {
        let asks = |code| {
            let act = |text: &str| Act::Typed { text: text.to_owned(), keys: Vec::new() };
            let start =
                Turn { at_prompt: true, ..turn(act("sh setup.sh\n"), Ending::Question("Port: ".to_owned()), "Port: ") };
            [start, turn(act("80\n"), Ending::Prompt { exit_code: Some(code) }, "")]
        };
        let turns = [asks(1), asks(0)].concat();
        let reason = "it failed with exit code 1 and was repeated";
        assert_eq!(reason_to_omit(&turns), [format!("sh setup.sh: {reason}"), format!("80: {reason}")]);
        assert_eq!(reason_to_omit(&[asks(0), asks(0)].concat()), [""; 0]);
    }

    #[test]
    fn refused_answer_is_omitted() {
        let typed = |text: &str| Act::Typed { text: text.to_owned(), keys: Vec::new() };
        let hidden = |row: &str| Act::Hidden { entered: true, row: row.to_owned() };
        let asks = |line: &str| Ending::Password(line.to_owned());
        let start = |line: &str| Turn { at_prompt: true, ..turn(typed("sudo make\n"), asks(line), "") };
        let prompt_ending = || Ending::Prompt { exit_code: Some(0) };
        let sudo = "[sudo] password for ana: ";
        let turns = [
            start(sudo),
            turn(hidden(sudo), asks(sudo), "\nSorry, try again.\n[sudo] password for ana: "),
            turn(hidden(sudo), prompt_ending(), "\ndone\n"),
        ];
        let reason = "the program refused it and asked again";
        assert_eq!(reason_to_omit(&turns), [format!("a secret at '[sudo] password for ana:': {reason}")]);
        let (new, retype) = ("New password: ", "Retype new password: ");
        let turns = [
            start(new),
            turn(hidden(new), asks(retype), "\nRetype new password: "),
            turn(hidden(retype), asks(new), "\nSorry, passwords do not match.\nNew password: "),
            turn(hidden(new), asks(retype), "\nRetype new password: "),
            turn(hidden(retype), prompt_ending(), "\n"),
        ];
        assert_eq!(
            reason_to_omit(&turns),
            [format!("a secret at 'New password:': {reason}"), format!("a secret at 'Retype new password:': {reason}")]
        );
    }

    #[test]
    fn accepted_answer_is_kept() {
        let typed = |text: &str| Act::Typed { text: format!("{text}\n"), keys: Vec::new() };
        let session = |prompt: &str, replies: [&str; 3]| {
            let asks = || Ending::Question(prompt.to_owned());
            let mut turns = vec![Turn { at_prompt: true, ..turn(typed("sh x"), asks(), "") }];
            for (answer, reply) in ["value-1", "value-2", "value-3"].into_iter().zip(replies) {
                turns.push(turn(typed(answer), asks(), &format!("{answer}\n{reply}\n{prompt}")));
            }
            turns.push(turn(typed("q"), Ending::Prompt { exit_code: Some(0) }, ""));
            reason_to_omit(&turns).len()
        };
        for reply in [
            "added",
            "0 errors",
            "no invalid names",
            "not invalid",
            "failed: 0",
            "the package was not found to be wrong",
            "written to the file error.log",
            "INSERT 1, unknown: 0",
        ] {
            for prompt in ["User: ", "db> "] {
                assert_eq!(session(prompt, [reply; 3]), 0, "{prompt} {reply}");
            }
        }
        // A program that reports the same error for each line accepted none.
        assert_eq!(session("db> ", ["unknown is 5"; 3]), 0);
        assert_eq!(session("User: ", ["Invalid name.", "added", "added"]), 1);
        assert_eq!(session("db> ", ["Error: no such table", "INSERT 1", "INSERT 1"]), 1);
    }

    #[test]
    fn refusal_is_short_and_differs_from_the_answer() {
        assert!(is_refusal("five\nNot valid, please enter a number.\nHow many? "));
        assert!(!is_refusal("again\nSay it: ") && !is_refusal("again\nfine\nSay it: "));
        assert!(!is_refusal("y\ncopied a\ncopied b\ncopied c\nd failed\nOverwrite? [y/n] "));
    }

    #[test]
    fn interpreter_error_is_omitted_if_corrected() {
        let typed = |text: &str| Act::Typed { text: format!("{text}\n"), keys: Vec::new() };
        let start = |line: &str| Turn { at_prompt: true, ..turn(typed("sh"), Ending::Question(line.to_owned()), "") };
        let prompt_ending = || Ending::Prompt { exit_code: Some(0) };
        let asks = || Ending::Question("sqlite> ".to_owned());
        let session = |failed: &str, reply: &str, done: &str| {
            let printed = format!("{failed}\n{reply}\nsqlite> ");
            let quit = turn(typed(".quit"), prompt_ending(), "");
            reason_to_omit(&[
                start("sqlite> "),
                turn(typed(failed), asks(), &printed),
                turn(typed(done), asks(), ""),
                quit,
            ])
        };
        let error = "Parse error: no such table: tt";
        let reason = "the program reported an error, and it was repeated as 'insert into t values(7);'";
        let failed = "insert into tt values(7);";
        assert_eq!(session(failed, error, "insert into t values(7);"), [format!("{failed}: {reason}")]);
        assert_eq!(session(failed, "", "insert into t values(7);"), [""; 0]);
        assert_eq!(session(failed, error, "select 1;"), [""; 0]);
        // The prompt of an interpreter is not a repeated question.
        let prompt = "(gdb) ";
        let turns = [
            start(prompt),
            turn(typed("foo"), Ending::Question(prompt.to_owned()), "foo\nInvalid command\n(gdb) "),
            turn(typed("quit"), prompt_ending(), ""),
        ];
        assert_eq!(reason_to_omit(&turns), [""; 0]);
    }
}
