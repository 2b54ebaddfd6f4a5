#!/usr/bin/env python3
"""Does 47 jobs with real programs as an agent would: through MCP tools alone, with the calls that a model makes first.

Reports for each job whether it was done, its calls, seconds and bytes of reply text, and waits that ran to their limit
while the program asked. Fails if several jobs of steplatch were not done, or one of its waits was stuck. `cargo xtask
bench jobs` builds and installs what this needs, and then runs it.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback


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

    def __init__(self, command, environment, folder, wraps=False):
        self.wraps = wraps
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env=environment, cwd=folder, text=True, bufsize=1,
        )
        self.number = 0
        self.calls = self.bytes = self.stuck = 0
        self.seconds = 0.0
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "jobs", "version": "1"}}
        self.request("initialize", about)
        self.write({"jsonrpc": "2.0", "method": "notifications/initialized"})

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
        began = time.monotonic()
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        self.seconds += time.monotonic() - began
        self.calls += 1
        texts = [part["text"] for part in result["content"] if part["type"] == "text"]
        self.bytes += sum(len(text.encode()) for text in texts)
        try:
            reply = json.loads(texts[0]) if texts else {}
        except ValueError:
            reply = {"error": texts[0], "success": False}
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

    def keys(self, session, *names, text="", expect=None):
        codes = {"enter": "\n", "tab": "\t", "escape": "\x1b", "space": " ", "down": "\x1b[B", "up": "\x1b[A"}
        codes |= {f"ctrl-{letter}": chr(ord(letter) - 96) for letter in "abcdefghijklmnopqrstuvwxyz"}
        typed = text + "".join(codes[name] for name in names)
        self.checked(self.server.call("send_input", session_id=session, input_text=typed))
        return self.seen(self.server.call("get_screen_content", session_id=session), expect)

    def run(self, *_, **__):
        raise Failed("has no run_command")


JOBS = []


def job(title):
    def add(function):
        JOBS.append((title, function))
        return function

    return add


def need(condition, what):
    if not condition:
        raise Failed(str(what))


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


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


def repository(home, name):
    path = f"{home}/{name}"
    os.mkdir(path)
    script = (
        "git init -q -b main . && git config user.email a@b.c && git config user.name A && "
        "for i in 1 2 3 4; do echo line$i >> f; git add f; git commit -qm c$i; done"
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


@job("psql: password and pager")
def psql(hand, home):
    cluster = shutil.which("pg_ctlcluster")
    need(cluster, "postgres is not installed")
    versions = sorted(os.listdir("/usr/lib/postgresql"))
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
    start = [*as_postgres, f"{binaries}/pg_ctl", "-D", data, "-w", "-o", "-p 54399 -k /tmp", "-l", f"{data}/log"]
    subprocess.run([*start, "start"], check=True, capture_output=True)
    try:
        term = hand.open()
        hand.say(term, "psql -h 127.0.0.1 -p 54399 -U postgres", r"[Pp]assword.*: ?$")
        secret = {"secret": True} if hand.has_run else {}
        hand.say(term, "tiger-7", r"postgres=# ?$", **secret)
        hand.say(term, "select generate_series(1, 300);", r"1")
        hand.keys(term, text="q", expect=None)
        hand.say(term, "select 40 + 2 as answer;", r"42")
    finally:
        subprocess.run([*start, "-m", "immediate", "stop"], capture_output=True)


@job("ssh: host key, commands")
def ssh(hand, home):
    folder = tempfile.mkdtemp(dir=home)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{folder}/{name}"], check=True)
    shutil.copy(f"{folder}/user.pub", f"{folder}/authorized")
    os.chmod(f"{folder}/authorized", 0o600)
    os.makedirs("/run/sshd", exist_ok=True)
    options = [
        "-o", f"HostKey={folder}/host", "-o", f"AuthorizedKeysFile={folder}/authorized", "-o", "StrictModes=no",
        "-o", "PidFile=none", "-o", "PermitRootLogin=yes", "-o", "UsePAM=no", "-o", "ListenAddress=127.0.0.1",
    ]
    server = subprocess.Popen(["/usr/sbin/sshd", "-D", "-p", "22099", *options], stderr=subprocess.DEVNULL)
    try:
        time.sleep(0.5)
        term = hand.open()
        known = f"-o UserKnownHostsFile={folder}/known"
        hand.say(term, f"ssh -p 22099 -i {folder}/user {known} root@127.0.0.1", r"continue connecting")
        hand.say(term, "yes", r"[#$] ?$", timeout=60)
        hand.say(term, "echo on_$((6 * 7)); sleep 1; echo done_$((1 + 1))", r"on_42[\s\S]*done_2[\s\S]*[#$] ?$")
        hand.say(term, "read -p 'Which? ' which", r"Which\? ?$")
        hand.say(term, "this", r"[#$] ?$")
        hand.say(term, "exit", r"closed[\s\S]*[$#] ?$|logout")
    finally:
        server.terminate()
        server.wait()


@job("su with a wrong password first")
def su(hand, _home):
    subprocess.run(["userdel", "-rf", "jobs"], capture_output=True)
    subprocess.run(["useradd", "-m", "-s", "/bin/bash", "jobs"], check=True, capture_output=True)
    subprocess.run(["chpasswd"], input="jobs:right-pass-9\n", text=True, check=True)
    subprocess.run(["useradd", "-m", "-s", "/bin/bash", "jobs2"], capture_output=True)
    try:
        term = hand.open()
        secret = {"secret": True} if hand.has_run else {}
        hand.say(term, "su jobs2", None)
        hand.say(term, "su jobs", r"Password: ?$")
        hand.say(term, "wrong-pass-1", r"Authentication failure", **secret)
        hand.say(term, "su jobs", r"Password: ?$")
        hand.say(term, "right-pass-9", None, **secret)
        hand.say(term, "whoami", r"\njobs\s")
    finally:
        subprocess.run(["userdel", "-rf", "jobs"], capture_output=True)
        subprocess.run(["userdel", "-rf", "jobs2"], capture_output=True)


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


@job("less: search")
def less(hand, home):
    write(f"{home}/long.txt", "".join(f"line {number}\n" for number in range(2000)))
    term = hand.open()
    hand.say(term, "less long.txt", r"line 0")
    hand.say(term, "/line 1500", r"line 1500")
    hand.keys(term, text="q", expect=None)


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
    if hand.has_run:
        hand.server.call("send_input", session_id=term, input_text="tail -F app.log\n")
    else:
        hand.server.call("send_input", session_id=term, input_text="tail -F app.log\n")
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
        text = f"sleep 0.{number + 2}; echo over_$((6 * 7)); exit {number}\n"
        hand.checked(hand.server.call("send_input", session_id=term, input_text=text))
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
    hand.checked(hand.server.call("send_input", session_id=term, input_text="sleep 300\n"))
    hand.keys(term, "ctrl-z", expect=r"Stopped")
    hand.say(term, "bg; jobs", r"Running")
    hand.checked(hand.server.call("send_input", session_id=term, input_text="fg\n"))
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


@job("a server that crashes and is started again")
def restarted(hand, home):
    write(f"{home}/server.sh", "echo listening $1; read -r line < pipe; echo boom; exit 1\n")
    os.mkfifo(f"{home}/pipe")
    term, other = hand.open(), hand.open()
    say = f"bash server.sh one; bash server.sh two\n"
    hand.checked(hand.server.call("send_input", session_id=term, input_text=say))
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


@job("a password that is a word of the output")
def word(hand, home):
    write(f"{home}/user.sh", "read -s -p 'Password: ' p; echo\necho 'This password is too short'\n"
          "read -p 'Bypass password validation? [y/N] ' x; echo made $x\n")
    term = hand.open()
    hand.say(term, "bash user.sh", r"Password:")
    hidden = {"secret": True} if hand.has_run else {}
    hand.say(term, "pass", r"too short[\s\S]*Bypass \S+ validation\? \[y/N\]", **hidden)
    hand.say(term, "y", r"made y")


@job("GNU screen: detach and come back")
def screen(hand, home):
    write(f"{home}/.screenrc", "startup_message off\n")
    term = hand.open()
    hand.say(term, "screen -S work", None, until="input")
    hand.say(term, "echo within_$((6 * 7))", r"within_42", until="input")
    hand.keys(term, "ctrl-a", "d", expect=r"detached")
    hand.say(term, "screen -r work", None, until="input")
    hand.say(term, "echo back_$((6 * 7))", r"back_42", until="input")
    hand.say(term, "exit", None)
    hand.say(term, "echo out_$((6 * 7))", r"out_42")


@job("ssh-keygen with a mismatch")
def keygen(hand, home):
    term = hand.open()
    hand.say(term, f"ssh-keygen -t ed25519 -f {home}/key", r"Enter passphrase")
    hidden = {"secret": True} if hand.has_run else {}
    hand.say(term, "correct horse", r"same passphrase again", **hidden)
    hand.say(term, "correct house", r"do not match", **hidden)
    hand.say(term, "correct horse", r"same passphrase again", **hidden)
    hand.say(term, "correct horse", r"fingerprint|SHA256", **hidden)


@job("openssl req: eight questions")
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


@job("workflow: a release with a gate")
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


@job("workflow: fan-out, and who failed")
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
    text = json.dumps(over)
    need(over["status"] == "completed" and '"web3"' in text and '"item"' in text, over)


@job("workflow: a backup whose name is printed by a command")
def backup(hand, home):
    over = workflow(hand,
        {"name": "backup", "initial_state": "make", "states": {
            "make": step("run_command", {"command": "mkdir data; echo 1 > data/a; tar cf b.tar data; echo $PWD/b.tar"}, ("success", "verify")),
            "verify": step("run_command", {"command": "tar tf {make_output|sh} | tail -n 1"}, ({"field_equals": {"output": "data/a"}}, "done")),
            "done": step("return", {"result": "{verify_output}"})}})
    need(over["status"] == "completed" and over.get("result") == "data/a", over)


@job("workflow: an installer that asks")
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


@job("workflow: captured, and run with other input")
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


@job("workflow: a function that tries again")
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


def measured(hand_type, command, wanted, environment):
    """Does the jobs with a server, each in a home of its own, and returns a row for each."""
    rows = []
    for number, (title, do) in enumerate(JOBS, 1):
        if wanted and number not in wanted:
            continue
        home = tempfile.mkdtemp(prefix="jobs")
        runtime = tempfile.mkdtemp(prefix="jobs")
        os.chmod(runtime, 0o700)
        write(f"{home}/.bashrc", "PS1='$ '\n")
        own = {**environment, "HOME": home, "XDG_RUNTIME_DIR": runtime, "XDG_STATE_HOME": f"{home}/state"}
        server = Server(command, own, home, hand_type.wraps)
        why = ""
        try:
            do(hand_type(server), home)
        except Failed as error:
            why = " ".join(str(error).split())[:300]
        except Exception as error:  # noqa: BLE001: a reply of another shape is a failed job
            place = traceback.extract_tb(error.__traceback__)[-1]
            why = f"{type(error).__name__} in line {place.lineno}: {error}"[:300]
        rows.append((number, title, why, server.calls, server.seconds, server.bytes, server.stuck))
        server.close()
        if hand_type is Ours:
            subprocess.run([command[0], "daemon", "stop"], env=own, capture_output=True)
        shutil.rmtree(home, ignore_errors=True)
        shutil.rmtree(runtime, ignore_errors=True)
        print(f"{number:3} {title:42} {'done' if not why else 'no':5} {rows[-1][3]:3} {rows[-1][4]:7.2f} {rows[-1][5]:7}"
              f" {rows[-1][6]:2}{'  ' + why if why else ''}", flush=True)
    return rows


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--steplatch", required=True)
    arguments.add_argument("--peer")
    arguments.add_argument("--only", type=int, nargs="*", help="numbers of jobs")
    given = arguments.parse_args()
    check_is_stuck()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("STEPLATCH", "PS1"))}
    environment |= {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    servers = [(Ours, [given.steplatch, "mcp"])]
    if given.peer:
        servers.append((SixTools, [given.peer]))
    failed = stuck_waits = 0
    for hand_type, command in servers:
        print(f"\n{hand_type.name}\n  # job                                        done calls seconds   bytes stuck")
        rows = measured(hand_type, command, given.only, environment)
        done = sum(not row[2] for row in rows)
        calls, seconds, size, stuck = (sum(row[column] for row in rows) for column in (3, 4, 5, 6))
        print(f"    {done} of {len(rows)} done, {calls} calls, {seconds:.1f} s, {size} bytes, {stuck} stuck")
        if hand_type is Ours:
            failed, stuck_waits = len(rows) - done, stuck
    sys.exit(1 if failed > MAX_FAILED_JOBS or stuck_waits else 0)


if __name__ == "__main__":
    main()
