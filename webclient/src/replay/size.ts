// Another size for a terminal that shows a recording. What the record's screens keep of a resize (muxd/screen) is what fits;
// xterm.js would wrap lines anew, fetch lines back from above, and bring back what was cut off when it grows again. So
// that a moment looks the same whether it was jumped to or played to, it is told not to (`noReflow`), and cut.
import type { IWindowsPty, Terminal } from "@xterm/xterm";

/** Option windowsPty: a terminal whose other side draws anew by itself. */
export const noReflow: IWindowsPty = { buildNumber: 1 };

/** What there is of xterm.js behind its API: version 6, pinned by the lock file. */
interface Cut {
  getNullCell(): unknown;
  lines: { length: number; get(i: number): { resize(cols: number, cell: unknown): void } | undefined };
}
interface Core {
  _core?: { buffers?: { normal: Cut; alt: Cut } };
}

/** What was written before is parsed: the caller sees to it. */
export function setSize(term: Terminal, cols: number, rows: number): void {
  const narrower = cols < term.cols;
  term.resize(cols, rows);
  const buffers = (term as unknown as Core)._core?.buffers;
  if (!narrower || !buffers) return;
  for (const b of [buffers.normal, buffers.alt]) {
    const cell = b.getNullCell();
    for (let i = Math.max(0, b.lines.length - rows); i < b.lines.length; i++) b.lines.get(i)?.resize(cols, cell);
  }
}
