"""Another machine: this one, behind an `sshd` of its own on loopback, with another home directory."""

import os
import shutil
import signal
import socket
import subprocess
import time


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def kill(pid, number):
    """Signals a process, which may have ended."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def processes(file, part):
    """Returns the processes whose file in /proc has this part between two zero bytes: `cmdline`, `environ`."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/{file}", "rb") as content:
                if part.encode() in content.read().split(b"\0"):
                    found.append(int(pid))
        except OSError:
            continue
    return found


class Machine:
    """An `sshd`, an `ssh` that reaches it as `box`, and a home directory behind it."""

    def __init__(self, folder):
        self.folder, self.port = folder, free_port()
        self.home = os.path.join(folder, "there")
        os.makedirs(os.path.join(folder, "bin"))
        os.makedirs(self.home, mode=0o700)
        for key in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.path(key)], check=True)
        shutil.copy(self.path("user.pub"), self.path("authorized"))
        # The login shell of the other machine has another home and another state.
        command = self.write("shell", f'#!/bin/sh\nexec env -u XDG_RUNTIME_DIR HOME={self.home} sh -c "cd; $SSH_ORIGINAL_COMMAND"\n', 0o755)
        self.write(
            "sshd_config",
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.path('host')}\nPidFile {self.path('pid')}\n"
            f"AuthorizedKeysFile {self.path('authorized')}\nStrictModes no\nUsePAM no\nForceCommand {command}\n"
            "PermitRootLogin yes\nMaxStartups 100\n",
        )
        self.write(
            "ssh_config",
            f"Host box\n  HostName 127.0.0.1\n  Port {self.port}\n  IdentityFile {self.path('user')}\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {self.path('known')}\n  StrictHostKeyChecking accept-new\n",
        )
        for program in ("ssh", "scp"):
            self.write(f"bin/{program}", f'#!/bin/sh\nexec /usr/bin/{program} -F {self.path("ssh_config")} "$@"\n', 0o755)
        os.makedirs("/run/sshd", exist_ok=True)
        self.sshd = subprocess.Popen(["/usr/sbin/sshd", "-D", "-f", self.path("sshd_config")], stderr=subprocess.DEVNULL)
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        raise ConnectionError("the sshd does not listen")

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text, mode=0o600):
        with open(self.path(name), "w") as file:
            file.write(text)
        os.chmod(self.path(name), mode)
        return self.path(name)

    def connections(self):
        """Returns the processes of `ssh` to there."""
        return processes("cmdline", self.path("ssh_config"))

    def sessions(self):
        """Returns the processes of the `sshd` that serve one connection each."""
        with open(f"/proc/{self.sshd.pid}/task/{self.sshd.pid}/children") as children:
            return [int(pid) for pid in children.read().split()]

    def hosts(self):
        """Returns the terminal hosts there."""
        hosted = processes("cmdline", "--hosted")
        return [pid for pid in processes("environ", f"HOME={self.home}") if pid in hosted]

    def close(self):
        self.sshd.terminate()
        self.sshd.wait()
        # The terminal host there outlives its connections, and its terminals with it.
        for pid in processes("environ", f"HOME={self.home}"):
            kill(pid, signal.SIGKILL)
