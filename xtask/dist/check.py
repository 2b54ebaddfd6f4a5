#!/usr/bin/env python3
"""Installs each package as a user gets it, offline and into an empty home, and does the first things there.

`cargo xtask dist --check` makes the packages and then runs it. For each package: install, `--version`, the tools over MCP,
a workflow, `doctor`, `uninstall --purge`, removal. Nothing may be left in the home but what the package manager leaves
of its own. No program reaches the network: the registries are off, and the proxy is a closed port. The files for other
channels are compared with the packages (`channels_check.py`).
"""

import argparse
import glob
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time

from channels_check import Broken, check_channels

# Files that the package managers and the shell leave in a home.
LEFT_BY_OTHERS = (".bash_history", ".cache", ".config/pip", ".npm", ".rustup")

# A port that nothing listens on.
CLOSED_PROXY = "http://127.0.0.1:9"


class Home:
    """An empty home, and the programs that find it."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="home")
        self.runtime = tempfile.mkdtemp(prefix="run")
        self.environment = {
            "HOME": self.folder, "XDG_RUNTIME_DIR": self.runtime, "PATH": os.environ["PATH"], "LANG": "C.UTF-8",
            "SHELL": "/bin/bash", "PIP_NO_INDEX": "1", "npm_config_offline": "true", "npm_config_update_notifier": "false",
            "http_proxy": CLOSED_PROXY, "https_proxy": CLOSED_PROXY,
        }

    def run(self, *command, folder=None, **options):
        done = subprocess.run(
            command, cwd=folder or self.folder, env=self.environment, capture_output=True, text=True, check=False, **options
        )
        if done.returncode != 0:
            raise Broken(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def files(self):
        """Returns the files in the home, without those of package managers and the shell."""
        found = []
        for folder, _, names in os.walk(self.folder):
            inner = os.path.relpath(folder, self.folder)
            found += [os.path.normpath(os.path.join(inner, name)) for name in names]
        return sorted(path for path in found if not path.startswith(LEFT_BY_OTHERS))

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(self.runtime, ignore_errors=True)


class Package:
    """A package, with the commands that install, start and remove it."""

    def __init__(self, name, install, start, remove):
        self.name, self.install, self.start, self.remove = name, install, start, remove


def packages(folder):
    def one(pattern):
        [found] = glob.glob(os.path.join(folder, pattern))
        return found
    launcher, platform = one("steplatch-?.?.?.tgz"), one("steplatch-*-linux-x64.tgz")
    archive, wheel, deb, bundle = one("*-gnu.tar.gz"), one("*.whl"), one("*.deb"), one("*.mcpb")

    def unpack(archive):
        return lambda home: home.run("tar", "xzf", archive, "--strip-components=1", "--one-top-level=unpacked")

    def make_venv(home):
        home.run(sys.executable, "-m", "venv", "venv")
        home.run("venv/bin/pip", "install", "--quiet", "--no-index", "--disable-pip-version-check", wheel)

    def npm(home):
        os.makedirs(os.path.join(home.folder, "project"))
        home.run("npm", "init", "--yes", folder=os.path.join(home.folder, "project"))
        home.run(
            "npm", "install", "--offline", "--ignore-scripts", "--no-audit", "--no-fund",
            f"steplatch-linux-x64@file:{platform}", launcher, folder=os.path.join(home.folder, "project"),
        )

    def remove_folder(name):
        return lambda home: shutil.rmtree(os.path.join(home.folder, name))

    return [
        Package("tarball", unpack(archive), ["unpacked/steplatch"], remove_folder("unpacked")),
        Package("npm", npm, ["project/node_modules/.bin/steplatch"], remove_folder("project")),
        Package("wheel", make_venv, ["venv/bin/steplatch"], remove_folder("venv")),
        Package("deb", lambda home: home.run("dpkg", "--install", deb), ["/usr/bin/steplatch"],
                lambda home: home.run("dpkg", "--purge", "steplatch")),
        Package("mcpb", lambda home: home.run(sys.executable, "-m", "zipfile", "-e", bundle, "bundle"),
                ["bundle/server/steplatch"], remove_folder("bundle")),
    ] + [
        # Made on request only.
        Package("static", unpack(found), ["unpacked/steplatch"], remove_folder("unpacked"))
        for found in glob.glob(os.path.join(folder, "*-static.tar.gz"))
    ]


def list_tools(home, program):
    """Returns the names of the tools, over MCP."""
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "check", "version": "1"}}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    served = subprocess.Popen(
        [*program, "mcp"], cwd=home.folder, env=home.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with served:
        served.stdin.write("".join(json.dumps(message) + "\n" for message in messages))
        served.stdin.flush()
        for line in served.stdout:
            message = json.loads(line)
            if message.get("id") == 2:
                served.stdin.close()
                return {tool["name"] for tool in message["result"]["tools"]}
    raise Broken("tools/list has no answer")


def check_without_libc(home, program):
    """Starts the program where there is nothing but the kernel's files: no C library, no shell."""
    root = os.path.join(home.folder, "root")
    for folder in ["dev", "etc", "proc", home.folder[1:], home.runtime[1:]]:
        os.makedirs(os.path.join(root, folder))
    # The devices that every container has. Without the C library of the system, random bytes are read from one.
    for name, minor in [("null", 3), ("random", 8), ("urandom", 9)]:
        os.mknod(os.path.join(root, "dev", name), stat.S_IFCHR | 0o666, os.makedev(1, minor))
    with open(os.path.join(root, "etc/hosts"), "w", encoding="utf8") as file:
        file.write("127.0.0.1 localhost\n")
    shutil.copy(program, root)
    namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child", f"--root={root}", "--mount-proc=/proc"]
    bare = [*namespaces, "/steplatch"]
    home.run(*bare, "daemon", "start")
    # The server resolves the name.
    serve = [*bare, "serve", "--host", "localhost", "--port", "0", "--json"]
    with subprocess.Popen(serve, env=home.environment, stdout=subprocess.PIPE, text=True) as served:
        answer = json.loads(served.stdout.readline() or '{"success": false, "error": "it ends at once"}')
        served.kill()
    if not answer["success"]:
        raise Broken(f"without a C library: {answer['error']}")
    shutil.rmtree(root)


