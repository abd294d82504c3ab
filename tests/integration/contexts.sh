#!/bin/bash
# shellcheck disable=SC2016
# Code contexts: an interpreter keeps its variables from one execution to the next, says what came of each, is
# interrupted and reset, lives on over a restart of the daemon, and ends with its sandbox. python_exec beside it.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
start_daemon "$tmp/state" || fail "the daemon does not start"
trap 'stop_daemon; tidy' EXIT
PRINCIPAL=agent.7
agent=contexts
base=/v1/agents/$agent
token=$(new_token $agent agent rounds)
# By api.sock: a TLS handshake for each call is most of its time, and openapi.sh has them by HTTPS.
api() { curl -sS --unix-socket "$MUXD_STATE/api.sock" -X "$2" -H "Authorization: Bearer $1" -H 'Content-Type: application/json' ${4:+--data-binary "$4"} "http://localhost$3"; }
contexts() { api "$token" "$1" $base/contexts"${2:-}" "${3:-}"; }
body() { jq -nc --arg c "$1" --argjson more "${2:-{\}}" '{code: $c, yield_ms: 20000} + $more'; }
run() { contexts POST "/$1/executions" "$(body "$2" "${3:-{\}}")"; }
create() { contexts POST "" "$1" | jq -r '.context_id // .error'; }
said() { jq -r '"\(.cause) \(.stdout.data)\(.stderr.data)\([.results[] | select(.main).data["text/plain"]] | join(" "))"' | paste -sd' ' | sed 's, *$,,'; }
code() { jq -r .error.code; }

# ---- python

py=$(create '{"language":"python","cwd":"/tmp","env":{"A":"1"}}')
equal "variables go on" "done 42" "$(run "$py" 'x = 41' >/dev/null; run "$py" 'x + 1' | said)"
equal "where and with what it began" "done ('/tmp', '1', False)" "$(run "$py" 'import os; os.getcwd(), os.environ["A"], "MUXD_CONTEXT" in os.environ' | said)"
equal "a child's output counts, and nothing reads a line of it" "done child err" "$(run "$py" 'import subprocess; _ = subprocess.run("cat; echo child; echo err >&2", shell=True); None' | said)"
r=$(run "$py" $'def f(n):\n    return 1 / n\nprint("é")\nf(0)')
equal "an exception" "error ZeroDivisionError: division by zero f <run 5>:2 é" "$(jq -r '"\(.cause) \(.error.name): \(.error.value) \(.error.frames[-1] | "\(.function) \(.file):\(.line)") \(.stdout.data)"' <<<"$r")"
jq -r .error.traceback <<<"$r" | grep -q 'return 1 / n' || fail "no source in the traceback: $r"
equal "what cannot be read is one" "SyntaxError <run 6>:1" "$(run "$py" 'x = (' | jq -r '"\(.error.name) \(.error.frames[-1] | "\(.file):\(.line)")"')"
equal "await" "done 7" "$(run "$py" $'import asyncio\nasync def g():\n    await asyncio.sleep(0.01)\n    return 7\nawait g()' | said)"
png=$'import struct, zlib\ndef chunk(t, d):\n    return struct.pack(">I", len(d)) + t + d + struct.pack(">I", zlib.crc32(t + d))\nclass Plot:\n    def _repr_png_(self):\n        raw = b"".join(b"\\0" + bytes((x * 8, y * 8, 0)) * 1 for y in range(32) for x in [y])\n        rows = b"".join(b"\\0" + b"".join(bytes((x * 8, y * 8, 0)) for x in range(32)) for y in range(32))\n        return b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 32, 32, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")\n    def _repr_svg_(self): return "<svg/>"\n    def _repr_html_(self): return "<b>é</b>"\n    def _repr_json_(self): return {"a": [1, None]}\nPlot()'
r=$(run "$py" "$png")
jq -r '.results[0].data["image/png"]' <<<"$r" | base64 -d >"$tmp/plot.png"
equal "a picture" "PNG image data, 32 x 32, 8-bit/color RGB, non-interlaced" "$(file -b "$tmp/plot.png")"
python3 - "$tmp/plot.png" <<'PY' || fail "it is no picture"
import struct, sys, zlib
data = open(sys.argv[1], "rb").read()
at, raw = 8, b""
while at < len(data):
    n, kind = struct.unpack(">I4s", data[at:at + 8])
    body = data[at + 8:at + 8 + n]
    assert struct.unpack(">I", data[at + 8 + n:at + 12 + n])[0] == zlib.crc32(kind + body)
    raw += body if kind == b"IDAT" else b""
    at += 12 + n
