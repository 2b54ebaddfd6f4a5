//! Runs of functions in Python syntax, on the real binary.

mod cancels;
mod document;
mod document_003;
mod examples;
mod frames;
mod nested;
mod repl;
mod secrets;
mod shared;
mod story;
mod survival;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use story::{Story, count_lines, event_types, wait_for_content};

#[test]
fn waiting_function_survives_a_kill_and_repeats_no_command() {
    let story = Story::with_body(
        "before = await ctx.run('count', ctx.params['word'])\n\
         ctx.state['at'] = ctx.now()\n\
         verdict = await ctx.gate('Publish?', choices=['publish', 'stop'], timeout=86400)\n\
         after = await ctx.run('count', verdict)\n\
         return [before['output'].strip(), after['output'].strip(), ctx.state['at'] > 1e9]",
        "BashNode(id='count', session=session, command='echo {input|sh} >>counted; echo said {input|sh}')",
    );
    let waiting = story.start_with(json!({"wait_seconds": 60, "initial_variables": {"word": "first"}}));
    assert_eq!(waiting["status"], "waiting", "{waiting}");
    let gate = &waiting["pending_gate"];
    assert_eq!((&gate["prompt"], &gate["choices"]), (&json!("Publish?"), &json!(["publish", "stop"])));
    story.kill_daemon();
    // The file now has another function, and the run continues with its own version.
    std::fs::write(&story.file, "nothing of the kind").unwrap();
    let current = story.get_run(&waiting, 0.0);
    assert_eq!((&current["status"], &current["pending_gate"]), (&json!("waiting"), gate), "{current}");
    let invalid_answer = story.answer_gate(&waiting, "perhaps");
    assert!(invalid_answer.stderr.contains("invalid answer; choose"), "{invalid_answer:?}");
    story.answer_gate(&waiting, "publish").expect_success();
    let outcome = story.get_run(&waiting, 60.0);
    assert_eq!(outcome["status"], "completed", "{outcome}");
    assert_eq!(outcome["result"], json!(["said first", "said publish", true]));
    assert_eq!(std::fs::read_to_string(story.path("counted")).unwrap(), "first\npublish\n");
    let late_answer = story.answer_gate(&waiting, "stop");
    assert!(
        late_answer.stderr.contains("already answered by") && late_answer.stderr.contains(": publish"),
        "{late_answer:?}"
    );
}

/// Returns the processes that execute functions for a daemon.
fn find_workers(daemon: i32) -> Vec<i32> {
    let worker_pid = |entry: std::fs::DirEntry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let status = std::fs::read_to_string(entry.path().join("status")).ok()?;
        let arguments = std::fs::read_to_string(entry.path().join("cmdline")).ok()?;
        let is_child = status.lines().any(|line| *line == format!("PPid:\t{daemon}"));
        (is_child && arguments.ends_with("\0worker\0")).then_some(pid)
    };
    std::fs::read_dir("/proc").unwrap().flatten().filter_map(worker_pid).collect()
}

#[test]
fn function_survives_its_killed_worker_at_a_gate() {
    let story = Story::with_body("drawn = ctx.random()\nawait ctx.gate('Go on?')\nreturn [drawn, ctx.random()]", "");
    let waiting = story.start(60.0);
    let workers = find_workers(story.daemon_pid());
    assert!(!workers.is_empty());
    workers.iter().for_each(|worker| kill_process(Pid::from_raw(*worker).unwrap(), Signal::KILL).unwrap());
    story.answer_gate(&waiting, "yes").expect_success();
    let outcome = story.get_run(&waiting, 60.0);
    assert_eq!(outcome["status"], "completed", "{outcome}");
    assert_ne!(outcome["result"][0], outcome["result"][1], "each random number is drawn once");
}

#[test]
fn interrupted_command_is_uncertain_and_not_repeated() {
    let story = Story::with_body(
        "result = await ctx.run('slow')\nreturn [result['success'], result['error_type']]",
        "BashNode(id='slow', session=session, command='exec 2>log; trap \"echo ended >>ended; exit\" TERM; echo once >>begun; while true; do sleep 0.1; done')",
    );
    let run = story.start(0.0);
    wait_for_content(&story.path("begun"));
    story.kill_daemon();
    let outcome = story.get_run(&run, 60.0);
    assert_eq!(
        (&outcome["status"], &outcome["result"]),
        (&json!("completed"), &json!([false, "unknown"])),
        "{outcome}"
    );
    assert_eq!(count_lines(&story.path("begun")), 1);
    assert_eq!(count_lines(&story.path("ended")), 1, "the rest of the command is terminated");
}

