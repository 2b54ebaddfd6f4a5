//! Translation of the daemon's messages for a person at a command line.
//!
//! The daemon writes for agents: its sentences name tools and sessions. The translation names commands and terminals
//! instead. Programs that request JSON receive the daemon's unchanged text.

use crate::print;

/// Phrases of the daemon and their replacements. A phrase precedes the shorter phrases that it contains.
const PHRASES: [(&str, &str); 36] = [
    ("nothing to send: give input_text or keys", "nothing to send; give TEXT or --key"),
    (
        "no sessions are open: open one with open_terminal",
        "no terminals are open; open one with: steplatch terminal open",
    ),
    (
        "session_id is required; list_terminal_sessions lists the sessions",
        "no terminal is named; steplatch terminal list shows them",
    ),
    (
        "close one with exit_terminal (list_terminal_sessions lists them)",
        "close one with: steplatch terminal close (steplatch terminal list shows them)",
    ),
    ("Missing required environment variables: ", "missing arguments: "),
    ("Environment variables are not as they must be: ", "invalid arguments: "),
    ("Return values are not as they must be: ", "invalid return values: "),
    ("open sessions: ", "open terminals: "),
    ("Session '", "terminal '"),
    ("working_directory '", "directory '"),
    (
        "wait with await_output until: prompt, or type into it with send_input",
        "wait with: steplatch terminal wait, or use it with: steplatch terminal attach",
    ),
    ("let a person enter it with request_secret, or ", ""),
    ("type it with send_input and secret: true", "type it with: steplatch terminal send --secret -e"),
    ("press them with send_input", "press them with: steplatch terminal attach"),
    ("type it with send_input", "type it with: steplatch terminal send -e"),
    (
        "(until: prompt waits for the end of the command), or interrupt it with keys: [\"ctrl-c\"]",
        "(steplatch terminal wait waits for its end), or interrupt it with: steplatch terminal send -k ctrl-c",
    ),
    (": send_input and await_output", ": steplatch terminal send and steplatch terminal screen"),
    ("list_runs lists the runs", "list runs with: steplatch runs list"),
    ("cancel one with cancel_run", "cancel one with: steplatch runs cancel"),
    ("look with get_run", "look with: steplatch runs show"),
    ("list_workflows lists them", "steplatch workflow list shows them"),
    ("create_workflow saves one", "steplatch workflow load saves one"),
    ("list_remote_workflows lists the available workflows", "list them with: steplatch remote list"),
    (
        "get_workflow_schema documents how workflows are written",
        "steplatch workflow schema documents how workflows are written",
    ),
    ("run_workflow runs saved ones by name", "steplatch run runs saved ones by name"),
    ("it only looks around; keep: true keeps it", "it only looks around; --keep keeps it"),
    ("; with repeat_irreversible it does", "; --repeat does it again"),
    ("give them again as initial_variables", "give them again with -i NAME=VALUE"),
    ("without from_state", "without --from"),
    ("add it to inputs to make it an argument", "make it an argument with -i NAME=VALUE"),
    ("add PWD to inputs to make it an argument", "make it an argument with -i PWD=DIRECTORY"),
    ("name another terminal in against", "name another terminal with --against"),
    ("which against names", "which --against names"),
    ("against names ", "--against has "),
    (
        "save it with save: true, or edit it and save it with create_workflow",
        "save it with --save, or edit it and save it with: steplatch workflow load",
    ),
    ("correct it and save it with create_workflow", "correct it and save it with: steplatch workflow load"),
];

/// Phrase of the daemon before the commands that set missing arguments as variables of a shell.
const SET_WITH_PHRASE: &str = "Set them with: ";

/// Texts before and after the limit in the daemon's sentence about too many states.
const STATES_LIMIT_PREFIX: &str = "Maximum states limit (";
const STATES_LIMIT_SUFFIX: &str = ") reached - possible infinite loop";

/// Translates a sentence of the daemon to the terms of the command line.
pub(crate) fn for_people(sentence: &str) -> String {
    let mut text = sentence.to_owned();
    for (phrase, replacement) in PHRASES {
        text = text.replace(phrase, replacement);
    }
    if let Some((before, after)) = text.split_once(STATES_LIMIT_PREFIX)
        && let Some((limit, after)) = after.split_once(STATES_LIMIT_SUFFIX)
    {
        text = format!("{before}stopped after {limit} states (max_states); is there a loop without an exit?{after}");
    }
    text = convert_times(&convert_variables(&text));
    match text.split_once(SET_WITH_PHRASE) {
        Some((before, exports)) if before.ends_with(". ") => format!("{before}{}", input_options(exports)),
        _ => text,
    }
}

/// Length of a timestamp of the daemon, such as `2026-11-26T15:15:44.125Z`.
const TIMESTAMP_CHARS: usize = 24;

