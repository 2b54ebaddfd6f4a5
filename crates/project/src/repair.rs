//! Repairs of saved machines: checks a patch against the recording, and saves it as the next version.

use std::path::Path;

use async_recursion::async_recursion as boxed;
use serde_json::Value;
use steplatch_capture::Golden;
use steplatch_ids::WorkflowName;
use steplatch_library::{Author, Library, ReplaceError};
use steplatch_sessions::TerminalTools;
use steplatch_workflow::{
    Definition, LastScreen, Limits, Rehearsal, RehearsalEnd, RehearsalStep, State, Stubs, rehearse,
};

use crate::error::{DiskError, with_causes};
use crate::workflows::Workflows;

/// Result of checking a patch of a workflow against its recording.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordingCheck {
    /// The results, as sentences.
    pub checked: Vec<String>,
    /// Lines that programs printed during the recording.
    pub lines: Vec<String>,
}

/// Error about a patch that does not pass the recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// Disk access failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The recording is unreadable.
    #[error("the recording '{file}' cannot be read: {cause}")]
    Unreadable {
        /// The file.
        file: String,
        /// The reason.
        cause: String,
    },
    /// The patched machine behaves differently on the recorded output.
    #[error(
        "with the patch the workflow does not pass its recording '{file}': {cause}; a repair must accept both forms, such as \"pattern\": \"OLD|NEW\""
    )]
    Fails {
        /// The file.
        file: String,
        /// The difference.
        cause: String,
    },
}

/// Error about a patched machine that the library refuses.
#[derive(Debug, thiserror::Error)]
pub enum SaveRepairError {
    /// Disk access failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The workflow has changed since the run started.
    #[error(
        "'{0}' was changed in the library since the run started, so the patch is not saved there; propose it to a run of the current version"
    )]
    Changed(WorkflowName),
    /// The workflow was removed, its file is broken, or writing it fails.
    #[error("{}", with_causes(.0))]
    Replace(#[from] ReplaceError),
}

impl Workflows {
    /// Replays the recording of a saved machine, if there is one, with the machine before and after a patch.
    ///
    /// # Errors
    ///
    /// If only the unpatched machine passes the recording, or the recording is unreadable.
    #[boxed]
    pub async fn check_recordings(
        &self,
        directory: &Path,
        name: &WorkflowName,
        before: &Definition,
        after: &Definition,
    ) -> Result<RecordingCheck, RecordingError> {
        let file = Library::open(directory).golden_file(name);
        let path = file.display().to_string();
        let (before, after) = (before.clone(), after.clone());
        let checking = move || {
            let unreadable = |cause: String| RecordingError::Unreadable { file: path.clone(), cause };
            let text = match std::fs::read_to_string(&file) {
                Ok(text) => text,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    let checked = vec!["It has no recording against which to check the patch".to_owned()];
                    return Ok(RecordingCheck { checked, lines: Vec::new() });
                }
                Err(error) => return Err(unreadable(error.to_string())),
            };
            let golden = Golden::read(&text).map_err(|error| unreadable(error.to_string()))?;
            let comparison = compare_replays(&golden, &before, &after);
            let sentence = comparison.map_err(|cause| RecordingError::Fails { file: path.clone(), cause })?;
            let lines = golden.steps.iter().flat_map(|step| step.prints.lines()).map(str::to_owned).collect();
            Ok(RecordingCheck { checked: vec![sentence], lines })
        };
        self.disk.run_read(checking).await?
    }

    /// Returns the last screen of the recorded output at a visit to a state of a saved machine, if it was recorded.
    #[boxed]
    pub async fn recorded_output(
        &self,
        directory: &Path,
        name: &WorkflowName,
        state: &str,
        visit: u32,
    ) -> Option<String> {
        let (file, state) = (Library::open(directory).golden_file(name), state.to_owned());
        let reading = move || {
            let golden = Golden::read(&std::fs::read_to_string(file).ok()?).ok()?;
            let mut outputs: Vec<String> =
                golden.steps.into_iter().filter(|step| step.state == state).map(|step| step.prints).collect();
            let index = usize::try_from(visit).unwrap_or(usize::MAX).min(outputs.len()).checked_sub(1)?;
            Some(outputs.swap_remove(index)).filter(|text| !text.trim().is_empty())
        };
        let text = self.disk.run_read(reading).await.ok().flatten()?;
        Some(LastScreen::new(String::new(), &text).screen)
    }

    /// Saves a patched machine as the next version after the run's version. Returns the number of the saved version.
    /// Saving the same machine again changes nothing.
    ///
    /// # Errors
    ///
    /// If the machine in the library has changed, or writing fails.
    #[boxed]
    pub async fn save_repair(
        &self,
        directory: &Path,
        name: &WorkflowName,
        (before, after): (Value, Value),
        (by, reason): (String, String),
    ) -> Result<u32, SaveRepairError> {
        let (library, name) = (Library::open(directory), name.clone());
        let author = Author { by: Some(by), through: Some("repair".to_owned()), reason: Some(reason) };
        let saving = move || match library.replace(&name, (&before, &after), &author)? {
            Some(stored) => Ok(stored.metadata.version),
            None => Err(SaveRepairError::Changed(name)),
        };
        self.disk.run_write(saving).await?
    }
}

