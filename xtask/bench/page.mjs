// What the page costs, and how fast it is: in a real browser, with a server and a daemon of its own.
//
// Environment: MODULES (the target directory with `playwright` and `xterm`), CHROMIUM. Arguments: the program, and the names of the
// measurements (all without one). Every measurement has its baseline in the same run, so that a row can be read whatever the
// machine: the same terminal without a viewer, the same browser without a server.

import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { createInterface } from "node:readline";
import { Worker } from "node:worker_threads";

const { MODULES, CHROMIUM } = process.env;
const { chromium } = createRequire(`${MODULES}/playwright/`)("playwright-core");
const [STEPLATCH, ...chosen] = process.argv.slice(2);

const KEYS = 200;
const FLOOD_SECONDS = 5;
const FLOOD_ROUNDS = 6;
const WALL = 200;
const STEPS = 10_000;
const STATES = 100;
const SOCKETS = 1000;
const TABS = 50;
const WAITS = 200;

/** Clock ticks a second, in which /proc counts. */
const TICKS = 100;

const home = mkdtempSync(`${tmpdir()}/bench-page-`);
const environment = { ...process.env, HOME: home, XDG_RUNTIME_DIR: home, STEPLATCH_STATE_DIR: `${home}/state`, STEPLATCH_TERMINALS_MAX: "300" };
const run = (...words) => execFileSync(STEPLATCH, words, { env: environment, cwd: home, encoding: "utf8" });

/** Returns the middle of some numbers, or another quantile of them. */
function quantile(numbers, part = 0.5) {
  const sorted = [...numbers].sort((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))];
}

const sleep = (milliseconds) => new Promise((over) => setTimeout(over, milliseconds));

/** Returns the processes of this home: those of the daemon, the terminal host and the server, by their command. */
function processes() {
  const found = {};
  for (const id of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      const words = readFileSync(`/proc/${id}/cmdline`, "utf8").split("\0");
      if (words[0] !== STEPLATCH || !readFileSync(`/proc/${id}/environ`, "utf8").includes(`HOME=${home}\0`)) continue;
      const role = ["terminal-host", "host", "daemon", "serve"].find((word) => words.includes(word));
      if (role) found[role === "host" ? "terminal-host" : role] = Number(id);
    } catch {
      // It has ended, or belongs to another user.
    }
  }
  return found;
}

/** Returns the processor time of a process, in seconds. */
function seconds(id) {
  const fields = readFileSync(`/proc/${id}/stat`, "utf8").replace(/^.*\) /, "").split(" ");
  return (Number(fields[11]) + Number(fields[12])) / TICKS;
}

/** Returns the processor time of each role since a moment, as a function that is called at its end. */
function meter() {
  const ids = processes();
  const before = Object.fromEntries(Object.entries(ids).map(([role, id]) => [role, seconds(id)]));
  return () => Object.fromEntries(Object.entries(ids).map(([role, id]) => [role, seconds(id) - before[role]]));
}

