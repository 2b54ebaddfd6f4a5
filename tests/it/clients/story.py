"""What every MCP client does with the server in these tests, whichever generation of the protocol it speaks.

A client is handed in as two functions: `call`, which calls a tool and returns an `Answer`, and `names`, which lists the
tools. `Refused` is what `call` raises when the protocol itself says no.
"""

import base64
import json
import os
from dataclasses import dataclass
from typing import Any



def server(arguments):
    """The server of a command, or at an address, as clients of today take it."""
    from mcp import StdioServerParameters

    if arguments[0].startswith("http"):
        return arguments[0]
    return StdioServerParameters(command=arguments[0], args=list(arguments[1:]), env=dict(os.environ))


TOOLS = {
    "open_terminal",
    "send_input",
    "await_output",
    "get_screen_content",
    "list_terminal_sessions",
    "exit_terminal",
}


class Refused(Exception):
    """The server answered with an error of the protocol."""


@dataclass
class Answer:
    """What a tool returned."""

    structured: Any
    text: str
    is_error: bool
    images: list[tuple[str, str]]


def expect(holds, what, *seen):
    """Ends the test with what was expected and what was seen instead."""
    if not holds:
        raise SystemExit(f"expected {what}; saw: {' '.join(map(str, seen))}")


async def drive(names, call):
    """Opens bash, computes in Python, reads, exits, and makes the mistakes that clients make."""

    async def done(tool, arguments):
        answer = await call(tool, arguments)
        expect(not answer.is_error, f"{tool} to work", answer.text)
        expect(
            json.loads(answer.text) == answer.structured,
            f"the text of {tool} to be its structured content",
            answer.text,
            answer.structured,
        )
        return answer.structured

    listed = await names()
    expect(TOOLS <= set(listed), f"the six tools of terminals, {sorted(TOOLS)}", listed)

    opened = await done("open_terminal", {"shell": "bash"})
    expect(opened["success"], "a terminal", opened)
    session = opened["session_id"]

    sent = await done("send_input", {"session_id": session, "input_text": "python3 -q\n"})
    expect(sent["success"], "typing to work", sent)
    waited = await done("await_output", {"session_id": session, "pattern": ">>> $", "timeout": 20})
    expect(waited["match_text"] == ">>> ", "Python's prompt", waited)

    # The same arguments again, in the two wrappings that clients of terminal-control-mcp use.
    await done("send_input", {"request": {"session_id": session, "input_text": "6*7\n"}})
    wrapped = json.dumps({"session_id": session, "pattern": r"^\d+$", "timeout": 20})
    waited = await done("await_output", {"request": wrapped})
    expect(waited["match_text"] == "42", "the product of 6 and 7, and not the line that was typed", waited)
    read = await done("get_screen_content", {"request": {"session_id": session}})
    expect("\n42\n" in read["screen_content"], "42 on the screen", read)
    expect(read["process_running"] is True, "a running program", read)

    seen = await call("get_screen_content", {"session_id": session, "format": "png"})
    expect([kind for kind, _ in seen.images] == ["image/png"], "an image", seen.text)
    expect(base64.b64decode(seen.images[0][1]).startswith(b"\x89PNG"), "a PNG", seen.images[0][1][:20])
    expect(len(seen.text) < 1000, "no image in the text", seen.text)

    await done("send_input", {"session_id": session, "input_text": "exit()\n"})
    waited = await done("await_output", {"session_id": session, "until": "prompt", "timeout": 20})
    expect(waited["reason"] == "prompt" and waited["exit_code"] == 0, "bash at its prompt again", waited)

    sessions = (await done("list_terminal_sessions", {}))["sessions"]
    expect(session in [one["session_id"] for one in sessions], "the terminal in the list", sessions)
    exited = await done("exit_terminal", {"session_id": session})
    expect(exited["message"] == "Session destroyed", "the terminal to be closed", exited)

    # A failure of the work and one of the arguments are errors that the model sees; a tool that does not exist is an
    # error of the protocol.
    unknown = await call("get_screen_content", {"session_id": session})
    expect(unknown.is_error and session in unknown.structured["error"], "an unknown session to be named", unknown)
    wrong = await call("open_terminal", {"cols": "wide"})
    expect(wrong.is_error and "cols" in wrong.text, "an argument of the wrong type to be named", wrong)
    try:
        surprise = await call("no_such_tool", {})
    except Refused as refused:
        expect("no_such_tool" in str(refused), "the unknown tool to be named", refused)
    else:
        expect(False, "an unknown tool to be refused", surprise)
