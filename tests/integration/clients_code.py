#!/usr/bin/python3
"""clients_code.py sync|async: run_code() and contexts of the Python client, against a daemon. As clients.py."""
import asyncio
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.join(HERE, "..", "..")
sys.path[:0] = [os.path.join(TOP, "clients", "python"), os.path.join(TOP, "clients")]
import generate  # noqa: E402
from muxd import AsyncSandbox, SandboxExecTimeout, errors  # noqa: E402

AGENT = f"{os.environ['AGENT']}-{sys.argv[1]}"


def equal(what, expected, got):
    if expected != got:
        sys.exit(f"FAILED: {what}: expected {expected!r}, got {got!r}"[:2000])
    print(f"  ok: {sys.argv[1]}: {what}", flush=True)


async def main():
    async with await AsyncSandbox.create(AGENT, state_dir=os.environ["MUXD_STATE"], token_file=os.environ["TOKEN_FILE"], task_id="story") as s:
        await s.run_code("x = 41")
        done = await s.run_code("print('hi'); x + 1")
        equal("a value, and what was printed", ("42", ["hi\n"], None, 2), (done.text, done.logs.stdout, done.error, done.execution_count))
        done = await s.run_code("1 / 0")
        equal("what is raised is told", ("ZeroDivisionError", "division by zero", "<run 3>"),
              (done.error.name, done.error.value, done.error.frames[-1]["file"]))
        out, err, shown, raised = [], [], [], []
        code = "import sys\nfor i in range(3): print('né', i)\nprint('e', file=sys.stderr)\ndisplay(1)\n{'a': 1}['b']"
        done = await s.run_code(code, on_stdout=out.append, on_stderr=err.append, on_result=shown.append, on_error=raised.append)
        equal("callbacks", ("né 0\nné 1\nné 2\n", "e\n", ["1"], "KeyError", True),
              ("".join(str(m) for m in out), "".join(m.line for m in err), [r.text for r in shown], raised[0].name, err[0].error))
        equal("and the whole besides", ("".join(str(m) for m in out), "KeyError"), (done.stdout, done.error.name))
        png = "class P:\n    def _repr_png_(self): return b'\\x89PNG'\n    def _repr_json_(self): return {'a': 1}\nP()"
        r = (await s.run_code(png)).results[0]
        equal("a picture", (["text", "png", "json"], "iVBORw==", {"a": 1}, None), (list(r.formats()), r.png, r.json, r.html))
        try:
            await s.run_code("import time; print('in', flush=True); time.sleep(60)", timeout=0.4)
            sys.exit("FAILED: no timeout")
        except SandboxExecTimeout as e:
            equal("its time was up", "in\n", e.stdout)
        equal("its variables stay", "41", (await s.run_code("x")).text)
        other = await s.create_code_context(cwd="/tmp", language="bash", envs={"E": "e"})
        heard = []
        done = await s.run_code("pwd; echo $E >&2; exit 3", context=other, on_stdout=heard.append)
        equal("bash", ("/tmp\n", "/tmp\n", "e\n", 3, "done"), ("".join(m.line for m in heard), done.stdout, done.stderr, done.exit_code, done.cause))
        equal("contexts are listed", ["bash", "python"], sorted(c.language for c in await s.list_code_contexts()))
        equal("one begins anew", "idle", (await s.restart_code_context(other)).state)
        await s.remove_code_context(other)
        try:
            await s.run_code("true", context=other)
            sys.exit("FAILED: it is there")
        except errors.NotFound:
            equal("one is removed", 1, len(await s.list_code_contexts()))
        equal("one that dies says so", "context_died", (await s.run_code("import os; os._exit(1)")).error.name)
        try:
            while True:  # its end may be on its way yet
                await s.run_code("x")
        except errors.ContextEnded as e:
            equal("and ended it is", "context_ended", e.code)
        equal("the next call begins another", "NameError", (await s.run_code("x")).error.name)
        equal("Python once", ("7", None), ((d := await s.run_python("3 + 4")).text, d.error))


if sys.argv[1] == "async":
    asyncio.run(main())
else:
    with open(__file__, encoding="utf-8") as own:
        source = generate.unasync(own.read().partition("\nif sys.argv[1] == ")[0])
    from muxd import Sandbox  # noqa: F401
    exec(compile(source.replace("import asyncio\n", ""), __file__, "exec"))  # pylint: disable=exec-used
    main()  # type: ignore[unused-coroutine]
