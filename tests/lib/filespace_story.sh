# filespace_story.sh - a file store for stories: started, killed, asked, and what stands in it; sourced, never run.
# shellcheck shell=bash disable=SC2154,SC2120
# store_start [options]: sets STORE (pid) and, the first time, its port; waits until it listens
store_start() {
	STORE_PORT=${STORE_PORT:-$(/usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')}
	: >"$tmp/store.log"
	LIE=$tmp/lie /usr/bin/python3 "$here/${STORE_PROGRAM:-tools/muxd-filestore}" --dir "$tmp/store" --listen "127.0.0.1:$STORE_PORT" "$@" >>"$tmp/store.log" 2>&1 &
	STORE=$!
	for _ in $(seq 100); do
		grep -q ', on ' "$tmp/store.log" && return 0
		sleep 0.05
	done
	fail "the store does not start: $(cat "$tmp/store.log")"
}
store_kill() {
	[ -z "$STORE" ] || kill -9 "$STORE"
	wait "$STORE" 2>/dev/null
	STORE=
}
# store AGENT CALL [JSON]: asked as muxd asks it
store() { curl -sS "http://127.0.0.1:$STORE_PORT/spaces/$1/$2" ${3:+-H 'Content-Type: application/json' --data-binary "$3"}; }
# store_has AGENT PATH: its content; empty where it has none
store_has() { store "$1" get "$(jq -nc --arg p "$2" '{paths: [$p]}')" | jq -r '.files[0].content // ""' | base64 -d; }
store_at() { store "$1" files | jq --arg p "$2" '[.files[] | select(.path == $p) | .updated_at][0]'; }
# store_put AGENT PATH TEXT: by somebody else
store_put() {
	store "$1" put "$(jq -nc --arg p "$2" --arg s "$(printf %s "$3" | sha256sum | cut -d' ' -f1)" --arg c "$(printf %s "$3" | base64 -w0)" \
		--argjson at "$(store_at "$1" "$2")" '{files: [{path: $p, sha256: $s, content: $c, if: $at}]}')" >/dev/null
}
store_delete() { store "$1" put "$(jq -nc --arg p "$2" --argjson at "$(store_at "$1" "$2")" '{delete: [{path: $p, if: $at}]}')" >/dev/null; }
# run AGENT SHELL-LINE: its output
run() { api "$TOKEN" POST "/v1/agents/$1/rounds" "{\"command\":$(jq -Rn --arg c "$2" '$c')}" | jq -r '.stdout.data // .error.code'; }
# sync AGENT pull|push: the answer
sync_files() { api "$TOKEN" POST "/v1/agents/$1/filespace/sync" "{\"direction\":\"$2\"}"; }
# synced AGENT JQ: of the last event of a sync
synced() { muxctl audit --event filespace.sync --agent "$1" -n 1000 -o json | tail -1 | jq -r ".record | $2"; }
# filespace_begin [COMMAND]: a store, and a daemon that knows it, with STORE_CONF's keys besides; COMMAND is run ahead of the daemon.
# Then TOKEN is for the agent demo.
filespace_begin() {
	chmod 0711 "$tmp"
	store_start
	trap 'stop_daemon; store_kill; tidy' EXIT
	cat >"$tmp/muxd.yaml" <<-E
		filespace: {url: "http://127.0.0.1:$STORE_PORT", timeout: ${STORE_TIMEOUT:-300ms}, ignore: "*.tmp cache/"${STORE_CONF:+, $STORE_CONF}}
		lifecycle: {at_rest: drop}
	E
	"${1:-:}"
	start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "the daemon does not start"
	TOKEN=$(new_token demo agent rounds,files,lifecycle)
}
in_store() { [ "$(store_has demo "$1")" = "$2" ]; }
state_is() { [ "$(muxctl sandbox show demo -o json | jq -r .state)" = "$1" ]; }
# count_is N: so many files below many/, asked of the store's database
count_is() { [ "$(sqlite3 "file:$tmp/store/files.db?mode=ro" "SELECT count(*) FROM file WHERE CAST(path AS TEXT) LIKE 'many/%' AND NOT deleted")" = "$1" ]; }
record_is_whole() { muxctl verify --all >/dev/null 2>&1 && ok "the record is whole" || fail "verify finds something"; }
