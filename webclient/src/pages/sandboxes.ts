// The sandboxes a grant covers: their state, who is inside, and the way in.
import { agentPath, agents, sessions, type Agent, type Session } from "../api";
import { errorNotice, type Context, type Page } from "../app";
import { ago, h, redraw, replace } from "../dom";

const every = 4000;

export function show(root: HTMLElement, _: string[], context: Context): Page {
  const body = h("div.cards", null, h("p.muted", null, "Loading…"));
  const go = goForm(context);
  root.append(h("div.head", null, h("h1", null, "Sandboxes"), go), body);

  async function refresh(): Promise<void> {
    try {
      const [a, s] = await Promise.all([agents(context.signal), sessions(context.signal)]);
      draw(body, a.agents, s.sessions, context);
    } catch (e) {
      if (!context.signal.aborted) replace(body, errorNotice(e));
    }
  }
  void refresh();
  const timer = window.setInterval(() => {
    if (document.visibilityState === "visible") void refresh();
  }, every);
  return { title: "Sandboxes", destroy: () => { window.clearInterval(timer); } };
}

/** A sandbox that does not run yet is not in the list: it is made when it is entered. */
function goForm(context: Context): HTMLElement | null {
  if (!context.has("terminal")) return null;
  if (context.grant.agent !== "*") return h("a.button.primary", { href: `/terminal/${agentPath(context.grant.agent)}` }, `Open a terminal in ${context.grant.agent}`);
  const field = h("input", { name: "agent", placeholder: "agent", "aria-label": "Agent", required: true, spellcheck: "false", autocapitalize: "none" });
  return h(
    "form.inline",
    {
      onsubmit: (e) => {
        e.preventDefault();
        context.go(`/terminal/${agentPath(field.value.trim())}`);
      },
    },
    field,
    h("button.primary", { type: "submit" }, "Open a terminal"),
  );
}

function draw(body: HTMLElement, list: Agent[], all: Session[], context: Context): void {
  if (list.length === 0) {
    redraw(body, h("p.empty", null, "No sandbox runs. One is made when a terminal is opened or a round is started."));
    return;
  }
  redraw(body, ...list.map((a) => card(a, all.filter((s) => s.agent === a.agent && s.state !== "ended"), context)));
}

function card(a: Agent, inside: Session[], context: Context): HTMLElement {
  const people = inside.flatMap((s) => s.attachments);
  return h(
    "article.card",
    { "aria-label": a.agent, "data-row": a.agent },
    h("div.card-head", null, h("h2", null, a.agent), h("span.badge", { "data-state": a.state }, a.state)),
    h("p.muted", null, "Last activity ", ago(a.last_activity_at)),
    a.cannot_sleep ? h("p.caution", null, "Cannot sleep when it is idle: ", a.cannot_sleep) : null,
    a.detail ? h("p.caution", null, a.detail) : null,
    people.length ? h("p", null, "Inside: ", names(people)) : h("p.muted", null, inside.length ? "Nobody is attached." : "Nobody is inside."),
    inside.length ? h("ul.sessions", null, ...inside.slice(0, 6).map((s) => row(s, context))) : null,
    inside.length > 6 ? h("p.muted", null, `and ${inside.length - 6} more`) : null,
    h(
      "div.card-foot",
      null,
      context.has("terminal") ? h("a.button", { href: `/terminal/${agentPath(a.agent)}` }, "Open a terminal") : null,
      h("a", { href: `/sessions?agent=${encodeURIComponent(a.agent)}` }, "Its sessions"),
    ),
  );
}

function names(people: Session["attachments"]): string {
  const count = new Map<string, number>();
  for (const p of people) count.set(`${p.principal} (${p.role})`, (count.get(`${p.principal} (${p.role})`) ?? 0) + 1);
  return [...count].map(([who, n]) => (n > 1 ? `${who} ×${n}` : who)).join(", ");
}

function row(s: Session, context: Context): HTMLElement {
  const mine = s.principal === context.grant.principal;
  const watch = context.has("observe") && s.kind === "terminal";
  const drive = s.kind === "terminal" && (context.has("drive") || (mine && context.has("terminal")));
  return h(
    "li",
    { "data-row": s.id },
    h("span.badge.small", { "data-kind": s.kind }, s.kind),
    h("span.grow.cut", { title: s.reason }, s.principal, ": ", s.reason),
    watch ? h("a", { href: `/sessions/${s.id}?role=observer` }, "Watch") : null,
    drive ? h("a", { href: `/sessions/${s.id}?role=driver` }, "Join") : null,
  );
}
