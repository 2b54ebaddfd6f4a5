"""What runs of functions cost: for each that waits, for each call, and for a replay.

Talks to a daemon of its own over its socket, one line of JSON for each question, and reads memory and threads from
/proc. Beside it, in the same run, a bare loop of SQLite commits as many rows as the calls, with the same durability.
"""

import argparse
import json
import os
import signal
import socket
import sqlite3
import subprocess
import tempfile
import time

WAITING = 500
WARM = 200
CALLS = 10_000

GATE = """
async def gate(ctx):
    await ctx.gate('Go on?')
    return 1
Workflow(id='gate', session=session, fn=gate)
"""

MANY = f"""
async def many(ctx):
    for i in range({CALLS}):
        await ctx.run('identity', i)
    await ctx.gate('Go on?')
    return 'done'
Workflow(id='many', session=session, fn=many)
"""

THREE = """
async def three(ctx):
    began = ctx.now()
    await ctx.run_parallel([('slow', '') for _ in range(3)])
    return ctx.now() - began
BashNode(id='slow', session=session, command='sleep 0.6')
Workflow(id='three', session=session, fn=three)
"""

MACHINE = {
    "name": "machine",
    "initial_state": "ask",
    "states": {"ask": {"action": {"tool": "gate", "params": {"prompt": "Go on?", "choices": ["yes", "no"]}}}},
}


class Daemon:
    """One daemon in a folder of its own."""

    def __init__(self, steplatch, home):
        self.steplatch, self.home = steplatch, home
        runtime = os.path.join(home, "run")
        os.makedirs(runtime, mode=0o700, exist_ok=True)
        self.environment = {
            **os.environ, "HOME": home, "XDG_STATE_HOME": os.path.join(home, "state"), "XDG_RUNTIME_DIR": runtime,
        }
        self.start()

    def start(self):
        said = subprocess.check_output([self.steplatch, "daemon", "start", "--json"], env=self.environment)
        told = json.loads(said)
        self.pid, self.asked = told["pid"], 0
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(told["socket"])
        self.lines = connection.makefile("rwb")
        environment = dict(self.environment)
        self.ask("HELLO", protocol_version=1, client="bench", cwd=self.home, environment=environment, person=True)

    def ask(self, verb, **params):
        self.asked += 1
        question = {"type": "command", "command_type": verb, "params": params, "request_id": self.asked}
        self.lines.write(json.dumps(question).encode() + b"\n")
        self.lines.flush()
        while True:
            reply = json.loads(self.lines.readline())
            if reply["type"] == "result" and reply.get("request_id") == self.asked:
                return reply["data"]

    def run(self, **params):
        reply = self.ask("RUN_WORKFLOW", wait_seconds=300, **params)
        assert reply["status"] in ("completed", "waiting"), reply
        return reply

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        while os.path.exists(f"/proc/{self.pid}/fd"):
            time.sleep(0.01)

    def stop(self):
        subprocess.run([self.steplatch, "daemon", "stop"], env=self.environment, capture_output=True, check=False)


def status(pid):
    """Returns the kilobytes and the threads of a process."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        fields = dict(line.split(":", 1) for line in file if ":" in line)
    return int(fields["VmRSS"].split()[0]), int(fields["Threads"])


def family(daemon):
    """Returns the kilobytes of a daemon and of those in which functions are executed, and the threads of all."""
    children = []
    for task in os.listdir(f"/proc/{daemon}/task"):
        with open(f"/proc/{daemon}/task/{task}/children", encoding="ascii") as file:
            children += [int(child) for child in file.read().split()]
    own, threads = status(daemon)
    others = [status(child) for child in children]
    return own, sum(kilobytes for kilobytes, _ in others), threads + sum(count for _, count in others)


def waiting(daemon, **what):
    for _ in range(WARM):
        daemon.run(**what)
    time.sleep(1)
    before = family(daemon.pid)
    began = time.monotonic()
    for _ in range(WAITING):
        daemon.run(**what)
    took = time.monotonic() - began
    time.sleep(1)
    after = family(daemon.pid)
    own, workers, threads = (late - early for late, early in zip(after, before))
    return own / WAITING, workers / WAITING, threads, took / WAITING * 1e3


def bare(home):
    """Commits a row of roughly the same text for each call, durably."""
    base = sqlite3.connect(os.path.join(home, "bare.db"), isolation_level=None)
    base.execute("PRAGMA journal_mode = WAL")
    base.execute("PRAGMA synchronous = FULL")
    base.execute("CREATE TABLE entries (run TEXT, seq INTEGER, text TEXT, PRIMARY KEY (run, seq)) WITHOUT ROWID")
    text = "x" * 400
    began = time.monotonic()
    for seq in range(CALLS):
        base.execute("BEGIN IMMEDIATE")
        base.execute("INSERT INTO entries VALUES ('run', ?, ?)", (seq, text))
        base.execute("COMMIT")
    return time.monotonic() - began


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--steplatch", required=True)
    arguments.add_argument("--folder", help="where the journal is, on the disk that is to be measured")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory(dir=os.path.abspath(given.folder or tempfile.gettempdir())) as home:
        for name, text in [("gate.py", GATE), ("many.py", MANY), ("three.py", THREE)]:
            with open(os.path.join(home, name), "w", encoding="utf-8") as file:
                file.write(text)
        daemon = Daemon(os.path.abspath(given.steplatch), home)
        try:
            rows = []
            own, workers, threads, start = waiting(daemon, workflow_file="gate.py")
            rows.append(("a function at its gate: KB in the daemon", own, "< 20"))
            rows.append(("… KB in the processes of functions", workers, "–"))
            rows.append((f"… threads, {WAITING} of them", threads, "0"))
            rows.append(("… from start to gate (ms)", start, "–"))
            own, _, threads, start = waiting(daemon, workflow_definition=MACHINE)
            rows.append(("a machine at its gate: KB in the daemon", own, "< 20"))
            rows.append((f"… threads, {WAITING} of them", threads, "0"))
            rows.append(("… from start to gate (ms)", start, "–"))
            three = daemon.run(workflow_file="three.py")
            rows.append(("three commands of 0.6 s in parallel (s)", three["result"], "< 0.9"))
            began = time.monotonic()
            many = daemon.run(workflow_file="many.py")
            rows.append((f"{CALLS} calls of a node, written down (s)", time.monotonic() - began, "–"))
            rows.append((f"… bare loop: {CALLS} commits (s)", bare(home), "–"))
            daemon.kill()
            began = time.monotonic()
            daemon.start()
            rows.append((f"the next daemon finds {2 * (WAITING + WARM) + 1} runs (s)", time.monotonic() - began, "–"))
            began = time.monotonic()
            daemon.ask("ANSWER_GATE", run_id=many["run_id"], answer="yes")
            over = daemon.ask("GET_RUN", run_id=many["run_id"], wait_seconds=60)
            assert over["result"] == "done", over
            rows.append((f"answered, replayed by {CALLS} calls, over (s)", time.monotonic() - began, "< 1"))
            width = max(len(name) for name, _, _ in rows)
            print(f"| {'what':{width}} | {'measured':>9} | target |")
            print(f"| {'-' * width} | {'-' * 8}: | ------ |")
            for name, value, target in rows:
                shown = f"{value:.0f}" if isinstance(value, int) else f"{value:.2f}"
                print(f"| {name:{width}} | {shown:>9} | {target:6} |")
        finally:
            daemon.stop()


main()
