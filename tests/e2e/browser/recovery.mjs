// What a page survives: a cut line, a daemon that is killed, the end of its grant; and what it says meanwhile.
import { browser, enter, equal, grant, killAndStart, lines, live, message, muxctl, ok, person, shot, shows, sleep, text, type, until, visit, Wire } from "./lib.mjs";

const runs = Number(process.env.RUNS ?? 2);
const wire = await new Wire().open();
const chrome = await browser();

/** The numbers 1 to n, one a line, none missing and none twice. */
async function counted(page, n, what) {
  await shows(page, new RegExp(`^n${n}$`, "m"), true);
  const got = (await lines(page, true)).filter((l) => /^n\d+$/.test(l)).map((l) => Number(l.slice(1)));
  equal(what, Array.from({ length: n }, (_, i) => i + 1), got);
}
const count = (n, pause, turn = "") => `clear; echo turn${turn}; for i in $(seq 1 ${n}); do echo n$i; sleep ${pause}; done`;

try {
  const page = await person(chrome);
  const { token } = grant();
  await enter(page, wire, token);
  const session = page.url();
  await type(page, "PS1='$ '");

  await type(page, count(60, 0.05));
  await shows(page, /^n10$/m);
  wire.cut();
  await live(page, "waiting");
  await message(page, /connection is gone/);
  await shot(page, "reconnecting");
  await page.locator(".xterm-helper-textarea").focus();
  await page.keyboard.type("lost keys");
  await sleep(1500);
  wire.mend();
  await live(page);
  await counted(page, 60, "after a cut line the page has every line, once");
  ok("what was typed into the void is not sent later", !(await text(page)).includes("lost keys"));

  for (let i = 0; i < runs; i++) {
    const n = 40;
    await shows(page, /\$ ?$/m);
    await type(page, count(n, 0.05, i));
    await shows(page, new RegExp(`^turn${i}$`, "m")); // the lines of the turn before were like these
    await shows(page, new RegExp(`^n${2 + Math.floor(Math.random() * 30)}$`, "m"));
    await killAndStart();
    await live(page);
    await counted(page, n, `the daemon was killed (${i + 1}): the page has every line, once`);
    // a second page that never saw it draws the same screen from what the daemon has
    const after = `after-${i}`;
    await shows(page, /\$ ?$/m);
    await type(page, `echo ${after}`);
    await shows(page, new RegExp(`^${after}$`, "m"));
  }
  equal("still the same session", session, page.url());

  // a grant is warned of, then cut; another link goes on with the same session
  const brief = await person(chrome);
  const short = grant({ ttl: "14s", agent: "brief" });
  await enter(brief, wire, short.token);
  await message(brief, /access expires in/i);
  await shot(brief, "expiry-warning");
  await live(brief, "refused");
  await message(brief, /^The grant has ended/);
  await shot(brief, "expiry-cut");
  await brief.reload();
  await brief.getByText("No grant").or(brief.getByText("grant has ended")).first().waitFor();
  ok("a grant that ends: warned, cut, and the page says so", true);

  const revoked = grant({ agent: "brief" });
  await visit(brief, `https://${wire.host}/#${revoked.token}`);
  await live(brief);
  muxctl("grant", "revoke", revoked.id);
  await live(brief, "refused");
  await message(brief, /^The grant was revoked/);
  await visit(brief, `https://${wire.host}/sandboxes#${revoked.token}`);
  await brief.getByText("The grant was revoked").first().waitFor();
  ok("a revoked grant is cut at once, and its link opens nothing", true);
  await visit(brief, "about:blank");
  await visit(brief, `https://${wire.host}/#aaa.bbb.ccc`);
  await brief.locator(".notice").waitFor();
  const said = await brief.locator(".notice h1").innerText();
  ok("a broken link says so", /That did not work|No grant/.test(said), said);

  // to leave needs muxd, which takes the cookie away: a page that cannot reach it does not say goodbye
  const leaver = await person(chrome);
  await enter(leaver, wire, grant({ agent: "brief" }).token);
  wire.cut();
  await leaver.getByRole("button", { name: "Sign out" }).click();
  await leaver.getByRole("alert").getByText("still in this browser").waitFor();
  ok("a grant that is not forgotten is not said to be", (await leaver.getByText("Goodbye").count()) === 0);
  wire.mend();
  await live(leaver);
  await leaver.getByRole("button", { name: "Sign out" }).click();
  await leaver.getByText("Goodbye").waitFor();
  await visit(leaver, `https://${wire.host}/sandboxes`);
  await leaver.getByText("No grant").waitFor();
  ok("and it is forgotten when goodbye is said", true);
  await leaver.context().close();

  // a part of the page that does not come: its script, its style, what is loaded later
  for (const [what, part] of [["script", /\/ui\/app-[^/]*\.js/], ["style", /\/ui\/[^/]*\.css/], ["later part", /\/ui\/(?!app-)[^/]*\.js/]]) {
    await visit(page, "about:blank");
    let failed = 0;
    await page.route(part, (r) => (failed++ ? r.continue() : r.abort("connectionreset")));
    await enter(page, wire, token);
    await until("its style", () => page.evaluate(() => getComputedStyle(document.querySelector(".app")).display !== "block"));
    ok(`a page whose ${what} did not come is there nonetheless`, failed > 1, `asked for ${failed} times`);
    await page.unroute(part);
  }

  equal("no complaint of the pages", [], [...page.complaints, ...brief.complaints]);
} finally {
  await chrome.close();
  wire.close();
}
