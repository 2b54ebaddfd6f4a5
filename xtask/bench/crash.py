#!/usr/bin/env python3
"""Kills the daemon at random instants while runs of every kind act on files, and counts what was done twice or lost.

`cargo xtask crash` builds what this needs and then runs it. The seed decides the kinds of faults and the pauses between them;
the machine decides the rest, so a seed does not replay a run.
"""

import argparse
import collections
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

from crowd import Daemon
from jobs import Failed, Server

# Seconds that a run may take, with all that interrupts it.
RUN_TIMEOUT = 600


def state(tool, params, to=None):
    it = {"action": {"tool": tool, "params": params}, "timeout": RUN_TIMEOUT}
    if to:
        it["transitions"] = [{"condition": "success", "next_state": to}]
    return it


def machine(*actions):
    """Returns a machine that performs the actions in their order."""
    last = len(actions) - 1
    states = {f"s{n}": state(*action, f"s{n + 1}" if n < last else None) for n, action in enumerate(actions)}
    return {"initial_state": "s0", "states": states}


class Kinds:
    """The definitions of runs. Each effect appends one word to a file; a definition comes with its words."""

    def __init__(self, folder):
        self.done = os.path.join(folder, "done")
        self.folder = folder

    def append(self, word):
        return f"echo {word} >>{self.done}"

    def child(self, *words):
        return machine(*(("run_command", {"command": self.append(word)}) for word in words))

    def commands(self, run):
        words = [f"{run}-{n}" for n in range(4)]
        return self.child(*words), words

    def typed(self, run):
        words = [f"{run}-{n}" for n in range(4)]
        lines = [("open_terminal", {"shell": "bash"})]
        for word in words:
            lines.append(("send_input", {"input_text": f"{self.append(word)}; echo got-$((1)){word}\n"}))
            lines.append(("await_output", {"pattern": f"^got-1{word}", "timeout": RUN_TIMEOUT}))
        return machine(*lines, ("exit_terminal", {})), words

    def in_terminal(self, run):
        words = [f"{run}-{n}" for n in range(3)]
        lines = [("run_command", {"command": self.append(word)}) for word in words]
        return machine(("open_terminal", {"shell": "bash"}), *lines, ("exit_terminal", {})), words

    def parallel(self, run):
        words = [f"{run}-{n}" for n in range(6)]
        branches = {f"b{n}": {"workflow_definition": self.child(*words[2 * n : 2 * n + 2])} for n in range(3)}
        return machine(("parallel", {"workflows": branches})), words

    def for_each(self, run):
        words = [f"{run}-{n}" for n in range(4)]
        each = state(
            "run_workflow",
            {
                "workflow_definition": self.child("{word}"),
                "initial_variables": {"word": "{item}"},
            },
        )
        each["for_each"] = {"items": words, "max_parallel": 2}
        return {"initial_state": "each", "states": {"each": each}}, words

    def dialogue(self, run):
        words = [f"{run}-{n}" for n in range(1, 5)]
        script = f'for n in 1 2 3 4; do read -r -p "Word $n? " word; echo "$word" >>{self.done}; done; echo asked-all'
        rule = {"when": "Word (\\d+)\\? $", "type": f"{run}-{{groups.1}}\n", "times": 4}
        answer = {"rules": [rule], "until": "asked-all", "timeout": RUN_TIMEOUT, "max_answers": 4}
        return machine(("open_terminal", {"command": ["bash", "-c", script]}), ("dialogue", answer)), words

    def nested(self, run):
        words = [f"{run}-{n}" for n in range(4)]
        inner, _ = self.in_terminal(f"{run}-inner")
        outer = machine(
            ("run_command", {"command": self.append(words[0])}),
            ("run_workflow", {"workflow_definition": inner}),
            ("run_workflow", {"workflow_definition": self.child(*words[1:3])}),
            ("run_command", {"command": self.append(words[3])}),
        )
        return outer, words + [f"{run}-inner-{n}" for n in range(3)]

    def files(self, run):
        """A file that is written, and read by the next command."""
        words = [f"{run}-{n}" for n in range(2)]
        path = os.path.join(self.folder, f"file-{run}")
        put = [("put_file", {"path": path, "content": word + "\n", "overwrite": True}) for word in words]
        read = ("run_command", {"command": f"cat {path} >>{self.done}"})
        return machine(put[0], read, put[1], read), words

    def function(self, run):
        """Nodes of a function. The outcome of one that was running when its daemon ended is unknown, and its run says so."""
        words = [f"{run}-{n}" for n in range(4)]
        source = f"""
async def work(ctx: WorkflowContext) -> str:
    results = [await ctx.run("note", "{words[0]}")]
    results += await ctx.run_parallel([("note", "{words[1]}"), ("note", "{words[2]}")])
    results += [await ctx.run("note", "{words[3]}")]
    failed = [result["error_type"] for result in results if not result["success"]]
    if failed:
        raise RuntimeError(f"nodes: {{failed}}")
    return "done"


BashNode(id="note", session=session, command="echo {{input|sh}} >>{self.done}")
Workflow(id="work", session=session, fn=work)
"""
        path = os.path.join(self.folder, f"{run}.py")
        with open(path, "w") as file:
            file.write(source)
        return path, words


KINDS = ["commands", "typed", "in_terminal", "parallel", "for_each", "dialogue", "nested", "files", "function"]


class Home(Daemon):
    """A daemon that faults end, and that is started again."""

    def __init__(self, program, folder):
        super().__init__(program, folder)
        self.environment |= {"LANG": "C.UTF-8", "SHELL": "/bin/bash"}

    def status(self):
        """Returns the status of the daemon; one is started if there is none."""
        while True:
            self.commands("daemon", "start")
            try:
                status = json.loads(self.commands("daemon", "status", "--json"))
            except ValueError:
                continue
            if "pid" in status:
                return status