/** Returns the memory of the largest renderer of the browser, in MB. */
function rendererMemory() {
  const sizes = readdirSync("/proc").filter((name) => /^\d+$/.test(name)).map((id) => {
    try {
      if (!readFileSync(`/proc/${id}/cmdline`, "utf8").includes("--type=renderer")) return 0;
      return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${id}/status`, "utf8"))?.[1] ?? 0) / 1024;
    } catch {
      return 0;
    }
  });
  return Math.max(...sizes);
}

const serve = spawn(STEPLATCH, ["serve", "--port", "0", "--json"], { env: environment, cwd: home, stdio: ["ignore", "pipe", "inherit"] });
const told = JSON.parse((await createInterface(serve.stdout)[Symbol.asyncIterator]().next()).value);

async function ask(method, path, body) {
  const reply = await fetch(`${told.url}/api/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${told.token}`, "content-type": "application/json" },
    body: body && JSON.stringify(body),
  });
  const answer = await reply.json();
  if (!reply.ok) throw new Error(`${method} ${path}: ${answer.error}`);
  return answer;
}

/** Closes a terminal; one that a page held a moment ago is left to the end. */
const closes = (id) => ask("DELETE", `/terminals/${id}`).catch(() => {});

const terminal = async (name) => (await ask("POST", "/terminals", { shell: "bash", name })).session_id;
const types = (id, text) => ask("POST", `/terminals/${id}/input`, { input_text: text });

/** Opens a tab that is logged in, at a place of the page; in a window of its own if that is wanted. */
async function tab(context, place, inWindow = false) {
  const page = await (inWindow ? windowOf(context) : context.newPage());
  const known = context.pages().length > 1;
  const print = () => execFileSync("script", ["--quiet", "--return", "--command", `${STEPLATCH} open --print`, "/dev/null"], { env: environment, cwd: home, encoding: "utf8" }).trim();
  const ticket = known ? `${new URL(context.pages()[0].url()).origin}/` : print();
  await page.goto(ticket);
  await page.getByRole("heading", { name: "Terminals" }).waitFor();
  await page.goto(new URL(`#/${place}`, page.url()).href);
  return page;
}

/** Opens an empty window. */
async function windowOf(context) {
  const [first] = context.pages();
  const session = await context.newCDPSession(first);
  const { targetInfo } = await session.send("Target.getTargetInfo");
  const opened = context.waitForEvent("page");
  await session.send("Target.createTarget", { url: "about:blank", newWindow: true, browserContextId: targetInfo.browserContextId });
  await session.detach();
  return opened;
}

const rows = [];
/** Adds a row of the table. */
function row(what, measured, baseline, target, reached) {
  rows.push(`| ${what} | ${measured} | ${baseline} | ${target} | ${reached === null ? "–" : reached ? "yes" : "**no**"} |`);
  process.stderr.write(`${rows.at(-1)}\n`);
}

/** Fills a screen with words of which each has another colour than its neighbours. */
const COLOURS = "clear; for r in $(seq 36); do for c in $(seq 14); do printf '\\033[3%dmword%02d ' $(((r + c) % 8)) $c; done; echo; done; printf '\\033[0mfull-%s\\n' screen; ";

/** A key typed → its echo painted. The baseline is a page that shows the key itself. */
async function keys(browser) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 820 } });
  const measure = (page) => page.evaluate(() => {
    const times = (window.times = []);
    let pressed = 0;
    const channel = new MessageChannel();
    // After the frame in which the key is in the document.
    channel.port1.onmessage = () => {
      if (pressed) times.push(performance.now() - pressed);
      pressed = 0;
    };
    addEventListener("keydown", (event) => { pressed = event.timeStamp; }, true);
    const target = document.querySelector(".screen, .xterm-screen") ?? document.body;
    const frame = window.requestAnimationFrame.bind(window);
    const changes = new MutationObserver(() => frame(() => channel.port2.postMessage(0)));
    changes.observe(target, { childList: true, subtree: true, characterData: true });
    // What is changed within a frame is painted in it.
    window.requestAnimationFrame = (callback) => frame((now) => {
      callback(now);
      if (changes.takeRecords().length) channel.port2.postMessage(0);
    });
  });
  const press = async (page) => {
    for (let key = 0; key < KEYS; key += 1) {
      await page.keyboard.press("abcdefghij"[key % 10]);
      await sleep(40 + (key % 7) * 9);
    }
    return page.evaluate(() => window.times);
  };
  // A program reads the keys, and the kernel echoes them.
  const typed = async (before) => {
    const id = await terminal("keys");
    await types(id, `stty -icanon; ${before}cat > /dev/null\n`);
    if (before) await ask("POST", `/terminals/${id}/await`, { pattern: "full-screen", timeout: 30 });
    const page = await tab(context, `terminals/${id}`);
    await page.getByRole("button", { name: "Take over" }).click();
    await page.getByText("held by you").waitFor();
    await sleep(1000);
    await measure(page);
    const times = await press(page);
    // A terminal that is held is not closed.
    for (const _ of ["asks for a note", "hands back"]) await page.getByRole("button", { name: "Hand back" }).first().click();
    await page.getByRole("button", { name: "Take over" }).waitFor();
    await page.close();
    await closes(id);
    return times;
  };
  // Plain xterm.js on a pseudo-terminal with the same program.
  const typedInXterm = async () => {
    const here = new URL(".", import.meta.url).pathname;
    const server = spawn("python3", [`${here}on_terminal.py`, "stty -icanon; exec cat > /dev/null", process.execPath, `${here}xterm_page.mjs`, `${MODULES}/xterm`], { stdio: ["ignore", "pipe", "inherit"] });
    const { value: address } = await createInterface(server.stdout)[Symbol.asyncIterator]().next();
    const page = await context.newPage();
    await page.goto(address);
    await page.waitForFunction(() => document.title === "ready");
    await page.bringToFront();
    await sleep(1000);
    await measure(page);
    const times = await press(page);
    await page.close();
    server.kill();
    return times;
  };
  // By turns: what else runs on the machine meets both.
  const [ours, xterm] = [[], []];
  for (let round = 0; round < 3; round += 1) {
    xterm.push(...(await typedInXterm()));
    ours.push(...(await typed("")));
  }
  const full = await typed(COLOURS);
  const bare = await context.newPage();
  await bare.goto("about:blank");
  await bare.evaluate(() => addEventListener("keydown", (event) => {
    // As an answer of a server that takes no time.
    setTimeout(() => document.body.append(event.key), 0);
  }));
  await bare.bringToFront();
  await measure(bare);
  const own = await press(bare);
  const word = (times) => `${quantile(times).toFixed(1)} (${quantile(times, 0.95).toFixed(1)})`;
  row("a key typed → its echo painted (ms, 95th percentile)", word(ours), `${word(own)} shown by the page itself`, "≤ 8", quantile(ours) <= 8);
  row("… beside plain xterm.js on a bare pseudo-terminal, by turns (ms, 95th percentile)", word(ours), word(xterm), "≤ 1.1 ×", quantile(ours) <= 1.1 * quantile(xterm));
  row("… on a screen of 504 words in colours (ms, 95th percentile)", word(full), "–", "–", null);
  await context.close();
}

