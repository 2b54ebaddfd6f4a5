// A person watches a terminal of an agent, takes it over, types, reloads, and hands it back.

import { assert, given, isAccessible, isClean, open, play, shot, tell } from "./browser.mjs";

/** Returns the text of the rows on the screen. */
const rows = (page) => page.locator(".screen .row").evaluateAll((rows) => rows.map((row) => row.textContent.replaceAll("\u200b", "").trimEnd()));

/** Waits until a row of the screen is this text. */
const sees = (page, text) => page.locator(".screen:not(.small) .row", { hasText: text }).first().waitFor();

await play(async (browser) => {
  const context = await browser.newContext({ viewport: { width: 1280, height: 820 } });
  const page = await open(context, given.url);
  page.on("dialog", (dialog) => dialog.accept());

  // The wall shows what the agent does.
  await page.getByText("No terminal is open").waitFor();
  const { session_id: id } = await tell({ agent: "opens" });
  await page.getByRole("link", { name: /work/ }).waitFor();
  await tell({ agent: "types", text: "echo $((40 + 2)) colours: && printf '\\033[1;31mred\\033[0m \\033[7mback\\033[0m \\033[4mline\\033[0m 漢字 é\\n'\n" });
  await page.locator(".thumb .row", { hasText: "42 colours:" }).waitFor();
  await page.getByText("at its prompt").waitFor();
  await isAccessible(page);
  await shot(page, "wall");

  // One terminal, as the daemon has it.
  await page.getByRole("link", { name: /work/ }).click();
  await sees(page, "42 colours:");
  const expected = (await tell({ agent: "looks" })).screen_content.split("\n").map((row) => row.trimEnd());
  const shown = await rows(page);
  assert.deepEqual(shown.slice(0, expected.length), expected);
  const wide = await page.locator(".screen .wide").first().evaluate((cell) => cell.getBoundingClientRect().width);
  const one = await page.locator(".screen .one").first().evaluate((cell) => cell.getBoundingClientRect().width);
  assert.ok(Math.abs(wide - 2 * one) < 0.1, "a wide character takes two cells");
  await isAccessible(page);

  // Who does not hold it, types nothing.
  await page.keyboard.type("nothing");
  await page.getByRole("button", { name: "Take over" }).click();
  await page.getByText("held by you").waitFor();
  assert.ok(await page.evaluate(() => document.documentElement.scrollHeight <= innerHeight), "the view fits the window");
  assert.match((await tell({ agent: "tries" })).error, /has held this terminal/);
  await page.keyboard.type("echo typed by ");
  await page.keyboard.type("haand");
  for (const key of ["ArrowLeft", "ArrowLeft", "Backspace", "End"]) await page.keyboard.press(key);
  await page.keyboard.press("Enter");
  await sees(page, "typed by hand");
  await shot(page, "terminal");

  // A paste of several lines is shown first, without what would act on the program.
  await page.evaluate(() => {
    const data = new DataTransfer();
    data.setData("text/plain", "echo one\u001b[31m\necho two\n");
    document.querySelector(".keyboard").dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true }));
  });
  await page.getByRole("heading", { name: "Paste 2 lines?" }).waitFor();
  await isAccessible(page);
  await page.getByRole("button", { name: "Paste", exact: true }).click();
  await page.keyboard.press("Enter");
  await sees(page, "two");

  // The hold and the screen survive a reload, in a full-screen program too.
  await page.keyboard.type("vim -u NONE notes\n");
  await sees(page, "notes");
  await page.keyboard.type("ifirst line");
  await sees(page, "first line");
  await page.reload();
  await sees(page, "first line");
  await page.getByText("held by you").waitFor();
  await page.keyboard.type(", and more");
  await sees(page, "first line, and more");

  // A cut connection, and a daemon that is restarted, neither lose nor double what is typed.
  await context.setOffline(true);
  await page.keyboard.type("0123456789");
  await context.setOffline(false);
  await sees(page, "first line, and more0123456789");
  const restarted = tell({ run: ["daemon", "restart", "--json"] });
  await page.keyboard.type("abcdefghijklmnopqrstuvwxyz", { delay: 40 });
  await restarted;
  await page.keyboard.type("!");
  await sees(page, "more0123456789abcdefghijklmnopqrstuvwxyz!");

  // Back to the agent, who is told.
  await page.keyboard.press("Escape");
  await page.keyboard.type(":wq\n");
  await page.getByText("at its prompt").waitFor();
  // By key: the one that leaves the keyboard is followed by the button.
  await page.keyboard.press("Control+Shift+Escape");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Hand back");
  await page.keyboard.press("Enter");
  await page.getByLabel("Note to the agent").fill("the notes are in ./notes");
  await page.getByRole("button", { name: "Hand back" }).click();
  await page.getByText(/^held by/).waitFor({ state: "hidden" });
  const told = await tell({ agent: "looks" });
  assert.equal(told.handed_back.note, "the notes are in ./notes");
  assert.match(told.handed_back.output, /typed by hand/);

  // All of the output, as text.
  await page.getByRole("button", { name: "Output" }).click();
  await page.locator(".scrollback .row", { hasText: "typed by hand" }).first().waitFor();
  isClean(page);
});
