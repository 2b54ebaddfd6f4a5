//! Skills for agents: the use of these terminals, and every proven workflow of the library.

use rmcp::model::JsonObject;
use serde_json::{Value, json};
use steplatch_protocol::{
    AskError, DescribeWorkflow, DescribeWorkflowReply, ListTools, ReconnectingClient, SkillName, ToolInfo, ToolScope,
    describe_arguments, describe_gates, example_arguments, plain_text,
};

use super::{more_tools, tools};
use crate::skills::SkillPackage;

/// Name of the skill about the terminals.
const TERMINALS: &str = "steplatch";

/// Maximum number of listed workflows. Others are found by their address.
const MAX_LISTED_WORKFLOWS: usize = 100;

/// Maximum length of a description (Agent Skills), in characters.
const MAX_DESCRIPTION_CHARS: usize = 1024;

const TERMINALS_DESCRIPTION: &str = "Drives programs that ask questions or stay open (installers, debuggers, ssh, REPLs, editors, \
dev servers, releases) in real terminals, and runs saved workflows of such steps. Use it when a command may prompt, needs a \
person's password or approval, or must be repeated in the same way.";

/// Returns the skills, that about the terminals first.
///
/// # Errors
/// If the daemon is unreachable.
pub(super) async fn all(daemon: &ReconnectingClient) -> Result<Vec<SkillPackage>, AskError> {
    let mut skills = vec![terminals()];
    for (name, workflow) in named_workflows(daemon).await?.into_iter().take(MAX_LISTED_WORKFLOWS) {
        skills.extend(workflow_skill(name, workflow, daemon).await?);
    }
    Ok(skills)
}

/// Returns the skill with this name.
///
/// # Errors
/// If the daemon is unreachable.
pub(super) async fn find(name: &SkillName, daemon: &ReconnectingClient) -> Result<Option<SkillPackage>, AskError> {
    if name.as_str() == TERMINALS {
        return Ok(Some(terminals()));
    }
    match named_workflows(daemon).await?.into_iter().find(|(known, _)| known == name) {
        Some((name, workflow)) => workflow_skill(name, workflow, daemon).await,
        None => Ok(None),
    }
}

/// Returns the proven workflows with the names of their skills. A workflow whose own name is permitted has it; of several
/// with a similar name, the first has the skill.
async fn named_workflows(daemon: &ReconnectingClient) -> Result<Vec<(SkillName, String)>, AskError> {
    let listed = daemon.call(ListTools { scope: Some(ToolScope::Library) }).await?.tools;
    Ok(name_skills(listed))
}

fn name_skills(mut workflows: Vec<ToolInfo>) -> Vec<(SkillName, String)> {
    let has_own_name = |workflow: &ToolInfo| workflow.workflow_id.parse::<SkillName>().is_ok();
    workflows.sort_by_key(|workflow| (!has_own_name(workflow), workflow.workflow_id.clone()));
    let mut named: Vec<(SkillName, String)> = Vec::new();
    for workflow in workflows {
        let name = SkillName::for_workflow(&workflow.workflow_id);
        if name.as_str() != TERMINALS && !named.iter().any(|(known, _)| *known == name) {
            named.push((name, workflow.workflow_id));
        }
    }
    named.sort_by(|left, right| left.1.cmp(&right.1));
    named
}

/// Returns the skill of a workflow. `None` if the workflow was removed.
async fn workflow_skill(
    name: SkillName,
    workflow: String,
    daemon: &ReconnectingClient,
) -> Result<Option<SkillPackage>, AskError> {
    let described = daemon.call(DescribeWorkflow { name: workflow.clone() }).await?;
    Ok(described.success.then(|| package_workflow(name, &workflow, &described)))
}

fn package_workflow(name: SkillName, workflow: &str, described: &DescribeWorkflowReply) -> SkillPackage {
    let purpose = plain_text(described.description.as_deref().unwrap_or_default());
    let usage = format!("Runs the proven workflow {workflow} in real terminals: the same steps and checks every time.");
    let purpose = match purpose.trim_end_matches('.') {
        "" => String::new(),
        question if question.ends_with(['?', '!']) => format!("{question} "),
        purpose => format!("{purpose}. "),
    };
    let max_purpose_chars = MAX_DESCRIPTION_CHARS - usage.chars().count();
    let description = match purpose.chars().count() <= max_purpose_chars {
        true => format!("{purpose}{usage}"),
        false => format!("{}… {usage}", purpose.chars().take(max_purpose_chars - 2).collect::<String>()),
    };

    let variables: JsonObject =
        example_arguments(&described.arguments).map(|argument| (argument.name.clone(), json!("…"))).collect();
    let mut call = json!({"workflow_name": workflow});
    if !variables.is_empty() {
        call["initial_variables"] = Value::Object(variables);
    }
    let mut body = format!(
        "# {workflow}\n\n{purpose}Call the tool `run_workflow` with:\n\n```json\n{call}\n```\n\nIt returns at the end of the run, at \
         a question, or after 20 seconds with a run_id: then `get_run` waits on. Report a failed run with its error; do not \
         type its steps by hand. A run can ask a question at any step, such as at a screen that it does not know: \
         pending_gate says who may answer.\n"
    );
    if !described.arguments.is_empty() {
        body.push_str(&format!("\n## Arguments\n\n{}", describe_arguments(&described.arguments)));
        if described.arguments.iter().any(|argument| argument.secret) {
            body.push_str("\nNever ask for a secret and never write one down: a person supplies it.\n");
        }
    }
    body.extend(described.definition.as_ref().and_then(describe_questions));
    let package = |body: &str| SkillPackage::new(name.clone(), &description, body);
    match (&described.definition, &described.source) {
        (Some(definition), _) => {
            body.push_str("\n## Steps\n\n[references/machine.json](references/machine.json) is the state machine.\n");
            let machine = format!("{definition:#}\n");
            package(&body).with_file("references/machine.json", "application/json", machine)
        }
        (None, Some(source)) => {
            body.push_str("\n## Steps\n\n[references/function.py](references/function.py) is the function.\n");
            package(&body).with_file("references/function.py", "text/x-python", source.text.clone())
        }
        (None, None) => package(&body),
    }
}

