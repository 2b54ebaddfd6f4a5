//! Reports on runs of machines, for clients and models.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Map, Value, json};
use steplatch_access::Redactor;
use steplatch_clock as clock;
use steplatch_ids::RunId;
use steplatch_protocol::{GateInfo, RunReply, ShortenedValue};
use steplatch_store::Record;
use steplatch_workflow::{Event, History, LogBuilder, workflow_signature};

use super::history::read;
use crate::event::{TAKEN_OVER, Unreadable};
use crate::run::{Run, RunState, RunStatus};
use crate::seal::Seal;

/// Maximum length of a string in a report, in characters. The report shows the start or end of a longer string.
pub(crate) const MAX_TEXT_CHARS: usize = 2000;

/// Minimum of [`MAX_TEXT_CHARS`] in the report of a long run. A long run has a lower limit, to save space.
const MIN_TEXT_CHARS: usize = 200;

/// Minimum of the limit for variables after each state. The report repeats the variables at the end.
const MIN_VARIABLE_CHARS: usize = 80;

/// Approximate number of characters of all screens in a report, because a model reads the report.
const SCREENS_BUDGET_CHARS: usize = 30_000;

/// Maximum numbers of log entries in a report: from the start, and from the end of the log.
const MAX_LOG_ENTRIES: (usize, usize) = (10, 50);

/// Maximum number of lines of a failed run's last screen.
const MAX_SCREEN_LINES: usize = 24;

/// Maximum number of variables in a report.
const MAX_VARIABLES: usize = 300;

/// Maximum number of shortened values in a report. The report names shortened variables first.
const MAX_SHORTENED_VALUES: usize = 2 + MAX_VARIABLES + 100;

/// Suffixes of the names of strings whose end is more useful than their start.
const SHOWN_FROM_END: [&str; 2] = ["screen_content", "output"];

/// The field of a report with the variables at the end.
const FINAL_VARIABLES: &str = "final_variables";

/// The field of a log entry with the variables after its state.
const VARIABLES_AFTER: &str = "variables_after";

/// The field of a result, and of a report, with the log of its run.
pub(super) const LOG: &str = "execution_log";

/// The phase of the entry that replaces the middle of a long log.
const LEFT_OUT: &str = "left_out";

/// Returns a report on `run` from its history. Slow for a long history.
///
/// # Errors
///
/// If reading an entry fails.
pub(crate) fn build_report(
    run: &Run,
    progress: RunStatus,
    records: Vec<Record>,
    gate: Option<GateInfo>,
    secrets: &Redactor,
) -> Result<RunReply, Unreadable> {
    let (builder, log) = read_log(run, records)?;
    let log_left_out = log.iter().find_map(|entry| entry[LEFT_OUT].as_u64());
    let history = builder.history();
    // Each result contains a screen, and the variables contain it again.
    let max_chars = (SCREENS_BUDGET_CHARS / (2 * log.len().max(1))).clamp(MIN_TEXT_CHARS, MAX_TEXT_CHARS);
    let mut shortened = Vec::new();
    let mut shorten_value = |mut value: Value, place: &str| {
        if let Some(variables) = value.get_mut(VARIABLES_AFTER) {
            // The result of the same entry contains the log.
            variables.as_object_mut().into_iter().for_each(remove_nested_logs);
            shorten(
                variables,
                (max_chars / 4).max(MIN_VARIABLE_CHARS),
                &pointer(place, VARIABLES_AFTER),
                &mut shortened,
            );
        }
        shorten(&mut value, max_chars, place, &mut shortened);
        secrets.masked_value(value)
    };
    let (last_screen, last_screens) = match progress.state {
        RunState::Failed => last_screens(history, &log, secrets),
        _ => (None, BTreeMap::new()),
    };
    let mut variables = history.variables().to_map();
    remove_nested_logs(&mut variables);
    let variables_left_out = variables.len().saturating_sub(MAX_VARIABLES);
    if variables_left_out > 0 {
        variables = variables.into_iter().take(MAX_VARIABLES).collect();
    }
    let variables = match shorten_value(secrets.masked_value(Value::Object(variables)), &format!("/{FINAL_VARIABLES}"))
    {
        Value::Object(variables) => variables,
        _ => Map::new(),
    };
    let log: Vec<Value> = log
        .into_iter()
        .enumerate()
        .map(|(index, entry)| shorten_value(secrets.masked_value(entry), &format!("/{LOG}/{index}")))
        .collect();
    let entries = [(FINAL_VARIABLES, variables_left_out as u64), (LOG, log_left_out.unwrap_or_default())];
    let entries = entries.into_iter().filter(|(_, left_out)| *left_out > 0);
    let shortened_values: Vec<ShortenedValue> = entries
        .map(|(name, left_out)| ShortenedValue { path: format!("/{name}"), left_out, is_end: false })
        .chain(shortened)
        .take(MAX_SHORTENED_VALUES)
        .collect();
    let masked = |text: &str| Value::String(secrets.masked(text.to_owned()));
    let mut signature = history.definition().map(workflow_signature).unwrap_or_default();
    secrets.mask_fields(&mut signature);
    let saving = run.header.source.saving(progress.library_copy.as_ref(), progress.save_error.as_deref());
    let reply = run.reply(&progress, secrets);
    Ok(RunReply {
        final_state: history.final_state().map(str::to_owned),
        states_executed: history.states_executed(),
        execution_log: log,
        final_variables: variables,
        shortened: !shortened_values.is_empty(),
        shortened_values,
        return_values: history.return_values().iter().map(|(name, value)| (name.clone(), masked(value))).collect(),
        result: history.result().cloned().map(|result| secrets.masked_value(result)),
        session_id: history.session_id().map(str::to_owned),
        last_screen,
        last_screens,
        recursion_depth: history.recursion_depth(),
        workflow_signature: signature,
        workflow_saved: saving.saved.is_some(),
        saved_workflow_name: saving.saved,
        duplicate_of: saving.duplicate_of,
        pending_gate: gate,
        decided: secrets.masked_if(history.decision().map(str::to_owned)),
        error: reply.error.or_else(|| secrets.masked_if(saving.error)),
        repairs: progress.repairs,
        ..reply
    })
}

