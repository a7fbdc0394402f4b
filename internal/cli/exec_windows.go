package cli

import (
	"fmt"
	"os/exec"
	"syscall"

	"golang.org/x/sys/windows"
)

// shellCommand returns the command that runs a line of the operator's, which the shell reads as it is. It is the first
// of a group of processes of its own: a Ctrl-C is for us, and a Ctrl-Break can be for it alone.
func shellCommand(line string) *exec.Cmd {
	cmd := exec.Command("cmd.exe") //nolint:noctx // ended by its job object
	cmd.SysProcAttr = &syscall.SysProcAttr{
		CmdLine:       `cmd.exe /S /C "` + line + `"`,
		CreationFlags: windows.CREATE_NEW_PROCESS_GROUP,
	}
	return cmd
}

// processes are a command that has been started and all that it starts from now on: a job object.
type processes struct {
	pid uint32
	job windows.Handle
}

func processesOf(cmd *exec.Cmd) (processes, error) {
	p := processes{pid: uint32(cmd.Process.Pid)} //nolint:gosec // Windows has no others
	var err error
	if p.job, err = windows.CreateJobObject(nil, nil); err != nil {
		return p, fmt.Errorf("create a job object: %w", err)
	}
	process, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, p.pid)
	if err == nil {
		err = windows.AssignProcessToJobObject(p.job, process)
		_ = windows.CloseHandle(process) // it has served its purpose
	}
	if err != nil {
		p.release()
		return p, fmt.Errorf("put the command into a job object: %w", err)
	}
	return p, nil
}

// ask asks them to end, as a Ctrl-Break does. Those without a console do not hear it.
func (p processes) ask() { _ = windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, p.pid) }

// kill ends them.
func (p processes) kill() { _ = windows.TerminateJobObject(p.job, 1) } // they may have ended

// release forgets them. Those that still run go on.
func (p processes) release() { _ = windows.CloseHandle(p.job) }
