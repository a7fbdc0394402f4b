//go:build unix

package server

import (
	"fmt"
	"syscall"
)

// openFilesMax returns how many files this process may have open. The Go runtime has raised the soft limit to one
// below the hard limit by then, and gives the processes that it starts the old one.
func openFilesMax() (uint64, error) {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return 0, fmt.Errorf("read the limit of open files: %w", err)
	}
	return uint64(files.Cur), nil //nolint:unconvert // signed on some systems, and never negative
}
