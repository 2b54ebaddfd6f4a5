//! Values passed from step to step: complete, or their step has failed.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use steplatch_protocol::{ListTerminalSessions, PageServerRecord, RunReply, RunWorkflow};
use steplatch_testkit::TestDaemon;

/// Returns a machine whose first states produce a value, and whose last state writes it to a file.
fn writing_machine(states: &[(&str, Value)], value: &str, to: &Path) -> Value {
    let names: Vec<&str> = states.iter().map(|(name, _)| *name).chain(["write"]).collect();
    let mut all: serde_json::Map<String, Value> = states
        .iter()
        .enumerate()
        .map(|(index, (name, action))| {
            let next = json!([{"condition": "success", "next_state": names[index + 1]}]);
            ((*name).to_owned(), json!({"action": action, "transitions": next}))
        })
        .collect();
    let params = json!({"path": to.display().to_string(), "content": value});
    all.insert("write".to_owned(), json!({"action": {"tool": "put_file", "params": params}}));
    json!({"initial_state": names[0], "states": all})
}

fn run_command(command: &str) -> Value {
    json!({"tool": "run_command", "params": {"command": command, "timeout": 60}})
}

fn lines() -> String {
    (1..=30_000).map(|number| format!("{number}\n")).collect()
}

/// The name of a case, its states, and the variable that has the value.
type Case<'c> = (&'c str, Vec<(&'c str, Value)>, &'c str);

#[tokio::test]
async fn value_reaches_a_later_step_unchanged() {
    let (daemon, directory) = (TestDaemon::new().await, tempfile::tempdir().unwrap());
    let path = |name: &str| directory.path().join(name);
    fs::write(path("long"), lines()).unwrap();
    let path_text = |name: &str| path(name).display().to_string();
    let open = json!({"tool": "open_terminal"});
    let seq = run_command("seq 1 30000");
    let marked = run_command("echo begin; seq 1 30000; echo end");
    let history = |content_mode: &str| json!({"tool": "get_screen_content", "params": {"content_mode": content_mode, "line_count": 40000}});
    let workflow = |last: Value| {
        let states = json!({
            "make": {"action": seq, "transitions": [{"condition": "success", "next_state": "end"}]},
            "end": {"action": last},
        });
        json!({"workflow_definition": {"initial_state": "make", "states": states}})
    };
    let child = |last: Value| json!({"tool": "run_workflow", "params": workflow(last)});
    let parallel = |last: Value| json!({"tool": "parallel", "params": {"workflows": {"a": workflow(last.clone()), "b": workflow(last)}}});
    let returns = json!({"tool": "return", "params": {"result": {"all": ["{make_output}"]}}});
    let set = json!({"tool": "set", "params": {"all": "{first_output}"}});
    let cases: Vec<Case<'_>> = vec![
        ("a command of its own", vec![("first", seq.clone())], "{first_raw_output}"),
        ("a command in a terminal", vec![("open", open.clone()), ("first", seq.clone())], "{first_raw_output}"),
        ("its output", vec![("first", seq.clone())], "{first_output}\n"),
        ("a variable", vec![("first", seq.clone()), ("set", set)], "{all}\n"),
        (
            "a file",
            vec![("first", json!({"tool": "get_file", "params": {"path": path_text("long")}}))],
            "{first_content}",
        ),
        ("a nested run's result", vec![("nest", child(returns.clone()))], "{nest_result.all.0}\n"),
        ("a branch's result", vec![("all", parallel(returns))], "{all_results.b.all.0}\n"),
    ];
    for (what, states, value) in cases {
        let reply = daemon.run(writing_machine(&states, value, &path("copy"))).await;
        assert_eq!(reply.status, "completed", "{what}: {:?}", reply.error);
        let copy = fs::read_to_string(path("copy")).unwrap();
        assert!(copy == lines(), "{what}: {} of {} bytes", copy.len(), lines().len());
        fs::remove_file(path("copy")).unwrap();
    }
    for (content_mode, screen) in [("history", "full"), ("tail", "full"), ("since_input", "full"), ("", "new")] {
        let states = match screen {
            "new" => {
                let params = json!({"input_text": "echo begin; seq 1 30000; echo end\n", "pattern": "^end$", "timeout": 60, "screen": "new"});
                vec![("open", open.clone()), ("read", json!({"tool": "send_input", "params": params}))]
            }
            _ => vec![("open", open.clone()), ("mark", marked.clone()), ("read", history(content_mode))],
        };
        let reply = daemon.run(writing_machine(&states, "{read_screen_content}", &path("copy"))).await;
        assert_eq!(reply.status, "completed", "{content_mode}: {:?}", reply.error);
        let copy = fs::read_to_string(path("copy")).unwrap();
        assert!(copy.contains(&format!("begin\n{}end", lines())), "{content_mode}: {} bytes", copy.len());
    }
    daemon.stop().await;
}

