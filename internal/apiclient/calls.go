package apiclient

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"millrace/internal/api"
	"millrace/internal/job"
)

func queuePath(namespace, queue string) string {
	return namespacePath(namespace) + "/queues/" + api.PathSegment(queue)
}

func namespacePath(namespace string) string {
	return api.PathAPI + "/namespaces/" + api.PathSegment(namespace)
}

func jobPath(namespace string, id job.ID) string {
	return namespacePath(namespace) + "/jobs/" + strconv.FormatUint(uint64(id), 10)
}

// given makes a query of names and values, without the values that are empty.
func given(pairs ...string) url.Values {
	q := url.Values{}
	for pair := range slices.Chunk(pairs, 2) {
		if pair[1] != "" {
			q.Set(pair[0], pair[1])
		}
	}
	return q
}

// flag is the value of a parameter that is only there if it is true.
func flag(on bool) string {
	if on {
		return "true"
	}
	return ""
}

// pageQuery adds which part of a list is wanted.
func pageQuery(q url.Values, p api.PageOf) url.Values {
	if q == nil {
		q = url.Values{}
	}
	if p.Cursor != "" {
		q.Set("cursor", p.Cursor)
	}
	if p.Limit > 0 {
		q.Set("limit", strconv.Itoa(p.Limit))
	}
	return q
}

// Server returns what is known about the server itself.
func (c *Client) Server(ctx context.Context) (api.ServerInfo, error) {
	return get[api.ServerInfo](ctx, c, api.PathAPI+"/server", nil)
}

// Live returns the latest sample of what happens.
func (c *Client) Live(ctx context.Context) (api.Sample, error) {
	return get[api.Sample](ctx, c, api.PathAPI+"/live", nil)
}

// Cluster returns what the server knows about its cluster.
func (c *Client) Cluster(ctx context.Context) (api.ClusterStatus, error) {
	return get[api.ClusterStatus](ctx, c, api.PathAPI+"/cluster", nil)
}

// Transfer has another node lead.
func (c *Client) Transfer(ctx context.Context) (api.ClusterStatus, error) {
	return post[api.ClusterStatus](ctx, c, api.PathAPI+"/cluster/transfer", nil)
}

// Join makes a node a member of the cluster.
func (c *Client) Join(ctx context.Context, m api.ClusterMember) (api.ClusterStatus, error) {
	return post[api.ClusterStatus](ctx, c, api.PathAPI+"/cluster/members", m)
}

// RemoveNode takes a node out of the cluster.
func (c *Client) RemoveNode(ctx context.Context, name string) (api.ClusterStatus, error) {
	path := api.PathAPI + "/cluster/members/" + api.PathSegment(name)
	return answer[api.ClusterStatus](ctx, c, request{method: http.MethodDelete, path: path})
}

// Failures returns what has failed, grouped: in one queue, in a namespace or with empty names in all.
func (c *Client) Failures(ctx context.Context, namespace, queue string) (api.Failures, error) {
	return get[api.Failures](ctx, c, api.PathAPI+"/failures", given("namespace", namespace, "queue", queue))
}

// Types returns the figures of types of jobs in a period, or with none since the server was started.
func (c *Client) Types(ctx context.Context, period string) (api.Types, error) {
	return get[api.Types](ctx, c, api.PathAPI+"/types", given("period", period))
}

// Activity returns what operators have done lately, the newest first.
func (c *Client) Activity(ctx context.Context) (api.ActivityList, error) {
	return get[api.ActivityList](ctx, c, api.PathAPI+"/activity", nil)
}

// Queues lists queues.
func (c *Client) Queues(ctx context.Context, f api.QueueFilter, page api.PageOf) (api.QueuePage, error) {
	q := given("namespace", f.Namespace, "name", f.Name)
	return get[api.QueuePage](ctx, c, api.PathAPI+"/queues", pageQuery(q, page))
}

// Queue returns what is known about a queue.
func (c *Client) Queue(ctx context.Context, namespace, queue string) (api.Queue, error) {
	return get[api.Queue](ctx, c, queuePath(namespace, queue), nil)
}

