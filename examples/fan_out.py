# Three commands at once, and one sentence about all of them: steplatch run examples/fan_out.py


async def fan_out(ctx: WorkflowContext) -> str:
    """Ask three questions about this machine at the same time, and sum up the answers."""
    asked = ["kernel", "uptime", "load"]
    results = await ctx.run_parallel([(node, "") for node in asked])
    failed = [result["node_id"] for result in results if not result["success"]]
    ctx.emit("asked", {"answers": len(results) - len(failed), "failed": failed})
    lines = [f"{result['node_id']}: {result['output'].strip() or result['error']}" for result in results]
    return "\n".join(lines)


BashNode(id="kernel", session=session, command="uname -r")
BashNode(id="uptime", session=session, command="cut -d. -f1 /proc/uptime")
BashNode(id="load", session=session, command="cut -d' ' -f1-3 /proc/loadavg")
Workflow(id="fan_out", session=session, fn=fan_out)
