#!/usr/bin/env python3
"""Does 78 jobs with real programs as an agent would: through MCP tools alone, with the calls that a model makes first.

Reports for each job whether it was done, its calls, seconds and bytes of reply text, and waits that ran to their limit
while the program asked. Then counts the jobs of a trial by hand whose counterparts were all done. Fails if several jobs
of steplatch were not done, or one of its waits was stuck. `cargo xtask bench jobs` builds and installs what this needs,
and then runs it.
"""

import argparse
import contextlib
import filecmp
import glob
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback
import zipfile


# Maximum number of jobs that steplatch may not have done for the benchmark to succeed.
MAX_FAILED_JOBS = 2


class Failed(Exception):
    """A job that a first try does not do."""


# The end of a row at which a program asks, or a shell or an interpreter takes the next entry.
ASKS = re.compile(r"[?:>$#%❯\])](?:\s*\([^()]*\)|\s*\[[^\[\]]*\])?\s*$")


def is_stuck(reply):
    """Returns whether a wait ran to its limit while the program asked: by the reply, or by the last row that it shows."""
    timed_out = reply.get("timed_out") or reply.get("timeout_occurred")
    timed_out = timed_out or (reply.get("waited") or {}).get("reason") == "timeout"
    if not timed_out:
        return False
    tail = (reply.get("omitted") or {}).get("tail")
    rows = (tail or reply.get("screen_content") or reply.get("output") or "").rstrip().splitlines()
    return bool(reply.get("awaiting_input") or rows and ASKS.search(rows[-1]))


def parse_reply(tool, text, is_error):
    """Returns the fields of a reply. In short replies the text of a terminal or file stands after a line of fields."""
    field = {"run_command": "output", "get_file": "content"}.get(tool, "screen_content")
    if not text.startswith("{"):
        return {"error": text, "success": False} if is_error else {field: text}
    fields, separator, rest = text.partition("\n")
    for whole, more in [(fields, {field: rest} if separator else {}), (text, {})]:
        try:
            return json.loads(whole) | more
        except ValueError:
            continue
    return {"error": text, "success": False}


def check_is_stuck():
    """Checks the rule by which a wait counts as stuck."""
    late = {"timeout_occurred": True, "screen_content": ""}
    for reply, expected in [
        ({"screen_content": "Name? "}, False),
        (late | {"awaiting_input": True}, True),
        (late | {"awaiting_input": False, "screen_content": "$ ./setup\nProject name:"}, True),
        (late | {"awaiting_input": None, "screen_content": "Overwrite? [y/N] \n\n"}, True),
        (late | {"screen_content": "? Project name (demo)"}, True),
        (late | {"screen_content": "job one is done\n[ana@box ~]$ "}, True),
        (late | {"screen_content": "compiling 3 of 7\n"}, False),
        ({"timed_out": True, "output": "1\n2\n", "omitted": {"tail": "Delete all?"}}, True),
        ({"waited": {"reason": "timeout"}, "screen_content": ">>> "}, True),
        ({"waited": {"reason": "match"}, "screen_content": ">>> "}, False),
    ]:
        assert is_stuck(reply) is expected, reply


