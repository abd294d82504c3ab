"""attach_round.py STATE TOKENFILE ROUND [COMMAND]: joins a round that runs and reads a line, and types one; prints what came and how it
ended. A line that nobody reads is told of in a notice,
behind which COMMAND is run."""
import json, os, struct, subprocess, sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from websocket import Closed, WebSocket  # noqa: E402

state, tokenfile, number = sys.argv[1:4]
address = json.load(open(state + "/ready.json"))["https"]
token = open(tokenfile).read().strip()
ws = WebSocket(address, "/v1/sessions/%s/attach?offset=0" % number, token, cafile=state + "/keys/tls.crt", timeout=20)
out, said = b"", False
try:
    while True:
        m = ws.message()
        if m[0] == 0x10:
            print("opened", json.loads(m[1:])["role"], json.loads(m[1:])["kind"])
        elif m[0] in (0x01, 0x02):
            assert m[0] == 2 or struct.unpack("<Q", m[1:9])[0] == len(out), m
            out += m[9:] if m[0] == 1 else b""
            if b"ready\n" in out and not said:
                said = True
                ws.frame(b"\x00hello\n")
            if b"got hello\n" in out:
                ws.frame(b"\x23\x0f")  # SIGTERM
        elif m[0] == 0x13:
            print("exit", json.loads(m[1:])["exit"]["signal"] or json.loads(m[1:])["exit"]["code"])
        elif m[0] == 0x11 and "code" in json.loads(m[1:]):
            print("notice", json.loads(m[1:])["code"])
            subprocess.run(sys.argv[4:5] or "true", shell=True, check=True, stdout=subprocess.DEVNULL)
        elif m[0] == 0x14:
            print("error", json.loads(m[1:])["code"])
except Closed as e:
    print("closed", e.code)
print(repr(out.decode()))
