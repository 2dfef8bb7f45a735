#!/usr/bin/env bash
# Builds the Debian packages zenith, libzenith0 and libzenith-dev in build/deb from the files that git tracks, and
# checks them with lintian. The version comes from CMakeLists.txt. The changelog contains only this build.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/deps.sh build deb

version=$(sed -n 's/^project(zenith VERSION \([0-9.]*\) .*/\1/p' CMakeLists.txt)
out=build/deb
tree=$out/zenith-$version
rm -rf "$out"
mkdir -p "$tree"
git ls-files -z | grep -zv '^packaging/' | xargs -0 cp --parents -t "$tree"
cp -r packaging/debian "$tree/debian"

maintainer=$(sed -n 's/^Maintainer: //p' packaging/debian/control)
cat >"$tree/debian/changelog" <<END
zenith ($version) unstable; urgency=medium

  * Packages of Zenith $version, commit $(git rev-parse --short HEAD).

 -- $maintainer  $(git log -1 --format=%cD)
END

if ! (cd "$tree" && DEB_BUILD_OPTIONS="noautodbgsym parallel=${JOBS:-$(nproc)}" dpkg-buildpackage -b -us -uc) >"$out/log" 2>&1; then
    tail -40 "$out/log" >&2
    echo "scripts/deb.sh: dpkg-buildpackage failed; $out/log has all of its output" >&2
    exit 1
fi
rm -rf "$tree"
lintian --tag-display-limit 0 --allow-root --fail-on error,warning "$out"/*.changes
ls "$out"/*.deb
