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
install_missing
exit 0
