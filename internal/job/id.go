package job

// ID is a job's number, unique in its shard for ever and below 2^53, so that
// JSON clients keep it exact. The bits from 48 on are left for a shard number.
type ID uint64

// Number is the low half of the id, for clients that only have 32 bits. It is
// unique among the live jobs pushed with Spec.Numbered.
func (id ID) Number() uint32 { return uint32(id & 0xffffffff) }

// Holder names who holds leases: a connection or a session of one node. The
// zero Holder is nobody.
type Holder struct {
	Node uint32
	Num  uint64
}

// Digest stands for what a job is about: equal for equal things, and made so that no two
// others are. Zero is none.
type Digest [16]byte

// Door says through which kind of listener a job came or was fetched. The
// numbers are given out by the dialects; the engine only keeps them.
type Door uint8

// Doors is a set of doors.
type Doors uint32

// With returns the set with one door more. Doors beyond the 31st are not told apart.
func (ds Doors) With(d Door) Doors { return ds | 1<<min(d, 31) }

// Has reports whether a door is in the set.
func (ds Doors) Has(d Door) bool { return ds&(1<<min(d, 31)) != 0 }

// RefKind says which field of a Ref names the job.
type RefKind uint8

// The ways to name a job.
const (
	RefID     RefKind = iota // by its id, within Queue; see ByID for none
	RefKey                   // by the client-given key; of several jobs the oldest that fits the verb
	RefSerial                // by its serial number within Queue
	RefNumber                // by the 32-bit number; of a job that has ID, if that is not zero
	RefPlace                 // by the number of its queue and its id
)

// Ref names one job of a namespace. A non-empty Queue restricts it: a job that
// is in another queue is not found.
type Ref struct {
	Kind      RefKind
	Namespace string
	Queue     string
	ID        ID
	Key       string
	Serial    uint64
	Number    uint32
	QueueNum  uint32
}

// ByID names a job by its queue and id. Without a queue a command finds a job only if
// it was pushed with a number or the caller holds it with a lease that ends with it: an
// id alone does not tell where the job is. Reads look into every queue.
func ByID(namespace, queue string, id ID) Ref {
	return Ref{Kind: RefID, Namespace: namespace, Queue: queue, ID: id}
}

// ByPlace names a job by the number of its queue and its id. A job that has been moved
// since is not found.
func ByPlace(namespace string, queueNum uint32, id ID) Ref {
	return Ref{Kind: RefPlace, Namespace: namespace, QueueNum: queueNum, ID: id}
}

// ByKey names a job by its client-given key.
func ByKey(namespace, key string) Ref { return Ref{Kind: RefKey, Namespace: namespace, Key: key} }

// BySerial names a job by its serial number in a queue that counts its jobs.
func BySerial(namespace, queue string, serial uint64) Ref {
	return Ref{Kind: RefSerial, Namespace: namespace, Queue: queue, Serial: serial}
}

// ByNumber names a job by its 32-bit number.
func ByNumber(namespace string, number uint32) Ref {
	return Ref{Kind: RefNumber, Namespace: namespace, Number: number}
}
