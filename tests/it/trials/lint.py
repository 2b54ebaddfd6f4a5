async def lint(ctx):
    """Runs three linters at once and sums up what they found."""
    directory = ctx.params["DIR"]
    results = await ctx.run_parallel([("spaces", directory), ("tabs", directory), ("long", directory)])
    failed = [result["node_id"] for result in results if not result["success"]]
    return {"checked": len(results), "failed": failed}

BashNode(id="spaces", session=session, command="! grep -rn ' $' {input|sh}")
BashNode(id="tabs", session=session, command="! grep -rnP '\\t' {input|sh}")
BashNode(id="long", session=session, command="! grep -rnE '.{100}' {input|sh}")
Workflow(id="lint", session=session, fn=lint)
