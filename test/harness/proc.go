package harness

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Memory is what the kernel says about a process's memory, in bytes.
type Memory struct {
	Resident uint64 // now
	Peak     uint64 // the most since the start
}

// ReadMemory reads the memory of a process.
func ReadMemory(pid int) (Memory, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Memory{}, err
	}
	var m Memory
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		var into *uint64
		switch name {
		case "VmRSS":
			into = &m.Resident
		case "VmHWM":
			into = &m.Peak
		default:
			continue
		}
		kib, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return Memory{}, fmt.Errorf("%s: %w", name, err)
		}
		*into = kib << 10
	}
	if m.Resident == 0 {
		return Memory{}, fmt.Errorf("process %d has no memory: it has ended", pid)
	}
	return m, nil
}

// ResetPeak lets the peak of a process's memory start again from what it has now.
func ResetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0o200)
}

// userHz is the unit of times in /proc: a hundredth of a second on every Linux.
const userHz = 100

// CPUTime returns the processor time that a process has used, in and for it.
func CPUTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may hold blanks: the fields are counted after it.
	// The first there is field 3 of the manual, so that utime and stime, 14 and
	// 15, are at 11 and 12.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 13 {
		return 0, errors.New("/proc/pid/stat is too short")
	}
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / userHz, nil
}

// DirSize returns the bytes of all files below dir. Files that go away meanwhile
// do not count.
func DirSize(dir string) (int64, error) {
	var size int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			size += info.Size()
		}
		return err
	})
	return size, err
}
