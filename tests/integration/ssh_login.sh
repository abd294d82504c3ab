#!/bin/bash
# Who gets in by SSH, who does not, and what they are told: tokens by both ways of asking, a key of staff with the
# reason at the prompt, failures that cost time, strangers that are sent away.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

ssh-keygen -q -t ed25519 -N '' -f "$tmp/alice"
ssh-keygen -q -t ed25519 -N '' -f "$tmp/mallory"
chmod 0711 "$tmp"
cat >"$tmp/muxd.yaml" <<Y
staff:
  - principal: alice
    keys: ["$(cat "$tmp/alice.pub")"]
    agents: [sshlogin]
    scopes: terminal
    ttl: 5m
ssh: {max_auth_tries: 3, login_grace: 20s, max_per_address: 8}
journal: {dir: $tmp/journal, size: 4MiB}
Y
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'stop_daemon; tidy' EXIT
token=$(new_token sshlogin staff terminal)
base=(-F none -p "$(ssh_port)" -o StrictHostKeyChecking=no -o UserKnownHostsFile="$tmp/known" -o LogLevel=INFO
	-o NumberOfPasswordPrompts=1 -o IdentityFile=none -o IdentitiesOnly=yes)
# by METHOD PROMPT ANSWER LOGIN [options]: one log-in that runs `echo in`; stdout is what it printed
by() {
	local method=$1 prompt=$2 answer=$3 login=$4
	shift 4
	SSHPASS=$answer sshpass -e -P "$prompt" ssh "${base[@]}" -o PreferredAuthentications="$method" -l "$login" "$@" \
		127.0.0.1 'echo in' </dev/null 2>"$tmp/err"
}
told() { grep -qF -- "$1" "$tmp/err" && ok "$2" || fail "$2: told '$(cat "$tmp/err")'"; }
audited() { muxctl audit 2>/dev/null | grep -q -- "$1"; }

equal "a token as password" "in" "$(by password password: "$token" sshlogin)"
equal "a token at the prompt" "in" "$(by keyboard-interactive Token "$token" sshlogin)"

by password password: nonsense sshlogin && fail "nonsense got in"
told token_malformed "nonsense is called so"
by password password: "${token%????}AAAA" sshlogin && fail "a forged token got in"
told "token_" "a changed token is refused"
by password password: "$token " sshlogin && fail "a blank behind the token got in"
ok "a token is compared exactly"
by password password: "$token" othersandbox && fail "a token for another agent got in"
told forbidden "another agent's token is refused, saying why"
short=$(new_token sshlogin staff terminal 1s)
sleep 1.2
by password password: "$short" sshlogin && fail "an expired token got in"
told token_expired "an expired token is called so"
by password password: "$token" No_Such_Name && fail "a bad name got in"
told "Log in as AGENT@host" "a name that cannot be one is explained"
by none x x sshlogin && fail "none got in"
told "keyboard-interactive" "the refusal lists what is offered"

reason() { by publickey,keyboard-interactive Reason "$1" "${2:-sshlogin}" -i "$tmp/alice" -o IdentityFile="$tmp/alice"; }
equal "a key of staff, and a reason" "in" "$(reason "looking at a stuck build")"
wait_for 5 audited "looking at a stuck build" && ok "the reason is in the record" || fail "the reason is not in the audit"
reason " " && fail "an empty reason got in"
told reason_required "an empty reason is refused"
by publickey Reason "for fun" othersandbox -i "$tmp/alice" -o IdentityFile="$tmp/alice" && fail "a key got into an agent it is not for"
ok "a key opens its agents only"
ssh "${base[@]}" -o BatchMode=yes -i "$tmp/alice" -o IdentityFile="$tmp/alice" -l sshlogin 127.0.0.1 'echo in' </dev/null 2>"$tmp/err" &&
	fail "a batch got in without a reason"
told "no BatchMode" "a batch is told why not"
ssh "${base[@]}" -o BatchMode=yes -i "$tmp/mallory" -o IdentityFile="$tmp/mallory" -l sshlogin 127.0.0.1 'echo in' </dev/null 2>"$tmp/err" &&
	fail "a stranger's key got in"
ok "a stranger's key does not"

# sshpass gives a password once; the next tries come from a client that insists.
cat >"$tmp/askpass" <<'A'
#!/bin/sh
echo nonsense
A
chmod 0700 "$tmp/askpass"
before=$(date +%s%N)
SSH_ASKPASS=$tmp/askpass SSH_ASKPASS_REQUIRE=force ssh -o NumberOfPasswordPrompts=9 "${base[@]}" -o PreferredAuthentications=password \
	-l sshlogin 127.0.0.1 true </dev/null 2>"$tmp/err"
took=$((($(date +%s%N) - before) / 1000000))
equal "three tries and no more" 3 "$(grep -c token_malformed "$tmp/err")"
[ $took -ge 3000 ] && [ $took -lt 60000 ] && ok "which took 1 s and 2 s of waiting" || fail "three tries took $took ms"
wait_for 5 audited "too many" && ok "and is in the audit" || fail "too many tries are not in the audit"

exec {held}<>/dev/tcp/127.0.0.1/"$(ssh_port)"
read -r -t 5 line <&"$held"
case $line in SSH-2.0-muxd*) ok "the door says what it is" ;; *) fail "first line '$line'" ;; esac
equal "others get in beside one who says nothing" "in" "$(by password password: "$token" sshlogin)"
fds=()
# 8 are the share of an address; as many more may show a valid grant, and the next one does not
for _ in $(seq 14); do
	exec {fd}<>/dev/tcp/127.0.0.1/"$(ssh_port)"
	fds+=("$fd")
done
equal "a valid grant gets in beyond the strangers of its address" "in" "$(by password password: "$token" sshlogin)"
exec {fd}<>/dev/tcp/127.0.0.1/"$(ssh_port)"
fds+=("$fd")
by password password: "$token" sshlogin && fail "a seventeenth connection of one address got in"
ok "an address has its share of connections"
for fd in "${fds[@]}" "$held"; do exec {fd}>&-; done
equal "and gets in again once they are gone" "in" "$(sleep 0.5; by password password: "$token" sshlogin)"

# What a key of staff let in is not made another kind of grant by a renewal, and goes with the person's entry.
alices() { muxctl grant list -o json | jq -c '[.grants[] | select(.principal == "alice" and .revoked != true)]'; }
one=$(alices | jq -r '.[0].id')
renewed=$(muxctl grant renew "$one" --ttl 10m --reason "an administrator renews it" -o json | jq -r .token)
equal "its holder may still not renew it" forbidden \
	"$(api "$renewed" POST /v1/grants/renew '{"reason":"once more"}' | jq -r .error.code)"
sed -i 's/principal: alice/principal: bob/' "$tmp/muxd.yaml" && kill -HUP "$DAEMON"
gone() { [ "$(alices)" = "[]" ]; }
wait_for 10 gone && ok "a person who is taken out of the configuration has no grant left" || fail "alice has $(alices)"
equal "that renewal included" token_revoked "$(api "$renewed" GET /v1/agents/sshlogin | jq -r .error.code)"
stop_daemon
grep -E 'Sanitizer|runtime error' "$MUXD_STATE/daemon.log" && fail "the daemon's log has findings"
ok "the daemon ended without findings"