#[tokio::test]
async fn value_beyond_the_limit_fails_its_step_entirely() {
    let (daemon, directory) = (TestDaemon::new().await, tempfile::tempdir().unwrap());
    let file = directory.path().join("long");
    fs::write(&file, "x".repeat((1 << 20) + 1)).unwrap();
    let path = file.display().to_string();
    let flood = run_command(&format!("cat {path}"));
    let open = json!({"tool": "open_terminal"});
    let history = json!({"tool": "get_screen_content", "params": {"content_mode": "history"}});
    let to_file = run_command(&format!("cat {path}; sleep 0"));
    for (states, failed, value) in [
        (vec![("first", flood.clone())], "first", "{first_output}"),
        (vec![("open", open.clone()), ("first", flood.clone())], "first", "{first_output}"),
        (vec![("first", json!({"tool": "get_file", "params": {"path": path}}))], "first", "{first_content}"),
    ] {
        let copy = directory.path().join("copy");
        let reply = daemon.run(writing_machine(&states, value, &copy)).await;
        assert_eq!((reply.status.as_str(), reply.final_state.as_deref()), ("failed", Some(failed)), "{reply:?}");
        let error = reply.error.unwrap();
        assert!(error.contains("1048576 bytes") && error.contains("limit"), "{error}");
        assert!(!copy.exists());
    }
    // With its own transitions the state also fails, and no transition on the exit code applies.
    let mut limited = to_file.clone();
    limited["params"]["limit"] = 2_000_000.into();
    let states = json!({
        "open": {"action": open, "transitions": [{"condition": "success", "next_state": "fill"}]},
        "fill": {"action": limited, "transitions": [{"condition": "success", "next_state": "read"}]},
        "read": {"action": history, "transitions": [{"condition": "success", "next_state": "wrong"},
                                                   {"condition": "failure", "next_state": "again"}]},
        "again": {"action": to_file, "transitions": [{"condition": {"field_equals": {"exit_code": 0}}, "next_state": "wrong"},
                                                    {"condition": {"field_contains": {"error": "exit code 0"}}, "next_state": "end"}]},
        "wrong": {"action": {"tool": "fail", "params": {"message": "it went on"}}},
        "end": {"action": {"tool": "sleep", "params": {"seconds": 0}}}
    });
    let reply = daemon.run(json!({"initial_state": "open", "states": states})).await;
    assert_eq!((reply.status.as_str(), reply.final_state.as_deref()), ("completed", Some("end")), "{reply:?}");
    assert_eq!(reply.final_variables["again_output"], "");
    daemon.stop().await;
}

#[tokio::test]
async fn truncated_output_keeps_head_and_tail_for_patterns() {
    let daemon = TestDaemon::new().await;
    let states = json!({
        "make": {"action": {"tool": "run_command", "params": {"command": "echo FIRST; seq 1 3000; echo LAST", "limit": 200}},
                 "transitions": [{"condition": {"pattern_match": "^LAST$"}, "next_state": "end"}]},
        "end": {"action": {"tool": "return", "params": {"result": ["{make_output}", "{make_omitted}"]}}}
    });
    let reply = daemon.run(json!({"initial_state": "make", "states": states})).await;
    assert_eq!(reply.status, "completed", "{reply:?}");
    let result = reply.result.unwrap();
    let (head, tail) = (result[0].as_str().unwrap(), result[1]["tail"].as_str().unwrap());
    assert!(head.starts_with("FIRST\n1\n2\n") && tail.ends_with("\n3000\nLAST\n"), "{result}");
    assert!(head.lines().skip(1).chain(tail.lines()).all(|line| line == "LAST" || line.parse::<u32>().is_ok()));
    assert!(result[1]["bytes"].as_u64().unwrap() > 10_000);
    daemon.stop().await;
}

