// How fast a long recording opens and how fast any moment of it is shown, in Chromium. Prints one line of JSON.
//
//   MUXD_STATE=dir SESSION=id [SEEKS=200] [CHECKS=6] node tests/bench/replay.mjs
//
// open: from the start of the navigation until the first screen is painted and the timeline is there. seek: from the wish
// until the exact screen is painted. CHECKS of the moments are played from the recording's start as well, without the
// record's screens, and compared cell by cell.
import { readFileSync } from "node:fs";
import { browser, cells, grant, person, ready, seekPlain, settled, until, visit } from "../e2e/browser/lib.mjs";

const id = process.env.SESSION;
const seeks = Number(process.env.SEEKS ?? 200);
const checks = Number(process.env.CHECKS ?? 6);
const host = ready().https;
const chrome = await browser();
const token = grant({ agent: process.env.AGENT ?? "web", scopes: "observe,replay" }).token;

const sorted = (list) => [...list].sort((a, b) => a - b);
const part = (list, p) => Math.round(sorted(list)[Math.min(list.length - 1, Math.floor(list.length * p))] * 10) / 10;
const spread = (list) => ({ p50: part(list, 0.5), p99: part(list, 0.99), max: part(list, 1) });
/** What a process holds of its own, in MB. */
function memory(pid) {
  const pss = /^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, "utf8"));
  return Math.round(Number(pss?.[1] ?? 0) / 1024);
}
function* moments() {
  for (let seed = 12345; ; ) {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    yield seed / 2147483648;
  }
}

try {
  const page = await person(chrome, { width: 1280, height: 800 });
  await page.addInitScript(() => {
    const look = () => {
      const c = document.querySelector(".timeline canvas");
      if (window.muxdPlayer && window.muxdPlayer.state !== "loading" && c?.width && window.muxdTerminal) requestAnimationFrame(() => (window.opened = performance.now()));
      else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  });
  await visit(page, `https://${host}/#${token}`);
  await page.waitForSelector(".notice, .sandboxes, main h1");
  const begun = Date.now();
  await until("its screens", () => page.evaluate(async (s) => (await (await fetch(`/v1/recordings/${s}/screen?at_ns=9000000000000000000`)).json()).found, id), 30 * 60_000);
  const screens = Math.round((Date.now() - begun) / 100) / 10;
  const opens = [];
  for (const hash of ["", "#t=5000", "#t=3600", "#t=7100", ""]) {
    await visit(page, "about:blank");
    await visit(page, `https://${host}/replay/${id}${hash}`);
    await page.waitForFunction(() => window.opened);
    opens.push(await page.evaluate(() => window.opened));
  }
  await page.evaluate(() => window.muxdPlayer.pause());
  await settled(page);
  const duration = await page.evaluate(() => window.muxdPlayer.duration);
  const cdp = await page.context().newCDPSession(page);
  const heap = async () => {
    await cdp.send("HeapProfiler.collectGarbage");
    return Math.round((await cdp.send("Runtime.getHeapUsage")).usedSize / 1e5) / 10;
  };
  const times = [];
  const bytes = [];
  const first = await heap();
  const dice = moments();
  for (let i = 0; i < seeks; i++) {
    const to = dice.next().value * duration;
    const [ms, read] = await page.evaluate(async (t) => {
      performance.clearResourceTimings();
      const from = performance.now();
      await window.muxdPlayer.seek(t);
      await new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)));
      return [performance.now() - from, performance.getEntriesByType("resource").reduce((n, e) => n + e.encodedBodySize, 0)];
    }, to);
    times.push(ms);
    bytes.push(read);
  }
  const last = await heap();
  const { pids } = ready();
  for (let i = 0; i < checks; i++) {
    const to = dice.next().value * duration * (process.env.CHECK_TO ?? 1);
    await page.evaluate((t) => window.muxdPlayer.seek(t), to);
    const jumped = await cells(page);
    await seekPlain(page, to);
    const played = await cells(page);
    if (JSON.stringify(jumped) !== JSON.stringify(played)) {
      console.error(JSON.stringify({ to, jumped, played }, null, 1));
      throw new Error(`the screen at ${to} ms is not the one that playing from the start gives`);
    }
  }
  console.log(JSON.stringify({ open_ms: spread(opens), seek_ms: spread(times), seek_kb: spread(bytes.map((n) => n / 1000)), seeks, checks, screens_s: screens, page_mb: [first, last], net_mb: memory(pids.net), recorder_mb: memory(pids.recorder), complaints: page.complaints }));
} finally {
  await chrome.close();
}
