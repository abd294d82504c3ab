"""web_exact.py ADDRESS CAFILE AGENT TOKENFILE big FILE | small SIZE RUNS: output through the browser door, byte for byte.

Prints a line a session: its id, the bytes that came and their digest, and what the exit said there were."""
import hashlib, os, sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from websocket import Terminal  # noqa: E402

address, cafile, agent, tokenfile, what = sys.argv[1:6]
token = open(tokenfile).read().strip()


def session(command):
    """A terminal whose shell gives way to the command; from the mark on the bytes are the command's."""
    t = Terminal(address, "/v1/agents/%s/terminal?cols=100&rows=30" % agent, token, cafile=cafile)
    t.keys(b"stty raw -echo; printf 'MA''RK'; exec " + command.encode() + b"\n")
    digest, n = hashlib.sha256(), 0
    first = t.until(b"MARK")
    first = first[first.index(b"MARK") + 4:]
    digest.update(first)

    def sink(data):
        digest.update(data)

    start = t.offset - len(first)
    end = t.rest(sink)
    n = t.offset - start
    whole = end.code == 1000 and t.exit and t.exit["stdout"]["total_bytes"] == t.offset and t.exit["exit"]["code"] == 0
    print(t.opened["session"], n, digest.hexdigest(), "whole" if whole else "NOT WHOLE: %s %s" % (end, t.exit), flush=True)
    t.close()


if what == "big":
    session("cat " + sys.argv[6])
else:
    for _ in range(int(sys.argv[7])):
        session("head -c %s /workspace/one" % sys.argv[6])
