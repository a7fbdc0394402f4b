package api

import "net/http"

var workRoutes = []Route{
	{
		ID: "pushJobs", Method: http.MethodPost, Path: PathQueue + "/jobs",
		Role: operator, Summary: "Push jobs, each for itself.",
		In: PushRequest{}, Out: PushResult{},
		Gives:   "What became of each. If none could be pushed, the problem of the first is the answer.",
		Refuses: []int{conflict, stopping}, Routine: true,
	},
	{
		ID: "fetchJobs", Method: http.MethodPost, Path: PathNamespace + "/fetch",
		Role: operator, Summary: "Lease jobs, or wait for one.",
		In: FetchRequest{}, Out: Work{}, Gives: "The jobs; none if there was none in time.",
		Refuses: []int{stopping}, Routine: true,
	},
	{
		ID: "ackJob", Method: http.MethodPost, Path: PathJob + "/ack",
		Role: operator, Summary: "End a job with success.",
		In: AckRequest{}, Out: Settled{}, Gives: "Where it stands now.",
		Refuses: []int{notFound, conflict, stopping}, Routine: true,
	},
	{
		ID: "failJob", Method: http.MethodPost, Path: PathJob + "/fail",
		Role: operator, Summary: "End an execution without success: the job is tried again, or is dead.",
		In: FailRequest{}, Out: Settled{}, Gives: "Where it stands now.",
		Refuses: []int{notFound, conflict, stopping}, Routine: true,
	},
	{
		ID: "extendJob", Method: http.MethodPost, Path: PathJob + "/extend",
		Role: operator, Summary: "Let a lease end so long from now.",
		In: ExtendRequest{}, Out: Settled{}, Gives: "Where it stands now.",
		Refuses: []int{notFound, conflict, stopping}, Routine: true,
	},
	{
		ID: "releaseJob", Method: http.MethodPost, Path: PathJob + "/release",
		Role: operator, Summary: "Give a job back without counting a failure.",
		In: ReleaseRequest{}, Out: Settled{}, Gives: "Where it stands now.",
		Refuses: []int{notFound, conflict, stopping}, Routine: true,
	},
}

var batchesRoutes = []Route{
	{
		ID: "listBatches", Method: http.MethodGet, Path: PathAPI + "/batches",
		Role: reader, Summary: "Batches of a namespace, the oldest first.",
		Query: []any{batchesOf{}, PageOf{}}, Out: BatchPage{}, Gives: "A page.", Refuses: []int{stopping},
	},
	{
		ID: "getBatch", Method: http.MethodGet, Path: PathNamespace + "/batches/{batch}",
		Role: reader, Summary: "One batch.",
		Out: Batch{}, Gives: "The batch.", Refuses: []int{notFound, stopping},
	},
}

var cronRoutes = []Route{
	{
		ID: "listCron", Method: http.MethodGet, Path: PathAPI + "/cron",
		Role: reader, Summary: "The cron entries of a namespace or of all, by name, without bodies and runs.",
		Query: []any{ofNamespace{}}, Out: Crons{}, Gives: "All entries.", Refuses: []int{stopping},
	},
	{
		ID: "getCron", Method: http.MethodGet, Path: pathCron,
		Role: reader, Summary: "One cron entry with its last runs, the newest first.",
		Out: Cron{}, Gives: "The entry.", Refuses: []int{notFound, stopping},
	},
	{
		ID: "setCron", Method: http.MethodPut, Path: pathCron,
		Role: operator, Summary: "Make or change a cron entry.",
		About: "One that is changed keeps its runs, and its next run too unless its schedule is another.",
		In:    NewCron{}, Out: Cron{}, Gives: "The entry.", Refuses: []int{conflict, stopping},
	},
	{
		ID: "dropCron", Method: http.MethodDelete, Path: pathCron,
		Role: operator, Summary: "Remove a cron entry. Jobs that it has pushed stay.",
		OK: http.StatusNoContent, Gives: "It is gone.", Refuses: []int{notFound, conflict, stopping},
	},
	{
		ID: "pauseCron", Method: http.MethodPost, Path: pathCron + "/pause",
		Role: operator, Summary: "Have a cron entry push no more jobs.",
		Out: Cron{}, Gives: "The entry.", Refuses: []int{notFound, stopping},
	},
	{
		ID: "resumeCron", Method: http.MethodPost, Path: pathCron + "/resume",
		Role: operator, Summary: "Have a cron entry go on from now.",
		Out: Cron{}, Gives: "The entry.", Refuses: []int{notFound, stopping},
	},
	{
		ID: "runCron", Method: http.MethodPost, Path: pathCron + "/run",
		Role: operator, Summary: "Push the job of a cron entry now, besides its schedule.",
		Out: Pushed{}, Gives: "The job.", Refuses: []int{notFound, conflict, stopping},
	},
	{
		ID: "nextCron", Method: http.MethodGet, Path: pathCron + "/next",
		Role: reader, Summary: "When a cron entry is due next.",
		Query: []any{nextCount{}}, Out: NextRuns{}, Gives: "The next runs.",
		Refuses: []int{notFound, stopping},
	},
}

