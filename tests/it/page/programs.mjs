// Real programs on the page, cell by cell; a mouse, a composition, addresses, and what scrolled away.

import { readFileSync } from "node:fs";

import { assert, given, isAccessible, isClean, open, play, shot, tell } from "./browser.mjs";
import { KEYS } from "./xterm_keys.mjs";

/** Returns the cells of the screen as the page shows them: for each row its text, and for each character its column. */
const shown = (page) => page.locator(".stage > .screen").evaluate((screen) => {
  const width = screen.getBoundingClientRect().width / Number(getComputedStyle(screen).getPropertyValue("--cols"));
  const left = screen.getBoundingClientRect().left;
  return [...screen.querySelectorAll(".row")].map((row) => {
    const text = row.textContent.replaceAll("\u200b", "").trimEnd();
    const cells = [...row.querySelectorAll("span")].map((span) => Math.abs(((span.getBoundingClientRect().left - left) / width) % 1));
    return { text, isAligned: cells.every((part) => part < 0.05 || part > 0.95) };
  });
});

/** Waits until the page shows what the daemon has, row by row and in its columns. */
async function isExact(page, what) {
  for (let tries = 0; ; tries += 1) {
    const expected = (await tell({ agent: "looks" })).screen_content.split("\n").map((row) => row.trimEnd());
    const rows = await shown(page);
    const texts = rows.map(({ text }) => text);
    while (texts.length && !texts.at(-1)) texts.pop();
    while (expected.length && !expected.at(-1)) expected.pop();
    try {
      assert.deepEqual(texts, expected, what);
      assert.ok(rows.every(({ isAligned }) => isAligned), `${what}: a run of cells is not at its column`);
      return;
    } catch (error) {
      // The program may have drawn in between.
      if (tries > 20) throw error;
    }
  }
}

const sees = (page, text) => page.locator(".stage > .screen .row", { hasText: text }).first().waitFor();

/**
 * A row that is changed in place, whatever was shown and whatever an extension has done to it, has the nodes of a row that is made
 * anew.
 */
const paintsInPlace = async (page) => {
  // The page has one script of all modules; the check needs one of them.
  const modules = new URL("../../../crates/http/page/js/", import.meta.url);
  await page.route("**/modules/*.js", (route) => {
    const name = new URL(route.request().url()).pathname.split("/").at(-1);
    return route.fulfill({ contentType: "text/javascript", body: readFileSync(new URL(name, modules), "utf8") });
  });
  return page.evaluate(checkPainting);
};

const checkPainting = async () => {
  const { Painter } = await import(new URL("/modules/paint.js", location.href).href);
  let seed = 7;
  const draw = (count) => {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    return Math.floor((seed / 2147483648) * count);
  };
  const texts = [["a", ""], ["bc", ""], ["d e", ""], ["é", ""], ["xéy", ""], ["漢", ",W"], ["漢字", ",W"]];
  const styles = ["", "f1", "f#0a0b0c", "B,U1"];
  const runs = () => {
    const made = [];
    for (let col = draw(2), count = draw(4); count > 0; count -= 1) {
      const [text, wide] = texts[draw(texts.length)];
      const cols = [...text].length * (wide ? 2 : 1);
      made.push([col, cols, text, `${styles[draw(styles.length)]}${wide}`, ...(draw(4) ? [] : ["https://example.org"])]);
      col += cols + draw(2);
    }
    return made;
  };
  const state = { foreground: "#fff", background: "#000", cursor: { row: 0, col: 0, shape: "block" } };
  const screen = { cols: 20, rows: 3, lines: [runs(), runs(), runs()], state };
  const painter = new Painter(document.createElement("div"));
  const shownBy = (painter) => [...painter.element.querySelectorAll(".row")].map((row) => row.innerHTML);
  painter.paint(screen, [0, 1, 2]);
  let kept = 0;
  for (let change = 0; change < 2000; change += 1) {
    const row = draw(screen.rows);
    const line = painter.lines[row];
    const first = line.firstChild;
    if (draw(20) === 0) first.replaceWith(Object.assign(document.createElement("mark"), { textContent: first.textContent }));
    else if (draw(20) === 0) line.prepend("from elsewhere");
    else if (draw(20) === 0) line.lastChild.textContent = "from elsewhere";
    if (draw(2)) screen.lines[row] = runs();
    else if (screen.lines[row].length) screen.lines[row].at(-1)[2] = [..."漢a字"].slice(0, 1 + draw(3)).join("");
    painter.paint(screen, [row]);
    kept += Number(line.firstChild === first);
    const fresh = new Painter(document.createElement("div"));
    fresh.paint(screen, [0, 1, 2]);
    if (shownBy(painter).join("\n") !== shownBy(fresh).join("\n")) return { change, has: shownBy(painter), wants: shownBy(fresh) };
  }
  return { kept: kept > 200 };
};

