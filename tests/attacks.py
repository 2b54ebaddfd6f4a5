"""Tries to pass for a person, as an agent can that has a terminal or a node.

attack.py WAY SOCKET COMMAND PARAMS FILE: opens the daemon's socket in this way, says that it is a person, sends the
command, and writes the reply to the file.
"""

import json
import os
import signal
import socket
import sys
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
    with open(file + ".new", "w") as out:
        json.dump(reply, out)
    os.rename(file + ".new", file)


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


name, path, command, params, file = sys.argv[1:6]
signal.signal(signal.SIGHUP, signal.SIG_IGN)
if name == "plainly":
    says(connected())
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
