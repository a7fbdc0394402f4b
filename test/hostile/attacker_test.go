//go:build linux

package hostile

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// orderVariable has an order for an attacker. Attackers are processes of their own, which
// are this very program, with a lower priority than the server and the probes: in the
// world they are other machines.
const orderVariable = "MILLRACE_HOSTILE_ORDER"

// attackerNice is the priority of attackers, and attackerFiles how many connections one
// may have.
const (
	attackerNice  = 10
	attackerFiles = 16 << 10
)

// order is what an attacker is to do.
type order struct {
	Attack string
	Time   time.Duration
	Addrs  map[string]string
	Only   string // the one listener; empty for all
}

// result is what came of it.
type result struct {
	Connections int64
	Answers     int64
	Took        time.Duration
}

// echoName is the order of a process that sends back what it gets and prints its address.
const echoName = "echo"

// startEcho starts a process that does next to nothing, for the length of the test. How long
// it takes to answer is what the machine itself takes, with all that goes on.
func startEcho(ctx context.Context) (addr string, err error) {
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), orderVariable+`={"Attack":"`+echoName+`"}`)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	go func() { <-ctx.Done(); _ = cmd.Wait() }() // it was killed
	addr, err = bufio.NewReader(out).ReadString('\n')
	return strings.TrimSpace(addr), err
}

// echo is the main function of that process, which ends with a signal.
func echo() error {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(os.Stdout, l.Addr()); err != nil {
		return err
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go func() { _, _ = io.Copy(conn, conn) }() // it ends with the connection
	}
}

// send has an attacker obey the order, and returns when it is done.
func send(ctx context.Context, o order) (done result, err error) {
	text, err := json.Marshal(o)
	if err != nil {
		return result{}, err
	}
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), orderVariable+"="+string(text))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return result{}, fmt.Errorf("%w: %s", err, out)
	}
	return done, json.Unmarshal(out, &done)
}

// obey is the main function of an attacker. It returns its exit status.
func obey(text string) int {
	done, err := carryOut(text)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(done)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func carryOut(text string) (result, error) {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return result{}, err
	}
	if o.Attack == echoName {
		return result{}, echo()
	}
	// All threads of the group, which is this process alone: PRIO_PROCESS would mean a single thread.
	if err := syscall.Setpriority(syscall.PRIO_PGRP, 0, attackerNice); err != nil {
		return result{}, fmt.Errorf("lower the priority: %w", err)
	}
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil || files.Cur < attackerFiles {
		return result{}, fmt.Errorf("%d files may be open, want %d: %w", files.Cur, attackerFiles, err)
	}
	for _, a := range attacks {
		if a.name != o.Attack {
			continue
		}
		var chosen []target
		for _, t := range targets(o.Addrs) {
			if (a.skips == nil || !a.skips(t)) && (o.Only == "" || o.Only == t.name) {
				chosen = append(chosen, t)
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), o.Time)
		defer cancel()
		began := time.Now()
		err := many(context.Background(), len(chosen), func(i int) error { return a.run(ctx, chosen[i]) })
		return result{Connections: opened.Load(), Answers: answered.Load(), Took: time.Since(began)}, err
	}
	return result{}, fmt.Errorf("no attack %q", o.Attack)
}
