"""Drives the server with `ClientSession` of the PyPI package `mcp` 1.x: `legacy.py COMMAND ARGUMENTS…`"""

import asyncio
import os
import sys

from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.stdio import stdio_client

import story


async def main(command, *arguments):
    parameters = StdioServerParameters(command=command, args=list(arguments), env=dict(os.environ))
    async with asyncio.timeout(60), stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
        initialized = await session.initialize()
        version = initialized.protocolVersion
        story.expect(version == "2025-11-25", "protocol 2025-11-25", version)

        async def names():
            return [tool.name for tool in (await session.list_tools()).tools]

        async def call(tool, arguments):
            try:
                result = await session.call_tool(tool, arguments)
            except McpError as error:
                raise story.Refused(error) from error
            images = [(part.mimeType, part.data) for part in result.content if part.type == "image"]
            return story.Answer(result.structuredContent, result.content[0].text, result.isError, images)

        await story.drive(names, call)
        print(f"protocol {version}: all as expected")


asyncio.run(main(*sys.argv[1:]))
