package hook

import (
	"fmt"
	"net/netip"
	"slices"
)

// reserved are the ranges of addresses that are neither private by name nor anybody's on the internet: of the
// special-purpose registries of IANA. Of IPv6 only 2000::/3 is given out at all.
var reserved = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("192.88.99.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("203.0.113.0/24"),
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("2001::/23"), netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("2002::/16"),
	netip.MustParsePrefix("3fff::/20"),
}

var given6 = netip.MustParsePrefix("2000::/3")

// public reports whether an address is one of the internet.
func public(ip netip.Addr) bool {
	return ip.IsGlobalUnicast() && !ip.IsPrivate() && (ip.Is4() || given6.Contains(ip)) &&
		!slices.ContainsFunc(reserved, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// checkAddress refuses an address that is about to be dialled. What a name leads to may have changed since the URL was
// set, so this is where it counts.
func checkAddress(address string, allow []netip.Prefix) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%q is no address", address)
	}
	ip := at.Addr().Unmap().WithZone("")
	if public(ip) || slices.ContainsFunc(allow, func(p netip.Prefix) bool { return p.Contains(ip) }) {
		return nil
	}
	return fmt.Errorf("%s is no address of the internet, and hooks.allow does not name it", ip)
}