/** A flood with a viewer and without, by turns: what else runs on the machine meets both. */
async function floods(browser) {
  for (const [name, program] of [["yes", "yes"], ["counting", "seq 1 1000000000"]]) {
    const id = await terminal(name);
    // The program prints when it ended, by the clock that the page reads.
    const flood = `clear; timeout ${FLOOD_SECONDS} ${program}; echo ended-$(date +%s%3N)-\n`;
    const flooded = async () => {
      const end = meter();
      await types(id, flood);
      await ask("POST", `/terminals/${id}/await`, { pattern: "ended-\\d+-", timeout: FLOOD_SECONDS * 3 });
      return end();
    };
    const context = await browser.newContext({ viewport: { width: 1280, height: 820 } });
    const page = await tab(context, `terminals/${id}`);
    await page.locator(".screen .row").first().waitFor();
    await sleep(1000);
    const before = rendererMemory();
    const own = (cpu) => (cpu.daemon ?? 0) + (cpu["terminal-host"] ?? 0);
    const [alone, watched, served, late, memory] = [[], [], [], [], []];
    let frames = 0;
    for (let round = 0; round < FLOOD_ROUNDS; round += 1) {
      await page.goto(new URL("#/overview", page.url()).href);
      await page.getByRole("heading", { name: "Overview" }).waitFor();
      alone.push(own(await flooded()));
      await types(id, "clear\n");
      await page.goto(new URL(`#/terminals/${id}`, page.url()).href);
      await page.locator(".stage > .screen .row").first().waitFor();
      await sleep(500);
      await page.evaluate(() => {
        window.frames_painted = 0;
        window.caught_up = new Promise((seen) => {
          new MutationObserver(() => {
            window.frames_painted += 1;
            const ended = /ended-(\d+)-/.exec(document.querySelector(".stage > .screen").textContent);
            if (ended) requestAnimationFrame(() => seen(performance.timeOrigin + performance.now() - Number(ended[1])));
          }).observe(document.querySelector(".stage > .screen"), { childList: true, subtree: true, characterData: true });
        });
      });
      const cpu = await flooded();
      watched.push(own(cpu));
      served.push(cpu.serve);
      late.push(await page.evaluate(() => window.caught_up));
      frames += await page.evaluate(() => window.frames_painted);
      memory.push(rendererMemory() - before);
    }
    const sum = (numbers) => numbers.reduce((one, other) => one + other, 0);
    const each = (numbers) => `${sum(numbers).toFixed(1)} (${numbers.map((number) => number.toFixed(1)).join(", ")})`;
    const seconds = FLOOD_SECONDS * FLOOD_ROUNDS;
    row(`\`${program}\`, ${FLOOD_ROUNDS} × ${FLOOD_SECONDS} s: processor time of daemon and host (s)`, each(watched), `${each(alone)} without a viewer`, "≤ 1.1 ×", sum(watched) <= 1.1 * sum(alone));
    row("… of the server (s)", sum(served).toFixed(1), "–", "–", null);
    row("… memory of the page (MB more)", Math.max(...memory).toFixed(0), "–", "< 100", Math.max(...memory) < 100);
    row("… frames painted a second", (frames / seconds).toFixed(0), "–", "–", null);
    row("… printed → painted at its end (ms, median)", quantile(late).toFixed(0), "–", "≤ 50", quantile(late) <= 50);
    await context.close();
    await closes(id);
  }
}

