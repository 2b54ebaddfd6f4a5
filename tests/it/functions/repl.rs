//! Nodes that keep programs in terminals.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use steplatch_testkit::{Agent, eventually_blocking};

use crate::functions::story::{Story, wait_for_content};

#[test]
fn repl_persists_between_calls_and_across_daemons() {
    let story = Story::with_body(
        "first = await ctx.run('python', 'x = 20 + 1')\n\
         second = await ctx.run('python', 'print(x * 2)')\n\
         await ctx.gate('Go on?')\n\
         third = await ctx.run('python', 'print(\"still\", x)')\n\
         shell = await ctx.run('shell', 'printf \"in a shell\"')\n\
         plain = await ctx.run('plain', 'echo without marks')\n\
         return [first['output'], second['output'], third['output'], shell['output'], third['attributes']['is_ready'], 'without marks' in plain['output']]",
        "PTYNode(id='python', session=session, command='python3 -q', ready={'pattern': '>>> $'})\n\
         PTYNode(id='shell', session=session, command='bash')\n\
         PTYNode(id='plain', session=session, command='sh')",
    );
    let waiting = story.start(60.0);
    assert_eq!(waiting["status"], "waiting", "{waiting}");
    story.kill_daemon();
    story.answer_gate(&waiting, "yes").expect_success();
    let outcome = story.get_run(&waiting, 60.0);
    assert_eq!(outcome["result"], json!(["", "42", "still 21", "in a shell", true, true]), "{outcome}");
    let open_terminals = story.home.run(&["terminal", "list", "--json"]).json();
    assert_eq!(open_terminals["sessions"], json!([]), "the terminals are closed with their run");
}

#[test]
fn first_prompt_may_be_drawn_in_several_ways() {
    let drawings = [
        "",
        r"\n\033[A\r\033[7C",
        r"\r\033[J\nready> ",
        r"\r\033[Kready> ",
        r"\033[?2004h\033]0;title\007",
        r"\r\033[Kready> \r\033[7C",
    ];
    let nodes: Vec<String> = (0..drawings.len()).map(|number| format!("n{number}")).collect();
    let declared = nodes.iter().map(|node| {
        format!("PTYNode(id='{node}', session=session, command='sh {node}.sh', ready={{'pattern': 'ready> $'}})\n")
    });
    let story = Story::with_body(
        &format!("import asyncio\nreturn await asyncio.gather(*[ctx.run(node, 'text') for node in {}])", json!(nodes)),
        &declared.collect::<String>(),
    );
    for (node, drawing) in nodes.iter().zip(drawings) {
        let program = format!(
            "printf 'ready> '; sleep 0.1; printf '{drawing}'; sleep 0.1; printf '\\033[0m'\n\
             while read -r line; do printf 'got %s\\nready> ' \"$line\"; done\n"
        );
        fs::write(story.path(&format!("{node}.sh")), program).unwrap();
    }
    let outcome = story.start(60.0);
    for (number, drawing) in drawings.iter().enumerate() {
        assert_eq!(outcome["result"][number]["output"], "got text", "{drawing:?}: {outcome}");
    }
}

#[test]
fn node_keeps_its_terminal_when_its_shell_is_replaced() {
    let story = Story::with_body(
        "await ctx.run('shell', 'exec python3 -q')\n\
         value = await ctx.run('shell', 'print(6 * 7)')\n\
         return [value['success'], '42' in value['output'].splitlines()]",
        "PTYNode(id='shell', session=session, command='bash')",
    );
    let outcome = story.start(60.0);
    assert_eq!(outcome["result"], json!([true, true]), "{outcome}");
}

#[test]
fn input_to_a_lost_terminal_has_an_unknown_outcome() {
    let story = Story::with_body(
        "lost = await ctx.run('shell', 'echo >begun; sleep 60')\n\
         return [lost['success'], lost['error_type'], 'was typed' in lost['error']]",
        "PTYNode(id='shell', session=session, command='bash')",
    );
    let run = story.start(0.0);
    wait_for_content(&story.path("begun"));
    let status = story.home.run(&["daemon", "status", "--json"]).json();
    let host = i32::try_from(status["hosts"][0]["pid"].as_i64().unwrap()).unwrap();
    kill_process(Pid::from_raw(host).unwrap(), Signal::KILL).unwrap();
    let outcome = story.get_run(&run, 60.0);
    assert_eq!(outcome["result"], json!([false, "unknown", true]), "{outcome}");
}

