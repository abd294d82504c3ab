#!/bin/bash
# muxctl edit: a file of a sandbox goes to the person's editor and back, whole, or not where somebody else was faster; what was typed
# is never thrown away. muxctl cp, run and tail do what cp, docker run and tail do, with the same sandbox.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

agent=edit-$$
export TMPDIR=$tmp
unset VISUAL
put() { muxctl fs write $agent "$1" -p >/dev/null; }
code() { grep -o '\[[a-z_]*\]' "$tmp/err"; }
printf 'one\n\0\377' | put src/a.c
EDITOR='sed -i s/one/two/' muxctl edit $agent src/a.c || fail "no edit"
equal "it is changed, any bytes" "$(printf 'two\n\0\377' | sha256sum)" "$(muxctl cat $agent src/a.c | sha256sum)"
EDITOR='case $1 in *.c) exit 0;; esac; exit 1; :' muxctl edit $agent src/a.c 2>"$tmp/err" || fail "its name is lost: $(cat "$tmp/err")"
equal "nothing was changed" "muxctl: unchanged" "$(cat "$tmp/err")"
EDITOR='echo x >"$1"; exit 1; :' muxctl edit $agent src/a.c 2>"$tmp/err"
equal "an editor that fails" "[cancelled] 0" "$(code) $(muxctl cat $agent src/a.c | grep -c x)"
cat >"$tmp/slow" <<SLOW
#!/bin/bash
echo mine >"\$1"
echo other | "$MUXCTL" --state "$MUXD_STATE" fs write $agent src/a.c >/dev/null
SLOW
chmod +x "$tmp/slow"
EDITOR=$tmp/slow muxctl edit $agent src/a.c 2>"$tmp/err"
equal "somebody else was faster" "75 [file_changed] other" "$? $(code) $(muxctl cat $agent src/a.c)"
equal "what was typed is kept" mine "$(cat "$(sed -n 's/^muxctl: your text is in //p' "$tmp/err")")"
EDITOR='head -c 1100000 /dev/zero >"$1"; :' muxctl edit $agent src/a.c 2>"$tmp/err"
equal "too much is kept, too" "[too_large] 1100000" "$(code) $(stat -c %s "$(sed -n 's/^muxctl: your text is in //p' "$tmp/err")")"
EDITOR='echo new >' muxctl edit -p $agent made/here || fail "no new file"
equal "a new one" new "$(muxctl cat $agent made/here)"
EDITOR=true muxctl edit $agent ../../etc/passwd 2>"$tmp/err"
equal "outside" "[path_outside]" "$(code)"
EDITOR=true muxctl edit $agent made 2>"$tmp/err"
equal "a directory" "[not_a_file]" "$(code)"
equal "names" "made src" "$(muxctl ls $agent -o json | jq -r '[.entries[].path] | sort | join(" ")')"
equal "nothing else is left" 2 "$(find "$tmp" -path '*muxctl-*' -type f | wc -l)"

# ---- cp

mkdir -p "$tmp/tree/sub dir" "$tmp/out"
printf 'any\0\377' >"$tmp/tree/sub dir/bytes"
printf '#!/bin/sh\necho run\n' >"$tmp/tree/script"
chmod 755 "$tmp/tree/script"
ln -s script "$tmp/tree/inner"
ln -s /etc/passwd "$tmp/tree/outer"
muxctl cp "$tmp/tree" $agent:copied >/dev/null 2>"$tmp/err" || fail "no cp in: $(cat "$tmp/err")"
equal "a link that leads out is named" "$tmp/tree/outer: a symbolic link in it leads outside" "$(sed 's/^muxctl: left out: //' "$tmp/err")"
equal "a directory is in, with its permissions and links" "run run" \
	"$(muxctl run $agent sh -c 'echo $(./copied/script) $(./copied/inner)')"
