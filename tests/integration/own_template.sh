#!/bin/bash
# A pod template of an agent's own, at every door, for every value of kubernetes.pod_template_per_create and every scope: who may
# not give one is refused by policy, before the backend is asked, in the log by name, and no sandbox is made. Who may is told by
# this machine's backend that it has no pods; what a cluster makes of one is told in tests/e2e/k8s/stories/podtemplate.sh.
# tier: test
# shellcheck source=tests/lib/env.sh
. "$(dirname "$0")/../lib/env.sh"
chmod 0711 "$tmp"
trap 'stop_daemon; tidy' EXIT
n=0
code() { jq -r '.error.code // .state // .agent // "no answer"' <<<"$1"; }
# tells VALUE SCOPES TEMPLATE WANT [WHAT-IN-THE-MESSAGE]: a resume and a fork of an agent that is not there
tells() {
	local token verb got agent what
	n=$((n + 1)) agent=own-$n
	token=$(new_token '*' service "$2")
	for verb in resume fork; do
		[ "$2 $verb" != "terminal fork" ] || continue # a fork takes lifecycle, whatever is in it
		what=pod_template
		[ "$2" != terminal ] || what=$verb
		got=$(api "$token" POST "/v1/agents/$agent/$verb" "{\"pod_template\":$3}")
		equal "$1: $2, $verb with $3" "$4" "$(code "$got")"
		[ -z "${5:-}" ] || grep -q "$5" <<<"$got" || fail "it does not say $5: $got"
		[ "$4" != forbidden ] || equal "and the log has it, with what was asked for" true \
			"$(muxctl audit --agent $agent -n 20 -o json | jq -s --arg w "$what" 'any(.[].record; .outcome == "forbidden" and .detail.what == $w)')"
	done
	equal "and there is no sandbox" absent "$(muxctl sandbox list -o json | jq -r --arg a $agent '[.agents[] | select(.agent == $a and .state != "stopped")] | if . == [] then "absent" else "there" end')"
}
for value in nobody admin lifecycle; do
	printf 'kubernetes: {pod_template_per_create: %s}\n' $value >"$tmp/muxd.yaml"
	start_daemon "$tmp/state" --config "$tmp/muxd.yaml" || fail "no daemon"
	for template in '{}' '{"spec":{"nodeSelector":{"a":"b"}}}' null; do
		tells $value terminal "$template" forbidden
		case $value:$template in
			nobody:null | admin:*) tells $value lifecycle "$template" forbidden admin ;;
			nobody:*) tells $value lifecycle "$template" forbidden "pod_template_per_create is nobody" ;;
			*) tells $value lifecycle "$template" unsupported "is no pod here" ;;
		esac
		case $value:$template in
			nobody:null | admin:* | lifecycle:*) tells $value admin "$template" unsupported "is no pod here" ;;
			*) tells $value admin "$template" forbidden "pod_template_per_create is nobody" ;;
		esac
	done
	[ $value = lifecycle ] || stop_daemon
done

# ---- what is no template, and who may fork into another agent's name
token=$(new_token own-here agent lifecycle)
for bad in 1 '"x"' '[]' true; do
	equal "$bad is none" invalid_request "$(code "$(api "$token" POST /v1/agents/own-here/resume "{\"pod_template\":$bad}")")"
done
equal "a stop takes none" invalid_request "$(code "$(api "$token" POST /v1/agents/own-here/stop '{"reason":"r","pod_template":{}}')")"
equal "nor does a fork into a name that is not the grant's" forbidden \
	"$(code "$(api "$token" POST /v1/agents/own-here/fork '{"as":"own-else","pod_template":{}}')")"
printf 'spec:\n  nodeSelector: {a: b}\n  nodeSelector: {c: d}\n' >"$tmp/pod.yaml"
says() {
	local out
	out=$(muxctl "${@:3}" 2>&1) && fail "$1: no error"
	grep -q -- "$2" <<<"$out" && ok "$1" || fail "$1: $out"
}
says "a file with a key that stands twice" "pod.yaml:3:" sandbox create own-here --pod-template "$tmp/pod.yaml"
says "a file that is not there" "absent.yaml" sandbox create own-here --pod-template "$tmp/absent.yaml"
: >"$tmp/empty.yaml"
says "an empty file" "is no mapping" sandbox create own-here --pod-template "$tmp/empty.yaml"
says "both ways at once" "one of the two" sandbox resume own-here --pod-template "$tmp/empty.yaml" --no-pod-template
echo 'spec: {nodeSelector: {a: b}}' >"$tmp/pod.yaml"
says "a good one reaches the backend" "is no pod here" sandbox create own-here --pod-template "$tmp/pod.yaml"
