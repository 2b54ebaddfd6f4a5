"""What is offered besides tools, with `Client` of the PyPI package `mcp` 2.x: `offers.py auto|legacy COMMAND ARGUMENTS…|URL`

Resources with templates, completion and updates, prompts, and a call that is given up.
"""

import asyncio
import json
import sys

from mcp import Client, MCPError
from mcp.types import PromptReference, ResourceTemplateReference, ResourceUpdatedNotification

import story

# What a server says that does not know a resource.
UNKNOWN = {"auto": -32602, "legacy": -32002}

ASKING = {
    "name": "asking",
    "initial_state": "ask",
    "states": {"ask": {"action": {"tool": "gate", "params": {"prompt": "Go on?", "choices": ["yes"]}}}},
}


async def refused(awaitable):
    try:
        answer = await awaitable
    except MCPError as error:
        return error.error.code
    raise SystemExit(f"expected an error; saw: {answer}")


class Updates:
    """The resources that were said to have changed."""

    def __init__(self, mode):
        self.mode = mode
        self.heard = asyncio.Queue()
        self.listening = None

    async def handle(self, message):
        message = getattr(message, "root", message)
        if isinstance(message, ResourceUpdatedNotification):
            self.heard.put_nowait(str(message.params.uri))

    async def follow(self, client, uris):
        if self.mode == "legacy":
            for uri in uris:
                await client.subscribe_resource(uri)
            return
        ready = asyncio.Event()

        async def listen():
            async with client.listen(resource_subscriptions=uris) as events:
                ready.set()
                async for event in events:
                    self.heard.put_nowait(str(event.uri))

        self.listening = asyncio.ensure_future(listen())
        await ready.wait()

    def ends(self):
        if self.listening:
            self.listening.cancel()

    async def of(self, uri):
        while await self.heard.get() != uri:
            pass


async def main(mode, *arguments):
    updates = Updates(mode)
    async with asyncio.timeout(60), Client(story.server(arguments), mode=mode, message_handler=updates.handle) as client:

        async def done(tool, arguments):
            result = await client.call_tool(tool, arguments)
            story.expect(not result.is_error, f"{tool} to work", result.content)
            return result.structured_content

        async def read(uri):
            [content] = (await client.read_resource(uri, cache_mode="bypass")).contents
            story.expect(str(content.uri) == uri, "the address that was asked for", content.uri)
            return content

        async def completed(ref, name, value):
            return (await client.complete(ref, {"name": name, "value": value})).completion.values

        templates = [template.uri_template for template in (await client.list_resource_templates()).resource_templates]
        story.expect(len(templates) == 5 and "run://{run_id}" in templates, "five kinds of resources", templates)

        # Terminals.
        session = (await done("open_terminal", {"shell": "bash"}))["session_id"]
        screen, history = f"terminal://{session}/screen", f"terminal://{session}/history"
        listed = {str(resource.uri): resource for resource in (await client.list_resources()).resources}
        story.expect(listed[screen].mime_type == "text/plain" and history in listed, "the terminal", list(listed))
        await updates.follow(client, [screen])
        await done("send_input", {"session_id": session, "input_text": "echo $((6 * 7))\n"})
        await updates.of(screen)
        await done("await_output", {"session_id": session, "pattern": "^42$"})
        story.expect("\n42\n" in (await read(screen)).text, "42 on the screen", (await read(screen)).text)
        everything = await read(history)
        story.expect("\n42\n" in everything.text, "42 in the output", everything.text)
        offset = len(everything.text.encode()) - 20
        rest = await read(f"{history}?offset={offset}")
        story.expect(len(rest.text) < len(everything.text), "the end of the output", rest.text)
        ref = ResourceTemplateReference(type="ref/resource", uri="terminal://{session_id}/screen")
        story.expect(await completed(ref, "session_id", session[:3]) == [session], "the terminal's id")
        story.expect(await completed(ref, "session_id", "nothing") == [], "no terminal")
        await done("exit_terminal", {"session_id": session})

        # A run, and a wait for it that is given up: the run goes on.
        started = await done("run_workflow", {"workflow_definition": ASKING, "wait_seconds": 0, "save_on_success": False})
        run = started["run_id"]
        await done("get_run", {"run_id": run, "wait_seconds": 10})
        wait = asyncio.ensure_future(done("get_run", {"run_id": run, "wait_seconds": 60}))
        await asyncio.sleep(0.1)
        wait.cancel()
        told = json.loads((await read(f"run://{run}")).text)
        story.expect(told["status"] == "waiting", "a run that goes on", told)
        events = [json.loads(line) for line in (await read(f"run://{run}/events")).text.splitlines()]
        story.expect([event["seq"] for event in events][:1] == [1], "events from the first", events)
        story.expect(any(event["event_type"] == "gate_waiting" for event in events), "the open gate", events)
        [last] = (await read(f"run://{run}/events?from_seq={events[-1]['seq']}")).text.splitlines()
        story.expect(json.loads(last) == events[-1], "the last event", last)
        ref = ResourceTemplateReference(type="ref/resource", uri="run://{run_id}")
        story.expect(await completed(ref, "run_id", "run_") == [run], "the run's id")
        updates.ends()
        await updates.follow(client, [f"run://{run}"])
        await done("cancel_run", {"run_id": run})
        await updates.of(f"run://{run}")
        updates.ends()

        # Workflows.
        await done("create_workflow", {"workflow_definition": {**ASKING, "description": "Asks"}})
        workflow = json.loads((await read("workflow://asking")).text)
        story.expect(workflow["description"] == "Asks", "the saved workflow", workflow)
        ref = ResourceTemplateReference(type="ref/resource", uri="workflow://{name}")
        story.expect(await completed(ref, "name", "ask") == ["asking"], "the workflow's name")

        for uri in ["terminal://nobody/screen", "run://run_nothing", "workflow://nothing", "file:///etc/passwd"]:
            code = await refused(client.read_resource(uri))
            story.expect(code == UNKNOWN[mode], f"{UNKNOWN[mode]} for {uri}", code)

        # Prompts.
        prompts = [prompt.name for prompt in (await client.list_prompts()).prompts]
        story.expect(prompts == ["author_workflow", "review_run"], "two prompts", prompts)
        [message] = (await client.get_prompt("author_workflow", {"goal": "Release it"})).messages
        story.expect("Release it" in message.content.text, "the goal", message.content.text)
        [message] = (await client.get_prompt("review_run", {"run_id": run})).messages
        story.expect('"status": "cancelled"' in message.content.text, "the run as it is", message.content.text)
        story.expect(await completed(PromptReference(type="ref/prompt", name="review_run"), "run_id", "") == [run], "the run")
        for prompt, arguments in [("nothing", {}), ("author_workflow", {}), ("review_run", {"run_id": "run_x"})]:
            code = await refused(client.get_prompt(prompt, arguments))
            story.expect(code == -32602, f"{prompt} to be refused", code)
        print(f"protocol {client.protocol_version}: all as expected")


asyncio.run(main(*sys.argv[1:]))
