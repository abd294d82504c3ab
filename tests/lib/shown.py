#!/usr/bin/env python3
"""shown.py: no string out of an answer is printed as it came. What a program inside chose may be in any of them, and a terminal
would act on it: ctl_text() and ctl_clean() make it visible (muxd/ctl/ctl.h), and bytes for the standard output go through
muxd/ctl/content.h. What is content, or our own, says so in a comment ahead of the call: /* content: why */, /* own: why */."""
import glob, re, sys

PRINTS = re.compile(r"\b(?:printf|fprintf|puts|fputs|putc|fwrite)\((?:[^;\"]|\"(?:[^\"\\]|\\.)*\")*;")
BYTES = re.compile(r"\b(?:spill_fd|write)\(STDOUT_FILENO\b|\bfwrite\([^;]*\bstdout\)")
RAW = re.compile(r"(\w+)(?:\[\w+\])? = json_(?:string_value|get_text)\(|json_opt_str\([^;]*?&(\w+),")
bad = []
for path in sorted(glob.glob("muxd/ctl/*.c")):
    lines = open(path).read().split("\n")
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), open(path).read(), flags=re.S)
    for body in re.finditer(r"^\{\n.*?^\}", text, flags=re.S | re.M):
        names = {n for pair in RAW.findall(body.group()) for n in pair if n}
        for call in PRINTS.finditer(body.group()):
            words = re.sub(r"\"(?:[^\"\\]|\\.)*\"", "", call.group())  # what is compared or asked for is no text that is shown
            words = re.sub(r"\b(?:strcmp|strlen|ctl_text|ctl_clean|strcasecmp)\([^()]*\)", "", words)
            raw = [n for n in names if re.search(r"\b%s\b(?!\s*(?:\?|&&|\|\|))" % n, words)]
            if raw or re.search(r"json_(?:string_value|get_text)\(", words) or re.search(r"->value\.p\b", words):
                line = text[:body.start() + call.start()].count("\n") + 1
                if not re.search(r"/\* (?:content|own): ", lines[line - 2]):
                    bad.append("%s:%d: a string of an answer is printed as it came: %s" % (path, line, ", ".join(raw) or "directly"))
        for call in BYTES.finditer(body.group()) if not path.endswith("/content.c") else ():
            line = text[:body.start() + call.start()].count("\n") + 1
            if not any(re.search(r"/\* (?:content|own): ", above) for above in lines[line - 3:line - 1]):
                bad.append("%s:%d: bytes go to the standard output past content.h" % (path, line))
for text in bad:
    print(text)
sys.exit(bool(bad))
