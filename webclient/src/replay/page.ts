// The replay of a session: play, speed, silences, steps, a timeline, links to a moment, the live tail.
import { Unicode11Addon } from "@xterm/addon-unicode11";
import { Terminal } from "@xterm/xterm";
import { call, idOfTime, recordings } from "../api";
import { errorNotice, sentence, type Context, type Page } from "../app";
import { bytes, clock, h, replace } from "../dom";
import { readerButton, readerMode, themes } from "../pages/terminal";
import { isDark, onTheme } from "../theme";
import { Player } from "./player";
import { noReflow } from "./size";
import { about as describe, patiently, type About } from "./source";
import { visible } from "../visible";
import { timeline, type Mark } from "./timeline";

const font = '"JetBrains Mono", "Cascadia Mono", "DejaVu Sans Mono", Menlo, Consolas, monospace';
const speeds = [0.5, 1, 2, 4, 8, 16, 64];
const causes: Record<string, string> = { exit: "ended", timeout: "timed out", killed: "was killed", oom: "ran out of memory", lost: "was lost", unknown: "ended, it is not known how" };

export async function show(root: HTMLElement, [id = ""]: string[], context: Context): Promise<Page> {
  const about = await describe(id, context.signal);
  const term = new Terminal({ allowProposedApi: true, disableStdin: true, cursorBlink: false, fontFamily: font, fontSize: 14, scrollback: 5000, convertEol: about.open.pty !== true, windowsPty: noReflow, minimumContrastRatio: 4.5, screenReaderMode: readerMode(), theme: isDark() ? themes.dark : themes.light, cols: about.open.cols || 80, rows: about.open.rows || 24 });
  term.loadAddon(new Unicode11Addon());
  term.unicode.activeVersion = "11";

  const state = h("span.state", { "data-state": "connecting" }, "loading");
  const facts = h("span.where", { title: `Session ${id}` }, about.open.agent ?? "session");
  const typed = h("span.typed", { title: "What was typed last", "aria-hidden": "true" });
  const message = h("p.message", { role: "status", "aria-live": "polite", hidden: true });
  const screen = h("div.screen");
  const stage = h("div.stage.replay", { tabindex: 0, "aria-label": "The recorded screen" }, screen);
  const time = h("span.time", { role: "timer" }, "0:00");
  const wall = h("span.muted.wall");
  const playButton = h("button.primary", { type: "button", onclick: () => { player.toggle(); } }, "Play");
  const speed = h("select", { "aria-label": "Speed" }, ...speeds.map((s) => h("option", { value: s, selected: s === 1 }, `${s}×`)));
  const skip = h("input", { type: "checkbox", id: "skip", checked: true });
  const liveButton = h("button.quiet", { type: "button", hidden: about.state === "sealed", onclick: () => void player.toLive() }, "Live");
  const line = timeline((ms) => void player.seek(ms));

  const small = (text: string, title: string, f: () => void): HTMLElement => h("button.quiet", { type: "button", title, onclick: f }, text);
  const controls = h(
    "div.controls",
    { role: "group", "aria-label": "Replay" },
    playButton,
    small("−10 s", "Back (←)", () => void player.seek(player.at - 10_000)),
    small("+10 s", "Ahead (→)", () => void player.seek(player.at + 10_000)),
    small("Step", "The next output (.)", () => void player.step()),
    speed,
    h("label.check", { for: "skip" }, skip, "skip silence"),
    liveButton,
    h("span.grow"),
    time,
    wall,
  );
  const actions = h("div.actions", null, readerButton(term), small("Copy link", "The address of this moment", copyLink));
  if (context.has("lifecycle") && about.open.agent && !about.open.agent.includes("/")) actions.append(small("Open workspace", "A sandbox with the workspace of that time", () => void fork()));
  root.classList.add("terminal");
  root.append(h("div.status", null, state, facts, h("span.muted", null, described(about)), typed, h("span.grow"), actions), message, stage, line.element, controls);
  term.open(screen);
  term.attachCustomKeyEventHandler(() => false); // keys are this page's, Tab the browser's
  if (term.textarea) term.textarea.tabIndex = -1; // the stage stands for it
  await document.fonts.ready;

  let by = ""; // who types
  let keysTyped = "";
  const showTyped = (): void => {
    typed.textContent = by && keysTyped ? `${by}: ${keysTyped}` : keysTyped;
  };
  const player = new Player(
    id,
    about,
    term,
    {
      changed: draw,
      size: fit,
      input: (text, masked) => {
        keysTyped = (masked ? "•".repeat(Math.min(text.length, 8)) : printable(keysTyped + text)).slice(-40);
        showTyped();
      },
      typist: (name) => {
        by = visible(name);
        keysTyped = "";
        showTyped();
      },
      jumped: () => {
        by = keysTyped = "";
        showTyped();
        if (message.dataset["kind"] === "gap") say(null);
      },
      gap: (n) => {
        say(`${bytes(n)} are not in the recording here: its rule left them out.`, "gap");
      },
      failed: (e) => {
        if (!context.signal.aborted) say(e instanceof Error ? sentence(e.message) : String(e), "error");
      },
    },
    context.signal,
  );

  function say(text: string | null, kind = ""): void {
    message.hidden = text === null;
    message.dataset["kind"] = kind;
    message.textContent = visible(text ?? "");
  }

  function draw(): void {
    const names = { loading: "loading", paused: "paused", playing: "playing", ended: "at the end", live: "live" };
    state.textContent = names[player.state];
    state.dataset["state"] = player.state === "live" || player.state === "playing" ? "live" : player.state === "loading" ? "connecting" : "paused";
    const plays = player.state === "playing" || player.state === "live";
    playButton.textContent = plays ? "Pause" : player.state === "ended" ? "Replay" : "Play";
    playButton.setAttribute("aria-pressed", String(plays));
    time.textContent = `${clock(player.at)} / ${clock(player.duration)}`;
    if (about.wall_at) wall.textContent = new Date(Date.parse(about.wall_at) + player.at).toLocaleTimeString();
    line.set(player.at, player.duration);
  }

  /** As large as the page has room for, never cut. */
  function fit(): void {
    const cell = term.element?.querySelector(".xterm-screen")?.getBoundingClientRect();
    const size = term.options.fontSize ?? 14;
    if (!cell?.width || !cell.height) return;
    const wide = ((stage.clientWidth - 24) / cell.width) * size;
    const high = ((stage.clientHeight - 16) / cell.height) * size;
    const now = Math.floor(Math.min(22, Math.max(5, Math.min(wide, high))) * 2) / 2;
    if (now !== size) term.options.fontSize = now;
  }

  let places: number[] = []; // of the marks, in order
  function toMark(ahead: boolean): void {
    const to = ahead ? places.find((t) => t > player.at + 1) : places.filter((t) => t < player.at - 1000).pop();
    if (to !== undefined) void player.seek(to);
    else if (!ahead) void player.seek(0);
  }

  function moment(): string {
    return `${location.origin}/replay/${id}#t=${(Math.ceil(player.at * 1000) / 1e6).toFixed(6)}`; // never before what is shown
  }
  function copyLink(): void {
    history.replaceState(null, "", moment());
    navigator.clipboard.writeText(moment()).then(
      () => { say("The link to this moment is copied.", "info"); },
      () => { say("The browser does not let this page copy; the address bar has the link.", "warning"); },
    );
  }
  async function fork(): Promise<void> {
    try {
      say("The workspace of that time is being restored …", "info");
      const made = await call<{ agent: string }>("POST", `/v1/sessions/${id}/fork`, { body: { at_ms: Math.round(player.at) } });
      replace(message, "A copy of that workspace is ", h("code", null, made.agent), ". A grant for it opens it: ", h("code", null, `muxctl grant create --agent ${made.agent} --kind staff --reason "…"`));
    } catch (e) {
      replace(message, errorNotice(e));
      message.hidden = false;
    }
  }

  const keys: Record<string, () => void> = {
    " ": () => { player.toggle(); },
    k: () => { player.toggle(); },
    ".": () => void player.step(),
    ArrowLeft: () => void player.seek(player.at - 10_000),
    ArrowRight: () => void player.seek(player.at + 10_000),
    Home: () => void player.seek(0),
    End: () => void player.seek(player.duration),
    "[": () => { toMark(false); },
    "]": () => { toMark(true); },
    "+": () => { faster(1); },
    "-": () => { faster(-1); },
  };
  for (let i = 0; i < 10; i++) keys[String(i)] = () => void player.seek((player.duration * i) / 10);
  function faster(by: number): void {
    speed.selectedIndex = Math.min(speeds.length - 1, Math.max(0, speed.selectedIndex + by));
    player.speed = Number(speed.value);
  }
  const onKey = (e: KeyboardEvent): void => {
    if (e.ctrlKey || e.metaKey || e.altKey || (e.target instanceof Element && e.target.closest("input, select, button, a") && e.key !== ".")) return;
    const f = keys[e.key];
    if (!f) return;
    e.preventDefault();
    f();
  };
  const linked = (): number | undefined => {
    const t = /^#t=([\d.]+)$/.exec(location.hash)?.[1];
    return t === undefined ? undefined : Math.round(Number(t) * 1e6) / 1000;
  };
  const onHash = (): void => {
    const to = linked();
    if (to !== undefined) void player.seek(to);
  };
  document.addEventListener("keydown", onKey);
  window.addEventListener("hashchange", onHash);
  speed.addEventListener("change", () => { player.speed = Number(speed.value); });
  skip.addEventListener("change", () => { player.idleMs = skip.checked ? 2000 : 0; });
  const sizes = new ResizeObserver(() => {
    fit();
    line.draw();
  });
  sizes.observe(stage);
  const unTheme = onTheme(() => {
    term.options.theme = isDark() ? themes.dark : themes.light;
    line.draw();
  });

  if (about.timeline) line.activity(about.timeline.output, about.timeline.input);
  const start = linked();
  if (about.state === "open" && start === undefined) void player.toLive();
  else {
    if (start === undefined) player.play(); // once it is there, unless somebody stops it before
    void player.seek(start ?? 0);
  }
  const mark = (list: Mark[]): void => {
    list.sort((a, b) => a.at - b.at);
    places = list.map((m) => m.at);
    line.marks(list);
  };
  mark(sizeMarks(about));
  void roundMarks(about, id, context.signal).then(
    (list) => { mark([...sizeMarks(about), ...list]); },
    (e: unknown) => { if (!context.signal.aborted) say(`Marks of rounds could not be read: ${e instanceof Error ? sentence(e.message) : String(e)}`, "error"); },
  );
  // For tests: the terminal's cells are on a canvas.
  Object.assign(window, { muxdTerminal: term, muxdPlayer: player });

  return {
    title: `Replay of ${about.open.agent ?? id}`,
    destroy: () => {
      document.removeEventListener("keydown", onKey);
      window.removeEventListener("hashchange", onHash);
      sizes.disconnect();
      unTheme();
      player.destroy();
      term.dispose();
      Object.assign(window, { muxdTerminal: undefined, muxdPlayer: undefined });
    },
  };
}

function described(about: About): string {
  const o = about.open;
  const who = [o.kind, o.principal, o.reason].filter(Boolean).join(" · ");
  const cause = about.exit?.cause;
  if (!cause) return who;
  const code = cause === "exit" && about.exit?.code ? ` with code ${about.exit.code}` : "";
  return `${who} · ${causes[cause] ?? cause}${code}`;
}

/** Keys as people read them. */
function printable(text: string): string {
  const keys = text
    .replace(/\r/g, "⏎")
    .replace(/\x1b\[[0-9;?]*[A-Za-z~]/g, "")
    .replace(/\x1b./g, "")
    .replace(/\x7f|\x08/g, "⌫")
    .replace(/\t/g, "⇥")
    .replace(/[\x00-\x1f]/g, (c) => `^${String.fromCharCode(c.charCodeAt(0) + 64)}`);
  return visible(keys);
}

/** Where the size of this recording's terminal changed. */
function sizeMarks(about: About): Mark[] {
  const first = BigInt(about.first_ns ?? "0");
  return (about.sizes ?? []).slice(1).map((s) => ({ at: Number(BigInt(s.at_ns) - first) / 1e6, kind: "resize", title: `${s.cols}×${s.rows}` }));
}

/** Rounds of the same agent in this recording's time. */
async function roundMarks(about: About, id: string, signal: AbortSignal): Promise<Mark[]> {
  const list: Mark[] = [];
  const pages = 5; // of rounds in its time: more marks than that nobody tells apart
  const agent = about.open.agent;
  if (!about.wall_at || !about.last_ns || about.open.kind === "round" || !agent) return list;
  const from = Date.parse(about.wall_at);
  const to = from + Number(BigInt(about.last_ns) - BigInt(about.first_ns ?? "0")) / 1e6;
  let before = idOfTime(to + 1);
  for (let i = 0; i < pages; i++) {
    const { recordings: rounds } = await patiently(() => recordings({ agent, kind: "round", before, limit: 200 }, signal), signal);
    for (const r of rounds) {
      const at = Date.parse(r.opened_at ?? "");
      if (r.session !== id && at >= from && at <= to) list.push({ at: at - from, kind: "round", title: `Round of ${r.principal} at ${clock(at - from)}`, href: `/replay/${r.session}` });
    }
    const last = rounds[rounds.length - 1];
    if (!last || rounds.length < 200 || Date.parse(last.opened_at ?? "") < from) break;
    before = last.session;
  }
  return list;
}
