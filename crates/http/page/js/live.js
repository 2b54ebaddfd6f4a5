// The socket of this tab: screens, holds, input and lists.
//
// It reconnects automatically. Terminals are watched again, and input that was not acknowledged is sent again under its
// number, which the server types once.

import { loggedOut } from "./api.js";
import { half, ownSession } from "./login.js";

/**
 * A message of the server; `is` says which.
 * @typedef {{ is: string, [field: string]: any }} Message
 */

/** How the socket is: connected, on its way, or connected to a server whose daemon is away. @typedef {"open" | "lost" | "away"} Link */

/** Pauses before attempts to connect, in milliseconds: the first and the longest. */
const PAUSES = [250, 5000];

/** @type {WebSocket | null} */
let socket = null;
let pause = PAUSES[0] ?? 250;
/** @type {number | undefined} */
let timer;
/** @type {Link} */
let link = "lost";

/** @type {Map<string, Set<(message: Message) => void>>} */
const listeners = new Map();

/** What is sent again after reconnecting, by its name. @type {Map<string, () => Record<string, any>>} */
const standing = new Map();

/** Input that is not acknowledged, in order. @type {Record<string, any>[]} */
let unacknowledged = [];

/** Whether the server has greeted this connection. Until then what was typed before it comes first, so nothing is sent. */
let isGreeted = false;

/** Distinguishes the inputs of this tab from those of others. */
const tab = Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, "0")).join("");
let lastInput = 0;

/** Opens the socket, if it is not open. */
export function connect() {
  clearTimeout(timer);
  if (socket || !half()) return;
  const opened = new WebSocket(`ws://${location.host}/live`);
  socket = opened;
  opened.addEventListener("open", () => {
    // A connection may be cut before its opening is handled.
    if (opened.readyState !== WebSocket.OPEN) return;
    opened.send(JSON.stringify({ do: "hello", half: half()?.half, build: document.body.dataset["build"] }));
  });
  opened.addEventListener("message", ({ data }) => {
    if (socket === opened) take(JSON.parse(data));
  });
  opened.addEventListener("close", ({ code }) => {
    if (socket !== opened) return;
    const wasGreeted = isGreeted;
    socket = null;
    isGreeted = false;
    setLink("lost");
    if (code === LOGGED_OUT) {
      loggedOut();
      return;
    }
    // A browser does not report the reason of a refusal.
    if (!wasGreeted) ownSession().then((session) => session === "ended" && loggedOut());
    timer = setTimeout(connect, pause * (0.75 + Math.random() / 2));
    pause = Math.min(pause * 2, PAUSES[1] ?? 5000);
  });
}

/** The code with which the server closes the socket of a session that has ended. */
const LOGGED_OUT = 4401;

/** Closes the socket for good. */
export function disconnect() {
  clearTimeout(timer);
  const open = socket;
  socket = null;
  isGreeted = false;
  open?.close();
  unacknowledged = [];
}

/** @param {Message} message */
function take(message) {
  switch (message.is) {
    case "hello":
      if (message["build"] !== document.body.dataset["build"]) {
        // The server has another version of the page.
        location.reload();
        return;
      }
      pause = PAUSES[0] ?? 250;
      isGreeted = true;
      setLink(message["daemon"] ? "open" : "away");
      // The server takes each connection for that of a tab that is shown.
      if (document.hidden) send({ do: "visible", visible: false });
      for (const again of standing.values()) send(again());
      for (const input of unacknowledged) send(input);
      return;
    case "daemon":
      setLink(message["here"] ? "open" : "away");
      return;
    case "typed":
      unacknowledged = unacknowledged.filter((input) => input["n"] !== message["n"]);
  }
  for (const listener of listeners.get(nameOf(message)) ?? []) listener(message);
}

/** @param {Message} message */
function nameOf(message) {
  return message["terminal"] ? `terminal ${message["terminal"]}` : message.is;
}

/** @param {Link} now */
function setLink(now) {
  if (link === now) return;
  link = now;
  for (const listener of listeners.get("link") ?? []) listener({ is: "link", now });
}

/** Returns how the socket is. @returns {Link} */
export function state() {
  return link;
}

/**
 * Listens to messages: those of a terminal as `terminal ID`, others by what they are, and changes of the link as `link`.
 * @param {string} name
 * @param {(message: Message) => void} listener
 * @returns {() => void} Ends it.
 */
export function on(name, listener) {
  const all = listeners.get(name) ?? new Set();
  listeners.set(name, all.add(listener));
  return () => all.delete(listener);
}

/**
 * Sends a message, if the server has greeted the connection.
 * @param {Record<string, any>} message
 */
export function send(message) {
  if (isGreeted && socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
}

/**
 * Sends a message now and after each reconnection, until it is ended.
 * @param {string} name
 * @param {() => Record<string, any>} message
 * @param {Record<string, any>} [end] What is sent in the end.
 * @returns {() => void} Ends it.
 */
export function keep(name, message, end) {
  standing.set(name, message);
  send(message());
  return () => {
    if (standing.get(name) !== message) return;
    standing.delete(name);
    if (end) send(end);
  };
}

/**
 * Types into a terminal, once and in order.
 * @param {string} terminal
 * @param {string} key The key that it is held with.
 * @param {{ keys?: string[], text?: string, paste?: string, mouse?: import("./mouse.js").MouseInput[] }} input
 */
export function type(terminal, key, input) {
  lastInput += 1;
  const message = { do: "type", terminal, key, n: `${tab}-${lastInput}`, ...input };
  unacknowledged.push(message);
  send(message);
}

addEventListener("online", () => connect());
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) {
    pause = PAUSES[0] ?? 250;
    connect();
  }
  send({ do: "visible", visible: !document.hidden });
});
