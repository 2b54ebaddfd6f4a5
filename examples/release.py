# A graph with a retry, as a step of a function: steplatch run examples/release.py -i version=1.2.0


async def release(ctx: WorkflowContext) -> dict:
    """Check, build and upload. The upload goes wrong now and then, and is tried again."""
    version = ctx.params.get("version", "0.1.0")
    graph = await ctx.run_graph("release_steps", version)
    steps = graph["attributes"]["steps"]
    tried = steps["upload"].get("attempts", 0)
    if not graph["success"]:
        raise RuntimeError(f"{version} was not released: {graph['error']}")
    return {"released": version, "where": graph["output"].strip(), "uploads_tried": tried}


BashNode(id="check", session=session, command="printf '%s\n' {input|sh} | grep -E '^[0-9]+(\\.[0-9]+){2}$'")
BashNode(id="build", session=session, command="printf 'package %s' {input|sh} >\"${TMPDIR:-/tmp}/release-$$.pkg\"; printf %s \"${TMPDIR:-/tmp}/release-$$.pkg\"")
# Fails until the package was offered three times.
BashNode(
    id="upload",
    session=session,
    command="f={input|sh}; printf . >>\"$f.tries\"; test $(wc -c <\"$f.tries\") -ge 3 && printf 'https://example.org/%s' \"$(basename \"$f\")\" && rm \"$f\" \"$f.tries\"",
)
Graph(
    id="release_steps",
    session=session,
    steps=[
        Step(id="checked", node="check", input="{input}"),
        Step(id="built", node="build", input="{input}", depends_on=["checked"]),
        Step(id="upload", node="upload", input="{built}", on_error={"policy": "retry", "count": 4, "delay": 0.2, "backoff": 2}),
    ],
)
Workflow(id="release", session=session, fn=release)
