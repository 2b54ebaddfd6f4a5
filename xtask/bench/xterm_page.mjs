// A page with plain xterm.js on a pseudo-terminal: the baseline of a key typed in the page.
//
// Arguments: the directory with the packages @xterm/xterm and ws, and the descriptor of the terminal, which the parent has opened.
// Prints its address.

import { createServer } from "node:http";
import { readFileSync, write } from "node:fs";
import { createRequire } from "node:module";
import { ReadStream } from "node:tty";

const [packages, descriptor] = process.argv.slice(2);
const { WebSocketServer } = createRequire(`${packages}/`)("ws");
const asset = (name) => readFileSync(`${packages}/node_modules/@xterm/xterm/${name}`);
const PAGE = `<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="/xterm.css"><div id="terminal"></div>
<script src="/xterm.js"></script><script>
const terminal = new Terminal({ cols: 120, rows: 40 });
terminal.open(document.getElementById("terminal"));
const socket = new WebSocket("ws://" + location.host);
socket.onmessage = ({ data }) => terminal.write(data);
terminal.onData((data) => socket.send(data));
socket.onopen = () => { document.title = "ready"; terminal.focus(); };
</script>`;
const FILES = new Map([["/", ["text/html", PAGE]], ["/xterm.js", ["text/javascript", asset("lib/xterm.js")]], ["/xterm.css", ["text/css", asset("css/xterm.css")]]]);

const server = createServer((request, response) => {
  const [type, body] = FILES.get(request.url) ?? [];
  response.writeHead(body ? 200 : 404, { "content-type": type ?? "text/plain" }).end(body ?? "");
});
const sockets = new WebSocketServer({ server });
const terminal = new ReadStream(Number(descriptor));
terminal.setEncoding("utf8");
sockets.on("connection", (socket) => {
  terminal.on("data", (text) => socket.send(text));
  socket.on("message", (keys) => write(Number(descriptor), keys, () => {}));
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/`));
