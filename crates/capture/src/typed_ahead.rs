//! Inputs typed ahead, before the question or shell prompt that reads them appears.
//!
//! In the machine, each of these inputs waits for the shell prompt, or for the question after the echo of the input.

use std::borrow::Cow;

use steplatch_protocol::{InputKind, InputRecord};

use crate::act::{is_at_prompt, is_input};
use crate::session_log::Moment;

/// Characters at the end of a question.
const QUESTION_ENDS: [char; 8] = ['?', ':', '>', ']', ')', '$', '#', '%'];

/// Returns whether a program received an input before it waited for input.
fn is_typed_ahead(input: &InputRecord) -> bool {
    matches!(input.kind, InputKind::Typed | InputKind::Attached)
        && input.context == "program"
        && input.awaited == Some(false)
}

/// Returns whether an input was typed ahead of its question: the row before the cursor is not a question.
fn precedes_question(input: &InputRecord) -> bool {
    is_typed_ahead(input) && !is_question(input.row.as_deref().unwrap_or_default())
}

/// Returns whether a row ends like a question.
pub(crate) fn is_question(row: &str) -> bool {
    row.trim_end().ends_with(QUESTION_ENDS)
}

/// Maximum number of parts of a split input: lines or keys. A longer input is pasted text.
const MAX_PARTS: usize = 20;

/// Returns the entries of a log, with a separate entry for each line of a multi-line input to a program, and for each
/// key of an input whose keys answered one question each. Each line or key then waits for its own question.
pub(crate) fn split_inputs(moments: &[Moment]) -> Cow<'_, [Moment]> {
    let is_split = |moment: &Moment| input_lines(moment).is_some() || input_keys(&moment.input).is_some();
    if !moments.iter().any(is_split) {
        return Cow::Borrowed(moments);
    }
    let mut entries: Vec<Moment> = Vec::with_capacity(moments.len());
    for (index, moment) in moments.iter().enumerate() {
        let after = &moments[index + 1..];
        let lines = input_lines(moment).and_then(|lines| {
            lines_after_questions(moment, &lines).or_else(|| lines_typed_ahead(moment, &lines, &entries, after))
        });
        let parts = lines.or_else(|| split_keys(moment, &entries, after));
        entries.extend(parts.unwrap_or_else(|| vec![moment.clone()]));
    }
    Cow::Owned(entries)
}

/// Returns the lines of a multi-line input to a program that reads lines.
fn input_lines(moment: &Moment) -> Option<Vec<&str>> {
    let input = &moment.input;
    let text = input.text.as_deref()?;
    let ends_with_enter = input.keys.iter().all(|key| key == "enter" || key == "return");
    // An empty last line is also an input, because it ends a block in an interpreter.
    let lines: Vec<&str> = text.strip_suffix('\n').unwrap_or(text).split('\n').collect();
    let is_split = input.kind == InputKind::Typed
        && input.context == "program"
        && input.screen.is_none()
        && input.reads_lines
        && input.awaited.is_some()
        && !input.cut
        && (text.ends_with('\n') && input.keys.is_empty() || input.keys.len() == 1 && ends_with_enter)
        && (2..=MAX_PARTS).contains(&lines.len())
        && !lines.iter().any(|line| line.chars().any(char::is_control));
    is_split.then_some(lines)
}

/// Returns the entry for one line of an input.
fn line_entry(moment: &Moment, line: &str, row: Option<&str>, is_awaited: bool, printed: &str) -> Moment {
    let mut entry = Moment { printed: printed.to_owned(), ..moment.clone() };
    entry.input.text = Some(format!("{line}\n"));
    entry.input.keys = Vec::new();
    if let Some(row) = row {
        entry.input.row = Some(row.to_owned());
        entry.input.awaited = Some(is_awaited);
    }
    entry
}

