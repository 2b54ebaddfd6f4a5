"""The work of the benchmark, done through an MCP server over stdio.

Every server is asked in the same ways, with the tools and fields that terminal-control-mcp has, arguments wrapped in
`request`: in bare JSON lines, which show what the server and the pipes cost, and through the client of the PyPI package
`mcp`, which shows what people get. That client checks every answer against the tool's schema, and the schema against
its own, which can take longer than the server took.
"""

import asyncio
import contextlib
import itertools
import json
import os
import re
import subprocess
import time

import psutil
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

# Every process that a server starts inherits this variable, so that all of them can be found.
MARK = "STEPLATCH_BENCH"

# The programs in the terminals are nobody's memory but their own.
PROGRAMS = ("bash", "sh", "sleep", "seq")

INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}


class Server:
    """An MCP server, and the folder and environment that it is measured in."""

    def __init__(self, command, folder, environment, stop=None):
        self.command = command
        self.folder = folder
        self.environment = {**environment, MARK: folder}
        self.stop_command = stop

    def processes(self):
        """Returns the server's processes, without the programs in its terminals."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(MARK) == self.folder and process.name() not in PROGRAMS:
                    yield process

    def memory(self):
        """Returns the bytes of memory that its processes hold; what they share is counted once (proportional set size)."""
        return self._sum(lambda process: process.memory_full_info().pss)

    def threads(self):
        return self._sum(lambda process: process.num_threads())

    def _sum(self, figure):
        total = 0
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                total += figure(process)
        return total

    def stop(self):
        """Ends whatever of it is still there."""
        if self.stop_command:
            subprocess.run(self.stop_command, env=self.environment, capture_output=True, timeout=30)
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(MARK) == self.folder:
                    process.kill()

    def start(self):
        """Starts it, and returns the times from spawn to initialized and to the first answer of a tool, and from the
        end of input to its own end, in milliseconds."""
        began = time.perf_counter()
        lines = Lines(self)
        initialized = time.perf_counter() - began
        lines.ask("tools/call", name="list_terminal_sessions", arguments={})
        answered = time.perf_counter() - began
        began = time.perf_counter()
        lines.end()
        return initialized * 1e3, answered * 1e3, (time.perf_counter() - began) * 1e3


class Session:
    """A connection to a server: what is asked of it, however it gets there."""

    polls = False

    async def call(self, tool, **request):
        """Calls a tool and returns the fields of its answer."""
        raise NotImplementedError

    async def ping(self):
        raise NotImplementedError

    async def open(self):
        """Opens bash and returns its session id, or nothing and the reason."""
        reply = await self.call("open_terminal", shell="bash")
        return (reply["session_id"], None) if reply.get("success") else (None, str(reply.get("error")))

    async def types(self, session_id, text):
        return await self.call("send_input", session_id=session_id, input_text=text)

    async def wait(self, session_id, pattern, timeout=60):
        """Waits for a pattern and returns its match, or nothing.

        A server without a tool for that is asked for its screen time and again, as its users have to.
        """
        if not self.polls:
            reply = await self.call("await_output", session_id=session_id, pattern=pattern, timeout=timeout)
            return re.search(pattern, reply.get("match_text") or "")
        until = time.perf_counter() + timeout
        while time.perf_counter() < until:
            reply = await self.call("get_screen_content", session_id=session_id, content_mode="screen")
            if match := re.search(pattern, reply.get("screen_content") or ""):
                return match
            await asyncio.sleep(0.02)
        return None


class Lines(Session):
    """A connection in bare lines. It blocks, which harms nobody: nothing else is to be done meanwhile."""

    def __init__(self, server):
        with open(os.path.join(server.folder, "stderr"), "a") as stderr:
            self.child = subprocess.Popen(
                server.command,
                env=server.environment,
                cwd=server.folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )
        self.numbers = itertools.count(1)
        self.ask("initialize", **INITIALIZE)
        self._tell({"method": "notifications/initialized"})

    def _tell(self, message):
        self.child.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.child.stdin.flush()

    def ask(self, method, **parameters):
        number = next(self.numbers)
        self._tell({"id": number, "method": method, "params": parameters})
        while line := self.child.stdout.readline():
            message = json.loads(line)
            if message.get("id") == number:
                return message["result"]
        raise ConnectionError(f"the server ended instead of answering {method}")

    def find_tools(self):
        self.polls = "await_output" not in {tool["name"] for tool in self.ask("tools/list")["tools"]}

    async def call(self, tool, **request):
        result = self.ask("tools/call", name=tool, arguments={"request": request})
        return fields_of(result.get("structuredContent"), [block.get("text") for block in result["content"]])

    async def ping(self):
        self.ask("ping")

    def end(self):
        """Ends the input, and returns when the server has ended."""
        self.child.stdin.close()
        self.child.wait(30)
        self.child.stdout.close()


class Client(Session):
    """A connection through the client of the PyPI package `mcp`."""

    def __init__(self, session):
        self.session = session

    @classmethod
    @contextlib.asynccontextmanager
    async def connected(cls, server):
        parameters = StdioServerParameters(
            command=server.command[0], args=server.command[1:], env=server.environment, cwd=server.folder
        )
        with open(os.path.join(server.folder, "stderr"), "a") as stderr:
            async with stdio_client(parameters, errlog=stderr) as (read, write), ClientSession(read, write) as session:
                await session.initialize()
                client = cls(session)
                client.polls = "await_output" not in {tool.name for tool in (await session.list_tools()).tools}
                yield client

    async def call(self, tool, **request):
        result = await self.session.call_tool(tool, {"request": request})
        return fields_of(result.structuredContent, [getattr(block, "text", None) for block in result.content])

    async def ping(self):
        await self.session.send_ping()


def fields_of(structured, texts):
    """Returns the fields of an answer, which older servers give as text only."""
    if structured:
        return structured
    text = "".join(filter(None, texts))
    try:
        return json.loads(text)
    except ValueError:
        return {"success": False, "error": text}


async def measure(plan, server, crowded):
    """Returns the figures of a server, by the names that the table knows them by.

    `crowded` asks for all of its terminals printing at once, too.
    """
    figures = {}
    plan.says("starting and ending")
    measure_starts(plan, server, figures)
    server.stop()

    lines = Lines(server)
    lines.find_tools()
    await lines.call("list_terminal_sessions")
    empty_memory, empty_threads = server.memory(), server.threads()
    ids = await measure_opens(plan, server, lines, figures)
    figures["memory_each"] = (server.memory() - empty_memory) / 1e6 / len(ids)
    figures["threads"] = server.threads() - empty_threads
    figures |= await measure_one(plan, lines, ids[0])
    plan.says("a flood")
    figures["flood"] = await measure_flood(plan, lines, ids[0])
    if crowded:
        plan.says(f"{len(ids) - 1} terminals printing at once")
        await measure_crowd(plan, server, lines, ids, figures)
    lines.end()
    server.stop()
    if crowded:
        plan.says(f"{plan.idle} idle terminals")
        await measure_idle(plan, server, figures)

    plan.says("the same through the client of PyPI")
    async with Client.connected(server) as client:
        session_id, error = await client.open()
        assert session_id, error
        for name, figure in (await measure_one(plan, client, session_id)).items():
            figures[f"client_{name}"] = figure
    return figures


def measure_starts(plan, server, figures):
    # The first start finds nothing; the second finds what the first one left behind, where it leaves something.
    first, answer, again, end = [plan.times() for _ in range(4)]
    for _ in range(plan.starts):
        server.stop()
        initialized, answered, _ = server.start()
        first.add(initialized)
        answer.add(answered)
        initialized, _, ended = server.start()
        again.add(initialized)
        end.add(ended)
    figures["start_first"], figures["start_answer"] = first.median(), answer.median()
    figures["start_again"], figures["end"] = again.median(), end.median()


async def measure_opens(plan, server, session, figures):
    """Opens terminals in a row, as many as may be open, and returns their ids."""
    plan.says(f"{plan.opens} opens in a row")
    ids, failed, times = [], 0, plan.times()
    for number in range(plan.opens):
        with times:
            session_id, error = await session.open()
        if error and "limit" in error:
            # As many as may be are open. Whoever goes on has to close one first, which is not measured.
            await session.call("exit_terminal", session_id=ids.pop())
            times.all.pop()
            with times:
                session_id, error = await session.open()
        if session_id:
            ids.append(session_id)
        else:
            failed += 1
        if number == 9:
            figures["memory_ten"] = server.memory() / 1e6
    figures["open"], figures["open_failed"], figures["open_at_once"] = times.median(), failed, len(ids)
    return ids


async def measure_idle(plan, server, figures):
    """Opens many terminals that do nothing, and looks at what each of them costs."""
    lines = Lines(server)
    lines.find_tools()
    await lines.call("list_terminal_sessions")
    memory, threads = server.memory(), server.threads()
    for _ in range(plan.idle):
        session_id, error = await lines.open()
        assert session_id, error
    figures["memory_idle"] = (server.memory() - memory) / 1e6 / plan.idle
    figures["threads_idle"] = server.threads() - threads
    lines.end()
    server.stop()


async def measure_one(plan, session, session_id):
    """Returns the figures of one terminal."""
    figures = {}
    await session.types(session_id, "PS1='$ '; clear\n")
    await asyncio.sleep(0.5)

    plan.says("echoes")
    times = plan.times()
    for round in range(plan.rounds):
        with times:
            await session.types(session_id, f"echo MARK_$(({round}+1000))\n")
            assert await session.wait(session_id, f"MARK_{round + 1000}"), "an echo never came"
    figures["echo"] = times.median()

    plan.says("late prints")
    times = plan.times()
    for round in range(plan.rounds):
        await session.types(session_id, plan.late_print(round))
        match = await session.wait(session_id, plan.late_pattern(round))
        now = time.time()
        assert match, "a print never came"
        times.add((now - plan.printed_at(match[1])) * 1e3)
    figures["arrival"] = times.median()

    plan.says("reads of the screen")
    times, pings = plan.times(), plan.times()
    for _ in range(plan.rounds * 4):
        with times:
            await session.call("get_screen_content", session_id=session_id)
        with pings:
            await session.ping()
    figures["screen"], figures["ping"] = times.median(), pings.median()
    return figures


async def measure_flood(plan, session, session_id):
    times = plan.times()
    for _ in range(plan.floods):
        with times:
            await session.types(session_id, plan.flood())
            assert await session.wait(session_id, "FLOOD_2"), "the end of the flood never came"
        await session.types(session_id, "clear\n")
    return times.median() / 1e3


async def measure_crowd(plan, server, session, ids, figures):
    """Lets all terminals but one print at once, waits on that one, and looks for what the others lost."""
    quiet, *crowd = ids
    gate = plan.gate(server.folder)
    for session_id in crowd:
        await session.types(session_id, plan.crowd_print(gate))
    await asyncio.sleep(1)
    plan.open_gate(gate)
    times = plan.times()
    for round in range(plan.crowd_rounds):
        await session.call("send_input", session_id=quiet, input_text=plan.soon_print(round), wait_for_quiet_ms=0)
        began = time.time()
        match = await session.wait(quiet, plan.late_pattern(round))
        now = time.time()
        # A print that was there before anybody waited for it says nothing about the wait.
        if (printed := plan.printed_at(match[1])) >= began:
            times.add((now - printed) * 1e3)
    figures["crowd_wait"], figures["crowd_wait_95"] = times.median(), times.percentile(95)

    lost = 0
    for session_id in crowd:
        if not await session.wait(session_id, "DONE_2", timeout=120):
            lost += plan.crowd_lines
            continue
        reply = await session.call(
            "get_screen_content", session_id=session_id, content_mode="history", limit=10_000_000
        )
        lines = reply["screen_content"].split("\n")
        begin = next((at for at, line in enumerate(lines) if line == "1"), len(lines))
        expected = [str(number) for number in range(1, plan.crowd_lines + 1)]
        if lines[begin : begin + plan.crowd_lines] != expected:
            lost += max(1, plan.crowd_lines - len(set(expected) & set(lines)))
    figures["crowd_lost"] = lost
