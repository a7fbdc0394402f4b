#!/bin/sh
# Gets promtool from Debian's package prometheus into bin, unless there is one: only the tool, without the
# service that the package would start. Where it cannot, it says so and goes on: the tests say what is missing.
set -u
cd "$(dirname "$0")/../.." || exit 1
[ -x bin/promtool ] && exit 0
command -v promtool >/dev/null 2>&1 && exit 0

dir=$(mktemp -d) || exit 0
trap 'rm -rf "$dir"' EXIT
get() { (cd "$dir" && apt-get download -qq prometheus </dev/null >/dev/null 2>&1); }
if get || { apt-get update -qq </dev/null >/dev/null && get; } &&
	dpkg-deb --fsys-tarfile "$dir"/prometheus_*.deb | tar -x -C "$dir" ./usr/bin/promtool; then
	mkdir -p bin
	mv "$dir/usr/bin/promtool" bin/promtool
else
	echo "$0: could not get promtool from the Debian package prometheus" >&2
fi
exit 0
