//! Inputs typed ahead: before the program that reads them has asked, or the shell that takes them has shown its prompt.
//!
//! Played again, each of them waits for its reader: a shell's prompt, or the question that the program printed after the
//! echo of the input.

use std::borrow::Cow;

use steplatch_protocol::{InputKind, InputRecord};

use crate::session_log::Moment;
use crate::turn::{is_at_prompt, is_input};

/// Signs at which a question ends.
const QUESTION_ENDS: [char; 8] = ['?', ':', '>', ']', ')', '$', '#', '%'];

/// Returns whether a program got an input before it waited for one.
fn is_ahead(input: &InputRecord) -> bool {
    matches!(input.kind, InputKind::Typed | InputKind::Attached)
        && input.context == "program"
        && input.awaited == Some(false)
}

/// Returns whether an input was typed ahead of its question: what stood before the cursor asks nothing.
fn precedes_question(input: &InputRecord) -> bool {
    is_ahead(input) && !asks(input.row.as_deref().unwrap_or_default())
}

/// Returns whether a row ends as questions do.
pub(crate) fn asks(row: &str) -> bool {
    row.trim_end().ends_with(QUESTION_ENDS)
}

/// Returns the entries of a log, of which inputs typed ahead that a shell took as its lines are typed at its prompt.
pub(crate) fn with_prompt_lines(moments: &[Moment]) -> Cow<'_, [Moment]> {
    let is_taken_by_shell = |at: usize| {
        let input = &moments[at].input;
        let line = input.text.as_deref().and_then(|text| text.trim_start().lines().next()).map(str::trim);
        let behind = moments[at + 1..].iter().map(|moment| &moment.input);
        let mut lines = behind
            .take_while(|next| !is_input(next) || is_ahead(next))
            .filter(|next| next.kind == InputKind::Entered)
            .filter_map(|next| next.text.as_deref());
        is_ahead(input) && line.is_some_and(|line| !line.is_empty() && lines.any(|taken| taken.trim() == line))
    };
    let lines: Vec<usize> = (0..moments.len()).filter(|at| is_taken_by_shell(*at)).collect();
    if lines.is_empty() {
        return Cow::Borrowed(moments);
    }
    let mut moments = moments.to_vec();
    for at in lines {
        "prompt".clone_into(&mut moments[at].input.context);
    }
    Cow::Owned(moments)
}

/// Returns the question that an input answered which was typed ahead of it: of several such inputs, each answers one
/// question, in order. None where the input was not typed ahead, or nothing printed behind it ends as questions do.
pub(crate) fn later_question(moments: &[Moment], at: usize) -> Option<String> {
    let precedes = |moment: &&Moment| precedes_question(&moment.input);
    let input = &moments.get(at).filter(precedes)?.input;
    // Entries that are no inputs stand between them.
    let inputs_before = moments[..at].iter().enumerate().rev().filter(|(_, moment)| is_input(&moment.input));
    let earlier: Vec<usize> =
        inputs_before.take_while(|(_, moment)| precedes(moment)).map(|(index, _)| index).collect();
    let begin = earlier.last().copied().unwrap_or(at);
    let is_for_shell =
        |moment: &Moment| is_input(&moment.input) && moment.input.awaited == Some(false) && is_at_prompt(&moment.input);
    let belongs = |moment: &&Moment| !is_input(&moment.input) || precedes(moment) || is_for_shell(moment);
    let run: Vec<&Moment> = moments[begin..].iter().take_while(belongs).collect();
    let printed: String =
        run.iter().map(|moment| if is_input(&moment.input) { without_echo(moment) } else { &moment.printed }).collect();
    let next = moments.get(begin + run.len());
    let is_over = run.iter().any(|moment| is_for_shell(moment)) || next.is_none_or(|next| is_at_prompt(&next.input));
    let printed = if is_over { until_prompt(&printed, &moments[..begin]) } else { &printed };
    // An editor of lines shows the input again, behind its own prompt.
    let typed = input.text.as_deref().unwrap_or_default().lines().next().unwrap_or_default().trim();
    let shown_again = printed.lines().filter_map(|row| row.trim_end().strip_suffix(typed));
    let prompt = shown_again.filter(|_| !typed.is_empty()).find(|row| asks(row));
    let questions = || printed.split_inclusive('\n').flat_map(questions_of_row);
    prompt.or_else(|| questions().nth(earlier.len())).map(str::to_owned)
}