#[tokio::test]
async fn output_never_ends_with_newlines() {
    let daemon = TestDaemon::new().await;
    let states = json!({
        "a": {"action": run_command("echo /tmp"), "transitions": [{"condition": "success", "next_state": "b"}]},
        "b": {"action": run_command("ls -d {a_output|sh}; printf '%s' {a_raw_output|sh} | wc -c"),
              "transitions": [{"condition": "success", "next_state": "count"}]},
        "count": {"action": run_command("echo 3; echo"),
                  "transitions": [{"condition": {"field_equals": {"output": "3"}}, "next_state": "last"}]},
        // Comparisons as in older definitions.
        "last": {"action": run_command("echo 3"),
                 "transitions": [{"condition": {"field_equals": {"output": "3\n"}, "pattern_match": "3\\n"}, "next_state": "end"}]},
        "end": {"action": {"tool": "return", "params": {"result": ["{b_output}", "{count_output}", "{count_raw_output}"]}}}
    });
    let reply = daemon.run(json!({"initial_state": "a", "states": states})).await;
    assert_eq!(reply.status, "completed", "{reply:?}");
    assert_eq!(reply.result.unwrap(), json!(["/tmp\n5", "3", "3\n\n"]));
    assert_eq!(reply.final_variables["count_output"], "3");
    let logged = reply.execution_log.iter().find(|entry| entry["state"] == "count" && entry["phase"] == "execution");
    assert_eq!(logged.unwrap()["result"]["output"], "3");
    daemon.stop().await;
}

async fn run_with(daemon: &TestDaemon, definition: &Value, variables: Value) -> RunReply {
    let verb: RunWorkflow = serde_json::from_value(json!({
        "workflow_definition": definition, "initial_variables": variables, "wait_seconds": 60, "save_on_success": false
    }))
    .unwrap();
    daemon.call(verb).await
}

#[tokio::test]
async fn search_matches_and_list_results_are_complete_or_fail() {
    let daemon = TestDaemon::new().await;
    let searching = |count: usize| {
        let print =
            json!({"input_text": format!("seq -f 'row %030000.0f' {count}\n"), "until": "prompt", "timeout": 60});
        let search = json!({"content_mode": "history", "search": "^row", "context": 0});
        let to = |next: &str| json!([{"condition": "success", "next_state": next}]);
        json!({"initial_state": "open", "states": {
            "open": {"action": {"tool": "open_terminal"}, "transitions": to("print")},
            "print": {"action": {"tool": "send_input", "params": print}, "transitions": to("see")},
            "see": {"action": {"tool": "get_screen_content", "params": search}, "timeout": 120, "transitions": to("end")},
            "end": {"action": {"tool": "return", "params": {"result": "{see_matches}"}}},
        }})
    };
    let reply = daemon.run(searching(20)).await;
    let matches = reply.result.unwrap_or_else(|| panic!("{:?}", reply.error));
    let texts: Vec<&str> = matches.as_array().unwrap().iter().map(|found| found["text"].as_str().unwrap()).collect();
    let row = |number: usize| format!("row {number:030000}");
    assert!(texts.len() == 20 && texts[0] == row(1) && texts[19] == row(20), "{} matches", texts.len());
    let reply = daemon.run(searching(40)).await;
    assert_eq!((reply.status.as_str(), reply.final_state.as_deref()), ("failed", Some("see")), "{:?}", reply.error);
    assert!(reply.error.unwrap().contains("the search result"));

    let listing = |count: usize| {
        json!({"initial_state": "each", "states": {
            "each": {"for_each": {"items": ["a", "b"], "as": "item"},
                     "action": run_command(&format!("seq -f '{{item}} %.0f' {count}")),
                     "transitions": [{"condition": "success", "next_state": "end"}]},
            "end": {"action": {"tool": "return", "params": {"result": "{each_results}"}}},
        }})
    };
    let reply = daemon.run(listing(30_000)).await;
    let lines = |item: &str| (1..=30_000).map(|number| format!("{item} {number}")).collect::<Vec<_>>().join("\n");
    assert!(reply.result == Some(json!([lines("a"), lines("b")])), "{:?}", reply.error);
    let reply = daemon.run(listing(150_000)).await;
    assert_eq!((reply.status.as_str(), reply.final_state.as_deref()), ("failed", Some("each")), "{:?}", reply.error);
    daemon.stop().await;
}

