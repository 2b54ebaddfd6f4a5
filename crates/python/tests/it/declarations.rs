//! The declarations of files, and the errors of invalid files.

use expect_test::{Expect, expect};
use serde_json::json;
use steplatch_python_api::{Answer, FailureKind, Kind};

use crate::test_execution::{TestExecution, load, load_failure, start_of};

fn check_error(text: &str, expected: &Expect) {
    expected.assert_eq(&load_failure(text).to_string());
}

#[test]
fn file_declares_workflows_nodes_and_graphs() {
    let program = load(
        r#"from steplatch import Workflow, BashNode, Graph, Step, session

async def tidy(ctx):
    """Tidy up.

    All of it.
    """
    return ctx.input

async def shout(ctx, loudly=True):
    return ctx.input.upper()

for name in ["one", "two"]:
    BashNode(id=name, session=session, command=f"echo {name}", timeout=5)
Workflow(id="tidy-up", session=session, fn=tidy, metadata={"owner": "ana"})
FunctionNode(id="shout", session=session, fn=shout, description="Louder")
repl = PTYNode(id="repl", session=session, command=["python3"], ready={"pattern": ">>> $"})
HttpNode(id="page", session=session, url="https://example.com")
McpNode(id="tool", session=session, command=["server"])
LLMNode(id="writer", session=session, model="m")
Graph(id="both", session=session, steps=[
    Step(id="a", node=repl, input="{input}"),
    {"id": "b", "node": "one", "depends_on": ["a"]},
], max_parallel=2)
"#,
    );
    let reported: Vec<_> = program
        .declarations()
        .iter()
        .map(|declaration| (declaration.id.as_str(), declaration.kind, declaration.line))
        .collect();
    assert_eq!(
        reported,
        [
            ("one", Kind::Bash, None),
            ("two", Kind::Bash, None),
            ("tidy-up", Kind::Workflow, Some(15)),
            ("shout", Kind::Function, Some(16)),
            ("repl", Kind::Pty, Some(17)),
            ("page", Kind::Http, Some(18)),
            ("tool", Kind::Mcp, Some(19)),
            ("writer", Kind::Llm, Some(20)),
            ("both", Kind::Graph, Some(21)),
        ]
    );
    let declaration =
        |id: &str| program.declarations().iter().find(|declaration| declaration.id == id).expect("the id is declared");
    assert_eq!(declaration("tidy-up").description.as_deref(), Some("Tidy up.\n\nAll of it."));
    assert_eq!(declaration("tidy-up").metadata, json!({ "owner": "ana" }));
    assert_eq!(declaration("shout").description.as_deref(), Some("Louder"));
    assert_eq!(declaration("two").settings["command"], json!("echo two"));
    assert_eq!(
        declaration("both").settings,
        json!({
            "steps": [
                { "id": "a", "node": "repl", "input": "{input}" },
                { "id": "b", "node": "one", "depends_on": ["a"] },
            ],
            "max_parallel": 2,
        })
        .as_object()
        .expect("an object")
        .clone()
    );
    assert!(program.entry("tidy-up").is_some() && program.entry("shout").is_some() && program.entry("one").is_none());
}

#[test]
fn declarations_may_shadow_python_builtins() {
    let names = ["list", "range", "len", "min", "str", "repr", "dict", "tuple", "int", "isinstance"];
    let nodes: String = names.iter().map(|name| format!("{name} = BashNode(id='{name}', command='ls')\n")).collect();
    let program = load(&format!(
        "{nodes}async def it(ctx):\n    return await ctx.run_parallel([(list, 1), (range, 2)], limit=1)\nWorkflow(id='it', fn=it)\n"
    ));
    assert_eq!(program.declarations().len(), names.len() + 1);
    let mut run = TestExecution::start(&program, &start_of("it", json!(null)));
    run.answer(1, Answer::refused("no"));
    run.answer_value(2, json!("two"));
    assert_eq!((&run.result()[0]["node_id"], &run.result()[1]), (&json!("list"), &json!("two")));
}

