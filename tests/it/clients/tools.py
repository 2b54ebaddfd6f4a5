"""Workflows that become tools, with `Client` of the PyPI package `mcp` 2.x: `tools.py auto|legacy URL`"""

import asyncio
import sys

from mcp import Client, MCPError
from mcp.types import ElicitResult, ToolListChangedNotification

import story

GREET = {
    "name": "greet",
    "description": "Greets somebody, if one may",
    "arguments": {"NAME": "Whom to greet"},
    "initial_state": "ask",
    "states": {"ask": {"action": {"tool": "gate", "params": {"prompt": "Greet {NAME}?", "choices": ["yes", "no"]}}}},
}


async def main(mode, url):
    shown, heard, ready = [], asyncio.Queue(), asyncio.Event()

    async def person(_, params):
        shown.append(params.message)
        return ElicitResult(action="accept", content={"decision": "yes"})

    async def handle(message):
        if mode == "legacy" and isinstance(getattr(message, "root", message), ToolListChangedNotification):
            heard.put_nowait("tools")

    async with asyncio.timeout(60), Client(url, mode=mode, elicitation_callback=person, message_handler=handle) as client:

        async def listen():
            async with client.listen(tools_list_changed=True) as events:
                ready.set()
                async for _ in events:
                    heard.put_nowait("tools")

        async def workflows():
            tools = (await client.list_tools(cache_mode="bypass")).tools
            names = [tool.name for tool in tools]
            story.expect(names == sorted(names), "a sorted list", names)
            return {tool.name: tool for tool in tools if tool.name.startswith("workflow_")}

        async def done(tool, arguments):
            result = await client.call_tool(tool, arguments)
            story.expect(not result.is_error, f"{tool} to work", result.content)
            return result.structured_content

        listening = asyncio.ensure_future(listen()) if mode == "auto" else None
        if listening:
            await ready.wait()
        story.expect(await workflows() == {}, "no workflows", await workflows())

        # One that has run to its end becomes a tool, and everybody is told.
        proves = {"workflow_definition": GREET, "initial_variables": {"NAME": "Ada"}, "wait_seconds": 30}
        ended = await done("run_workflow", proves)
        story.expect(ended["status"] == "completed", "a run that ended", ended)
        await heard.get()
        listed = await workflows()
        story.expect(list(listed) == ["workflow_greet"], "one workflow", list(listed))
        greet = listed["workflow_greet"]
        story.expect("Greets somebody" in greet.description, "its description", greet.description)
        story.expect(greet.input_schema["required"] == ["NAME"], "what it must be given", greet.input_schema)
        story.expect(greet.annotations.destructive_hint is True, "the worst to be expected", greet.annotations)

        # It is called like any other, and asks as a run does.
        ended = await done("workflow_greet", {"NAME": "Grace"})
        story.expect(ended["status"] == "completed", "a run that ended", ended)
        story.expect(ended["final_variables"]["ask_answer"] == "yes", "the person's decision", ended)
        story.expect(shown[-1].startswith("Greet Grace?"), "the question", shown)

        wrong = (await client.call_tool("workflow_greet", {})).structured_content
        story.expect("NAME" in wrong["error"] and not wrong["success"], "what is missing", wrong)
        story.expect(len(shown) == 2, "nothing started", shown)

        # One that is removed is no tool any more.
        await done("delete_workflow", {"name": "greet"})
        await heard.get()
        story.expect(await workflows() == {}, "no workflows", await workflows())
        try:
            answer = await client.call_tool("workflow_greet", {"NAME": "Ada"})
            raise SystemExit(f"expected an error; saw: {answer}")
        except MCPError as error:
            story.expect(error.error.code == -32602, "an unknown tool", error)
        story.expect(heard.empty(), "one word for each change", heard.qsize())
        if listening:
            listening.cancel()
        print(f"protocol {client.protocol_version}: all as expected")


asyncio.run(main(*sys.argv[1:]))