/** Ends a program, and waits until the shell asks: a program that ends may read what is typed after its last key. */
async function quits(page, keys) {
  await page.keyboard.type(keys);
  await sees(page, /^ready> ?$/);
}

/** What follows the keys of the table, so that one of them that sends less ends the program all the same. */
const FILLING = "z".repeat(24);

/** Presses every key with its modifiers, and compares the bytes that a program reads with those of xterm. */
async function sendsKeysAsXterm(page) {
  const bytes = new TextEncoder().encode(KEYS.map(({ bytes }) => bytes).join("") + FILLING);
  const wanted = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0"));
  const shows = "clear; fold -w 100 keys; echo; echo wrote-$((40+2))";
  await page.keyboard.type(`clear; stty raw -echo; echo reads; head -c ${bytes.length} | od -An -v -tx1 | tr -d ' \\n' > keys; stty sane; ${shows}\n`);
  await sees(page, /^reads/);
  for (const { key, shift, alt, ctrl } of KEYS) {
    await page.keyboard.press([ctrl && "Control", alt && "Alt", shift && "Shift", key === " " ? "Space" : key].filter(Boolean).join("+"));
  }
  await page.keyboard.type(FILLING);
  await sees(page, /^wrote-42/);
  const rows = (await shown(page)).map(({ text }) => text).filter((text) => /^[0-9a-f]+$/.test(text));
  const read = rows.join("").match(/../g) ?? [];
  let at = 0;
  for (const { key, shift, alt, ctrl, bytes: one } of KEYS) {
    const length = new TextEncoder().encode(one).length;
    assert.deepEqual(read.slice(at, at + length), wanted.slice(at, at + length), JSON.stringify({ key, shift, alt, ctrl }));
    at += length;
  }
  // A key that sends more leaves some of what follows for the shell.
  await page.keyboard.press("Control+u");
}

