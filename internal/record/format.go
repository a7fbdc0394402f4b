package record

// The records of a store have a format as a whole: a number that says which versions of records it may hold. A release
// reads all formats up to the one that it knows. In a cluster nothing of a later format is written before every node
// has told that it knows that format: an earlier release could not take over.
//
// Whoever adds a version of a record, a key space or a bit that an earlier release refuses or ignores adds a format
// here, and asks the machine for it (Machine.allows) before the first record of it is written.
const (
	FormatBase   = 1 // all that there was before formats were counted
	FormatLimits = 2 // limits of queues: version 3 of the queue record
	FormatHooks  = 3 // hooks: their key space, and the flag of the jobs that they push
	FormatFair   = 4 // fair queues and limits of groups: version 4 of the queue record, version 1 of the group record
	FormatTraces = 5 // traces of jobs: version 2 of the body record, and their flag
	FormatKept   = 6 // holders that outlive restarts: their key space

	FormatOnePerGroup = 7 // fair queues that keep one job of a group at a time: a bit of the queue record

	// Format is the newest that this release knows.
	Format = FormatOnePerGroup
)

// FormatKey returns the key under which a store tells its format; without it that is FormatBase. It is a named value,
// which every release knows.
func FormatKey() []byte { return ValueKey(nil, "millrace", "format") }

// AppendFormat appends what is under FormatKey.
func AppendFormat(dst []byte, format uint64) []byte { return AppendUint(dst, format) }

// DecodeFormat reads what is under FormatKey.
func DecodeFormat(value []byte) (uint64, error) { return DecodeUint(value) }
