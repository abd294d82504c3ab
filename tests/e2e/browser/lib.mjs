// What the browser's stories share: Chromium, a line to the daemon that can be cut, grants, and reading a terminal's cells.
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, openSync, readFileSync, rmSync } from "node:fs";
import net from "node:net";
import { createRequire } from "node:module";

const root = new URL("../../../", import.meta.url).pathname;
const { chromium } = createRequire(`${root}webclient/package.json`)("playwright-core");
export const state = process.env.MUXD_STATE;
export const build = process.env.BUILD ?? `${root}build`;
const shots = `${root}build/screenshots`;

/** A slow machine is given time; nothing is asserted about how long it takes. */
export const patience = 60_000;

/** Says where they begin to differ: a whole screen is more than a log can hold. */
export function equal(what, expected, got) {
  const [a, b] = [expected, got].map((x) => JSON.stringify(x) ?? "undefined");
  if (a !== b) {
    let at = 0;
    while (a[at] === b[at]) at++;
    const part = (s) => s.slice(Math.max(0, at - 40), at + 80);
    throw new Error(`${what}: differs at ${at}: expected ${part(a)}, got ${part(b)}`);
  }
  console.log(`  ok: ${what}`);
}
export function ok(what, condition, detail = "") {
  if (!condition) throw new Error(`${what}${detail ? `: ${detail}` : ""}`);
  console.log(`  ok: ${what}`);
}
export const sleep = (ms) => new Promise((r) => setTimeout(r, ms));
export async function until(what, f, ms = patience) {
  const end = Date.now() + ms;
  for (;;) {
    let got = null;
    try {
      got = await f();
    } catch (e) {
      // Chromium fails what it is loading when an interface of the machine comes or goes, as those of pods do.
      if (!/Failed to fetch|ERR_NETWORK_CHANGED/.test(String(e))) throw e;
    }
    if (got) return got;
    if (Date.now() > end) throw new Error(`${what} did not come about`);
    await sleep(50);
  }
}

export const ready = () => JSON.parse(readFileSync(`${state}/ready.json`, "utf8"));

/** Where the daemon listens; null while it is gone. */
function address() {
  try {
    return ready().https;
  } catch {
    return null;
  }
}

/** scopes null: the default ones of its kind. */
export function grant({ agent = "web", principal = "tester", scopes = "terminal,rounds,observe,drive,replay", ttl = "30m", reason = "a story" } = {}) {
  const text = execFileSync(`${build}/muxctl`, ["--state", state, "grant", "create", "--agent", agent, "--principal", principal, "--kind", "staff", ...(scopes ? ["--scopes", scopes] : []), "--task", "story", "--ttl", ttl, "--reason", reason, "-o", "json"]);
  return JSON.parse(text);
}
export function muxctl(...args) {
  return execFileSync(`${build}/muxctl`, ["--state", state, ...args], { encoding: "utf8" });
}

/** A line to the daemon's HTTPS port, with an address of its own that outlives restarts. */
export class Wire {
  sockets = new Set();
  up = true;
  async open() {
    this.server = net.createServer((client) => {
      const there = this.up ? address() : null;
      if (!there) {
        client.destroy();
        return;
      }
      const [host, port] = there.split(":");
      const far = net.connect(Number(port), host);
      for (const [a, b] of [[client, far], [far, client]]) {
        this.sockets.add(a);
        a.setNoDelay(true);
        a.on("error", () => b.destroy());
        a.on("close", () => {
          this.sockets.delete(a);
          b.destroy();
        });
        a.pipe(b);
      }
    });
    await new Promise((r) => this.server.listen(0, "127.0.0.1", r));
    this.host = `127.0.0.1:${this.server.address().port}`;
    return this;
  }
  cut() {
    this.up = false;
    for (const s of this.sockets) s.destroy();
  }
  mend() {
    this.up = true;
  }
  close() {
    this.cut();
    this.server.close();
  }
}

/** Ends the daemon with SIGKILL, all of its processes at once (or one that the others die with), and starts it again on the same state. */
export async function killAndStart(which = null) {
  const { pids } = ready();
  rmSync(`${state}/ready.json`);
  for (const [name, pid] of Object.entries(pids)) if (!which || which.includes(name)) process.kill(pid, "SIGKILL");
  await until("the end of the killed daemon", () => Object.values(pids).every((pid) => !existsSync(`/proc/${pid}/exe`)) || zombies(pids));
  const log = openSync(`${state}/daemon.log`, "a");
  const args = ["serve", "--state", state, "--https", "127.0.0.1:0", "--ssh", "127.0.0.1:0"];
  if (existsSync(`${state}/story.yaml`)) args.push("--config", `${state}/story.yaml`);
  spawn(`${build}/muxd`, args, { stdio: ["ignore", "ignore", log], detached: true }).unref();
  await until("a daemon that is ready again", () => existsSync(`${state}/ready.json`) && readFileSync(`${state}/ready.json`, "utf8").trim().endsWith("}"));
}
function zombies(pids) {
  return Object.values(pids).every((pid) => {
    try {
      return readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.startsWith("Z");
    } catch {
      return true;
    }
  });
}

