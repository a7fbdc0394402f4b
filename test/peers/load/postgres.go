package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"millrace/internal/bench"
	"millrace/internal/wire"
)

// pollEvery is how often a worker looks for a job again when there was none.
const pollEvery = 5 * time.Millisecond

// postgresClient uses a table as a queue, as most libraries do: a worker marks the first row that nobody has locked.
type postgresClient struct {
	client
	conn            *pgx.Conn
	push, take, ack string
}

func dialPostgres(o bench.DialOptions) (wire.Client, error) {
	c := &postgresClient{client: newClient()}
	var err error
	if c.conn, err = pgx.Connect(c.ctx, "postgres://bench@"+o.Addr+"/postgres?sslmode=disable"); err != nil {
		return nil, err
	}
	table := pgx.Identifier{o.Queue}.Sanitize()
	c.push = "INSERT INTO " + table + " (body) VALUES ($1)"
	c.take = fmt.Sprintf("UPDATE %s SET taken = now() WHERE id = (SELECT id FROM %s WHERE taken IS NULL ORDER BY id "+
		"LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id, body", table, table)
	c.ack = "DELETE FROM " + table + " WHERE id = $1"
	// One connection makes the table, and the others wait for it.
	_, err = c.conn.Exec(c.ctx, fmt.Sprintf("BEGIN; SELECT pg_advisory_xact_lock(1); "+
		"CREATE TABLE IF NOT EXISTS %s (id bigserial PRIMARY KEY, body bytea NOT NULL, taken timestamptz); "+
		"CREATE INDEX IF NOT EXISTS %s ON %s (id) WHERE taken IS NULL; COMMIT",
		table, pgx.Identifier{o.Queue + "_ready"}.Sanitize(), table), pgx.QueryExecModeSimpleProtocol)
	return c, err
}

// Push implements wire.Client.
func (c *postgresClient) Push(_ string, jobs ...wire.Job) error {
	for _, j := range jobs {
		if _, err := c.conn.Exec(c.ctx, c.push, j.Body); err != nil {
			return err
		}
	}
	return nil
}

// Fetch implements wire.Client.
func (c *postgresClient) Fetch(_ string, wait time.Duration) (wire.Fetched, bool, error) {
	for began := time.Now(); ; {
		var id int64
		var body []byte
		err := c.conn.QueryRow(context.WithoutCancel(c.ctx), c.take).Scan(&id, &body)
		if err == nil {
			return wire.Fetched{ID: strconv.AppendInt(nil, id, 10), Body: body}, true, nil
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return wire.Fetched{}, false, err
		}
		select {
		case <-time.After(pollEvery):
		case <-c.ctx.Done():
			wait = 0
		}
		if time.Since(began) >= wait {
			return wire.Fetched{}, false, nil
		}
	}
}

// Ack implements wire.Client.
func (c *postgresClient) Ack(_ string, id []byte) error {
	n, err := strconv.ParseInt(string(id), 10, 64)
	if err != nil {
		return err
	}
	_, err = c.conn.Exec(context.WithoutCancel(c.ctx), c.ack, n)
	return err
}

// Close implements wire.Client.
func (c *postgresClient) Close() error { return c.conn.Close(context.WithoutCancel(c.ctx)) }
