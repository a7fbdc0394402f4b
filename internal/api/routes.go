package api

import (
	"net/http"
	"slices"

	"millrace/internal/auth"
)

const (
	anyone   = auth.RoleNone
	reader   = auth.RoleRead
	operator = auth.RoleOperator

	notFound = http.StatusNotFound
	conflict = http.StatusConflict
	tooMany  = http.StatusTooManyRequests
	stopping = http.StatusServiceUnavailable

	pathCron = PathNamespace + "/cron/{name}"
)

// Routes are all calls of the API, in the order of its document.
var Routes = slices.Concat(
	tagged("server", serverRoutes), tagged("queues", queuesRoutes), tagged("jobs", jobsRoutes),
	tagged("bulk", bulkRoutes), tagged("workers", workersRoutes), tagged("batches", batchesRoutes),
	tagged("cron", cronRoutes), tagged("hooks", hooksRoutes), tagged("tokens", tokensRoutes),
	tagged("live", liveRoutes), tagged("health", healthRoutes), tagged("work", workRoutes), tagged("data", dataRoutes),
)

func tagged(tag string, routes []Route) []Route {
	for i := range routes {
		routes[i].Tag = tag
		if routes[i].OK == 0 {
			routes[i].OK = http.StatusOK
		}
	}
	return routes
}

// exportLines are the lines of an export.
var exportLines = Lines{
	Record{}, QueueRecord{}, HookRecord{}, BatchRecord{}, BatchEnd{}, CronRecord{}, CronEnd{}, ExportMark{},
}

var serverRoutes = []Route{
	{
		ID: "getServer", Method: http.MethodGet, Path: PathAPI + "/server",
		Role: reader, Summary: "The server itself, and the role of who asks.",
		Out: ServerInfo{}, Gives: "The server.",
	},
	{
		ID: "listConnections", Method: http.MethodGet, Path: PathAPI + "/connections",
		Role: reader, Summary: "Connections by protocol.",
		Out: ConnectionList{}, Gives: "The connections.",
	},
	{
		ID: "getStorage", Method: http.MethodGet, Path: PathAPI + "/storage",
		Role: reader, Summary: "Figures of the store.",
		Out: Storage{}, Gives: "The figures.",
	},
	{
		ID: "getSettings", Method: http.MethodGet, Path: PathAPI + "/settings",
		Role: reader, Summary: "The effective configuration.",
		Out: SettingList{}, Gives: "Every key.",
	},
	{
		ID: "getActivity", Method: http.MethodGet, Path: PathAPI + "/activity",
		Role: reader, Summary: "What operators have done lately, the newest first.",
		Out: ActivityList{}, Gives: "The last 200.",
	},
	{
		ID: "getDocument", Method: http.MethodGet, Path: "/openapi.json",
		Role: anyone, Summary: "This document.",
		Out: map[string]any{}, Gives: "The document.", Anywhere: true,
	},
	{
		ID: "getCluster", Method: http.MethodGet, Path: PathAPI + "/cluster",
		Role: reader, Summary: "The nodes of the cluster, as this node sees them. Every node answers it itself.",
		Out: ClusterStatus{}, Gives: "What this node knows about the cluster.", Refuses: []int{notFound},
		Anywhere: true,
	},
	{
		ID: "transferLeadership", Method: http.MethodPost, Path: PathAPI + "/cluster/transfer",
		Role: operator, Summary: "Have another node lead.",
		About: "It is answered before that happens; clients notice a short pause.",
		Out:   ClusterStatus{}, OK: http.StatusAccepted,
		Gives:   "Another node will lead in a moment; whoever is connected is cut off.",
		Refuses: []int{notFound, conflict},
	},
	{
		ID: "joinCluster", Method: http.MethodPost, Path: PathAPI + "/cluster/members",
		Role: operator, Summary: "Make a node a member of the cluster.",
		About: "It must run already. It is sent all data, and counts for majorities once it has that.",
		In:    ClusterMember{}, Out: ClusterStatus{}, OK: http.StatusAccepted,
		Gives: "It is a member, and gets its data.", Refuses: []int{notFound, conflict},
	},
	{
		ID: "leaveCluster", Method: http.MethodDelete, Path: PathAPI + "/cluster/members/{node}",
		Role: operator, Summary: "Take a node out of the cluster. It need not run. The leader cannot be taken out.",
		Out: ClusterStatus{}, Gives: "It is no member any more.", Refuses: []int{notFound, conflict},
	},
}

