package api

import "net/http"

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
	},
	{
		ID: "getHistory", Method: http.MethodGet, Path: PathAPI + "/history",
		Role: reader, Summary: "What happened lately.",
		Query: []any{slotLength{}}, Out: History{}, Gives: "The slots, the oldest first.",
	},
	{
		ID: "getParts", Method: http.MethodGet, Path: PathAPI + "/history/parts",
		Role: reader, Summary: "What happened lately by protocol and by queue, the busiest first.",
		Query: []any{lately{}}, Out: Parts{}, Gives: "Sums of the period.",
	},
	{
		ID: "getTypes", Method: http.MethodGet, Path: PathAPI + "/types",
		Role: reader, Summary: "What happened to the jobs of each type, and how long they waited and ran.",
		Query: []any{since{}}, Out: Types{}, Gives: "The types, those fetched most first.",
	},
	{
		ID: "getTypeHistory", Method: http.MethodGet, Path: PathAPI + "/history/type",
		Role: reader, Summary: "What happened to the jobs of one type over time.",
		Query: []any{ofType{}, lately{}}, Out: History{},
		Gives: "The slots of the period, the oldest first.",
	},
}

var tokensRoutes = []Route{
	{
		ID: "listTokens", Method: http.MethodGet, Path: PathAPI + "/tokens",
		Role: reader, Summary: "Tokens of clients and their limits, masked.",
		Query: []any{TokenFilter{}, PageOf{}}, Out: TokenPage{}, Gives: "A part of the list.",
	},
	{
		ID: "addToken", Method: http.MethodPost, Path: PathAPI + "/tokens",
		Role: operator, Summary: "Make a token.",
		In: TokenOptions{}, Out: NewToken{}, OK: http.StatusCreated, Gives: "It was made.",
		Refuses: []int{conflict, noSpace}, Location: true,
	},
	{
		ID: "getToken", Method: http.MethodGet, Path: PathAPI + "/tokens/{token}",
		Role: reader, Summary: "One token and its limits.",
		Out: Token{}, Gives: "The token, masked.", Refuses: []int{notFound},
	},
	{
		ID: "dropToken", Method: http.MethodDelete, Path: PathAPI + "/tokens/{token}",
		Role: operator, Summary: "Remove a token with its limits: who uses it is refused from now on.",
		OK: http.StatusNoContent, Gives: "It is gone.", Refuses: []int{notFound},
	},
	{
		ID: "setTokenLimits", Method: http.MethodPut, Path: PathAPI + "/tokens/{token}/limits",
		Role: operator, Summary: "Limit how often a token may be used.",
		In: TokenLimits{}, Out: Token{}, Gives: "The token with its limits.",
		Refuses: []int{notFound, noSpace},
	},
	{
		ID: "dropTokenLimits", Method: http.MethodDelete, Path: PathAPI + "/tokens/{token}/limits",
		Role: operator, Summary: "Take its limits from a token.",
		Out: Token{}, Gives: "The token without limits.", Refuses: []int{notFound},
	},
}

// exportLines are the lines of an export.
var exportLines = Lines{
	Record{}, QueueRecord{}, HookRecord{}, BatchRecord{}, BatchEnd{}, CronRecord{}, CronEnd{}, ExportMark{},
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
	},
	{
		ID: "getImport", Method: http.MethodGet, Path: PathAPI + "/imports/{import}",
		Role: reader, Summary: "How far an import is.",
		Out: ImportMark{}, Gives: "The last line that is dealt with.", Refuses: []int{notFound},
		Routine: true,
	},
	{
		ID: "importJobs", Method: http.MethodPost, Path: PathAPI + "/imports/{import}",
		Role: operator, Summary: "Import the lines of an export.",
		About: "At most 2000 lines and 32 MiB at a time. Lines that an earlier request has dealt with are passed " +
			"over, so that a request can be repeated; the token is remembered for a week.",
		Query: []any{ImportOptions{}}, In: exportLines, Out: ImportResult{}, Gives: "What became of them.",
		Refuses: []int{conflict, noSpace}, Routine: true,
	},
	{
		ID: "listMigrations", Method: http.MethodGet, Path: PathAPI + "/migrations",
		Role: reader, Summary: "The servers of which something has arrived.",
		Out: MigrationList{}, Gives: "All of them.",
	},
	{
		ID: "migrateJobs", Method: http.MethodPost, Path: PathAPI + "/migrations/{source}",
		Role: operator, Summary: "Take over jobs of another server.",
		About: "At most 10000 lines and 32 MiB at a time. What has arrived from the source before, by its id, is " +
			"passed over, also after it has been worked off; that is remembered for 60 days after the last " +
			"request.",
		Query: []any{MigrationOptions{}}, In: Lines{Elsewhere("Arrival")}, Out: MigrationResult{},
		Gives: "What became of them.", Refuses: []int{conflict, noSpace}, Routine: true,
	},
	{
		ID: "forgetMigration", Method: http.MethodDelete, Path: PathAPI + "/migrations/{source}",
		Role: operator, Summary: "Forget what has arrived from a server.",
		About: "A part of it at a time: repeat the request until done is true. A migration that is run again " +
			"thereafter brings everything once more.",
		Out: Forgotten{}, Gives: "Whether that was all.", Refuses: []int{notFound}, Routine: true,
	},
}