#[test]
fn program_questions_are_answered_by_node_rules() {
    let mut story = Story::with_source("");
    story.agent = Agent::with(&story.home, &[("PW", "pass word")]);
    let program = story.home.path().join("install.sh");
    let script = r#"read -p "Licence? " l; echo "l=$l"
read -s -p "Password: " p; echo; test "$p" = "pass word" || exit 4
read -p "Type wipe-7 to confirm: " w; echo "w=$w"; echo Installed 1.2
"#;
    std::fs::write(&program, script).unwrap();
    let text = format!(
        r#"
RULES = {{"rules": [{{"when": "Licence\\? $", "type": "yes\n"}}, {{"when": "Password: ", "secret": "PW"}},
                   {{"when": "Type (\\S+) to", "type": "{{groups.1}}\n"}}], "until": "^Installed (?P<version>\\S+)"}}
PTYNode(id="install", session=session, command="bash {}", dialogue=RULES)
PTYNode(id="shell", session=session, command="bash", dialogue=RULES)

async def story(ctx):
    done = await ctx.run("install")
    asked = await ctx.run("shell", "read -p 'Name? ' n")
    found = [done["attributes"]["groups"]["version"], done["attributes"]["answers"], "w=wipe-7" in done["output"]]
    return [done["success"], done["error"], found, asked["error_type"], "a question that no rule answers" in asked["error"]]

Workflow(id="story", session=session, fn=story)
"#,
        program.display()
    );
    std::fs::write(&story.file, text).unwrap();
    let outcome = story.start(60.0);
    assert_eq!(outcome["result"], json!([true, null, ["1.2", 3, true], "protocol", true]), "{outcome}");
    assert!(!outcome.to_string().contains("pass word"), "{outcome}");
}

#[test]
fn failed_start_of_a_program_is_a_failed_result() {
    let story = Story::with_body(
        "missing = await ctx.run('missing', 'x')\n\
         slow = await ctx.run('slow', 'x')\n\
         gone = await ctx.run('gone', 'exit 3')\n\
         back = await ctx.run('gone', 'echo back')\n\
         try:\n    await ctx.run('gone', 'sleep 1000', timeout=0.5)\nexcept TimeoutError:\n    late = True\n\
         after = await ctx.run('gone', 'echo after')\n\
         return [missing['error_type'], slow['error_type'], gone['attributes']['is_ready'], gone['attributes']['exit_code'], back['output'], late, after['output']]",
        "PTYNode(id='missing', session=session, command='/no/such/program')\n\
         PTYNode(id='slow', session=session, command='cat', ready={'pattern': 'never'}, timeout=0.5)\n\
         PTYNode(id='gone', session=session, command='bash')",
    );
    let outcome = story.start(60.0);
    assert_eq!(outcome["result"], json!(["not_started", "timeout", false, 3, "back", true, "after"]), "{outcome}");
}

#[test]
fn terminal_of_an_interrupted_first_call_closes_with_its_run() {
    let story = Story::with_body(
        "import asyncio\nboth = await asyncio.gather(ctx.run('slow', 'sleep 1000'), ctx.gate('Go on?'))\n\
         return [both[0]['error_type'], both[1]]",
        "PTYNode(id='slow', session=session, command='bash')",
    );
    let waiting = story.start(60.0);
    let open_terminals =
        || story.home.run(&["terminal", "list", "--json"]).json()["sessions"].as_array().unwrap().clone();
    eventually_blocking("the command is typed", || open_terminals().iter().any(|session| session["busy"] == true));
    story.kill_daemon();
    story.answer_gate(&waiting, "yes").expect_success();
    let outcome = story.get_run(&waiting, 60.0);
    assert_eq!(outcome["result"], json!(["unknown", "yes"]), "{outcome}");
    assert_eq!(open_terminals(), Vec::<serde_json::Value>::new());
}

#[test]
fn node_waits_for_a_free_terminal_at_the_limit() {
    let story = Story::with_settings(
        "shell = await ctx.run('shell', 'echo here')\nreturn [shell['output'], shell['error']]",
        "PTYNode(id='shell', session=session, command='bash')",
        "terminals.max = 1\n",
    );
    let open_terminals = story.agent.call_tool("open_terminal", json!({}));
    let run = story.start(0.0);
    assert_eq!(story.get_run(&run, 1.0)["status"], "running");
    let refusal = story.agent.begin("open_terminal", json!({})).refusal();
    assert!(refusal.contains("1 terminals are open, which is the limit"), "{refusal}");
    let reply = story.agent.call_tool("exit_terminal", json!({"session_id": open_terminals["session_id"]}));
    assert_eq!(reply["success"], true, "{reply}");
    let outcome = story.get_run(&run, 60.0);
    assert_eq!(outcome["result"], json!(["here", null]), "{outcome}");
}
