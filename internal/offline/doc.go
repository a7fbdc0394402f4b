// Package offline works on data directories that no server has open: it verifies one,
// and makes one of a backup.
//
// It takes the lock of every directory that it reads, so that no server changes it meanwhile, or tells that it could
// not, as on a read-only medium. It never changes what it verifies. What a sound store is it leaves to the store and
// the engine. The command line calls it.
package offline