muxctl cp "$tmp/tree" $agent:copied/ >/dev/null 2>&1 || fail "no cp into a directory"
equal "one that is there gets it under its name" 1 "$(muxctl ls $agent copied/tree -o json | jq '[.entries[] | select(.path | endswith("script"))] | length')"
muxctl cp $agent:copied "$tmp/back" >/dev/null 2>"$tmp/err" || fail "no cp out: $(cat "$tmp/err")"
equal "out of it links are left out" "muxctl: left out: 2 symbolic links" "$(cat "$tmp/err")"
equal "and nothing can be executed" "" "$(find "$tmp/back" -type f -perm /111 -o -type l)"
rm -r "$tmp/back/tree"
rm "$tmp/tree/inner" "$tmp/tree/outer"
diff -r "$tmp/tree" "$tmp/back" && ok "the bytes are the same"
muxctl cp $agent:copied "$tmp/back/" >/dev/null 2>&1 || fail "no cp into a directory here"
[ -e "$tmp/back/copied/script" ] || fail "it is not in the directory"
muxctl cp $agent:copied "$tmp/back" >/dev/null 2>"$tmp/err"
equal "a name that is taken" "73 [file_exists]" "$? $(code)"
# a directory that is broken off in the middle leaves nothing
muxctl exec -n $agent -- sh -c 'mkdir long && truncate -s 900M long/file' || fail "no long file"
"$MUXCTL" --state "$MUXD_STATE" cp $agent:long "$tmp/cut" >/dev/null 2>&1 &
cp=$!
begun() { compgen -G "$tmp/cut.??????/file" >/dev/null; }
wait_for 20 begun || fail "the copy does not begin"
kill -TERM $cp
wait $cp
equal "ended by the signal, and nothing is left" "143 " "$? $(compgen -G "$tmp/cut*")"
muxctl exec -n $agent -- rm -r long
muxctl cp "$tmp/tree/script" $agent:copied >/dev/null || fail "no cp of a file"
muxctl cp $agent:copied/script "$tmp/out" >/dev/null || fail "no cp of a file out"
cmp "$tmp/tree/script" "$tmp/out/script" || fail "the file is another"
equal "to a pipe" run "$(muxctl cp $agent:copied/script - | sh)"
muxctl cp "$tmp/tree" "$tmp/out" >/dev/null 2>"$tmp/err"
equal "one is in a sandbox" "64 [invalid_request]" "$? $(code)"
equal "nothing else is left here" "" "$(find "$tmp" -mindepth 1 -maxdepth 2 -name '*.??????' -newer "$tmp/slow" -type d)"

# ---- run and tail

equal "run: options behind the command are its own" "-l -i" "$(muxctl run -e A=b $agent echo -l -i)"
equal "its status" 7 "$(muxctl run $agent -w /tmp -- sh -c 'exit 7'; echo $?)"
equal "where" /tmp "$(muxctl run -w /tmp $agent pwd)"
equal "it takes no input unasked" "2 left" "$(printf '1\n2\n' | { muxctl run $agent cat; read -r _; read -r two; echo "$two left"; })"
equal "and with -i" in "$(echo in | muxctl run -i $agent cat)"
equal "a shell line" 3 "$(muxctl run -c 'echo $((1 + 2))' $agent)"
muxctl run $agent sh -c 'seq 100 >log' || fail "no run"
equal "tail: the end of a file" "99 100" "$(muxctl tail $agent log -n 2 | paste -sd' ')"
id=$(muxctl run -d $agent sh -c 'seq 100; until [ -e go ]; do sleep 0.05; done; echo last')
muxctl tail -f -n 1 "$id" >"$tmp/followed" &
follower=$!
muxctl tail -f -n 1 $agent log >"$tmp/log" &
logger=$!
has() { grep -qx "$2" "$1"; }
wait_for 10 has "$tmp/followed" 100 || fail "a round is not followed: $(cat "$tmp/followed")"
wait_for 10 has "$tmp/log" 100 || fail "a file is not followed: $(cat "$tmp/log")"
muxctl run $agent sh -c 'echo more >>log; touch go'
wait_for 10 has "$tmp/log" more || fail "what comes of a file is not followed: $(cat "$tmp/log")"
wait "$follower" || fail "the follower of a round fails"
equal "a round, to its end" "100 last" "$(paste -sd' ' "$tmp/followed")"
kill "$logger" # Ctrl-C is what programs in the background do not hear
wait "$logger"
equal "the end of a round" last "$(muxctl tail -n 1 "$id")"
muxctl tail nothing 2>"$tmp/err"
equal "no round" "64 [invalid_request]" "$? $(code)"
muxctl sandbox destroy $agent --wipe --reason story >/dev/null || fail "not destroyed"
