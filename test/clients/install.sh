#!/bin/sh
# Installs what the clients of other languages need and is not there yet: Debian
# packages, as root, and the npm modules of node/package-lock.json. Where it cannot,
# it says so and goes on: the tests that need what is missing fail and name it.
set -u
cd "$(dirname "$0")" || exit 1

. ../debian.sh
need curl command -v curl
need nodejs command -v node
need npm command -v npm
need perl command -v perl
need redis-server command -v redis-server
need beanstalkd command -v beanstalkd
need tarantool command -v tarantool
need libmr-tarantool-perl perl -MMR::Tarantool::Box -e 1
install_missing

# npm notes what it has installed in a copy of the lock file.
if [ ! node/node_modules/.package-lock.json -nt node/package-lock.json ]; then
	(cd node && npm ci --no-audit --no-fund </dev/null) || echo "$0: could not install the npm modules" >&2
fi
exit 0
