package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"millrace/internal/bench"
)

// These peers speak protocols that Millrace does not. The load comes from a program of test/peers, with the client
// libraries that people use.

// startNATS starts a NATS server with JetStream, in its safest form with a sync of every message.
func startNATS(safest bool) func(ctx context.Context, b *peers, dir string) (*processes, error) {
	return func(ctx context.Context, b *peers, dir string) (*processes, error) {
		addrs, err := freeAddrs(ctx, 1)
		if err != nil {
			return nil, err
		}
		s := &processes{addr: addrs[0]}
		sync := ""
		if safest {
			sync = ", sync_interval: always"
		}
		file := filepath.Join(dir, "nats.conf")
		conf := fmt.Sprintf("listen: %q\njetstream: {store_dir: %q%s}\n", s.addr, dir, sync)
		if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
			return nil, err
		}
		return starting(s, s.run(ctx, dir, s.addr, b.program("nats-server"), "-c", file))
	}
}

// postgresUser is whom PostgreSQL runs as if this program runs as root, which PostgreSQL refuses.
const postgresUser = "postgres"

// startPostgres starts a PostgreSQL of its own. Its default is its safest form.
func startPostgres(settings ...string) func(ctx context.Context, b *peers, dir string) (*processes, error) {
	return func(ctx context.Context, b *peers, dir string) (*processes, error) {
		addrs, err := freeAddrs(ctx, 1)
		if err != nil {
			return nil, err
		}
		s := &processes{addr: addrs[0]}
		var as []string
		if os.Geteuid() == 0 {
			as = []string{"setpriv", "--reuid", postgresUser, "--regid", postgresUser, "--clear-groups"}
			for _, path := range []string{b.tmp, dir} { // its own directory is to be reached and written
				if err := os.Chmod(path, 0o777); err != nil { //nolint:gosec // a directory of a benchmark
					return nil, err
				}
			}
		}
		data := filepath.Join(dir, "data")
		initdb := append(as, b.program("initdb"), "-D", data, "-U", "bench", "-A", "trust", "-E", "UTF8", "--no-sync")
		cmd := exec.CommandContext(ctx, initdb[0], initdb[1:]...) //nolint:gosec // a peer
		cmd.Dir = dir
		if text, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("initdb: %w\n%s", err, text)
		}
		args := append(as, b.program("postgres"), "-D", data, "-h", "127.0.0.1", "-p", port(s.addr), "-k", dir, "-c",
			"max_connections=300", "-c", "shared_buffers=512MB")
		for _, setting := range settings {
			args = append(args, "-c", setting)
		}
		err = s.run(ctx, dir, s.addr, args[0], args[1:]...)
		s.pids = nil // its connections are processes that come and go
		return starting(s, err)
	}
}

// startRabbit starts a RabbitMQ of its own. How safe it is depends on the type of its queues.
func startRabbit(ctx context.Context, b *peers, dir string) (*processes, error) {
	addrs, err := freeAddrs(ctx, 3)
	if err != nil {
		return nil, err
	}
	s := &processes{addr: addrs[0]}
	env := []string{
		"HOME=" + dir, "ERL_EPMD_PORT=" + port(addrs[2]), "ERL_EPMD_ADDRESS=127.0.0.1", "RUNNING_UNDER_SYSTEMD=1",
		"RABBITMQ_NODENAME=bench@localhost", "RABBITMQ_NODE_IP_ADDRESS=127.0.0.1", "RABBITMQ_NODE_PORT=" + port(s.addr),
		"RABBITMQ_DIST_PORT=" + port(addrs[1]), "RABBITMQ_MNESIA_BASE=" + dir, "RABBITMQ_LOG_BASE=" + dir,
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + filepath.Join(dir, "plugins"), "RABBITMQ_CONF_ENV_FILE=" + os.DevNull,
	}
	// Without one that runs already RabbitMQ would start one that stays.
	err = s.run(ctx, dir, addrs[2], b.program("epmd"), "-port", port(addrs[2]), "-address", "127.0.0.1")
	if err != nil {
		return starting(s, err)
	}
	args := append(env, b.program("rabbitmq-server"))
	return starting(s, s.run(ctx, dir, s.addr, "env", args...))
}

// startTarantool starts a plain Tarantool with a queue in Lua, in its safest form with a log that is synced.
func startTarantool(mode string) func(ctx context.Context, b *peers, dir string) (*processes, error) {
	return func(ctx context.Context, b *peers, dir string) (*processes, error) {
		addrs, err := freeAddrs(ctx, 1)
		if err != nil {
			return nil, err
		}
		s := &processes{addr: addrs[0]}
		return starting(s, s.run(ctx, dir, s.addr, "env", "LISTEN="+s.addr, "WAL_MODE="+mode,
			b.program("tarantool"), b.program("queue.lua")))
	}
}

// othersLoad is the program that makes load with the client libraries of other people.
const othersLoad = "load"

// The protocols that only that program speaks.
var (
	natsProtocol     = &bench.Protocol{Name: "nats"}
	postgresProtocol = &bench.Protocol{Name: "postgres"}
	classicProtocol  = &bench.Protocol{Name: "rabbitmq"}
	quorumProtocol   = &bench.Protocol{Name: "rabbitmq-quorum"}
)
