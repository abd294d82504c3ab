#!/bin/bash
# A syslog server over TLS as a witness of heads, the real rsyslog: who is not who he must be is sent nothing, one that is gone
# and comes back gets the newest head, one that takes and does not answer costs nobody anything, and an auditor's verify reads
# the file that it writes. "sent" is all that is claimed: a server whose disk is full takes heads, too.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

command -v rsyslogd >/dev/null || fail "there is no rsyslogd: make setup-test installs it"
chmod 0711 "$tmp"
declare -A pids=()
end_all() {
	end_own "${pids[@]}"
	wait
}
trap 'end_all; tidy' EXIT

# ---- certificates: an authority, the server, a client; and a stranger's authority
new_ca() { # NAME
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "/CN=$1" -keyout "$tmp/$1.key" \
		-out "$tmp/$1.pem" 2>/dev/null || fail "no authority"
}
new_cert() { # NAME: by the authority "ca"
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$1" -addext "subjectAltName=DNS:$1" \
		-keyout "$tmp/$1.key" -out "$tmp/$1.csr" 2>/dev/null &&
		openssl x509 -req -in "$tmp/$1.csr" -CA "$tmp/ca.pem" -CAkey "$tmp/ca.key" -CAcreateserial -days 2 -copy_extensions copy \
			-out "$tmp/$1.pem" 2>/dev/null || fail "no certificate"
}
new_ca ca
new_ca strangers
new_cert logs.example
new_cert client.example

# rsyslog NAME PORT FILE AUTH...: PORT 0 is any
rsyslog() {
	mkdir -p "$tmp/$1.work"
	cat >"$tmp/$1.conf" <<C
global(workDirectory="$tmp/$1.work" defaultNetstreamDriver="gtls" defaultNetstreamDriverCAFile="$tmp/ca.pem"
  defaultNetstreamDriverCertFile="$tmp/logs.example.pem" defaultNetstreamDriverKeyFile="$tmp/logs.example.key")
module(load="imtcp" streamDriver.name="gtls" streamDriver.mode="1" $4)
input(type="imtcp" address="127.0.0.1" port="$2" listenPortFileName="$tmp/$1.port")
action(type="omfile" file="$3")
C
	rsyslogd -n -f "$tmp/$1.conf" -i "$tmp/$1.pid" 2>>"$tmp/$1.err" &
	pids[$1]=$!
	wait_for 10 test -s "$tmp/$1.port" || fail "rsyslog: $(head -c 2000 "$tmp/$1.err")"
}
anyone='streamDriver.authMode="anon"'
rsyslog plain 0 "$tmp/heads.log" "$anyone"
rsyslog mutual 0 "$tmp/mutual.log" 'streamDriver.authMode="x509/name" permittedPeer="client.example"' 
rsyslog full 0 /dev/full "$anyone"
port() { cat "$tmp/$1.port"; }

# One that takes connections and says nothing, and one that breaks each off.
cat >"$tmp/deaf.py" <<'P'
import socket, struct, sys, threading, time
def serve(path, breaks):
    s = socket.create_server(("127.0.0.1", 0))
    open(path, "w").write(str(s.getsockname()[1]))
    held = []
    while True:
        c = s.accept()[0]
        if breaks:
            c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            c.close()
        else:
            held = (held + [c])[-64:]
threading.Thread(target=serve, args=(sys.argv[1], False), daemon=True).start()
serve(sys.argv[2], True)
P
/usr/bin/python3 "$tmp/deaf.py" "$tmp/deaf.port" "$tmp/breaks.port" &
pids[deaf]=$!
wait_for 10 test -s "$tmp/breaks.port" || fail "no server that is deaf"

