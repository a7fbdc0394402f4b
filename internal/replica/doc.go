// Package replica turns a replicated log into the state of a store, the same on every node, and lets one node at a time
// write to it.
//
// The log carries entries. Two rules keep a node harmless that has led and does not know yet that another node leads:
//
//   - Every entry names a term and a number. A term begins with an entry of its own, one higher than the term before.
//     An entry is void on every node alike if its term is over or its number is not the next. It does not matter that
//     the log below has accepted it.
//   - No client is answered before something proves that this node led after the client's command was applied. The
//     proof is the commit of a batch that was proposed since, or a confirmation of the log (Leadership.Confirm).
//
// A State goes with the changes of each batch into one write of the store, so that every entry is applied exactly once.
// Replica applies entries; it has no goroutine, clock or network. A Term is a store.Store whose commits are entries of
// one term: what an engine writes to. It is thrown away with the engine when the term ends.
package replica