rows = zlib.decompress(raw)
assert len(rows) == 32 * 97 and rows[97 + 1:97 + 4] == bytes((0, 8, 0))
PY
equal "and what else it is shown as" '["application/json","image/png","image/svg+xml","text/html","text/plain"] {"a":[1,null]} <svg/> <b>é</b> true' \
	"$(jq -rc '.results[0] | "\(.data | keys) \(.data["application/json"]) \(.data["image/svg+xml"]) \(.data["text/html"]) \(.main)"' <<<"$r")"
equal "display() shows more than one" "false:'a' false:7 true:8" "$(run "$py" 'display("a", 7); 8' | jq -r '.results[] | "\(.main):\(.data["text/plain"])"' | paste -sd' ')"
r=$(run "$py" $'class Big:\n    def _repr_png_(self): return b"x" * 2250000\ndisplay(Big()); "x" * 100000')
equal "what is too large is left out or cut, and marked" "null 3000000 65536 100002" \
	"$(jq -r '"\(.results[0].data["image/png"]) \(.results[0].capped["image/png"]) \(.results[1].data["text/plain"] | length) \(.results[1].capped["text/plain"])"' <<<"$r")"
r=$(run "$py" $'import sys\nsys.stdout.write("é" * 600000); sys.stderr.write("x" * 900)\n_ = sys.stdout.buffer.write(b"\\xff\\0")\n"seen"')
equal "1 MB of output together, and all of it counted" "1000000 true 1200002 900 seen" \
	"$(jq -r '"\((.stdout.data | utf8bytelength) + (.stderr.data | utf8bytelength)) \(.stdout.truncated or .stderr.truncated) \(.stdout.total_bytes) \(.stderr.total_bytes) \(.results[0].data["text/plain"] | .[1:-1])"' <<<"$r")"
equal "bytes that are no text stay what they are" "base64 /wBh" "$(run "$py" 'import sys; _ = sys.stdout.buffer.write(b"\xff\0a"); None' | jq -r '"\(.stdout.encoding) \(.stdout.data)"')"
equal "leaving is an exception, and no end" "SystemExit done 41" "$(run "$py" 'import sys; sys.exit(3)' | jq -r .error.name) $(run "$py" 'x' | said)"
equal "a copy of it that code makes ends with the code" "done 41" "$(run "$py" $'if (pid := os.fork()): os.waitpid(pid, 0)\nx' | said)"
equal "what code says of itself it says of nobody else" "done forged null" "$(run "$py" 'import os
for fd in range(3, 100):
    try: os.write(fd, b"{\"type\": \"end\", \"cause\": \"timeout\", \"message\": \"forged\"}\nx\xff{\n")
    except OSError: pass
None' | jq -r '"\(.cause) \(.message) \(.error)"')"

# A package of matplotlib's shape stands for it: the image need not have the real one.
figures='import os
os.makedirs("/tmp/matplotlib", exist_ok=True)
open("/tmp/matplotlib/__init__.py", "w").close()
open("/tmp/matplotlib/figure.py", "w").write("class Figure:\n    def savefig(self, out, format, bbox_inches): out.write(b\"\\x89PNG\")\n")
open("/tmp/matplotlib/pyplot.py", "w").write("""
import os
from .figure import Figure
all = {}
def plot(): all[len(all) + 1] = Figure()
def get_fignums(): return list(all)
def figure(n): return all[n]
def close(which): all.clear()
def show(): raise RuntimeError("no screen: " + os.environ["MPLBACKEND"])
""")
import matplotlib.pyplot as plt
plt.plot(); plt.show(); print("shown"); plt.plot(); plt.plot()'
equal "figures are shown by show(), and at the end" "done shown iVBORw== iVBORw== iVBORw==" "$(run "$py" "$figures" | jq -r '"\(.cause) \(.stdout.data)", .results[].data["image/png"]' | xargs)"

# ---- one at a time, interrupted, out of time

