//! The examples, run as documented, and the function printed in the contract.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::functions::story::Story;

fn load_example(name: &str) -> Story {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples").join(name);
    Story::with_source(&std::fs::read_to_string(file).unwrap())
}

#[test]
fn fan_out_example_collects_three_outputs() {
    let story = load_example("fan_out.py");
    let outcome = story.start(60.0);
    let report = outcome["result"].as_str().unwrap();
    let names: Vec<&str> = report.lines().filter_map(|line| Some(line.split_once(": ")?.0)).collect();
    assert_eq!(names, ["kernel", "uptime", "load"], "{outcome}");
    let event = story.events(&outcome).into_iter().find(|event| event["event_type"] == "asked").unwrap();
    assert_eq!(event["data"], json!({"answers": 3, "failed": []}));
}

#[test]
fn third_release_attempt_succeeds_and_wrong_version_fails() {
    let story = load_example("release.py");
    let outcome = story.start_with(json!({"wait_seconds": 60, "initial_variables": {"version": "1.2.0"}}));
    assert_eq!(
        (&outcome["result"]["released"], &outcome["result"]["uploads_tried"]),
        (&json!("1.2.0"), &json!(3)),
        "{outcome}"
    );
    let invalid = story.start_with(json!({"wait_seconds": 60, "initial_variables": {"version": "one"}}));
    assert_eq!(invalid["status"], "failed");
    assert!(invalid["error"].as_str().unwrap().contains("one was not released: Step 'checked' failed"), "{invalid}");
}

#[test]
fn drafts_are_made_until_a_person_accepts_one() {
    let story = load_example("review.py");
    let run = story.start_with(json!({"wait_seconds": 60, "initial_variables": {"topic": "gates"}}));
    assert_eq!(
        run["pending_gate"]["context"]["draft"],
        "Real gates for agents, and for the people who look after them."
    );
    story.answer_gate(&run, "shorter").expect_success();
    let second_draft = story.get_run(&run, 60.0);
    assert_eq!(second_draft["pending_gate"]["context"]["draft"], "Real gates for agents.");
    story.answer_gate(&run, "publish").expect_success();
    assert_eq!(story.get_run(&run, 60.0)["result"], "Real gates for agents.");
}

#[test]
fn dangerous_line_waits_for_a_person() {
    for (answer, expected) in [
        ("yes", json!(["os.path.exists(f) → True", "os.path.exists(f) → False"])),
        ("skip", json!(["os.path.exists(f) → True", "os.path.exists(f) → True"])),
    ] {
        let story = load_example("careful.py");
        let run = story.start(60.0);
        assert_eq!(run["pending_gate"]["prompt"], "Type this? os.remove(f)", "{run}");
        story.answer_gate(&run, answer).expect_success();
        assert_eq!(story.get_run(&run, 60.0)["result"], expected);
    }
}

/// Starts a model endpoint that replies with a summary of its request.
fn start_model() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/v1", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut line, mut length) = (String::new(), 0);
            while reader.read_line(&mut line).unwrap() > 2 {
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let request: Value = serde_json::from_slice(&body).unwrap();
            let question = request["messages"][0]["content"].as_str().unwrap();
            let text = format!("answer to: {}", question.lines().next().unwrap());
            let answer = json!({"id": "1", "object": "chat.completion", "created": 1, "model": "small", "choices": [
                {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]})
            .to_string();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
            // A disconnected client is ignored.
            let _ = write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{answer}", answer.len());
        }
    });
    address
}

/// The function in the contract of runs, verbatim, with its own nodes.
const RELEASE_NOTES: &str = r#"
async def release_notes(ctx: WorkflowContext) -> str:
    """Draft release notes and let a person have the last word."""
    log = await ctx.run("git_log", ctx.params.get("range", "HEAD~20..HEAD"))
    if not log["success"]:
        return f"no log: {log['error']}"
    draft = await ctx.run("writer", f"Write release notes for:\n{log['output']}")
    ctx.emit("draft_ready", {"length": len(draft["output"])})
    for _ in range(5):
        verdict = await ctx.gate("Publish these notes?", choices=["publish", "again", "stop"], timeout=86400)
        if verdict == "publish":
            ctx.state["published"] = True
            return draft["output"]
        if verdict == "stop":
            return "stopped"
        draft = await ctx.run("writer", f"Make it shorter:\n{draft['output']}")
    raise ValueError("five drafts, no agreement")

Workflow(id="release_notes", session=session, fn=release_notes)
"#;

#[test]
fn function_of_the_contract_runs_as_printed() {
    let nodes = format!(
        "BashNode(id='git_log', session=session, command='echo log of {{input|sh}}')\n\
         LLMNode(id='writer', session=session, base_url='{}', model='small')\n",
        start_model()
    );
    let story = Story::with_source(&format!("{RELEASE_NOTES}{nodes}"));
    let run = story.start_with(json!({"wait_seconds": 60, "initial_variables": {"range": "v1..v2"}}));
    assert_eq!(run["pending_gate"]["choices"], json!(["publish", "again", "stop"]), "{run}");
    story.answer_gate(&run, "again").expect_success();
    assert_eq!(story.get_run(&run, 60.0)["status"], "waiting");
    story.answer_gate(&run, "publish").expect_success();
    let outcome = story.get_run(&run, 60.0);
    assert_eq!(outcome["result"], "answer to: Make it shorter:", "{outcome}");
    let event = story.events(&outcome).into_iter().find(|event| event["event_type"] == "draft_ready").unwrap();
    assert_eq!(event["data"], json!({"length": "answer to: Write release notes for:".len()}));
}
