//go:build unix

package server

import "syscall"

// Why a socket cannot be bound: another one has its address, this user may not have the port, this machine does not
// have the address.
const (
	errAddressInUse     = syscall.EADDRINUSE
	errAddressForbidden = syscall.EACCES
	errAddressMissing   = syscall.EADDRNOTAVAIL
)
