"""A terminal that no daemon keeps, shown in one that a daemon keeps.

desk.py serve SOCKET COMMAND…: runs the command in a terminal of its own as soon as it is shown.
desk.py show SOCKET: shows it here, in the size of this terminal. Each further connection brings a new size.
"""

import fcntl
import os
import pty
import select
import signal
import socket
import struct
import sys
import termios
import tty


def relay(one, other, listener=None, resize=None):
    """Passes bytes between two descriptors, each with what is read from and what is written to, until one of them ends."""
    ways = {one[0]: other[1], other[0]: one[1]}
    while True:
        for readable in select.select(list(ways) + ([listener] if listener else []), [], [])[0]:
            if readable is listener:
                resize(listener.accept()[0])
                continue
            try:
                data = os.read(readable, 65536)
            except OSError:
                data = b""
            if not data:
                return
            while data:
                data = data[os.write(ways[readable], data):]


def serve(path, command):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    shown, _ = listener.accept()
    size = shown.recv(4, socket.MSG_WAITALL)
    pid, terminal = pty.fork()
    if pid == 0:
        # A background job of a script ignores the keys that interrupt, and so would the command.
        for ignored in (signal.SIGINT, signal.SIGQUIT):
            signal.signal(ignored, signal.SIG_DFL)
        os.execvp(command[0], command)

    def resize(size):
        rows, columns = struct.unpack("HH", size)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    resize(size)
    relay(
        (terminal, terminal),
        (shown.fileno(), shown.fileno()),
        listener,
        lambda other: resize(other.recv(4, socket.MSG_WAITALL)),
    )


def show(path):
    def connected():
        way = socket.socket(socket.AF_UNIX)
        way.connect(path)
        way.sendall(struct.pack("HH", *os.get_terminal_size()[::-1]))
        return way

    way = connected()
    signal.signal(signal.SIGWINCH, lambda *_: connected().close())
    tty.setraw(0)
    relay((0, 1), (way.fileno(), way.fileno()))


if sys.argv[1] == "serve":
    serve(sys.argv[2], sys.argv[3:])
else:
    show(sys.argv[2])
