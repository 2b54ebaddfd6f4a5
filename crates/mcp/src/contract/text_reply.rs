//! Replies as text for models: what is new, without what the call or the protocol already says.
//!
//! Pure. Clients that pass the text of a reply to their model receive this form and no structured content
//! ([`ClientTraits::reads_text`](super::client_traits::ClientTraits)). Programs receive every field.
//!
//! What a program printed, or a file contains, stands as it is after a first line with the other fields as JSON. Without
//! other fields, the line is left out, unless the text could be taken for one. So a text never reads as a field: a reply
//! that begins with `{` has its fields in the first line, and everything after that line is text.

use rmcp::model::JsonObject;
use serde_json::{Map, Value};
use steplatch_protocol::{CallTool, GetRun, RunWorkflow, SendInput, Verb as _, is_empty_value};

/// Fields whose text stands after the other fields. A reply has at most one of them.
const TEXT_FIELDS: [&str; 3] = ["screen_content", "output", "content"];

/// The field that comes first among the others, because some clients cut long replies.
const RESULT_FIELD: &str = "result";

/// Fields that a model does not use, or that other fields of the same reply say.
const OMITTED_FIELDS: [&str; 9] = [
    "available_workflows",
    "elapsed_time",
    "pid",
    "recursion_depth",
    "states_executed",
    "timestamp",
    "total_elapsed_time",
    "workflow_saved",
    "workflow_signature",
];

/// Flags that are false in ordinary replies.
const USUALLY_FALSE: [&str; 5] = ["alternate_screen", "awaiting_input", "misread", "timed_out", "truncated"];

/// Fields whose emptiness says something: nothing was found, matched or listed.
const MEANINGFUL_IF_EMPTY: [&str; 6] = ["match_text", "matches", "remotes", "runs", "sessions", "workflows"];

/// Formats a reply. `is_error` is the flag of the protocol.
pub(super) fn format_reply(
    verb: &str,
    arguments: Option<&JsonObject>,
    is_error: bool,
    mut reply: Map<String, Value>,
) -> String {
    if is_error && let Some(Value::String(error)) = reply.get("error") {
        let is_known = |name: &str| matches!(name, "error" | "success") || is_given(arguments, name);
        if reply.iter().all(|(name, value)| is_known(name) || is_empty_value(value) || *value == false) {
            return error.clone();
        }
    }
    // Decide with the whole reply: some fields repeat others.
    let is_news: Vec<bool> =
        reply.iter().map(|(name, value)| is_news(verb, (name, value), arguments, is_error, &reply)).collect();
    let mut is_news = is_news.into_iter();
    let success = reply.get("success").cloned();
    reply.retain(|_, _| is_news.next() == Some(true));
    let text_field = TEXT_FIELDS.into_iter().find(|name| reply.get(*name).is_some_and(Value::is_string));
    let text = text_field.and_then(|name| reply.shift_remove(name));
    let result = reply.shift_remove(RESULT_FIELD);
    let mut fields: Map<String, Value> = result.map(|value| (RESULT_FIELD.to_owned(), value)).into_iter().collect();
    fields.extend(reply.into_iter().map(|(name, value)| {
        let value = shorten(&name, value);
        (name, value)
    }));
    let Some(Value::String(text)) = text else {
        if fields.is_empty() {
            fields.extend(success.map(|success| ("success".to_owned(), success)));
        }
        return Value::Object(fields).to_string();
    };
    if fields.is_empty() && !text.is_empty() && !text.starts_with('{') {
        return text;
    }
    format!("{}\n{text}", Value::Object(fields))
}

/// Returns whether a field says something that is not known from the call, the protocol or another field.
fn is_news(
    verb: &str,
    (name, value): (&str, &Value),
    arguments: Option<&JsonObject>,
    is_error: bool,
    reply: &Map<String, Value>,
) -> bool {
    let has = |name: &str| reply.get(name).is_some_and(|value| !value.is_null());
    match name {
        _ if name == RESULT_FIELD || TEXT_FIELDS.contains(&name) => !value.is_null(),
        // The status of a run says whether it succeeded. An action on the run, such as an answer, has its own success.
        "success" => *value == false && !is_error && !(reports_run(verb) && has("status")),
        "session_id" | "run_id" | "workflow_name" | "shell" => !is_given(arguments, name) && !is_empty_value(value),
        "screen_part" => value != "new",
        // The exit code of a command is known at the next prompt only.
        "waited" => {
            !(value["reason"] == "prompt"
                && value.as_object().is_some_and(|waited| waited.len() == 1)
                && has("exit_code"))
        }
        // A program that waits for input is busy. At a prompt, lines of others may be left to run.
        "busy" => match reply.get("waited").and_then(|waited| waited["reason"].as_str()) {
            Some("input") => *value == false,
            Some("exit" | "prompt") => *value == true,
            _ => true,
        },
        // Without a wait, it is that of an earlier command.
        "exit_code" => verb != SendInput::NAME || has("waited") || reply.get("process_running") == Some(&false.into()),
        "cursor" => reply.get("alternate_screen") == Some(&true.into()),
        // Of a match, further searches begin there. `reason` names another end of the wait.
        "offset" => !has("reason") || reply["reason"] == "match",
        "process_running" => *value == false,
        "timeout_occurred" => *value == true && !has("reason"),
        _ if OMITTED_FIELDS.contains(&name) => false,
        _ if USUALLY_FALSE.contains(&name) => *value == true,
        _ if MEANINGFUL_IF_EMPTY.contains(&name) => !value.is_null(),
        _ => !is_empty_value(value),
    }
}

