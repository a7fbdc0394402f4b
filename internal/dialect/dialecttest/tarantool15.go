package dialecttest

import (
	"bufio"
	"net"

	"millrace/internal/dialect"
	"millrace/internal/dialect/tarantool"
	"millrace/internal/dialect/tarantool/tarantooltest"
)

// Tarantool15 drives the legacy queue API over the protocol of Tarantool 1.5.
func Tarantool15() Driver {
	d := legacyDriver("tarantool15", func(procedure string, args ...string) []byte {
		return tarantooltest.Box15CallPacket(1, procedure, args...)
	})
	d.New = func(s Settings) dialect.Dialect {
		return tarantool.New(tarantool.Options{Options: s.Options, MaxPacket: s.MaxCommand}).Box15()
	}
	d.Client = func(conn net.Conn) (Client, error) {
		c := tarantooltest.NewBox15(conn)
		return legacyClient{c, func(procedure string, args ...string) ([]string, error) {
			rows, err := c.Call(procedure, args...)
			if err != nil || len(rows) == 0 {
				return nil, err
			}
			return rows[0].Strings(), nil
		}}, nil
	}
	d.ReadReply = func(r *bufio.Reader) (bool, error) {
		reply, err := tarantooltest.ReadBox15(r)
		if err != nil {
			return false, err
		}
		rows, err := reply.Rows()
		return err == nil && len(rows) > 0, nil
	}
	return d
}