var hooksRoutes = []Route{
	{
		ID: "listHooks", Method: http.MethodGet, Path: PathAPI + "/hooks",
		Role: reader, Summary: "The hooks of a namespace or of all, by queue.",
		Query: []any{ofNamespace{}}, Out: Hooks{}, Gives: "All hooks.", Refuses: []int{stopping},
	},
	{
		ID: "getHook", Method: http.MethodGet, Path: PathQueue + "/hook",
		Role: reader, Summary: "Get the hook of a queue: what happens when a job of it dies.",
		Out: Hook{}, Gives: "The hook.", Refuses: []int{notFound, stopping},
	},
	{
		ID: "setHook", Method: http.MethodPut, Path: PathQueue + "/hook",
		Role: operator, Summary: "Set the hook of a queue, which need not be there.",
		In: NewHook{}, Out: Hook{}, Gives: "The hook.", Refuses: []int{conflict, stopping},
	},
	{
		ID: "dropHook", Method: http.MethodDelete, Path: PathQueue + "/hook",
		Role: operator, Summary: "Remove the hook of a queue. What it has pushed stays.",
		OK: http.StatusNoContent, Gives: "It is gone.", Refuses: []int{notFound, conflict, stopping},
	},
}

var tokensRoutes = []Route{
	{
		ID: "listTokens", Method: http.MethodGet, Path: PathAPI + "/tokens",
		Role: reader, Summary: "Tokens of clients and their limits, masked.",
		Query: []any{TokenFilter{}, PageOf{}}, Out: TokenPage{}, Gives: "A part of the list.",
		Refuses: []int{stopping},
	},
	{
		ID: "addToken", Method: http.MethodPost, Path: PathAPI + "/tokens",
		Role: operator, Summary: "Make a token.",
		In: TokenOptions{}, Out: NewToken{}, OK: http.StatusCreated, Gives: "It was made.",
		Refuses: []int{conflict, stopping}, Location: true,
	},
	{
		ID: "getToken", Method: http.MethodGet, Path: PathAPI + "/tokens/{token}",
		Role: reader, Summary: "One token and its limits.",
		Out: Token{}, Gives: "The token, masked.", Refuses: []int{notFound, stopping},
	},
	{
		ID: "dropToken", Method: http.MethodDelete, Path: PathAPI + "/tokens/{token}",
		Role: operator, Summary: "Remove a token with its limits: who uses it is refused from now on.",
		OK: http.StatusNoContent, Gives: "It is gone.", Refuses: []int{notFound, stopping},
	},
	{
		ID: "setTokenLimits", Method: http.MethodPut, Path: PathAPI + "/tokens/{token}/limits",
		Role: operator, Summary: "Limit how often a token may be used.",
		In: TokenLimits{}, Out: Token{}, Gives: "The token with its limits.",
		Refuses: []int{notFound, stopping},
	},
	{
		ID: "dropTokenLimits", Method: http.MethodDelete, Path: PathAPI + "/tokens/{token}/limits",
		Role: operator, Summary: "Take its limits from a token.",
		Out: Token{}, Gives: "The token without limits.", Refuses: []int{notFound, stopping},
	},
}

var liveRoutes = []Route{
	{
		ID: "getLive", Method: http.MethodGet, Path: PathAPI + "/live",
		Role: reader, Summary: "The latest sample of what happens.",
		Out: Sample{}, Gives: "The sample.",
	},
	{
		ID: "streamEvents", Method: http.MethodGet, Path: PathAPI + "/events",
		Role: reader, Summary: "Every sample as it is taken, as server-sent events.",
		Media: "text/event-stream", Gives: "Events named sample, whose data is a Sample.",
		Refuses: []int{tooMany},
	},
	{
		ID: "getHistory", Method: http.MethodGet, Path: PathAPI + "/history",
		Role: reader, Summary: "What happened lately.",
		Query: []any{slotLength{}}, Out: History{}, Gives: "The slots, the oldest first.",
		Refuses: []int{stopping},
	},
	{
		ID: "getParts", Method: http.MethodGet, Path: PathAPI + "/history/parts",
		Role: reader, Summary: "What happened lately by protocol and by queue, the busiest first.",
		Query: []any{lately{}}, Out: Parts{}, Gives: "Sums of the period.", Refuses: []int{stopping},
	},
	{
		ID: "getTypes", Method: http.MethodGet, Path: PathAPI + "/types",
		Role: reader, Summary: "What happened to the jobs of each type, and how long they waited and ran.",
		Query: []any{since{}}, Out: Types{}, Gives: "The types, those fetched most first.",
		Refuses: []int{stopping},
	},
	{
		ID: "getTypeHistory", Method: http.MethodGet, Path: PathAPI + "/history/type",
		Role: reader, Summary: "What happened to the jobs of one type over time.",
		Query: []any{ofType{}, lately{}}, Out: History{},
		Gives: "The slots of the period, the oldest first.", Refuses: []int{stopping},
	},
}

