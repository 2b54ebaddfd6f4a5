# Drives a Python prompt in a terminal, and asks before the line that destroys something: steplatch run examples/careful.py


async def careful(ctx: WorkflowContext) -> list:
    """Type a few lines into a REPL; those that look dangerous wait for a person."""
    lines = ["import os, tempfile", "f = tempfile.mkstemp()[1]", "os.path.exists(f)", "os.remove(f)", "os.path.exists(f)"]
    told = []
    for line in lines:
        if "remove" in line:
            verdict = await ctx.gate(f"Type this? {line}", choices=["yes", "skip"], context={"so far": told})
            if verdict == "skip":
                continue
        reply = await ctx.run("python", line, timeout=20)
        if not reply["success"]:
            raise RuntimeError(reply["error"])
        if reply["output"]:
            told.append(f"{line} → {reply['output']}")
    return told


PTYNode(id="python", session=session, command="python3 -q", ready={"pattern": ">>> $"})
Workflow(id="careful", session=session, fn=careful)
