package dialect

import (
	"strings"

	"millrace/internal/engine"
	"millrace/internal/job"
)

// QueuesShown is how many queues an answer lists at most if its protocol has no pages: the first ones by name. An
// answer must not take the processors, or the memory, from everybody else because others have made very many queues.
const QueuesShown = 10_000

// queuesRead is how many queues are read for such an answer. Hidden ones are not shown.
const queuesRead = 2 * QueuesShown

// EachShown visits the queues of a namespace that a list without pages shows, in byte order of their names. It returns
// the sums of all queues of the namespace if it has read all, hidden ones included.
func EachShown(v *engine.View, namespace string, visit func(*job.QueueInfo)) (sums job.Sums, all bool, err error) {
	all = true
	show := showing(visit)
	err = v.EachQueue(namespace, "", func(q *job.QueueInfo) bool {
		sums.Add(q)
		all = show(q)
		return all
	})
	return sums, all, err
}

// EachShownBelow does the same for all namespaces together whose names begin with a prefix.
func EachShownBelow(v *engine.View, prefix string, visit func(*job.QueueInfo)) error {
	show := showing(visit)
	return v.EachQueueFrom(prefix, "", func(q *job.QueueInfo) bool {
		return strings.HasPrefix(q.Namespace, prefix) && show(q)
	})
}

// showing hands queues on to visit until there were enough.
func showing(visit func(*job.QueueInfo)) func(*job.QueueInfo) bool {
	read, shown := 0, 0
	return func(q *job.QueueInfo) bool {
		read++
		if !q.Hidden {
			shown++
			visit(q)
		}
		return read < queuesRead && shown < QueuesShown
	}
}

// Shown returns the queues that EachShown visits on a view of its own.
func Shown(e *engine.Engine, namespace string) (infos []job.QueueInfo, err error) {
	err = e.Read(func(v *engine.View) error {
		_, _, err := EachShown(v, namespace, func(q *job.QueueInfo) { infos = append(infos, *q) })
		return err
	})
	return infos, err
}