var queuesRoutes = []Route{
	{
		ID: "listNamespaces", Method: http.MethodGet, Path: PathAPI + "/namespaces",
		Role: reader, Summary: "Namespaces that have a queue.",
		Query: []any{PageOf{}}, Out: NamespacePage{}, Gives: "A page.", Refuses: []int{stopping},
	},
	{
		ID: "listQueues", Method: http.MethodGet, Path: PathAPI + "/queues",
		Role: reader, Summary: "Queues in order of namespaces and names.",
		Query: []any{QueueFilter{}, PageOf{}}, Out: QueuePage{}, Gives: "A page.", Refuses: []int{stopping},
	},
	{
		ID: "getQueue", Method: http.MethodGet, Path: PathQueue,
		Role: reader, Summary: "One queue.",
		Out: Queue{}, Gives: "The queue.", Refuses: []int{notFound, stopping},
	},
	{
		ID: "removeQueue", Method: http.MethodDelete, Path: PathQueue,
		Role: operator, Summary: "Remove a queue with all its jobs.",
		Query: []any{RemoveOptions{}}, Out: Count{}, Gives: "How many jobs went with it.",
		Refuses: []int{notFound, conflict, stopping},
	},
	{
		ID: "pauseQueue", Method: http.MethodPost, Path: PathQueue + "/pause",
		Role: operator, Summary: "Stop fetches from a queue.",
		In: PauseRequest{}, Out: Queue{}, Gives: "The queue.", Refuses: []int{notFound, stopping},
	},
	{
		ID: "resumeQueue", Method: http.MethodPost, Path: PathQueue + "/resume",
		Role: operator, Summary: "Let fetches from a queue go on.",
		Out: Queue{}, Gives: "The queue.", Refuses: []int{notFound, stopping},
	},
	{
		ID: "getLimits", Method: http.MethodGet, Path: PathQueue + "/limits",
		Role: reader, Summary: "Get the limits of a queue.",
		Out: Limits{}, Gives: "The limits.", Refuses: []int{notFound, stopping},
	},
	{
		ID: "setLimits", Method: http.MethodPut, Path: PathQueue + "/limits",
		Role: operator, Summary: "Set all limits of a queue at once. A queue that is not there is made.",
		In: Limits{}, Out: Queue{}, Gives: "The queue with its limits.", Refuses: []int{notFound, stopping},
	},
	{
		ID: "getFairness", Method: http.MethodGet, Path: PathQueue + "/fairness",
		Role: reader, Summary: "Get whether the groups of a queue take turns.",
		Out: Fairness{}, Gives: "Whether they do, and their weights.", Refuses: []int{notFound, stopping},
	},
	{
		ID: "setFairness", Method: http.MethodPut, Path: PathQueue + "/fairness",
		Role: operator, Summary: "Have the groups of a queue take turns, or not.",
		About: "A queue that is not there is made.",
		In:    Fairness{}, Out: Queue{}, Gives: "The queue.", Refuses: []int{notFound, stopping},
	},
	{
		ID: "purgeQueue", Method: http.MethodPost, Path: PathQueue + "/purge",
		Role: operator, Summary: "Remove all jobs of a queue that are in a state.",
		In: PurgeRequest{}, Out: Count{}, Gives: "How many there were.", Refuses: []int{notFound, stopping},
	},
	{
		ID: "respawnQueue", Method: http.MethodPost, Path: PathQueue + "/respawn",
		Role: operator, Summary: "Make the first dead jobs of a queue ready again, as if they were new.",
		In: RespawnRequest{}, Out: Count{}, Gives: "How many there were.",
		Refuses: []int{notFound, stopping},
	},
}

