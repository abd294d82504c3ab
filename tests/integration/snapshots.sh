#!/bin/bash
# What a snapshot was when it was taken stands in the record's log: of an archive at once, of an image when it was hashed at idle
# priority, also after kill -9 in the middle. A copy that somebody changed, or took away, is named by verify --all --snapshots, and is
# neither forked nor restored where it is checked, unless that is asked for.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
# An image is sparse: to read it takes a while all the same.
printf 'sandbox: {workspace_size: %s}\n' "${SNAP_SIZE:-300MB}" >"$tmp/muxd.yaml"
begin() { start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"; }
trap 'MUXD_STATE=$tmp/state; stop_daemon; tidy' EXIT
begin
inside() { muxctl exec -n --task story -c "$2" "$1"; }
# take AGENT: a snapshot of its workspace as it is; prints its id
take() { muxctl sandbox snapshot "$1" -o json | jq -r .snapshot.id; }
of() { muxctl sandbox snapshots "$1" -o json | jq -r --arg id "$2" ".snapshots[] | select(.id == \$id) | .$3"; }
hashed() { [ "$(of "$1" "$2" digest_state)" = hashed ]; }
file() { find "$tmp/state/sandboxes/$1/snapshots" -name "$2.*" ! -name '*.json'; }
# Another byte in the middle, and the time of before.
flip() { /usr/bin/python3 -c '
import os, sys
s = os.stat(sys.argv[1])
with open(sys.argv[1], "r+b") as f:
    f.seek(s.st_size // 2); b = f.read(1); f.seek(-1, 1); f.write(bytes([b[0] ^ 1]))
os.utime(sys.argv[1], ns=(s.st_atime_ns, s.st_mtime_ns))' "$1"; }
verify() { "$MUXCTL" --state "$tmp/state" verify --all --snapshots -o json >"$tmp/verdict"; }
named() { jq -e --arg code "$1" --arg id "$2" 'any(.findings[]; .code == $code and (.message | contains($id)))' "$tmp/verdict" >/dev/null ||
	fail "$1 of $2 is not named: $(jq -c '.findings' "$tmp/verdict")"; }
logged() { muxctl audit -n 1000 --agent "$1" -o json | jq -r --arg id "$2" '.record | select(.event == "snapshot.create" or .event == "snapshot.hash") |
	select(.detail.id == $id) | .detail.digest' | grep -E '^[0-9a-f]{64}$' | head -n 1; }
check_of() { jq -r '.snapshot_check // .error.code' "$1"; }

# ---- an image
inside pic 'echo one >/workspace/word' || fail "no sandbox"
one=$(take pic)
kind=$(of pic "$one" how)
[ "$kind" = tar+zstd ] && images=no || images=yes
if [ $images = yes ]; then
	equal "an image is not hashed when it is taken" not_hashed_yet "$(muxctl audit -n 100 --event snapshot.create -o json | jq -r .record.detail.digest)"
	muxctl sandbox fork pic --snapshot "$one" --as early -o json >"$tmp/fork" || fail "no fork: $(cat "$tmp/fork")"
	case $(check_of "$tmp/fork") in
	not_hashed_yet | checked) ok "a fork tells what is known: $(check_of "$tmp/fork")" ;;
	*) fail "$(cat "$tmp/fork")" ;;
	esac
	# kill -9 of all of it while an image is being hashed
	two=$(take pic)
	hashed pic "$two" && echo "  note: hashed before the kill"
	kill -9 "$DAEMON" "$(ready pids.net)" "$(ready pids.recorder)"
	wait "$DAEMON" 2>/dev/null
	begin
	for id in "$one" "$two"; do
		wait_for 30 hashed pic "$id" || fail "$id is not hashed: $(muxctl sandbox snapshots pic)"
		equal "after a kill in between: what sha256sum says" "$(sha256sum <"$(file pic "$id")" | cut -d' ' -f1)" "$(of pic "$id" digest)"
		equal "... is in the log" "$(of pic "$id" digest)" "$(logged pic "$id")"
	done
else
	two=$(take pic)
	echo "  note: no loop devices: archives alone"
fi
muxctl sandbox fork pic --snapshot "$one" --as clean -o json >"$tmp/fork" || fail "no fork: $(cat "$tmp/fork")"
equal "a read-only fork is checked" checked "$(check_of "$tmp/fork")"
muxctl sandbox fork pic --snapshot "$one" --as work -w -o json >"$tmp/fork" || fail "no fork: $(cat "$tmp/fork")"
equal "one to work in is not" not_checked "$(check_of "$tmp/fork")"
verify || fail "verify finds what nobody did: $(jq -c .findings "$tmp/verdict")"
equal "verify reads the snapshots" true "$(jq '.summary.snapshots >= 2' "$tmp/verdict")"

flip "$(file pic "$one")"
muxctl sandbox fork pic --snapshot "$one" --as forged -o json >"$tmp/fork" 2>&1 && fail "a changed snapshot is forked: $(cat "$tmp/fork")"
grep -q snapshot_differs "$tmp/fork" || fail "$(cat "$tmp/fork")"
muxctl sandbox show forged >/dev/null 2>&1 && fail "... and something was made of it"
ok "a changed one is not forked"
muxctl audit -n 100 --event snapshot.check -o json | jq -e 'select(.record.outcome == "snapshot_differs" and .record.detail.check == "differs")' >/dev/null || fail "no audit event"
muxctl sandbox restore pic "$one" --check --reason story >"$tmp/back" 2>&1 && fail "a changed snapshot is restored"
grep -q 'is not what it was' "$tmp/back" || fail "$(cat "$tmp/back")"
ok "nor restored, where that is checked"
if [ $images = yes ]; then
	muxctl sandbox fork pic --snapshot "$one" --as known --accept-differs -o json >"$tmp/fork" || fail "no fork: $(cat "$tmp/fork")"
	equal "unless that is asked for" differs "$(check_of "$tmp/fork")"
fi
rm "$(file pic "$two")"
muxctl sandbox fork pic --snapshot "$two" --as gone >"$tmp/fork" 2>&1 && fail "one without its file is forked"
verify && fail "verify is content"
named snapshot_changed "$one"
named snapshot_missing "$two"
ok "verify --snapshots names the one that was changed and the one that is gone"

# ---- changed while it is not hashed yet: its length is in the log since it was taken
if [ $images = yes ]; then
	three=$(take pic)
	echo more >>"$(file pic "$three")"
	# the recorder cuts its entry out of the journal within a checkpoint
	known() { ! verify && jq -e --arg id "$three" '.findings[] | select(.code == "snapshot_changed" and (.message | contains($id)))' "$tmp/verdict"; }
	wait_for 20 known || fail "nothing is said of it: $(jq -c .findings "$tmp/verdict")"
	named snapshot_changed "$three"
	ok "and one that was written to at once"
fi

# ---- an archive: by a daemon that has no loop devices
stop_daemon
begin_plain() {
	rm -f "$MUXD_STATE/ready.json"
	unshare -m sh -c 'mount --bind /dev/null /dev/loop-control && exec "$@"' sh "$BUILD/muxd" serve --state "$MUXD_STATE" --https 127.0.0.1:0 \
		--ssh 127.0.0.1:0 --config "$tmp/muxd.yaml" 2>>"$MUXD_STATE/daemon.log" &
	DAEMON=$!
	wait_for 20 test -s "$MUXD_STATE/ready.json" || fail "no daemon without loop devices: $(tail -n 5 "$MUXD_STATE/daemon.log")"
}
if [ $images = yes ]; then begin_plain; else begin; fi
inside arc 'head -c 300000 /dev/urandom >/workspace/data' || fail "no sandbox without loop devices"
four=$(take arc)
equal "an archive" tar+zstd "$(of arc "$four" how)"
equal "its digest is in the log as soon as it is taken" "$(sha256sum <"$(file arc "$four")" | cut -d' ' -f1)" \
	"$(muxctl audit -n 100 --agent arc --event snapshot.create -o json | jq -r .record.detail.digest)"
flip "$(file arc "$four")"
muxctl sandbox fork arc --snapshot "$four" --as arc2 >"$tmp/fork" 2>&1 && fail "a changed archive is forked"
grep -q snapshot_differs "$tmp/fork" || fail "$(cat "$tmp/fork")"
stop_daemon
verify && fail "verify is content"
named snapshot_changed "$four"
named snapshot_changed "$one"
ok "an archive that was changed is named, too"
