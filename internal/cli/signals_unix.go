//go:build unix

package cli

import (
	"os/signal"
	"syscall"
)

// ignoreTerminal has the server not stand still when it reads from a terminal that it does not own, which is what a
// signal does that the original Faktory prints its goroutines for.
func ignoreTerminal() { signal.Ignore(syscall.SIGTTIN) }
