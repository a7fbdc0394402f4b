package api

import "net/http"

var queuesRoutes = []Route{
	{
		ID: "listNamespaces", Method: http.MethodGet, Path: PathAPI + "/namespaces",
		Role: reader, Summary: "Namespaces that have a queue.",
		Query: []any{PageOf{}}, Out: NamespacePage{}, Gives: "A page.",
	},
	{
		ID: "listQueues", Method: http.MethodGet, Path: PathAPI + "/queues",
		Role: reader, Summary: "Queues in order of namespaces and names.",
		Query: []any{QueueFilter{}, PageOf{}}, Out: QueuePage{}, Gives: "A page.",
	},
	{
		ID: "getQueue", Method: http.MethodGet, Path: PathQueue,
		Role: reader, Summary: "One queue.",
		Out: Queue{}, Gives: "The queue.", Refuses: []int{notFound},
	},
	{
		ID: "removeQueue", Method: http.MethodDelete, Path: PathQueue,
		Role: operator, Summary: "Remove a queue with all its jobs.",
		Query: []any{RemoveOptions{}}, Out: Count{}, Gives: "How many jobs went with it.",
		Refuses: []int{notFound, conflict},
	},
	{
		ID: "pauseQueue", Method: http.MethodPost, Path: PathQueue + "/pause",
		Role: operator, Summary: "Stop fetches from a queue.",
		In: PauseRequest{}, Out: Queue{}, Gives: "The queue.", Refuses: []int{notFound},
	},
	{
		ID: "resumeQueue", Method: http.MethodPost, Path: PathQueue + "/resume",
		Role: operator, Summary: "Let fetches from a queue go on.",
		Out: Queue{}, Gives: "The queue.", Refuses: []int{notFound},
	},
	{
		ID: "getLimits", Method: http.MethodGet, Path: PathQueue + "/limits",
		Role: reader, Summary: "Get the limits of a queue.",
		Out: Limits{}, Gives: "The limits.", Refuses: []int{notFound},
	},
	{
		ID: "setLimits", Method: http.MethodPut, Path: PathQueue + "/limits",
		Role: operator, Summary: "Set all limits of a queue at once. A queue that is not there is made.",
		In: Limits{}, Out: Queue{}, Gives: "The queue with its limits.", Refuses: []int{notFound},
	},
	{
		ID: "getFairness", Method: http.MethodGet, Path: PathQueue + "/fairness",
		Role: reader, Summary: "Get whether the groups of a queue take turns.",
		Out: Fairness{}, Gives: "Whether they do, and their weights.", Refuses: []int{notFound},
	},
	{
		ID: "setFairness", Method: http.MethodPut, Path: PathQueue + "/fairness",
		Role: operator, Summary: "Have the groups of a queue take turns, or not.",
		About: "A queue that is not there is made.",
		In:    Fairness{}, Out: Queue{}, Gives: "The queue.", Refuses: []int{notFound},
	},
	{
		ID: "purgeQueue", Method: http.MethodPost, Path: PathQueue + "/purge",
		Role: operator, Summary: "Remove all jobs of a queue that are in a state.",
		In: PurgeRequest{}, Out: Count{}, Gives: "How many there were.", Refuses: []int{notFound},
	},
	{
		ID: "respawnQueue", Method: http.MethodPost, Path: PathQueue + "/respawn",
		Role: operator, Summary: "Make the first dead jobs of a queue ready again, as if they were new.",
		In: RespawnRequest{}, Out: Count{}, Gives: "How many there were.",
		Refuses: []int{notFound},
	},
}

