//! Agent Skills: a workflow as a directory that an agent finds by the description, reads and runs
//! (<https://agentskills.io>).
//!
//! Pure: the module creates the name of the directory, its texts, and a machine that needs no library. An agent always
//! reads the description; the steps are in a separate file for reading on demand.

mod standalone;

use std::fmt::Write as _;

use serde_json::Value;
use steplatch_protocol::{
    ContractVariable, SkillName, describe_arguments, describe_gates, example_arguments, plain_text, table_cell,
};
use steplatch_workflow::{Definition, State, tool};

pub(crate) use standalone::{NotStandalone, called_workflows, include_called};

use crate::typed_inputs::typed_inputs;

/// Maximum lengths of a description and of the compatibility note in the format.
const MAX_DESCRIPTION_CHARS: usize = 1024;
const MAX_COMPATIBILITY_CHARS: usize = 500;

/// Path of the file with the steps in the directory.
pub(crate) const STEPS_FILE: &str = "references/steps.md";

/// A workflow as a skill.
#[derive(Debug)]
pub(crate) struct Skill<'s> {
    /// Name of the skill and of its directory.
    pub(crate) name: &'s SkillName,
    /// Name of the workflow.
    pub(crate) workflow: &'s str,
    /// Argument of `steplatch run`, relative to the directory: a file, with a function in it.
    pub(crate) target: &'s str,
    /// Purpose of the workflow.
    pub(crate) description: Option<&'s str>,
    /// Arguments of the workflow.
    pub(crate) arguments: &'s [ContractVariable],
    /// The machine. `None` for a function.
    pub(crate) machine: Option<&'s Definition>,
    /// Times of the capture and the proof, if known (ISO 8601, UTC).
    pub(crate) captured: Option<&'s str>,
    pub(crate) proved: Option<&'s str>,
}

