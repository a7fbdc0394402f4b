package config

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// AddressOff is the address that disables a listener.
const AddressOff = "off"

// Address is one place to listen on.
type Address struct {
	HostPort string
	// Namespace the listener serves; empty means the protocol's own.
	Namespace string
}

// Addresses lists where a protocol listens; empty means nowhere.
type Addresses []Address

// parseAddresses reads "host:port", several of them separated by commas, each
// with an optional "=namespace", or "off".
func parseAddresses(text string) (Addresses, error) {
	if strings.TrimSpace(text) == AddressOff {
		return nil, nil
	}
	var list Addresses
	for item := range strings.SplitSeq(text, ",") {
		hostPort, namespace, named := strings.Cut(strings.TrimSpace(item), "=")
		if err := checkHostPort(hostPort); err != nil {
			return nil, err
		}
		if named {
			if err := checkNamespace(namespace); err != nil {
				return nil, err
			}
		}
		list = append(list, Address{HostPort: hostPort, Namespace: namespace})
	}
	return list, nil
}

func checkHostPort(text string) error {
	switch text {
	case "":
		return errors.New(`the address is empty: write host:port, or "off" to disable the listener`)
	case AddressOff:
		return errors.New(`"off" disables all listeners of the key and cannot stand among addresses`)
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return fmt.Errorf(`%q is not host:port: write for example "127.0.0.1:12345", or "off" to disable the listener`,
			text)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%q has no port number of 0 to 65535 (0 picks a free one)", text)
	}
	if strings.ContainsAny(host, " \t\r\n/\\\"'") {
		return fmt.Errorf("%q has no valid host", text)
	}
	return nil
}

// isLoopback reports whether only this machine can reach the address. A name
// other than localhost is never taken for one: what it means may change.
func isLoopback(hostPort string) bool {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		return false
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// isEverywhere reports whether the address means every interface of the machine.
func isEverywhere(hostPort string) bool {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

// namespaceSizeMax is the length of the longest namespace in bytes.
const namespaceSizeMax = 255

func checkNamespace(text string) error {
	if text == "" {
		return errors.New(`the namespace is empty: write for example "default"`)
	}
	if len(text) > namespaceSizeMax {
		return fmt.Errorf("the namespace is longer than %d characters", namespaceSizeMax)
	}
	for _, r := range text {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
		default:
			return fmt.Errorf("%q is not a namespace: use letters, digits, '-', '_' and '.'", text)
		}
	}
	return nil
}

// sizeUnits are the units of sizes in lower case. Those with an i count in 1024,
// the others in 1000.
var sizeUnits = []struct {
	name  string
	bytes uint64
}{
	{"tib", 1 << 40},
	{"gib", 1 << 30},
	{"mib", 1 << 20},
	{"kib", 1 << 10},
	{"tb", 1e12},
	{"gb", 1e9},
	{"mb", 1e6},
	{"kb", 1e3},
	{"b", 1},
	{"", 1},
}

// parseSize reads a whole number of bytes with an optional unit.
func parseSize(text string) (uint64, error) {
	digits := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	unit := strings.ToLower(text[len(digits):])
	n, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a size: write a whole number with a unit, for example 64MiB", text)
	}
	for _, u := range sizeUnits {
		if u.name != unit {
			continue
		}
		if n > math.MaxUint64/u.bytes {
			return 0, fmt.Errorf("%q is larger than any disk", text)
		}
		return n * u.bytes, nil
	}
	return 0, fmt.Errorf("%q has an unknown unit: use KiB, MiB, GiB or TiB", text)
}

// formatSize is the inverse of parseSize for sizes that are whole multiples of a
// binary unit; others it shows in bytes.
func formatSize(n uint64) string {
	names := [...]string{"TiB", "GiB", "MiB", "KiB"}
	for i, name := range names {
		if unit := sizeUnits[i].bytes; n >= unit && n%unit == 0 {
			return strconv.FormatUint(n/unit, 10) + name
		}
	}
	return strconv.FormatUint(n, 10)
}