/// Returns an entry for each line, if the output shows each line after its question, as line editors do.
fn lines_after_questions(moment: &Moment, lines: &[&str]) -> Option<Vec<Moment>> {
    let rows: Vec<&str> = moment.printed.split_inclusive('\n').collect();
    let mut entries = Vec::new();
    let (mut begin, mut row_before) = (0, None);
    for (index, line) in lines.iter().enumerate() {
        let next = lines.get(index + 1);
        let next_echo = next.map(|next| {
            let row = (begin + 1..rows.len()).find(|row| {
                let before = rows[*row].trim_end().strip_suffix(next.trim_end());
                before.is_some_and(|before| !before.trim().is_empty() && !next.trim().is_empty())
            })?;
            let before = rows[row].trim_end().strip_suffix(next.trim_end())?;
            Some((row, before))
        });
        let (end, question) = match next_echo {
            None => (rows.len(), ""),
            Some(echo) => echo?,
        };
        // The row of a line begins with its question, and the question belongs to the previous entry.
        let first = rows.get(begin).map_or("", |row| row_before.map_or(*row, |before: &str| &row[before.len()..]));
        let rest: String = rows.get(begin + 1..end).unwrap_or_default().concat();
        entries.push(line_entry(moment, line, row_before, true, &format!("{first}{rest}{question}")));
        (begin, row_before) = (end, Some(question));
    }
    Some(entries)
}

/// Returns an entry for each line, if the terminal echoed all lines before other output, and the program printed a
/// question for each line or nothing.
fn lines_typed_ahead(moment: &Moment, lines: &[&str], before: &[Moment], after: &[Moment]) -> Option<Vec<Moment>> {
    let echo: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let printed = moment.printed.strip_prefix(&echo)?;
    let last = lines.len() - 1;
    let entry = |(index, line): (usize, &&str)| {
        let printed = if index == last { printed } else { "" };
        line_entry(moment, line, (index > 0).then_some(""), false, &format!("{line}\n{printed}"))
    };
    let entries: Vec<Moment> = lines.iter().enumerate().map(entry).collect();
    let moments = [before, &entries, after].concat();
    let mut indices = before.len() + 1..before.len() + entries.len();
    let is_silent = printed.trim().is_empty();
    (is_silent || indices.all(|index| later_question(&moments, index).is_some())).then_some(entries)
}

/// Returns the keys of a multi-key input to a program that reads keys.
pub(crate) fn input_keys(input: &InputRecord) -> Option<Vec<char>> {
    let keys: Vec<char> = input.text.as_deref()?.chars().collect();
    let is_split = input.kind == InputKind::Typed
        && input.context == "program"
        && input.screen.is_none()
        && !input.reads_lines
        && input.awaited.is_some()
        && !input.cut
        && input.keys.is_empty()
        && (2..=MAX_PARTS).contains(&keys.len())
        && !keys.iter().any(|key| key.is_control());
    is_split.then_some(keys)
}

