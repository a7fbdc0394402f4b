#!/bin/sh
# Gets the job servers that Millrace is measured next to: Redis and beanstalkd as Debian
# packages, as root, and Faktory and LMSTFY, in the versions of go.mod, built into the directory
# that is named. Where it cannot, it says so and goes on: the benchmark leaves out what is
# missing and names it.
set -u
[ $# = 1 ] || { echo "usage: $0 DIR" >&2; exit 2; }
mkdir -p "$1" && bin=$(cd "$1" && pwd) || exit 1
cd "$(dirname "$0")" || exit 1

. ../debian.sh
need redis-server command -v redis-server
need beanstalkd command -v beanstalkd
install_missing

go build -o "$bin/faktory" github.com/contribsys/faktory/cmd/faktory || echo "$0: could not build Faktory" >&2
go build -o "$bin/lmstfy" github.com/bitleak/lmstfy/server || echo "$0: could not build LMSTFY" >&2
exit 0