/** Chromium without its own windows: the same engine at half the processor time. CHROMIUM=/usr/bin/chromium: all of it (`make test-all`). */
export async function browser() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/lib/chromium/chromium-headless-shell",
    args: ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-default-apps", "--disable-domain-reliability", "--disable-sync", "--no-first-run", "--no-pings", "--metrics-recording-only", "--enable-unsafe-swiftshader", "--disable-features=OptimizationHints,MediaRouter,Translate"],
  });
}

/** A person's browser: what its pages complain of is kept. */
export async function person(chrome, { width = 1000, height = 700, dark = false } = {}) {
  const context = await chrome.newContext({ ignoreHTTPSErrors: true, viewport: { width, height }, colorScheme: dark ? "dark" : "light", permissions: ["clipboard-read", "clipboard-write"] });
  context.setDefaultTimeout(patience);
  const page = await context.newPage();
  page.complaints = [];
  page.on("console", (m) => {
    // a refused WebSocket or a status that the page deals with is no complaint of the page
    if (m.type() === "error" && !/WebSocket|Failed to load resource|ERR_/.test(m.text())) page.complaints.push(m.text());
  });
  page.on("pageerror", (e) => page.complaints.push(String(e)));
  return page;
}

export const shot = async (page, name) => {
  mkdirSync(shots, { recursive: true });
  await page.screenshot({ path: `${shots}/${name}.png` });
};

/** What the terminal shows, a string a line; with all: the scrollback too. */
export function lines(page, all = false) {
  return page.evaluate((every) => {
    const b = window.muxdTerminal?.buffer.active;
    if (!b) return [];
    const out = [];
    for (let y = every ? 0 : b.baseY; y < b.length; y++) out.push(b.getLine(y).translateToString(true));
    return out;
  }, all);
}
export const text = async (page, all = false) => (await lines(page, all)).join("\n");
export async function shows(page, pattern, all = false) {
  let seen = "";
  try {
    await until(String(pattern), async () => pattern.test((seen = await text(page, all))));
  } catch (e) {
    throw new Error(`${e.message}; the screen:\n${seen}`);
  }
  return seen;
}
export const live = (page, name = "live") => page.waitForSelector(`.state[data-state="${name}"]`, { timeout: patience });
export async function message(page, pattern) {
  let seen = "";
  await until(`the sentence ${pattern}`, async () => pattern.test((seen = await page.locator(".message").innerText().catch(() => "")))).catch((e) => {
    throw new Error(`${e.message}; it says: ${seen}`);
  });
}
/** Types a line at a prompt, once the terminal can take it. */
export async function type(page, line) {
  await page.locator(".xterm-helper-textarea").focus();
  await page.keyboard.type(line);
  await page.keyboard.press("Enter");
}
/**
 * The document at url, and the page in it. Chromium gives up what it loads when an interface of the machine comes or goes
 * meanwhile: for the document that is nobody's fault here; what follows it the page has to see to.
 */
export async function visit(page, url) {
  for (const end = Date.now() + patience; ; await sleep(500)) {
    try {
      await page.goto(url, { timeout: patience });
      if (!url.startsWith("https:")) return;
      await until("the page", async () => (await page.evaluate(() => (location.protocol === "chrome-error:" ? "error" : document.querySelector("main > *") && "there")).catch(() => null)) ?? false).then((is) => {
        if (is === "error") throw new Error("net::ERR_ page of the browser");
      });
      return;
    } catch (e) {
      if (Date.now() > end || !/net::ERR_|interrupted by another|chrome-error:/.test(String(e))) throw e;
    }
  }
}

export async function enter(page, wire, token) {
  await visit(page, `https://${wire.host}/#${token}`);
  await live(page);
  await shows(page, /\$ ?$/m);
}

/** The player of a page is at rest. */
export const settled = (page) => page.waitForFunction(() => window.muxdPlayer && window.muxdPlayer.state !== "loading" && !window.muxdPlayer.stepping, null, { timeout: patience });
/** Without the record's screens: every event from the start. */
export async function seekPlain(page, to) {
  await page.evaluate(async (t) => {
    const p = window.muxdPlayer;
    const real = p.sealed;
    p.sealed = false;
    p.at = 0;
    await p.seek(t);
    p.sealed = real;
  }, to);
  await settled(page);
}
/** Every cell with its colours, and the cursor. */
export function cells(page) {
  return page.evaluate(() => {
    const b = window.muxdTerminal.buffer.active;
    const out = [];
    for (let y = b.baseY; y < b.baseY + window.muxdTerminal.rows; y++) {
      const l = b.getLine(y);
      let row = "";
      for (let x = 0; x < window.muxdTerminal.cols; x++) {
        const c = l.getCell(x);
        row += `${c.getChars() || " "}${c.getFgColor()}${c.isBold() ? "b" : ""}`;
      }
      out.push(row);
    }
    return { rows: out.join("\n"), x: b.cursorX, y: b.cursorY };
  });
}