#[tokio::test]
async fn lists_and_objects_are_given_directly_or_as_json() {
    let daemon = TestDaemon::new().await;
    let definition = json!({
        "arguments": {
            "hosts": {"schema": {"type": "array", "items": {"type": "string"}, "minItems": 1}},
            "options": {"required": false, "default": {"deep": [1, 2]}, "schema": {"type": "object"}},
            "COUNT": {"required": false, "default": 1, "schema": {"type": "integer"}}
        },
        "initial_state": "each",
        "states": {
            "each": {"for_each": {"items": "{hosts}", "as": "host"}, "action": run_command("echo {host|sh} {COUNT}"),
                     "transitions": [{"condition": "success", "next_state": "end"}]},
            "end": {"action": {"tool": "return", "params": {
                "result": ["{each_results}", "{hosts.1}", "{options.deep.1}", "{hosts}", "{hosts|json}"]}}}
        }
    });
    for hosts in [json!(["a", "b c"]), json!("[\"a\", \"b c\"]")] {
        let reply = run_with(&daemon, &definition, json!({"hosts": hosts, "COUNT": 7})).await;
        assert_eq!(reply.status, "completed", "{reply:?}");
        let expected = json!([["a 7", "b c 7"], "b c", 2, ["a", "b c"], "[\"a\",\"b c\"]"]);
        assert_eq!(reply.result.unwrap(), expected);
    }
    for (variables, problem) in [
        (json!({"hosts": "a, b"}), "hosts=\"a, b\" must be a list, as JSON"),
        (json!({"hosts": ["a", 2]}), "has item 1, which must be a string"),
        (json!({"hosts": []}), "must have at least 1 items"),
        (json!({"hosts": ["a"], "options": [1]}), "options=\"[1]\" must be an object, as JSON"),
        (json!({"hosts": null}), "argument hosts is missing"),
    ] {
        let reply = run_with(&daemon, &definition, variables.clone()).await;
        let error = reply.error.unwrap();
        assert!(reply.run_id.is_empty() && error.contains(problem), "{variables}: {error}");
    }
    // A list without a declared argument of its name is a list too.
    let undeclared = json!({"initial_state": "end", "states": {
        "end": {"action": {"tool": "return", "params": {"result": ["{list.0}", "{list}", "{yes}"]}}}}});
    let reply = run_with(&daemon, &undeclared, json!({"list": [1, {"a": 2}], "yes": true})).await;
    assert_eq!(reply.result.unwrap(), json!([1, [1, {"a": 2}], "true"]));
    daemon.stop().await;
}

#[tokio::test]
async fn fan_out_names_the_failed_item_and_the_reason() {
    let daemon = TestDaemon::new().await;
    let one = json!({
        "initial_state": "try",
        "states": {
            "try": {"action": {"tool": "set", "params": {"seen": "{HOST}"}}, "transitions": [
                {"condition": {"field_contains": {"assigned.seen": "bad"}}, "next_state": "no"},
                {"condition": {}, "next_state": "done"}]},
            "no": {"action": {"tool": "fail", "params": {"message": "{HOST}: unreachable"}}},
            "done": {"action": {"tool": "return", "params": {"result": "{HOST}"}}}
        }
    });
    let deploy = |at_once: Value| {
        let mut for_each = json!({"items": ["web1", "bad2", "web3", "bad4"], "as": "host"});
        for_each.as_object_mut().unwrap().extend(at_once.as_object().unwrap().clone());
        let params = json!({"workflow_definition": one, "initial_variables": {"HOST": "{host}"}});
        json!({
            "initial_state": "all",
            "states": {
                "all": {"for_each": for_each, "action": {"tool": "run_workflow", "params": params},
                        "transitions": [{"condition": {}, "next_state": "again"}]},
                "again": {"for_each": {"items": "{all_failed}", "as": "one"},
                          "action": {"tool": "set", "params": {"tried": "{one.item}: {one.error}"}},
                          "transitions": [{"condition": "success", "next_state": "end"}]},
                "end": {"action": {"tool": "return", "params": {"result": ["{all_failed}", "{all_results}", "{tried}"]}}}
            }
        })
    };
    let reply = run_with(&daemon, &deploy(json!({"max_parallel": 2})), json!({})).await;
    let result = reply.result.unwrap_or_else(|| panic!("{:?}", reply.error));
    let error = |host: &str| format!("State 'no' failed: {host}: unreachable");
    let failed = result[0].as_array().unwrap();
    assert_eq!(failed.len(), 2, "{result}");
    for (failure, (index, host)) in failed.iter().zip([(1, "bad2"), (3, "bad4")]) {
        let expected = (&json!(index), &json!(host), &json!(error(host)));
        assert_eq!((&failure["index"], &failure["item"], &failure["error"]), expected);
        assert!(failure["run_id"].as_str().unwrap().starts_with("run_"), "{failure}");
    }
    assert_eq!(result[1], json!(["web1", null, "web3", null]));
    assert_eq!(result[2], format!("bad4: {}", error("bad4")));

    // In sequence, the first failure ends the list.
    let reply = run_with(&daemon, &deploy(json!({})), json!({})).await;
    let result = reply.result.unwrap_or_else(|| panic!("{:?}", reply.error));
    let run_id = result[0][0]["run_id"].clone();
    assert!(run_id.is_string(), "{result}");
    assert_eq!(result[0], json!([{"index": 1, "item": "bad2", "error": error("bad2"), "run_id": run_id}]));
    daemon.stop().await;
}

