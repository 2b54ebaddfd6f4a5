"""What terminals and files on another machine cost, beside those on this one, in the same run.

The other machine is this one, behind an `sshd` of its own on loopback, with another home directory. The round trip is that of
one byte through `ssh box cat`, so that the row of an input can be read whatever the machine costs.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import tempfile
import time

from other_machine import Machine
from servers import Lines, Server

INPUTS = 200
OPENINGS = 20
CROWD = 200
FILE_MEGABYTES = 256


def round_trip(environment):
    """Returns the median time of one byte there and back, in ms."""
    child = subprocess.Popen(["ssh", "-T", "box", "cat"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    times = []
    for _ in range(INPUTS + 1):
        began = time.perf_counter()
        child.stdin.write(b".")
        child.stdout.read(1)
        times.append((time.perf_counter() - began) * 1e3)
        time.sleep(0.005)
    child.stdin.close()
    child.wait()
    # The first one waits for the connection.
    return statistics.median(times[1:])


async def opened(session, host):
    more = {"host": host} if host else {}
    reply = await session.call("open_terminal", shell="bash", **more)
    if not reply.get("success"):
        raise ConnectionError(reply)
    return reply["session_id"]


async def openings(session, host):
    """Returns the median time until a new shell is at its prompt, in ms."""
    times = []
    for _ in range(OPENINGS):
        began = time.perf_counter()
        terminal = await opened(session, host)
        times.append((time.perf_counter() - began) * 1e3)
        await session.call("exit_terminal", session_id=terminal)
    return statistics.median(times)


async def echoes(session, here, there):
    """Returns the median time of an input and the wait for its answer in two terminals, in ms, measured by turns."""
    times = {here: [], there: []}
    for number in range(INPUTS):
        for terminal in (here, there) if number % 2 else (there, here):
            began = time.perf_counter()
            await session.types(terminal, f"echo $(({number} + 70000))-\n")
            await session.wait(terminal, f"(?m)^{number + 70000}-")
            times[terminal].append((time.perf_counter() - began) * 1e3)
            await asyncio.sleep(0.005)
    return statistics.median(times[here]), statistics.median(times[there])


def copying(command, environment, folder):
    began = time.perf_counter()
    subprocess.run(command, env=environment, cwd=folder, check=True, capture_output=True)
    return FILE_MEGABYTES / (time.perf_counter() - began)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steplatch", required=True)
    arguments = parser.parse_args()
    steplatch = os.path.abspath(arguments.steplatch)
    with tempfile.TemporaryDirectory(prefix="bench-hosts-") as folder:
        machine = Machine(folder)
        here = os.path.join(folder, "here")
        os.makedirs(os.path.join(here, "run"), mode=0o700)
        environment = {
            "PATH": f"{folder}/bin:{os.environ['PATH']}",
            "HOME": here,
            "XDG_RUNTIME_DIR": f"{here}/run",
            "STEPLATCH_TERMINALS_MAX": "300",
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
        }
        settings = os.path.join(machine.home, ".config/steplatch")
        os.makedirs(settings)
        with open(os.path.join(settings, "config.toml"), "w") as file:
            file.write("[terminals]\nmax = 300\n")

        def run(*words):
            subprocess.run([steplatch, *words], env=environment, cwd=here, check=True, capture_output=True, timeout=120)

        server = Server([steplatch, "mcp"], here, environment)
        rows = []
        try:
            run("hosts", "add", "build", "--ssh", "box", "--install")
            asyncio.run(measure(machine, server, environment, here, rows))
            with open(os.path.join(here, "big"), "wb") as file:
                for _ in range(FILE_MEGABYTES):
                    file.write(os.urandom(1 << 20))
            ours = copying([steplatch, "cp", "big", "build:one"], environment, here)
            theirs = copying(["scp", "-q", "-O", "big", f"box:{machine.home}/two"], environment, here)
            rows.append((f"a file of {FILE_MEGABYTES} MB to there (MB/s)", f"{ours:.0f}", f"{theirs:.0f} by scp", "–", None))
            ours = copying([steplatch, "cp", "build:one", "three"], environment, here)
            theirs = copying(["scp", "-q", "-O", f"box:{machine.home}/two", "four"], environment, here)
            rows.append((f"… and back (MB/s)", f"{ours:.0f}", f"{theirs:.0f} by scp", "–", None))
        finally:
            server.stop()
            subprocess.run([steplatch, "daemon", "stop"], env=environment, capture_output=True)
            machine.close()
        print("| what | measured | beside | target | reached |\n| --- | ---: | ---: | --- | --- |")
        for what, measured, beside, target, reached in rows:
            said = "–" if reached is None else "yes" if reached else "**no**"
            print(f"| {what} | {measured} | {beside} | {target} | {said} |")


async def measure(machine, server, environment, folder, rows):
    session = Lines(server)
    session.find_tools()
    trip = round_trip(environment)
    rows.append(("a byte through `ssh box cat` and back (ms)", f"{trip:.2f}", "–", "–", None))
    near, far = await openings(session, None), await openings(session, "build")
    rows.append(("`open_terminal`, bash at its prompt (ms)", f"{far:.1f}", f"{near:.1f} here", "–", None))
    here, there = await opened(session, None), await opened(session, "build")
    near, far = await echoes(session, here, there)
    limit = 1.5 * near + trip
    rows.append(("`send_input` + `await_output` of an answer (ms)", f"{far:.2f}", f"{near:.2f} here", f"≤ 1.5 × here + a round trip = {limit:.2f}", far <= limit))
    began = time.perf_counter()
    crowd = [await opened(session, "build") for _ in range(CROWD)]
    rows.append((f"{CROWD} terminals there: opened, each (ms)", f"{(time.perf_counter() - began) * 1e3 / CROWD:.1f}", "–", "–", None))
    connections = len(machine.connections())
    rows.append(("… connections", f"{connections}", "–", "1", connections == 1))
    near, far = await echoes(session, here, there)
    rows.append(("… `send_input` + `await_output` in another one meanwhile (ms)", f"{far:.2f}", f"{near:.2f} here", f"≤ {1.5 * near + trip:.2f}", far <= 1.5 * near + trip))
    began = time.perf_counter()
    for terminal in crowd:
        await session.types(terminal, "seq 1 2000; echo en''d\n")
    lost = 0
    for terminal in crowd:
        lost += 0 if await session.wait(terminal, "(?m)^end") else 1
    rows.append(("… each prints 2,000 lines: until all are there (s)", f"{time.perf_counter() - began:.1f}", "–", "–", None))
    for terminal in crowd:
        reply = await session.call("get_screen_content", session_id=terminal, content_mode="tail", line_count=3)
        lost += 0 if "\n2000\nend" in f"\n{reply.get('screen_content', '')}" else 1
    rows.append(("… terminals that lost something", f"{lost}", "–", "0", lost == 0))
    await asyncio.sleep(1)
    rows.append(("… memory of this machine's processes (MB)", f"{server.memory() / 1e6:.0f}", "–", "–", None))
    session.end()


if __name__ == "__main__":
    main()