// 003 L1474-1497, 1506-1509: `fn` is a lambda or a function, with or without `async def`.
#[test]
fn every_kind_of_callable_can_be_the_function() {
    let program = load(
        "import functools\n\
         def plain(ctx):\n    \"\"\"Plain.\"\"\"\n    return ctx.input + 1\n\
         def made(by):\n    async def add(ctx):\n        \"\"\"Adds.\"\"\"\n        return ctx.input + by\n    return add\n\
         class Adds:\n    def __init__(self, by):\n        self.by = by\n    def add(self, ctx):\n        return ctx.input + self.by\n\
         def two(by, ctx):\n    return ctx.input + by\n\
         bound = plain\n\
         Workflow(id='plain', session=session, fn=bound)\n\
         Workflow(id='lambda', session=session, fn=lambda ctx: ctx.input + 2)\n\
         Workflow(id='made', session=session, fn=made(3))\n\
         Workflow(id='method', session=session, fn=Adds(4).add)\n\
         Workflow(id='partial', session=session, fn=functools.partial(two, 5))\n\
         Workflow(id='asks', session=session, fn=lambda ctx: ctx.run('plain', ctx.input))\n",
    );
    let declaration =
        |id: &str| program.declarations().iter().find(|declaration| declaration.id == id).expect("the id is declared");
    assert_eq!(declaration("plain").description.as_deref(), Some("Plain."));
    assert_eq!(declaration("made").description.as_deref(), Some("Adds."));
    assert_eq!((declaration("lambda").function.as_deref(), declaration("lambda").description.as_deref()), (None, None));
    for (id, result) in [("plain", 1), ("lambda", 2), ("made", 3), ("method", 4), ("partial", 5)] {
        assert_eq!(TestExecution::start(&program, &start_of(id, json!(0))).result(), json!(result), "{id}");
    }
    let mut run = TestExecution::start(&program, &start_of("asks", json!(0)));
    run.answer_value(1, json!("awaited"));
    assert_eq!(run.result(), json!("awaited"));
}

#[test]
fn callable_without_a_context_parameter_is_rejected() {
    for (callable, message) in [
        ("3", "fn of Workflow 'it' must be a function that takes the context, not 3"),
        ("'it'", "fn of Workflow 'it' must be a function that takes the context, not 'it'"),
        ("None", "Workflow 'it' needs fn=, a function that takes the context"),
        ("two", "fn of Workflow 'it' must take one argument, the context: 'def two(ctx)'"),
        ("none", "fn of Workflow 'it' must take one argument, the context: 'def none(ctx)'"),
    ] {
        let failure = load_failure(&format!(
            "async def two(a, b):\n    pass\ndef none():\n    pass\nWorkflow(id='it', session=session, fn={callable})\n"
        ));
        assert_eq!(failure.message, message);
    }
}

// 003 L813-818: the text for an invalid id.
#[test]
fn invalid_ids_are_rejected() {
    let rule = "Must start with letter and contain only letters, numbers, underscores, hyphens.";
    for id in ["9x", "", "a b", "_a", "ä", "a.b", "a\\n"] {
        let failure = load_failure(&format!("x = 1\nBashNode(id='{id}', session=session, command='ls')\n"));
        assert!(failure.message.starts_with("Invalid node ID '") && failure.message.ends_with(rule), "{failure}");
        assert_eq!(failure.frames[0].line, 2);
    }
    for (declaration, message) in [
        ("Workflow(id='Bad ID!!', session=session, fn=lambda ctx: None)", "Invalid workflow ID 'Bad ID!!'."),
        ("Graph(id='9', session=session, steps=[])", "Invalid graph ID '9'."),
        ("Step(id='9', node='a')", "Invalid step ID '9'."),
        ("BashNode(session=session)", "Invalid node ID 'None'."),
    ] {
        assert_eq!(load_failure(&format!("{declaration}\n")).message, format!("{message} {rule}"));
    }
    for id in ["a", "A9-_z"] {
        let _ = load(&format!("BashNode(id='{id}', session=session, command='ls')\n"));
    }
}

