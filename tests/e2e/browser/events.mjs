// A round's events by Chromium's own EventSource, with the page's cookie: the line is cut and the daemon killed while they
// come, and every byte is there once; after the end the browser stays away.
import { browser, equal, grant, ok, person, ready, until, visit, Wire } from "./lib.mjs";

const wire = await new Wire().open();
const chrome = await browser();
const command = "i=0; while [ $i -lt 400 ]; do echo \"line $i é😀\"; i=$((i+1)); sleep 0.01; done";

try {
  const { token } = grant({ scopes: "rounds" });
  const page = await person(chrome);
  await visit(page, `https://${wire.host}/sandboxes`);
  const id = await page.evaluate(async ([bearer, line]) => {
    await fetch("/v1/web/session", { method: "POST", headers: { Authorization: `Bearer ${bearer}` } });
    const body = JSON.stringify({ command: line, yield_ms: 0 });
    const answer = await fetch("/v1/agents/web/rounds", { method: "POST", headers: { "Content-Type": "application/json" }, body });
    const round = (await answer.json()).round_id;
    const seen = (window.seen = { text: "", at: 0, opened: 0, wrong: "", started: null, exit: null });
    const source = (window.source = new EventSource(`/v1/rounds/${round}/events`));
    source.onopen = () => seen.opened++;
    source.addEventListener("started", (e) => (seen.started = JSON.parse(e.data)));
    source.addEventListener("stdout", (e) => {
      const { offset, data } = JSON.parse(e.data);
      if (offset !== seen.at) seen.wrong ||= `${offset} where ${seen.at} was to come`;
      seen.text += data;
      seen.at += new TextEncoder().encode(data).length;
    });
    source.addEventListener("exit", (e) => (seen.exit = JSON.parse(e.data)));
    return round;
  }, [token, command]);
  const seen = () => page.evaluate(() => window.seen);
  await until("its first lines", async () => (await seen()).at > 500);
  wire.cut();
  wire.mend();
  await until("another connection", async () => (await seen()).opened > 1);
  ok("the browser comes back by itself after a cut", true);
  process.kill(ready().pids.net, "SIGKILL"); // the monitor starts another
  await until("the end", async () => (await seen()).exit);
  const { text, wrong, started, exit } = await seen();
  equal("it began", id, started.round_id);
  equal("every offset is the next one", "", wrong);
  equal("every byte came once", Array.from({ length: 400 }, (_, i) => `line ${i} é😀\n`).join(""), text);
  equal("and how it ended", "exit 0", `${exit.exit.cause} ${exit.exit.code}`);
  await until("a source that is closed", () => page.evaluate(() => window.source.readyState === EventSource.CLOSED));
  ok("after that the browser stays away", true);
  equal("the page has no complaints", [], page.complaints);
} finally {
  await chrome.close();
  wire.close();
}
