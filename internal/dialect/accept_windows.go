package dialect

import "golang.org/x/sys/windows"

// passing are the errors of Accept that may go away by themselves.
var passing = []error{
	windows.WSAEMFILE, windows.WSAENOBUFS, windows.ERROR_NOT_ENOUGH_MEMORY, windows.ERROR_NO_SYSTEM_RESOURCES,
	windows.WSAECONNABORTED, windows.WSAECONNRESET, windows.ERROR_NETNAME_DELETED, windows.WSAEINTR,
}
