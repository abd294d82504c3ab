// Light, dark, or as the system has it.
import { h } from "./dom";

type Choice = "system" | "light" | "dark";
const key = "muxd-theme";
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();

function choice(): Choice {
  const c = localStorage.getItem(key);
  return c === "light" || c === "dark" ? c : "system";
}

export function isDark(): boolean {
  const c = choice();
  return c === "system" ? dark.matches : c === "dark";
}

export function onTheme(f: () => void): () => void {
  listeners.add(f);
  return () => listeners.delete(f);
}

export function applyTheme(): void {
  document.documentElement.dataset["theme"] = isDark() ? "dark" : "light";
  for (const f of listeners) f();
}

dark.addEventListener("change", applyTheme);

export function themeButton(): HTMLElement {
  const b = h("button.quiet.theme", { type: "button" });
  const label = (): void => {
    b.textContent = isDark() ? "☀" : "☾";
    b.setAttribute("aria-label", isDark() ? "Light colours" : "Dark colours");
    b.title = b.getAttribute("aria-label") ?? "";
  };
  b.addEventListener("click", () => {
    localStorage.setItem(key, isDark() ? "light" : "dark");
    applyTheme();
  });
  onTheme(label);
  label();
  return b;
}
