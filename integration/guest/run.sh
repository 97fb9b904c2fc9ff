#!/usr/bin/env bash
# run.sh [-t SECONDS] [-m MEMORY] [-o FOLDER] COMMAND [ARGUMENT...]
#
# Runs a command as root in the guest (see build.sh), in the same working
# directory: the guest's root is the host's, and what is written to it is gone
# afterwards. Standard output and error come out together as they are written.
#
#   -t SECONDS  give up after so long; default 600
#   -m MEMORY   of the guest; default 1G
#   -o FOLDER   copy what the command leaves in /mnt, and the console, to it
#
# Exit status: the command's own; 124 it took too long; 125 the guest died or
# could not be started. The guest is no sandbox: run only your own commands.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
seconds=600 memory=1G output=
usage() { sed -n '2,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
while getopts t:m:o: option; do
	case $option in
	t) seconds=$OPTARG ;;
	m) memory=$OPTARG ;;
	o) output=$OPTARG ;;
	*) usage ;;
	esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || usage

kernel=$("$here/build.sh") || exit 125
job=$(mktemp -d)
guest=
cleanup() {
	[ -z "$guest" ] || { kill "$guest" 2>/dev/null || true; wait "$guest" || true; }
	# A guest that halted has removed its pid file. One that was killed has
	# left helpers, in a process group of that number.
	for pid in $(cat "$job"/run/*/pid 2>/dev/null); do kill -9 -- "-$pid" 2>/dev/null || true; done
	rm -rf "$job"
}
trap cleanup EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

{
	# What processes on the host have in /tmp is not the guest's to tidy up.
	case $PWD/ in /tmp/*) ;; *) echo 'mount -t tmpfs tmpfs /tmp' ;; esac
	printf 'cd %q\n' "$PWD"
	echo 'ip link set lo up'
	printf '%q ' "$@"
	echo '>/mnt/out 2>&1 </dev/null; echo $? >/mnt/status'
	echo 'dmesg >/mnt/dmesg; echo o >/proc/sysrq-trigger; sleep 9'
} >"$job/command"
cp "$here/init.sh" "$job/init"
chmod +x "$job/init"
: >"$job/out"

# One CPU: the guest's processes are the host's, and system calls are three
# times as fast if they don't migrate.
cpu=$(taskset -pc $$ | sed 's/.*[ ,-]//')
HOME=$job timeout -k 5 "$seconds" taskset -c "$cpu" "$kernel" \
	mem="$memory" umid=guest uml_dir="$job/run/" con=null con0=null,fd:1 \
	rootfstype=hostfs rootflags=/ ro init="$job/init" quiet panic=-1 oops=panic random.trust_cpu=on \
	GUEST_JOB="$job" >"$job/console" 2>&1 </dev/null &
guest=$!
tail --pid="$guest" -s 0.05 -n +1 -f "$job/out" &
shown=$!
status=0
{ wait "$guest" || status=$?; } 2>/dev/null # a guest ends by a signal, always
guest=
wait "$shown" || true

if [ -n "$output" ]; then
	mkdir -p "$output"
	cp -r "$job"/. "$output"/
fi
if [ -s "$job/status" ]; then
	exit "$(cat "$job/status")"
fi
echo "run.sh: the guest ended without a result (its own status: $status)" >&2
tail -40 "$job/console" >&2
if [ "$status" = 124 ] || [ "$SECONDS" -ge "$seconds" ]; then exit 124; fi
exit 125
