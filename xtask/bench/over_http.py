"""What a cheap call costs over HTTP and over stdio, beside a bare server of the MCP library in the same run.

The client is this script, without an SDK: bare sockets that are kept open, and bare pipes. Calls go to one server after
the other in turns, so that what else the machine does is shared by all.
"""

import argparse
import datetime
import http.client
import json
import os
import resource
import socket
import statistics
import subprocess
import tempfile
import time

ROUNDS, CALLS, WARM = 20, 50, 100
STATES, FOLLOWERS, RUNS = 99, 1000, 5

MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
}


class Pipes:
    """A server on standard input and output."""

    def __init__(self, command, environment, tool):
        self.process = subprocess.Popen(command, env=environment, cwd=environment["HOME"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
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


def resting(states):
    """A machine of states that do nothing."""
    def state(number):
        rest = {"action": {"tool": "sleep", "params": {"seconds": 0}}}
        if number < states:
            rest["transitions"] = [{"condition": {"success": True}, "next_state": f"s{number + 1}"}]
        return rest
    return {
        "name": "resting", "initial_state": "wait",
        "states": {
            # Time for the followers to arrive.
            "wait": {"action": {"tool": "gate", "params": {"prompt": "Go on?", "answered_by": "anyone"}},
                     "transitions": [{"condition": "success", "next_state": "s1"}]},
            **{f"s{number}": state(number) for number in range(1, states + 1)},
        },
    }


def followed(port, headers, followers):
    """Returns the seconds from the answer to a gate to the end of a run of STATES, with so many who follow it."""
    def ask(method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request(method, path, json.dumps(body) if body is not None else None,
                           {**headers, "Content-Type": "application/json"})
        told = json.loads(connection.getresponse().read())
        connection.close()
        return told

    definition = {"workflow_definition": resting(STATES), "max_states": 1000, "wait_seconds": 30, "save_on_success": False}
    run = ask("POST", "/api/v1/runs", definition)
    assert run["status"] == "waiting", run
    path = f"/api/v1/runs/{run['run_id']}"
    sockets = []
    for _ in range(followers):
        follower = socket.create_connection(("127.0.0.1", port))
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        follower.sendall(f"GET {path}/events HTTP/1.1\r\nHost: localhost:{port}\r\n{head}\r\n".encode())
        assert follower.recv(12) == b"HTTP/1.1 200"
        sockets.append(follower)
    ask("POST", f"{path}/decide", {"answer": "yes"})
    told = ask("GET", f"{path}?wait_seconds=120")
    assert told["status"] == "completed", told
    for follower in sockets:
        follower.close()
    # By the run's own clock: the answer above waits behind what the followers are sent.
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", f"{path}/events", headers=headers)
    lines = connection.getresponse().read().decode().splitlines()
    connection.close()
    events = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    at = {event["event_type"]: datetime.datetime.fromisoformat(event["timestamp"].replace("Z", "+00:00")) for event in events}
    return (at["workflow_completed"] - at["gate_answered"]).total_seconds()


def main():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--steplatch", required=True)
    arguments.add_argument("--bare", required=True)
    arguments = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-") as home:
        environment = {**os.environ, "HOME": home, "XDG_RUNTIME_DIR": home, "STEPLATCH_STATE_DIR": f"{home}/state"}
        serve = subprocess.Popen(
            [arguments.steplatch, "serve", "--port", "0", "--json"], env=environment, cwd=home, stdout=subprocess.PIPE
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
            runs = {0: [], FOLLOWERS: []}
            for _ in range(RUNS):
                for followers, took in runs.items():
                    took.append(followed(port, token, followers))
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
    alone, crowd = (statistics.median(took) * 1000 for took in runs.values())
    for name, ours, theirs, target, reached in rows:
        shown = f"{median[theirs]:.3f} ({tail[theirs]:.3f})" if theirs else "–"
        print(f"| {name} | {median[ours]:.3f} ({tail[ours]:.3f}) | {shown} | {target} | {'yes' if reached else '**no**'} |")
    reached = "yes" if crowd <= 2 * alone else "**no**"
    print(f"| a run of {STATES} states that {FOLLOWERS:,} follow (ms), beside one that nobody does | {crowd:.0f} | {alone:.0f} alone | ≤ 2 × alone | {reached} |")


main()