/// Returns the advice about a run that has not completed or failed. `gate` is the oldest open gate of the run.
pub(crate) fn next_step(
    run: &RunId,
    progress: &RunStatus,
    gate: Option<&GateInfo>,
    secrets: &Redactor,
) -> Option<String> {
    let wait = format!("get_run {{\"run_id\": \"{run}\", \"wait_seconds\": 20}}");
    match progress.state {
        RunState::Completed | RunState::Failed => return None,
        RunState::Cancelled => {
            return Some("The run was cancelled. Start it again with run_workflow if it is still wanted.".to_owned());
        }
        RunState::Running | RunState::Waiting => {}
    }
    if progress.locked {
        return Some(format!(
            "The run waits for a person and is locked. They open it in a terminal of their own with: steplatch approver unlock. \
             {wait} waits for that."
        ));
    }
    if let Some(gate) = gate {
        return Some(match gate.answered_by.as_str() {
            "human" => format!(
                "The run waits for a person, who answers pending_gate in a terminal of their own with: steplatch gates \
                 answer {}. Ask them to; {wait} returns once they have.",
                gate.name_with_digest()
            ),
            _ => {
                let answer = if gate.form.is_some() { "form" } else { "answer" };
                let repair = match &progress.repairable {
                    Some(_) => " If the workflow should know this screen from now on, propose_patch repairs it.",
                    None => "",
                };
                format!(
                    "The run waits for an answer: give it to pending_gate with decide {{\"run_id\": \"{run}\", \"{answer}\": …}}, \
                     then look with {wait}.{repair}"
                )
            }
        });
    }
    if let Some(pause) = progress.pause(secrets) {
        return Some(format!(
            "The run is paused by {}. A person resumes it with: steplatch runs resume {run}. {wait} waits for that.",
            pause.by
        ));
    }
    Some(format!("The run continues without you. Wait for its end with {wait}."))
}

/// Returns the end of a failed run's last screen. If the run has several terminals, also returns the ends of all their
/// screens.
fn last_screens(history: &History, log: &[Value], secrets: &Redactor) -> (Option<String>, BTreeMap<String, String>) {
    let screens = history.last_screens();
    let last = match screens.first() {
        Some(last) => screen_end(&last.screen, secrets),
        // Older versions recorded no screens, and the terminal may have been closed already.
        None => last_screen(log, secrets),
    };
    let listed_screens = screens.iter().filter(|_| screens.len() > 1);
    let all = listed_screens.filter_map(|last| Some((last.session_id.clone(), screen_end(&last.screen, secrets)?)));
    (last, all.collect())
}

/// Returns the end of the last screen in a log.
fn last_screen(log: &[Value], secrets: &Redactor) -> Option<String> {
    screen_end(log.iter().rev().find_map(|entry| entry["result"]["screen_content"].as_str())?, secrets)
}

/// Returns the end of a screen, unless it is empty.
fn screen_end(screen: &str, secrets: &Redactor) -> Option<String> {
    // Mask secrets before cutting, so that no cut secret remains unmasked.
    let screen = secrets.masked_screen(screen.trim_end().to_owned());
    let lines: Vec<&str> = screen.lines().collect();
    let end = lines[lines.len().saturating_sub(MAX_SCREEN_LINES)..].join("\n");
    let length = end.chars().count();
    let end: String = end.chars().skip(length.saturating_sub(MAX_TEXT_CHARS)).collect();
    (!end.is_empty()).then_some(end)
}

