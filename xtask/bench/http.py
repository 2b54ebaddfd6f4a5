"""What a cheap call costs over HTTP and over stdio, beside a bare server of the MCP library in the same run.

The client is this script, without an SDK: bare sockets that are kept open, and bare pipes. Calls go to one server after
the other in turns, so that what else the machine does is shared by all.
"""

import argparse
import http.client
import json
import os
import socket
import statistics
import subprocess
import tempfile
import time

ROUNDS, CALLS, WARM = 20, 100, 100

MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
}


class Pipes:
    """A server on standard input and output."""

    def __init__(self, command, environment, tool):
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.tool, self.asked = tool, 0
        client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        self.ask("initialize", client)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method, params):
        self.asked += 1
        self.send({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params})
        while True:
            answer = json.loads(self.process.stdout.readline())
            if answer.get("id") == self.asked:
                return answer["result"]

    def call(self):
        result = self.ask("tools/call", {"name": self.tool, "arguments": {}})
        assert not result.get("isError"), result

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Http:
    """A server on a port, asked over one connection that is kept open."""

    def __init__(self, port, headers, request):
        self.connection = http.client.HTTPConnection("127.0.0.1", port)
        self.connection.connect()
        self.connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.headers, self.request = headers, request

    def call(self):
        method, path, body = self.request
        self.connection.request(method, path, body, self.headers)
        response = self.connection.getresponse()
        said = response.read()
        assert response.status == 200, (response.status, said)

    def close(self):
        self.connection.close()


def over_mcp(port, tool, headers=()):
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": {}, "_meta": MODERN}}
    all_headers = {
        "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool, **dict(headers),
    }
    return Http(port, all_headers, ("POST", "/mcp", json.dumps(body)))


def measure(ways):
    """Returns for each way the milliseconds of every call."""
    for way in ways.values():
        for _ in range(WARM):
            way.call()
    times = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            for _ in range(CALLS):
                began = time.perf_counter()
                way.call()
                times[name].append((time.perf_counter() - began) * 1000)
    return times


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--steplatch", required=True)
    arguments.add_argument("--bare", required=True)
    arguments = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-") as home:
        environment = {**os.environ, "HOME": home, "XDG_RUNTIME_DIR": home, "STEPLATCH_STATE_DIR": f"{home}/state"}
        serve = subprocess.Popen(
            [arguments.steplatch, "serve", "--port", "0", "--json"], env=environment, stdout=subprocess.PIPE
        )
        told = json.loads(serve.stdout.readline())
        port = int(told["url"].rsplit(":", 1)[1])
        token = {"Authorization": f"Bearer {told['token']}"}
        bare = subprocess.Popen([arguments.bare, "http"], stdout=subprocess.PIPE)
        bare_port = int(bare.stdout.readline())
        cheap = "list_terminal_sessions"
        ways = {
            "stdio": Pipes([arguments.steplatch, "mcp"], environment, cheap),
            "bare stdio": Pipes([arguments.bare], environment, "nothing"),
            "http": over_mcp(port, cheap, token.items()),
            "bare http": over_mcp(bare_port, "nothing"),
            "rest": Http(port, token, ("GET", "/api/v1/terminals", None)),
        }
        try:
            times = measure(ways)
        finally:
            for way in ways.values():
                way.close()
            for process in (serve, bare):
                process.terminate()
                process.wait()
            subprocess.run([arguments.steplatch, "daemon", "stop"], env=environment, stdout=subprocess.DEVNULL, check=True)
    median = {name: statistics.median(all_times) for name, all_times in times.items()}
    tail = {name: statistics.quantiles(all_times, n=20)[-1] for name, all_times in times.items()}
    rows = [
        ("a tool over stdio (ms)", "stdio", "bare stdio", "≤ 0.2", median["stdio"] <= 0.2),
        ("… against the bare server", "stdio", "bare stdio", "≤ 2 × bare", median["stdio"] <= 2 * median["bare stdio"]),
        ("a tool over HTTP (ms)", "http", "bare http", "≤ 1", median["http"] <= 1),
        ("… against the bare server", "http", "bare http", "≤ 2 × bare", median["http"] <= 2 * median["bare http"]),
        ("the same over REST (ms)", "rest", None, "≤ 1", median["rest"] <= 1),
    ]
    print("| medians (95th percentile) | steplatch | bare rmcp server | target | reached |")
    print("| --- | ---: | ---: | --- | --- |")
    for name, ours, theirs, target, reached in rows:
        shown = f"{median[theirs]:.3f} ({tail[theirs]:.3f})" if theirs else "–"
        print(f"| {name} | {median[ours]:.3f} ({tail[ours]:.3f}) | {shown} | {target} | {'yes' if reached else '**no**'} |")


main()
