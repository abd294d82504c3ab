// A long recording's replay: what is on its timeline, where keys lead, and that a jump is exact and reads little.
import { readFileSync } from "node:fs";
import { browser, cells, equal, grant, ok, patience, person, ready, seekPlain, settled, shot, until, visit, Wire } from "./lib.mjs";

const id = process.env.SESSION;
const wire = await new Wire().open();
const chrome = await browser();
const token = grant({ scopes: "observe,replay,lifecycle" }).token;
const mib = 1024 * 1024;

/** Bytes that the recorder has read so far; null where the machine does not tell. */
function read() {
  try {
    return Number(/^rchar: (\d+)/m.exec(readFileSync(`/proc/${ready().pids.recorder}/io`, "utf8"))[1]);
  } catch {
    return null;
  }
}
const at = (page) => page.evaluate(() => window.muxdPlayer.at);
async function seek(page, to) {
  const before = read();
  const asked = await page.evaluate(async (t) => {
    performance.clearResourceTimings();
    await window.muxdPlayer.seek(t);
    const list = performance.getEntriesByType("resource");
    return { requests: list.length, bytes: list.reduce((n, e) => n + e.encodedBodySize, 0) };
  }, to);
  await settled(page);
  return { ...asked, file: before === null ? null : read() - before };
}

try {
  const page = await person(chrome, { width: 1280, height: 800 });
  await visit(page, `https://${wire.host}/#${token}`);
  await until("a page", async () => (await page.locator("main").innerText()).length > 0);
  await visit(page, `https://${wire.host}/replay/${id}`);
  await page.waitForFunction(() => window.muxdPlayer, null, { timeout: patience });
  await page.evaluate(() => window.muxdPlayer.pause());
  await settled(page);
  const duration = await page.evaluate(() => window.muxdPlayer.duration);
  ok("it is two hours long", duration > 7_100_000 && duration < 7_400_000, String(duration));
  await page.waitForSelector(".timeline .tick[data-kind=round]");
  equal("every round of that time has its mark", 12, await page.locator(".timeline .tick[data-kind=round]").count());
  const places = await page.locator(".timeline .tick[data-kind=round]").evaluateAll((list) => list.map((e) => Math.round(parseFloat(e.style.left))));
  places.sort((a, b) => a - b);
  ok("each at its time", places.every((p, i) => Math.abs(p - ((2 * i + 1) * 100) / 24) < 3), String(places));
  const sizes = await page.locator(".timeline .tick[data-kind=resize]").count();
  ok("sizes have marks", sizes > 20, String(sizes));
  await until("its screens", () => page.evaluate(async (s) => (await (await fetch(`/v1/recordings/${s}/screen?at_ns=9000000000000000000`)).json()).found, id), 2 * patience);

  for (const part of [0.93, 0.31, 0.62, 0.07, 0.88]) {
    const cost = await seek(page, duration * part);
    const what = `to ${Math.round(part * 100)} %`;
    ok(`${what}: a screen, and what follows it`, cost.requests <= 4 && cost.bytes < 1.5 * mib, JSON.stringify(cost));
    if (cost.file === null) console.log("  what the recorder reads is not told here");
    else ok(`${what}: no more is read of the file`, cost.file < 2 * mib, JSON.stringify(cost));
  }
  for (const part of [0.04, 0.09, 0.17]) {
    await seek(page, duration * part);
    const jumped = await cells(page);
    await seekPlain(page, duration * part);
    equal(`the screen at ${part * 100} % is the one that playing from the start gives`, await cells(page), jumped);
  }

  // Jumps that overtake one another end where the last one went.
  await page.evaluate((d) => Promise.all([0.8, 0.1, 0.5, 0.3].map((p) => window.muxdPlayer.seek(d * p))), duration);
  await settled(page);
  const raced = await cells(page);
  await seek(page, duration * 0.9);
  await seek(page, duration * 0.3);
  equal("of jumps that overtake one another the last one counts", await cells(page), raced);

  await page.locator(".stage").focus();
  const here = await at(page);
  await page.keyboard.press("]");
  await settled(page);
  const mark = await at(page);
  ok("] is the next mark", mark > here, `${here} ${mark}`);
  await page.keyboard.press("[");
  await page.keyboard.press("5");
  await settled(page);
  equal("5 is the middle", Math.round(duration / 2), Math.round(await at(page)));
  await page.keyboard.press("ArrowLeft");
  await settled(page);
  equal("an arrow is ten seconds", Math.round(duration / 2) - 10_000, Math.round(await at(page)));
  const before = await at(page);
  await page.keyboard.press(".");
  await until("a step", async () => (await at(page)) > before);
  ok("a step goes to the next output", true);

  // What the page asks for, not what becomes of it: a fake answers.
  const asked = [];
  await page.route("**/fork", (route) => {
    asked.push(route.request().postDataJSON());
    return route.fulfill({ status: 201, json: { agent: "copy" } });
  });
  await page.getByRole("button", { name: "Open workspace" }).click();
  await until("the question", () => asked.length);
  equal("a workspace is that of the moment", [{ at_ms: Math.round(await at(page)) }], asked);

  for (const [name, options] of [["light", {}], ["dark", { dark: true }], ["small", { width: 390, height: 800 }], ["small-dark", { width: 390, height: 800, dark: true }]]) {
    const p = await person(chrome, { width: 1280, height: 800, ...options });
    await visit(p, `https://${wire.host}/#${token}`);
    await until("a page", async () => (await p.locator("main").innerText()).length > 0);
    await visit(p, `https://${wire.host}/replay/${id}#t=4000`);
    await p.waitForFunction(() => window.muxdPlayer?.state === "paused", null, { timeout: patience });
    await p.waitForSelector(".timeline .tick[data-kind=round]", { state: "attached" });
    await shot(p, `replay-long-${name}`);
    equal(`${name}: nothing to complain of`, [], p.complaints);
    await p.context().close();
  }
  equal("the page had nothing to complain of", [], page.complaints);
} finally {
  await chrome.close();
  wire.close();
}
