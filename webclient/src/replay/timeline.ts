// The timeline: activity as bars, marks of rounds and resizes, a place that can be moved by pointer and keys.
import { clock, h } from "../dom";

export interface Mark {
  at: number;
  kind: "round" | "resize";
  title: string;
  href?: string;
}

export interface Timeline {
  element: HTMLElement;
  /** Milliseconds. */
  set(at: number, duration: number): void;
  activity(output: number[], input: number[]): void;
  marks(list: Mark[]): void;
  draw(): void;
}

export function timeline(seek: (ms: number) => void): Timeline {
  const canvas = h("canvas.bars", { "aria-hidden": "true" });
  const slider = h("input.place", { type: "range", min: 0, max: 1, step: "any", value: 0, "aria-label": "Moment of the recording" });
  const marks_ = h("div.marks");
  const hover = h("span.hover", { hidden: true, "aria-hidden": "true" });
  const element = h("div.timeline", null, canvas, marks_, slider, hover);
  let duration = 1;
  let at = 0;
  let output: number[] = [];
  let input: number[] = [];
  let ticks: [HTMLElement, number][] = [];

  function place(): void {
    for (const [e, ms] of ticks) e.style.setProperty("left", `${Math.min(100, (ms / duration) * 100)}%`);
  }

  slider.addEventListener("input", () => {
    seek(Number(slider.value));
  });
  element.addEventListener("pointermove", (e) => {
    const box = element.getBoundingClientRect();
    const x = Math.min(1, Math.max(0, (e.clientX - box.left) / box.width));
    hover.hidden = false;
    hover.textContent = clock(x * duration);
    hover.style.setProperty("left", `${x * 100}%`);
  });
  element.addEventListener("pointerleave", () => {
    hover.hidden = true;
  });

  function color(name: string): string {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  function draw(): void {
    const ratio = window.devicePixelRatio || 1;
    const w = Math.round(canvas.clientWidth * ratio);
    const height = Math.round(canvas.clientHeight * ratio);
    if (!w || !height) return;
    if (canvas.width !== w || canvas.height !== height) {
      canvas.width = w;
      canvas.height = height;
    }
    const g = canvas.getContext("2d");
    if (!g) return;
    g.clearRect(0, 0, w, height);
    const n = output.length;
    const most = Math.log1p(Math.max(1, ...output));
    const done = (at / duration) * w;
    const [accent, muted, warn] = [color("--accent"), color("--muted"), color("--warn")];
    for (let i = 0; i < n; i++) {
      const x = (i / n) * w;
      const bar = Math.max(1, w / n - ratio * 0.5);
      const y = (Math.log1p(output[i] ?? 0) / most) * (height - 4 * ratio);
      g.fillStyle = x < done ? accent : muted;
      g.globalAlpha = x < done ? 0.85 : 0.4;
      if (output[i]) g.fillRect(x, height - Math.max(y, ratio), bar, Math.max(y, ratio));
      if (input[i]) {
        g.globalAlpha = 0.9;
        g.fillStyle = warn;
        g.fillRect(x, 0, bar, 2 * ratio);
      }
    }
    g.globalAlpha = 1;
  }

  return {
    element,
    draw,
    set: (ms, d) => {
      at = ms;
      if (duration !== Math.max(1, d)) {
        duration = Math.max(1, d);
        place();
      }
      slider.max = String(duration);
      slider.step = "any";
      slider.value = String(ms);
      slider.setAttribute("aria-valuetext", `${clock(ms)} of ${clock(duration)}`);
      draw();
    },
    activity: (o, i) => {
      output = o;
      input = i;
      draw();
    },
    marks: (list) => {
      ticks = list.map((m) => {
        const e = m.href ? h("a.tick", { href: m.href, title: m.title, "aria-label": m.title }) : h("span.tick", { title: m.title });
        e.dataset["kind"] = m.kind;
        return [e, m.at];
      });
      marks_.replaceChildren(...ticks.map(([e]) => e));
      place();
    },
  };
}
