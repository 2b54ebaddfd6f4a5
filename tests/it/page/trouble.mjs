// What goes wrong: a question that changed, a daemon that is killed, another build of the page, a session that is ended; and
// secrets, which appear nowhere.

import { assert, given, isAccessible, isClean, open, play, shot, tell } from "./browser.mjs";

const SECRET = "tr0ub4dor-and-three";

await play(async (browser) => {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 } });
  const page = await open(context, given.url);
  const at = (place) => page.goto(new URL(`#/${place}`, page.url()).href);

  await page.getByRole("heading", { name: "Terminals" }).waitFor();

  // A secret that was typed as such is in no element, no message and no answer of the server.
  const frames = [];
  page.on("websocket", (socket) => socket.on("framereceived", ({ payload }) => frames.push(String(payload))));
  page.on("response", async (response) => {
    const text = await response.text().catch(() => "");
    frames.push(text);
  });
  await page.reload();
  const { session_id: id } = await tell({ agent: "opens" });
  await tell({ agent: "hides", text: SECRET });
  await tell({ agent: "types", text: `; clear; for i in 1 2 3; do echo "<$i:${SECRET}>"; done; echo done-$((40+2))\n` });
  const shown = async (what) => {
    assert.ok(!(await page.content()).includes(SECRET), `${what} shows a secret`);
  };
  await page.locator(".thumb .row", { hasText: "done-42" }).waitFor();
  await page.locator(".thumb .row", { hasText: "••••" }).first().waitFor();
  await shown("the wall");
  await at(`terminals/${id}`);
  await page.locator(".stage > .screen .row", { hasText: "<3:••••" }).waitFor();
  await shown("the terminal");
  await page.getByRole("button", { name: "Output" }).click();
  await page.locator(".scrollback .row", { hasText: "<3:••••" }).first().waitFor();
  await page.getByRole("button", { name: "Older output, as text" }).click();
  await page.locator(".output .text-line", { hasText: "<3:••••" }).first().waitFor();
  await shown("the output");

  // The search finds what is there, and not what is hidden.
  await page.getByRole("link", { name: "Search" }).click();
  await page.getByLabel("Search").fill("DONE-42");
  await page.getByRole("heading", { name: "Terminals (1)" }).waitFor();
  await isAccessible(page);
  await shot(page, "search");
  await page.locator(".lines-found a", { hasText: "done-42" }).click();
  await page.locator(".output .text-line", { hasText: /^done-42/ }).first().waitFor();
  await page.goBack();
  await page.getByLabel("Search").fill(SECRET.slice(0, -3));
  await page.getByText("Nothing was found.").waitFor();
  // Of many lines the newest come first, and older ones with "more".
  await tell({ agent: "types", text: "for i in $(seq 60); do echo quick-$i; done; echo listed-$((40+2))\n" });
  await tell({ agent: "waits", pattern: "listed-42" });
  await page.getByLabel("Search").fill("quick-");
  const lines = page.locator(".lines-found li");
  await lines.nth(4).waitFor();
  assert.deepEqual(await lines.allTextContents(), [60, 59, 58, 57, 56].map((number) => `quick-${number}`));
  await page.getByRole("button", { name: "More, older lines" }).click();
  await lines.nth(19).waitFor();
  assert.deepEqual((await lines.allTextContents()).slice(4, 7), ["quick-56", "quick-55", "quick-54"]);
  await isAccessible(page);
  await page.getByLabel("Search").fill("");
  await shown("the search");
  assert.ok(frames.length > 20 && !frames.some((frame) => frame.includes(SECRET)), "a message has a secret in it");

  // A question that changed since it was shown: the answer is refused, and the question shown again. A link answers nothing.
  const machine = { name: "deploy", initial_state: "ask", states: { ask: { action: { tool: "gate", params: { prompt: "Deploy?", choices: ["deploy", "stop"] } } } } };
  const { run_id: run } = await tell({ starts: machine });
  await at("gates");
  await page.getByRole("heading", { name: "Deploy?" }).waitFor();
  await page.locator(".answers button:not([data-inert])").first().waitFor();
  await page.route("**/gates/*", async (route) => {
    if (route.request().method() !== "POST") return route.continue();
    const body = route.request().postDataJSON();
    await route.continue({ postData: JSON.stringify({ ...body, digest: `0${body.digest.slice(1)}` === body.digest ? `1${body.digest.slice(1)}` : `0${body.digest.slice(1)}` }) });
  });
  await page.getByLabel("Approver's passphrase").fill("correct horse");
  await page.getByRole("button", { name: "deploy" }).click();
  await page.getByRole("alert").filter({ hasText: /changed|shown/i }).waitFor();
  await page.unroute("**/gates/*");
  const gate = (await tell({ run: ["gates", "list", "--json"] })).gates[0];
  const half = await page.evaluate(() => JSON.parse(sessionStorage.getItem("steplatch")).half);
  const statuses = await page.evaluate(async ([path, half]) => {
    const headers = { "steplatch-half": half };
    const get = await fetch(`${path}?answer=deploy&passphrase=correct%20horse`, { headers });
    const head = await fetch(path, { method: "HEAD", headers });
    return [get.status, head.status];
  }, [`/api/v1/runs/${run}/gates/${gate.gate_id}`, half]);
  assert.ok(statuses.every((status) => status >= 200 && status < 500), String(statuses));
  assert.equal((await tell({ run: ["gates", "list", "--json"] })).gates.length, 1, "looking answers nothing");

  // A wrong passphrase is refused; the right one is taken.
  await page.locator(".answers button:not([data-inert])").first().waitFor();
  await page.getByLabel("Approver's passphrase").fill("wrong horse");
  await page.getByRole("button", { name: "stop" }).click();
  await page.getByRole("alert").filter({ hasText: /passphrase/i }).waitFor();
  assert.equal((await tell({ run: ["gates", "list", "--json"] })).gates.length, 1);
  // The next one is checked after a pause.
  const answered = page.getByText(/^Answered/);
  await page.getByRole("alert").filter({ hasText: /wrong/i }).waitFor();
  for (let tries = 0; tries < 60 && !(await answered.isVisible()); tries += 1) {
    await page.getByLabel("Approver's passphrase").fill("correct horse").catch(() => {});
    await page.getByRole("button", { name: "stop" }).click({ timeout: 1000 }).catch(() => {});
    await answered.waitFor({ timeout: 1000 }).catch(() => {});
  }
  await answered.waitFor();

  // The daemon is killed: the page says so, and goes on by itself when it is back. Terminals are still there.
  await tell({ starts: machine });
  await page.getByRole("link", { name: "Inbox 1 open" }).waitFor();
  await at(`terminals/${id}`);
  await page.locator(".stage > .screen .row", { hasText: "listed-42" }).first().waitFor();
  await tell({ kills: "daemon" });
  await page.getByText("The daemon is not running").waitFor();
  await isAccessible(page);
  await page.getByRole("button", { name: "Start it" }).click();
  await page.getByText("The daemon is not running").waitFor({ state: "hidden" });
  await page.getByRole("button", { name: "Take over" }).click();
  await page.getByText("held by you").waitFor();
  await page.keyboard.type("echo after-$((40+2))\n");
  await page.locator(".stage > .screen .row", { hasText: "after-42" }).first().waitFor();
  await page.getByRole("button", { name: "Hand back" }).click();
  await page.getByRole("button", { name: "Hand back" }).click();
  await page.getByRole("button", { name: "Take over" }).waitFor();

  // The question that waited is locked. It is counted, and the passphrase opens it.
  await page.getByRole("link", { name: "Inbox 1 open" }).click();
  await page.getByRole("heading", { name: "1 question is locked" }).waitFor();
  assert.equal(await page.getByRole("heading", { name: "Deploy?" }).count(), 0);
  await isAccessible(page);
  await shot(page, "locked");
  const passphrase = page.getByLabel("Passphrase to unlock");
  const unlock = page.getByRole("button", { name: "Unlock" });
  await unlock.click();
  await page.getByRole("alert").filter({ hasText: "Type the approver's passphrase" }).waitFor();
  assert.ok(await passphrase.evaluate((field) => field === document.activeElement && field.getAttribute("aria-invalid") === "true"));
  await passphrase.fill("wrong horse");
  await unlock.click();
  await page.getByRole("alert").filter({ hasText: /wrong/i }).waitFor();
  const opened = page.getByRole("heading", { name: "Deploy?" });
  for (let tries = 0; tries < 60 && !(await opened.isVisible()); tries += 1) {
    await passphrase.fill("correct horse", { timeout: 1000 }).catch(() => {});
    await unlock.click({ timeout: 1000 }).catch(() => {});
    await opened.waitFor({ timeout: 1000 }).catch(() => {});
  }
  await opened.waitFor();
  await page.getByRole("heading", { name: /locked/ }).waitFor({ state: "hidden" });
  await page.getByRole("link", { name: "Inbox 1 open" }).waitFor();
  await at(`terminals/${id}`);

  // A page of another build loads the one that the server has.
  await page.addInitScript(() => {
    const loads = Number(sessionStorage.getItem("loads") ?? 0) + 1;
    sessionStorage.setItem("loads", String(loads));
    if (loads > 1) return;
    const changes = new MutationObserver(() => {
      if (!document.body) return;
      document.body.dataset.build = "another";
      changes.disconnect();
    });
    changes.observe(document, { childList: true, subtree: true });
  });
  await page.reload();
  await page.waitForFunction(() => sessionStorage.getItem("loads") === "2");
  await page.locator(".stage > .screen .row", { hasText: "after-42" }).first().waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.getItem("loads")), "2", "it was loaded once more");

  // A browser that is logged in needs no ticket, and uses none.
  const noTicket = page.getByRole("alert").filter({ hasText: /^This ticket is invalid or expired: .* get another one with: steplatch open$/ });
  await page.goto(new URL("/#ticket=none", page.url()).href);
  await page.getByRole("heading", { name: "Terminals" }).waitFor();
  assert.equal(await noTicket.count(), 0);
  assert.ok(!page.url().includes("ticket"), page.url());
  await isAccessible(page);
  await at(`terminals/${id}`);
  await page.locator(".stage > .screen .row", { hasText: "after-42" }).first().waitFor();

  // An address that names nothing says so, and leads on; also after a reload.
  for (const nowhere of ["runs/%", "nowhere", "constructor", "__proto__", "toString/x", "gates/x"]) {
    await at(nowhere);
    await page.getByRole("heading", { name: "No such page" }).waitFor();
  }
  await page.reload();
  await page.getByRole("heading", { name: "No such page" }).waitFor();
  await isAccessible(page);
  await page.getByRole("link", { name: "To the inbox" }).click();
  await page.getByRole("heading", { name: "Terminals" }).waitFor();
  for (const nothing of ["constructor", "__proto__"]) {
    await at(`terminals/${nothing}`);
    await page.getByRole("alert").filter({ hasText: `No terminal is open as ${nothing}.` }).waitFor();
  }
  await at("overview");
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  await page.locator(".skip").focus();
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => `${document.activeElement.id} ${location.hash}`), "main #/overview");

  // A name that turns around is shown by its characters.
  await tell({ run: ["terminal", "open", "--name", "a\u202egpj.exe", "--json", "--", "bash", "--norc"] });
  await at("terminals");
  const safe = "a⟨U+202E⟩gpj.exe";
  await page.getByRole("link", { name: safe }).waitFor();
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Go to" }).fill("gpj");
  await page.getByRole("option", { name: safe }).click();
  await page.getByRole("heading", { name: safe }).waitFor();
  assert.ok((await page.title()).startsWith(`(1) ${safe}`), await page.title());
  assert.ok(!(await page.content()).includes("\u202e"));
  await tell({ run: ["terminal", "close", "a\u202egpj.exe", "--json"] });

  // Where there is nothing, nothing can be done.
  await at("terminals/never-opened");
  await page.getByRole("alert").filter({ hasText: "No terminal is open as never-opened." }).waitFor();
  await page.getByRole("heading", { name: "never-opened" }).waitFor();
  assert.equal(await page.locator(".stage:visible, .head button:visible").count(), 0);
  await isAccessible(page);
  await at("workflows/never-saved");
  await page.getByRole("alert").filter({ hasText: "No workflow is saved as never-saved." }).waitFor();
  await at("runs/run_neverbegan");
  await page.getByRole("alert").filter({ hasText: "'run_neverbegan' not found" }).waitFor();
  await page.getByRole("heading", { name: "run_neverbegan" }).waitFor();
  assert.equal(await page.locator(".run:visible, .head button:visible").count(), 0);
  await isAccessible(page);
  await at(`terminals/${id}`);
  await page.locator(".stage > .screen .row", { hasText: "after-42" }).first().waitFor();

  // A session that is ended elsewhere acts on nothing more, a second later at the latest, also where the socket is open already.
  await tell({ run: ["serve", "sessions", "end", "--all", "--json"] });
  const ended = page.getByText("The session has ended");
  await page.getByRole("button", { name: "Take over" }).click();
  for (let tries = 0; tries < 60 && !(await ended.isVisible()); tries += 1) {
    await page.keyboard.press("ArrowUp");
    await ended.waitFor({ timeout: 250 }).catch(() => {});
  }
  await ended.waitFor();

  // Without a session the ticket opens nothing.
  await page.goto(new URL("/#ticket=none", page.url()).href);
  await noTicket.waitFor();
  assert.ok(!page.url().includes("ticket"), page.url());
  await isAccessible(page);
  await page.getByText("This browser is not logged in").waitFor();
  isClean(page);
});
