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
