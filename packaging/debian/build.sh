#!/bin/sh
# Builds the Debian package with dpkg-deb and nothing else of Debian's tool chain:
#
#   packaging/debian/build.sh [DIR]      writes DIR/millrace_VERSION_ARCH.deb (DIR is dist)
#
# VERSION comes from git and can be given in the environment, as can GO and GOARCH.
# The last line on standard output is the path of the package.
set -eu
umask 022
cd "$(dirname "$0")/../.."
out=${1:-dist}
GO=${GO:-go}

# v1.2.3 is 1.2.3, four commits later it is 1.2.3+4.gabc, and without a tag the version
# sorts below every release: 0~20260102.030405.gabc. A changed tree says so at the end.
debian_version() {
	if [ -n "${VERSION:-}" ]; then
		echo "${VERSION#v}"
		return
	fi
	if described=$(git describe --tags --match 'v[0-9]*' --dirty 2>/dev/null); then
		echo "$described" | sed 's/^v//; s/-dirty$/+dirty/; s/-\([0-9][0-9]*\)-g/+\1.g/; s/-/~/g'
		return
	fi
	changed=
	[ -z "$(git status --porcelain 2>/dev/null)" ] || changed=+dirty
	if head=$(git log -1 --format=%cd.g%h --date=format:%Y%m%d.%H%M%S 2>/dev/null); then
		echo "0~$head$changed"
	else
		echo "0~unknown"
	fi
}

goarch=$($GO env GOARCH)
case $goarch in
arm) arch=armhf ;;
386) arch=i386 ;;
*) arch=$goarch ;;
esac
version=$(debian_version)
commit=$(git rev-parse --short=12 HEAD 2>/dev/null || true)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"

install -d "$root/DEBIAN" "$root/usr/bin" "$root/usr/lib/systemd/system" "$root/etc/millrace" \
	"$root/usr/share/doc/millrace" "$root/usr/share/man/man1" "$root/usr/share/bash-completion/completions"
CGO_ENABLED=0 $GO build -trimpath -buildvcs=false -o "$root/usr/bin/millrace" \
	-ldflags "-s -w -X millrace/internal/cli.version=$version -X millrace/internal/cli.commit=$commit" ./cmd/millrace
install -m 644 packaging/systemd/*.service packaging/systemd/*.socket "$root/usr/lib/systemd/system"
# The example is the configuration, with the one key that a service needs.
sed 's|^# dir = "./millrace-data"$|dir = "/var/lib/millrace/data"|' docs/millrace.example.toml >"$root/etc/millrace/millrace.toml"
grep -q '^dir = ' "$root/etc/millrace/millrace.toml"
install -m 644 packaging/debian/copyright "$root/usr/share/doc/millrace/copyright"
gzip -9n <CHANGELOG.md >"$root/usr/share/doc/millrace/changelog.gz"
tool="$root/usr/bin/millrace"
if [ "$goarch" != "$($GO env GOHOSTARCH)" ]; then # for another machine: a binary for this one writes the same
	host=$(mktemp -d)
	trap 'rm -rf "$root" "$host"' EXIT
	tool="$host/millrace"
	env GOARCH= $GO build -buildvcs=false -o "$tool" -ldflags "-X millrace/internal/cli.version=$version" ./cmd/millrace
fi
"$tool" completion bash >"$root/usr/share/bash-completion/completions/millrace"
"$tool" man "$root/usr/share/man/man1"
gzip -9n "$root"/usr/share/man/man1/*.1

sed -e "s/@VERSION@/$version/" -e "s/@ARCH@/$arch/" -e "s/@SIZE@/$(du -sk "$root" | cut -f1)/" \
	packaging/debian/control.in >"$root/DEBIAN/control"
install -m 644 packaging/debian/conffiles "$root/DEBIAN/conffiles"
install -m 755 packaging/debian/postinst packaging/debian/prerm packaging/debian/postrm "$root/DEBIAN"
(cd "$root" && find usr -type f -exec md5sum {} +) >"$root/DEBIAN/md5sums"

mkdir -p "$out"
package="$out/millrace_${version}_$arch.deb"
dpkg-deb --build --root-owner-group -Zxz -z3 "$root" "$package" >&2
echo "$package"