#[test]
fn cancelled_function_ends_its_command_first() {
    let story = Story::with_body(
        "await ctx.run('slow')",
        "BashNode(id='slow', session=session, command='trap \"echo ended >>ended; exit\" TERM; echo >begun; while true; do sleep 0.1; done')",
    );
    let run = story.start(0.0);
    wait_for_content(&story.path("begun"));
    let cancel_reply = story.agent.call_tool("cancel_run", json!({"run_id": run["run_id"]}));
    assert_eq!(cancel_reply["state"], "cancelled", "{cancel_reply}");
    assert_eq!(count_lines(&story.path("ended")), 1);
}

#[test]
fn gathered_calls_run_in_parallel_and_timeouts_are_caught() {
    let story = Story::with_body(
        "import asyncio\n\
         began = ctx.now()\n\
         three = await ctx.run_parallel([('slow', 'a'), ('slow', 'b'), ('identity', 7)])\n\
         try:\n    await ctx.run('endless', timeout=0.2)\nexcept TimeoutError as error:\n    late = str(error)\n\
         try:\n    await ctx.gate('Anybody?', timeout=0)\nexcept asyncio.TimeoutError:\n    nobody = True\n\
         try:\n    await ctx.run('nothing')\nexcept ValueError as error:\n    unknown = str(error)\n\
         await ctx.sleep(0.1)\n\
         ctx.emit('half', {'done': 50})\nprint('hello')\n\
         return {'three': [one['output'] for one in three], 'late': late, 'nobody': nobody, 'unknown': unknown,\n        'random': 0 <= ctx.random() < 1, 'parallel': ctx.now() - began < 1.5}",
        "BashNode(id='slow', session=session, command='sleep 0.6; printf %s {input|sh}')\n\
         BashNode(id='endless', session=session, command='sleep 1000')",
    );
    let outcome = story.start(60.0);
    assert_eq!(outcome["status"], "completed", "{outcome}");
    let result = &outcome["result"];
    assert_eq!(result["three"], json!(["a", "b", 7]));
    assert_eq!(result["late"], "Node 'endless' took longer than 0.2 s");
    assert_eq!(result["unknown"], "Node 'nothing' not found in session");
    assert_eq!((&result["nobody"], &result["random"], &result["parallel"]), (&json!(true), &json!(true), &json!(true)));
    let events = story.events(&outcome);
    let types = event_types(&events);
    let expected = ["workflow_started", "node_started", "node_timeout", "gate_waiting", "gate_timeout", "half", "log"];
    let mut rest = types.iter();
    assert!(expected.iter().all(|expected| rest.any(|event| event == expected)), "{types:?}");
    assert_eq!(types.last(), Some(&"workflow_completed"));
    assert!(events.windows(2).all(|pair| pair[0]["seq"].as_u64() < pair[1]["seq"].as_u64()), "{events:?}");
}

#[test]
fn concurrent_gates_wait_and_agents_cannot_answer_for_people() {
    let story = Story::with_body(
        "import asyncio\n\
         return await asyncio.gather(ctx.gate('One?'), ctx.gate('Two?', answered_by='agent', choices=['yes', 'no']))",
        "",
    );
    let waiting = story.start(60.0);
    let run = waiting["run_id"].as_str().unwrap();
    let gate = |number: u32| format!("{run}/gate/{number}");
    let ambiguous = story.answer_gate(&waiting, "first");
    assert!(ambiguous.stderr.contains("waits for several answers"), "{ambiguous:?}");
    let answer = |gate: String, answer: &str| {
        story.agent.call_tool("decide", json!({"run_id": run, "gate_id": gate, "answer": answer}))
    };
    let refusal = answer(gate(1), "me");
    assert!(refusal["error"].as_str().unwrap().contains("waits for a person"), "{refusal}");
    assert_eq!(answer(gate(2), "yes")["success"], true);
    story.answer_gate(&waiting, "as you like").expect_success();
    let outcome = story.get_run(&waiting, 60.0);
    assert_eq!(outcome["result"], json!(["as you like", "yes"]), "{outcome}");
}

#[test]
fn failing_function_reports_its_line_and_empty_file_is_refused() {
    let story = Story::with_body("first = await ctx.run('identity', 1)\nreturn first['output'] / 0", "");
    let outcome = story.start(60.0);
    assert_eq!(outcome["status"], "failed");
    // 003 L944-957: error is str(e).
    assert_eq!(outcome["error"], "division by zero", "{outcome}");
    let traceback = outcome["traceback"].as_str().unwrap();
    assert!(traceback.contains("line 3, in story") && traceback.contains("ZeroDivisionError"), "{traceback}");
    std::fs::write(&story.file, "BashNode(id='a', session=session, command='true')\n").unwrap();
    let refusal = story.start(60.0);
    assert_eq!(refusal["success"], false);
    assert!(refusal["error"].as_str().unwrap().contains("declares no workflow"), "{refusal}");
}