impl Skill<'_> {
    /// Returns the text of SKILL.md.
    pub(crate) fn text(&self) -> String {
        let mut text = self.frontmatter();
        let Self { workflow, target, .. } = self;
        // Writing to a String does not fail, here or below.
        let _ = writeln!(text, "\n# {}\n", self.name);
        if let Some(description) = self.description {
            let _ = writeln!(text, "{}\n", plain_text(description));
        }
        let _ = writeln!(text, "## How to run it\n");
        let _ = writeln!(
            text,
            "In the directory to work in, with the path of the directory of this file instead of `SKILL_DIR`:\n"
        );
        let _ = writeln!(text, "```sh\nsteplatch run SKILL_DIR/{target}{}\n```\n", self.example_arguments());
        text.push_str(
            "The command ends with the run. Exit code 0: completed. 1: failed, with the reason. 3: the run waits at a \
             question, which it prints. `--json` prints the result as JSON, `--detach` the id of the run at once.\n",
        );
        if self.machine.is_some_and(|machine| machine.states().iter().any(State::asks_when_unknown)) {
            text.push_str(
                "\nIf a program shows an unexpected screen, the run stops and asks; it never guesses. `steplatch gates list` \
                 shows the question with the expected screens, `steplatch gates show GATE` all details. Type the input that \
                 the program needs into the terminal of the run (`steplatch terminal send`), then choose the state at which \
                 the run continues: `steplatch gates answer GATE STATE`.\n",
            );
        }
        self.write_arguments(&mut text);
        self.write_gates(&mut text);
        let _ = writeln!(text, "\n## What it needs\n\n{}", self.requirements());
        if self.machine.is_some() {
            let _ = writeln!(
                text,
                "\n## What it does\n\n[{STEPS_FILE}]({STEPS_FILE}) lists the typed input of each state."
            );
        }
        if self.captured.is_some() {
            let _ = writeln!(
                text,
                "\n`steplatch workflow test SKILL_DIR/{target}` plays `{workflow}` against the recording beside it, without a \
                 terminal."
            );
        }
        text
    }

    /// Returns the text of the file with the steps. `None` for a function.
    pub(crate) fn steps(&self) -> Option<String> {
        let mut text = format!("# What `{}` types\n", self.workflow);
        write_steps(&mut text, self.machine?);
        Some(text)
    }

    fn frontmatter(&self) -> String {
        let mut text = format!("---\nname: {}\n", self.name);
        let purpose = self.description.map(plain_text).unwrap_or_default();
        let usage = format!(
            "Runs the tested terminal workflow '{}' with one steplatch command, in real terminals, with fixed steps and checks. \
             Use it for this task instead of typing the commands one by one.",
            self.workflow
        );
        let max_purpose_chars = MAX_DESCRIPTION_CHARS - usage.chars().count() - 2;
        let mut purpose: String = purpose.trim_end_matches('.').chars().take(max_purpose_chars).collect();
        if !purpose.is_empty() {
            purpose.push_str(". ");
        }
        let compatibility: String = plain_text(&self.requirements()).chars().take(MAX_COMPATIBILITY_CHARS).collect();
        let _ = writeln!(text, "description: {}", yaml_string(&format!("{purpose}{usage}")));
        let _ = writeln!(text, "compatibility: {}", yaml_string(&compatibility));
        let _ = writeln!(text, "metadata:\n  workflow: {}", yaml_string(self.workflow));
        let _ = writeln!(text, "  steplatch: {}", yaml_string(env!("CARGO_PKG_VERSION")));
        for (key, value) in [("captured", self.captured), ("proved", self.proved)] {
            if let Some(value) = value {
                let _ = writeln!(text, "  {key}: {}", yaml_string(value));
            }
        }
        text.push_str("---\n");
        text
    }

    /// Returns the required arguments for an example of a command line.
    fn example_arguments(&self) -> String {
        example_arguments(self.arguments).map(|argument| format!(" -i {}='…'", argument.name)).collect()
    }

    fn write_arguments(&self, text: &mut String) {
        if self.arguments.is_empty() {
            return;
        }
        text.push_str("\n## Arguments\n\n");
        text.push_str(&describe_arguments(self.arguments));
        text.push_str("\nSet each with `-i NAME=VALUE`, or with the environment variable of the same name.\n");
        if self.arguments.iter().any(|argument| argument.secret) {
            text.push_str(
                "Secrets: never ask for a secret, and never write one down. `steplatch run` asks the person at its terminal; \
                 otherwise the person sets the environment variable first.\n",
            );
        }
    }

    fn write_gates(&self, text: &mut String) {
        let Some(machine) = self.machine else { return };
        let gates = machine.states().iter().filter(|state| state.action().tool() == tool::GATE);
        if let Some(table) = describe_gates(gates.map(|state| state.action().params())) {
            let _ = writeln!(
                text,
                "\n## Questions\n\nThe run waits at each of these until it is answered (`steplatch gates answer`).\n\n{}",
                table.trim_end()
            );
        }
    }

    /// Describes the requirements of a run in a sentence.
    fn requirements(&self) -> String {
        let mut needs = format!("Linux, and steplatch {} or later", env!("CARGO_PKG_VERSION"));
        let programs = self.machine.map(programs).unwrap_or_default();
        if !programs.is_empty() {
            let _ = write!(needs, ", and the programs that its commands begin with: {}", programs.join(", "));
        }
        needs.push('.');
        needs
    }
}

/// Returns the shells and programs that a machine starts, without duplicates.
fn programs(machine: &Definition) -> Vec<String> {
    let mut programs: Vec<String> = Vec::new();
    let mut add = |program: String| {
        if !programs.contains(&program) {
            programs.push(program);
        }
    };
    let mut is_at_prompt = false;
    for state in machine.states() {
        let params = state.action().params();
        let param = |name: &str| mask_placeholders(params.get(name).and_then(Value::as_str).unwrap_or_default());
        match state.action().tool() {
            tool::OPEN_TERMINAL => {
                steplatch_capture::programs_in_command(&param("shell")).into_iter().for_each(&mut add);
                is_at_prompt = true;
            }
            tool::RUN_COMMAND if is_at_prompt => {
                steplatch_capture::programs_in_command(&param("command")).into_iter().for_each(&mut add);
            }
            tool::SEND_INPUT | tool::AWAIT_OUTPUT => {
                if is_at_prompt && state.action().tool() == tool::SEND_INPUT {
                    steplatch_capture::programs_in_command(&param("input_text")).into_iter().for_each(&mut add);
                }
                is_at_prompt =
                    param("until") == "prompt" || (is_at_prompt && state.action().tool() == tool::AWAIT_OUTPUT);
            }
            _ => {}
        }
    }
    programs
}