/// Returns whether the replies of a verb report a run, rather than an action on it.
fn reports_run(verb: &str) -> bool {
    [CallTool::NAME, GetRun::NAME, RunWorkflow::NAME].contains(&verb)
}

/// Returns whether the call named the value: the client knows which terminal, run or workflow it meant.
fn is_given(arguments: Option<&JsonObject>, name: &str) -> bool {
    arguments.is_some_and(|arguments| {
        arguments.get(name).is_some_and(|value| !value.is_null()) && !arguments.contains_key(&format!("{name}s"))
    })
}

/// Shortens the value of a field.
fn shorten(name: &str, mut value: Value) -> Value {
    match (name, &mut value) {
        ("waited", Value::Object(waited)) => {
            waited.retain(|_, value| !is_empty_value(value));
            if waited.len() == 1
                && let Some(reason) = waited.get_mut("reason")
            {
                return reason.take();
            }
        }
        ("execution_log", Value::Array(entries)) => {
            entries.iter_mut().filter_map(Value::as_object_mut).for_each(|entry| {
                entry.shift_remove("elapsed_time");
            });
        }
        ("runs" | "sessions" | "workflows", Value::Array(items)) => {
            items.iter_mut().filter_map(Value::as_object_mut).for_each(|item| item.retain(|_, value| !value.is_null()));
        }
        ("pending_gate", Value::Object(gate)) => gate.retain(|_, value| !is_empty_value(value)),
        _ => {}
    }
    value
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steplatch_protocol::{AwaitOutput, Decide, GetScreenContent, ListWorkflowRuns, ResizeTerminal, RunCommand};

    use super::*;

    fn format(verb: &str, arguments: Value, is_error: bool, reply: Value) -> String {
        format_reply(verb, arguments.as_object(), is_error, reply.as_object().unwrap().clone())
    }

    #[test]
    fn reply_has_only_news_and_its_text_as_it_is() {
        let typed = json!({"session_id": "term_1", "input_text": "make\n", "until": "prompt"});
        for (verb, arguments, reply, expected) in [
            (
                SendInput::NAME,
                typed.clone(),
                json!({"success": true, "session_id": "term_1", "screen_content": "ok\n$", "waited": {"reason": "prompt"},
                    "screen_part": "new", "exit_code": 0}),
                "{\"exit_code\":0}\nok\n$",
            ),
            (
                SendInput::NAME,
                typed.clone(),
                json!({"success": true, "session_id": "term_1", "screen_content": "Name?", "busy": true, "password": true,
                    "waited": {"reason": "match", "match_text": "Name", "groups": []}, "screen_part": "full"}),
                "{\"busy\":true,\"password\":true,\"waited\":{\"reason\":\"match\",\"match_text\":\"Name\"},\"screen_part\":\"full\"}\nName?",
            ),
            (
                RunCommand::NAME,
                json!({"command": "true"}),
                json!({"success": true, "output": "", "exit_code": 0, "timed_out": false, "elapsed_time": 0.03}),
                "{\"exit_code\":0}\n",
            ),
            // The terminal that is left open for a question is new to the client.
            (
                RunCommand::NAME,
                json!({"command": "read x"}),
                json!({"success": false, "session_id": "term_2", "output": "", "awaiting_input": true}),
                "{\"success\":false,\"session_id\":\"term_2\",\"awaiting_input\":true}\n",
            ),
            // One of several terminals.
            (
                AwaitOutput::NAME,
                json!({"session_id": "term_1", "session_ids": ["term_2"]}),
                json!({"success": true, "session_id": "term_2", "screen_content": "x", "reason": "exit", "offset": 5}),
                "{\"session_id\":\"term_2\",\"reason\":\"exit\"}\nx",
            ),
            // Values of the user stay, also empty and false ones.
            (
                GetRun::NAME,
                json!({"run_id": "run_1"}),
                json!({"success": true, "run_id": "run_1", "status": "completed", "result": {"ok": false, "list": []},
                    "execution_log": [{"state": "a", "elapsed_time": 0.1, "result": {"output": ""}}],
                    "final_variables": {"x": ""}, "error": null, "available_workflows": []}),
                r#"{"result":{"ok":false,"list":[]},"status":"completed","execution_log":[{"state":"a","result":{"output":""}}],"final_variables":{"x":""}}"#,
            ),
            (
                GetRun::NAME,
                json!({"run_id": "run_1"}),
                json!({"success": false, "run_id": "run_1", "status": "waiting",
                    "pending_gate": {"gate_id": "g", "prompt": "Go?", "choices": [], "form": null}}),
                r#"{"status":"waiting","pending_gate":{"gate_id":"g","prompt":"Go?"}}"#,
            ),
            // A refused answer is not read as the state of the run.
            (
                Decide::NAME,
                json!({"run_id": "run_1", "answer": "yes"}),
                json!({"success": false, "run_id": "run_1", "status": "running", "error": "It was answered"}),
                r#"{"success":false,"status":"running","error":"It was answered"}"#,
            ),
            (
                GetRun::NAME,
                json!({"run_id": "run_1"}),
                json!({"success": false, "run_id": "run_1", "status": "failed", "error": "It broke"}),
                r#"{"status":"failed","error":"It broke"}"#,
            ),
            // Nothing that was found is said.
            (
                GetScreenContent::NAME,
                json!({"session_id": "term_1", "search": "x"}),
                json!({"success": true, "session_id": "term_1", "process_running": true, "matches": []}),
                r#"{"matches":[]}"#,
            ),
            (
                ListWorkflowRuns::NAME,
                json!({}),
                json!({"success": true, "runs": [{"run_id": "run_1", "result": "", "error": null}], "workflows": []}),
                r#"{"runs":[{"run_id":"run_1","result":""}],"workflows":[]}"#,
            ),
            (
                ResizeTerminal::NAME,
                json!({"session_id": "term_1"}),
                json!({"success": true, "session_id": "term_1"}),
                r#"{"success":true}"#,
            ),
            (
                AwaitOutput::NAME,
                typed.clone(),
                json!({"success": true, "session_id": "term_1", "screen_content": "", "reason": "timeout", "timeout_occurred": true}),
                "{\"reason\":\"timeout\"}\n",
            ),
            // Lines of others are left to run.
            (
                SendInput::NAME,
                typed.clone(),
                json!({"success": true, "session_id": "term_1", "screen_content": "$", "waited": {"reason": "prompt"},
                    "busy": true, "exit_code": 0}),
                "{\"busy\":true,\"exit_code\":0}\n$",
            ),
            // Nothing ran: the exit code is that of an earlier command.
            (
                SendInput::NAME,
                json!({"session_id": "term_1", "input_text": "make"}),
                json!({"success": true, "session_id": "term_1", "screen_content": "make", "typed": "make", "offset": 85,
                    "busy": false, "exit_code": 0}),
                "{\"typed\":\"make\",\"offset\":85,\"busy\":false}\nmake",
            ),
            (
                Decide::NAME,
                json!({"run_id": "run_1", "answer": "yes"}),
                json!({"success": false, "run_id": "run_1", "status": "failed", "error": "It was answered"}),
                r#"{"success":false,"status":"failed","error":"It was answered"}"#,
            ),
            // The field of a form into which the next input goes.
            (
                SendInput::NAME,
                typed.clone(),
                json!({"success": true, "session_id": "term_1", "screen_content": "City:", "waited": {"reason": "input"},
                    "alternate_screen": true, "cursor": {"row": 1, "col": 6}}),
                "{\"waited\":\"input\",\"alternate_screen\":true,\"cursor\":{\"row\":1,\"col\":6}}\nCity:",
            ),
            // A text that could be taken for fields has a line of fields before it.
            (
                RunCommand::NAME,
                json!({"command": "cat data"}),
                json!({"success": true, "output": "{\"exit_code\":1}\nend", "exit_code": 0}),
                "{\"exit_code\":0}\n{\"exit_code\":1}\nend",
            ),
            (
                GetScreenContent::NAME,
                json!({"session_id": "term_1"}),
                json!({"success": true, "session_id": "term_1", "screen_content": "{}\n", "process_running": true}),
                "{}\n{}\n",
            ),
            (
                GetScreenContent::NAME,
                json!({"session_id": "term_1"}),
                json!({"success": true, "session_id": "term_1", "screen_content": "$ ", "process_running": true}),
                "$ ",
            ),
            // The position from which a search goes on.
            (
                AwaitOutput::NAME,
                typed,
                json!({"success": true, "session_id": "term_1", "screen_content": "", "match_text": "bb", "reason": "match",
                    "offset": 28}),
                "{\"match_text\":\"bb\",\"reason\":\"match\",\"offset\":28}\n",
            ),
        ] {
            assert_eq!(format(verb, arguments, false, reply), expected);
        }
    }

    #[test]
    fn error_alone_is_its_text() {
        let arguments = json!({"session_id": "term_1"});
        let reply = json!({
            "success": false, "session_id": "term_1", "process_running": false, "error": "There is no\nterminal",
            "screen_content": null,
        });
        assert_eq!(format(GetScreenContent::NAME, arguments.clone(), true, reply), "There is no\nterminal");
        let reply = json!({"success": false, "error": "It exited", "screen_content": "bye"});
        assert_eq!(format(GetScreenContent::NAME, arguments, true, reply), "{\"error\":\"It exited\"}\nbye");
    }
}