#[test]
fn idempotency_key_belongs_to_the_unchanged_file() {
    let story = Story::with_body("return 1", "");
    let start_run = || story.start_with(json!({"wait_seconds": 60, "idempotency_key": "once"}));
    let first = start_run();
    assert_eq!(start_run()["run_id"], first["run_id"]);
    let text = std::fs::read_to_string(&story.file).unwrap().replace("return 1", "return 2");
    std::fs::write(&story.file, text).unwrap();
    let refusal = start_run();
    assert_eq!(refusal["success"], false, "{refusal}");
    assert!(refusal["error"].as_str().unwrap().contains("belongs to run"), "{refusal}");
    std::fs::remove_file(&story.file).unwrap();
    assert_eq!(start_run()["run_id"], first["run_id"], "the run began with the removed file");
}

#[test]
fn endless_function_fails_without_delaying_others() {
    let story = Story::with_source(
        "async def loops(ctx):\n    while True:\n        pass\n\
         async def steps(ctx):\n    longest = 0\n    for _ in range(40):\n        began = ctx.now()\n        await ctx.sleep(0.05)\n        longest = max(longest, ctx.now() - began)\n    return longest\n\
         Workflow(id='loops', session=session, fn=loops)\nWorkflow(id='steps', session=session, fn=steps)\n",
    );
    let start_run = |name: &str| story.start_with(json!({"workflow_name": name, "wait_seconds": 0}));
    let (steps, other_steps) = (start_run("steps"), start_run("steps"));
    // One run for each worker of the default pool.
    let loops = [start_run("loops"), start_run("loops"), start_run("loops")];
    for run in [steps, other_steps] {
        let outcome = story.get_run(&run, 60.0);
        assert_eq!(outcome["status"], "completed", "{outcome}");
        // The looping runs take five seconds each.
        assert!(outcome["result"].as_f64().unwrap() < 2.5, "{outcome}");
    }
    for run in loops {
        let outcome = story.get_run(&run, 60.0);
        assert_eq!(outcome["status"], "failed", "{outcome}");
        assert!(outcome["error"].as_str().unwrap().contains("its limit of 5s"), "{outcome}");
    }
}

#[test]
fn process_started_by_a_function_is_not_a_person() {
    let story = Story::with_body(
        "gates = [ctx.gate('Really?'), ctx.run('answers', ctx.params['how'])]\n\
         import asyncio\nreturn (await asyncio.gather(*gates))[0]",
        "BashNode(id='answers', session=session, command='sleep 0.3; {input}')",
    );
    let steplatch = env!("CARGO_BIN_EXE_steplatch");
    let state = story.home.run(&["daemon", "status", "--json"]).json()["state_dir"].as_str().unwrap().to_owned();
    let answers = format!("{steplatch} --state-dir {state} gates answer $(basename $PWD/run) yes");
    // As a descendant of the daemon, and as a detached process: the test waits for the refusal of the attempt.
    for how in ["", "setsid -f "] {
        let script = story.path("answers.sh");
        let list =
            format!("{steplatch} --state-dir {state} runs list --json | grep -o 'run_[0-9a-z]\\{{16\\}}' | head -1");
        std::fs::write(
            &script,
            format!("run=$({list}); {} 2>&1; echo $? >done", answers.replace("$(basename $PWD/run)", "$run")),
        )
        .unwrap();
        let _ = std::fs::remove_file(story.path("done"));
        let how = format!("{how}sh {} >said; while [ ! -e done ]; do sleep 0.02; done", script.display());
        let run = story.start_with(json!({"wait_seconds": 60, "initial_variables": {"how": how}}));
        wait_for_content(&story.path("done"));
        let output = std::fs::read_to_string(story.path("said")).unwrap();
        assert_eq!(std::fs::read_to_string(story.path("done")).unwrap(), "1\n", "{output}");
        assert!(output.contains("was started by steplatch, for a node"), "{output}");
        assert_eq!(story.get_run(&run, 0.0)["status"], "waiting");
        story.answer_gate(&run, "yes").expect_success();
        assert_eq!(story.get_run(&run, 60.0)["result"], "yes");
    }
}
