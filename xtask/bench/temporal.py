#!/usr/bin/env python3
"""Measures runs that Temporal decides beside those that the daemon decides, with 1, 2 and 4 workers. Prints two tables.

The development server, the daemon, its terminal host and all workers share this machine. `cargo xtask bench temporal`
builds what this needs and then runs it.
"""

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time

from crowd import FIVE_STATES, Daemon, connection, crowd

STEPS = 50
AT_ONCE = 50

# Every state is an action of the host: on Temporal, an activity.
ACTION = {"tool": "list_terminal_sessions"}
ACTIONS = {
    "initial_state": "s1",
    "states": {
        **{
            f"s{number}": {
                "action": ACTION,
                "transitions": [{"condition": {"success": True}, "next_state": f"s{number + 1}"}],
            }
            for number in range(1, STEPS)
        },
        f"s{STEPS}": {"action": ACTION},
    },
}


class Server:
    """A development server of Temporal, with its database in `folder`."""

    def __init__(self, program, folder):
        self.program = program
        self.folder = tempfile.mkdtemp(prefix="temporal", dir=folder)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.environment = {"HOME": self.folder, "PATH": os.environ["PATH"]}

    def __enter__(self):
        database = os.path.join(self.folder, "temporal.db")
        words = ["--ip", "127.0.0.1", "--port", self.address.split(":")[1], "--db-filename", database]
        self.process = subprocess.Popen(
            [self.program, "server", "start-dev", "--headless", "--log-level", "never", *words],
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while self.asks("operator", "namespace", "describe", "default") is None:
            time.sleep(0.2)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def asks(self, *words):
        said = subprocess.run(
            [self.program, *words, "--address", self.address, "--output", "json"],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return json.loads(said.stdout) if said.returncode == 0 else None

    def stored(self):
        """Returns the bytes of the database."""
        return sum(os.path.getsize(os.path.join(self.folder, file)) for file in os.listdir(self.folder) if ".db" in file)

    def longest_history(self):
        """Returns events and bytes of the history of the run with the most events, of those that ended last."""
        listed = self.asks("workflow", "list", "--limit", "20") or []
        runs = [self.asks("workflow", "describe", "-w", run["execution"]["workflowId"]) for run in listed]
        about = [run["workflowExecutionInfo"] for run in runs if run]
        return max((int(run["historyLength"]), int(run["historySizeBytes"])) for run in about)


@contextlib.contextmanager
def workers(daemon, server, program, count):
    """Starts workers of a daemon, and waits until a run ends."""
    environment = {**daemon.environment, "STEPLATCH_TEMPORAL_PROGRAM": program, "RUST_LOG": "error"}
    command = [daemon.program, "worker", "--temporal", server.address]
    processes = [subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) for _ in range(count)]
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            if asyncio.run(connection(daemon, FIVE_STATES, 1, 1, 60, {"engine": "temporal"})):
                break
            time.sleep(0.2)
        else:
            raise SystemExit("no worker serves the daemon within a minute")
        # The others connect meanwhile.
        time.sleep(2)
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def rates(daemon, runs, engine):
    """Returns steps per second, runs per second, and milliseconds of one run that is alone."""
    long = asyncio.run(crowd(daemon, ACTIONS, max(10, runs // 10), 10, engine=engine))
    short = asyncio.run(crowd(daemon, FIVE_STATES, runs, AT_ONCE, engine=engine))
    began = time.perf_counter()
    alone = 10
    for _ in range(alone):
        asyncio.run(connection(daemon, FIVE_STATES, 1, 1, 60, {"engine": engine}))
    return long * STEPS, short, (time.perf_counter() - began) / alone * 1e3


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steplatch", required=True)
    parser.add_argument("--worker", required=True, help="the program steplatch-temporal")
    parser.add_argument("--server", required=True, help="the program temporal")
    parser.add_argument("--folder", required=True, help="on the disk that is measured on")
    parser.add_argument("--runs", type=int, default=200)
    arguments = parser.parse_args()
    print(f"| engine | actions/s, 10 runs of {STEPS} at once | runs of five states/s, {AT_ONCE} at once | one run alone, ms |")
    print("| ------ | ---: | ---: | ---: |")

    def row(name, measured):
        print("| {} | {:.0f} | {:.1f} | {:.1f} |".format(name, *measured), flush=True)

    with Daemon(arguments.steplatch, arguments.folder) as daemon:
        row("the daemon's own (SQLite)", rates(daemon, arguments.runs, "sqlite"))
    with Server(arguments.server, arguments.folder) as server, Daemon(arguments.steplatch, arguments.folder) as daemon:
        for count in (1, 2, 4):
            with workers(daemon, server, arguments.worker, count):
                row(f"Temporal, workers: {count}", rates(daemon, arguments.runs, "temporal"))
        with workers(daemon, server, arguments.worker, 1):
            before = server.stored()
            asyncio.run(crowd(daemon, FIVE_STATES, 100, 10, engine="temporal"))
            short = (server.stored() - before) / 100 / 1024
            before = server.stored()
            asyncio.run(crowd(daemon, ACTIONS, 20, 10, engine="temporal"))
            long = (server.stored() - before) / 20 / 1024
            events, size = server.longest_history()
    print()
    print("| stored by Temporal | a run |")
    print("| ------ | ---: |")
    print(f"| events in the history of {STEPS} actions | {events} |")
    print(f"| its bytes (KiB) | {size / 1024:.0f} |")
    print(f"| growth of the database by {STEPS} actions (KiB) | {long:.0f} |")
    print(f"| growth of the database by five states (KiB) | {short:.0f} |")


if __name__ == "__main__":
    main()
