async def publish(ctx):
    """Reads two files at once, asks for what is missing, and lets another workflow finish."""
    directory = ctx.params["DIR"]
    title, body = await ctx.run_parallel([("cat", directory + "/title"), ("cat", directory + "/body")])
    if not title["success"]:
        raise RuntimeError("no title: " + title["error"])
    form = {"properties": {"copies": {"type": "integer", "minimum": 1}, "note": {"type": "string"}}, "required": ["copies"]}
    answer = await ctx.gate("How many?", form=form, answered_by="anyone", timeout=3600)
    try:
        await ctx.run("slow", timeout=0.2)
        slow = "done"
    except TimeoutError:
        slow = "timed out"
    counted = await ctx.run_workflow("count", params={"TEXT": body["output"]})
    return {"title": title["output"].strip(), "copies": answer["copies"], "slow": slow, "letters": counted["letters"]}

async def count(ctx):
    """Counts letters."""
    return {"letters": len(ctx.params["TEXT"].strip())}

BashNode(id="cat", session=session, command="cat {input|sh}")
BashNode(id="slow", session=session, command="sleep 30")
Workflow(id="publish", session=session, fn=publish)
Workflow(id="count", session=session, fn=count)
