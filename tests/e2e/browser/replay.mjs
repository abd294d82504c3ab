// The replay: what the page shows at a moment is what the terminal showed then, however far in; it plays, stops, steps,
// follows what still goes on, and a link leads back to the moment.
import { execFileSync, spawn } from "node:child_process";
import { browser, build, cells, equal, grant, muxctl, ok, patience, person, seekPlain, settled, shot, shows, sleep, state, text, until, visit, Wire } from "./lib.mjs";

const wire = await new Wire().open();
const chrome = await browser();
const token = grant({ scopes: "terminal,rounds,observe,drive,replay,lifecycle" }).token;

/** A terminal that runs a script; its session. */
function record(script) {
  execFileSync("script", ["-qc", `${build}/muxctl --state ${state} exec -it web --task story -- sh -c '${script}'`, "/dev/null"], { stdio: ["ignore", "ignore", "inherit"], env: { ...process.env, COLUMNS: "80", LINES: "24" } });
  return newest();
}
const newest = () => JSON.parse(muxctl("session", "list", "--all", "--agent", "web", "-o", "json")).sessions.find((s) => s.kind === "terminal" || s.kind === "exec").session;
async function sealed(id) {
  await until(`the seal of ${id}`, () => {
    try {
      muxctl("verify", id);
      return true;
    } catch {
      return false;
    }
  });
}
const player = (page, f) => page.evaluate(f);
async function seek(page, ms) {
  await page.evaluate((t) => {
    window.muxdPlayer.pause();
    return window.muxdPlayer.seek(t);
  }, ms);
  await settled(page);
}