started() { contexts POST "/$1/executions" "$(body "$2" '{"yield_ms":0}')" | jq -r .execution_id; }
execution() { api "$token" GET "/v1/executions/$1?yield_ms=20000"; }
state() { contexts GET "/$1" | jq -r '"\(.state) \(.generation)"'; }
prints() { [ "$(api "$token" GET "/v1/executions/$1" | jq -r .stdout.data)" = "$2" ]; }
id=$(started "$py" $'import time\nprint("in")\ntime.sleep(60)')
wait_for 10 prints "$id" in && ok "what it prints is told while it runs" || fail "$(execution "$id")"
r=$(run "$py" x)
equal "a second one is refused, and told which one is in it" "context_busy true" "$(code <<<"$r") $(jq -r --arg i "$id" '.error.message | contains($i)' <<<"$r")"
equal "the context says so" "busy 1" "$(state "$py")"
contexts POST "/$py/interrupt" >/dev/null
equal "interrupted" "interrupted KeyboardInterrupt in" "$(execution "$id" | jq -r '"\(.cause) \(.error.name) \(.stdout.data)"' | paste -sd' ' | sed 's/ *$//')"
equal "the variables are there" "done 41" "$(run "$py" x | said)"
equal "out of time" "timeout in done 41" "$(run "$py" $'print("in"); time.sleep(60)' '{"timeout_ms":1000}' | jq -r '"\(.cause) \(.stdout.data)"' | paste -sd' ' | sed 's/ *$//') $(run "$py" x | said)"
# What code prints after its execution was killed: the context's own round has it.
own() { [ "$(api "$token" GET "/v1/rounds/$(contexts GET "/$1" | jq -r .round_id)" | jq -r .stdout.data)" = "$2" ]; }
killed() { # language, code that prints "in", and "after" behind its interrupt
	local mine
	mine=$(create "{\"language\":\"$1\"}")
	id=$(started "$mine" "$2")
	wait_for 10 prints "$id" in || fail "$(execution "$id")"
	api "$token" POST "/v1/sessions/$id/terminate" '{"reason":"story"}' >/dev/null
	equal "$1: an execution that is killed" "killed in" "$(execution "$id" | jq -r '"\(.cause) \(.stdout.data)"' | xargs)"
	wait_for 10 own "$mine" after && ok "$1: what it prints after that is in the context's own round" || fail "$1: it is nowhere"
	contexts DELETE "/$mine" >/dev/null
}
killed python $'import time\nprint("in")\ntry: time.sleep(60)\nexcept KeyboardInterrupt: time.sleep(0.3); print("after")'
equal "idle, there is nothing to interrupt" bad_state "$(contexts POST "/$py/interrupt" | code)"
equal "the same exec_id is the same execution" "1 1" "$(for _ in 1 2; do run "$py" 'globals().setdefault("n", []).append(1); len(n)' '{"exec_id":"e-1"}' | jq -r '.results[0].data["text/plain"]'; done | paste -sd' ')"

# ---- a restart of the daemon

id=$(started "$py" $'print("early")\nwhile not os.path.exists("/workspace/go"): time.sleep(0.02)\nprint("late"); "kept"')
kill -9 "$(ready pids.net)" "$(ready pids.monitor)"
wait "$DAEMON" 2>/dev/null
start_daemon "$tmp/state" || fail "the daemon does not come again"
wait_for 10 prints "$id" early && ok "what it had printed before a kill of the daemon is told by the next" || fail "$(execution "$id")"
equal "after a kill of the daemon the context is busy with the same" "context_busy" "$(run "$py" x | code)"
api "$token" POST $base/rounds '{"command":"touch /workspace/go","wait_ms":20000}' >/dev/null
equal "which ends" "done early late 'kept'" "$(execution "$id" | said)"
equal "and its variables live on" "done 41" "$(run "$py" x | said)"
equal "a context whose directory is not there: its round is named" "invalid_request 36" \
	"$(contexts POST "" '{"language":"python","cwd":"/nowhere"}' | jq -r '"\(.error.code) \(.error.details.round_id | length)"')"
equal "what its environment was is not known any more" bad_state "$(contexts POST "/$py/reset" '{}' | code)"
equal "a reset is a fresh interpreter under the same id" "$py idle 2" "$(contexts POST "/$py/reset" '{"env":{"A":"2"}}' | jq -r '"\(.context_id) \(.state) \(.generation)"')"
equal "without what was there, with what it began with" "NameError ('/tmp', '2')" "$(run "$py" x | jq -r .error.name) $(run "$py" 'import os; os.getcwd(), os.environ["A"]' | jq -r '.results[0].data["text/plain"]')"
r=$(run "$py" 'import os; os._exit(3)')
equal "one that dies says so" "context_died" "$(jq -r .cause <<<"$r")"
ended() { [ "$(state "$py")" = "ended 2" ]; }
wait_for 10 ended || fail "it lives: $(contexts GET "/$py")"
r=$(run "$py" 1)
equal "and is refused from then on, with the reason" "context_ended true" "$(code <<<"$r") $(jq -r '.error.message | contains("code 3")' <<<"$r")"
equal "until it is reset" "done 1" "$(contexts POST "/$py/reset" >/dev/null; run "$py" 1 | said)"

