#!/usr/bin/env bash
# build.sh: builds the guest's kernel, a User Mode Linux from Debian's
# linux-source-6.1, unless the cache has it, and prints its path. The packages
# needed are in the file `packages`. Takes 4 to 10 minutes on two cores.
#
# GUEST_CACHE  folder of the results; default .cache/guest in the checkout
# GUEST_JOBS   parallel jobs; default: one a core
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${GUEST_CACHE:-$here/../../.cache/guest}
source=/usr/src/linux-source-6.1.tar.xz

# The name says what the kernel was made from, so a change of the
# configuration is a new kernel and nothing else is.
key=$(sha256sum <"$here/kernel-config.sh" | cut -c1-12)
mkdir -p "$cache"
cache=$(cd "$cache" && pwd)
kernel=$cache/linux-6.1-$key

if [ ! -x "$kernel" ]; then
	exec 9>"$cache/lock" # one build at a time; the second finds it done
	flock 9
fi
if [ ! -x "$kernel" ]; then
	[ -r "$source" ] || { echo "build.sh: $source is missing: install the packages in $here/packages" >&2; exit 1; }
	work=$(mktemp -d "$cache/build.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	{
		mkdir "$work/source" "$work/build"
		tar -xf "$source" -C "$work/source" --strip-components=1
		cd "$work/source"
		make ARCH=um O="$work/build" x86_64_defconfig
		"$here/kernel-config.sh" "$work/build"
		nice -n 10 make ARCH=um O="$work/build" -j"${GUEST_JOBS:-$(nproc)}" linux
	} >"$cache/build.log" 2>&1 || { tail -20 "$cache/build.log" >&2; echo "build.sh: the kernel did not build: see $cache/build.log" >&2; exit 1; }
	strip -o "$work/stripped" "$work/build/linux"
	mv "$work/stripped" "$kernel"
fi
echo "$kernel"
