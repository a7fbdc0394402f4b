#!/bin/sh
# Installs what the tests in the browser need and is not there yet: Debian packages, as
# root, and the npm modules of package-lock.json. Where it cannot, it says so and
# goes on: the tests fail and name what is missing.
set -u
cd "$(dirname "$0")" || exit 1

packages=
need() { # the Debian package that brings what the command looks for
	package=$1
	shift
	"$@" >/dev/null 2>&1 || packages="$packages $package"
}
need nodejs command -v node
need npm command -v npm
need chromium command -v chromium
need fonts-dejavu-core test -d /usr/share/fonts/truetype/dejavu

if [ -n "$packages" ]; then
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
		export DEBIAN_FRONTEND=noninteractive
		# shellcheck disable=SC2086 # a list of names
		apt-get install -qq -y --no-install-recommends $packages </dev/null >/dev/null 2>&1 || {
			apt-get update -qq </dev/null && apt-get install -qq -y --no-install-recommends $packages </dev/null >/dev/null
		} || echo "$0: could not install the Debian packages$packages" >&2
	else
		echo "$0: please install the Debian packages$packages, or what they bring" >&2
	fi
fi

# npm notes what it has installed in a copy of the lock file.
if [ ! node_modules/.package-lock.json -nt package-lock.json ]; then
	npm ci --no-audit --no-fund </dev/null || echo "$0: could not install the npm modules" >&2
fi
exit 0
