#!/bin/bash
# Heads in an S3 bucket with object lock, against a stand-in that computes each signature again with botocore: what is stored is under
# lock for as long as was asked, and who is wrong, skewed, locks for less, keeps nothing or is gone has no receipt, and is told why.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

chmod 0711 "$tmp"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
	-addext subjectAltName=IP:127.0.0.1 -keyout "$tmp/s.key" -out "$tmp/s.crt" 2>/dev/null || fail "no certificate"
# each mode has a service of its own, and so has what is done to one while the daemon runs
services=()
service() { # NAME MODE
	echo "$2" >"$tmp/$1.mode"
	: >"$tmp/$1.log"
	/usr/bin/python3 tests/lib/s3.py "$tmp/$1.port" "$tmp/s.crt" "$tmp/s.key" "$tmp/$1.mode" "$tmp/$1.log" 2>"$tmp/$1.err" &
	services+=($!)
}
end_all() {
	end_own "${services[@]}"
	wait
}
trap 'end_all; tidy' EXIT
for s in main slow skewed short deaf blind; do service $s "$(case $s in main) echo ok ;; *) echo $s ;; esac)"; done
for s in main slow skewed short deaf blind; do wait_for 10 test -s "$tmp/$s.port" || fail "no service: $(cat "$tmp/$s.err")"; done

printf 'AKIDMUXD\ns3cr3t/with+signs=\n' >"$tmp/good"
printf 'ASIAMUXD\nanother/secret\ntoken==\n' >"$tmp/session"
printf 'AKIDMUXD\nwrong\n' >"$tmp/bad"
printf 'AKIDMUXD\n' >"$tmp/half"
chmod 600 "$tmp"/{good,session,bad,half}
s3() { # NAME SERVICE BUCKET CREDENTIAL REGION MORE
	echo "  - {name: $1, kind: s3, url: \"https://127.0.0.1:$(cat "$tmp/$2.port")/$3/heads\", region: $5, credential: $tmp/$4, ca: $tmp/s.crt, lock: 30d, interval: 1s, timeout: 2s$6}"
}
{
	echo "witnesses:"
	s3 bucket main locked good eu-test-1 ""
	s3 lent main locked session eu-test-1 ", lock_mode: governance"
	s3 wrongkey main locked bad eu-test-1 ""
	s3 elsewhere main locked good eu-test-2 ""
	s3 halfkey main locked half eu-test-1 ""
	s3 nobucket main absent good eu-test-1 ""
	s3 nolock main plain good eu-test-1 ""
	s3 noversions main unversioned good eu-test-1 ""
	for s in slow skewed short deaf blind; do s3 $s $s locked good eu-test-1 ""; done
} >"$tmp/muxd.yaml"
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
trap 'stop_daemon; end_all; tidy' EXIT
status() { muxctl head --witness | jq -c --arg w "$1" '.witnesses[] | select(.name == $w)'; }
is() { status "$1" | jq -e "$2" >/dev/null; }
muxctl exec first -- true || fail "a round"

for w in bucket lent blind; do wait_for 15 is $w '.state == "current" and .seq > 0' || fail "$w: $(status $w)"; done
ok "heads are stored: signed requests, with a session token too, in both modes of the lock"
told() { is "$1" '.receipts == 0 and .failures > 0' && status "$1" | jq -r .message | grep -qE "$2"; }
while read -r name pattern; do
	wait_for 15 told "$name" "$pattern" || fail "$name: $(status "$name")"
done <<'T'
wrongkey SignatureDoesNotMatch
elsewhere AuthorizationHeaderMalformed.*eu-test-1
halfkey access key id, secret access key
nobucket NoSuchBucket
nolock Object Lock
noversions keeps no versions
slow no answer in time
skewed RequestTimeTooSkewed
short shorter lock
deaf took the head and answers 404
T
ok "who is wrong, misconfigured, skewed, locks for less or keeps nothing has no receipt, and why is told"
equal "what a receipt is worth is said" "locked false" "$(status bucket | jq -r '"\(.proof) \(.checked)"')"
# the newest receipt in the log
anchor() { grep -aohE "\"witness\":\"$1\"[^}]*\"receipt\":\{[^}]*\}" "$MUXD_STATE"/record/chain/*.mchain | tail -n 1 | sed 's/.*"receipt"://'; }
equal "that the lock was seen is in the log" true "$(anchor bucket | jq .lock_seen)"
equal "and where nobody tells of it, too" false "$(anchor blind | jq .lock_seen)"
days=$((($(date -d "$(anchor bucket | jq -r .locked_until)" +%s) - $(date +%s) + 3600) / 86400))
equal "the lock is as long as was asked" 30 "$days"

# ---- what the bucket holds convinces verify; an object that was made up does not
muxctl verify --witness "$tmp/main.log" --require-witness >"$tmp/verdict" || fail "verify: $(cat "$tmp/verdict")"
grep -q "completeness: complete$" "$tmp/verdict" || fail "with its witness the record is not complete: $(cat "$tmp/verdict")"
sed 's/"hash": *"..../"hash":"0000/' "$tmp/main.log" >"$tmp/forged.log"
muxctl verify --witness "$tmp/forged.log" >"$tmp/verdict" && fail "a head that was changed there passes"
grep -q expected_ "$tmp/verdict" || fail "a changed head is not named: $(cat "$tmp/verdict")"
ok "verify reads the objects of the bucket, and names one that the log does not have"
url=$(anchor bucket | jq -r .object)
equal "an object cannot be deleted before its time" 403 "$(curl -sS --cacert "$tmp/s.crt" -o /dev/null -w '%{http_code}' -X DELETE \
	--aws-sigv4 aws:amz:eu-test-1:s3 -K <(printf 'user = "AKIDMUXD:s3cr3t/with+signs="\n') \
	-H "x-amz-content-sha256: $(printf '' | sha256sum | cut -d' ' -f1)" "$url?versionId=$(anchor bucket | jq -r .version)")"

# ---- gone, and back
echo down >"$tmp/main.mode"
muxctl exec first -- true || fail "a round while the bucket is gone"
wait_for 15 eval "is bucket '.failures > 0' && status bucket | grep -q SlowDown" || fail "gone: $(status bucket)"
before=$(status bucket | jq .seq)
echo ok >"$tmp/main.mode"
wait_for 20 is bucket ".seq > $before" || fail "back: $(status bucket)"
ok "a bucket that was gone has the newest head soon after"

# ---- no secret where somebody could read it
! grep -rqE 's3cr3t|another/secret|token==' "$MUXD_STATE"/{daemon.log,record} || fail "a secret is in the log or the record"
for p in $(jq -r '.pids | to_entries[].value' "$MUXD_STATE/ready.json"); do
	! tr '\0' '\n' <"/proc/$p/environ" | grep -q s3cr3t || fail "a secret is in an environment"
	! tr '\0' '\n' <"/proc/$p/cmdline" | grep -q s3cr3t || fail "a secret is in an argument"
done
ok "no secret is in the log, the record, an argument or an environment"
