//go:build unix

package beanstalkd

import (
	"fmt"
	"syscall"
)

// usage returns the processor time that the process has taken, in seconds.
func usage() (user, system string) {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return noUsage, noUsage
	}
	show := func(t syscall.Timeval) string { return fmt.Sprintf("%d.%06d", t.Sec, t.Usec) }
	return show(u.Utime), show(u.Stime)
}

// noUsage is what is told if it is not known.
const noUsage = "0.000000"
