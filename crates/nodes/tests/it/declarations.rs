//! Parsing of node declarations, and the problems that it reports.

use expect_test::expect;
use serde_json::{Value, json};
use steplatch_nodes::{Call, Node, NodeEnvironment, Nodes, schema};

fn problems(document: &Value) -> String {
    Node::parse(document).expect_err("the declaration is invalid").to_string()
}

/// One node of every kind, with all its keys.
fn all_kinds() -> Vec<Value> {
    vec![
        json!({"id": "same", "type": "identity", "description": "d", "timeout": 5}),
        json!({"id": "sh", "type": "bash", "command": "ls {input|sh}", "cwd": "src", "env": {"A": "{secret:B}"}, "stdin": "x"}),
        json!({"id": "repl", "type": "pty", "command": "python3", "cwd": ".", "env": {}, "ready": {"pattern": ">>> $"}, "parser": "shell"}),
        json!({"id": "fn", "type": "function", "function": "main", "source": "async def main(ctx): ..."}),
        json!({"id": "get", "type": "http", "method": "PUT", "url": "http://x", "headers": {"A": "b"}, "json": {"a": 1},
            "max_redirects": 0, "max_bytes": 10}),
        json!({"id": "tool", "type": "mcp", "server": {"command": "s", "args": ["a"], "cwd": "/", "env": {"A": "b"}}, "tool": "t", "args": {"a": "{input}"}}),
        json!({"id": "far", "type": "mcp", "server": {"url": "http://x/mcp", "headers": {"A": "b"}}}),
        json!({"id": "ask", "type": "llm", "base_url": "http://x/v1", "api_key": "{secret:K}", "model": "m", "system": "s",
            "prompt": "p", "stream": true, "options": {"temperature": 0}, "retries": 1, "retry_delay": 0.5}),
        json!({"id": "g", "type": "graph", "max_parallel": 2, "steps": [{"id": "a", "node": "sh", "on_error": "skip"}]}),
    ]
}

#[test]
fn every_kind_round_trips() {
    for document in all_kinds() {
        let node = Node::parse(&document).unwrap_or_else(|problems| panic!("{document}: {problems}"));
        let written = serde_json::to_value(&node).unwrap();
        assert_eq!(Node::parse(&written).unwrap(), node, "{written}");
    }
}

#[test]
fn schema_has_exactly_the_accepted_keys() {
    let schema = schema();
    for document in all_kinds() {
        let of_kind = |kind: &&Value| kind["properties"]["type"]["const"] == document["type"];
        let kind = schema["oneOf"].as_array().unwrap().iter().find(of_kind).unwrap();
        for key in document.as_object().unwrap().keys() {
            assert!(kind["properties"][key].is_object(), "{key} of {document}");
        }
        assert_eq!(kind["additionalProperties"], false);
        for key in kind["required"].as_array().unwrap() {
            let mut without = document.clone();
            without.as_object_mut().unwrap().remove(key.as_str().unwrap());
            assert!(problems(&without).contains(&format!("'{}' is missing", key.as_str().unwrap())), "{without}");
        }
    }
    let graph = schema["oneOf"].as_array().unwrap().last().unwrap();
    let step = &graph["properties"]["steps"]["items"];
    assert_eq!(step["required"], json!(["id", "node"]));
    let policies = step["properties"]["on_error"]["oneOf"].as_array().unwrap();
    assert_eq!(policies.last().unwrap()["properties"]["policy"]["const"], "retry");
}

