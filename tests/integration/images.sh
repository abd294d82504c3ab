#!/bin/bash
# Images of sandboxes on this machine: two agents see two roots, read-only and each unpacked once; a change counts from the
# next start on, a sleep keeps it. What a hostile archive says is refused by its name, and leaves nothing outside; a daemon
# that dies in the middle of an unpacking leaves none that is half.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

make="$(dirname "$0")/../lib/oci_make.py"
chmod 0711 "$tmp"
mkdir "$tmp/img" "$tmp/hostile" "$tmp/canary"
inside() { muxctl exec -n --task story "$1" -- sh -c "$2"; }
show() { muxctl sandbox show "$1" -o json | jq -r "$2"; }
# refused WORDS CONFIGURATION: it is none
refused() {
	printf '%b\n' "$2" >"$tmp/bad.yaml"
	"$BUILD/muxd" check-config "$tmp/bad.yaml" >"$tmp/why" 2>&1 && fail "taken: $2"
	grep -q "$1" "$tmp/why" && ok "refused: $2" || fail "$2: $(cat "$tmp/why")"
}

refused 'digest is missing' 'sandbox: {images: [{name: a, archive: /a.tar}]}'
refused 'do not go together' "sandbox: {images: [{name: a, archive: /a, dir: /b, digest: sha256:$(printf '0%.0s' {1..64})}]}"
refused 'stands twice' 'sandbox: {images: [{name: a, ref: x}, {name: a, ref: y}]}'
refused '64 hexadecimal digits' 'sandbox: {images: [{name: a, dir: /b, digest: sha256:../..}]}'

one=$(/usr/bin/python3 "$make" good "$tmp/img/one.tar" one) || fail "no image"
two=$(/usr/bin/python3 "$make" good "$tmp/img/two" two --dir --zstd) || fail "no image"
way=$(/usr/bin/python3 "$make" good "$tmp/img/way.tar" way --home "/oldroot$tmp/canary") || fail "no image"
big=$(/usr/bin/python3 "$make" big "$tmp/img/big.tar") || fail "no image"
/usr/bin/python3 "$make" hostile "$tmp/hostile" >"$tmp/hostile.list" || fail "no hostile images"
chmod -R a+rX "$tmp/img"
{
	echo 'sandbox:'
	echo '  persist: "/opt/kept, /var/lib/app, /home/kept"'
	echo '  image_size: 400MiB'
	echo '  images:'
	echo "    - {name: one, archive: $tmp/img/one.tar, digest: \"$one\"}"
	echo "    - {name: two, dir: $tmp/img/two, digest: \"$two\"}"
	echo "    - {name: again, archive: $tmp/img/one.tar, digest: \"$one\"}"
	echo "    - {name: way, archive: $tmp/img/way.tar, digest: \"$way\"}"
	echo "    - {name: big, archive: $tmp/img/big.tar, digest: \"$big\"}"
	echo "    - {name: pod, ref: registry.example/pod}"
	while read -r name digest _; do
		echo "    - {name: h-$name, archive: $tmp/hostile/$name.tar, digest: \"$digest\"}"
	done <"$tmp/hostile.list"
} >"$tmp/muxd.yaml"
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT

# Two side by side, and two of one.
for a in a:one b:two c:again; do
	muxctl sandbox create "${a%:*}" --image "${a#*:}" >/dev/null || fail "no sandbox of image ${a#*:}"
done
muxctl sandbox create host >/dev/null || fail "no sandbox of the host"
equal "each sees its own root" "one two one" "$(for a in a b c; do inside $a 'cat /etc/image-name'; done | paste -sd' ')"
equal "the answer names image and digest" "one one $one" "$(show a '"\(.image) \(.image_made_with) \(.image_digest)"')"
equal "the other has the host's programs" "null null yes" \
	"$(show host '"\(.image) \(.image_digest)"') $(inside host '[ ! -e /etc/image-name ] && [ -e /usr/bin/env ] && echo yes')"
equal "its variables count, but for those of the sandbox" "one /workspace /workspace/.local/bin:/opt/bin:/bin" \
	"$(inside a 'echo $IMAGE $HOME $PATH')"
equal "the layer above takes away what was below, links stay within" "no one" \
	"$(inside a '[ -e /etc/gone ] && echo yes || echo no; cat /srv/a' | paste -sd' ')"
equal "nobody writes into it" "0 0 0 0" "$(for path in / /etc /opt /etc/image-name; do
	inside a "touch $path/x 2>/dev/null || echo x >>$path" >/dev/null 2>&1 && echo 1 || echo 0
done | paste -sd' ')"
equal "what persists is writable in it" "kept app" "$(inside a 'echo kept >/opt/kept/f; echo app >/var/lib/app/f; cat /opt/kept/f /var/lib/app/f' | paste -sd' ')"
equal "a set-id bit was taken off" 755 "$(inside a 'stat -c %a /opt/set')"
grep -q 'User 0:0' <<<"$(show a .detail)" && ok "what is not used of it is said" || fail "$(show a .detail)"
inode() { stat -Lc '%d:%i' "/proc/$(jq -r .init.pid "$MUXD_STATE/sandboxes/$1/sandbox.json")/root/etc/image-name"; }
equal "two agents share one root" "$(inode a)" "$(inode c)"
[ "$(inode a)" != "$(inode b)" ] && ok "and the third has another" || fail "one root for both"
equal "each was unpacked once" 2 "$(find "$MUXD_STATE/images" -mindepth 1 -maxdepth 1 | wc -l)"