await play(async (browser) => {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, permissions: ["clipboard-read", "clipboard-write"] });
  const page = await open(context, given.url);
  const { session_id: id } = await tell({ agent: "opens" });
  await page.goto(new URL(`#/terminals/${id}`, page.url()).href);
  await page.getByRole("button", { name: "Take over" }).click();
  await page.getByText("held by you").waitFor();

  assert.deepEqual(await paintsInPlace(page), { kept: true });

  await page.keyboard.type("PS1='ready> '; clear\n");
  await sees(page, /^ready> ?$/);

  // Characters of two columns, combined ones and emoji.
  await page.keyboard.type("clear; printf '漢字かな交じり|\\n한국어|\\ne\\xcc\\x81 o\\xcc\\x88|\\n👍🎉✅|\\n┌─┬─┐│█▓░\\n\\033[38;2;10;200;90mown colour\\033[0m \\033[48;5;24mground\\033[0m\\n'\n");
  await sees(page, "own colour");
  await isExact(page, "characters");
  await shot(page, "characters");

  // A progress bar, which draws over its own row.
  await page.keyboard.type("clear; for i in 1 2 3 4 5 6 7 8; do printf '\\r[%-8s] %d%%' $(printf '#%.0s' $(seq $i)) $((i * 100 / 8)); sleep 0.05; done; echo ' end'\n");
  await sees(page, "[########] 100% end");
  await isExact(page, "a progress bar");

  // Dead keys and input methods: what is composed is typed once, when it is complete.
  const devtools = await context.newCDPSession(page);
  await page.keyboard.type("clear; echo '");
  await sees(page, /^ready> clear; echo '$/);
  // What is composed is shown at the cursor, where the keyboard stands also before.
  const keyboardIsAtCursor = (keyboard) => page.waitForFunction((keyboard) => {
    const [one, other] = [keyboard, ".stage > .screen .cursor"].map((name) => document.querySelector(name)?.getBoundingClientRect());
    return one && other && Math.abs(one.left - other.left) < 1 && Math.abs(one.top - other.top) < 1;
  }, keyboard);
  await keyboardIsAtCursor(".keyboard:not(.composing)");
  await page.locator(".keyboard").evaluate((keyboard) => { keyboard.style.translate = "0 0"; });
  for (const text of ["に", "にほ", "にほん"]) await devtools.send("Input.imeSetComposition", { text, selectionStart: text.length, selectionEnd: text.length });
  await keyboardIsAtCursor(".keyboard.composing");
  await devtools.send("Input.insertText", { text: "日本" });
  await devtools.send("Input.imeSetComposition", { text: "´", selectionStart: 1, selectionEnd: 1 });
  await devtools.send("Input.insertText", { text: "é" });
  await page.keyboard.type("'\n");
  await sees(page, /^日本é$/);

  // vim takes the mouse: a click moves its cursor, the wheel scrolls, and shift selects text as elsewhere.
  await page.keyboard.type("seq -f 'line %g of the text' 200 > notes; vim -u NONE -c 'set mouse=a ttymouse=sgr number' notes\n");
  await sees(page, "1 line 1 of the text");
  await isExact(page, "vim");
  // An editor at rest needs nobody.
  await page.locator('.head .chip[data-tone="busy"]', { hasText: "running" }).waitFor();
  const row = (text) => page.locator(".stage > .screen .row", { hasText: text }).first();
  await row("line 7 of").click({ position: { x: 100, y: 5 } });
  await page.keyboard.type("iclicked ");
  await page.keyboard.press("Escape");
  await sees(page, "clicked");
  assert.match(await row("clicked").textContent(), /^\s+7 /);
  await page.mouse.wheel(0, 400);
  await page.locator(".stage > .screen .row", { hasText: "1 line 1 of the text" }).first().waitFor({ state: "detached" });
  await isExact(page, "vim, scrolled");
  await shot(page, "vim");
  await quits(page, ":q!\n");

  // htop or top: colours, columns and a screen that draws itself anew.
  await page.keyboard.type("clear; TERM=xterm-256color top -d 60\n");
  await sees(page, "PID");
  await isExact(page, "top");
  await quits(page, "q");

  // htop, which changes all the time: its process is stopped, so that one version of its screen is compared.
  await page.keyboard.type("set +m; clear; htop -d 5\n");
  await sees(page, "Load average");
  await tell({ run: ["terminal", "signal", "work", "STOP", "--json"] });
  await isExact(page, "htop");
  await shot(page, "htop");
  await tell({ run: ["terminal", "signal", "work", "CONT", "--json"] });
  await quits(page, "q");
  await page.keyboard.type("set -m; clear\n");

  // So does an interpreter, whose prompt waits for a line.
  await page.keyboard.type("python3 -q\n");
  await sees(page, /^>>> ?$/);
  await page.locator(".head .chip", { hasText: "waits for input" }).waitFor();
  assert.notEqual(await page.locator(".head .chip[data-tone]").first().getAttribute("data-tone"), "wait");
  await quits(page, "exit()\n");

  // Every key with its modifiers arrives as xterm sends it.
  await sendsKeysAsXterm(page);
  await page.keyboard.type("clear\n");

  // A selection stays while the program prints, and what is shown catches up afterwards.
  await page.keyboard.type("clear; echo select-me; for i in $(seq 30); do sleep 0.1; echo tick-$i; done\n");
  await sees(page, "tick-2");
  await row("select-me").last().dblclick({ position: { x: 20, y: 5 } });
  await page.getByText("Paused while text is selected").waitFor();
  const selected = await page.evaluate(() => getSelection().toString());
  await page.getByText(/rows have changed/).waitFor();
  assert.equal(await page.evaluate(() => getSelection().toString()), selected);
  await page.keyboard.press("Control+c");
  await page.waitForFunction(async () => /select|me/.test(await navigator.clipboard.readText()));
  await page.keyboard.press("Escape");
  await sees(page, "tick-30");

  // An address is shown before it opens; others are text.
  await page.keyboard.type("clear; echo 'look at https://example.org/a?b=1, not at javascript:alert(1)'\n");
  const looks = page.locator(".stage > .screen .row", { hasText: /^look at/ }).first();
  await looks.waitFor();
  const box = await page.locator(".stage > .screen").boundingBox();
  const cell = box.width / 120;
  await looks.click({ position: { x: cell * 15, y: 5 } });
  await page.getByRole("heading", { name: "Open this address?" }).waitFor();
  const link = page.getByRole("link", { name: "Open in a new tab" });
  assert.deepEqual([await link.getAttribute("href"), await link.getAttribute("rel")], ["https://example.org/a?b=1", "noopener noreferrer"]);
  await isAccessible(page);
  await page.getByRole("button", { name: "Leave it" }).click();

  // So is one that a program gave a text, and one that is not of the web is shown only.
  await page.keyboard.press("Control+Shift+Escape");
  await page.locator(".stage > .screen").click({ position: { x: 5, y: 300 } });
  await page.keyboard.type("clear; printf '\\e]8;;https://example.org/whole\\a%s\\e]8;;\\a and \\e]8;;file:///etc/passwd\\a%s\\e]8;;\\a\\n' example here\n");
  const linked = page.locator(".stage > .screen .row", { hasText: /^example and here/ }).first();
  await linked.locator(".link", { hasText: "example" }).waitFor();
  await linked.hover({ position: { x: cell * 3, y: 5 } });
  await page.locator(".at-bottom", { hasText: "https://example.org/whole" }).waitFor();
  await linked.click({ position: { x: cell * 3, y: 5 } });
  assert.equal(await link.getAttribute("href"), "https://example.org/whole");
  await shot(page, "address");
  await page.getByRole("button", { name: "Leave it" }).click();
  await linked.click({ position: { x: cell * 13, y: 5 } });
  await page.locator("dialog", { hasText: "file:///etc/passwd" }).getByText("Only addresses of the web").waitFor();
  assert.equal(await link.count(), 0);
  await page.getByRole("button", { name: "Leave it" }).click();

  // Text of all colours can be read, also on a ground that a program makes light; the colours of a ground stay.
  await page.keyboard.press("Control+Shift+Escape");
  await page.locator(".stage > .screen").click({ position: { x: 5, y: 300 } });
  const contrasts = () => page.locator(".stage > .screen .row", { hasText: /^\S*colour-0/ }).first().locator("span").evaluateAll((spans) => {
    const light = (css) => {
      const [red, green, blue] = css.match(/[\d.]+/g).slice(0, 3).map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
      return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const ground = light(getComputedStyle(spans[0].closest(".screen")).backgroundColor);
    return spans.map((span) => {
      const text = light(getComputedStyle(span).color);
      return (Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05);
    });
  });
  for (const ground of ["#1e1e1e", "#fdf6e3"]) {
    await page.keyboard.type(`clear; printf '\\e]11;${ground}\\a'; for i in 0 1 2 3 4 5 6 7; do printf "\\e[3\${i}mcolour-$i\\e[9\${i}mbright"; done; printf '\\e[0m\\nshown-%s\\n' '${ground}'\n`);
    await sees(page, `shown-${ground}`);
    await page.waitForFunction((light) => getComputedStyle(document.querySelector(".stage > .screen")).colorScheme === light, ground === "#1e1e1e" ? "dark" : "light");
    const found = await contrasts();
    assert.equal(found.length, 16);
    assert.ok(found.every((one) => one >= 4), `${ground}: ${found}`);
  }
  await page.keyboard.type("printf '\\e]111\\a'\n");

  // What scrolled away has its colours, and is searched.
  await page.keyboard.press("Control+Shift+Escape");
  await page.locator(".stage > .screen").click({ position: { x: 5, y: 300 } });
  await page.keyboard.type("clear; for i in $(seq 300); do printf '\\033[3%dmrow %d\\033[0m\\n' $((i % 7 + 1)) $i; done\n");
  await sees(page, "row 300");
  await page.mouse.wheel(0, -200);
  await page.getByLabel("Find in the output").waitFor();
  await page.locator(".scrollback .row", { hasText: /^row 1$/ }).first().waitFor();
  await page.getByLabel("Find in the output").fill("row 27");
  await page.getByText(/^11 of 11$/).waitFor();
  await page.keyboard.press("Enter");
  await page.getByText(/^10 of 11$/).waitFor();
  const colour = await page.locator(".scrollback .row", { hasText: /^row 1$/ }).first().locator("span").first().evaluate((span) => getComputedStyle(span).color);
  assert.equal(colour, "rgb(0, 205, 0)");
  await isAccessible(page);
  await shot(page, "scrollback");
  // It has the text size of the screen, and is left by key: Escape empties the search first.
  const textSize = (name) => page.locator(name).evaluate((screen) => getComputedStyle(screen).fontSize);
  const screen = page.locator(".stage > .screen");
  const ofOutput = await textSize(".scrollback .screen.lines");
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape");
  await screen.waitFor();
  assert.equal(await textSize(".stage > .screen"), ofOutput);

  // All output is searched, also what is older than the rows in colours.
  await page.keyboard.type("for i in $(seq 2500); do case $i in 7|900|2400) echo $i: nee''dle;; *) echo line $i;; esac; done\n");
  await sees(page, "line 2500");
  await page.mouse.move(600, 500);
  await page.mouse.wheel(0, -200);
  await page.getByLabel("Find in the output").fill("needle");
  await page.getByText("Line 3 of 3").waitFor();
  const chosenText = () => page.evaluate(() => [...CSS.highlights.get("chosen")].map((range) => range.startContainer.parentElement.textContent).join(""));
  assert.equal(await chosenText(), "2400: needle\n");
  await page.keyboard.press("Enter");
  await page.getByText("Line 2 of 3").waitFor();
  assert.equal(await chosenText(), "900: needle\n");
  await page.keyboard.press("Enter");
  await page.getByText("Line 1 of 3").waitFor();
  assert.equal(await chosenText(), "7: needle\n");
  await isAccessible(page);
  await shot(page, "found-in-output");
  await page.getByLabel("Find in the output").fill("no such line");
  await page.getByText("Not found").waitFor();
  // Older output is added until its beginning.
  await page.getByRole("button", { name: "To the end" }).click();
  await page.getByRole("button", { name: "Older output, as text" }).click();
  await page.locator(".output .text-line", { hasText: /^line 2500/ }).waitFor();
  const beginning = page.getByText("From the beginning");
  const older = page.getByRole("button", { name: "Older output", exact: true });
  while (!(await beginning.isVisible())) await older.click({ timeout: 1000 }).catch(() => {});
  assert.equal(await page.locator(".output .text-line", { hasText: /^7: needle/ }).count(), 1);
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape");
  await screen.waitFor();

  // The wheel leads there and back, and its end is followed while it is in view.
  await page.keyboard.type("seq 100; (sleep 3; echo late-$((40+2))) &\n");
  await screen.hover();
  await page.mouse.wheel(0, -200);
  await page.locator(".scrollback .row", { hasText: "late-42" }).waitFor();
  await page.mouse.move(600, 500);
  await page.mouse.wheel(0, -300);
  await page.getByRole("button", { name: "To the end" }).click();
  await page.getByRole("button", { name: "To the end" }).waitFor({ state: "hidden" });
  await page.mouse.move(600, 500);
  await page.mouse.wheel(0, 200);
  await screen.waitFor();

  // A program that ended stays readable, and says how it ended.
  await page.keyboard.type("exit 3\n");
  await page.getByText("ended with 3").waitFor();
  await isExact(page, "an ended terminal");
  isClean(page);
});
