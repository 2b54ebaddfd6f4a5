"""The same work on a bare pseudo-terminal: what no terminal server can undercut on this machine.

A child on a pseudo-terminal, blocking reads, a search in what came. No screen, no history, no protocol.
"""

import contextlib
import fcntl
import os
import re
import selectors
import shutil
import signal
import struct
import termios
import time

# What bash prints behind its prompt, so that the prompt is recognised however it looks.
READY = b"\x1b]7777;ready\x07"
RCFILE = r"""
[ -r ~/.bashrc ] && . ~/.bashrc
PS1="$PS1\[\e]7777;ready\a\]"
"""


class Terminal:
    """A program on a pseudo-terminal."""

    def __init__(self, arguments, environment):
        self.unread = b""
        self.master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        name = os.ttyname(slave)
        # Spawned and not forked: a fork copies this process's page tables, which would be measured too.
        # The first terminal that a session leader opens becomes its controlling one.
        self.pid = os.posix_spawn(
            shutil.which(arguments[0]),
            arguments,
            {**environment, "TERM": "xterm-256color"},
            setsid=True,
            setsigmask=[],
            setsigdef=[signal.SIGPIPE],
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, name, os.O_RDWR, 0),
                (os.POSIX_SPAWN_DUP2, 0, 1),
                (os.POSIX_SPAWN_DUP2, 0, 2),
                (os.POSIX_SPAWN_CLOSE, self.master),
            ],
        )
        os.close(slave)

    @classmethod
    def bash(cls, folder, environment):
        """Starts bash and returns at its prompt."""
        rcfile = os.path.join(folder, "rcfile")
        if not os.path.exists(rcfile):
            with open(rcfile, "w") as file:
                file.write(RCFILE)
        terminal = cls(["bash", "--rcfile", rcfile, "-i"], environment)
        terminal.read_until(re.compile(re.escape(READY)))
        return terminal

    def types(self, text):
        os.write(self.master, text.encode().replace(b"\n", b"\r"))

    def read_until(self, pattern):
        """Reads until the pattern is in what came since the last match."""
        while not (match := pattern.search(self.unread)):
            # What a read brings is searched once, with a little before it for a match across two reads.
            self.unread = self.unread[-256:] + os.read(self.master, 65536)
        self.unread = self.unread[match.end() :]
        return match

    def close(self):
        os.close(self.master)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def measure(plan, folder, environment, crowd_size):
    """Returns the figures of a bare pseudo-terminal, by the names that the table knows them by."""
    figures = {}
    times = plan.times()
    for _ in range(plan.rounds):
        with times:
            terminal = Terminal.bash(folder, environment)
        terminal.close()
    figures["open"] = times.median()

    terminal = Terminal.bash(folder, environment)
    times = plan.times()
    for round in range(plan.rounds):
        with times:
            terminal.types(f"echo MARK_$(({round}+1000))\n")
            terminal.read_until(re.compile(rb"MARK_%d" % (round + 1000)))
        terminal.read_until(re.compile(re.escape(READY)))
    figures["echo"] = times.median()

    times = plan.times()
    for round in range(plan.rounds):
        terminal.types(plan.late_print(round))
        match = terminal.read_until(re.compile(plan.late_pattern(round).encode()))
        times.add((time.time() - plan.printed_at(match[1].decode())) * 1e3)
    figures["arrival"] = times.median()

    times = plan.times()
    for _ in range(plan.floods):
        with times:
            terminal.types(plan.flood())
            terminal.read_until(re.compile(rb"FLOOD_2"))
    figures["flood"] = times.median() / 1e3
    terminal.close()

    meanwhile = crowd(plan, folder, environment, crowd_size)
    figures["crowd_wait"], figures["crowd_wait_95"] = meanwhile.median(), meanwhile.percentile(95)
    return figures


def crowd(plan, folder, environment, size):
    """Waits on one terminal while many others print, all of them read by one loop."""
    gate = plan.gate(folder)
    crowd = [Terminal.bash(folder, environment) for _ in range(size)]
    quiet = Terminal.bash(folder, environment)
    selector = selectors.DefaultSelector()
    for terminal in [*crowd, quiet]:
        os.set_blocking(terminal.master, False)
        selector.register(terminal.master, selectors.EVENT_READ)
    for terminal in crowd:
        terminal.types(plan.crowd_print(gate))
    time.sleep(1)
    plan.open_gate(gate)
    times = plan.times()
    for round in range(plan.crowd_rounds):
        quiet.types(plan.soon_print(round))
        pattern, seen, match = re.compile(plan.late_pattern(round).encode()), b"", None
        while not match:
            for key, _ in selector.select():
                read = os.read(key.fd, 65536)
                if key.fd == quiet.master:
                    seen += read
            match = pattern.search(seen)
        times.add((time.time() - plan.printed_at(match[1].decode())) * 1e3)
    for terminal in [*crowd, quiet]:
        selector.unregister(terminal.master)
        terminal.close()
    return times
