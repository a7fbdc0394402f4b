// Package torture holds the server to its promises while it is killed, cut off
// and pushed: the real binary on a real disk, clients of all protocols on the
// same queues, and judges that know only what those clients were told.
//
// The suites share the clients and the life cycle. The kill loop keeps a ledger of every job. The linearizability suite
// records who asked what when, and lets porcupine look for an order of events that explains every answer by a model of
// one queue. The bonds suite does the same as the ledger for what ties jobs together: batches, unique keys,
// dependencies. The cluster suites do what the first two do to three nodes, which are also paused, cut off from each
// other and without a disk that works; nodes are added, removed, replaced and upgraded meanwhile. The soak watches
// memory, latency and disk.
//
// A short form of each runs with the other tests; flags lengthen them, and -report
// writes their figures into a document (make torture, make soak).
package torture
