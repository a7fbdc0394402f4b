package apiclient

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"millrace/internal/api"
)

func cronPath(namespace, name string) string {
	return namespacePath(namespace) + "/cron/" + api.PathSegment(name)
}

// Crons lists the cron entries of a namespace, or of all if it is empty.
func (c *Client) Crons(ctx context.Context, namespace string) (api.Crons, error) {
	return get[api.Crons](ctx, c, api.PathAPI+"/cron", given("namespace", namespace))
}

// Cron returns a cron entry.
func (c *Client) Cron(ctx context.Context, namespace, name string) (api.Cron, error) {
	return get[api.Cron](ctx, c, cronPath(namespace, name), nil)
}

// SetCron makes or changes a cron entry.
func (c *Client) SetCron(ctx context.Context, namespace, name string, n api.NewCron) (api.Cron, error) {
	return put[api.Cron](ctx, c, cronPath(namespace, name), n)
}

// DropCron removes a cron entry.
func (c *Client) DropCron(ctx context.Context, namespace, name string) error {
	return c.call(ctx, request{method: http.MethodDelete, path: cronPath(namespace, name)}, nil)
}

// PauseCron pauses a cron entry.
func (c *Client) PauseCron(ctx context.Context, namespace, name string) (api.Cron, error) {
	return post[api.Cron](ctx, c, cronPath(namespace, name)+"/pause", nil)
}

// ResumeCron has a cron entry go on.
func (c *Client) ResumeCron(ctx context.Context, namespace, name string) (api.Cron, error) {
	return post[api.Cron](ctx, c, cronPath(namespace, name)+"/resume", nil)
}

// RunCron pushes the job of a cron entry now.
func (c *Client) RunCron(ctx context.Context, namespace, name string) (api.Pushed, error) {
	return post[api.Pushed](ctx, c, cronPath(namespace, name)+"/run", nil)
}

// NextCron tells when a cron entry is due next.
func (c *Client) NextCron(ctx context.Context, namespace, name string, count int) (api.NextRuns, error) {
	return get[api.NextRuns](ctx, c, cronPath(namespace, name)+"/next", url.Values{"count": {strconv.Itoa(count)}})
}
