package api

import (
	"time"
)

// ClusterStatus is what a node knows about the cluster.
type ClusterStatus struct {
	Node   string        `json:"node"`             // that was asked
	Leader string        `json:"leader,omitempty"` // absent: none is known
	Term   uint64        `json:"term"`
	Format uint64        `json:"format,omitempty"` // of the records; absent: this node does not lead, and so does not know
	Nodes  []ClusterNode `json:"nodes"`
}

// ClusterNode is a node as another one sees it.
type ClusterNode struct {
	Name       string  `json:"name"`
	Addr       string  `json:"addr"` // at which other nodes reach it
	Role       string  `json:"role" api:"enum=leader|standby|learner|outside"`
	Member     bool    `json:"member"` // false: the cluster has not taken it in
	Reachable  bool    `json:"reachable"`
	About      string  `json:"about,omitempty"` // what is wrong with it, for example why it cannot be reached
	Version    string  `json:"version,omitempty"`
	Format     uint64  `json:"format,omitempty"` // the newest format of records that it knows
	LagEntries uint64  `json:"lag_entries"`
	LagSeconds float64 `json:"lag_seconds"`
	ClockSkew  float64 `json:"clock_skew_seconds" api:"signed"` // how far its clock is ahead of this node's
	LogBytes   uint64  `json:"log_bytes"`
	// How much the node has of all data, which it is sent because it is new or too far behind; absent: it is not.
	CatchUpReceived int64 `json:"catchup_received_bytes,omitempty"`
	CatchUpSize     int64 `json:"catchup_size_bytes,omitempty"` // how much that is as a whole
	// The settings in which it differs from the node that was asked.
	SettingsDiffer []string `json:"settings_differ,omitempty"`
}

// ClusterMember is a node that is to become a member.
type ClusterMember struct {
	Name string `json:"name"` // of the node: its cluster.node
	Addr string `json:"addr"` // HOST:PORT at which the other nodes reach it
}

// The roles of nodes.
const (
	RoleLeader  = "leader"
	RoleStandby = "standby"
	RoleLearner = "learner" // it gets all data, and does not count yet
	RoleOutside = "outside" // it runs, but is no member
)

// Check is one of the things that must be right for the server to be ready.
type Check struct {
	Name  string `json:"name"`
	OK    bool   `json:"ok"`
	About string `json:"about,omitempty"`
}

// Setting is the effective value of one key of the configuration.
type Setting struct {
	Key     string `json:"key"`
	Value   string `json:"value"`  // secrets are masked
	Source  string `json:"source"` // where the value comes from
	Default string `json:"default"`
	Secret  bool   `json:"secret"`
	Help    string `json:"help"`
}

// SettingList is the effective configuration.
type SettingList struct {
	Settings []Setting `json:"settings"`
}

// Storage are the figures of the store.
type Storage struct {
	Dir                 string  `json:"dir"`
	BackupDir           string  `json:"backup_dir,omitempty"` // what backups are below; absent: they may be anywhere
	Durability          string  `json:"durability"`
	DiskBytes           uint64  `json:"disk_bytes"`
	LogBytes            uint64  `json:"log_bytes"` // of those, write-ahead log
	FreeBytes           *uint64 `json:"free_bytes,omitempty"`
	NoSpace             bool    `json:"no_space"` // pushes are refused
	RefusedPushes       uint64  `json:"refused_pushes"`
	MemtableBytes       uint64  `json:"memtable_bytes"`
	CacheBytes          uint64  `json:"cache_bytes"`
	CacheHits           int64   `json:"cache_hits"`
	CacheMisses         int64   `json:"cache_misses"`
	Commits             uint64  `json:"commits"`
	CommittedBytes      uint64  `json:"committed_bytes"`
	Syncs               uint64  `json:"syncs"`
	SyncSeconds         float64 `json:"sync_seconds"` // spent in them
	SyncMaxSeconds      float64 `json:"sync_max_seconds"`
	Flushes             int64   `json:"flushes"`
	Compactions         int64   `json:"compactions"`
	CompactionDebtBytes uint64  `json:"compaction_debt_bytes"`
	ReadAmplification   int     `json:"read_amplification"`
	Tables              int64   `json:"tables"`
	Tombstones          uint64  `json:"tombstones"`
	WriteStalls         uint64  `json:"write_stalls"`
	WriteStallSeconds   float64 `json:"write_stall_seconds"`
	BackgroundErrors    uint64  `json:"background_errors"`
	Commands            uint64  `json:"commands"` // applied by the engine
	CommandsPerCommit   float64 `json:"commands_per_commit"`
	Waiting             int     `json:"waiting"` // callers that wait for something
}

// ServerInfo is what is known about the server itself.
type ServerInfo struct {
	Version       string    `json:"version"`
	Go            string    `json:"go"`
	Started       time.Time `json:"started"`
	UptimeSeconds float64   `json:"uptime_seconds"`
	Now           time.Time `json:"now"`
	Durability    string    `json:"durability"`
	Ready         bool      `json:"ready"`
	Role          string    `json:"role" api:"enum=none|read|operator"` // of the caller
}

// Batch is a batch of jobs.
type Batch struct {
	ID        uint64     `json:"id"`
	Namespace string     `json:"namespace"`
	Parent    uint64     `json:"parent,omitempty"`
	Text      string     `json:"text,omitempty"`
	Created   *time.Time `json:"created,omitempty"`
	Open      bool       `json:"open"`
	Total     uint64     `json:"total"`
	Pending   uint64     `json:"pending"`
	Failed    uint64     `json:"failed"`
	Children  uint64     `json:"children"`                                 // that have not succeeded
	Complete  string     `json:"complete" api:"enum=waiting|pushed|acked"` // how far that callback is
	Success   string     `json:"success" api:"enum=waiting|pushed|acked"`  // how far that callback is
	ForgetAt  *time.Time `json:"forget_at,omitempty"`
}

// BatchPage is a part of the list of batches.
type BatchPage struct {
	Batches []Batch `json:"batches"`
	Next    string  `json:"next,omitempty"`
}
