package raftlog

import (
	"testing"

	"github.com/hashicorp/raft"
)

// narrow is a pipeline as that of the library over the network: what is sent waits until the answer before it was
// taken.
type narrow struct {
	sent, answers chan raft.AppendFuture
	closed        chan struct{}
}

func newNarrow() *narrow {
	n := &narrow{sent: make(chan raft.AppendFuture), answers: make(chan raft.AppendFuture), closed: make(chan struct{})}
	go func() {
		for {
			select {
			case f := <-n.sent:
				select {
				case n.answers <- f:
				case <-n.closed:
					return
				}
			case <-n.closed:
				return
			}
		}
	}()
	return n
}

func (n *narrow) AppendEntries(*raft.AppendEntriesRequest, *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	select {
	case n.sent <- nil:
		return nil, nil //nolint:nilnil // nobody looks at it
	case <-n.closed:
		return nil, raft.ErrPipelineShutdown
	}
}

func (n *narrow) Consumer() <-chan raft.AppendFuture { return n.answers }

func (n *narrow) Close() error {
	close(n.closed)
	return nil
}

// Who sends is not held up by answers that nobody takes, and none is lost.
func TestPipelineGoesOn(t *testing.T) {
	t.Parallel()
	p := newPipeline(newNarrow())
	const count = 20
	for range count {
		if _, err := p.AppendEntries(nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	for range count {
		<-p.Consumer()
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if _, err := p.AppendEntries(nil, nil); err == nil {
		t.Error("a closed pipeline takes something")
	}
}
