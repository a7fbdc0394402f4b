package operator

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"hash/fnv"
	"strconv"

	"millrace/internal/api"
	"millrace/internal/job"
)

// beginPage reads how much of a list is wanted, and from where on.
func beginPage(p api.PageOf, list, filter string) (limit int, at position, err error) {
	limit = cmp.Or(p.Limit, api.PageDefault)
	if limit < 0 || limit > api.PageMax {
		return 0, at, api.Invalid("limit is %d: choose 1 to %d", p.Limit, api.PageMax)
	}
	at, err = parseCursor(p.Cursor, list, filter)
	return limit, at, err
}

// position is what a cursor holds: where its list goes on. A list uses what it needs.
type position struct {
	List      string    `json:"l"`           // which list it belongs to
	Filter    string    `json:"f,omitempty"` // and what was asked of it
	Namespace string    `json:"n,omitempty"`
	Queue     string    `json:"q,omitempty"`
	State     job.State `json:"s,omitempty"` // zero: behind the queue
	After     string    `json:"a,omitempty"`
	ID        uint64    `json:"i,omitempty"`
	Examined  uint64    `json:"x,omitempty"` // jobs looked at so far
	Total     uint64    `json:"t,omitempty"` // and how many there were at the beginning
	Phase     phase     `json:"p,omitempty"` // of an export
	Lines     uint64    `json:"e,omitempty"` // of an export so far
	Sum       uint32    `json:"c,omitempty"` // their checksum
}

// cursorSizeMax bounds the cursors that are read. Names of queues are in them.
const cursorSizeMax = 16 << 10

func (p position) cursor() string {
	text, err := json.Marshal(p)
	if err != nil {
		panic("operator: a position cannot be written: " + err.Error()) // it holds texts and numbers only
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// parseCursor reads the cursor of a list. The beginning has none.
func parseCursor(text, list, filter string) (position, error) {
	p := position{List: list, Filter: filter}
	if text == "" {
		return p, nil
	}
	var got position
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(text) > cursorSizeMax || json.Unmarshal(raw, &got) != nil {
		return p, api.ProblemCursor.New("it is not one of ours: begin again without a cursor")
	}
	if got.List != list || got.Filter != filter {
		return p, api.ProblemCursor.New("it was made for another list or another filter: begin again without a cursor")
	}
	if int(got.State) >= job.StateCount || got.Phase > phaseOver {
		return p, api.ProblemCursor.New("it is not one of ours: begin again without a cursor")
	}
	return got, nil
}

// fingerprint tells filters apart.
func fingerprint(filter any) string {
	text, err := json.Marshal(filter)
	if err != nil {
		panic("operator: a filter cannot be written: " + err.Error()) // it holds texts and numbers only
	}
	h := fnv.New64a()
	_, _ = h.Write(text) // it cannot fail
	return strconv.FormatUint(h.Sum64(), 36)
}
