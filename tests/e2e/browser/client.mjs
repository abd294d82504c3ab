// The TypeScript client in a page of muxd's own address: the page's cookie is the credential, of a terminal, too.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { browser, equal, grant, muxctl, person, ready } from "./lib.mjs";

const root = new URL("../../../", import.meta.url).pathname;
const { buildSync } = createRequire(`${root}webclient/package.json`)("esbuild");
const bundle = `${process.env.TMP_DIR}/client.js`;
buildSync({ entryPoints: [`${root}build/clients/typescript/dist/browser.js`], bundle: true, format: "iife", globalName: "muxd", outfile: bundle });
const chrome = await browser();

async function story() {
  const { Sandbox, CommandExitError, FileNotFound } = globalThis.muxd;
  const s = await Sandbox.create({ agent: "page", requestTimeoutMs: 20_000 });
  const got = [], seen = [];
  const r = await s.commands.run("for i in 1 2 3; do printf '\\303'; sleep 0.1; printf '\\274\\n'; done", { onStdout: (t) => { got.push(t); } });
  await s.files.write("x/ü y", new Blob(["hello"]));
  const exit = await s.commands.run("exit 3").catch((e) => (e instanceof CommandExitError ? e.exitCode : String(e)));
  const none = await s.files.read("nothing").catch((e) => (e instanceof FileNotFound ? e.code : String(e)));
  const p = await s.pty.create({ cols: 90, rows: 20, onData: (d) => { seen.push(new TextDecoder().decode(d)); } });
  await p.sendInput("stty size; exit 5\n");
  const end = await p.wait();
  const big = await s.commands.run("head -c 3000000 /dev/urandom");
  return [got.join(""), r.stdout, await s.files.read("x/ü y"), (await s.files.list("x")).map((e) => e.name), exit, none, end.exitCode, /20 90/.test(seen.join("")), big.stdoutBytes.length];
}

try {
  const page = await person(chrome);
  await page.goto(ready().https_url);
  const { token } = grant({ agent: "page", scopes: "terminal,rounds,files" });
  equal("the page has its cookie", 200, await page.evaluate(async (t) => (await fetch("/v1/web/session", { method: "POST", headers: { Authorization: `Bearer ${t}` } })).status, token));
  await page.evaluate(`${readFileSync(bundle, "utf8")}\nglobalThis.muxd = muxd;`);
  const text = "ü\n".repeat(3);
  equal("commands, files and a terminal", [text, text, "hello", ["ü y"], 3, "file_not_found", 5, true, 3000000], await page.evaluate(story));
} finally {
  await chrome.close();
}
muxctl("sandbox", "destroy", "page", "--wipe", "--reason", "story");
