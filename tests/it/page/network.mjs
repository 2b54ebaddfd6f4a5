// A connection that is cut while a person types: what was sent and not received, and what was received and not acknowledged, is typed
// once. Messages are lost in both directions, as where a cable is pulled.

import { assert, given, isClean, open, play, tell } from "./browser.mjs";

await play(async (browser) => {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 } });
  /** The connections, and which directions of the last one still deliver. */
  const sockets = [];
  const delivers = { up: true, down: true };
  /** Messages of the server that are late, if they are. */
  let late = null;
  await context.routeWebSocket(/\/live$/, (page) => {
    const server = page.connectToServer();
    const own = { page, server };
    sockets.push(own);
    const isLast = () => sockets.at(-1) === own;
    page.onMessage((message) => {
      own.isOpen = true;
      if (isLast() && delivers.up) server.send(message);
    });
    server.onMessage((message) => {
      if (!isLast() || !delivers.down) return;
      if (late) late.push(() => page.send(message));
      else page.send(message);
    });
  });
  const page = await open(context, given.url);
  const { session_id: id } = await tell({ agent: "opens" });
  await page.goto(new URL(`#/terminals/${id}`, page.url()).href);
  await page.getByRole("button", { name: "Take over" }).click();
  await page.getByText("held by you").waitFor();
  await page.keyboard.type("clear; echo ready-$((40+2)); cat > typed\n");
  // What is typed before the shell has cleared its screen is echoed first, and cleared with it.
  await page.locator(".stage > .screen .row", { hasText: /^ready-42/ }).first().waitFor();

  /** Cuts the connection: what is on its way is lost, and both ends notice later. */
  async function cut() {
    const { page: ours, server } = sockets.at(-1);
    // Nothing is handed to a socket that is closing: the browser reports that as an error.
    Object.assign(delivers, { up: false, down: false });
    await Promise.all([ours.close({ code: 4000 }), server.close({ code: 4000 })]);
    Object.assign(delivers, { up: true, down: true });
  }

  const lines = [];
  for (const [round, lost] of [{ down: false }, { up: false }, { up: false, down: false }, { down: false }].entries()) {
    const before = sockets.length;
    const line = `line ${round} 0123456789 abcdefghijklmnopqrstuvwxyz`;
    lines.push(line);
    await page.keyboard.type(line.slice(0, 10));
    Object.assign(delivers, lost);
    await page.keyboard.type(line.slice(10, 30));
    const cutting = cut();
    await page.keyboard.type(`${line.slice(30)}\n`);
    await cutting;
    await page.waitForFunction(() => document.querySelector(".trouble")?.hidden !== false);
    while (sockets.length === before) await page.waitForTimeout(50);
    await page.locator(".stage > .screen .row", { hasText: line }).first().waitFor();
  }

  // What is typed when the next connection is open and its greeting is late comes behind what was typed before.
  const slow = "line 4 0123456789 abcdefghijklmnopqrstuvwxyz";
  lines.push(slow);
  const before = sockets.length;
  await page.keyboard.type(slow.slice(0, 10));
  const cutting = cut();
  late = [];
  await page.keyboard.type(slow.slice(10, 20));
  await cutting;
  while (sockets.length === before || !sockets.at(-1).isOpen) await page.waitForTimeout(50);
  await page.keyboard.type(`${slow.slice(20)}\n`);
  for (const arrives of late) arrives();
  late = null;
  await page.locator(".stage > .screen .row", { hasText: slow }).first().waitFor();
  await page.keyboard.press("Control+d");
  await page.keyboard.type("clear; cat typed; echo end-$((40+2))\n");
  await page.locator(".stage > .screen .row", { hasText: /^end-42/ }).first().waitFor();
  const shown = (await tell({ agent: "looks" })).screen_content.split("\n").map((row) => row.trimEnd());
  assert.deepEqual(shown.slice(0, shown.indexOf("end-42")), lines, "nothing is lost, and nothing is typed twice");
  await page.getByText("held by you").waitFor();
  isClean(page);
});
