package faktory

import (
	"log/slog"
	"net/http"
	"time"
)

// StatsHandler returns what serves the original's /stats: what INFO answers (protocol section 12).
func (d *Dialect) StatsHandler() http.Handler {
	return d.opts.Shared.Alone(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		o := &object{}
		err := d.start()
		if err == nil {
			err = d.writeInfo(o)
		}
		if err != nil {
			d.opts.Logger.Error("cannot read jobs", slog.String("dialect", d.Name()), slog.Any("error", err))
			http.Error(w, textInternal, http.StatusInternalServerError)
			return
		}
		answerJSON(w, o)
	}))
}

// HealthHandler returns what serves the original's /health.
func (d *Dialect) HealthHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		o := &object{}
		o.open("")
		o.text("now", time.Now().UTC().Format(time.RFC3339Nano))
		o.open("server")
		o.text("description", d.description())
		o.text("faktory_version", compatVersion)
		o.number("connections", uint64(max(0, d.Stats().Open)))
		o.number("command_count", d.known.Load())
		o.close()
		o.close()
		answerJSON(w, o)
	})
}

func answerJSON(w http.ResponseWriter, o *object) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-cache")
	_, _ = w.Write(o.out) // nobody to tell
}

// Namespace returns where the queues of this listener are.
func (d *Dialect) Namespace() string { return d.opts.Namespace }
