package metrics

import (
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"millrace/internal/auth"
	"millrace/internal/engine"
	"millrace/internal/job"
	"millrace/internal/timing"
)

// QueuesMax is how many queues have series of their own unless Options say otherwise.
const QueuesMax = 500

// Other is the label of all queues together that have no series of their own.
const Other = "__other__"

// Connections are the counters of one protocol.
type Connections struct {
	Protocol string
	Open     int64
	Total    int64
	// Rejected is how many were closed by the server before they could ask for anything, or in the middle, by reason.
	Rejected map[string]int64
}

// Options are what the collector reads. Only the engine is required.
type Options struct {
	Engine     *engine.Engine
	Version    string
	Durability string
	// QueuesMax caps the queues with series of their own; zero is QueuesMax.
	QueuesMax int
	// Connections returns the counters of each protocol, once.
	Connections func() []Connections
	// ConnectionsMax is how many all of them together may have; zero is no limit.
	ConnectionsMax int
	// Commands returns what was counted of each command of each protocol, once.
	Commands func() []Command
	// Names returns how many names of queues connections hold, may hold, and were refused.
	Names func() (held, most, refused int64)
	// Tokens returns how many tokens of clients there are and how many limits of tokens, how many of each there may be,
	// and how many were refused; nil: no protocol that has tokens is served.
	Tokens func() (tokens, limits, most int, refused uint64)
	// Logins returns how many logins failed, by what they were to open.
	Logins func() map[string]auth.LoginCounts
	// FreeBytes tells how much space is left on the disk.
	FreeBytes func() (uint64, error)
	// Recovery is how long it took to open the data.
	Recovery time.Duration
	// Ready tells whether the server can take work.
	Ready func() bool
	// DoorName names a protocol.
	DoorName func(job.Door) string
	// StatsdFailures returns how many reports to a statsd collector failed; nil: none are made.
	StatsdFailures func() uint64
	// Spans returns how many spans a collector has taken, and how many were dropped; nil: none are sent.
	Spans func() (sent, dropped uint64)
	// HookCalls returns how many calls of hooks succeeded and failed; nil: none are made. HookQueue is the namespace
	// and the name of the queue in which they wait.
	HookCalls func() (sent, failed uint64)
	HookQueue [2]string
	// Cluster tells about the cluster that the server is part of; nil: none.
	Cluster func() Cluster
}

// Cluster are the figures of this node of a cluster.
type Cluster struct {
	Leads, HasLeader     bool
	Term                 uint64
	Commit, Applied      uint64 // entries of the log
	LogBytes, LogKeep    uint64 // how long the log is, and how long it is to be
	Voids, LeaderChanges uint64
	Forwarded            int64 // connections that this node passes on
	Nodes                []ClusterNode
	// How much this node has of all data that it is sent; size 0: it is sent none.
	CatchUpReceived, CatchUpSize int64
	CatchUpSent                  uint64 // bytes of all data that it has sent to others
	// How long it took that others confirmed this node as the leader, to cut the log, and to send and to receive all
	// data.
	Confirms, Cuts, Sent, Received timing.Histogram
}

// ClusterNode is another node, as this one sees it.
type ClusterNode struct {
	Name      string
	Reachable bool
	Lag       uint64  // entries
	LagTime   float64 // seconds
	Skew      float64 // seconds
	Differ    int     // settings
}

// Handler returns what serves the metrics of the server, of its process and of its runtime.
func Handler(o Options) http.Handler {
	if o.QueuesMax <= 0 {
		o.QueuesMax = QueuesMax
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), &collector{o},
	)
	// Clients choose the names of queues. If two of them make the same series, the rest is still of use. The registry
	// counts such errors, so that a part that is missing shows.
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		EnableOpenMetrics: true, ErrorHandling: promhttp.ContinueOnError, Registry: registry,
	})
}

// collector reads everything when it is asked.
type collector struct{ Options }

// Describe tells the names of all metrics.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range described {
		ch <- d
	}
}

// described are all metrics of the server.
var described []*prometheus.Desc

// desc describes a metric of the server.
func desc(name, help string, labels ...string) *prometheus.Desc {
	d := prometheus.NewDesc("millrace_"+name, help, labels, nil)
	described = append(described, d)
	return d
}

