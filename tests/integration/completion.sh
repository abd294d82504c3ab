#!/bin/bash
# Completion of muxctl's command lines in bash, zsh and fish as they are, with the scripts that make install puts there: each
# command and option that the help lists is offered, and files where a file is to stand.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

words() { muxctl completion words -- "$@" | cut -f 1; }
"$MUXCTL" --help | sed -n 's/^  \([a-z][a-z-]*\)\( [a-z]\+\)\? .*/\1\2/p' >"$tmp/commands"
[ "$(wc -l <"$tmp/commands")" -gt 40 ] || fail "the help lists $(wc -l <"$tmp/commands") commands"
while read -r noun verb; do
	words "$noun" | grep -qx -- "$noun" || fail "$noun is not offered"
	[ -z "$verb" ] || words "$noun" "" | grep -qx -- "$verb" || fail "$noun $verb is not offered"
	# shellcheck disable=SC2086
	diff <("$MUXCTL" $noun $verb --help | sed -n 's/^\(  -.,\|     \) \(--[a-z0-9-]*\).*/\2/p' | sort) <(words $noun $verb -- | sort) >"$tmp/diff" ||
		fail "options of $noun $verb: $(cat "$tmp/diff")"
done <"$tmp/commands"
ok "all $(wc -l <"$tmp/commands") commands and their options"
equal "no such shell" 64 "$("$MUXCTL" completion script csh 2>/dev/null; echo $?)"

share=$tmp/share
for at in bash-completion/completions/muxctl:bash zsh/site-functions/_muxctl:zsh fish/vendor_completions.d/muxctl.fish:fish; do
	mkdir -p "$(dirname "$share/${at%:*}")"
	"$MUXCTL" completion script "${at##*:}" >"$share/${at%:*}" || fail "no script"
done
bin=$tmp/bin
mkdir "$bin"
ln -s "$MUXCTL" "$bin/muxctl"
touch "$tmp/a-file"
# bash LINE: what its completion of the line says
cat >"$tmp/ask.bash" <<'ASK'
. "$1"
complete -p muxctl | grep -q -- '-F _muxctl' || exit 1
COMP_LINE=$2 COMP_POINT=${#2}
compopt() { files=yes; }
_muxctl muxctl
echo "${COMPREPLY[*]}${files:+ files}"
ASK
in_bash() { PATH=$bin:$PATH bash --norc "$tmp/ask.bash" "$share/bash-completion/completions/muxctl" "$1"; }
equal "bash: a command" "grant" "$(in_bash 'muxctl gra')"
equal "bash: its second word" "create renew exchange list revoke" "$(in_bash 'muxctl grant ')"
equal "bash: an option" "--timeout" "$(in_bash 'muxctl sandbox resume demo --ti')"
equal "bash: a value" "table json" "$(in_bash 'muxctl -o ')"
equal "bash: a value behind =" "json" "$(in_bash 'muxctl grant list --output=js')"
equal "bash: a file" " files" "$(in_bash 'muxctl put demo ')"
equal "bash: nothing behind --" "" "$(in_bash 'muxctl exec demo -- ls --')"

equal "fish: a command" "grant" "$(cd "$tmp" && PATH=$bin:$PATH HOME=$tmp fish --no-config -c "source $share/fish/vendor_completions.d/muxctl.fish; complete -C 'muxctl gra'" | cut -f 1)"
equal "fish: an option" "--timeout" "$(cd "$tmp" && PATH=$bin:$PATH HOME=$tmp fish --no-config -c "source $share/fish/vendor_completions.d/muxctl.fish; complete -C 'muxctl sandbox resume demo --ti'" | cut -f 1)"
equal "fish: a file" "a-file" "$(cd "$tmp" && PATH=$bin:$PATH HOME=$tmp fish --no-config -c "source $share/fish/vendor_completions.d/muxctl.fish; complete -C 'muxctl put demo a-f'" | cut -f 1)"

# zsh completes at a terminal alone.
tmux="tmux -L completion-$$ -f /dev/null"
# shellcheck disable=SC2064
trap "$tmux kill-server 2>/dev/null; tidy" EXIT
$tmux new-session -d -x 100 -y 40 "cd $tmp && PATH=$bin:\$PATH HOME=$tmp zsh -f" || fail "no tmux"
$tmux send-keys "PS1='> '; fpath=($share/zsh/site-functions \$fpath); autoload -U compinit && compinit -u -D; clear; echo is ready" Enter
screen() { $tmux capture-pane -p; }
shows() { screen | grep -qF -- "$1"; }
wait_for 20 shows "is ready" || fail "zsh does not begin: $(screen)"
# in_zsh KEYS EXPECTED: the line, completed, stands there
in_zsh() {
	$tmux send-keys C-u "$1" Tab
	wait_for 10 shows "> $2" && ok "zsh: $1: $2" || fail "zsh: $1: $(screen)"
}
in_zsh "muxctl gra" "muxctl grant"
in_zsh "muxctl grant rev" "muxctl grant revoke"
in_zsh "muxctl sandbox resume demo --tim" "muxctl sandbox resume demo --timeout"
in_zsh "muxctl put demo a-f" "muxctl put demo a-file"
