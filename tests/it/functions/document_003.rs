//! The nine tests of document 003 (lines 1468 to 1638) and its other workflow files, executed by the real program.
//!
//! The document's tests use `WorkflowRun` in their own process; here the socket is used: `start` is `EXECUTE_WORKFLOW`,
//! `wait` is its `wait`, `state` and `pending_gate` come from `GET_WORKFLOW_RUN`, and `answer_gate` is `ANSWER_GATE`.
//! Nodes, functions and assertions are the document's.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;

use serde_json::{Value, json};
use steplatch_testkit::{CommandOutput, Home};

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

/// A project whose library has the workflows of one file, and a client of the daemon's socket.
struct Session {
    home: Home,
    load_output: CommandOutput,
}

impl Session {
    /// Loads a possibly invalid file. The file declares its own `session`, as in the document.
    fn try_load(text: &str) -> Self {
        let home = Home::new(STEPLATCH);
        let directory = home.path().join("project");
        std::fs::create_dir_all(directory.join(".git")).unwrap();
        std::fs::write(directory.join("flow.py"), text).unwrap();
        let output = home.steplatch().current_dir(&directory).args(["workflow", "load", "flow.py"]).output().unwrap();
        Self { home, load_output: CommandOutput::from_process(&output) }
    }

    /// Loads a file that must be valid.
    fn load(text: &str) -> Self {
        let session = Self::try_load(text);
        assert_eq!(session.load_output.code, 0, "{:?}", session.load_output);
        session
    }

    /// Sends one command, like any client of the socket, and returns the whole reply.
    fn send_command(&self, name: &str, params: Value) -> Value {
        let status = self.home.run(&["daemon", "status", "--json"]).json();
        let mut socket = UnixStream::connect(status["socket"].as_str().unwrap()).unwrap();
        let directory = self.home.path().join("project");
        let hello = json!({"protocol_version": 1, "client": "test", "cwd": directory, "person": true});
        for (command, params) in [("HELLO", hello), (name, params)] {
            writeln!(socket, "{}", json!({"type": "command", "command_type": command, "params": params})).unwrap();
        }
        let lines = BufReader::new(socket).lines().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
        lines.filter(|line| line["type"] == "result").nth(1).unwrap()
    }

    /// Starts a run and returns its id once it has finished or is at a gate.
    fn start(&self, workflow: &str, input: Value) -> String {
        let params = json!({"workflow_id": workflow, "input": input, "until": "gate"});
        let reply = self.send_command("EXECUTE_WORKFLOW", params);
        reply["data"]["run_id"].as_str().unwrap_or_else(|| panic!("{reply}")).to_owned()
    }

    /// Answers the gate of a run and returns the record of the run once it has finished or is at its next gate.
    fn answer(&self, run_id: &str, answer: &str) -> Value {
        let reply = self.send_command("ANSWER_GATE", json!({"run_id": run_id, "answer": answer}));
        assert_eq!(reply["success"], true, "{reply}");
        self.send_command("GET_RUN", json!({"run_id": run_id, "wait_seconds": 60}))["data"].clone()
    }

