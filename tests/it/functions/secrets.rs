//! Secrets of functions: absent from every file and from every report of a daemon that never learned them, while the
//! function continues with the value.

use std::process::Command;

use serde_json::{Value, json};
use steplatch_testkit::CommandOutput;

use crate::functions::story::{Story, event_types};

const SECRET: &str = "s3cret-value-of-nobody's";

/// Possible forms of the secret: unchanged, and quoted for a shell.
const FORMS: [&str; 2] = ["s3cret-value-of-nobody", "s3cret-value-of-nobody'\\''s"];

fn contains_secret(text: &str) -> bool {
    FORMS.iter().any(|form| text.contains(form))
}

/// Returns all reports of a daemon about a run; starts a daemon if there is none.
fn collect_reports(story: &Story, run: &Value) -> String {
    let id = run["run_id"].as_str().unwrap();
    let output = [
        story.home.run(&["runs", "events", id, "--json"]),
        story.home.run(&["runs", "show", id, "--json"]),
        story.home.run(&["runs", "list", "--json"]),
    ];
    let reports: String = output.map(CommandOutput::expect_success).concat();
    assert!(reports.contains(id), "{reports}");
    reports
}

/// Stops the daemon, and with it everything that remembers a secret: terminals and their host.
fn stop_daemon(story: &Story) {
    story.home.run(&["daemon", "stop"]).expect_success();
}

fn check_files_have_no_secret(story: &Story) {
    stop_daemon(story);
    for entry in std::fs::read_dir(story.path("state")).unwrap().flatten() {
        let bytes = std::fs::read(entry.path()).unwrap_or_default();
        let is_present = bytes.windows(FORMS[0].len()).any(|window| window == FORMS[0].as_bytes());
        assert!(!is_present, "{} contains the secret", entry.path().display());
    }
}

fn start_run(mut command: Command) -> Value {
    let output = CommandOutput::from_process(&command.output().unwrap());
    json!({"run_id": output.expect_success().trim()})
}

#[test]
fn secret_shown_before_it_is_known_is_hidden_and_replayed() {
    let story = Story::with_body(
        "shown = await ctx.run('shows')\n\
         used = await ctx.run('uses')\n\
         again = await ctx.run('shows')\n\
         quoted = await ctx.run('quotes', again['output'].strip())\n\
         print('it is', again['output'])\n\
         ctx.emit('value', {'is': again['output'], 'list': [again['output']]})\n\
         value = again['output'].strip()\n\
         answer = await ctx.gate('Go on with ' + value + '?', choices=['use ' + value, 'stop'], context={'value': value})\n\
         return {'same': shown['output'] == again['output'], 'length': len(value), 'value': value,\n        \
         'answer': answer == 'use ' + value, 'used': used['output'].strip()}",
        "BashNode(id='shows', session=session, command='cat value')\n\
         BashNode(id='quotes', session=session, command='echo {input|sh}')\n\
         BashNode(id='uses', session=session, env={'IT': '{secret:TOKEN}'}, command='printf %s \"$IT\" | wc -c')",
    );
    std::fs::write(story.path("value"), format!("{SECRET}\n")).unwrap();
    let mut command = story.home.steplatch();
    command.env("TOKEN", SECRET).args(["run", "--detach"]).arg(&story.file);
    let run = start_run(command);
    let waiting = story.get_run(&run, 60.0);
    assert_eq!(waiting["status"], "waiting", "{waiting}");
    story.kill_daemon();
    let waiting_reports = collect_reports(&story, &run);
    assert!(!contains_secret(&waiting_reports) && waiting_reports.contains("Go on with ••••••?"), "{waiting_reports}");
    story.answer_gate(&run, "use ••••••").expect_success();
    let outcome = story.get_run(&run, 60.0);
    let length = SECRET.len();
    let result = json!({"same": true, "length": length, "value": "••••••", "answer": true, "used": length.to_string()});
    assert_eq!((&outcome["status"], &outcome["result"]), (&json!("completed"), &result), "{outcome}");
    stop_daemon(&story);
    let reports = collect_reports(&story, &run);
    assert!(!contains_secret(&reports), "a new daemon reports the secret: {reports}");
    check_files_have_no_secret(&story);
}

#[test]
fn secret_typed_elsewhere_is_hidden_even_in_waiting_runs() {
    let story = Story::with_source(
        "async def inner(ctx):\n    return ctx.input + '!'\n\
         async def story(ctx):\n    \
         answer = await ctx.gate('Go on?')\n    \
         returned = await ctx.run_workflow('inner', ctx.input)\n    \
         return [ctx.input == ctx.params['input'], returned == ctx.input + '!', len(returned), answer]\n\
         Workflow(id='inner', session=session, fn=inner)\n\
         Workflow(id='story', session=session, fn=story)\n",
    );
    let begin = || {
        let variables = json!({"input": SECRET});
        let started_run =
            story.start_with(json!({"workflow_name": "story", "initial_variables": variables, "wait_seconds": 60}));
        assert_eq!(started_run["status"], "waiting", "{started_run}");
        started_run
    };
    let before = begin();
    let terminal = story.agent.call_tool("open_terminal", json!({"command": ["cat"]}));
    let secret = json!({"session_id": terminal["session_id"], "input_text": SECRET, "secret": true});
    assert_eq!(story.agent.call_tool("send_input", secret)["success"], true);
    let after = begin();
    // From here, no terminal remembers the secret.
    stop_daemon(&story);
    for run in [&before, &after] {
        let reports = collect_reports(&story, run);
        assert!(!contains_secret(&reports), "{reports}");
        story.answer_gate(run, "yes").expect_success();
        let outcome = story.get_run(run, 60.0);
        assert_eq!(outcome["result"], json!([true, true, SECRET.len() + 1, "yes"]), "{outcome}");
    }
    stop_daemon(&story);
    for run in [&before, &after] {
        let events = story.events(run);
        assert!(!contains_secret(&json!(events).to_string()), "{events:?}");
        assert_eq!(event_types(&events).last(), Some(&"workflow_completed"));
        assert!(!contains_secret(&collect_reports(&story, run)));
    }
    check_files_have_no_secret(&story);
}
