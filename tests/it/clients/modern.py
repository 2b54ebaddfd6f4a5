"""Drives the server with `Client` of the PyPI package `mcp` 2.x: `modern.py auto|legacy COMMAND ARGUMENTS…|URL`

`auto` asks for the newest protocol and falls back; `legacy` begins with the handshake of the older ones.
"""

import asyncio
import sys

from mcp import Client, MCPError

import story

VERSIONS = {"auto": "2026-07-28", "legacy": "2025-11-25"}


async def main(mode, *arguments):
    async with asyncio.timeout(60), Client(story.server(arguments), mode=mode) as client:
        version = client.protocol_version
        story.expect(version == VERSIONS[mode], f"protocol {VERSIONS[mode]}", version)

        async def names():
            return [tool.name for tool in (await client.list_tools()).tools]

        async def call(tool, arguments):
            try:
                result = await client.call_tool(tool, arguments)
            except MCPError as error:
                raise story.Refused(error) from error
            images = [(part.mime_type, part.data) for part in result.content if part.type == "image"]
            return story.Answer(result.structured_content, result.content[0].text, bool(result.is_error), images)

        await story.drive(names, call)
        print(f"protocol {version}: all as expected")


asyncio.run(main(*sys.argv[1:]))
