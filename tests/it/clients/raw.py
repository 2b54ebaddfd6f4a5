"""Speaks to the server in bare lines, for what no client library lets one do: `raw.py COMMAND ARGUMENTS…`

Above all it ends the input at awkward moments. A server has to end with it, promptly and without an error, whatever is
under way. The promise is a tenth of a second; a machine that is busy with other tests gets a whole one.
"""

import json
import queue
import subprocess
import sys
import threading
import time

COMMAND = sys.argv[1:]
MOST_SECONDS_TO_END = 1.0
SECONDS_TO_ANSWER = 20.0

HANDSHAKE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "raw", "version": "1"},
}
# What a request of 2026-07-28 carries in place of a handshake.
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
}


class Server:
    """A server, and everything that it has written so far."""

    def __init__(self):
        self.child = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.messages = queue.Queue()
        self.strangers = []
        self.numbers = iter(range(1, 1000))
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.child.stdout:
            try:
                message = json.loads(line)
                if message["jsonrpc"] != "2.0":
                    raise ValueError(line)
                self.messages.put(message)
            except (ValueError, KeyError, TypeError):
                self.strangers.append(line)
        self.messages.put(None)

    def write(self, line):
        self.child.stdin.write(line)
        self.child.stdin.flush()

    def tell(self, method, **parameters):
        self.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": parameters}).encode() + b"\n")

    def request(self, method, **parameters):
        """Asks, and returns the number under which the answer will come."""
        number = next(self.numbers)
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}
        self.write(json.dumps(message).encode() + b"\n")
        return number

    def message(self, is_wanted, what):
        """Returns the next message that is wanted."""
        until = time.monotonic() + SECONDS_TO_ANSWER
        while True:
            try:
                message = self.messages.get(timeout=max(0, until - time.monotonic()))
            except queue.Empty:
                fail(f"{what} did not come within {SECONDS_TO_ANSWER:.0f} s")
            if message is None:
                fail(f"the server ended before {what} came")
            if is_wanted(message):
                return message

    def ask(self, method, **parameters):
        number = self.request(method, **parameters)
        answer = self.message(lambda message: message.get("id") == number, f"an answer to {method}")
        if "result" not in answer:
            fail(f"{method} was answered with {answer}")
        return answer["result"]

    def handshake(self):
        version = self.ask("initialize", **HANDSHAKE)["protocolVersion"]
        self.tell("notifications/initialized")
        return version

    def call(self, tool, **arguments):
        return self.ask("tools/call", name=tool, arguments=arguments)["structuredContent"]

    def ends_with_its_input(self):
        """Closes the input; checks the end and all that was written until then. Returns how long it took."""
        began = time.monotonic()
        self.child.stdin.close()
        try:
            code = self.child.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.child.kill()
            fail("the server was still there 30 s after the end of its input")
        took = time.monotonic() - began
        self.reader.join(timeout=5)
        if code != 0:
            fail(f"the server ended with exit code {code}")
        if self.strangers:
            fail(f"standard output is for the protocol alone, and had {self.strangers}")
        if took > MOST_SECONDS_TO_END:
            fail(f"the server took {took:.3f} s to end, {MOST_SECONDS_TO_END} s are allowed here")
        return took


class Failure(Exception):
    """Something is not as promised."""


def fail(what):
    raise Failure(what)


def input_ends_before_any_request():
    return Server().ends_with_its_input()


def input_ends_right_after_the_handshake():
    server = Server()
    server.handshake()
    return server.ends_with_its_input()


def input_ends_before_the_handshake_is_answered():
    server = Server()
    server.request("initialize", **HANDSHAKE)
    return server.ends_with_its_input()


def a_notification_comes_first():
    server = Server()
    server.tell("notifications/cancelled", requestId=7)
    server.tell("notifications/initialized")
    server.handshake()
    return server.ends_with_its_input()


def a_line_is_no_json():
    server = Server()
    server.handshake()
    server.write(b'{"jsonrpc": "2.0", "id": \n')
    server.write(b"\n")
    server.write(b"\xff\xfe no text at all\n")
    server.call("list_terminal_sessions")
    return server.ends_with_its_input()


def a_wait_is_under_way():
    server = Server()
    server.handshake()
    session = server.call("open_terminal")["session_id"]
    server.request("tools/call", name="await_output", arguments={"session_id": session, "pattern": "never", "timeout": 60})
    # An answer to a later request shows that the earlier one was taken.
    server.call("list_terminal_sessions")
    took = server.ends_with_its_input()
    # The terminal is still there for the next client, and can be closed.
    server = Server()
    server.handshake()
    if not server.call("exit_terminal", session_id=session)["success"]:
        fail("the terminal went away with the client")
    server.ends_with_its_input()
    return took


def somebody_listens_for_changes():
    server = Server()
    server.request("subscriptions/listen", _meta=MODERN, notifications={"toolsListChanged": True})
    acknowledged = "notifications/subscriptions/acknowledged"
    server.message(lambda message: message.get("method") == acknowledged, "the acknowledgement of listening")
    return server.ends_with_its_input()


def terminals_are_followed_in_both_ways():
    server = Server()
    server.handshake()
    session = server.call("open_terminal")["session_id"]
    screen, history = f"terminal://{session}/screen", f"terminal://{session}/history"
    server.ask("resources/subscribe", uri=screen)
    server.request("subscriptions/listen", _meta=MODERN, notifications={"resourceSubscriptions": [history]})
    acknowledged = "notifications/subscriptions/acknowledged"
    server.message(lambda message: message.get("method") == acknowledged, "the acknowledgement of listening")
    # Its answer may come after what is told, and is not waited for.
    server.request("tools/call", name="send_input", arguments={"session_id": session, "input_text": "echo told\n"})
    told = set()
    while told != {screen, history}:
        updated = lambda message: message.get("method") == "notifications/resources/updated"
        told.add(server.message(updated, "word of an update")["params"]["uri"])
    server.ask("resources/unsubscribe", uri=screen)
    server.request("tools/call", name="exit_terminal", arguments={"session_id": session})
    return server.ends_with_its_input()


def both_generations_speak_on_one_connection():
    server = Server()
    discovered = server.ask("server/discover", _meta=MODERN)
    if "2026-07-28" not in discovered["supportedVersions"]:
        fail(f"2026-07-28 is not among the versions of {discovered}")
    if server.handshake() != "2025-11-25":
        fail("the handshake after a discovery did not come to 2025-11-25")
    result = server.ask("tools/call", _meta=MODERN, name="list_terminal_sessions", arguments={})
    if result.get("resultType") != "complete":
        fail(f"a request of 2026-07-28 was answered with {result}")
    server.call("list_terminal_sessions")
    return server.ends_with_its_input()


def main():
    stories = [
        input_ends_before_any_request,
        input_ends_right_after_the_handshake,
        input_ends_before_the_handshake_is_answered,
        a_notification_comes_first,
        a_line_is_no_json,
        a_wait_is_under_way,
        somebody_listens_for_changes,
        terminals_are_followed_in_both_ways,
        both_generations_speak_on_one_connection,
    ]
    failures = 0
    for story in stories:
        name = story.__name__.replace("_", " ")
        try:
            print(f"{name}: ended {story() * 1e3:.1f} ms after its input", flush=True)
        except Failure as failure:
            failures += 1
            print(f"{name}: {failure}", flush=True)
    sys.exit(f"{failures} of {len(stories)} failed" if failures else 0)


main()