#[test]
fn problems_have_a_pointer_and_a_suggestion() {
    expect!["/type: there is no node of type 'bsh', did you mean 'bash'?"]
        .assert_eq(&problems(&json!({"id": "a", "type": "bsh"})));
    expect!["'type' is missing"].assert_eq(&problems(&json!({"id": "a", "comand": "x"})));
    expect![[r#"
        /id: '1a' is not an id: a letter, then letters, digits, '_' or '-', 64 in all at most
        /timeout: -1 is not a number of seconds from 0 to 86400
        /comand: unknown key 'comand' in a bash node, did you mean 'command'?
        /timout: unknown key 'timout' in a bash node, did you mean 'timeout'?
        /cwd: invalid type: integer '7', expected a string
        /env/A: invalid type: boolean 'true', expected a string"#]]
    .assert_eq(&problems(
        &json!({"id": "1a", "type": "bash", "comand": "ls", "timout": 3, "timeout": -1, "cwd": 7, "env": {"A": true}}),
    ));
    expect![[r#"
        /method: unknown variant 'FETCH', expected one of 'GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'
        'url' is missing"#]]
    .assert_eq(&problems(&json!({"id": "a", "type": "http", "method": "FETCH"})));
    expect!["/max_redirects: 21 is not a number from 0 to 20"]
        .assert_eq(&problems(&json!({"id": "a", "type": "http", "url": "x", "max_redirects": 21})));
    expect!["/max_bytes: 67108865 is not a number from 0 to 67108864"]
        .assert_eq(&problems(&json!({"id": "a", "type": "http", "url": "x", "max_bytes": 67_108_865})));
    expect!["/retries: 11 is not a number from 0 to 10"]
        .assert_eq(&problems(&json!({"id": "a", "type": "llm", "base_url": "x", "model": "m", "retries": 11})));
    expect!["/body: a request has 'json' or 'body', not both"]
        .assert_eq(&problems(&json!({"id": "a", "type": "http", "url": "x", "json": 1, "body": "x"})));
    expect!["/server: a server must have a 'command' or a 'url'"]
        .assert_eq(&problems(&json!({"id": "a", "type": "mcp", "server": {"program": "x"}})));
    expect!["/server/arg: unknown key 'arg' in a server, did you mean 'args'?"]
        .assert_eq(&problems(&json!({"id": "a", "type": "mcp", "server": {"command": "x", "arg": []}})));
    expect!["/server/args/0: invalid type: integer '1', expected a string"]
        .assert_eq(&problems(&json!({"id": "a", "type": "mcp", "server": {"command": "x", "args": [1]}})));
    expect!["/ready/pattern: pattern '(' does not compile: unclosed group at position 0"]
        .assert_eq(&problems(&json!({"id": "a", "type": "pty", "command": "x", "ready": {"pattern": "("}})));
    expect!["a node must be an object"].assert_eq(&problems(&json!([])));
}

#[test]
fn unquoted_input_in_a_command_causes_a_warning() {
    let warnings = |command: &str| {
        let node = Node::parse(&json!({"id": "a", "type": "bash", "command": command})).unwrap();
        node.warnings().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let warning =
        "/command: warning: the input is inserted into the command line unquoted; '{input|sh}' quotes it for the shell";
    assert_eq!(warnings("git log {input}"), [warning]);
    assert_eq!(warnings("git log {input|sh} {input}"), [warning]);
    for fine in ["git log {input|sh}", "ls", "echo {{input}}", "awk '{print $1}'"] {
        assert_eq!(warnings(fine), Vec::<String>::new(), "{fine}");
    }
}

#[tokio::test]
async fn identity_returns_its_input_and_other_kinds_are_refused() {
    let nodes = Nodes::new(NodeEnvironment::of_this_process().unwrap());
    let same = Node::parse(&json!({"id": "same", "type": "identity"})).unwrap();
    let result = nodes.run(&same, Call::new(json!({"a": [1]}))).await;
    expect![[r#"{"success":true,"output":{"a":[1]},"error":null,"error_type":null,"node_type":"identity","node_id":"same","input":{"a":[1]},"attributes":{}}"#]]
        .assert_eq(&serde_json::to_string(&result).unwrap());
    let repl = Node::parse(&json!({"id": "repl", "type": "pty", "command": "python3"})).unwrap();
    let result = nodes.run(&repl, Call::new("1+1")).await;
    assert_eq!(result.error.as_deref(), Some("Node 'repl' is of a kind that cannot be performed here."));
}
