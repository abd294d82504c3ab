#!/bin/bash
# muxctl edit: a file of a sandbox goes to the person's editor and back, whole, or not where somebody else was faster; what was typed
# is never thrown away.
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
muxctl sandbox destroy $agent --wipe --reason story >/dev/null || fail "not destroyed"
