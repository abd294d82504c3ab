#!/bin/bash
# run.sh "TARGETS" SECONDS: libFuzzer on each target, starting from its corpus; findings stay in build/fuzz/NAME.
set -eu -o pipefail
cd "$(dirname "$0")/../.."
read -ra libs < <(pkg-config --libs libuv jansson yaml-0.1 libcrypto libssl zlib libdeflate libzstd sqlite3 libseccomp libcurl libwebsockets libssh vterm)
mapfile -t sources < <(git ls-files 'base/*.c' 'policy/*.c' 'recorder/*.c' 'control/*.c' 'muxd/link/*.c' 'files/*.c' 'muxd/screen/*.c' 'muxd/hub/*.c' \
	'muxd/doors/*.c' 'muxd/issuer/*.c' 'muxd/monitor/*.c' 'muxd/net/*.c' 'muxd/ctl/*.c' | grep -v '/main\.c$')
sources+=(build/contexts/programs.c) # made by make
mkdir -p build/fuzz/obj
for c in "${sources[@]}"; do
	o=build/fuzz/obj/${c//\//_}.o
	[ "$o" -nt "$c" ] || echo "$c $o"
done | xargs -r -P "$(nproc)" -n 2 sh -c 'clang -std=c17 -D_GNU_SOURCE -DMUXD_VERSION=\"fuzz\" -I. -g -O1 -fsanitize=fuzzer-no-link,address,undefined -c "$0" -o "$1"'
rm -f build/fuzz/all.a
ar rcs build/fuzz/all.a build/fuzz/obj/*.o
for t in $1; do
	name=${t#fuzz_}
	mkdir -p "build/fuzz/$name"
	clang -std=c17 -D_GNU_SOURCE -I. -g -O1 -fsanitize=fuzzer,address,undefined -o "build/fuzz/$t.libfuzzer" "tests/fuzz/$t.c" \
		build/fuzz/all.a "${libs[@]}" -lpthread
	echo "== $t, $2 s"
	"build/fuzz/$t.libfuzzer" -max_total_time="$2" -rss_limit_mb=2048 -timeout=10 -print_final_stats=1 \
		-artifact_prefix="build/fuzz/$name/" "build/fuzz/$name" "tests/fuzz/corpus/$name" 2>&1 | tail -n 8
done
