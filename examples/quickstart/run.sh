#!/bin/sh
# Starts the quickstart: small echo servers as pods, and signpost in front of
# them. Ctrl-C stops everything. No root, no cluster. "make run" calls it.
set -eu

cd "$(dirname "$0")/../.."
here=examples/quickstart
run=.run
conf=$here/Corefile

for binary in bin/signpost bin/echo; do
    [ -x "$binary" ] || { echo "$binary is missing: run \"make build\" first" >&2; exit 1; }
done

if bin/signpost get svc -A -conf "$conf" >/dev/null 2>&1; then
    echo "the quickstart is running already: stop it first (Ctrl-C where it runs)" >&2
    exit 1
fi

mkdir -p "$run"
rm -rf "$run/manifests"
cp -R "$here/manifests" "$run/manifests"

pods='web-1=127.1.0.1:8080 web-2=127.1.0.2:8080 web-3=127.1.0.3:8080 web-4=127.1.0.4:8080
      db-0=127.1.1.1:5432 db-1=127.1.1.2:5432 shop-1=127.1.2.1:8080 shop-2=127.1.2.2:8080'

children=
stop() {
    trap - INT TERM EXIT
    for child in $children; do
        kill "$child" 2>/dev/null || true
    done
    wait
}
trap 'stop' EXIT
trap 'stop; exit 0' INT TERM

# fail shows what a program said before it ended.
fail() {
    echo "$1 did not start:" >&2
    cat "$2" >&2
    exit 1
}

flags=
for pod in $pods; do
    flags="$flags -pod $pod"
done
# shellcheck disable=SC2086 # one word a flag is meant
bin/echo $flags >"$run/echo.log" 2>&1 &
echo_pid=$!
children=$echo_pid

bin/signpost serve -conf "$conf" >"$run/signpost.log" 2>&1 &
serve_pid=$!
children="$children $serve_pid"

tries=0
until grep -q 'msg=ready' "$run/signpost.log"; do
    kill -0 "$echo_pid" 2>/dev/null || fail bin/echo "$run/echo.log"
    kill -0 "$serve_pid" 2>/dev/null || fail "bin/signpost serve" "$run/signpost.log"
    tries=$((tries + 1))
    [ "$tries" -lt 300 ] || fail "bin/signpost serve (within 30 s)" "$run/signpost.log"
    sleep 0.1
done
kill -0 "$echo_pid" 2>/dev/null || fail bin/echo "$run/echo.log"

bin/signpost get svc -A -conf "$conf"
cat <<'TEXT'

Try these in another terminal, at the top of the repository:

  dig @127.0.0.1 -p 1053 +short web.default.svc.cluster.local
  curl http://127.96.0.80:8080/
  sed -i 's/status: "False"/status: "True"/' .run/manifests/web.yaml && bin/signpost get ep web -conf examples/quickstart/Corefile

The third one makes a fourth pod ready: it takes part from the next connection on.
The server's log is .run/signpost.log. Ctrl-C stops everything.
TEXT

wait "$serve_pid"
