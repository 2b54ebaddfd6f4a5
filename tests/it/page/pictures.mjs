// The pictures of the documentation: a wall of terminals, one of them, a question and a run on its diagram.

import { given, isClean, open, play, resize, tell } from "./browser.mjs";
import { proposed } from "./proposal.mjs";

/** Takes one picture, in light. */
const picture = async (page, name) => {
  await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
  if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/${name}.png` });
};

const CODE = `cat > retry.py <<'END'
import time


def retry(call, tries=5, pause=0.2):
    """Calls until it works, with longer and longer pauses."""
    for number in range(tries):
        try:
            return call()
        except OSError as error:
            if number == tries - 1:
                raise
            print(f"{error}; once more in {pause} s")
            time.sleep(pause)
            pause *= 2
END
clear; vim -u NONE -c 'syntax on' -c 'set number' retry.py
`;

/** What the terminals of the wall show, by their names. */
const TERMINALS = {
  editor: CODE,
  monitor: "clear; top -d 60\n",
  build: "clear; for step in fetch compile link test; do printf '\\033[1;36m%8s\\033[0m app v1.4.2\\n' $step; done; printf '\\033[32m  passed\\033[0m 214 tests in 8.1 s\\n'\n",
  deploy: "clear; printf '\\033[1mdeploy@eu-1\\033[0m\\n'; read -s -p \"Password: \" x\n",
  numbers: "clear; python3 -q\nsum(n * n for n in range(1000))\n",
  log: "clear; while true; do printf '%s \\033[33mWARN\\033[0m queue is long: %d\\n' 12:00:0$((RANDOM % 9)) $RANDOM; sleep 0.4; done\n",
};

await play(async (browser) => {
  const context = await browser.newContext({ viewport: { width: 1040, height: 560 } });
  const page = await open(context, given.url);
  await page.getByText("No terminal is open").waitFor();
  for (const [name, text] of Object.entries(TERMINALS)) await tell({ opens: name, types: text });
  await page.locator(".lines").getByText("asks for a password").waitFor();
  await page.getByRole("link", { name: "Terminals" }).click();
  await page.locator(".thumb .row", { hasText: "332833500" }).first().waitFor();
  await page.locator(".thumb .row", { hasText: "def retry" }).first().waitFor();
  await page.locator(".thumb .row", { hasText: "queue is long" }).nth(4).waitFor();
  await picture(page, "wall");

  await page.getByRole("link", { name: /editor/ }).click();
  await page.getByRole("button", { name: "Take over" }).click();
  await page.getByText("held by you").waitFor();
  await page.locator(".stage > .screen .row", { hasText: "def retry" }).first().waitFor();
  await picture(page, "terminal");

  const release = {
    name: "release", initial_state: "build",
    states: {
      build: { action: { tool: "sleep", params: { seconds: 0.4 } }, transitions: [{ condition: "success", next_state: "test" }] },
      test: { action: { tool: "sleep", params: { seconds: 0.9 } }, transitions: [{ condition: "success", next_state: "ask" }] },
      ask: { action: { tool: "gate", params: { prompt: "214 tests passed. Release 1.4.2 to eu-1?", choices: ["release", "stop"] } }, transitions: [{ condition: "success", next_state: "deploy" }] },
      deploy: { action: { tool: "sleep", params: { seconds: 0 } } },
    },
  };
  const { run_id: run } = await tell({ starts: release });
  await page.goto(new URL("#/gates", page.url()).href);
  await page.getByRole("heading", { name: /Release 1.4.2/ }).waitFor();
  await page.locator(".answers button:not([data-inert])").first().waitFor();
  await picture(page, "gate");
  await page.goto(new URL(`#/runs/${run}`, page.url()).href);
  await page.getByRole("button", { name: "Diagram" }).click();
  await page.locator('.diagram g[data-outcome="waiting"]').waitFor();
  await page.locator(".diagram g", { has: page.locator("text.name", { hasText: /^test$/ }) }).click();
  await resize(page, { width: 1040, height: 800 });
  await page.evaluate(() => scrollTo(0, 0));
  await picture(page, "run");

  // A captured workflow whose program asks in other words, and the patch that an agent proposes.
  await resize(page, { width: 1040, height: 860 });
  const repairing = await proposed();
  // The proposal alone, and all of it.
  const { runs } = await tell({ calls: "list_runs", with: { state: "waiting" } });
  for (const { run_id } of runs.filter((run) => run.run_id !== repairing)) await tell({ calls: "cancel_run", with: { run_id } });
  await resize(page, { width: 1040, height: 1010 });
  await page.goto(new URL("#/gates", page.url()).href);
  const question = page.getByRole("heading", { name: /proposes a patch/ });
  await question.waitFor();
  await page.locator(".answers button:not([data-inert])").nth(2).waitFor();
  await picture(page, "repair");
  isClean(page);
});
