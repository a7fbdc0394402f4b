package faktory

import (
	"encoding/json"
	"errors"
	"maps"

	"millrace/internal/dialect"
	"millrace/internal/job"
)

// Scheduled makes the spec of a job that a schedule pushes again and again. Its members are those of a job that a
// client pushes, except for the jid, which each job has of its own, and the type, which may be named "type".
func Scheduled(namespace string, deadMax uint32, members map[string]json.RawMessage) (job.Spec, error) {
	m := maps.Clone(members)
	if m == nil {
		return job.Spec{}, errors.New("[cron.job] is missing")
	}
	if kind, ok := m["type"]; ok {
		m["jobtype"] = kind
		delete(m, "type")
	}
	if _, ok := m["args"]; !ok {
		m["args"] = json.RawMessage("[]")
	}
	if _, ok := m["at"]; ok {
		return job.Spec{}, errors.New("at: the schedule says when the job runs")
	}
	m["jid"] = json.RawMessage(`"of-a-schedule"`)
	text, err := json.Marshal(m)
	if err != nil {
		return job.Spec{}, err
	}
	d := &Dialect{opts: Options{Options: dialect.Options{Namespace: namespace}, DeadMax: deadMax}}
	var s job.Spec
	var j jobText
	var u dialect.Unit
	var names dialect.Names
	if reason := j.read(&u, &s, text); reason != "" {
		return job.Spec{}, errors.New(reason)
	}
	if refused := d.spec(&j, &names, &s); refused != "" {
		return job.Spec{}, errors.New(refused)
	}
	s.Key = ""
	return s, nil
}