/// Returns an entry for each key of an input, if the program printed a question for each key after the first. Further
/// questions need no key, or the next input answers them.
fn split_keys(moment: &Moment, before: &[Moment], after: &[Moment]) -> Option<Vec<Moment>> {
    // Ends of questions that are also ends of progress rows or shell prompts.
    const AMBIGUOUS_ENDS: [char; 3] = ['$', '#', '%'];
    let keys = input_keys(&moment.input).filter(|_| moment.input.awaited == Some(true))?;
    let text = moment.input.text.as_deref()?;
    let mut printed = moment.printed.clone();
    printed.extend(after.iter().take_while(|next| !is_input(&next.input)).map(|next| next.printed.as_str()));
    // A terminal echoes all keys at once, each key after its question, or no key.
    let (is_echoed, is_echoed_at_once) = (printed.starts_with(keys[0]), printed.starts_with(text));
    let mut rest = printed.strip_prefix(text).or_else(|| printed.strip_prefix(keys[0])).unwrap_or(&printed);
    let next = after.iter().map(|next| &next.input).find(|next| is_input(next));
    let is_over = next.is_none_or(is_at_prompt);
    let question_rows = if is_over { until_prompt(rest, before) } else { rest };
    let mut questions: Vec<&str> = question_rows
        .split_inclusive('\n')
        .flat_map(row_questions)
        .filter(|question| is_question(question) && !question.trim_end().ends_with(AMBIGUOUS_ENDS))
        // If a space precedes the line end, the line end belongs to the answer.
        .map(|question| question.strip_suffix('\n').filter(|row| row.ends_with(' ')).unwrap_or(question))
        .collect();
    if next.is_some_and(|next| !is_at_prompt(next) && next.awaited == Some(true)) {
        questions.pop();
    }
    if questions.len() < keys.len() - 1 {
        return None;
    }
    let mut row = moment.input.row.clone().unwrap_or_default();
    let mut entries = Vec::new();
    for (index, key) in keys.iter().enumerate() {
        let end = match questions.get(index).filter(|_| index + 1 < keys.len()) {
            Some(question) => {
                let end = rest.find(question)? + question.len();
                // A question before an echoed key lacks its space.
                end + usize::from(!question.ends_with([' ', '\n']) && rest[end..].starts_with(' '))
            }
            None => rest.len(),
        };
        let output = &rest[..end];
        rest = &rest[end..];
        let echo = if is_echoed { key.to_string() } else { String::new() };
        // Each echo except the first follows its question.
        if !is_echoed_at_once && is_echoed {
            rest = keys.get(index + 1).and_then(|next| rest.strip_prefix(*next)).unwrap_or(rest);
        }
        let printed = format!("{echo}{output}");
        let mut entry = Moment { printed: printed.clone(), ..moment.clone() };
        entry.input.text = Some(key.to_string());
        entry.input.row = Some(row.clone());
        entries.push(entry);
        row = match printed.rsplit_once('\n') {
            Some((_, last)) => last.to_owned(),
            None => format!("{row}{printed}"),
        };
    }
    // Output after other entries, such as waits, belongs to these entries.
    let extra = printed.len() - moment.printed.len();
    if let Some(last) = entries.last_mut() {
        last.printed.truncate(last.printed.len().checked_sub(extra)?);
    }
    Some(entries)
}

/// Returns the entries of a log. Each typed-ahead input that a shell read as a line becomes an input at the prompt.
pub(crate) fn move_lines_to_prompt(moments: &[Moment]) -> Cow<'_, [Moment]> {
    let is_read_by_shell = |index: usize| {
        let input = &moments[index].input;
        let line = input.text.as_deref().and_then(|text| text.trim_start().lines().next()).map(str::trim);
        let later = moments[index + 1..].iter().map(|moment| &moment.input);
        let mut lines = later
            .take_while(|next| !is_input(next) || is_typed_ahead(next))
            .filter(|next| next.kind == InputKind::Entered)
            .filter_map(|next| next.text.as_deref());
        is_typed_ahead(input)
            && line.is_some_and(|line| !line.is_empty() && lines.any(|entered| entered.trim() == line))
    };
    let lines: Vec<usize> = (0..moments.len()).filter(|index| is_read_by_shell(*index)).collect();
    if lines.is_empty() {
        return Cow::Borrowed(moments);
    }
    let mut moments = moments.to_vec();
    for index in lines {
        "prompt".clone_into(&mut moments[index].input.context);
    }
    Cow::Owned(moments)
}

