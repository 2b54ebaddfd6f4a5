// A workflow is started by its form, places are found by keyboard, and a telephone types a line.

import { assert, given, isAccessible, isClean, open, play, shot, tell } from "./browser.mjs";

await play(async (browser) => {
  const context = await browser.newContext({ viewport: { width: 1200, height: 820 } });
  const page = await open(context, given.url);

  // The library, and a form with the arguments of a workflow.
  await page.getByRole("link", { name: "Workflows" }).click();
  await page.getByRole("link", { name: "count" }).waitFor();
  await isAccessible(page);
  await page.getByRole("link", { name: "count" }).click();
  assert.equal(await page.getByLabel("SUFFIX").inputValue(), "md", "a default is filled in");
  await isAccessible(page);
  await shot(page, "workflow");
  await page.getByLabel("FOLDER").fill(given.folder ?? ".");
  await page.getByRole("button", { name: "Start" }).click();
  await page.getByRole("heading", { name: "count", level: 1 }).waitFor();
  await page.getByText("completed", { exact: true }).waitFor();
  await page.getByRole("button", { name: /counted/ }).waitFor();

  // The palette.
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Go to" }).fill("term");
  await isAccessible(page);
  await shot(page, "palette");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Terminals" }).waitFor();
  isClean(page);

  // A narrow screen with touch: keys, and a line that is composed before it is sent. The terminal keeps its size.
  const { session_id: id } = await tell({ agent: "opens" });
  const phone = await browser.newContext({ viewport: { width: 390, height: 780 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2, storageState: await context.storageState() });
  const small = await open(phone, (await tell("open")).url);
  await small.getByRole("link", { name: /work/ }).tap();
  await small.getByRole("button", { name: "Take over" }).tap();
  await small.getByText("held by you").waitFor();
  await small.getByLabel("Line to type").fill("echo from-a-$((40+2))-phone");
  await small.getByRole("button", { name: "Send" }).tap();
  await small.locator(".screen .row", { hasText: "from-a-42-phone" }).first().waitFor();
  // What an input method composes is in the line once, and sent when the person sends it.
  const devtools = await phone.newCDPSession(small);
  const typed = small.getByLabel("Line to type");
  await typed.tap();
  await devtools.send("Input.insertText", { text: "echo '" });
  for (const text of ["に", "にほ", "にほん"]) await devtools.send("Input.imeSetComposition", { text, selectionStart: text.length, selectionEnd: text.length });
  await devtools.send("Input.insertText", { text: "日本" });
  await devtools.send("Input.insertText", { text: "'語" });
  assert.equal(await typed.inputValue(), "echo '日本'語");
  await typed.press("Enter");
  await small.locator(".screen .row", { hasText: /^日本語/ }).first().waitFor();
  assert.equal(await typed.inputValue(), "");
  await small.getByLabel("Line to type").fill("echo from-a-$((40+2))-phone");
  await small.getByRole("button", { name: "Send" }).tap();
  await small.locator(".screen .row", { hasText: /^from-a-42-phone/ }).nth(1).waitFor();
  await small.getByRole("button", { name: "↑" }).tap();
  await small.getByRole("button", { name: "Enter", exact: true }).tap();
  await small.locator(".screen .row", { hasText: /^from-a-42-phone/ }).nth(2).waitFor();
  const listed = await tell({ run: ["terminal", "list", "--json"] });
  const size = (listed.sessions ?? listed).find((terminal) => terminal.session_id === id);
  assert.deepEqual([size.cols, size.rows], [120, 40]);
  const overflow = await small.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(overflow <= 0, `the page is ${overflow} pixels too wide`);
  await isAccessible(small);
  await shot(small, "phone");

  // A terminal of the size of the window leaves room for the keys, the line and the navigation.
  await small.getByRole("button", { name: "Fit to window" }).tap();
  await small.getByText(/· (?!120 × 40)\d+ × \d+$/).waitFor();
  await small.waitForFunction(() => {
    scrollTo(0, 0);
    const { width } = document.querySelector(".stage > .screen").getBoundingClientRect();
    return width > 300 && width < innerWidth;
  });
  const places = await small.evaluate(() => [".stage", ".compose .quick", ".compose .line", ".rail"].map((name) => document.querySelector(name).getBoundingClientRect()).map(({ top, bottom }) => [top, bottom]));
  for (const [index, [, bottom]] of places.slice(0, -1).entries()) assert.ok(bottom <= places[index + 1][0] + 1, JSON.stringify(places));
  assert.ok(places.at(-1)[1] <= 780, JSON.stringify(places));
  await shot(small, "phone-fitted");

  // A terminal that is held is handed back when it is closed.
  await small.getByRole("button", { name: "Close" }).tap();
  await small.getByRole("button", { name: "Close, and end its programs" }).tap();
  await small.getByText("No terminal is open").waitFor();
  isClean(small);
});
