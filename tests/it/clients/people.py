"""Has a person asked by `Client` of the PyPI package `mcp` 2.x: `people.py auto|legacy COMMAND ARGUMENTS…|URL`

The client knows by itself how it is asked: by a result that asks for input in `auto`, by a dialog in `legacy`.
"""

import asyncio
import sys

from mcp import Client
from mcp.types import ElicitResult

import story

FORM = {
    "type": "object",
    "required": ["version"],
    "properties": {
        "version": {"type": "string", "minLength": 3},
        "place": {"type": "string", "oneOf": [{"const": "eu", "title": "Europe"}, {"const": "us", "title": "America"}]},
        "count": {"type": "integer", "minimum": 1, "default": 2},
        "loud": {"type": "boolean"},
    },
}


def asking(name, params):
    machine = {"name": name, "initial_state": "ask", "states": {"ask": {"action": {"tool": "gate", "params": params}}}}
    return {"workflow_definition": machine, "wait_seconds": 30, "save_on_success": False}


async def main(mode, *arguments):
    answers, shown = [], []

    async def person(_, params):
        shown.append(params)
        return answers.pop(0)

    async with asyncio.timeout(60), Client(story.server(arguments), mode=mode, elicitation_callback=person) as client:

        async def run(params):
            result = await client.call_tool("run_workflow", asking("asking", params))
            story.expect(not result.is_error, "a result", result.content)
            return result.structured_content

        answers.append(ElicitResult(action="accept", content={"decision": "no"}))
        ended = await run({"prompt": "Release?", "choices": ["yes", "no"]})
        story.expect(ended["status"] == "completed", "a run that went on", ended)
        story.expect(ended["final_variables"]["ask_answer"] == "no", "the person's decision", ended)

        answers.append(ElicitResult(action="accept", content={"version": "1", "place": "us"}))
        answers.append(ElicitResult(action="accept", content={"version": "1.2", "place": "us", "loud": True}))
        ended = await run({"prompt": "Which?", "form": FORM})
        filled = [ended["final_variables"][f"ask_{name}"] for name in FORM["properties"]]
        story.expect(filled == ["1.2", "us", 2, True], "the filled form", filled)
        story.expect("at least 3 characters" in shown[-1].message, "what was wrong the first time", shown[-1].message)

        answers.append(ElicitResult(action="decline"))
        waits = await run({"prompt": "Release?", "choices": ["yes", "no"]})
        story.expect(waits["status"] == "waiting", "a gate that is still open", waits)
        story.expect("steplatch gates answer" in waits["next_step"], "where to answer", waits)
        story.expect(not answers and len(shown) == 4, "four dialogs", len(shown))
        print(f"protocol {client.protocol_version}: all as expected")


asyncio.run(main(*sys.argv[1:]))