/// Replaces each placeholder in a command with `$`, because `$` cannot be the name of a program.
fn mask_placeholders(command: &str) -> String {
    let mut replaced = String::new();
    let mut remaining = command;
    while let Some((before, after)) = remaining.split_once('{') {
        replaced.push_str(before);
        match after.split_once('}').filter(|(name, _)| !name.contains(char::is_whitespace)) {
            Some((_, after)) => {
                replaced.push('$');
                remaining = after;
            }
            None => {
                replaced.push('{');
                remaining = after;
            }
        }
    }
    replaced + remaining
}

/// Writes the typed input of a machine, followed by the typed input of the embedded machines.
fn write_steps(text: &mut String, machine: &Definition) {
    text.push_str("\n| state | types |\n|---|---|\n");
    for (state, typed) in typed_inputs(machine) {
        let _ = writeln!(text, "| {state} | {} |", table_cell(&typed));
    }
    for state in machine.states() {
        let params = state.action().params();
        let inner = params.get("workflow_definition").into_iter();
        let parallel = params.get("workflows");
        let named_branches = parallel.and_then(Value::as_object).into_iter().flatten().map(|(_, value)| value);
        let listed_branches = parallel.and_then(Value::as_array).into_iter().flatten();
        let inner =
            inner.chain(named_branches.chain(listed_branches).filter_map(|start| start.get("workflow_definition")));
        for document in inner {
            if let Ok(inner) = Definition::parse(document, &steplatch_daemon::TerminalTools) {
                let name = inner.name().map_or("a workflow within it", |name| name.as_str());
                let _ = writeln!(text, "\n## State `{}` runs `{name}`", state.name());
                write_steps(text, &inner);
            }
        }
    }
}

/// Formats text as a double-quoted scalar of YAML. YAML is a superset of JSON.
fn yaml_string(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steplatch_daemon::TerminalTools;

    use super::*;

    fn machine() -> Definition {
        let document = json!({"name": "release", "initial_state": "open", "arguments": {"V": "The version", "PW": {"secret": true}},
            "states": {
            "open": {"action": {"tool": "open_terminal", "params": {"shell": "/bin/bash"}}, "transitions": [{"condition": "success", "next_state": "make"}]},
            "make": {"action": {"tool": "run_command", "params": {"command": "make | tee 'log {V}'"}}, "transitions": [{"condition": "success", "next_state": "confirm"}], "on_unknown": "ask"},
            "confirm": {"action": {"tool": "gate", "params": {"prompt": "Push?", "choices": ["yes", "no"], "answered_by": "human"}}, "transitions": [{"condition": {}, "next_state": "push"}]},
            "push": {"action": {"tool": "send_input", "params": {"input_text": "{PW}\n", "secret": true}}}}});
        Definition::parse(&document, &TerminalTools).unwrap()
    }

    fn variable(name: &str, secret: bool) -> ContractVariable {
        ContractVariable { name: name.to_owned(), required: true, secret, ..ContractVariable::default() }
    }

    #[test]
    fn skill_explains_how_to_run_it() {
        let (machine, name) = (machine(), "release-app".parse().unwrap());
        let arguments = [variable("V", false), variable("PW", true)];
        let long = "Builds \"it\" <b>\nand pushes. ".repeat(80);
        let skill = Skill {
            name: &name,
            workflow: "release",
            target: "scripts/release.json",
            description: Some(&long),
            arguments: &arguments,
            machine: Some(&machine),
            captured: None,
            proved: None,
        };
        let text = skill.text();
        let front: Vec<&str> = text.lines().skip(1).take_while(|line| *line != "---").collect();
        assert_eq!(front[0], "name: release-app");
        let description: String = serde_json::from_str(front[1].strip_prefix("description: ").unwrap()).unwrap();
        assert_eq!(description.chars().count(), MAX_DESCRIPTION_CHARS, "{description}");
        assert!(!description.contains(['<', '>', '\n']));
        for part in [
            "steplatch run SKILL_DIR/scripts/release.json -i V='…'\n",
            "begin with: bash, make, tee.",
            "| `PW` | required, secret |",
            "| `Push?` | `yes, no` | a person only |",
            "it never guesses",
            "(references/steps.md)",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        let steps = skill.steps().unwrap();
        assert!(
            steps.contains("| make | `make \\| tee 'log {V}'` |") && steps.contains("| push | `••••••` |"),
            "{steps}"
        );
    }
}
