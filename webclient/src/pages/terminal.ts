// A terminal: the driver's or an observer's view of one session.
import { FitAddon } from "@xterm/addon-fit";
import { SearchAddon } from "@xterm/addon-search";
import { Unicode11Addon } from "@xterm/addon-unicode11";
import { WebLinksAddon } from "@xterm/addon-web-links";
import { WebglAddon } from "@xterm/addon-webgl";
import { Terminal, type ITheme } from "@xterm/xterm";
import { terminate } from "../api";
import { sentence, type Context, type Page } from "../app";
import { bytes, clock, h, replace } from "../dom";
import { Link, type LinkState, type Target } from "../term/link";
import type { Opened } from "../term/wire";
import { isDark, onTheme } from "../theme";

export function open(root: HTMLElement, [agent = ""]: string[], context: Context): Promise<Page> {
  return view(root, { agent }, context);
}

export function join(root: HTMLElement, [session = ""]: string[], context: Context): Promise<Page> {
  const role = new URLSearchParams(location.search).get("role");
  return view(root, role === "observer" || role === "driver" ? { session, role } : { session }, context);
}

const fontSizeKey = "muxd-font-size";
const readerKey = "muxd-reader";
export const readerMode = (): boolean => localStorage.getItem(readerKey) === "on";
const font = '"JetBrains Mono", "Cascadia Mono", "DejaVu Sans Mono", Menlo, Consolas, monospace';
const encoder = new TextEncoder();

export const themes: { light: ITheme; dark: ITheme } = {
  dark: {
    background: "#0d1117", foreground: "#d8dee9", cursor: "#5eead4", cursorAccent: "#0d1117", selectionBackground: "#2f4f5f",
    black: "#3b4252", red: "#f7768e", green: "#9ece6a", yellow: "#e0af68", blue: "#7aa2f7", magenta: "#bb9af7", cyan: "#7dcfff", white: "#c8d0e0",
    brightBlack: "#6b7a90", brightRed: "#ff9aa9", brightGreen: "#b9f27c", brightYellow: "#ffc777", brightBlue: "#9ab8ff", brightMagenta: "#d0b3ff", brightCyan: "#a4e2ff", brightWhite: "#ffffff",
  },
  light: {
    background: "#fdfdfc", foreground: "#24292f", cursor: "#0f766e", cursorAccent: "#fdfdfc", selectionBackground: "#b6e3df",
    black: "#24292f", red: "#c0262d", green: "#2a7a3b", yellow: "#8a5a00", blue: "#1f5fc4", magenta: "#8339b5", cyan: "#0e7490", white: "#57606a",
    brightBlack: "#6e7781", brightRed: "#d1242f", brightGreen: "#1a7f37", brightYellow: "#9a6700", brightBlue: "#0969da", brightMagenta: "#8250df", brightCyan: "#1b7c83", brightWhite: "#24292f",
  },
};

function makeTerminal(): Terminal {
  return new Terminal({
    allowProposedApi: true, // unicode 11
    cursorBlink: true,
    fontFamily: font,
    fontSize: Number(localStorage.getItem(fontSizeKey)) || 14,
    macOptionIsMeta: true,
    minimumContrastRatio: 4.5,
    screenReaderMode: readerMode(),
    scrollback: 10_000,
    theme: isDark() ? themes.dark : themes.light,
  });
}

/** The graphics card draws where there is one. Without one (WebGL by the processor is several times slower), or when it is taken away, the document does. */
function accelerate(term: Terminal): void {
  const probe = document.createElement("canvas").getContext("webgl2", { failIfMajorPerformanceCaveat: true });
  if (!probe) return;
  probe.getExtension("WEBGL_lose_context")?.loseContext();
  try {
    const webgl = new WebglAddon();
    webgl.onContextLoss(() => {
      webgl.dispose();
    });
    term.loadAddon(webgl);
  } catch {
    // no WebGL: the slower renderer is there already
  }
}

