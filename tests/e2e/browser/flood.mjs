// A flood of output: the page takes part while it comes, the daemon does not grow, and a key ends what has no end.
import { readFileSync } from "node:fs";
import { browser, enter, equal, grant, ok, person, ready, shows, sleep, text, type, until, Wire } from "./lib.mjs";

const flood = Number(process.env.FLOOD ?? 100_000_000);
const seconds = 120; // a machine that is too slow for all of it is asked for what it can do in that time
const wire = await new Wire().open();
const chrome = await browser();
const memory = () => Number(/^Pss_Anon:\s+(\d+)/m.exec(readFileSync(`/proc/${ready().pids.net}/smaps_rollup`, "utf8"))[1]);

try {
  const page = await person(chrome);
  await enter(page, wire, grant().token);
  await type(page, "PS1='$ '");
  // the page takes part, the daemon does not grow
  const before = memory();
  await type(page, `clear; end=$((SECONDS+${seconds})); for i in $(seq ${Math.ceil(flood / 1e6)}); do [ $SECONDS -lt $end ] && head -c 1000000 /dev/zero | tr '\\0' x | fold -w 99; done; echo; echo whole-$((1+1))`);
  let most = 0;
  let answers = 0;
  await until("the end of the flood", async () => {
    most = Math.max(most, memory());
    answers++;
    return /^whole-2$/m.test(await text(page));
  }, 260_000);
  const came = await page.evaluate(async (id) => (await (await fetch("/v1/sessions?limit=1000")).json()).sessions.find((s) => s.id === id).output_bytes, page.url().split("/").pop());
  ok(`the page answered ${answers} times during ${(came / 1e6).toFixed(1)} MB`, answers > 5 && came > 1e6);
  ok(`the daemon grew by ${most - before} kB`, most - before < 64 * 1024);

  await type(page, "clear; yes flood");
  await shows(page, /^flood$/m);
  await sleep(3000);
  await page.keyboard.press("Control+c");
  await type(page, "echo; echo over-$((1+1))");
  await shows(page, /^over-2$/m);
  ok("a flood without end is ended by a key", true);

  equal("no complaint of the page", [], page.complaints);
} finally {
  await chrome.close();
  wire.close();
}
