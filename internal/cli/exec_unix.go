//go:build unix

package cli

import (
	"os/exec"
	"syscall"
)

// shellCommand returns the command that runs a line of the operator's. It is the first of a group of processes of its
// own: a Ctrl-C is for us, and all that it starts can be ended.
func shellCommand(line string) *exec.Cmd {
	cmd := exec.Command("/bin/sh", "-c", line) //nolint:gosec,noctx // the operator's own command, ended by its group
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// processes are a command that has been started and all that it has started.
type processes struct{ group int }

func processesOf(cmd *exec.Cmd) (processes, error) { return processes{-cmd.Process.Pid}, nil }

// ask asks them to end.
func (p processes) ask() { _ = syscall.Kill(p.group, syscall.SIGTERM) } // they may have ended

// kill ends them.
func (p processes) kill() { _ = syscall.Kill(p.group, syscall.SIGKILL) } // they may have ended

// release forgets them. Those that still run go on.
func (p processes) release() {}
