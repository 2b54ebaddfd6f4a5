"""Runs a program on a new pseudo-terminal, and another one with the descriptor of its other side as the last argument.

Arguments: the command line of the first program, for a shell; then the words of the second.
"""

import os
import pty
import sys

command, *words = sys.argv[1:]
child, descriptor = pty.fork()
if child == 0:
    os.execvp("sh", ["sh", "-c", command])
os.set_inheritable(descriptor, True)
os.execvp(words[0], [*words, str(descriptor)])
