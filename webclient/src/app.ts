// What pages share: who we are, moving between pages, and the frame around them.
import { ApiError, type Grant } from "./api";
import { clock, h, replace } from "./dom";
import { themeButton } from "./theme";
import { visible } from "./visible";

/** A page shows itself in root and tells how to end. */
export interface Page {
  title: string;
  destroy?(): void;
}
export interface Context {
  grant: Grant;
  /** When the grant ends, by this browser's clock. */
  expires: number;
  /** A session is told that its grant ends then: later than what is known here, it was renewed. */
  ends(at: number): void;
  has(scope: string): boolean;
  go(path: string, how?: "replace"): void;
  /** Aborted when the page is left. */
  signal: AbortSignal;
}
export type Show = (root: HTMLElement, parameters: string[], context: Context) => Page | Promise<Page>;

export interface Frame {
  main: HTMLElement;
  element: HTMLElement;
  setGrant(grant: Grant | null): void;
  setActive(path: string): void;
  /** Above the page, which stays; null: nothing. */
  say(text: string | null): void;
}

export function frame(onLeave: () => void): Frame {
  const links = [link("/sandboxes", "Sandboxes"), link("/sessions", "Sessions")];
  const who = h("div.who");
  const message = h("p.said", { role: "alert", hidden: true });
  const main = h("main", { id: "main", tabindex: "-1" });
  const nav = h("nav", { "aria-label": "Pages" }, ...links);
  const element = h(
    "div.app",
    null,
    h("a.skip", { href: "#main" }, "Skip to content"),
    h("header", null, h("a.brand", { href: "/sandboxes" }, mark(), "muxd"), nav, h("span.grow"), who, themeButton()),
    message,
    main,
  );
  let timer = 0;
  const setGrant = (grant: Grant | null): void => {
    window.clearInterval(timer);
    nav.hidden = !grant;
    if (!grant) {
      replace(who);
      return;
    }
    const end = Date.now() + grant.expires_in_ms;
    const left = h("span.left", { role: "timer" });
    const tick = (): void => {
      const ms = end - Date.now();
      left.textContent = ms > 0 ? clock(ms) : "ended";
      left.classList.toggle("soon", ms < 120_000);
    };
    tick();
    timer = window.setInterval(tick, 1000);
    left.title = visible(`The grant ends ${new Date(end).toLocaleTimeString()}. Reason: ${grant.reason}`);
    replace(
      who,
      h("span.name", { title: `${grant.kind}, scopes ${grant.scopes}` }, grant.principal),
      h("span.muted", null, grant.agent === "*" ? "every agent" : grant.agent),
      left,
      h("button.quiet", { type: "button", onclick: onLeave, title: "Forget the grant in this browser" }, "Sign out"),
    );
  };
  const setActive = (path: string): void => {
    for (const a of links) {
      const href = a.getAttribute("href") ?? "";
      if (path === href || path.startsWith(`${href}/`)) a.setAttribute("aria-current", "page");
      else a.removeAttribute("aria-current");
    }
  };
  const say = (text: string | null): void => {
    message.hidden = text === null;
    message.textContent = text === null ? null : visible(text);
  };
  return { main, element, setGrant, setActive, say };
}

function link(href: string, text: string): HTMLAnchorElement {
  return h("a", { href }, text);
}

function mark(): HTMLElement {
  return h("span.mark", { "aria-hidden": "true" }, "❯_");
}

/** A sentence that stands alone: an error, or nothing to show. */
export function notice(title: string, text: string, ...more: Node[]): HTMLElement {
  return h("section.notice", { role: "status" }, h("h1", null, title), h("p", null, text), ...more);
}

export function errorNotice(e: unknown): HTMLElement {
  if (e instanceof ApiError) {
    const titles: Record<string, string> = {
      unauthenticated: "No grant",
      token_expired: "The grant has ended",
      token_revoked: "The grant was revoked",
      unreachable: "muxd does not answer",
      forbidden: "Not with this grant",
      not_found: "Not found",
    };
    return notice(titles[e.code] ?? "That did not work", sentence(e.message), h("p.muted", null, e.hint));
  }
  return notice("That did not work", String(e));
}

export function sentence(text: string): string {
  const s = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(s) ? s : `${s}.`;
}
