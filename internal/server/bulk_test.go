package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"millrace/internal/api"
)

// An action on very many jobs goes on under the next leader, and is done to each job once.
func TestBulkUnderLeaders(t *testing.T) {
	t.Parallel()
	c := startNodes(t, nodes(t, 3, nil), 3)
	read := func(path string, to any) {
		t.Helper()
		text := c.call(c.leader(), http.MethodGet, path, "", http.StatusOK)
		if err := json.Unmarshal([]byte(text), to); err != nil {
			t.Fatal(err)
		}
	}
	const queue = "/api/v1/namespaces/default/queues/"
	jobs := `{"jobs":[` + strings.TrimSuffix(strings.Repeat(`{},`, 1000), ",") + `]}`
	for range 20 {
		c.call("a", http.MethodPost, queue+"from/jobs", jobs, http.StatusOK)
	}
	var before, from, to api.Queue
	read(queue+"from", &before) // more than were asked for, if an answer was lost
	var bulk api.Bulk
	text := c.call("b", http.MethodPost, "/api/v1/bulk", `{"action":"move","to":"to","filter":{"queue":"from"}}`,
		http.StatusAccepted)
	if err := json.Unmarshal([]byte(text), &bulk); err != nil {
		t.Fatal(err)
	}
	changes := 0
	for changes < 2 && bulk.Ended == nil {
		leader := c.leader()
		c.try(leader, http.MethodPost, "/api/v1/cluster/transfer", "") // the answer may be cut off
		read("/api/v1/bulk/"+bulk.ID, &bulk)
		if bulk.Ended == nil && c.leader() != leader {
			changes++
		}
	}
	until(t, "the action has ended", func() bool {
		read("/api/v1/bulk/"+bulk.ID, &bulk)
		return bulk.Ended != nil
	})
	read(queue+"from", &from)
	read(queue+"to", &to)
	if bulk.State != api.BulkDone || bulk.Total != before.Jobs || from.Jobs != 0 || to.Jobs != before.Jobs {
		t.Errorf("%+v: of %d jobs %d are where they were, and %d were moved", bulk, before.Jobs, from.Jobs, to.Jobs)
	}
	if changes == 0 {
		t.Error("the leader has not changed meanwhile: this was no test")
	}
}
