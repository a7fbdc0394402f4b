#!/bin/sh
# Gets the job servers that Millrace is measured next to: Redis and beanstalkd as Debian
# packages, as root, and Faktory and LMSTFY, in the versions of go.mod, built into the directory
# that is named. Where it cannot, it says so and goes on: the benchmark leaves out what is
# missing and names it.
set -u
[ $# = 1 ] || { echo "usage: $0 DIR" >&2; exit 2; }
mkdir -p "$1" && bin=$(cd "$1" && pwd) || exit 1
cd "$(dirname "$0")" || exit 1

packages=
for name in redis-server beanstalkd; do
	command -v $name >/dev/null 2>&1 || packages="$packages $name"
done
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

go build -o "$bin/faktory" github.com/contribsys/faktory/cmd/faktory || echo "$0: could not build Faktory" >&2
go build -o "$bin/lmstfy" github.com/bitleak/lmstfy/server || echo "$0: could not build LMSTFY" >&2
exit 0