class Server:
    """An MCP server on standard input and output, called one request at a time."""

    def __init__(self, command, environment, folder, wraps=False, client="jobs"):
        self.wraps = wraps
        self.command, self.environment = command, environment
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env=environment, cwd=folder, text=True, bufsize=1,
        )
        self.number = 0
        self.calls = self.bytes = self.stuck = 0
        self.seconds = 0.0
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": client, "version": "1"}}
        self.request("initialize", about)
        self.write({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.listed = {tool["name"] for tool in self.request("tools/list", {})["tools"]}

    def write(self, message):
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def request(self, method, params):
        self.number += 1
        self.write({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise Failed("the server is gone")
            message = json.loads(line)
            if message.get("id") == self.number:
                if "error" in message:
                    raise Failed(message["error"]["message"])
                return message["result"]

    def call(self, tool, **arguments):
        if self.wraps:
            arguments = {"request": arguments}
        # A model calls what its list has.
        if tool not in self.listed and "more_tools" in self.listed:
            tool, arguments = "more_tools", {"tool": tool, "arguments": arguments}
        began = time.monotonic()
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        self.seconds += time.monotonic() - began
        self.calls += 1
        texts = [part["text"] for part in result["content"] if part["type"] == "text"]
        self.bytes += sum(len(text.encode()) for text in texts)
        called = arguments["tool"] if tool == "more_tools" else tool
        reply = parse_reply(called, texts[0], result.get("isError")) if texts else {}
        # Clients that read the text alone know it from the protocol.
        reply.setdefault("success", not result.get("isError") and not reply.get("error"))
        if isinstance(reply.get("waited"), str):
            reply["waited"] = {"reason": reply["waited"]}
        self.stuck += is_stuck(reply)
        reply["images"] = [part for part in result["content"] if part["type"] == "image"]
        return reply

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()


class Ours:
    """The hand of a model that read our tools' descriptions."""

    name = "steplatch"
    has_run = True
    wraps = False

    def __init__(self, server):
        self.server = server

    def open(self, shell="bash", **more):
        return self.checked(self.server.call("open_terminal", shell=shell, **more))["session_id"]

    def say(self, session, text, expect=None, until="prompt", timeout=30, **more):
        """Enters a line and waits until the program asks for more."""
        reply = self.server.call(
            "send_input", session_id=session, input_text=text + "\n", until=until, timeout=timeout, **more
        )
        return self.seen(reply, expect)

    def type(self, session, text):
        """Enters a line and does not wait for its end."""
        return self.checked(self.server.call("send_input", session_id=session, input_text=text + "\n"))

    def match(self, session, text, pattern, timeout=30):
        """Enters a line, waits for a pattern, and returns its groups."""
        reply = self.server.call(
            "send_input", session_id=session, input_text=text + "\n", pattern=pattern, timeout=timeout
        )
        if reply["waited"].get("match_text") is None:
            raise Failed(f"no {pattern!r}: {reply}")
        return reply["waited"].get("groups")

    def put(self, path, content):
        self.checked(self.server.call("put_file", path=path, content=content))

    def keys(self, session, *names, text="", expect=None):
        more = {"input_text": text} if text else {}
        names = {"keys": list(names)} if names else {}
        return self.seen(self.server.call("send_input", session_id=session, until="input", **names, **more), expect)

    def wait(self, session, pattern, timeout=30, **more):
        reply = self.server.call("await_output", session_id=session, pattern=pattern, timeout=timeout, **more)
        if reply.get("match_text") is None:
            raise Failed(f"no {pattern!r}: {reply}")
        return reply

    def run(self, command, session=None, **more):
        more = {"session_id": session, **more} if session else more
        return self.server.call("run_command", command=command, **more)

    def screen(self, session, **more):
        return self.server.call("get_screen_content", session_id=session, **more)

    def close(self, session):
        self.server.call("exit_terminal", session_id=session)

    def checked(self, reply):
        if not reply.get("success"):
            raise Failed(reply.get("error") or str(reply))
        return reply

    def seen(self, reply, expect):
        text = (reply.get("screen_content") or "") + ((reply.get("omitted") or {}).get("tail") or "")
        if expect is not None and not re.search(expect, text):
            raise Failed(f"no {expect!r} in {text!r}")
        self.checked(reply)
        return reply


class SixTools(Ours):
    """The same with the tools of terminal-control-mcp, where a model looks at the screen until it shows what it expects."""

    name = "terminal-control-mcp"
    has_run = False
    # Its tools take one argument.
    wraps = True

    # Seconds between two looks.
    PAUSE = 0.5

    def say(self, session, text, expect=None, until="prompt", timeout=10, **more):
        reply = self.checked(self.server.call("send_input", session_id=session, input_text=text + "\n"))
        return reply if expect is None else self.look(session, reply, expect, timeout)

    def look(self, session, reply, expect, timeout):
        until = time.monotonic() + timeout
        while not re.search(expect, text_of(reply)) and time.monotonic() < until:
            time.sleep(self.PAUSE)
            self.server.seconds += self.PAUSE
            reply = self.screen(session)
        return self.seen(reply, expect)

    def wait(self, session, pattern, timeout=30, **more):
        reply = self.look(session, {}, pattern, timeout)
        return {**reply, "match_text": re.search(pattern, text_of(reply)).group()}

    def match(self, session, text, pattern, timeout=30):
        reply = self.say(session, text, pattern, timeout=timeout)
        return list(re.search(pattern, text_of(reply)).groups())

    def put(self, path, content):
        self.say(self.open(), f"cat > '{path}' <<'END'\n{content}END")

    def keys(self, session, *names, text="", expect=None):
        codes = {"enter": "\n", "tab": "\t", "escape": "\x1b", "space": " ", "down": "\x1b[B", "up": "\x1b[A"}
        codes |= {"f4": "\x1bOS", "f5": "\x1b[15~", "f9": "\x1b[20~", "f10": "\x1b[21~"}
        codes |= {f"ctrl-{letter}": chr(ord(letter) - 96) for letter in "abcdefghijklmnopqrstuvwxyz"}
        typed = text + "".join(codes[name] for name in names)
        self.checked(self.server.call("send_input", session_id=session, input_text=typed))
        return self.seen(self.server.call("get_screen_content", session_id=session), expect)

    def run(self, *_, **__):
        raise Failed("has no run_command")


class DesktopCommander(SixTools):
    """The same with the processes of Desktop Commander, which have no terminal: it types lines and reads what is printed."""

    name = "Desktop Commander"
    wraps = False

    def open(self, shell="bash", environment=None, **_):
        variables = "".join(f"{name}={value!r} " for name, value in (environment or {}).items())
        started = self.server.call("start_process", command=f"{variables}{shell}", timeout_ms=1000)
        found = re.search(r"PID (\d+)", started.get("screen_content") or "")
        if found is None:
            raise Failed(str(started))
        return int(found.group(1))

    def type(self, session, text):
        reply = self.server.call("interact_with_process", pid=session, input=text, wait_for_prompt=False)
        return self.checked(reply)

    def say(self, session, text, expect=None, until="prompt", timeout=10, **_):
        arguments = {"pid": session, "input": text, "timeout_ms": 5000}
        reply = self.checked(self.server.call("interact_with_process", **arguments))
        return reply if expect is None else self.look(session, reply, expect, timeout)

    def screen(self, session, **_):
        return self.server.call("read_process_output", pid=session, timeout_ms=1000)

    def put(self, path, content):
        self.checked(self.server.call("write_file", path=path, content=content))

    def keys(self, session, *names, text="", expect=None):
        if names not in [(), ("enter",)]:
            raise Failed("has no keys")
        return self.say(session, text, expect)

    def close(self, session):
        self.server.call("force_terminate", pid=session)


class TmuxServer:
    """A server of tmux with the counters of an MCP server. A call is one command of an agent's own shell."""

    def __init__(self, command, environment, folder, *_):
        # Each has a socket of its own: the last server may still be ending.
        self.command = [*command, "-L", os.path.basename(folder), "-f", "/dev/null"]
        self.environment, self.folder = environment, folder
        self.calls = self.bytes = self.stuck = 0
        self.seconds = 0.0

    def tmux(self, *words):
        run = subprocess.run([*self.command, *words], env=self.environment, cwd=self.folder, capture_output=True, text=True)
        if run.returncode != 0:
            raise Failed(run.stderr.strip())
        return run.stdout

    def returned(self, text, seconds):
        self.calls += 1
        self.seconds += seconds
        self.bytes += len(text.encode())
        return {"screen_content": text, "output": text, "success": True}

    def call(self, tool, **_):
        raise Failed(f"has no {tool}")

    def close(self):
        subprocess.run([*self.command, "kill-server"], env=self.environment, capture_output=True)


class Tmux(Ours):
    """An agent with a shell and tmux: each step is `tmux send-keys …; sleep 1; tmux capture-pane -p`."""

    name = "plain tmux"
    KEYS = {"enter": "Enter", "tab": "Tab", "escape": "Escape", "space": "Space", "down": "Down", "up": "Up"}

    # Seconds between the keys of a step and the look at the screen.
    PAUSE = 1.0

    def open(self, shell="bash", name="", environment=None, **_):
        session = name or f"t{self.server.calls}"
        variables = [word for item in (environment or {}).items() for word in ("-e", "=".join(item))]
        self.server.tmux("new-session", "-d", "-s", session, "-x", "120", "-y", "40", "-c", self.server.folder, *variables, shell)
        time.sleep(self.PAUSE)
        self.server.returned("", self.PAUSE)
        return session

    def step(self, session, *keys, text=""):
        if text:
            self.server.tmux("send-keys", "-t", session, "-l", text)
        if keys:
            self.server.tmux("send-keys", "-t", session, *keys)
        return self.screen(session)

    def screen(self, session, **_):
        time.sleep(self.PAUSE)
        # capture-pane pads the screen with empty rows, which a shell's reader drops.
        return self.server.returned(self.server.tmux("capture-pane", "-p", "-t", session).rstrip(), self.PAUSE)

    def say(self, session, text, expect=None, until="prompt", timeout=10, **_):
        return self.look(session, self.step(session, "Enter", text=text), expect, timeout)

    def look(self, session, reply, expect, timeout):
        end = time.monotonic() + timeout
        while expect is not None and not re.search(expect, reply["screen_content"]) and time.monotonic() < end:
            reply = self.screen(session)
        return self.seen(reply, expect)

    def type(self, session, text):
        return self.step(session, "Enter", text=text)

    def match(self, session, text, pattern, timeout=10):
        return list(re.search(pattern, self.say(session, text, pattern, timeout=timeout)["screen_content"]).groups())

    def wait(self, session, pattern, timeout=30, **_):
        reply = self.look(session, self.screen(session), pattern, timeout)
        return {**reply, "match_text": re.search(pattern, reply["screen_content"]).group()}

    def keys(self, session, *names, text="", expect=None):
        named = [f"C-{name[-1]}" if name.startswith("ctrl-") else self.KEYS.get(name, name.upper()) for name in names]
        return self.seen(self.step(session, *named, text=text), expect)

    def put(self, path, content):
        write(path, content)
        self.server.returned("", 0.0)

    def run(self, command, session=None, **_):
        if session:
            return self.say(session, command)
        began = time.monotonic()
        run = subprocess.run(["bash", "-c", command], env=self.server.environment, cwd=self.server.folder,
                             stdin=subprocess.DEVNULL, capture_output=True, text=True)
        return self.server.returned(run.stdout + run.stderr, time.monotonic() - began) | {"exit_code": run.returncode}

    def close(self, session):
        self.server.tmux("kill-session", "-t", session)
        self.server.returned("", 0.0)


JOBS = []


def job(title, trial=None):
    """Registers a job. `trial` is its counterpart among the 42 jobs of a trial by hand."""

    def add(function):
        JOBS.append((title, function, trial))
        return function

    return add


def need(condition, what):
    if not condition:
        raise Failed(str(what))


def equal(found, wanted):
    need(found == wanted, f"{found!r}, not {wanted!r}")


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def read(path):
    with open(path) as file:
        return file.read()


def printed(ran):
    """The output of a command, with its end where the middle is omitted."""
    return ran["output"] + ((ran.get("omitted") or {}).get("tail") or "")


def text_of(reply):
    return reply.get("screen_content") or reply.get("output") or ""


@job("gdb: find the crash")
def gdb(hand, home):
    write(f"{home}/crash.c", "int main(void) { int *p = 0; return *p; }\n")
    term = hand.open()
    hand.say(term, "gcc -g crash.c -o crash", r"[$#] ?$")
    hand.say(term, "gdb -q ./crash", r"\(gdb\)")
    hand.say(term, "run", r"SIGSEGV[\s\S]*\(gdb\)")
    hand.say(term, "print p", r"\(int \*\) 0x0")


@job("pdb: post mortem")
def pdb(hand, home):
    write(f"{home}/bad.py", "def half(n):\n    return 10 // n\nhalf(0)\n")
    term = hand.open()
    hand.say(term, "python3 -m pdb -c continue bad.py", r"ZeroDivisionError[\s\S]*\(Pdb\)")
    hand.say(term, "p n", r"\n0\s+\(Pdb\)|^0")
    hand.say(term, "where", r"half")


@job("vim: edit a file")
def vim(hand, home):
    write(f"{home}/note.txt", "one\ntwo\nthree\n")
    term = hand.open()
    hand.say(term, "vim -u NONE note.txt", r"three")
    hand.keys(term, text=":%s/two/TWO/\n", expect=None)
    hand.say(term, ":wq", None)
    need("TWO" in open(f"{home}/note.txt").read(), "not saved")


@job("nano: replace and save")
def nano(hand, home):
    write(f"{home}/list.txt", "apple\npear\n")
    term = hand.open()
    hand.say(term, "nano list.txt", r"pear")
    hand.keys(term, "ctrl-k", text="", expect=None)
    hand.keys(term, text="cherry\n", expect=None)
    hand.keys(term, "ctrl-o", expect=r"Write|File Name")
    hand.keys(term, "enter", expect=None)
    hand.keys(term, "ctrl-x", expect=None)
    need(open(f"{home}/list.txt").read() == "cherry\npear\n", open(f"{home}/list.txt").read())


def git(path, *arguments):
    return subprocess.run(["git", *arguments], cwd=path, check=True, capture_output=True, text=True).stdout.strip()


def repository(home, name, commits=4):
    """A repository with a file `f`, to which the commit `cN` adds the row `lineN`."""
    path = f"{home}/{name}"
    os.mkdir(path)
    script = (
        "git init -q -b main . && git config user.email a@b.c && git config user.name A && "
        f"for i in $(seq {commits}); do echo line$i >> f; git add f; git commit -qm c$i; done"
    )
    subprocess.run(["bash", "-c", script], cwd=path, check=True, env={**os.environ, "HOME": home})
    return path


@job("git rebase -i with conflicts")
def rebase(hand, home):
    path = repository(home, "rebase")
    term = hand.open(working_directory=path)
    hand.say(term, "export GIT_EDITOR='vim -u NONE'", None)
    hand.say(term, "git rebase -i HEAD~3", r"pick")
    # The first of the three commits goes behind the second.
    hand.keys(term, text="ddp", expect=None)
    hand.say(term, ":wq", r"CONFLICT|conflict")
    for _ in range(4):
        hand.say(term, "git checkout --theirs f; git add f; GIT_EDITOR=true git rebase --continue", None)
        shown = text_of(hand.say(term, "git status | head -3", None))
        if "rebase in progress" not in shown:
            break
    need("rebase in progress" not in shown, shown)


@job("git add -p")
def add_p(hand, home):
    path = repository(home, "addp")
    write(f"{path}/f", "changed\nline2\nline3\nline4\nadded\n")
    term = hand.open(working_directory=path)
    hand.say(term, "git add -p", r"Stage this hunk[\s\S]*\? ?$")
    hand.say(term, "s", r"Stage this hunk|Sorry")
    hand.say(term, "y", r"Stage this hunk|[$#] ?$")
    hand.say(term, "q", None)
    staged = text_of(hand.say(term, "git diff --cached --stat", r"f \|"))
    need("f |" in staged, staged)


@job("npm init")
def npm_init(hand, home):
    os.mkdir(f"{home}/package")
    term = hand.open(working_directory=f"{home}/package")
    hand.say(term, "npm init", r"package name:")
    for _ in range(12):
        shown = text_of(hand.say(term, "", r"\S"))
        if "Is this OK" in shown:
            hand.say(term, "yes", None)
            break
    need(os.path.exists(f"{home}/package/package.json"), "no package.json")


@job("python: several lines and CJK")
def python(hand, _home):
    term = hand.open()
    hand.say(term, "python3 -q", r">>>")
    hand.say(term, "def twice(text):\n    return text * 2\n", None)
    hand.say(term, "print(twice('漢字'))", r"漢字漢字")


@job("ipython: completion")
def ipython(hand, _home):
    term = hand.open()
    hand.say(term, "ipython --no-banner --simple-prompt", r"In \[1\]:", timeout=60)
    hand.say(term, "import math; math.factorial(10)", r"3628800")


@job("node: await")
def node(hand, _home):
    term = hand.open()
    hand.say(term, "node", r"> ?$")
    hand.say(term, "await new Promise(done => setTimeout(() => done(6 * 7), 300))", r"42")


@job("sqlite3: 500 rows")
def sqlite(hand, _home):
    term = hand.open()
    hand.say(term, "sqlite3", r"sqlite> ?$")
    rows = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 500) select i from n;"
    shown = text_of(hand.say(term, rows, r"500\s+sqlite> ?$"))
    need("500" in shown, shown)


@contextlib.contextmanager
def postgres(home):
    """A database server on port 54399, with the password `tiger-7`, whose log `HOME/pg/log` has all statements."""
    need(shutil.which("pg_ctlcluster"), "postgres is not installed")
    versions = sorted(os.listdir("/usr/lib/postgresql"), key=int)
    binaries = f"/usr/lib/postgresql/{versions[-1]}/bin"
    data = f"{home}/pg"
    os.mkdir(data)
    subprocess.run(["chown", "postgres", data], check=True)
    subprocess.run(["chmod", "711", home], check=True)
    write(f"{home}/pgpw", "tiger-7\n")
    os.chmod(f"{home}/pgpw", 0o644)
    as_postgres = ["runuser", "-u", "postgres", "--"]
    subprocess.run(
        [*as_postgres, f"{binaries}/initdb", "-D", data, "-A", "scram-sha-256", f"--pwfile={home}/pgpw"],
        check=True, capture_output=True,
    )
    options = "-p 54399 -k /tmp -c log_statement=all"
    start = [*as_postgres, f"{binaries}/pg_ctl", "-D", data, "-w", "-o", options, "-l", f"{data}/log"]
    subprocess.run([*start, "start"], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run([*start, "-m", "immediate", "stop"], capture_output=True)


PSQL = "psql -h 127.0.0.1 -p 54399 -U postgres"


@job("psql: password and pager")
def psql(hand, home):
    with postgres(home):
        term = hand.open()
        hand.say(term, PSQL, r"[Pp]assword.*: ?$")
        hand.say(term, "tiger-7", r"postgres=# ?$", secret=True)
        hand.say(term, "select generate_series(1, 300);", r"1")
        hand.keys(term, text="q", expect=None)
        hand.say(term, "select 40 + 2 as answer;", r"42")


@contextlib.contextmanager
def ssh_server(home):
    """A server on port 22099. Yields the options with which a client logs in."""
    folder = tempfile.mkdtemp(dir=home)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{folder}/{name}"], check=True)
    shutil.copy(f"{folder}/user.pub", f"{folder}/authorized")
    os.chmod(f"{folder}/authorized", 0o600)
    os.makedirs("/run/sshd", exist_ok=True)
    options = [
        "-o", f"HostKey={folder}/host", "-o", f"AuthorizedKeysFile={folder}/authorized", "-o", "StrictModes=no",
        "-o", "PidFile=none", "-o", "PermitRootLogin=yes", "-o", "UsePAM=no", "-o", "ListenAddress=127.0.0.1",
        "-o", "Subsystem=sftp internal-sftp",
    ]
    command = ["/usr/sbin/sshd", "-D", "-f", "/dev/null", "-p", "22099", *options]
    server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        time.sleep(0.5)
        yield f"-i {folder}/user -o UserKnownHostsFile={folder}/known"
    finally:
        server.terminate()
        server.wait()


@job("ssh: host key, commands")
def ssh(hand, home):
    with ssh_server(home) as options:
        term = hand.open()
        hand.say(term, f"ssh -p 22099 {options} root@127.0.0.1", r"continue connecting")
        hand.say(term, "yes", r"[#$] ?$", timeout=60)
        hand.say(term, "echo on_$((6 * 7)); sleep 1; echo done_$((1 + 1))", r"on_42[\s\S]*done_2[\s\S]*[#$] ?$")
        hand.say(term, "read -p 'Which? ' which", r"Which\? ?$")
        hand.say(term, "this", r"[#$] ?$")
        hand.say(term, "exit", r"closed[\s\S]*[$#] ?$|logout")


@contextlib.contextmanager
def users(*names):
    for name in names:
        subprocess.run(["userdel", "-rf", name], capture_output=True)
        subprocess.run(["useradd", "-m", "-s", "/bin/bash", name], check=True, capture_output=True)
    try:
        yield
    finally:
        for name in names:
            subprocess.run(["userdel", "-rf", name], capture_output=True)


@job("su with a wrong password first")
def su(hand, _home):
    with users("jobs", "jobs2"):
        subprocess.run(["chpasswd"], input="jobs:right-pass-9\n", text=True, check=True)
        term = hand.open()
        hand.say(term, "su jobs2", None)
        hand.say(term, "su jobs", r"Password: ?$")
        hand.say(term, "wrong-pass-1", r"Authentication failure", secret=True)
        hand.say(term, "su jobs", r"Password: ?$")
        hand.say(term, "right-pass-9", None, secret=True)
        hand.say(term, "whoami", r"\njobs\s")


@job("whiptail: checklist, dialog: menu")
def whiptail(hand, home):
    term = hand.open()
    menu = "whiptail --checklist Pick 15 50 3 a alpha off b beta off c gamma off 2> picked"
    reply = hand.say(term, menu, r"alpha")
    need(not hand.has_run or any("alpha" in part["text"] for part in reply.get("highlighted", [])), reply)
    reply = hand.keys(term, "down")
    need(not hand.has_run or any("beta" in part["text"] for part in reply.get("highlighted", [])), reply)
    hand.keys(term, "space")
    reply = hand.keys(term, "tab")
    need(not hand.has_run or any("Ok" in part["text"] for part in reply.get("highlighted", [])), reply)
    hand.say(term, "", None)
    need(open(f"{home}/picked").read().strip() == '"b"', open(f"{home}/picked").read())
    hand.say(term, "dialog --menu Which 12 40 3 1 one 2 two 2> chosen", r"two")
    hand.keys(term, "down")
    hand.say(term, "", None)
    need(open(f"{home}/chosen").read() == "2", "the menu")


@job("htop: search and leave")
def htop(hand, _home):
    term = hand.open()
    hand.say(term, "htop", r"PID")
    hand.keys(term, text="/bash", expect=None)
    hand.keys(term, "escape", text="", expect=None)
    hand.keys(term, text="q", expect=None)
    hand.say(term, "echo left_$((1 + 1))", r"left_2")


@job("less: found, not found, and of a pipe", trial="33")
def less(hand, home):
    write(f"{home}/long.txt", "".join(f"line {number}\n" for number in range(2000)))
    term = hand.open()
    hand.say(term, "less long.txt", r"line 0\b")
    # The row that was found is the first of the screen.
    hand.say(term, "/line 1500", r"line 1500\s[\s\S]*line 1520\b")
    hand.say(term, "/nowhere", r"[Pp]attern not found")
    hand.keys(term, "enter")
    hand.keys(term, text="q")
    hand.say(term, "seq 5000 | less", r"1\n2\n3\n")
    hand.keys(term, text="G", expect=r"4999\n[\s\S]*5000")
    hand.keys(term, text="q")
    hand.say(term, "echo left_$((1 + 1))", r"\nleft_2")


@job("mc: view a file, ncdu")
def mc(hand, home):
    os.mkdir(f"{home}/files")
    write(f"{home}/files/readme.txt", "the text of the file\n")
    term = hand.open(working_directory=f"{home}/files")
    hand.say(term, "mc -b", r"readme\.txt")
    hand.keys(term, "down", expect=None)
    shown = hand.server.call("send_input", session_id=term, keys=["f3"], until="input") if hand.has_run else None
    need(shown is None or "the text of the file" in text_of(shown), shown)
    if hand.has_run:
        hand.server.call("send_input", session_id=term, keys=["f10"], until="input")
        reply = hand.server.call("send_input", session_id=term, keys=["f10"], until="input")
        if reply.get("alternate_screen"):
            hand.keys(term, "enter")
    hand.say(term, "ncdu -0 . || true", None)
    hand.keys(term, text="q", expect=None)


@job("dev server and curl")
def dev_server(hand, _home):
    term = hand.open()
    command = "python3 -u -m http.server 8917 --bind 127.0.0.1"
    if hand.has_run:
        reply = hand.server.call(
            "send_input", session_id=term, input_text=command + "\n", pattern=r"Serving HTTP on (\S+) port (\d+)"
        )
        need(reply["waited"]["groups"] == ["127.0.0.1", "8917"], reply)
        ran = hand.run("curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:8917/")
        need(ran["output"] == "200", ran)
    else:
        hand.say(term, command, r"Serving HTTP on (\S+) port (\d+)")
        other = hand.open()
        hand.say(other, "curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:8917/", r"200")
    hand.keys(term, "ctrl-c")


@job("a long build, progress bars, cut output")
def build(hand, home):
    script = (
        "for i in $(seq 1 40); do printf '\\r[%-40s] %d%%' \"$(printf '%*s' $i | tr ' ' '#')\" $((i * 5 / 2)); sleep 0.02; "
        "done; echo; for i in $(seq 1 3000); do echo \"compile unit $i of 3000\"; done; "
        "echo 'warning: unused in unit_1777'; for i in $(seq 1 500); do echo link $i; done; echo BUILD OK\n"
    )
    write(f"{home}/build.sh", script)
    if hand.has_run:
        ran = hand.run("bash build.sh", timeout=60)
        need(ran["exit_code"] == 0 and "BUILD OK" in printed(ran) and ran["truncated"], ran)
        found = hand.screen(ran["session_id"], search="warning")
        need("unit_1777" in found["matches"][0]["text"], found)
    else:
        term = hand.open()
        hand.say(term, "bash build.sh", r"BUILD OK")
    

@job("apt-get install and debconf")
def apt(hand, _home):
    term = hand.open()
    hand.say(term, "apt-get install -y --reinstall hello || apt-get install -y hello", r"[#$] ?$", timeout=120)
    hand.say(term, "DEBIAN_FRONTEND=dialog dpkg-reconfigure tzdata", r"[Gg]eographic area|configuring|Configuring")
    hand.keys(term, "escape", expect=None)
    hand.wait(term, r"Local time")
    hand.say(term, "hello", r"Hello, world!")


@job("openssl s_client")
def s_client(hand, home):
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "1",
         "-keyout", f"{home}/key.pem", "-out", f"{home}/cert.pem"], check=True, capture_output=True,
    )
    server = subprocess.Popen(
        ["openssl", "s_server", "-quiet", "-accept", "8943", "-www", "-key", f"{home}/key.pem", "-cert", f"{home}/cert.pem"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    try:
        time.sleep(0.5)
        term = hand.open()
        hand.say(term, "openssl s_client -connect 127.0.0.1:8943 -CAfile cert.pem", r"Verify return code|read R BLOCK|---")
        if hand.has_run:
            reply = hand.server.call(
                "send_input", session_id=term, input_text="GET / HTTP/1.0\n\n", pattern="HTTP/1.0 200", timeout=10
            )
            need(reply["waited"].get("match_text"), reply)
        else:
            hand.say(term, "GET / HTTP/1.0\n", r"HTTP/1.0 200")
    finally:
        server.kill()


@job("bc")
def bc(hand, _home):
    term = hand.open()
    hand.say(term, "bc -q", None)
    hand.say(term, "scale=3; 22/7", r"3\.142")


@job("a curses game")
def worm(hand, _home):
    term = hand.open()
    hand.say(term, "/usr/games/worm", None)
    hand.keys(term, text="l", expect=None)
    hand.keys(term, "ctrl-c")
    hand.say(term, "echo left_$((1 + 1))", r"left_2")


@job("tail -F: two patterns")
def tail(hand, home):
    write(f"{home}/app.log", "")
    term = hand.open()
    hand.type(term, "tail -F app.log")
    with open(f"{home}/app.log", "a") as log:
        log.write("ERROR first\n")
        log.flush()
        first = hand.wait(term, r"ERROR \w+", **({"since": "last"} if hand.has_run else {}))
        log.write("ERROR second\n")
        log.flush()
        second = hand.wait(term, r"ERROR \w+", **({"since": "last"} if hand.has_run else {}))
    need((first["match_text"], second["match_text"]) == ("ERROR first", "ERROR second"), (first, second))


@job("three terminals at once")
def three(hand, _home):
    names = ["one", "two", "three"]
    terms = [hand.open(**({"name": name} if hand.has_run else {})) for name in names]
    for number, term in enumerate(terms):
        hand.type(term, f"sleep 0.{number + 2}; echo over_$((6 * 7)); exit {number}")
    if hand.has_run:
        reply = hand.server.call("await_output", session_ids=names, until="exit", mode="all", timeout=20)
        need(sorted((end["name"], end["exit_code"]) for end in reply["terminals"]) ==
             [("one", 0), ("three", 2), ("two", 1)], reply)
    else:
        for term in terms:
            hand.wait(term, "over_42")


@job("a million lines, then a question")
def flood(hand, home):
    write(f"{home}/flood.sh", "seq 1 1000000; read -p 'Delete all? ' answer; echo answered $answer\n")
    term = hand.open()
    if hand.has_run:
        ran = hand.run("bash flood.sh", term, limit=300, timeout=60)
        need(ran.get("awaiting_input") and "Delete all?" in printed(ran), ran)
    else:
        hand.say(term, "bash flood.sh", r"Delete all\?", timeout=60)
    hand.say(term, "no", r"answered no")


@job("job control and signals")
def jobs(hand, _home):
    term = hand.open()
    hand.type(term, "sleep 300")
    hand.keys(term, "ctrl-z", expect=r"Stopped")
    hand.say(term, "bg; jobs", r"Running")
    hand.type(term, "fg")
    hand.keys(term, "ctrl-c")
    hand.say(term, "echo free_$((1 + 1))", r"free_2")


@job("heredocs")
def heredoc(hand, _home):
    text = "cat <<'END'\nfirst 'quoted'\n  second $HOME\nEND"
    if hand.has_run:
        ran = hand.run(text)
        need(ran["output"] == "first 'quoted'\n  second $HOME\n", ran)
    else:
        term = hand.open()
        hand.say(term, text, r"second \$HOME\nEND[\s\S]*second \$HOME")
    

@job("zsh and fish")
def shells(hand, home):
    write(f"{home}/.zshrc", "")
    for shell in ("zsh", "fish"):
        term = hand.open(shell=shell)
        hand.say(term, "false", None)
        hand.say(term, "echo $status", r"\n1\b")
    

@job("dash")
def dash(hand, _home):
    term = hand.open(shell="dash")
    hand.say(term, "for i in 1 2 3; do echo n=$i; sleep 0.1; done", r"n=3\n")
    hand.say(term, "false || echo failed_$?", r"\nfailed_1")


@job("Unicode and a picture")
def unicode(hand, _home):
    term = hand.open()
    hand.say(term, "printf '漢字 ✓ ┌─┐ 🎉\\n'", r"漢字 ✓ ┌─┐")
    if hand.has_run:
        need(hand.screen(term, format="png", crop=True)["images"], "no picture")


@job("resize")
def resize(hand, _home):
    term = hand.open()
    need(hand.has_run, "has no resize")
    hand.checked(hand.server.call("resize_terminal", session_id=term, cols=100, rows=30))
    hand.say(term, "stty size", r"30 100")


@job("vimtutor")
def vimtutor(hand, _home):
    term = hand.open()
    hand.say(term, "vimtutor || vim -u NONE", r"Tutor|VIM|~", timeout=20)
    hand.keys(term, text="jjj", expect=None)
    hand.say(term, ":q!", None)
    hand.say(term, "echo left_$((1 + 1))", r"left_2")


@job("tmux inside")
def tmux(hand, home):
    term = hand.open()
    hand.say(term, f"tmux -S {home}/tmux.sock new -s inner", None)
    hand.say(term, "echo inside_$((6 * 7))", r"inside_42", until="input")
    hand.say(term, "exit", None)


@job("a server that crashes and is started again", trial="7")
def restarted(hand, home):
    write(f"{home}/server.sh", "echo listening $1; read -r line < pipe; echo boom; exit 1\n")
    os.mkfifo(f"{home}/pipe")
    term, other = hand.open(), hand.open()
    hand.type(term, "bash server.sh one; bash server.sh two")
    need(hand.wait(term, r"listening (\w+)")["match_text"] == "listening one", "the first")
    hand.say(other, "echo > pipe", None)
    # Not the line that was found before.
    need(hand.wait(term, r"listening (\w+)")["match_text"] == "listening two", "the second")
    hand.say(other, "echo > pipe", None)
    hand.wait(term, r"boom")


@job("a wizard that redraws its questions")
def wizard(hand, home):
    draw = r"""printf '\r\033[K? %s (%s) \033[22D\033[22C' "$1" "$2"; read x; echo "= $1 ${x:-$2}" """
    write(f"{home}/wizard.sh", f"ask() {{ {draw}; }}\nask 'Project name' demo\nask Licence MIT\nask 'Go on' Y\n")
    term = hand.open()
    hand.say(term, "bash wizard.sh", r"\? Project name \(demo\)")
    hand.say(term, "shop", r"= Project name shop[\s\S]*\? Licence \(MIT\)")
    hand.say(term, "", r"= Licence MIT[\s\S]*\? Go on \(Y\)")
    hand.say(term, "", r"= Go on Y")


SUPERUSER = """
import getpass, sqlite3
name = input("Username (leave blank to use 'root'): ") or "root"
while True:
    password = getpass.getpass()
    if getpass.getpass("Password (again): ") != password:
        print("Error: Your passwords didn't match.")
        continue
    print("This password is too short. It must contain at least 8 characters.")
    if input("Bypass password validation and create user anyway? [y/N]: ") == "y":
        break
with sqlite3.connect("users.db") as db:
    db.execute("create table users (name, password)")
    db.execute("insert into users values (?, ?)", (name, password))
print("Superuser created successfully.")
"""


@job("a password that is a word of the output", trial="5")
def word(hand, home):
    write(f"{home}/superuser.py", SUPERUSER)
    term = hand.open()
    hand.say(term, "python3 superuser.py", r"Username .*: ?$")
    hand.say(term, "ana", r"\nPassword: ?$")
    hand.say(term, "pass", r"Password \(again\): ?$", secret=True)
    hand.say(term, "word", r"didn't match\.\s+Password: ?$", secret=True)
    hand.say(term, "pass", r"Password \(again\): ?$", secret=True)
    bypass = r"too short\.[\s\S]*Bypass \S+ validation and create user anyway\? \[y/N\]"
    hand.say(term, "pass", bypass, secret=True)
    hand.say(term, "y", r"created successfully")
    made = sqlite3.connect(f"{home}/users.db").execute("select * from users").fetchall()
    equal(made, [("ana", "pass")])


@job("GNU screen: detach and come back", trial="27")
def screen(hand, home):
    write(f"{home}/.screenrc", "startup_message off\n")
    os.mkdir(f"{home}/screens", 0o700)
    term = hand.open(environment={"SCREENDIR": f"{home}/screens"})
    hand.say(term, "screen -S work", None, until="input")
    hand.say(term, "left=4$((1 + 1)); echo within_$left", r"within_42", until="input")
    hand.keys(term, "ctrl-a", "d", expect=r"detached")
    hand.say(term, "screen -ls", r"\d+\.work\b.*\(Detached\)")
    hand.say(term, "screen -r work", None, until="input")
    hand.say(term, "echo back_$left", r"back_42", until="input")
    hand.say(term, "exit", None)
    hand.say(term, "echo out_$((6 * 7))$left", r"\nout_42\n")


@job("ssh-keygen with a mismatch, ssh-add", trial="17")
def keygen(hand, home):
    term = hand.open()
    hand.say(term, f"ssh-keygen -t ed25519 -f {home}/key", r"Enter passphrase")
    hand.say(term, "correct horse", r"same passphrase again", secret=True)
    hand.say(term, "correct house", r"do not match", secret=True)
    hand.say(term, "correct horse", r"same passphrase again", secret=True)
    hand.say(term, "correct horse", r"fingerprint|SHA256", secret=True)
    hand.say(term, "ssh-agent bash", r"[$#] ?$")
    hand.say(term, "ssh-add key", r"Enter passphrase for key: ?$")
    hand.say(term, "correct house", r"Bad passphrase, try again.*: ?$", secret=True)
    hand.say(term, "correct horse", r"Identity added: key", secret=True)
    listed = subprocess.run(["ssh-keygen", "-lf", f"{home}/key"], check=True, capture_output=True, text=True)
    hand.say(term, "ssh-add -l", re.escape(listed.stdout.split()[1]))
    hand.say(term, "exit", None)


@job("openssl req: eight questions", trial="19")
def request(hand, home):
    term = hand.open()
    hand.say(term, f"openssl req -new -newkey rsa:2048 -nodes -keyout {home}/k.pem -out {home}/r.pem", r"Country Name", timeout=60)
    for answer, question in [("DE", "State or Province"), ("Berlin", "Locality"), ("Berlin", "Organization Name"),
                             ("Shop", "Organizational Unit"), ("", "Common Name"), ("shop.example", "Email"),
                             ("", "challenge password"), ("", "optional company")]:
        hand.say(term, answer, question)
    hand.say(term, "", None)
    hand.say(term, f"openssl req -in {home}/r.pem -noout -subject", r"shop\.example")


def workflow(hand, definition, **more):
    need(hand.has_run, "has no workflows")
    return hand.server.call("run_workflow", workflow_definition=definition, wait_seconds=60, **more)


def step(tool, params, *ways):
    return {"action": {"tool": tool, "params": params},
            **({"transitions": [{"condition": condition, "next_state": state} for condition, state in ways]} if ways else {})}


@job("workflow: a release with a gate", trial="W1")
def gate(hand, home):
    over = workflow(hand, {"name": "release", "initial_state": "test", "arguments": {"VERSION": {"description": "the new version"}},
        "states": {
            "test": step("run_command", {"command": "echo tests pass"}, ("success", "ask")),
            "ask": step("gate", {"prompt": "Release {VERSION}?", "choices": ["yes", "no"], "answered_by": "agent"},
                        ({"field_equals": {"answer": "yes"}}, "tag")),
            "tag": step("run_command", {"command": "echo {VERSION|sh} > tag; cat tag"})}},
        initial_variables={"VERSION": "1.1"})
    need(over["status"] == "waiting" and "Release 1.1?" in json.dumps(over["pending_gate"]), over)
    hand.checked(hand.server.call("decide", run_id=over["run_id"], answer="yes"))
    over = hand.server.call("get_run", run_id=over["run_id"], wait_seconds=60)
    need(over["status"] == "completed" and open(f"{home}/tag").read() == "1.1\n", over)


@job("workflow: fan-out, and who failed", trial="W3")
def fan_out(hand, _home):
    one = {"name": "one", "description": "checks one machine", "initial_state": "check", "arguments": {"host": {"description": "a machine"}}, "states": {
        "check": step("run_command", {"command": "echo {host|sh}; test {host|sh} != web3"})}}
    need(hand.has_run, "has no workflows")
    hand.checked(hand.server.call("create_workflow", workflow_definition=one))
    over = workflow(hand, {"name": "fan", "initial_state": "all", "arguments": {"hosts": {"description": "machines", "schema": {"type": "array"}}},
        "states": {
            "all": {**step("run_workflow", {"workflow_name": "one", "initial_variables": {"host": "{item}"}}, ({}, "end")),
                    "for_each": {"items": "{hosts}", "as": "item", "max_parallel": 3}},
            "end": step("return", {"result": "{all_failed}"})}},
        initial_variables={"hosts": ["web1", "web2", "web3", "web4"]})
    failed = over.get("result") or []
    need(over["status"] == "completed" and [(one["index"], one["item"]) for one in failed] == [(2, "web3")], over)


@job("workflow: a backup whose name is printed by a command", trial="W4")
def backup(hand, home):
    over = workflow(hand,
        {"name": "backup", "initial_state": "make", "states": {
            "make": step("run_command", {"command": "mkdir data; echo 1 > data/a; tar cf b.tar data; echo $PWD/b.tar"}, ("success", "verify")),
            "verify": step("run_command", {"command": "tar tf {make_output|sh} | tail -n 1"}, ({"field_equals": {"output": "data/a"}}, "done")),
            "done": step("return", {"result": "{verify_output}"}),
            "clean": step("run_command", {"command": "rm -r data"})},
         "finally": "clean"})
    need(over["status"] == "completed" and over.get("result") == "data/a", over)
    need(os.path.exists(f"{home}/b.tar") and not os.path.exists(f"{home}/data"), os.listdir(home))


@job("workflow: an installer that asks", trial="W5")
def installer(hand, home):
    write(f"{home}/install.sh", "read -p 'Accept the licence? [y/n] ' a; read -s -p 'Admin password: ' p; echo\n"
          "read -p \"Type wipe-$((40 + 2)) to go on: \" w; echo \"Installed 2.1 for $a ${#p} $w\"\n")
    over = workflow(hand, {"name": "install", "initial_state": "open", "arguments": {"PW": {"description": "password", "secret": True}}, "states": {
        "open": step("open_terminal", {"shell": "bash"}, ("success", "ask")),
        "ask": step("dialogue", {"input_text": "bash install.sh\n", "timeout": 30, "until": r"^Installed (?P<version>\S+).*",
            "rules": [{"when": r"licence\? \[y/n\] $", "type": "y\n"}, {"when": r"password: $", "secret": "PW"},
                      {"when": r"Type (\S+) to", "type": "{groups.1}\n"}]}, ("success", "done")),
        "done": step("return", {"result": "{match_text}"})}}, initial_variables={"PW": "pa55 word"})
    need(over["status"] == "completed" and over.get("result") == "Installed 2.1 for y 9 wipe-42", over)


@job("workflow: captured, and run with other input", trial="W6")
def captured(hand, home):
    need(hand.has_run, "has no workflows")
    write(f"{home}/new.sh", "read -p 'Database (pg/sqlite): ' d; read -p 'Name: ' n; echo \"made $n with $d\"; echo $n.$d >> made\n")
    term = hand.open()
    hand.say(term, "bash new.sh", r"Database \(pg/sqlite\):")
    hand.say(term, "pg", r"Name:")
    hand.say(term, "shop", r"made shop with pg")
    saved = hand.checked(hand.server.call("capture_workflow", session_id=term, name="new", save=True, inputs={"DB": "pg", "NAME": "shop"}))
    over = hand.server.call("run_workflow", workflow_name="new", initial_variables={"DB": "sqlite", "NAME": "blog"}, wait_seconds=60)
    need(over["status"] == "completed" and open(f"{home}/made").read() == "shop.pg\nblog.sqlite\n", (saved, over))


@job("workflow: a function that tries again", trial="W2")
def function(hand, home):
    write(f"{home}/flow.py", '''
async def again(ctx):
    for attempt in range(1, 6):
        got = await ctx.run("try", str(attempt))
        if got["success"]:
            return [attempt, got["output"].strip()]
        await ctx.sleep(0.05)
    raise RuntimeError("never")

BashNode(id="try", session=session, command="test {input|sh} -ge 3 && echo works")
Workflow(id="again", session=session, fn=again)
''')
    need(hand.has_run, "has no workflows")
    over = hand.server.call("run_workflow", workflow_file=f"{home}/flow.py", wait_seconds=60)
    need(over["status"] == "completed" and over.get("result") == [3, "works"], over)


@job("git bisect: by hand, and run", trial="1")
def bisect(hand, home):
    path = repository(home, "bisect", 16)
    term = hand.open(working_directory=path)
    shown = text_of(hand.say(term, "git bisect start HEAD HEAD~15", r"Bisecting: \d+ revisions? left"))
    for _ in range(5):
        if "is the first bad commit" in shown:
            break
        counts = re.findall(r"^[01]$", text_of(hand.say(term, "grep -c line11 f", r"\n[01]\n")), re.MULTILINE)
        shown = text_of(hand.say(term, "git bisect bad" if counts[-1] == "1" else "git bisect good", None))
    first = git(path, "rev-parse", ":/^c11")
    need(f"{first} is the first bad commit" in shown, shown)
    hand.say(term, "git bisect reset", r"branch 'main'")
    hand.say(term, "git bisect start HEAD HEAD~15", r"Bisecting")
    hand.say(term, "git bisect run sh -c '! grep line11 f'", rf"{first} is the first bad commit")
    need(git(path, "rev-parse", "refs/bisect/bad") == first, "another commit")


@job("a merge conflict in nano, commit in the editor", trial="2")
def conflict(hand, home):
    path = repository(home, "merge")
    git(path, "checkout", "-qb", "other", "HEAD~1")
    write(f"{path}/f", "line1\nline2\ntheirs\n")
    git(path, "commit", "-qam", "theirs")
    git(path, "checkout", "-q", "main")
    term = hand.open(working_directory=path, environment={"GIT_EDITOR": "nano"})
    hand.say(term, "git merge other", r"CONFLICT \(content\)")
    hand.say(term, "nano f", r"<<<<<<< HEAD")
    # Delete the three rows of markers.
    for way in (["down", "down"], ["down", "down"], ["down"]):
        hand.keys(term, *way, "ctrl-k")
    hand.keys(term, "ctrl-o", expect=r"File Name to Write")
    hand.keys(term, "enter", expect=r"Wrote 5 lines")
    hand.keys(term, "ctrl-x", expect=r"[$#] ?$")
    hand.say(term, "git commit -a", r"Merge branch 'other'")
    hand.keys(term, "ctrl-x", expect=r"Merge branch 'other'[\s\S]*[$#] ?$")
    equal(git(path, "show", "HEAD:f").split(), ["line1", "line2", "line3", "line4", "theirs"])
    need(len(git(path, "log", "-1", "--format=%P").split()) == 2 and not git(path, "status", "--short"), "not merged")


@job("gcc: an error, its fix, and a loop that checks", trial="3")
def checks(hand, home):
    def source(word, end=";"):
        return f'#include <stdio.h>\nint main(void) {{\n    puts("{word}"){end}\n    return 0;\n}}\n'

    write(f"{home}/main.c", source("one", ""))
    term = hand.open()
    hand.say(term, "gcc main.c -o main && ./main", r"main\.c:3:\d+: error: expected ‘;’")
    hand.put(f"{home}/main.c", source("one"))
    hand.say(term, "gcc main.c -o main && ./main", r"\none\n")
    build = 'gcc main.c -o main && echo "CHECK $(./main)"'
    hand.type(term, f"while sleep 0.1; do if [ main.c -nt main ]; then {build}; fi; done")
    for word in ("two", "three"):
        hand.put(f"{home}/main.c", source(word))
        found = hand.wait(term, r"CHECK \w+")
        equal(found["match_text"], f"CHECK {word}")
    hand.keys(term, "ctrl-c", expect=r"[$#] ?$")


@job("venv: pip install, uninstall", trial="4")
def venv(hand, home):
    with zipfile.ZipFile(f"{home}/greet-1.0-py3-none-any.whl", "w") as wheel:
        info = "greet-1.0.dist-info"
        wheel.writestr("greet.py", "word = 'hel' + 'lo'\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: greet\nVersion: 1.0\n")
        wheel.writestr(f"{info}/RECORD", f"greet.py,,\n{info}/WHEEL,,\n{info}/METADATA,,\n{info}/RECORD,,\n")
    term = hand.open()
    hand.say(term, "python3 -m venv env && . env/bin/activate", r"\(env\) \S* ?$", timeout=120)
    hand.say(term, "pip install ./greet-1.0-py3-none-any.whl", r"Successfully installed greet-1\.0", timeout=120)
    hand.say(term, "python -c 'import greet; print(greet.word)'", r"\nhello\n")
    installed = glob.glob(f"{home}/env/lib/*/site-packages/greet.py")
    need(len(installed) == 1, installed)
    hand.say(term, "pip uninstall greet", r"Proceed \(Y/n\)\? ?$", timeout=60)
    hand.say(term, "n", r"\(env\) \S* ?$")
    need(os.path.exists(installed[0]), "removed without consent")
    hand.say(term, "pip uninstall greet", r"Proceed \(Y/n\)\? ?$", timeout=60)
    hand.say(term, "y", r"Successfully uninstalled greet-1\.0")
    need(not os.path.exists(installed[0]), "not removed")


@job("a dev server that reloads", trial="6")
def reload(hand, home):
    def source(word):
        return (f"require('http').createServer((_, reply) => reply.end('{word}')).listen(8918, '127.0.0.1', "
                f"() => console.log('ready', '{word}'))\n")

    def asked():
        shown = hand.say(other, "curl -s http://127.0.0.1:8918/; echo", None)
        return re.findall(r"^(?:one|two)$", text_of(shown), re.MULTILINE)

    write(f"{home}/server.js", source("one"))
    term, other = hand.open(), hand.open()
    hand.type(term, "node --watch server.js")
    need(hand.wait(term, r"ready \w+")["match_text"] == "ready one", "the first")
    need(asked() == ["one"], "curl at the first")
    hand.put(f"{home}/server.js", source("two"))
    found = hand.wait(term, r"ready \w+")
    equal(found["match_text"], "ready two")
    need(asked()[-1:] == ["two"], "curl at the second")
    hand.keys(term, "ctrl-c", expect=r"[$#] ?$")


# Prompts that are redrawn at every key, with the cursor movements of inquirer.
PROMPTS = r"""
const readline = require('readline')
const keys = []
let wake = () => {}
readline.emitKeypressEvents(process.stdin)
process.stdin.setRawMode(true)
process.stdin.on('keypress', (text, key) => { keys.push([text ?? '', key.name]); wake() })
const next = async () => { while (!keys.length) await new Promise(done => { wake = done }); return keys.shift() }
module.exports = async (kind, question, choices = []) => {
  const chosen = new Set()
  let at = 0, typed = ''
  for (;;) {
    const line = `? ${question} ${kind === 'password' ? '*'.repeat(typed.length) : typed}`
    const box = i => kind !== 'many' ? '' : chosen.has(i) ? '◉ ' : '◯ '
    const rows = choices.map((choice, i) => `\n${i === at ? '❯' : ' '} ${box(i)}${choice}`)
    const up = rows.length ? `\x1b[${rows.length}A` : ''
    process.stdout.write(`\r\x1b[J${line}${rows.join('')}${up}\r\x1b[${line.length}C\x1b[22D\x1b[22C`)
    const [text, name] = await next()
    if (name === 'return' || name === 'enter') break
    else if (text === '\x03') process.exit(130)
    else if (name === 'up') at = Math.max(at - 1, 0)
    else if (name === 'down') at = Math.min(at + 1, choices.length - 1)
    else if (kind === 'many' && name === 'space') chosen[chosen.has(at) ? 'delete' : 'add'](at)
    else typed += text
  }
  const answer = kind === 'one' ? choices[at] : kind === 'many' ? choices.filter((_, i) => chosen.has(i)) : typed
  process.stdout.write(`\r\x1b[J= ${question} ${kind === 'password' ? '' : answer}\n`)
  return answer
}
"""


@job("a wizard: list, checkboxes, password", trial="8")
def inquire(hand, home):
    write(f"{home}/prompts.js", PROMPTS)
    write(f"{home}/wizard.js", """const ask = require('./prompts.js');
(async () => {
  const made = {name: await ask('text', 'Name of the new project (demo):')}
  made.licence = await ask('one', 'Which licence shall it have?', ['MIT', 'Apache-2.0', 'GPL-3.0'])
  made.features = await ask('many', 'Which features shall it have?', ['tests', 'lint', 'docs'])
  made.password = await ask('password', 'Password of the registry:')
  if (await ask('text', 'Shall the project be made? (Y/n)') !== 'n')
    require('fs').writeFileSync('made.json', JSON.stringify(made))
  process.exit()
})()
""")
    term = hand.open()
    hand.say(term, "node wizard.js", r"\? Name of the new project \(demo\):")
    hand.say(term, "shop", r"\? Which licence shall it have\?\s+❯ MIT\n\s+Apache-2\.0\n\s+GPL-3\.0")
    hand.keys(term, "down", expect=r"❯ Apache-2\.0")
    hand.keys(term, "enter", expect=r"\? Which features shall it have\?\s+❯ ◯ tests\n\s+◯ lint\n\s+◯ docs")
    hand.keys(term, "space", "down", "down", "space", expect=r"◉ tests[\s\S]*❯ ◉ docs")
    hand.keys(term, "enter", expect=r"\? Password of the registry:")
    hand.say(term, "pa55word", r"\? Shall the project be made\? \(Y/n\)", secret=True)
    hand.say(term, "", r"= Shall the project be made")
    made = json.loads(read(f"{home}/made.json"))
    equal(made, {"name": "shop", "licence": "Apache-2.0", "features": ["tests", "docs"], "password": "pa55word"})


@job("npx: a package that makes a project", trial="9")
def scaffold(hand, home):
    package = f"{home}/create-shop"
    os.mkdir(package)
    write(f"{package}/package.json", json.dumps({"name": "create-shop", "version": "1.0.0", "bin": "create.js"}))
    write(f"{package}/prompts.js", PROMPTS)
    write(f"{package}/create.js", """#!/usr/bin/env node
const ask = require('./prompts.js')
const fs = require('fs');
(async () => {
  const name = await ask('text', 'Name of the project:')
  const framework = await ask('one', 'Select a framework of these:', ['vanilla', 'vue', 'react', 'svelte'])
  const variant = await ask('one', 'Select a variant of these:', ['js', 'ts'])
  fs.mkdirSync(name)
  const template = framework + '-' + variant
  fs.writeFileSync(name + '/package.json', JSON.stringify({name, version: '0.0.0', template}))
  console.log('Done. Now run: npm install')
  process.exit()
})()
""")
    os.chmod(f"{package}/create.js", 0o755)
    term = hand.open()
    hand.say(term, "npx ./create-shop", r"\? Name of the project: ?$", timeout=60)
    hand.say(term, "corner", r"\? Select a framework of these:\s+❯ vanilla\n\s+vue\n\s+react\n\s+svelte")
    hand.keys(term, "down", "down", expect=r"❯ react")
    hand.keys(term, "enter", expect=r"\? Select a variant of these:\s+❯ js\n\s+ts")
    hand.keys(term, "down", expect=r"❯ ts")
    hand.say(term, "", r"Done\. Now run")
    hand.say(term, "cd corner && npm pkg get template", r'\n"react-ts"\n', timeout=60)


@job("psql: copy, cancel, an aborted transaction", trial="10")
def transaction(hand, home):
    write(f"{home}/items.csv", "".join(f"item{number},{number}\n" for number in range(1, 101)))
    with postgres(home):
        term = hand.open(environment={"PGPASSWORD": "tiger-7"})
        hand.say(term, PSQL, r"postgres=# ?$")
        hand.say(term, "create table items (name text, price int);", r"CREATE TABLE")
        hand.say(term, "\\copy items from 'items.csv' csv", r"COPY 100")
        hand.type(term, "select pg_sleep(60);")
        hand.keys(term, "ctrl-c", expect=r"canceling statement due to user request[\s\S]*postgres=# ?$")
        hand.say(term, "begin; delete from items;", r"DELETE 100[\s\S]*postgres=\*# ?$")
        hand.say(term, "select 1 / 0;", r"division by zero[\s\S]*postgres=!# ?$")
        hand.say(term, "select 1;", r"current transaction is aborted[\s\S]*postgres=!# ?$")
        hand.say(term, "rollback;", r"ROLLBACK[\s\S]*postgres=# ?$")
        hand.say(term, "select count(*), sum(price) from items;", r"\n +100 \| 5050\n")
        hand.say(term, "\\q", r"[$#] ?$")


@job("psql: commands of one terminal, watched in another", trial="11")
def monitor(hand, home):
    with postgres(home):
        watching, term = hand.open(), hand.open(environment={"PGPASSWORD": "tiger-7"})
        hand.type(watching, "tail -n 0 -F pg/log")
        hand.say(term, PSQL, r"postgres=# ?$")
        for statement, answer in [("create table seen (n int);", r"CREATE TABLE"),
                                  ("insert into seen values (7);", r"INSERT 0 1"),
                                  ("select sum(n * 6) from seen;", r"\n +42\n")]:
            hand.say(term, statement, answer)
            found = hand.wait(watching, r"statement: (?:create|insert|select) .*;")
            equal(found["match_text"], f"statement: {statement}")
        hand.keys(watching, "ctrl-c", expect=r"[$#] ?$")


@job("sqlite3: modes, and a file imported", trial="12")
def imported(hand, home):
    write(f"{home}/items.csv", "pear,3\napple,4\n\"plum, dried\",35\n")
    term = hand.open()
    hand.say(term, "sqlite3 shop.db", r"sqlite> ?$")
    hand.say(term, "create table items (name text, price int);", r"sqlite> ?$")
    hand.say(term, ".mode csv", r"sqlite> ?$")
    hand.say(term, ".import items.csv items", r"sqlite> ?$")
    hand.say(term, ".headers on", r"sqlite> ?$")
    hand.say(term, ".mode column", r"sqlite> ?$")
    table = r"name +price *\n-+ +-+ *\npear +3 *\napple +4 *\nplum, dried +35 *\n"
    hand.say(term, "select * from items order by price;", table)
    hand.say(term, "select sum(price from items;", r"error[\s\S]*sqlite> ?$")
    hand.say(term, ".quit", r"[$#] ?$")
    total = sqlite3.connect(f"{home}/shop.db").execute("select count(*), sum(price) from items").fetchall()
    equal(total, [(3, 42)])


@job("gdb: a core file", trial="13")
def core(hand, home):
    write(f"{home}/list.c", "struct node { int value; struct node *next; };\n"
          "static int sum(struct node *n) {\n    int s = 0;\n    for (int i = 0; i < 3; i++, n = n->next) s += n->value;\n"
          "    return s;\n}\n"
          "int main(void) { struct node b = {40, 0}, a = {2, &b}; return sum(&a); }\n")
    term = hand.open()
    hand.say(term, "gcc -g list.c -o list", r"[$#] ?$")
    dump = "gdb -q -batch -ex run -ex 'generate-core-file list.core' ./list"
    hand.say(term, dump, r"Saved corefile list\.core", timeout=60)
    hand.say(term, "gdb -q ./list list.core", r"SIGSEGV[\s\S]*\(gdb\) ?$", timeout=60)
    hand.say(term, "bt", r"#0 +\S* *.*sum \(n=0x0\)[\s\S]*#1 .*main \(\)")
    hand.say(term, "info locals", r"i = 2[\s\S]*s = 42")
    hand.say(term, "frame 1", r"main \(\)[\s\S]*\(gdb\) ?$")
    hand.say(term, "print *a.next", r"\{value = 40, next = 0x0\}")
    hand.say(term, "quit", r"[$#] ?$")


@job("strace: attach, detach, count", trial="14")
def strace(hand, home):
    write(f"{home}/ticks.py", "import os, time\nopen('pid', 'w').write(str(os.getpid()))\n"
          "file = os.open('ticks', os.O_CREAT | os.O_WRONLY)\n"
          "for number in range(1, 1000):\n    os.write(file, b'tick %d\\n' % number)\n    time.sleep(0.1)\n")
    term = hand.open()
    hand.say(term, "python3 ticks.py &", r"\[1\] \d+")
    hand.type(term, "strace -p $! -e trace=write")
    found = hand.wait(term, r'write\(\d+, "tick (\d+)\\n", \d+\)')
    hand.keys(term, "ctrl-c", expect=r"detached[\s\S]*[$#] ?$")
    pid = int(read(f"{home}/pid"))
    need("TracerPid:\t0\n" in read(f"/proc/{pid}/status"), "not detached")
    need(found["match_text"].split('"')[1].removesuffix("\\n") in read(f"{home}/ticks").splitlines(), found)
    hand.say(term, "strace -c -e trace=mkdir mkdir one two three", r"\n[ .\d]+ 3 +mkdir\n[\s\S]*total")
    hand.say(term, "kill %1; wait", r"[$#] ?$")
    need(not os.path.exists(f"/proc/{pid}"), "still runs")


@job("fzf: inline, and into vim", trial="15")
def fzf(hand, home):
    for name in ("alpha", "beta", "gamma"):
        write(f"{home}/{name}.txt", f"text of {name}\n")
    term = hand.open()
    hand.say(term, "ls /usr/bin | fzf --height 12 > picked", r"\d+/\d+[\s\S]*> ?$")
    hand.keys(term, text="sha256sum", expect=r"> sha256sum\n +1/\d+.*\n> sha256sum")
    hand.keys(term, "enter", expect=r"[$#] ?$")
    equal(read(f"{home}/picked"), "sha256sum\n")
    hand.say(term, "vim -u NONE $(ls *.txt | fzf --height 8)", r"\b3/3[\s\S]*> ?$")
    hand.keys(term, text="gam", expect=r"> gamma\.txt\n.*\b1/3")
    hand.keys(term, "enter", expect=r"text of gamma")
    hand.keys(term, text="A, seen", expect=r"text of gamma, seen")
    hand.keys(term, "escape")
    hand.say(term, ":wq", r"[$#] ?$")
    equal(read(f"{home}/gamma.txt"), "text of gamma, seen\n")


@job("sftp and scp", trial="16")
def sftp(hand, home):
    with open(f"{home}/big.bin", "wb") as file:
        file.write(os.urandom(3_000_000))
    with ssh_server(home) as options:
        term = hand.open()
        hand.say(term, f"sftp -P 22099 {options} root@127.0.0.1", r"continue connecting")
        hand.say(term, "yes", r"sftp> ?$", timeout=60)
        hand.say(term, f"mkdir {home}/there", r"sftp> ?$")
        hand.say(term, f"cd {home}/there", r"sftp> ?$")
        hand.say(term, "put big.bin up.bin", r"100%[\s\S]*sftp> ?$")
        hand.say(term, "ls -l", r" 3000000 .*up\.bin")
        hand.say(term, "get up.bin down.bin", r"100%[\s\S]*sftp> ?$")
        hand.say(term, "get nowhere.bin", r"not found[\s\S]*sftp> ?$")
        hand.say(term, "bye", r"[$#] ?$")
        target = f"root@127.0.0.1:{home}/there/copy.bin"
        hand.say(term, f"scp -P 22099 {options} big.bin {target}", r"big\.bin +100%[\s\S]*[$#] ?$")
    for copy in ("there/up.bin", "down.bin", "there/copy.bin"):
        need(filecmp.cmp(f"{home}/big.bin", f"{home}/{copy}", shallow=False), copy)


@job("gpg: a new key, a wrong passphrase", trial="18")
def gpg(hand, home):
    term = hand.open()
    own = {**os.environ, "HOME": home}
    try:
        hand.say(term, "gpg --pinentry-mode loopback --full-generate-key", r"Your selection\? ?$")
        for answer, question in [("1", r"keysize do you want"), ("2048", r"Key is valid for"),
                                 ("1y", r"correct\? \(y/N\)"), ("y", r"Real name:"), ("Ana Example", r"Email address:"),
                                 ("ana@example.org", r"Comment:"), ("", r"\(O\)kay/\(Q\)uit\?"), ("O", r"Enter passphrase: ?$")]:
            hand.say(term, answer, question)
        hand.say(term, "tulip and clock", r"secret key created and signed[\s\S]*[$#] ?$", secret=True, timeout=120)
        write(f"{home}/note", "the text of the note\n")
        # The agent of gpg keeps the passphrase of a new key.
        hand.say(term, "gpgconf --kill gpg-agent", r"[$#] ?$")
        hand.say(term, "gpg --pinentry-mode loopback --sign note", r"Enter passphrase: ?$")
        hand.say(term, "tulip or clock", r"Bad passphrase", secret=True)
        need(not os.path.exists(f"{home}/note.gpg"), "signed with a wrong passphrase")
        hand.say(term, "gpg --pinentry-mode loopback --sign note", r"Enter passphrase: ?$")
        hand.say(term, "tulip and clock", r"[$#] ?$", secret=True)
        checked = subprocess.run(["gpg", "--decrypt", f"{home}/note.gpg"], env=own, capture_output=True, text=True)
        need(checked.stdout == "the text of the note\n" and "Ana Example <ana@example.org>" in checked.stderr, checked)
    finally:
        subprocess.run(["gpgconf", "--kill", "all"], env=own, capture_output=True)


@job("passwd: as root, and with refusals", trial="20")
def passwd(hand, _home):
    with users("jobs"):
        term = hand.open()
        hand.say(term, "passwd jobs", r"New password: ?$")
        hand.say(term, "first-pass-1", r"Retype new password: ?$", secret=True)
        hand.say(term, "first-pass-2", r"do not match", secret=True)
        hand.say(term, "passwd jobs", r"New password: ?$")
        hand.say(term, "first-pass-1", r"Retype new password: ?$", secret=True)
        hand.say(term, "first-pass-1", r"updated successfully", secret=True)
        hand.say(term, "su jobs", r"\$ ?$")
        hand.say(term, "passwd", r"Current password: ?$")
        again = r"Retype new password: ?$"
        for password, question in [("first-pass-1", r"New password: ?$"), ("short", again),
                                   ("short", r"longer password[\s\S]*New password: ?$"), ("first-pass-1", again),
                                   ("first-pass-1", r"not been changed[\s\S]*New password: ?$"), ("second-word-22", again),
                                   ("second-word-22", r"updated successfully")]:
            hand.say(term, password, question, secret=True)
        hand.say(term, "su jobs", r"Password: ?$")
        hand.say(term, "first-pass-1", r"Authentication failure", secret=True)
        hand.say(term, "su jobs", r"Password: ?$")
        hand.say(term, "second-word-22", r"\$ ?$", secret=True)
        hand.say(term, "echo $SHLVL-$(whoami)", r"\n\d-jobs\n")


@job("a hunk edited in nano, refused, and corrected", trial="21")
def hunk(hand, home):
    path = repository(home, "hunk")
    write(f"{path}/f", "line1\nchanged\nline3\nline4\n")
    term = hand.open(working_directory=path, environment={"GIT_EDITOR": "nano"})
    hand.say(term, "git add -p", r"Stage this hunk \[.*\]\? ?$")
    hand.say(term, "e", r"Manual hunk edit mode")
    # Another first row of context: the hunk does not apply.
    hand.keys(term, "down", "down", "ctrl-k")
    hand.keys(term, text=" nothing\n", expect=r" nothing")
    hand.keys(term, "ctrl-o", expect=r"File Name to Write")
    hand.keys(term, "enter", expect=r"Wrote \d+ lines")
    hand.keys(term, "ctrl-x", expect=r"does not apply[\s\S]*\[y/n\]\? ?$")
    hand.say(term, "y", r"Manual hunk edit mode")
    hand.keys(term, "down", "down", "down", "down", "ctrl-k")
    hand.keys(term, text="+corrected\n", expect=r"\+corrected")
    hand.keys(term, "ctrl-o", expect=r"File Name to Write")
    hand.keys(term, "enter", expect=r"Wrote \d+ lines")
    hand.keys(term, "ctrl-x", expect=r"[$#] ?$")
    equal(git(path, "show", ":f").split(), ["line1", "corrected", "line3", "line4"])
    equal(read(f"{path}/f"), "line1\nchanged\nline3\nline4\n")


@job("a list of rebase in vim with an error", trial="22")
def todo(hand, home):
    path = repository(home, "todo")
    write(f"{path}/other", "a")
    git(path, "add", "other")
    git(path, "commit", "-qm", "other")
    term = hand.open(working_directory=path, environment={"GIT_EDITOR": "vim -u NONE"})
    hand.say(term, "git rebase -i HEAD~2", r"pick \w+ (?:# )?c4\n.*pick \w+ (?:# )?other")
    hand.keys(term, text="jcwrewrod", expect=r"rewrod \w+ (?:# )?other")
    hand.keys(term, "escape")
    hand.say(term, ":wq", r"rewrod[\s\S]*--edit-todo[\s\S]*[$#] ?$")
    hand.say(term, "git rebase --edit-todo", r"rewrod \w+ (?:# )?other")
    hand.keys(term, text="/rewrod\n")
    hand.keys(term, text="cwreword", expect=r"reword \w+ (?:# )?other")
    hand.keys(term, "escape")
    hand.say(term, ":wq", r"[$#] ?$")
    hand.say(term, "git rebase --continue", r"(?:^|\n|\| ?)other\b[\s\S]*Please enter the commit message")
    hand.keys(term, text="ccanother name", expect=r"another name")
    hand.keys(term, "escape")
    hand.say(term, ":wq", r"Successfully rebased")
    equal(git(path, "log", "-3", "--format=%s").splitlines(), ["another name", "c4", "c3"])


def zone(name):
    """Sets the time zone of this machine, and returns the previous one."""
    before = read("/etc/timezone").strip()
    subprocess.run(["ln", "-sfn", f"/usr/share/zoneinfo/{name}", "/etc/localtime"], check=True)
    write("/etc/timezone", f"{name}\n")
    subprocess.run(["dpkg-reconfigure", "-f", "noninteractive", "tzdata"], check=True, capture_output=True)
    return before


@job("dpkg-reconfigure: two menus", trial="23")
def menus(hand, _home):
    before = zone("Etc/UTC")
    try:
        term = hand.open()
        reply = hand.say(term, "DEBIAN_FRONTEND=dialog dpkg-reconfigure tzdata", r"Geographic area[\s\S]*Etc")
        need(not hand.has_run or any(part["text"] == "Etc" for part in reply["highlighted"]), reply)
        hand.keys(term, "enter", expect=r"Time zone:")
        reply = hand.keys(term, text="G")
        need(not hand.has_run or any(part["text"] == "GMT" for part in reply["highlighted"]), reply)
        hand.say(term, "", r"Current default time zone: 'Etc/GMT'[\s\S]*[$#] ?$")
        equal(read("/etc/timezone"), "Etc/GMT\n")
    finally:
        zone(before)


@job("mc: copy a file", trial="24")
def mc_copy(hand, home):
    for folder in ("from/inner", "to"):
        os.makedirs(f"{home}/{folder}")
    for name in ("one", "two", "three"):
        write(f"{home}/from/{name}.txt", f"text of {name}\n")
    term = hand.open()
    hand.say(term, "mc -b from to", r"one\.txt[\s\S]*three\.txt[\s\S]*two\.txt")
    # After the folders ".." and "inner", and "one.txt".
    hand.keys(term, "down", "down", "down", expect=r"three\.txt")
    hand.keys(term, "f5", expect=r"Copy file \"three\.txt\"[\s\S]*/to/")
    hand.keys(term, "enter", expect=r"three\.txt +│ +14│")
    hand.keys(term, "f10", expect=r"[$#] ?$")
    equal(os.listdir(f"{home}/to"), ["three.txt"])
    need(filecmp.cmp(f"{home}/from/three.txt", f"{home}/to/three.txt", shallow=False), "another text")


@job("git log in less: search, show", trial="25")
def log(hand, home):
    path = repository(home, "log", 60)
    term = hand.open(working_directory=path)
    hand.say(term, "git log", r"commit \w{40}[\s\S]*c60")
    hand.say(term, "/ c7$", r"c7\n[\s\S]* c6\n")
    # The row of the commit is above the message that was found.
    hand.keys(term, text="kkkk", expect=r"commit \w{40}")
    found = re.search(r"commit (\w{40})\nAuthor.*\nDate.*\n\n +c7\n", text_of(hand.screen(term)))
    commit = git(path, "log", "--format=%H", "--grep=^c7$")
    need(found and found.group(1) == commit, (found, commit))
    hand.keys(term, text="q", expect=r"[$#] ?$")
    hand.say(term, f"git show {commit[:12]}", r"c7\n[\s\S]*\+line7\n[\s\S]*[$#] ?$")
    hand.say(term, "echo left_$((1 + 1))", r"\nleft_2")


@job("htop: filter, kill", trial="26")
def htop_kill(hand, _home):
    term = hand.open()
    hand.say(term, "sleep 4242 & sleep 4343 &", r"\[2\] \d+")
    hand.say(term, "htop", r"PID")
    hand.keys(term, "f4", expect=r"Filter:")
    hand.keys(term, text="sleep 4242", expect=r"\d+ root .* sleep 4242\b")
    hand.keys(term, "enter")
    hand.keys(term, "f9", expect=r"15 SIGTERM")
    hand.keys(term, "enter")
    hand.keys(term, "f10", expect=r"[$#] ?$")
    hand.say(term, "jobs", r"Running +sleep 4343")
    hand.say(term, "pgrep -fx 'sleep 4242' || echo gone_$?", r"\ngone_1\n")
    hand.say(term, "kill %2; wait", r"[$#] ?$")
    hand.say(term, "pgrep -fx 'sleep 4343' || echo over_$?", r"\nover_1\n")


@job("watch until a word comes", trial="28")
def watch(hand, home):
    write(f"{home}/progress", "pending\n")
    term = hand.open()
    hand.say(term, "(sleep 2; echo reached_$((6 * 7)) > progress) &", r"\[1\] \d+")
    equal(hand.match(term, "watch -n1 cat progress", r"reached_(\d+)"), ["42"])
    hand.keys(term, "ctrl-c", expect=r"[$#] ?$")


@job("make -j with an error", trial="29")
def make(hand, home):
    write(f"{home}/Makefile", "CFLAGS = -Wall\nprogram: main.o two.o forty.o\n\tcc -o $@ $^\n")
    write(f"{home}/main.c", '#include <stdio.h>\nint two(void), forty(void);\n'
          'int main(void) { printf("sum=%d\\n", two() + forty()); return 0; }\n')
    write(f"{home}/two.c", "int two(void) { return 2; }\n")
    write(f"{home}/forty.c", "int forty(void)\n{\n    return fourty;\n}\n")
    term = hand.open()
    if hand.has_run:
        ran = hand.run("make -j2", term, timeout=60)
        need(ran["exit_code"] == 2 and "forty.c:3:12: error: ‘fourty’ undeclared" in printed(ran), ran)
    else:
        hand.say(term, "make -j2", r"forty\.c:3:12: error: ‘fourty’ undeclared[\s\S]*Error 1", timeout=60)
    hand.put(f"{home}/forty.c", "int forty(void)\n{\n    return 40;\n}\n")
    hand.say(term, "make -j2 && ./program", r"\nsum=42\n", timeout=60)


@job("an alert of a job that runs, and then its end", trial="30")
def alert(hand, home):
    write(f"{home}/job.sh", "for i in $(seq 30); do\n  echo step $i\n  [ $i = 7 ] && echo ALERT disk at $((90 + i))\n"
          "  sleep 0.05\ndone\nexit 3\n")
    term = hand.open()
    equal(hand.match(term, "bash job.sh", r"ALERT disk at (\d+)"), ["97"])
    if hand.has_run:
        reply = hand.server.call("await_output", session_id=term, until="prompt")
        need(reply["reason"] == "prompt" and reply["exit_code"] == 3 and "step 30" in text_of(reply), reply)
    else:
        hand.wait(term, r"step 30")
        hand.say(term, "echo ended_$?", r"\nended_3\n")


@job("500 pasted lines, into cat and a REPL", trial="31")
def paste(hand, home):
    lines = [f"{number}: the 'quick' $fox \\ jumps `over` 漢字" for number in range(1, 501)]
    term = hand.open()
    hand.say(term, "cat > pasted", None)
    hand.say(term, "\n".join(lines), None)
    hand.keys(term, "ctrl-d", expect=r"[$#] ?$")
    equal(read(f"{home}/pasted"), "\n".join(lines) + "\n")
    hand.say(term, "python3 -q", r">>> ?$")
    hand.say(term, "all = []", r">>> ?$")
    hand.say(term, "\n".join(f"all.append({number})" for number in range(1, 501)), r">>> ?$", timeout=60)
    hand.say(term, "print(len(all), sum(all), all == sorted(all))", r"\n500 125250 True\n")


@job("names in Unicode, completion, files", trial="32")
def names(hand, home):
    text = "grüße, 漢字 und 🎉\n"
    hand.put(f"{home}/übersicht – 漢字.txt", text)
    term = hand.open()
    hand.keys(term, "tab", text="cp über", expect=r"cp übersicht.*漢字\.txt")
    hand.say(term, "'kopie é.txt'", r"[$#] ?$")
    equal(read(f"{home}/kopie é.txt"), text)
    hand.say(term, "ls *é*", r"\n'?kopie é\.txt'?\n")
    if hand.has_run:
        reply = hand.server.call("get_file", path=f"{home}/kopie é.txt")
        need(reply["content"] == text, reply)


@job("ed and bc", trial="34")
def ed(hand, home):
    write(f"{home}/poem", "roses are red\nviolets are blue\n")
    term = hand.open()
    hand.say(term, "ed poem", r"\n31\b")
    for entry in ("2s/blue/green/", "a", "sugar is sweet", "."):
        hand.say(term, entry, None)
    hand.say(term, ",p", r"roses are red\nviolets are green\nsugar is sweet\b")
    hand.say(term, "w", r"\n47\b")
    hand.say(term, "q", r"[$#] ?$")
    equal(read(f"{home}/poem"), "roses are red\nviolets are green\nsugar is sweet\n")
    hand.say(term, "bc -q", None)
    hand.say(term, "x = 2 ^ 64 - 1", None)
    hand.say(term, "x / 3", r"\n6148914691236517205\b")
    hand.keys(term, "ctrl-d", expect=r"[$#] ?$")


@job("workflow: a machine that tries again", trial="W2")
def machine(hand, home):
    over = workflow(hand, {"name": "retry", "initial_state": "try", "states": {
        "try": {**step("run_command", {"command": "echo . >> tries; test $(wc -l < tries) -ge 3"},
                       ("success", "done"), ("failure", "pause")), "max_visits": 5},
        "pause": step("sleep", {"seconds": 0.1}, ({}, "try")),
        "done": step("return", {"result": "{visits}"}),
    }})
    need(over["status"] == "completed" and read(f"{home}/tries") == ".\n" * 3, over)
    over = workflow(hand, {"name": "bounded", "initial_state": "try", "states": {
        "try": {**step("run_command", {"command": "echo . >> more; false"}, ("failure", "try")),
                "max_visits": 3, "on_exhausted": "over"},
        "over": step("fail", {"message": "tried three times"}),
    }})
    need(over["status"] == "failed" and "tried three times" in over["error"], over)
    equal(read(f"{home}/more"), ".\n" * 3)


@job("workflow: others called, in parallel, with a bad argument", trial="W7")
def called(hand, home):
    for folder, count in (("a", 2), ("b", 3)):
        os.mkdir(f"{home}/{folder}")
        for number in range(count):
            write(f"{home}/{folder}/{number}", "")
    need(hand.has_run, "has no workflows")
    unit = {"description": "the word for what is counted", "default": "files", "schema": {"enum": ["files", "entries"]}}
    hand.checked(hand.server.call("create_workflow", workflow_definition={
        "name": "count", "description": "Counts the files of a folder", "initial_state": "list",
        "arguments": {"folder": "a folder", "unit": unit},
        "states": {"list": step("run_command", {"command": "ls {folder|sh} | wc -l"}, ("success", "done")),
                   "done": step("return", {"result": "{list_output} {unit}"})}}))

    def count(**given):
        return {"workflow_name": "count", "initial_variables": given}

    over = workflow(hand, {"name": "both", "initial_state": "all", "states": {
        "all": step("parallel", {"workflows": {name: count(folder=f"{home}/{name}") for name in "ab"}}, ("success", "once")),
        "once": step("run_workflow", count(folder="a", unit="entries"), ("success", "done")),
        "done": step("return", {"result": {"both": "{all_results}", "one": "{once_result}"}})}})
    equal(over.get("result"), {"both": {"a": "2 files", "b": "3 files"}, "one": "2 entries"})
    refused = hand.server.call("run_workflow", **count(folder="a", unit="miles"), wait_seconds=60)
    need(not refused["success"] and re.search(r"unit.*files.*entries", refused["error"]), refused)
    equal(len(hand.server.call("list_runs", workflow_id="count")["runs"]), 3)


@job("workflow: a form, a person's gate, a rollback", trial="W8")
def rollback(hand, home):
    write(f"{home}/release.py", '''
async def release(ctx):
    form = await ctx.gate("Which version?", answered_by="agent",
                          form={"properties": {"version": {"type": "string"}, "beta": {"type": "boolean"}},
                                "required": ["version", "beta"]})
    await ctx.run("tag", form["version"])
    if await ctx.gate(f"Publish {form['version']}?", choices=["publish", "stop"]) == "publish":
        return "published"
    await ctx.run("untag", form["version"])
    return f"{form['version']} taken back"

BashNode(id="tag", session=session, command="echo {input|sh} > tag")
BashNode(id="untag", session=session, command="rm tag; echo {input|sh} > untagged")
Workflow(id="release", session=session, fn=release)
''')
    need(hand.has_run, "has no workflows")
    run = hand.server.call("run_workflow", workflow_file=f"{home}/release.py", wait_seconds=60)["run_id"]
    reply = hand.server.call("decide", run_id=run, form={"version": "2.0"})
    need(reply.get("misread") and "beta" in reply["error"], reply)
    hand.checked(hand.server.call("decide", run_id=run, form={"version": "2.0", "beta": False}))
    over = hand.server.call("get_run", run_id=run, wait_seconds=60)
    need(over["status"] == "waiting" and over["pending_gate"]["prompt"] == "Publish 2.0?", over)
    equal(read(f"{home}/tag"), "2.0\n")
    reply = hand.server.call("decide", run_id=run, answer="publish")
    need(not reply["success"] and "person" in reply["error"], reply)
    person = [hand.server.command[0], "gates", "answer", over["pending_gate"]["gate_id"], "stop"]
    subprocess.run(person, env=hand.server.environment, check=True, capture_output=True)
    over = hand.server.call("get_run", run_id=run, wait_seconds=60)
    need(over["status"] == "completed" and over["result"] == "2.0 taken back", over)
    need(read(f"{home}/untagged") == "2.0\n" and not os.path.exists(f"{home}/tag"), os.listdir(home))


def measured(hand_type, command, wanted, environment, client):
    """Does the jobs with a server, each in a home of its own, and returns a row for each."""
    rows = []
    for number, (title, do, trial) in enumerate(JOBS, 1):
        if wanted and number not in wanted:
            continue
        home = tempfile.mkdtemp(prefix="jobs")
        runtime = tempfile.mkdtemp(prefix="jobs")
        os.chmod(runtime, 0o700)
        write(f"{home}/.bashrc", "PS1='$ '\n")
        own = {**environment, "HOME": home, "XDG_RUNTIME_DIR": runtime, "XDG_STATE_HOME": f"{home}/state"}
        kind = TmuxServer if hand_type is Tmux else Server
        server = kind(command, own, home, hand_type.wraps, client)
        why = ""
        try:
            do(hand_type(server), home)
        except Failed as error:
            why = " ".join(str(error).split())[:300]
        except Exception as error:  # noqa: BLE001: a reply of another shape is a failed job
            place = traceback.extract_tb(error.__traceback__)[-1]
            why = f"{type(error).__name__} in line {place.lineno}: {error}"[:300]
        rows.append((number, title, why, server.calls, server.seconds, server.bytes, server.stuck, trial))
        server.close()
        if hand_type is Ours:
            subprocess.run([command[0], "daemon", "stop"], env=own, capture_output=True)
        shutil.rmtree(home, ignore_errors=True)
        shutil.rmtree(runtime, ignore_errors=True)
        print(f"{number:3} {title:57} {'done' if not why else 'no':5} {rows[-1][3]:3} {rows[-1][4]:7.2f} {rows[-1][5]:7}"
              f" {rows[-1][6]:2}{'  ' + why if why else ''}", flush=True)
    return rows


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--steplatch", required=True)
    arguments.add_argument("--peer")
    arguments.add_argument("--commander", help="Desktop Commander, a second peer")
    arguments.add_argument("--tmux", action="store_true", help="also with tmux in an agent's own shell")
    arguments.add_argument("--client", default="jobs", help="name of the client, which decides the form of replies")
    arguments.add_argument("--only", type=int, nargs="*", help="numbers of jobs")
    given = arguments.parse_args()
    check_is_stuck()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("STEPLATCH", "PS1"))}
    environment |= {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    servers = [(Ours, [given.steplatch, "mcp"])]
    if given.peer:
        servers.append((SixTools, [given.peer]))
    if given.commander:
        servers.append((DesktopCommander, [given.commander, "--no-onboarding"]))
    if given.tmux:
        servers.append((Tmux, ["tmux"]))
    failed = stuck_waits = 0
    for hand_type, command in servers:
        print(f"\n{hand_type.name}\n  # job                                                       done calls seconds   bytes stuck")
        rows = measured(hand_type, command, given.only, environment, given.client)
        done = sum(not row[2] for row in rows)
        calls, seconds, size, stuck = (sum(row[column] for row in rows) for column in (3, 4, 5, 6))
        print(f"    {done} of {len(rows)} done, {calls} calls, {seconds:.1f} s, {size} bytes, {stuck} stuck")
        of_trial = {row[7] for row in rows if row[7]}
        missed = {row[7] for row in rows if row[7] and row[2]}
        print(f"    {len(of_trial - missed)} of {len(of_trial)} jobs of the trial done")
        if hand_type is Ours:
            failed, stuck_waits = len(rows) - done, stuck
    sys.exit(1 if failed > MAX_FAILED_JOBS or stuck_waits else 0)


if __name__ == "__main__":
    main()
