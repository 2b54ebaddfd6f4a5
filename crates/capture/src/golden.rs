//! Golden transcripts: what each state did when a workflow was captured.
//!
//! A file of lines of JSON: a header, then one line for each state in the order of the recording. It is played without a
//! terminal: each wait is searched in what was printed then.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The version of the format.
const VERSION: u32 = 1;

/// A golden transcript.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Golden {
    /// What the recording was made with.
    pub header: GoldenHeader,
    /// What each state did, in order.
    pub steps: Vec<GoldenStep>,
}

/// The first line of a golden transcript.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GoldenHeader {
    /// The version of the format.
    pub golden: u32,
    /// The name of the workflow.
    pub workflow_name: String,
    /// When it was recorded (ISO 8601, UTC).
    pub captured: String,
    /// The values of the arguments, without secrets.
    #[serde(default)]
    pub inputs: Map<String, Value>,
}

/// What a state did when it was recorded: a line of a golden transcript.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GoldenStep {
    /// The state.
    pub state: String,
    /// What the program printed, with secrets masked.
    #[serde(default)]
    pub prints: String,
    /// The exit code of the command that ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The answer of a gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
}

/// Why a text is no golden transcript.
#[derive(Debug)]
pub struct GoldenError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub cause: String,
}

impl std::fmt::Display for GoldenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.cause)
    }
}

impl std::error::Error for GoldenError {}

impl Golden {
    /// Returns the transcript of a capture that was made at this moment (ISO 8601, UTC).
    #[must_use]
    pub fn of(captured: &crate::Captured, workflow_name: &str, at: &str) -> Self {
        let inputs = captured.inputs.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
        let header =
            GoldenHeader { golden: VERSION, workflow_name: workflow_name.to_owned(), captured: at.to_owned(), inputs };
        Self { header, steps: captured.golden.clone() }
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// With the first line that is not one of a golden transcript, or that has a later version.
    pub fn read(text: &str) -> Result<Self, GoldenError> {
        let wrong = |line: usize, cause: String| GoldenError { line: line + 1, cause };
        let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let (number, first) = lines.next().ok_or_else(|| wrong(0, "the file is empty".to_owned()))?;
        let header: GoldenHeader =
            serde_json::from_str(first).map_err(|error| wrong(number, format!("this is no header: {error}")))?;
        if header.golden > VERSION {
            return Err(wrong(number, format!("version {} is newer than {VERSION}", header.golden)));
        }
        let step = |(number, line): (usize, &str)| {
            serde_json::from_str(line).map_err(|error| wrong(number, error.to_string()))
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

    /// Returns the transcript as a stub file for the rehearsal of a machine, without states that the machine does not have.
    #[must_use]
    pub fn stubs(&self, has_state: impl Fn(&str) -> bool) -> Value {
        let (mut states, mut gates) = (Map::new(), Map::new());
        let known =
            self.steps.iter().filter(|step| has_state(&step.state) && (step.answer.is_some() || step.is_said()));
        for step in known {
            let (all, value) = match &step.answer {
                Some(answer) => (&mut gates, Value::from(answer.as_str())),
                None => (&mut states, json!({"prints": step.prints, "exit_code": step.exit_code})),
            };
            if let Value::Array(list) = all.entry(step.state.clone()).or_insert_with(|| json!([])) {
                list.push(value);
            }
        }
        json!({"states": states, "gates": gates})
    }
}

impl GoldenStep {
    /// Whether something came of the state: the opening of a terminal prints nothing and has no exit code.
    fn is_said(&self) -> bool {
        !self.prints.is_empty() || self.exit_code.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transcript_is_read_as_it_was_written() {
        let step = |state: &str, prints: &str, answer: Option<&str>| GoldenStep {
            state: state.to_owned(),
            prints: prints.to_owned(),
            exit_code: Some(0).filter(|_| answer.is_none()),
            answer: answer.map(str::to_owned),
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
    fn a_broken_line_is_named() {
        assert_eq!(Golden::read("").unwrap_err().to_string(), "line 1: the file is empty");
        let error = Golden::read("{\"golden\":1,\"workflow_name\":\"w\",\"captured\":\"\"}\n\n{]").unwrap_err();
        assert_eq!(error.line, 3);
        assert!(Golden::read("{\"golden\":9,\"workflow_name\":\"w\",\"captured\":\"\"}").is_err());
    }
}
