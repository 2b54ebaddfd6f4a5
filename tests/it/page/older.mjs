// Versions that meet: terminals of a host of an older version are shown and typed into, and the overview says what follows; a server
// that is replaced by another version's is found again.

import { assert, given, isAccessible, isClean, open, play, shot, tell } from "./browser.mjs";

await play(async (browser) => {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 } });
  const page = await open(context, given.url);
  await page.getByRole("heading", { name: "Terminals" }).waitFor();
  const row = (text) => page.locator(".stage > .screen .row", { hasText: text }).first();

  // The wall and the terminal are looked at now and then, because the host reports no changes.
  await page.locator(".thumb .row", { hasText: "from before" }).first().waitFor();
  const { session_id: id } = await tell({ agent: "looks" });
  await page.goto(new URL(`#/terminals/${id}`, page.url()).href);
  await row("from before").waitFor();
  await page.getByRole("button", { name: "Take over" }).click();
  await page.getByText("held by you").waitFor();
  await page.keyboard.type("echo typed-$((40+2))\n");
  await row(/^typed-42/).waitFor();
  const refused = await tell({ agent: "tries" });
  assert.match(refused.error, /held|holds/);
  await page.getByRole("button", { name: "Hand back" }).click();
  await page.getByRole("button", { name: "Hand back" }).click();
  await page.getByText(/^held by/).waitFor({ state: "hidden" });
  await tell({ agent: "types", text: "echo agent-$((40+2))\n" });
  await row(/^agent-42/).waitFor();

  // It gives no cells of what scrolled away: the output is text.
  await page.getByRole("button", { name: "Output" }).click();
  await page.locator(".output .text-line", { hasText: /^typed-42/ }).first().waitFor();

  // The overview says what it is.
  await page.getByRole("link", { name: "Overview" }).click();
  await page.getByText("version 0.0.9, ").waitFor();
  const fact = await page.locator("dd", { hasText: "version 0.0.9" }).textContent();
  assert.match(fact, /^version 0\.0\.9, pid \d+, 1 terminal; older version: keeps its terminals, opens no new ones, and exits after its last terminal/);
  await isAccessible(page);
  await shot(page, "older-host");

  // A new terminal is opened by a new host, beside the older one.
  await tell({ run: ["terminal", "open", "--name", "new", "--json", "--", "bash", "--norc"] });
  await page.getByRole("link", { name: "Terminals" }).click();
  for (const name of ["work", "new"]) await page.getByText(name, { exact: true }).first().waitFor();

  // A server of another version is replaced when the person opens the page again; a tab goes on without a key.
  await tell({ run: ["terminal", "send", "new", "-e", "echo again-$((40+2))", "--json"] });
  const { was, is } = await tell("replaces");
  assert.notEqual(was, is, "another server has the page");
  await page.locator(".thumb .row", { hasText: "again-42" }).first().waitFor();
  await page.waitForFunction(() => document.querySelector(".trouble")?.hidden !== false);
  await tell({ run: ["terminal", "send", "new", "-e", "echo after-$((40+2))", "--json"] });
  await page.locator(".thumb .row", { hasText: "after-42" }).first().waitFor();
  // Between the two servers, the browser reports refused connections.
  page.mistakes = page.mistakes.filter((mistake) => !mistake.includes("net::ERR_CONNECTION_REFUSED"));
  isClean(page);
});