/// Returns the output behind the echo of an input.
fn without_echo(moment: &Moment) -> &str {
    let typed = moment.input.text.as_deref().unwrap_or_default();
    let typed = typed.trim_end_matches(['\n', '\r']);
    let printed = moment.printed.strip_prefix(typed).unwrap_or(&moment.printed);
    printed.strip_prefix('\n').unwrap_or(printed)
}

/// Returns the output of the last command, of an output with the prompt behind it.
fn until_prompt<'p>(printed: &'p str, before: &[Moment]) -> &'p str {
    let output = before.iter().rev().find_map(|moment| moment.output.as_deref());
    let is_border = |at: &usize| printed.is_char_boundary(*at);
    match output {
        Some(output) => {
            let end = (0..=printed.len()).rev().filter(is_border).find(|end| output.ends_with(&printed[..*end]));
            &printed[..end.unwrap_or_default()]
        }
        None => printed.rsplit_once('\n').map_or("", |(output, _)| output),
    }
}

/// Returns the questions in a row, each from the end of the one before: a program that has its answer prints the next one
/// there. The last one has the end of the row, which may have come with it or with what followed the answer.
fn questions_of_row(row: &str) -> impl Iterator<Item = &str> {
    let mut begin = 0;
    let is_end = move |(at, sign): &(usize, char)| {
        let behind = &row[at + sign.len_utf8()..];
        QUESTION_ENDS.contains(sign) && (behind.is_empty() || behind.starts_with([' ', '\n']))
    };
    row.char_indices().filter(is_end).filter_map(move |(at, sign)| {
        let end = at + sign.len_utf8();
        let behind = row[end..].strip_prefix(' ').unwrap_or(&row[end..]);
        let question = if behind.trim_end().is_empty() { &row[begin..] } else { &row[begin..end] };
        begin = row.len() - behind.len();
        (!question.trim().is_empty()).then_some(question)
    })
}

/// Returns a row without the question at its beginning that an input typed ahead had answered: the next question follows
/// there, and is on a row of its own behind an answer that is shown.
pub(crate) fn without_answered<'r>(moments: &[Moment], at: usize, row: &'r str) -> &'r str {
    let answered = later_question(moments, at);
    let behind = answered.and_then(|question| row.strip_prefix(question.trim_end()));
    behind.map(str::trim_start).filter(|behind| !behind.is_empty()).unwrap_or(row)
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
        let taken = Moment { output: Some(output.to_owned()), ..moment(line, "prompt", "", printed) };
        Moment { input: InputRecord { kind: InputKind::Entered, ..taken.input }, ..taken }
    }

    fn typed_for_shell() -> Moment {
        let mut typed = moment("touch a\n", "prompt", "", "");
        typed.input.awaited = Some(false);
        typed
    }

    #[test]
    fn inputs_typed_ahead_answer_the_questions_printed_behind_them_in_order() {
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
            // The shell took the line behind it.
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
            // Editors of lines show it again.
            (
                &[command("f()\nv1: new\n>>> f()\n1\n>>> "), ahead("f()\n", "f()\nv1: new\n>>> f()\n1\n>>> ")],
                1,
                Some(">>> "),
            ),
            // It was asked for, or awaited.
            (&[command("Sure? y\nMore? "), moment("y\n", "program", "Sure? ", "y\nMore? $ ")], 1, None),
            (&[command("y\nMore? "), moment("y\n", "password", "", "\nMore? $ ")], 1, None),
            // A line without an end is no question.
            (&[command("a y\nName: "), moment("y\n", "program", "a ", "y\nName: $ ")], 1, Some("Name: ")),
        ];
        for (moments, at, question) in cases {
            assert_eq!(later_question(moments, at).as_deref(), question, "{moments:#?}");
        }
    }

    #[test]
    fn a_line_typed_ahead_that_the_shell_took_is_one_at_its_prompt() {
        let log = [
            entered("make", "", ""),
            moment("y\n", "program", "", "y\n"),
            moment("touch a\n", "program", "", "touch a\nGo on? $ touch a\n"),
            entered("touch a", "$ ", ""),
        ];
        let contexts: Vec<String> = with_prompt_lines(&log).iter().map(|moment| moment.input.context.clone()).collect();
        assert_eq!(contexts, ["prompt", "program", "prompt", "prompt"]);
        assert!(matches!(with_prompt_lines(&log[..2]), Cow::Borrowed(_)));
    }
}
