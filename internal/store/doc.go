// Package store is the storage contract: an ordered map from byte keys to byte
// values, changed by atomic batches and read through consistent views.
//
// It owns the Batch encoding, the interfaces and the errors that every
// implementation shares. It never knows what a key or a value means: the engine
// lays out its own records. The engine calls it through these interfaces, the
// server opens one implementation, and storetest proves that each implementation
// behaves the same.
//
// One goroutine commits; any number of goroutines read at the same time. A batch
// becomes visible as a whole, never in part, and not before it is as safe as the
// store's log promises: nobody acts on what a crash can undo.
package store