/// Replays a recording with the machine before and after a patch and describes the result.
///
/// # Errors
///
/// If only the unpatched machine passes. The error describes the difference.
fn compare_replays(golden: &Golden, before: &Definition, after: &Definition) -> Result<String, String> {
    let before_replay = match replay(golden, before) {
        Ok(rehearsal) if rehearsal.end == RehearsalEnd::Completed => rehearsal,
        _ => {
            let sentence = "Its recording does not match the current workflow, so the patch was not checked against it";
            return Ok(sentence.to_owned());
        }
    };
    let after_replay = replay(golden, after)?;
    match &after_replay.end {
        RehearsalEnd::Completed => {}
        RehearsalEnd::Failed { error } => return Err(error.clone()),
        RehearsalEnd::Stuck { error } => {
            return Err(match visited_states(&after_replay).last() {
                Some(state) if after.state(state).is_some_and(State::asks_when_unknown) => {
                    format!("it does not continue from state '{state}' after the output printed there")
                }
                _ => error.clone(),
            });
        }
    }
    let new_states: Vec<&str> = visited_states(&after_replay).filter(|name| before.state(name).is_none()).collect();
    let known_states = |rehearsal: &Rehearsal| -> Vec<String> {
        visited_states(rehearsal).filter(|name| before.state(name).is_some()).map(str::to_owned).collect()
    };
    let (expected, actual) = (known_states(&before_replay), known_states(&after_replay));
    match expected.iter().zip(&actual).find(|(expected, actual)| expected != actual) {
        Some((expected, actual)) => Err(format!("it goes to '{actual}' instead of '{expected}'")),
        None if expected.len() > actual.len() => Err(format!("it ends before '{}'", expected[actual.len()])),
        None if actual.len() > expected.len() => Err(format!("it continues with '{}'", actual[expected.len()])),
        None => Ok(describe_coverage(before, after, &new_states)),
    }
}

/// Describes the states that a passing recording covers; `visited` are the new states among them.
fn describe_coverage(before: &Definition, after: &Definition, visited: &[&str]) -> String {
    let is_new = |state: &&State| before.state(state.name()).is_none();
    let new_states: Vec<&str> = after.states().iter().filter(is_new).map(State::name).collect();
    let list = |names: &[&str]| names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    if new_states.is_empty() {
        let sentence = "Its recording passes with the patch, by the same states";
        let changed: Vec<&str> =
            before.states().iter().filter(|state| has_changed_action(state, after)).map(State::name).collect();
        return match &changed[..] {
            [] => sentence.to_owned(),
            changed => format!("{sentence}, but the new actions of these states were not recorded: {}", list(changed)),
        };
    }
    if visited.is_empty() {
        return format!("Its recording passes with the patch. It does not reach the new states: {}", list(&new_states));
    }
    format!("Its recording passes with the patch, but new states on its way were not recorded: {}", list(visited))
}

