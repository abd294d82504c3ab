// The size of a terminal in a browser is right from its first moment: in windows of several sizes, nothing is resized, and the
// program inside is told what the page shows. Text of others on the pages is text that can be seen.
import { browser, enter, equal, grant, live, muxctl, ok, person, shot, shows, type, visit, Wire } from "./lib.mjs";

const sizes = [
  [1280, 720],
  [1000, 700],
  [1920, 1080],
  [820, 500],
  [500, 900],
];
const wire = await new Wire().open();
const chrome = await browser();
const cells = (page) => page.evaluate(() => `${window.muxdTerminal.rows} ${window.muxdTerminal.cols}`);

/** No word of the terminal's size is sent by hand: the program is asked, and asked again once all that the page does is done. */
async function first(width, height, token, path) {
  const page = await person(chrome, { width, height });
  if (path) {
    await visit(page, `https://${wire.host}${path}#${token}`);
    await live(page);
  } else await enter(page, wire, token);
  const mark = `at-${width}x${height}`;
  await type(page, `PS1='$ '; clear; echo ${mark} $(stty size)`);
  const [, said] = new RegExp(`^${mark} (\\d+ \\d+)$`, "m").exec(await shows(page, new RegExp(`^${mark} \\d+ \\d+$`, "m")));
  equal(`${width}x${height}${path ? " joined" : ""}: the program has the page's size`, await cells(page), said);
  const room = await page.evaluate(() => {
    const screen = document.querySelector(".screen").getBoundingClientRect();
    const drawn = document.querySelector(".xterm-screen").getBoundingClientRect();
    return [drawn.width / screen.width, drawn.height / screen.height];
  });
  ok(`${width}x${height}: and it fills the page (${room.map((r) => r.toFixed(2)).join(" ")})`, room.every((r) => r > 0.85 && r <= 1));
  return page;
}

try {
  const { token } = grant({ reason: "a story" });
  for (const [width, height] of sizes) {
    const page = await first(width, height, token);
    if (width === 1280) {
      await type(page, "clear; seq 500 >numbers; vim -u NONE -i NONE -c 'set nu ruler' numbers");
      await shows(page, /^ +10 10$/m);
      await shot(page, "first-size");
      const rows = Number((await cells(page)).split(" ")[0]);
      await shows(page, new RegExp(`^ +${rows - 1} ${rows - 1}$`, "m"));
      ok("vim fills the terminal", true);
    }
    const id = new URL(page.url()).pathname.split("/").pop();
    await page.context().close();
    if (width === 820) await (await first(1100, 650, token, `/sessions/${id}`)).context().close();
  }

  // A reason that holds a joiner, which languages need: it is stored, and every place that shows it shows an escape.
  const odd = grant({ reason: "why\u200dnot", principal: "joiner" });
  const page = await person(chrome);
  await visit(page, `https://${wire.host}/sessions#${odd.token}`);
  await page.locator(".who .left").waitFor();
  const title = await page.locator(".who .left").getAttribute("title");
  ok("a title shows what cannot be seen", title.includes("why\\u{200d}not") && !title.includes("\u200d"), title);
  ok("and muxctl's table does", muxctl("grant", "list").includes("why\\u{200d}not"));
  await page.context().close();
} finally {
  await chrome.close();
  wire.close();
}