/// Describes the gates of a machine.
fn describe_questions(definition: &Value) -> Option<String> {
    let states = definition["states"].as_object()?;
    let gates = states.values().filter(|state| state["action"]["tool"] == "gate");
    let table = describe_gates(gates.filter_map(|state| state["action"]["params"].as_object()))?;
    Some(format!(
        "\n## Questions\n\nThe run waits at each of these until it is answered. A person answers with `steplatch gates answer` or on the \
         page; `decide` answers what an agent may.\n\n{table}"
    ))
}

/// Returns the skill about the terminals: the instructions of the server, and the tools outside the core.
fn terminals() -> SkillPackage {
    let name = TERMINALS.parse().expect("the name is permitted");
    let body = format!(
        "# Terminals and workflows\n\n{}\n\n[references/tools.md](references/tools.md) lists the tools that a short list lacks; \
         `{}` calls them.\n",
        super::INSTRUCTIONS,
        more_tools::MORE_TOOLS
    );
    let list = more_tools::list(tools::outside_core());
    let rows: String = list.lines().map(|line| format!("- {line}\n")).collect();
    SkillPackage::new(name, TERMINALS_DESCRIPTION, &body).with_file(
        "references/tools.md",
        "text/markdown",
        format!("# More tools\n\n{rows}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(workflow: &str) -> ToolInfo {
        serde_json::from_value(json!({
            "name": format!("workflow_{workflow}"), "title": workflow, "description": "", "source": "library",
            "workflow_id": workflow, "input_schema": {},
        }))
        .unwrap()
    }

    #[test]
    fn workflow_keeps_its_name_where_it_is_permitted() {
        let workflows = ["Build_App", "build-app", "build_app", "steplatch", "zoo"].map(tool).to_vec();
        let named: Vec<(String, String)> =
            name_skills(workflows).into_iter().map(|(name, workflow)| (name.to_string(), workflow)).collect();
        let expected = [("build-app", "build-app"), ("zoo", "zoo")];
        assert_eq!(named, expected.map(|(name, workflow)| (name.to_owned(), workflow.to_owned())));
    }

    #[test]
    fn skill_of_a_workflow_shows_its_call_arguments_and_questions() {
        let described: DescribeWorkflowReply = serde_json::from_value(json!({
            "success": true, "name": "release", "description": "Releases <b>the</b>\nshop.",
            "arguments": [
                {"name": "VERSION", "required": true, "description": "Like 1.2"},
                {"name": "TOKEN", "required": true, "secret": true},
                {"name": "HOME", "required": true},
            ],
            "definition": {"states": {"ask": {"action": {"tool": "gate", "params": {
                "prompt": "Push | now?", "choices": ["yes", "no"], "answered_by": "human"}}}}},
        }))
        .unwrap();
        let package = package_workflow("release".parse().unwrap(), "release", &described);
        let entry = package.entry();
        entry.validate().unwrap();
        assert!(entry.frontmatter.description.starts_with("Releases b the /b shop. Runs the proven workflow release"));
        let text =
            serde_json::to_value(package.read("SKILL.md").unwrap()).unwrap()["text"].as_str().unwrap().to_owned();
        for part in [
            r#"{"workflow_name":"release","initial_variables":{"VERSION":"…"}}"#,
            "| `VERSION` | required | `Like 1.2` |",
            "| `TOKEN` | required, secret |",
            "| `Push \\| now?` | `yes, no` | a person only |",
            "(references/machine.json)",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(package.read("references/machine.json").is_some());
    }

    #[test]
    fn skill_about_terminals_lists_the_tools_outside_the_core() {
        let package = terminals();
        package.entry().validate().unwrap();
        let list = serde_json::to_value(package.read("references/tools.md").unwrap()).unwrap()["text"].to_string();
        assert!(list.contains("- decide: ") && !list.contains("- send_input: "), "{list}");
    }
}
