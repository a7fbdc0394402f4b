#!/bin/sh
# Installs the tools that the examples of the documents use and are not there yet, as
# Debian packages, as root. Where it cannot, it says so and goes on: the tests that
# need what is missing fail and name it.
set -u

packages=
need() { # the command, and the Debian package that brings it
	command -v "$1" >/dev/null 2>&1 || packages="$packages $2"
}
need bash bash
need curl curl
need jq jq
need nc netcat-openbsd

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
exit 0
