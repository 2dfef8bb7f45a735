# For scripts to source: skips a test that cannot run here, with the reason. For programs and libraries that
# scripts/deps.sh installs: if they should be there (scripts/test.sh sets ZENITH_MUST_RUN), skipping is a failure.
skip() {
    echo "skipped: $*"
    [ -z "${ZENITH_MUST_RUN-}" ] || exit 1
    exit 77
}
