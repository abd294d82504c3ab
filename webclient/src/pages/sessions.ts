// Sessions live and past. Past ones come from the record, which needs scope replay; without it those at hand are shown.
import { idOfTime, recordings, sessions, type Recording, type Session } from "../api";
import { ApiError } from "../api";
import { errorNotice, type Context, type Page } from "../app";
import { ago, clock, h, redraw, replace } from "../dom";

interface Row {
  id: string;
  kind: string;
  agent: string;
  principal: string;
  reason: string;
  opened: string | null;
  ended: string | null;
  live: boolean;
  what: string;
  inside: Session["attachments"];
  result: string;
}

const page = 100;
const kinds = ["terminal", "exec", "round", "file"];
const ages: [string, number][] = [["any time", 0], ["last hour", 3600e3], ["last day", 86400e3], ["last week", 7 * 86400e3]];

export function show(root: HTMLElement, _: string[], context: Context): Page {
  const q = new URLSearchParams(location.search);
  const field = (name: string, label: string): HTMLInputElement => h("input", { name, placeholder: label, "aria-label": label, value: q.get(name) ?? "", spellcheck: "false", autocapitalize: "none" });
  const agent = field("agent", "Agent");
  const principal = field("principal", "Person");
  const kind = h("select", { "aria-label": "Kind" }, h("option", { value: "" }, "any kind"), ...kinds.map((k) => h("option", { value: k, selected: q.get("kind") === k }, k)));
  const age = h("select", { "aria-label": "Time" }, ...ages.map(([text, ms]) => h("option", { value: ms, selected: Number(q.get("within")) === ms && ms > 0 }, text)));
  const live = h("input", { type: "checkbox", checked: q.get("live") === "1", id: "live" });
  const body = h("div", null, h("p.muted", null, "Loading…"));
  const more = h("button", { type: "button", hidden: true, onclick: () => void load(true) }, "Older ones");
  const form = h("form.filters", { role: "search", onsubmit: (e) => { e.preventDefault(); changed(); } }, agent, principal, kind, age, h("label.check", { for: "live" }, live, "live only"));
  root.append(h("div.head", null, h("h1", null, "Sessions"), form), body, more);

  let rows: Row[] = [];
  let oldest: string | undefined; // of the record's pages that are here: behind it "Older ones" goes on
  let grown = false; // by "Older ones"
  let turn = 0; // the newest load counts
  let typing = 0;
  form.addEventListener("input", () => {
    window.clearTimeout(typing);
    typing = window.setTimeout(changed, 250);
  });

  function changed(): void {
    const p = new URLSearchParams();
    const values: [string, string][] = [["agent", agent.value.trim()], ["principal", principal.value.trim()], ["kind", kind.value], ["within", age.value === "0" ? "" : age.value], ["live", live.checked ? "1" : ""]];
    for (const [k, v] of values) if (v) p.set(k, v);
    more.hidden = true;
    history.replaceState(null, "", `/sessions${p.size ? `?${p.toString()}` : ""}`);
    void load(false);
  }

  function wanted(r: Row): boolean {
    const within = Number(age.value);
    return (
      (!agent.value.trim() || r.agent === agent.value.trim() || r.agent.startsWith(`${agent.value.trim()}/`)) &&
      (!principal.value.trim() || r.principal === principal.value.trim()) &&
      (!kind.value || r.kind === kind.value) &&
      (!live.checked || r.live) &&
      (!within || !r.opened || Date.now() - Date.parse(r.opened) < within)
    );
  }

  async function load(older: boolean): Promise<void> {
    const mine = ++turn;
    grown = older;
    try {
      const now = (await sessions(context.signal)).sessions.map(fromLive);
      let past: Recording[] = [];
      if (context.has("replay") && !live.checked) past = await record(older ? oldest : undefined);
      if (mine !== turn) return;
      const old = past.map(fromRecord);
      const seen = new Map((older ? [...rows, ...old] : [...old]).map((r) => [r.id, r]));
      for (const r of now) seen.set(r.id, r);
      const within = Number(age.value);
      oldest = old[old.length - 1]?.id;
      rows = [...seen.values()].filter(wanted).sort((a, b) => (a.id < b.id ? 1 : -1));
      more.hidden = past.length < page || (within > 0 && oldest !== undefined && oldest < idOfTime(Date.now() - within));
      draw();
    } catch (e) {
      if (context.signal.aborted || mine !== turn) return;
      replace(body, errorNotice(e));
      grown = false; // the next turn of the clock shows the newest again
    }
  }

  async function record(before: string | undefined): Promise<Recording[]> {
    try {
      return (await recordings({ agent: agent.value.trim(), principal: principal.value.trim(), kind: kind.value, limit: page, ...(before ? { before } : {}) }, context.signal)).recordings;
    } catch (e) {
      if (e instanceof ApiError && (e.code === "forbidden" || e.code === "invalid_request")) return []; // a name half typed
      throw e;
    }
  }

  function draw(): void {
    if (rows.length === 0) {
      redraw(body, h("p.empty", null, context.has("replay") ? "No session is like that." : "No session at hand is like that. Past ones need a grant with scope replay."));
      return;
    }
    redraw(
      body,
      h(
        "table",
        null,
        h("thead", null, h("tr", null, ...["Session", "Agent", "Who", "Started", "Duration", "Result", ""].map((t) => h("th", { scope: "col" }, t)))),
        h("tbody", null, ...rows.map((r) => line(r, context))),
      ),
    );
  }

  void load(false);
  const timer = window.setInterval(() => {
    if (document.visibilityState === "visible" && !grown) void load(false);
  }, 6000);
  return { title: "Sessions", destroy: () => { window.clearInterval(timer); window.clearTimeout(typing); } };
}

function words(argv: (string | { base64: string })[] | undefined): string {
  return (argv ?? []).map((a) => (typeof a === "string" ? a : "…")).join(" ");
}

function fromLive(s: Session): Row {
  const live = s.state !== "ended";
  return { id: s.id, kind: s.kind, agent: s.agent, principal: s.principal, reason: s.reason, opened: s.opened_at ?? null, ended: s.ended_at ?? null, live, what: words(s.argv), inside: live ? s.attachments : [], result: s.exit ? outcome(s.exit.cause, s.exit.code, s.exit.signal) : s.state };
}

function fromRecord(r: Recording): Row {
  const e = r.exit;
  return { id: r.session, kind: r.kind, agent: r.agent, principal: r.principal, reason: r.reason, opened: r.opened_at, ended: r.ended_at, live: r.state === "open", what: words(r.open?.argv), inside: [], result: e?.cause ? outcome(e.cause, e.code ?? null, e.signal ? String(e.signal) : null) : r.state };
}

function outcome(cause: string, code: number | null, signal: string | null): string {
  if (cause !== "exit") return cause;
  return signal ? `signal ${signal}` : `exit ${code ?? "?"}`;
}

function line(r: Row, context: Context): HTMLElement {
  const began = r.opened ? Date.parse(r.opened) : NaN;
  const took = Number.isNaN(began) ? "" : clock((r.ended ? Date.parse(r.ended) : Date.now()) - began);
  const mine = r.principal === context.grant.principal;
  const terminal = r.live && r.kind === "terminal";
  return h(
    "tr",
    { "data-live": r.live, "data-row": r.id },
    h("td", { "data-label": "Session" }, h("span.badge.small", { "data-kind": r.kind }, r.kind), " ", h("span.cut.what", { title: `${r.what}\n${r.id}` }, r.what || r.reason)),
    h("td", { "data-label": "Agent" }, r.agent),
    h("td", { "data-label": "Who" }, r.principal, r.inside.length > 1 ? h("span.muted", null, ` +${r.inside.length - 1}`) : null),
    h("td", { "data-label": "Started" }, ago(r.opened)),
    h("td.number", { "data-label": "Duration" }, r.live ? h("time", null, took) : took),
    h("td", { "data-label": "Result" }, r.live ? h("span.badge.small", { "data-state": "running" }, "live") : r.result),
    h(
      "td.links",
      null,
      terminal && context.has("observe") ? h("a", { href: `/sessions/${r.id}?role=observer` }, "Watch") : null,
      terminal && (context.has("drive") || (mine && context.has("terminal"))) ? h("a", { href: `/sessions/${r.id}?role=driver` }, "Join") : null,
      context.has("replay") ? h("a", { href: `/replay/${r.id}` }, "Replay") : null,
    ),
  );
}
