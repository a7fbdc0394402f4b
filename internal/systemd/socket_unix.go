//go:build unix

package systemd

import (
	"os"
	"syscall"
)

// takeOver takes over a descriptor, so that no child of this process has it too.
func takeOver(fd int, name string) (*os.File, error) {
	syscall.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), name), nil
}