common="kind: syslog, interval: 1s, timeout: 2s"
log() { echo "  - {name: $1, $common, address: \"127.0.0.1:$(port "$2")\", ca: $tmp/$3.pem, server_name: $4$5}"; }
{
	echo "witnesses:"
	log plain plain ca logs.example ""
	log stranger plain strangers logs.example ""
	log misnamed plain ca other.example ""
	log shown mutual ca logs.example ", certificate: $tmp/client.example.pem, certificate_key: $tmp/client.example.key"
	log hidden mutual ca logs.example ""
	log full full ca logs.example ""
	log deaf deaf ca logs.example ""
	log breaks breaks ca logs.example ""
} >"$tmp/muxd.yaml"
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'stop_daemon; end_all; tidy' EXIT
run() { muxctl exec first -- "$@"; }
status() { muxctl head --witness | jq -c --arg w "$1" '.witnesses[] | select(.name == $w)'; }
is() { status "$1" | jq -e "$2" >/dev/null; }
run true || fail "a round"

# ---- who is who he must be has heads; nobody else is sent one
for w in plain shown full; do wait_for 15 is $w '.state == "current" and .seq > 0' || fail "$w: $(status $w)"; done
ok "rsyslog takes heads, by a client's certificate too"
# told NAME PATTERN: it never had a head, and why is told
told() { is "$1" '.receipts == 0 and .failures > 0' && status "$1" | jq -r .message | grep -qiE "$2"; }
wait_for 15 told stranger 'unable to get|self.signed|verify' || fail "a certificate of a strange authority: $(status stranger)"
wait_for 15 told misnamed 'hostname|name' || fail "another name: $(status misnamed)"
wait_for 15 told hidden . || fail "no certificate of the client: $(status hidden)"
wait_for 15 told deaf 'no answer in time' || fail "a deaf server: $(status deaf)"
wait_for 15 told breaks . || fail "one that breaks off: $(status breaks)"
ok "who is not whom the certificate must name, is deaf or breaks off has no receipt, and why is told"
equal "what a receipt is worth is said" "sent false" "$(status plain | jq -r '"\(.proof) \(.checked)"')"
equal "in /healthz, too" sent "$(curl -sS --cacert "$MUXD_STATE/keys/tls.crt" "https://$(ready https)/healthz" |
	jq -r '.witnesses[] | select(.name == "plain") | .proof')"
equal "a server whose disk is full is one that took it" current "$(status full | jq -r .state)"

# ---- the file that rsyslog wrote
grep -q ' muxd {"' "$tmp/heads.log" || fail "the log: $(tail -n 3 "$tmp/heads.log")"
muxctl verify --witness "$tmp/heads.log" --require-witness >"$tmp/verdict" || fail "verify: $(cat "$tmp/verdict")"
grep -q "completeness: complete$" "$tmp/verdict" || fail "with its witness the record is not complete: $(cat "$tmp/verdict")"
ok "verify reads the log that rsyslog writes"
sed 's/"hash":"..../"hash":"0000/' "$tmp/heads.log" >"$tmp/forged.log"
muxctl verify --witness "$tmp/forged.log" >"$tmp/verdict" && fail "a head that was changed there passes"
grep -q expected_ "$tmp/verdict" || fail "a changed head is not named: $(cat "$tmp/verdict")"
ok "and a head that the log does not have is named"

# ---- gone, and back: the newest head comes, whatever was lost
kill "${pids[plain]}" && wait "${pids[plain]}"
for _ in 1 2 3; do run true || fail "a round without the server"; done
wait_for 15 is plain '.failures > 0 and .lag_seconds > 0' || fail "it is gone and nobody says so: $(status plain)"
is full '.lag_seconds < 5' || fail "another is held up: $(status full)"
seq=$(muxctl head | jq .seq)
rsyslog plain "$(port plain)" "$tmp/heads.log" "$anyone"
wait_for 20 is plain ".seq >= $seq and .lag_seconds == 0" || fail "it is back and has nothing: $(status plain)"
in_log() { [ "$(grep -o '"seq":[0-9]*' "$tmp/heads.log" | tail -n 1 | cut -d: -f2)" -ge "$seq" ]; }
wait_for 5 in_log || fail "its log does not have entry $seq: $(tail -n 1 "$tmp/heads.log")"
muxctl verify --witness "$tmp/heads.log" --require-witness >"$tmp/verdict" || fail "verify: $(cat "$tmp/verdict")"
ok "a server that was gone has the newest head again"
muxctl verify >"$tmp/verdict"
grep -q 'integrity: *intact' "$tmp/verdict" || fail "the record: $(cat "$tmp/verdict")"
