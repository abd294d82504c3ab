"""The day of coding_day.sh with the Python client."""
import base64, os, struct, sys, zlib

from muxd import PtySize, Sandbox, SandboxError
from muxd.errors import ContextEnded

PLOT = """
import struct, zlib

def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

class Plot:
    def __init__(self, values):
        self.rows = [bytes([0]) + bytes(0 if v * 4 > 32 - y else 255 for v in values) for y in range(32)]

    def _repr_png_(self):
        head = struct.pack(">IIBBBBB", len(self.rows[0]) - 1, len(self.rows), 8, 0, 0, 0, 0)
        return b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"".join(self.rows))) + chunk(b"IEND", b"")

values = [1, 2, 6]
"""


def equal(what, want, got):
    if want != got:
        sys.exit(f"FAILED: {what}: {got!r}, not {want!r}")
    print(f"  python ok: {what}")


def dark(png):
    """Dark pixels of each column, of a grey PNG without filters."""
    if not png.startswith(b"\x89PNG\r\n\x1a\n"):
        sys.exit(f"FAILED: no PNG: {png[:20]!r}")
    at, data, size = 8, b"", None
    while at < len(png):
        n, kind = struct.unpack(">I4s", png[at:at + 8])
        part = png[at + 8:at + 8 + n]
        if zlib.crc32(kind + part) != struct.unpack(">I", png[at + 8 + n:at + 12 + n])[0]:
            sys.exit("FAILED: a chunk of the PNG is broken")
        size = struct.unpack(">II", part[:8]) if kind == b"IHDR" else size
        data += part if kind == b"IDAT" else b""
        at += 12 + n
    rows, width = zlib.decompress(data), size[0] + 1
    return [sum(rows[y * width + 1 + x] == 0 for y in range(size[1])) for x in range(size[0])]


def debugged(sandbox):
    """What pdb says of `total` behind the loop's second turn, in a terminal."""
    with_pdb = sandbox.pty.run(["python3", "-m", "pdb", "-c", "b mean.py:4", "-c", "c", "test_mean.py"], PtySize(rows=30, cols=100), cwd="/workspace/project")
    screen = with_pdb.screen(wait=10)
    for keys in (("c", "Enter"), ("c", "Enter"), ("text:p total", "Enter")):
        after = with_pdb.send_keys(*keys)
        screen = with_pdb.screen(wait=10, after=after)
    for _ in range(20):
        if "(Pdb) p total" in screen.text and screen.lines[screen.row] == "(Pdb)":
            break
        screen = with_pdb.screen(wait=1, after=screen.offset)
    with_pdb.kill()
    lines = [line for line in screen.lines if line]
    return lines[lines.index("(Pdb) p total") + 1] if "(Pdb) p total" in lines else screen.text


with Sandbox.create() as sandbox:
    with open(os.environ["BUNDLE"], "rb") as f:
        sandbox.files.write("work.bundle", f)
    sandbox.commands.run("git clone -q work.bundle project && rm work.bundle")
    test = ["python3", "test_mean.py"]
    failed = sandbox.commands.run(test, cwd="/workspace/project", check=False)
    equal("the test fails", (1, True), (failed.exit_code, "AssertionError" in failed.stderr))
    found = sandbox.files.search("total = v", "project")
    equal("the place is found", [("project/mean.py", 4)], [(m.path, m.line) for m in found])
    equal("the debugger shows it", "2", debugged(sandbox))
    sandbox.files.patch("*** Begin Patch\n*** Update File: mean.py\n@@\n-        total = v\n+        total += v\n*** End Patch\n", "project")
    turns = [sandbox.commands.run(test, cwd="/workspace/project", exec_id=f"turn-{turn}", check=False) for turn in range(3)]
    equal("the test passes, three times", [(0, True)] * 3, [(turn.exit_code, "OK" in turn.stderr) for turn in turns])
    sandbox.run_code(PLOT)
    drawn = sandbox.run_code("Plot(values)")
    equal("a plot, looked at", [3, 7, 23], dark(base64.b64decode(drawn.results[0].png)))
    sandbox.artifacts.export("day.patch", git="HEAD", path="project")
    with open(os.environ["PATCH"], "wb") as f:
        f.write(sandbox.artifacts.get("day.patch"))
    sandbox.pause()
    equal("it sleeps", False, sandbox.is_running())
    sandbox.resume()
    equal("it wakes with its work", 0, sandbox.commands.run(test, cwd="/workspace/project").exit_code)
    try:
        sandbox.run_code("values")
        sys.exit("FAILED: an interpreter that outlived its sandbox")
    except ContextEnded as e:
        equal("the interpreter ended with its sleep, and says so", True, "stopped" in str(e))
    fresh = sandbox.create_code_context(cwd="/workspace/project")
    equal("and a fresh one goes on", "3.0", sandbox.run_code("from mean import mean; mean([1, 2, 6])", context=fresh).text)
    try:
        sandbox.artifacts.export("none.patch", git="no-such-revision", path="project")
        sys.exit("FAILED: an export from nowhere")
    except SandboxError as e:
        equal("an export from nowhere is refused by name", "base_unknown", e.code)
    sandbox.artifacts.delete("day.patch")
