#!/usr/bin/env python3
"""Measures terminals over MCP, beside a peer and a bare pseudo-terminal, and prints one table.

`cargo xtask bench terminals` builds and installs what this needs and then runs it.
"""

import argparse
import asyncio
import datetime
import importlib.metadata
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import bare
import servers

# The peer waits a fixed time after each input; these are its own defaults but for the limits, which would end a
# measurement, and the page, which would open a port.
PEER_SETTINGS = """
[web]
enabled = false
[security]
level = "off"
max_calls_per_minute = 1000000
max_sessions = 200
[logging]
level = "WARNING"
"""


class Times:
    """Durations in milliseconds; used as a context it measures its block."""

    def __init__(self):
        self.all = []

    def __enter__(self):
        self.began = time.perf_counter()

    def __exit__(self, kind, *_):
        if kind is None:
            self.add((time.perf_counter() - self.began) * 1e3)

    def add(self, milliseconds):
        self.all.append(milliseconds)

    def median(self):
        return statistics.median(self.all)

    def percentile(self, percent):
        return sorted(self.all)[min(len(self.all) - 1, len(self.all) * percent // 100)]


class Plan:
    """What is done, and how often: the same for every column."""

    times = Times

    def __init__(self, rounds):
        self.rounds = rounds
        self.starts = 10
        self.opens = 101
        self.idle = 500
        self.floods = 3
        self.flood_lines = 1_000_000
        self.crowd_lines = 100_000
        # Together shorter than the crowd prints.
        self.crowd_rounds = 20
        self.column = ""

    def says(self, what):
        print(f"{self.column}: {what}", file=sys.stderr, flush=True)

    # A print that comes when somebody waits for it already, and tells the moment at which it was made.
    def late_print(self, round):
        return f"sleep 0.2; echo LATE_{round}_${{EPOCHREALTIME/,/.}}_\n"

    def soon_print(self, round):
        return self.late_print(round).replace("sleep 0.2", "sleep 0.1")

    def late_pattern(self, round):
        return rf"LATE_{round}_(\d+\.\d+)_"

    def printed_at(self, text):
        return float(text)

    def flood(self):
        return f"seq 1 {self.flood_lines}; echo FLOOD_$((1+1))\n"

    # Everyone in the crowd waits at a gate, so that all begin at once: a FIFO is opened for reading only when
    # somebody opens it for writing.
    def gate(self, folder):
        path = os.path.join(folder, "gate")
        os.mkfifo(path)
        return path

    def open_gate(self, path):
        os.close(os.open(path, os.O_WRONLY))

    def crowd_print(self, gate):
        return f"read < '{gate}'; seq 1 {self.crowd_lines}; echo DONE_$((1+1))\n"


def at_most(limit, unit=""):
    return f"≤ {limit}{unit}", lambda ours, bare: ours <= limit


def at_most_times_bare(factor):
    return f"≤ {factor} × bare", lambda ours, bare: bare is not None and ours <= factor * bare


# What is measured, the name of the figure, its digits, and its target with the test whether it is reached.
ROWS = [
    ("`open_terminal`, bash at its prompt (ms)", "open", 1, at_most(30)),
    ("… against a bare bash reaching its prompt", "open", 1, at_most_times_bare(1.5)),
    ("failures of 101 × `open_terminal` in a row", "open_failed", 0, at_most(0)),
    ("`send_input` + `await_output` of an echo (ms)", "echo", 2, at_most(3)),
    ("printed → `await_output` returned (ms)", "arrival", 2, at_most(1)),
    ("printed → wait returned, in one process (ms)", "arrival_inside", 2, at_most(0.3)),
    ("`get_screen_content` (ms)", "screen", 2, at_most(0.3)),
    ("a ping: what the pipes cost (ms)", "ping", 2, None),
    ("PyPI client: `send_input` + `await_output` of an echo (ms)", "client_echo", 2, at_most(3)),
    ("PyPI client: printed → `await_output` returned (ms)", "client_arrival", 2, at_most(2)),
    ("PyPI client: `get_screen_content` (ms)", "client_screen", 2, at_most(0.5)),
    ("PyPI client: a ping (ms)", "client_ping", 2, None),
    ("spawned → initialized, daemon there (ms)", "start_again", 1, at_most(10)),
    ("spawned → initialized, daemon not there (ms)", "start_first", 1, at_most(60)),
    ("spawned → first tool answered, daemon not there (ms)", "start_answer", 1, None),
    ("end of input → server ended (ms)", "end", 1, at_most(100)),
    ("`seq 1 1000000` until its end is matched (s)", "flood", 2, ("≤ bare ÷ 0.9", lambda ours, bare: ours <= bare / 0.9)),
    ("memory of all processes, 10 terminals (MB)", "memory_ten", 1, at_most(30)),
    ("memory of each idle terminal, many open (MB)", "memory_each", 2, at_most(1)),
    ("threads more than without a terminal", "threads", 0, ("< 10", lambda ours, bare: ours < 10)),
    ("memory of each of 500 idle terminals (MB)", "memory_idle", 2, at_most(1)),
    ("threads more with 500 idle terminals", "threads_idle", 0, ("< 10", lambda ours, bare: ours < 10)),
    ("100 print at once: lines lost", "crowd_lost", 0, at_most(0)),
    ("… printed → returned meanwhile (ms)", "crowd_wait", 1, at_most(20)),
    ("… printed → returned meanwhile, 95th percentile (ms)", "crowd_wait_95", 1, None),
]


def table(columns):
    """Returns the table in Markdown, aligned so that it reads well as plain text, too."""
    ours, bare_figures = columns[0][1], columns[-1][1]
    lines = [["medians", *[name for name, _ in columns], "target", "reached"]]
    for label, key, digits, target in ROWS:
        shown = [figures.get(key) for _, figures in columns]
        reached = "–"
        if target and ours.get(key) is not None:
            reached = "yes" if target[1](ours[key], bare_figures.get(key)) else "**no**"
        cells = ["–" if figure is None else f"{figure:,.{digits}f}" for figure in shown]
        lines.append([label, *cells, target[0] if target else "–", reached])
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    numbers = range(1, len(columns) + 1)

    def row(cells):
        padded = [
            cell.rjust(width) if column in numbers else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(cells, widths))
        ]
        return f"| {' | '.join(padded)} |"

    rule = [
        "-" * (width - 1) + ":" if column in numbers else "-" * width for column, width in enumerate(widths)
    ]
    return "\n".join([row(lines[0]), row(rule), *map(row, lines[1:])])


def machine():
    """Returns a line that tells what was measured on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    bash = subprocess.run(["bash", "-c", "echo $BASH_VERSION"], capture_output=True, text=True).stdout.strip()
    return (
        f"{datetime.date.today()}, {os.cpu_count()} cores, {memory:.0f} GiB, Linux {platform.release()}, "
        f"bash {bash}, Python {platform.python_version()}, mcp {importlib.metadata.version('mcp')}"
    )


def fresh_folder():
    # Short, because a socket lies in it, and sockets have paths of 107 bytes at the most.
    return tempfile.mkdtemp(prefix="bench-", dir="/tmp")


def environment(folder):
    """Returns an environment in which a server finds nothing but what it brings: no dotfiles, no running daemon."""
    return {
        "PATH": os.environ["PATH"],
        # A bash that reads a locale takes longer to start, and some servers set one.
        "LC_ALL": "C.UTF-8",
        "HOME": folder,
        "SHELL": shutil.which("bash"),
        "XDG_RUNTIME_DIR": folder,
        "STEPLATCH_STATE_DIR": os.path.join(folder, "state"),
        "STEPLATCH_TERMINALS_MOST": "600",
        "TMUX_TMPDIR": folder,
    }


def measured_server(plan, command, stop=None, settings=None, crowded=False):
    folder = fresh_folder()
    if settings:
        with open(os.path.join(folder, "terminal-control.toml"), "w") as file:
            file.write(settings)
    server = servers.Server(command, folder, environment(folder), stop)
    try:
        figures = asyncio.run(servers.measure(plan, server, crowded))
    finally:
        server.stop()
    shutil.rmtree(folder, ignore_errors=True)
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steplatch", required=True, help="the program that is measured")
    parser.add_argument("--peer", help="the server that is measured beside it")
    parser.add_argument("--in-process-ms", type=float, help="printed to returned without MCP, measured elsewhere")
    parser.add_argument("--rounds", type=int, default=50, help="how often the short things are done")
    options = parser.parse_args()
    plan = Plan(options.rounds)

    steplatch = os.path.abspath(options.steplatch)
    plan.column = "steplatch"
    ours = measured_server(plan, [steplatch, "mcp"], stop=[steplatch, "daemon", "stop"], crowded=True)
    ours["arrival_inside"] = options.in_process_ms
    columns = [("steplatch", ours)]
    if options.peer:
        version = importlib.metadata.version("terminal-control-mcp")
        plan.column = "terminal-control-mcp"
        columns.append((f"terminal-control-mcp {version}", measured_server(plan, [options.peer], settings=PEER_SETTINGS)))
    plan.column = "bare"
    plan.says("the same without a server")
    folder = fresh_folder()
    columns.append(("bare PTY", bare.measure(plan, folder, environment(folder), ours["open_at_once"] - 1)))
    shutil.rmtree(folder, ignore_errors=True)

    print(table(columns))
    print(f"\n{machine()}")
    at_once = ", ".join(f"{name} {figures['open_at_once']}" for name, figures in columns if "open_at_once" in figures)
    print(f"Terminals that were open at once: {at_once}")


if __name__ == "__main__":
    main()
