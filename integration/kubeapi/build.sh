#!/usr/bin/env bash
# build.sh: builds the control plane, unless the cache has it, and prints its
# path. Takes about 4 minutes on two idle cores the first time, and a few
# seconds with a warm build cache.
#
# KUBEAPI_CACHE  folder of the results; default ~/.cache/signpost/kubeapi
# GO             the go command; default go
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
cache=${KUBEAPI_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/signpost/kubeapi}
go=${GO:-go}

# The name says what the binary was made from: another version of a module or
# of Go, or another line here, is another binary.
key=$({ $go env GOVERSION GOARCH; cat go.mod go.sum ./*.go; } | sha256sum | cut -c1-12)
binary=$cache/kubeapi-$key
mkdir -p "$cache"

if [ ! -x "$binary" ]; then
	exec 9>"$cache/lock" # one build at a time; the second finds it done
	flock 9
fi
if [ ! -x "$binary" ]; then
	echo "build.sh: building the control plane, which takes some minutes" >&2
	# GOWORK and GOFLAGS of the caller are about another module.
	env -u GOFLAGS GOWORK=off nice -n 10 "$go" build -mod=readonly -buildvcs=false -trimpath -ldflags='-s -w' -o "$binary.new" . ||
		{ echo "build.sh: the control plane did not build" >&2; exit 1; }
	mv "$binary.new" "$binary"
	# What older checkouts were built from; the newest two stay.
	find "$cache" -maxdepth 1 -name 'kubeapi-*' -printf '%T@ %p\n' | sort -rn | tail -n +3 | cut -d' ' -f2- | xargs -r rm -f
fi
echo "$binary"
