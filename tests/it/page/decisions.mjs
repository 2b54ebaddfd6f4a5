// What the page decides without a browser: names of keys, pastes, rows of screens, timelines and words.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { KEYS } from "./xterm_keys.mjs";

const modules = new URL("../../../crates/http/page/js/", import.meta.url);
const { cleanPaste, isForPage, keyName, keyText } = await import(new URL("keys.js", modules));
const { apply, blank, cells, lastUsed, rowText, runsOf } = await import(new URL("screen.js", modules));
const { beside } = await import(new URL("beside.js", modules));
const { choicesIn, nextSize } = await import(new URL("choices.js", modules));
const { coloursOf, contrast, isLight } = await import(new URL("colours.js", modules));
const { readDiagram, stateOf, statesOf } = await import(new URL("diagram.js", modules));
const { fittingZoom, matchingStates } = await import(new URL("diagram_view.js", modules));
const { areAlike, differences, nearby, steadyText, unified } = await import(new URL("differences.js", modules));
const { jsonLines, placed, syntaxProblem } = await import(new URL("json_lines.js", modules));
const { newestBefore, places } = await import(new URL("find.js", modules));
const { addressAt, addresses, openable } = await import(new URL("links.js", modules));
const { cellAt, isReported, wheelSteps } = await import(new URL("mouse.js", modules));
const { marksOf, recordingOf, runsDuring } = await import(new URL("marks.js", modules));
const { advance, clockTime, takeDue } = await import(new URL("playback.js", modules));
const { inView } = await import(new URL("long_list.js", modules));
const { askedOf, filterOf, hasText, isOf, queryOf } = await import(new URL("run_filter.js", modules));
const { addEvent, brief, duration, emptyTimeline, flatten, gist, grouped, isEmpty, isNext, lanes, layOut, readableParts, telling } = await import(new URL("timeline.js", modules));
const { dayTime, size, terminalName, terminalPlace, terminalState, timeAgo, visible } = await import(new URL("words.js", modules));
const { choicesOf, constraint, localTime, problemOf, refusals, valueOf } = await import(new URL("form.js", modules));

const press = (key, more = {}) => ({ key, ctrlKey: false, altKey: false, shiftKey: false, metaKey: false, isComposing: false, ...more });

test("choices of a browser are known values, whatever its storage has", () => {
  const usual = { theme: "system", text: "100", terminalText: "15", times: "local", commands: "off", bells: "on" };
  for (const stored of [null, "", "{", "[]", "7", "null", '{"theme":"<b>","text":100,"times":["utc"]}']) assert.deepEqual(choicesIn(stored), usual, String(stored));
  assert.deepEqual(choicesIn('{"theme":"dark","text":"130","more":1}'), { ...usual, theme: "dark", text: "130" });
  assert.equal(nextSize("terminalText", "15", 1), "18");
  assert.equal(nextSize("terminalText", "15", -1), "12");
  assert.equal(nextSize("text", "150", 1), null);
  assert.equal(nextSize("text", "90", -1), null);
});

test("a text that is not JSON is wrong at a line", () => {
  assert.equal(syntaxProblem('{"a": [1, 2]}'), null);
  for (const [text, line] of [["{\n  \"a\": 1,\n  b\n}", 2], ["{\n  \"a\": [1,\n", 2], ["", 0], ["{}\n{", 1], ["[1 2]", 0]]) {
    assert.equal(syntaxProblem(text)?.line, line, text);
  }
});

test("a time in UTC has its day there, and says so", () => {
  const now = Date.parse("2026-11-30T23:30:00Z");
  assert.match(dayTime("2026-11-30T00:05:00Z", now, "utc"), /^today, 12:05 AM UTC$|^today, 0?0:05 UTC$/);
  assert.match(dayTime("2026-11-29T23:59:00Z", now, "utc"), /^yesterday, .*59.* UTC$/);
  assert.equal(dayTime("soon", now, "utc"), "");
});