try {
  const page = await person(chrome);
  const id = record("stty rows 24 cols 80; for i in 1 2 3; do clear; echo screen-$i; sleep 1; done; echo the end; printf x >&2; stty -a >/dev/null; exit 4");
  await sealed(id);
  await visit(page, `https://${wire.host}/replay/${id}#${token}`);
  await until("the grant's page", async () => (await page.locator(".status, .notice").count()) > 0);
  await visit(page, `https://${wire.host}/replay/${id}`);
  await page.waitForFunction(() => window.muxdPlayer);
  await page.waitForFunction(() => window.muxdPlayer.state === "ended", null, { timeout: 60_000 });
  await shows(page, /^screen-3[\s\S]*the end/m);
  ok("it plays by itself, to the end", true);
  ok("and says how it ended", /ended with code 4/.test(await page.locator(".status").innerText()), await page.locator(".status").innerText());

  const moments = await player(page, () => window.muxdPlayer.duration);
  ok("its length is that of the session", moments > 2500 && moments < 600_000, String(moments));
  const at2 = await findMoment(page, "screen-2");
  await seek(page, at2);
  await shows(page, /^screen-2$/m);
  ok("back to a moment", !/screen-3/.test(await text(page)));
  await page.locator(".stage").focus();
  await page.keyboard.press(".");
  await shows(page, /screen-3|^\s*$/);
  ok("a step goes on", (await player(page, () => window.muxdPlayer.at)) > at2);
  await page.keyboard.press("Home");
  await settled(page);
  equal("Home is the beginning", 0, await player(page, () => window.muxdPlayer.at));
  await page.keyboard.press("End");
  await settled(page);
  await shows(page, /the end/);
  ok("End is the end", true);

  await page.locator(".stage").focus();
  const slider = () => page.evaluate(() => document.activeElement?.matches("input[type=range]"));
  for (let i = 0; i < 20 && !(await slider()); i++) await page.keyboard.press("Tab");
  ok("Tab leads from the screen to the timeline", await slider());
  await page.locator(".xterm-screen").click();
  await page.keyboard.press("Home");
  await until("the beginning", async () => (await player(page, () => window.muxdPlayer.at)) === 0);
  await settled(page);
  await page.keyboard.press("ArrowRight");
  await until("what comes later", async () => (await player(page, () => window.muxdPlayer.at)) > 0);
  ok("a click into the screen leaves the keys to the replay", true);
  await settled(page);
  await page.getByRole("button", { name: "Screen reader" }).click();
  await until("the lines that are read", async () => /the end/.test(await page.locator(".xterm-accessibility").innerText()));
  ok("a screen reader is told what is shown", true);
  await page.getByRole("button", { name: "Screen reader" }).click();

  await seek(page, at2);
  await page.locator(".stage").focus();
  await page.keyboard.press(".");
  await until("the step", async () => (await player(page, () => window.muxdPlayer.at)) > at2);
  await settled(page);
  const stepped = await cells(page);
  await page.getByRole("button", { name: "Copy link" }).click();
  const link = await page.evaluate(() => navigator.clipboard.readText());
  ok("a link to the moment", /#t=\d+\.\d+$/.test(link), link);
  const second = await person(chrome);
  await visit(second, `https://${wire.host}/#${token}`);
  await until("the first page", async () => (await second.locator("main").innerText()).length > 0);
  await visit(second, link);
  await second.waitForFunction(() => window.muxdPlayer && window.muxdPlayer.state === "paused", null, { timeout: 60_000 });
  equal("leads to what was shown", stepped, await cells(second));
  await second.context().close();
  for (const [name, options] of [["light", {}], ["dark", { dark: true }], ["small", { width: 390, height: 800 }], ["wide", { width: 1280, height: 800 }]]) {
    const p = await person(chrome, options);
    await visit(p, `https://${wire.host}/#${token}`);
    await until("a page", async () => (await p.locator("main").innerText()).length > 0);
    await visit(p, link.replace(/#t=.*/, `#t=${(at2 / 1000).toFixed(3)}`)); // the step cleared the screen
    await p.waitForFunction(() => window.muxdPlayer && window.muxdPlayer.state === "paused", null, { timeout: 60_000 });
    await shows(p, /^screen-2$/m);
    await shot(p, `replay-${name}`);
    await p.context().close();
  }

  // A long one: every half megabyte there is a screen to begin from; between them it is drawn.
  const mib = Number(process.env.MIB ?? 8);
  const long = record(`i=0; while [ $i -lt ${mib * 8} ]; do i=$((i+1)); printf "\\033[H\\033[2Jpage-$i\\n"; head -c 96000 /dev/zero | tr "\\0" "a" | fold -w 79; printf "\\033[3;1Hmark-$i \\033[1;31mred\\033[0m"; sleep 0.02; done`);
  await sealed(long);
  await visit(page, `https://${wire.host}/replay/${long}`);
  await page.waitForFunction(() => window.muxdPlayer);
  await until("its keyframes", () => page.evaluate(async (s) => (await (await fetch(`/v1/recordings/${s}/screen?at_ns=9000000000000000000`)).json()).found, long));
  ok("a long recording has screens to begin from", true);
  await player(page, () => window.muxdPlayer.pause());
  await settled(page);
  for (const part of [0.9, 0.3, 0.65, 0.12, 0.99]) {
    const to = (await player(page, () => window.muxdPlayer.duration)) * part;
    await seek(page, to);
    const jumped = await cells(page);
      await seekPlain(page, to);
    equal(`the screen at ${Math.round(part * 100)} % is the one that playing from the start gives`, await cells(page), jumped);
  }

  // One that goes on.
  const running = spawn("script", ["-qc", `${build}/muxctl --state ${state} exec -it web --task story -- sh -c 'n=0; while sleep 0.3; do n=$((n+1)); echo tick-$n; if [ -e burst ]; then rm burst; seq 300000; n=$((n+1000000)); fi; done'`, "/dev/null"], { stdio: "ignore" });
  const liveId = await until("a live session", () => {
    const s = JSON.parse(muxctl("session", "list", "--agent", "web", "-o", "json")).sessions.find((x) => x.state === "running" && x.kind === "exec");
    return s && s.id;
  });
  await visit(page, `https://${wire.host}/replay/${liveId}`);
  await page.waitForFunction(() => window.muxdPlayer && window.muxdPlayer.state === "live", null, { timeout: 60_000 });
  const n = async () => Math.max(0, ...[...(await text(page)).matchAll(/tick-(\d+)/g)].map((m) => Number(m[1])));
  const now = await n();
  await until("its next lines", async () => (await n()) > now + 1).catch(async (e) => {
    const p = await player(page, () => JSON.stringify(window.muxdPlayer, (k, v) => (typeof v === "bigint" ? String(v) : ["term", "about", "events", "signal"].includes(k) ? undefined : v)));
    throw new Error(`${e.message}: ${p}; the screen:\n${await text(page)}\n${await page.locator(".message").innerText()}`);
  });
  ok("what goes on is followed", true);
  muxctl("exec", "-n", "web", "--task", "story", "--", "touch", "burst");
  await until("what comes behind 2 MB at once", async () => (await n()) > 1_000_000);
  ok("behind more at once than a page holds, too", true);
  await player(page, () => window.muxdPlayer.pause());
  await sleep(100);
  const still = await n();
  await sleep(1500);
  equal("and stands still when paused", still, await n());
  await player(page, () => window.muxdPlayer.play());
  await until("what came meanwhile, and more", async () => (await n()) > still + 6);
  ok("and goes on from there", true);
  await page.keyboard.press("Home");
  await until("its beginning", async () => (await player(page, () => window.muxdPlayer.at)) < 3000);
  await page.getByRole("button", { name: "Live" }).click();
  await page.waitForFunction(() => window.muxdPlayer.state === "live", null, { timeout: 60_000 });
  ok("from its beginning there is a way back to now", true);
  muxctl("session", "terminate", liveId, "--reason", "the story is over");
  running.kill();

  // a server of this story's own: a night in which clocks and keys are recorded, and nothing is seen
  const night = "01900000-0000-7000-8000-00000000c10c";
  const hours = 8 * 3600e3;
  await page.route(`**/v1/recordings/${night}`, (r) => r.fulfill({ json: { session: night, state: "sealed", open: { agent: "web", kind: "terminal", pty: true, cols: 80, rows: 24 }, first_ns: "0", last_ns: String(hours * 1e6) } }));
  const busy = [503, 429];
  await page.route(`**/v1/recordings/${night}/events?*`, (r) => {
    const status = busy.shift();
    return r.fulfill(status ? { status, json: { error: { code: "unavailable", message: "not now" } } } : { headers: { "Muxd-Page": "end" }, body: nightOf(hours) });
  });
  await visit(page, `https://${wire.host}/replay/${night}`);
  await page.waitForFunction(() => window.muxdPlayer);
  await shows(page, /^evening$/m);
  equal("a page that a busy muxd refuses is asked for again", [], busy);
  await shows(page, /^morning$/m);
  await page.waitForFunction(() => window.muxdPlayer.state === "ended", null, { timeout: patience });
  ok("a silence is skipped whatever is recorded in it", true);

  await visit(page, `https://${wire.host}/replay/01900000-0000-7000-8000-000000000000`);
  await until("a sentence", async () => /Not found/.test(await page.locator("main").innerText()));
  ok("what is not there is said", true);
  equal("the pages had nothing to complain of", [], page.complaints);
} finally {
  await chrome.close();
  wire.close();
}
/** Events as docs/recording-format.md has them. */
function nightOf(ms) {
  const number = (n) => (n < 128n ? [Number(n)] : [Number(n & 127n) | 128, ...number(n >> 7n)]);
  let seq = 0;
  const event = (type, stream, at, text = "") => Buffer.from([type, stream, 0, ...number(BigInt(text.length)), ...number(BigInt(2 * ++seq)), ...number(BigInt(Math.round(at * 1e6)) * 2n), 0, ...Buffer.from(text)]);
  const [open, data, exit, clock] = [1, 2, 5, 7];
  const list = [event(open, 0, 0, "{}"), event(data, 1, 10, "evening\r\n")];
  for (let at = 60e3; at < ms - 1000; at += 60e3) list.push(event(clock, 0, at), event(data, 0, at + 5, "k"));
  return Buffer.concat([...list, event(data, 1, ms - 500, "morning\r\n"), event(exit, 0, ms, "{}")]);
}
async function findMoment(page, word) {
  const whole = await page.evaluate(() => window.muxdPlayer.duration);
  for (let t = 0; t < whole; t += 200) {
    await seek(page, t);
    if ((await text(page)).includes(word)) return t;
  }
  throw new Error(`${word} was never shown`);
}
