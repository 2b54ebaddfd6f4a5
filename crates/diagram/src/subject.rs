//! The subject of a state's action in a few words, such as the typed text and the awaited pattern.

use serde_json::{Map, Value};
use steplatch_workflow::{State, tool};

/// Replacement text for a secret.
const HIDDEN_TEXT: &str = "••••••";

/// Returns the subject of a state's action, in one line; empty if the tool has no subject. Line feeds are drawn as `⏎`,
/// and secret texts are hidden.
pub(super) fn subject(state: &State) -> String {
    let items = state.items().map(|items| match items {
        Value::String(text) => format!("for each of {}", single_line(text)),
        Value::Array(items) if items.len() == 1 => "for 1 item".to_owned(),
        Value::Array(items) => format!("for each of {} items", items.len()),
        _ => String::new(),
    });
    join_parts(&[action_subject(state), items.unwrap_or_default()])
}

/// Returns the subject of the action of a state, without its items.
fn action_subject(state: &State) -> String {
    let params = state.action().params();
    let text = |name: &str| params.get(name).and_then(Value::as_str).unwrap_or_default();
    match state.action().tool() {
        tool::SEND_INPUT => join_parts(&[typed_input(params), wait_condition(params)]),
        tool::AWAIT_OUTPUT => wait_condition(params),
        tool::DIALOGUE => {
            let rules = params.get("rules").and_then(Value::as_array).map_or(0, Vec::len);
            let rules = if rules == 1 { "1 rule".to_owned() } else { format!("{rules} rules") };
            let until = params.get("until").map(pattern_text).unwrap_or_default();
            join_parts(&[single_line(text("input_text")), rules, until])
        }
        tool::OPEN_TERMINAL => match params.get("command").and_then(Value::as_array) {
            Some(command) => single_line(&command.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")),
            None => single_line(text("shell")),
        },
        tool::RUN_COMMAND => single_line(text("command")),
        tool::RUN_WORKFLOW => single_line(text("workflow_name")),
        tool::PARALLEL => branch_names(params.get("workflows")),
        tool::GATE => single_line(text("prompt")),
        tool::FAIL => single_line(text("message")),
        tool::SET => params.keys().cloned().collect::<Vec<_>>().join(", "),
        tool::SLEEP => params.get("seconds").map(|seconds| format!("{seconds} s")).unwrap_or_default(),
        _ => single_line(&format!("{}{}", text("node_id"), text("graph_id"))),
    }
}

/// Returns the names of the branches of `parallel`; for branches without a name, the names of their workflows.
fn branch_names(workflows: Option<&Value>) -> String {
    let workflow = |branch: &Value| branch.get("workflow_name").and_then(Value::as_str).unwrap_or("unnamed").to_owned();
    let names: Vec<String> = match workflows {
        Some(Value::Object(entries)) => entries.keys().cloned().collect(),
        Some(Value::Array(entries)) => entries.iter().map(workflow).collect(),
        _ => Vec::new(),
    };
    single_line(&names.join(", "))
}

/// Returns the typed input: its text, and the keys after it.
fn typed_input(params: &Map<String, Value>) -> String {
    let text = params.get("input_text").and_then(Value::as_str).unwrap_or_default();
    let is_secret = params.get("secret").is_some_and(|secret| *secret == Value::Bool(true) || *secret == "true");
    // A placeholder does not reveal the value.
    let is_placeholder = text.trim().starts_with('{') && text.trim().ends_with('}');
    let text =
        if is_secret && !is_placeholder && !text.is_empty() { HIDDEN_TEXT.to_owned() } else { single_line(text) };
    let keys = params.get("keys").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    keys.fold(text, |text, key| format!("{text}<{key}>"))
}

/// Returns the condition that ends a wait.
fn wait_condition(params: &Map<String, Value>) -> String {
    let texts = [params.get("pattern"), params.get("patterns")].into_iter().flatten().map(pattern_text);
    let until = params.get("until").and_then(Value::as_str).filter(|until| *until != "match");
    join_parts(&texts.chain(until.map(str::to_owned)).collect::<Vec<_>>())
}

/// Returns the text of one pattern or of an array of patterns.
fn pattern_text(value: &Value) -> String {
    let patterns = match value {
        Value::Array(patterns) => patterns.iter().filter_map(Value::as_str).collect(),
        pattern => pattern.as_str().into_iter().collect::<Vec<_>>(),
    };
    let patterns = patterns.into_iter().filter(|pattern| !pattern.is_empty());
    patterns.map(|pattern| format!("/{}/", single_line(pattern))).collect::<Vec<_>>().join(" ")
}

fn join_parts(parts: &[String]) -> String {
    parts.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join(" ")
}

/// Returns text in one line: line feeds become `⏎`, and other control characters spaces.
fn single_line(text: &str) -> String {
    let displayed = |character: char| match character {
        '\n' | '\r' => '⏎',
        control if control.is_control() => ' ',
        other => other,
    };
    text.chars().map(displayed).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steplatch_workflow::{Definition, Problem, ToolCatalog};

    use super::*;

    struct Terminals;

    impl ToolCatalog for Terminals {
        fn tools(&self) -> Vec<String> {
            ["open_terminal", "send_input", "await_output", "run_command", "run_node"].map(str::to_owned).to_vec()
        }

        fn check(&self, _: &str, _: &Map<String, Value>) -> Vec<Problem> {
            Vec::new()
        }

        fn takes_session(&self, _: &str) -> bool {
            true
        }
    }

    #[test]
    fn state_shows_its_items() {
        for (items, expected) in [
            (json!("{ls_output}"), "rm {item} for each of {ls_output}"),
            (json!(["a", "b"]), "rm {item} for each of 2 items"),
        ] {
            let action = json!({"tool": "run_command", "params": {"command": "rm {item}"}});
            let document = json!({"initial_state": "a", "states": {"a": {"for_each": items, "action": action}}});
            let definition = Definition::parse(&document, &Terminals).unwrap_or_else(|problems| panic!("{problems}"));
            assert_eq!(subject(&definition.states()[0]), expected);
        }
    }

    #[test]
    fn state_shows_its_input_and_wait() {
        for (tool, params, expected) in [
            ("send_input", json!({"input_text": "make\n", "pattern": "done|failed"}), "make⏎ /done|failed/"),
            ("send_input", json!({"input_text": "hunter2\n", "secret": true, "until": "prompt"}), "•••••• prompt"),
            ("send_input", json!({"input_text": "{PW}\n", "secret": true}), "{PW}⏎"),
            ("send_input", json!({"input_text": ":wq", "keys": ["enter", "ctrl-c"]}), ":wq<enter><ctrl-c>"),
            ("await_output", json!({"patterns": ["a", "b"], "pattern": ""}), "/a/ /b/"),
            ("await_output", json!({"until": "quiet"}), "quiet"),
            (
                "dialogue",
                json!({"input_text": "./i\n", "rules": [{"when": "k", "type": "hunter2\n", "secret": true}], "until": ["x", "y"]}),
                "./i⏎ 1 rule /x/ /y/",
            ),
            ("run_command", json!({"command": "a\nb"}), "a⏎b"),
            ("open_terminal", json!({"command": ["gdb", "-q"]}), "gdb -q"),
            ("open_terminal", json!({}), ""),
            ("set", json!({"a": 1, "b": 2}), "a, b"),
            ("sleep", json!({"seconds": 2}), "2 s"),
            ("gate", json!({"prompt": "Go?"}), "Go?"),
            ("run_node", json!({"node_id": "n"}), "n"),
        ] {
            let document = json!({"initial_state": "a", "states": {"a": {"action": {"tool": tool, "params": params}}}});
            let definition = Definition::parse(&document, &Terminals).unwrap_or_else(|problems| panic!("{problems}"));
            assert_eq!(subject(&definition.states()[0]), expected, "{params}");
        }
    }
}
