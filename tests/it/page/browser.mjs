// What every story in a browser needs: a browser, a page that is watched for mistakes, and checks.
//
// Environment: MODULES (the target directory with `playwright` and `axe`), CHROMIUM, SHOTS (a directory for pictures, or
// none), and what a story is given in STORY, as JSON.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const { MODULES, CHROMIUM, SHOTS, STORY } = process.env;
const require = createRequire(`${MODULES}/playwright/`);
const { chromium } = require("playwright-core");
const AXE = readFileSync(`${MODULES}/axe/node_modules/axe-core/axe.min.js`, "utf8");

/** A time that only a hanging operation exceeds. */
const PATIENCE = Number(process.env.PATIENCE ?? 60_000);

export const given = JSON.parse(STORY ?? "{}");

/** Tells the test that runs this story something, and returns its answer: one line each. */
const answers = lines();

async function* lines() {
  let rest = "";
  for await (const chunk of process.stdin) {
    rest += chunk;
    const parts = rest.split("\n");
    rest = parts.pop();
    yield* parts;
  }
}

export async function tell(what) {
  process.stdout.write(`${JSON.stringify(what)}\n`);
  const { value } = await answers.next();
  return value === undefined ? null : JSON.parse(value);
}

/** Number of starts of the browser: rarely, Chromium crashes before it answers. A story has not begun by then. */
const MAX_STARTS = 3;

async function start() {
  for (let starts = 1; ; starts += 1) {
    try {
      return await chromium.launch({
        executablePath: CHROMIUM,
        args: ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage"],
      });
    } catch (error) {
      if (starts === MAX_STARTS) throw error;
      console.error(`the browser did not start (${starts} of ${MAX_STARTS}): ${error}`);
    }
  }
}

/** Plays a story with a browser, and fails if the page reported a mistake. */
export async function play(story) {
  const browser = await start();
  try {
    await story(browser);
  } catch (error) {
    const pages = browser.contexts().flatMap((context) => context.pages());
    for (const [number, page] of pages.entries()) {
      if (SHOTS) await page.screenshot({ path: `${SHOTS}/failed-${number}.png` });
      console.error(`${page.url()} ${page.mistakes?.join("\n")}`);
    }
    throw error;
  } finally {
    await browser.close();
  }
  process.exit(0);
}

/** Opens a page whose mistakes are collected in `page.mistakes`. */
export async function open(context, address) {
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  page.mistakes = [];
  page.on("pageerror", (error) => page.mistakes.push(`error: ${error.stack ?? error}`));
  page.on("console", (message) => {
    // Refused requests are part of some stories.
    if (message.type() === "error" && !/status of 4\d\d/.test(message.text())) page.mistakes.push(`console: ${message.text()}`);
  });
  await page.addInitScript(() => {
    addEventListener("securitypolicyviolation", (event) => console.error(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
  });
  if (address) await page.goto(address);
  return page;
}

/** Fails if the page reported a mistake. */
export function isClean(page) {
  assert.deepEqual(page.mistakes, []);
}

/** The width of a telephone, in pixels. */
const PHONE = 390;

/** Fails if the accessibility checker finds something: in light, in dark, and on the width of a telephone, which nothing exceeds. */
export async function isAccessible(page) {
  const size = page.viewportSize();
  for (const [colorScheme, width] of [["light", size.width], ["dark", size.width], ["light", PHONE]]) {
    await page.emulateMedia({ colorScheme });
    if (width !== page.viewportSize().width) await resize(page, { ...size, width });
    // The checker is evaluated through the browser's protocol, which the policy of the page does not cover. The colours of
    // screens are those of their programs.
    const found = await page.evaluate(`(() => { ${AXE}; return axe.run({ exclude: [".screen"] }, { resultTypes: ["violations"] }); })()`);
    const told = found.violations.map((one) => `${colorScheme} ${width} ${one.id}: ${one.nodes.map((node) => `${node.html} ${node.failureSummary}`).join("\n  ")}`);
    assert.deepEqual(told, []);
  }
  const whole = await page.evaluate(() => document.documentElement.scrollWidth);
  const wide = await page.evaluate((phone) => {
    const beyond = [...document.querySelectorAll("main *")].filter((one) => one.getBoundingClientRect().right > phone);
    return beyond.map((one) => `${one.tagName} ${one.className}: ${one.textContent.slice(0, 80)}`).slice(0, 8).join("\n");
  }, PHONE);
  assert.ok(whole <= PHONE, `the page is ${whole} pixels wide on a telephone:\n${wide}`);
  await resize(page, size);
}

/** Sets the size of the window, and waits until the page has followed: what observes sizes is called after the frame's callbacks. */
export async function resize(page, size) {
  await page.setViewportSize(size);
  await page.evaluate(async (width) => {
    const frame = () => new Promise(requestAnimationFrame);
    while (innerWidth !== width) await frame();
    await frame();
    await frame();
  }, size.width);
}

/** Takes a picture in light and in dark, if pictures are wanted. */
export async function shot(page, name) {
  if (!SHOTS) return;
  for (const colorScheme of ["dark", "light"]) {
    await page.emulateMedia({ colorScheme });
    await page.screenshot({ path: `${SHOTS}/${name}-${colorScheme}.png` });
  }
}

export { assert };
