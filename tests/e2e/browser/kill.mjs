// kill -9 of muxd at random moments under a page in which a program paints: the page comes back by itself, each of its cells
// is what an unbroken run has at the same place of the output, and the record has every byte that was shown.
// KILLS=n, SEED=n.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { browser, enter, equal, grant, killAndStart, live, muxctl, ok, person, ready, sleep, type, until, Wire } from "./lib.mjs";

const kills = Number(process.env.KILLS ?? 3);
const seed = Number(process.env.SEED ?? Date.now() % 1_000_000);
const here = new URL("./", import.meta.url).pathname;
const modules = new URL("../../../webclient/node_modules/", import.meta.url).pathname;
const painter = readFileSync(`${here}paint.py`);
console.log(`  seed ${seed}, ${kills} kills`);

let random = seed >>> 0;
/** Below n; mulberry32. */
function pick(n) {
  random = (random + 0x6d2b79f5) >>> 0;
  let t = Math.imul(random ^ (random >>> 15), random | 1);
  t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
  return ((t ^ (t >>> 14)) >>> 0) % n;
}

/** In a page, before anything else: what its terminal is given, and a picture of it at an exact place of that. */
function watch() {
  let term;
  window.given = { bytes: 0, chunks: [], others: [] };
  Object.defineProperty(window, "muxdTerminal", {
    configurable: true,
    get: () => term,
    set: (t) => {
      term = t;
      const write = t.write.bind(t);
      const reset = t.reset.bind(t);
      t.write = (data, then) => {
        if (typeof data === "string") window.given.others.push(`write ${data}`);
        else {
          window.given.chunks.push(data.slice());
          window.given.bytes += data.length;
        }
        write(data, then);
      };
      t.reset = () => {
        window.given.others.push("reset");
        reset();
      };
      window.barrier = (then) => write("", then);
    },
  });
}

/** Every cell: characters, width, colours, attributes; the cursor and the modes. With all: both buffers and what was scrolled away. */
function picture(all) {
  const t = window.muxdTerminal;
  const cell = (c) => `${c.getChars()}|${c.getWidth()}|${c.getFgColorMode()}:${c.getFgColor()}|${c.getBgColorMode()}:${c.getBgColor()}|${["isBold", "isItalic", "isDim", "isUnderline", "isBlink", "isInverse", "isInvisible", "isStrikethrough", "isOverline"].map((f) => (c[f]() ? 1 : 0)).join("")}`;
  const lines = (b, from) => {
    const out = [];
    for (let y = from; y < b.length; y++) {
      const l = b.getLine(y);
      const cells = [];
      for (let x = 0; x < t.cols; x++) cells.push(cell(l.getCell(x)));
      out.push(`${l.isWrapped ? "+" : " "}${cells.join(" ")}`);
    }
    return out;
  };
  const b = t.buffer.active;
  const one = { size: `${t.cols}x${t.rows}`, type: b.type, cursor: `${b.cursorX},${b.cursorY}`, base: b.baseY, modes: { ...t.modes }, lines: lines(b, b.baseY) };
  return all ? { ...one, normal: lines(t.buffer.normal, 0), alternate: lines(t.buffer.alternate, 0) } : one;
}

/** The page's picture, where in the output that is, and what it was given since the last one. */
async function snapshot(page, all) {
  const got = await page.evaluate(
    (every) =>
      new Promise((done) => {
        const g = window.given;
        const bytes = g.bytes;
        const chunks = g.chunks.splice(0);
        window.barrier(() => {
          const text = chunks.map((c) => Array.from(c, (x) => String.fromCharCode(x)).join("")).join("");
          done({ bytes, others: g.others, text, picture: window.picture(every) });
        });
      }),
    all,
  );
  got.fresh = Buffer.from(got.text, "latin1");
  return got;
}

/** An xterm.js that nothing ever happens to, in a page of nobody. */
class Unbroken {
  at = 0;
  constructor(page, bytes) {
    this.page = page;
    this.bytes = bytes;
  }
  static async open(chrome, cols, rows, bytes) {
    const page = await (await chrome.newContext()).newPage();
    for (const file of ["@xterm/xterm/lib/xterm.js", "@xterm/addon-unicode11/lib/addon-unicode11.js"]) await page.addScriptTag({ path: modules + file });
    await page.evaluate(`window.picture = ${picture}`);
    await page.evaluate(
      ([c, r]) => {
        const t = new window.Terminal({ allowProposedApi: true, cols: c, rows: r, scrollback: 10_000 });
        t.loadAddon(new window.Unicode11Addon.Unicode11Addon());
        t.unicode.activeVersion = "11";
        window.muxdTerminal = t;
      },
      [cols, rows],
    );
    return new Unbroken(page, bytes);
  }
  async picture(at, all) {
    const text = this.bytes.subarray(this.at, at).toString("latin1");
    this.at = at;
    return this.page.evaluate(
      ([s, every]) =>
        new Promise((done) => {
          window.muxdTerminal.write(Uint8Array.from(s, (c) => c.charCodeAt(0)), () => done(window.picture(every)));
        }),
      [text, all],
    );
  }
}

