// xterm.js writes <style> elements and, for true colours, style attributes, which the page's policy forbids
// (style-src 'self'). It gets hidden elements instead, whose text goes into constructed style sheets, and attributes
// become properties: those are no inline code.

const sheets = new Map<HTMLElement, CSSStyleSheet>();

export function mirrorStyles(): void {
  const maker = document as unknown as { createElement(tag: string, options?: ElementCreationOptions): HTMLElement };
  const create = maker.createElement.bind(document);
  maker.createElement = (tag, options): HTMLElement => (tag === "style" ? mirrored(create("span")) : create(tag, options));
  HTMLElement.prototype.setAttribute = function (this: HTMLElement, name: string, value: string): void {
    if (name === "style") this.style.cssText = value;
    else Element.prototype.setAttribute.call(this, name, value);
  };
}

function mirrored(e: HTMLElement): HTMLElement {
  const sheet = new CSSStyleSheet();
  e.hidden = true;
  sheets.set(e, sheet);
  const update = (): void => {
    sheet.replaceSync(e.textContent);
    for (const other of sheets.keys()) if (!other.isConnected) sheets.delete(other);
    document.adoptedStyleSheets = [...sheets.values()];
  };
  new MutationObserver(update).observe(e, { childList: true, characterData: true, subtree: true });
  return e;
}
