#!/bin/sh
# Makes everything that a release consists of:
#
#   packaging/release.sh [DIR]      writes into DIR (dist/release), which is emptied before
#
# An archive for each system and processor, the Debian packages where dpkg-deb is there, a list of all modules in the
# binary (an SBOM) and SHA256SUMS. VERSION comes from git and can be given in the environment. Two runs on
# one commit with one version of Go make the same archives, byte for byte.
set -eu
umask 022
cd "$(dirname "$0")/.."
out=${1:-dist/release}
GO=${GO:-go}
PLATFORMS=${PLATFORMS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 freebsd/amd64 freebsd/arm64 windows/amd64 windows/arm64}
VERSION=${VERSION:-$(git describe --tags --always --dirty)}
SBOM=${SBOM:-bin/cyclonedx-gomod}
commit=$(git rev-parse --short=12 HEAD)
made=$(git log -1 --format=%ct)

rm -rf "$out"
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for platform in $PLATFORMS; do
	system=${platform%/*} processor=${platform#*/}
	name=millrace-$VERSION-$system-$processor
	suffix=
	[ "$system" != windows ] || suffix=.exe
	echo "$name" >&2
	mkdir "$work/$name"
	CGO_ENABLED=0 GOOS=$system GOARCH=$processor $GO build -trimpath -buildvcs=false -o "$work/$name/millrace$suffix" \
		-ldflags "-s -w -X millrace/internal/cli.version=${VERSION#v} -X millrace/internal/cli.commit=$commit" ./cmd/millrace
	cp LICENSE README.md CHANGELOG.md docs/millrace.example.toml "$work/$name"
	[ "$system" != linux ] || cp -R packaging/systemd "$work/$name/systemd"
	tar --sort=name --mtime="@$made" --owner=0 --group=0 --numeric-owner --format=gnu -C "$work" -c "$name" |
		gzip -9n >"$out/$name.tar.gz"
	"$SBOM" bin -json -std -version "$VERSION" -output "$out/$name.cdx.json" "$work/$name/millrace$suffix"
	if [ "$system" = linux ] && command -v dpkg-deb >/dev/null; then
		GOARCH=$processor SOURCE_DATE_EPOCH=$made packaging/debian/build.sh "$out" >/dev/null
	fi
	rm -rf "${work:?}/$name"
done

cd "$out"
sha256sum -- * >"$work/SHA256SUMS"
mv "$work/SHA256SUMS" .
cat SHA256SUMS
