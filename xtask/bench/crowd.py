#!/usr/bin/env python3
"""Measures many runs at once: machines of five states that do nothing, and machines that wait at gates. Prints a table.

`cargo xtask bench crowd` builds what this needs and then runs it.
"""

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import tempfile
import time

CONNECTIONS = 10

SLEEP = {"tool": "sleep", "params": {"seconds": 0}}
STATES = {
    f"s{number}": {
        "action": SLEEP,
        "transitions": [{"condition": {"success": True}, "next_state": f"s{number + 1}"}],
    }
    for number in range(4)
}
FIVE_STATES = {"initial_state": "s0", "states": {**STATES, "s4": {"action": SLEEP}}}
GATE = {"initial_state": "ask", "states": {"ask": {"action": {"tool": "gate", "params": {"prompt": "Go on?"}}}}}


class Daemon:
    """A daemon of its own, with its state on the disk of `folder`."""

    def __init__(self, program, folder):
        self.program = program
        os.makedirs(folder, exist_ok=True)
        self.home = tempfile.mkdtemp(prefix="crowd", dir=folder)
        self.runtime = tempfile.mkdtemp(prefix="crowd")
        os.chmod(self.runtime, 0o700)
        self.environment = {
            "HOME": self.home,
            "XDG_RUNTIME_DIR": self.runtime,
            "XDG_STATE_HOME": os.path.join(self.home, "state"),
            "PATH": os.environ["PATH"],
        }

    def __enter__(self):
        self.commands("daemon", "start")
        self.pid = json.loads(self.commands("daemon", "status", "--json"))["pid"]
        sockets = [os.path.join(below, file) for below, _, files in os.walk(self.runtime) for file in files]
        self.socket = next(path for path in sockets if path.endswith(".sock") and "host" not in os.path.basename(path))
        return self

    def __exit__(self, *_):
        self.commands("daemon", "stop")
        shutil.rmtree(self.home, ignore_errors=True)
        shutil.rmtree(self.runtime, ignore_errors=True)

    def commands(self, *words):
        said = subprocess.run([self.program, *words], env=self.environment, capture_output=True, text=True, timeout=120)
        return said.stdout

    def memory(self, field):
        """Returns a field of /proc/PID/status in megabytes."""
        with open(f"/proc/{self.pid}/status") as status:
            return next(int(line.split()[1]) / 1024 for line in status if line.startswith(field))


async def connection(daemon, definition, count, window, wait_seconds, further):
    """Starts runs over one connection, at most `window` of them at once, and returns how many ended as they should."""
    reader, writer = await asyncio.open_unix_connection(daemon.socket, limit=1 << 26)

    def command(number, verb, params):
        message = {"type": "command", "command_type": verb, "params": params, "request_id": number}
        writer.write(json.dumps(message).encode() + b"\n")

    command("hello", "HELLO", {"protocol_version": 1, "client": "crowd", "cwd": daemon.home, "environment": {}})
    await reader.readline()
    places = asyncio.Semaphore(window)

    async def replies():
        right = 0
        for _ in range(count):
            reply = json.loads(await reader.readline())
            if "data" not in reply:
                raise SystemExit(f"a run was refused: {reply}")
            right += reply["data"].get("status") == ("completed" if wait_seconds else "running")
            places.release()
        return right

    ended = asyncio.create_task(replies())
    params = {
        "workflow_definition": definition,
        "wait_seconds": wait_seconds,
        "execution_timeout": 3600,
        "save_on_success": False,
        **further,
    }
    for number in range(count):
        await places.acquire()
        command(number, "RUN_WORKFLOW", params)
        await writer.drain()
    right = await ended
    writer.close()
    return right


async def crowd(daemon, definition, count, window, wait_seconds=600, **further):
    """Returns runs per second. `further` are more arguments of each run."""
    began = time.perf_counter()
    each = (count // CONNECTIONS, max(1, window // CONNECTIONS), wait_seconds, further)
    right = await asyncio.gather(*[connection(daemon, definition, *each) for _ in range(CONNECTIONS)])
    if sum(right) < count and wait_seconds:
        raise SystemExit(f"{count - sum(right)} runs did not complete")
    return count / (time.perf_counter() - began)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steplatch", required=True)
    parser.add_argument("--folder", required=True, help="on the disk that the journal is measured on")
    parser.add_argument("--runs", type=int, default=10_000)
    arguments = parser.parse_args()
    count = arguments.runs
    print("| what | runs/s | peak MB |")
    print("| ---- | -----: | ------: |")
    for window in (50, count):
        with Daemon(arguments.steplatch, arguments.folder) as daemon:
            rate = asyncio.run(crowd(daemon, FIVE_STATES, count, window))
            print(f"| {count} runs of five states, {window} at once | {rate:.0f} | {daemon.memory('VmHWM'):.0f} |", flush=True)
    with Daemon(arguments.steplatch, arguments.folder) as daemon:
        rate = asyncio.run(crowd(daemon, GATE, count, count, 0))
        time.sleep(3)
        print(f"| {count} runs at gates | {rate:.0f} | {daemon.memory('VmRSS'):.0f} |", flush=True)


if __name__ == "__main__":
    main()