var jobsRoutes = []Route{
	{
		ID: "listJobs", Method: http.MethodGet, Path: PathAPI + "/jobs",
		Role: reader, Summary: "Jobs of every state that fit a filter.",
		About: "Each request does a bounded amount of work. One that stops early answers what it has found so " +
			"far, how far it is, and a cursor to go on with.",
		Query: []any{Filter{}, PageOf{}}, Out: JobPage{}, Gives: "A page.", Refuses: []int{stopping},
	},
	{
		ID: "getJob", Method: http.MethodGet, Path: PathJob,
		Role: reader, Summary: "Everything about a job.",
		Query: []any{inQueue{}}, Out: JobDetail{}, Gives: "The job.", Refuses: []int{notFound, stopping},
	},
	{
		ID: "getBody", Method: http.MethodGet, Path: PathJob + "/body",
		Role: reader, Summary: "The body of a job as it was pushed.",
		Query: []any{inQueue{}}, Media: "application/octet-stream", Gives: "The bytes.",
		Refuses: []int{notFound, stopping},
	},
	{
		ID: "actOnJob", Method: http.MethodPost, Path: PathJob + "/actions",
		Role: operator, Summary: "Do something to a job.",
		In: ActRequest{}, Out: Outcome{}, Gives: "It was done.",
		Refuses: []int{notFound, conflict, stopping},
	},
	{
		ID: "actOnJobs", Method: http.MethodPost, Path: PathAPI + "/actions",
		Role: operator, Summary: "Do something to several jobs.",
		In: ActAllRequest{}, Out: Outcomes{}, Gives: "What became of each.", Refuses: []int{stopping},
	},
	{
		ID: "getFailures", Method: http.MethodGet, Path: PathAPI + "/failures",
		Role: reader, Summary: "Dead and retrying jobs, grouped by type and error.",
		Query: []any{failuresOf{}}, Out: Failures{}, Gives: "The groups.", Refuses: []int{stopping},
	},
}

var bulkRoutes = []Route{
	{
		ID: "listBulk", Method: http.MethodGet, Path: PathAPI + "/bulk",
		Role: reader, Summary: "Bulk actions, the newest first.",
		Query: []any{PageOf{}}, Out: BulkPage{}, Gives: "A page.",
	},
	{
		ID: "startBulk", Method: http.MethodPost, Path: PathAPI + "/bulk",
		Role: operator, Summary: "Do something to all jobs that fit a filter.",
		About: "It concerns the jobs that are in a state to which the action applies when it begins. It runs in " +
			"small steps, survives a restart, and is forgotten a day after its end.",
		In: BulkRequest{}, Out: Bulk{}, OK: http.StatusAccepted, Gives: "It has begun.",
		Refuses: []int{tooMany, stopping}, Location: true,
	},
	{
		ID: "getBulk", Method: http.MethodGet, Path: PathAPI + "/bulk/{bulk}",
		Role: reader, Summary: "One bulk action and its progress.",
		Out: Bulk{}, Gives: "The bulk action.", Refuses: []int{notFound},
	},
	{
		ID: "forgetBulk", Method: http.MethodDelete, Path: PathAPI + "/bulk/{bulk}",
		Role: operator, Summary: "Forget a bulk action that has ended.",
		OK: http.StatusNoContent, Gives: "It is forgotten.", Refuses: []int{notFound, conflict},
	},
	{
		ID: "cancelBulk", Method: http.MethodPost, Path: PathAPI + "/bulk/{bulk}/cancel",
		Role: operator, Summary: "Stop a bulk action. What was done stays.",
		Out: Bulk{}, Gives: "The bulk action.", Refuses: []int{notFound},
	},
}

var workersRoutes = []Route{
	{
		ID: "listWorkers", Method: http.MethodGet, Path: PathAPI + "/workers",
		Role: reader, Summary: "Worker processes that have introduced themselves.",
		Query: []any{PageOf{}}, Out: WorkerPage{}, Gives: "A page.",
	},
	{
		ID: "signalWorkers", Method: http.MethodPost, Path: PathAPI + "/workers/signal",
		Role: operator, Summary: "Tell workers to be quiet or to stop.",
		In: SignalRequest{}, Out: Signalled{}, Gives: "How many were told.", Refuses: []int{notFound},
	},
}