def check(package, version, hello):
    home = Home()
    try:
        before = set(home.files())
        began = time.monotonic()
        package.install(home)
        program = [os.path.join(home.folder, package.start[0]), *package.start[1:]]
        if package.name == "mcpb":
            # Python's zipfile drops the modes, which clients keep.
            os.chmod(program[0], 0o755)
        printed = home.run(*program, "--version").strip()
        if not printed.startswith(f"steplatch {version}"):
            raise Broken(f"the version is '{printed}'")
        if "completed" not in home.run(*program, "run", hello):
            raise Broken("the first workflow does not complete")
        seconds = time.monotonic() - began
        tools = list_tools(home, program)
        if not {"open_terminal", "run_command", "run_workflow"} <= tools:
            raise Broken(f"the tools are {sorted(tools)}")
        if package.name == "static":
            check_without_libc(home, program[0])
        os.makedirs(os.path.join(home.folder, ".cursor"))
        home.run(*program, "setup")
        home.run(*program, "uninstall", "--purge", "--yes")
        package.remove(home)
        left = [path for path in home.files() if path not in before]
        if left:
            raise Broken(f"it leaves {', '.join(left)}")
        print(f"{package.name:8} installed, run and removed; {seconds:.1f} s until the first workflow had ended")
    finally:
        home.remove()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", required=True, help="where the packages are")
    parser.add_argument("--version", required=True, help="the version that they have")
    parser.add_argument("--hello", required=True, help="the first workflow")
    options = parser.parse_args()
    hello, folder = os.path.abspath(options.hello), os.path.abspath(options.folder)
    try:
        check_channels(folder, options.version)
    except Broken as broken:
        raise SystemExit(str(broken)) from None
    for package in packages(folder):
        try:
            check(package, options.version, hello)
        except Broken as broken:
            raise SystemExit(f"{package.name}: {broken}") from None


if __name__ == "__main__":
    main()