/// Converts the daemon's timestamps in a sentence to the time zone of this process.
fn convert_times(sentence: &str) -> String {
    let mut converted = String::with_capacity(sentence.len());
    let mut remaining = sentence;
    // Each timestamp ends with the letter `Z` of its zone.
    while let Some(end) = remaining.find('Z').map(|zone| zone + 1) {
        let begin = end.checked_sub(TIMESTAMP_CHARS).filter(|begin| remaining.is_char_boundary(*begin));
        let timestamp = begin.map(|begin| &remaining[begin..end]).filter(|timestamp| timestamp.as_bytes()[10] == b'T');
        match timestamp.filter(|timestamp| print::elapsed_between(timestamp, Some(timestamp)).is_some()) {
            Some(timestamp) => {
                converted.push_str(&remaining[..end - TIMESTAMP_CHARS]);
                converted.push_str(&print::local_time(timestamp));
            }
            None => converted.push_str(&remaining[..end]),
        }
        remaining = &remaining[end..];
    }
    converted + remaining
}

/// Phrases of the daemon before and after the name of a missing initial variable.
const ADD_PHRASES: [&str; 2] = ["add ", "Add "];
const TO_VARIABLES_PHRASE: &str = " to initial_variables";

/// Converts `add NAME to initial_variables` to the option of `steplatch run`.
fn convert_variables(sentence: &str) -> String {
    let mut parts = sentence.split(TO_VARIABLES_PHRASE);
    let mut converted = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let name_start = ADD_PHRASES.iter().filter_map(|add| Some(converted.rfind(add)? + add.len())).max();
        match name_start.filter(|start| !converted[*start..].contains(' ')) {
            Some(start) => {
                converted.insert_str(start, "-i ");
                converted.push_str("=VALUE");
            }
            None => converted.push_str(TO_VARIABLES_PHRASE),
        }
        converted.push_str(part);
    }
    converted
}

/// Converts `export A=value, export B=value` to options of `steplatch run`. The text after them stays unchanged.
fn input_options(exports: &str) -> String {
    let mut options = Vec::new();
    let mut remaining = exports;
    while let Some((name, after)) = remaining.strip_prefix("export ").and_then(|export| export.split_once("=value")) {
        options.push(format!("-i {name}=…"));
        remaining = after.strip_prefix(", ").unwrap_or(after);
    }
    match options.is_empty() {
        true => format!("{SET_WITH_PHRASE}{exports}"),
        false => format!("Give them with: steplatch run … {}{remaining}", options.join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_converted_to_local_time() {
        let timestamp = "2026-11-26T15:15:44.125Z";
        let local = print::local_time(timestamp);
        for [sentence, expected] in [
            [format!("answered by ana (cli) at {timestamp}: yes"), format!("answered by ana (cli) at {local}: yes")],
            [format!("Z until {timestamp}, {timestamp}"), format!("Z until {local}, {local}")],
            ["žluť of 2026-11-26T15:15:99.125Z".to_owned(), "žluť of 2026-11-26T15:15:99.125Z".to_owned()],
        ] {
            assert_eq!(for_people(&sentence), expected);
        }
    }

    #[test]
    fn translations_describe_commands_and_terminals() {
        for (daemon, person) in [
            (
                "argument FOLDER (where to count) is missing; add FOLDER to initial_variables; {name} at /states/a has no \
                 value. Add name to initial_variables, or write {{name}} if it is meant as text",
                "argument FOLDER (where to count) is missing; add -i FOLDER=VALUE; {name} at /states/a has no value. Add -i \
                 name=VALUE, or write {{name}} if it is meant as text",
            ),
            ("nothing to send: give input_text or keys", "nothing to send; give TEXT or --key"),
            (
                "Session 'nope' not found; no sessions are open: open one with open_terminal",
                "terminal 'nope' not found; no terminals are open; open one with: steplatch terminal open",
            ),
            (
                "Session 'nope' not found; open sessions: term_a (build), term_b",
                "terminal 'nope' not found; open terminals: term_a (build), term_b",
            ),
            ("Run 'x' not found; list_runs lists the runs", "Run 'x' not found; list runs with: steplatch runs list"),
            (
                "Missing required environment variables: A, B. Set them with: export A=value, export B=value",
                "missing arguments: A, B. Give them with: steplatch run … -i A=… -i B=…",
            ),
            (
                "Maximum states limit (6) reached - possible infinite loop",
                "stopped after 6 states (max_states); is there a loop without an exit?",
            ),
            ("Set them with: care", "Set them with: care"),
            ("it failed. Set them with: care", "it failed. Set them with: care"),
            ("make ended with 2", "make ended with 2"),
        ] {
            assert_eq!(for_people(daemon), person);
        }
    }

    #[test]
    fn longer_phrases_precede_shorter_ones() {
        for (index, (phrase, ours)) in PHRASES.iter().enumerate() {
            assert!(!PHRASES[..index].iter().any(|(earlier, _)| phrase.contains(earlier)), "{phrase:?} is never found");
            assert_eq!(for_people(ours), *ours, "a translated text is not translated again");
        }
    }
}
