// The first view is what waits for a person, with the terminals below it; the browser notifies of it while it is not looked at.

import { assert, given, isAccessible, isClean, open, play, shot, tell } from "./browser.mjs";

await play(async (browser) => {
  const context = await browser.newContext({ viewport: { width: 1200, height: 820 } });
  await context.grantPermissions(["notifications"], { origin: new URL(given.url).origin });
  await context.addInitScript(() => {
    // What a desktop would show, and whether the person looks at this tab.
    window.shown = [];
    window.looks = true;
    document.hasFocus = () => window.looks;
    class Shown extends EventTarget {
      static permission = "granted";
      static requestPermission = async () => "granted";
      constructor(title, { body, tag }) {
        super();
        window.shown.push({ title, body, tag, shown: this });
      }
      close() {}
    }
    window.Notification = Shown;
  });
  const page = await open(context, given.url);
  const told = () => page.evaluate(() => window.shown.map(({ title, body }) => `${title}: ${body}`));

  // Nothing waits, also not a shell at its prompt; the terminals are there.
  await page.getByRole("heading", { name: "Inbox" }).waitFor();
  await page.getByText("Nothing waits for you.").waitFor();
  await page.getByRole("heading", { name: "Terminals" }).waitFor();
  assert.equal(await page.getByRole("heading", { name: "Failed runs" }).count(), 0);
  await page.getByRole("button", { name: "Notifications are on" }).waitFor();

  // A terminal is opened with a name, a program, a directory and a size; what is wrong is said at its field, and nothing is lost.
  await page.getByRole("button", { name: "Open with…" }).click();
  const dialog = page.getByRole("dialog", { name: "Open a terminal" });
  await dialog.getByLabel("Name").fill("numbers");
  await dialog.getByLabel("Program").fill("python3 -q");
  await dialog.getByLabel("Directory").fill("/no/such/folder");
  await dialog.getByLabel("Columns").fill("1");
  await dialog.getByRole("button", { name: "Open", exact: true }).click();
  await dialog.getByText(/from 2 to 1000/).first().waitFor();
  await isAccessible(page);
  await shot(page, "open");
  await dialog.getByLabel("Columns").fill("90");
  await dialog.getByRole("button", { name: "Open", exact: true }).click();
  await dialog.getByRole("alert").filter({ hasText: "/no/such/folder" }).waitFor();
  await dialog.getByLabel("Directory").fill("/tmp");
  await dialog.getByRole("button", { name: "Open", exact: true }).click();
  await page.getByRole("heading", { name: "numbers" }).waitFor();
  await page.locator(".stage > .screen .row", { hasText: ">>>" }).first().waitFor();
  const [{ cwd, cols }] = (await tell({ run: ["terminal", "list", "--json"] })).sessions;
  assert.deepEqual([cwd, cols], ["/tmp", 90]);
  // A program that waits for input is listed with its last line.
  await page.getByRole("link", { name: "Inbox" }).click();
  await page.locator("section[aria-labelledby=asking] li", { hasText: "numbers" }).getByText(">>>").waitFor();
  await tell({ run: ["terminal", "close", "numbers", "--json"] });
  await page.getByRole("link", { name: /^Inbox/ }).click();
  await page.getByText("No terminal is open").waitFor();

  // The end of a long command is an occasion once a person has chosen so, and that of a short one is not.
  await page.goto(new URL("#/settings", page.url()).href);
  await page.getByLabel("Notify of ended commands").selectOption("5");
  await tell({ run: ["terminal", "open", "--name", "worker", "--json"] });
  await page.evaluate(() => { window.looks = false; });
  await tell({ run: ["terminal", "run", "--json", "worker", "sleep", "0.1"] });
  await tell({ run: ["terminal", "run", "--json", "worker", "sleep", "7"] });
  await page.waitForFunction(() => window.shown.length > 0);
  assert.deepEqual(await told(), ["A command ended: worker"]);
  await page.evaluate(() => { window.looks = true; window.shown = []; });
  // So is a bell, until a person turns it off.
  const ring = () => tell({ run: ["terminal", "run", "--json", "worker", "printf '\\a'"] });
  await page.evaluate(() => { window.looks = false; });
  await ring();
  await page.waitForFunction(() => window.shown.length > 0);
  assert.deepEqual(await told(), ["The bell of a terminal rang: worker"]);
  await page.evaluate(() => { window.shown = []; });
  await page.getByLabel("Notify of bells").selectOption("off");
  await ring();
  await tell({ run: ["terminal", "run", "--json", "worker", "sleep", "7"] });
  await page.waitForFunction(() => window.shown.length > 0);
  assert.deepEqual(await told(), ["A command ended: worker"]);
  await page.evaluate(() => { window.looks = true; window.shown = []; });
  await page.getByLabel("Notify of ended commands").selectOption("off");
  await tell({ run: ["terminal", "close", "worker", "--json"] });
  await page.getByRole("link", { name: /^Inbox/ }).click();
  await page.getByText("No terminal is open").waitFor();

  // A person who looks sees it there.
  const machine = (name, action) => ({ name, initial_state: "it", states: { it: { action } } });
  await tell({ starts: machine("deploy", { tool: "gate", params: { prompt: "Deploy?", choices: ["yes", "no"] } }) });
  await page.getByRole("heading", { name: "Deploy?" }).waitFor();
  assert.deepEqual(await told(), []);

  // While something else is looked at: a question, a password, a failed run, once each.
  await page.evaluate(() => (window.looks = false));
  const evil = "rm\u202e?";
  const { run_id: asks } = await tell({ starts: machine("release", { tool: "gate", params: { prompt: `Release ${evil}`, choices: ["yes", "no"] } }) });
  await page.getByRole("heading", { name: /^Release/ }).waitFor();
  await tell({ agent: "opens" });
  await tell({ agent: "types", text: "read -s -p 'Token: ' x\n" });
  const password = page.locator(".lines a", { hasText: "asks for a password" });
  await password.waitFor();
  await tell({ starts: machine("nightly", { tool: "fail", params: { message: "disk is full" } }) });
  const failed = page.locator(".lines a", { hasText: "nightly" });
  await failed.waitFor();
  assert.match(await failed.textContent(), /failed just now.*disk is full/);
  await page.waitForFunction(() => window.shown.length === 3);
  assert.deepEqual(await told(), [
    "A question of release: Release rm⟨U+202E⟩?",
    "A terminal asks for a password: work",
    "nightly failed: State 'it' failed: disk is full",
  ]);
  await isAccessible(page);
  await shot(page, "inbox");

  // A click leads to it. What no longer waits leaves the list.
  await page.evaluate(() => window.shown[1].shown.dispatchEvent(new Event("click")));
  await page.waitForURL(/#\/terminals\//);
  await page.getByRole("link", { name: /^Inbox/ }).click();
  // It is typed there, into the program that is named.
  await page.getByText("bash asks for a password").waitFor();
  await page.getByLabel("Password for the terminal").fill("secret");
  await page.getByRole("button", { name: "Enter", exact: true }).click();
  await page.locator(".lines a", { hasText: "asks for a password" }).waitFor({ state: "detached" });
  await page.locator(".lines a", { hasText: "nightly" }).click();
  await page.getByRole("heading", { name: "nightly", level: 1 }).waitFor();
  await page.getByRole("link", { name: /^Inbox/ }).click();

  // It is turned off, and stays so in the next tab.
  await page.getByRole("button", { name: "Notifications are on" }).click();
  await page.getByRole("button", { name: "Notify me" }).waitFor();
  const other = await open(context, new URL("/", page.url()).href);
  await other.getByRole("button", { name: "Notify me" }).waitFor();
  await tell({ run: ["runs", "cancel", asks, "--json"] });
  await page.getByRole("heading", { name: /^Release/ }).waitFor({ state: "detached" });
  await tell({ starts: machine("again", { tool: "gate", params: { prompt: "Again?", choices: ["yes"] } }) });
  await page.getByRole("heading", { name: "Again?" }).waitFor();
  assert.equal((await told()).length, 3);

  // Questions that are shown at once share what each of them reads.
  for (const name of ["first", "second", "third"]) {
    const params = { prompt: `The ${name}?`, choices: ["yes"], answered_by: "human" };
    await tell({ starts: machine(name, { tool: "gate", params }) });
    await other.getByRole("heading", { name: `The ${name}?` }).waitFor();
  }
  const paths = [];
  other.on("request", (request) => paths.push(new URL(request.url()).pathname));
  await other.reload();
  await other.getByText("Answers over the page need the approver's passphrase, and none is set").nth(2).waitFor({ state: "attached" });
  assert.equal(paths.filter((path) => path === "/api/v1/approver").length, 1);
  isClean(page);
});
