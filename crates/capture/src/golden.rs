//! Golden transcripts: the recorded behaviour of each state of a captured workflow.
//!
//! A JSON Lines file: a header, then one line per state in the order of the recording. It is replayed without a
//! terminal: each wait searches the recorded output.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use steplatch_protocol::RunDifference;
use steplatch_workflow::Definition;

use crate::variation::{remove_volatile_text, without_numbers};

/// The version of the format.
const VERSION: u32 = 1;

/// Placeholder for a state that the run or the recording does not have.
const END_OF_RUN: &str = "the end of the run";

/// A golden transcript.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Golden {
    /// Facts about the recording.
    pub header: GoldenHeader,
    /// The actions of the states, in order.
    pub steps: Vec<GoldenStep>,
}

/// The first line of a golden transcript.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GoldenHeader {
    /// The version of the format.
    pub golden: u32,
    /// The name of the workflow.
    pub workflow_name: String,
    /// Time of the recording (ISO 8601, UTC).
    pub captured: String,
    /// The values of the arguments, without secrets.
    #[serde(default)]
    pub inputs: Map<String, Value>,
    /// Proof of the captured version of the workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<Proof>,
}

/// Runs that matched the recording.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// Time of the proof (ISO 8601, UTC).
    pub at: String,
    /// The version of steplatch.
    pub version: String,
    /// Name of the host of the runs.
    pub host: String,
    /// Hash of the workflow's behaviour at that time, as computed by the library.
    pub hash: String,
    /// The runs.
    pub runs: Vec<String>,
}

/// The recorded action of a state: a line of a golden transcript.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GoldenStep {
    /// The state.
    pub state: String,
    /// Output of the program, with secrets masked.
    #[serde(default)]
    pub prints: String,
    /// The exit code of the command that ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The answer of a gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// True if another capture of the same procedure had different output; comparisons skip it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub varies: bool,
    /// For a state of a run: true if `prints` is the complete output of a command, so that it can be compared.
    #[serde(skip)]
    pub has_output: bool,
    /// For a state of a run that waited: the match, such as the question of a program.
    #[serde(skip)]
    pub found: Option<String>,
}

/// Error in the text of a golden transcript.
#[derive(Debug)]
pub struct GoldenError {
    /// The line, from 1.
    pub line: usize,
    /// Cause of the error.
    pub cause: String,
}

impl std::fmt::Display for GoldenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.cause)
    }
}

impl std::error::Error for GoldenError {}