/// Returns whether the patch changes the action of a state. Ignores wait patterns and timeouts.
fn has_changed_action(state: &State, after: &Definition) -> bool {
    let comparable_action = |state: &State| {
        let mut params = state.action().params().clone();
        params.retain(|name, _| !matches!(name.as_str(), "pattern" | "patterns" | "timeout"));
        (state.action().tool().to_owned(), params)
    };
    after.state(state.name()).is_some_and(|patched| comparable_action(patched) != comparable_action(state))
}

fn visited_states(rehearsal: &Rehearsal) -> impl Iterator<Item = &str> {
    rehearsal.path.iter().filter_map(|step| match step {
        RehearsalStep::State { state, .. } => Some(state.as_str()),
        _ => None,
    })
}

fn replay(golden: &Golden, definition: &Definition) -> Result<Rehearsal, String> {
    let stubs = golden.stubs(|state| definition.state(state).is_some());
    let stubs = Stubs::read(&stubs, definition, &TerminalTools).map_err(|problems| problems.to_string())?;
    Ok(rehearse(definition, &stubs, golden.variables(definition), Limits::default()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use steplatch_capture::GoldenStep;

    use super::*;

    fn asking_machine(pattern: &str, next: &str) -> Definition {
        let document = json!({
            "name": "ask", "initial_state": "wait", "states": {
                "wait": {"action": {"tool": "await_output", "params": {"session_id": "{session_id}", "pattern": pattern}},
                         "transitions": [{"condition": "success", "next_state": next}], "on_unknown": "ask"},
                "say": {"action": {"tool": "return", "params": {"result": "said"}}},
                "skip": {"action": {"tool": "return", "params": {"result": "skipped"}}}
            }
        });
        Definition::parse(&document, &TerminalTools).unwrap_or_else(|problems| panic!("{problems}"))
    }

    fn recording() -> Golden {
        let step = GoldenStep { state: "wait".to_owned(), prints: "Continue? ".to_owned(), ..GoldenStep::default() };
        let mut golden = Golden { steps: vec![step], ..Golden::default() };
        golden.header.inputs.insert("session_id".to_owned(), "term_1".into());
        golden
    }

    #[test]
    fn patch_must_accept_old_and_new_form() {
        let before = asking_machine("Continue", "say");
        let check = |after: &Definition| compare_replays(&recording(), &before, after);
        assert_eq!(
            check(&asking_machine("Continue|Proceed", "say")),
            Ok("Its recording passes with the patch, by the same states".to_owned())
        );
        assert!(check(&asking_machine("Proceed", "say")).unwrap_err().contains("wait"));
        let mut document = asking_machine("Continue|Proceed", "say").document().clone();
        document["states"]["wait"]["action"]["params"]["reads"] = "any".into();
        let other_definition =
            Definition::parse(&document, &TerminalTools).unwrap_or_else(|problems| panic!("{problems}"));
        assert!(
            check(&other_definition)
                .unwrap()
                .ends_with("by the same states, but the new actions of these states were not recorded: 'wait'")
        );
        assert_eq!(check(&asking_machine("Continue", "skip")).unwrap_err(), "it goes to 'skip' instead of 'say'");
    }

    #[test]
    fn replay_visits_the_same_states_unless_a_state_is_new() {
        let before = asking_machine("Continue", "say");
        let check = |next: &str, patch: &dyn Fn(&mut Value)| {
            let mut document = asking_machine("Continue", next).document().clone();
            document["states"]["extra"] = json!({
                "action": {"tool": "run_command", "params": {"command": "true"}},
                "transitions": [{"condition": "success", "next_state": "say"}]
            });
            patch(&mut document);
            let after = Definition::parse(&document, &TerminalTools).unwrap_or_else(|problems| panic!("{problems}"));
            compare_replays(&recording(), &before, &after)
        };
        let not_reached = "Its recording passes with the patch. It does not reach the new states: 'extra'";
        assert_eq!(check("say", &|_| {}), Ok(not_reached.to_owned()));
        let passing_new_state = check("say", &|document| {
            document["states"]["wait"]["transitions"][0]["next_state"] = "extra".into();
        });
        let expected = "Its recording passes with the patch, but new states on its way were not recorded: 'extra'";
        assert_eq!(passing_new_state, Ok(expected.to_owned()));
    }
}
