package server

import "golang.org/x/sys/windows"

// Why a socket cannot be bound: another one has its address, this user may not have the port, this machine does not
// have the address. Package syscall has other numbers under the names that these have elsewhere.
const (
	errAddressInUse     = windows.WSAEADDRINUSE
	errAddressForbidden = windows.WSAEACCES
	errAddressMissing   = windows.WSAEADDRNOTAVAIL
)