var (
	descBuild = desc("build_info", "Always 1, labelled by what runs.", "version", "go", "durability")
	descReady = desc("ready", "Whether the server can take work.")

	descConnections      = desc("connections", "Open connections.", "protocol")
	descConnectionsTotal = desc("connections_total", "Connections accepted since the start.", "protocol")
	descConnectionsMax   = desc("connections_limit",
		"How many connections all listeners together may have, which follows from the limit of open files; none if "+
			"there is no limit.")
	descRejected = desc("connections_rejected_total",
		"Connections that the server closed: limit: there were too many; files: all listeners together had as many "+
			"as the limit of open files allows; "+
			"tls: no TLS session came about; input: all connections together had sent too much of unfinished "+
			"requests; slow: a request did not arrive in time; "+
			"foreign: the client spoke another protocol, as a browser does for a web page.",
		"protocol", "reason")

	descNames = desc("connection_names",
		"Queues that connections have chosen to get jobs from, each counted for each connection, beyond one of each.")
	descNamesMax     = desc("connection_names_limit", "How many of them there may be.")
	descNamesRefused = desc("connection_names_refused_total",
		"Choices refused since the start because there were too many.")

	descTokens        = desc("tokens", "Tokens of clients, and those of them that have limits.", "kind")
	descTokensMax     = desc("tokens_limit", "How many there may be of each kind.")
	descTokensRefused = desc("tokens_refused_total", "Tokens and limits refused since the start: there were too many.")

	descLogins = desc("logins_refused_total",
		"Logins that failed: wrong: the password or token was wrong; limited: it was not looked at, because too many "+
			"wrong ones had come from the same address.",
		"protocol", "reason")

	descWaiters   = desc("engine_waiters", "Callers that wait for a job, a result or room.")
	descWaitNames = desc("engine_waiting_names",
		"Queues that calls for a job wait on which name more than 16, each counted for each call.")
	descWaiterBytes    = desc("engine_waiter_bytes", "Memory that callers hold while they wait, about.")
	descWaitersMax     = desc("engine_waiters_limit", "How many callers may wait at a time.")
	descWaiterBytesMax = desc("engine_waiter_bytes_limit", "How much memory they may hold.")
	descKept           = desc("engine_kept_holders",
		"Holders that keep their jobs over a restart, as sessions with a grace do.")
	descKeptMax       = desc("engine_kept_holders_limit", "How many of them there may be.")
	descQueuesMax     = desc("queues_limit", "How many queues there may be.")
	descQueuesRefused = desc("queues_refused_total",
		"Commands refused since the start because they would have made one queue too many.")
	descWaitsRefused = desc("engine_waits_refused_total",
		"Calls refused since the start because too many were waiting.")
	descRefused   = desc("pushes_refused_total", "Pushes refused since the start.", "reason")
	descCommits   = desc("store_commits_total", "Batches committed since the start.")
	descCommitted = desc("store_commit_requests_total",
		"Requests answered by the batches committed since the start.")

	descCommitBytes = desc("store_committed_bytes_total", "Bytes committed since the start.")
	descFsync       = desc("store_fsync_seconds", "How long syncs of the log took, with the write.")
	descFsyncMax    = desc("store_fsync_max_seconds", "The slowest sync since the start.")
	descBytes       = desc("store_bytes", "Bytes by where they are.", "kind")
	descFree        = desc("store_disk_free_bytes", "Space left on the disk that holds the data.")
	descStalls      = desc("store_write_stalls_total", "How often writers had to wait for compaction.")
	descStallTime   = desc("store_write_stall_seconds_total", "How long writers had to wait for compaction.")
	descCompactions = desc("store_compactions_total", "Compactions since the start.")
	descFlushes     = desc("store_flushes_total", "Flushes since the start.")
	descDebt        = desc("store_compaction_debt_bytes", "Bytes that compaction still has to rewrite.")
	descReadAmp     = desc("store_read_amplification", "Sorted runs that a scan has to merge.")
	descTables      = desc("store_tables", "Files of sorted data.")
	descTombstones  = desc("store_tombstones", "Deletions that still occupy space.")
	descErrors      = desc("store_background_errors_total", "Flushes and compactions that went wrong. The "+
		"server stops after the first.")
	descCacheHits   = desc("store_cache_hits_total", "Blocks found in the cache.")
	descCacheMisses = desc("store_cache_misses_total", "Blocks read from the disk.")
	descRecovery    = desc("store_recovery_seconds", "How long it took to open the data.")
	descStatsd      = desc("statsd_failures_total",
		"Reports to the statsd collector that were not sent as a whole; only if statsd.addr is set.")
	descSpans = desc("otlp_spans_total",
		"Spans that the OpenTelemetry collector has taken, and those that were dropped; only if otlp.endpoint "+
			"is set.", "result")
	descCorruptions = desc("store_corruptions_total", "Reads that met damaged data. The server stops after the first.")
)