# A sleep keeps it; a change counts from the next start on.
muxctl sandbox stop a --reason sleep >/dev/null || fail "it does not sleep"
equal "asleep, it is kept" one "$(show a .image)"
equal "awake, it is there, and what persists too" "one kept" "$(inside a 'cat /etc/image-name /opt/kept/f' | paste -sd' ')"
muxctl sandbox resume a --image two >/dev/null || fail "no change"
equal "a change is told, and what runs stays" "two one one" "$(show a '"\(.image) \(.image_made_with)"') $(inside a 'cat /etc/image-name')"
muxctl sandbox stop a --reason sleep >/dev/null || fail "it does not sleep"
equal "its next start has it" "two kept" "$(inside a 'cat /etc/image-name /opt/kept/f' | paste -sd' ')"
muxctl sandbox fork a --snapshot "$(show a .workspace_snapshot_id)" --as copy --writable >/dev/null || fail "no fork"
equal "a fork has that of whom it is made from" two "$(inside copy 'cat /etc/image-name')"
muxctl sandbox stop a --reason sleep >/dev/null && muxctl sandbox resume a --no-image >/dev/null || fail "no way back"
equal "and it goes back to the host's" "null null" "$(show a '"\(.image) \(.image_digest)"')"

# Not of the list: by name, in the log, and nothing is made.
for name in nobody pod; do
	muxctl sandbox create new --image $name >/dev/null 2>"$tmp/why" && fail "$name was taken"
	grep -q "image_not_allowed" "$tmp/why" || fail "$name: $(cat "$tmp/why")"
done
equal "an image that is not allowed is refused, and no agent is made" "not_found 2" "$(muxctl sandbox show new -o json 2>&1 | grep -o not_found | head -1) $(
	muxctl audit --agent new -n 20 -o json | jq -s '[.[].record | select(.outcome == "image_not_allowed")] | length')"

# Hostile archives.
chmod 0777 "$tmp/canary"
echo untouched >"$tmp/canary/file"
ln -s "$tmp/canary" "$tmp/hostile/way"
outside() { (
	find "$tmp/canary" /tmp/escape /escape "$tmp"/escape "$MUXD_STATE" -path "$MUXD_STATE/images" -prune -o \( -name '*escape*' -o -path "$tmp/canary*" \) \
		-printf '%p %y %m %s %T@\n' 2>/dev/null
	sha256sum "$tmp/canary/file" /etc/passwd /etc/hostname
) | sort; }
before=$(outside)
bad=0
while read -r name digest words; do
	bad=$((bad + 1))
	muxctl sandbox create "x" --image "h-$name" >/dev/null 2>"$tmp/why" && fail "$name was taken"
	grep -q "image_invalid" "$tmp/why" && grep -qF -- "$words" "$tmp/why" || fail "$name: $(cat "$tmp/why")"
	left=$(find "$MUXD_STATE/images/${digest#sha256:}" -mindepth 1)
	[ -z "$left" ] || fail "$name left $left"
done <"$tmp/hostile.list"
muxctl sandbox create x --image way >/dev/null 2>"$tmp/why" && fail "a link above what persists was taken"
grep -q "image way: /home is no directory in it" "$tmp/why" && grep -q image_invalid "$tmp/why" || fail "a link above what persists: $(cat "$tmp/why")"
[ "$bad" -ge 20 ] || fail "$bad hostile archives are too few"
equal "$bad hostile archives are refused by name and leave nothing outside" "$before" "$(outside)"
equal "whose sandbox would not start can have another" one "$(muxctl sandbox resume x --image one >/dev/null && inside x 'cat /etc/image-name')"

# The daemon dies in the middle of an unpacking.
muxctl sandbox create late --image big >/dev/null 2>&1 &
wait_for 10 test -e "$MUXD_STATE/images/${big#sha256:}/new/content/0" || fail "nothing was unpacked"
{ kill -9 "$DAEMON" && wait "$DAEMON"; } 2>/dev/null
[ ! -e "$MUXD_STATE/images/${big#sha256:}/tree" ] || fail "it was through before its end"
wait
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no second daemon"
equal "two that ran, run" "two one" "$(for a in b c; do inside $a 'cat /etc/image-name'; done | paste -sd' ')"
equal "its start is taken up, and it is unpacked anew" 314572800 "$(inside late 'stat -c %s /big')"
# What a daemon from before left of a root that it was removing: it has its name, and is not whole.
rm "$MUXD_STATE/images/${big#sha256:}/tree/env"
equal "a root that is not whole is unpacked anew" 314572800 "$(muxctl sandbox create whole --image big >/dev/null && inside whole 'stat -c %s /big')"
muxctl sandbox terminate whole --how wipe --reason ended >/dev/null || fail "no wipe"
equal "nothing half is left" "" "$(find "$MUXD_STATE/images" -mindepth 2 -maxdepth 2 ! -name tree)"

# What nobody names any more goes at the next start; what a sandbox has stays.
muxctl sandbox terminate late --how wipe --reason gone >/dev/null || fail "no wipe"
stop_daemon
grep -v "name: big\|name: two" "$tmp/muxd.yaml" >"$tmp/less.yaml"
start_daemon "$tmp/state" --config "$tmp/less.yaml" || fail "no third daemon"
equal "a root that nobody names is removed, one that an agent has is not" "no yes" \
	"$([ -e "$MUXD_STATE/images/${big#sha256:}" ] && echo yes || echo no) $([ -e "$MUXD_STATE/images/${two#sha256:}/tree" ] && echo yes || echo no)"
muxctl sandbox stop b --reason sleep >/dev/null || fail "it does not sleep"
muxctl sandbox resume b >/dev/null 2>"$tmp/why" && fail "an image that is named no more was started"
grep -q image_not_allowed "$tmp/why" && ok "an image that is named no more starts nothing" || fail "$(cat "$tmp/why")"
