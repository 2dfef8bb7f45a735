#!/usr/bin/env bash
# conforms.sh ZENITH SCHEMATHESIS: requests made from the description of the API (server/openapi.json) get the answers
# that it promises, and none is a failure of the server. API_EXAMPLES of them for each operation; the same ones in every
# run unless API_SEED says otherwise, so that a change fails for what it changed. Images may be asked for that take
# minutes: --job-time and --pixels end such requests with an answer that the description promises.
set -euo pipefail
zenith=$(realpath "$1") schemathesis=$(realpath -s "$2")
work=$(mktemp -d)
trap 'kill $server 2>/dev/null || true; wait; rm -rf "$work"' EXIT
cd "$work"
"$zenith" serve --listen 127.0.0.1:0 --job-time 2 --pixels 1 >address &
server=$!
until [ -s address ] || ! kill -0 $server 2>/dev/null; do
    sleep 0.1
done
address=$(sed -n 's/^zenith serve: //p' address)
"$schemathesis" run "${address}openapi.json" --seed "${API_SEED:-1}" --max-examples "${API_EXAMPLES:-20}" --request-timeout 300 --suppress-health-check all --phases coverage,fuzzing \
    --checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance
