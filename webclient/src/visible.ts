// Text of others, made so that who looks at it sees all of it and nothing else: the rule of base/visible.h, in the browser's
// own Unicode data. A browser that knows a newer Unicode shows characters that the table there still calls unassigned.

/** Shown as it is, wherever it stands? What is ignorable by default are format characters and fillers. */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}\p{Cn}\p{Default_Ignorable_Code_Point}]/u;
const MARK = /[\p{Mn}\p{Me}]/u;
/** Nothing of it can need an escape: letters, digits, signs of the first planes, as nearly all texts are. */
const PLAIN = /^[\x20-\x7e\xa0-\xac\xae-\u02ff]*$/;
const MARKS_MAX = 4;
const NAMED: Record<string, string> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

function escape(c: string): string {
  const cp = c.codePointAt(0) ?? 0;
  return NAMED[c] ?? (cp < 0x80 ? `\\x${cp.toString(16).padStart(2, "0")}` : `\\u{${cp.toString(16)}}`);
}

/** Controls, bidirectional marks and whatever else cannot be seen, as escapes. `lines`: tabs and line breaks stay. */
export function visible(text: string, lines = false): string {
  if (PLAIN.test(text)) return text;
  let out = "";
  let marks = MARKS_MAX; // on the character before; none may open a text
  for (const c of text) {
    if (HIDDEN.test(c)) {
      out += lines && (c === "\n" || c === "\t") ? c : escape(c);
      marks = MARKS_MAX;
    } else if (MARK.test(c)) {
      out += marks < MARKS_MAX ? c : escape(c);
      marks++;
    } else {
      out += c;
      marks = 0;
    }
  }
  return out;
}