#[tokio::test]
async fn terminal_has_the_address_of_its_view_while_the_page_runs() {
    let daemon = TestDaemon::new().await;
    let states = json!({
        "open": {"action": {"tool": "open_terminal"}, "transitions": [{"condition": "success", "next_state": "end"}]},
        "end": {"action": {"tool": "return", "params": {"result": ["{web_url}", "{session_id}"]}}}
    });
    let definition = json!({"initial_state": "open", "states": states});
    let unserved = daemon.run(definition.clone()).await;
    assert!(unserved.error.unwrap().contains("{web_url} has no value"));
    // Written as by the page's server.
    let record = PageServerRecord { pid: 1, port: 7878, version: "1".to_owned() };
    let file = PageServerRecord::file(daemon.paths().runtime());
    fs::write(&file, serde_json::to_string(&record).unwrap()).unwrap();
    let server = fs::File::open(&file).unwrap();
    server.lock().unwrap();
    let served = daemon.run(definition).await.result.unwrap();
    assert_eq!(served[0], format!("http://localhost:7878/#/terminals/{}", served[1].as_str().unwrap()));
    let session = daemon.bash().await;
    let listing = daemon.call(ListTerminalSessions {}).await.sessions;
    assert_eq!(listing[0].web_url, Some(format!("http://localhost:7878/#/terminals/{}", session.id)));
    server.unlock().unwrap();
    assert_eq!(daemon.call(ListTerminalSessions {}).await.sessions[0].web_url, None);
    daemon.stop().await;
}

#[tokio::test]
async fn state_fails_if_its_command_did_not_run() {
    let daemon = TestDaemon::new().await;
    let rows = [
        ("bash", "echo )("),
        ("bash", "# a comment"),
        ("bash", "echo )(\necho two"),
        ("zsh", "echo )("),
        ("zsh", "# a comment"),
        ("fish", "echo )("),
        ("fish", "# a comment"),
    ];
    for (shell, command) in rows {
        let run = |command: &str, next: &[(&str, &str)]| {
            let transitions: Vec<Value> =
                next.iter().map(|(condition, state)| json!({"condition": condition, "next_state": state})).collect();
            json!({"action": run_command(command), "transitions": transitions})
        };
        let set = |value: &str| json!({"action": {"tool": "return", "params": {"result": value}}});
        let definition = json!({"initial_state": "open", "states": {
            "open": {"action": {"tool": "open_terminal", "params": {"shell": shell}},
                     "transitions": [{"condition": "success", "next_state": "before"}]},
            "before": run("true", &[("success", "doubtful")]),
            "doubtful": run(command, &[("success", "ran"), ("failure", "failed")]),
            "ran": set("ran"),
            "failed": set("failed"),
        }});
        let reply = daemon.run(definition).await;
        assert_eq!(reply.result, Some(json!("failed")), "{shell}: {command}: {reply:?}");
    }
    daemon.stop().await;
}