/// Folds a history and keeps the beginning and the end of its log.
fn read_log(run: &Run, records: Vec<Record>) -> Result<(LogBuilder, Vec<Value>), Unreadable> {
    let seal = Seal::default();
    let mut builder = LogBuilder::default();
    let (mut first_entries, mut last_entries) = (Vec::new(), VecDeque::new());
    let mut left_out = 0;
    for record in records {
        let is_taken_over = run.has_taken_over(record.seq);
        for mut entry in entries_of(&read(record, &seal)?, &mut builder) {
            if is_taken_over {
                entry[TAKEN_OVER] = true.into();
            }
            if first_entries.len() < MAX_LOG_ENTRIES.0 {
                first_entries.push(entry);
                continue;
            }
            if last_entries.len() == MAX_LOG_ENTRIES.1 {
                last_entries.pop_front();
                left_out += 1;
            }
            last_entries.push_back(entry);
        }
    }
    if left_out > 0 {
        let remark = format!("{left_out} entries are left out of this report; steplatch runs events lists all");
        first_entries.push(json!({"phase": LEFT_OUT, "message": remark, LEFT_OUT: left_out}));
    }
    first_entries.extend(last_entries);
    Ok((builder, first_entries))
}

/// Removes the logs of nested runs from results or variables.
pub(super) fn remove_nested_logs(values: &mut Map<String, Value>) {
    values.retain(|name, _| !name.ends_with(LOG));
}

/// Returns the log entries of the next event, with its time.
pub(super) fn entries_of(event: &Event, log: &mut LogBuilder) -> Vec<Value> {
    let timestamp = clock::to_iso8601(event.time());
    let dated = |entry| {
        let mut entry = serde_json::to_value(entry).ok()?;
        entry.as_object_mut()?.insert("timestamp".to_owned(), timestamp.clone().into());
        Some(entry)
    };
    log.next(event).into_iter().filter_map(dated).collect()
}

/// Shortens texts that are longer than `max_chars` to their beginning, or to the end for a screen or an output. Adds
/// the places of shortened texts to `cut`, as JSON Pointers that begin with `place`. Only for reports: a run computes
/// with the full values.
pub(crate) fn shorten(value: &mut Value, max_chars: usize, place: &str, cut: &mut Vec<ShortenedValue>) {
    match value {
        Value::String(text) => {
            let length = text.chars().count();
            if length > max_chars {
                let is_end = SHOWN_FROM_END.iter().any(|name| place.ends_with(name));
                *text = match is_end {
                    true => text.chars().skip(length - max_chars).collect(),
                    false => text.chars().take(max_chars).collect(),
                };
                cut.push(ShortenedValue { path: place.to_owned(), left_out: (length - max_chars) as u64, is_end });
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                shorten(item, max_chars, &format!("{place}/{index}"), cut);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                shorten(field, max_chars, &pointer(place, name), cut);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns the JSON Pointer of a field.
fn pointer(place: &str, name: &str) -> String {
    format!("{place}/{}", name.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_screen_is_its_end_without_secrets() {
        let secrets = Redactor::default();
        secrets.add("open sesame");
        let screen = |lines: usize| {
            let lines: Vec<String> = (1..=lines).map(|line| format!("line {line} open sesame")).collect();
            json!({"phase": "execution", "result": {"screen_content": format!("{}\n\n\n", lines.join("\n"))}})
        };
        let log = [screen(3), screen(100), json!({"phase": "execution", "result": {"success": false}}), json!({})];
        let reported = last_screen(&log, &secrets).unwrap();
        assert!(reported.starts_with("line 77 ••") && reported.ends_with("••••••"), "{reported}");
        assert!(!reported.contains("sesame") && reported.lines().count() == MAX_SCREEN_LINES, "{reported}");
        let wide = json!({"result": {"screen_content": "x".repeat(100_000)}});
        assert_eq!(last_screen(&[wide], &secrets).unwrap().chars().count(), MAX_TEXT_CHARS);
        assert_eq!(last_screen(&[json!({"result": {"screen_content": " \n"}})], &secrets), None);
        assert_eq!(last_screen(&[], &secrets), None);
    }

    #[test]
    fn shortened_text_is_only_the_head_or_the_tail() {
        let mut screen = json!({"x_screen_content": format!("begin{}end", "x".repeat(2000))});
        let mut cut = Vec::new();
        shorten(&mut screen, 5, "", &mut cut);
        assert_eq!(screen, json!({"x_screen_content": "xxend"}));
        assert_eq!(cut, [ShortenedValue { path: "/x_screen_content".to_owned(), left_out: 2003, is_end: true }]);
        let complete = json!({"a/b": ["short", "ž".repeat(5000)], "c": {"d": "x".repeat(2001)}, "e": "y".repeat(2000)});
        let (mut value, mut cut) = (complete.clone(), Vec::new());
        shorten(&mut value, 2000, "/final_variables", &mut cut);
        assert_eq!(
            value,
            json!({"a/b": ["short", "ž".repeat(2000)], "c": {"d": "x".repeat(2000)}, "e": complete["e"]})
        );
        let cut: Vec<(&str, u64)> = cut.iter().map(|value| (value.path.as_str(), value.left_out)).collect();
        assert_eq!(cut, [("/final_variables/a~1b/1", 3000), ("/final_variables/c/d", 1)]);
    }
}
