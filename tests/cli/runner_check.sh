#!/usr/bin/env bash
# The runner must be able to fail: wrong output, wrong status and unexpected lines are all noticed.
set -u
runner=$1
work=$(mktemp -d "${TMPDIR:-/tmp}/zenith-runner.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 99
failed=0

# expect 0|1 NAME: the case NAME, made by the lines before, must pass (0) or fail (1)
expect() {
    bash "$runner" /bin/true "$work" "$work/$2.sh" >"$work/log" 2>&1
    local got=$?
    if [[ $got != "$1" ]]; then
        echo "$2: the runner returned $got, expected $1"
        cat "$work/log"
        failed=1
    fi
}

echo 'echo one; echo two; exit 3' >good.sh
printf 'one\ntwo\n' >good.stdout
echo 3 >good.exit
expect 0 good
echo 'echo one; echo two' >glob.sh
printf 'o?e\n...\n' >glob.stdout.glob
expect 0 glob
echo 'echo 1; echo 2; echo 3' >skip.sh
printf '...\n3\n' >skip.stdout.glob
expect 0 skip
echo 'true' >empty.sh
expect 0 empty

# A tool that is built again meanwhile is not missed.
printf '#!/bin/sh\necho helped\n' >helper
chmod +x helper
echo "rm '$work/helper'; helper" >rebuilt.sh
echo helped >rebuilt.stdout
expect 0 rebuilt

echo 'echo one' >text.sh
echo two >text.stdout
expect 1 text
echo 'exit 1' >status.sh
expect 1 status
echo 'echo surprise >&2' >noise.sh
expect 1 noise
echo 'echo one; echo two' >extra.sh
echo 'one' >extra.stdout.glob
expect 1 extra
echo 'echo one' >short.sh
printf 'one\ntwo\n' >short.stdout.glob
expect 1 short
exit $failed
