package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"millrace/test/harness"
)

// processes are those of a peer.
type processes struct {
	addr string
	pids []int // of its own and of those that they have started
	cmds []*exec.Cmd
	out  lockedBuffer
}

// lockedBuffer collects what several processes say.
type lockedBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

// Write implements io.Writer.
func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// output returns what the processes have said.
func (s *processes) output() string {
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	return s.out.b.String()
}

const (
	peerPatience = 30 * time.Second      // for a peer to come up
	peerGrace    = 10 * time.Second      // for one to end
	peerPoll     = 20 * time.Millisecond // between looks at it
	redisTimeout = 10 * time.Second      // for an answer of Redis
	redisMarker  = "process_id:"         // of its pid
	faktoryRedis = "/tmp/redis.conf"     // which Faktory writes if it is not there
)

// run starts a process and waits until it listens on an address.
func (s *processes) run(ctx context.Context, dir, addr, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // a peer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &s.out, &s.out
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmds = append(s.cmds, cmd)
	s.pids = append(s.pids, cmd.Process.Pid)
	if err := await(ctx, addr); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(program), err, s.output())
	}
	return nil
}

// await returns once an address takes connections.
func await(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, peerPatience)
	defer cancel()
	tick := time.NewTicker(peerPoll)
	defer tick.Stop()
	var d net.Dialer
	for {
		c, err := d.DialContext(ctx, "tcp", addr)
		if err == nil {
			return c.Close()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("it does not come up: %w", err)
		}
	}
}

// stop ends all processes, the last first, and does not wait for those that do not want to.
func (s *processes) stop() {
	for _, cmd := range slices.Backward(s.cmds) {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		kill := time.AfterFunc(peerGrace, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait() // it was asked to end
		kill.Stop()
	}
}

// starting ends what has been started if the start goes wrong.
func starting(s *processes, err error) (*processes, error) {
	if err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// freeAddrs returns addresses on which nothing listens.
func freeAddrs(ctx context.Context, n int) ([]string, error) {
	var addrs []string
	for range n {
		addr, err := harness.FreeAddr(ctx)
		if err != nil {
			return nil, err
		}
		addrs = append(addrs, addr)
	}
	return addrs, nil
}

func port(addr string) string {
	_, p, _ := net.SplitHostPort(addr)
	return p
}

// startFaktory starts Faktory, which starts a Redis of its own. The safest durability is one that its Redis is
// told afterwards: Faktory has no setting for it.
func startFaktory(safest bool) func(ctx context.Context, b *peers, dir string) (*processes, error) {
	return func(ctx context.Context, b *peers, dir string) (*processes, error) {
		addrs, err := freeAddrs(ctx, 2)
		if err != nil {
			return nil, err
		}
		s := &processes{addr: addrs[0]}
		err = s.run(ctx, dir, s.addr, b.program("faktory"), "-b", addrs[0], "-w", addrs[1], "-d", dir, "-c", dir, "-e",
			"development", "-l", "error")
		if err != nil {
			return starting(s, err)
		}
		sock := filepath.Join(dir, "redis.sock")
		info, err := redisDo(ctx, sock, "INFO server", redisMarker)
		if err != nil {
			return starting(s, err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(info, redisMarker)))
		if err != nil {
			return starting(s, err)
		}
		s.pids = append(s.pids, pid)
		if safest {
			for _, command := range []string{"CONFIG SET appendfsync always", "CONFIG SET appendonly yes"} {
				if _, err := redisDo(ctx, sock, command, "+OK"); err != nil {
					return starting(s, err)
				}
			}
		}
		return s, nil
	}
}

// redisDo sends a command to a Redis and returns the first line of the answer that begins with a prefix.
func redisDo(ctx context.Context, sock, command, prefix string) (string, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", sock)
	if err != nil {
		return "", err
	}
	defer c.Close() //nolint:errcheck // it has answered
	if err := c.SetDeadline(time.Now().Add(redisTimeout)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintf(c, "%s\r\n", command); err != nil {
		return "", err
	}
	lines := bufio.NewScanner(c)
	for lines.Scan() {
		if line := lines.Text(); strings.HasPrefix(line, prefix) {
			return line, nil
		} else if strings.HasPrefix(line, "-") {
			return "", errors.New(line)
		}
	}
	return "", fmt.Errorf("no %s in the answer to %s: %w", prefix, command, lines.Err())
}

// startLmstfy starts a Redis with arguments, and LMSTFY without tokens and access log.
func startLmstfy(redis ...string) func(ctx context.Context, b *peers, dir string) (*processes, error) {
	return func(ctx context.Context, b *peers, dir string) (*processes, error) {
		addrs, err := freeAddrs(ctx, 3)
		if err != nil {
			return nil, err
		}
		s := &processes{addr: addrs[0]}
		args := append([]string{"--port", port(addrs[2]), "--bind", "127.0.0.1", "--dir", dir, "--loglevel", "warning"},
			redis...)
		if err := s.run(ctx, dir, addrs[2], b.program("redis-server"), args...); err != nil {
			return starting(s, err)
		}
		conf := fmt.Sprintf("Host = \"127.0.0.1\"\nPort = %s\nAdminHost = \"127.0.0.1\"\nAdminPort = %s\nLogLevel = "+
			"\"error\"\n[AdminRedis]\nAddr = %q\n[Pool.default]\nAddr = %q\n",
			port(addrs[0]), port(addrs[1]), addrs[2], addrs[2])
		file := filepath.Join(dir, "lmstfy.toml")
		if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
			return starting(s, err)
		}
		return starting(s, s.run(ctx, dir, s.addr, b.program("lmstfy"), "-c", file, "-p",
			filepath.Join(dir, "lmstfy.pid"), "-sv"))
	}
}

// startBeanstalkd starts beanstalkd, in its safest form with a log that is synced with every write.
func startBeanstalkd(safest bool) func(ctx context.Context, b *peers, dir string) (*processes, error) {
	return func(ctx context.Context, b *peers, dir string) (*processes, error) {
		addrs, err := freeAddrs(ctx, 1)
		if err != nil {
			return nil, err
		}
		s := &processes{addr: addrs[0]}
		args := []string{"-l", "127.0.0.1", "-p", port(s.addr)}
		if safest {
			args = append(args, "-b", dir, "-f", "0")
		}
		return starting(s, s.run(ctx, dir, s.addr, b.program("beanstalkd"), args...))
	}
}