    /// Returns the events of a run.
    fn events(&self, run_id: &str) -> Vec<Value> {
        let events = self.home.run(&["runs", "events", run_id, "--json"]).expect_success();
        events.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Executes `run = WorkflowRun(workflow, input); await run.start(); result = await run.wait()`, and returns `result`
    /// and `run.state`.
    fn execute(&self, workflow: &str, input: Value) -> (Value, Value) {
        let params = json!({"workflow_id": workflow, "input": input, "wait": true});
        let reply = self.send_command("EXECUTE_WORKFLOW", params);
        let data = &reply["data"];
        assert_eq!(data["error"], Value::Null, "{reply}");
        (data["result"].clone(), data["state"].clone())
    }
}

// 003 L1474-1483: test_creates_and_registers
#[test]
fn creates_and_registers() {
    let session = Session::load(
        r#"
session = Session(name="test")

async def my_fn(ctx):
    return "done"

workflow = Workflow(id="test", session=session, fn=my_fn)

assert "test" in session.workflows
assert session.workflows["test"] is workflow
"#,
    );
    let list = session.send_command("LIST_WORKFLOWS", json!({}));
    let names: Vec<&Value> =
        list["data"]["workflows"].as_array().unwrap().iter().map(|workflow| &workflow["name"]).collect();
    assert_eq!(names, ["test"], "{list}");
    assert_eq!(session.execute("test", json!(null)).0, "done");
}

// 003 L1485-1490: test_duplicate_id_raises
#[test]
fn duplicate_id_raises() {
    let text = r#"
session = Session(name="test")
Workflow(id="test", session=session, fn=lambda ctx: None)
"#;
    let duplicate = "Workflow(id=\"test\", session=session, fn=lambda ctx: None)\n";
    let _caught = Session::load(&format!(
        "{text}\ntry:\n    {duplicate}except ValueError as error:\n    assert \"conflicts\" in str(error)\nelse:\n    raise AssertionError(\"it did not raise\")\n"
    ));
    let refusal = Session::try_load(&format!("{text}{duplicate}")).load_output;
    assert_eq!(refusal.code, 1);
    assert!(refusal.stderr.contains("ID 'test' conflicts with existing workflow"), "{refusal:?}");
}

// 003 L1492-1497: test_id_collision_with_node
#[test]
fn id_collision_with_node() {
    let refusal = Session::try_load(
        r#"
session = Session(name="test")
BashNode(id="runner", session=session)
Workflow(id="runner", session=session, fn=lambda ctx: None)
"#,
    );
    assert!(refusal.load_output.stderr.contains("conflicts with existing node"), "{:?}", refusal.load_output);
}

// 003 L1503-1515: test_run_executes_node
#[test]
fn run_executes_node() {
    let session = Session::load(
        r#"
session = Session(name="test")
FunctionNode(
    id="echo",
    session=session,
    fn=lambda ctx: {"output": ctx.input.upper()},
)

async def test_run_executes_node(_):
    ctx = WorkflowContext(session=session, input="test")
    result = await ctx.run("echo", "hello")

    assert result["output"] == "HELLO"
    return result

Workflow(id="it", session=session, fn=test_run_executes_node)
"#,
    );
    let (result, state) = session.execute("it", json!(null));
    assert_eq!((&result["output"], &result["success"], state), (&json!("HELLO"), &json!(true), json!("completed")));
}

// 003 L1517-1523: test_run_unknown_node_raises
#[test]
fn run_unknown_node_raises() {
    let session = Session::load(
        r#"
session = Session(name="test")

async def test_run_unknown_node_raises(_):
    ctx = WorkflowContext(session=session, input="test")

    try:
        await ctx.run("nonexistent", "input")
    except ValueError as error:
        assert "not found" in str(error)
        return str(error)

Workflow(id="it", session=session, fn=test_run_unknown_node_raises)
"#,
    );
    assert_eq!(session.execute("it", json!(null)).0, "Node 'nonexistent' not found in session");
}

// 003 L1529-1543: test_simple_workflow_completes
#[test]
fn simple_workflow_completes() {
    let session = Session::load(
        r#"
session = Session(name="test")

async def simple(ctx):
    return "done"

workflow = Workflow(id="simple", session=session, fn=simple)
"#,
    );
    let (result, state) = session.execute("simple", json!("test"));
    assert_eq!(result, "done");
    assert_eq!(state, "completed");
}

// 003 L1545-1567: test_gate_pauses_execution; `until: "gate"` replaces its `gate_reached`.
#[test]
fn gate_pauses_execution() {
    let session = Session::load(
        r#"
session = Session(name="test")

async def with_gate(ctx):
    answer = await ctx.gate("Continue?")
    return f"answered: {answer}"

workflow = Workflow(id="gated", session=session, fn=with_gate)
"#,
    );
    let run_id = session.start("gated", json!("test"));
    let reply = session.send_command("GET_WORKFLOW_RUN", json!({"run_id": run_id}));
    let run = &reply["data"]["run"];
    assert_eq!(run["state"], "waiting", "{reply}");
    assert_eq!(run["pending_gate"]["prompt"], "Continue?");
    let outcome = session.answer(&run_id, "yes");
    assert_eq!(outcome["result"], "answered: yes", "{outcome}");
}

// 003 L1577-1608: test_workflow_with_multiple_nodes
#[test]
fn workflow_with_multiple_nodes() {
    let session = Session::load(
        r#"
session = Session(name="test")

# Create nodes
FunctionNode(
    id="step1",
    session=session,
    fn=lambda ctx: {"output": f"step1({ctx.input})"},
)
FunctionNode(
    id="step2",
    session=session,
    fn=lambda ctx: {"output": f"step2({ctx.input})"},
)

# Create workflow
async def pipeline(ctx):
    r1 = await ctx.run("step1", ctx.input)
    r2 = await ctx.run("step2", r1["output"])
    return r2["output"]

Workflow(id="pipeline", session=session, fn=pipeline)
"#,
    );
    assert_eq!(session.execute("pipeline", json!("hello")).0, "step2(step1(hello))");
}

// 003 L1610-1637: test_workflow_with_loop
#[test]
fn workflow_with_loop() {
    let session = Session::load(
        r#"
session = Session(name="test")

counter = {"value": 0}

FunctionNode(
    id="increment",
    session=session,
    fn=lambda ctx: {"output": counter.__setitem__("value", counter["value"] + 1) or counter["value"]},
)

async def loop_workflow(ctx):
    target = ctx.input
    while counter["value"] < target:
        await ctx.run("increment", None)
    return counter["value"]

Workflow(id="loop", session=session, fn=loop_workflow)
"#,
    );
    assert_eq!(session.execute("loop", json!(5)).0, 5);
    assert_eq!(session.execute("loop", json!(3)).0, 3, "each run has its own variables");
}

/// Nodes that the document's examples call without declaring them.
const NODES: &str = r#"
FunctionNode(id="reviewer", session=session, fn=lambda ctx: {"output": f"reviewed {ctx.input.splitlines()[1]}"})
FunctionNode(id="editor", session=session, fn=lambda ctx: {"output": "better"})
FunctionNode(id="node1", session=session, fn=lambda ctx: {"output": ctx.input + " one"})
FunctionNode(id="node2", session=session, fn=lambda ctx: {"output": ctx.input + " two"})
FunctionNode(id="analyzer", session=session, fn=lambda ctx: {"output": f"analysis of {ctx.input}"})
FunctionNode(id="summarizer", session=session, fn=lambda ctx: {"output": ctx.input[:4]})
"#;

// 003 L57-81: the workflow of the overview
#[test]
fn code_is_reviewed_until_accepted() {
    let session = Session::load(&format!(
        r#"
# Define workflow
async def code_review(ctx: WorkflowContext) -> str:
    """Review code until approved."""
    code = ctx.input

    while True:
        # Get review from Claude
        review = await ctx.run("reviewer", f"Review this:\n{{code}}")
        ctx.emit("review_complete", {{"review": review["output"]}})

        # Wait for human decision
        decision = await ctx.gate("Accept, reject, or provide feedback:")

        if decision.lower() == "accept":
            return review["output"]
        elif decision.lower() == "reject":
            return "Review rejected"
        else:
            # Incorporate feedback and loop
            code = await ctx.run("editor", f"Apply feedback: {{decision}}\n\nCode:\n{{code}}")
            code = code["output"]

# Register with session
Workflow(id="code_review", session=session, fn=code_review)
{NODES}"#
    ));
    let run_id = session.start("code_review", json!("Here is my code..."));
    let second_review = session.answer(&run_id, "shorter");
    assert_eq!(second_review["pending_gate"]["prompt"], "Accept, reject, or provide feedback:", "{second_review}");
    assert_eq!(session.answer(&run_id, "accept")["result"], "reviewed better");
    let reviews = session.events(&run_id).into_iter().filter(|event| event["event_type"] == "review_complete");
    let reviews: Vec<Value> = reviews.map(|event| event["data"]["review"].clone()).collect();
    assert_eq!(reviews, ["reviewed Here is my code...", "reviewed better"]);
    let rejected = session.start("code_review", json!("x"));
    assert_eq!(session.answer(&rejected, "Reject")["result"], "Review rejected");
}

// 003 L150-157: the workflow of the class `Workflow`
#[test]
fn second_node_runs_if_a_person_agrees() {
    let session = Session::load(&format!(
        r#"
async def my_workflow(ctx: WorkflowContext) -> str:
    result = await ctx.run("node1", "input")
    decision = await ctx.gate("Continue?")
    if decision == "yes":
        return await ctx.run("node2", result["output"])
    return "Cancelled"

Workflow(id="my_workflow", session=session, fn=my_workflow)
{NODES}"#
    ));
    let run_id = session.start("my_workflow", json!(null));
    assert_eq!(session.answer(&run_id, "yes")["result"]["output"], "input one two");
    let run_id = session.start("my_workflow", json!(null));
    assert_eq!(session.answer(&run_id, "no")["result"], "Cancelled");
}

// 003 L255-268, 305-308, 364-379, 427-429: the examples of the methods of `WorkflowContext`
#[test]
fn documented_context_usage_works() {
    let session = Session::load(&format!(
        r#"
import asyncio

async def my_workflow(ctx: WorkflowContext) -> str:
    # Execute a node
    result = await ctx.run("analyzer", ctx.input)

    # Store state for later iterations
    ctx.state["analysis"] = result["output"]

    # Wait for human decision
    decision = await ctx.gate("Approve analysis?")

    # Emit custom event
    ctx.emit("decision_made", {{"decision": decision}})

    return result["output"]

async def others(ctx):
    result = await ctx.run("summarizer", "Long text here...")
    if result["success"]:
        summary = result["output"]

    # Simple gate
    answer = await ctx.gate("Continue? (yes/no)")

    # Gate with timeout
    answer = await ctx.gate("Approve?", timeout=300)

    # Gate with choices
    answer = await ctx.gate(
        "Select action:",
        choices=["approve", "reject", "revise"]
    )

    try:
        await ctx.gate("Anybody?", timeout=0.01)
    except asyncio.TimeoutError:
        answer = answer + ", late"

    ctx.emit("analysis_started", {{"file": "main.py"}})
    ctx.emit("progress", {{"percent": 50}})
    ctx.emit("warning", {{"message": "Rate limited, retrying..."}})
    return [summary, answer]

Workflow(id="my_workflow", session=session, fn=my_workflow)
Workflow(id="others", session=session, fn=others)
{NODES}"#
    ));
    let run_id = session.start("my_workflow", json!("it"));
    assert_eq!(session.answer(&run_id, "yes")["result"], "analysis of it");
    let run_id = session.start("others", json!(null));
    session.answer(&run_id, "yes");
    let waiting = session.answer(&run_id, "yes");
    assert_eq!(waiting["pending_gate"]["choices"], json!(["approve", "reject", "revise"]), "{waiting}");
    session.answer(&run_id, "revise");
    let outcome = session.send_command("GET_RUN", json!({"run_id": run_id, "wait_seconds": 60}));
    assert_eq!(outcome["data"]["result"], json!(["Long", "revise, late"]), "{outcome}");
    let events = session.events(&run_id);
    let data_of = |name: &str| events.iter().find(|event| event["event_type"] == name).map(|event| &event["data"]);
    assert_eq!(data_of("progress"), Some(&json!({"percent": 50})), "{events:?}");
    assert_eq!(data_of("warning"), Some(&json!({"message": "Rate limited, retrying..."})));
}

// 003 L99-219, 241-277, 790-841: the objects available to a file, under the imports of the document
#[test]
fn file_finds_the_objects_of_the_document() {
    let session = Session::load(
        r#"
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nerve.core.nodes import ExecutionContext, FunctionNode
from nerve.core.workflow import Workflow, WorkflowContext, WorkflowRun, WorkflowState
from nerve.core.workflow.workflow import Workflow as W, WorkflowInfo

if TYPE_CHECKING:
    from nerve.core.session import Session

session = Session(name="mine")

def shouts(ctx: ExecutionContext) -> dict[str, Any]:
    return {"success": True, "output": ctx.input.upper(), "attributes": {"session": ctx.session.name}}

async def first(ctx: WorkflowContext) -> Any:
    """The first."""
    shouted = await ctx.run("shout", "hey")
    own = WorkflowContext(session=ctx.session, input=ctx.input, params={"a": 1})
    workflow = ctx.session.get_workflow("first")
    info = workflow.to_info().to_dict()
    return {
        "shouted": [shouted["output"], shouted["attributes"]],
        "own": [own.input, own.params, own.state],
        "listed": ctx.session.list_workflows(),
        "workflow": [workflow.id, workflow.description, workflow.metadata, workflow.session is session, repr(workflow)],
        "is_first": workflow.fn is first and isinstance(workflow, Workflow),
        "nothing": ctx.session.get_workflow("gone"),
        "info": [info["id"], info["description"], info["created_at"][:2]],
        "states": [WorkflowState.COMPLETED.value, WorkflowState("failed") == WorkflowState.FAILED],
    }

FunctionNode(id="shout", session=session, fn=shouts)
W(id="first", session=session, fn=first, metadata={"owner": "ana", "level": 3})
Workflow(id="gone", session=session, fn=lambda ctx: None, description="For a moment")
assert session.delete_workflow("gone") and not session.delete_workflow("gone")
for id, said in [("first", "conflicts with existing workflow"), ("shout", "conflicts with existing node"), ("9", "Invalid node ID '9'")]:
    try:
        session.validate_unique_id(id, entity_type="node")
    except ValueError as error:
        assert said in str(error)
    else:
        raise AssertionError(id)
"#,
    );
    let (result, _) = session.execute("first", json!("in"));
    assert_eq!(
        result,
        json!({
            "shouted": ["HEY", {"session": "mine"}],
            "own": ["in", {"a": 1}, {}],
            "listed": ["first"],
            "workflow": ["first", "The first.", {"owner": "ana", "level": 3}, true, "Workflow(id='first')"],
            "is_first": true,
            "nothing": null,
            "info": ["first", "The first.", "20"],
            "states": ["completed", true],
        })
    );
    let missing = session.send_command("EXECUTE_WORKFLOW", json!({"workflow_id": "gone", "wait": true}));
    assert!(missing.to_string().contains("not found"), "{missing}");
    // 003 L165, 187: metadata is stored and returned.
    let output = session.send_command("DESCRIBE_WORKFLOW", json!({"name": "first"}));
    assert_eq!(output["data"]["source"]["metadata"], json!({"owner": "ana", "level": 3}), "{output}");
}

// 003 L494-741: a file contains declarations only; it cannot start a run.
#[test]
fn file_cannot_start_a_run() {
    let refusal = Session::try_load(
        r#"
session = Session(name="test")
workflow = Workflow(id="simple", session=session, fn=lambda ctx: "done")
run = WorkflowRun(workflow=workflow, input="test")
"#,
    );
    let output = &refusal.load_output.stderr;
    assert!(output.contains("line 4") && output.contains("`steplatch run simple`"), "{output}");
    let session =
        Session::load("Workflow(id='looks', session=session, fn=lambda ctx: ctx.session.get_workflow_run('run_1'))\n");
    let inspection = session.send_command("EXECUTE_WORKFLOW", json!({"workflow_id": "looks", "wait": true}));
    assert!(inspection.to_string().contains("steplatch runs show run_1"), "{inspection}");
}

// 003 L813-818: the message for an invalid ID
#[test]
fn invalid_id_is_named() {
    let refusal = Session::try_load("Workflow(id='Bad ID!!', session=session, fn=lambda ctx: None)\n").load_output;
    let expected = "Invalid workflow ID 'Bad ID!!'. Must start with letter and contain only letters, numbers, underscores, hyphens.";
    assert!(refusal.stderr.contains(expected), "{refusal:?}");
}
