//! The tools that a machine may use, with the descriptions of the contract.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value};
use steplatch_protocol::{
    AwaitOutput, ExitTerminal, GetFile, GetScreenContent, ListTerminalSessions, OpenTerminal, PutFile, RunCommand,
    RunGraph, RunNode, SendInput, VERBS, Verb as _, VerbInfo, check,
};
use steplatch_workflow::{Problem, ToolCatalog};

/// Terminal tools and nodes: the actions of a machine in this daemon, in addition to the general ones.
#[derive(Debug, Clone, Copy)]
pub struct TerminalTools;

/// The tools that are actions of machines, each with the name of its verb.
const ACTIONS: [(&str, &str); 11] = [
    ("open_terminal", OpenTerminal::NAME),
    ("run_command", RunCommand::NAME),
    ("send_input", SendInput::NAME),
    ("await_output", AwaitOutput::NAME),
    ("get_screen_content", GetScreenContent::NAME),
    ("list_terminal_sessions", ListTerminalSessions::NAME),
    ("exit_terminal", ExitTerminal::NAME),
    ("put_file", PutFile::NAME),
    ("get_file", GetFile::NAME),
    ("run_node", RunNode::NAME),
    ("run_graph", RunGraph::NAME),
];

/// Returns the verb of an action's tool.
pub fn verb(tool: &str) -> Option<&'static VerbInfo> {
    let (_, name) = ACTIONS.into_iter().find(|(known, _)| *known == tool)?;
    VERBS.iter().find(|verb| verb.name == name)
}

impl ToolCatalog for TerminalTools {
    fn tools(&self) -> Vec<String> {
        ACTIONS.into_iter().map(|(tool, _)| tool.to_owned()).collect()
    }

    fn check(&self, tool: &str, params: &Map<String, Value>) -> Vec<Problem> {
        let Some(verb) = verb(tool) else { return Vec::new() };
        // The value of a variable is known only when the state is entered.
        let has_placeholder = |value: &Value| value.to_string().contains('{');
        check(&(verb.parameters)(), params, has_placeholder)
            .into_iter()
            .filter(|(field, _)| field != "session_id" || params.contains_key(field))
            .map(|(field, problem)| Problem::error(format!("/{field}"), problem))
            .collect()
    }

    fn schema(&self, tool: &str) -> Option<Value> {
        let mut schema = (verb(tool)?.parameters)();
        // The verb's description is for direct callers, not for the author of a machine.
        let description = match tool {
            "run_command" => {
                "Run one command in the run's shell, or in a new shell if the run has no terminal. The result has its \
                 output and exit code. It fails if the exit code is not 0."
            }
            "run_node" => {
                "Call a node of the project: a command, a request, a tool, a model … The node's result is the result of the action."
            }
            "run_graph" => {
                "Run a graph of nodes of the project. The graph's result is the result of the action; `output` is the output of the last step."
            }
            _ => return Some(schema),
        };
        schema["description"] = description.into();
        Some(schema)
    }

    fn fields(&self, tool: &str) -> Option<Vec<String>> {
        // Cached, because a reply's schema is generated on each request.
        static FIELDS: LazyLock<BTreeMap<&str, Vec<String>>> = LazyLock::new(|| {
            // The result of a node depends on the node.
            let terminal_tools = ACTIONS.into_iter().filter(|(tool, _)| !matches!(*tool, "run_node" | "run_graph"));
            let fields =
                |(tool, _)| Some((tool, (verb(tool)?.reply)()["properties"].as_object()?.keys().cloned().collect()));
            terminal_tools.filter_map(fields).collect()
        });
        FIELDS.get(tool).cloned()
    }

    fn has_judges(&self) -> bool {
        true
    }

    fn takes_session(&self, tool: &str) -> bool {
        verb(tool).is_some_and(|verb| !(verb.parameters)()["properties"]["session_id"].is_null())
    }