test("text of every colour can be read on every ground, and equal colours hide it", () => {
  const parse = (css) => [1, 3, 5].map((at) => Number.parseInt(css.slice(at, at + 2), 16));
  // As a browser reads it: the value of a property that is not set, and the colour of a scheme.
  const usual = { dark: { "--fg": "#e5e5e5", "--bg": "#1e1e1e" }, light: { "--fg": "#1e1e1e", "--bg": "#f2f2f2" } };
  const seen = (css, scheme) => {
    const value = css.replace(/^var\(--p\d+, (.*)\)$/, "$1").replace(/^light-dark\((.*), (.*)\)$/, (_, light, dark) => (scheme === "light" ? light : dark));
    return parse(value.replace(/^var\((--fg|--bg)\)$/, (_, name) => usual[scheme][name]));
  };
  const names = [undefined, ...Array(256).keys(), "#0000ee", "#777777", "#fefefe", "#010203"];
  for (const scheme of ["dark", "light"]) {
    for (const front of names) {
      for (const back of names) {
        for (const more of [[], ["R"]]) {
          const words = [...(front === undefined ? [] : [`f${front}`]), ...(back === undefined ? [] : [`b${back}`]), ...more];
          const { text, ground } = coloursOf(words);
          const [one, other] = [seen(text, scheme), seen(ground ?? "var(--bg)", scheme)];
          const isHidden = one.every((part, at) => part === other[at]);
          assert.ok(isHidden || contrast(one, other) >= 4.5, `${scheme} ${words}: ${text} on ${ground}, ${contrast(one, other)}`);
          if (isHidden) assert.ok(front !== undefined || back !== undefined, `${scheme} ${words}`);
        }
      }
    }
  }
  assert.match(coloursOf(["f2"]).text, /^var\(--p2, light-dark\(#[0-9a-f]{6}, #00cd00\)\)$/);
  assert.deepEqual(coloursOf(["f0", "b0"]), { text: "var(--p0, #000000)", ground: "var(--p0, #000000)" });
  assert.deepEqual(coloursOf([]), { text: "var(--fg)", ground: null });
  assert.deepEqual(coloursOf(["R"]), { text: "var(--bg)", ground: "var(--fg)" });
  assert.deepEqual([isLight("#1e1e1e"), isLight("#ffffff"), isLight("#000000")], [false, true, false]);
});

test("a key has the name that the server knows, and a character is text", () => {
  const named = [
    [press("Enter"), "enter"],
    [press("ArrowUp", { ctrlKey: true }), "ctrl-up"],
    [press("Tab", { shiftKey: true }), "shift-tab"],
    [press("F5"), "f5"],
    [press("c", { ctrlKey: true }), "ctrl-c"],
    [press(" ", { ctrlKey: true }), "ctrl-space"],
    [press("x", { altKey: true }), "alt-x"],
    [press("a"), null],
    [press("Shift", { shiftKey: true }), null],
    [press("Dead"), null],
    [press("a", { isComposing: true, ctrlKey: true }), null],
    [press("r", { metaKey: true }), null],
    [press("@", { ctrlKey: true, altKey: true }), null],
  ];
  for (const [pressed, name] of named) assert.equal(keyName(pressed), name, JSON.stringify(pressed));
  assert.equal(keyText(press("a"), false), "a");
  assert.equal(keyText(press("é"), false), "é");
  assert.equal(keyText(press("a", { ctrlKey: true }), false), null);
  assert.equal(keyText(press("@", { ctrlKey: true, altKey: true }), true), "@", "AltGr types a character");
  assert.equal(keyText(press("Enter"), false), null);
});

test("a letter with shift is one with alt, too, and ctrl has the characters that X11 gives it", () => {
  const named = [
    [press("F", { altKey: true, shiftKey: true }), "alt-shift-f"],
    [press("F", { altKey: true }), "alt-shift-f", "shift is locked"],
    [press("É", { altKey: true, shiftKey: true }), "alt-É"],
    [press("6", { ctrlKey: true }), "ctrl-^"],
    [press("8", { ctrlKey: true }), "ctrl-8"],
    [press("~", { ctrlKey: true, shiftKey: true }), "ctrl-^"],
    [press("-", { ctrlKey: true }), "ctrl--"],
    [press("6", { altKey: true }), "alt-6"],
    [press("6", { ctrlKey: true, altKey: true }), "ctrl-alt-^"],
    [press(" ", { ctrlKey: true, altKey: true }), "ctrl-alt-space"],
    [press("constructor", { ctrlKey: true }), null],
  ];
  for (const [pressed, name, why] of named) assert.equal(keyName(pressed), name, why ?? JSON.stringify(pressed));
  // Each key of the table is one for the terminal: text, or a key with a name.
  for (const { key, shift, alt, ctrl } of KEYS) {
    const pressed = press(key, { shiftKey: Boolean(shift), altKey: Boolean(alt), ctrlKey: Boolean(ctrl) });
    assert.ok(!isForPage(pressed, false) && (keyText(pressed, false) ?? keyName(pressed)), JSON.stringify(pressed));
  }
});

test("few keys belong to the page", () => {
  assert.ok(isForPage(press("C", { ctrlKey: true, shiftKey: true }), false));
  assert.ok(isForPage(press("c", { ctrlKey: true }), true), "ctrl-c copies while text is selected");
  assert.ok(!isForPage(press("c", { ctrlKey: true }), false));
  assert.ok(!isForPage(press("w", { ctrlKey: true }), true));
});

test("a paste has no control characters but tabs and line ends", () => {
  assert.equal(cleanPaste("a\u001b[31mb\r\nc\u0003\u009b\td\re"), "a[31mb\nc\td\ne");
});

test("a change replaces the rows that it has, and another size all of them", () => {
  const screen = blank();
  const state = { foreground: "#fff", background: "#000" };
  assert.deepEqual(apply(screen, { cols: 9, rows: 2, whole: true, changed: [{ row: 0, runs: [[0, 2, "ab", ""]] }], state }), [0, 1]);
  assert.deepEqual(apply(screen, { cols: 9, rows: 2, whole: false, changed: [{ row: 1, runs: [[3, 1, "x", "B"]] }], state }), [1]);
  assert.deepEqual(screen.lines.map(rowText), ["ab", "   x"]);
  assert.equal(lastUsed(screen), 1);
  assert.deepEqual(apply(screen, { cols: 9, rows: 3, whole: true, changed: [], state }), [0, 1, 2]);
  assert.deepEqual(screen.lines.map(rowText), ["", "", ""]);
});

test("cells of a run have their columns", () => {
  assert.deepEqual(cells([2, 4, "漢字", "W"]), [{ col: 2, cols: 2, text: "漢" }, { col: 4, cols: 2, text: "字" }]);
  assert.deepEqual(cells([0, 1, "e\u0301", ""]), [{ col: 0, cols: 1, text: "e\u0301" }], "characters of one cell stay together");
});

test("a timeline pairs what began with its end, and shortens idle time", () => {
  const timeline = emptyTimeline();
  const at = (seconds) => new Date(1e12 + seconds * 1000).toISOString();
  const event = (seconds, event_type, data) => addEvent(timeline, { event_type, data, timestamp: at(seconds) });
  event(0, "workflow_started", {});
  event(0, "state_entered", { state: "open", visit: 1, tool: "open_terminal", params: {} });
  event(1, "state_completed", { state: "open", visit: 1, outcome: "finished", result: { success: true, session_id: "term_a" } });
  event(1, "transition", { from: "open", to: "ask", because: "the action succeeded" });
  event(101, "state_entered", { state: "ask", visit: 1, tool: "await_output", params: {} });
  event(102, "state_completed", { state: "ask", visit: 1, outcome: "timed_out" });
  event(102, "workflow_failed", { error: "it did not come" });
  const [open, ask] = timeline.steps;
  assert.deepEqual([open.outcome, open.terminal, open.because], ["ok", "term_a", "→ ask: the action succeeded"]);
  assert.deepEqual([ask.outcome, timeline.error], ["failed", "it did not come"]);
  const { whole, spans } = layOut(timeline, Date.parse(at(200)), 2000);
  assert.deepEqual([whole, spans], [4000, [{ from: 0, to: 1000 }, { from: 3000, to: 4000 }]]);
  assert.deepEqual([duration(7), duration(1500), duration(90_000), duration(7_260_000)], ["7 ms", "1.5 s", "1 min 30 s", "2 h 1 min"]);
  assert.equal(duration(119_700), "1 min 59 s");
});

test("what would hide in a text is shown by its number", () => {
  assert.equal(visible("a\u202eb\u0007c\u200bd\n\te"), "a⟨U+202E⟩b⟨U+0007⟩c⟨U+200B⟩d\n\te");
  assert.equal(visible("漢字 é 🙂 ⚠️"), "漢字 é 🙂 ⚠️");
  assert.equal(visible("n\u0336o\u0336"), "n⟨U+0336⟩o⟨U+0336⟩", "struck through");
  assert.equal(visible("yes\u20dd no\u20e0"), "yes⟨U+20DD⟩ no⟨U+20E0⟩", "enclosed");
  assert.equal(visible(`e${"\u0301".repeat(40)}`), `e${"\u0301".repeat(3)}${"⟨U+0301⟩".repeat(37)}`, "stacked");
  for (const whole of ["gru\u0308n Vie\u0323\u0302t", "ש\u05c1\u05bc\u05b8", "ที่"]) assert.equal(visible(whole), whole);
});

test("what the command line makes visible is visible on the page", () => {
  const ranges = JSON.parse(process.env.STEPLATCH_HIDDEN ?? "[]");
  assert.ok(ranges.length > 30, "the test in page.rs names the characters");
  const hidden = [];
  for (const [first, last] of ranges) {
    for (let code = first; code <= last; code++) {
      if (visible(`a${String.fromCodePoint(code)}`) === `a${String.fromCodePoint(code)}`) hidden.push(code.toString(16));
    }
  }
  assert.deepEqual(hidden, []);
  // In the other direction, too: marks of languages stay.
  const isListed = (code) => ranges.some(([first, last]) => first <= code && code <= last);
  const marks = [];
  for (let code = 0x300; code < 0x1e000; code++) {
    const text = `a${String.fromCodePoint(code)}`;
    if (/\p{M}$/u.test(text) && visible(text) !== text && !isListed(code)) marks.push(code.toString(16));
  }
  assert.deepEqual(marks, []);
});

test("states of terminals are what the daemon knows", () => {
  const words = [
    [{ state: "exited", exit_code: 3 }, "ended with 3"],
    [{ password: true, busy: true }, "asks for a password"],
    [{ busy: false, awaiting_input: true }, "at its prompt"],
    [{ busy: true, awaiting_input: true }, "waits for input"],
    [{ busy: true, awaiting_input: true, alternate_screen: true }, "running"],
    [{ busy: true }, "busy"],
    [{}, "running"],
    [{ state: "exited", exit_code: 3, host: "build", host_lost_since: "2026-01-01T00:00:00Z" }, "host lost 3 min ago"],
  ];
  for (const [terminal, word] of words) assert.equal(terminalState(terminal, Date.parse("2026-01-01T00:03:00Z")).word, word);
  // Only a password needs a person for sure; an interpreter waits for input all day.
  assert.deepEqual([{ password: true }, { awaiting_input: true }, { awaiting_input: true, alternate_screen: true }].map((terminal) => terminalState(terminal, 0).tone), ["wait", "idle", "busy"]);
  assert.equal(timeAgo("2026-01-01T00:00:00Z", Date.parse("2026-01-01T02:03:00Z")), "2 h ago");
});

test("a directory stands behind the name of its machine", () => {
  assert.deepEqual([{ cwd: "/srv" }, { cwd: "/srv", host: "build" }, { host: "build" }, {}].map(terminalPlace), ["/srv", "build:/srv", "build:", ""]);
});

test("a time has its day, in the time zone of the browser", () => {
  const now = new Date(2026, 0, 31, 12, 0).getTime();
  const told = (...parts) => dayTime(new Date(...parts).getTime(), now);
  assert.match(told(2026, 0, 31, 23, 5), /^today, .*\d{2}/);
  assert.match(told(2026, 1, 1, 0, 5), /^tomorrow, /);
  assert.match(told(2026, 0, 30, 23, 59), /^yesterday, /);
  const later = told(2026, 1, 2, 15, 5);
  assert.ok(later.includes("2") && /\p{L}/u.test(later) && !later.includes("2026"), later);
  assert.ok(told(2027, 0, 31, 12, 0).includes("2027"));
  assert.equal(dayTime("no time", now), "");
});

test("names and directories of terminals hide nothing", () => {
  assert.equal(terminalName({ name: "a\u202egpj.exe" }), "a⟨U+202E⟩gpj.exe");
  assert.equal(terminalPlace({ cwd: "/srv/\u202ex", host: "b\u200b" }), "b⟨U+200B⟩:/srv/⟨U+202E⟩x");
});

test("what can be chosen has its titles, in each notation", () => {
  const titles = (property) => choicesOf(property)?.map(({ value, title }) => `${title}=${JSON.stringify(value)}`) ?? null;
  assert.deepEqual(titles({ enum: ["a", 2, null] }), ['a="a"', "2=2"]);
  assert.deepEqual(titles({ enum: ["a", "b"], enumNames: ["An a"] }), ['An a="a"', 'b="b"']);
  assert.deepEqual(titles({ oneOf: [{ const: "eu", title: "Europe" }, { const: 3 }] }), ['Europe="eu"', "3=3"]);
  assert.deepEqual(titles({ anyOf: [{ const: true }, { type: "null" }] }), ["true=true"]);
  assert.deepEqual(titles({ const: "only" }), ['only="only"']);
  for (const free of [{ type: "string" }, { oneOf: [{ type: "string" }, { const: 1 }] }, { oneOf: [] }]) assert.equal(choicesOf(free), null);
});

test("a field says what it takes, and what is wrong with a value", () => {
  const number = { type: "integer", minimum: 1, maximum: 9 };
  const words = [number, { type: "number", minimum: 0 }, { type: ["number", "null"], exclusiveMaximum: 1 }, { type: "string", minLength: 3, maxLength: 8 }, { type: "string", maxLength: 8 }, { type: "string", format: "email" }, { type: "array" }, { type: "string" }, { enum: ["a"] }, { type: "boolean" }];
  assert.deepEqual(words.map(constraint), ["a whole number from 1 to 9", "a number at least 0", "a number below 1", "3 to 8 characters", "at most 8 characters", "an address such as ana@example.com", "a list, as JSON", "", "", ""]);
  const wrong = (property, value, isRequired = false) => problemOf(property, isRequired, value);
  assert.deepEqual([wrong(number, 3), wrong(number, undefined), wrong({ ...number, default: 2 }, undefined, true)], [null, null, null]);
  for (const value of [0, 10, 1.5, "x"]) assert.equal(wrong(number, value), "This must be a whole number from 1 to 9.");
  assert.deepEqual([wrong(number, undefined, true), wrong({ enum: ["a"] }, undefined, true), wrong({ type: "boolean" }, undefined, true)], ["Fill this in.", "Choose one.", "Choose one."]);
  assert.equal(wrong({ type: "string", minLength: 3, maxLength: 8 }, "漢🙂"), "This must have 3 to 8 characters, not 2.");
  assert.equal(wrong({ type: "object" }, []), "This must be an object, as JSON.");
  assert.equal(wrong({ type: "array" }, "[1"), "This must be a list, as JSON.");
  assert.equal(localTime(new Date(2026, 0, 31, 9, 5).toISOString()), "2026-01-31T09:05");
});

test("what the server refuses is found for each field", () => {
  const words = "The form is not filled in well: 'count' must be from 1 to 9, not 12; 'to' must be one of eu, us, not \"x\"";
  assert.deepEqual([...refusals(words, ["to", "count", "other"])], [["count", "must be from 1 to 9, not 12"], ["to", 'must be one of eu, us, not "x"']]);
  assert.deepEqual([...refusals("The run is over", ["run"])], []);
});

test("a field of a form is a value of its type, or the text that the server refuses", () => {
  assert.deepEqual([valueOf("3", "integer"), valueOf("x", "integer"), valueOf("", "string"), valueOf("true", "boolean")], [3, "x", undefined, true]);
  assert.deepEqual([valueOf("[1]", "array"), valueOf("[1", "array")], [[1], "[1"]);
});

test("of a long list only the rows in view are elements, and some beyond", () => {
  assert.deepEqual(inView(0, 280, 28, 5000), { first: 0, last: 18 });
  assert.deepEqual(inView(2800, 280, 28, 5000), { first: 92, last: 118 });
  assert.deepEqual(inView(28 * 4990, 280, 28, 5000), { first: 4982, last: 5000 });
  assert.deepEqual(inView(99999999, 280, 28, 10), { first: 10, last: 10 });
  assert.deepEqual(inView(0, 280, 28, 0), { first: 0, last: 0 });
});

test("many idle stretches are left out, each once", () => {
  const timeline = emptyTimeline();
  const step = (visit, from, to) => {
    const at = (time) => new Date(time).toISOString();
    addEvent(timeline, { event_type: "state_entered", timestamp: at(from), data: { state: "s", visit } });
    addEvent(timeline, { event_type: "state_completed", timestamp: at(to), data: { state: "s", visit, outcome: "finished" } });
  };
  for (let number = 0; number < 100; number += 1) step(number, number * 10_000, number * 10_000 + 1000);
  const { whole, spans } = layOut(timeline, 0, 2000);
  // Every step takes a second, and two seconds of each pause are drawn.
  assert.equal(whole, 100 * 1000 + 99 * 2000);
  assert.deepEqual(spans[99], { from: 99 * 3000, to: 99 * 3000 + 1000 });
});

test("an address ends before what ends a sentence, and only those of the web are opened", () => {
  const found = (text) => addresses(text).map(({ address }) => address);
  assert.deepEqual(found("see https://example.org/a?b=c#d, or (http://localhost:8080/x)."), ["https://example.org/a?b=c#d", "http://localhost:8080/x"]);
  assert.deepEqual(found("https://en.wikipedia.org/wiki/A_(b) \"https://a.example/\""), ["https://en.wikipedia.org/wiki/A_(b)", "https://a.example/"]);
  assert.deepEqual(found("javascript:alert(1) file:///etc/passwd https:// ftp://a.example"), []);
  assert.deepEqual(found("https://name:secret@example.org/"), [], "a name in an address hides where it leads");
  assert.equal(openable("data:text/html,x"), null);
  // A row that is full goes on in the next one.
  const lines = [[[0, 6, "go to ", ""], [6, 14, "https://exampl", ""]], [[0, 9, "e.org/b .", ""]], [[0, 4, "next", ""]]];
  const at = (row, col) => addressAt({ cols: 20, lines }, { row, col });
  assert.equal(at(0, 8), "https://example.org/b");
  assert.equal(at(1, 2), "https://example.org/b");
  assert.equal(at(1, 7), null);
  assert.equal(at(0, 2), null);
  assert.equal(at(2, 1), null);
  const wide = [[[0, 4, "漢字", "W"], [4, 16, " http://a.exampl", ""]]];
  assert.equal(addressAt({ cols: 40, lines: wide }, { row: 0, col: 19 }), "http://a.exampl");
  // What the program gave counts, whatever the text says.
  const given = [runsOf({ runs: [[0, 3, "see", ""], [4, 18, "https://example.or", "U1"]], links: [[1, "mailto:a@example.org"], [7, "x"]] })];
  assert.equal(addressAt({ cols: 40, lines: given }, { row: 0, col: 9 }), "mailto:a@example.org");
  assert.equal(addressAt({ cols: 40, lines: given }, { row: 0, col: 1 }), null);
});

test("a mouse is over a cell, and a wheel turns by steps", () => {
  const cells = { cols: 80, rows: 24 };
  assert.deepEqual(cellAt({ x: 0, y: 0 }, { width: 800, height: 480 }, cells), { col: 0, row: 0 });
  assert.deepEqual(cellAt({ x: 799, y: 479 }, { width: 800, height: 480 }, cells), { col: 79, row: 23 });
  assert.deepEqual(cellAt({ x: 900, y: -3 }, { width: 800, height: 480 }, cells), { col: 79, row: 0 });
  assert.deepEqual(wheelSteps(0, 100, 0), { steps: 2, rest: 20 });
  assert.deepEqual(wheelSteps(20, 25, 0), { steps: 1, rest: 5 });
  assert.deepEqual(wheelSteps(20, -10, 0), { steps: -0, rest: -10 });
  assert.deepEqual(wheelSteps(0, -3, 1), { steps: -3, rest: 0 });
  assert.equal(wheelSteps(0, 5000, 0).steps, 5);
  assert.ok(isReported("buttons", "press") && isReported("buttons", "wheel_up") && !isReported("buttons", "drag"));
  assert.ok(isReported("drags", "drag") && !isReported("drags", "move") && isReported("moves", "move"));
  assert.ok(!isReported(undefined, "press"));
});

test("text is found in rows, with its case where it has capitals", () => {
  const rows = ["Error: no error", "", "an ERROR"];
  assert.deepEqual(places(rows, "error"), [{ row: 0, from: 0, to: 5 }, { row: 0, from: 10, to: 15 }, { row: 2, from: 3, to: 8 }]);
  assert.deepEqual(places(rows, "ERROR"), [{ row: 2, from: 3, to: 8 }]);
  assert.deepEqual(places(rows, ""), []);
  assert.equal(places(Array(200).fill("x".repeat(100)), "x").length, 5000);
  assert.deepEqual(places(["\u0130 x"], "x"), [{ row: 0, from: 2, to: 3 }], "a letter that is longer in lower case moves nothing");
});

test("the newest lines of an output are found from its end", async () => {
  let requests = 0;
  const newest = async (offsets, end, count) => {
    requests = 0;
    const search = async (from) => {
      requests += 1;
      const later = offsets.filter((offset) => offset >= from);
      return { lines: later.slice(0, 20).map((offset) => ({ offset, text: "" })), next: later[20] ?? null };
    };
    return (await newestBefore(search, end, count)).map(({ offset }) => offset);
  };
  const every = (step, count) => Array.from({ length: count }, (_, index) => index * step);
  assert.deepEqual(await newest(every(37, 100_000), 3_700_000, 3), [3_699_963, 3_699_926, 3_699_889]);
  assert.ok(requests < 10, String(requests));
  // Long ago, near the beginning, all of it, and none.
  assert.deepEqual(await newest(every(37, 300), 10_000_000, 2), [11_063, 11_026]);
  assert.ok(requests < 40, String(requests));
  assert.deepEqual(await newest(every(2, 1000), 10, 15), [8, 6, 4, 2, 0]);
  assert.deepEqual(await newest([5, 7], 1000, 15), [7, 5]);
  assert.deepEqual(await newest([], 1000, 5), []);
});

test("a diagram has only elements and attributes that are known", () => {
  const drawn = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9" viewBox="0 0 9 9" onload="x()">\n<style>text{fill:red}</style><script>alert(1)</script>'
    + '<foreignObject><g><text>inside</text></g></foreignObject><g class="plain" transform="translate(1 2)"><rect class="card" width="5" height="5" rx="7" style="x"/>'
    + '<text class="name" x="1" y="2" xml:space="preserve">long…<title>long &amp; whole &lt;b&gt;</title></text><a href="javascript:x()"><path d="M0 0"/></a></g></svg>';
  const root = readDiagram(drawn);
  assert.deepEqual(root.attributes, [["width", "9"], ["height", "9"], ["viewBox", "0 0 9 9"]]);
  assert.deepEqual(root.children.map(({ tag }) => tag), ["g"]);
  assert.deepEqual(root.children[0].children.map(({ tag }) => tag), ["rect", "text"]);
  assert.deepEqual(root.children[0].children[0].attributes.map(([name]) => name), ["class", "width", "height", "rx"]);
  assert.equal(stateOf(root.children[0]), "long & whole <b>");
  assert.equal(readDiagram("no picture"), null);
  assert.equal(readDiagram("<g></g>"), null);
});

test("two texts are compared line by line", () => {
  const told = (one, other) => differences(one.join("\n"), other.join("\n")).map(({ is, text }) => `${{ same: " ", gone: "-", new: "+" }[is]}${text}`);
  assert.deepEqual(told(["a", "b", "c"], ["a", "x", "c", "d"]), [" a", "-b", "+x", " c", "+d"]);
  assert.deepEqual(told(["a"], ["a"]), [" a"]);
  assert.deepEqual(told(["a", "b"], ["b", "a"]), ["-a", " b", "+a"]);
  // What was taken away and put in turns one into the other.
  const lines = Array.from({ length: 60 }, (_, index) => String((index * 7) % 13));
  const others = lines.filter((_, index) => index % 5).concat("end");
  const all = differences(lines.join("\n"), others.join("\n"));
  assert.deepEqual(all.filter(({ is }) => is !== "new").map(({ text }) => text), lines);
  assert.deepEqual(all.filter(({ is }) => is !== "gone").map(({ text }) => text), others);
  const near = nearby(differences([..."abcdefgh"].join("\n"), [..."abcdXfgh"].join("\n")), 1);
  assert.deepEqual(near.map((line) => line && line.text), [null, "d", "e", "X", "f", null]);
});

test("a difference of a question is told by its lines, and keeps its text", () => {
  const text = "--- setup\n+++ setup (patched)\n@@ -1,2 +1,2 @@\n same\n-gone\n+new\n";
  const lines = unified(text);
  assert.deepEqual(lines.map(({ is }) => is), ["left", "left", "left", "same", "gone", "new"]);
  assert.equal(lines.map((line) => `${line.text}\n`).join(""), text);
  for (const other of ["", "--- a", "+ not one", "--- a\n+++ b\nno part"]) assert.equal(unified(other), null);
});

test("what a cancel ends is cancelled, and has not failed", () => {
  const timeline = emptyTimeline();
  const event = (event_type, data) => addEvent(timeline, { timestamp: "2026-01-01T00:00:00Z", event_type, data });
  event("state_entered", { state: "ask", visit: 1, tool: "gate", params: {} });
  for (const gate_id of ["one", "two", "three"]) event("gate_waiting", { gate_id });
  event("gate_cancelled", { gate_id: "one" });
  event("gate_timeout", { gate_id: "two" });
  event("gate_answered", { gate_id: "three" });
  event("workflow_cancelled", {});
  assert.deepEqual(timeline.steps.map(({ outcome }) => outcome), ["cancelled", "cancelled", "failed", "ok"]);
  assert.deepEqual([timeline.error, timeline.reason], [null, "cancelled"]);
});

/** Returns the timeline of these events. */
const timelineOf = (...events) => {
  const timeline = emptyTimeline();
  for (const [event_type, data] of events) addEvent(timeline, { timestamp: "2026-01-01T00:00:00Z", event_type, data });
  return timeline;
};

test("what a function prints and emits are steps, and its input and result are those of the run", () => {
  const timeline = timelineOf(
    ["workflow_started", { input: "x", params: { input: "x", range: "all" } }],
    ["log", { text: "one\ntwo" }],
    ["draft_ready", { round: 1, words: 120 }],
    ["bare", {}],
    ["plain", { data: [1, 2] }],
    ["workflow_paused", { by: "ana" }],
    ["workflow_resumed", {}],
    ["workflow_completed", { run_id: "run_1", result: { answer: 42 } }],
  );
  assert.deepEqual(timeline.steps.map((step) => [step.name, step.outcome, gist(step)]), [
    ["print", "event", "one"], ["draft_ready", "event", "round=1 words=120"], ["bare", "event", ""], ["plain", "event", "1, 2"], ["Paused", "event", "by ana"], ["Resumed", "event", ""],
  ]);
  assert.deepEqual([timeline.given, timeline.result, timeline.error], [{ input: "x", params: { range: "all" } }, { answer: 42 }, null]);
  const failed = timelineOf(["workflow_started", { input: {}, max_states: 1 }], ["workflow_failed", { error: "no", traceback: "line 1" }]);
  assert.deepEqual([failed.given, failed.error, failed.traceback], [{ input: undefined, params: {} }, "no", "line 1"]);
});

test("a view that follows a run takes its events from the first on, also where another view followed it before", () => {
  const taken = [];
  for (const seq of [17, 18, 1, 2, 2, 5, 18]) if (isNext({ seq }, taken.at(-1) ?? 0)) taken.push(seq);
  assert.deepEqual(taken, [1, 2, 5, 18]);
});

test("a graph that a function calls is one step, which its result ends", () => {
  const timeline = timelineOf(
    ["node_started", { node_id: "release", call: 1, input: "v1" }],
    ["graph_started", { call: 1, input: "v1" }],
    ["node_started", { node_id: "build", step_id: "first", call: 2, within: 1, input: "v1" }],
    ["node_completed", { node_id: "build", call: 2, within: 1, success: true, result: { output: "built", node_type: "bash" } }],
    ["graph_completed", { call: 1 }],
    ["node_completed", { node_id: "release", call: 1, success: true, result: { output: "done", node_type: "graph" } }],
    ["workflow_completed", { result: null }],
  );
  assert.deepEqual(timeline.steps.map((step) => [step.name, step.kind, step.outcome, gist(step)]), [["release", "graph", "ok", "v1 → done"], ["first", "bash", "ok", "v1 → built"]]);
});

test("the step that failed first is looked at, else one that waits, else the last", () => {
  const step = (outcome, ended) => ({ outcome, ended });
  assert.equal(telling([]), -1);
  assert.equal(telling([step("ok", 1), step("running", null)]), 1);
  assert.equal(telling([step("waiting", null), step("running", null)]), 0);
  // A state ends after the call within it that failed.
  assert.equal(telling([step("failed", 9), step("failed", 5), step("failed", 7), step("waiting", null)]), 1);
  assert.equal(telling([step("failed", 9), step("failed", 9), step("ok", 9)]), 1);
});

test("a step has its input and its output in a line", () => {
  const state = (input, output, outcome = "ok") => gist({ key: "state a 1", input, output, outcome });
  assert.equal(state({ session_id: "work", command: "make all\n" }, { success: true, output: "built\nall", exit_code: 0 }), "make all → built");
  assert.equal(state({ pattern: "x" }, { success: false, error: "it did not come" }, "failed"), "x → it did not come");
  assert.equal(state({ seconds: 3 }, { success: true }), "seconds=3");
  assert.deepEqual([brief({}), brief(null), brief([]), brief("a\nb"), brief(0), brief(false)], ["", "", "", "a", "0", "false"]);
  assert.equal(brief({ list: [1, 2], deep: { text: "x".repeat(50) }, none: null }), "list=[1,2] deep={…}");
  assert.deepEqual([{}, [], "", null, undefined, 0, false, "x"].map(isEmpty), [true, true, true, true, true, false, false, false]);
  const found = { key: "call 1", name: "say", kind: "node", outcome: "failed", because: "", input: "Hello", output: { error: "no" } };
  assert.deepEqual(["", " hello ", "FAILED", '"no"', "elsewhere"].map((text) => hasText(found, text)), [true, true, true, true, false]);
});

test("what differs from run to run is no difference, and any other number is one", () => {
  // The rules, and their examples, are those of crates/capture/src/variation.rs.
  const rules = readFileSync(new URL("../../../crates/capture/src/variation.rs", import.meta.url), "utf8");
  const [, same = "", others = ""] = rules.split(/fn (?:volatile_text_is_not_a_difference|number_in_a_result_is_a_difference)/);
  const pairs = (text) => [...text.matchAll(/^ +\(("(?:[^"\\]|\\.)*"), ("(?:[^"\\]|\\.)*")\),$/gm)].map(([, one, other]) => [one, other].map((part) => steadyText(JSON.parse(part))));
  assert.ok(pairs(same).length > 20 && pairs(others).length > 10);
  for (const [one, other] of pairs(same)) assert.equal(one, other);
  for (const [one, other] of pairs(others)) assert.notEqual(one, other);
  assert.equal(steadyText("run_abcdefghjkmnpqrs/ask/1"), steadyText("run_aaaaaaaaaaaaaaaa/ask/1"), "ids without a digit");
  const page = (port, terminal) => `http://localhost:${port}/#/terminals/${terminal}`;
  assert.equal(steadyText(page(7878, "term_gnzdfct2bj")), steadyText(page(7878, "term_abcdefgh2k")), "ids behind a port");
  assert.notEqual(steadyText("http://localhost:8123/a"), steadyText("http://localhost:8123/b"));
  const result = (more) => ({ success: true, session_id: "term_gnzdfct2bj", pid: 12, output: "took 3 ms", exit_code: 0, screen_content: "$", elapsed_time: 0.1, ...more });
  const other = { exit_code: 0, elapsed_time: 3, pid: 99, screen_content: "$ ls", output: "took 41 ms", success: true, session_id: "term_abcdefgh2k" };
  assert.ok(areAlike(result({}), other, true));
  assert.ok(!areAlike(result({}), other), "of what is no result of an action, every field counts");
  assert.ok(areAlike(result({ web_url: page(7878, "term_gnzdfct2bj") }), other, true), "a page that is served for one of both");
  for (const more of [{ exit_code: 1 }, { output: "took no time" }, { success: false }]) assert.ok(!areAlike(result(more), other, true));
  assert.ok(areAlike({ a: 1, b: [2] }, { b: [2], a: 1 }) && areAlike(undefined, null));
  // Lines that are the same but for such parts are shown as they are in the first.
  assert.deepEqual(differences("id 1\npid 12\nend", "id 2\npid 345\nend", steadyText), [
    { is: "gone", text: "id 1" }, { is: "new", text: "id 2" }, { is: "same", text: "pid 12" }, { is: "same", text: "end" },
  ]);
});

test("a mistake is at the line of its place, or of what is around it", () => {
  const lines = jsonLines({ name: "n", states: { "a/b": { action: {}, list: [1, 2] } } });
  assert.deepEqual(lines.map(({ text }) => text).join("\n"), JSON.stringify({ name: "n", states: { "a/b": { action: {}, list: [1, 2] } } }, null, 2));
  const at = (problem) => lines[placed(lines, [problem])[0].line].text.trim();
  assert.equal(at("/states/a~1b/list/1: is wrong"), "2");
  assert.equal(at("/states/a~1b/action/tool: is missing"), '"action": {},');
  assert.equal(at("nothing is said of the place"), "{");
  assert.deepEqual(placed(lines, ["/name: a: b"]), [{ line: 1, words: "a: b" }]);
});

test("steps of two runs are beside each other by state and visit", () => {
  const step = (key, outcome, input, name = key) => ({ key, outcome, input, name, kind: "k" });
  const one = [step("state a 1", "ok", 1), step("state b 1", "failed", 2), step("run x1", "ok", 1, "child")];
  const other = [step("state a 1", "ok", 1), step("run x2", "ok", 1, "child"), step("state c 1", "ok", 3)];
  assert.deepEqual(beside(one, other).map(({ one, other, differs }) => [one?.name ?? null, other?.name ?? null, differs]), [
    ["state a 1", "state a 1", false], ["state b 1", null, true], ["child", "child", false], [null, "state c 1", true],
  ]);
  const opened = (session_id, pid) => ({ key: "state open 1", name: "open", kind: "open_terminal", outcome: "ok", input: { session_id }, output: { success: true, session_id, pid } });
  assert.equal(beside([opened("term_gnzdfct2bj", 1)], [opened("term_abcdefgh2k", 2)])[0].differs, false, "ids differ in every run");
});

test("a replay takes the time of the recording, and jumps over pauses that are longer than the cap", () => {
  assert.equal(advance(1000, 16, { last: 1000, next: 1100, cap: 2000 }), 1016);
  assert.equal(advance(2990, 16, { last: 1000, next: 9000, cap: 2000 }), 9000);
  assert.equal(advance(2990, 16, { last: 1000, next: 9000, cap: null }), 3006);
  assert.equal(advance(2990, 16, { last: 1000, next: null, cap: 2000 }), 3006);
  // At sixteen times the speed, a step can pass the next frame.
  assert.equal(advance(2900, 7000, { last: 1000, next: 9000, cap: 2000 }), 9900);
});

test("frames are taken once their time has come, in order", () => {
  const frames = [0, 10, 20, 20, 30].map((at_ms) => ({ at_ms }));
  assert.deepEqual(takeDue(frames, 20).map(({ at_ms }) => at_ms), [0, 10, 20, 20]);
  assert.deepEqual(frames, [{ at_ms: 30 }]);
  assert.deepEqual(takeDue(frames, 29), []);
  assert.equal(takeDue(frames, 99).length, 1);
  assert.deepEqual([0, 61_999, 3_602_000].map((time) => clockTime(time)), ["0:00", "1:01", "1:00:02"]);
  assert.equal(clockTime(1570, 20_000), "0:01.5");
  assert.deepEqual([999, 1500, 25_400, 3_210_000].map(size), ["999 B", "1.5 kB", "25 kB", "3.2 MB"]);
});

test("a recording has marks of the runs that worked in its terminal meanwhile, and a step its place in it", () => {
  const began = Date.parse("2026-01-01T10:00:00.000Z");
  const time = (ms) => new Date(began + ms).toISOString();
  const recording = { recording_id: "r", session_id: "term_a", title: "work", began: time(0), changed: time(60_000) };
  const runs = [
    { run_id: "before", workflow_id: "w", started_at: time(-9000), completed_at: time(-1000) },
    { run_id: "during", workflow_id: "deploy", started_at: time(1000), completed_at: time(9000) },
    { run_id: "open", workflow_id: "w", started_at: time(2000), completed_at: null },
    { run_id: "after", workflow_id: "w", started_at: time(61_000), completed_at: null },
  ];
  assert.deepEqual(runsDuring(runs, recording, 9).map((run) => run.run_id), ["open", "during"]);
  assert.deepEqual(runsDuring(runs, recording, 1).map((run) => run.run_id), ["open"]);
  const timeline = emptyTimeline();
  const event = (at, event_type, data) => addEvent(timeline, { timestamp: time(at), event_type, data });
  event(1000, "workflow_started", {});
  event(2000, "state_entered", { state: "build", visit: 1, params: { session_id: "work" } });
  event(3000, "state_completed", { state: "build", visit: 1, outcome: "finished", result: { success: true, session_id: "term_a" } });
  event(4000, "state_entered", { state: "elsewhere", visit: 1, params: { session_id: "term_b" } });
  event(9000, "workflow_completed", {});
  const other = emptyTimeline();
  addEvent(other, { timestamp: time(5000), event_type: "state_entered", data: { state: "x", visit: 1, params: { session_id: "term_b" } } });
  const marks = marksOf(recording, 8000, [{ run: runs[1], timeline }, { run: runs[2], timeline: other }], [{ at_ms: 1500, label: "here" }]);
  assert.deepEqual(marks.map(({ at, label, run }) => [at, label, run]), [[1000, "deploy began", "during"], [1500, "here", null], [2000, "build", "during"]]);
  assert.equal(recordingOf(timeline.steps[0], [recording])?.at, 2000);
  assert.equal(recordingOf(timeline.steps[1], [recording]), null);
  assert.equal(recordingOf(timeline.steps[0], [{ ...recording, began: time(2500) }]), null);
});

test("a filter of runs is in the address, asked of the server, and compared with live runs", () => {
  const filter = filterOf(new URLSearchParams("state=failed&since=24h&text= Disk &workflow=deploy&other=x"));
  assert.deepEqual(filter, { state: "failed", workflow: "deploy", since: "24h", text: "Disk" });
  assert.deepEqual(filterOf(new URLSearchParams(queryOf(filter))), filter);
  assert.equal(filterOf(new URLSearchParams("since=yesterday")).since, "");
  const now = Date.parse("2026-01-02T00:00:00Z");
  assert.deepEqual(askedOf(filter, now), { state: "failed", workflow_id: "deploy", since: "2026-01-01T00:00:00.000Z" });
  assert.deepEqual(askedOf({ ...filter, since: "2025-05-05" }, now)?.since, "2025-05-05");
  assert.equal(askedOf({ state: "", workflow: "", since: "", text: "" }, now), null);
  const run = { run_id: "run_1", workflow_id: "deploy", state: "failed", started_at: "2026-01-01T12:00:00Z", error: "disk is full", result: { a: "ok" } };
  assert.ok(isOf(run, filter, now));
  for (const other of [{ state: "running" }, { workflow_id: "deploy2" }, { started_at: "2025-12-31T12:00:00Z" }, { error: null }]) assert.ok(!isOf({ ...run, ...other }, filter, now), JSON.stringify(other));
  const text = (text) => isOf(run, { state: "", workflow: "", since: "", text }, now);
  assert.ok(text("RUN_1") && text('"a":"ok"') && text("") && !text("nothing of it"));
});

test("branches are steps within their state, with the runs that they started behind them", () => {
  const timeline = emptyTimeline();
  const event = (into, at, event_type, data) => addEvent(into, { timestamp: new Date(at).toISOString(), event_type, data });
  event(timeline, 0, "state_entered", { state: "all", visit: 1, tool: "parallel", params: {} });
  for (const branch of [0, 1]) {
    event(timeline, 1, "branch_began", { state: "all", branch, name: branch ? "two" : null, child_run_id: `run_${branch}` });
    event(timeline, 1, "nested_workflow_started", { state: "all", workflow_id: "w", child_run_id: `run_${branch}` });
  }
  event(timeline, 5, "nested_workflow_completed", { state: "all", child_run_id: "run_1" });
  event(timeline, 5, "branch_ended", { state: "all", branch: 1, child_run_id: "run_1", result: { success: true } });
  event(timeline, 6, "branch_ended", { state: "all", branch: 0, child_run_id: "run_0", result: { success: false } });
  assert.deepEqual(timeline.steps.map(({ name, depth, run, outcome }) => [name, depth, run, outcome]), [["all", 0, null, "running"], ["branch 0", 1, "run_0", "failed"], ["two", 1, "run_1", "ok"]]);
  const child = emptyTimeline();
  event(child, 2, "state_entered", { state: "inner", visit: 1, tool: "sleep", params: {} });
  assert.equal(flatten(timeline, new Map()), timeline.steps);
  const flat = flatten(timeline, new Map([["run_0", child]]));
  assert.deepEqual(flat.map(({ name, depth }) => [name, depth]), [["all", 0], ["branch 0", 1], ["inner", 2], ["two", 1]]);
  assert.equal(new Set(flat.map(({ key }) => key)).size, 4);
  // A run that is within itself ends somewhere.
  child.steps.push({ ...child.steps[0], run: "run_0" });
  assert.ok(flatten(timeline, new Map([["run_0", child]])).length < 100);
});

test("equal steps behind each other are one row", () => {
  const step = (number, name, outcome = "ok", output = 1) => ({ key: `call ${number}`, name, kind: "bash", outcome, because: "", depth: 0, run: null, isTakenOver: false, terminal: null, input: null, output, began: number, ended: number + 1 });
  const steps = [step(0, "a"), step(1, "a"), step(2, "a"), step(3, "a", "failed"), step(4, "a", "failed"), step(5, "a", "failed"), step(6, "b"), step(7, "b"), step(8, "b", "ok", 2)];
  const rows = grouped(steps, new Set());
  assert.deepEqual(rows.map(({ key, members }) => [key, members?.length ?? 0]), [["call 0", 3], ["call 3", 0], ["call 4", 0], ["call 5", 0], ["call 6", 0], ["call 7", 0], ["call 8", 0]]);
  assert.equal(rows[0].ended, 3);
  assert.deepEqual(grouped(steps, new Set(["call 0"])).map(({ key }) => key), steps.map(({ key }) => key));
});

test("texts of several lines are shown as they are", () => {
  assert.deepEqual(readableParts("Output", { output: "one\ntwo\n", exit_code: 1, error: "one line\n" }), [{ name: "output", text: "one\ntwo\n" }, { name: "other fields", text: '{\n  "exit_code": 1,\n  "error": "one line\\n"\n}' }]);
  assert.deepEqual(readableParts("Input", { command: "ls" }), [{ name: "Input", text: '{\n  "command": "ls"\n}' }]);
  assert.deepEqual(readableParts("Output", "text"), [{ name: "Output", text: "text" }]);
  assert.deepEqual([readableParts("Output", null), readableParts("Output", {})], [[], []]);
});

test("an address that logs in is no link", () => {
  for (const part of ["ticket=x&project=L3RtcA", "share=x"]) assert.equal(openable(`http://localhost:7878/#${part}`), null);
  assert.equal(openable("http://localhost:7878/#/runs/run_1"), "http://localhost:7878/#/runs/run_1");
});

test("a large diagram fits its area, and a small one keeps its size", () => {
  assert.equal(fittingZoom({ width: 1000, height: 500 }, { width: 500, height: 500 }), 0.5);
  assert.equal(fittingZoom({ width: 100, height: 50 }, { width: 500, height: 500 }), 1);
  assert.equal(fittingZoom({ width: 100_000, height: 50 }, { width: 500, height: 500 }), 0.1);
  assert.equal(fittingZoom({ width: 0, height: 0 }, { width: 500, height: 500 }), 1);
  assert.deepEqual(matchingStates(["unbuild", "Build", "test"], " bui "), ["Build", "unbuild"]);
  assert.deepEqual(matchingStates(["build"], ""), []);
  assert.deepEqual(statesOf("a\nb"), ["a", "b"]);
});

test("steps at the same time are in different lanes", () => {
  assert.deepEqual(lanes([{ from: 0, to: 5 }, { from: 1, to: 3 }, { from: 3, to: 9 }, { from: 4, to: 5 }, { from: 5, to: 6 }]), [0, 1, 1, 2, 0]);
  assert.deepEqual(lanes([]), []);
});
