package server

import (
	"errors"

	"golang.org/x/sys/windows"
)

// addressInUse reports whether a socket cannot be bound because another one has its address. Windows answers with
// numbers of its own, which package syscall has no names for.
func addressInUse(err error) bool { return errors.Is(err, windows.WSAEADDRINUSE) }