/** Counts the frames of a page while something scrolls it. */
async function scrolled(page, selector) {
  return page.evaluate(async (selector) => {
    const area = selector ? document.querySelector(selector) : document.scrollingElement;
    const most = area.scrollHeight - area.clientHeight;
    const times = [];
    const began = performance.now();
    let last = began;
    await new Promise((over) => {
      const step = (now) => {
        times.push(now - last);
        last = now;
        const part = (now - began) / 3000;
        if (part >= 1) return over();
        area.scrollTop = most * part;
        requestAnimationFrame(step);
      };
      requestAnimationFrame(step);
    });
    times.sort((one, other) => one - other);
    return { frames: times.length / 3, slowest: times[Math.floor(times.length * 0.95)] };
  }, selector);
}

/** Many terminals on the wall, each of which prints something every second. */
async function wall(browser) {
  const ids = [];
  for (let number = 0; number < WALL; number += 1) ids.push(await terminal(`t${number}`));
  for (const id of ids) await types(id, "while sleep 1; do date; done\n");
  const idle = meter();
  await sleep(5000);
  const alone = idle();
  const context = await browser.newContext({ viewport: { width: 1280, height: 820 } });
  const began = performance.now();
  const page = await tab(context, "terminals");
  await page.waitForFunction((most) => {
    const thumbs = [...document.querySelectorAll(".thumb")];
    const seen = thumbs.filter((thumb) => thumb.getBoundingClientRect().top < innerHeight);
    return thumbs.length === most && seen.every((thumb) => thumb.textContent.length > 20);
  }, WALL);
  const shown = performance.now() - began;
  await sleep(2000);
  const watching = meter();
  await sleep(5000);
  const watched = watching();
  const { frames, slowest } = await scrolled(page, null);
  const own = (cpu) => ((cpu.daemon ?? 0) + (cpu["terminal-host"] ?? 0)) / 5 * 100;
  row(`${WALL} terminals: opened and logged in → those in view painted (ms)`, shown.toFixed(0), "–", "–", null);
  row("… frames a second while the wall is scrolled (95th percentile of a frame, ms)", `${frames.toFixed(0)} (${slowest.toFixed(0)})`, "–", "≥ 30", frames >= 30);
  row("… processor of daemon and host (% of one)", own(watched).toFixed(0), `${own(alone).toFixed(0)} without a viewer`, "–", null);
  row("… of the server (% of one)", ((watched.serve / 5) * 100).toFixed(0), ((alone.serve / 5) * 100).toFixed(0), "–", null);
  await context.close();
  for (const id of ids) await closes(id);
}

