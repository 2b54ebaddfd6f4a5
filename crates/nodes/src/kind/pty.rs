//! PTY nodes. A call types into a persistent program in a terminal. This crate only prepares the start of the program.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use steplatch_pattern::Pattern;
use steplatch_workflow::{DialogueScript, Problem};

use super::NodeSettings;
use super::bash::directory;
use crate::context::NodeEnvironment;
use crate::node::{read_object, schema_of};
use crate::outcome::Failure;
use crate::template::TemplateValues;

/// Types its input into a running program; the output is the text until the program is ready again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pty {
    /// Command line of the program
    pub command: String,
    /// Working directory (default: the workspace)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Environment variables; {secret:NAME} is a secret by reference
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Condition under which the program is ready for the next input
    #[serde(default)]
    pub ready: Ready,
    /// Reader of the program's screen
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parser: Option<crate::pane::Parser>,
    /// Answers to the program's questions, as in the action dialogue: rules, until, timeout, max_answers. The output
    /// is then the text that it printed until the end of the dialogue
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dialogue: Option<Map<String, Value>>,
}

/// Condition under which a persistent program is ready for the next input.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ready {
    /// The shell reports that it is at its prompt
    #[default]
    Shell,
    /// The program has printed nothing for a while
    Quiet,
    /// The output ends with this pattern
    Pattern(String),
}

impl NodeSettings for Pty {
    const IS_PERFORMED_HERE: bool = false;

    fn read(fields: &Map<String, Value>, common_keys: &[String], problems: &mut Vec<Problem>) -> Option<Self> {
        let pty: Self = read_object(fields, "", "a pty node", common_keys, problems)?;
        if let Ready::Pattern(pattern) = &pty.ready
            && let Err(error) = Pattern::new(pattern)
        {
            problems.push(Problem::error("/ready/pattern", error.to_string()));
            return None;
        }
        if let Some(Err(dialogue_problems)) = pty.dialogue.as_ref().map(DialogueScript::read) {
            problems.extend(
                dialogue_problems
                    .into_iter()
                    .map(|problem| Problem { pointer: format!("/dialogue{}", problem.pointer), ..problem }),
            );
            return None;
        }
        Some(pty)
    }

    fn schema() -> Value {
        schema_of::<Self>()
    }
}

impl Pty {
    /// Returns the working directory and the variables for starting the program.
    pub(crate) async fn start(
        &self,
        node_environment: &NodeEnvironment,
    ) -> Result<(PathBuf, BTreeMap<String, String>), Failure> {
        // The component that types the dialogue's answers resolves their secrets.
        let declared = serde_json::to_value(Self { dialogue: None, ..self.clone() }).unwrap_or_default();
        let template_values = TemplateValues::new(&declared, &Value::Null, &*node_environment.secrets).await?;
        let environment = self.env.iter().map(|(name, value)| (name.clone(), template_values.text(value))).collect();
        Ok((directory(self.cwd.as_deref(), &template_values, node_environment), environment))
    }
}
