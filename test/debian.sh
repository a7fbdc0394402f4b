# Sourced by the install.sh of the suites that need Debian packages. Where they cannot be
# installed it says so, and the suite goes on: the tests that need what is missing fail and
# name it.

packages=

# need names the Debian package that brings what the command looks for.
need() {
	package=$1
	shift
	"$@" >/dev/null 2>&1 || packages="$packages $package"
}

# install_missing installs, as root, what need has found missing.
install_missing() {
	[ -n "$packages" ] || return 0
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
		export DEBIAN_FRONTEND=noninteractive
		# shellcheck disable=SC2086 # a list of names
		apt-get install -qq -y --no-install-recommends $packages </dev/null >/dev/null 2>&1 || {
			apt-get update -qq </dev/null && apt-get install -qq -y --no-install-recommends $packages </dev/null >/dev/null
		} || echo "$0: could not install the Debian packages$packages" >&2
	else
		echo "$0: please install the Debian packages$packages, or what they bring" >&2
	fi
}
