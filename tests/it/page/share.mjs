// A read-only link: another person sees one terminal, and gets nothing else, whatever their browser sends.

import { assert, isAccessible, isClean, open, play, shot, tell } from "./browser.mjs";

await play(async (browser) => {
  const shared = await tell({ shares: "work", for: "30m" });
  assert.match(shared.url, /^http:\/\/localhost:\d+\/#share=[\w-]{40,}$/);
  const colleague = await browser.newContext({ viewport: { width: 1200, height: 760 } });
  const page = await open(colleague, shared.url);
  await page.locator(".screen .row", { hasText: "hello from work" }).first().waitFor();
  assert.ok(!page.url().includes("share="), "the ticket is in no history");
  await tell({ types: "echo later", into: "work" });
  await page.locator(".screen .row", { hasText: "later" }).first().waitFor();
  for (const name of ["Take over", "Close", "Files", "Output"]) assert.equal(await page.getByRole("button", { name }).count(), 0, name);
  assert.equal(await page.locator("nav:visible").count(), 0);
  await isAccessible(page);
  await shot(page, "shared");

  // A reload, another tab and an address of another view show the same.
  await page.reload();
  await page.locator(".screen .row", { hasText: "later" }).first().waitFor();
  await page.goto(`${new URL(page.url()).origin}/#/terminals`);
  await page.locator(".screen .row", { hasText: "later" }).first().waitFor();
  assert.equal(await page.getByText("secret place").count(), 0);
  const second = await open(colleague, shared.url);
  await second.locator(".screen .row", { hasText: "later" }).first().waitFor();
  await second.close();

  // Its halves are no session for requests.
  const half = await page.evaluate(() => JSON.parse(sessionStorage.getItem("steplatch")).half);
  const requests = [
    ["GET", "/api/v1/status"], ["GET", "/api/v1/terminals"], ["GET", `/api/v1/terminals/${shared.session_id}`], ["GET", "/api/v1/runs"],
    ["GET", `/api/v1/terminals/${shared.session_id}/scrollback`], ["GET", "/api/v1/page/sessions"], ["DELETE", "/api/v1/page/sessions"],
    ["POST", `/api/v1/terminals/${shared.session_id}/input`], ["DELETE", `/api/v1/terminals/${shared.session_id}`], ["POST", "/api/v1/terminals"],
    ["POST", "/api/v1/files/read"], ["PUT", "/api/v1/files"], ["PUT", "/page/uploads/a?offset=0"], ["POST", "/api/v1/approver/unlock"], ["POST", "/mcp"],
  ];
  for (const [method, path] of requests) {
    const status = await page.evaluate(async ({ method, path, half }) => {
      const body = method === "GET" || method === "DELETE" ? undefined : "{}";
      const reply = await fetch(path, { method, body, headers: { "steplatch-half": half, "content-type": "application/json" } });
      return reply.status;
    }, { method, path, half });
    assert.ok([401, 403, 404].includes(status), `${method} ${path}: ${status}`);
  }

  // Nor does its socket do more than show that terminal.
  const messages = [
    { do: "watch", terminal: "other" }, { do: "hold", terminal: shared.session_id, key: "k".repeat(32) }, { do: "type", terminal: shared.session_id, n: "1", text: "x" },
    { do: "size", terminal: shared.session_id, cols: 80, rows: 24 }, { do: "hand_back", terminal: shared.session_id, key: "k".repeat(32) },
    { do: "follow", run: "run_0123456789abcdef", from: 0 }, { do: "unfollow", run: "run_0123456789abcdef" }, { do: "watch", terminal: "work" },
  ];
  for (const message of messages) {
    const end = await page.evaluate(({ message, half }) => new Promise((resolve) => {
      const socket = new WebSocket(`ws://${location.host}/live`);
      const got = [];
      socket.addEventListener("open", () => socket.send(JSON.stringify({ do: "hello", half })));
      socket.addEventListener("message", ({ data }) => {
        got.push(JSON.parse(data).is);
        if (got.length === 1) socket.send(JSON.stringify(message));
      });
      socket.addEventListener("close", ({ code }) => resolve({ code, got }));
    }), { message, half });
    assert.deepEqual(end, { code: 4400, got: ["hello"] }, JSON.stringify(message));
  }
  const lists = await page.evaluate((half) => new Promise((resolve) => {
    const socket = new WebSocket(`ws://${location.host}/live`);
    socket.addEventListener("open", () => socket.send(JSON.stringify({ do: "hello", half })));
    socket.addEventListener("message", ({ data }) => {
      const message = JSON.parse(data);
      if (message.is === "hello") socket.send(JSON.stringify({ do: "lists" }));
      if (message.is === "lists") resolve(message);
    });
  }), half);
  assert.deepEqual(lists.terminals.map(({ session_id }) => session_id), [shared.session_id]);
  assert.deepEqual([lists.waiting, lists.runs], [[], []]);
  // One browser has few sockets, so that a link does not occupy the server. What happens elsewhere is not even announced.
  const many = await page.evaluate(async (half) => {
    const opened = () => new Promise((resolve) => {
      const socket = new WebSocket(`ws://${location.host}/live`);
      socket.addEventListener("open", () => socket.send(JSON.stringify({ do: "hello", half })));
      socket.addEventListener("message", () => resolve({ socket }));
      socket.addEventListener("close", ({ code }) => resolve({ code }));
    });
    const all = [];
    for (let number = 0; number < 12; number += 1) all.push(await opened());
    let messages = 0;
    const [{ socket }] = all;
    socket.addEventListener("message", () => (messages += 1));
    socket.send(JSON.stringify({ do: "lists" }));
    globalThis.countMessages = () => messages;
    globalThis.endSockets = () => all.forEach((one) => one.socket?.close());
    return all.map(({ code }) => code ?? 0);
  }, half);
  assert.ok(many.includes(1013) && many.filter((code) => code === 0).length <= 8, `${many}`);
  await page.waitForFunction(() => globalThis.countMessages() === 1);
  const { session_id: other } = await tell({ opens: true });
  await tell({ closes: other });
  await page.waitForTimeout(1500);
  assert.equal(await page.evaluate(() => globalThis.countMessages()), 1, "a link sees its own terminal only");
  await page.evaluate(() => globalThis.endSockets());

  // It is listed, and ended.
  const { sessions, shares } = await tell({ run: ["serve", "sessions", "--json"] });
  assert.deepEqual(sessions ?? [], []);
  assert.equal(shares.length, 1);
  assert.equal(shares[0].share_id, shared.share_id);
  assert.ok(shares[0].browsers >= 1);
  await tell({ run: ["serve", "sessions", "end", shared.share_id, "--json"] });
  // The other person is not told how to log in.
  await page.getByText("This link has expired or was ended").waitFor();
  assert.equal(await page.getByText("steplatch open").count(), 0);
  await page.reload();
  await page.getByText("This browser is not logged in").waitFor();
  await page.goto("about:blank");
  await page.goto(shared.url);
  await page.getByRole("alert").waitFor();

  // A program gets no link.
  const refused = await tell({ tries: "work" });
  assert.match(refused.error, /shared by a person/);
  assert.deepEqual(page.mistakes.filter((mistake) => !mistake.includes("WebSocket")), []);
  page.mistakes = [];
  isClean(page);
});