// Pause stops fetches from a queue, for some time or with zero until it is resumed.
func (c *Client) Pause(ctx context.Context, namespace, queue string, limit time.Duration) (api.Queue, error) {
	return post[api.Queue](ctx, c, queuePath(namespace, queue)+"/pause", api.PauseRequest{Seconds: limit.Seconds()})
}

// Resume lets fetches from a queue go on.
func (c *Client) Resume(ctx context.Context, namespace, queue string) (api.Queue, error) {
	return post[api.Queue](ctx, c, queuePath(namespace, queue)+"/resume", nil)
}

// Limits returns the limits of a queue.
func (c *Client) Limits(ctx context.Context, namespace, queue string) (api.Limits, error) {
	return get[api.Limits](ctx, c, queuePath(namespace, queue)+"/limits", nil)
}

// SetLimits sets all limits of a queue at once.
func (c *Client) SetLimits(ctx context.Context, namespace, queue string, l api.Limits) (api.Queue, error) {
	return put[api.Queue](ctx, c, queuePath(namespace, queue)+"/limits", l)
}

// Hook returns the hook of a queue.
func (c *Client) Hook(ctx context.Context, namespace, queue string) (api.Hook, error) {
	return get[api.Hook](ctx, c, queuePath(namespace, queue)+"/hook", nil)
}

// SetHook sets the hook of a queue.
func (c *Client) SetHook(ctx context.Context, namespace, queue string, h api.NewHook) (api.Hook, error) {
	return put[api.Hook](ctx, c, queuePath(namespace, queue)+"/hook", h)
}

// DropHook removes the hook of a queue.
func (c *Client) DropHook(ctx context.Context, namespace, queue string) error {
	return c.call(ctx, request{method: http.MethodDelete, path: queuePath(namespace, queue) + "/hook"}, nil)
}

// Fairness returns whether the groups of a queue take turns.
func (c *Client) Fairness(ctx context.Context, namespace, queue string) (api.Fairness, error) {
	return get[api.Fairness](ctx, c, queuePath(namespace, queue)+"/fairness", nil)
}

// SetFairness has the groups of a queue take turns, or not.
func (c *Client) SetFairness(ctx context.Context, namespace, queue string, f api.Fairness) (api.Queue, error) {
	return put[api.Queue](ctx, c, queuePath(namespace, queue)+"/fairness", f)
}

// Purge removes all jobs of a queue that are in a state.
func (c *Client) Purge(ctx context.Context, namespace, queue, state string) (api.Count, error) {
	return post[api.Count](ctx, c, queuePath(namespace, queue)+"/purge", api.PurgeRequest{State: state})
}

// RemoveQueue removes a queue with all its jobs.
func (c *Client) RemoveQueue(ctx context.Context, namespace, queue string, o api.RemoveOptions) (api.Count, error) {
	q := given("if_idle", flag(o.IfIdle), "keep", flag(o.Keep))
	return answer[api.Count](ctx, c, request{method: http.MethodDelete, path: queuePath(namespace, queue), query: q})
}

// Jobs lists the jobs that fit a filter.
func (c *Client) Jobs(ctx context.Context, f api.Filter, page api.PageOf) (api.JobPage, error) {
	return get[api.JobPage](ctx, c, api.PathAPI+"/jobs", pageQuery(f.Query(), page))
}

// Job returns everything about a job. The queue may be empty.
func (c *Client) Job(ctx context.Context, namespace, queue string, id job.ID) (api.JobDetail, error) {
	return get[api.JobDetail](ctx, c, jobPath(namespace, id), given("queue", queue))
}