async function view(root: HTMLElement, target: Target, context: Context): Promise<Page> {
  const term = makeTerminal();
  const fit = new FitAddon();
  const search = new SearchAddon();
  term.loadAddon(fit);
  term.loadAddon(search);
  term.loadAddon(new Unicode11Addon());
  term.loadAddon(new WebLinksAddon((_, uri) => window.open(uri, "_blank", "noopener,noreferrer")));
  term.unicode.activeVersion = "11";

  const state = h("span.state", { "data-state": "connecting" }, "connecting");
  const where = h("span.where");
  const role = h("span.role");
  const size = h("span.muted.size");
  const latency = h("span.muted.latency", { title: "Round trip to muxd" });
  const left = h("span.left", { role: "timer", title: "Until the grant ends" });
  const message = h("p.message", { role: "status", "aria-live": "polite", hidden: true });
  const found = searchBar(search, term);
  const screen = h("div.screen");
  const actions = h("div.actions", null, button("Search", "Ctrl+Shift+F", () => { found.toggle(); }), button("A−", "Smaller letters", () => { font_(-1); }), button("A+", "Larger letters", () => { font_(1); }), readerButton(term), button("Copy link", "The address of this session", copyLink), h("button.danger", { type: "button", hidden: true, onclick: () => void endSession() }, "End session"));
  const endButton = actions.lastElementChild as HTMLButtonElement;
  root.classList.add("terminal");
  root.append(h("div.status", null, state, where, role, size, latency, h("span.grow"), left, actions), found.element, h("div.over", null, h("div.stage", null, screen), message));

  let opened: Opened | null = null;
  let expires = context.expires;
  let pending: LinkState | null = null;
  let told = false; // by the server: the size that is being taken

  term.open(screen);
  term.textarea?.setAttribute("aria-label", "Terminal. Tab goes to the program; Ctrl+Shift+L leaves it.");
  accelerate(term);
  await document.fonts.ready;
  fit.fit();

  /** Over the terminal, not beside it: a sentence must not change its size, and with that what it shows. */
  function say(text: string | null, kind = ""): void {
    if (!message.hidden && text !== null && message.dataset["kind"] === kind && message.firstChild?.textContent === text) return;
    message.hidden = text === null;
    message.dataset["kind"] = kind;
    const { cursorY } = term.buffer.active;
    message.dataset["at"] = cursorY < term.rows / 2 ? "bottom" : "top"; // not where one reads
    replace(message, h("span.text", null, text ?? ""), h("button.quiet", { type: "button", title: "Close", "aria-label": "Close this message", onclick: () => { say(null); term.focus(); } }, "✕"));
  }

  function showState(s: LinkState): void {
    pending = s;
    state.dataset["state"] = s.name;
    if (s.name === "live") {
      state.textContent = "live";
      say(null);
      refit();
    } else if (s.name === "connecting") {
      state.textContent = opened ? "reconnecting" : "connecting";
    } else if (s.name === "waiting") {
      say(`The connection is gone${s.why ? ` (${s.why})` : ""}. What runs in the sandbox goes on; this page comes back by itself.`, "warning");
    } else if (s.name === "ended") {
      const e = s.exit.exit;
      state.textContent = "ended";
      say(e.cause === "exit" ? `The program ended with code ${e.code}.` : sentence(`The session ended: ${e.message || e.cause}`), "info");
      finish();
    } else {
      state.textContent = "closed";
      say(`${sentence(s.error.message)} ${s.error.hint}`, "error");
      finish();
    }
    tick();
  }

  function finish(): void {
    endButton.hidden = true;
    term.options.cursorBlink = false;
    term.options.disableStdin = true;
    const id = opened?.session ?? ("session" in target ? target.session : "");
    const more = h("span.links");
    if (id && context.has("replay")) more.append(" ", h("a", { href: `/replay/${id}` }, "Replay it"));
    const agent = opened?.agent ?? ("agent" in target ? target.agent : "");
    if (agent && context.has("terminal")) more.append(" · ", h("a", { href: `/terminal/${agent}` }, "Open a new terminal"));
    message.firstElementChild?.append(more);
  }

  function tick(): void {
    if (pending?.name === "waiting") state.textContent = `reconnecting in ${Math.max(0, Math.ceil((pending.until - Date.now()) / 1000))} s`;
    const ms = expires - Date.now();
    left.textContent = ms > 0 ? clock(ms) : "ended";
    left.classList.toggle("soon", ms < 120_000);
  }
  const timer = window.setInterval(tick, 1000);

  const link = new Link(target, term.cols, term.rows, {
    state: showState,
    opened: (o, returning) => {
      opened = o;
      expires = Date.now() + o.grant.expires_in_ms;
      context.ends(expires);
      where.textContent = o.agent;
      where.title = `Session ${o.session}`;
      role.textContent = o.role;
      role.dataset["role"] = o.role;
      endButton.hidden = o.role !== "driver";
      term.options.disableStdin = o.role !== "driver";
      if (o.role === "observer" && o.cols) take(o.cols, o.rows);
      else refit();
      showSize();
      document.title = `${o.agent} · muxd`;
      if (!returning && "agent" in target) history.replaceState(null, "", `/sessions/${o.session}`);
      if (!returning) term.focus();
    },
    output: (data, shown) => {
      term.write(data, shown);
    },
    screen: (cols, rows, data, exact, shown) => {
      if (exact && message.dataset["kind"] === "part") say(null);
      term.reset();
      take(cols, rows);
      term.write(data, () => {
        shown();
        if (opened?.role === "driver") refit();
      });
    },
    skipped: (n) => {
      term.reset();
      term.write(`\x1b[2m… ${bytes(n)} are not shown here; the record has them …\x1b[0m\r\n`);
    },
    notice: (n) => {
      expires = Date.now() + n.expires_in_ms;
      context.ends(expires);
      if (n.over === true) {
        if (message.dataset["kind"] === "warning") say(null);
      } else say(sentence(n.text), n.exact === false ? "part" : "warning");
    },
    resized: (cols, rows) => {
      take(cols, rows);
      showSize();
    },
    latency: (ms) => {
      latency.textContent = `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
    },
  });

  /** The session's size. It is not said back: two pages that drive would pass their sizes on to each other for ever. */
  function take(cols: number, rows: number): void {
    told = true;
    term.resize(cols, rows);
    told = false;
  }
  function showSize(): void {
    size.textContent = `${term.cols}×${term.rows}`;
  }
  /** A program that is not told of another size would not draw again what a smaller terminal loses. */
  function refit(): void {
    if (opened?.role === "observer" || (opened && pending?.name !== "live")) return;
    fit.fit();
  }
  function font_(by: number): void {
    const now = Math.min(32, Math.max(7, (term.options.fontSize ?? 14) + by));
    term.options.fontSize = now;
    localStorage.setItem(fontSizeKey, String(now));
    refit();
  }
  async function endSession(): Promise<void> {
    if (!opened || !window.confirm("End this session and the programs in it?")) return;
    try {
      await terminate(opened.session, "ended from its page");
    } catch (e) {
      say(e instanceof Error ? sentence(e.message) : String(e), "error");
    }
  }

  term.onData((data) => void link.input(encoder.encode(data)));
  term.onBinary((data) => void link.input(Uint8Array.from(data, (c) => c.charCodeAt(0) & 0xff)));
  term.onResize(({ cols, rows }) => {
    if (!told) link.resize(cols, rows, screen.clientWidth, screen.clientHeight);
    showSize();
  });
  term.attachCustomKeyEventHandler((e) => {
    if (e.key === "Tab" && term.options.disableStdin) return false; // nobody takes it here: it goes on to what is next
    if (e.type !== "keydown" || !e.ctrlKey || !e.shiftKey) return true;
    if (e.code === "KeyF") found.toggle();
    else if (e.code === "KeyL") actions.querySelector("button")?.focus();
    else if (e.code === "KeyC" && term.hasSelection()) void navigator.clipboard.writeText(term.getSelection());
    else return true;
    e.preventDefault();
    return false;
  });
  const resizes = new ResizeObserver(() => {
    refit();
  });
  resizes.observe(screen);
  const unTheme = onTheme(() => {
    term.options.theme = isDark() ? themes.dark : themes.light;
  });
  tick();
  // For tests: the terminal's cells are on a canvas.
  (window as { muxdTerminal?: Terminal }).muxdTerminal = term;

  return {
    title: "agent" in target ? target.agent : "Session",
    destroy: () => {
      window.clearInterval(timer);
      resizes.disconnect();
      unTheme();
      link.close();
      term.dispose();
      delete (window as { muxdTerminal?: Terminal }).muxdTerminal;
    },
  };
}

function button(text: string, title: string, f: () => void): HTMLElement {
  return h("button.quiet", { type: "button", title, onclick: f }, text);
}

function copyLink(): void {
  void navigator.clipboard.writeText(location.origin + location.pathname);
}

export function readerButton(term: Terminal): HTMLElement {
  const b = h("button.quiet", { type: "button", title: "Let a screen reader follow the output", "aria-pressed": String(term.options.screenReaderMode === true) }, "Screen reader");
  b.addEventListener("click", () => {
    const on = term.options.screenReaderMode !== true;
    term.options.screenReaderMode = on;
    localStorage.setItem(readerKey, on ? "on" : "off");
    b.setAttribute("aria-pressed", String(on));
  });
  return b;
}

function searchBar(search: SearchAddon, term: Terminal): { element: HTMLElement; toggle(): void } {
  const field = h("input", { type: "search", placeholder: "Search what is shown", "aria-label": "Search what is shown", spellcheck: "false" });
  const options = { decorations: { matchOverviewRuler: "#0f766e", activeMatchColorOverviewRuler: "#f59e0b", matchBackground: "#5eead455", activeMatchBackground: "#f59e0b99" } };
  const next = (): void => void search.findNext(field.value, options);
  const element = h("div.find", { hidden: true, role: "search" }, field, button("↑", "Before (Shift+Enter)", () => void search.findPrevious(field.value, options)), button("↓", "Next (Enter)", next), button("✕", "Close (Escape)", close));
  function close(): void {
    element.hidden = true;
    search.clearDecorations();
    term.focus();
  }
  field.addEventListener("input", () => void search.findNext(field.value, { ...options, incremental: true }));
  field.addEventListener("keydown", (e) => {
    if (e.key === "Enter" && e.shiftKey) search.findPrevious(field.value, options);
    else if (e.key === "Enter") next();
    else if (e.key === "Escape") close();
  });
  return {
    element,
    toggle: () => {
      if (!element.hidden) {
        close();
        return;
      }
      element.hidden = false;
      field.focus();
      field.select();
    },
  };
}
