// The look-only app: asks its host for what to show, and shows it as text. It has no way to answer a question.
"use strict";
(() => {
  /** @type {Map<number, (message: any) => void>} */
  const pending = new Map();
  let lastId = 0;
  /** What is shown: {session_id} or {run_id}. @type {Record<string, string> | null} */
  let shown = null;
  /** Number of the newest subject, so that an older look stops. */
  let subject = 0;
  let ended = false;

  /** @param {string} id @returns {HTMLElement} */
  const element = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

  /** @param {object} message */
  const send = (message) => window.parent.postMessage({ jsonrpc: "2.0", ...message }, "*");

  /** @param {string} method @param {object} params @returns {Promise<any>} */
  const request = (method, params) =>
    new Promise((resolve, reject) => {
      const id = ++lastId;
      pending.set(id, (message) => (message.error ? reject(new Error(message.error.message)) : resolve(message.result)));
      send({ id, method, params });
    });

  window.addEventListener("message", (event) => {
    const message = event.data;
    if (event.source !== window.parent || !message || message.jsonrpc !== "2.0") return;
    if (message.method === undefined) {
      const settle = pending.get(message.id);
      pending.delete(message.id);
      if (settle) settle(message);
      return;
    }
    switch (message.method) {
      case "ui/notifications/tool-input":
        take(message.params && message.params.arguments);
        break;
      case "ui/notifications/tool-result":
        take(message.params && message.params.structuredContent);
        break;
      case "ui/notifications/host-context-changed":
        applyContext(message.params);
        break;
      case "ui/resource-teardown":
        ended = true;
        send({ id: message.id, result: {} });
        break;
      default:
        if (message.id !== undefined) {
          const error = { code: -32601, message: "The app has no such method" };
          send(message.method === "ping" ? { id: message.id, result: {} } : { id: message.id, error });
        }
    }
  });

  /** @param {any} context */
  const applyContext = (context) => {
    const theme = context && context.theme;
    if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
  };

  /** Begins to show the terminal or the run that a call or its result names. @param {any} fields */
  const take = (fields) => {
    if (!fields || typeof fields !== "object") return;
    const name = typeof fields.run_id === "string" && fields.run_id ? "run_id" : "session_id";
    const value = fields[name];
    if (typeof value !== "string" || !value || (shown && shown[name] === value)) return;
    shown = { [name]: value };
    follow(++subject, shown);
  };

  /** Looks again at each change, until another subject is shown. @param {number} number @param {Record<string, string>} what */
  const follow = async (number, what) => {
    let seen;
    let failures = 0;
    while (number === subject && !ended) {
      if (document.hidden) {
        await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
        continue;
      }
      try {
        const result = await request("tools/call", { name: "look", arguments: seen ? { ...what, seen } : what });
        if (number !== subject || ended) return;
        const state = result && result.structuredContent;
        if (!state) throw new Error("The client passed on no data");
        failures = 0;
        if (state.version !== seen) show(state);
        seen = state.version;
        if (isOver(state)) return;
      } catch (error) {
        failures += 1;
        note(`Not up to date: ${error instanceof Error ? error.message : error}`);
        if (failures === 5) return;
        await new Promise((resolve) => setTimeout(resolve, 1000 * failures));
      }
    }
  };

  /** @param {any} state */
  const isOver = (state) =>
    state.run_id ? ["completed", "failed", "cancelled"].includes(state.status) : state.success === false || state.process_running === false;

  /** @param {string} text */
  const note = (text) => {
    element("note").textContent = text;
    element("note").hidden = !text;
  };

  /** @param {string} text @param {string} kind */
  const setState = (text, kind = "") => {
    const state = element("state");
    state.textContent = text;
    state.dataset.kind = kind;
  };

  /** @param {string} tag @param {string} text @param {string} [name] */
  const make = (tag, text, name) => {
    const made = document.createElement(tag);
    made.textContent = text;
    if (name) made.className = name;
    return made;
  };

  /** @param {any} state */
  const show = (state) => {
    note("");
    element("gate").hidden = true;
    if (state.run_id) showRun(state);
    else showTerminal(state);
    send({ method: "ui/notifications/size-changed", params: { height: Math.ceil(document.documentElement.scrollHeight) } });
  };

  /** @param {any} state */
  const showTerminal = (state) => {
    element("title").textContent = state.title || state.command || state.session_id;
    element("screen").hidden = state.success === false;
    draw(element("screen"), String(state.screen || ""));
    if (state.success === false) {
      setState("closed");
      note(state.error || "The terminal is closed.");
    } else if (state.process_running === false) {
      setState(`ended${state.exit_code === null ? "" : `, exit code ${state.exit_code}`}`, state.exit_code ? "bad" : "");
    } else if (state.password) {
      setState("asks for a password", "asks");
      ask("A program asks for a password", "Only a person types it.", [], state.url, "steplatch terminal secret");
    } else if (state.awaiting_input && state.busy !== false) {
      setState("waits for input", "asks");
    } else {
      setState(state.busy ? "busy" : "ready");
    }
  };

  /** @param {any} state */
  const showRun = (state) => {
    element("title").textContent = state.workflow_name || state.run_id;
    const kind = state.status === "failed" ? "bad" : state.pending_gate ? "asks" : "";
    setState(String(state.status || "unknown"), kind);
    const steps = element("steps");
    const log = Array.isArray(state.execution_log) ? state.execution_log : [];
    steps.replaceChildren(...log.filter((/** @type {any} */ entry) => entry.state).map(step));
    steps.hidden = steps.childElementCount === 0;
    const outcome = state.error || (state.status === "completed" ? state.result : null);
    const text = typeof outcome === "string" ? outcome : JSON.stringify(outcome, null, 2);
    element("result").hidden = outcome === null || outcome === undefined || text === "{}";
    element("result").textContent = text;
    const gate = state.pending_gate;
    if (gate) {
      const choices = Array.isArray(gate.choices) ? gate.choices.map(String) : [];
      ask("A question for a person", String(gate.prompt || ""), choices, state.url, "steplatch gates answer");
    }
  };

  /** @param {any} entry */
  const step = (entry) => {
    const row = document.createElement("li");
    row.append(make("span", String(entry.state), "name"), make("span", String(entry.tool || entry.phase || ""), "quiet"));
    const time = typeof entry.elapsed_time === "number" ? `${entry.elapsed_time.toFixed(1)} s` : "";
    row.append(make("span", entry.error ? `${time} failed` : time, "time quiet"));
    return row;
  };

  /** Shows a question, without a way to answer it. @param {string} title @param {string} question @param {string[]} choices @param {unknown} url @param {string} command */
  const ask = (title, question, choices, url, command) => {
    const gate = element("gate");
    gate.replaceChildren(make("h2", title), make("p", question, "question"));
    if (choices.length) {
      const list = document.createElement("ul");
      list.append(...choices.map((choice) => make("li", choice)));
      gate.append(list);
    }
    if (isLocal(url)) {
      const link = make("button", "Open the page to answer");
      link.addEventListener("click", () => request("ui/open-link", { url }).catch((error) => note(error.message)));
      gate.append(link);
    } else {
      gate.append(make("p", `Answer it in a terminal of your own: ${command}, or open the page: steplatch open`, "quiet"));
    }
    gate.hidden = false;
  };

  /** Returns whether this is an address of the page on this computer. @param {unknown} url */
  const isLocal = (url) => {
    try {
      const { protocol, hostname } = new URL(String(url));
      return protocol === "http:" && ["127.0.0.1", "localhost", "[::1]"].includes(hostname);
    } catch {
      return false;
    }
  };

  const PALETTE = ["#000000", "#f07178", "#8fd460", "#e8c468", "#7ab0ff", "#d79bff", "#66d9d0", "#dcdcdc", "#8a8f98", "#ff9ba0", "#b2f080", "#ffe08a", "#a6caff", "#e6bfff", "#90f0e8", "#ffffff"];

  /** @param {number} index */
  const indexed = (index) => {
    if (index < 16) return PALETTE[index];
    if (index > 231) return `rgb(${[0, 0, 0].map(() => 8 + (index - 232) * 10).join(",")})`;
    const level = (/** @type {number} */ part) => (part ? 55 + part * 40 : 0);
    const cube = index - 16;
    return `rgb(${[Math.floor(cube / 36), Math.floor(cube / 6) % 6, cube % 6].map(level).join(",")})`;
  };

  /** Draws text with colours (SGR). Everything else is text. @param {HTMLElement} target @param {string} text */
  const draw = (target, text) => {
    /** @type {{fg?: string, bg?: string, bold?: boolean, dim?: boolean, italic?: boolean, line?: boolean, inverse?: boolean}} */
    let style = {};
    const spans = [];
    for (const [index, part] of text.split(/\u001b\[([0-9;:]*)m/).entries()) {
      if (index % 2) {
        style = next(style, part.split(/[;:]/).map(Number));
      } else if (part) {
        const span = make("span", part);
        const [fg, bg] = style.inverse ? [style.bg || "#1e1e1e", style.fg || "#dcdcdc"] : [style.fg, style.bg];
        if (fg) span.style.color = fg;
        if (bg) span.style.background = bg;
        if (style.bold) span.style.fontWeight = "bold";
        if (style.dim) span.style.opacity = "0.7";
        if (style.italic) span.style.fontStyle = "italic";
        if (style.line) span.style.textDecoration = "underline";
        spans.push(span);
      }
    }
    target.replaceChildren(...spans);
  };

  /** Returns the style after an SGR sequence. @param {any} style @param {number[]} codes */
  const next = (style, codes) => {
    const result = { ...style };
    for (let at = 0; at < codes.length; at += 1) {
      const code = codes[at];
      if (code === 0) Object.keys(result).forEach((key) => delete result[key]);
      else if (code === 1) result.bold = true;
      else if (code === 2) result.dim = true;
      else if (code === 3) result.italic = true;
      else if (code === 4) result.line = true;
      else if (code === 7) result.inverse = true;
      else if (code === 22) result.bold = result.dim = false;
      else if (code === 23) result.italic = false;
      else if (code === 24) result.line = false;
      else if (code === 27) result.inverse = false;
      else if (code === 39) delete result.fg;
      else if (code === 49) delete result.bg;
      else if (code === 38 || code === 48) {
        const key = code === 38 ? "fg" : "bg";
        if (codes[at + 1] === 5) result[key] = indexed(codes[(at += 2)]);
        else if (codes[at + 1] === 2) result[key] = `rgb(${codes.slice(at + 2, (at += 4) + 1).join(",")})`;
      } else if (code >= 30 && code <= 37) result.fg = PALETTE[code - 30];
      else if (code >= 40 && code <= 47) result.bg = PALETTE[code - 40];
      else if (code >= 90 && code <= 97) result.fg = PALETTE[code - 82];
      else if (code >= 100 && code <= 107) result.bg = PALETTE[code - 92];
    }
    return result;
  };

  const appInfo = { name: "steplatch", version: "1" };
  request("ui/initialize", { protocolVersion: "2026-01-26", appInfo, appCapabilities: {} })
    .then((result) => {
      applyContext(result.hostContext);
      send({ method: "ui/notifications/initialized", params: {} });
    })
    .catch((error) => note(`The client does not show this app: ${error.message}`));
})();