# ---- bash

sh=$(create '{"language":"bash","env":{"E":"e"}}')
run "$sh" 'x=1; f() { echo "f $x $E"; return 3; }; cd /tmp' >/dev/null
equal "bash: directory, variables and functions go on" "done 3 f 1 e /tmp" "$(run "$sh" 'pwd >&2; f' | jq -r '"\(.cause) \(.exit_code) \(.stdout.data)\(.stderr.data)"' | paste -sd' ' | sed 's/ *$//')"
id=$(started "$sh" 'echo in; sleep 60')
wait_for 10 prints "$id" in || fail "$(execution "$id")"
equal "busy" context_busy "$(run "$sh" true | code)"
contexts POST "/$sh/interrupt" >/dev/null
equal "interrupted" "interrupted in" "$(execution "$id" | jq -r '"\(.cause) \(.stdout.data)"' | paste -sd' ' | sed 's/ *$//')"
equal "out of time" "timeout 1" "$(run "$sh" 'sleep 60' '{"timeout_ms":300}' | jq -r .cause) $(run "$sh" 'echo $x' | jq -rj .stdout.data)"
contexts POST "/$sh/reset" >/dev/null
equal "reset" "2 [] e" "$(state "$sh" | cut -d' ' -f2) $(run "$sh" 'echo "[$x] $E"' | jq -rj .stdout.data)"

# ---- javascript

