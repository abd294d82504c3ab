// Elements without a framework. Text is always text: nothing here takes HTML. All of it is shown by the rule of visible.ts,
// labels and titles too, so that no page can forget it.

import { visible } from "./visible";

type Child = Node | string | number | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined | ((e: Event) => void)>;

/** Attributes that somebody sees or hears. */
const SHOWN = new Set(["title", "aria-label", "aria-description", "aria-valuetext", "placeholder", "alt"]);

/** h("button.primary", {onclick: f, "aria-label": "End"}, "End") */
export function h<K extends keyof HTMLElementTagNameMap>(spec: K | `${K}.${string}`, attributes?: Attributes | null, ...children: Child[]): HTMLElementTagNameMap[K] {
  const [tag, ...classes] = spec.split(".");
  const e = document.createElement(tag as K);
  if (classes.length) e.className = classes.join(" ");
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") e.addEventListener(key.replace(/^on/, ""), value);
    else e.setAttribute(key, value === true ? "" : SHOWN.has(key) ? visible(String(value)) : String(value));
  }
  append(e, ...children);
  return e;
}

export function append(to: Element, ...children: Child[]): void {
  for (const c of children) if (c !== null && c !== undefined && c !== false) to.append(typeof c === "string" ? visible(c, true) : typeof c === "number" ? String(c) : c);
}

export function replace(in_: Element, ...children: Child[]): void {
  in_.replaceChildren();
  append(in_, ...children);
}

/**
 * Shows these children in place of those that are there. Where nothing but times is another, they alone are written: what the
 * keyboard stands on, or a voice reads, stays. Else who stood in a row stands there again.
 */
export function redraw(root: Element, ...children: Child[]): void {
  const fresh = h("div", null, ...children);
  if (untimed(fresh) === untimed(root)) {
    const times = fresh.querySelectorAll("time");
    root.querySelectorAll("time").forEach((old, i) => {
      const now = times[i];
      if (now && !old.isEqualNode(now)) old.replaceWith(now.cloneNode(true));
    });
    return;
  }
  const at = root.contains(document.activeElement) ? document.activeElement : null;
  const row = at?.closest<HTMLElement>("[data-row]")?.dataset["row"];
  root.replaceChildren(...fresh.childNodes);
  if (row === undefined) return;
  const links = [...root.querySelectorAll<HTMLElement>(`[data-row="${CSS.escape(row)}"] a`)];
  (links.find((a) => a.getAttribute("href") === at?.getAttribute("href")) ?? links[0])?.focus({ preventScroll: true });
}

function untimed(e: Element): string {
  const copy = e.cloneNode(true) as Element;
  for (const t of copy.querySelectorAll("time")) t.replaceWith(document.createElement("time"));
  return copy.innerHTML;
}

/** "3 min ago", with the exact time as its title. */
export function ago(iso: string | null | undefined): HTMLElement {
  if (!iso) return h("span.muted", null, "–");
  const at = new Date(iso);
  const s = Math.max(0, (Date.now() - at.getTime()) / 1000);
  const text = s < 60 ? "just now" : s < 3600 ? `${Math.floor(s / 60)} min ago` : s < 86400 ? `${Math.floor(s / 3600)} h ago` : at.toLocaleDateString();
  return h("time", { datetime: iso, title: at.toLocaleString() }, text);
}

/** Milliseconds as "1:04:05" or "4:05". */
export function clock(ms: number): string {
  const s = Math.max(0, Math.floor(ms / 1000));
  const two = (n: number): string => String(n).padStart(2, "0");
  const hours = Math.floor(s / 3600);
  return hours ? `${hours}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}` : `${Math.floor(s / 60)}:${two(s % 60)}`;
}

/** Bytes as "12 kB". */
export function bytes(n: number): string {
  if (n < 1000) return `${n} B`;
  for (const unit of ["kB", "MB", "GB"]) {
    n /= 1000;
    if (n < 1000) return `${n < 10 ? n.toFixed(1) : Math.round(n)} ${unit}`;
  }
  return `${Math.round(n / 1000)} TB`;
}