function differs(expected, got) {
  for (const key of Object.keys(expected)) {
    const [a, b] = [expected[key], got[key]];
    if (JSON.stringify(a) === JSON.stringify(b)) continue;
    if (!Array.isArray(a)) return `${key}: ${JSON.stringify(a)}, not ${JSON.stringify(b)}`;
    const y = a.findIndex((l, i) => l !== b[i]);
    const x = (a[y] ?? "").split(" ").findIndex((c, i) => c !== (b[y] ?? "").split(" ")[i]);
    return `${key}: ${a.length} lines, not ${b.length}; line ${y}, cell ${x}: ${(a[y] ?? "").split(" ")[x]}, not ${(b[y] ?? "").split(" ")[x]}`;
  }
  return "";
}

/** What of the daemon dies. The monitor starts the others again; without it all end, and it is started anew. */
const victims = [["all", null], ["all", null], ["net", ["net"]], ["recorder", ["recorder"]], ["net and recorder", ["net", "recorder"]], ["monitor", ["monitor"]]];
async function kill([name, which]) {
  if (!which || name === "monitor") return killAndStart(which ?? undefined);
  const { pids } = ready();
  for (const w of which) process.kill(pids[w], "SIGKILL");
  await until(`another ${name}`, () => {
    try {
      const now = ready().pids;
      return which.every((w) => now[w] && now[w] !== pids[w]);
    } catch {
      return false;
    }
  });
}

const wire = await new Wire().open();
const chrome = await browser();
try {
  const page = await person(chrome);
  await page.addInitScript(watch);
  await page.addInitScript(`window.picture = ${picture}`);
  await enter(page, wire, grant({ ttl: "3h" }).token);
  const session = page.url().split("/").pop();
  const [cols, rows] = await page.evaluate(() => [window.muxdTerminal.cols, window.muxdTerminal.rows]);
  const args = [String(seed), String(cols), String(rows), String(kills)];
  const unbroken = execFileSync("python3", [`${here}paint.py`, ...args, "unbroken"], { maxBuffer: 1 << 28 });
  const ends = Array.from({ length: kills }, (_, n) => {
    const mark = `\x1b]0;round ${n} is over\x07`;
    return unbroken.indexOf(mark) + mark.length;
  });

  muxctl("put", "web", `${here}paint.py`, "paint.py", "--task", "story");
  await type(page, `exec python3 paint.py ${args.join(" ")}`);
  const begins = await until("the painter", async () => {
    const s = await page.evaluate(() => window.given.chunks.map((c) => Array.from(c, (x) => String.fromCharCode(x)).join("")).join(""));
    return s.indexOf("\x1bc") + 1;
  });
  const reference = await Unbroken.open(chrome, cols, rows, unbroken);
  let shown = Buffer.alloc(0);
  let pictures = 0;

  /** The page against the unbroken run, wherever it is now; how far that is. */
  async function compare(what, all = false) {
    const got = await snapshot(page, all);
    shown = Buffer.concat([shown, got.fresh]);
    const at = got.bytes - (begins - 1);
    if (got.others.length) throw new Error(`${what}: the page was drawn anew: ${got.others}`);
    if (!shown.subarray(begins - 1).equals(unbroken.subarray(0, at))) throw new Error(`${what}: the page was given other bytes than the program wrote, up to ${at}`);
    const wrong = differs(await reference.picture(at, all), got.picture);
    if (wrong) throw new Error(`${what}: at ${at} of ${unbroken.length} the page differs: ${wrong}`);
    pictures++;
    return at;
  }

  /** A key that muxd did not live to deliver is never delivered: it is typed again until the painter goes on. */
  async function letter(n) {
    await page.locator(".xterm-helper-textarea").focus();
    await page.keyboard.press(String.fromCharCode(97 + (n % 26)));
    await sleep(200);
  }

  for (let n = 0; n < kills; n++) {
    const victim = victims[pick(victims.length)];
    const moment = pick(3000);
    await until(`the start of round ${n}`, async () => {
      await letter(n);
      return (await page.evaluate(() => window.given.bytes)) - (begins - 1) > (n ? ends[n - 1] : 2);
    });
    await sleep(moment);
    await compare(`before kill ${n + 1}`);
    const dead = kill(victim);
    await compare(`at kill ${n + 1}`);
    await dead;
    await until(`the end of round ${n}, after a kill of ${victim[0]}`, async () => (await compare(`after kill ${n + 1} (${victim[0]} at ${moment} ms)`)) === ends[n], 120_000);
    await live(page);
    await compare(`after kill ${n + 1}, all that was scrolled away`, true);
    console.log(`  ok: kill ${n + 1} (${victim[0]}, ${moment} ms into the round): every cell is right`);
  }
  ok(`${kills} kills, ${pictures} pictures of ${cols}x${rows} cells: all as in an unbroken run`, true);
  await until("the end of the painter", async () => {
    await letter(kills);
    return (await page.locator(".state").getAttribute("data-state")) === "ended";
  });
  await until("its recording", () => execFileSync(`${process.env.BUILD}/muxctl`, ["--state", process.env.MUXD_STATE, "session", "show", session, "-o", "json"]).includes("ended_at"));
  const record = execFileSync(`${process.env.BUILD}/muxctl`, ["--state", process.env.MUXD_STATE, "export", session, "--format", "raw", "--stream", "output"], { maxBuffer: 1 << 28 });
  ok(`the ${shown.length} bytes that were shown are in the recording`, record.subarray(0, shown.length).equals(shown), `it has ${record.length}`);
  equal("and nothing else", shown.length, record.length);
  equal("no complaint of the page", [], page.complaints);
} finally {
  await chrome.close();
  wire.close();
}