/// Returns the question of a typed-ahead input. Several such inputs answer the questions after them in order.
/// `None` if the input was not typed ahead, or no text after it ends like a question.
pub(crate) fn later_question(moments: &[Moment], input_index: usize) -> Option<String> {
    let precedes = |moment: &&Moment| precedes_question(&moment.input);
    let input = &moments.get(input_index).filter(precedes)?.input;
    // Other entries, such as waits, may be between the inputs.
    let inputs_before = moments[..input_index].iter().enumerate().rev().filter(|(_, moment)| is_input(&moment.input));
    let earlier: Vec<usize> =
        inputs_before.take_while(|(_, moment)| precedes(moment)).map(|(index, _)| index).collect();
    let begin = earlier.last().copied().unwrap_or(input_index);
    let is_for_shell =
        |moment: &Moment| is_input(&moment.input) && moment.input.awaited == Some(false) && is_at_prompt(&moment.input);
    let belongs = |moment: &&Moment| !is_input(&moment.input) || precedes(moment) || is_for_shell(moment);
    let run: Vec<&Moment> = moments[begin..].iter().take_while(belongs).collect();
    let printed: String =
        run.iter().map(|moment| if is_input(&moment.input) { without_echo(moment) } else { &moment.printed }).collect();
    let next = moments.get(begin + run.len());
    let is_over = run.iter().any(|moment| is_for_shell(moment)) || next.is_none_or(|next| is_at_prompt(&next.input));
    let printed = if is_over { until_prompt(&printed, &moments[..begin]) } else { &printed };
    // A line editor shows the input again, after its prompt.
    let first_line = input.text.as_deref().unwrap_or_default().lines().next().unwrap_or_default().trim();
    let shown_again = printed.lines().filter_map(|row| row.trim_end().strip_suffix(first_line));
    let prompt = shown_again.filter(|_| !first_line.is_empty()).find(|row| is_question(row));
    let questions = || printed.split_inclusive('\n').flat_map(row_questions);
    prompt.or_else(|| questions().nth(earlier.len())).map(str::to_owned)
}

/// Returns the output after the echo of an input.
fn without_echo(moment: &Moment) -> &str {
    let typed = moment.input.text.as_deref().unwrap_or_default();
    let typed = typed.trim_end_matches(['\n', '\r']);
    let printed = moment.printed.strip_prefix(typed).unwrap_or(&moment.printed);
    printed.strip_prefix('\n').unwrap_or(printed)
}

/// Returns the output of the last command, without the prompt after it.
fn until_prompt<'p>(printed: &'p str, before: &[Moment]) -> &'p str {
    let output = before.iter().rev().find_map(|moment| moment.output.as_deref());
    let is_boundary = |end: &usize| printed.is_char_boundary(*end);
    match output {
        Some(output) => {
            let end = (0..=printed.len()).rev().filter(is_boundary).find(|end| output.ends_with(&printed[..*end]));
            &printed[..end.unwrap_or_default()]
        }
        None => printed.rsplit_once('\n').map_or("", |(output, _)| output),
    }
}

/// Returns the questions in a row. Each question begins at the end of the previous one, where a program continues after
/// an answer. Choices in brackets, such as `Continue? [y/n]`, belong to the question before them. The last question
/// includes the end of the row.
fn row_questions(row: &str) -> impl Iterator<Item = &str> {
    let mut begin = 0;
    let is_end = move |(start, character): &(usize, char)| {
        let after = &row[start + character.len_utf8()..];
        let has_choices = after.trim_start_matches(' ').starts_with(['[', '(']);
        QUESTION_ENDS.contains(character) && (after.is_empty() || after.starts_with([' ', '\n'])) && !has_choices
    };
    row.char_indices().filter(is_end).filter_map(move |(start, character)| {
        let end = start + character.len_utf8();
        let after = row[end..].strip_prefix(' ').unwrap_or(&row[end..]);
        let question = if after.trim_end().is_empty() { &row[begin..] } else { &row[begin..end] };
        begin = row.len() - after.len();
        (!question.trim().is_empty()).then_some(question)
    })
}