/** The timeline of a long run. */
async function timeline(browser) {
  writeFileSync(`${home}/many.py`, `
async def many(ctx):
    for i in range(${STEPS}):
        await ctx.run('identity', i)
    return 'done'
Workflow(id='many', session=session, fn=many)
`);
  run("workflow", "load", `${home}/many.py`);
  const { run_id: id } = await ask("POST", "/workflows/many/runs", { wait: false });
  for (let state = ""; !["completed", "failed"].includes(state); state = (await ask("GET", `/runs/${id}?wait_seconds=60`)).status);
  const context = await browser.newContext({ viewport: { width: 1280, height: 820 } });
  const page = await tab(context, "terminals");
  const began = performance.now();
  await page.goto(new URL(`#/runs/${id}`, page.url()).href);
  await page.waitForFunction((most) => Number(document.querySelector(".steps")?.dataset.count ?? document.querySelectorAll(".step").length) >= most, STEPS);
  const shown = performance.now() - began;
  const { frames, slowest } = await scrolled(page, ".steps");
  row(`a run of ${STEPS.toLocaleString("en")} steps: opened → painted (ms)`, shown.toFixed(0), "–", "–", null);
  row("… frames a second while it is scrolled (95th percentile of a frame, ms)", `${frames.toFixed(0)} (${slowest.toFixed(0)})`, "–", "≥ 30", frames >= 30);
  // A machine of many states, on its diagram.
  const state = (number) => ({ action: { tool: "sleep", params: { seconds: 0 } }, transitions: number + 1 < STATES ? [{ condition: "success", next_state: `s${number + 1}` }, { condition: { field_equals: { error: "x" } }, next_state: `s${(number * 7) % STATES}` }] : [] });
  const machine = { name: "large", initial_state: "s0", states: Object.fromEntries(Array.from({ length: STATES }, (_, number) => [`s${number}`, state(number)])) };
  const { run_id: large } = await ask("POST", "/runs", { workflow_definition: machine, wait_seconds: 60 });
  await page.goto(new URL(`#/runs/${large}`, page.url()).href);
  await page.getByRole("button", { name: "Diagram" }).click();
  await page.waitForFunction((most) => document.querySelectorAll('.diagram g[data-outcome="ok"]').length === most, STATES);
  await page.getByRole("button", { name: "1:1" }).click();
  const drawn = await scrolled(page, ".drawn");
  row(`a diagram of ${STATES} states: frames a second while it is scrolled (95th percentile of a frame, ms)`, `${drawn.frames.toFixed(0)} (${drawn.slowest.toFixed(0)})`, "–", "≥ 30", drawn.frames >= 30);
  await context.close();
}