// Body opens the body of a job as it was pushed. Whoever opens it closes it.
func (c *Client) Body(ctx context.Context, namespace, queue string, id job.ID) (io.ReadCloser, error) {
	resp, err := c.send(ctx, request{
		method: http.MethodGet, path: jobPath(namespace, id) + "/body",
		query: given("queue", queue),
	})
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// ActAll does the same to several jobs and tells of each what became of it.
func (c *Client) ActAll(ctx context.Context, a api.Action, targets []api.Target, with api.With) ([]api.Outcome, error) {
	out, err := post[api.Outcomes](ctx, c, api.PathAPI+"/actions",
		api.ActAllRequest{Action: a, With: with, Jobs: targets})
	return out.Jobs, err
}

// StartBulk begins an action on all jobs that fit a filter.
func (c *Client) StartBulk(ctx context.Context, a api.Action, f api.Filter, with api.With) (api.Bulk, error) {
	return post[api.Bulk](ctx, c, api.PathAPI+"/bulk", api.BulkRequest{Action: a, With: with, Filter: f})
}

// Bulk returns how far a bulk action is.
func (c *Client) Bulk(ctx context.Context, id string) (api.Bulk, error) {
	return get[api.Bulk](ctx, c, api.PathAPI+"/bulk/"+api.PathSegment(id), nil)
}

// CancelBulk stops a bulk action.
func (c *Client) CancelBulk(ctx context.Context, id string) (api.Bulk, error) {
	return post[api.Bulk](ctx, c, api.PathAPI+"/bulk/"+api.PathSegment(id)+"/cancel", nil)
}

// Push pushes jobs to a queue and tells of each what became of it.
func (c *Client) Push(ctx context.Context, namespace, queue string, jobs []*api.NewJob) (api.PushResult, error) {
	return post[api.PushResult](ctx, c, queuePath(namespace, queue)+"/jobs", api.PushRequest{Jobs: jobs})
}

// Fetch leases jobs, or waits for one.
func (c *Client) Fetch(ctx context.Context, o api.FetchOptions) (api.Work, error) {
	return post[api.Work](ctx, c, namespacePath(o.Namespace)+"/fetch", api.FetchRequest{
		Queues: o.Queues, Max: o.Max, Wait: o.Wait.Seconds(), Lease: o.Lease.Seconds(),
		Holder: o.Holder, Worker: o.Worker,
	})
}

func heldBy(at api.Held) api.HeldBy { return api.HeldBy{Queue: at.Queue, Holder: at.Holder} }

func (c *Client) settle(ctx context.Context, at api.Held, verb string, in any) (api.Settled, error) {
	return post[api.Settled](ctx, c, jobPath(at.Namespace, at.ID)+"/"+verb, in)
}

// Ack ends a job with success. The result is kept if the job is; nil is none.
func (c *Client) Ack(ctx context.Context, at api.Held, result []byte) (api.Settled, error) {
	return c.settle(ctx, at, "ack", api.AckRequest{HeldBy: heldBy(at), ResultBase64: result})
}

// Fail ends a job's execution without success.
func (c *Client) Fail(ctx context.Context, at api.Held, f api.Failed) (api.Settled, error) {
	return c.settle(ctx, at, "fail", api.FailRequest{HeldBy: heldBy(at), Failed: f})
}

// Extend lets a lease end so long from now.
func (c *Client) Extend(ctx context.Context, at api.Held, lease time.Duration) (api.Settled, error) {
	return c.settle(ctx, at, "extend", api.ExtendRequest{HeldBy: heldBy(at), Lease: lease.Seconds()})
}

// Release gives a job back without counting a failure.
func (c *Client) Release(ctx context.Context, at api.Held, delay time.Duration) (api.Settled, error) {
	return c.settle(ctx, at, "release", api.ReleaseRequest{HeldBy: heldBy(at), Delay: delay.Seconds()})
}

// Backup has the server write a copy of its data to a directory of its machine.
func (c *Client) Backup(ctx context.Context, dir string) (api.Backup, error) {
	return post[api.Backup](ctx, c, api.PathAPI+"/backups", api.BackupRequest{Dir: dir})
}

// Storage asks for the figures of the store.
func (c *Client) Storage(ctx context.Context) (api.Storage, error) {
	return get[api.Storage](ctx, c, api.PathAPI+"/storage", nil)
}

// Export opens a stream of JSON lines, from a cursor on. Whoever opens it closes it.
func (c *Client) Export(ctx context.Context, f api.Filter, cursor string) (io.ReadCloser, error) {
	q := pageQuery(f.Query(), api.PageOf{Cursor: cursor})
	resp, err := c.send(ctx, request{method: http.MethodGet, path: api.PathAPI + "/export", query: q})
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// Import imports lines of an export.
func (c *Client) Import(ctx context.Context, o api.ImportOptions, lines []byte) (api.ImportResult, error) {
	return answer[api.ImportResult](ctx, c, request{
		method: http.MethodPost, path: importPath(o.Token), body: lines, media: api.MediaLines,
		query: given("line", strconv.FormatUint(o.Line, 10), "duplicates", flag(o.Duplicates)),
	})
}

// ImportMark returns how far an import is; line 0 for one that is not known.
func (c *Client) ImportMark(ctx context.Context, token string) (api.ImportMark, error) {
	return get[api.ImportMark](ctx, c, importPath(token), nil)
}

func importPath(token string) string { return api.PathAPI + "/imports/" + api.PathSegment(token) }

// Workers lists worker processes.
func (c *Client) Workers(ctx context.Context, page api.PageOf) (api.WorkerPage, error) {
	return get[api.WorkerPage](ctx, c, api.PathAPI+"/workers", pageQuery(url.Values{}, page))
}

// SignalWorkers tells a worker, or with an empty id all of them, to be quiet or to stop. It returns how many there are.
func (c *Client) SignalWorkers(ctx context.Context, namespace, id string, s api.Signal) (int, error) {
	out, err := post[api.Signalled](ctx, c, api.PathAPI+"/workers/signal",
		api.SignalRequest{Signal: s, Namespace: namespace, ID: id})
	return out.Workers, err
}

// Tokens lists tokens.
func (c *Client) Tokens(ctx context.Context, page api.PageOf) (api.TokenPage, error) {
	return get[api.TokenPage](ctx, c, api.PathAPI+"/tokens", pageQuery(url.Values{}, page))
}

// AddToken makes a token.
func (c *Client) AddToken(ctx context.Context, o api.TokenOptions) (api.NewToken, error) {
	return post[api.NewToken](ctx, c, api.PathAPI+"/tokens", o)
}

// DropToken removes a token.
func (c *Client) DropToken(ctx context.Context, id string) error {
	return c.call(ctx, request{method: http.MethodDelete, path: api.PathAPI + "/tokens/" + api.PathSegment(id)}, nil)
}

// Batches lists the batches of a namespace.
func (c *Client) Batches(ctx context.Context, namespace string, page api.PageOf) (api.BatchPage, error) {
	return get[api.BatchPage](ctx, c, api.PathAPI+"/batches", pageQuery(url.Values{"namespace": {namespace}}, page))
}

// Batch returns what is known about a batch.
func (c *Client) Batch(ctx context.Context, namespace string, id uint64) (api.Batch, error) {
	return get[api.Batch](ctx, c, namespacePath(namespace)+"/batches/"+strconv.FormatUint(id, 10), nil)
}

// Bulks lists bulk actions.
func (c *Client) Bulks(ctx context.Context, page api.PageOf) (api.BulkPage, error) {
	return get[api.BulkPage](ctx, c, api.PathAPI+"/bulk", pageQuery(url.Values{}, page))
}

// Migrate has the server take over what another one had, one line of JSON each.
func (c *Client) Migrate(ctx context.Context, o api.MigrationOptions, lines []byte) (api.MigrationResult, error) {
	return answer[api.MigrationResult](ctx, c, request{
		method: http.MethodPost, path: migrationPath(o.Source), body: lines, media: api.MediaLines,
		query: given("protocol", o.Protocol, "namespace", o.Namespace, "dry_run", flag(o.DryRun)),
	})
}

// Migrations lists the sources of which something has arrived.
func (c *Client) Migrations(ctx context.Context) (api.MigrationList, error) {
	return get[api.MigrationList](ctx, c, api.PathAPI+"/migrations", nil)
}

// ForgetMigration has the server forget some of what has arrived from a source. It reports whether that was all.
func (c *Client) ForgetMigration(ctx context.Context, source string) (bool, error) {
	out, err := answer[api.Forgotten](ctx, c, request{method: http.MethodDelete, path: migrationPath(source)})
	return out.Done, err
}

func migrationPath(source string) string {
	return api.PathAPI + "/migrations/" + api.PathSegment(source)
}