/// Returns a row without the question at its beginning that a typed-ahead input answered. The next question follows in
/// the same row, unless the terminal echoes the answer.
pub(crate) fn without_answered_question<'r>(moments: &[Moment], index: usize, row: &'r str) -> &'r str {
    let answered_question = later_question(moments, index);
    let after = answered_question.and_then(|question| row.strip_prefix(question.trim_end()));
    after.map(str::trim_start).filter(|after| !after.is_empty()).unwrap_or(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(text: &str, context: &str, row: &str, printed: &str) -> Moment {
        let input = InputRecord {
            kind: InputKind::Typed,
            context: context.to_owned(),
            text: Some(text.to_owned()),
            row: Some(row.to_owned()),
            awaited: (context == "program").then_some(false),
            ..InputRecord::default()
        };
        Moment { input, printed: printed.to_owned(), output: None }
    }

    fn entered(line: &str, printed: &str, output: &str) -> Moment {
        let shell_line = Moment { output: Some(output.to_owned()), ..moment(line, "prompt", "", printed) };
        Moment { input: InputRecord { kind: InputKind::Entered, ..shell_line.input }, ..shell_line }
    }

    fn typed_for_shell() -> Moment {
        let mut typed = moment("touch a\n", "prompt", "", "");
        typed.input.awaited = Some(false);
        typed
    }

    #[test]
    fn typed_ahead_inputs_answer_later_questions_in_order() {
        let command = |output| entered("sh x", "", output);
        let ahead = |text, printed| moment(text, "program", "", printed);
        let cases: [(&[Moment], usize, Option<&str>); 12] = [
            (&[command("yes\nPublish? "), ahead("yes\n", "yes\nPublish? ana@mill:~$ ")], 1, Some("Publish? ")),
            (&[command("y\nSure?\n"), ahead("y", "ySure?\nana@mill:~$ ")], 1, Some("Sure?\n")),
            (&[command("j\nLos (j/n)\n"), ahead("j\n", "j\nLos (j/n)\nana@mill:~$ ")], 1, Some("Los (j/n)\n")),
            (
                &[command("a\nb\nName? Mail: "), ahead("a\n", "a\n"), ahead("b\n", "b\nName? Mail: $ ")],
                1,
                Some("Name?"),
            ),
            (
                &[command("a\nb\nName? Mail: "), ahead("a\n", "a\n"), ahead("b\n", "b\nName? Mail: $ ")],
                2,
                Some("Mail: "),
            ),
            (&[command("a\nb\nName? "), ahead("a\n", "a\n"), ahead("b\n", "b\nName? $ ")], 2, None),
            // The shell read the second line.
            (
                &[
                    command("y\ntouch a\nGo? "),
                    ahead("y\n", "y\n"),
                    Moment { printed: "touch a\nGo? $ touch a\n".to_owned(), ..typed_for_shell() },
                ],
                1,
                Some("Go? "),
            ),
            (&[command("a\ndone\n"), ahead("a\n", "a\ndone\nana@mill: $ ")], 1, None),
            // Line editors show the typed line again.
            (
                &[command("f()\nv1: new\n>>> f()\n1\n>>> "), ahead("f()\n", "f()\nv1: new\n>>> f()\n1\n>>> ")],
                1,
                Some(">>> "),
            ),
            // The program had asked for the input, or the client had waited for it.
            (&[command("Sure? y\nMore? "), moment("y\n", "program", "Sure? ", "y\nMore? $ ")], 1, None),
            (&[command("y\nMore? "), moment("y\n", "password", "", "\nMore? $ ")], 1, None),
            // A line without a newline is not a question.
            (&[command("a y\nName: "), moment("y\n", "program", "a ", "y\nName: $ ")], 1, Some("Name: ")),
        ];
        for (moments, at, question) in cases {
            assert_eq!(later_question(moments, at).as_deref(), question, "{moments:#?}");
        }
    }

    #[test]
    fn each_line_of_an_input_waits_for_its_question() {
        let split = |text: &str, printed: &str| {
            let mut typed = moment(text, "program", "Name: ", printed);
            typed.input.reads_lines = true;
            typed.input.awaited = Some(true);
            let command = entered("sh x", "", printed.strip_suffix("$ ").unwrap_or(printed));
            let entries = split_inputs(&[command, typed]).into_owned();
            entries
                .into_iter()
                .skip(1)
                .map(|moment| (moment.input.text.unwrap(), moment.input.row.unwrap(), moment.printed))
                .collect::<Vec<_>>()
        };
        let entry = |text: &str, row: &str, printed: &str| (text.to_owned(), row.to_owned(), printed.to_owned());
        assert_eq!(
            split("ana\na@x\nyes\n", "ana\na@x\nyes\nMail: Keep? $ "),
            [entry("ana\n", "Name: ", "ana\n"), entry("a@x\n", "", "a@x\n"), entry("yes\n", "", "yes\nMail: Keep? $ ")]
        );
        assert_eq!(
            split("ana\nyes\n", "ana\nhello\nKeep? yes\ndone\n"),
            [entry("ana\n", "Name: ", "ana\nhello\nKeep? "), entry("yes\n", "Keep? ", "yes\ndone\n")]
        );
        assert_eq!(split("a\nb\n", "a\nb\n"), [entry("a\n", "Name: ", "a\n"), entry("b\n", "", "b\n")]);
        // Fewer questions than lines.
        assert_eq!(split("ana\na@x\nyes\n", "ana\na@x\nyes\nMail: $ ").len(), 1);
        assert_eq!(split("one\n", "one\n").len(), 1);
        // An empty line is not visible in the output.
        assert_eq!(split("def f():\n  x\n\n", "def f():\n...   x\n... \n>>> ").len(), 1);
        assert_eq!(split("a\n\n", "a\n\n").len(), 2);
    }

    #[test]
    fn each_key_answers_the_question_that_read_it() {
        let split = |text: &str, printed: &str, next: Option<&str>| {
            let mut typed = moment(text, "program", "Go? ", printed);
            typed.input.awaited = Some(true);
            let output = format!("Go? {}", printed.strip_suffix("$ ").unwrap_or(printed));
            let next = next.map(|row| {
                let mut next = moment("8080\n", "program", row, "8080\n$ ");
                next.input.awaited = Some(true);
                next
            });
            let log: Vec<Moment> = [entered("sh x", "", &output), typed].into_iter().chain(next).collect();
            let entry = |moment: Moment| (moment.input.text.unwrap(), moment.input.row.unwrap(), moment.printed);
            split_inputs(&log)[1..].iter().cloned().map(entry).collect::<Vec<_>>()
        };
        let entry = |text: &str, row: &str, printed: &str| (text.to_owned(), row.to_owned(), printed.to_owned());
        let sure = [entry("y", "Go? ", "y\nSure? "), entry("n", "Sure? ", "n\ndone\n$ ")];
        assert_eq!(split("yn", "yn\nSure? \ndone\n$ ", None), sure);
        assert_eq!(split("yn", "y\nSure? n\ndone\n$ ", None), sure);
        assert_eq!(
            split("yn", "\nSure? \ndone\n$ ", None),
            [entry("y", "Go? ", "\nSure? "), entry("n", "Sure? ", "\ndone\n$ ")]
        );
        assert_eq!(
            split("yn", "ynSure? \n$ ", None),
            [entry("y", "Go? ", "ySure? "), entry("n", "Go? ySure? ", "n\n$ ")]
        );
        assert_eq!(
            split("yy", "yy\nSure?\ndone\n$ ", None),
            [entry("y", "Go? ", "y\nSure?\n"), entry("y", "", "ydone\n$ ")]
        );
        // One question read both keys, and the next question has another answer.
        assert_eq!(split("yn", "yn\ndone\n$ ", None).len(), 1);
        assert_eq!(split("yn", "yn\nPort: ", Some("Port: ")).len(), 2, "the keys stay together before another answer");
        assert_eq!(split("yn", "yn\nSure? \nPort: ", Some("Port: ")).len(), 3);
        assert_eq!(split("yn", "yn\n100%\n$ ", None).len(), 1);
        assert_eq!(split("yny", "yny\nSure? \n$ ", None).len(), 1);
    }

    #[test]
    fn typed_ahead_line_read_by_the_shell_is_a_prompt_line() {
        let log = [
            entered("make", "", ""),
            moment("y\n", "program", "", "y\n"),
            moment("touch a\n", "program", "", "touch a\nGo on? $ touch a\n"),
            entered("touch a", "$ ", ""),
        ];
        let contexts: Vec<String> =
            move_lines_to_prompt(&log).iter().map(|moment| moment.input.context.clone()).collect();
        assert_eq!(contexts, ["prompt", "program", "prompt", "prompt"]);
        assert!(matches!(move_lines_to_prompt(&log[..2]), Cow::Borrowed(_)));
    }
}
