#!/bin/sh
# Installs what the tests in the browser need and is not there yet: Debian packages, as
# root, and the npm modules of package-lock.json. Where it cannot, it says so and
# goes on: the tests fail and name what is missing.
set -u
cd "$(dirname "$0")" || exit 1

. ../debian.sh
need nodejs command -v node
need npm command -v npm
need chromium command -v chromium
need fonts-dejavu-core test -d /usr/share/fonts/truetype/dejavu
install_missing

# npm notes what it has installed in a copy of the lock file.
if [ ! node_modules/.package-lock.json -nt package-lock.json ]; then
	npm ci --no-audit --no-fund </dev/null || echo "$0: could not install the npm modules" >&2
fi
exit 0