js=$(create '{"language":"javascript"}')
if [ ${#js} = 36 ]; then
	equal "javascript: variables go on" "done 42" "$(run "$js" 'let x = 41; const f = (n) => { throw new TypeError("bad " + n); }' >/dev/null; run "$js" 'x + 1' | said)"
	equal "output, a child's too, and await" "done é child 7" "$(run "$js" 'console.log("é"); require("child_process").execSync("echo child", {stdio: "inherit"}); await new Promise((r) => setTimeout(() => r(7), 5))' | said)"
	equal "an exception" "TypeError: bad 1 f <run 4>" "$(run "$js" 'const g = f;' >/dev/null; run "$js" $'\ng(1)' | jq -r '"\(.error.name): \(.error.value) \(.error.frames[-1].function) <run 4>"')"
	equal "display" "UE5H 1" "$(run "$js" 'display({_repr_png_: () => Buffer.from("PNG"), _repr_json_: () => ({a: 1})})' | jq -r '"\(.results[0].data["image/png"]) \(.results[0].data["application/json"].a)"')"
	killed javascript $'require("child_process").execSync("trap \'\' INT; echo in; sleep 1; echo after", {stdio: "inherit"})'
	equal "out of time, in a loop and in an await" "timeout timeout 41" "$(run "$js" 'for (;;);' '{"timeout_ms":800}' | jq -r .cause) $(run "$js" 'await new Promise(() => {})' '{"timeout_ms":800}' | jq -r .cause) $(run "$js" x | jq -r '.results[0].data["text/plain"]')"
else
	ok "javascript: there is no node here ($(jq -r .code <<<"$js"))"
fi

# ---- python_exec

python() { api "$token" POST $base/python "$(body "$@")"; }
equal "python_exec: output, value, and nothing goes on" "done hi 3 error NameError" "$(python 'y = 3; print("hi"); y' | said) $(python y | jq -r '"\(.cause) \(.error.name)"')"
equal "its own environment and directory" "('/tmp', 'b')" "$(python 'import os; os.getcwd(), os.environ["B"]' '{"cwd":"/tmp","env":{"B":"b"}}' | jq -r '.results[0].data["text/plain"]')"
equal "1 MB of stdout and stderr together, marked" "1000000 2000000 true 3000 true" "$(python $'import sys\nprint("x" * 1999999, flush=True)\nsys.stderr.write("y" * 3000)' | jq -r '"\(.stdout.data + .stderr.data | length) \(.stdout.total_bytes) \(.stdout.truncated) \(.stderr.total_bytes) \(.stderr.truncated)"')"
equal "out of time" "timeout in" "$(python $'print("in", flush=True)\nimport time; time.sleep(60)' '{"timeout_ms":2500}' | said)"
equal "120 s at the most" "invalid_request /timeout_ms" "$(python 1 '{"timeout_ms":120001}' | jq -r '"\(.error.code) \(.error.message | split(":")[0])"')"
equal "30 s where nothing is said" "30000" "$(muxctl audit --event round.start -n 50 -o json | jq -rs '[.[].record.detail | select(.context.role == "once" and .cwd == null)][0].timeout_ms')"
equal "one that leaves" "exited 3" "$(python 'import os; os._exit(3)' | jq -r '"\(.cause) \(.exit_code)"')"

# ---- muxctl

mine=$(muxctl context create $agent python -C /tmp -e A=1 -o json | jq -r .context_id)
equal "muxctl runs code in a context" "hi '1' 0" "$(muxctl context run $agent "$mine" 'import os; print("hi"); os.environ["A"]' | xargs -d'\n') $?"
echo '1 / 0' | muxctl context run $agent "$mine" >/dev/null 2>"$tmp/err"
equal "from its input; an exception is told" "1 ZeroDivisionError: division by zero" "$? $(tail -n 1 "$tmp/err")"
muxctl context run $agent "$mine" -t 300ms 'while True: pass' >/dev/null 2>&1
equal "out of time" 124 $?
equal "reset, listed, deleted" "2 python ended" "$(muxctl context reset $agent "$mine" -o json | jq .generation) $(muxctl context list $agent | awk -v i="$mine" '$1 == i {print $2}') $(muxctl context delete $agent "$mine" -o json | jq -r .state)"
equal "Python once" "7" "$(muxctl python $agent '3 + 4')"

# ---- who may, and what is no request

other=$(PRINCIPAL=someone new_token $agent agent rounds)
equal "another's is not found, nor listed" "not_found 0" "$(api "$other" GET "$base/contexts/$py" | code) $(api "$other" GET $base/contexts | jq '.contexts | length')"
none=$(new_token $agent agent files)
equal "who may run nothing may not" "forbidden forbidden" "$(api "$none" GET $base/contexts | code) $(api "$none" POST $base/python '{"code":"1"}' | code)"
bad() { equal "$1" "$2" "$(api "$token" POST "$base/$3" "$4" | jq -r '"\(.error.code) \(.error.message | split(":")[0])"')"; }
bad "a language that is none" "invalid_request /language" contexts '{"language":"perl"}'
bad "no code" "invalid_request /code" "contexts/$py/executions" '{}'
bad "empty code" "invalid_request /code" "contexts/$py/executions" '{"code":""}'
bad "a field of another call" "invalid_request /cwd" "contexts/$py/executions" '{"code":"1","cwd":"/tmp"}'
bad "its own variable" "invalid_request env/MUXD_CONTEXT is the context's own" contexts '{"language":"python","env":{"MUXD_CONTEXT":"x"}}'
bad "a directory that is not there" "invalid_request cwd /nowhere" contexts '{"language":"python","cwd":"/nowhere"}'
equal "and no context came of these" 3 "$(contexts GET | jq '.contexts | length')"
equal "a round is no execution" not_found "$(api "$token" GET "/v1/executions/$(contexts GET "/$py" | jq -r .round_id)" | code)"

# ---- its end

sum=$(printf '1 + 1' | sha256sum | cut -d' ' -f1)
run "$py" '1 + 1' >/dev/null
told() { muxctl audit --event "$1" -n 100 -o json | jq -r --arg s "$sum" 'select(.record.detail.context.code_sha256 == $s) | .record.detail.context.code_bytes' | grep -qx 5; }
for event in context.execute round.start round.end; do
	wait_for 10 told $event && ok "$event has the code's digest and size" || fail "no $event of the code"
done
staff=$(PRINCIPAL=staff new_token $agent staff lifecycle)
api "$staff" POST /v1/agents/$agent/stop '{"reason":"story"}' >/dev/null
equal "the sandbox's sleep ends it, and it says why" "context_ended true" "$(run "$py" 1 | jq -r '"\(.error.code) \(.error.message | contains("stopped"))"')"
equal "nobody is woken for it" stopped "$(api "$staff" GET /v1/agents/$agent | jq -r .state)"
equal "bash too" context_ended "$(run "$sh" true | code)"
equal "a reset wakes it" "done 2" "$(contexts POST "/$py/reset" >/dev/null; run "$py" '1 + 1' | said)"
for id in "$py" "$sh" "$js"; do [ ${#id} != 36 ] || contexts DELETE "/$id" >/dev/null; done
equal "deleted: nothing is left" "0 0" "$(contexts GET | jq '.contexts | length') $(api "$token" POST $base/rounds '{"command":"ls -A /tmp /workspace | grep -c muxd-context","wait_ms":20000}' | jq -rj .stdout.data)"
equal "there is none to delete" not_found "$(contexts DELETE "/$py" | code)"