// Collect reads everything.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	gauge(descBuild, 1, c.Version, runtime.Version(), c.Durability)
	if c.Ready != nil {
		gauge(descReady, boolean(c.Ready()))
	}
	if c.Connections != nil {
		for _, n := range c.Connections() {
			gauge(descConnections, float64(n.Open), n.Protocol)
			counter(descConnectionsTotal, float64(n.Total), n.Protocol)
			for reason, rejected := range n.Rejected {
				counter(descRejected, float64(rejected), n.Protocol, reason)
			}
		}
	}
	if c.Names != nil {
		held, most, refused := c.Names()
		gauge(descNames, float64(held))
		gauge(descNamesMax, float64(most))
		counter(descNamesRefused, float64(refused))
	}
	if c.Tokens != nil {
		tokens, limits, most, refused := c.Tokens()
		gauge(descTokens, float64(tokens), "token")
		gauge(descTokens, float64(limits), "limit")
		gauge(descTokensMax, float64(most))
		counter(descTokensRefused, float64(refused))
	}
	if c.Logins != nil {
		for protocol, n := range c.Logins() {
			counter(descLogins, float64(n.Wrong), protocol, "wrong")
			counter(descLogins, float64(n.Limited), protocol, "limited")
		}
	}
	if c.ConnectionsMax > 0 {
		gauge(descConnectionsMax, float64(c.ConnectionsMax))
	}
	if c.Cluster != nil {
		c.collectCluster(ch, gauge, counter)
	}
	if c.Engine == nil { // of a node that does not lead
		return
	}
	if c.StatsdFailures != nil {
		counter(descStatsd, float64(c.StatsdFailures()))
	}
	en, st := c.Engine.Stats(), c.Engine.StoreStats()
	gauge(descWaiters, float64(en.Waiters))
	gauge(descWaitNames, float64(en.Names))
	gauge(descWaiterBytes, float64(en.WaiterBytes))
	gauge(descWaitersMax, float64(en.WaitersMax))
	gauge(descWaiterBytesMax, float64(en.WaiterBytesMax))
	gauge(descKept, float64(en.KeptHolders))
	gauge(descKeptMax, float64(en.KeptHoldersMax))
	gauge(descQueuesMax, float64(en.QueuesMax))
	counter(descQueuesRefused, float64(en.QueuesRefused))
	counter(descWaitsRefused, float64(en.WaitsRefused))
	counter(descRefused, float64(en.Refused), "no_space")
	counter(descCommits, float64(en.Commits))
	counter(descCommitted, float64(en.Batched))
	counter(descCommitBytes, float64(st.CommittedBytes))
	ch <- durations(descFsync, &st.Syncs, commandPowers)
	gauge(descFsyncMax, st.SyncMax.Seconds())
	gauge(descBytes, float64(st.DiskBytes), "disk")
	gauge(descBytes, float64(st.WALBytes), "log")
	gauge(descBytes, float64(st.MemTableBytes), "memtable")
	gauge(descBytes, float64(st.CacheBytes), "cache")
	counter(descStalls, float64(st.WriteStalls))
	counter(descStallTime, st.WriteStallTime.Seconds())
	counter(descCompactions, float64(st.Compactions))
	counter(descFlushes, float64(st.Flushes))
	gauge(descDebt, float64(st.CompactionDebt))
	gauge(descReadAmp, float64(st.ReadAmp))
	gauge(descTables, float64(st.Tables))
	gauge(descTombstones, float64(st.Tombstones))
	counter(descErrors, float64(st.BackgroundErrors))
	counter(descCorruptions, float64(st.Corruptions))
	counter(descCacheHits, float64(st.CacheHits))
	counter(descCacheMisses, float64(st.CacheMisses))
	gauge(descRecovery, c.Recovery.Seconds())
	if c.FreeBytes != nil {
		if free, err := c.FreeBytes(); err == nil {
			gauge(descFree, float64(free))
		}
	}
	if c.Spans != nil {
		sent, dropped := c.Spans()
		counter(descSpans, float64(sent), "sent")
		counter(descSpans, float64(dropped), "dropped")
	}
	if c.HookCalls != nil {
		c.hooks(ch)
	}
	c.commands(ch)
	c.queues(ch)
	c.cron(ch)
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