#[test]
fn duplicate_id_is_rejected() {
    check_error(
        "BashNode(id='x', session=session, command='ls')\nasync def it(ctx):\n    pass\nif True:\n    y = Workflow(id='x', session=session, fn=it)\n",
        &expect![[r#"
            Traceback (most recent call last):
              File "flow.py", line 5
                y = Workflow(id='x', session=session, fn=it)
                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
            ValueError: ID 'x' conflicts with existing node"#]],
    );
}

#[test]
fn syntax_error_is_reported_with_its_position() {
    check_error(
        "x = 1\nasync def it(ctx):\n    return (1 +\n",
        &expect![[r#"
              File "flow.py", line 3
                return (1 +
                           ^
            SyntaxError: unexpected EOF while parsing"#]],
    );
    check_error(
        "def it(:\n    pass\n",
        &expect![[r#"
          File "flow.py", line 1
            def it(:
                   ^
        SyntaxError: Expected a parameter or the end of the parameter list"#]],
    );
}

#[test]
fn unsupported_feature_is_reported_with_its_position() {
    for (text, expected) in [
        (
            "class A(B):\n    pass\n",
            expect![[r#"
              File "flow.py", line 1
                class A(B):
                ^^^^^^^^^^^
            NotImplementedError: workflows cannot use class inheritance and metaclasses"#]],
        ),
        (
            "x = 1\nwith open('x') as f:\n    pass\n",
            expect![[r#"
            Traceback (most recent call last):
              File "flow.py", line 2
                with open('x') as f:
                     ^^^^^^^^^
            PermissionError: a workflow has no files, no environment and no clock of its own; ask a node for what it needs, and ctx.now() for the time"#]],
        ),
        (
            "async def it(ctx):\n    yield 1\n",
            expect![[r#"
              File "flow.py", line 2
                yield 1
                ^^^^^^^
            NotImplementedError: workflows cannot use yield expressions"#]],
        ),
        (
            "match 1:\n    case 1:\n        pass\n",
            expect![[r#"
              File "flow.py", line 1
                match 1:
                ^^^^^^^^
            NotImplementedError: workflows cannot use pattern matching (match statements)"#]],
        ),
        (
            "import requests\n",
            expect![[r#"
              File "flow.py", line 1
                import requests
                       ^^^^^^^^
            NotImplementedError: the module requests is not available in a workflow; declare an HttpNode, and ctx.run it"#]],
        ),
        (
            "import asyncio\nasync def it(ctx):\n    await asyncio.sleep(1)\n",
            expect![[r#"
              File "flow.py", line 3
                await asyncio.sleep(1)
                      ^^^^^^^^^^^^^
            NotImplementedError: asyncio.sleep is not available in a workflow; await ctx.sleep(seconds) instead, which a restart does not cut short"#]],
        ),
        (
            "async def it(ctx):\n    async with ctx:\n        pass\n",
            expect![[r#"
              File "flow.py", line 2
                async with ctx:
                ^^^^^^^^^^^^^^^
            NotImplementedError: workflows cannot use async context managers (async with)"#]],
        ),
        (
            "del x\n",
            expect![[r#"
              File "flow.py", line 1
                del x
                ^^^^^
            NotImplementedError: workflows cannot use the 'del' statement"#]],
        ),
        (
            "x = undefined + 1\n",
            expect![[r#"
            Traceback (most recent call last):
              File "flow.py", line 1
                x = undefined + 1
                    ^^^^^^^^^
            NameError: name 'undefined' is not defined"#]],
        ),
        (
            "try:\n    x = 1\nexcept* ValueError:\n    pass\n",
            expect![[r#"
              File "flow.py", line 1
                try:
                ^^^^
            NotImplementedError: workflows cannot use exception groups (try*/except*)"#]],
        ),
        (
            "type X = int\n",
            expect![[r#"
              File "flow.py", line 1
                type X = int
                ^^^^^^^^^^^^
            NotImplementedError: workflows cannot use type aliases"#]],
        ),
        (
            "x = t'{1}'\n",
            expect![[r#"
              File "flow.py", line 1
                x = t'{1}'
                    ^^^^^^
            NotImplementedError: workflows cannot use template strings (t-strings)"#]],
        ),
        (
            "async def it(ctx):\n    async for x in ctx:\n        pass\n",
            expect![[r#"
              File "flow.py", line 2
                async for x in ctx:
                ^^^^^^^^^^^^^^^^^^^
            NotImplementedError: workflows cannot use async for loops"#]],
        ),
        (
            "await session.run('a')\n",
            expect![[r#"
            Traceback (most recent call last):
              File "flow.py", line 1
                await session.run('a')
            AttributeError: 'Session' object has no attribute 'run'"#]],
        ),
    ] {
        check_error(text, &expected);
    }
}

#[test]
fn file_with_calls_or_non_json_settings_is_rejected() {
    let failure = load_failure("ctx = WorkflowContext(None, {})\nawait ctx.run('a')\n");
    assert_eq!(failure.kind, FailureKind::Stuck);
    assert_eq!(failure.message, "code outside of functions cannot make calls; move them into a function");
    let failure = load_failure("BashNode(id='a', session=session, command={1, 2})\n");
    assert_eq!(failure.kind, FailureKind::NotJson);
}
