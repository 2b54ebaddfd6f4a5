// Two tabs and one hold: the other tab sees who holds the terminal and types nothing, the copy of a tab has no hold of its own, and
// the hand-back frees it for the other tab.

import { assert, given, isAccessible, isClean, open, play, tell } from "./browser.mjs";

await play(async (browser) => {
  const context = await browser.newContext({ viewport: { width: 1280, height: 820 } });
  const first = await open(context, given.url);
  await first.getByRole("heading", { name: "Terminals" }).waitFor();
  const { session_id: id } = await tell({ agent: "opens" });
  const address = new URL(`#/terminals/${id}`, first.url()).href;
  await first.goto(address);
  const second = await open(context, address);
  const take = (page) => page.getByRole("button", { name: "Take over" });
  const sees = (page, text) => page.locator(".stage > .screen .row", { hasText: text }).first().waitFor();
  const size = first.locator(".head .hint", { hasText: "120 × 40" });
  const holder = async (page) => (await page.locator(".chip.held").textContent()) ?? "";

  // The first tab holds it. The second says who does, and offers nothing.
  await take(first).click();
  await first.getByText("held by you, in this tab").waitFor();
  await take(second).and(second.locator(":disabled")).waitFor();
  const name = /^held by (.+)$/.exec(await holder(second))?.[1];
  assert.ok(name && name !== "you, in this tab", name);
  await isAccessible(second);
  await second.locator(".stage > .screen").click();
  await second.keyboard.type("echo of-the-second\n");

  // A tab whose list is old asks all the same: it is refused with the name, and so is the agent.
  await take(second).evaluate((button) => {
    button.disabled = false;
    button.click();
  });
  await second.getByRole("alert").filter({ hasText: `${name} has held this terminal since` }).waitFor();
  assert.match((await tell({ agent: "tries" })).error, /has held this terminal/);
  await first.keyboard.type("echo first-$((40+2))\n");
  await sees(second, /^first-42/);

  // The copy of a tab has a copy of its storage, and does not hold what the tab holds.
  const opened = context.waitForEvent("page");
  await first.evaluate(() => void window.open(location.href));
  const copy = await opened;
  await take(copy).and(copy.locator(":disabled")).waitFor();
  await copy.waitForFunction(() => sessionStorage.getItem("steplatch-held") === "{}");
  assert.equal(await holder(copy), `held by ${name}`);
  await copy.locator(".stage > .screen").click();
  await copy.keyboard.type("echo of-the-copy\n");
  await copy.close();

  // The first one keeps the hold over a reload and another view, and its size before it was fitted.
  await size.waitFor();
  await first.getByRole("button", { name: "Fit to window" }).click();
  await size.waitFor({ state: "detached" });
  await first.reload();
  await first.getByText("held by you, in this tab").waitFor();
  await first.goto(new URL("#/runs", address).href);
  await first.getByRole("heading", { name: "Runs" }).waitFor();
  await first.goBack();
  await first.getByText("held by you, in this tab").waitFor();
  await first.keyboard.type("echo again-$((40+2))\n");
  await sees(second, /^again-42/);

  // The hand-back frees it: the second tab takes it over, and now the first one waits.
  for (const _ of ["asks for a note", "hands back"]) await first.getByRole("button", { name: "Hand back" }).click();
  await size.waitFor();
  await take(second).click();
  await second.getByText("held by you, in this tab").waitFor();
  await take(first).and(first.locator(":disabled")).waitFor();
  assert.equal(await holder(first), `held by ${name}`);
  await second.keyboard.type("echo second-$((40+2))\n");
  await sees(first, /^second-42/);

  // A hidden tab receives no screen, and the latest one once it is shown. The refusal comes after the tab has said that it is hidden.
  let screens = 0;
  first.on("websocket", (socket) => socket.on("framereceived", ({ payload }) => (screens += JSON.parse(payload).is === "screen" ? 1 : 0)));
  await first.addInitScript(() => Object.defineProperty(document, "hidden", { value: true, configurable: true }));
  await first.reload();
  const refused = first.getByRole("alert").filter({ hasText: `${name} has held this terminal since` });
  await take(first).evaluate((button) => {
    button.disabled = false;
    button.click();
  });
  await refused.waitFor();
  await second.keyboard.type("echo hidden-$((40+2))\n");
  await sees(second, /^hidden-42/);
  assert.equal(screens, 0);
  await first.evaluate(() => {
    Object.defineProperty(document, "hidden", { value: false });
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await sees(first, /^hidden-42/);
  const { screen_content: shown } = await tell({ agent: "looks" });
  assert.ok(!/of-the-/.test(shown), `a tab without the hold typed:\n${shown}`);
  isClean(first);
  isClean(second);
});
