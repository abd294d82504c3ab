// A terminal in a browser is a terminal: keys, paste, sizes, wide characters, mouse, alternate screen; it is told what it
// shows, and what it shows is what the page's policy allows.
import { browser, enter, equal, grant, lines, live, message, ok, person, shot, shows, text, type, until, visit, Wire } from "./lib.mjs";

const wire = await new Wire().open();
const inTerminal = (page) => page.evaluate(() => document.activeElement.classList.contains("xterm-helper-textarea"));
/** What a server of this story's own says first. */
const opening = (role) => Buffer.concat([Buffer.from([0x10]), Buffer.from(JSON.stringify({ session: "01900000-0000-7000-8000-000000000000", agent: "web", kind: "terminal", principal: "tester", role, offset: 0, cols: 80, rows: 24, grant: { id: "", principal: "tester", reason: "", expires_at: "", expires_in_ms: 600_000 } }))]);
const chrome = await browser();

/** The sessions' page over a record of this story's own: 250 rounds, and a terminal that is older than all of them. */
async function listed(token) {
  const page = await person(chrome);
  const id = (n) => `01900000-0000-7000-8000-${String(n).padStart(12, "0")}`;
  const at = "2026-01-01T00:00:00.000Z";
  const common = { agent: "web", principal: "tester", principal_kind: "staff", task: "", reason: "a story", opened_at: at };
  const terminal = { ...common, id: id(1), kind: "terminal", state: "running", attachments: [] };
  const record = [...Array.from({ length: 250 }, (_, i) => ({ ...common, session: id(251 - i), kind: "round", ended_at: at, state: "sealed" })), { ...common, session: id(1), kind: "terminal", ended_at: null, state: "open" }];
  let refreshed = 0;
  await page.route("**/v1/sessions?*", (r) => {
    refreshed++;
    return r.fulfill({ json: { sessions: [terminal] } });
  });
  await page.route("**/v1/recordings?*", (r) => {
    const q = new URL(r.request().url()).searchParams;
    const below = record.filter((x) => !q.get("before") || x.session < q.get("before"));
    return r.fulfill({ json: { recordings: below.slice(0, Number(q.get("limit"))) } });
  });
  await visit(page, `https://${wire.host}/sessions#${token}`);
  const rows = page.locator("tbody tr");
  await until("a page of rows", async () => (await rows.count()) === 101);

  const link = page.locator(`a[href="/replay/${id(250)}"]`);
  await link.focus();
  for (const change of [() => undefined, () => (terminal.principal = "another")]) {
    change();
    const before = refreshed;
    await until("a refresh", () => refreshed > before + 1);
    ok("what has the focus keeps it over a refresh", await link.evaluate((a) => a === document.activeElement));
  }
  await page.locator("tbody").getByText("another").waitFor();

  for (const n of [201, 251]) {
    await page.getByRole("button", { name: "Older ones" }).click();
    await until(`${n} rows`, async () => (await rows.count()) === n);
  }
  await page.getByRole("button", { name: "Older ones" }).waitFor({ state: "hidden" });
  const got = await rows.evaluateAll((all) => all.map((r) => r.dataset.row));
  equal("older ones, to the end: every session once", [record.map((x) => x.session).join(" "), false], [got.join(" "), await page.getByRole("button", { name: "Older ones" }).isVisible()]);
  await page.context().close();
}
try {
  const page = await person(chrome);
  const { token, web_url } = grant();
  ok("the printed address holds the grant behind #", new URL(web_url).hash === `#${token}` && new URL(web_url).pathname === "/");
  await enter(page, wire, token);
  ok("the token has left the address", !page.url().includes("#") && /\/sessions\/[0-9a-f-]{36}$/.test(page.url()));
  equal("scripts cannot read the cookie", "", await page.evaluate(() => document.cookie));

  await type(page, "PS1='$ '; clear; echo typed-$((6*7))");
  await shows(page, /^typed-42$/m);
  ok("typing", true);

  await type(page, "clear; printf '漢字|é|😀|\\n'");
  await shows(page, /^漢字\|é\|😀\|$/m);
  const widths = await page.evaluate(() => {
    const b = window.muxdTerminal.buffer.active;
    for (let y = 0; y < b.length; y++) {
      const l = b.getLine(y);
      if (l.translateToString(true).startsWith("漢字|")) return Array.from({ length: 10 }, (_, x) => l.getCell(x).getWidth());
    }
    return [];
  });
  equal("wide characters take two cells, combined ones one", [2, 0, 2, 0, 1, 1, 1, 2, 0, 1], widths);

  await page.setViewportSize({ width: 820, height: 500 });
  const size = await until("another size", async () => {
    const s = await page.evaluate(() => [window.muxdTerminal.rows, window.muxdTerminal.cols]);
    return s[1] < 110 && s;
  });
  await type(page, "clear; stty size");
  await shows(page, new RegExp(`^${size[0]} ${size[1]}$`, "m"));
  ok(`a new size reaches the program: ${size.join(" ")}`, true);
  await page.setViewportSize({ width: 1000, height: 700 });

  await type(page, "clear; printf '\\033[?2004h'; echo taken; cat -v"); // the shell's own prompt has switched it on and off
  await shows(page, /^taken$/m);
  await page.waitForFunction(() => window.muxdTerminal.modes.bracketedPasteMode);
  await page.evaluate(() => {
    const data = new DataTransfer();
    data.setData("text/plain", "one\ntwo");
    document.querySelector(".xterm-helper-textarea").dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
  });
  await page.keyboard.press("Enter");
  await shows(page, /\^\[\[200~one[\s\S]*two\^\[\[201~/);
  ok("a paste is bracketed", true);
  await page.keyboard.press("Control+c");
  await shows(page, /\$ ?$/m);

  await type(page, "clear; echo before-vim; seq 1 60 >numbers; vim -u NONE -i NONE -c 'set mouse=a nu' numbers");
  await shows(page, /^ +10 10$/m);
  equal("vim has the alternate screen", "alternate", await page.evaluate(() => window.muxdTerminal.buffer.active.type));
  const at = await page.evaluate(() => {
    const t = window.muxdTerminal;
    const box = t.element.querySelector(".xterm-screen").getBoundingClientRect();
    return { x: box.left + (box.width / t.cols) * 5.5, y: box.top + (box.height / t.rows) * 11.5 };
  });
  await page.mouse.click(at.x, at.y);
  await page.keyboard.type("iHERE ");
  await shows(page, /^ +12 .*HERE/m);
  ok("a click moves vim's cursor", true);
  await page.keyboard.press("Escape");
  await page.keyboard.type(":q!");
  await page.keyboard.press("Enter");
  await shows(page, /before-vim[\s\S]*\$ ?$/m);
  equal("the normal screen is back", "normal", await page.evaluate(() => window.muxdTerminal.buffer.active.type));

  await type(page, "clear; echo find-me; echo see https://example.org/x");
  await shows(page, /^find-me$/m);
  await page.keyboard.press("Control+Shift+F");
  await page.keyboard.type("find-me");
  await page.keyboard.press("Enter");
  equal("search selects what is found", "find-me", await page.evaluate(() => window.muxdTerminal.getSelection()));
  await page.keyboard.press("Escape");
  await page.locator(".xterm-helper-textarea").focus();
  await page.keyboard.press("Tab");
  ok("Tab is the program's", await inTerminal(page));
  await page.keyboard.press("Control+Shift+L");
  ok("Ctrl+Shift+L leaves the terminal", !(await inTerminal(page)));

  // another browser watches
  const watcher = await person(chrome);
  const watch = grant({ principal: "watcher", scopes: "observe" });
  await visit(watcher, `https://${wire.host}/sandboxes#${watch.token}`);
  await watcher.getByRole("link", { name: "Watch" }).first().click();
  await live(watcher);
  await shows(watcher, /^find-me$/m);
  equal("a grant to observe makes an observer", "observer", await watcher.locator(".role").innerText());
  await watcher.locator(".xterm-helper-textarea").focus();
  await watcher.keyboard.type("rm -rf /");
  await type(page, "clear; echo for-both");
  await shows(watcher, /^for-both$/m);
  ok("the observer's keys go nowhere", !(await text(page)).includes("rm -rf"));
  await page.setViewportSize({ width: 900, height: 600 });
  await until("the driver's size at the observer's", async () => {
    const s = (p) => p.evaluate(() => `${window.muxdTerminal.cols}x${window.muxdTerminal.rows}`);
    return (await s(page)) === (await s(watcher));
  });
  equal("both show the same", await lines(page), await until("", () => lines(watcher)));
  await shot(watcher, "observer");

  await visit(page, `https://${wire.host}/sandboxes`);
  await page.getByText("watcher (observer)").waitFor();
  ok("the sandboxes' page names who is inside", true);
  // A sandbox on this machine can always sleep: the answer of one in a cluster without claims is made here.
  await page.route("**/v1/agents", async (route) => {
    const answer = await route.fetch();
    const body = await answer.json();
    for (const a of body.agents) a.cannot_sleep = "the workspace is an emptyDir: set kubernetes.workspace to claim";
    await route.fulfill({ response: answer, json: body });
  });
  await page.getByText("Cannot sleep when it is idle: the workspace is an emptyDir").first().waitFor();
  ok("the sandboxes' page says that a sandbox cannot sleep, and why", true);
  await shot(page, "cannot-sleep");
  await page.unroute("**/v1/agents");
  await visit(page, `https://${wire.host}/sessions`);
  await page.getByRole("link", { name: "Join" }).first().click();
  await live(page);
  await shows(page, /^for-both$/m);
  ok("a terminal is joined from the sessions' page", true);

  await type(page, "exit 3");
  await message(page, /ended with code 3/);
  await message(watcher, /ended with code 3/);
  ok("the end is told, to both", true);
  const replays = (p) => p.locator('a[href^="/replay/"]').count();
  equal("the way to the replay is shown to whom it is open", [1, 0], [await replays(page), await replays(watcher)]);
  const plain = await person(chrome);
  await visit(plain, `https://${wire.host}/sessions#${grant({ scopes: null }).token}`);
  await plain.locator("tbody tr").first().waitFor();
  equal("with the scopes that staff has by default no link leads to a refusal", 0, await replays(plain));
  await plain.context().close();
  await page.locator(".xterm-helper-textarea").focus();
  await page.keyboard.press("Tab");
  ok("behind the end Tab leaves the terminal", !(await inTerminal(page)));
  await page.reload();
  await message(page, /has ended/);
  ok("an ended session says so when it is opened again", true);

  equal("nothing the page's policy forbids, no error in its script", [], [...page.complaints, ...watcher.complaints]);
  await page.context().close();
  await watcher.context().close();

  // a server of this story's own: a screen that is drawn from a part of the output is told to be one, until a whole one comes
  const part = await person(chrome);
  let far;
  await part.routeWebSocket(/\/terminal\?/, (ws) => {
    far = ws;
    const json = (type, o) => ws.send(Buffer.concat([Buffer.from([type]), Buffer.from(JSON.stringify(o))]));
    far.screen = (words) => ws.send(Buffer.concat([Buffer.from([0x16, 9, 0, 0, 0, 0, 0, 0, 0, 80, 0, 24, 0]), Buffer.from(`\x1b[H\x1b[2J${words}`)]));
    ws.send(opening("observer"));
    json(0x11, { text: "this screen is drawn from the newest output alone", expires_in_ms: 600_000, exact: false });
    far.screen("a part");
  });
  await visit(part, `https://${wire.host}/terminal/web#${token}`);
  await shows(part, /^a part$/m);
  await message(part, /^This screen is drawn from the newest output alone/);
  await shot(part, "screen-of-a-part");
  far.screen("the whole");
  await shows(part, /^the whole$/m);
  await until("the end of the sentence", async () => part.locator(".message").isHidden());
  ok("a screen that is not exact is told to be so, until an exact one comes", true);
  await part.context().close();

  // another, of a program that reads nothing: of a large paste it is sent a piece, and what keeps the connection alive
  const paster = await person(chrome);
  let slow;
  await paster.routeWebSocket(/\/terminal\?/, (ws) => {
    slow = ws;
    slow.came = 0;
    slow.take = () => {
      const m = Buffer.alloc(9, 0);
      m[0] = 0x18;
      m.writeUInt32LE(slow.came, 1);
      ws.send(m);
    };
    ws.onMessage((m) => {
      if (m[0] === 0x00) slow.came += m.length - 1;
    });
    ws.send(opening("driver"));
  });
  await visit(paster, `https://${wire.host}/terminal/web#${token}`);
  await live(paster);
  await paster.evaluate(() => {
    const data = new DataTransfer();
    data.setData("text/plain", "x".repeat(300_000));
    document.querySelector(".xterm-helper-textarea").dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
  });
  await until("the first of the paste", async () => slow.came >= 98_304);
  await paster.evaluate(() => 0); // more would have come by now
  equal("a large paste waits in the page", 98_304, slow.came);
  await until("all of the paste", async () => {
    slow.take();
    return slow.came >= 300_000;
  });
  equal("and goes on as the program takes it", 300_000, slow.came);
  await paster.context().close();

  // another, where somebody else drives too: a size that the page is told is not one that it asks for
  const resized = await person(chrome);
  const asked = [];
  let other;
  await resized.routeWebSocket(/\/terminal\?/, (ws) => {
    other = ws;
    ws.onMessage((m) => {
      if (m[0] === 0x20) asked.push(`${m.readUInt16LE(1)}x${m.readUInt16LE(3)}`);
    });
    ws.send(opening("driver"));
  });
  await visit(resized, `https://${wire.host}/terminal/web#${token}`);
  await live(resized);
  const sizeOf = () => resized.evaluate(() => `${window.muxdTerminal.cols}x${window.muxdTerminal.rows}`);
  for (const cols of [61, 62, 63]) {
    other.send(Buffer.from([0x17, cols, 0, 20, 0]));
    await until("the size that was told", async () => (await sizeOf()) === `${cols}x20`);
  }
  await resized.setViewportSize({ width: 700, height: 500 });
  const own = await until("a size of its own", async () => !/^6[123]x20$/.test(await sizeOf()) && (await sizeOf()));
  await until("its wish", async () => asked.includes(own));
  equal("a size that was told is not said back", [], asked.filter((s) => /^6[123]x20$/.test(s)));
  await resized.context().close();

  // another, that cannot open a terminal and never will
  const hopeless = await person(chrome);
  let tries = 0;
  await hopeless.routeWebSocket(/\/terminal\?/, (ws) => {
    tries++;
    ws.send(Buffer.concat([Buffer.from([0x14]), Buffer.from(JSON.stringify({ code: "unsupported", message: "there is no shell", hint: "", status: 501 }))]));
    ws.close({ code: 4501, reason: "there is no shell" });
  });
  await visit(hopeless, `https://${wire.host}/terminal/web#${token}`);
  await live(hopeless, "refused");
  await message(hopeless, /^There is no shell/);
  equal("what can never be opened is asked for once", 1, tries);
  await hopeless.context().close();

  await listed(token);

  for (const [name, width, height, dark] of [["light-1280", 1280, 800, false], ["dark-1280", 1280, 800, true], ["light-390", 390, 844, false], ["dark-390", 390, 844, true]]) {
    const p = await person(chrome, { width, height, dark });
    await enter(p, wire, token);
    await type(p, "clear; ls -la --color /; printf '\\033[1;32mgreen \\033[4;34mblue\\033[0m 漢字\\n'");
    await shows(p, /green blue/);
    await shot(p, `terminal-${name}`);
    for (const where of ["sandboxes", "sessions"]) {
      await visit(p, `https://${wire.host}/${where}`);
      await p.getByText("live").or(p.getByText("running")).first().waitFor();
      const wide = await p.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      equal(`${where} at ${name} fits its window`, 0, Math.max(0, wide));
      await shot(p, `${where}-${name}`);
    }
    equal(`no complaint at ${name}`, [], p.complaints);
    await p.context().close();
  }
} finally {
  await chrome.close();
  wire.close();
}
