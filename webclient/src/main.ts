// Where a page's address leads, and how its reader comes to a grant.
import "@xterm/xterm/css/xterm.css";
import "./style.css";
import { ApiError, exchange, extend, leave, unreachable, whoami, type Grant } from "./api";
import { errorNotice, frame, notice, sentence, type Context, type Page, type Show } from "./app";
import { h, replace } from "./dom";
import { mirrorStyles } from "./term/styles";
import { applyTheme } from "./theme";

/**
 * Pages are loaded when they are first shown. The groups of the pattern are the page's parameters. A full one fills the window,
 * without the margins of a document; it does so before it is made, since what it measures there (the size of a terminal) counts.
 */
const routes: { pattern: RegExp; full?: boolean; load: () => Promise<Show> }[] = [
  { pattern: /^\/sandboxes$/, load: async () => (await import("./pages/sandboxes")).show },
  { pattern: /^\/sessions$/, load: async () => (await import("./pages/sessions")).show },
  { pattern: /^\/sessions\/([0-9a-f-]{36})$/, full: true, load: async () => (await import("./pages/terminal")).join },
  { pattern: /^\/terminal\/(.+)$/, full: true, load: async () => (await import("./pages/terminal")).open },
  { pattern: /^\/replay\/([0-9a-f-]{36})$/, full: true, load: async () => (await import("./replay/page")).show },
];

/** How often a part of a page was asked for in vain; and when something that failed is tried again. */
const reloads = "muxd-reloads";
const delays = [500, 1000, 2000, 4000, 8000];
const delay = (tries: number): number => delays[tries] ?? 15_000;
let retry = 0;
let grant: Grant | null = null;
let expires = 0;
let page: Page | null = null;
let leaving = new AbortController();
const app = frame(() => void forget());

/** Only muxd can take the cookie away: goodbye is said when it has, or does not know the grant any more. */
async function forget(): Promise<void> {
  app.say(null);
  try {
    await leave();
  } catch (e) {
    if (!(e instanceof ApiError && e.status === 401)) {
      app.say(`The grant is still in this browser: ${sentence(e instanceof Error ? e.message : String(e))}`);
      return;
    }
  }
  setGrant(null);
  end();
  replace(app.main, notice("Goodbye", "The grant is forgotten in this browser. It is valid until it ends: revoke it where it was made if that is too long."));
}

function setGrant(g: Grant | null): void {
  grant = g;
  expires = g ? Date.now() + g.expires_in_ms : 0;
  app.setGrant(g);
}

/** One that does not come about is tried again when the session's connection is there again. */
async function ends(at: number): Promise<void> {
  if (!grant || at < expires + 1000) return;
  try {
    setGrant(await extend());
  } catch (e) {
    if (!(e instanceof ApiError && (e.status === 0 || e.status === 503))) app.say(`The grant was renewed, and this browser cannot keep it: ${sentence(e instanceof Error ? e.message : String(e))}`);
  }
}

function end(): void {
  window.clearTimeout(retry);
  leaving.abort();
  leaving = new AbortController();
  page?.destroy?.();
  page = null;
}

function go(path: string, how?: "replace"): void {
  if (how === "replace") history.replaceState(null, "", path);
  else history.pushState(null, "", path);
  void show();
}

async function show(): Promise<void> {
  end();
  const signal = leaving.signal;
  const path = location.pathname;
  app.setActive(path);
  if (!grant) {
    replace(app.main, howToEnter());
    return;
  }
  const g = grant;
  const context: Context = { grant: g, expires, ends: (at) => void ends(at), go, signal, has: (scope) => g.scopes.split(",").includes(scope) };
  if (path === "/") {
    go(g.agent !== "*" && context.has("terminal") ? `/terminal/${g.agent}` : "/sandboxes", "replace");
    return;
  }
  const root = h("div.page");
  replace(app.main, root);
  try {
    for (const r of routes) {
      const m = r.pattern.exec(path);
      if (!m) continue;
      app.element.classList.toggle("full", r.full === true);
      const shown = await (await r.load())(root, m.slice(1).map(decodeURIComponent), context);
      if (signal.aborted) {
        shown.destroy?.();
        return;
      }
      sessionStorage.removeItem(reloads);
      page = shown;
      document.title = `${page.title} · muxd`;
      return;
    }
    app.element.classList.remove("full");
    replace(root, notice("Not found", "There is no page at this address."));
  } catch (e) {
    if (signal.aborted) return;
    app.element.classList.remove("full");
    // A part of the page did not come: the line was cut, or muxd is another version by now. It is loaded anew.
    if (e instanceof TypeError && /import/.test(e.message)) {
      const tries = Number(sessionStorage.getItem(reloads)) || 0;
      sessionStorage.setItem(reloads, String(tries + 1));
      retry = window.setTimeout(() => { location.reload(); }, tries && delay(tries));
      replace(root, errorNotice(unreachable()));
      return;
    }
    replace(root, errorNotice(e));
  }
}

function howToEnter(): HTMLElement {
  app.element.classList.remove("full");
  return notice("No grant", "These pages open with a link that holds a grant.", h("p", null, "Make one: ", h("code", null, 'muxctl grant create --agent NAME --kind staff --reason "…"'), ", then open its web address."));
}

/** A grant's token has three parts; other fragments belong to the pages. It leaves the address bar before anything else happens. */
function takeToken(): string | null {
  const text = location.hash.slice(1);
  if (!/^[\w-]+\.[\w-]+\.[\w-]+$/.test(text)) return null;
  history.replaceState(null, "", location.pathname + location.search);
  return text;
}

async function enter(token = takeToken(), tries = 0): Promise<void> {
  window.clearTimeout(retry);
  try {
    setGrant(await (token ? exchange(token) : whoami()));
  } catch (e) {
    setGrant(null);
    if (e instanceof ApiError && e.code === "unauthenticated") replace(app.main, howToEnter());
    else replace(app.main, errorNotice(e));
    // The daemon is starting anew, or the line is cut: it is asked again until it answers.
    if (e instanceof ApiError && (e.status === 0 || e.status === 503)) retry = window.setTimeout(() => void enter(token, tries + 1), delay(tries));
    return;
  }
  await show();
}

document.addEventListener("click", (e) => {
  const a = e.target instanceof Element ? e.target.closest("a") : null;
  if (!a || e.defaultPrevented || e.button !== 0 || e.ctrlKey || e.metaKey || e.shiftKey || a.target || a.origin !== location.origin) return;
  if (a.hash && a.pathname === location.pathname) return;
  e.preventDefault();
  go(a.pathname + a.search + a.hash);
});
window.addEventListener("popstate", () => void show());
window.addEventListener("hashchange", () => {
  if (/^#[\w-]+\.[\w-]+\.[\w-]+$/.test(location.hash)) void enter();
});

sessionStorage.removeItem("muxd-loads"); // of boot.js: all parts came
mirrorStyles();
applyTheme();
document.body.append(app.element);
void enter();
