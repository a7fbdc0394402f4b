// Command tarantool is the README's example of a client of Tarantool's queue module:
// it puts a task, takes it and acknowledges it, with the connector for Go.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/tarantool/go-tarantool/v2"
	"github.com/tarantool/go-tarantool/v2/queue"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: tarantool HOST:PORT")
	}
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(addr string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := tarantool.Connect(ctx, tarantool.NetDialer{Address: addr}, tarantool.Opts{})
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()

	images := queue.New(conn, "images")
	if err := images.Create(queue.Cfg{IfNotExists: true, Kind: queue.FIFO_TTL}); err != nil {
		return err
	}
	if _, err := images.Put("cat.png"); err != nil {
		return err
	}
	task, err := images.TakeTimeout(2 * time.Second)
	if err != nil || task == nil {
		return fmt.Errorf("take: no task: %w", err)
	}
	if _, err := fmt.Fprintf(os.Stdout, "took %v\n", task.Data()); err != nil {
		return err
	}
	return task.Ack()
}
