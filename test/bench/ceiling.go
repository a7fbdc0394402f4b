package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
)

// runCeiling serves until ctx ends: a server that reads lines and answers each
// with a constant. What it reaches is the limit that loopback, scheduler and load
// generator set to any server.
func runCeiling(ctx context.Context) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = l.Close() }) // ends the loop below
	report{os.Stdout}.printf("masenko %s", l.Addr())
	for ctx.Err() == nil {
		c, err := l.Accept()
		if err == nil {
			go answer(c)
		} else if !errors.Is(err, net.ErrClosed) {
			return err
		}
	}
	return nil
}

// answer serves one connection. Replies leave when there is nothing left to read,
// as a good server does.
func answer(c net.Conn) {
	defer c.Close() //nolint:errcheck // the client has gone
	r := bufio.NewReaderSize(c, 64<<10)
	w := bufio.NewWriterSize(c, 64<<10)
	job := fmt.Sprintf("OK {\"id\":1,\"queue\":\"q\",\"name\":\"t\",\"payload\":%q}\n", strings.Repeat("x", payloadSize-2))
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return
		}
		reply := "OK {\"id\":1}\n"
		if line[0] == 'F' {
			reply = job
		}
		// A write error shows in the flush, and that in the next read.
		_, _ = w.WriteString(reply)
		if r.Buffered() == 0 {
			if err := w.Flush(); err != nil {
				return
			}
		}
	}
}