impl Golden {
    /// Returns the transcript of a capture. `captured_at` is its time (ISO 8601, UTC).
    #[must_use]
    pub fn from_captured(captured: &crate::CapturedMachine, workflow_name: &str, captured_at: &str) -> Self {
        let inputs =
            captured.argument_values.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
        let header = GoldenHeader {
            golden: VERSION,
            workflow_name: workflow_name.to_owned(),
            captured: captured_at.to_owned(),
            inputs,
            proof: None,
        };
        Self { header, steps: captured.golden.clone() }
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// Returns the first invalid line, or the line with a newer version.
    pub fn read(text: &str) -> Result<Self, GoldenError> {
        let line_error = |line: usize, cause: String| GoldenError { line: line + 1, cause };
        let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let (number, first) = lines.next().ok_or_else(|| line_error(0, "the file is empty".to_owned()))?;
        let header: GoldenHeader =
            serde_json::from_str(first).map_err(|error| line_error(number, format!("invalid header: {error}")))?;
        if header.golden > VERSION {
            return Err(line_error(number, format!("version {} is newer than {VERSION}", header.golden)));
        }
        let step = |(number, line): (usize, &str)| {
            serde_json::from_str(line).map_err(|error| line_error(number, error.to_string()))
        };
        Ok(Self { header, steps: lines.map(step).collect::<Result<_, _>>()? })
    }

    /// Returns the text of the file.
    #[must_use]
    pub fn text(&self) -> String {
        let header = serde_json::to_string(&self.header).unwrap_or_default();
        let steps = self.steps.iter().map(|step| serde_json::to_string(step).unwrap_or_default());
        std::iter::once(header).chain(steps).map(|line| format!("{line}\n")).collect()
    }

    /// Compares the states of a run with the recording, in order. `observed` has the executed states of the run; a
    /// state without output has empty `prints`.
    #[must_use]
    pub fn differences(&self, observed: &[GoldenStep]) -> Vec<RunDifference> {
        let mut differences = Vec::new();
        for (index, golden) in self.steps.iter().enumerate() {
            let Some(step) = observed.get(index).filter(|step| step.state == golden.state) else {
                let observed = observed.get(index).map_or(END_OF_RUN, |step| step.state.as_str());
                let (state, recorded) = (golden.state.clone(), golden.state.clone());
                differences.push(RunDifference {
                    state,
                    what: "state".to_owned(),
                    recorded,
                    observed: observed.to_owned(),
                });
                break;
            };
            let code = |code: Option<i32>| code.map_or_else(|| "none".to_owned(), |code| code.to_string());
            let mut differs = |what: &str, recorded: String, observed: String| {
                let what = what.to_owned();
                differences.push(RunDifference { state: golden.state.clone(), what, recorded, observed });
            };
            let is_command = step.has_output;
            // A command may still be running when the awaited text appears.
            let failed = |code: Option<i32>| code.filter(|code| *code != 0);
            let is_different_code = if is_command {
                step.exit_code != golden.exit_code
            } else {
                step.exit_code.is_some() && failed(step.exit_code) != failed(golden.exit_code)
            };
            if is_different_code {
                differs("exit_code", code(golden.exit_code), code(step.exit_code));
            }
            if let (Some(recorded), Some(observed)) = (&golden.found, &step.found)
                && without_numbers(recorded) != without_numbers(observed)
            {
                differs("match", recorded.clone(), observed.clone());
            }
            if is_command
                && !golden.varies
                && remove_volatile_text(&step.prints) != remove_volatile_text(&golden.prints)
            {
                differs("output", golden.prints.clone(), step.prints.clone());
            }
        }
        let has_same_states = differences.iter().all(|difference| difference.what != "state");
        if let Some(extra) = observed.get(self.steps.len()).filter(|_| has_same_states) {
            let (state, observed) = (extra.state.clone(), extra.state.clone());
            differences.push(RunDifference {
                state,
                what: "state".to_owned(),
                recorded: END_OF_RUN.to_owned(),
                observed,
            });
        }
        differences
    }

    /// Returns the variables of the recording, with a placeholder value for each secret.
    #[must_use]
    pub fn variables(&self, definition: &Definition) -> Map<String, Value> {
        let mut variables = self.header.inputs.clone();
        for secret in definition.arguments().iter().filter(|variable| variable.is_secret()) {
            variables.entry(secret.name().to_owned()).or_insert_with(|| "recorded-secret".into());
        }
        variables
    }

    /// Converts the transcript to a stub file for a rehearsal of a machine. Skips states that the machine does not
    /// have.
    #[must_use]
    pub fn stubs(&self, has_state: impl Fn(&str) -> bool) -> Value {
        let (mut states, mut gates) = (Map::new(), Map::new());
        let steps =
            self.steps.iter().filter(|step| has_state(&step.state) && (step.answer.is_some() || step.has_outcome()));
        for step in steps {
            let (stubs, value) = match &step.answer {
                Some(answer) => (&mut gates, Value::from(answer.as_str())),
                None => (&mut states, json!({"prints": step.prints, "exit_code": step.exit_code})),
            };
            if let Value::Array(list) = stubs.entry(step.state.clone()).or_insert_with(|| json!([])) {
                list.push(value);
            }
        }
        json!({"states": states, "gates": gates})
    }
}

impl GoldenStep {
    /// Returns whether the state has an outcome to compare: an opened terminal has no output and no exit code.
    fn has_outcome(&self) -> bool {
        !self.prints.is_empty() || self.exit_code.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transcript_round_trips() {
        let step = |state: &str, prints: &str, answer: Option<&str>| GoldenStep {
            state: state.to_owned(),
            prints: prints.to_owned(),
            exit_code: Some(0).filter(|_| answer.is_none()),
            answer: answer.map(str::to_owned),
            ..GoldenStep::default()
        };
        let header = GoldenHeader { golden: 1, workflow_name: "w".to_owned(), ..GoldenHeader::default() };
        let steps = vec![step("make", "built\n", None), step("confirm", "", Some("yes")), step("gone", "", None)];
        let golden = Golden { header, steps };
        assert_eq!(Golden::read(&golden.text()).unwrap(), golden);
        let stubs = golden.stubs(|state| state != "gone");
        assert_eq!(
            stubs,
            json!({"states": {"make": [{"prints": "built\n", "exit_code": 0}]}, "gates": {"confirm": ["yes"]}})
        );
    }

    #[test]
    fn run_is_compared_with_the_recording() {
        let step = |state: &str, prints: &str, exit_code| GoldenStep {
            state: state.to_owned(),
            prints: prints.to_owned(),
            exit_code,
            has_output: state == "make",
            ..GoldenStep::default()
        };
        let steps =
            vec![step("open", "", None), step("make", "took 1.5 s in /tmp/a1\n", Some(0)), step("push", "ok", Some(0))];
        let golden = Golden { steps, ..Golden::default() };
        let same =
            [step("open", "", None), step("make", "took 22.1 s in /tmp/b7", Some(0)), step("push", "ok\n", Some(0))];
        assert_eq!(golden.differences(&same), []);
        let more = [same.as_slice(), &[step("more", "", None)]].concat();
        assert_eq!(golden.differences(&more)[0].observed, "more");
        let other_steps = [step("open", "", None), step("make", "took long", Some(2))];
        let differences = golden.differences(&other_steps);
        let what: Vec<_> =
            differences.iter().map(|difference| (difference.state.as_str(), difference.what.as_str())).collect();
        assert_eq!(what, [("make", "exit_code"), ("make", "output"), ("push", "state")]);
        assert_eq!(differences[2].observed, "the end of the run");
    }

    #[test]
    fn invalid_line_is_reported_with_its_number() {
        assert_eq!(Golden::read("").unwrap_err().to_string(), "line 1: the file is empty");
        let error = Golden::read("{\"golden\":1,\"workflow_name\":\"w\",\"captured\":\"\"}\n\n{]").unwrap_err();
        assert_eq!(error.line, 3);
        assert!(Golden::read("{\"golden\":9,\"workflow_name\":\"w\",\"captured\":\"\"}").is_err());
    }
}