#[tokio::test]
async fn command_in_a_shell_without_exit_codes_is_not_a_success() {
    let daemon = TestDaemon::new().await;
    let rows = [
        ("dash", None, "true", false, "unknown"),
        ("dash", None, "sh -c 'exit 3'", false, "unknown"),
        ("busybox sh", None, "true", false, "unknown"),
        ("bash", Some("PS1='inner$ ' bash --norc"), "false", false, "unknown"),
        ("bash", Some("PS1='inner$ ' dash"), "false", false, "unknown"),
        ("dash", None, "true", true, "ran"),
        ("dash", None, "sh -c 'exit 3'", true, "failed"),
        ("bash", Some("PS1='inner$ ' bash --norc"), "true", true, "ran"),
        // An entry of an interpreter has no exit code.
        ("bash", Some("python3 -q"), "1 + 1", false, "ran"),
        ("bash", Some("python3 -q"), "1 + 1", true, "ran"),
    ];
    for (program, inner, command, integrate, expected) in rows {
        let program: Vec<&str> = program.split(' ').collect();
        let goes = |action: Value, next: &[(Value, &str)]| {
            let transitions: Vec<Value> =
                next.iter().map(|(condition, state)| json!({"condition": condition, "next_state": state})).collect();
            json!({"action": action, "transitions": transitions})
        };
        let set = |value: &str| json!({"action": {"tool": "return", "params": {"result": value}}});
        let start = json!({"tool": "send_input",
            "params": {"input_text": format!("{}\n", inner.unwrap_or_default()), "pattern": r"(?m)^(>>> |inner\$ )"}});
        let open = json!({"tool": "open_terminal", "params": {"command": program}});
        let command_action = json!({"tool": "run_command", "params": {"command": command, "integrate": integrate}});
        let first = if inner.is_some() { "start" } else { "do" };
        let definition = json!({"initial_state": "open", "states": {
            "open": goes(open, &[("success".into(), first)]),
            "start": goes(start, &[("success".into(), "do")]),
            "do": goes(command_action, &[
                ("success".into(), "ran"), (json!({"field_equals": {"exit_code_unknown": true}}), "unknown"),
                ("failure".into(), "failed"),
            ]),
            "ran": set("ran"),
            "unknown": set("unknown"),
            "failed": set("failed"),
        }});
        let reply = daemon.run(definition).await;
        assert_eq!(reply.result, Some(json!(expected)), "{program:?}: {inner:?}: {command}: {reply:?}");
    }
    daemon.stop().await;
}

#[tokio::test]
async fn timed_out_state_names_the_question_of_the_program() {
    let daemon = TestDaemon::new().await;
    let question = "read -p 'Go on? ' answer";
    let typed_input = json!({"input_text": format!("{question}\n"), "until": "prompt", "timeout": 1});
    for action in [
        json!({"tool": "run_command", "params": {"command": question, "timeout": 1}}),
        json!({"tool": "send_input", "params": typed_input}),
    ] {
        let definition = json!({"initial_state": "open", "states": {
            "open": {"action": {"tool": "open_terminal", "params": {"shell": "bash"}},
                     "transitions": [{"condition": "success", "next_state": "ask"}]},
            "ask": {"action": action},
        }});
        let reply = daemon.run(definition).await;
        let error = reply.error.unwrap_or_default();
        assert!(error.contains("waits for input at 'Go on?'"), "{action}: {error}");
    }
    daemon.stop().await;
}

#[tokio::test]
async fn lower_case_variable_is_the_argument_in_capitals() {
    let daemon = TestDaemon::new().await;
    let says = json!({"tool": "run_command", "params": {"command": "echo {PROJECT}"}});
    let definition = json!({
        "arguments": {"PROJECT": {"export": false}}, "initial_state": "say", "states": {"say": {"action": says}},
    });
    for name in ["project", "Project", "PROJECT"] {
        let verb = steplatch_protocol::RunWorkflow {
            workflow_definition: Some(definition.clone()),
            initial_variables: Some([(name.to_owned(), "shop".into())].into()),
            wait_seconds: Some(60.0),
            save_on_success: false,
            ..steplatch_protocol::RunWorkflow::default()
        };
        let reply = daemon.call(verb).await;
        assert_eq!((reply.status.as_str(), reply.error.as_deref()), ("completed", None), "{name}: {reply:?}");
        let output = reply.execution_log.iter().find(|entry| entry["state"] == "say");
        assert_eq!(output.unwrap()["result"]["output"], "shop", "{name}: {reply:?}");
    }
    daemon.stop().await;
}
