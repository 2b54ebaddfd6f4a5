#!/usr/bin/env python3
"""Kills the daemon and cuts its connections at random instants while runs of every kind act on files, and counts what was
done twice or lost.

`cargo xtask crash` builds what this needs and then runs it. The seed decides the kinds of faults and the pauses between them;
the machine decides the rest, so a seed does not replay a run.
"""

import argparse
import collections
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import crash_kinds
from crash_kinds import HOST, RUN_TIMEOUT
from crowd import Daemon
from jobs import Failed, Server
from other_machine import Machine, kill

OVER = ("completed", "failed", "cancelled")

# Seconds within which the daemon notices the end of the terminal host of the other machine.
NOTICE_TIME = 5

# Words of an error on a full disk.
NO_ROOM = "no disk space is left"

# Bytes of the disk that has the state of the daemon, where one can be mounted that is filled.
DISK_BYTES = 256 << 20

# The faults, with how often each one is chosen beside the others.
FAULTS = {"kill": 6, "restart": 2, "stop the host": 2, "stop the daemon": 2}
DISK_FAULTS = {"fill the disk": 1}
FAR_FAULTS = {"cut here": 2, "cut there": 1, "stop the connection": 2, "end the host there": 0.1}


class Home(Daemon):
    """A daemon that faults end, and that is started again."""

    def __init__(self, program, folder):
        super().__init__(program, folder)
        self.environment |= {"LANG": "C.UTF-8", "SHELL": "/bin/bash"}
        self.disk = None

    def has_own_disk(self):
        """Puts the state of the daemon on a disk of its own. Returns whether that is possible."""
        self.disk = self.environment["XDG_STATE_HOME"]
        os.makedirs(self.disk)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=700", "none", self.disk]
        if subprocess.run(mount, stderr=subprocess.DEVNULL).returncode != 0:
            self.disk = None
        return self.disk is not None

    def fill_disk(self, seconds):
        """Leaves no room on the disk of the state for a time."""
        path = os.path.join(self.disk, "filling")
        with open(path, "wb", buffering=0) as file:
            try:
                while file.write(bytes(1 << 20)):
                    pass
            except OSError:
                pass
        time.sleep(seconds)
        os.remove(path)

    def close(self):
        """Stops the daemon, and removes its disk."""
        self.commands("daemon", "stop")
        shutil.rmtree(self.runtime, ignore_errors=True)
        if self.disk:
            subprocess.run(["umount", "--lazy", self.disk], check=True)

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

    def terminals(self):
        """Returns the number of terminals that are open, here and on other machines."""
        return len(json.loads(self.commands("terminal", "list", "--json"))["sessions"])

    def answers(self, gate, answer):
        """Answers a gate as a person, and returns whether the answer was taken."""
        command = [self.program, "gates", "answer", gate, answer]
        return subprocess.run(command, env=self.environment, capture_output=True, timeout=120).returncode == 0

    def reaches(self, machine):
        """Has the daemon reach another machine, with the same program there."""
        self.environment["PATH"] = f"{machine.path('bin')}:{self.environment['PATH']}"
        version = subprocess.run([self.program, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
        there = os.path.join(machine.home, ".local/share/steplatch/bin", version)
        os.makedirs(there)
        os.symlink(self.program, os.path.join(there, "steplatch"))
        self.commands("hosts", "add", HOST, "--ssh", HOST)


class Agent(Server):
    """An MCP server whose daemon may end during a call: the call then replies with an error."""

    def call(self, tool, **arguments):
        try:
            return super().call(tool, **arguments)
        except Failed as failure:
            return {"error": str(failure)}


class Run:
    """One run, and how it ended."""

    def __init__(self, kind, name):
        self.kind, self.name = kind, name
        self.words, self.status, self.error = [], "failed", ""
        self.begun = self.ended = time.monotonic()

    def perform(self, home, agent, kinds, random_kind):
        """Starts the run, answers what it asks, and waits for its end."""
        request, self.words, repair = kinds.run(self.kind, self.name, random_kind)
        more = {"wait_seconds": 0, "save_on_success": False, "execution_timeout": RUN_TIMEOUT}
        reply = agent.call("run_workflow", **request, **more)
        # Nothing starts that cannot be recorded.
        while NO_ROOM in str(reply.get("error")):
            time.sleep(0.1)
            reply = agent.call("run_workflow", **request, **more)
        if not reply.get("run_id"):
            self.end("failed", f"was not started: {reply.get('error')}")
            return
        run = reply["run_id"]
        while reply.get("status") not in OVER:
            complaint = self.complaint(home, agent, reply, repair)
            if complaint:
                home.commands("runs", "cancel", run)
                self.end(*complaint.split(": ", 1))
                return
            reply = agent.call("get_run", run_id=run, wait_seconds=60)
        self.end(reply["status"], str(reply.get("error") or ""))
        mistake = repair.complaint(home, reply) if repair and self.status == "completed" else None
        if mistake:
            self.end("failed", mistake)

    def complaint(self, home, agent, reply, repair):
        """Returns the reason to give the run up, after a step of its repair if it waits for one."""
        if time.monotonic() - self.begun > RUN_TIMEOUT:
            return f"stuck: {reply.get('status')}"
        gate = reply.get("pending_gate")
        if gate is None:
            return None
        return repair.step(home, agent, gate) if repair else f"failed: {gate['prompt']}"

    def end(self, status, error):
        self.status, self.error, self.ended = status, error, time.monotonic()

    def is_unknown(self, ended_hosts):
        """Returns whether the run could not know its outcome: a node ran at a kill, or the terminal host over there was killed."""
        if self.status not in ("failed", "cancelled"):
            return False
        if self.kind in crash_kinds.CALLING:
            return "unknown" in self.error or "not known" in self.error
        return self.kind.startswith("far_") and any(self.begun - NOTICE_TIME < at < self.ended for at in ended_hosts)


class Tally:
    """The runs that are over, and what they did."""

    def __init__(self):
        self.lock = threading.Lock()
        self.runs = []

    def add(self, run, ended_hosts):
        if run.is_unknown(ended_hosts):
            run.status = "unknown"
        elif run.status == "cancelled":
            run.status = "failed"
        with self.lock:
            self.runs.append(run)

    def ends(self):
        with self.lock:
            return dict(collections.Counter(run.status for run in self.runs))

    def rows(self, done):
        """Returns the counts of each kind, and a line for each effect and run that is not as it should be."""
        rows, lines = collections.defaultdict(collections.Counter), []
        kind_of = {run.name: run.kind for run in self.runs}
        known = {word for run in self.runs for word in run.words}
        for run in self.runs:
            row = rows[run.kind]
            row["runs"] += 1
            row["effects"] += sum(done[word] for word in run.words)
            row[run.status] += 1
            twice = [word for word in run.words if done[word] > 1]
            lost = [word for word in run.words if run.status == "completed" and not done[word]]
            row["twice"] += len(twice)
            row["lost"] += len(lost)
            lines += [f"{run.kind} {word}: {done[word]} times ({run.status})" for word in twice]
            lines += [f"{run.kind} {word}: lost" for word in lost]
            if run.status != "completed":
                lines.append(f"{run.kind} {run.name} {run.status}: {run.error[:300]}")
        for word in done:
            if word not in known:
                kind = kind_of.get(re.split("[-/]", word)[0], "of no run")
                rows[kind]["cut"] += 1
                lines.append(f"{kind} {word}: cut")
        return rows, lines


COLUMNS = ["runs", "effects", "twice", "lost", "cut", "stuck", "failed", "unknown"]


def table(rows, kinds):
    """Returns the table of the kinds with its sums, and whether nothing in it is wrong."""
    total = sum(rows.values(), collections.Counter())
    lines = [f"| kind | {' | '.join(COLUMNS)} |", f"| --- |{' ---: |' * len(COLUMNS)}"]
    others = [kind for kind in rows if kind not in kinds]
    for kind, row in [(kind, rows[kind]) for kind in [*kinds, *others]] + [("all", total)]:
        lines.append(f"| {kind} | {' | '.join(str(row[column]) for column in COLUMNS)} |")
    return lines, not any(total[column] for column in ("twice", "lost", "cut", "stuck", "failed"))


class Faults:
    """What is done to the daemon, the terminal hosts and the connections, one fault after another."""

    def __init__(self, home, machine, seed):
        self.home, self.machine = home, machine
        self.random = random.Random(seed)
        # A connection to another machine takes longer than a step: some faults leave it the time.
        self.pauses = [0.4, 0.4, 3.0] if machine else [0.4]
        self.weights = FAULTS | (FAR_FAULTS if machine else {}) | (DISK_FAULTS if home.disk else {})
        self.counts = collections.Counter()
        # The moments at which the terminal host of the other machine was killed.
        self.ended_hosts = []

    def disturb(self):
        """Waits a random time, and then kills, restarts, cuts or stops something."""
        time.sleep(self.random.uniform(0.0, self.random.choice(self.pauses)))
        status = self.home.status()
        fault = self.random.choices(list(self.weights), list(self.weights.values()))[0]
        self.counts[fault] += 1
        if fault == "kill":
            kill(status["pid"], signal.SIGKILL)
        elif fault == "restart":
            self.home.commands("daemon", "restart")
        elif fault == "stop the host":
            self.stop([host["pid"] for host in status["hosts"]], status["pid"])
        elif fault == "stop the daemon":
            self.stop([status["pid"]], self.random.choice([status["pid"], None]), longest=2.0)
        elif fault == "fill the disk":
            # A daemon that is killed meanwhile starts on the full disk.
            if self.random.choice([True, False]):
                kill(status["pid"], signal.SIGKILL)
            self.home.fill_disk(self.random.uniform(0.1, 2.0))
        elif fault == "stop the connection":
            self.stop(self.machine.connections(), self.random.choice([status["pid"], None]))
        elif fault == "end the host there":
            self.ended_hosts.append(time.monotonic())
            self.end(self.machine.hosts())
        else:
            self.end(self.machine.connections() if fault == "cut here" else self.machine.sessions())

    def stop(self, pids, daemon, longest=0.4):
        """Stops processes for a moment, and may kill the daemon at its end."""
        for pid in pids:
            kill(pid, signal.SIGSTOP)
        if pids:
            time.sleep(self.random.uniform(0.05, longest))
        if daemon:
            kill(daemon, signal.SIGKILL)
        for pid in pids:
            kill(pid, signal.SIGCONT)

    def end(self, pids):
        for pid in pids:
            kill(pid, signal.SIGKILL)


def work(number, home, kinds, tally, faults, stopping, seed):
    """Starts runs of random kinds, one after another, until it is time to stop."""
    random_kind = random.Random(f"{seed}/{number}")
    agent = Agent([home.program, "mcp"], home.environment, home.home)
    count = 0
    while not stopping.is_set():
        count += 1
        run = Run(random_kind.choice(kinds.chosen), f"w{number}r{count}")
        try:
            run.perform(home, agent, kinds, random_kind)
        except Exception as error:
            run.end("failed", f"of the script: {error!r}")
        tally.add(run, faults.ended_hosts)
    agent.close()


def tally_runs(home, kinds, faults, options):
    """Has workers start runs while faults happen, and returns the tally."""
    tally, stopping = Tally(), threading.Event()
    workers = [
        threading.Thread(target=work, args=(number, home, kinds, tally, faults, stopping, options.seed))
        for number in range(options.workers)
    ]
    for worker in workers:
        worker.start()
    try:
        for number in range(options.faults):
            faults.disturb()
            if number % 50 == 49:
                print(f"{number + 1} faults, {tally.ends()}", file=sys.stderr, flush=True)
        home.status()
    finally:
        stopping.set()
        for worker in workers:
            worker.join()
    return tally


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steplatch", required=True)
    parser.add_argument("--folder", required=True, help="where the state of the daemon is kept")
    parser.add_argument("--faults", type=int, default=500)
    parser.add_argument("--workers", type=int, default=5, help="runs under way at once")
    parser.add_argument("--load", type=int, default=0, help="busy loops beside them")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--kinds", default=",".join(crash_kinds.ALL), help="kinds of runs, with commas between them (default: all)")
    options = parser.parse_args()
    options.kinds = options.kinds.split(",")
    for kind in options.kinds:
        if kind not in crash_kinds.ALL:
            parser.error(f"there is no kind '{kind}'; the kinds are {', '.join(crash_kinds.ALL)}")
    return options


def main():
    options = arguments()
    home = Home(os.path.abspath(options.steplatch), os.path.abspath(options.folder))
    machine, is_right = None, False
    loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(options.load)]
    if not home.has_own_disk():
        print("no disk can be mounted here, so none is filled", file=sys.stderr)
    try:
        if any(kind.startswith("far_") for kind in options.kinds):
            os.mkdir(os.path.join(home.home, "far"))
            machine = Machine(os.path.join(home.home, "far"))
            home.reaches(machine)
        agent = Agent([home.program, "mcp"], home.environment, home.home)
        kinds = crash_kinds.Kinds(options.kinds, home, agent, machine)
        agent.close()
        faults, began = Faults(home, machine, options.seed), time.monotonic()
        tally = tally_runs(home, kinds, faults, options)
        print(f"left    {home.terminals()} terminals open after all runs")
        is_right = report(tally, faults, kinds, options, time.monotonic() - began)
    finally:
        for loop in loops:
            loop.kill()
        home.commands("daemon", "stop")
        if machine:
            machine.close()
        if home.disk and not is_right:
            shutil.copytree(home.disk, f"{home.home}/state-at-end", ignore_dangling_symlinks=True, dirs_exist_ok=True)
        home.close()
        if is_right:
            shutil.rmtree(home.home, ignore_errors=True)
        else:
            print(f"state and files are kept in {home.home}")
    sys.exit(0 if is_right else 1)


def report(tally, faults, kinds, options, seconds):
    """Prints what happened, and returns whether nothing is wrong."""
    with open(kinds.local.done) as file:
        done = collections.Counter(word for word in file.read().split() if not word.startswith("first-"))
    rows, lines = tally.rows(done)
    lined, is_right = table(rows, options.kinds)
    counts = ", ".join(f"{count} × {fault}" for fault, count in faults.counts.items())
    print(f"faults  {sum(faults.counts.values())} ({counts})")
    print(f"load    {options.load} busy loops, {options.workers} runs at once, {seconds:.0f} s")
    print("\n".join(lined + [f"  {line}" for line in lines]), flush=True)
    return is_right


if __name__ == "__main__":
    main()
