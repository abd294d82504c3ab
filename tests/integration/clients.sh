#!/bin/bash
# The clients against a daemon (clients.py, clients.mjs): output whole and live, starts that happen once whatever is cut, timeouts by
# name, files of any name, terminals, sleep and wake, and errors by their codes. What is generated is what the document says,
# types are checked, and the packages are the same each time that they are built.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
# Sleep and wake take snapshots, which are hashed whole: small images.
printf 'rounds: {pty: true}\nsandbox: {workspace_size: 128MiB}\n' >"$tmp/conf.yaml"
start_daemon "$tmp/state" --config "$tmp/conf.yaml" || fail "the daemon does not start"
trap 'stop_daemon; tidy' EXIT
export PYTHONDONTWRITEBYTECODE=1 TMP_DIR=$tmp URL VERSION MUXD_STATE
URL=https://$(ready https) VERSION=$(ready version)
umask 077
PRINCIPAL=clients
new_token '*' service terminal,rounds,files,observe,drive,lifecycle >"$tmp/any"
new_token '*' service rounds,files >"$tmp/weak"
# A task each, whose artifacts nobody else deletes.
# told HOW COMMAND...: beside the others; what it said comes when all are done
declare -A told
told() {
	told[$1]=$!
}
for how in sync async; do
	GRANT_TASK=$how new_token "clients-$how-$$" agent terminal,rounds,files,lifecycle >"$tmp/token-$how"
	TASK=$how AGENT=clients-$how-$$ TOKEN_FILE=$tmp/token-$how /usr/bin/python3 -W error "$here/tests/integration/clients.py" $how >"$tmp/$how.log" 2>&1 &
	told $how
done
/usr/bin/python3 "$here/tests/integration/clients_hostile.py" "$tmp/hostile.sock" || fail "see above"
/usr/bin/python3 -W error "$here/tests/integration/clients_canned.py" "$tmp/canned.sock" || fail "see above"
/usr/bin/python3 "$here/clients/generate.py" --check || fail "see above"
"$here/clients/typescript/build.sh" >"$tmp/tsc" 2>&1 || { cat "$tmp/tsc"; fail "the TypeScript package is not built"; }
GRANT_TASK=typescript new_token "clients-typescript-$$" agent terminal,rounds,files,lifecycle >"$tmp/token-typescript"
package=$here/build/clients/typescript
TASK=typescript AGENT=clients-typescript-$$ TOKEN_FILE=$tmp/token-typescript node "$here/tests/integration/clients.mjs" "$package" >"$tmp/typescript.log" 2>&1 &
told typescript
node "$here/tests/integration/clients_canned.mjs" "$package" "$tmp/canned-ts.sock" || fail "see above"
for n in 1 2; do
	/usr/bin/python3 "$here/clients/python/backend.py" wheel "$tmp/dist$n" >/dev/null && SOURCE_DATE_EPOCH=1 \
		/usr/bin/python3 "$here/clients/python/backend.py" sdist "$tmp/dist$n" >/dev/null || fail "the package is not built"
done
for n in 1 2; do
	(cd "$package" && npm pack --silent --pack-destination "$tmp/dist$n" >/dev/null) || fail "npm pack"
done
diff -r "$tmp/dist1" "$tmp/dist2" >/dev/null && ok "wheel, sdist and npm tarball are the same each time" || fail "two builds of the package differ"
equal "the wheel is a package" "$VERSION" "$(PYTHONPATH=$(echo "$tmp"/dist1/*.whl) /usr/bin/python3 -c 'import muxd; print(muxd.__version__)')"
for how in "${!told[@]}"; do
	wait "${told[$how]}" || { cat "$tmp/$how.log"; fail "$how: see above"; }
	! grep -qE 'Warning|Traceback' "$tmp/$how.log" || { cat "$tmp/$how.log"; fail "$how: see above"; }
	cat "$tmp/$how.log"
	muxctl sandbox destroy "clients-$how-$$" --wipe --reason story >/dev/null || fail "not destroyed"
done
# The named errors have one code in the API (above), in muxctl, and in the log or the audit log. Those of a cluster: clients_cluster.sh.
PRINCIPAL=clients-cli
muxctl exec "clients-cli-$$" --timeout 300ms -- sleep 20 2>"$tmp/err"
equal "muxctl exits with 124" 124 $?
grep -qF '[sandbox_exec_timeout]' "$tmp/err" && ok "and has the code" || fail "muxctl said $(cat "$tmp/err")"
ended() { muxctl audit --agent "clients-cli-$$" --event round.end -o json | jq -e '.record.detail.error == "sandbox_exec_timeout"'; }
wait_for 5 ended && ok "the audit log has it" || fail "round.end lacks it: $(muxctl audit --agent "clients-cli-$$" -o json)"
(sleep 1; echo x) | muxctl put "clients-cli-$$" - slow --timeout 300ms 2>"$tmp/err"
grep -qF '[sandbox_transfer_timeout]' "$tmp/err" && ok "of a transfer, too" || fail "muxctl said $(cat "$tmp/err")"
grep -q ' 504 sandbox_transfer_timeout ' "$MUXD_STATE/daemon.log" && ok "the log has it" || fail "the log lacks sandbox_transfer_timeout"
muxctl sandbox destroy "clients-cli-$$" --wipe --reason story >/dev/null || fail "not destroyed"