var jobsRoutes = []Route{
	{
		ID: "listJobs", Method: http.MethodGet, Path: PathAPI + "/jobs",
		Role: reader, Summary: "Jobs of every state that fit a filter.",
		About: "Each request does a bounded amount of work. One that stops early answers what it has found so " +
			"far, how far it is, and a cursor to go on with.",
		Query: []any{Filter{}, PageOf{}}, Out: JobPage{}, Gives: "A page.",
	},
	{
		ID: "getJob", Method: http.MethodGet, Path: PathJob,
		Role: reader, Summary: "Everything about a job.",
		Query: []any{inQueue{}}, Out: JobDetail{}, Gives: "The job.", Refuses: []int{notFound},
	},
	{
		ID: "getBody", Method: http.MethodGet, Path: PathJob + "/body",
		Role: reader, Summary: "The body of a job as it was pushed.",
		Query: []any{inQueue{}}, Media: "application/octet-stream", Gives: "The bytes.",
		Refuses: []int{notFound},
	},
	{
		ID: "actOnJob", Method: http.MethodPost, Path: PathJob + "/actions",
		Role: operator, Summary: "Do something to a job.",
		In: ActRequest{}, Out: Outcome{}, Gives: "It was done.",
		Refuses: []int{notFound, conflict},
	},
	{
		ID: "actOnJobs", Method: http.MethodPost, Path: PathAPI + "/actions",
		Role: operator, Summary: "Do something to several jobs.",
		In: ActAllRequest{}, Out: Outcomes{}, Gives: "What became of each.",
	},
	{
		ID: "getFailures", Method: http.MethodGet, Path: PathAPI + "/failures",
		Role: reader, Summary: "Dead and retrying jobs, grouped by type and error.",
		Query: []any{failuresOf{}}, Out: Failures{}, Gives: "The groups.",
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
		Location: true,
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

var workRoutes = []Route{
	{
		ID: "pushJobs", Method: http.MethodPost, Path: PathQueue + "/jobs",
		Role: operator, Summary: "Push jobs, each for itself.",
		In: PushRequest{}, Out: PushResult{},
		Gives:   "What became of each. If none could be pushed, the problem of the first is the answer.",
		Refuses: []int{conflict, noSpace}, Routine: true,
	},
	{
		ID: "fetchJobs", Method: http.MethodPost, Path: PathNamespace + "/fetch",
		Role: operator, Summary: "Lease jobs, or wait for one.",
		In: FetchRequest{}, Out: Work{}, Gives: "The jobs; none if there was none in time.",
		Routine: true,
	},
	{
		ID: "ackJob", Method: http.MethodPost, Path: PathJob + "/ack",
		Role: operator, Summary: "End a job with success.",
		In: AckRequest{}, Out: Settled{}, Gives: "Where it stands now.",
		Refuses: []int{notFound, conflict}, Routine: true,
	},
	{
		ID: "failJob", Method: http.MethodPost, Path: PathJob + "/fail",
		Role: operator, Summary: "End an execution without success: the job is tried again, or is dead.",
		In: FailRequest{}, Out: Settled{}, Gives: "Where it stands now.",
		Refuses: []int{notFound, conflict}, Routine: true,
	},
	{
		ID: "extendJob", Method: http.MethodPost, Path: PathJob + "/extend",
		Role: operator, Summary: "Let a lease end so long from now.",
		In: ExtendRequest{}, Out: Settled{}, Gives: "Where it stands now.",
		Refuses: []int{notFound, conflict}, Routine: true,
	},
	{
		ID: "releaseJob", Method: http.MethodPost, Path: PathJob + "/release",
		Role: operator, Summary: "Give a job back without counting a failure.",
		In: ReleaseRequest{}, Out: Settled{}, Gives: "Where it stands now.",
		Refuses: []int{notFound, conflict}, Routine: true,
	},
}

var batchesRoutes = []Route{
	{
		ID: "listBatches", Method: http.MethodGet, Path: PathAPI + "/batches",
		Role: reader, Summary: "Batches of a namespace, the oldest first.",
		Query: []any{batchesOf{}, PageOf{}}, Out: BatchPage{}, Gives: "A page.",
	},
	{
		ID: "getBatch", Method: http.MethodGet, Path: PathNamespace + "/batches/{batch}",
		Role: reader, Summary: "One batch.",
		Out: Batch{}, Gives: "The batch.", Refuses: []int{notFound},
	},
}

var cronRoutes = []Route{
	{
		ID: "listCron", Method: http.MethodGet, Path: PathAPI + "/cron",
		Role: reader, Summary: "The cron entries of a namespace or of all, by name, without bodies and runs.",
		Query: []any{ofNamespace{}}, Out: Crons{}, Gives: "All entries.",
	},
	{
		ID: "getCron", Method: http.MethodGet, Path: pathCron,
		Role: reader, Summary: "One cron entry with its last runs, the newest first.",
		Out: Cron{}, Gives: "The entry.", Refuses: []int{notFound},
	},
	{
		ID: "setCron", Method: http.MethodPut, Path: pathCron,
		Role: operator, Summary: "Make or change a cron entry.",
		About: "One that is changed keeps its runs, and its next run too unless its schedule is another.",
		In:    NewCron{}, Out: Cron{}, Gives: "The entry.", Refuses: []int{conflict, noSpace},
	},
	{
		ID: "dropCron", Method: http.MethodDelete, Path: pathCron,
		Role: operator, Summary: "Remove a cron entry. Jobs that it has pushed stay.",
		OK: http.StatusNoContent, Gives: "It is gone.", Refuses: []int{notFound, conflict},
	},
	{
		ID: "pauseCron", Method: http.MethodPost, Path: pathCron + "/pause",
		Role: operator, Summary: "Have a cron entry push no more jobs.",
		Out: Cron{}, Gives: "The entry.", Refuses: []int{notFound},
	},
	{
		ID: "resumeCron", Method: http.MethodPost, Path: pathCron + "/resume",
		Role: operator, Summary: "Have a cron entry go on from now.",
		Out: Cron{}, Gives: "The entry.", Refuses: []int{notFound},
	},
	{
		ID: "runCron", Method: http.MethodPost, Path: pathCron + "/run",
		Role: operator, Summary: "Push the job of a cron entry now, besides its schedule.",
		Out: Pushed{}, Gives: "The job.", Refuses: []int{notFound, conflict, noSpace},
	},
	{
		ID: "nextCron", Method: http.MethodGet, Path: pathCron + "/next",
		Role: reader, Summary: "When a cron entry is due next.",
		Query: []any{nextCount{}}, Out: NextRuns{}, Gives: "The next runs.",
		Refuses: []int{notFound},
	},
}

var hooksRoutes = []Route{
	{
		ID: "listHooks", Method: http.MethodGet, Path: PathAPI + "/hooks",
		Role: reader, Summary: "The hooks of a namespace or of all, by queue.",
		Query: []any{ofNamespace{}}, Out: Hooks{}, Gives: "All hooks.",
	},
	{
		ID: "getHook", Method: http.MethodGet, Path: PathQueue + "/hook",
		Role: reader, Summary: "Get the hook of a queue: what happens when a job of it dies.",
		Out: Hook{}, Gives: "The hook.", Refuses: []int{notFound},
	},
	{
		ID: "setHook", Method: http.MethodPut, Path: PathQueue + "/hook",
		Role: operator, Summary: "Set the hook of a queue, which need not be there.",
		In: NewHook{}, Out: Hook{}, Gives: "The hook.", Refuses: []int{conflict},
	},
	{
		ID: "dropHook", Method: http.MethodDelete, Path: PathQueue + "/hook",
		Role: operator, Summary: "Remove the hook of a queue. What it has pushed stays.",
		OK: http.StatusNoContent, Gives: "It is gone.", Refuses: []int{notFound, conflict},
	},
}
