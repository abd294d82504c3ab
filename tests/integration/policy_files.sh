#!/bin/bash
# A policy file beside its reviewer, without a daemon: checked, asked about single calls and a table of them, compared with
# what it is to become.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"

export MUXD_STATE=$tmp/none # there is no daemon
files=$here/tests/fixtures/policy policy=$here/tests/fixtures/policy/company.yaml
digest=$(sha256sum "$policy" | cut -c1-16)
equal "a file is checked" "$policy: fine, 9 profiles, version $digest" "$(muxctl policy check "$policy")"
sed 's/round_time: 10m/round_tme: 10m/' "$policy" >"$tmp/bad.yaml"
muxctl policy check "$tmp/bad.yaml" 2>"$tmp/err"
equal "a mistake has a status of its own" 78 $?
grep -q 'bad.yaml:27:14: unknown key "round_tme" in limits, did you mean round_time?' "$tmp/err" && ok "and its place, and what was meant" || fail "$(cat "$tmp/err")"

muxctl policy test "$policy" file.write task=fix-1 path=src/a.c >"$tmp/o"
equal "a call that is allowed" "0 allow  coding/file.write             file.write task=fix-1 path=src/a.c" "$? $(cat "$tmp/o")"
muxctl policy test "$policy" file.write task=fix-1 path=README.md >"$tmp/o"
equal "one that is denied" "77 allowed by: README.md in paths of file.write of profile coding" "$? $(sed -n '2s/^ *//p' "$tmp/o")"
muxctl policy test "$policy" file.raed 2>"$tmp/err"
grep -q 'there is no operation "file.raed", did you mean file.read?' "$tmp/err" && ok "one that is none" || fail "$(cat "$tmp/err")"

# The table of cases, as the unit test has it: verdict and rule of each line.
grep -v '^#' "$files/cases" | grep . >"$tmp/cases"
awk '{$1 = $2 = ""; print}' "$tmp/cases" | muxctl policy test "$policy" -o json | jq -r '.[] | "\(.verdict) \(.rule)"' >"$tmp/said"
awk '{print $1, $2}' "$tmp/cases" | cmp - "$tmp/said" && ok "a table of $(wc -l <"$tmp/cases") calls by standard input" || fail "$(awk '{print $1, $2}' "$tmp/cases" | diff - "$tmp/said")"

muxctl policy diff "$policy" "$policy" >"$tmp/o"
equal "a file and itself" "0 0" "$? $(wc -c <"$tmp/o")"
sed 's/- file.write: {paths: .*/- file.write: {paths: ["src\/**"]}/; s/session.end, artifact.write/artifact.write/' "$policy" >"$tmp/new.yaml"
muxctl policy diff "$policy" "$tmp/new.yaml" -o json >"$tmp/o"
equal "what changes is told, and by the exit status" "1 allow deny" "$? $(jq -r '[.[] | select(.call | startswith("session.end") and contains("nightly"))][0] | "\(.was) \(.is)"' "$tmp/o")"
equal "also of paths" "deny" "$(jq -r '[.[] | select(.call | endswith("path=CHANGELOG.md")).is] | unique | join(" ")' "$tmp/o")"
equal "the operations are listed" "paths ports servers" "$(muxctl policy operations -o json | jq -r '[.[] | select(.operation == "file.read" or .operation == "port.open" or .operation == "mcp.call").options] | join(" ")')"
# A daemon does not begin with a file that it cannot read.
printf 'policy: {file: %s}\n' "$tmp/bad.yaml" >"$tmp/muxd.yaml"
start_daemon "$tmp/state" --config "$tmp/muxd.yaml" 2>"$tmp/err" && fail "a daemon began with a bad policy"
grep -q 'bad.yaml:27:14: unknown key "round_tme"' "$tmp/err" "$tmp/state/daemon.log" && ok "a daemon does not begin with it" || fail "$(cat "$tmp/err")"
