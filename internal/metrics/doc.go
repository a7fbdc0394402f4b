// Package metrics owns the Prometheus names of the server. A collector reads the engine, the store
// and the counters of the protocols when it is asked: nothing here is on the path of a job.
//
// Labels with names that clients choose are capped: the first queues and types of jobs have series of their own,
// all others share one. The server package hands it what it reads and mounts its handler.
package metrics
