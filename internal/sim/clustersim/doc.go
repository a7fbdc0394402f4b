// Package clustersim checks the replicated mode by simulation: several nodes, each a replica.Replica on a store in
// memory, and engines on the nodes that lead or believe so, over a log that does whatever its contract allows. Seeds
// decide everything that happens, and time is virtual.
//
// The log is one list of entries, which are in it as soon as a majority would have them. Leaderships give entries to
// it. It delays them, drops the end of what a leadership gave, lets through what it should not, delivers to each node
// at its own pace, and elects between any two steps. Nodes crash, lose what their disk had not synced, and are sent
// copies of the stores of others. Their clocks are hours apart.
//
// Every engine has a model of package sim beside it, which begins as what the log means where the term begins. What the
// engine answers must be what the model answers, and these must hold after each step:
//
//   - a store is the effect of a beginning of the log, each entry applied once.
//   - two nodes with the same number of batches have the same chain and content.
//   - an answer that tells of a change comes after its batch is in the log, where every later leader has it.
//   - the log of a node begins no later than behind what its disk has kept.
//   - within a term the numbers of batches are one apart, and no batch counts that comes behind the beginning of a
//     later term.
//   - a delivery leaves only if no other term had begun when the job was chosen, and the job is in the log; a firm
//     one with its lease.
//   - a read, a refusal or an empty answer is what the log gave at some moment between call and answer.
//   - the machine's time does not go back from term to term, and does not jump.
//   - the ids of jobs and of holders do not repeat.
//   - every command is answered exactly once, perhaps with the word that its outcome is unknown.
//   - what a node restores from a copy is what it would have from the log.
//   - the invariants of docs/semantics.md hold on every node after any entry.
//   - a tick of a schedule has at most one job, whoever led when.
//   - limits and fairness are those that were set, whoever leads, and no delivery oversteps them; one from a
//     queue with limits leaves with its
//     lease in the log.
//   - a holder that is kept is known to every later leader until it ends, and so are its leases.
//
// Only tests are in this package.
package clustersim
