# Drafts until a person likes one: steplatch run examples/review.py -i topic=terminals


async def review(ctx: WorkflowContext) -> str:
    """Draft a note, and let a person have the last word."""
    draft = await ctx.run("draft", ctx.params.get("topic", "terminals"))
    for round in range(5):
        ctx.emit("draft_ready", {"round": round + 1, "length": len(draft["output"])})
        verdict = await ctx.gate(
            "Publish this note?",
            choices=["publish", "shorter", "stop"],
            timeout=86400,
            context={"draft": draft["output"]},
        )
        if verdict == "publish":
            ctx.state["published"] = True
            return draft["output"]
        if verdict == "stop":
            return "stopped"
        draft = await ctx.run("shorten", draft["output"])
    raise ValueError("five drafts, no agreement")


# Where a model is at hand, an LLMNode stands here: see docs/functions.md.
BashNode(id="draft", session=session, command="printf 'Real %s for agents, and for the people who look after them.' {input|sh}")
BashNode(id="shorten", session=session, command="printf %s {input|sh} | cut -d, -f1 | tr -d '\\n'; printf .")
Workflow(id="review", session=session, fn=review)