class Agent(Server):
    """An MCP server whose daemon may end during a call: the call then replies with an error."""

    def call(self, tool, **arguments):
        try:
            return super().call(tool, **arguments)
        except Failed as failure:
            return {"error": str(failure)}


class Tally:
    def __init__(self):
        self.lock = threading.Lock()
        self.runs = collections.Counter()
        self.ends = collections.Counter()
        self.expected = {}
        self.complaints = []


def start(agent, kinds, kind, run):
    given, words = getattr(kinds, kind)(run)
    what = {"workflow_file": given} if kind == "function" else {"workflow_definition": given}
    reply = agent.call("run_workflow", **what, wait_seconds=0, save_on_success=False, execution_timeout=RUN_TIMEOUT)
    return reply, words


def work(number, home, kinds, tally, stopping, seed):
    random_kind = random.Random(f"{seed}/{number}")
    agent = Agent([home.program, "mcp"], home.environment, home.home)
    count = 0
    while not stopping.is_set():
        count += 1
        kind, run = random_kind.choice(KINDS), f"w{number}r{count}"
        reply, words = start(agent, kinds, kind, run)
        if not reply.get("run_id"):
            with tally.lock:
                tally.complaints.append(f"{kind} {run} was not started: {reply.get('error')}")
                tally.expected[run] = (kind, "not started", words)
            continue
        begun = time.monotonic()
        while reply.get("status") not in ("completed", "failed", "cancelled") and time.monotonic() - begun < RUN_TIMEOUT:
            reply = agent.call("get_run", run_id=reply.get("run_id"), wait_seconds=60) | {"run_id": reply["run_id"]}
        status = reply.get("status", "stuck")
        error = str(reply.get("error") or "")
        if status not in ("completed", "failed", "cancelled"):
            status = "stuck"
        elif status == "failed" and ("unknown" in error or "not known" in error):
            status = "unknown"
        with tally.lock:
            tally.runs[kind] += 1
            tally.ends[status] += 1
            tally.expected[run] = (kind, status, words)
            if status != "completed":
                tally.complaints.append(f"{kind} {run} {status}: {error[:300]}")
    agent.close()


def kill(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def disturb(home, random_fault, faults):
    """Waits a random time, and then kills, restarts or stops something."""
    time.sleep(random_fault.uniform(0.0, 0.4))
    status = home.status()
    fault = random_fault.choices(["kill", "restart", "stop the host"], [6, 2, 2])[0]
    faults[fault] += 1
    if fault == "restart":
        home.commands("daemon", "restart")
        return
    hosts = [host["pid"] for host in status["hosts"]] if fault == "stop the host" else []
    for host in hosts:
        kill(host, signal.SIGSTOP)
    if hosts:
        time.sleep(random_fault.uniform(0.05, 0.4))
    kill(status["pid"], signal.SIGKILL)
    for host in hosts:
        kill(host, signal.SIGCONT)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steplatch", required=True)
    parser.add_argument("--folder", required=True, help="where the state of the daemon is kept")
    parser.add_argument("--faults", type=int, default=500)
    parser.add_argument("--workers", type=int, default=5, help="runs under way at once")
    parser.add_argument("--load", type=int, default=0, help="busy loops beside them")
    parser.add_argument("--seed", default="1")
    options = parser.parse_args()
    home = Home(os.path.abspath(options.steplatch), options.folder)
    kinds, tally, stopping = Kinds(home.home), Tally(), threading.Event()
    loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(options.load)]
    random_fault, faults = random.Random(options.seed), collections.Counter()
    began = time.monotonic()
    try:
        home.status()
        workers = [
            threading.Thread(target=work, args=(number, home, kinds, tally, stopping, options.seed))
            for number in range(options.workers)
        ]
        for worker in workers:
            worker.start()
        for number in range(options.faults):
            disturb(home, random_fault, faults)
            if number % 50 == 49:
                print(f"{number + 1} faults, {sum(tally.ends.values())} runs, {dict(tally.ends)}", file=sys.stderr)
        home.status()
        stopping.set()
        for worker in workers:
            worker.join()
    finally:
        for loop in loops:
            loop.kill()
    with open(kinds.done) as file:
        done = collections.Counter(file.read().split())
    twice, lost = [], []
    for run, (kind, status, words) in tally.expected.items():
        twice += [f"{kind} {word}: {done[word]} times ({status})" for word in words if done[word] > 1]
        lost += [f"{kind} {word} ({status})" for word in words if status == "completed" and not done[word]]
    known = {word for _, _, words in tally.expected.values() for word in words}
    foreign = [word for word in done if word not in known]
    print(f"faults      {sum(faults.values())} ({', '.join(f'{n} × {what}' for what, n in faults.items())})")
    print(f"load        {options.load} busy loops, {options.workers} runs at once, {time.monotonic() - began:.0f} s")
    print(f"runs        {sum(tally.runs.values())} ({', '.join(f'{n} {kind}' for kind, n in sorted(tally.runs.items()))})")
    print(f"ended       {', '.join(f'{n} {status}' for status, n in tally.ends.items())}")
    print(f"effects     {sum(done.values())}; performed twice: {len(twice)}; lost: {len(lost)}; cut or foreign: {len(foreign)}")
    for line in twice + lost + foreign + tally.complaints:
        print(f"  {line}")
    home.__exit__()
    bad = twice or lost or foreign or tally.ends["failed"] or tally.ends["stuck"] or tally.ends["cancelled"]
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
