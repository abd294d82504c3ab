#!/usr/bin/env python3
"""muxd-filestore with answers that lie as the file LIE says at that moment: digest, times, names, endless,
slow (without an end, too, a page each half second), garbage, held (no answer as long as it says so), over (a put is a
conflict with nothing, and the next one is passed over; each is a line of LIE.puts), deaf (a put of
muxd's is passed over, and not made), mute (a put is made, and its answer held as long as it says so); empty: none."""
import base64
import importlib.machinery
import importlib.util
import os
import pathlib
import sys
import time

here = pathlib.Path(__file__).resolve().parents[2]
loader = importlib.machinery.SourceFileLoader("filestore", str(here / "tools" / "muxd-filestore"))
module = importlib.util.module_from_spec(importlib.util.spec_from_loader("filestore", loader))
loader.exec_module(module)
true_call = module.Handler.call


def lie(self, method):
    how = pathlib.Path(os.environ["LIE"]).read_text().strip()
    if how == "deaf" and self.path.endswith("/put") and not self.headers.get("User-Agent", "").startswith("curl/"):
        self.body()
        return {"done": [], "conflicts": [], "now": self.store.now()}
    body = true_call(self, method)
    how = pathlib.Path(os.environ["LIE"]).read_text().strip()
    while how == "held" or how == "mute" and "done" in body:
        time.sleep(0.02)
        how = pathlib.Path(os.environ["LIE"]).read_text().strip()
    files = body.get("files", [])
    if how == "digest":
        for f in files:
            if "content" in f:
                f["content"] = "bGllcw=="
    elif how == "times":
        body["now"] = 4102444700000
        for f in files:
            f["updated_at"] = 1
    elif how == "names" and "next" in body:
        files += [{"path": p, "size": 1, "sha256": "0" * 64, "updated_at": 1} for p in ("../up", "/etc/x", "a//b", ".muxd/filespace")]
    elif how == "endless" and "next" in body:
        body["next"] = "again"
        body["files"] = []
    elif how == "slow" and "next" in body:
        time.sleep(0.5)
        body["next"] = base64.urlsafe_b64encode(b"z%d" % time.time_ns()).decode()
        body["files"] = [{"path": f"z{time.time_ns()}", "size": 1, "sha256": "0" * 64, "updated_at": 1}]
    elif how == "over" and "done" in body:
        puts = pathlib.Path(os.environ["LIE"] + ".puts")
        before = puts.read_text() if puts.exists() else ""
        puts.write_text(before + "put\n")
        body["conflicts"] = [] if before else [{"path": d["path"], "absent": True} for d in body["done"]]
        body["done"] = []
    elif how == "garbage":
        body = {"files": 7}
    return body


module.Handler.call = lie
sys.exit(module.main())
