#!/bin/sh
# Installs the tools that the examples of the documents use and are not there yet, as
# Debian packages, as root. Where it cannot, it says so and goes on: the tests that
# need what is missing fail and name it.
set -u
cd "$(dirname "$0")" || exit 1

. ../debian.sh
need bash command -v bash
need curl command -v curl
need jq command -v jq
need netcat-openbsd command -v nc
need mkdocs command -v mkdocs
need nodejs command -v node
need npm command -v npm
need python3 command -v python3
need ruby-beaneater ruby -rbeaneater -e 0
need php-cli command -v php
need php-pda-pheanstalk test -e /usr/share/php/Pheanstalk/autoload.php
install_missing

# The modules that the tests of clients use.
if [ ! ../clients/node/node_modules/.package-lock.json -nt ../clients/node/package-lock.json ]; then
	(cd ../clients/node && npm ci --no-audit --no-fund </dev/null) || echo "$0: could not install the npm modules" >&2
fi
exit 0
