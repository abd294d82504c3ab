#!/usr/bin/python3
"""clients_kill.py: what a client sees of kill -9 of the daemon's parts: nothing. MUXD_STATE, TOKEN_FILE in the environment."""
import asyncio
import json
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "clients", "python"))
from muxd import AsyncSandbox  # noqa: E402

STATE = os.environ["MUXD_STATE"]
STEPS = 25


def equal(what, expected, got):
    if expected != got:
        sys.exit(f"FAILED: {what}: expected {expected!r}, got {got!r}"[:2000])
    print(f"  ok: {what}", flush=True)


async def kills():
    for part in ("net", "recorder", "net"):
        await asyncio.sleep(0.6)
        with open(f"{STATE}/ready.json", encoding="utf-8") as f:
            os.kill(json.load(f)["pids"][part], signal.SIGKILL)


async def followed(s):
    got = []
    r = await s.commands.run(f"echo x >>once; for i in $(seq {STEPS}); do echo $i; sleep 0.1; done; wc -l <once", on_stdout=got.append)
    equal("output that is followed has no hole and nothing twice", ([str(i + 1) for i in range(STEPS)] + ["1"], True), (r.stdout.split(), "".join(got) == r.stdout))


async def waited(s):
    equal("a command that is waited for", "end\n", (await s.commands.run("echo x >>twice; sleep 2; wc -l <twice | grep -qx 1 && echo end")).stdout)


async def started(s):
    for n in range(12):
        await s.commands.run(f"echo {n} >>starts", exec_id=f"start-{n}")
        await asyncio.sleep(0.1)
    equal("starts in the midst of it happen once", [str(n) for n in range(12)], (await s.files.read("starts")).split())


async def terminal(s):
    p = await s.pty.create()
    await p.send_stdin(f"stty -echo; PS1=; for i in $(seq {STEPS}); do echo n$i; sleep 0.1; done; exit 3\n")
    seen = bytearray()
    end = await p.wait(seen.extend)
    equal("a terminal", (3, [f"n{i + 1}" for i in range(STEPS)]), (end["code"], [w for w in seen.decode().split() if w[:1] == "n" and w[1:].isdigit()]))


async def main():
    s = await AsyncSandbox.create("killed", state_dir=STATE, token_file=os.environ["TOKEN_FILE"], task_id="story")
    await asyncio.gather(kills(), followed(s), waited(s), started(s), terminal(s))
    await s.aclose()


asyncio.run(main())
