// The replay of a session.
import type { Page } from "../app";
import { notice } from "../app";
import { h } from "../dom";

export function show(root: HTMLElement, [id = ""]: string[]): Page {
  root.append(notice("Replay", "This session is in the record.", h("p", null, "Replay it in a terminal: ", h("code", null, `muxctl replay ${id}`))));
  return { title: "Replay" };
}
