"""Tries to pass for a person, as an agent can that has a terminal or a node.

attack.py WAY SOCKET COMMAND PARAMS FILE: opens the daemon's socket in this way, says that it is a person, sends the
command, and writes the reply to the file.
"""

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time


def connected():
    way = socket.socket(socket.AF_UNIX)
    way.connect(path)
    return way


def says(way):
    lines = way.makefile("rw")
    hello = {"protocol_version": 1, "client": "the.cto", "person": True, "surface": "cli", "environment": {"USER": "the.cto"}}
    for name, given in (("HELLO", hello), (command, json.loads(params))):
        lines.write(json.dumps({"type": "command", "command_type": name, "params": given, "request_id": name}) + "\n")
        lines.flush()
    for line in lines:
        reply = json.loads(line)
        if reply.get("request_id") == command:
            break
    told(reply)


def child():
    """Goes on in a child, and ends this process."""
    parent = os.getpid()
    if os.fork():
        os._exit(0)
    while os.getppid() == parent:
        time.sleep(0.01)


def without_trace():
    """Goes on in another session, with nothing in the environment, where the kernel shows it."""
    child()
    os.setsid()
    child()
    os.execve(sys.executable, [sys.executable, __file__, "plainly", *sys.argv[2:]], {})


def told(reply):
    with open(file + ".new", "w") as out:
        json.dump(reply, out)
    os.rename(file + ".new", file)


def dialog():
    """Is an MCP client that accepts its own dialog. The path is that of the program, the parameters have the run."""
    server = subprocess.Popen([path, "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def sends(message):
        server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        server.stdin.flush()

    about = {"protocolVersion": "2025-06-18", "capabilities": {"elicitation": {}}, "clientInfo": {"name": "x", "version": "1"}}
    sends({"id": 1, "method": "initialize", "params": about})
    server.stdout.readline()
    sends({"method": "notifications/initialized"})
    arguments = {"run_id": json.loads(params)["run_id"], "wait_seconds": 0}
    sends({"id": 2, "method": "tools/call", "params": {"name": "get_run", "arguments": arguments}})
    asked = False
    for line in server.stdout:
        message = json.loads(line)
        if message.get("method") == "elicitation/create":
            asked = True
            sends({"id": message["id"], "result": {"action": "accept", "content": {"decision": "yes"}}})
        elif message.get("id") == 2:
            reply = message["result"]["structuredContent"]
            return told({"success": reply["status"] != "waiting", "error": reply.get("next_step"), "asked": asked})


def commanded():
    """Has the command line answer, with these words behind the path of the program."""
    said = subprocess.run([path, *json.loads(params)["words"]], capture_output=True, text=True)
    told({"success": said.returncode == 0, "error": said.stderr})


def below_ended():
    """Goes on in a child of a process whose first thread has ended, with nothing in the environment."""

    def goes_on():
        while open("/proc/self/stat").read().rsplit(")", 1)[1].split()[0] != "Z":
            time.sleep(0.01)
        if os.fork() == 0:
            os.execve(sys.executable, [sys.executable, __file__, "plainly", *sys.argv[2:]], {})
        os.wait()

    threading.Thread(target=goes_on).start()
    # exit(2), which ends this thread only: its number differs between machines.
    ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)


name, path, command, params, file = sys.argv[1:6]
signal.signal(signal.SIGHUP, signal.SIG_IGN)
if name == "plainly":
    says(connected())
elif name == "below one that has ended":
    below_ended()
elif name == "by a dialog":
    dialog()
elif name == "by command":
    commanded()
elif name == "handed on":
    way = connected()
    child()
    says(way)
elif name == "without a trace":
    without_trace()
elif name == "far below":
    for _ in range(450):
        pid = os.fork()
        if pid:
            os.waitpid(pid, 0)
            os._exit(0)
    says(connected())
elif name == "without its host":
    # The process that keeps the terminal is the parent of the shell that started this one.
    with open("/proc/%d/stat" % os.getppid()) as stat:
        host = int(stat.read().rsplit(")", 1)[1].split()[1])
    child()
    os.setsid()
    child()
    os.kill(host, signal.SIGKILL)
    while os.path.exists("/proc/%d" % host):
        time.sleep(0.01)
    sys.argv[1] = "plainly"
    os.execve(sys.executable, [sys.executable, *sys.argv], {})
