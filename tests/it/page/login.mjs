// A newcomer opens the page; a second tab needs no ticket; what is not the page gets nothing.

import { createServer } from "node:http";

import { assert, given, isAccessible, isClean, open, play, shot, tell } from "./browser.mjs";

const address = new URL(given.url).origin;

await play(async (browser) => {
  const context = await browser.newContext({ viewport: { width: 1200, height: 760 } });

  // Without a ticket the page says how to log in.
  const page = await open(context, address);
  await page.getByText("This browser is not logged in").waitFor();
  await isAccessible(page);
  await shot(page, "login");

  // An address without a name leads to the name, and keeps the ticket.
  await page.goto(given.url.replace("localhost", "127.0.0.1"));
  await page.getByRole("heading", { name: "Terminals" }).waitFor();
  assert.equal(page.url(), `${address}/`, "the ticket is in no history");
  await page.getByRole("link", { name: "Overview" }).click();
  await page.getByText("this one").waitFor();
  await isAccessible(page);
  await shot(page, "overview");

  // Neither half alone is a session.
  const half = await page.evaluate(() => JSON.parse(sessionStorage.getItem("steplatch")).half);
  const status = (headers) => page.evaluate((headers) => fetch("/api/v1/status", { headers }).then((reply) => reply.status), headers);
  assert.equal(await status({}), 401, "the cookie alone");
  assert.equal(await status({ "steplatch-half": `${half}x` }), 401);
  assert.equal(await status({ "steplatch-half": half }), 200);
  const cookies = await context.cookies();
  assert.deepEqual(cookies.map(({ httpOnly, sameSite, path }) => ({ httpOnly, sameSite, path })), [{ httpOnly: true, sameSite: "Strict", path: "/" }]);
  assert.equal(await page.evaluate(() => document.cookie), "");

  // A server at another port of the host may set cookies of the same name: for a path, and ones that begin alike.
  const [{ name, value }] = cookies;
  for (const [foreign, path] of [[name, "/api"], [`${name}x`, "/"], [name.replace(/-[^-]*$/, "-00000000"), "/"], [name.replace(/-[^-]*$/, ""), "/"]]) {
    await context.addCookies([{ name: foreign, value: "x", domain: "localhost", path, httpOnly: true, sameSite: "Strict" }]);
  }
  assert.equal(await status({ "steplatch-half": half }), 200, "foreign cookies end no session");
  await context.clearCookies();
  await context.addCookies([{ name, value, domain: "localhost", path: "/", httpOnly: true, sameSite: "Strict" }]);

  // A reload stays logged in, and so does another tab.
  await page.reload();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  const second = await open(context, address);
  await second.getByRole("heading", { name: "Terminals" }).waitFor();
  isClean(second);
  await second.close();

  // The browser's history has the address with the ticket: going there again ends nothing, in this tab and in a new one.
  await page.goto(given.url);
  await page.getByRole("heading", { name: "Terminals" }).waitFor();
  const again = await open(context, given.url);
  await again.getByRole("heading", { name: "Terminals" }).waitFor();
  assert.equal(again.url(), `${address}/`);
  assert.equal(await again.locator(".problem:visible").count(), 0);
  await again.close();
  assert.equal(await status({ "steplatch-half": half }), 200);
  assert.equal((await tell("sessions")).sessions.length, 1);
  await page.getByRole("link", { name: "Overview" }).click();
  await page.getByText("this one").waitFor();

  // A page of another port of localhost gets the cookie sent along, and nothing back.
  const other = createServer((_, reply) => reply.setHeader("content-type", "text/html").end("<h1>other</h1>"));
  await new Promise((listening) => other.listen(0, "localhost", listening));
  const foreign = await open(context, `http://localhost:${other.address().port}/`);
  const tries = await foreign.evaluate(async ([address, half]) => {
    const attempt = (path, init) => fetch(`${address}${path}`, { credentials: "include", ...init }).then((reply) => reply.status, () => "refused");
    const headers = { "steplatch-half": half };
    return [
      await attempt("/api/v1/status", { headers }),
      await attempt("/api/v1/status", {}),
      await attempt("/api/v1/terminals", { method: "POST", headers: { ...headers, "content-type": "application/json" }, body: "{}" }),
      await attempt("/page/session", { method: "POST", headers: { "content-type": "application/json" }, body: '{"ticket":"x"}' }),
      await attempt("/api/v1/status", { mode: "no-cors" }),
      await new Promise((opened) => {
        const socket = new WebSocket(`${address.replace("http", "ws")}/live`);
        socket.addEventListener("open", () => opened("open"));
        socket.addEventListener("error", () => opened("refused"));
      }),
    ];
  }, [address, half]);
  assert.deepEqual(tries, Array(6).fill("refused"));
  await foreign.close();
  other.close();

  // The used ticket opens nothing; it ends the session that it began, because two have it.
  const thief = await open(await browser.newContext(), given.url);
  await thief.getByText("was used before").waitFor();
  await page.reload();
  await page.getByText("The session has ended").waitFor();
  isClean(page);

  // Another ticket begins another session, which the person ends on the command line.
  await page.goto((await tell("open")).url);
  await page.getByRole("link", { name: "Overview" }).click();
  await page.getByText("this one").waitFor();
  assert.equal((await tell("sessions")).sessions.length, 1);
  await tell("end");
  await page.reload();
  await page.getByText("The session has ended").waitFor();
  isClean(page);

  // On a desktop the browser is started with a file, whose ticket no other program sees. The file goes once it is used.
  const desktop = await tell("desktop");
  assert.ok(!desktop.url.includes("ticket"), desktop.url);
  await page.goto(desktop.url);
  await page.getByRole("heading", { name: "Terminals" }).waitFor();
  assert.equal(page.url(), `${address}/`);
  assert.equal((await tell("used")).file, 1, "only that of the next ticket is there");
  isClean(page);
});
