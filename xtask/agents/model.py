"""A stand-in for the models of AI agents, behind the interfaces of Anthropic, OpenAI and Google.

The last text of the user decides the answer: with SLOW it takes a minute, with RUN it is a command to execute, and with
QUOTE it contains what the agents draw when they ask or work. After a command the answer is one sentence.
"""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMAND = "sleep 15; curl -s http://127.0.0.1:9/orders"
QUOTE = [
    "The dialogs:\n\n❯ 1. Yes\n\n", "Esc to cancel\n\n", "• Working (3s • esc to interrupt)\n\n",
    "Press enter to confirm or esc to cancel\n\n", "△ Permission required\n\nAllow once  Reject\n\n", "esc interrupt",
]


def last_input(body):
    """Returns the last text of the user, and whether it is the result of a tool."""
    messages = body.get("messages") or body.get("input") or body.get("contents") or []
    for message in reversed(messages if isinstance(messages, list) else []):
        if message.get("type") in ("function_call_output", "custom_tool_call_output") or message.get("role") == "tool":
            return "", True
        if message.get("role") != "user":
            continue
        content = message.get("content") or message.get("parts") or ""
        if isinstance(content, str):
            return content, False
        is_result = any(part.get("type") == "tool_result" or "functionResponse" in part for part in content)
        return "".join(part.get("text") or "" for part in content), is_result
    return "", False


class Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, value, status=200):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.reply({"data": [{"id": "model", "object": "model"}], "models": []} if "models" in self.path else {})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        self.text, self.is_result = last_input(body)
        self.runs = "RUN" in self.text and not self.is_result
        try:
            if "ount" in self.path and "okens" in self.path:
                self.reply({"input_tokens": 10, "totalTokens": 10})
            elif "/messages" in self.path:
                self.anthropic(body)
            elif self.path.endswith("/responses"):
                self.openai(body)
            elif "enerateContent" in self.path:
                self.google()
            else:
                self.reply({})
        except (BrokenPipeError, ConnectionResetError):
            pass

    def words(self):
        if self.is_result:
            yield from ["Done ", "with it."]
        elif "QUOTE" in self.text:
            yield from QUOTE
        elif "SLOW" in self.text:
            for step in range(60):
                yield f"Step {step} of many. "
                time.sleep(1)
        else:
            yield from ["Hello, ", "I am a model."]

    def begin(self):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True

    def event(self, value):
        kind = f"event: {value['type']}\n" if "type" in value else ""
        self.wfile.write(f"{kind}data: {json.dumps(value)}\n\n".encode())
        self.wfile.flush()

    def anthropic(self, body):
        message = {"id": "m", "type": "message", "role": "assistant", "model": "model", "content": [], "stop_reason": None}
        usage = {"input_tokens": 1, "output_tokens": 1}
        if not body.get("stream"):
            title = [{"type": "text", "text": '{"title": "hello"}'}]
            return self.reply(message | {"content": title, "stop_reason": "end_turn", "usage": usage})
        names = [tool.get("name") or "" for tool in body.get("tools", [])]
        shell = next((name for name in names if name.lower() in ("bash", "shell")), None)
        runs = self.runs and shell is not None
        self.begin()
        self.event({"type": "message_start", "message": message | {"usage": usage}})
        block = {"type": "tool_use", "id": "toolu_1", "name": shell, "input": {}} if runs else {"type": "text", "text": ""}
        self.event({"type": "content_block_start", "index": 0, "content_block": block})
        call = json.dumps({"command": COMMAND, "description": "Fetch the orders"})
        deltas = ({"type": "text_delta", "text": word} for word in self.words())
        for delta in [{"type": "input_json_delta", "partial_json": call}] if runs else deltas:
            self.event({"type": "content_block_delta", "index": 0, "delta": delta})
        self.event({"type": "content_block_stop", "index": 0})
        reason = {"stop_reason": "tool_use" if runs else "end_turn"}
        self.event({"type": "message_delta", "delta": reason, "usage": {"output_tokens": 5}})
        self.event({"type": "message_stop"})

    def openai(self, body):
        self.begin()
        self.event({"type": "response.created", "response": {"id": "r", "output": []}})
        names = [tool.get("name") for tool in body.get("tools", [])]
        if self.runs:
            name = next((name for name in names if name in ("exec_command", "shell_command", "shell")), "shell")
            arguments = {
                "exec_command": {"cmd": COMMAND, "sandbox_permissions": "require_escalated", "justification": "Fetch?"},
                "shell_command": {"command": COMMAND},
                "shell": {"command": ["bash", "-lc", COMMAND]},
            }[name]
            item = {"type": "function_call", "id": "f", "call_id": "c", "name": name, "arguments": json.dumps(arguments)}
        else:
            item = {"type": "message", "id": "i", "role": "assistant", "content": []}
            self.event({"type": "response.output_item.added", "output_index": 0, "item": item})
            place, text = {"item_id": "i", "output_index": 0, "content_index": 0}, ""
            for word in self.words():
                text += word
                self.event({"type": "response.output_text.delta", "delta": word} | place)
            item["content"] = [{"type": "output_text", "text": text}]
        self.event({"type": "response.output_item.done", "output_index": 0, "item": item})
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        self.event({"type": "response.completed", "response": {"id": "r", "output": [item], "usage": usage}})

    def google(self):
        def answer(part, **fields):
            return {"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0} | fields]}

        if "stream" not in self.path:
            return self.reply(answer({"text": '{"next_speaker": "user"}'}, finishReason="STOP"))
        self.begin()
        if self.runs:
            call = {"name": "run_shell_command", "args": {"command": COMMAND, "description": "Fetch the orders"}}
            self.event(answer({"functionCall": call}, finishReason="STOP"))
        else:
            for word in self.words():
                self.event(answer({"text": word}))
            self.event(answer({"text": " "}, finishReason="STOP"))


def start():
    """Serves the model in the background and returns its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"