var dataRoutes = []Route{
	{
		ID: "makeBackup", Method: http.MethodPost, Path: PathAPI + "/backups",
		Role: operator, Summary: "Write a copy of all data to a directory of the server's machine.",
		About: "It has everything that was answered before, and is made while the server works. millrace restore " +
			"verifies it and makes a data directory of it.",
		In: BackupRequest{}, Out: Backup{}, Gives: "The backup.", Refuses: []int{conflict, stopping},
		Anywhere: true,
	},
	{
		ID: "exportJobs", Method: http.MethodGet, Path: PathAPI + "/export",
		Role: reader, Summary: "Stream jobs, and what else an import needs, as JSON lines.",
		Query: []any{Filter{}, PageOf{}}, Less: []string{"ref", "holder", "limit"}, Out: exportLines,
		Gives: "What there was at one moment, with a mark after every few hundred lines. The last mark is the " +
			"end, or a cursor to go on with. Without a filter, or with that of a namespace, settings of " +
			"queues, batches and cron entries are there too; with that of a queue its settings.",
		Refuses: []int{stopping},
	},
	{
		ID: "getImport", Method: http.MethodGet, Path: PathAPI + "/imports/{import}",
		Role: reader, Summary: "How far an import is.",
		Out: ImportMark{}, Gives: "The last line that is dealt with.", Refuses: []int{notFound, stopping},
		Routine: true,
	},
	{
		ID: "importJobs", Method: http.MethodPost, Path: PathAPI + "/imports/{import}",
		Role: operator, Summary: "Import the lines of an export.",
		About: "At most 2000 lines and 32 MiB at a time. Lines that an earlier request has dealt with are passed " +
			"over, so that a request can be repeated; the token is remembered for a week.",
		Query: []any{ImportOptions{}}, In: exportLines, Out: ImportResult{}, Gives: "What became of them.",
		Refuses: []int{conflict, tooMany, stopping}, Routine: true,
	},
	{
		ID: "listMigrations", Method: http.MethodGet, Path: PathAPI + "/migrations",
		Role: reader, Summary: "The servers of which something has arrived.",
		Out: MigrationList{}, Gives: "All of them.", Refuses: []int{stopping},
	},
	{
		ID: "migrateJobs", Method: http.MethodPost, Path: PathAPI + "/migrations/{source}",
		Role: operator, Summary: "Take over jobs of another server.",
		About: "At most 10000 lines and 32 MiB at a time. What has arrived from the source before, by its id, is " +
			"passed over, also after it has been worked off; that is remembered for 60 days after the last " +
			"request.",
		Query: []any{MigrationOptions{}}, In: Lines{Elsewhere("Arrival")}, Out: MigrationResult{},
		Gives: "What became of them.", Refuses: []int{conflict, tooMany, stopping}, Routine: true,
	},
	{
		ID: "forgetMigration", Method: http.MethodDelete, Path: PathAPI + "/migrations/{source}",
		Role: operator, Summary: "Forget what has arrived from a server.",
		About: "A part of it at a time: repeat the request until done is true. A migration that is run again " +
			"thereafter brings everything once more.",
		Out: Forgotten{}, Gives: "Whether that was all.", Refuses: []int{notFound, stopping}, Routine: true,
	},
}

var healthRoutes = []Route{
	{
		ID: "getLivez", Method: http.MethodGet, Path: "/livez",
		Role: anyone, Summary: "Whether the process answers.",
		Media: "text/plain", Gives: "It does.", Anywhere: true,
	},
	{
		ID: "getReadyz", Method: http.MethodGet, Path: "/readyz",
		Role: anyone, Summary: "Whether the server can take work.",
		Query: []any{verbosely{}}, Media: "text/plain", Gives: "It can.", Refuses: []int{stopping},
		Anywhere: true,
	},
	{
		ID: "getHealthz", Method: http.MethodGet, Path: "/healthz",
		Role: anyone, Summary: "Whether the server can take work.",
		Query: []any{verbosely{}}, Media: "text/plain", Gives: "It can.", Refuses: []int{stopping},
		Anywhere: true,
	},
}
