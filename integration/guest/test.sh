#!/usr/bin/env bash
# test.sh: builds the tests that need IPVS as static binaries and runs them in
# the guest, each in its package's folder. Nothing is skipped: a guest that
# can't be built or started is a failure.
#
# COUNT  how often each test runs; default 1
# GO     the go command; default go
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD
binaries=$root/.cache/guest/tests
mkdir -p "$binaries"

# Package, tests in it, seconds after which they hang.
tests=(
	"./vip/ipvs . 600"
	"./cmd/signpost ^TestModeChangeIPVS$ 400"
	"./integration/conformance ^TestIPVS$ 800"
	"./integration/scenario ^(TestIPVS|TestLiveIPVS|TestLeaveIPVS)$ 1500"
)

integration/guest/build.sh >/dev/null
CGO_ENABLED=0 ${GO:-go} build -o "$binaries/" ./cmd/...
for line in "${tests[@]}"; do
	read -r package pattern seconds <<<"$line"
	binary=$binaries/$(basename "$package").test
	CGO_ENABLED=0 ${GO:-go} test -c -o "$binary" "$package"
	echo "in the guest: $package $pattern"
	(cd "$package" && "$root/integration/guest/run.sh" -t $((seconds * ${COUNT:-1})) \
		env REQUIRE_KERNEL=1 REQUIRE_IPVS=1 SIGNPOST="$binaries/signpost" "$binary" -test.v -test.count="${COUNT:-1}" -test.run "$pattern")
done