/** Sockets of clients that have no session. */
async function sockets() {
  const memory = () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${processes().serve}/status`, "utf8"))?.[1] ?? 0) / 1024;
  const { connect } = await import("node:net");
  const opened = async (greet) => {
    const before = memory();
    const all = await Promise.all(Array.from({ length: SOCKETS }, () => new Promise((done) => {
      const socket = connect(Number(new URL(told.url).port), "127.0.0.1", () => { greet(socket); done(socket); });
      socket.on("error", () => {});
    })));
    await sleep(1500);
    const after = memory();
    for (const socket of all) socket.destroy();
    await sleep(1500);
    return after - before;
  };
  const idle = await opened(() => {});
  row(`${SOCKETS.toLocaleString("en")} connections without a request: memory of the server (MB more)`, idle.toFixed(1), "–", "≤ 10", idle <= 10);
  const heads = await opened((socket) => socket.write("GET /live HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"));
  row("… each with half a head (MB more)", heads.toFixed(1), "–", "–", null);
}

/** Many tabs on one terminal, and what a wait of an agent takes meanwhile. */
async function tabs(browser) {
  const id = await terminal("shared");
  const waits = async () => {
    const times = [];
    for (let number = 0; number < WAITS; number += 1) {
      const began = performance.now();
      await types(id, `echo $((${number} + 70000))-\n`);
      await ask("POST", `/terminals/${id}/await`, { pattern: `^${number + 70000}-`, timeout: 10 });
      times.push(performance.now() - began);
      await sleep(50);
    }
    return quantile(times);
  };
  await waits();
  const context = await browser.newContext({ viewport: { width: 1280, height: 820 } });
  const page = await tab(context, `terminals/${id}`);
  await page.locator(".screen .row", { hasText: "7000" }).first().waitFor();
  const address = new URL(page.url());
  const session = {
    url: `ws://${address.host}/live`, terminal: id, tabs: TABS,
    headers: { origin: address.origin, cookie: (await context.cookies()).map(({ name, value }) => `${name}=${value}`).join("; ") },
    half: await page.evaluate(() => JSON.parse(sessionStorage.getItem("steplatch")).half),
    build: await page.evaluate(() => document.body.dataset.build),
  };
  await page.goto(`${address.origin}/#/overview`);
  const alone = await waits();
  // Sockets as tabs have them, read in another thread: what the server does for a tab, without what a browser does.
  const sockets = new Worker(`
    const { workerData, parentPort } = require("node:worker_threads");
    let open = 0;
    for (let tab = 0; tab < workerData.tabs; tab += 1) {
      const socket = new WebSocket(workerData.url, { headers: workerData.headers });
      const send = (message) => socket.send(JSON.stringify(message));
      socket.onopen = () => {
        send({ do: "hello", half: workerData.half, build: workerData.build });
        send({ do: "watch", terminal: workerData.terminal, rate: "live" });
      };
      socket.onmessage = ({ data }) => {
        const message = JSON.parse(data);
        if (message.is !== "screen") return;
        send({ do: "ack", terminal: message.terminal, version: message.version });
        if (message.whole && (open += 1) === workerData.tabs) parentPort.postMessage("open");
      };
    }`, { eval: true, workerData: session });
  await new Promise((opened) => sockets.once("message", opened));
  const watched = await waits();
  await sockets.terminate();
  const again = await waits();
  row(`an input and the wait for its output, ${TABS} sockets of tabs on the terminal (ms)`, watched.toFixed(2), `${alone.toFixed(2)} and ${again.toFixed(2)} without one`, "≤ 2 more", watched <= Math.max(alone, again) + 2);
  // Tabs of a browser, each in a window of its own: what is behind another one is not painted.
  const painting = [];
  for (let number = 0; number < TABS; number += 1) painting.push(await tab(context, `terminals/${id}`, true));
  await Promise.all(painting.map((page) => page.locator(".stage > .screen .row").first().waitFor()));
  const paints = () => Promise.all(painting.map((page) => page.evaluate(() => {
    const [before, state] = [window.paints ?? 0, document.visibilityState];
    window.paints = 0;
    // What is changed is painted in the frame after.
    window.painted ??= new MutationObserver(() => requestAnimationFrame(() => (window.paints += 1)));
    window.painted.observe(document.querySelector(".stage > .screen"), { childList: true, subtree: true, characterData: true });
    return state === "visible" ? before : 0;
  })));
  await paints();
  const shown = await waits();
  await sleep(1000);
  const painted = await paints();
  const last = `${WAITS - 1 + 70000}-`;
  const current = await Promise.all(painting.map((page) => page.locator(".stage > .screen .row", { hasText: last }).count()));
  row(`… ${TABS} tabs of a browser on the same cores, all of them painting it (ms)`, shown.toFixed(2), `${alone.toFixed(2)} and ${again.toFixed(2)} without one`, "≤ 2 more", shown <= Math.max(alone, again) + 2);
  row("… frames that a tab painted meanwhile, fewest and median", `${Math.min(...painted)} and ${quantile(painted)}`, `${WAITS} inputs`, "≥ 1", Math.min(...painted) >= 1);
  row("… tabs that show the last line at the end", current.filter((count) => count > 0).length, "–", `${TABS}`, current.every((count) => count > 0));
  await context.close();
  await closes(id);
}

const ALL = { keys, floods, wall, timeline, sockets, tabs };
const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage"] });
try {
  await fetch(`${told.url}/api/v1/status`, { headers: { authorization: `Bearer ${told.token}` } });
  for (const [name, measure] of Object.entries(ALL)) {
    if (chosen.length === 0 || chosen.includes(name)) await measure(browser);
  }
} finally {
  await browser.close();
  serve.kill();
  run("daemon", "stop");
  rmSync(home, { recursive: true, force: true });
}
console.log("| what | measured | beside | target | reached |\n| --- | ---: | ---: | --- | --- |");
console.log(rows.join("\n"));
