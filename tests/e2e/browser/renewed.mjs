// A page whose grant is renewed, and one whose grant is not: behind the old end, with the line cut, by calls, and with each cookie by itself.
import https from "node:https";
import { browser, enter, equal, grant, killAndStart, live, message, muxctl, ok, person, ready, shows, sleep, type, until, visit, Wire } from "./lib.mjs";

const ttl = Number(process.env.TTL_S ?? 15);
const agent = "renewed";
const chrome = await browser();
const lines = [await new Wire().open(), await new Wire().open()];

/** A call without a browser: its status and its error's code. */
function call(method, path, { cookie, token, body } = {}) {
  const [host, port] = ready().https.split(":");
  const text = body && JSON.stringify(body);
  const headers = { Host: `${host}:${port}`, Origin: `https://${host}:${port}` };
  if (cookie) headers.Cookie = `__Host-muxd=${cookie}`;
  if (token) headers.Authorization = `Bearer ${token}`;
  if (text) Object.assign(headers, { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(text) });
  return new Promise((resolve, reject) => {
    const r = https.request({ host, port, method, path, headers, rejectUnauthorized: false, agent: false }, (answer) => {
      let got = "";
      answer.on("data", (d) => { got += d; });
      answer.on("end", () => {
        const value = JSON.parse(got || "{}");
        resolve({ status: answer.statusCode, code: value.error?.code ?? "ok", value, cookie: answer.headers["set-cookie"]?.[0] ?? "" });
      });
    });
    r.on("error", reject);
    r.end(text);
  });
}
const who = async (cookie) => (await call("GET", "/v1/web/session", { cookie })).code;
const valueOf = (header) => /^__Host-muxd=([^;]*)/.exec(header)[1];
const ageOf = (header) => Number(/Max-Age=(\d+)/.exec(header)[1]);
const renew = (token, seconds) => call("POST", "/v1/grants/renew", { token, body: { reason: "still at it", ttl: `${seconds}s` } });
const past = async (end) => { while (Date.now() < end + 500) await sleep(100); };
/** What the page's own calls get. */
const calls = (page) => page.evaluate(async () => {
  const got = [];
  for (const path of ["/v1/web/session", "/v1/sessions", "/v1/recordings", "/v1/grants"]) got.push((await fetch(path)).status);
  return got.join(" ");
});
const kept = async (page) => (await page.context().cookies()).find((c) => c.name === "__Host-muxd");

try {
  const pages = [];
  for (const wire of lines) {
    const page = await person(chrome);
    await visit(page, `https://${wire.host}/`); // what it consists of is at hand when its grant's time runs
    pages.push(page);
  }
  const [page, other] = pages;
  const mine = grant({ agent, principal: "ada", ttl: `${ttl}s` }), theirs = grant({ agent, principal: "bob", ttl: `${ttl}s` });
  const short = grant({ agent, principal: "cyd", ttl: `${ttl}s` });
  const end = Date.parse(short.expires_at);
  await Promise.all([enter(page, lines[0], mine.token), enter(other, lines[1], theirs.token)]);
  await type(page, "echo be''fore");
  await shows(page, /^before$/m);

  // cookies of programs: one that is renewed for a little, one that the door did not make
  const made = await call("POST", "/v1/web/session", { token: short.token });
  const cookie = valueOf(made.cookie);
  ok("the browser keeps it as long as its holder may renew its grant", ageOf(made.cookie) > 590 && ageOf(made.cookie) <= 601, made.cookie.replace(cookie, "..."));
  equal("a renewal for seconds", 201, (await renew(short.token, ttl + 6)).status);
  const shortEnd = Date.parse((await call("GET", "/v1/web/session", { cookie })).value.expires_at);
  ok("the cookie knows of it", shortEnd > end);

  const renewed = await renew(mine.token, 300);
  equal("the page's grant is renewed", 201, renewed.status);
  await message(page, /access was renewed/i);
  const before = (await kept(page)).value;
  muxctl("grant", "renew", mine.id, "--reason", "for longer than its holder may", "--ttl", "20m");
  await until("a cookie that is kept until the new end", async () => (await kept(page)).expires * 1000 > Date.now() + 15 * 60_000);
  equal("it is the same one, and holds no other token", before, (await kept(page)).value);
  await past(end);
  equal("the old token is over, as a bearer and as a cookie", "token_expired token_expired", `${(await call("GET", "/v1/web/session", { token: mine.token })).code} ${await who(mine.token)}`);
  equal("so it is with a mark of somebody's making", "token_expired token_expired token_expired", `${await who(`${mine.token}~${"A".repeat(43)}`)} ${await who(`${mine.token}~`)} ${await who(mine.token + cookie.slice(cookie.indexOf("~")))}`);
  equal("the page's calls go on", "200 200 200 200", await calls(page));

  // cut behind the old end
  for (const wire of lines) wire.cut();
  await live(page, "waiting");
  for (const wire of lines) wire.mend();
  await live(page);
  await type(page, "echo be''hind");
  await shows(page, /^behind$/m);
  ok("the renewed page is back behind the old end", /^before$/m.test(await shows(page, /^behind$/m, true)));
  await message(other, /grant has (ended|expired)/i);
  equal("the one that was not renewed is refused", "401 401 401 401", await calls(other));
  await visit(other, `https://${lines[1].host}/sandboxes`);
  await until("the page says so", async () => /grant has (ended|expired)/i.test(await other.locator("main").innerText()));
  ok("and stays refused", true);

  await past(shortEnd);
  equal("no cookie outlives its renewal", "token_expired", await who(cookie));
  await killAndStart();
  await live(page, "live");
  await type(page, "echo re''started");
  await shows(page, /^restarted$/m);
  equal("the renewed one outlives a killed daemon", "ok", await who((await kept(page)).value));
  muxctl("grant", "revoke", mine.id);
  await message(page, /revoked/i);
  equal("nor a revocation", "token_revoked 401 401 401 401", `${await who(before)} ${await calls(page)}`);
  ok("no page complains", page.complaints.length + other.complaints.length === 0, [...page.complaints, ...other.complaints].join("; "));
} finally {
  await chrome.close();
  for (const wire of lines) wire.close();
}
