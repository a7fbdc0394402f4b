//go:build unix

package server

import (
	"errors"
	"syscall"
)

// addressInUse reports whether a socket cannot be bound because another one has its address.
func addressInUse(err error) bool { return errors.Is(err, syscall.EADDRINUSE) }