    fn takes_text(&self, tool: &str, param: &str) -> bool {
        let Some(verb) = verb(tool) else { return false };
        let schema = &(verb.parameters)()["properties"][param];
        [&schema["type"], &schema["items"]["type"], &schema["additionalProperties"]["type"]]
            .into_iter()
            .any(|kind| kind == "string")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steplatch_workflow::{Definition, tool, weakenings};

    use super::*;

    /// Returns a machine, and the same machine with a new first state that performs this action.
    fn with_new_state(action: &Value) -> (Definition, Definition) {
        let states = json!({"over": {"action": {"tool": "return", "params": {"result": 1}}}});
        let mut document = json!({"name": "m", "initial_state": "over", "states": states});
        let parse = |document: &Value| {
            Definition::parse(document, &TerminalTools).unwrap_or_else(|problems| panic!("{document}: {problems}"))
        };
        let before = parse(&document);
        document["states"]["new"] = json!({"action": action});
        if !matches!(action["tool"].as_str(), Some("return" | "fail")) {
            document["states"]["new"]["transitions"] = json!([{"condition": {}, "next_state": "over"}]);
        }
        document["initial_state"] = "new".into();
        (before, parse(&document))
    }

    #[test]
    fn new_state_is_a_weakening_unless_it_only_asks_waits_or_reads() {
        // Words of the sentence about each action. A passive action has none.
        let cases: [(&str, Value, &[&str]); 20] = [
            ("open_terminal", json!({"shell": "ssh box"}), &["it opens a terminal with \"ssh box\""]),
            ("run_command", json!({"command": "rm *"}), &["it runs \"rm *\""]),
            ("send_input", json!({"session_id": "t", "input_text": "y\n"}), &["it types \"y\\n\""]),
            ("send_input", json!({"session_id": "t", "keys": ["ctrl-c"]}), &["it presses [\"ctrl-c\"]"]),
            (
                "send_input",
                json!({"session_id": "t", "input_text": "x", "keys": ["enter"], "secret": true}),
                &["it types \"x\"", "\"keys\":[\"enter\"]", "\"secret\":true"],
            ),
            ("exit_terminal", json!({"session_id": "t"}), &["it closes the terminal \"t\""]),
            ("put_file", json!({"path": "a", "content": "evil"}), &["it writes the file \"a\"", "evil"]),
            ("get_file", json!({"path": "a", "to": "b"}), &["it reads the file \"a\"", "\"to\":\"b\""]),
            ("run_node", json!({"node_id": "n"}), &["it calls the node \"n\""]),
            ("run_graph", json!({"graph_id": "g"}), &["it calls the graph \"g\""]),
            ("run_workflow", json!({"workflow_name": "w"}), &["it starts the workflow \"w\""]),
            ("parallel", json!({"workflows": {"a": {"workflow_name": "w"}}}), &["it starts at once", "\"w\""]),
            (
                "dialogue",
                json!({"session_id": "t", "rules": [{"when": "sure", "type": "y\n"}], "until": "done"}),
                &["it answers by rules", "\"type\":\"y\\n\""],
            ),
            ("await_output", json!({"session_id": "t", "pattern": "x"}), &[]),
            ("get_screen_content", json!({"session_id": "t"}), &[]),
            ("list_terminal_sessions", json!({}), &[]),
            ("gate", json!({"prompt": "Go on?", "choices": ["yes"]}), &[]),
            ("sleep", json!({"seconds": 1}), &[]),
            ("set", json!({"a": 1}), &[]),
            ("fail", json!({"message": "no"}), &[]),
        ];
        let covered: Vec<&str> = cases.iter().map(|(tool, ..)| *tool).collect();
        for tool in TerminalTools.tools().iter().map(String::as_str).chain(tool::MACHINE_TOOLS.iter().copied()) {
            assert!(tool == tool::RETURN || covered.contains(&tool), "{tool} is an action without a case");
        }
        for (tool, params, expected) in &cases {
            let (before, after) = with_new_state(&json!({"tool": tool, "params": params}));
            let changes: Vec<String> =
                weakenings(&before, &after, &[]).iter().map(|change| change.what.clone()).collect();
            let acts = changes.iter().find(|what| what.starts_with("the new state 'new' acts: "));
            assert_eq!(acts.is_some(), !expected.is_empty(), "{tool}: {changes:?}");
            for words in *expected {
                assert!(acts.is_some_and(|acts| acts.contains(words)), "{tool}: {words} is not in {changes:?}");
            }
        }
    }

    #[test]
    fn long_command_is_shown_in_full() {
        let command = format!("echo {}; X=rm; $X x; echo {}; rm -rf ~", "a".repeat(5000), "b".repeat(5000));
        let (before, after) = with_new_state(&json!({"tool": "run_command", "params": {"command": command}}));
        let changes = weakenings(&before, &after, &[]);
        assert!(changes.iter().any(|change| change.what.contains(&command)));
    }

    #[test]
    fn definition_schema_matches_golden_file() {
        let schema = serde_json::to_string_pretty(&steplatch_workflow::schema(&TerminalTools)).unwrap();
        expect_test::expect_file!["../golden/definition_schema.json"].assert_eq(&format!("{schema}\n"));
    }
}
